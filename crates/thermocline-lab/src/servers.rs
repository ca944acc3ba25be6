//! What starting a server on this machine needs: a port, and where its program lies.

use anyhow::{Context, Result};
use socket2::{Domain, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below what Linux gives to outgoing connections (`ip_local_port_range`): there, who asks too early whether the server
/// is up may be connected to itself.
const FIRST_PORT: u32 = 12_000;
const PORTS: u32 = 18_000;

/// A loopback port nobody listens on now. No two calls of a process, and hardly two processes, get the same.
///
/// The port is tried by a socket that is bound and does not listen: a child that another thread starts just then holds
/// our sockets until it becomes its program, and would be taken for the server.
pub fn free_port() -> Result<u16> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    for _ in 0..PORTS {
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        let port = FIRST_PORT + std::process::id().wrapping_mul(97).wrapping_add(call) % PORTS;
        let port = port as u16;
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).context("a socket")?;
        socket.set_reuse_address(true).context("a socket")?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if socket.bind(&address.into()).is_ok() {
            return Ok(port);
        }
    }
    anyhow::bail!("no free port on loopback from {FIRST_PORT} on")
}

/// The program of this name beside our own, where both were built; else the name, for `PATH` to find.
pub fn beside_us(program: &str) -> PathBuf {
    let own = std::env::current_exe().ok();
    own.map(|own| own.with_file_name(program))
        .filter(|path| path.is_file())
        .unwrap_or_else(|| program.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    /// Of each of two threads; starting them takes about as long as the tries.
    const CHILDREN: usize = 300;
    const TRIES: usize = 6_000;

    #[test]
    fn a_free_port_can_be_listened_on_and_is_not_yet() {
        let port = free_port().unwrap();
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert_ne!(port, free_port().unwrap());
    }

    /// Children of other threads have our sockets for a moment; none may answer for a server that is not there.
    #[test]
    fn nobody_answers_on_a_free_port_while_children_are_started() {
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..CHILDREN {
                        let child = std::process::Command::new("true").status();
                        assert!(child.unwrap().success());
                    }
                });
            }
            let answered: Vec<u16> = (0..TRIES)
                .map(|_| free_port().unwrap())
                .filter(|&port| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())
                .collect();
            assert!(answered.is_empty(), "{answered:?}");
        });
    }
}
