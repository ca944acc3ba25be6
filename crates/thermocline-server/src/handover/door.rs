//! The running server's side: a unix socket at which the next server asks for the listening sockets.

use super::wire::{self, Named};
use crate::net::{Bound, BoundSocket};
use crate::shared::{Shared, Stop};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use rustix::net::sockopt::socket_peercred;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// The next server may take so long to say that it is ready: it may have gigabytes to touch.
const READY_MAX: Duration = Duration::from_secs(300);
/// A line or a message takes so long at most: others who knock wait for less than they would bear.
const TALK_MAX: Duration = Duration::from_secs(2);
/// Next servers that have the sockets and are starting: whoever is ready first takes over. More than two is a mistake.
const ASKED_MAX: usize = 4;

/// The thread at the door; dropped, it ends and lets go of the sockets.
pub struct Door {
    /// Closing it wakes the thread.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<Option<UnixStream>>>,
}

/// Duplicates of the listeners, to be handed over. They keep the sockets open: let go of them in time.
pub fn duplicates(setting: &str, bound: &[Bound]) -> io::Result<Vec<Named>> {
    bound
        .iter()
        .map(|bound| {
            let socket: OwnedFd = match &bound.socket {
                BoundSocket::Tcp(listener) => listener.try_clone()?.into(),
                BoundSocket::Unix(listener, _) => listener.try_clone()?.into(),
            };
            Ok((format!("{setting} {}", bound.place), socket))
        })
        .collect()
}

impl Door {
    /// Listens at `path`. A name that is there already is replaced in one step: it was the last server's.
    pub fn open(
        path: &Path,
        sockets: Vec<Named>,
        shared: Arc<Shared>,
        handed: Arc<AtomicBool>,
    ) -> io::Result<Door> {
        let name = |error: io::Error| {
            io::Error::new(
                error.kind(),
                format!("handover {}: {error}", path.display()),
            )
        };
        let listener = listen(path).map_err(name)?;
        let (stop, stopped) = UnixStream::pair()?;
        let door = Inside {
            listener,
            path: path.to_path_buf(),
            sockets,
            stopped,
            shared,
            handed,
        };
        let thread = Builder::new()
            .name("handover".into())
            .spawn(move || door.run())?;
        Ok(Door {
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Ends the thread. What comes back is to be kept until the process has left everything behind: its end tells the
    /// next server that we are gone.
    pub fn close(mut self) -> Option<UnixStream> {
        self.end()
    }

    fn end(&mut self) -> Option<UnixStream> {
        drop(self.stop.take());
        let next = self.thread.take()?.join();
        next.unwrap_or(None)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// Bound under another name and renamed: at no moment is there no door.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let mut new = path.as_os_str().to_os_string();
    new.push(format!(".{}", std::process::id()));
    let new = PathBuf::from(new);
    if let Err(error) = fs::remove_file(&new) {
        if error.kind() != ErrorKind::NotFound {
            return Err(error);
        }
    }
    let listener = UnixListener::bind(&new)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600))?;
    fs::rename(&new, path)?;
    Ok(listener)
}

struct Inside {
    listener: UnixListener,
    path: PathBuf,
    sockets: Vec<Named>,
    stopped: UnixStream,
    shared: Arc<Shared>,
    /// Set when the names in the file system are another's.
    handed: Arc<AtomicBool>,
}

/// A next server that has the sockets.
struct Asked {
    stream: UnixStream,
    until: Instant,
}

impl Inside {
    /// Nobody who is silent keeps others out: all who have asked are waited for together with the next knock.
    fn run(self) -> Option<UnixStream> {
        let mut asked: Vec<Asked> = Vec::new();
        loop {
            let Some(ready) = self.wait(&asked) else {
                // Not handed over: the name goes with us.
                let _gone = fs::remove_file(&self.path);
                return None;
            };
            for at in ready.asked.into_iter().rev() {
                let next = asked.swap_remove(at).stream;
                if self.takes_over(&next) {
                    self.handed.store(true, Ordering::SeqCst);
                    self.shared.begin_stop(Stop::Drain);
                    return Some(next);
                }
                tracing::warn!("handover: the next server has gone; going on");
            }
            asked.retain(|asked| Instant::now() < asked.until);
            if ready.knock {
                match self.offer() {
                    Ok(stream) if asked.len() < ASKED_MAX => asked.push(Asked {
                        stream,
                        until: Instant::now() + READY_MAX,
                    }),
                    Ok(_) => tracing::warn!("handover: too many next servers; going on"),
                    Err(error) => tracing::warn!(%error, "handover failed; going on"),
                }
            }
        }
    }

    /// What there is to do; None: we are to stop.
    fn wait(&self, asked: &[Asked]) -> Option<Ready> {
        loop {
            let streams = asked.iter().map(|asked| asked.stream.as_fd());
            let mut waited: Vec<PollFd<'_>> = [self.stopped.as_fd(), self.listener.as_fd()]
                .into_iter()
                .chain(streams)
                .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
                .collect();
            let last = asked.iter().map(|asked| asked.until).min();
            let timeout = last.map_or(PollTimeout::NONE, |until| {
                let left = until.saturating_duration_since(Instant::now());
                PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
            });
            match poll(&mut waited, timeout) {
                Err(nix::errno::Errno::EINTR) => continue,
                Err(_) => return None,
                Ok(_) => {}
            }
            let any: Vec<bool> = waited.iter().map(|fd| fd.any().unwrap_or(false)).collect();
            let of_asked = any[2..].iter().enumerate();
            return (!any[0]).then(|| Ready {
                knock: any[1],
                asked: of_asked
                    .filter(|(_, any)| **any)
                    .map(|(at, _)| at)
                    .collect(),
            });
        }
    }

    /// One next server gets the sockets, if it asks for them.
    fn offer(&self) -> io::Result<UnixStream> {
        let (next, _) = self.listener.accept()?;
        next.set_write_timeout(Some(TALK_MAX))?;
        let who = socket_peercred(&next)?;
        let ours = nix::unistd::Uid::effective().as_raw();
        if who.uid.as_raw() != 0 && who.uid.as_raw() != ours {
            let text = format!("user {} may not take over", who.uid.as_raw());
            return Err(io::Error::new(ErrorKind::PermissionDenied, text));
        }
        if wire::read_line(&next, TALK_MAX)? != wire::ASK {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                "not asked as expected",
            ));
        }
        wire::send_sockets(&next, &self.sockets)?;
        tracing::info!(
            pid = who.pid.as_raw_nonzero().get(),
            "handing over to the next server"
        );
        Ok(next)
    }

    /// Whether it says that it serves, or waits for our memory.
    fn takes_over(&self, next: &UnixStream) -> bool {
        let line = wire::read_line(next, TALK_MAX);
        line.is_ok_and(|line| line == wire::READY || line == wire::STOP)
    }
}

/// What the door was woken for.
struct Ready {
    knock: bool,
    /// Which of those who have asked speak, or are gone.
    asked: Vec<usize>,
}

/// Tells the running server something.
pub fn say(mut stream: &UnixStream, line: &str) -> io::Result<()> {
    stream.write_all(line.as_bytes())
}
