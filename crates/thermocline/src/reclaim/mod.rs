//! Reclaim: the only code that frees memory.
//!
//! ```text
//! sealed segments queue here -> policy says which -> drain (gather, decide, apply) -> condemned -> free
//! ```
//! A background thread works between the low and the high watermark; a writer that finds no room makes
//! bounded direct passes. Both take the one reclaim lock; a drain is resumable, so whoever holds the lock
//! does a few items and lets go.
//!
//! Must hold: no lock but this one is held while a pin waits; callbacks run with neither.

mod background;
mod choose;
mod cost;
mod drain;
mod emptying;
mod evict_old;
mod free;
mod moving;
mod moving_chunk;
mod patience;
mod reopen;
mod thin;
mod tiers;
mod trim;
mod waiting;
mod warm;

pub(crate) use background::{Background, Bell, Work};
pub(crate) use drain::{describe, take, take_locked};
pub(crate) use moving::{promote, Version};
pub use patience::limit_waits;
pub(crate) use reopen::close_holes;

use crate::compress::Press;
use crate::config::{Cause, CONDEMNED_MIN, CONDEMNED_SHARE};
use crate::groups::Groups;
use crate::location::Place;
use crate::metrics::Counter;
use crate::policy::{Fruitless, Pool};
use crate::segment::{SegmentId, State};
use crate::store::Store;
use crate::sync::{lock, AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering};
use drain::Drain;
use patience::Patience;
use std::collections::VecDeque;

/// Items a direct pass looks at before it lets go of the lock. A drain looks at each twice (count, apply) and frees at
/// least a tenth: 32 make room for 1.6, so that writers keep up by themselves; 16 would not.
const DIRECT_ITEMS: usize = 32;
/// The same where no background thread works ahead of the writers: see `is_time`.
const DIRECT_ITEMS_ALONE: usize = 64;
/// The same where items are coded on their way: 5 us each with the better search.
const DIRECT_ITEMS_CODED: usize = 16;
/// Items the background thread does in one go.
const BACKGROUND_ITEMS: usize = 512;
/// Segments looked at for compaction in one go.
const CANDIDATES_MAX: usize = 1024;

/// One item that left, to be told to the listener once no lock is held.
pub(crate) struct Gone {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) cause: Cause,
}

pub(crate) struct Reclaim {
    books: Mutex<Books>,
    /// Signalled when a segment became free.
    freed: Condvar,
    waiting: Mutex<()>,
    condemned_bytes: AtomicU64,
    /// Live bytes that drains have made leave, so far.
    evicted_bytes: AtomicU64,
    /// Bytes of budget the ghost table is short of.
    ghosts_want: AtomicU64,
    /// Bytes charged for the duel's shadows, and bytes of budget they are short of.
    shadows_charged: AtomicU64,
    shadows_want: AtomicU64,
    /// What compression holds for a while, and what it is short of.
    grants: Mutex<tiers::Grants>,
    grants_want: AtomicU64,
    /// What dictionaries, their tables and the encoder may take.
    dictionary_bytes: u64,
    /// Segments of the compressed tier born before this are coded anew when room is short; 0: none are.
    recode_below: AtomicU64,
    /// Extents the index is short of.
    extents_wanted: AtomicU64,
    pub(crate) evict: AtomicBool,
    /// What could be evicted when last looked at was too young for it.
    too_young: AtomicBool,
    /// There may be segments worth reopening.
    reopens: AtomicBool,
    /// There is a background thread, which does what takes long.
    background: bool,
    /// Held by whoever refits the ghost table.
    fitting: Mutex<()>,
    /// Held while what others wait for is added up.
    withholding: Mutex<()>,
    /// Segments queued in probation and main at the last look.
    queued: [AtomicU64; 2],
    /// Largest item ever put in, bytes: part of the fresh floor.
    pub(crate) item_bytes_max: AtomicU64,
}

/// The reclaimer's own books.
struct Books {
    /// Oldest first.
    probation: VecDeque<SegmentId>,
    /// By generation, oldest first.
    main: VecDeque<SegmentId>,
    /// The same two of the compressed tier.
    compressed_probation: VecDeque<SegmentId>,
    compressed_main: VecDeque<SegmentId>,
    compressed_bytes: [u64; 2],
    /// Codes what is demoted; None until compression is switched on.
    press: Option<Press>,
    /// Coding may take its time: the background thread is at work.
    unhurried: bool,
    /// Since when demotion is held back for the first dictionary while items are evicted, ms of the clock.
    waits_since: Option<u64>,
    /// When samples were last taken from what lies in hot, ms of the clock.
    sampled_ms: Option<u64>,
    /// The last drain was of the hot tier, to make it smaller.
    hot_gave_last: bool,
    /// It freed less than a quarter of its segment: what was in it does not compress, or was kept.
    hot_frees_little: bool,
    /// The last drain was for an extent that is owed.
    paid_last: bool,
    condemned: VecDeque<(SegmentId, u64)>,
    /// How dead a segment must be for compaction, by what compaction costs.
    compact: cost::Cost,
    /// Something was queued, and since then the epoch has not moved on by two.
    unsettled: bool,
    drain: Option<Drain>,
    /// Segments whose survivors found no room, until a segment comes free or a writer asks again.
    given_up: Vec<SegmentId>,
    /// In team use: the segment whose dead runs are looked for.
    thin: Option<thin::Thin>,
    /// Segments that are to be reopened.
    look: Option<reopen::Look>,
    gone: Vec<Gone>,
    /// Where the next look for candidates starts.
    candidate_at: usize,
    /// The same of segments to be looked through.
    thin_at: usize,
    /// Drains in a row that freed next to nothing: main is referenced all over.
    fruitless: Fruitless,
    sealed_bytes: [u64; 2],
}

/// What a pass came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// Did some work; call again.
    Some,
    /// Nothing to do, or nothing that can be done now.
    None,
    /// Nothing until streamed values end or other threads' segments settle.
    Held,
    /// Nothing until guards let go: nobody knows when.
    Guarded,
    /// Nothing until other threads end their pins.
    Pinned,
}

impl Reclaim {
    /// `dictionary_bytes`: what compression sets aside once it has or wants a dictionary.
    pub(crate) fn new(
        evict: bool,
        background: bool,
        press: Option<Press>,
        dictionary_bytes: u64,
    ) -> Reclaim {
        Reclaim {
            books: Mutex::new(Books {
                probation: VecDeque::new(),
                main: VecDeque::new(),
                compressed_probation: VecDeque::new(),
                compressed_main: VecDeque::new(),
                compressed_bytes: [0; 2],
                press,
                unhurried: false,
                waits_since: None,
                sampled_ms: None,
                hot_gave_last: false,
                hot_frees_little: false,
                paid_last: false,
                condemned: VecDeque::new(),
                compact: cost::Cost::default(),
                unsettled: false,
                drain: None,
                given_up: Vec::new(),
                thin: None,
                look: None,
                gone: Vec::new(),
                candidate_at: 0,
                thin_at: 0,
                fruitless: Fruitless::default(),
                sealed_bytes: [0; 2],
            }),
            freed: Condvar::new(),
            waiting: Mutex::new(()),
            condemned_bytes: AtomicU64::new(0),
            evicted_bytes: AtomicU64::new(0),
            ghosts_want: AtomicU64::new(0),
            shadows_charged: AtomicU64::new(0),
            shadows_want: AtomicU64::new(0),
            grants: Mutex::default(),
            dictionary_bytes,
            recode_below: AtomicU64::new(0),
            grants_want: AtomicU64::new(0),
            extents_wanted: AtomicU64::new(0),
            evict: AtomicBool::new(evict),
            too_young: AtomicBool::new(false),
            reopens: AtomicBool::new(true),
            background,
            fitting: Mutex::new(()),
            withholding: Mutex::new(()),
            queued: [AtomicU64::new(0), AtomicU64::new(0)],
            item_bytes_max: AtomicU64::new(0),
        }
    }

    /// Segments a writer could still open: free ones above the reserve and those the budget would give.
    fn available(&self, store: &Store) -> usize {
        (store.segments.free() + store.segments.could_add())
            .saturating_sub(store.reserve_segments())
    }

    /// Low watermark: below it the background thread wakes. Without one nobody works ahead of the writers, and
    /// nothing is kept for the time until it does.
    fn low(&self, store: &Store) -> usize {
        usize::from(self.background) + store.segments.owned() / 512
    }

    /// High watermark: here it stops.
    fn high(&self, store: &Store) -> usize {
        self.low(store) + 1 + store.segments.owned() / 256
    }

    pub(crate) fn is_short(&self, store: &Store) -> bool {
        self.available(store) <= self.low(store) || self.owes(store)
    }

    fn is_full_enough(&self, store: &Store) -> bool {
        self.available(store) >= self.high(store) && !self.owes(store)
    }

    /// Extents must go back: to the system after the budget shrank, or to the index.
    fn owes(&self, store: &Store) -> bool {
        let withheld = store.segments.withheld_bytes();
        store.budget.excess_bytes() > 0 || withheld > 0 && store.budget.free_bytes() < withheld
    }

    /// Keeps segments from taking what the index and the ghosts wait for.
    fn withhold(&self, store: &Store) {
        // What was read first must not be written last.
        let _adding_up = lock(&self.withholding);
        let extents = self.extents_wanted.load(Ordering::Relaxed) * crate::mem::EXTENT_BYTES as u64;
        let others: u64 = [&self.ghosts_want, &self.shadows_want, &self.grants_want]
            .into_iter()
            .map(|want| want.load(Ordering::Relaxed))
            .sum();
        store.segments.withhold(extents + others);
        if extents + others == 0 {
            store.segments.stop_emptying();
        }
    }

    pub(crate) fn condemned_bytes(&self) -> u64 {
        self.condemned_bytes.load(Ordering::Relaxed)
    }

    fn condemned_cap(store: &Store) -> u64 {
        let memory = store.budget.limit_bytes();
        let share = (memory as f64 * CONDEMNED_SHARE) as u64;
        share.max(CONDEMNED_MIN.min(memory / 8))
    }

    /// The share of the work of a writer to this pool, when room is getting short: bounded, and skipped if someone
    /// else is at it. No pin may be held.
    #[inline]
    pub(crate) fn help(&self, store: &Store, pool: Pool) {
        if !self.background {
            self.reopen_some(store);
        }
        let ghosts_due = !self.background && store.ghosts_due();
        if ghosts_due || self.is_short(store) && self.is_time(store, pool) {
            self.help_slowly(store);
        }
    }

    /// Where writers do all the work they begin when the segment they fill is nearly full: a segment that is free
    /// long before it is wanted holds nothing (0.6 % of a cache of 128 segments). What an eighth of a segment of
    /// writes looks at, 64 items each, is eight segments.
    fn is_time(&self, store: &Store, pool: Pool) -> bool {
        let bytes = store.segments.bytes();
        let is_near_full = |used: usize| used > bytes - bytes / 8;
        let open = || store.lanes.of(pool).open();
        self.background || self.owes(store) || open().is_none_or(|(_, used)| is_near_full(used))
    }

    fn direct_items(&self, store: &Store) -> usize {
        match (store.compress.is_on(), self.background) {
            (true, _) => DIRECT_ITEMS_CODED,
            (false, true) => DIRECT_ITEMS,
            (false, false) => DIRECT_ITEMS_ALONE,
        }
    }

    #[cold]
    fn help_slowly(&self, store: &Store) {
        if let Ok(mut books) = self.books.try_lock() {
            let pin = store.pin();
            store.counters.one(&pin, Counter::DirectPasses);
            drop(pin);
            if !self.background && store.ghosts_due() {
                self.fit_ghosts(store);
            }
            if !self.background {
                self.charge_shadows(store);
            }
            if self.is_short(store) {
                self.pass(store, &mut books, self.direct_items(store));
            }
            self.finish(store, books);
        }
    }

    /// Lets go of the lock, then tells the listener.
    fn finish(&self, store: &Store, mut books: MutexGuard<'_, Books>) {
        self.queued[0].store(books.probation.len() as u64, Ordering::Relaxed);
        self.queued[1].store(books.main.len() as u64, Ordering::Relaxed);
        if books.gone.is_empty() {
            return;
        }
        let gone = std::mem::take(&mut books.gone);
        drop(books);
        for item in gone {
            store.tell(item.cause, &item.key, item.value.as_deref());
        }
    }

    /// One bounded piece of work: up to `items` items.
    fn pass(&self, store: &Store, books: &mut Books, items: usize) -> Progress {
        self.close_worn(store, books);
        self.queue_sealed(store, books);
        let freed = self.free_condemned(store, books);
        let thins = books.drain.is_none() && (books.unhurried || !self.background);
        if thins && self.thins(store) && self.thin(store, books, items) {
            return Progress::Some;
        }
        if self.owes(store) {
            self.forget_holes(store, books);
        } else if books.drain.is_none() && self.reopen(store, books) {
            return Progress::Some;
        }
        let starts = books.drain.is_none();
        if starts && !self.start(store, books) {
            let stuck = !freed && books.condemned.is_empty() && self.available(store) == 0;
            if stuck && store.holes.segments() > 0 {
                // What is reopened cannot be drained, and nothing else can.
                self.forget_holes(store, books);
                // Not again before something new was sealed: nothing came of it.
                self.reopens.store(false, Ordering::Relaxed);
                return Progress::Some;
            }
            return match freed {
                true => Progress::Some,
                false => self.idle_progress(store, books),
            };
        }
        if starts && self.background && !books.unhurried {
            // Looking through the candidates was a writer's share; the items are the next one's.
            return Progress::Some;
        }
        let Some(mut drain) = books.drain.take() else {
            return Progress::Some;
        };
        if drain.work(store, books, items) {
            match drain.is_given_up() {
                true => self.give_up(store, books, drain.id()),
                false => self.end(store, books, drain),
            }
            self.free_condemned(store, books);
        } else {
            books.drain = Some(drain);
        }
        Progress::Some
    }

    /// Empties a segment of which at least `share` is dead, expired or flushed (and worth it to the
    /// policy), though nobody needs room yet. True if it did something.
    pub(crate) fn sweep(&self, store: &Store, share: f64) -> bool {
        let mut books = lock(&self.books);
        self.close_worn(store, &mut books);
        self.queue_sealed(store, &mut books);
        if books.drain.is_none() {
            // In a quiet cache nobody else moves the epoch on, and nothing sealed would ever count as settled.
            let _ = store.domain.try_advance() && store.domain.try_advance();
            let Some(best) = self.most_freed(store, &mut books, false) else {
                let freed = self.free_condemned(store, &mut books);
                return freed;
            };
            if (best.freed_bytes() as f64) < best.used_bytes as f64 * share {
                return false;
            }
            let id = SegmentId(best.segment);
            if !self.unqueue(store, &mut books, id) {
                return false;
            }
            self.begin(store, &mut books, id, drain::Mode::Compact);
            if let Some(drain) = &mut books.drain {
                // Nobody is in need of the room.
                drain.spare_all();
            }
        }
        let progress = self.pass(store, &mut books, BACKGROUND_ITEMS);
        self.finish(store, books);
        progress == Progress::Some
    }

    /// Nothing is to be drained: what else would bring room, or why nothing does.
    fn idle_progress(&self, store: &Store, books: &Books) -> Progress {
        if store.index.extents().drop_warm() {
            return Progress::Some;
        }
        let pinned = |&(_, epoch): &(SegmentId, u64)| !store.domain.passed(epoch);
        if books.condemned.iter().any(pinned) {
            return Progress::Pinned;
        }
        let mut queued = books.queues().into_iter().flatten();
        let mut sealed = books.queues().into_iter().flatten();
        let guarded = !books.condemned.is_empty() || sealed.any(|&id| choose::is_held(store, id));
        // Touched ahead this moment, or kept back for the index or the ghosts: it may yet come free.
        let warming = store.segments.extents().is_warming()
            || store.index.extents().is_warming()
            || store.segments.withheld_bytes() > 0;
        // Where nothing is evicted, what is not settled brings room only by what is dead in it.
        let evicts = self.evicts(store) && !self.too_young.load(Ordering::Relaxed);
        let brings = |id| evicts || reopen::is_worth_emptying(store, id);
        let unsettled = queued.any(|&id| !choose::is_settled(store, id) && brings(id));
        match (warming || unsettled, guarded) {
            (true, _) => Progress::Held,
            (false, true) => Progress::Guarded,
            (false, false) => Progress::None,
        }
    }

    /// One go of the background thread. False when there is nothing (more) to do.
    pub(crate) fn work(&self, store: &Store) -> bool {
        let mut books = lock(&self.books);
        books.unhurried = true;
        let progress = self.pass(store, &mut books, BACKGROUND_ITEMS);
        books.unhurried = false;
        self.finish(store, books);
        progress == Progress::Some
    }

    /// Drops the slot of a gone item that a reader stumbled on, if it still is there.
    pub(crate) fn expire_at(&self, store: &Store, hash: u64, place: Place) {
        let pin = store.pin();
        // The reader's pin has ended: something else may lie there by now.
        if store.index.find(hash, |at| at == place).is_none() {
            return;
        }
        let Some(seen) = store.see(place) else { return };
        let taken = drain::take_locked(store, &pin, hash, &seen, Cause::Expired);
        drop(pin);
        if let Ok(Some(Some(gone))) = taken {
            store.tell(gone.cause, &gone.key, gone.value.as_deref());
        }
    }

    /// After a flush or a drop: a mark can be forgotten once nothing from before it is left.
    pub(crate) fn forget_marks(&self, store: &Store) {
        if store.flush.any.load(Ordering::Acquire) == 0 {
            return;
        }
        let _books = lock(&self.books);
        self.forget_flush(store);
        if let Some(groups) = &store.groups {
            forget_drops(store, groups);
        }
        store.refresh_marks();
    }

    fn forget_flush(&self, store: &Store) {
        let mark = store.flush.birth.load(Ordering::Acquire);
        if mark == 0 {
            return;
        }
        let old = |state: State| {
            store
                .segments
                .in_state(state)
                .any(|id| store.segment(id).birth() <= mark)
        };
        // Condemned ones too: a reader may still be pinned in one.
        if [
            State::Open,
            State::Sealed,
            State::Draining,
            State::Condemned,
        ]
        .into_iter()
        .any(old)
        {
            return;
        }
        let _ = store
            .flush
            .birth
            .compare_exchange(mark, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Works until the budget is no longer exceeded. False: guards or pins keep too much.
    pub(crate) fn shrink(&self, store: &Store) -> bool {
        let fits = self.work_until(store, Patience::of_shrinking(), |_| {
            store.budget.excess_bytes()
        });
        self.withhold(store);
        self.fit_ghosts(store);
        fits
    }

    /// Runs `change` while reclaim stands still.
    pub(crate) fn while_still(&self, change: impl FnOnce()) {
        let books = lock(&self.books);
        change();
        drop(books);
    }

    /// Queued segments of each pool, for statistics: as they were a moment ago where reclaim is at work, for who
    /// asks must not wait for it.
    pub(crate) fn queued(&self) -> (usize, usize) {
        let [probation, main] = &self.queued;
        if let Ok(books) = self.books.try_lock() {
            probation.store(books.probation.len() as u64, Ordering::Relaxed);
            main.store(books.main.len() as u64, Ordering::Relaxed);
        }
        let read = |of: &AtomicU64| of.load(Ordering::Relaxed) as usize;
        (read(probation), read(main))
    }
}

/// A dropped group's mark goes when no segment from before it holds bytes of the group any more, and all pins from
/// then have ended: a reader pinned earlier may hold the place of an item that was buried since.
fn forget_drops(store: &Store, groups: &Groups) {
    let in_use = [
        State::Open,
        State::Sealed,
        State::Draining,
        State::Condemned,
    ];
    for id in groups.ids().filter(|&id| groups.mark(id) != 0) {
        let holds = |segment: SegmentId| {
            // Nobody is still publishing there.
            groups.bytes(segment.0, id) > 0 || !choose::is_settled(store, segment)
        };
        let clear = !in_use
            .into_iter()
            .flat_map(|state| store.segments.in_state(state))
            .any(|segment| groups.is_dark(id, store.segment(segment).birth()) && holds(segment));
        let _ = store.domain.try_advance();
        if groups.is_clear(id, clear, store.domain.epoch(), |at| {
            store.domain.passed(at)
        }) {
            groups.forget(id);
        }
    }
}
