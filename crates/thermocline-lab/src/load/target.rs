//! Where the server is and which language it speaks: `memcached://host:port`, `redis://host:port`,
//! `unix:///path` (memcached), `redis+unix:///path`. Opens the sockets; sends nothing.

use anyhow::{bail, Context, Result};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

/// The family of protocol behind an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Memcached,
    Redis,
}

/// One server address.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    pub family: Family,
    pub place: Place,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// How long opening one connection may take before it counts as refused.
const CONNECT_MAX: Duration = Duration::from_secs(2);

impl Target {
    /// Reads one URL or several separated by commas (`memcached://a:1,b:2`): all of one family.
    pub fn parse_all(text: &str) -> Result<Vec<Target>> {
        let (family, rest, unix) = split_scheme(text)?;
        let mut targets = Vec::new();
        for part in rest.split(',').filter(|part| !part.is_empty()) {
            let place = if unix {
                Place::Unix(PathBuf::from(part))
            } else {
                Place::Tcp(resolve(part)?)
            };
            targets.push(Target { family, place });
        }
        if targets.is_empty() {
            bail!("`{text}` names no server; write memcached://127.0.0.1:11211 or unix:///run/cache.sock");
        }
        Ok(targets)
    }

    /// Opens a connection and makes it non-blocking.
    pub fn connect(&self) -> io::Result<Socket> {
        match &self.place {
            Place::Tcp(address) => {
                let stream = std::net::TcpStream::connect_timeout(address, CONNECT_MAX)?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                Ok(Socket::Tcp(mio::net::TcpStream::from_std(stream)))
            }
            Place::Unix(path) => {
                let stream = std::os::unix::net::UnixStream::connect(path)?;
                stream.set_nonblocking(true)?;
                Ok(Socket::Unix(mio::net::UnixStream::from_std(stream)))
            }
        }
    }
}

fn split_scheme(text: &str) -> Result<(Family, &str, bool)> {
    for (prefix, family, unix) in [
        ("memcached+unix://", Family::Memcached, true),
        ("memcached://", Family::Memcached, false),
        ("unix://", Family::Memcached, true),
        ("redis+unix://", Family::Redis, true),
        ("redis://", Family::Redis, false),
    ] {
        if let Some(rest) = text.strip_prefix(prefix) {
            return Ok((family, rest, unix));
        }
    }
    bail!("`{text}`: begin the address with memcached://, unix://, redis:// or redis+unix://")
}

fn resolve(text: &str) -> Result<SocketAddr> {
    text.to_socket_addrs()
        .with_context(|| format!("`{text}` is not host:port"))?
        .next()
        .with_context(|| format!("`{text}` resolves to no address"))
}

/// A non-blocking stream socket of either kind.
pub enum Socket {
    Tcp(mio::net::TcpStream),
    Unix(mio::net::UnixStream),
}

impl Socket {
    pub fn source(&mut self) -> &mut dyn mio::event::Source {
        match self {
            Socket::Tcp(stream) => stream,
            Socket::Unix(stream) => stream,
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(buffer),
            Socket::Unix(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let two = Target::parse_all("memcached://127.0.0.1:1,127.0.0.1:2").unwrap();
        assert_eq!(two.len(), 2);
        assert_eq!(two[1].place, Place::Tcp("127.0.0.1:2".parse().unwrap()));
        let unix = Target::parse_all("unix:///tmp/x.sock").unwrap();
        assert_eq!(unix[0].place, Place::Unix("/tmp/x.sock".into()));
        assert_eq!(
            Target::parse_all("redis://127.0.0.1:3").unwrap()[0].family,
            Family::Redis
        );
        for bad in [
            "127.0.0.1:1",
            "memcached://",
            "memcached://nohost",
            "http://a:1",
        ] {
            assert!(Target::parse_all(bad).is_err(), "{bad} passed");
        }
    }
}
