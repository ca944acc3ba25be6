//! A memcached small enough to misbehave on purpose: threads, a map, and one fault at a time.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What the server does wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Fault {
    #[default]
    None,
    /// Every n-th write is refused with an error line.
    RefuseWrites(u64),
    /// A connection is closed after answering so many reads.
    DropAfterReads(u64),
    /// All connections are closed and none accepted after so many reads in all.
    DieAfterReads(u64),
    /// Reads are never answered.
    Silence,
    /// Values of the wrong key.
    WrongValues,
    /// Every second key is forgotten.
    ForgetHalf,
    /// Every read takes so long.
    Delay(Duration),
    /// One read, this far in, takes so long.
    StallOnce(u64, Duration),
}

#[derive(Default)]
pub struct Seen {
    pub reads: AtomicU64,
    pub writes: AtomicU64,
    /// When each read came, ns after the first.
    pub read_times: Mutex<Vec<Instant>>,
    store: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
}

pub struct Fake {
    pub address: String,
    pub seen: Arc<Seen>,
}

impl Fake {
    pub fn start(fault: Fault) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port on loopback");
        let address = format!("memcached://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Seen::default());
        let shared = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Else a reply in two writes waits for the client's delayed acknowledgement.
                let _ = stream.set_nodelay(true);
                if is_dead(fault, &shared) {
                    return;
                }
                let seen = shared.clone();
                std::thread::spawn(move || {
                    // A client that goes away ends its thread, nothing else.
                    let _ = serve(stream, fault, &seen);
                });
            }
        });
        Fake { address, seen }
    }
}

fn is_dead(fault: Fault, seen: &Seen) -> bool {
    matches!(fault, Fault::DieAfterReads(n) if seen.reads.load(Ordering::SeqCst) >= n)
}

fn serve(stream: TcpStream, fault: Fault, seen: &Seen) -> std::io::Result<()> {
    let mut input = BufReader::new(stream.try_clone()?);
    let mut output = stream;
    let (mut line, mut own_reads) = (String::new(), 0);
    loop {
        line.clear();
        if input.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        match words[0].as_str() {
            "set" | "ms" => {
                let bytes: usize = words.last().unwrap().parse().unwrap();
                let mut value = vec![0; bytes + 2];
                input.read_exact(&mut value)?;
                value.truncate(bytes);
                let stored = if words[0] == "set" { "STORED" } else { "HD" };
                let answer = write(&words[1], value, fault, seen).unwrap_or(stored);
                write!(output, "{answer}\r\n")?;
            }
            "get" => {
                let mut reply = Vec::new();
                for key in &words[1..] {
                    own_reads += 1;
                    if let Some(value) = read(key, fault, seen) {
                        reply.extend_from_slice(
                            format!("VALUE {key} 0 {}\r\n", value.len()).as_bytes(),
                        );
                        reply.extend_from_slice(&value);
                        reply.extend_from_slice(b"\r\n");
                    }
                }
                reply.extend_from_slice(b"END\r\n");
                if fault != Fault::Silence {
                    output.write_all(&reply)?;
                }
            }
            "mg" => {
                own_reads += 1;
                match read(&words[1], fault, seen) {
                    Some(value) => {
                        let mut reply = format!("VA {}\r\n", value.len()).into_bytes();
                        reply.extend_from_slice(&value);
                        reply.extend_from_slice(b"\r\n");
                        output.write_all(&reply)?;
                    }
                    None => output.write_all(b"EN\r\n")?,
                }
            }
            _ => output.write_all(b"ERROR\r\n")?,
        }
        let drops = matches!(fault, Fault::DropAfterReads(n) if own_reads >= n);
        if drops || is_dead(fault, seen) {
            return output.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn write(key: &str, value: Vec<u8>, fault: Fault, seen: &Seen) -> Option<&'static str> {
    let number = seen.writes.fetch_add(1, Ordering::SeqCst) + 1;
    if matches!(fault, Fault::RefuseWrites(n) if number.is_multiple_of(n)) {
        return Some("SERVER_ERROR out of memory storing object");
    }
    if fault == Fault::ForgetHalf && key.as_bytes()[key.len() - 1].is_multiple_of(2) {
        return None;
    }
    seen.store
        .lock()
        .unwrap()
        .insert(key.as_bytes().to_vec(), value);
    None
}

fn read(key: &str, fault: Fault, seen: &Seen) -> Option<Vec<u8>> {
    let number = seen.reads.fetch_add(1, Ordering::SeqCst) + 1;
    seen.read_times.lock().unwrap().push(Instant::now());
    match fault {
        Fault::Delay(time) => std::thread::sleep(time),
        Fault::StallOnce(at, time) if number == at => std::thread::sleep(time),
        _ => {}
    }
    let mut value = seen.store.lock().unwrap().get(key.as_bytes()).cloned()?;
    if fault == Fault::WrongValues {
        value[0] ^= 1;
    }
    Some(value)
}
