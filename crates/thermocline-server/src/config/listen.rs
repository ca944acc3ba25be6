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

/// Two listeners that would want the same place, as a message. Names are resolved; what does not resolve is found out
/// when binding. Each list comes with the setting it belongs to.
pub fn twice(lists: &[(&str, &[Listen])]) -> Option<String> {
    let mut seen: Vec<(Place, &Listen, &str)> = Vec::new();
    for (setting, listeners) in lists {
        for listen in *listeners {
            for place in places(listen) {
                let other = seen.iter().find(|(other, ..)| overlap(other, &place));
                if let Some((_, other, other_setting)) = other {
                    return Some(match other == &listen && other_setting == setting {
                        true => format!("{setting}: {listen} is named twice"),
                        false => format!(
                            "{setting}: {listen} is where {other_setting} listens already ({other}): take one of them away"
                        ),
                    });
                }
                seen.push((place, listen, setting));
            }
        }
    }
    None
}

#[derive(PartialEq, Eq)]
enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

fn places(listen: &Listen) -> Vec<Place> {
    match listen {
        Listen::Unix(path) => vec![Place::Unix(path.clone())],
        Listen::Tcp(address) => {
            let addresses = Listen::resolve(address).unwrap_or_default();
            addresses.into_iter().map(Place::Tcp).collect()
        }
    }
}

/// All addresses of a port include each of them; port 0 is another one each time.
fn overlap(one: &Place, other: &Place) -> bool {
    match (one, other) {
        (Place::Tcp(one), Place::Tcp(other)) => {
            let wild = one.ip().is_unspecified() || other.ip().is_unspecified();
            one.port() != 0
                && one.port() == other.port()
                && one.is_ipv4() == other.is_ipv4()
                && (wild || one.ip() == other.ip())
        }
        _ => one == other,
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
    fn a_place_named_twice_is_found() {
        let list = |text: &str| -> Vec<Listen> {
            let parse = |part| Listen::parse(part).unwrap();
            text.split(',').map(parse).collect()
        };
        let check = |memcached: &str, http: &str| {
            twice(&[("memcached", &list(memcached)), ("http", &list(http))])
        };
        let http = "127.0.0.1:9191";
        assert_eq!(
            check("127.0.0.1:1,127.0.0.1:1", http).unwrap(),
            "memcached: 127.0.0.1:1 is named twice"
        );
        let text = check("0.0.0.0:1,127.0.0.1:1", http).unwrap();
        assert!(text.contains("(0.0.0.0:1)"), "{text}");
        let text = check("127.0.0.1:9191", http).unwrap();
        assert!(
            text.starts_with("http: ") && text.contains("memcached listens"),
            "{text}"
        );
        assert!(check("unix:/a,unix:/a", http).is_some());
        for fine in [
            "127.0.0.1:1,127.0.0.2:1",
            "0.0.0.0:1,[::]:1",
            "127.0.0.1:0,127.0.0.1:0",
            "unix:/a,unix:/b",
        ] {
            assert_eq!(check(fine, http), None, "{fine}");
        }
    }

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
