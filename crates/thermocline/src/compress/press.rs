//! The reclaimer's side: codes values that are demoted, gathers samples, and plans the next dictionary.
//!
//! One thread at a time holds it (the reclaim lock), except for training, which takes tens of milliseconds
//! and runs on samples taken out of it. It takes samples only while the budget pays for them.
//!
//! One file: coding, what it is timed by and what is sampled from it are one pass over a value; a third of the lines are tests.

use super::classes::{Admission, Class, Refusal, Tally};
use super::dictionaries::DICTIONARIES_MAX;
use super::options::{CompressCodec, CompressOptions};
use super::samples::{Samples, SAMPLE_BYTES_MAX};
use super::search::{Next, Search};
use super::shared::{timed, Compress};
use super::trained::Trained;
use crate::codec::{Dictionary, Encoder, Method, SAMPLE_FACTOR};
use crate::mem::thread_cpu_ns;
use crate::sync::Ordering;
use std::time::{Duration, Instant};

/// Between two trainings: at most one a minute once the first few are made.
const TRAINING_PAUSE: Duration = Duration::from_secs(60);
/// The first trainings follow each other faster: a cache that has just filled wants its kinds soon.
const TRAININGS_UNPAUSED: u64 = DICTIONARIES_MAX as u64;
/// The fast search is tried first; where it saves less than this share the high one is not tried: on
/// bytes that do not compress it is at its slowest (11 us for 500 B).
const HIGH_AFTER: usize = 8;
/// One value in so many tells what its kind is called.
const NAME_EVERY: u32 = 64;
/// Of the values coded one in so many is timed, by the processor's time for this thread: by the clock, threads that came
/// between made coding seem two to ten times as dear as it was, from second to second.
const TIME_EVERY: u32 = 16;
/// What zstd's tables come to beside LZ4's, at level 1 and at level 3, with a dictionary of 64 KiB.
const ZSTD_TABLES: [(i32, usize); 2] = [(3, (462 + 90) << 10), (1, (110 + 90) << 10)];

/// How the memory for dictionaries is cut, from what of the budget they may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) dictionary_bytes: usize,
    pub(crate) samples_bytes: usize,
    /// For dictionaries and their tables.
    pub(crate) tables_bytes: usize,
}

impl Cut {
    pub(crate) fn of(memory_bytes: u64) -> Cut {
        let working = Encoder::working_bytes(false);
        let tables_bytes = (memory_bytes as usize).saturating_sub(working);
        let tables = Dictionary::lz4_memory_bytes(0);
        let dictionary_bytes = tables_bytes
            .saturating_sub(tables)
            .clamp(16 << 10, 64 << 10);
        Cut {
            dictionary_bytes,
            samples_bytes: dictionary_bytes * SAMPLE_FACTOR,
            tables_bytes,
        }
    }
}

/// What a new dictionary may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) id: u8,
    pub(crate) bytes: usize,
    /// zstd's tables fit too, at this level.
    pub(crate) zstd_level: Option<i32>,
    /// All values are to be zstd's.
    pub(crate) only_zstd: bool,
    /// It serves all kinds without one of their own.
    pub(crate) for_all: bool,
}

pub(crate) struct Press {
    encoder: Encoder,
    admission: Admission,
    tally: Tally,
    search: Search,
    samples: Samples,
    cut: Cut,
    options: CompressOptions,
    coded_values: u32,
    /// Processor time of the calling thread, nanoseconds. About 200 to 600 ns a call, so not every value is timed.
    clock: fn() -> u64,
    /// No writer waits for what is coded now.
    in_background: bool,
    /// What is coded now is no measure of time.
    untimed: bool,
    /// Nor of what coding brings: there might be a dictionary, and none was tried yet.
    unlearned: bool,
    /// Samples are out being trained on.
    training: bool,
    trainings: u64,
    trained_at: Option<Instant>,
    youngest_id: u8,
    /// The kind to gather samples of, once they are paid for; outer None: nobody needs a dictionary.
    wanted: Option<Option<Class>>,
}

impl Press {
    /// `memory_bytes`: what dictionaries, their tables and the encoder may take together. Samples come on top,
    /// and are asked for: [`Press::wants_samples`].
    pub(crate) fn new(memory_bytes: u64, options: CompressOptions) -> Press {
        Press {
            encoder: Encoder::new(),
            admission: Admission::default(),
            tally: Tally::default(),
            search: Search::default(),
            samples: Samples::default(),
            cut: Cut::of(memory_bytes),
            options,
            coded_values: 0,
            clock: thread_cpu_ns,
            in_background: false,
            untimed: false,
            unlearned: memory_bytes > 0,
            training: false,
            trainings: 0,
            trained_at: None,
            youngest_id: 0,
            // Without memory for them, no dictionaries.
            wanted: (memory_bytes > 0).then_some(None),
        }
    }

    /// Codes a value that is demoted into `coded`; false if it stays as it is.
    pub(crate) fn code(
        &mut self,
        shared: &Compress,
        key: &[u8],
        value: &[u8],
        coded: &mut Vec<u8>,
    ) -> bool {
        let class = Class::of(key);
        // Longer ones train no dictionary, and their times are no measure of an item's. The high search would take
        // milliseconds, and gain little where a value is longer than all that LZ4 can look back.
        let is_usual = value.len() <= SAMPLE_BYTES_MAX;
        let hurry = !shared.dictionaries.with(|table| table.has_any());
        self.samples.see(class, value, hurry);
        if !self.admission.tries(class, value.len()) {
            shared.events.skipped.fetch_add(1, Ordering::Relaxed);
            if is_usual {
                self.tally.add(class, value.len(), None);
            }
            self.book(shared, key, value, value.len());
            return false;
        }
        let search = match is_usual {
            true => self.search.next(&shared.worth(self.in_background)),
            false => Next::Fast,
        };
        let begun_ns = self.begins_timed();
        let times_search = begun_ns.is_some() || search == Next::Probe;
        let high = (search != Next::Fast).then_some(times_search);
        let taken = self.encode(shared, key, value, high, coded);
        if is_usual {
            self.note_time(shared, begun_ns);
            let coded_bytes = taken.then_some(coded.len());
            self.tally.add(class, value.len(), coded_bytes);
        }
        let bytes = if taken { coded.len() } else { value.len() };
        self.book(shared, key, value, bytes);
        self.coded_values = self.coded_values.wrapping_add(1);
        if self.coded_values % NAME_EVERY == 1 {
            self.tally.name(class, key);
        }
        if !taken {
            let counter = match self.admission.refused(class, value.len()) {
                Refusal::Poor => &shared.events.reject_compress_poor,
                Refusal::PoorMean => &shared.events.mean_compress_poor,
            };
            counter.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.admission.taken(class, value.len(), coded.len());
        shared.events.coded(coded);
        true
    }

    /// The same to see what that would bring, now and then. What is done seldom is done with cold caches: 10 to 25 us for a
    /// value of 460 B, which is no price of coding.
    pub(crate) fn probe(
        &mut self,
        shared: &Compress,
        key: &[u8],
        value: &[u8],
        coded: &mut Vec<u8>,
    ) {
        self.untimed = true;
        self.code(shared, key, value, coded);
        self.untimed = false;
    }

    /// What the item came to, where that tells anything of those to come.
    fn book(&self, shared: &Compress, key: &[u8], value: &[u8], coded_bytes: usize) {
        if !self.unlearned || !self.untimed {
            shared.demoted_as(key.len(), value.len(), coded_bytes);
        }
    }

    /// The processor time of this thread, where what comes now is to be timed by it.
    fn begins_timed(&self) -> Option<u64> {
        let is_next = self.coded_values % TIME_EVERY == 0 && !self.untimed;
        is_next.then(self.clock)
    }

    fn note_time(&mut self, shared: &Compress, begun_ns: Option<u64>) {
        let searched_ns = self.search.take_ns();
        let Some(begun_ns) = begun_ns else {
            return;
        };
        let ns = (self.clock)().saturating_sub(begun_ns);
        timed(&shared.costs.code_ns, ns);
        // Both are 0 where the system does not tell.
        if searched_ns < ns {
            timed(&shared.costs.fast_ns, ns - searched_ns);
        }
    }

    /// Forgets all that takes memory: no dictionary is in force any more, and the next one is the first again.
    pub(crate) fn rest(&mut self) {
        self.encoder = Encoder::new();
        self.samples = Samples::default();
        (self.training, self.trainings, self.trained_at) = (false, 0, None);
        self.wanted = self.has_memory().then_some(None);
    }

    /// Whether the background thread codes from now on, and no writer.
    pub(crate) fn set_in_background(&mut self, in_background: bool) {
        self.in_background = in_background;
    }

    /// Whether a value that was coded by the fast search is worth the better one now.
    pub(crate) fn searches_better(&self, shared: &Compress) -> bool {
        self.search.pays(&shared.worth(self.in_background))
    }

    /// `high`: whether the better search is to be tried, and timed.
    fn encode(
        &mut self,
        shared: &Compress,
        key: &[u8],
        value: &[u8],
        high: Option<bool>,
        coded: &mut Vec<u8>,
    ) -> bool {
        let most = self.admission.most(value.len());
        let (encoder, search, clock) = (&mut self.encoder, &mut self.search, self.clock);
        shared.dictionaries.with(|table| {
            let dictionary = table.current(Class::of(key));
            let method = match self.options.codec {
                CompressCodec::Zstd => Method::Zstd(dictionary.zstd_level().unwrap_or(1)),
                _ => dictionary.method(value.len(), high.is_some()),
            };
            coded.clear();
            if let Method::Zstd(_) = method {
                return encoder.encode(dictionary, method, value, most, coded);
            }
            if !encoder.encode(dictionary, Method::Lz4Fast, value, most, coded) {
                return false;
            }
            let fast_bytes = coded.len();
            if method == Method::Lz4High && (value.len() - fast_bytes) * HIGH_AFTER >= value.len() {
                let begun_ns = high.unwrap_or_default().then(clock);
                coded.clear();
                // Never longer than what the fast search found, in practice; then that would be lost.
                if !encoder.encode(dictionary, Method::Lz4High, value, most, coded) {
                    return encoder.encode(dictionary, Method::Lz4Fast, value, most, coded);
                }
                let took_ns = begun_ns.map(|begun_ns| clock().saturating_sub(begun_ns));
                search.took(took_ns, key.len(), fast_bytes, coded.len());
            }
            true
        })
    }

    /// Bytes of budget it would gather samples in: a kind needs a dictionary and none are gathered yet.
    pub(crate) fn wants_samples(&self, shared: &Compress) -> Option<u64> {
        let idle = !self.training && self.samples.bytes_max() == 0;
        let class = self.wanted.filter(|_| idle)?;
        // Without room for what would come of them they would lie there for nothing.
        self.place(shared, class)?;
        Some(self.cut.samples_bytes as u64)
    }

    /// Whether nothing was trained yet, and nothing is being trained.
    pub(crate) fn is_first(&self) -> bool {
        self.trainings == 0
    }

    /// Whether what is set aside for dictionaries is, or is about to be, used.
    pub(crate) fn needs_memory(&self, shared: &Compress) -> bool {
        let gathers = self.training || self.samples.bytes_max() > 0;
        gathers || self.wants_samples(shared).is_some() || shared.dictionaries.has_some()
    }

    /// Whether dictionaries may be made at all.
    pub(crate) fn has_memory(&self) -> bool {
        self.cut.tables_bytes > 0
    }

    /// Whether samples for the first training are being gathered, and there is room for more.
    pub(crate) fn wants_first(&self) -> bool {
        self.is_first() && !self.training && !self.samples.is_full()
    }

    /// They are paid for: gathers until they are full.
    pub(crate) fn grant_samples(&mut self) {
        if let Some(class) = self.wanted.take() {
            let drifted = class.is_some_and(|class| self.tally.has_drifted(class));
            self.samples = Samples::new(class, self.cut.samples_bytes, drifted);
        }
    }

    /// Bytes that training takes beside the samples, if one is due; also while the first one is to come, so that a
    /// cache that has just filled need not make room for it first.
    pub(crate) fn training_wants(&self, shared: &Compress) -> u64 {
        let first = self.trainings == 0 && (self.wanted.is_some() || self.samples.bytes_max() > 0);
        match first && !self.training {
            true => Trained::scratch_bytes(self.cut.samples_bytes) as u64,
            false => self.training_due(shared).unwrap_or(0),
        }
    }

    /// Bytes that training takes beside the samples, if one is due.
    pub(crate) fn training_due(&self, shared: &Compress) -> Option<u64> {
        let paused = self.trainings >= TRAININGS_UNPAUSED
            && self
                .trained_at
                .is_some_and(|at| at.elapsed() < TRAINING_PAUSE);
        let due = !self.training && !paused && self.is_ready(shared);
        due.then(|| Trained::scratch_bytes(self.cut.samples_bytes) as u64)
    }

    /// Whether there are samples enough, and room for what comes of them.
    fn is_ready(&self, shared: &Compress) -> bool {
        self.samples.is_ready() && self.place(shared, self.samples.class).is_some()
    }

    /// The samples, for a training that the caller does without the lock and hands to `install`.
    pub(crate) fn take_samples(&mut self) -> Samples {
        self.training = true;
        std::mem::take(&mut self.samples)
    }

    /// Whether a new dictionary for `class` would serve all kinds without one of their own; None: no room for it.
    fn place(&self, shared: &Compress, class: Option<Class>) -> Option<bool> {
        let used = shared.dictionaries.memory_bytes();
        let lz4 = Dictionary::lz4_memory_bytes(self.cut.dictionary_bytes);
        // One more where it takes another's place, until that is needed no longer.
        let may_replace = used < self.cut.tables_bytes + lz4;
        let Some(class) = class else {
            return may_replace.then_some(true);
        };
        let has_own = shared.dictionaries.with(|table| table.has_own(class));
        if used + lz4 <= self.cut.tables_bytes || has_own && may_replace {
            return Some(false);
        }
        // In a small cache one dictionary is all there is room for: it follows the kind that most bytes are of.
        (!has_own && may_replace && self.tally.is_most(class)).then_some(true)
    }

    /// Number and size for a new dictionary; None: no room for one more.
    pub(crate) fn room(&self, shared: &Compress) -> Option<Room> {
        let for_all = self.place(shared, self.samples.class)?;
        let id = shared.dictionaries.free_id(self.youngest_id)?;
        let bytes = self.cut.dictionary_bytes;
        let used = shared.dictionaries.memory_bytes();
        let left = self.cut.tables_bytes.saturating_sub(used);
        // Either codec's tables are made where they are used first, so long values alone make zstd's only.
        let encoder = Encoder::working_bytes(true) - Encoder::working_bytes(false);
        let asked = match self.options.codec {
            CompressCodec::Lz4 => 0,
            _ => self.options.zstd_level.unwrap_or(ZSTD_TABLES[0].0),
        };
        let fits =
            |&&(level, tables): &&(i32, usize)| asked >= level && left >= bytes + tables + encoder;
        let fitting = ZSTD_TABLES.iter().find(fits);
        let zstd_level = match (fitting, self.options.codec) {
            (Some(&(3, _)), _) => Some(asked),
            (Some(_), _) | (None, CompressCodec::Zstd) => Some(1),
            (None, _) => None,
        };
        Some(Room {
            id,
            bytes,
            zstd_level,
            only_zstd: self.options.codec == CompressCodec::Zstd,
            for_all,
        })
    }

    /// Every kind's name, bytes demoted lately, and mean of coded over plain bytes; with the dictionary in force.
    pub(crate) fn kinds(&self, shared: &Compress) -> Vec<(Vec<u8>, u64, f64, u8)> {
        let dictionary = |class| shared.dictionaries.with(|table| table.current(class).id());
        let row = |row: &super::classes::Row| {
            let id = dictionary(row.class);
            (row.name.to_vec(), row.bytes, row.share, id)
        };
        self.tally.rows().iter().map(row).collect()
    }

    /// Bytes that dictionaries and their tables take beyond what is set aside for them: while one takes
    /// another's place, and in small caches.
    pub(crate) fn beyond_bytes(&self, shared: &Compress) -> u64 {
        let used = shared.dictionaries.memory_bytes();
        used.saturating_sub(self.cut.tables_bytes) as u64
    }

    /// Puts the result of a training in force and turns to the next kind.
    pub(crate) fn install(&mut self, shared: &Compress, trained: Trained) {
        (self.training, self.trained_at) = (false, Some(Instant::now()));
        self.trainings += 1;
        let own = trained.class.unwrap_or_default();
        self.unlearned = false;
        if let Some(dictionary) = trained.dictionary {
            self.youngest_id = dictionary.id();
            let class = trained.class.filter(|_| !trained.for_all);
            shared.dictionaries.install(class, dictionary);
            shared.events.trained.fetch_add(1, Ordering::Relaxed);
            if let (None, Some(learned)) = (class, trained.learned) {
                shared.learned(learned.share, learned.code_ns);
            }
            // What was refused before it may be worth it now.
            self.admission.reopen();
        }
        // Also where none was worth it: this kind is served as well as it can be, until it drifts.
        self.tally.trained(own);
        self.tally.settle(&trained.settled);
        self.tally.age();
        shared.dictionaries.drop_unused();
        self.wanted = self.tally.neediest().map(|row| Some(row.class));
    }

    /// Turns to another kind if there is nothing to do for the present one. Now and then. True: the samples
    /// it held are let go, and their bytes can be given back.
    pub(crate) fn look_around(&mut self, shared: &Compress) -> bool {
        shared.dictionaries.drop_unused();
        if self.training || self.trainings == 0 || self.is_ready(shared) {
            return false;
        }
        let next = self.tally.neediest().map(|row| row.class);
        if next == self.samples.class && next.is_some() || next == self.wanted.flatten() {
            return false;
        }
        self.wanted = next.map(Some);
        let held = self.samples.bytes_max() > 0;
        self.samples = Samples::default();
        held
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::super::options::CompressMode;
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
            let taken = press.code(shared, key.as_bytes(), &value, &mut bytes);
            coded += if taken { bytes.len() } else { value.len() };
            upkeep(press, shared);
        }
        plain as f64 / coded as f64
    }

    fn upkeep(press: &mut Press, shared: &Compress) {
        if press.wants_samples(shared).is_some() {
            press.grant_samples();
        }
        if press.training_due(shared).is_some() {
            let room = press.room(shared);
            let trained = Trained::from(press.take_samples(), room, shared);
            press.install(shared, trained);
        }
        press.look_around(shared);
    }

    #[test]
    fn what_goes_by_trains_a_dictionary_and_comes_back_whole() {
        let (shared, mut press) = (
            Compress::new(CompressMode::On, CompressOptions::default(), None),
            Press::new(8 << 20, CompressOptions::default()),
        );
        let before = run(&mut press, &shared, "user", 900);
        assert!(before < 1.3, "no dictionary yet: {before}");
        run(&mut press, &shared, "user", 20_000);
        let after = run(&mut press, &shared, "user", 2_000);
        assert!(after > 2.0, "ratio {after}");
        let value = record("user", 424_242);
        let (mut coded, mut back) = (Vec::new(), Vec::new());
        assert!(press.code(&shared, b"user:1", &value, &mut coded));
        assert!(shared.decode(&coded, &mut back));
        assert_eq!(back, value);
        assert!(shared.costs.code_ns.load(Ordering::Relaxed) > 0);
    }

    #[test]
    fn a_second_kind_gets_its_own_and_a_changed_schema_is_learned() {
        let (shared, mut press) = (
            Compress::new(CompressMode::On, CompressOptions::default(), None),
            Press::new(8 << 20, CompressOptions::default()),
        );
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

    /// A kind of bytes that do not compress turns to records under the same prefix: its ratio cannot become worse, and
    /// still it is served in the end.
    #[test]
    fn a_kind_found_barren_is_not_given_up_for_ever() {
        let (shared, mut press) = (
            Compress::new(CompressMode::On, CompressOptions::default(), None),
            Press::new(8 << 20, CompressOptions::default()),
        );
        let (mut state, mut coded) = (7u64, Vec::new());
        let mut noise = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        while press.is_first() {
            let value: Vec<u8> = (0..40).flat_map(|_| noise().to_le_bytes()).collect();
            press.code(&shared, b"user:1", &value, &mut coded);
            upkeep(&mut press, &shared);
        }
        assert!(
            !shared.dictionaries.has_some(),
            "noise has nothing in common"
        );
        run(&mut press, &shared, "user", 60_000);
        let after = run(&mut press, &shared, "user", 2_000);
        assert!(after > 2.0, "ratio {after}");
    }

    /// However long it was interrupted: the search is judged by what the processor did for it, and not timed each time.
    #[test]
    fn the_search_is_timed_by_the_processor_and_now_and_then() {
        std::thread_local! {
            static CALLS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
        }
        let calls = || CALLS.with(std::cell::Cell::get);
        // Misses of which the search may take 6 us at the most: less than it is taken for.
        let cost = Some(Duration::from_micros(60));
        let shared = Compress::new(CompressMode::On, CompressOptions::default(), cost);
        let mut press = Press::new(8 << 20, CompressOptions::default());
        press.clock = || {
            CALLS.with(|calls| calls.set(calls.get() + 1));
            1_000 * CALLS.with(std::cell::Cell::get)
        };
        assert!(!press.searches_better(&shared));
        run(&mut press, &shared, "user", 40_000);
        assert!(press.searches_better(&shared), "{:?}", press.search);
        let before = calls();
        run(&mut press, &shared, "user", 4_096);
        assert_eq!(calls() - before, 4_096 / u64::from(TIME_EVERY) * 4);
    }

    #[test]
    fn memory_is_cut_so_that_all_fits() {
        for memory in [327u64 << 10, 655 << 10, 2621 << 10, 10 << 20, 100 << 20] {
            let cut = Cut::of(memory);
            let one = Dictionary::lz4_memory_bytes(cut.dictionary_bytes);
            assert!(
                one <= cut.tables_bytes || memory < 608 << 10,
                "{memory}: {cut:?}"
            );
            assert!(cut.tables_bytes as u64 <= memory);
        }
        assert_eq!(Cut::of(655 << 10).dictionary_bytes, 64 << 10);
    }

    #[test]
    fn samples_are_gathered_only_while_they_are_paid_for() {
        let (shared, mut press) = (
            Compress::new(CompressMode::On, CompressOptions::default(), None),
            Press::new(8 << 20, CompressOptions::default()),
        );
        let mut coded = Vec::new();
        let mut see = |press: &mut Press| {
            for n in 0..5000 {
                press.code(&shared, b"user:1", &record("user", n), &mut coded);
            }
        };
        see(&mut press);
        assert_eq!(
            (press.wants_samples(&shared), press.training_due(&shared)),
            (Some(640 << 10), None)
        );
        press.grant_samples();
        see(&mut press);
        assert_eq!(press.wants_samples(&shared), None);
        assert!(press
            .training_due(&shared)
            .is_some_and(|bytes| bytes > 1 << 20));
    }

    /// Kinds of long wordy values get zstd where it pays, short ones never.
    #[test]
    fn long_wordy_values_are_served_by_zstd() {
        // Misses so dear that a busy machine's clock does not decide.
        let (shared, mut press) = (
            Compress::new(
                CompressMode::On,
                CompressOptions::default(),
                Some(Duration::from_secs(1)),
            ),
            Press::new(8 << 20, CompressOptions::default()),
        );
        let long = |n: u64| -> Vec<u8> {
            (0..24)
                .flat_map(|part| record("order", n * 24 + part))
                .collect()
        };
        let mut coded = Vec::new();
        for n in 0..6000 {
            press.code(&shared, b"order:1", &long(n), &mut coded);
            upkeep(&mut press, &shared);
        }
        let level = shared
            .dictionaries
            .with(|table| table.current(Class::of(b"order:1")).zstd_level());
        assert_eq!(level, Some(3));
        let (value, mut back) = (long(777_777), Vec::new());
        assert!(press.code(&shared, b"order:1", &value, &mut coded));
        assert_eq!(
            crate::codec::CodedHead::read(&coded).unwrap().codec(),
            "zstd"
        );
        assert!(shared.decode(&coded, &mut back) && back == value);
        assert!(press.code(&shared, b"order:1", &record("order", 5), &mut coded));
        assert_eq!(
            crate::codec::CodedHead::read(&coded).unwrap().codec(),
            "lz4"
        );
    }
}
