//! What is said between the two: one line each way, and the sockets beside the answer.

use rustix::net::{
    recvmsg, sendmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// What the next server says first.
pub const ASK: &str = "thermocline handover 1\n";
/// It serves: drain.
pub const READY: &str = "ready\n";
/// It waits for the memory file: drain and leave it.
pub const STOP: &str = "stop\n";
/// Sockets of one handover; no server has so many listeners.
pub const SOCKETS_MAX: usize = 64;
/// Names of so many places.
const NAMES_BYTES_MAX: usize = 16 << 10;
const LINE_BYTES_MAX: usize = 64;

/// Which setting a socket belongs to, and where it listens.
pub type Named = (String, OwnedFd);

/// The names, a line each, and the sockets in the same order.
pub fn send_sockets(stream: &UnixStream, sockets: &[Named]) -> io::Result<()> {
    if sockets.len() > SOCKETS_MAX {
        return Err(io::Error::other("too many listeners to hand over"));
    }
    let mut names: String = sockets
        .iter()
        .map(|(name, _)| format!("{name}\n"))
        .collect();
    names.push('\n');
    let descriptors: Vec<_> = sockets.iter().map(|(_, socket)| socket.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("too many listeners to hand over"));
    }
    let sent = sendmsg(
        stream,
        &[IoSlice::new(names.as_bytes())],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    match sent == names.len() {
        true => Ok(()),
        false => Err(io::Error::other("the names of the listeners are too long")),
    }
}

pub fn receive_sockets(stream: &UnixStream) -> io::Result<Vec<Named>> {
    let mut names = vec![0; NAMES_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        stream,
        &mut [IoSliceMut::new(&mut names)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut sockets = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            sockets.extend(descriptors);
        }
    }
    let names = String::from_utf8_lossy(&names[..received.bytes]).into_owned();
    let names: Vec<&str> = names.lines().filter(|name| !name.is_empty()).collect();
    if names.is_empty() || names.len() != sockets.len() {
        let text = "the running server's answer was not understood";
        return Err(io::Error::new(ErrorKind::InvalidData, text));
    }
    Ok(names.into_iter().map(str::to_string).zip(sockets).collect())
}

/// One short line, whole within `most`, however slowly its bytes come. Empty: the other side is gone.
pub fn read_line(mut stream: &UnixStream, most: Duration) -> io::Result<String> {
    let until = Instant::now() + most;
    let mut line = String::new();
    let mut byte = [0];
    while line.len() < LINE_BYTES_MAX {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => line.push(char::from(byte[0])),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if byte[0] == b'\n' {
            break;
        }
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn a_socket_goes_through_with_its_name() {
        let (near, far) = UnixStream::pair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        let name = format!("memcached {place}");
        send_sockets(&near, &[(name.clone(), listener.into())]).unwrap();
        let mut sockets = receive_sockets(&far).unwrap();
        let (got, socket) = sockets.pop().unwrap();
        assert_eq!(got, name);
        let taken = TcpListener::from(socket);
        let _client = TcpStream::connect(place).unwrap();
        assert!(taken.accept().is_ok());
    }

    #[test]
    fn a_line_that_comes_too_slowly_is_given_up() {
        let (near, far) = UnixStream::pair().unwrap();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let trickle = std::thread::spawn(move || {
            let pause = Duration::from_millis(20);
            while stopped.recv_timeout(pause) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                (&near).write_all(b"x").unwrap();
            }
        });
        assert!(read_line(&far, Duration::from_millis(100)).is_err());
        drop(stop);
        trickle.join().unwrap();
    }

    #[test]
    fn an_answer_without_sockets_and_a_line_without_end_are_errors_or_cut() {
        let (near, far) = UnixStream::pair().unwrap();
        (&near).write_all(b"memcached x\n\n").unwrap();
        assert!(receive_sockets(&far).is_err());
        (&near).write_all(&[b'x'; 200]).unwrap();
        assert_eq!(read_line(&far, SOON).unwrap().len(), LINE_BYTES_MAX);
        drop(near);
        let rest =
            std::iter::from_fn(|| read_line(&far, SOON).ok().filter(|line| !line.is_empty()));
        assert_eq!(
            rest.map(|line| line.len()).sum::<usize>(),
            200 - LINE_BYTES_MAX
        );
    }
}
