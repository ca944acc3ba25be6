//! `thermocline top` against a real server: one frame for scripts, and a screen on a pseudo terminal.

mod common;

use common::served::Served;
use common::{free_port, our_binary, PATIENCE};
use nix::pty::{openpty, OpenptyResult};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn once(http: &str) -> Output {
    Command::new(our_binary())
        .args(["top", "--once", "--http", http])
        .output()
        .expect("it runs")
}

#[test]
fn one_frame_for_scripts() {
    let served = Served::new(&[]);
    let (server, http) = (&served.running, served.admin.as_str());
    let mut client = server.connect();
    assert_eq!(client.ask("set k 0 0 1\r\na"), "STORED");
    client.send("get k none\r\n");
    while client.text() != "END" {}
    let output = once(http);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("50.00 %"), "{text}");
    for word in [
        "hit ratio",
        "memory",
        "tiers",
        "generations",
        "faults",
        "pressure",
        "64.0 MiB",
        http,
    ] {
        assert!(text.contains(word), "{word} is not in\n{text}");
    }
    assert!(!text.contains('\x1b'), "no escapes for scripts");
}

#[test]
fn nobody_there_is_said() {
    let http = format!("127.0.0.1:{}", free_port());
    let output = once(&http);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text.contains(&http) && text.contains("is a server running"),
        "{text}"
    );
}

#[test]
fn without_a_terminal_it_says_what_to_do() {
    let served = Served::new(&[]);
    let http = served.admin.as_str();
    let output = Command::new(our_binary())
        .args(["top", "--http", http])
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && text.contains("--once"),
        "{text}"
    );
}

/// A pseudo terminal with the command on it; what it shows is collected.
struct Terminal {
    child: Child,
    keys: File,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    fn run(args: &[&str]) -> Terminal {
        let OpenptyResult { master, slave } = openpty(None, None).expect("a pseudo terminal");
        let end = || Stdio::from(slave.try_clone().expect("cloned"));
        let child = Command::new(our_binary())
            .args(args)
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("it runs");
        let mut reader = File::from(master.try_clone().expect("cloned"));
        let shown = Arc::new(Mutex::new(String::new()));
        let collected = shown.clone();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut part) {
                let text = String::from_utf8_lossy(&part[..count]).into_owned();
                collected.lock().expect("whole").push_str(&text);
            }
        });
        Terminal {
            child,
            keys: File::from(master),
            shown,
        }
    }

    fn wait_for(&self, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.text().contains(text) {
            assert!(Instant::now() < until, "no {text:?} in\n{}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn text(&self) -> String {
        self.shown.lock().expect("whole").clone()
    }

    fn press(&mut self, key: u8) {
        self.keys.write_all(&[key]).expect("typed");
    }

    fn end(mut self) -> bool {
        self.child.wait().expect("it ends").success()
    }
}

#[test]
fn a_screen_is_redrawn_until_q() {
    let Served {
        running: server,
        admin: http,
    } = Served::new(&[]);
    let mut terminal = Terminal::run(&["top", "--http", &http]);
    terminal.wait_for("so far");
    let mut client = server.connect();
    assert_eq!(client.ask("mg none"), "EN");
    terminal.wait_for("in the last 1 s");
    terminal.press(b'x');
    drop(client);
    drop(server);
    terminal.wait_for("!! cannot ask");
    terminal.wait_for("s old");
    terminal.press(b'q');
    terminal.wait_for("\x1b[?1049l");
    assert!(terminal.end());
}

#[test]
fn control_c_leaves_a_tidy_screen() {
    let served = Served::new(&[]);
    let http = served.admin.as_str();
    let mut terminal = Terminal::run(&["top", "--http", http]);
    terminal.wait_for("hit ratio");
    terminal.press(3);
    terminal.wait_for("\x1b[?25h");
    assert!(terminal.end());
}
