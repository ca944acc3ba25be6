//! memcached's own flags, as far as they mean something here: `thermocline memcached -m 64 -p 11211 ...`.
//!
//! Owns: which flags exist, what each becomes in `Settings`, and memcached's own refusals.
//! Must hold: a start script written for memcached starts us, or is told exactly which flag cannot be kept.
//! What each flag means here is written out in docs/memcached.md.
//!
//! One file: a flag, what becomes of it and the test that says so belong to one table of memcached's; a fifth of the lines are tests.

use super::layers::CONFIG_VARIABLE;
use super::{nearest, parse_size, ConfigError, Layers, Listen, PageMode, Settings, KEYS};
use std::path::PathBuf;

/// Bytes under which the server cannot start: smaller `-m` are raised to it, for memcached takes them.
pub const MEMORY_BYTES_MIN: u64 = 64 << 20;
/// The engine takes no more: 32 TiB.
const MEGABYTES_MAX: u64 = 32 << 20;
/// `-I` is bounded by memcached itself.
const ITEM_BYTES: std::ops::RangeInclusive<u64> = 1024..=1 << 30;

/// What the command line asks for.
pub enum Outcome {
    Serve(Box<Start>),
    Help,
    Version,
    License,
}

pub struct Start {
    pub settings: Settings,
    pub daemon: bool,
    /// What was changed on the way, to be logged at the start.
    pub notes: Vec<String>,
}

/// (short, long, takes a value, what it does here). Short and long forms mean the same.
const FLAGS: &[(char, &str, bool, &str)] = &[
    ('p', "port", true, "TCP port; 0: no TCP at all"),
    ('U', "udp-port", true, "accepted; UDP is not served"),
    (
        's',
        "unix-socket",
        true,
        "unix socket, instead of the network",
    ),
    (
        'a',
        "unix-mask",
        true,
        "the unix socket's access mode, octal (700)",
    ),
    ('A', "enable-shutdown", false, "take shutdown from clients"),
    (
        'l',
        "listen",
        true,
        "addresses to listen on, separated by commas; all when left out",
    ),
    ('d', "daemon", false, "run in the background"),
    ('r', "enable-coredumps", false, "accepted"),
    (
        'u',
        "user",
        true,
        "whom to become after binding, when started as root",
    ),
    (
        'm',
        "memory-limit",
        true,
        "MiB of memory of the whole process (64 at least)",
    ),
    (
        'M',
        "disable-evictions",
        false,
        "refuse what does not fit; evict nothing",
    ),
    ('c', "conn-limit", true, "connections at one time (1024)"),
    (
        'k',
        "lock-memory",
        false,
        "accepted; THERMOCLINE_MEMORY_LOCK=true locks pages",
    ),
    (
        'v',
        "verbose",
        false,
        "log level info; twice: debug, three times: trace",
    ),
    ('h', "help", false, "this"),
    ('i', "license", false, "the licence"),
    ('V', "version", false, "the version"),
    ('P', "pidfile", true, "file for the process id"),
    (
        'f',
        "slab-growth-factor",
        true,
        "accepted; there are no slab classes",
    ),
    (
        'n',
        "slab-min-size",
        true,
        "accepted; there are no slab classes",
    ),
    (
        'L',
        "enable-largepages",
        false,
        "accepted; huge pages are asked for anyway",
    ),
    (
        'D',
        "delimiter",
        true,
        "what ends a key's prefix; counts by prefix from the start",
    ),
    ('t', "threads", true, "event loops (4)"),
    (
        'R',
        "max-reqs-per-event",
        true,
        "requests of one connection before others have their turn (20)",
    ),
    ('C', "disable-cas", false, "accepted; tokens always exist"),
    (
        'b',
        "listen-backlog",
        true,
        "connections the kernel queues (1024)",
    ),
    ('B', "protocol", true, "ascii or auto; binary is not served"),
    (
        'I',
        "max-item-size",
        true,
        "largest item (1m), at most a quarter of -m",
    ),
    ('S', "enable-sasl", false, "refused"),
    ('F', "disable-flush-all", false, "forbid flush_all"),
    ('X', "disable-dumping", false, "forbid listings of keys"),
    ('W', "disable-watch", false, "forbid watch"),
    (
        'Y',
        "auth-file",
        true,
        "file of lines user:password; SIGHUP reads it again",
    ),
    ('e', "memory-file", true, "refused"),
    ('Z', "enable-ssl", false, "refused"),
    ('o', "extended", true, "sub-options, see below"),
    ('N', "napi-ids", true, "accepted"),
];

/// What `-h` prints: memcached's test suite reads from it what is supported.
pub fn help() -> String {
    let mut text = format!(
        "thermocline {} (memcached's flags)\n",
        env!("CARGO_PKG_VERSION")
    );
    for (short, long, value, does) in FLAGS {
        if matches!(
            long,
            &"enable-sasl" | &"memory-file" | &"enable-ssl" | &"napi-ids"
        ) {
            continue;
        }
        let name = if *value {
            format!("--{long}=<value>")
        } else {
            format!("--{long}")
        };
        text.push_str(&format!("-{short}, {name:<28} {does}\n"));
    }
    text.push_str(
        "   - maxconns_fast, idle_timeout, read_buf_mem_limit and hot_keys are kept with -o,\n",
    );
    text.push_str("     other sub-options are accepted and ignored\n");
    text.push_str("See docs/memcached.md for what each flag means here.\n");
    text
}

/// Reads memcached's command line (without the program's name).
/// The environment and no file stand below the flags, as for `serve`.
pub fn parse(args: &[String], environment: &[(String, String)]) -> Result<Outcome, ConfigError> {
    let mut dialect = Dialect::new(environment)?;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut next = || args.next().cloned();
        if let Some(outcome) = dialect.argument(arg, &mut next)? {
            return Ok(outcome);
        }
    }
    dialect
        .finish()
        .map(|start| Outcome::Serve(Box::new(start)))
}

struct Dialect {
    settings: Settings,
    port: Port,
    addresses: Vec<String>,
    unix: Option<PathBuf>,
    /// From the environment: kept when no flag names a listener.
    listen_named: bool,
    /// From the environment: kept without `-v`.
    log_level_named: bool,
    daemon: bool,
    verbose: u32,
    notes: Vec<String>,
}

impl Dialect {
    fn new(environment: &[(String, String)]) -> Result<Dialect, ConfigError> {
        let (files, environment): (Vec<_>, Vec<_>) = environment
            .iter()
            .cloned()
            .partition(|(name, _)| name == CONFIG_VARIABLE);
        let layers = Layers {
            environment: environment.clone(),
            ..Layers::default()
        };
        let named = |name: &str| {
            let name = format!("THERMOCLINE_{name}");
            environment.iter().any(|(other, _)| *other == name)
        };
        let mut settings = super::resolve(&layers)?;
        if !named("MEMORY") {
            settings.memory = MEMORY_BYTES_MIN;
        }
        if !named("REQUESTS_PER_TURN") {
            settings.requests_per_turn = 20;
        }
        if !named("HTTP") {
            settings.http.clear();
        }
        if !named("THREADS") {
            settings.threads = 4;
        }
        Ok(Dialect {
            settings,
            port: Port::Number(11211),
            addresses: Vec::new(),
            unix: None,
            listen_named: named("MEMCACHED"),
            log_level_named: named("LOG_LEVEL"),
            daemon: false,
            verbose: 0,
            notes: files
                .iter()
                .map(|(name, _)| format!("{name} is ignored: a file is for `thermocline serve`"))
                .collect(),
        })
    }

    /// One word of the command line: `--long[=value]`, or short flags in a row, the last with a value perhaps.
    fn argument(
        &mut self,
        arg: &str,
        next: &mut dyn FnMut() -> Option<String>,
    ) -> Result<Option<Outcome>, ConfigError> {
        if let Some(long) = arg.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_string())),
                None => (long, None),
            };
            let Some(flag) = FLAGS.iter().find(|(_, long, ..)| *long == name) else {
                return Err(unknown(arg, name));
            };
            return self.flag(flag, value, next);
        }
        let Some(letters) = arg.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            return Err(ConfigError(format!(
                "{arg}: not a flag; memcached's flags begin with -"
            )));
        };
        for (at, letter) in letters.char_indices() {
            let Some(flag) = FLAGS.iter().find(|(short, ..)| *short == letter) else {
                return Err(ConfigError(format!(
                    "-{letter}: unknown flag; `thermocline memcached -h` lists them"
                )));
            };
            let rest = &letters[at + letter.len_utf8()..];
            if flag.2 {
                let value = (!rest.is_empty()).then(|| rest.to_string());
                return self.flag(flag, value, next);
            }
            if let Some(outcome) = self.flag(flag, None, next)? {
                return Ok(Some(outcome));
            }
        }
        Ok(None)
    }

    fn flag(
        &mut self,
        (short, long, takes, _): &(char, &str, bool, &str),
        value: Option<String>,
        next: &mut dyn FnMut() -> Option<String>,
    ) -> Result<Option<Outcome>, ConfigError> {
        let value = match value.or_else(|| if *takes { next() } else { None }) {
            Some(value) => value,
            None if *takes => {
                return Err(ConfigError(format!("-{short}, --{long}: needs a value")))
            }
            None => String::new(),
        };
        match short {
            'h' => return Ok(Some(Outcome::Help)),
            'V' => return Ok(Some(Outcome::Version)),
            'i' => return Ok(Some(Outcome::License)),
            _ => {}
        }
        self.take(*short, &value)
            .map_err(|error| ConfigError(format!("-{short}, --{long}: {error}")))?;
        Ok(None)
    }

    fn take(&mut self, short: char, value: &str) -> Result<(), String> {
        let settings = &mut self.settings;
        match short {
            'p' => self.port = port(value)?,
            'U' if value == "0" => {}
            'U' => self.notes.push("UDP is not served: -U is ignored".into()),
            's' => self.unix = Some(value.into()),
            'a' => set(settings, "unix_mode", value)?,
            'A' => settings.allow_shutdown = true,
            'l' => self.addresses.extend(value.split(',').map(str::to_string)),
            'd' => self.daemon = true,
            'u' => settings.user = Some(value.to_string()),
            'm' => self.memory(value)?,
            'M' => settings.evict = false,
            'k' => self.notes.push(
                "-k locks nothing here: THERMOCLINE_MEMORY_LOCK=true does, where `ulimit -l` lets it".into(),
            ),
            'c' => set(settings, "connections_max", value)?,
            'v' => self.verbose += 1,
            'P' => settings.pid_file = Some(value.into()),
            'L' => settings.page_mode = PageMode::Auto,
            'D' => {
                set(settings, "detail_delimiter", value)?;
                settings.detail = true;
            }
            't' => set(settings, "threads", value)?,
            'R' => set(settings, "requests_per_turn", value)?,
            'b' => set(settings, "backlog", value)?,
            'B' => protocol(value)?,
            'I' => settings.item_size_max = item_size(value)?,
            'F' => settings.allow_flush = false,
            'X' => settings.allow_dump = false,
            'W' => settings.allow_watch = false,
            'Y' => settings.auth_file = Some(value.into()),
            'o' => self.extended(value)?,
            'f' if value.parse::<f64>().map_or(true, |factor| factor <= 1.0) => {
                return Err("factor must be greater than 1".into())
            }
            'S' => {
                return Err(
                    "SASL belongs to the binary protocol, which is not served: use -Y FILE".into(),
                )
            }
            'e' => {
                return Err(
                    "memcached's memory file is not read: take the flag away; THERMOCLINE_PAGE_MODE=shmem and \
                     THERMOCLINE_MEMORY_DIR=DIR keep memory for the next server"
                        .into(),
                )
            }
            'Z' => {
                return Err(
                    "TLS is not supported: put a TLS proxy in front, or take the flag away".into(),
                )
            }
            // -r -C -f -n -N: nothing here depends on them.
            _ => {}
        }
        Ok(())
    }

    fn memory(&mut self, value: &str) -> Result<(), String> {
        let megabytes: u64 = value
            .parse()
            .map_err(|_| format!("{value:?} is no number of megabytes"))?;
        if megabytes > MEGABYTES_MAX {
            return Err(format!(
                "{megabytes} are too many megabytes: at most {MEGABYTES_MAX}"
            ));
        }
        let bytes = megabytes << 20;
        self.settings.memory = bytes.max(MEMORY_BYTES_MIN);
        if bytes < MEMORY_BYTES_MIN {
            let least = MEMORY_BYTES_MIN >> 20;
            self.notes.push(format!(
                "-m {megabytes} raised to {least}: here it bounds the whole process, which needs {least} MiB"
            ));
        }
        Ok(())
    }

    fn extended(&mut self, value: &str) -> Result<(), String> {
        for option in value.split(',').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let settings = &mut self.settings;
            match name {
                "maxconns_fast" => settings.connections_fast = true,
                "no_maxconns_fast" => settings.connections_fast = false,
                "idle_timeout" => set(settings, "idle_timeout_s", value)?,
                "read_buf_mem_limit" if value == "0" => {}
                "read_buf_mem_limit" => set(settings, "buffer_pool", &format!("{value}MiB"))?,
                "test_clock" => settings.test_clock = true,
                "hot_keys" => settings.hot_keys = true,
                "no_hot_keys" => settings.hot_keys = false,
                name if name.starts_with("ext_path") => {
                    return Err("external storage is not supported: take ext_path away".into())
                }
                _ => self
                    .notes
                    .push(format!("-o {name} is accepted and ignored")),
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Start, ConfigError> {
        let settings = &mut self.settings;
        if let Some(path) = &self.unix {
            settings.memcached = vec![Listen::Unix(path.clone())];
        } else if self.port == Port::Off {
            settings
                .memcached
                .retain(|listen| matches!(listen, Listen::Unix(_)));
            if !self.listen_named || settings.memcached.is_empty() {
                return Err(ConfigError(
                    "-p 0 turns TCP off: name a unix socket with -s PATH, or another port".into(),
                ));
            }
        } else if !self.addresses.is_empty() || !self.listen_named {
            settings.memcached =
                listeners(&self.addresses, self.port.number()).map_err(ConfigError)?;
        }
        settings.log_level = match self.verbose {
            0 if self.log_level_named => settings.log_level,
            0 => tracing::Level::WARN,
            1 => tracing::Level::INFO,
            2 => tracing::Level::DEBUG,
            _ => tracing::Level::TRACE,
        };
        settings.check().map_err(ConfigError)?;
        Ok(Start {
            settings: self.settings,
            daemon: self.daemon,
            notes: self.notes,
        })
    }
}

/// What `-p` says: 0 is no TCP at all, -1 any port that is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Port {
    Off,
    Any,
    Number(u16),
}

impl Port {
    fn number(self) -> u16 {
        match self {
            Port::Off | Port::Any => 0,
            Port::Number(number) => number,
        }
    }
}

fn port(value: &str) -> Result<Port, String> {
    match value {
        "0" => Ok(Port::Off),
        "-1" => Ok(Port::Any),
        value => match value.parse() {
            Ok(number) => Ok(Port::Number(number)),
            Err(_) => Err(format!("{value:?} is no port")),
        },
    }
}

fn set(settings: &mut Settings, name: &str, value: &str) -> Result<(), String> {
    let key = KEYS.iter().find(|key| key.name == name);
    (key.expect("named after a row of the table").set)(settings, value)
}

/// memcached listens on every interface unless told otherwise, and so does this dialect.
fn listeners(addresses: &[String], port: u16) -> Result<Vec<Listen>, String> {
    if addresses.is_empty() {
        return Ok(vec![
            Listen::Tcp(format!("0.0.0.0:{port}")),
            Listen::Tcp(format!("[::]:{port}")),
        ]);
    }
    addresses
        .iter()
        .map(|address| listener(address, port))
        .collect()
}

fn listener(address: &str, port: u16) -> Result<Listen, String> {
    let address = address.strip_prefix("notls:").unwrap_or(address);
    if address.starts_with("unix:") || Listen::parse(address).is_ok_and(|_| !is_bare_ipv6(address))
    {
        return Listen::parse(address);
    }
    match is_bare_ipv6(address) {
        true => Listen::parse(&format!("[{address}]:{port}")),
        false => Listen::parse(&format!("{address}:{port}")),
    }
}

fn is_bare_ipv6(address: &str) -> bool {
    address.parse::<std::net::Ipv6Addr>().is_ok()
}

fn protocol(name: &str) -> Result<(), String> {
    match name {
        "auto" | "ascii" => Ok(()),
        "binary" => Err("the binary protocol is not served: use auto or ascii".into()),
        _ => Err(format!(
            "invalid value for binding protocol: {name}; should be auto or ascii"
        )),
    }
}

fn item_size(value: &str) -> Result<u64, String> {
    let bytes = parse_size(value)?;
    match bytes {
        bytes if bytes < *ITEM_BYTES.start() => {
            Err("item max size cannot be less than 1024 bytes".into())
        }
        bytes if bytes > *ITEM_BYTES.end() => {
            Err("cannot set item size limit higher than a gigabyte".into())
        }
        bytes => Ok(bytes),
    }
}

/// Is this an executable name under which memcached's flags are spoken?
pub fn is_our_name(argv0: &str) -> bool {
    let name = argv0.rsplit('/').next().unwrap_or(argv0);
    name == "memcached"
}

fn unknown(arg: &str, name: &str) -> ConfigError {
    let hint = nearest(name, FLAGS.iter().map(|(_, long, ..)| *long)).map_or_else(
        || "`thermocline memcached -h` lists them".into(),
        |near| format!("did you mean --{near}?"),
    );
    ConfigError(format!("{arg}: unknown flag: {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(line: &str) -> Result<Start, String> {
        let args: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        match parse(&args, &[]) {
            Ok(Outcome::Serve(start)) => Ok(*start),
            Ok(_) => Err("no start".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_usual_command_line_is_understood() {
        let start = start(
            "-d -m 256 -p 11311 -l 127.0.0.1,::1 -t2 -c 500 -I 2m -o idle_timeout=3,modern -vv",
        )
        .unwrap();
        let settings = start.settings;
        assert!(start.daemon);
        assert_eq!(settings.memory, 256 << 20);
        assert_eq!(
            settings.memcached,
            [Listen::tcp("127.0.0.1:11311"), Listen::tcp("[::1]:11311")]
        );
        assert_eq!((settings.threads, settings.connections_max), (2, 500));
        assert_eq!(settings.item_size_max, 2 << 20);
        assert_eq!(settings.idle_timeout_s, 3);
        assert_eq!(settings.log_level, tracing::Level::DEBUG);
        assert_eq!(start.notes, ["-o modern is accepted and ignored"]);
    }

    #[test]
    fn help_says_what_each_flag_does() {
        let text = help();
        assert!(text
            .lines()
            .any(|line| line.starts_with("-m, --memory-limit=<value> ")
                && line.contains("whole process")));
        for line in text.lines().filter(|line| line.starts_with('-')) {
            assert!(line.split_whitespace().count() > 2, "{line}");
        }
    }

    #[test]
    fn a_unix_socket_disables_the_network() {
        let start = start("-s /tmp/x -a 0777 -A -F -X -W -M -C -k").unwrap();
        assert!(start.notes[0].contains("MEMORY_LOCK"), "{:?}", start.notes);
        let settings = start.settings;
        assert_eq!(settings.memcached, [Listen::Unix("/tmp/x".into())]);
        assert_eq!(settings.unix_mode, 0o777);
        assert!(
            settings.allow_shutdown
                && !settings.allow_flush
                && !settings.allow_dump
                && !settings.evict
        );
    }

    #[test]
    fn what_memcached_refuses_is_refused() {
        for line in [
            "-I 1000",
            "-I 512",
            "-I 256m",
            "-c 0",
            "-t 0",
            "-f 0.5",
            "-B foo",
            "-B binary",
            "-S",
            "-Z",
            "-q",
            "--portt=1",
            "-p",
        ] {
            assert!(start(line).is_err(), "{line}");
        }
        for line in [
            "-I 1024",
            "-I 2097152",
            "-I 512k",
            "-m 256 -I 32m",
            "-B auto",
            "-B ascii",
            "-U 0",
        ] {
            assert!(start(line).is_ok(), "{line}: {:?}", start(line).err());
        }
        assert!(start("--portt=1").err().unwrap().contains("--port?"));
        let instead = start("-e /dev/shm/x").err().unwrap();
        assert!(instead.contains("THERMOCLINE_MEMORY_DIR"), "{instead}");
    }

    #[test]
    fn port_0_turns_tcp_off() {
        let error = start("-p 0").err().expect("nothing to listen on");
        assert!(error.contains("-p 0") && error.contains("-s"), "{error}");
        assert!(start("-p 0 -l 127.0.0.1").is_err());
        let settings = start("-p 0 -s /tmp/x").unwrap().settings;
        assert_eq!(settings.memcached, [Listen::Unix("/tmp/x".into())]);
        let settings = start("-p -1 -l 127.0.0.1").unwrap().settings;
        assert_eq!(settings.memcached, [Listen::tcp("127.0.0.1:0")]);
    }

    #[test]
    fn small_memories_are_raised_and_say_so() {
        let start = start("-m 6").unwrap();
        assert_eq!(start.settings.memory, MEMORY_BYTES_MIN);
        assert!(start.notes[0].contains("raised to 64"));
    }

    #[test]
    fn the_environment_stands_below_the_flags_whatever_it_says() {
        let memory = super::super::default_memory_bytes();
        let environment = [
            ("THERMOCLINE_MEMORY", memory.to_string()),
            ("THERMOCLINE_REQUESTS_PER_TURN", "7".into()),
            ("THERMOCLINE_LOG_LEVEL", "error".into()),
        ]
        .map(|(name, value)| (name.to_string(), value));
        let Ok(Outcome::Serve(start)) = parse(&[], &environment) else {
            panic!("it starts");
        };
        assert_eq!(start.settings.memory, memory);
        assert_eq!(start.settings.requests_per_turn, 7);
        assert_eq!(start.settings.log_level, tracing::Level::ERROR);
        let flags = ["-m", "256", "-R", "9", "-v"].map(String::from);
        let Ok(Outcome::Serve(start)) = parse(&flags, &environment) else {
            panic!("it starts");
        };
        assert_eq!(start.settings.memory, 256 << 20);
        assert_eq!(start.settings.requests_per_turn, 9);
        assert_eq!(start.settings.log_level, tracing::Level::INFO);
    }

    /// Half of a file would count, for this dialect has defaults of its own: it is left out whole, and that is said.
    #[test]
    fn a_settings_file_is_for_serve_alone() {
        let environment = [(
            "THERMOCLINE_CONFIG".to_string(),
            "/no/such/file".to_string(),
        )];
        match parse(&[], &environment) {
            Ok(Outcome::Serve(start)) => assert!(start.notes[0].contains("THERMOCLINE_CONFIG")),
            Ok(_) => panic!("it starts"),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn the_program_name_selects_the_dialect() {
        assert!(is_our_name("/usr/bin/memcached") && is_our_name("memcached"));
        assert!(!is_our_name("thermocline"));
    }
}
