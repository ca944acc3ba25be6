//! Where to listen: `ADDR:PORT` (IPv4, `[IPv6]`, or a host name) or `unix:PATH`.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listen {
    Tcp(String),
    Unix(PathBuf),
}

impl Listen {
    pub fn tcp(address: &str) -> Listen {
        Listen::Tcp(address.to_string())
    }

    /// Refuses what can never be an address; whether a host name resolves is found out when binding.
    pub fn parse(text: &str) -> Result<Listen, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("unix: needs a path, for example unix:/run/thermocline.sock".into()),
                path => Ok(Listen::Unix(path.into())),
            };
        }
        let port = text.rsplit_once(':').map(|(_, port)| port);
        match port.map(str::parse::<u16>) {
            Some(Ok(_)) => Ok(Listen::Tcp(text.to_string())),
            _ => Err(format!(
                "{text:?} is no listener: write ADDR:PORT, [IPV6]:PORT or unix:PATH"
            )),
        }
    }

    /// All addresses a TCP listener stands for.
    pub fn resolve(address: &str) -> std::io::Result<Vec<SocketAddr>> {
        let mut addresses: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
        addresses.dedup();
        Ok(addresses)
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => f.write_str(address),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart() {
        for good in ["127.0.0.1:1", "[::1]:11211", "localhost:0", "unix:/tmp/x"] {
            assert_eq!(Listen::parse(good).unwrap().to_string(), good);
        }
        for bad in ["", "127.0.0.1", "host:", "host:70000", "unix:"] {
            assert!(Listen::parse(bad).is_err(), "{bad}");
        }
    }
}
