//! The last lines a process wrote: what explains its end. Reads on whatever comes, so that the writer never waits,
//! and keeps little.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::process::ExitStatus;
use std::sync::mpsc::{channel, Receiver};

const LINES_MAX: usize = 12;
const LINE_BYTES_MAX: usize = 300;

/// Sent once, when the stream ends: its last lines, joined by ` / `.
pub fn last_words(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut kept: VecDeque<String> = VecDeque::new();
        let mut reader = BufReader::new(output);
        let mut line = Vec::new();
        while next_line(&mut reader, &mut line) {
            let text = String::from_utf8_lossy(&line).trim_end().to_string();
            if text.is_empty() {
                continue;
            }
            if kept.len() == LINES_MAX {
                kept.pop_front();
            }
            kept.push_back(text);
        }
        let kept: Vec<String> = kept.into();
        // Nobody waits for the last words of a process that ended well.
        let _ = sender.send(kept.join(" / "));
    });
    receiver
}

/// How `who` ended, with what it said at last.
pub fn obituary(who: &str, status: ExitStatus, words: &str) -> String {
    if words.is_empty() {
        format!("{who} ended with {status} and said nothing")
    } else {
        format!("{who} ended with {status}; its last words: {words}")
    }
}

/// Reads a line, keeping its beginning only; false at the end.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> bool {
    line.clear();
    loop {
        let Ok(bytes) = reader.fill_buf() else {
            return !line.is_empty();
        };
        if bytes.is_empty() {
            return !line.is_empty();
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(bytes.len(), |at| at + 1);
        let room = LINE_BYTES_MAX.saturating_sub(line.len());
        line.extend_from_slice(&bytes[..used.min(room)]);
        reader.consume(used);
        if end.is_some() {
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_long_ones_cut() {
        let mut text: Vec<u8> = (0..1000)
            .flat_map(|n| format!("line {n}\n\n").into_bytes())
            .collect();
        text.extend(vec![b'x'; 1 << 20]);
        let words = last_words(std::io::Cursor::new(text)).recv().unwrap();
        assert!(
            words.contains("line 999") && !words.contains("line 900"),
            "{words}"
        );
        assert!(words.len() < LINES_MAX * (LINE_BYTES_MAX + 3));
    }

    #[test]
    fn an_end_without_words_is_told_as_one() {
        use std::os::unix::process::ExitStatusExt;
        let killed = ExitStatus::from_raw(9);
        let silent = obituary("the server", killed, "");
        assert!(
            silent.starts_with("the server ended with signal: 9"),
            "{silent}"
        );
        assert!(silent.ends_with(" and said nothing"), "{silent}");
        let spoken = obituary("the server", killed, "no room");
        assert!(spoken.ends_with("; its last words: no room"), "{spoken}");
    }
}
