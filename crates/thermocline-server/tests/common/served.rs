//! `thermocline serve` with an admin door.

use super::{free_port, our_binary, PATIENCE};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A server of 64 MiB and one thread on free loopback ports, ended with the test.
pub struct Served {
    child: Child,
    pub port: u16,
    /// Address of its admin door.
    pub admin: String,
}

impl Served {
    /// Starts it; returns when both doors are open.
    pub fn new(flags: &[&str]) -> Served {
        let (port, admin) = (free_port(), format!("127.0.0.1:{}", free_port()));
        let child = Command::new(our_binary())
            .args(["serve", "--memcached", &format!("127.0.0.1:{port}")])
            .args(["--http", &admin, "--memory", "64MiB", "--threads", "1"])
            .args(flags)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let served = Served { child, port, admin };
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err()
            || TcpStream::connect(&served.admin).is_err()
        {
            assert!(Instant::now() < until, "the server does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        served
    }

    /// `thermocline <verb>` asked of it, whole.
    pub fn ask(&self, verb: &str, args: &[&str]) -> Output {
        Command::new(our_binary())
            .args([verb, "--http", &self.admin])
            .args(args)
            .output()
            .expect("the binary runs")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}
