//! The reclaimer's side: codes values that are demoted, gathers samples, and plans the next dictionary.
//!
//! One thread at a time holds it (the reclaim lock), except for training, which takes tens of milliseconds
//! and runs on samples taken out of it.

use super::classes::{Admission, Class, Refusal, Tally};
use super::dictionaries::DICTIONARIES_MAX;
use super::samples::Samples;
#[cfg(all(test, not(shuttle)))]
use super::shared::CompressMode;
use super::shared::{measured, Compress};
use crate::codec::{train, Dictionary, Encoder, Method, SAMPLE_FACTOR};
use crate::sync::Ordering;
use std::time::{Duration, Instant};

/// A dictionary and its tables: content, LZ4's fast and high tables.
const DICTIONARY_WITH_TABLES: u64 = (64 + 16 + 256) << 10;
/// Between two trainings: at most one a minute once the first few are made.
const TRAINING_PAUSE: Duration = Duration::from_secs(60);
/// The first trainings follow each other faster: a cache that has just filled wants its kinds soon.
const TRAININGS_UNPAUSED: u64 = DICTIONARIES_MAX as u64;
/// A new dictionary must save this share of the coded bytes against the one in force.
const GAIN_MIN: f64 = 0.05;
/// The fast search is tried first; where it saves less than this share the high one is not tried: on
/// bytes that do not compress it is at its slowest (11 us for 500 B).
const HIGH_AFTER: usize = 8;

/// How the memory for dictionaries is cut, from the share of the budget they may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    dictionary_bytes: usize,
    samples_bytes: usize,
    dictionaries: usize,
}

impl Cut {
    fn of(memory_bytes: u64) -> Cut {
        // Samples want ten times the dictionary, its tables five times: a sixteenth of the memory, at most.
        let dictionary_bytes = (memory_bytes / 16).clamp(4 << 10, 64 << 10) as usize;
        let samples_bytes = dictionary_bytes * SAMPLE_FACTOR;
        let left = memory_bytes.saturating_sub(samples_bytes as u64);
        let one = DICTIONARY_WITH_TABLES.min(dictionary_bytes as u64 + (272 << 10));
        Cut {
            dictionary_bytes,
            samples_bytes,
            dictionaries: ((left / one) as usize).clamp(1, DICTIONARIES_MAX),
        }
    }
}

pub(crate) struct Press {
    encoder: Encoder,
    admission: Admission,
    tally: Tally,
    samples: Samples,
    cut: Cut,
    /// Samples are out being trained on.
    training: bool,
    trainings: u64,
    trained_at: Option<Instant>,
    youngest_id: u8,
}

/// Samples on their way to a dictionary, and the dictionary if one came of them.
pub(crate) struct Trained {
    class: Option<Class>,
    dictionary: Option<Dictionary>,
}

impl Press {
    /// `memory_bytes`: what dictionaries, their tables and samples may take together.
    pub(crate) fn new(memory_bytes: u64) -> Press {
        let cut = Cut::of(memory_bytes);
        Press {
            encoder: Encoder::new(),
            admission: Admission::default(),
            tally: Tally::default(),
            samples: Samples::new(None, cut.samples_bytes),
            cut,
            training: false,
            trainings: 0,
            trained_at: None,
            youngest_id: 0,
        }
    }

    /// Codes a value that is demoted into `coded`; false if it stays as it is. `high`: there is time for the
    /// better search.
    pub(crate) fn code(
        &mut self,
        shared: &Compress,
        key: &[u8],
        value: &[u8],
        high: bool,
        coded: &mut Vec<u8>,
    ) -> bool {
        let class = Class::of(key);
        let hurry = !shared.dictionaries.with(|table| table.has_any());
        self.samples.see(class, value, hurry);
        if !self.admission.tries(class, value.len()) {
            shared.events.skipped.fetch_add(1, Ordering::Relaxed);
            self.tally.add(class, value.len(), None);
            shared.demoted_as(value.len(), value.len());
            return false;
        }
        let started = Instant::now();
        let taken = self.encode(shared, class, value, high, coded);
        measured(&shared.costs.code_ns, started.elapsed().as_nanos() as u64);
        self.tally
            .add(class, value.len(), taken.then_some(coded.len()));
        shared.demoted_as(value.len(), if taken { coded.len() } else { value.len() });
        if !taken {
            let counter = match self.admission.refused(class, value.len()) {
                Refusal::Poor => &shared.events.reject_compress_poor,
                Refusal::PoorMean => &shared.events.mean_compress_poor,
            };
            counter.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.admission.taken(class, value.len(), coded.len());
        shared.events.coded.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn encode(
        &mut self,
        shared: &Compress,
        class: Class,
        value: &[u8],
        high: bool,
        coded: &mut Vec<u8>,
    ) -> bool {
        let most = self.admission.most(value.len());
        let encoder = &mut self.encoder;
        shared.dictionaries.with(|table| {
            let dictionary = table.current(class);
            coded.clear();
            if !encoder.encode(dictionary, Method::Lz4Fast, value, most, coded) {
                return false;
            }
            let saved = value.len() - coded.len();
            if high && saved * HIGH_AFTER >= value.len() {
                coded.clear();
                // Never longer than what the fast search found, in practice; then that would be lost.
                if !encoder.encode(dictionary, Method::Lz4High, value, most, coded) {
                    return encoder.encode(dictionary, Method::Lz4Fast, value, most, coded);
                }
            }
            true
        })
    }

    /// Samples enough for a training, if one is due. The caller trains without the lock and hands the
    /// result to `install`.
    pub(crate) fn take_samples(&mut self) -> Option<Samples> {
        let paused = self.trainings >= TRAININGS_UNPAUSED
            && self
                .trained_at
                .is_some_and(|at| at.elapsed() < TRAINING_PAUSE);
        if self.training || paused || !self.samples.is_ready() {
            return None;
        }
        self.training = true;
        Some(std::mem::take(&mut self.samples))
    }

    /// Number and size for a new dictionary; None: no room for one more.
    pub(crate) fn room(&self, shared: &Compress) -> Option<(u8, usize)> {
        let id = shared
            .dictionaries
            .free_id(self.youngest_id, self.cut.dictionaries)?;
        Some((id, self.cut.dictionary_bytes))
    }

    /// Puts the result of a training in force and turns to the next kind.
    pub(crate) fn install(&mut self, shared: &Compress, trained: Trained) {
        (self.training, self.trained_at) = (false, Some(Instant::now()));
        self.trainings += 1;
        if let Some(dictionary) = trained.dictionary {
            self.youngest_id = dictionary.id();
            shared.dictionaries.install(trained.class, dictionary);
            shared.events.trained.fetch_add(1, Ordering::Relaxed);
        }
        // Also where none was worth it: this kind is served as well as it can be, until it drifts.
        self.tally.trained(trained.class.unwrap_or_default());
        self.tally.age();
        self.focus(shared);
    }

    /// Gathers samples of the kind that needs a dictionary most.
    fn focus(&mut self, shared: &Compress) {
        shared.dictionaries.drop_unused();
        let next = self.tally.neediest();
        self.samples = match next {
            Some(row) => Samples::new(Some(row.class), self.cut.samples_bytes),
            None => Samples::default(),
        };
    }

    /// Turns to another kind if there is nothing to do for the present one. Now and then.
    pub(crate) fn look_around(&mut self, shared: &Compress) {
        shared.dictionaries.drop_unused();
        if !self.training && self.trainings > 0 && !self.samples.is_ready() {
            let focused = self.samples.class;
            let next = self.tally.neediest().map(|row| row.class);
            if next.is_some() && next != focused {
                self.focus(shared);
            }
        }
    }
}

impl Trained {
    /// Trains on samples taken from a press and judges the result on those it has not seen. Takes 30 to
    /// 200 ms; holds no lock.
    pub(crate) fn from(samples: Samples, room: Option<(u8, usize)>, shared: &Compress) -> Trained {
        let class = samples.class;
        let dictionary = room.and_then(|(id, bytes)| {
            let (count, split) = samples.split();
            let content =
                train(&samples.content[..split], &samples.lengths[..count], bytes).ok()?;
            let new = Dictionary::new(id, &content);
            is_better(&new, &samples, shared).then_some(new)
        });
        Trained { class, dictionary }
    }
}

fn is_better(new: &Dictionary, samples: &Samples, shared: &Compress) -> bool {
    let (count, split) = samples.split();
    let class = samples.class.unwrap_or_default();
    let old = shared
        .dictionaries
        .with(|table| table.current(class).clone());
    let (mut encoder, mut coded) = (Encoder::new(), Vec::new());
    let (mut old_bytes, mut new_bytes, mut at) = (0, 0, split);
    for &length in &samples.lengths[count..] {
        let value = &samples.content[at..at + length];
        at += length;
        for (dictionary, total) in [(&*old, &mut old_bytes), (new, &mut new_bytes)] {
            coded.clear();
            let taken = encoder.encode(dictionary, Method::Lz4Fast, value, length, &mut coded);
            *total += if taken { coded.len() } else { length };
        }
    }
    (new_bytes as f64) < old_bytes as f64 * (1.0 - GAIN_MIN)
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    /// A record of a kind: its fields' names and words are the kind's own.
    fn record(kind: &str, n: u64) -> Vec<u8> {
        let word = |salt: u64| {
            let words = ["amber", "birch", "cedar", "delta", "ember", "fjord"];
            let mixed = (n + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            words[mixed as usize % words.len()]
        };
        format!(
            "{{\"{kind}Id\":{n},\"{kind}Name\":\"{} {}\",\"{kind}Place\":\"{}\",\"{kind}Note\":\"{}\"}}",
            word(1), word(2), word(3), word(4)
        )
        .into_bytes()
    }

    fn run(press: &mut Press, shared: &Compress, kind: &str, values: u64) -> f64 {
        let (mut plain, mut coded) = (0, 0);
        for n in 0..values {
            let value = record(kind, n);
            let key = format!("{kind}:{n}");
            plain += value.len();
            let mut bytes = Vec::new();
            let taken = press.code(shared, key.as_bytes(), &value, true, &mut bytes);
            coded += if taken { bytes.len() } else { value.len() };
            if let Some(samples) = press.take_samples() {
                let trained = Trained::from(samples, press.room(shared), shared);
                press.install(shared, trained);
            }
            press.look_around(shared);
        }
        plain as f64 / coded as f64
    }

    #[test]
    fn what_goes_by_trains_a_dictionary_and_comes_back_whole() {
        let (shared, mut press) = (Compress::new(CompressMode::On, None), Press::new(8 << 20));
        let before = run(&mut press, &shared, "user", 900);
        assert!(before < 1.3, "no dictionary yet: {before}");
        run(&mut press, &shared, "user", 20_000);
        let after = run(&mut press, &shared, "user", 2_000);
        assert!(after > 2.0, "ratio {after}");
        let value = record("user", 424_242);
        let (mut coded, mut back) = (Vec::new(), Vec::new());
        assert!(press.code(&shared, b"user:1", &value, true, &mut coded));
        assert!(shared.decode(&coded, &mut back));
        assert_eq!(back, value);
        assert!(shared.costs.code_ns.load(Ordering::Relaxed) > 0);
    }

    #[test]
    fn a_second_kind_gets_its_own_and_a_changed_schema_is_learned() {
        let (shared, mut press) = (Compress::new(CompressMode::On, None), Press::new(8 << 20));
        run(&mut press, &shared, "user", 150_000);
        let first = run(&mut press, &shared, "basket", 2_000);
        run(&mut press, &shared, "basket", 200_000);
        let second = run(&mut press, &shared, "basket", 2_000);
        assert!(second > first * 1.2, "{first} -> {second}");
        let own = shared
            .dictionaries
            .with(|table| table.has_own(Class::of(b"basket:1")));
        assert!(own);
    }

    #[test]
    fn memory_is_cut_so_that_all_fits() {
        for memory in [100u64 << 10, 655 << 10, 2621 << 10, 10 << 20, 100 << 20] {
            let cut = Cut::of(memory);
            let one = cut.dictionary_bytes as u64 + (272 << 10);
            let all = cut.samples_bytes as u64 + one * cut.dictionaries as u64;
            assert!(all <= memory || cut.dictionaries == 1, "{memory}: {cut:?}");
        }
        assert_eq!(Cut::of(10 << 20).dictionaries, DICTIONARIES_MAX);
    }
}
