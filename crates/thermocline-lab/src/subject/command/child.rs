//! Running a shell text to its end: joined to its cgroup before it does anything, in a process group of its own, ended at a
//! time limit or when the user interrupts, its output read as it comes.

use super::output::Reader;
use crate::knob::interrupted;
use crate::root::Root;
use anyhow::{Context, Result};
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{sync_channel, RecvTimeoutError};
use std::time::{Duration, Instant};

/// What is kept of the error output for messages, bytes.
const LAST_WORDS_BYTES: usize = 2 << 10;
/// How often the limit and the interrupt are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// After the end of the command, how long its output may stay open: a child of its own may hold it.
const DRAIN: Duration = Duration::from_secs(5);
/// What the shell exits with when it cannot join the cgroup.
const CANNOT_JOIN: i32 = 125;

/// How it ended.
#[derive(Clone, Debug)]
pub struct Ended {
    pub status: ExitStatus,
    /// `exit 0`, `signal 9`, `time limit`, `interrupted`.
    pub how: String,
    /// By us, not by itself.
    pub was_stopped: bool,
    pub seconds: f64,
    pub last_words: String,
}

impl Ended {
    pub fn is_success(&self) -> bool {
        self.status.success() && !self.was_stopped
    }
}

/// A shell that joins the groups whose member files are given and then becomes the program named by further arguments.
pub fn cgroup_shell(root: &Root, members: &[String]) -> Command {
    let mut command = Command::new("/bin/sh");
    let join = format!("while [ \"$1\" != -- ]; do echo $$ > \"$1\" || exit {CANNOT_JOIN}; shift; done; shift; exec \"$@\"");
    command.args(["-c", &join, "thermolab"]);
    command.args(members.iter().map(|file| root.path(file)));
    command.arg("--");
    command
}

pub fn run(
    root: &Root,
    members: &[String],
    text: &str,
    limit: Option<Duration>,
    reader: &mut Reader,
) -> Result<Ended> {
    let mut command = cgroup_shell(root, members);
    command
        .args(["/bin/sh", "-c", text])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let started = Instant::now();
    let mut child = command.spawn().context("starting /bin/sh")?;
    // One channel of bounded depth: a command that prints faster than patterns are tried waits in its pipe.
    let (sender, receiver) = sync_channel(16);
    let out = child.stdout.take().context("the command's output")?;
    let err = child.stderr.take().context("the command's error output")?;
    let errors = sender.clone();
    std::thread::spawn(move || pump(out, |bytes| sender.send((false, bytes)).is_ok()));
    std::thread::spawn(move || pump(err, |bytes| errors.send((true, bytes)).is_ok()));
    let mut last_words = Vec::new();
    let mut status = None;
    let mut seconds = 0.0;
    let mut stopped = None;
    let mut ended_at = started;
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok((is_error, bytes)) => {
                reader.take(&bytes);
                if is_error {
                    last_words.extend_from_slice(&bytes);
                    let over = last_words.len().saturating_sub(LAST_WORDS_BYTES);
                    last_words.drain(..over);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) if status.is_some() => break,
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK / 10),
        }
        if status.is_none() {
            status = child.try_wait().context("waiting for the command")?;
            seconds = started.elapsed().as_secs_f64();
            ended_at = Instant::now();
            let over = limit.is_some_and(|limit| started.elapsed() > limit);
            if status.is_none() && stopped.is_none() && (over || interrupted()) {
                stopped = Some(if over { "time limit" } else { "interrupted" });
                end_group(&mut child);
            }
        } else if ended_at.elapsed() > DRAIN {
            break;
        }
    }
    // What it left behind in the background has no place in the next point.
    end_group(&mut child);
    let status = status.context("the command's status")?;
    Ok(Ended {
        status,
        how: stopped.map_or_else(|| how(status), str::to_string),
        was_stopped: stopped.is_some(),
        seconds,
        last_words: words(&last_words),
    })
}

fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(CANNOT_JOIN), _) => format!("exit {CANNOT_JOIN} (could not join its cgroup?)"),
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".into(),
    }
}

fn words(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    match lines.len() {
        0 => "it wrote nothing to its error output".into(),
        count => lines[count.saturating_sub(3)..].join(" | "),
    }
}

/// Kills the process group that the child leads; gone already is fine.
fn end_group(child: &mut Child) {
    if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
}

/// Hands on what can be read until there is no more, or nobody to take it.
fn pump(mut from: impl Read, send: impl Fn(Vec<u8>) -> bool) {
    let mut piece = vec![0; 64 << 10];
    while let Ok(bytes) = from.read(&mut piece) {
        if bytes == 0 || !send(piece[..bytes].to_vec()) {
            break;
        }
    }
}
