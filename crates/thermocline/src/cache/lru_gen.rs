//! The kernel's `lru_gen` interface: generations as text, `+` to age, `-` to evict the old ones.
//!
//! The line shapes, the commands and their errors are those of the kernel's debugfs file, so that what reads and
//! writes that one can do the same here. There is one memory group, 0, and one node, 0. Where the kernel counts pages
//! of two types there are bytes and items.

use super::{Cache, Inner};
use crate::error::Error;
use crate::generation::GENERATIONS_MAX;
use crate::index::Cursor;
use crate::segment::SegmentId;
use crate::sync::lock;
use std::fmt::Write;

/// Generations that are never evicted: an item is looked at twice before it may go.
const YOUNG: u32 = 2;

/// One generation: what lies in segments of that age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Generation {
    /// Its number; the youngest has the largest.
    pub number: u32,
    /// Milliseconds since it began.
    pub age_ms: u64,
    /// Bytes of records that a slot points to, both pools and tiers.
    pub bytes: u64,
    /// Items.
    pub items: u64,
}

/// One command, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    /// `youngest` is the generation the caller saw as such; None: whichever it is.
    Age {
        youngest: Option<u32>,
        force: bool,
    },
    Evict {
        last: u32,
        bytes: u64,
    },
}

impl Cache {
    /// What lies in each generation, oldest first. Walks the segment table and the index (some 10 ns an item, 1 us a
    /// unit under its lock; no lock of reclaim): writers, expiry and eviction go on, so the sum need not be of one
    /// moment.
    pub fn generations(&self) -> Vec<Generation> {
        let store = &self.inner.store;
        let segments = store.live_by_segment();
        let (oldest, youngest) = {
            let generations = lock(&store.generations);
            (generations.oldest(), generations.now())
        };
        // Probation may hold what is older than main's oldest.
        let of = |&(id, _): &(SegmentId, u64)| store.segment(id).generation();
        let oldest = segments.iter().map(of).fold(oldest, u32::min);
        let oldest = oldest.max(youngest.saturating_sub(GENERATIONS_MAX as u32 - 1));
        let now_ms = store.time.now_ms();
        let mut list: Vec<Generation> = (oldest..=youngest)
            .map(|number| Generation {
                number,
                age_ms: now_ms.saturating_sub(store.facts.births.of(number)),
                bytes: 0,
                items: 0,
            })
            .collect();
        // What came since we looked is of the youngest.
        let at = |id: SegmentId| {
            let generation = store.segment(id).generation();
            (generation.clamp(oldest, youngest) - oldest) as usize
        };
        for &(id, live) in &segments {
            list[at(id)].bytes += live;
        }
        let (mut cursor, mut slots) = (Cursor::default(), Vec::new());
        loop {
            slots.clear();
            let _pin = store.pin();
            if !store.index.scan(&mut cursor, &mut slots) {
                return list;
            }
            for slot in &slots {
                list[at(store.segments.id_of(slot.place()))].items += 1;
            }
        }
    }

    /// `generations` as the kernel prints them: number, age in ms, bytes, items.
    pub fn lru_gen(&self) -> String {
        let mut text = format!("memcg {:5} /\n node {:5}\n", 0, 0);
        for generation in self.generations() {
            let Generation {
                number,
                age_ms,
                bytes,
                items,
            } = generation;
            // Writing to a string cannot fail.
            let _ = writeln!(text, " {number:10} {age_ms:10} {bytes:10} {items:10} ");
        }
        text
    }

    /// Carries out commands, several divided by commas, semicolons or lines:
    ///
    /// - `+ [0 0] [MAX_GEN [CAN_SWAP [FORCE]]]` opens a new generation if MAX_GEN is the youngest; is done already if
    ///   it is older; refuses what is younger.
    /// - `- [0 0] MIN_GEN [SWAPPINESS [BYTES]]` evicts what lies in generations up to MIN_GEN, until BYTES have left.
    ///   What the policy keeps (it was read) goes to the young end. Refuses the two youngest generations.
    ///
    /// Returns the live bytes that left. An error names the command at fault; those before it were carried out. No
    /// reclaim lock is held for longer than the background thread holds it.
    pub fn lru_gen_command(&self, commands: &str) -> Result<u64, Error> {
        let mut evicted = 0;
        for text in commands.split([',', ';', '\n']) {
            let Some(command) = parse(text)? else {
                continue;
            };
            let done = match command {
                Command::Age { youngest, force } => self.inner.age(youngest, force).map(|()| 0),
                Command::Evict { last, bytes } => self.inner.evict(last, bytes),
            };
            evicted += done.map_err(|why| refused(text, &why))?;
        }
        Ok(evicted)
    }
}

impl Inner {
    fn age(&self, youngest: Option<u32>, force: bool) -> Result<(), String> {
        let store = &self.store;
        let mut generations = lock(&store.generations);
        let now = generations.now();
        match youngest {
            Some(seen) if seen > now => return Err(format!("the youngest generation is {now}")),
            Some(seen) if seen < now => return Ok(()),
            _ => {}
        }
        let apart = now - generations.oldest() + 1;
        if !force && apart as usize >= GENERATIONS_MAX {
            return Err(format!(
                "{apart} generations are told apart already; force to merge the two oldest"
            ));
        }
        generations.age();
        store.publish_now(&generations);
        Ok(())
    }

    fn evict(&self, last: u32, bytes: u64) -> Result<u64, String> {
        let now = lock(&self.store.generations).now();
        if u64::from(last) + u64::from(YOUNG) > u64::from(now) {
            return Err(format!(
                "the youngest generation is {now}, and the two youngest are never evicted"
            ));
        }
        Ok(self.reclaim.evict_up_to(&self.store, last, bytes))
    }
}

fn refused(command: &str, why: &str) -> Error {
    Error::Command(format!("`{}`: {why}", command.trim()))
}

/// None: nothing was written.
fn parse(text: &str) -> Result<Option<Command>, Error> {
    let mut rest = text.trim().chars();
    let Some(sign) = rest.next() else {
        return Ok(None);
    };
    let numbers: Result<Vec<u64>, _> = rest.as_str().split_whitespace().map(str::parse).collect();
    let numbers = numbers.map_err(|_| refused(text, "after the sign come whole numbers"))?;
    // The kernel's full form names memory group and node first.
    let numbers = match numbers[..] {
        [0, 0, ref rest @ ..] if !rest.is_empty() => rest,
        [_, _, _, ..] => {
            return Err(refused(
                text,
                "there is one memory group, 0, and one node, 0",
            ))
        }
        _ => &numbers[..],
    };
    let number = |at: usize| numbers.get(at).copied();
    let generation = |at: usize| number(at).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    match sign {
        '+' if numbers.len() <= 3 => Ok(Some(Command::Age {
            youngest: generation(0),
            force: number(2) != Some(0),
        })),
        '-' if (1..=3).contains(&numbers.len()) => Ok(Some(Command::Evict {
            last: generation(0).unwrap_or(0),
            bytes: number(2).unwrap_or(u64::MAX),
        })),
        _ => Err(refused(
            text,
            "no command: + [0 0] [MAX_GEN [CAN_SWAP [FORCE]]], or - [0 0] MIN_GEN [SWAPPINESS [BYTES]]",
        )),
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_in_both_forms() {
        let age = |youngest, force| Some(Command::Age { youngest, force });
        let evict = |last, bytes| Some(Command::Evict { last, bytes });
        for (text, wanted) in [
            ("", None),
            ("+", age(None, true)),
            ("+ 7", age(Some(7), true)),
            (" +0 0 7 ", age(Some(7), true)),
            ("+ 0 0 7 1 0", age(Some(7), false)),
            ("- 3", evict(3, u64::MAX)),
            ("-0 0 3 200", evict(3, u64::MAX)),
            ("- 0 0 3 200 4096", evict(3, 4096)),
            ("- 0 0", evict(0, u64::MAX)),
            ("- 99999999999", evict(u32::MAX, u64::MAX)),
        ] {
            assert_eq!(parse(text).unwrap(), wanted, "{text:?}");
        }
        for text in ["x", "-", "+ a", "- 1 0 3", "+ 0 0 1 1 1 1", "- -1"] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(text.trim()), "{error}");
        }
    }
}
