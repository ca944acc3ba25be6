//! `thermolab restart`: how long a stopped server takes to be back, and how much of the cache is there then. The command that
//! the warm-restart experiment measures.
//!
//! A server is started, filled, stopped, and started again; the time runs from the second start to its first answer to a
//! `get`, whatever that is. Then every key is asked for. Prints one figure a line: name, value.

use crate::servers::{beside_us, free_port};
use crate::units::parse_bytes;
use anyhow::{bail, Context, Result};
use clap::Args;
use rustix::process::{kill_process, Pid, Signal};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A start of 8 GiB without warm memory takes milliseconds, one that read its items would take seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Keys asked for in one request.
const BATCH: u64 = 100;

/// Fill a server, stop it, start it, and time its first answer
#[derive(Args, Debug)]
pub struct RestartOptions {
    /// The server's program, if not the one beside this one
    #[arg(long)]
    binary: Option<PathBuf>,
    /// What it may use
    #[arg(long, value_parser = parse_bytes, default_value = "1GiB", value_name = "SIZE")]
    memory: u64,
    /// Where its memory lies; without it the restart is cold
    #[arg(long, value_name = "DIR")]
    memory_dir: Option<PathBuf>,
    /// Bytes of a value
    #[arg(long, value_parser = parse_bytes, default_value = "1KiB", value_name = "SIZE")]
    value: u64,
    /// Share of the memory that is filled with values, percent
    #[arg(long, default_value_t = 75)]
    fill_percent: u64,
    /// Kill the server (-9) instead of stopping it
    #[arg(long)]
    kill: bool,
    /// More flags for the server
    #[arg(last = true)]
    flags: Vec<String>,
}

pub fn run(options: &RestartOptions) -> Result<()> {
    let items = options.memory / 100 * options.fill_percent.min(100) / options.value.max(1);
    let (server, _) = Server::start(options)?;
    server.fill(items, options.value as usize)?;
    let before = server.there(items)?;
    let begin = Instant::now();
    server.stop(options.kill)?;
    say("stop_s", format!("{:.4}", begin.elapsed().as_secs_f64()));
    let begin = Instant::now();
    let (server, stream) = Server::start(options)?;
    first_answer(stream)?;
    say(
        "first_answer_s",
        format!("{:.4}", begin.elapsed().as_secs_f64()),
    );
    let after = server.there(items)?;
    say("items_before", before);
    say("items_after", after);
    let share = after as f64 * 100.0 / before.max(1) as f64;
    say("items_there_percent", format!("{share:.4}"));
    server.stop(true)
}

fn first_answer(mut stream: BufReader<TcpStream>) -> Result<()> {
    stream.get_mut().write_all(b"get key0\r\n")?;
    let mut line = String::new();
    stream.read_line(&mut line)?;
    match line.starts_with("VALUE") || line.starts_with("END") {
        true => Ok(()),
        false => bail!("the server's first answer is {line:?}"),
    }
}

/// The server under test. Killed when dropped.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts it; with the first connection it took.
    fn start(options: &RestartOptions) -> Result<(Server, BufReader<TcpStream>)> {
        let port = free_port()?;
        let beside = beside_us("thermocline");
        let mut command = Command::new(options.binary.as_ref().unwrap_or(&beside));
        command
            .args(["serve", "--threads", "2", "--http", "none"])
            .args(["--memory", &options.memory.to_string()])
            .args(["--memory-max", &options.memory.to_string()])
            .args(["--memcached", &format!("127.0.0.1:{port}")]);
        if let Some(directory) = &options.memory_dir {
            command
                .args(["--page-mode", "shmem", "--memory-dir"])
                .arg(directory);
        }
        let child = command
            .args(&options.flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {:?}", command.get_program()))?;
        let mut server = Server { child, port };
        let until = Instant::now() + PATIENCE;
        loop {
            if let Ok(stream) = server.connect() {
                return Ok((server, stream));
            }
            if let Some(status) = server.child.try_wait()? {
                bail!("the server ended at its start: {status}");
            }
            if Instant::now() > until {
                bail!("the server does not listen");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn connect(&self) -> Result<BufReader<TcpStream>> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(BufReader::with_capacity(1 << 20, stream))
    }

    fn fill(&self, items: u64, value: usize) -> Result<()> {
        let mut stream = self.connect()?;
        let payload = vec![b'v'; value];
        let mut request = Vec::new();
        for n in 0..items {
            write!(request, "set key{n} 0 0 {value} noreply\r\n")?;
            request.extend_from_slice(&payload);
            request.extend_from_slice(b"\r\n");
            if request.len() > 1 << 18 || n + 1 == items {
                stream.get_mut().write_all(&request)?;
                request.clear();
            }
        }
        stream.get_mut().write_all(b"mn\r\n")?;
        let mut answer = String::new();
        stream.read_line(&mut answer)?;
        match answer.trim_end() {
            "MN" => Ok(()),
            other => bail!("the server was filled and says {other:?}"),
        }
    }

    /// How many of the keys are there, by asking for each.
    fn there(&self, items: u64) -> Result<u64> {
        let mut stream = self.connect()?;
        let mut there = 0;
        for first in (0..items).step_by(BATCH as usize) {
            let mut request = String::new();
            for n in first..(first + BATCH).min(items) {
                request += &format!("mg key{n}\r\n");
            }
            stream.get_mut().write_all(request.as_bytes())?;
            stream.get_mut().write_all(b"mn\r\n")?;
            loop {
                let mut line = String::new();
                stream.read_line(&mut line)?;
                match line.trim_end() {
                    "HD" => there += 1,
                    "EN" => {}
                    "MN" => break,
                    other => bail!("asked whether a key is there, the server says {other:?}"),
                }
            }
        }
        Ok(there)
    }

    /// Ends it and waits for that.
    fn stop(mut self, kill: bool) -> Result<()> {
        let signal = if kill { Signal::KILL } else { Signal::TERM };
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).context("ending the server")?;
        let status = self.child.wait()?;
        anyhow::ensure!(kill || status.success(), "the server ended badly: {status}");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}

fn say(name: &str, value: impl std::fmt::Display) {
    println!("{name} {value}");
}
