//! A server that stops leaves its memory to the next one; a server that is killed does not, and the next one says so.

mod common;

use common::{serve, serve_command, Client, Running};
use nix::sys::signal::Signal;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

fn start(directory: &Path) -> Running {
    let flags = ["--memory", "96MiB", "--threads", "2", "--http", "none"].map(OsStr::new);
    let memory = ["--page-mode", "shmem", "--memory-dir"].map(OsStr::new);
    serve(&[&flags[..], &memory, &[directory.as_os_str()]].concat())
}

/// `start` of `stats pages`, and the address of the last item.
fn start_line(client: &mut Client) -> String {
    let lines = client.stats("pages");
    let line = lines.into_iter().find(|(name, _)| name == "start");
    line.map_or("none".into(), |(_, text)| text)
}

#[test]
fn a_stopped_server_is_warm_again_and_a_killed_one_is_not() {
    let path =
        Path::new("/dev/shm").join(format!("thermocline-server-warm-{}", std::process::id()));
    if let Err(error) = fs::create_dir_all(&path) {
        return println!("skipped: no tmpfs in /dev/shm: {error}");
    }
    let directory = Directory(path);
    let mut server = start(&directory.0);
    let mut client = server.connect();
    assert_eq!(start_line(&mut client), "cold: the memory file is new");
    for n in 0..5000 {
        client.send(format!("set key{n} 7 0 10 noreply\r\nvalue{n:05}\r\n"));
    }
    client.send("gets key77\r\n");
    let unique = client.text();
    assert!(unique.starts_with("VALUE key77 7 10 "), "{unique}");
    server.signal(Signal::SIGTERM);
    assert!(server.child.wait().expect("it ends").success());

    let server = start(&directory.0);
    let mut client = server.connect();
    let line = start_line(&mut client);
    assert!(line.starts_with("warm: 5000 items"), "{line}");
    client.send("gets key77\r\n");
    assert_eq!(client.text(), unique, "the CAS token is the same");
    assert_eq!(client.text(), "value00077");
    assert_eq!(client.text(), "END");
    assert_eq!(client.stat("curr_items"), 5000);
    drop(server); // kill -9

    let server = start(&directory.0);
    let mut client = server.connect();
    let line = start_line(&mut client);
    assert!(line.contains("did not stop cleanly"), "{line}");
    assert_eq!(client.ask("get key77"), "END");
}

/// Two servers want the same memory and the same port: the one that comes too late hears of the memory, which it asks
/// for before it listens anywhere.
#[test]
fn who_cannot_have_the_memory_file_listens_nowhere() {
    let path =
        Path::new("/dev/shm").join(format!("thermocline-server-taken-{}", std::process::id()));
    if let Err(error) = fs::create_dir_all(&path) {
        return println!("skipped: no tmpfs in /dev/shm: {error}");
    }
    let directory = Directory(path);
    let server = start(&directory.0);
    let flags = [
        "--memory",
        "96MiB",
        "--http",
        "none",
        "--page-mode",
        "shmem",
    ]
    .map(OsStr::new);
    let memory = [OsStr::new("--memory-dir"), directory.0.as_os_str()];
    let output = serve_command(server.port, &[&flags[..], &memory].concat())
        .stderr(std::process::Stdio::piped())
        .output()
        .expect("the binary runs");
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("in use by another process"), "{text}");
    assert_eq!(server.connect().ask("mn"), "MN");
}
