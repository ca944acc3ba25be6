//! A server process of a point's own: started with the arm's flags on a free port of loopback, waited for until it
//! answers, ended after the point. One that dies says with what status, and what it wrote last.

use super::command::cgroup_shell;
use super::last_words::{last_words, obituary};
use crate::root::Root;
use crate::servers::{beside_us, free_port};
use crate::settings::Settings;
use anyhow::{bail, Context, Result};
use rustix::process::{kill_process, Pid, Signal};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The hidden verb that a server is started through: it dies with the lab, whatever ends that.
pub const GUARD_VERB: &str = "die-with-parent";
/// How long a server may take to end when asked to, before it is made to.
const STOP_MAX: Duration = Duration::from_secs(10);

/// How a server is started.
#[derive(Clone, Debug)]
pub struct ServerPlan {
    words: Vec<String>,
    start_limit: Duration,
}

impl ServerPlan {
    /// Reads `server` (a known product, with `memory`, `threads` and `socket`) or `command`, then `flags`, `binary`.
    pub fn read(settings: &mut Settings) -> Result<ServerPlan> {
        let products = [
            ("thermocline", Product::Thermocline),
            ("memcached", Product::Memcached),
        ];
        let product = settings.choice("server", &products)?;
        let command = settings.words("command")?;
        let binary = settings.text("binary")?;
        let mut words =
            match (product, command) {
                (Some(_), Some(_)) => {
                    bail!("`subject.server` and `subject.command` exclude each other")
                }
                (Some(product), None) => product.command(binary, settings)?,
                (None, Some(command)) if !command.is_empty() => command,
                (None, _) => return Err(settings.missing(
                    "server",
                    "`server = \"thermocline\"` or \"memcached\", or a `command` with {port} in it",
                )),
            };
        words.extend(settings.words("flags")?.unwrap_or_default());
        if !words
            .iter()
            .any(|word| word.contains("{port}") || word.contains("{socket}"))
        {
            bail!(
                "`subject.command` says nowhere {{port}} or {{socket}}: the lab picks a free one"
            );
        }
        Ok(ServerPlan {
            words,
            start_limit: settings
                .duration("start_limit")?
                .unwrap_or(Duration::from_secs(20)),
        })
    }

    /// Starts it, a member of the groups whose files are in `members` from its first instruction, and waits until it answers.
    pub fn start(&self, scratch: &Path, members: &[String]) -> Result<Server> {
        let port = free_port()?;
        let socket = scratch.join("server.sock");
        let filled = |word: &String| -> Result<String> {
            Ok(word
                .replace("{port}", &port.to_string())
                .replace("{port2}", &free_port()?.to_string())
                .replace("{socket}", &socket.to_string_lossy())
                .replace("{scratch}", &scratch.to_string_lossy()))
        };
        let words = self.words.iter().map(filled).collect::<Result<Vec<_>>>()?;
        let mut child = guarded(&words, members)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{}`", words[0]))?;
        let stderr = child.stderr.take().context("a pipe was asked for")?;
        let server = Server {
            pid: child.id(),
            child: Mutex::new(child),
            last_words: Mutex::new(last_words(stderr)),
            address: if self.words.iter().any(|word| word.contains("{socket}")) {
                format!("unix://{}", socket.display())
            } else {
                format!("memcached://127.0.0.1:{port}")
            },
            command: words.join(" "),
            template: self.words.join(" "),
            version: String::new(),
        };
        server.answered_within(self.start_limit, port, &socket)
    }
}

/// Through our own binary, where this process is it: a server must not outlive a run that was killed.
fn guarded(words: &[String], members: &[String]) -> Command {
    let own = std::env::current_exe().ok();
    let own = own.filter(|path| path.file_stem().is_some_and(|name| name == "thermolab"));
    let mut command = cgroup_shell(&Root::live(), members);
    if let Some(own) = own {
        command.arg(own).arg(GUARD_VERB);
    }
    command.args(words);
    command
}

/// The guard's whole work: to become the server. Returns only if that fails.
pub fn become_guarded(words: &[String]) -> anyhow::Error {
    use std::os::unix::process::CommandExt;
    // Without it a killed lab leaves the server behind.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let Some((program, args)) = words.split_first() else {
        return anyhow::anyhow!("no command");
    };
    anyhow::Error::new(Command::new(program).args(args).exec())
        .context(format!("cannot start `{program}`"))
}

#[derive(Clone, Copy, Debug)]
enum Product {
    Thermocline,
    Memcached,
}

impl Product {
    fn command(self, binary: Option<String>, settings: &mut Settings) -> Result<Vec<String>> {
        let memory = settings
            .bytes("memory")?
            .ok_or_else(|| settings.missing("memory", "how much the server gets, as \"256MiB\""))?;
        let threads = settings.count("threads")?.unwrap_or(1).to_string();
        let is_unix = settings
            .choice("socket", &[("tcp", false), ("unix", true)])?
            .unwrap_or(false);
        let (program, words) = match self {
            Product::Thermocline => {
                let listen = match is_unix {
                    true => "unix:{socket}",
                    false => "127.0.0.1:{port}",
                };
                let words = format!("serve --memory {memory} --threads {threads} --memcached {listen} --http 127.0.0.1:{{port2}}");
                (
                    beside_us("thermocline").to_string_lossy().into_owned(),
                    words,
                )
            }
            Product::Memcached => {
                let listen = match is_unix {
                    true => "-s {socket}",
                    false => "-l 127.0.0.1 -p {port}",
                };
                let megabytes = (memory >> 20).max(1);
                let words = format!("{listen} -m {megabytes} -t {threads} -u root");
                ("memcached".to_string(), words)
            }
        };
        let words = words.split(' ').map(str::to_string);
        Ok([binary.unwrap_or(program)]
            .into_iter()
            .chain(words)
            .collect())
    }
}

/// A running server.
pub struct Server {
    pid: u32,
    child: Mutex<Child>,
    last_words: Mutex<Receiver<String>>,
    pub address: String,
    pub command: String,
    /// The command before ports and paths were filled in, which are others each time.
    pub template: String,
    /// What it answered to `version`.
    pub version: String,
}

impl Server {
    fn answered_within(mut self, limit: Duration, port: u16, socket: &Path) -> Result<Server> {
        let start = Instant::now();
        loop {
            self.health()?;
            let version = if self.address.starts_with("unix") {
                std::os::unix::net::UnixStream::connect(socket)
                    .map_err(anyhow::Error::from)
                    .and_then(|stream| {
                        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
                        version(&stream, &stream)
                    })
            } else {
                TcpStream::connect(("127.0.0.1", port))
                    .map_err(anyhow::Error::from)
                    .and_then(|stream| {
                        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
                        version(&stream, &stream)
                    })
            };
            let why = match version {
                Ok(version) => {
                    self.version = version;
                    return Ok(self);
                }
                Err(error) => format!("{error:#}"),
            };
            if start.elapsed() > limit {
                let command = self.command.clone();
                let _ = self.stop();
                bail!(
                    "`{command}` did not answer within {} s: {why}",
                    limit.as_secs_f64()
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// An error once it has ended, with its last words.
    pub fn health(&self) -> Result<()> {
        let mut child = self
            .child
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(status) = child
            .try_wait()
            .context("the server cannot be waited for")?
        {
            let words = self
                .last_words
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            let words = words
                .recv_timeout(Duration::from_secs(2))
                .unwrap_or_default();
            bail!(obituary("the server", status, &words));
        }
        Ok(())
    }

    /// Asks it to end, then makes it.
    pub fn stop(self) -> Result<()> {
        let pid = Pid::from_raw(self.pid as i32).context("a process has a number")?;
        let mut child = self
            .child
            .into_inner()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        // Already gone is as good, here and below.
        let _ = kill_process(pid, Signal::TERM);
        let start = Instant::now();
        let mut ended = false;
        while !ended && start.elapsed() < STOP_MAX {
            ended = matches!(child.try_wait(), Ok(Some(_)));
            std::thread::sleep(Duration::from_millis(5));
        }
        if !ended {
            let _ = child.kill();
        }
        child.wait().context("the server cannot be waited for")?;
        if !ended {
            bail!(
                "it did not end within {} s of being asked, and was killed",
                STOP_MAX.as_secs()
            );
        }
        Ok(())
    }
}

fn version(mut to: impl Write, from: impl std::io::Read) -> Result<String> {
    to.write_all(b"version\r\n")?;
    let mut line = String::new();
    BufReader::new(from).read_line(&mut line)?;
    match line.trim().strip_prefix("VERSION ") {
        Some(version) => Ok(version.to_string()),
        None => bail!("it answered `version` with `{}`", line.trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plan(values: serde_json::Value) -> Result<ServerPlan> {
        ServerPlan::read(&mut Settings::new(
            "subject",
            serde_json::from_value(values).unwrap(),
        ))
    }

    #[test]
    fn a_server_that_ends_at_once_is_told_with_its_last_words() {
        let command = json!(["sh", "-c", "echo no such option: {port} >&2; exit 3"]);
        let plan = plan(json!({ "command": command })).unwrap();
        let error = format!(
            "{:#}",
            plan.start(&std::env::temp_dir(), &[]).err().unwrap()
        );
        assert!(
            error.contains("exit status: 3") && error.contains("no such option"),
            "{error}"
        );
    }

    #[test]
    fn a_server_that_never_answers_is_given_up_and_ended() {
        let command = json!(["sh", "-c", "exec sleep 60 # {port}"]);
        let settings = json!({ "command": command, "start_limit": "300ms" });
        let start = Instant::now();
        let error = plan(settings)
            .unwrap()
            .start(&std::env::temp_dir(), &[])
            .err()
            .unwrap();
        assert!(
            format!("{error:#}").contains("did not answer within 0.3 s"),
            "{error:#}"
        );
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn plans_are_checked() {
        for (values, said) in [
            (json!({}), "`subject.server` is missing"),
            (
                json!({ "server": "redis", "memory": 1 }),
                "there are: memcached, thermocline",
            ),
            (
                json!({ "server": "memcached" }),
                "`subject.memory` is missing",
            ),
            (json!({ "command": "sleep 1" }), "{port}"),
            (
                json!({ "server": "memcached", "memory": 1, "command": "x {port}" }),
                "exclude",
            ),
        ] {
            let error = plan(values).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let flags = plan(
            json!({ "server": "memcached", "memory": "64MiB", "flags": ["-o", "slab_chunk_max=1"] }),
        );
        let words = flags.unwrap().words;
        assert!(words.ends_with(&["-o".to_string(), "slab_chunk_max=1".to_string()]));
        assert!(words.contains(&"64".to_string()), "{words:?}");
        for (server, listen) in [("memcached", "{socket}"), ("thermocline", "unix:{socket}")] {
            let asked = json!({ "server": server, "memory": 1, "socket": "unix" });
            let words = plan(asked).unwrap().words.join(" ");
            assert!(
                words.contains(listen) && !words.contains("{port}"),
                "{words}"
            );
        }
    }
}
