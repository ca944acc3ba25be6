//! Listening sockets, TCP (v4, v6) and unix.
//!
//! Must hold: an address in use is an error that names the address; a stale unix socket file is replaced only after
//! a connection to it was refused, so that a running server is never robbed of its socket.

use crate::config::Listen;
use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use super::Stream;

/// A bound, non-blocking listener and where it really listens.
#[derive(Debug)]
pub struct Bound {
    pub socket: BoundSocket,
    pub place: String,
}

#[derive(Debug)]
pub enum BoundSocket {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener, SocketFile),
}

/// The name of a unix socket in the file system; removed with its listener, unless it has been handed over.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    handed: Arc<AtomicBool>,
}

impl SocketFile {
    pub fn new(path: &Path, handed: Arc<AtomicBool>) -> SocketFile {
        SocketFile {
            path: path.to_path_buf(),
            handed,
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if !self.handed.load(Ordering::SeqCst) {
            // Gone already is as good as removed.
            let _gone = fs::remove_file(&self.path);
        }
    }
}

/// A listener in an event loop.
#[derive(Debug)]
pub enum Listening {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// An error of a listener, with what to do about it.
pub fn named(listen: &Listen, error: io::Error) -> io::Error {
    let hint = match error.kind() {
        ErrorKind::AddrInUse => "; another server runs there: stop it or choose another place",
        ErrorKind::PermissionDenied => "; this user may not listen there",
        _ => "",
    };
    io::Error::new(
        error.kind(),
        format!("cannot listen on {listen}: {error}{hint}"),
    )
}

pub fn bind_tcp(address: SocketAddr, backlog: i32) -> io::Result<Bound> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // Else [::] would take the IPv4 port too and a second listener there would fail.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    let listener: std::net::TcpListener = socket.into();
    let place = listener.local_addr()?.to_string();
    Ok(Bound {
        socket: BoundSocket::Tcp(listener),
        place,
    })
}

pub fn bind_unix(
    path: &Path,
    backlog: i32,
    mode: u32,
    handed: Arc<AtomicBool>,
) -> io::Result<Bound> {
    remove_stale(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    socket.listen(backlog)?;
    Ok(Bound {
        socket: BoundSocket::Unix(socket.into(), SocketFile::new(path, handed)),
        place: format!("unix:{}", path.display()),
    })
}

fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(facts) if facts.file_type().is_socket() => match knock(path) {
            Ok(_) => Err(ErrorKind::AddrInUse.into()),
            // Whatever else keeps us from connecting says nothing about who listens there.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
            // Its queue is full.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(ErrorKind::AddrInUse.into()),
            Err(error) => Err(error),
        },
        Ok(_) => Err(io::Error::new(
            ErrorKind::AlreadyExists,
            "a file that is no socket is in the way",
        )),
        Err(_) => Ok(()),
    }
}

/// Connects without waiting: a server that is stuck would keep us for ever.
fn knock(path: &Path) -> io::Result<()> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)
}

impl Bound {
    /// For the event loop.
    pub fn listening(self) -> Listening {
        match self.socket {
            BoundSocket::Tcp(listener) => Listening::Tcp(TcpListener::from_std(listener)),
            BoundSocket::Unix(listener, file) => {
                Listening::Unix(UnixListener::from_std(listener), file)
            }
        }
    }
}

impl Listening {
    /// The next waiting connection, its peer's name, ready for the event loop.
    pub fn accept(&self) -> io::Result<(Stream, String)> {
        match self {
            Listening::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                // Replies are written whole: waiting to fill a packet only costs time.
                stream.set_nodelay(true)?;
                // A peer that vanished without a word is noticed in the end.
                SockRef::from(&stream).set_keepalive(true)?;
                Ok((Stream::Tcp(stream), format!("tcp:{peer}")))
            }
            Listening::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                Ok((Stream::Unix(stream), "unix".to_string()))
            }
        }
    }

    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Listening::Tcp(listener) => listener.register(registry, token, Interest::READABLE),
            Listening::Unix(listener, _) => listener.register(registry, token, Interest::READABLE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(listen: &Listen, backlog: i32, mode: u32) -> io::Result<Vec<Bound>> {
        let bound = match listen {
            Listen::Tcp(address) => Listen::resolve(address)?
                .into_iter()
                .map(|address| bind_tcp(address, backlog))
                .collect(),
            Listen::Unix(path) => {
                bind_unix(path, backlog, mode, Arc::default()).map(|bound| vec![bound])
            }
        };
        bound.map_err(|error| named(listen, error))
    }

    #[test]
    fn a_port_in_use_is_named() {
        let first = bind(&Listen::tcp("127.0.0.1:0"), 8, 0o700).unwrap();
        let place = first[0].place.clone();
        let error = bind(&Listen::tcp(&place), 8, 0o700)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&place) && error.contains("another server"),
            "{error}"
        );
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let path = std::env::temp_dir().join(format!("thermocline-stale-{}", std::process::id()));
        let listen = Listen::Unix(path.clone());
        let first = bind(&listen, 8, 0o600).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(
            bind(&listen, 8, 0o700).unwrap_err().kind(),
            ErrorKind::AddrInUse
        );
        drop(first);
        assert!(!path.exists());
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(
            path.exists(),
            "the standard listener leaves its file behind"
        );
        drop(bind(&listen, 8, 0o700).unwrap());
        // Somebody uses it, though no stream can be connected to it: like a server that we may not reach.
        let other = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        assert!(bind(&listen, 8, 0o700).is_err() && path.exists());
        drop(other);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        assert!(bind(&listen, 8, 0o700).is_err());
        fs::remove_file(&path).unwrap();
    }
}
