//! The next server takes over from the running one: nobody is refused in between, and nothing is lost that need not be.

mod common;

use common::{free_port, serve_command, Client, Running, PATIENCE};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Directory(PathBuf);

impl Directory {
    fn new(under: &Path, name: &str) -> Option<Directory> {
        let path = under.join(format!(
            "thermocline-handover-{name}-{}",
            std::process::id()
        ));
        std::fs::create_dir_all(&path).ok()?;
        Some(Directory(path))
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

fn start(port: u16, flags: &[String]) -> Running {
    let mut command = serve_command(port, flags);
    command.args(["--memory", "96MiB", "--threads", "2"]);
    Running::launched(command, port)
}

fn flags(pairs: &[(&str, String)]) -> Vec<String> {
    let both = |(name, value): &(&str, String)| [format!("--{name}"), value.clone()];
    pairs.iter().flat_map(both).collect()
}

fn wait_for_end(running: &mut Running) -> ExitStatus {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = running.child.try_wait().expect("it is ours") {
            return status;
        }
        assert!(Instant::now() < until, "the old server does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn pid(client: &mut Client) -> u64 {
    client.stat("pid")
}

/// Whether a new connection is answered by this process. One that the old server has taken may be closed without an
/// answer: it is stopping.
fn is_served_by(port: u16, child: u32) -> bool {
    let mut client = Client::connect(port);
    if client.stream.write_all(b"stats\r\n").is_err() {
        return false;
    }
    let wanted = format!("STAT pid {child}");
    std::iter::from_fn(|| client.line())
        .take_while(|line| line != b"END")
        .any(|line| line == wanted.as_bytes())
}

/// Connects again and again. How often it was answered, and what went wrong when it could not even connect.
fn reconnecting(port: u16, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<(u32, Vec<String>)> {
    std::thread::spawn(move || {
        let (mut answered, mut refused) = (0, Vec::new());
        while !stop.load(Ordering::Relaxed) {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(mut stream) => {
                    stream.set_read_timeout(Some(PATIENCE)).expect("set");
                    let mut answer = [0; 4];
                    // Accepted by the old server in its last moment, it may be closed unanswered: no refusal.
                    let sent = stream.write_all(b"mn\r\n");
                    if sent.and_then(|()| stream.read_exact(&mut answer)).is_ok() {
                        assert_eq!(&answer, b"MN\r\n");
                        answered += 1;
                    }
                }
                Err(error) => refused.push(error.to_string()),
            }
        }
        (answered, refused)
    })
}

#[test]
fn nobody_is_refused_while_the_next_server_takes_over() {
    let directory = Directory::new(&std::env::temp_dir(), "plain").expect("made");
    let port = free_port();
    let flags = flags(&[
        ("handover", directory.path("door")),
        ("http", format!("unix:{}", directory.path("http"))),
        ("memcached", format!("unix:{}", directory.path("clients"))),
        ("pid-file", directory.path("pid")),
    ]);
    let mut old = start(port, &flags);
    old.wait_until_up();
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..2).map(|_| reconnecting(port, stop.clone())).collect();
    let old_pid = pid(&mut old.connect());
    for _ in 0..3 {
        let mut next = start(port, &flags);
        assert!(wait_for_end(&mut old).success());
        next.wait_until_up();
        let mut client = next.connect();
        assert_ne!(pid(&mut client), old_pid);
        assert_eq!(client.ask("set k 0 0 1\r\na"), "STORED");
        std::mem::swap(&mut old, &mut next);
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        let (answered, refused) = client.join().expect("no wrong answer");
        assert_eq!(refused, Vec::<String>::new());
        assert!(answered > 10, "{answered} answers");
    }
    // The names in the file system are the last server's.
    assert!(UnixStream::connect(directory.path("clients")).is_ok());
    assert!(UnixStream::connect(directory.path("http")).is_ok());
    let written = std::fs::read_to_string(directory.path("pid")).expect("the pid file is there");
    assert_eq!(written.trim(), old.child.id().to_string());
    old.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(wait_for_end(&mut old).success());
    for name in ["clients", "http", "pid", "door"] {
        assert!(!Path::new(&directory.path(name)).exists(), "{name} is left");
    }
}

#[test]
fn a_request_under_way_is_finished_by_the_old_server() {
    let directory = Directory::new(&std::env::temp_dir(), "busy").expect("made");
    let port = free_port();
    let flags = flags(&[
        ("handover", directory.path("door")),
        ("http", "none".into()),
    ]);
    let mut old = start(port, &flags);
    old.wait_until_up();
    let mut busy = old.connect();
    busy.send(format!("set k 0 0 200000\r\n{}", "a".repeat(100_000)));
    std::thread::sleep(Duration::from_millis(100));
    let next = start(port, &flags);
    next.wait_until_up();
    let until = Instant::now() + PATIENCE;
    while !is_served_by(port, next.child.id()) {
        assert!(Instant::now() < until, "the next server does not serve");
    }
    busy.send(format!("{}\r\n", "a".repeat(100_000)));
    assert_eq!(busy.text(), "STORED");
    assert!(wait_for_end(&mut old).success());
}

#[test]
fn with_a_memory_file_the_next_server_is_warm() {
    let Some(directory) = Directory::new(Path::new("/dev/shm"), "warm") else {
        return common::skip("no tmpfs in /dev/shm");
    };
    let port = free_port();
    let flags = flags(&[
        ("handover", directory.path("door")),
        ("http", "none".into()),
        ("page-mode", "shmem".into()),
        ("memory-dir", directory.path("")),
    ]);
    let mut old = start(port, &flags);
    old.wait_until_up();
    let mut client = old.connect();
    for n in 0..1000 {
        assert_eq!(client.ask(format!("set key{n} 0 0 4\r\n{n:04}")), "STORED");
    }
    let stop = Arc::new(AtomicBool::new(false));
    let clients = reconnecting(port, stop.clone());
    let next = start(port, &flags);
    assert!(wait_for_end(&mut old).success());
    let mut client = next.connect();
    let found = (0..1000).filter(|n| {
        client.send(format!("mg key{n} v\r\n"));
        client.text() == "VA 4" && client.text() == format!("{n:04}")
    });
    assert_eq!(found.count(), 1000);
    stop.store(true, Ordering::Relaxed);
    let (answered, refused) = clients.join().expect("no wrong answer");
    assert_eq!((refused, answered > 0), (Vec::new(), true));
}

/// Whoever asks and then says nothing, or says nothing at all, keeps nobody else from taking over.
#[test]
fn the_silent_do_not_hold_the_door() {
    let directory = Directory::new(&std::env::temp_dir(), "silent").expect("made");
    let port = free_port();
    let flags = flags(&[
        ("handover", directory.path("door")),
        ("http", "none".into()),
    ]);
    let mut old = start(port, &flags);
    old.wait_until_up();
    let until = Instant::now() + PATIENCE;
    let knock = |words: &[u8]| loop {
        match UnixStream::connect(directory.path("door")) {
            Ok(mut stream) => {
                stream.write_all(words).expect("sent");
                return stream;
            }
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
    };
    let mut asked = knock(b"thermocline handover 1\n");
    asked.read_exact(&mut [0; 1]).expect("it has the sockets");
    let silent = knock(b"");
    let next = start(port, &flags);
    assert!(wait_for_end(&mut old).success());
    assert_eq!(next.connect().ask("mn"), "MN");
    drop((asked, silent));
}

/// Whoever knocks and goes, or talks nonsense, changes nothing.
#[test]
fn the_running_server_goes_on_when_nobody_takes_over_in_the_end() {
    let directory = Directory::new(&std::env::temp_dir(), "door").expect("made");
    let port = free_port();
    let flags = flags(&[
        ("handover", directory.path("door")),
        ("http", "none".into()),
    ]);
    let mut server = start(port, &flags);
    server.wait_until_up();
    let until = Instant::now() + PATIENCE;
    for words in [
        "",
        "nonsense\n",
        "thermocline handover 1\n",
        "thermocline handover 1\nmaybe\n",
    ] {
        let mut knock = loop {
            match UnixStream::connect(directory.path("door")) {
                Ok(stream) => break stream,
                Err(error) => assert!(
                    Instant::now() < until && error.kind() == ErrorKind::NotFound,
                    "{error}"
                ),
            }
        };
        knock.write_all(words.as_bytes()).expect("sent");
        drop(knock);
        assert_eq!(server.connect().ask("mn"), "MN");
    }
    assert!(server.child.try_wait().expect("it is ours").is_none());
    // The same with a next server whose settings are refused after all.
    let mut bad = flags.clone();
    bad.extend(["--memcached".into(), "256.0.0.1:1".into()]);
    let mut next = start(port, &bad);
    assert!(!wait_for_end(&mut next).success());
    assert_eq!(server.connect().ask("mn"), "MN");
    server.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(wait_for_end(&mut server).success());
    assert!(
        TcpStream::connect(("127.0.0.1", port)).is_err(),
        "nobody listens any more"
    );
}
