//! Team use: runs of dead bytes go back to the system while the rest of their segment stays in use.
//!
//! ```text
//! candidate --walk, a few records at a time--> runs known --two epochs, no hold--> hole written, pages released
//!     ^                                            |
//!     |  an eighth more of it has died             +-- drained, or opened anew meanwhile: forgotten
//! ```
//! Two looks, so that nobody stands in what goes. The walk notes records that no slot points to: in a settled segment
//! such a record is dead for good. Whoever found it before it died is pinned since before the walk's end, or has
//! counted a hold on the segment before ending its pin; so after two epochs, and with no hold, nobody is left.
//! Drains and walks of segments are under the same lock as this. A hole is a filler with a mark: a later walk steps
//! over it, and counts no byte of it twice.
//!
//! Must hold: no byte of a record that a slot or a live chunk table points to is given back.

use super::choose::is_settled;
use super::drain::owner_of;
use super::{Books, Reclaim, BACKGROUND_ITEMS, CANDIDATES_MAX};
use crate::item::{Kind, HOLE_PREFIX};
use crate::location::Place;
use crate::models_switch::{mutant, Mutant};
use crate::segment::{SegmentId, State};
use crate::store::Store;
use crate::sync::{lock, Ordering};

/// What the system gives and takes (in models a bite of their small segments).
const PAGE: usize = if cfg!(shuttle) { 64 } else { 4096 };
/// A segment is looked through again when so large a share of it has died since the last look.
const LOOK_SHARE: usize = 8;
/// Steps the background thread takes in one go.
const GO_STEPS: usize = 256;

/// A stretch of dead records.
struct Run {
    start: usize,
    end: usize,
    /// Bytes of its pages that were given back before.
    gone: usize,
}

/// A segment that is being looked through.
pub(super) struct Thin {
    id: SegmentId,
    birth: u64,
    at: usize,
    /// The run that the walk is in.
    open: Option<Run>,
    runs: Vec<Run>,
    /// When the walk came to its end.
    ended: Option<u64>,
}

impl Run {
    /// Its whole pages: first offset and length. What is behind the last record belongs to it.
    fn pages(&self, store: &Store, id: SegmentId) -> (usize, usize) {
        let first = store.segments.start(id);
        let end = match self.end == first + store.segment(id).used() {
            true => first + store.segments.bytes(),
            false => self.end,
        };
        let from = (self.start + HOLE_PREFIX).next_multiple_of(PAGE);
        (from, (end / PAGE * PAGE).saturating_sub(from))
    }
}

impl Thin {
    fn new(store: &Store, id: SegmentId) -> Thin {
        let segment = store.segment(id);
        segment.looked_through(segment.dead());
        Thin {
            id,
            birth: segment.birth(),
            at: 0,
            open: None,
            runs: Vec::new(),
            ended: None,
        }
    }

    /// Still the segment that was walked, and nobody else at it.
    fn is_valid(&self, store: &Store) -> bool {
        let segment = store.segment(self.id);
        segment.state() == State::Sealed && segment.birth() == self.birth
    }

    /// Looks at up to `records` more.
    fn walk(&mut self, store: &Store, records: usize, least: usize) {
        let pin = store.pin();
        let start = store.segments.start(self.id);
        let used = store.segment(self.id).used();
        for _ in 0..records {
            if self.at >= used {
                break;
            }
            let place = Place::from_offset(start + self.at);
            let (bytes, dead) = look(store, place);
            assert!(
                bytes >= 4 && self.at + bytes <= used,
                "a record reaches over the end of its segment"
            );
            match dead {
                true => self.extend(store, start + self.at, bytes),
                false => self.close(store, least),
            }
            self.at += bytes;
        }
        if self.at >= used {
            self.close(store, least);
            // Read after the last record was found dead.
            self.ended = Some(store.domain.epoch());
        }
        drop(pin);
    }

    fn extend(&mut self, store: &Store, at: usize, bytes: usize) {
        let run = self.open.get_or_insert(Run {
            start: at,
            end: at,
            gone: 0,
        });
        run.end = at + bytes;
        let mends = store.segment(self.id).mends();
        if store.item(Place::from_offset(at)).is_hole(mends) {
            let hole = Run {
                start: at,
                end: at + bytes,
                gone: 0,
            };
            run.gone += hole.pages(store, self.id).1;
        }
    }

    /// The run ends here: kept if it is worth a call.
    fn close(&mut self, store: &Store, least: usize) {
        let Some(run) = self.open.take() else { return };
        let (_, bytes) = run.pages(store, self.id);
        // A small last record has the pages behind it, and no room for the words of a hole.
        let can_say_so = run.end - run.start > HOLE_PREFIX;
        if can_say_so && bytes >= run.gone + least {
            self.runs.push(run);
        }
    }
}

/// Bytes of a record, and whether nothing points to it.
pub(super) fn look(store: &Store, place: Place) -> (usize, bool) {
    let item = store.item(place);
    let layout = item.layout(item.header());
    let dead = match layout.kind {
        Kind::Filler => true,
        Kind::Chunk => owner_of(store, item.chunk_owner().0, place).is_none(),
        Kind::Plain | Kind::Chunked => {
            let mut key = Vec::with_capacity(layout.key_bytes);
            item.append_key(&layout, &mut key);
            store.index.counter_of(store.hash(&key), place).is_none()
        }
    };
    (layout.reserved, dead)
}

impl Reclaim {
    /// Whether dead bytes are to go back now: in team use, when the budget is used up.
    pub(super) fn thins(&self, store: &Store) -> bool {
        store.run_bytes.is_some()
            && (store.segments.could_add() <= self.high(store) || self.owes(store))
    }

    /// A bounded piece of that work. False: nothing to do, or nothing that can be done now.
    pub(super) fn thin(&self, store: &Store, books: &mut Books, records: usize) -> bool {
        let Some(least) = store.run_bytes else {
            return false;
        };
        books.thin.take_if(|thin| !thin.is_valid(store));
        match books.thin.take() {
            None => {
                books.thin = self.most_dead(store, books).map(|id| Thin::new(store, id));
                books.thin.is_some()
            }
            Some(mut thin) if thin.ended.is_none() => {
                thin.walk(store, records, least);
                books.thin = Some(thin);
                true
            }
            Some(thin) if thin.runs.is_empty() => true,
            Some(thin) if !is_left(store, &thin) => {
                books.thin = Some(thin);
                false
            }
            // Held by a guard, which may last: forgotten until more of it has died.
            Some(thin) if is_held(store, &thin) => true,
            Some(thin) => {
                self.release(store, &thin);
                true
            }
        }
    }

    /// The background thread's share: until there is nothing to do, or for a while.
    pub(super) fn thin_out(&self, store: &Store) {
        if !self.thins(store) {
            return;
        }
        let mut books = lock(&self.books);
        self.queue_sealed(store, &mut books);
        for _ in 0..GO_STEPS {
            if !self.thin(store, &mut books, BACKGROUND_ITEMS) || !self.thins(store) {
                break;
            }
        }
    }

    /// Looks at everything at once, whoever needs room: for the models.
    #[cfg(all(test, shuttle))]
    pub(crate) fn thin_now(&self, store: &Store) {
        let mut books = lock(&self.books);
        self.queue_sealed(store, &mut books);
        while self.thin(store, &mut books, BACKGROUND_ITEMS) {}
    }

    /// Makes one broken extent whole again, when the budget has plenty: it is made huge later, by whoever does that.
    pub(super) fn mend(&self, store: &Store) {
        if store.segments.extents().broken() == 0 || self.owes(store) {
            return;
        }
        // Twice what makes the cache short, so that it is not broken again at once.
        let spare = (2 * self.high(store) + 2 * store.segments.per_extent()) as u64;
        let _books = lock(&self.books);
        store
            .segments
            .mend_one(spare * store.segments.bytes() as u64);
    }

    /// The settled segment of which most has died since it was last looked through.
    fn most_dead(&self, store: &Store, books: &mut Books) -> Option<SegmentId> {
        let enough = store.segments.bytes() / LOOK_SHARE;
        let queued: usize = books.queues().into_iter().map(|queue| queue.len()).sum();
        let window = queued.min(CANDIDATES_MAX);
        let start = books.thin_at.checked_rem(queued).unwrap_or(0);
        books.thin_at = start + window;
        let ids = books.queues().into_iter().flatten().cycle();
        ids.skip(start)
            .take(window)
            .copied()
            .filter(|&id| store.segment(id).dead_unlooked() >= enough)
            .filter(|&id| is_settled(store, id))
            .max_by_key(|&id| store.segment(id).dead_unlooked())
    }

    /// Writes the holes and gives their pages back.
    fn release(&self, store: &Store, thin: &Thin) {
        let mends = store.segment(thin.id).mends();
        for run in &thin.runs {
            let (from, bytes) = run.pages(store, thin.id);
            let first = store.item(Place::from_offset(run.start));
            let length = run.end - run.start;
            first.write_hole(length, mends);
            let new = bytes - run.gone;
            if !store.segments.release_run(thin.id, from, bytes, new) {
                // Being made huge, and so whole: it is a filler like any other.
                first.write_filler(length);
            }
        }
        self.tell_news();
    }
}

/// Whether everybody has left who was about when the last record was found dead.
fn is_left(store: &Store, thin: &Thin) -> bool {
    let Some(ended) = thin.ended else {
        return false;
    };
    if !store.domain.passed(ended) {
        // Two steps are needed; without other pinned threads both succeed at once.
        let _ = store.domain.try_advance() && store.domain.try_advance();
    }
    store.domain.passed(ended) || mutant(Mutant::ThinNoGrace)
}

/// Whether a guard may hold what is dead. Asked after `is_left`: a reader takes its hold while it is pinned.
fn is_held(store: &Store, thin: &Thin) -> bool {
    store.segment(thin.id).holds.load(Ordering::SeqCst) != 0 && !mutant(Mutant::ThinHeld)
}
