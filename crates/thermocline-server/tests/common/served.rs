//! `thermocline serve` with an admin door.

use super::{free_port, our_binary, serve, Running, PATIENCE};
use std::net::TcpStream;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A server of 64 MiB and one thread on free loopback ports, ended with the test.
pub struct Served {
    pub running: Running,
    /// Address of its admin door.
    pub admin: String,
}

impl Served {
    /// Starts it; returns when both doors are open.
    pub fn new(flags: &[&str]) -> Served {
        let admin = format!("127.0.0.1:{}", free_port());
        let own = ["--http", &admin, "--memory", "64MiB", "--threads", "1"];
        let running = serve(&[&own, flags].concat());
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(&admin).is_err() {
            assert!(Instant::now() < until, "no admin door on {admin}");
            std::thread::sleep(Duration::from_millis(10));
        }
        Served { running, admin }
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
