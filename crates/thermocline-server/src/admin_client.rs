//! One GET or POST to a running server's admin door: what the command-line tools ask of it. HTTP/1.0, one answer a
//! connection, of bounded size and time.

use crate::config::Listen;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The longest answer that is read, bytes.
const ANSWER_BYTES_MAX: u64 = 4 << 20;
/// Without an answer for so long the server is given up.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The JSON page at `path`. An error says which server and what to do.
pub fn json(at: &Listen, path: &str) -> Result<Value, String> {
    page(at, path, get(at, path)?)
}

/// The JSON page that answers an empty POST to `path`.
pub fn post_json(at: &Listen, path: &str) -> Result<Value, String> {
    page(at, path, post(at, path, "")?)
}

fn page(at: &Listen, path: &str, (status, body): (u16, String)) -> Result<Value, String> {
    if status != 200 {
        return Err(format!("{at}{path} answered {status}: {}", body.trim()));
    }
    serde_json::from_str(&body)
        .map_err(|error| format!("{at}{path}: not the JSON expected: {error}"))
}

/// Status and body of one GET.
pub fn get(at: &Listen, path: &str) -> Result<(u16, String), String> {
    send(at, "GET", path, "")
}

/// Status and body of one POST.
pub fn post(at: &Listen, path: &str, body: &str) -> Result<(u16, String), String> {
    send(at, "POST", path, body)
}

fn send(at: &Listen, method: &str, path: &str, body: &str) -> Result<(u16, String), String> {
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: thermocline\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = exchange(at, &request).map_err(|error| {
        format!("cannot ask {at}: {error}; is a server running with that http address?")
    })?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .ok_or_else(|| format!("{at} does not speak HTTP"))?;
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    match status {
        Some(status) => Ok((status, body.to_string())),
        None => Err(format!("{at} does not speak HTTP")),
    }
}

fn exchange(at: &Listen, request: &str) -> io::Result<String> {
    match at {
        Listen::Unix(socket) => {
            let stream = UnixStream::connect(socket)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            ask(stream, request)
        }
        Listen::Tcp(address) => {
            let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
            for address in address.to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, TIMEOUT) {
                    Ok(stream) => {
                        stream.set_read_timeout(Some(TIMEOUT))?;
                        stream.set_write_timeout(Some(TIMEOUT))?;
                        return ask(stream, request);
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
    }
}

fn ask(mut stream: impl Read + Write, request: &str) -> io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut stream = stream.take(ANSWER_BYTES_MAX);
    // Who answers otherwise, as a memcached port does, may never close: it is not listened to.
    let mut part = [0; 4096];
    while speaks_http(&answer) {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(bytes) => answer.extend_from_slice(&part[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Whether what came so far can be the beginning of an answer.
fn speaks_http(answer: &[u8]) -> bool {
    const HEAD: &[u8] = b"HTTP/";
    let seen = answer.len().min(HEAD.len());
    answer[..seen] == HEAD[..seen]
}
