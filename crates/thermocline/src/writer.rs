//! Lanes: the open segments writers append to, one lane a core and pool.
//!
//! One shared write head is the known way not to scale. A lane is one word {segment, offset}: reserving
//! is one compare-exchange, copying happens outside any lock, the writer stays pinned until it has
//! published. Survivors and compaction have lanes of their own, used under the reclaim lock only.
//!
//! Must hold: open segments together stay under 4 % of the cache (`Lanes::new`); every reserved stretch
//! is written as a record or a filler before its pin ends.

use crate::config::OPEN_SHARE;
use crate::item::Item;
use crate::location::{Place, Tier, UNIT_BYTES};
use crate::mem::{current_core, Pin};
use crate::models_switch::{mutant, Mutant};
use crate::policy::{Origin, Pool};
use crate::segment::{SegmentId, Segments};
use crate::sync::{lock, AtomicU64, Mutex, MutexGuard, Ordering};

/// Lanes of reclaim's own, and those of them that only compression opens.
const RECLAIM_LANES: usize = 3;
const COMPRESSED_LANES: usize = 3;
const NONE: u64 = (u32::MAX as u64) << 32;

/// An open segment and how far it is filled.
#[repr(align(64))]
pub(crate) struct Lane {
    word: AtomicU64,
    filling: Mutex<()>,
    /// Filled by writers, not by reclaim.
    fresh: bool,
}

/// How a lane gets its next segment.
#[derive(Clone, Copy)]
pub(crate) struct Opening {
    pub(crate) tier: Tier,
    pub(crate) origin: Origin,
    /// Free segments to leave behind for others.
    pub(crate) reserve: usize,
    pub(crate) now_s: u32,
}

/// What came of a reservation.
pub(crate) enum Reserved {
    At(Place),
    /// No free segment: make room and come back.
    Full,
}

impl Lane {
    fn new(fresh: bool) -> Lane {
        Lane {
            fresh,
            word: AtomicU64::new(NONE),
            filling: Mutex::new(()),
        }
    }

    /// Reserves `bytes`; `wide` aligns them to 8. The pin must live until the record is published, or
    /// until the segment's `writers` counts it.
    pub(crate) fn reserve(
        &self,
        segments: &Segments,
        _pin: &Pin,
        bytes: usize,
        wide: bool,
        opening: Opening,
        books: &dyn LaneBooks,
    ) -> Reserved {
        let units = (bytes / UNIT_BYTES) as u64;
        debug_assert!(bytes % UNIT_BYTES == 0 && bytes <= segments.bytes());
        loop {
            let word = self.word.load(Ordering::Acquire);
            if word >= NONE {
                match self.open_next(segments, opening, books) {
                    true => continue,
                    false => return Reserved::Full,
                }
            }
            let (id, offset) = split(word);
            let gap = if wide { offset % 2 } else { 0 };
            if (offset + gap + units) as usize * UNIT_BYTES > segments.bytes() {
                self.seal(word, books);
                continue;
            }
            if let Some(place) = self.take(segments, word, id, offset, gap, units) {
                return Reserved::At(place);
            }
        }
    }

    /// Reserves `bytes` in what is open, if they fit; opens and seals nothing.
    pub(crate) fn reserve_open(
        &self,
        segments: &Segments,
        _pin: &Pin,
        bytes: usize,
        wide: bool,
    ) -> Option<Place> {
        let units = (bytes / UNIT_BYTES) as u64;
        loop {
            let word = self.word.load(Ordering::Acquire);
            let (id, offset) = split(word);
            let gap = if wide { offset % 2 } else { 0 };
            let end = (offset + gap + units) as usize * UNIT_BYTES;
            if word >= NONE || end > segments.bytes() {
                return None;
            }
            if let Some(place) = self.take(segments, word, id, offset, gap, units) {
                return Some(place);
            }
        }
    }

    /// One try to move the word on by `gap + units`.
    fn take(
        &self,
        segments: &Segments,
        word: u64,
        id: SegmentId,
        offset: u64,
        gap: u64,
        units: u64,
    ) -> Option<Place> {
        let next = word + gap + units;
        self.word
            .compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed)
            .ok()?;
        let start = segments.start(id) + offset as usize * UNIT_BYTES;
        if gap == 1 {
            Item::at(segments.extents().region(), start).write_filler(UNIT_BYTES);
            segments.get(id).bury(UNIT_BYTES);
        }
        Some(Place::from_offset(start + gap as usize * UNIT_BYTES))
    }

    /// Takes the segment out of the lane if `word` still stands, and seals it. Whether it did.
    fn seal(&self, word: u64, books: &dyn LaneBooks) -> bool {
        let taken = self
            .word
            .compare_exchange(word, NONE, Ordering::AcqRel, Ordering::Relaxed);
        if mutant(Mutant::SealBlind) {
            self.word.store(NONE, Ordering::Release);
        }
        if taken.is_ok() || mutant(Mutant::SealBlind) {
            let (id, offset) = split(word);
            books.sealing(id, offset as usize * UNIT_BYTES, self.fresh);
        }
        taken.is_ok()
    }

    fn open_next(&self, segments: &Segments, opening: Opening, books: &dyn LaneBooks) -> bool {
        let _filling = lock(&self.filling);
        if self.word.load(Ordering::Acquire) < NONE {
            return true;
        }
        let (pool, generation) = books.opening(&opening);
        let opened = segments.open(
            opening.tier,
            pool,
            generation,
            opening.reserve,
            opening.now_s,
        );
        let Some(id) = opened else {
            books.not_opened(opening.tier, pool, generation);
            return false;
        };
        self.word.store((id.0 as u64) << 32, Ordering::Release);
        true
    }

    /// Seals whatever is open in this lane. True if there was something.
    pub(crate) fn close(&self, books: &dyn LaneBooks) -> bool {
        loop {
            let word = self.word.load(Ordering::Acquire);
            if word >= NONE {
                return false;
            }
            // Lost to a reservation: it still is open.
            if self.seal(word, books) {
                return true;
            }
        }
    }

    /// While the guard lives no segment is opened in this lane; waits for an opening under way.
    pub(crate) fn hold(&self) -> MutexGuard<'_, ()> {
        lock(&self.filling)
    }

    /// The open segment and its filled bytes.
    pub(crate) fn open(&self) -> Option<(SegmentId, usize)> {
        let word = self.word.load(Ordering::Acquire);
        (word < NONE).then(|| {
            let (id, offset) = split(word);
            (id, offset as usize * UNIT_BYTES)
        })
    }
}

fn split(word: u64) -> (SegmentId, u64) {
    (SegmentId((word >> 32) as u32), word & u32::MAX as u64)
}

/// Who keeps the queues of sealed segments.
pub(crate) trait LaneBooks {
    /// The segment left its lane at `used` bytes: seal it and queue it. `fresh`: filled by writers.
    fn sealing(&self, id: SegmentId, used: usize, fresh: bool);
    /// A segment is about to be opened: its pool, and the generation it bears.
    fn opening(&self, opening: &Opening) -> (Pool, u32);
    /// There was none after all.
    fn not_opened(&self, tier: Tier, pool: Pool, generation: u32);
}

/// All lanes.
pub(crate) struct Lanes {
    probation: Box<[Lane]>,
    main: Box<[Lane]>,
    /// Promotions and second chances.
    pub(crate) survivors: Lane,
    /// What compaction moves out of main segments, and out of probation segments. Not the writers' lanes:
    /// those would use up the segment that was kept for survivors.
    pub(crate) compaction: Lane,
    pub(crate) probation_compaction: Lane,
    /// The compressed tier's: what hot's main demotes and what survives there; what probation demotes; what
    /// compaction moves, at its age.
    pub(crate) compressed_main: Lane,
    pub(crate) compressed_probation: Lane,
    pub(crate) compressed_compaction: Lane,
}

impl Lanes {
    /// As many lanes as `threads` want and 4 % of `segments` allow, at least one a pool.
    pub(crate) fn new(threads: usize, segments: usize, compresses: bool) -> Lanes {
        let allowed = (segments as f64 * OPEN_SHARE) as usize;
        let own = match compresses {
            true => RECLAIM_LANES + COMPRESSED_LANES,
            false => RECLAIM_LANES,
        };
        let probation = threads.min(allowed.saturating_sub(own + 1)).max(1);
        let main = threads.min(allowed.saturating_sub(own + probation)).max(1);
        let lanes = |n: usize| (0..n).map(|_| Lane::new(true)).collect();
        Lanes {
            probation: lanes(probation),
            main: lanes(main),
            survivors: Lane::new(false),
            compaction: Lane::new(false),
            probation_compaction: Lane::new(false),
            compressed_main: Lane::new(false),
            compressed_probation: Lane::new(false),
            compressed_compaction: Lane::new(false),
        }
    }

    /// The lane of this core.
    #[inline]
    pub(crate) fn of(&self, pool: Pool) -> &Lane {
        let lanes = match pool {
            Pool::Probation => &self.probation,
            Pool::Main => &self.main,
        };
        &lanes[current_core() % lanes.len()]
    }

    pub(crate) fn of_pool(&self, pool: Pool) -> &[Lane] {
        match pool {
            Pool::Probation => &self.probation,
            Pool::Main => &self.main,
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Lane> {
        self.probation.iter().chain(self.main.iter()).chain([
            &self.survivors,
            &self.compaction,
            &self.probation_compaction,
            &self.compressed_main,
            &self.compressed_probation,
            &self.compressed_compaction,
        ])
    }
}
