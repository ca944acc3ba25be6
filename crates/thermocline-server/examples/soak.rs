//! A soak of the budget: sizes drift from 100 B to 100 kB and back, half of the items have a time to live, connections
//! come and go; and what the process has resident is held against what it was given.
//!
//! `cargo run --release -p thermocline-server --example soak -- [SECONDS] [MEBIBYTES] [serve's flags...]` (180, 256).
//! Prints a row every tenth of the time and a verdict; fails when VmHWM and hugetlb pages passed 1.02 of the budget.

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const BOUND: f64 = 1.02;
const WRITERS: u64 = 4;
/// A writer takes a new connection after so many requests.
const REQUESTS_PER_CONNECTION: u64 = 2_000;
const IDLE_CONNECTIONS: usize = 200;
/// The mean size goes up and down once in this time.
const DRIFT: Duration = Duration::from_secs(40);
const SIZE_MIN: f64 = 100.0;
const SIZE_SPAN: f64 = 1000.0;
const SIZE_MAX: usize = 200_000;
const KEYS: u64 = 2_000_000;
const TTL_MAX_S: u64 = 20;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|word| word == "serve") {
        return thermocline_server::cli::main();
    }
    match soak(&args[1..]) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::FAILURE
        }
    }
}

fn soak(args: &[String]) -> Result<bool> {
    let number = |at: usize, default: u64| args.get(at).map_or(Ok(default), |text| text.parse());
    let time = Duration::from_secs(number(0, 180)?.max(1));
    let mebibytes = number(1, 256)?;
    let (port, http) = (free_port()?, free_port()?);
    let server = Server::start(port, http, mebibytes, args.get(2..).unwrap_or_default())?;
    println!(
        "{mebibytes} MiB, {} s, sizes {SIZE_MIN} B to {} B",
        time.as_secs(),
        SIZE_MIN * SIZE_SPAN
    );
    println!(
        "     s  mean B    items  charged    index   ghosts   leased      RSS    VmHWM  of budget"
    );
    let begin = Instant::now();
    let stored = AtomicU64::new(0);
    let peak = std::thread::scope(|scope| {
        for number in 0..WRITERS {
            let stored = &stored;
            scope.spawn(move || {
                while begin.elapsed() < time {
                    // The server may be at its cap of connections for a moment.
                    let _again = write(port, number, begin, time, stored);
                }
            });
        }
        scope.spawn(move || {
            while begin.elapsed() < time {
                let idle: Vec<_> = (0..IDLE_CONNECTIONS).map(|_| connect(port)).collect();
                std::thread::sleep(Duration::from_millis(700));
                drop(idle);
            }
        });
        watch(&server, http, mebibytes, begin, time)
    })?;
    let share = peak as f64 / (mebibytes << 20) as f64;
    let kept = share <= BOUND;
    let verdict = if kept { "kept" } else { "NOT kept" };
    println!(
        "{} items stored; peak {share:.4} of the budget: {BOUND} {verdict}",
        stored.load(Relaxed)
    );
    Ok(kept)
}

/// Prints a row now and then; the most there ever was, bytes.
fn watch(
    server: &Server,
    http: u16,
    mebibytes: u64,
    begin: Instant,
    time: Duration,
) -> Result<u64> {
    let mut peak = 0;
    for row in 1..=10 {
        std::thread::sleep((time * row / 10).saturating_sub(begin.elapsed()));
        let page = metrics(http)?;
        let metric = |name: &str| {
            let line = page
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.trim().parse::<f64>().ok())
                .unwrap_or(0.0)
        };
        let mib = |name: &str| metric(name) / f64::from(1 << 20);
        let status = |name: &str| server.status_bytes(name).unwrap_or(0);
        peak = peak.max(status("VmHWM:") + status("HugetlbPages:"));
        println!(
            "{:6} {:7.0} {:8} {:8.1} {:8.1} {:8.1} {:8.1} {:8.1} {:8.1}     {:.4}",
            begin.elapsed().as_secs(),
            mean_size(begin),
            metric("thermocline_cache_items"),
            mib("thermocline_memory_charged_bytes"),
            mib("thermocline_index_bytes"),
            mib("thermocline_ghost_bytes"),
            mib("thermocline_memory_leased_bytes"),
            status("VmRSS:") as f64 / f64::from(1 << 20),
            status("VmHWM:") as f64 / f64::from(1 << 20),
            peak as f64 / (mebibytes << 20) as f64,
        );
    }
    Ok(peak)
}

fn mean_size(begin: Instant) -> f64 {
    let phase = begin.elapsed().as_secs_f64() / DRIFT.as_secs_f64() % 1.0;
    SIZE_MIN * SIZE_SPAN.powf(1.0 - (2.0 * phase - 1.0).abs())
}

/// One connection's worth of writes and reads.
fn write(port: u16, number: u64, begin: Instant, time: Duration, stored: &AtomicU64) -> Result<()> {
    let mut stream = connect(port)?;
    let payload = vec![b'p'; SIZE_MAX];
    let mut word = begin.elapsed().as_nanos() as u64 ^ number << 60 | 1;
    for _ in 0..REQUESTS_PER_CONNECTION {
        if begin.elapsed() > time {
            break;
        }
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        let bytes = (mean_size(begin) * (0.5 + (word >> 54) as f64 / 1024.0)) as usize;
        let bytes = bytes.min(SIZE_MAX);
        let ttl = if word & 1 == 0 {
            0
        } else {
            1 + word / 2 % TTL_MAX_S
        };
        let mut request =
            format!("set key{} 0 {ttl} {bytes} noreply\r\n", word % KEYS).into_bytes();
        request.extend_from_slice(&payload[..bytes]);
        request.extend_from_slice(b"\r\n");
        stream.write_all(&request)?;
        stored.fetch_add(1, Relaxed);
    }
    stream.write_all(b"mn\r\n")?;
    let mut answer = [0; 4];
    Ok(stream.read_exact(&mut answer)?)
}

fn connect(port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    Ok(stream)
}

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?
        .local_addr()?
        .port())
}

fn metrics(port: u16) -> Result<String> {
    let mut stream = connect(port)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}

/// The server under test: this program again. It ends with us.
struct Server(Child);

impl Server {
    fn start(port: u16, http: u16, mebibytes: u64, more: &[String]) -> Result<Server> {
        let child = Command::new(std::env::current_exe()?)
            .args(["serve", "--memory", &format!("{mebibytes}MiB")])
            .args(["--memcached", &format!("127.0.0.1:{port}")])
            .args(["--http", &format!("127.0.0.1:{http}")])
            .args(more)
            .stderr(Stdio::null())
            .spawn()?;
        let server = Server(child);
        let until = Instant::now() + Duration::from_secs(20);
        while connect(http).is_err() || connect(port).is_err() {
            if Instant::now() > until {
                return Err("the server does not listen".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// A figure of its /proc/PID/status, bytes.
    fn status_bytes(&self, name: &str) -> Option<u64> {
        let path = format!("/proc/{}/status", self.0.id());
        let text = std::fs::read_to_string(path).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _reaped_already = self.0.wait();
    }
}
