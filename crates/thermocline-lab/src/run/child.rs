//! A point in a process of its own: peak memory, allocator state and threads of one arm cannot colour the next, and
//! an engine that crashes takes its point with it, not the run.
//!
//! The child reads its assignment from standard input, writes events as lines, and waits for a line back after each.
//! It dies with its parent.

use super::around::Around;
use super::event::{Event, Listener};
use super::take::{take, Assignment};
use crate::point::{PointLine, Status};
use crate::root::Root;
use crate::subject::cgroup_shell;
use crate::subject::last_words::{last_words, obituary};
use anyhow::{bail, Context, Result};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::Duration;

/// The hidden verb.
pub const VERB: &str = "take-point";
/// How often the runner looks up while a child works.
const TICK: Duration = Duration::from_millis(100);

/// The child's side: takes the point it is told.
pub fn serve() -> Result<()> {
    die_with_parent();
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .context("no assignment on standard input")?;
    let assignment: Assignment =
        serde_json::from_str(&line).context("the assignment is not valid")?;
    let point = take(&assignment, &mut Pipe);
    say(&Event::Taken(Box::new(point)))
}

/// Ends this process when the one that started it ends.
pub fn die_with_parent() {
    use rustix::process::{set_parent_process_death_signal, Signal};
    // Without it a killed run may leave a process behind until its point is over.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

fn say(event: &Event) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, event)?;
    out.write_all(b"\n")?;
    out.flush().context("nobody listens any more")
}

/// Events through standard output.
struct Pipe;

impl Listener for Pipe {
    fn hear(&mut self, event: Event) -> Result<()> {
        say(&event)?;
        let mut answer = String::new();
        if std::io::stdin().lock().read_line(&mut answer)? == 0 {
            bail!("the run that started this point has ended");
        }
        Ok(())
    }
}

/// How a child's point came out.
pub enum Outcome {
    Taken(Box<PointLine>),
    /// The user asked the run to end.
    Interrupted,
}

/// The runner's side: has `binary` take the point, and listens. The child is a member of the groups whose files are
/// in `joins` before it does anything: an engine lives in the process that measures it.
pub fn in_child(
    binary: &Path,
    assignment: &Assignment,
    joins: &[String],
    around: &mut Around<'_>,
) -> Result<Outcome> {
    let mut child = cgroup_shell(&Root::live(), joins)
        .arg(binary)
        .arg(VERB)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", binary.display()))?;
    let words = last_words(child.stderr.take().context("a pipe was asked for")?);
    let events = lines(child.stdout.take().context("a pipe was asked for")?);
    let told = tell(&mut child, &serde_json::to_string(assignment)?);
    let outcome = told.and_then(|()| listen(&mut child, &events, around));
    // Ended or not: what is left of it goes now.
    let _ = child.kill();
    let status = child.wait().context("the child cannot be waited for")?;
    match outcome {
        Ok(Some(outcome)) => Ok(outcome),
        Ok(None) => {
            // Ctrl-C reaches both processes; this one may be the later to notice.
            std::thread::sleep(TICK);
            let words = words
                .recv_timeout(Duration::from_secs(5))
                .unwrap_or_default();
            bail!(obituary("the measuring process", status, &words))
        }
        Err(error) => Err(error),
    }
}

fn tell(child: &mut Child, line: &str) -> Result<()> {
    let stdin = child.stdin.as_mut().context("a pipe was asked for")?;
    stdin
        .write_all(format!("{line}\n").as_bytes())
        .and_then(|()| stdin.flush())
        .context("the measuring process does not listen")
}

/// `None`: it ended without a point.
fn listen(
    child: &mut Child,
    events: &Receiver<Event>,
    around: &mut Around<'_>,
) -> Result<Option<Outcome>> {
    loop {
        match events.recv_timeout(TICK) {
            Ok(Event::Taken(point)) => return Ok(Some(Outcome::Taken(point))),
            Ok(event) => {
                around.hear(event)?;
                if tell(child, "").is_err() {
                    return Ok(None);
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                if around.hooks.is_interrupted() {
                    return Ok(Some(Outcome::Interrupted));
                }
                around.tick()?;
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
}

/// Events as they come; whatever else a library prints is passed over.
fn lines(output: impl Read + Send + 'static) -> Receiver<Event> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let Ok(line) = line else {
                break;
            };
            if let Ok(event) = serde_json::from_str(&line) {
                if sender.send(event).is_err() {
                    break;
                }
            }
        }
    });
    receiver
}

/// The point of an assignment whose process came to no end of its own.
pub fn lost(assignment: &Assignment, status: Status, reason: String) -> PointLine {
    PointLine {
        index: assignment.planned.index,
        block: assignment.planned.block,
        arm: assignment.planned.arm.clone(),
        params: assignment.planned.params.clone(),
        status,
        reason: Some(reason),
        started: super::clock::stamp(),
        ..PointLine::default()
    }
}
