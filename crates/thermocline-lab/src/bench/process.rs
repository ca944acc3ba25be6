//! Servers under measurement: started on a free loopback port or a unix socket of their own, waited for, and
//! ended with the handle. Ends nothing it did not start.

use crate::servers::free_port;
use anyhow::{bail, Context, Result};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to accept its first connection.
const START_MAX: Duration = Duration::from_secs(20);

/// The servers compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    Thermocline,
    Memcached,
    Redis,
}

impl Product {
    pub fn name(self) -> &'static str {
        match self {
            Product::Thermocline => "thermocline",
            Product::Memcached => "memcached",
            Product::Redis => "redis",
        }
    }
}

/// A running server.
pub struct Server {
    pub product: Product,
    port: u16,
    child: Child,
}

impl Server {
    /// Starts `binary` with one worker thread and `memory_mib` of memory.
    pub fn start(product: Product, binary: &Path, memory_mib: u64) -> Result<Server> {
        let port = free_port()?;
        let mut command = Command::new(binary);
        match product {
            Product::Thermocline => {
                command.args(["serve", "--threads", "1"]);
                command.arg("--memory").arg(format!("{memory_mib}MiB"));
                command.arg("--memcached").arg(format!("127.0.0.1:{port}"));
                command
                    .arg("--http")
                    .arg(format!("127.0.0.1:{}", free_port()?));
            }
            Product::Memcached => {
                command.args(["-l", "127.0.0.1", "-t", "1", "-u", "root", "-c", "1024"]);
                command.arg("-m").arg(memory_mib.to_string());
                command.arg("-p").arg(port.to_string());
            }
            Product::Redis => {
                command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
                command.args(["--maxmemory-policy", "allkeys-lru"]);
                command.arg("--maxmemory").arg(format!("{memory_mib}mb"));
                command.arg("--port").arg(port.to_string());
            }
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let mut server = Server {
            product,
            port,
            child,
        };
        server.wait_until_it_accepts(binary)?;
        Ok(server)
    }

    fn wait_until_it_accepts(&mut self, binary: &Path) -> Result<()> {
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!(
                    "{} ended with {status} before it listened; run it by hand to see why",
                    binary.display()
                );
            }
            if start.elapsed() > START_MAX {
                bail!("{} does not listen on port {}", binary.display(), self.port);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn url(&self) -> String {
        let scheme = match self.product {
            Product::Redis => "redis",
            _ => "memcached",
        };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// A number from the `stats` of a memcached-speaking server.
    pub fn stat(&self, name: &str) -> Result<u64> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(b"stats\r\n")?;
        for line in BufReader::new(stream).lines() {
            let line = line?;
            if line == "END" {
                break;
            }
            let mut words = line.split(' ').skip(1);
            if words.next() == Some(name) {
                let value = words.next().unwrap_or_default();
                return value
                    .parse()
                    .with_context(|| format!("stats says {name} {value}"));
            }
        }
        bail!("{} has no stat {name}", self.product.name())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already ended is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
