//! Golden transcripts: every row of the protocol's tables, played against our server, and against Debian's memcached
//! where it is installed.
//!
//! A transcript is a list of cases. `> line` and `>> bytes` are sent, `< line` is expected of both servers, `<t line`
//! of ours and `<m line` of memcached 1.6.18 only; a case with such lines must say why in a `differs:` line, and those
//! lines together are the list of allowed differences. After each case `mn` must answer `MN`: nothing was left over.

mod common;

use common::{Client, Running};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const HALF_A_SECOND: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Ours,
    Theirs,
}

#[derive(Default)]
struct Case {
    name: String,
    steps: Vec<(usize, String)>,
}

impl Case {
    /// How long its own steps wait.
    fn sleeps(&self) -> Duration {
        let waits = self
            .steps
            .iter()
            .filter_map(|(_, step)| step.strip_prefix("sleep "));
        waits
            .map(|text| Duration::from_millis(text.parse().expect("milliseconds")))
            .sum()
    }
}

struct Transcript {
    path: PathBuf,
    flags: Vec<String>,
    cases: Vec<Case>,
}

fn transcripts() -> Vec<Transcript> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("there are transcripts")
        .map(|entry| entry.expect("readable").path())
        .collect();
    paths.sort();
    paths.into_iter().map(read).collect()
}

fn read(path: PathBuf) -> Transcript {
    let text = std::fs::read_to_string(&path).expect("readable");
    let mut transcript = Transcript {
        path,
        flags: Vec::new(),
        cases: Vec::new(),
    };
    for (number, line) in text.lines().enumerate() {
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        if let Some(flags) = line.strip_prefix("flags ") {
            transcript.flags = flags.split_whitespace().map(str::to_string).collect();
        } else if let Some(name) = line.strip_prefix("== ") {
            transcript.cases.push(Case {
                name: name.to_string(),
                steps: Vec::new(),
            });
        } else {
            let case = transcript.cases.last_mut().expect("a case begins with ==");
            case.steps.push((number + 1, line.to_string()));
        }
    }
    transcript
}

/// Expands `{k*251}`, `\r`, `\n`, `\0`, `\xNN` and captured names.
fn expand(text: &str, names: &HashMap<String, String>) -> Vec<u8> {
    let mut out = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => {
                at += 1;
                match bytes.get(at) {
                    Some(b'r') => out.push(b'\r'),
                    Some(b'n') => out.push(b'\n'),
                    Some(b'0') => out.push(0),
                    Some(b'x') => {
                        let digits = &text[at + 1..at + 3];
                        out.push(u8::from_str_radix(digits, 16).expect("two hex digits"));
                        at += 2;
                    }
                    other => panic!("unknown escape {other:?} in {text}"),
                }
                at += 1;
            }
            b'{' => {
                let end = at + text[at..].find('}').expect("a closing brace");
                let inner = &text[at + 1..end];
                match inner.split_once('*') {
                    Some((unit, count)) if !count.is_empty() => {
                        out.extend(unit.repeat(count.parse().expect("a count")).bytes())
                    }
                    _ => out.extend(names.get(inner).expect("a captured name").bytes()),
                }
                at = end + 1;
            }
            byte => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

/// Compares a line with a pattern of words; a word may end in `{name}` (captured, or compared with what was captured)
/// or be `{*}`.
fn matches(pattern: &str, line: &[u8], names: &mut HashMap<String, String>) -> bool {
    let is_open = |inner: &str| inner == "*" || (!inner.contains('*') && !inner.is_empty());
    let has_name = pattern.split('{').skip(1).any(|part| {
        part.split_once('}')
            .is_some_and(|(inner, _)| is_open(inner))
    });
    if !has_name {
        return expand(pattern, names) == line;
    }
    let line = String::from_utf8_lossy(line).into_owned();
    let (patterns, words): (Vec<&str>, Vec<&str>) =
        (pattern.split(' ').collect(), line.split(' ').collect());
    patterns.len() == words.len()
        && patterns.iter().zip(words).all(|(pattern, word)| {
            let Some((head, name)) = pattern.split_once('{') else {
                return expand(pattern, names) == word.as_bytes();
            };
            let name = name.trim_end_matches('}');
            if !is_open(name) {
                return expand(pattern, names) == word.as_bytes();
            }
            let Some(tail) = word.strip_prefix(head) else {
                return false;
            };
            match names.get(name) {
                _ if name == "*" => !tail.is_empty(),
                Some(known) => known == tail,
                None => {
                    names.insert(name.to_string(), tail.to_string());
                    !tail.is_empty()
                }
            }
        })
}

fn play(transcript: &Transcript, side: Side, start: &dyn Fn(&[&str]) -> Running) -> Vec<String> {
    let flags: Vec<&str> = transcript.flags.iter().map(String::as_str).collect();
    let server = start(&flags);
    let mut failures = Vec::new();
    for case in &transcript.cases {
        let begun = Instant::now();
        let mut played = play_case(case, &server, side);
        // memcached's clock ticks in whole seconds: a case can fall on a tick; ours tells times to live in seconds too, and a
        // machine that stands still for half of one may pass it. Once more, on a fresh server.
        let may_have_ticked =
            side == Side::Theirs || begun.elapsed() > case.sleeps() + HALF_A_SECOND;
        if played.is_err() && may_have_ticked {
            played = play_case(case, &start(&flags), side);
        }
        if let Err(text) = played {
            let file = transcript.path.file_name().unwrap_or_default();
            failures.push(format!("{}: {}: {text}", file.to_string_lossy(), case.name));
        }
    }
    failures
}

fn play_case(case: &Case, server: &Running, side: Side) -> Result<(), String> {
    let mut client = server.connect();
    client
        .stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("set");
    let mut names = HashMap::new();
    let mut open = true;
    let reason = case
        .steps
        .iter()
        .any(|(_, step)| step.starts_with("differs: "));
    for (number, step) in &case.steps {
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        match word {
            ">" => client.send([expand(rest, &names), b"\r\n".to_vec()].concat()),
            ">>" => client.send(expand(rest, &names)),
            "<" | "<t" | "<m" => {
                assert!(
                    word == "<" || reason,
                    "line {number}: a difference needs a `differs:` line"
                );
                if (word == "<t" && side == Side::Theirs) || (word == "<m" && side == Side::Ours) {
                    continue;
                }
                expect(&mut client, rest, &mut names)
                    .map_err(|text| format!("line {number}: {text}"))?;
            }
            "closed" => {
                if let Some(line) = client.line() {
                    let line = String::from_utf8_lossy(&line).into_owned();
                    return Err(format!("line {number}: expected the end, got {line:?}"));
                }
                open = false;
            }
            "sleep" => {
                std::thread::sleep(Duration::from_millis(rest.parse().expect("milliseconds")))
            }
            "differs:" => {}
            "ours:" if side == Side::Theirs => return Ok(()),
            "ours:" => {}
            _ => panic!("line {number}: unknown step {step}"),
        }
    }
    if open {
        client.send(b"mn\r\n");
        expect(&mut client, "MN", &mut names).map_err(|text| format!("at the end: {text}"))?;
    }
    Ok(())
}

fn expect(
    client: &mut Client,
    pattern: &str,
    names: &mut HashMap<String, String>,
) -> Result<(), String> {
    let line = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| client.line()))
        .map_err(|_| format!("expected {pattern:?}, got no answer"))?;
    match line {
        Some(line) if matches(pattern, &line, names) => Ok(()),
        Some(line) => {
            let line: String = String::from_utf8_lossy(&line).chars().take(200).collect();
            Err(format!("expected {pattern:?}, got {line:?}"))
        }
        None => Err(format!("expected {pattern:?}, got the end")),
    }
}

fn play_all(side: Side, server: impl Fn(&[&str]) -> Running) {
    let mut failures = Vec::new();
    let mut cases = 0;
    for transcript in transcripts() {
        failures.extend(play(&transcript, side, &server));
        cases += transcript.cases.len();
    }
    println!("{cases} cases played against {side:?}");
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(cases > 100, "only {cases} cases were found");
}

#[test]
fn our_server_answers_every_transcript() {
    play_all(Side::Ours, common::ours);
}

#[test]
fn memcached_answers_every_transcript_but_for_the_listed_differences() {
    if common::theirs(&[]).is_none() {
        return common::skip("/usr/bin/memcached is not installed");
    }
    play_all(Side::Theirs, |flags| {
        let ours_only = ["-o", "test_clock"];
        let flags: Vec<&str> = flags
            .iter()
            .copied()
            .filter(|flag| !ours_only.contains(flag))
            .collect();
        common::theirs(&flags).expect("it started before")
    });
}

/// The list itself: which cases differ, and why.
#[test]
fn allowed_differences_are_listed_with_reasons() {
    let mut listed = 0;
    for transcript in transcripts() {
        for case in &transcript.cases {
            let reasons: Vec<&str> = case
                .steps
                .iter()
                .filter_map(|(_, step)| {
                    step.strip_prefix("differs: ")
                        .or(step.strip_prefix("ours: "))
                })
                .collect();
            if let [reason, ..] = reasons[..] {
                println!("{}: {reason}", case.name);
                assert!(reason.len() > 10, "{}: give a reason", case.name);
                listed += 1;
            }
        }
    }
    assert!(listed > 10);
}
