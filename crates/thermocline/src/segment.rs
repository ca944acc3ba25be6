//! Segments: fixed parts of extents, filled from front to end, sealed, drained, reused.
//!
//! ```text
//! Free --open--> Open --seal--> Sealed --drain--> Draining --retire--> Condemned --no pin, no hold--> Free
//!   open: whoever fills a lane (lane lock)      drain, retire: the reclaimer (reclaim lock)
//!   seal: the writer whose item did not fit     Condemned -> Free: the reclaimer, epochs later
//!   Draining -> Sealed: relinked whole to the young end
//! ```
//! Owns the table of segments and the free list. A sealed segment may still be written by pinned writers
//! who reserved before, and one whose dead room is reused (`holes.rs`) by new ones: it is in no queue then, and sealed
//! anew after. It is drained only when the epoch has passed its sealing, and when no long
//! write (`writers`) is under way in it. `holds` count guards that outlive a pin.
//!
//! One file: states, table and free list are one state machine, and its tests a quarter of the lines.
//!
//! Must hold: at most one state change at a time a segment; a Free segment has no slot pointing into it.

mod broken;
mod warm;

use crate::expiry::ExpiringBytes;
use crate::location::{Place, Tier, UNIT_BYTES};
use crate::mem::{ExtentId, Extents, EXTENT_BYTES};
use crate::models_switch::{mutant, Mutant};
use crate::policy::Pool;
use crate::sync::{lock, AtomicU32, AtomicU64, Mutex, Ordering};

/// The n-th segment place of the item region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct SegmentId(pub(crate) u32);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Free = 0,
    Open = 1,
    Sealed = 2,
    Draining = 3,
    Condemned = 4,
}

const STATES: [State; 5] = [
    State::Free,
    State::Open,
    State::Sealed,
    State::Draining,
    State::Condemned,
];

/// What is known of one segment.
pub(crate) struct Segment {
    state: AtomicU32,
    /// Pool in the top bit, tier in the next, generation below.
    pool: AtomicU32,
    birth: AtomicU64,
    sealed_epoch: AtomicU64,
    /// Unix ms: what lies here was stored by then. 0 after a restart: old enough for anything.
    sealed_ms: AtomicU64,
    used: AtomicU32,
    dead: AtomicU32,
    /// In team use: bytes of it that were given back.
    released: AtomicU32,
    /// Dead bytes that were of no use when it was last looked through.
    looked: AtomicU32,
    /// The highest version that records in reused room have begun at, or have died at there; see `holes.rs`.
    reuse_version: AtomicU32,
    /// Times what was given back was brought back under live bytes: holes from before are whole.
    mends: AtomicU32,
    /// Long writes under way: their bytes are being filled in without a pin.
    pub(crate) writers: AtomicU32,
    /// Guards that hold bytes of this segment without a pin.
    pub(crate) holds: AtomicU32,
    pub(crate) expiring: ExpiringBytes,
}

/// Room where a record died at so high a version is not used again: hot small items would soon be at the last one.
pub(crate) const REUSE_MAX: u32 = 128;

const MAIN: u32 = 1 << 31;
const COMPRESSED: u32 = 1 << 30;
/// Numbers of generations go round here.
const GENERATIONS: u32 = COMPRESSED - 1;

impl Segment {
    fn new() -> Segment {
        Segment {
            state: AtomicU32::new(State::Free as u32),
            pool: AtomicU32::new(0),
            birth: AtomicU64::new(0),
            sealed_epoch: AtomicU64::new(0),
            sealed_ms: AtomicU64::new(0),
            used: AtomicU32::new(0),
            dead: AtomicU32::new(0),
            released: AtomicU32::new(0),
            looked: AtomicU32::new(0),
            reuse_version: AtomicU32::new(0),
            mends: AtomicU32::new(0),
            writers: AtomicU32::new(0),
            holds: AtomicU32::new(0),
            expiring: ExpiringBytes::default(),
        }
    }

    pub(crate) fn state(&self) -> State {
        STATES[self.state.load(Ordering::Acquire) as usize]
    }

    fn go(&self, from: State, to: State) {
        let was = self.state.compare_exchange(
            from as u32,
            to as u32,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        assert!(was.is_ok(), "segment {from:?} -> {to:?} from {was:?}");
    }

    /// Whether items here may be overwritten in place: not while it is being emptied.
    #[inline(always)]
    pub(crate) fn writable(&self) -> bool {
        if mutant(Mutant::NoFreezeNorDrainingCheck) {
            return true;
        }
        let state = self.state.load(Ordering::Acquire);
        state == State::Open as u32 || state == State::Sealed as u32
    }

    pub(crate) fn pool(&self) -> Pool {
        if self.pool.load(Ordering::Relaxed) & MAIN != 0 {
            Pool::Main
        } else {
            Pool::Probation
        }
    }

    pub(crate) fn generation(&self) -> u32 {
        self.pool.load(Ordering::Relaxed) & GENERATIONS
    }

    pub(crate) fn tier(&self) -> Tier {
        if self.pool.load(Ordering::Relaxed) & COMPRESSED != 0 {
            Tier::Compressed
        } else {
            Tier::Hot
        }
    }

    /// A number no segment had before: grows with every opening.
    #[inline(always)]
    pub(crate) fn birth(&self) -> u64 {
        self.birth.load(Ordering::Relaxed)
    }

    /// Bytes appended, once sealed.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Acquire) as usize
    }

    /// Bytes of records that no slot points to any more.
    pub(crate) fn dead(&self) -> usize {
        (self.dead.load(Ordering::Relaxed) as usize).min(self.used())
    }

    /// Dead bytes of a segment that is still open.
    pub(crate) fn dead_so_far(&self) -> usize {
        self.dead.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn live(&self) -> usize {
        self.used() - self.dead()
    }

    /// Books bytes as dead.
    #[inline]
    pub(crate) fn bury(&self, bytes: usize) {
        self.dead.fetch_add(bytes as u32, Ordering::Relaxed);
    }

    /// Dead bytes that a new record takes.
    pub(crate) fn revive(&self, bytes: usize) {
        self.dead.fetch_sub(bytes as u32, Ordering::Relaxed);
    }

    /// The highest version that records in reused room have begun at, or have died at there; 0: none was reused.
    pub(crate) fn reuse_version(&self) -> u32 {
        self.reuse_version.load(Ordering::Relaxed)
    }

    pub(crate) fn set_reuse_version(&self, version: u32) {
        self.reuse_version.store(version, Ordering::Relaxed);
    }

    pub(crate) fn sealed_epoch(&self) -> u64 {
        self.sealed_epoch.load(Ordering::Relaxed)
    }

    /// Unix ms of its sealing.
    pub(crate) fn sealed_ms(&self) -> u64 {
        self.sealed_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn start_drain(&self) {
        self.go(State::Sealed, State::Draining);
    }

    /// Back to Sealed at the young end of a pool.
    pub(crate) fn relink(&self, pool: Pool, generation: u32) {
        let main = if pool == Pool::Main { MAIN } else { 0 };
        self.pool
            .store(main | generation & GENERATIONS, Ordering::Relaxed);
        self.go(State::Draining, State::Sealed);
    }

    pub(crate) fn condemn(&self) {
        self.go(State::Draining, State::Condemned);
    }
}

/// All segments.
pub(crate) struct Segments {
    extents: Extents,
    bytes: usize,
    /// There are never more, whatever the budget would give.
    most: usize,
    shift: u32,
    table: Box<[Segment]>,
    books: Mutex<Books>,
    next_birth: AtomicU64,
    /// Lengths of the free list and of segments in use, for readers without the lock.
    free: AtomicU32,
    owned: AtomicU32,
    /// Free segments whose memory was given back, of those that may be opened.
    hollow: AtomicU32,
    /// Free budget that segments leave to others: the index, the ghosts.
    withheld_bytes: AtomicU64,
}

struct Books {
    free: Vec<SegmentId>,
    /// Free ones whose memory was given back: charged and filled again before they are opened.
    hollow: Vec<SegmentId>,
    /// How many segments of each extent are free, and how many of these hollow.
    free_in_extent: Vec<u16>,
    hollow_in_extent: Vec<u16>,
    /// An extent being emptied: nothing new is opened in it.
    emptying: Option<ExtentId>,
}

impl Books {
    /// Free segments that may be opened: not those of an extent that is being emptied.
    fn usable(&self) -> usize {
        let kept = self.emptying.map_or(0, |extent| {
            let n = extent.0 as usize;
            self.free_in_extent[n] - self.hollow_in_extent[n]
        });
        self.free.len() - kept as usize
    }

    /// Hollow segments that may be filled again.
    fn fillable(&self) -> usize {
        let kept = self
            .emptying
            .map_or(0, |extent| self.hollow_in_extent[extent.0 as usize]);
        self.hollow.len() - kept as usize
    }
}

impl Segments {
    pub(crate) fn new(extents: Extents, bytes: usize, most: usize, first_birth: u64) -> Segments {
        assert!(bytes.is_power_of_two() && EXTENT_BYTES % bytes == 0);
        let count = extents.capacity() as usize * (EXTENT_BYTES / bytes);
        Segments {
            bytes,
            most,
            shift: bytes.trailing_zeros(),
            table: (0..count).map(|_| Segment::new()).collect(),
            books: Mutex::new(Books {
                free: Vec::new(),
                hollow: Vec::new(),
                free_in_extent: vec![0; extents.capacity() as usize],
                hollow_in_extent: vec![0; extents.capacity() as usize],
                emptying: None,
            }),
            extents,
            next_birth: AtomicU64::new(first_birth),
            free: AtomicU32::new(0),
            owned: AtomicU32::new(0),
            hollow: AtomicU32::new(0),
            withheld_bytes: AtomicU64::new(0),
        }
    }

    pub(crate) fn extents(&self) -> &Extents {
        &self.extents
    }

    /// Bytes of a segment.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn per_extent(&self) -> usize {
        EXTENT_BYTES / self.bytes
    }

    #[inline(always)]
    pub(crate) fn get(&self, id: SegmentId) -> &Segment {
        &self.table[id.0 as usize]
    }

    #[inline(always)]
    pub(crate) fn id_of(&self, place: Place) -> SegmentId {
        SegmentId((place.offset() >> self.shift) as u32)
    }

    #[inline(always)]
    pub(crate) fn of(&self, place: Place) -> &Segment {
        self.get(self.id_of(place))
    }

    /// Offset of a segment's first byte in the item region.
    pub(crate) fn start(&self, id: SegmentId) -> usize {
        (id.0 as usize) << self.shift
    }

    /// Free segments at hand, without those the budget could still give.
    pub(crate) fn free(&self) -> usize {
        self.free.load(Ordering::Relaxed) as usize
    }

    /// Segments that the address space has room for.
    pub(crate) fn places(&self) -> usize {
        self.table.len()
    }

    /// Segments that exist, free or not.
    pub(crate) fn owned(&self) -> usize {
        self.owned.load(Ordering::Relaxed) as usize
    }

    /// Bytes of segments that guards hold. Walks the table.
    pub(crate) fn held_bytes(&self) -> u64 {
        let held = |segment: &&Segment| segment.holds.load(Ordering::Relaxed) != 0;
        (self.table.iter().filter(held).count() * self.bytes) as u64
    }

    /// Bytes of the table itself.
    pub(crate) fn table_bytes(&self) -> u64 {
        (self.table.len() * std::mem::size_of::<Segment>()) as u64
    }

    /// The youngest birth number given so far.
    pub(crate) fn last_birth(&self) -> u64 {
        self.next_birth.load(Ordering::SeqCst) - 1
    }

    /// Opens a free segment, taking an extent from the budget if need be, but leaves `reserve` free
    /// ones behind. None: no room.
    pub(crate) fn open(
        &self,
        tier: Tier,
        pool: Pool,
        generation: u32,
        reserve: usize,
        now_s: u32,
    ) -> Option<SegmentId> {
        let id = self.take_free(reserve)?;
        let segment = self.get(id);
        let main = if pool == Pool::Main { MAIN } else { 0 };
        let tier = match tier {
            Tier::Hot => 0,
            Tier::Compressed => COMPRESSED,
        };
        segment
            .pool
            .store(main | tier | generation & GENERATIONS, Ordering::Relaxed);
        segment.used.store(0, Ordering::Relaxed);
        segment.dead.store(0, Ordering::Relaxed);
        segment.looked.store(0, Ordering::Relaxed);
        segment.mends.store(0, Ordering::Relaxed);
        segment.reuse_version.store(0, Ordering::Relaxed);
        segment.expiring.reset(now_s);
        segment.birth.store(
            self.next_birth.fetch_add(1, Ordering::SeqCst),
            Ordering::Relaxed,
        );
        segment.go(State::Free, State::Open);
        Some(id)
    }

    fn take_free(&self, reserve: usize) -> Option<SegmentId> {
        let mut books = lock(&self.books);
        while books.usable() <= reserve {
            if !self.fill_hollow(&mut books) {
                self.add_extent(&mut books)?;
            }
        }
        let at = match books.emptying {
            None => books.free.len().checked_sub(1),
            Some(extent) => books
                .free
                .iter()
                .rposition(|&id| self.extent_of(id) != extent),
        }?;
        let id = books.free.remove(at);
        books.free_in_extent[self.extent_of(id).0 as usize] -= 1;
        self.publish_lengths(&books);
        Some(id)
    }

    /// Leaves so much free budget to others from now on.
    pub(crate) fn withhold(&self, bytes: u64) {
        // Of memory that never goes back nothing can be kept for others.
        let bytes = if self.extents.gives_back() { bytes } else { 0 };
        self.withheld_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn withheld_bytes(&self) -> u64 {
        self.withheld_bytes.load(Ordering::Relaxed)
    }

    /// Segments that free budget and address space would still give, and the extents touched ahead.
    pub(crate) fn could_add(&self) -> usize {
        let budget = self
            .extents
            .budget_free()
            .saturating_sub(self.withheld_bytes());
        let hollow = self.could_fill(budget);
        let budget = budget - (hollow * self.bytes) as u64;
        let extents = (budget / EXTENT_BYTES as u64).min(u64::from(self.extents.room()));
        let segments = (extents as usize + self.extents.warm() as usize) * self.per_extent();
        hollow + segments.min(self.most.saturating_sub(self.owned()))
    }

    /// Bytes that segments may still take: what the budget has left and what was touched ahead, within
    /// `most`.
    pub(crate) fn room_bytes(&self) -> u64 {
        let unmade = self.most.saturating_sub(self.owned()) as u64;
        let warm = u64::from(self.extents.warm()) * EXTENT_BYTES as u64;
        // What fills hollow segments is no room beside them: they count as owned.
        let hollow = u64::from(self.hollow.load(Ordering::Relaxed)) * self.bytes as u64;
        let left = self.extents.budget_free().saturating_sub(hollow) + warm;
        left.min(unmade.saturating_mul(self.bytes as u64))
    }

    /// The extent touched ahead has been taken and there is budget for another.
    pub(crate) fn wants_warm(&self) -> bool {
        self.extents.warm() == 0 && self.could_add() > 0
    }

    /// The same, and touching ahead came too late for the last one already.
    pub(crate) fn wants_warm_at_once(&self) -> bool {
        self.extents.is_late() && self.wants_warm()
    }

    fn add_extent(&self, books: &mut Books) -> Option<()> {
        if self.could_add() == 0 {
            return None;
        }
        let extent = self.extents.take()?;
        let per = self.per_extent() as u32;
        let added = per.min(self.most.saturating_sub(self.owned()) as u32);
        // Pushed from high to low: the lowest address is opened first.
        for n in (0..added).rev() {
            books.free.push(SegmentId(extent.0 * per + n));
        }
        books.free_in_extent[extent.0 as usize] = added as u16;
        self.owned.fetch_add(added, Ordering::Relaxed);
        self.publish_lengths(books);
        Some(())
    }

    fn publish_lengths(&self, books: &Books) {
        self.free.store(books.usable() as u32, Ordering::Relaxed);
        self.hollow
            .store(books.fillable() as u32, Ordering::Relaxed);
    }

    pub(crate) fn extent_of(&self, id: SegmentId) -> ExtentId {
        ExtentId(id.0 / self.per_extent() as u32)
    }

    /// A sealed segment in which records were published again is as if sealed anew.
    pub(crate) fn reseal(&self, id: SegmentId, epoch: u64, now_ms: u64) {
        let segment = self.get(id);
        if !mutant(Mutant::NotSealedAnew) {
            segment.sealed_epoch.store(epoch, Ordering::Relaxed);
        }
        segment.sealed_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Seals an open segment at `used` bytes.
    pub(crate) fn seal(&self, id: SegmentId, used: usize, epoch: u64, now_ms: u64) {
        let segment = self.get(id);
        segment.used.store(used as u32, Ordering::Release);
        segment.sealed_epoch.store(epoch, Ordering::Relaxed);
        segment.sealed_ms.store(now_ms, Ordering::Relaxed);
        segment.go(State::Open, State::Sealed);
    }

    /// A condemned segment that nobody pins or holds becomes free.
    pub(crate) fn free_condemned(&self, id: SegmentId) {
        let segment = self.get(id);
        assert!(
            segment.holds.load(Ordering::SeqCst) == 0
                && segment.writers.load(Ordering::SeqCst) == 0
        );
        segment.go(State::Condemned, State::Free);
        let mut books = lock(&self.books);
        let extent = self.extent_of(id);
        books.free_in_extent[extent.0 as usize] += 1;
        if self.make_whole(id) {
            books.free.push(id);
        } else {
            self.hollow_out(&mut books, id);
        }
        let empty = self.is_hollow(&books, extent);
        if empty {
            self.disown(&mut books, extent);
        }
        self.publish_lengths(&books);
        drop(books);
        if empty {
            self.extents.give_back(extent);
        }
    }

    /// Gives one wholly free extent back to the budget. False when there is none.
    pub(crate) fn give_back_extent(&self) -> bool {
        if self.extents.drop_warm() {
            return true;
        }
        if !self.extents.gives_back() {
            return false;
        }
        let per = self.per_extent() as u16;
        let extent = {
            let mut books = lock(&self.books);
            let whole = books.free_in_extent.iter().rposition(|&free| free == per);
            let Some(extent) = whole.map(|n| ExtentId(n as u32)) else {
                return false;
            };
            self.disown(&mut books, extent);
            self.publish_lengths(&books);
            extent
        };
        self.extents.give_back(extent);
        true
    }

    /// Takes an extent whose segments are all free out of the books.
    fn disown(&self, books: &mut Books, extent: ExtentId) {
        let n = extent.0 as usize;
        books.free.retain(|&id| self.extent_of(id) != extent);
        books.hollow.retain(|&id| self.extent_of(id) != extent);
        (books.free_in_extent[n], books.hollow_in_extent[n]) = (0, 0);
        self.forget_released(extent);
        if books.emptying == Some(extent) {
            books.emptying = None;
        }
        self.owned
            .fetch_sub(self.per_extent() as u32, Ordering::Relaxed);
    }

    /// Chooses the extent that is nearest to being free, one without fresh segments first, so that it can be emptied:
    /// nothing is opened in it any more. Returns its segments.
    pub(crate) fn empty_one_extent(&self, is_fresh: impl Fn(SegmentId) -> bool) -> Vec<SegmentId> {
        let per = self.per_extent() as u32;
        let mut books = lock(&self.books);
        let kept = books.emptying.filter(|extent| self.can_empty(extent.0));
        let chosen = kept.or_else(|| {
            (0..self.extents.capacity())
                .filter(|&n| self.is_owned(&books, n) && self.can_empty(n))
                .max_by_key(|&n| {
                    let mut segments = (0..per).map(|at| SegmentId(n * per + at));
                    let old = !segments.any(&is_fresh);
                    let free = books.free_in_extent[n as usize];
                    (old, free, std::cmp::Reverse(self.youngest_birth(n)))
                })
                .map(ExtentId)
        });
        books.emptying = chosen;
        self.publish_lengths(&books);
        chosen
            .map(|extent| (0..per).map(|n| SegmentId(extent.0 * per + n)).collect())
            .unwrap_or_default()
    }

    /// The extent that is being emptied.
    pub(crate) fn emptying(&self) -> Option<ExtentId> {
        lock(&self.books).emptying
    }

    /// Its free bytes.
    pub(crate) fn emptied_bytes(&self) -> u64 {
        let books = lock(&self.books);
        let free = |extent: ExtentId| books.free_in_extent[extent.0 as usize];
        u64::from(books.emptying.map_or(0, free)) * self.bytes as u64
    }

    /// Whether nothing that may last (a guard, a value being streamed in) keeps a segment of this extent.
    fn can_empty(&self, extent: u32) -> bool {
        let per = self.per_extent() as u32;
        (0..per).all(|n| {
            let segment = self.get(SegmentId(extent * per + n));
            segment.holds.load(Ordering::Relaxed) == 0
                && segment.writers.load(Ordering::Relaxed) == 0
        })
    }

    /// The birth of the youngest segment in use: of two extents the older goes.
    fn youngest_birth(&self, extent: u32) -> u64 {
        let per = self.per_extent() as u32;
        let births = (0..per).map(|n| self.get(SegmentId(extent * per + n)));
        births
            .filter(|segment| segment.state() != State::Free)
            .map(Segment::birth)
            .max()
            .unwrap_or(0)
    }

    fn is_owned(&self, books: &Books, extent: u32) -> bool {
        let per = self.per_extent() as u32;
        books.free_in_extent[extent as usize] > 0
            || (0..per).any(|n| self.get(SegmentId(extent * per + n)).state() != State::Free)
    }

    /// Nobody waits for an emptied extent any more.
    pub(crate) fn stop_emptying(&self) {
        let mut books = lock(&self.books);
        books.emptying = None;
        self.publish_lengths(&books);
    }

    /// All segments in this state. Walks the table.
    pub(crate) fn in_state(&self, state: State) -> impl Iterator<Item = SegmentId> + '_ {
        let wanted = state as u32;
        self.table
            .iter()
            .enumerate()
            .filter(move |(_, segment)| segment.state.load(Ordering::Relaxed) == wanted)
            .map(|(n, _)| SegmentId(n as u32))
    }

    /// The CAS token of what lies at `place` in its `version`: birth, offset, version. Unique for ever:
    /// births are not reused, versions saturate.
    #[inline]
    pub(crate) fn token(&self, place: Place, version: u32) -> u64 {
        let offset = place.offset() & (self.bytes - 1);
        let bits = self.shift - UNIT_BYTES.trailing_zeros() + 8;
        (self.of(place).birth() << bits) | (((offset / UNIT_BYTES) as u64) << 8) | version as u64
    }
}

/// The first birth number of a new cache: so far ahead of any earlier one that tokens do not come back
/// after a restart, as long as the earlier one wrote no more than 512 MiB/s in the mean. Counted from 2026, tokens
/// then have all their 64 bits to themselves until 2043; later births wrap in them, and a token would come back to
/// whom has kept it for 17 years.
pub(crate) fn first_birth(now_ms: u64, segment_bytes: usize) -> u64 {
    const BASE_MS: u64 = 1_767_225_600_000;
    let per_second = (512 << 20) / segment_bytes as u64;
    now_ms.saturating_sub(BASE_MS) / 1000 * per_second + 1
}

#[cfg(all(test, not(shuttle)))]
pub(super) mod tests {
    use super::*;
    use crate::mem::{Budget, Grain, Region};
    use std::sync::Arc;

    pub(super) fn segments(extents: usize, bytes: usize) -> (Segments, Arc<Budget>) {
        let budget = Arc::new(Budget::new((extents * EXTENT_BYTES) as u64));
        let region = Region::reserve(2 * extents * EXTENT_BYTES, Grain::Items, false).unwrap();
        let extents = Extents::new(region, budget.clone());
        (Segments::new(extents, bytes, usize::MAX, 1000), budget)
    }

    fn recycle(segments: &Segments, id: SegmentId) {
        segments.seal(id, 100, 0, 0);
        segments.get(id).start_drain();
        segments.get(id).condemn();
        segments.free_condemned(id);
    }

    #[test]
    fn the_reserve_stays_and_births_grow() {
        let (segments, _) = segments(1, EXTENT_BYTES / 4);
        let open = |reserve| segments.open(Tier::Hot, Pool::Probation, 7, reserve, 0);
        let (a, b, c) = (open(1).unwrap(), open(1).unwrap(), open(1).unwrap());
        assert_eq!(open(1), None);
        let d = open(0).unwrap();
        assert_eq!(open(0), None);
        let births: Vec<u64> = [a, b, c, d].map(|id| segments.get(id).birth()).to_vec();
        assert_eq!(births, [1000, 1001, 1002, 1003]);
        recycle(&segments, b);
        assert_eq!(open(0), Some(b));
        assert_eq!(segments.get(b).birth(), 1004);
        assert_eq!(segments.get(b).generation(), 7);
    }

    #[test]
    fn whole_extents_go_back_when_asked() {
        let (segments, budget) = segments(2, EXTENT_BYTES / 2);
        let ids: Vec<_> = (0..4)
            .map(|_| segments.open(Tier::Hot, Pool::Main, 0, 0, 0).unwrap())
            .collect();
        assert!(!segments.give_back_extent());
        recycle(&segments, ids[2]);
        let emptied = segments.empty_one_extent(|_| false);
        assert_eq!(emptied, [ids[2], ids[3]]);
        assert_eq!(
            segments.open(Tier::Hot, Pool::Main, 0, 0, 0),
            None,
            "it is being emptied"
        );
        recycle(&segments, ids[3]);
        assert!(segments.give_back_extent());
        assert_eq!(budget.free_bytes(), EXTENT_BYTES as u64);
        assert!(segments.open(Tier::Hot, Pool::Main, 0, 0, 0).is_some());
    }

    #[test]
    fn a_birth_fits_its_token_until_2043() {
        const END_OF_2042_MS: u64 = 2_303_683_200_000;
        for segment_bytes in [64 << 10, EXTENT_BYTES] {
            let units = (segment_bytes / UNIT_BYTES).trailing_zeros();
            let birth = first_birth(END_OF_2042_MS, segment_bytes);
            assert!(birth.leading_zeros() >= units + 8, "{birth}");
        }
    }

    #[test]
    fn tokens_differ_by_birth_offset_and_version() {
        let (segments, _) = segments(1, SEGMENT);
        const SEGMENT: usize = EXTENT_BYTES / 32;
        let id = segments.open(Tier::Hot, Pool::Main, 0, 0, 0).unwrap();
        let at = |offset| Place::from_offset(segments.start(id) + offset);
        let tokens = [
            segments.token(at(0), 0),
            segments.token(at(0), 255),
            segments.token(at(4), 0),
            segments.token(at(SEGMENT - 4), 255),
        ];
        recycle(&segments, id);
        let again = segments.open(Tier::Hot, Pool::Main, 0, 0, 0).unwrap();
        assert_eq!(id, again);
        let mut all = tokens.to_vec();
        all.push(segments.token(at(0), 0));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 5);
    }

    #[test]
    fn there_are_never_more_than_asked_for() {
        let (mut segments, _budget) = segments(2, EXTENT_BYTES / 32);
        segments.most = 33;
        assert_eq!(segments.room_bytes(), 33 * segments.bytes() as u64);
        let opened = (0..40)
            .filter_map(|_| segments.open(Tier::Hot, Pool::Main, 0, 0, 0))
            .count();
        assert_eq!(
            (opened, segments.owned(), segments.could_add()),
            (33, 33, 0)
        );
        assert_eq!((segments.room_bytes(), segments.wants_warm()), (0, false));
    }
}
