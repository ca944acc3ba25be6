//! One drain: empty a segment item by item, or relink it whole.
//!
//! ```text
//! Count   main only: walk the records, add up what is referenced; >= 90 % -> relink
//! Apply   item by item: keep, promote, evict, expire (or, to relink, one off each counter)
//! Retry   items that were busy
//! ```
//! Resumable after any item. Between calls nothing is pinned; the segment's state (Draining) keeps
//! writers from changing items in place, so what was gathered stays true but for items that vanish or
//! move on, and every step compares places in the index again.
//!
//! One file: the three phases and what becomes of an item in each share one gathered entry.

use super::{Books, Gone};
use crate::compress::{Press, Way};
use crate::config::Cause;
use crate::item::Kind;
use crate::location::{Place, Tier, COUNTER_MAX};
use crate::mem::Pin;
use crate::metrics::Counter;
use crate::models_switch::{mutant, Mutant};
use crate::policy::{self, ItemFacts, Pool, SegmentFacts, Verdict, Whole};
use crate::segment::SegmentId;
use crate::store::{Seen, Store};
use crate::sync::{pause, Ordering};

/// Why a segment is emptied, and so what becomes of its items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// Oldest of probation: promote or evict.
    Probation,
    /// Oldest of main: relink, keep or evict.
    Main,
    /// A main segment in an extent that is to go back: keep or evict, never relink.
    Empty,
    /// Mostly dead: keep everything that lives, counters unchanged.
    Compact,
    /// Of the compressed tier, and old: everything goes.
    Trim,
    /// Oldest active segment of two lists: whole to the young end of the inactive one, counters cleared.
    Deactivate,
}

/// A live record found by the walk.
#[derive(Clone, Copy)]
struct Entry {
    place: Place,
    hash: u64,
    reserved: u32,
    /// What the policy weighs: the whole value for the head of a chunked one, nothing for a chunk, so that
    /// one verdict falls on a value and not one a chunk.
    size: u32,
    counter: u8,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Item,
    /// Expired, idle or flushed.
    Over,
    /// A piece of a large value; `hash` is its owner's.
    Chunk,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Count,
    Apply,
    Retry,
    Relink,
}

/// Live records remembered from the count; the rest of a segment of tiny items is walked twice. 512 KiB.
const ENTRIES_MAX: usize = 16 << 10;

pub(super) struct Drain {
    id: SegmentId,
    mode: Mode,
    phase: Phase,
    /// Where the walk is.
    at: usize,
    /// Where `entries` end: the second walk starts here.
    resume_at: usize,
    /// Records looked at.
    walked: u64,
    referenced: u64,
    entries: Vec<Entry>,
    next: usize,
    busy: Vec<Entry>,
    retries: u32,
    /// Bytes put into main, to be counted at the end.
    promoted: u64,
    kept: u64,
    /// Bytes put anywhere else, whatever for.
    moved: u64,
    /// Live bytes when it began.
    live: u64,
    /// Accesses that count for nothing, after many drains that freed nothing: without it a cache that is
    /// referenced all over would be walked whole, again and again, for one segment.
    strictness: u32,
    /// Groups, by number, that lose nothing in this drain.
    promised: Vec<bool>,
    /// Bytes kept for that reason alone.
    spared: u64,
    /// Where a survivor finds no room it is evicted; else the drain is given up.
    evicts: bool,
    given_up: bool,
    /// Something took long: enough for one piece of work.
    rests: bool,
}

/// Records whose hashes are gathered before the index is asked: their lines are fetched meanwhile.
const BATCH: usize = 16;

impl Drain {
    pub(super) fn new(id: SegmentId, live: u64, mode: Mode, strictness: u32) -> Drain {
        Drain {
            id,
            mode,
            phase: match mode {
                Mode::Main => Phase::Count,
                Mode::Deactivate => Phase::Relink,
                _ => Phase::Apply,
            },
            at: 0,
            resume_at: 0,
            walked: 0,
            referenced: 0,
            entries: Vec::new(),
            next: 0,
            busy: Vec::new(),
            retries: 0,
            promoted: 0,
            kept: 0,
            moved: 0,
            live,
            strictness,
            promised: Vec::new(),
            spared: 0,
            evicts: true,
            given_up: false,
            rests: false,
        }
    }

    /// Nothing that lives is to leave the cache by this drain, whatever room there is.
    pub(super) fn spare_all(&mut self) {
        self.evicts = false;
    }

    /// A survivor found no room. What was not moved is where it was.
    pub(super) fn is_given_up(&self) -> bool {
        self.given_up
    }

    /// Groups of which nothing is evicted by this drain. (All promises together are half of the cache at most: there
    /// is something else that can go.)
    pub(super) fn promise(&mut self, promised: Vec<bool>) {
        self.promised = promised;
    }

    /// Whether most of what the drain kept was kept for a promise: that says nothing of the rest.
    pub(super) fn is_spared(&self) -> bool {
        self.spared * 2 > self.promoted + self.kept
    }

    pub(super) fn id(&self) -> SegmentId {
        self.id
    }

    pub(super) fn relinks(&self) -> bool {
        self.phase == Phase::Relink
    }

    pub(super) fn deactivates(&self) -> bool {
        self.mode == Mode::Deactivate
    }

    /// Whether the drain brought less than a tenth of its segment.
    pub(super) fn is_fruitless(&self, store: &Store) -> bool {
        let used = store.segment(self.id).used() as u64;
        // A chunk is kept for its owner's counter, which a drain of the chunk does not lower: in the compressed tier, where
        // nothing is relinked, the only segment of main would be moved to and fro for ever.
        let counts = self.mode == Mode::Main || self.tier(store) == Tier::Compressed;
        self.relinks() && !self.deactivates() || counts && self.kept * 10 > used * 9
    }

    /// Records it looked at.
    pub(super) fn walked(&self) -> u64 {
        self.walked
    }

    /// Whether it freed less than a quarter of its segment, what was moved elsewhere not counted as freed.
    pub(super) fn frees_little(&self, store: &Store) -> bool {
        self.relinks() || self.moved * 4 > store.segment(self.id).used() as u64 * 3
    }

    /// Live bytes that left the cache by it, at the end.
    pub(super) fn evicted_bytes(&self) -> u64 {
        match self.mode {
            Mode::Compact | Mode::Deactivate => 0,
            _ if self.relinks() => 0,
            _ => self.live.saturating_sub(self.promoted + self.kept),
        }
    }

    /// Bytes copied only to get at the dead ones between.
    pub(super) fn compacted_bytes(&self) -> u64 {
        match self.mode {
            Mode::Compact => self.moved,
            _ => 0,
        }
    }

    pub(super) fn counter(&self) -> Counter {
        match self.mode {
            Mode::Compact => Counter::SegmentsCompacted,
            _ => Counter::SegmentsDrained,
        }
    }

    /// Does up to `items` items. True when the segment is empty (or relinked, or the drain is given up).
    pub(super) fn work(&mut self, store: &Store, books: &mut Books, items: usize) -> bool {
        let mut left = items;
        // The kernel's ageing and deactivation clear the accessed bit; ours takes one count off.
        let clears = self.deactivates() || store.setting().rules.classes;
        self.rests = false;
        while left > 0 && !self.rests {
            if self.given_up {
                return true;
            }
            let pin = store.pin();
            let step = left.min(BATCH);
            left -= step;
            match self.phase {
                Phase::Count => {
                    if self.count(store, &pin, step) {
                        self.decide(store);
                    }
                }
                Phase::Apply | Phase::Relink => {
                    for _ in 0..step {
                        let Some(entry) = self.next_entry(store, &pin) else {
                            if self.phase == Phase::Relink {
                                return true;
                            }
                            self.phase = Phase::Retry;
                            break;
                        };
                        match self.phase {
                            Phase::Relink => age_item(store, entry, clears),
                            _ => self.apply(store, books, &pin, entry),
                        }
                        if self.given_up {
                            return true;
                        }
                        if self.rests {
                            break;
                        }
                    }
                }
                Phase::Retry => {
                    let Some(entry) = self.busy.pop() else {
                        drop(pin);
                        self.count_main(store);
                        return true;
                    };
                    self.apply(store, books, &pin, entry);
                    drop(pin);
                    self.retries += 1;
                    pause(self.retries);
                }
            }
        }
        false
    }

    /// Adds up what is referenced, and remembers the live records as long as there is room for them.
    fn count(&mut self, store: &Store, pin: &Pin, records: usize) -> bool {
        let remembers = self.resume_at == self.at && self.entries.len() < ENTRIES_MAX;
        let before = self.entries.len();
        let end = self.gather(store, pin, records);
        self.referenced += self.entries[before..]
            .iter()
            .filter(|entry| entry.counter > 0 && entry.what != What::Over)
            .map(|entry| entry.reserved as u64)
            .sum::<u64>();
        match remembers {
            true => self.resume_at = self.at,
            false => self.entries.truncate(before),
        }
        if end {
            self.at = self.resume_at;
        }
        end
    }

    /// The next live record: from memory, else from the walk.
    fn next_entry(&mut self, store: &Store, pin: &Pin) -> Option<Entry> {
        while self.next == self.entries.len() {
            self.entries.clear();
            self.next = 0;
            if self.gather(store, pin, BATCH) && self.entries.is_empty() {
                return None;
            }
        }
        self.next += 1;
        Some(self.entries[self.next - 1])
    }

    /// Walks up to `records` records. True at the segment's end.
    fn gather(&mut self, store: &Store, pin: &Pin, records: usize) -> bool {
        let start = store.segments.start(self.id);
        let used = store.segment(self.id).used();
        let first = self.entries.len();
        let mut key = Vec::new();
        for _ in 0..records {
            if self.at >= used {
                break;
            }
            let place = Place::from_offset(start + self.at);
            let item = store.item(place);
            let layout = item.layout(item.header());
            assert!(
                layout.reserved >= 4 && self.at + layout.reserved <= used,
                "a record reaches over the end of its segment"
            );
            self.at += layout.reserved;
            store.counters.one(pin, Counter::Scanned);
            self.walked += 1;
            let (hash, what, size) = match layout.kind {
                Kind::Filler => continue,
                Kind::Chunk => (item.chunk_owner().0, What::Chunk, 0),
                Kind::Plain | Kind::Chunked => {
                    key.clear();
                    item.append_key(&layout, &mut key);
                    let size = layout.reserved.max(layout.value_bytes);
                    (store.hash(&key), What::Item, size)
                }
            };
            store.index.prefetch_directory(hash);
            self.entries.push(Entry {
                place,
                hash,
                reserved: layout.reserved as u32,
                size: size as u32,
                counter: 0,
                what,
            });
        }
        for entry in &self.entries[first..] {
            store.index.prefetch_bucket(entry.hash);
        }
        let mut keep = first;
        for at in first..self.entries.len() {
            let mut entry = self.entries[at];
            if self.is_live(store, &mut entry) {
                self.entries[keep] = entry;
                keep += 1;
            }
        }
        self.entries.truncate(keep);
        self.at >= used
    }

    /// Whether a slot still points here; fills in counter and state.
    fn is_live(&self, store: &Store, entry: &mut Entry) -> bool {
        if entry.what == What::Chunk {
            return owner_of(store, entry.hash, entry.place).is_some_and(|(counter, owner)| {
                entry.counter = self.counter_of_chunk(store, counter, owner) as u8;
                true
            });
        }
        let Some(counter) = store.index.counter_of(entry.hash, entry.place) else {
            return false;
        };
        entry.counter = counter.min(COUNTER_MAX) as u8;
        if is_over(store, entry.place) {
            entry.what = What::Over;
        }
        true
    }

    fn decide(&mut self, store: &Store) {
        self.phase = Phase::Apply;
        if self.strictness > 0 {
            return;
        }
        let facts = SegmentFacts {
            pool: Pool::Main,
            used_bytes: store.segment(self.id).used() as u64,
            referenced_bytes: self.referenced,
        };
        if policy::segment(store.setting(), &facts) == Whole::Relink {
            self.phase = Phase::Relink;
        }
    }

    fn apply(&mut self, store: &Store, books: &mut Books, pin: &Pin, entry: Entry) {
        if entry.what == What::Over || self.is_flushed(store, entry) {
            return self.drop_item(store, books, pin, entry, Cause::Expired, false);
        }
        // A hit since the gathering counts.
        let counter = match entry.what {
            What::Chunk => owner_of(store, entry.hash, entry.place)
                .map(|(counter, owner)| self.counter_of_chunk(store, counter, owner)),
            _ => store.index.counter_of(entry.hash, entry.place),
        };
        let Some(counter) = counter else { return };
        let pool = store.segment(self.id).pool();
        let verdict = match self.mode {
            Mode::Compact => Verdict::Keep {
                counter: counter as u8,
            },
            Mode::Trim => Verdict::Evict { ghost: true },
            _ if self.tier(store) == Tier::Compressed => {
                super::tiers::compressed_verdict(counter.saturating_sub(self.strictness) as u8)
            }
            _ => store.policy.item(
                store.setting(),
                &ItemFacts {
                    pool,
                    counter: counter.saturating_sub(self.strictness) as u8,
                    size: entry.size as u64,
                },
            ),
        };
        match verdict {
            Verdict::Keep { counter } => self.keep(store, books, pin, entry, counter as u32),
            Verdict::Promote => self.keep(store, books, pin, entry, 0),
            Verdict::Evict { .. } if self.demotes(store, pool, counter as u8) => {
                self.demote(store, books, pin, entry, counter as u8)
            }
            Verdict::Evict { .. } if self.is_promised(store, &entry) => {
                self.spared += u64::from(entry.reserved);
                self.keep(store, books, pin, entry, 0)
            }
            Verdict::Evict { ghost } => {
                self.probe(store, books, entry);
                self.drop_item(store, books, pin, entry, Cause::Evicted, ghost)
            }
        }
    }

    /// Whether the item is of a group that holds no more than it was promised.
    fn is_promised(&self, store: &Store, entry: &Entry) -> bool {
        let place = match entry.what {
            _ if self.promised.is_empty() => return false,
            What::Chunk => match owner_of(store, entry.hash, entry.place) {
                Some((_, owner)) => owner,
                None => return false,
            },
            _ => entry.place,
        };
        store.is_promised(&self.promised, place)
    }

    /// A chunk goes by its owner's counter; where the owner was demoted already it follows, whatever the
    /// counter: else accesses would hold the pieces of a large value in hot without its head.
    fn counter_of_chunk(&self, store: &Store, counter: u32, owner: Place) -> u32 {
        let demoted = store.segments.of(owner).tier() == Tier::Compressed;
        match demoted && self.tier(store) == Tier::Hot {
            true => 0,
            false => counter,
        }
    }

    fn tier(&self, store: &Store) -> Tier {
        store.segment(self.id).tier()
    }

    /// Whether what this drain evicts goes a tier down.
    fn demotes(&self, store: &Store, pool: Pool, counter: u8) -> bool {
        if self.tier(store) != Tier::Hot {
            return false;
        }
        match store.compress.way() {
            Way::Off => false,
            Way::On => true,
            Way::Filtered => super::tiers::demoted_pool(pool, counter) == Pool::Main,
        }
    }

    /// A tier down: coded where that pays, as it is where not; out where there is no room.
    fn demote(&mut self, store: &Store, books: &mut Books, pin: &Pin, entry: Entry, counter: u8) {
        store.facts.evicted.store(true, Ordering::Relaxed);
        let source = store.segment(self.id);
        let target = super::moving::Target {
            tier: Tier::Compressed,
            compaction: false,
            pool: super::tiers::demoted_pool(source.pool(), counter),
            generation: source.generation(),
        };
        let has_time = books.unhurried;
        let coder = books.press.as_mut().map(|press| (press, has_time));
        let moved = match entry.what {
            What::Chunk => self.move_chunk(store, pin, entry, target, coder),
            _ => store.compress.demoting(|| {
                super::moving::move_item(store, pin, entry.hash, entry.place, 0, target, coder)
            }),
        };
        match moved {
            super::moving::Moved::Done(bytes) => {
                self.moved += bytes as u64;
                store.compress.count_demotion();
                if target.pool == Pool::Main {
                    self.promoted += bytes as u64;
                }
            }
            super::moving::Moved::Gone => {}
            super::moving::Moved::Busy => self.busy.push(entry),
            super::moving::Moved::NoRoom => {
                self.drop_item(store, books, pin, entry, Cause::Evicted, true)
            }
        }
    }

    /// Moves a chunk, and ends this piece of work: coding one takes up to a millisecond.
    fn move_chunk(
        &mut self,
        store: &Store,
        pin: &Pin,
        entry: Entry,
        target: super::moving::Target,
        coder: Option<super::moving::Coder<'_>>,
    ) -> super::moving::Moved {
        self.rests |= coder.is_some();
        super::moving_chunk::move_chunk(store, pin, entry.hash, entry.place, target, coder)
    }

    /// Codes up to `items` items of a sealed segment for the sake of samples, and leaves them where they are. The
    /// segment is settled and nobody drains it.
    pub(super) fn sample(store: &Store, press: &mut Press, id: SegmentId, items: usize) {
        let segment = store.segment(id);
        // Nobody overwrites in place meanwhile.
        segment.start_drain();
        let mut drain = Drain::new(id, 0, Mode::Compact, 0);
        let mut coded = Vec::new();
        for _ in 0..items.div_ceil(BATCH) {
            let pin = store.pin();
            let end = drain.gather(store, &pin, BATCH);
            for entry in std::mem::take(&mut drain.entries) {
                if entry.what == What::Item {
                    with_bytes(store, entry.place, |key, value| {
                        press.probe(&store.compress, key, value, &mut coded);
                    });
                }
            }
            if end {
                break;
            }
        }
        segment.stop_drain();
    }

    /// Codes an item that leaves now and then, to know what compressing would bring; what comes of it is dropped.
    fn probe(&self, store: &Store, books: &mut Books, entry: Entry) {
        if entry.what != What::Item || self.tier(store) != Tier::Hot || !store.compress.probes() {
            return;
        }
        if let Some(press) = &mut books.press {
            with_bytes(store, entry.place, |key, value| {
                press.probe(&store.compress, key, value, &mut Vec::new());
            });
        }
    }

    /// Flushed since it was gathered: it must not be carried to a segment younger than the mark. (Chunks
    /// go by their owner.)
    fn is_flushed(&self, store: &Store, entry: Entry) -> bool {
        entry.what == What::Item && store.is_flushed(entry.place)
    }

    /// Moves a survivor; where there is no room for it, it is evicted after all, or the drain given up.
    fn keep(&mut self, store: &Store, books: &mut Books, pin: &Pin, entry: Entry, counter: u32) {
        let source = store.segment(self.id);
        let tier = source.tier();
        let target = super::moving::Target {
            tier,
            compaction: self.mode == Mode::Compact,
            pool: match self.mode {
                Mode::Compact => source.pool(),
                _ => Pool::Main,
            },
            generation: source.generation(),
        };
        // Copied anyway: the moment to leave a retired dictionary.
        let has_time = books.unhurried;
        let coder = match tier {
            Tier::Compressed => books.press.as_mut().map(|press| (press, has_time)),
            Tier::Hot => None,
        };
        let moved = match entry.what {
            What::Chunk => self.move_chunk(store, pin, entry, target, coder),
            _ => {
                let (hash, place) = (entry.hash, entry.place);
                super::moving::move_item(store, pin, hash, place, counter, target, coder)
            }
        };
        if let super::moving::Moved::Done(bytes) = moved {
            self.moved += bytes as u64;
        }
        // While hot is a small front, only what goes into the compressed tier's main ages it.
        let counts = tier == Tier::Compressed || !store.compress.is_on();
        match moved {
            super::moving::Moved::Done(_) if !counts => {}
            super::moving::Moved::Done(bytes) => match self.mode {
                Mode::Compact | Mode::Deactivate | Mode::Trim => {}
                Mode::Probation => self.promoted += bytes as u64,
                Mode::Main | Mode::Empty => self.kept += bytes as u64,
            },
            super::moving::Moved::Gone => {}
            super::moving::Moved::Busy => self.busy.push(entry),
            super::moving::Moved::NoRoom if !self.evicts => self.given_up = true,
            super::moving::Moved::NoRoom => {
                self.drop_item(store, books, pin, entry, Cause::Evicted, true)
            }
        }
    }

    fn drop_item(
        &mut self,
        store: &Store,
        books: &mut Books,
        pin: &Pin,
        entry: Entry,
        cause: Cause,
        ghost: bool,
    ) {
        let (hash, place) = match entry.what {
            What::Chunk => match owner_of(store, entry.hash, entry.place) {
                Some((_, owner)) => (entry.hash, owner),
                None => return,
            },
            _ => (entry.hash, entry.place),
        };
        let Some(seen) = store.see(place) else {
            // Being overwritten this moment: the writer is done in less than a microsecond.
            self.busy.push(entry);
            return;
        };
        if cause == Cause::Expired && !is_over(store, place) && !mutant(Mutant::OverUnchecked) {
            // Written anew since it was gathered.
            self.busy.push(Entry {
                what: What::Item,
                ..entry
            });
            return;
        }
        let taken = match entry.what {
            // Its owner lies elsewhere, where writers may be at work.
            What::Chunk => match take_locked(store, pin, hash, &seen, cause) {
                Ok(taken) => taken,
                Err(Changing) => return self.busy.push(entry),
            },
            _ => take(store, pin, hash, &seen, cause),
        };
        let Some(gone) = taken else { return };
        books.gone.extend(gone);
        if cause == Cause::Evicted {
            store.facts.evicted.store(true, Ordering::Relaxed);
            if ghost {
                let generation = store.segment(self.id).generation();
                store.remember(hash, generation, entry.counter as u32);
            }
        }
    }

    fn count_main(&self, store: &Store) {
        if self.promoted + self.kept == 0 {
            return;
        }
        let from = store.segment(self.id).generation();
        let mut generations = crate::sync::lock(&store.generations);
        use crate::generation::Source;
        if self.promoted > 0 {
            generations.put_main(self.promoted, Source::New);
        }
        if self.kept > 0 {
            generations.put_main(self.kept, Source::SecondChance(from));
        }
        store.publish_now(&generations);
    }
}

/// Whether nobody can read the item any more. While a writer changes it its fields mean nothing: it is there.
fn is_over(store: &Store, place: Place) -> bool {
    let item = store.item(place);
    let header = item.header();
    if header.locked() && !mutant(Mutant::OverUnchecked) {
        return false;
    }
    let fields = item.fields(&item.layout(header));
    store.is_gone(place, &fields) && header.still(item.header_after_copy())
}

/// Shows key and value of an item that lies plain.
fn with_bytes(store: &Store, place: Place, look: impl FnOnce(&[u8], &[u8])) {
    let Some(seen) = store.see(place) else {
        return;
    };
    if seen.layout.kind != Kind::Plain || seen.layout.is_coded() {
        return;
    }
    let (mut key, mut value) = (Vec::new(), Vec::new());
    seen.item.append_key(&seen.layout, &mut key);
    seen.item.append_value(&seen.layout, &mut value);
    // Bytes that a writer changes meanwhile are as good a sample.
    look(&key, &value);
}

/// One off the counter (or all) of an item whose segment is relinked.
fn age_item(store: &Store, entry: Entry, clears: bool) {
    if entry.what == What::Item && entry.counter > 0 {
        let less = if clears { 0 } else { entry.counter as u32 - 1 };
        store.index.set_counter(entry.hash, entry.place, less);
    }
}

/// The live owner of a chunk: its counter and place.
pub(super) fn owner_of(store: &Store, hash: u64, chunk: Place) -> Option<(u32, Place)> {
    let (_, number) = store.item(chunk).chunk_owner();
    let found = store.index.find(hash, |place| {
        let seen = store.look(place);
        if mutant(Mutant::LockedHeadIsGone) && seen.header.locked() {
            return false;
        }
        seen.layout.kind == Kind::Chunked
            && (number as usize) < store.chunk_count(&seen.layout)
            && store
                .chunk_word(&seen, number as usize)
                .load(Ordering::Acquire)
                == chunk.raw()
    })?;
    Some((found.slot.counter(), found.slot.place()))
}

/// Somebody is changing an item, or has since it was seen: look again.
#[derive(Debug)]
pub(crate) struct Changing;

/// `take` of an item that others may be changing in place, and of one `Expired` only if it is. Under its lock: a touch
/// meanwhile would book its new expiry after the old one was buried, and its item, touched and good for long, would be
/// gone.
pub(crate) fn take_locked(
    store: &Store,
    pin: &Pin,
    hash: u64,
    seen: &Seen<'_>,
    cause: Cause,
) -> Result<Option<Option<Gone>>, Changing> {
    let locks = !mutant(Mutant::ExpireUnlocked);
    if seen.header.busy() || locks && !seen.item.try_lock(seen.header) {
        return Err(Changing);
    }
    let may_go = cause != Cause::Expired || store.is_gone(seen.place, &seen.fields);
    let taken = match may_go && seen.is_same_under_lock() {
        true => Ok(take(store, pin, hash, seen, cause)),
        false => Err(Changing),
    };
    match (&taken, locks) {
        (Ok(Some(_)), true) => seen.item.unlock_frozen(seen.header),
        (_, true) => seen.item.unlock(seen.header),
        (_, false) => {}
    }
    taken
}

/// Takes an item out of the index and buries it. None: it was no longer there. The inner value is what
/// to tell the listener. Nobody changes the item meanwhile: its segment is being drained, it is locked, or no caller
/// is left.
pub(crate) fn take(
    store: &Store,
    pin: &Pin,
    hash: u64,
    seen: &Seen<'_>,
    cause: Cause,
) -> Option<Option<Gone>> {
    let told = store
        .listener
        .as_ref()
        .map(|listener| describe(store, seen, listener.values, cause));
    if !store.index.remove_if(hash, seen.place) {
        return None;
    }
    if cause == Cause::Evicted {
        store.count_evicted(seen.place);
    }
    store.bury_item(seen);
    store.counters.one(
        pin,
        match cause {
            Cause::Evicted => Counter::Evicted,
            Cause::Expired => Counter::Expired,
            Cause::Removed | Cause::Replaced => Counter::Deleted,
        },
    );
    Some(told)
}

/// Key (and value) of an item, for the listener.
pub(crate) fn describe(store: &Store, seen: &Seen<'_>, values: bool, cause: Cause) -> Gone {
    let mut key = Vec::with_capacity(seen.layout.key_bytes);
    seen.item.append_key(&seen.layout, &mut key);
    let value = (values && seen.layout.kind == Kind::Plain).then(|| value_of(store, seen));
    Gone { key, value, cause }
}

fn value_of(store: &Store, seen: &Seen<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(seen.layout.value_bytes);
    seen.item.append_value(&seen.layout, &mut bytes);
    if !seen.layout.is_coded() {
        return bytes;
    }
    let mut value = Vec::new();
    // Damaged: the listener gets an empty value, as the reader would have got none.
    let _ = store.compress.decode(&bytes, &mut value);
    value
}
