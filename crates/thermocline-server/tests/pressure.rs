//! A neighbour wants memory: with the reaction on, nobody dies; with it off, somebody does.
//!
//! Needs root and a memory control group (version 1 or 2); makes one of its own and removes it.

mod common;

use common::{free_port, our_binary, skip, Client, PATIENCE};
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// Together they want 192 + 180 MiB and more, and may have 300.
const LIMIT: u64 = 300 * MIB;
const MEMORY: &str = "192MiB";
const NEIGHBOUR: u64 = 180 * MIB;
const STEP: u64 = 4 * MIB;
const STEP_TIME: Duration = Duration::from_millis(60);
/// Where the cores are taken the reaction may come too late: how often it may try.
const TRIES: usize = 3;
/// Two pairs of them at once would be in each other's way.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
const CHILD: &str = "NEIGHBOUR_BYTES";

/// A control group, removed at the end.
struct Group(PathBuf);

impl Group {
    fn new(name: &str) -> Result<Group, String> {
        let name = format!("thermocline-{name}-{}", std::process::id());
        let roots = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ];
        let mut why = "no memory controller".to_string();
        for (root, limit) in roots {
            let path = Path::new(root).join(&name);
            if let Err(error) = fs::create_dir(&path) {
                why = format!("{}: {error}", path.display());
                continue;
            }
            let group = Group(path);
            match fs::write(group.0.join(limit), LIMIT.to_string()) {
                Ok(()) => {
                    // With swap nobody would be killed: none for these (where it is accounted).
                    for file in ["memory.memsw.limit_in_bytes", "memory.swap.max"] {
                        let none = if file.contains("memsw") { LIMIT } else { 0 };
                        let _not_accounted = fs::write(group.0.join(file), none.to_string());
                    }
                    return Ok(group);
                }
                Err(error) => why = format!("{limit}: {error}"),
            }
        }
        Err(why)
    }

    /// A command that runs in the group.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("/bin/sh");
        let script = format!(
            "echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"",
            self.0.display()
        );
        command.arg("-c").arg(script).arg(program);
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let until = Instant::now() + PATIENCE;
        // Not before its last process is gone.
        while fs::remove_dir(&self.0).is_err() && self.0.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _reaped_already = self.0.wait();
    }
}

/// What became of the two.
#[derive(Debug)]
struct Outcome {
    server_lives: bool,
    neighbour_finished: bool,
    given_back: bool,
}

fn together(name: &str, reaction: &str) -> Option<Outcome> {
    let group = match Group::new(name) {
        Ok(group) => group,
        Err(why) => {
            skip(&format!("no control group to be made: {why}"));
            return None;
        }
    };
    let (port, http) = (free_port(), free_port());
    let mut command = group.command(&our_binary());
    command
        .args([
            "serve",
            "--memory",
            MEMORY,
            "--memory-min",
            "64MiB",
            "--threads",
            "2",
            "--page-mode",
            "base",
        ])
        .args([
            "--memcached",
            &format!("127.0.0.1:{port}"),
            "--http",
            &format!("127.0.0.1:{http}"),
        ])
        .args(["--pressure", reaction])
        .env_remove("THERMOCLINE_TEST_VENV")
        .stderr(Stdio::null());
    let mut server = Ended(command.spawn().expect("the server starts"));
    let until = Instant::now() + PATIENCE;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < until, "the server does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    fill(port);
    let mut neighbour = group.command(&std::env::current_exe().expect("this program"));
    neighbour
        .args(["--exact", "the_neighbour", "--ignored", "--nocapture"])
        .env(CHILD, NEIGHBOUR.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let finished = neighbour.status().expect("the neighbour ran").success();
    // Who is being killed may take a moment to be gone.
    std::thread::sleep(Duration::from_millis(300));
    let lives = server.0.try_wait().expect("a child").is_none();
    let mut given_back = false;
    if lives && reaction == "true" {
        let (status, page) = http_get(http, "/pressure");
        assert!(status.contains("200"), "{status}");
        println!("{}", page.lines().take(8).collect::<Vec<_>>().join(" "));
        given_back = page.contains("little is left under the control group's limit");
        // A few small items are all that is read: by the curve, most of the memory was worth nothing.
        let spare = page
            .lines()
            .filter_map(|line| line.trim().strip_prefix("\"spare_bytes_for_one_point\": "))
            .filter_map(|bytes| bytes.trim_end_matches(',').parse::<u64>().ok());
        let most = spare.max().unwrap_or(0);
        assert!(most > 32 * MIB, "the curve was not asked: {page}");
        assert!(page.contains("\"costs_points\": "), "{page}");
        // What is there still can be read.
        assert!(Client::connect(port).stat("curr_items") > 0);
    }
    drop(server);
    Some(Outcome {
        server_lives: lives,
        neighbour_finished: finished,
        given_back,
    })
}

fn fill(port: u16) {
    let mut client = Client::connect(port);
    let value = "v".repeat(100_000);
    for n in 0..2500 {
        client.send(format!("set key{n} 0 0 100000 noreply\r\n{value}\r\n"));
    }
    for n in 0..100 {
        client.send(format!("set small{n} 0 0 10 noreply\r\n0123456789\r\n"));
    }
    for _ in 0..150 {
        for n in 0..100 {
            client.send(format!("mg small{n} v q\r\n"));
        }
        client.send("mn\r\n");
        while client.text() != "MN" {}
    }
}

fn http_get(port: u16, path: &str) -> (String, String) {
    use std::io::{Read, Write};
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the admin door is open");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a timeout can be set");
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .expect("taken");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answered");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    (
        head.lines().next().unwrap_or_default().to_string(),
        body.to_string(),
    )
}

#[test]
fn with_the_reaction_on_nobody_is_killed() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut tries = 1..=TRIES;
    let outcome = loop {
        let last = tries.next();
        let Some(outcome) = together("on", "true") else {
            return;
        };
        if outcome.server_lives && outcome.neighbour_finished || last == Some(TRIES) {
            break outcome;
        }
        println!("try {last:?}: {outcome:?}");
    };
    assert!(
        outcome.server_lives && outcome.neighbour_finished,
        "{outcome:?}"
    );
    assert!(
        outcome.given_back,
        "the cache did not give anything back, so this shows nothing"
    );
}

#[test]
fn with_the_reaction_off_somebody_is_killed() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(outcome) = together("off", "false") else {
        return;
    };
    assert!(
        !outcome.server_lives || !outcome.neighbour_finished,
        "{outcome:?}"
    );
}

/// Takes memory in steps, keeps it for a moment, and ends well if it still can.
#[test]
#[ignore = "the neighbour of the other two"]
fn the_neighbour() {
    let Some(bytes) = std::env::var(CHILD)
        .ok()
        .and_then(|bytes| bytes.parse::<u64>().ok())
    else {
        return;
    };
    let mut held = Vec::new();
    for _ in 0..bytes / STEP {
        held.push(vec![1u8; STEP as usize]);
        std::thread::sleep(STEP_TIME);
    }
    std::thread::sleep(Duration::from_millis(500));
    assert!(held.iter().all(|step| step[step.len() - 1] == 1));
}
