//! The command line: `thermocline serve`, `thermocline memcached`, and memcached's name as our own.

use crate::config::memcached::{self, Outcome};
use crate::config::{self, ConfigError, Layers, Listen, Settings};
use crate::process::{self, PidFile};
use crate::server::{Prepared, Server, StartError};
use crate::shared::Stop;
use crate::{groups, logging, lru_gen, malloc, tiers, top, wss};
use clap::{Arg, ArgAction, ArgMatches, Command};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// As sysexits.h and memcached have it: the command line or configuration is at fault.
const EXIT_USAGE: u8 = 64;
const EXIT_FAILURE: u8 = 1;

const SERVE_HELP: &str = "\
Every setting can be written in three places, the first wins: flag (--item-size-max 2MiB), environment
(THERMOCLINE_ITEM_SIZE_MAX=2MiB), TOML file (item_size_max = \"2MiB\"). --print-config shows what comes of them.
SIGTERM, SIGINT and SIGUSR1 stop after the requests under way, a second signal at once; SIGHUP reads the password file
again.";

const LRU_GEN_HELP: &str = "\
Lines are: generation, age in ms, bytes, items; the oldest first. The kernel's full commands are taken too:
+ 0 0 MAX_GEN [CAN_SWAP [FORCE]] and - 0 0 MIN_GEN [SWAPPINESS [BYTES]]. What was read since it was last looked at
survives `-` and goes to the young end; the two youngest generations cannot be evicted.";

pub fn main() -> ExitCode {
    malloc::tame();
    let args: Vec<String> = match std::env::args_os().map(|arg| arg.into_string()).collect() {
        Ok(args) => args,
        Err(arg) => return usage(&format!("{arg:?}: arguments must be UTF-8")),
    };
    let name = args.first().map_or("thermocline", String::as_str);
    if memcached::is_our_name(name) {
        return memcached_command(&args[1..]);
    }
    if args.get(1).is_some_and(|word| word == "memcached") {
        return memcached_command(&args[2..]);
    }
    let matches = match command().try_get_matches_from(&args) {
        Ok(matches) => matches,
        Err(error) => {
            let asked = !error.use_stderr();
            // Nothing can be said if the terminal is gone.
            let _gone = error.print();
            return ExitCode::from(if asked { 0 } else { EXIT_USAGE });
        }
    };
    match matches.subcommand() {
        Some(("serve", matches)) => serve(matches),
        Some(("wss", matches)) => show("wss", matches, wss::run),
        Some(("tiers", matches)) => tiers_command(matches),
        Some(("top", matches)) => show_top(matches),
        Some(("groups", matches)) => show("groups", matches, groups::run),
        Some(("drop", matches)) => {
            let prefix = matches
                .get_one::<String>("prefix")
                .map_or("", String::as_str);
            ask("drop", matches, |at| groups::drop_group(at, prefix))
        }
        Some(("lru-gen", matches)) => {
            let words = matches.get_many::<String>("command").into_iter().flatten();
            let command: Vec<&str> = words.map(String::as_str).collect();
            if let Some(flag) = command.iter().find(|word| word.starts_with("--")) {
                return usage(&format!(
                    "lru-gen: {flag} stands before the command: thermocline lru-gen --http ADDR +"
                ));
            }
            ask("lru-gen", matches, |at| {
                lru_gen::run(at, &command.join(" "))
            })
        }
        _ => usage("a command is missing: thermocline serve --help"),
    }
}

fn command() -> Command {
    let serve = Command::new("serve")
        .about("Run the cache server")
        .after_help(SERVE_HELP)
        .arg(
            Arg::new("config")
                .long("config")
                .value_name("FILE")
                .value_parser(clap::value_parser!(PathBuf))
                .help("TOML file of settings [environment: THERMOCLINE_CONFIG]"),
        )
        .arg(
            Arg::new("print-config")
                .long("print-config")
                .action(ArgAction::SetTrue)
                .help("Print the settings in force as TOML and exit"),
        )
        .args(config::flags());
    Command::new("thermocline")
        .about("A cache server with a memory limit that is kept, behind the memcached protocol")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(serve)
        .subcommand(of_running_server(
            "wss",
            "How much memory is enough: the hit ratio a running server would have with less and with more",
        ))
        .subcommand(tiers_flags(of_running_server(
            "tiers",
            "What a running server holds hot and what compressed, with which dictionaries and at what cost",
        )))
        .subcommand(top_command())
        .subcommand(of_running_server(
            "groups",
            "Hits, misses, bytes and evictions of each group of keys of a running server",
        ))
        .subcommand(
            asks_running_server(
                "drop",
                "Make every item of a group of keys invisible at once; its memory comes back before anything live goes",
            )
            .arg(
                Arg::new("prefix")
                    .value_name("PREFIX")
                    .required(true)
                    .help("A prefix as it was given in --groups"),
            ),
        )
        .subcommand(
            asks_running_server(
                "lru-gen",
                "Bytes and items of a running server by age, as the kernel's lru_gen; ages and evicts on command",
            )
            .after_help(LRU_GEN_HELP)
            .arg(
                Arg::new("command")
                    .value_name("COMMAND")
                    .num_args(0..)
                    .trailing_var_arg(true)
                    .allow_hyphen_values(true)
                    .help("`+ [MAX_GEN]` opens a new generation, `- MIN_GEN` evicts what is that old"),
            ),
        )
        .subcommand(
            Command::new("memcached")
                .about("Run the server with memcached's own flags (thermocline memcached -h)")
                .disable_help_flag(true),
        )
}

fn top_command() -> Command {
    Command::new("top")
        .about("A running server at a glance: hit ratio, memory, tiers, generations, faults, pressure; q quits")
        .arg(http_argument())
        .arg(
            Arg::new("once")
                .long("once")
                .action(ArgAction::SetTrue)
                .help("Print one frame and end, for scripts"),
        )
        .arg(
            Arg::new("interval")
                .long("interval")
                .value_name("SECONDS")
                .default_value("1")
                .value_parser(clap::value_parser!(u64).range(1..=3600))
                .help("Seconds between two looks"),
        )
}

fn show_top(matches: &ArgMatches) -> ExitCode {
    let (Some(at), Some(&seconds)) = (
        matches.get_one::<Listen>("http"),
        matches.get_one::<u64>("interval"),
    ) else {
        return usage("top needs --http ADDR and --interval SECONDS");
    };
    let options = top::Options {
        at,
        once: matches.get_flag("once"),
        interval: std::time::Duration::from_secs(seconds),
    };
    match top::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("thermocline: {text}");
            ExitCode::from(EXIT_FAILURE)
        }
    }
}

fn http_argument() -> Arg {
    Arg::new("http")
        .long("http")
        .value_name("ADDR")
        .default_value("127.0.0.1:9191")
        .value_parser(Listen::parse)
        .help("The server's admin address: ADDR:PORT or unix:PATH")
}

/// A command that shows a page of a running server.
fn of_running_server(name: &'static str, about: &'static str) -> Command {
    asks_running_server(name, about).arg(
        Arg::new("json")
            .long("json")
            .action(ArgAction::SetTrue)
            .help("Print the answer as JSON"),
    )
}

/// What `tiers` can change.
fn tiers_flags(command: Command) -> Command {
    command
        .arg(
            Arg::new("force")
                .long("force")
                .value_name("auto|on|off")
                .value_parser(["auto", "on", "off"])
                .help("Switch compression, then show the tiers"),
        )
        .arg(
            Arg::new("trim-age")
                .long("trim-age")
                .value_name("SECONDS")
                .value_parser(clap::value_parser!(u64))
                .conflicts_with("force")
                .help("Evict what has been in the compressed tier for so long"),
        )
        .arg(
            Arg::new("trim-bytes")
                .long("trim-bytes")
                .value_name("SIZE")
                .requires("trim-age")
                .help("At most so many bytes of it [default: 256MiB]"),
        )
}

fn tiers_command(matches: &ArgMatches) -> ExitCode {
    let Some(at) = matches.get_one::<Listen>("http") else {
        return usage("tiers needs --http ADDR");
    };
    let as_json = matches.get_flag("json");
    let force = matches.get_one::<String>("force");
    let done = match (matches.get_one::<u64>("trim-age"), force) {
        (Some(age), _) => {
            let bytes = matches.get_one::<String>("trim-bytes");
            tiers::trim(at, *age, bytes.map(String::as_str), as_json)
        }
        (None, Some(mode)) => tiers::force(at, mode, as_json),
        (None, None) => tiers::run(at, as_json),
    };
    print_or_fail(done)
}

fn print_or_fail(done: Result<String, String>) -> ExitCode {
    match done {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("thermocline: {text}");
            ExitCode::from(EXIT_FAILURE)
        }
    }
}

/// A command that asks a running server by its admin address.
fn asks_running_server(name: &'static str, about: &'static str) -> Command {
    Command::new(name).about(about).arg(http_argument())
}

fn usage(text: &str) -> ExitCode {
    eprintln!("thermocline: {text}");
    ExitCode::from(EXIT_USAGE)
}

fn failure(error: &StartError) -> ExitCode {
    eprintln!("thermocline: {error}");
    match error {
        StartError::Config(_) | StartError::Engine(thermocline::Error::Config(_)) => {
            ExitCode::from(EXIT_USAGE)
        }
        _ => ExitCode::from(EXIT_FAILURE),
    }
}

fn serve(matches: &ArgMatches) -> ExitCode {
    let settings = match config::resolve(&Layers::of_process(matches)) {
        Ok(settings) => settings,
        Err(ConfigError(text)) => return usage(&text),
    };
    if matches.get_flag("print-config") {
        print!("{}", settings.to_toml());
        return ExitCode::SUCCESS;
    }
    logging::init(&settings);
    run(settings, false, &[])
}

/// Runs a command that shows a page of a running server.
fn show(
    name: &str,
    matches: &ArgMatches,
    run: fn(&Listen, bool) -> Result<String, String>,
) -> ExitCode {
    ask(name, matches, |at| run(at, matches.get_flag("json")))
}

/// Runs a command that asks a running server.
fn ask(
    name: &str,
    matches: &ArgMatches,
    run: impl FnOnce(&Listen) -> Result<String, String>,
) -> ExitCode {
    let Some(at) = matches.get_one::<Listen>("http") else {
        return usage(&format!("{name} needs --http ADDR"));
    };
    print_or_fail(run(at))
}

fn memcached_command(args: &[String]) -> ExitCode {
    let environment: Vec<(String, String)> = std::env::vars()
        .filter(|(name, _)| name.starts_with("THERMOCLINE_"))
        .collect();
    match memcached::parse(args, &environment) {
        Err(ConfigError(text)) => usage(&text),
        Ok(Outcome::Help) => {
            print!("{}", memcached::help());
            ExitCode::SUCCESS
        }
        Ok(Outcome::Version) => {
            println!(
                "thermocline {} (memcached {})",
                env!("CARGO_PKG_VERSION"),
                crate::server::VERSION
            );
            ExitCode::SUCCESS
        }
        Ok(Outcome::License) => {
            println!("thermocline is licensed under MIT or Apache-2.0, at your choice.");
            ExitCode::SUCCESS
        }
        Ok(Outcome::Serve(start)) => {
            logging::init(&start.settings);
            run(start.settings, start.daemon, &start.notes)
        }
    }
}

/// A server whose event loop has died would keep its clients waiting: better to end, and be started again.
fn end_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}

/// Bind, become a daemon if asked, start, wait, stop.
fn run(settings: Settings, daemon: bool, notes: &[String]) -> ExitCode {
    end_on_panic();
    // From before the first client can connect: a signal that comes early is kept, not fatal.
    let signals = match Signals::new([SIGTERM, SIGINT, SIGUSR1, SIGHUP]) {
        Ok(signals) => signals,
        Err(error) => return failure(&StartError::Io(error)),
    };
    let pid_file = settings.pid_file.clone();
    let prepared = match Prepared::new(settings) {
        Ok(prepared) => prepared,
        Err(error) => return failure(&error),
    };
    // Before any thread: a forked process has only the one that forked.
    if daemon {
        if let Err(error) = nix::unistd::daemon(true, false) {
            eprintln!("thermocline: cannot become a daemon: {error}");
            return ExitCode::from(EXIT_FAILURE);
        }
    }
    let started = pid_file
        .map(|path| PidFile::write(&path))
        .transpose()
        .map_err(StartError::Io)
        .and_then(|pid_file| Ok((pid_file, prepared.start()?)));
    let (pid_file, server) = match started {
        Ok(started) => started,
        Err(error) => return failure(&error),
    };
    for line in server.banner() {
        tracing::info!("{line}");
    }
    for note in notes
        .iter()
        .chain(&too_much(server.shared().settings.memory))
    {
        tracing::warn!("{note}");
    }
    let code = match handle_signals(&server, signals) {
        Ok(()) => serve_until_stopped(server),
        Err(error) => failure(&StartError::Io(error)),
    };
    drop(pid_file);
    code
}

/// A budget beyond what there is cannot be kept: the kernel ends the process before it is reached.
fn too_much(memory: u64) -> Option<String> {
    let (there_is, whose) = config::memory_there_is()?;
    (memory > there_is).then(|| {
        let mebibytes = |bytes: u64| bytes >> 20;
        format!(
            "memory = {} MiB is more than {whose}, {} MiB: the kernel will end this process before the budget is full",
            mebibytes(memory),
            mebibytes(there_is)
        )
    })
}

fn serve_until_stopped(server: Server) -> ExitCode {
    process::notify(NotifyState::Ready);
    match server.wait() {
        Ok(0) => {
            tracing::info!("stopped");
            ExitCode::SUCCESS
        }
        Ok(cut_off) => {
            tracing::warn!(connections = cut_off, "stopped; connections were cut off");
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!(%error, "stopped");
            ExitCode::from(EXIT_FAILURE)
        }
    }
}

/// TERM, INT and USR1 drain, any second of them stops at once, HUP reads again what can be read again.
fn handle_signals(server: &Server, mut signals: Signals) -> std::io::Result<()> {
    // Not a hold: at the end the cache must be nobody's, or its memory could not be kept.
    let shared = Arc::downgrade(server.shared());
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                match (signal, shared.stop()) {
                    (SIGHUP, _) => {
                        process::notify(NotifyState::Reloading);
                        shared.reload();
                        process::notify(NotifyState::Ready);
                    }
                    (_, Stop::Run) => {
                        tracing::info!(signal, "stopping after the requests under way");
                        process::notify(NotifyState::Stopping);
                        shared.begin_stop(Stop::Drain);
                    }
                    _ => shared.begin_stop(Stop::Now),
                }
            }
        })?;
    Ok(())
}
