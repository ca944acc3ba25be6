//! The terminal: single keys without echo, a screen of its own, and everything as it was at the end.

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::termios::{tcgetattr, tcsetattr, LocalFlags, SetArg, Termios};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

/// Another screen, no cursor, no wrapping of long lines; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
const CONTROL_C: u8 = 3;

pub(super) enum Key {
    /// The interval is over.
    None,
    Quit,
    Other,
}

/// The terminal while it is ours; dropped, it is as before.
pub(super) struct Screen {
    before: Termios,
}

impl Screen {
    pub fn enter() -> io::Result<Screen> {
        let before = tcgetattr(io::stdin())?;
        let mut single = before.clone();
        // Control-C comes as a key as well: the screen is left tidy.
        single
            .local_flags
            .remove(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG);
        tcsetattr(io::stdin(), SetArg::TCSANOW, &single)?;
        let screen = Screen { before };
        write(ENTER)?;
        Ok(screen)
    }

    /// Draws over what was there.
    pub fn show(&self, text: &str) -> io::Result<()> {
        let mut out = String::from("\x1b[H");
        for line in text.lines() {
            out.push_str(line);
            out.push_str("\x1b[K\r\n");
        }
        out.push_str("\x1b[J");
        write(&out)
    }

    /// Waits for a key or the end of the interval.
    pub fn wait(&self, interval: Duration) -> io::Result<Key> {
        let stdin = io::stdin();
        let mut waited = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(interval).unwrap_or(PollTimeout::MAX);
        match poll(&mut waited, timeout) {
            Ok(0) => return Ok(Key::None),
            Ok(_) => {}
            // The window changed its size, or the like: draw again.
            Err(nix::errno::Errno::EINTR) => return Ok(Key::Other),
            Err(error) => return Err(error.into()),
        }
        let mut keys = [0; 64];
        let count = stdin.lock().read(&mut keys)?;
        let quits = |key: &u8| [b'q', b'Q', CONTROL_C].contains(key);
        // Nothing at all: the terminal is gone.
        match count == 0 || keys[..count].iter().any(quits) {
            true => Ok(Key::Quit),
            false => Ok(Key::Other),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal is gone there is nothing to put back.
        let _gone = write(LEAVE);
        let _gone_too = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.before);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
