//! A server inside another program: start it, talk to it, read its counts, stop it.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use thermocline_server::{Listen, Server, Settings, Stop};

fn main() -> Result<(), Box<dyn Error>> {
    let settings = Settings {
        memory: 64 << 20,
        memcached: vec![Listen::tcp("127.0.0.1:0")],
        http: Vec::new(),
        threads: 1,
        ..Settings::default()
    };
    let server = Server::start(settings)?;
    for line in server.banner() {
        println!("{line}");
    }

    let mut stream = TcpStream::connect(&server.places()[0])?;
    stream.write_all(b"set greeting 0 60 5\r\nhello\r\nget greeting\r\nquit\r\n")?;
    for line in BufReader::new(stream).lines() {
        println!("> {}", line?);
    }
    println!("items: {}", server.shared().cache.len());

    server.begin_stop(Stop::Drain);
    let cut_off = server.wait()?;
    println!("stopped, {cut_off} connections cut off");
    Ok(())
}
