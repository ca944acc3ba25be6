//! Starting servers (ours, and Debian's memcached where it is installed) and talking to them line by line.
#![allow(dead_code)]

mod autopsy;
pub mod served;

pub use autopsy::Log;

use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Long enough for a loaded machine; only a failing test ever waits for it.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Something foreign that a test talks to is not installed: the test is skipped, and says so. With
/// THERMOCLINE_REQUIRE_CLIENTS=1 it fails instead.
pub fn skip(what: &str) {
    let required = std::env::var_os("THERMOCLINE_REQUIRE_CLIENTS").is_some_and(|v| v == "1");
    assert!(!required, "{what}, and THERMOCLINE_REQUIRE_CLIENTS=1");
    println!("skipped: {what}");
}

/// Waits, at most `PATIENCE`.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "{what} does not come true");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A server process that ends with the test.
pub struct Running {
    pub child: Child,
    pub port: u16,
    /// What it says, for a test that fails.
    pub log: Log,
}

/// A port nobody listens on, below the range that outgoing connections draw theirs from: there a client that
/// tries too early may connect to itself and take the port from the server. No two calls of one process, and
/// hardly two processes, get the same. It is tried by a socket that is bound and does not listen: a child that another
/// test starts just then holds our sockets until it becomes its program, and would be taken for the server.
pub fn free_port() -> u16 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    loop {
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        let port = 12_000 + (std::process::id() * 97 + call) % 18_000;
        let port = port as u16;
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_reuse_address(true).expect("a socket");
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
        if socket.bind(&address.into()).is_ok() {
            return port;
        }
    }
}

pub fn our_binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_thermocline"))
}

/// `thermocline memcached <flags>` on a free loopback port.
pub fn ours(flags: &[&str]) -> Running {
    let mut command = Command::new(our_binary());
    command.arg("memcached");
    start(command, flags)
}

/// `thermocline serve <flags>` with a memcached listener on this loopback port, as yet perhaps deaf.
pub fn serve_command(port: u16, flags: &[impl AsRef<std::ffi::OsStr>]) -> Command {
    let mut command = Command::new(our_binary());
    command
        .args(["serve", "--memcached", &format!("127.0.0.1:{port}")])
        .args(flags)
        .env_remove("THERMOCLINE_TEST_VENV")
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// The same on a free port, started; returns when it listens.
pub fn serve(flags: &[impl AsRef<std::ffi::OsStr>]) -> Running {
    let port = free_port();
    Running::started(serve_command(port, flags), port)
}

/// Debian's memcached with the same flags, if there is one.
pub fn theirs(flags: &[&str]) -> Option<Running> {
    let path = Path::new("/usr/bin/memcached");
    if !path.exists() {
        return None;
    }
    let mut command = Command::new(path);
    command.args(["-u", "nobody", "-t", "1"]);
    Some(start(command, flags))
}

fn start(mut command: Command, flags: &[&str]) -> Running {
    let port = free_port();
    command
        .args(["-l", "127.0.0.1", "-p", &port.to_string()])
        .args(flags)
        .env("THERMOCLINE_THREADS", "2")
        .env_remove("THERMOCLINE_TEST_VENV")
        .stdin(Stdio::null());
    Running::started(command, port)
}

impl Running {
    /// Starts it.
    pub fn launched(mut command: Command, port: u16) -> Running {
        let log = Log::default();
        let child = command.stderr(log.file()).spawn();
        let child = child.expect("the server starts");
        Running { child, port, log }
    }

    /// Starts it; returns when it listens.
    pub fn started(command: Command, port: u16) -> Running {
        let running = Running::launched(command, port);
        running.wait_until_up();
        running
    }

    pub fn wait_until_up(&self) {
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(
                Instant::now() < until,
                "the server does not listen on port {}",
                self.port
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.port)
    }

    /// Resident memory, bytes; pages of a pool, which the kernel counts apart, among them.
    pub fn resident_bytes(&self) -> u64 {
        self.status_bytes("VmRSS:") + self.status_bytes("HugetlbPages:")
    }

    /// The most that was resident so far, bytes; a pool's pages as they are now.
    pub fn resident_peak_bytes(&self) -> u64 {
        self.status_bytes("VmHWM:") + self.status_bytes("HugetlbPages:")
    }

    fn status_bytes(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(path).expect("the server runs");
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        kib.expect("a figure") << 10
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        nix::sys::signal::kill(pid, signal).expect("the server runs");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            autopsy::print(&mut self.child, &self.log);
        }
        let _ended_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}

/// A connection that reads lines.
pub struct Client {
    pub stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub fn connect(port: u16) -> Client {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server accepts");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a timeout can be set");
        stream.set_nodelay(true).expect("no delay can be set");
        Client {
            stream,
            buffer: Vec::new(),
        }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream
            .write_all(bytes.as_ref())
            .expect("the server takes bytes");
    }

    /// The next line without its end; None when the server has closed.
    pub fn line(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|&b| b == b'\n') {
                let mut line: Vec<u8> = self.buffer.drain(..=end).collect();
                line.pop();
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Some(line);
            }
            if self.fill() == 0 {
                return None;
            }
        }
    }

    pub fn text(&mut self) -> String {
        self.line().map_or("<closed>".into(), |line| {
            String::from_utf8_lossy(&line).into_owned()
        })
    }

    pub fn exact(&mut self, bytes: usize) -> Vec<u8> {
        while self.buffer.len() < bytes {
            assert!(
                self.fill() > 0,
                "closed after {} of {bytes} bytes",
                self.buffer.len()
            );
        }
        self.buffer.drain(..bytes).collect()
    }

    fn fill(&mut self) -> usize {
        let mut part = [0; 65536];
        // With a timeout a read is not begun anew by the kernel once the process has been stopped and let go on.
        let read = loop {
            match self.stream.read(&mut part) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        match read {
            Ok(count) => {
                self.buffer.extend_from_slice(&part[..count]);
                count
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
                ) =>
            {
                0
            }
            Err(error) => panic!("no answer: {error}"),
        }
    }

    /// Sends a request and returns its one line of answer.
    pub fn ask(&mut self, request: impl AsRef<[u8]>) -> String {
        self.send(request.as_ref());
        self.send(b"\r\n");
        self.text()
    }

    /// `stats` as pairs.
    pub fn stats(&mut self, what: &str) -> Vec<(String, String)> {
        self.send(format!("stats {what}\r\n"));
        let mut lines = Vec::new();
        loop {
            let line = self.text();
            if line == "END" {
                return lines;
            }
            let mut words = line.splitn(3, ' ');
            assert_eq!(words.next(), Some("STAT"), "{line}");
            let name = words.next().unwrap_or_default().to_string();
            lines.push((name, words.next().unwrap_or_default().to_string()));
        }
    }

    /// How many connections are in this state, by `stats conns`: `conn_mwrite` are those whose replies are not taken.
    pub fn connections(&mut self, state: &str) -> usize {
        let lines = self.stats("conns");
        lines.iter().filter(|(_, value)| value == state).count()
    }

    pub fn stat(&mut self, name: &str) -> u64 {
        let lines = self.stats("");
        let value = lines.iter().find(|(other, _)| other == name);
        value
            .unwrap_or_else(|| panic!("no stat {name}"))
            .1
            .parse()
            .expect("a number")
    }
}
