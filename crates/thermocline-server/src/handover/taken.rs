//! The next server's side: asking the running one for its sockets, and telling it when to go.

use super::door::say;
use super::wire::{self, Named};
use crate::net::{Bound, BoundSocket, SocketFile};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

const TALK_MAX: Duration = Duration::from_secs(5);
/// The running server drains and writes its books in this time, or is not waited for.
const GONE_MAX: Duration = Duration::from_secs(300);

/// Sockets of the server that still runs.
pub struct Taken {
    running: UnixStream,
    sockets: Vec<Named>,
}

impl Taken {
    /// None: nobody is there to take over from.
    pub fn ask(path: &Path) -> io::Result<Option<Taken>> {
        let running = match UnixStream::connect(path) {
            Ok(running) => running,
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::ConnectionRefused
                ) =>
            {
                return Ok(None)
            }
            Err(error) => return Err(named(path, error)),
        };
        running.set_read_timeout(Some(TALK_MAX))?;
        running.set_write_timeout(Some(TALK_MAX))?;
        say(&running, wire::ASK).map_err(|error| named(path, error))?;
        let sockets = wire::receive_sockets(&running).map_err(|error| named(path, error))?;
        Ok(Some(Taken { running, sockets }))
    }

    /// The running server's socket for this address, if it has one.
    pub fn tcp(&mut self, setting: &str, address: SocketAddr) -> io::Result<Option<Bound>> {
        let place = address.to_string();
        let Some(socket) = self.take(setting, &place) else {
            return Ok(None);
        };
        let listener = TcpListener::from(socket);
        listener.set_nonblocking(true)?;
        Ok(Some(Bound {
            socket: BoundSocket::Tcp(listener),
            place,
        }))
    }

    /// The same for a unix socket; its name in the file system is ours from now on.
    pub fn unix(
        &mut self,
        setting: &str,
        path: &Path,
        handed: &Arc<AtomicBool>,
    ) -> io::Result<Option<Bound>> {
        let place = format!("unix:{}", path.display());
        let Some(socket) = self.take(setting, &place) else {
            return Ok(None);
        };
        let listener = UnixListener::from(socket);
        listener.set_nonblocking(true)?;
        let file = SocketFile::new(path, handed.clone());
        Ok(Some(Bound {
            socket: BoundSocket::Unix(listener, file),
            place,
        }))
    }

    fn take(&mut self, setting: &str, place: &str) -> Option<std::os::fd::OwnedFd> {
        let name = format!("{setting} {place}");
        let at = self.sockets.iter().position(|(other, _)| *other == name)?;
        Some(self.sockets.swap_remove(at).1)
    }

    /// We serve: the running server may go. Sockets we have no use for are closed.
    pub fn ready(self) -> io::Result<()> {
        say(&self.running, wire::READY)
    }

    /// Asks the running server to go and waits until it has.
    pub fn wait_until_gone(&self) -> io::Result<()> {
        say(&self.running, wire::STOP)?;
        wire::read_line(&self.running, GONE_MAX).map(|_| ())
    }
}

fn named(path: &Path, error: io::Error) -> io::Error {
    let text = format!(
        "handover {}: the running server does not hand over: {error}",
        path.display()
    );
    io::Error::new(error.kind(), text)
}
