//! The cache beside the neighbour: started, filled and asked in its own protocol.

use super::{NeighbourOptions, Product};
use crate::machine;
use crate::servers::{beside_us, free_port};
use anyhow::{bail, Context, Result};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

pub struct Cache {
    product: Product,
    child: Child,
    port: u16,
}

impl Cache {
    /// Starts it and waits until it accepts connections.
    pub fn start(product: Product, options: &NeighbourOptions) -> Result<Cache> {
        let port = free_port()?;
        let mut command = command(product, options, port)?;
        let child = command
            .args(&options.flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {:?}", command.get_program()))?;
        let mut cache = Cache {
            product,
            child,
            port,
        };
        let until = Instant::now() + PATIENCE;
        while cache.connect().is_err() {
            if let Some(status) = cache.child.try_wait()? {
                bail!("{product:?} ended at its start: {status}");
            }
            if Instant::now() > until {
                bail!("{product:?} does not listen");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(cache)
    }

    fn connect(&self) -> Result<BufReader<TcpStream>> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(BufReader::new(stream))
    }

    /// Writes values of `value` bytes until `bytes` were written.
    pub fn fill(&self, bytes: u64, value: usize) -> Result<()> {
        let mut stream = self.connect()?;
        let payload = vec![b'v'; value];
        for n in 0..bytes / value.max(1) as u64 {
            let key = format!("key{n}");
            let head = match self.product {
                Product::Redis => {
                    format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${value}\r\n", key.len())
                }
                _ => format!("set {key} 0 0 {value}\r\n"),
            };
            let out = stream.get_mut();
            out.write_all(head.as_bytes())?;
            out.write_all(&payload)?;
            out.write_all(b"\r\n")?;
            let mut answer = String::new();
            stream.read_line(&mut answer)?;
            if !matches!(answer.trim_end(), "STORED" | "+OK") {
                bail!("{:?} does not store: {}", self.product, answer.trim_end());
            }
        }
        Ok(())
    }

    /// Items it says it has.
    pub fn items(&self) -> Result<u64> {
        let mut stream = self.connect()?;
        let (request, prefix) = match self.product {
            Product::Redis => ("DBSIZE\r\n", ":"),
            _ => ("stats\r\n", "STAT curr_items "),
        };
        stream.get_mut().write_all(request.as_bytes())?;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line)? == 0 || line.starts_with("END") {
                bail!("{:?} does not say how many items it has", self.product);
            }
            if let Some(count) = line.strip_prefix(prefix) {
                return count.trim().parse().context("a number of items");
            }
        }
    }

    /// Whether the process is still there.
    pub fn lives(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Its resident memory; 0 when it is gone.
    pub fn resident_bytes(&self) -> u64 {
        machine::resident_bytes(self.child.id()).unwrap_or(0)
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}

fn command(product: Product, options: &NeighbourOptions, port: u16) -> Result<Command> {
    let memory = options.memory;
    let mebibytes = (memory >> 20).to_string();
    let (program, words): (&str, Vec<String>) = match product {
        Product::Thermocline => (
            "thermocline",
            vec![
                "serve".into(),
                "--memory".into(),
                memory.to_string(),
                "--threads".into(),
                "2".into(),
                "--memcached".into(),
                format!("127.0.0.1:{port}"),
                "--http".into(),
                "none".into(),
            ],
        ),
        Product::Memcached => {
            let words = ["-u", "nobody", "-l", "127.0.0.1", "-t", "2", "-m", &mebibytes, "-p"];
            let words = words.into_iter().map(String::from);
            ("memcached", words.chain([port.to_string()]).collect())
        }
        Product::Redis => (
            "redis-server",
            format!(
                "--bind 127.0.0.1 --port {port} --appendonly no --maxmemory {memory} --maxmemory-policy allkeys-lru --save"
            )
            .split(' ')
            .map(String::from)
            .chain([String::new()])
            .collect(),
        ),
    };
    let mut command = Command::new(match &options.binary {
        Some(binary) => binary.into(),
        None => beside_us(program),
    });
    command.args(words);
    Ok(command)
}
