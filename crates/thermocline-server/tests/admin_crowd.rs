//! The admin port answers in bad times: whatever clients do to the server's descriptors, or to that port itself.

mod common;

use common::{free_port, serve_command, wait_until, Running, PATIENCE};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

fn is_healthy(port: u16) -> bool {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the admin port listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream
        .write_all(b"GET /healthz HTTP/1.0\r\n\r\n")
        .expect("sent");
    let mut answer = String::new();
    // No answer in time, or none at all: not healthy.
    let _read = stream.read_to_string(&mut answer);
    answer.starts_with("HTTP/1.0 200")
}

fn flags(admin: u16) -> Vec<String> {
    let place = format!("127.0.0.1:{admin}");
    ["--memory", "64MiB", "--threads", "1", "--http", &place]
        .map(String::from)
        .to_vec()
}

#[test]
fn clients_cannot_take_the_descriptors_that_the_admin_port_needs() {
    let (port, admin) = (free_port(), free_port());
    let command = with_open_files(200, &serve_command(port, &flags(admin)));
    let server = Running::launched(command, port);
    let is_up = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    let cannot = || server.log.text().contains("setpriv:");
    wait_until("the server is up, or not to be had", || is_up() || cannot());
    if cannot() {
        return println!("skipped: no capability can be taken away here");
    }
    let crowd: Vec<TcpStream> = (0..300)
        .filter_map(|_| TcpStream::connect(("127.0.0.1", port)).ok())
        .collect();
    assert!(crowd.len() > 200, "{}", crowd.len());
    assert!(is_healthy(admin));
    let text = server.log.text();
    let wanted = "1 event loop, 70 connections at most (1024 asked for), 200 open files";
    assert!(text.contains(wanted), "{text}");
}

/// The command under a limit of open files that it cannot raise: root could, with the capability to.
fn with_open_files(limit: u32, command: &Command) -> Command {
    let script = format!("ulimit -n {limit} && exec \"$0\" \"$@\"");
    let mut limited = match nix::unistd::geteuid().is_root() {
        true => {
            let mut setpriv = Command::new("setpriv");
            setpriv.args(["--bounding-set=-sys_resource", "sh"]);
            setpriv
        }
        false => Command::new("sh"),
    };
    limited
        .args(["-c", &script])
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null());
    limited
}

#[test]
fn half_requests_keep_nobody_out_of_the_admin_port() {
    let (port, admin) = (free_port(), free_port());
    let _server = Running::started(serve_command(port, &flags(admin)), port);
    let half = || {
        let mut stream = TcpStream::connect(("127.0.0.1", admin)).expect("the admin port listens");
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost:")
            .expect("sent");
        stream
    };
    let mut crowd: Vec<TcpStream> = (0..200).map(|_| half()).collect();
    assert!(is_healthy(admin), "kept out by half requests");
    // The ones that came last still have their places, and get their answer if they go on.
    let last = crowd.last_mut().expect("there are 200");
    last.set_read_timeout(Some(PATIENCE)).expect("set");
    last.write_all(b"x\r\nconnection: close\r\n\r\n")
        .expect("sent");
    let mut answer = String::new();
    last.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    wait_until("the first ones have gone", || is_closed(&mut crowd[0]));
}

fn is_closed(stream: &mut TcpStream) -> bool {
    let soon = Some(Duration::from_millis(10));
    stream.set_read_timeout(soon).expect("set");
    match stream.read(&mut [0; 64]) {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}
