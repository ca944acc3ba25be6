//! Loads under way: one record a key, made by the caller that loads and shared by those who wait.
//!
//! ```text
//! nothing --join--> Lead (the caller loads) --end: value, failure--> every waiter wakes with it
//!    |                  |--dropped while the loader runs: it panicked--> every waiter wakes and says so
//!    |                  '--dropped between polls: cancelled--> every waiter wakes, one of them leads
//!    '--join, there is one--> Wait
//! ```
//! Owns the records and their wake-up, by parking or by waker. Leaves to `loader` and `async_load` what is
//! loaded and where it is stored.
//!
//! Must hold: a record leaves the table before its outcome is set, and its outcome is set exactly once,
//! whatever becomes of its leader; so nobody waits for a record that nobody will end. The outcome carries
//! the value, so that it reaches waiters even if the item has left the cache again.

use crate::models_switch::{mutant, Mutant};
use crate::sync::{lock, Condvar, Mutex};
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::task::Waker;

#[cfg(shuttle)]
use shuttle::thread::{self, ThreadId};
#[cfg(not(shuttle))]
use std::thread::{self, ThreadId};

/// Tables of records, so that loads of different keys seldom meet on a lock.
const SHARDS: usize = 16;

type Table = HashMap<Box<[u8]>, Arc<Flight>>;

/// The loads under way. As many as there are callers loading, at most.
pub(crate) struct Loads {
    shards: [Mutex<Table>; SHARDS],
}

/// One load under way.
pub(crate) struct Flight {
    state: Mutex<State>,
    ended: Condvar,
}

struct State {
    outcome: Option<Outcome>,
    /// The thread that runs the loader this moment.
    runner: Option<ThreadId>,
    wakers: Vec<(u64, Waker)>,
    #[cfg(feature = "async")]
    next_waker: u64,
}

/// What became of a load.
#[derive(Clone)]
pub(crate) enum Outcome {
    Value(Arc<Vec<u8>>),
    /// The error, of the type the leader's loader returns.
    Failed(Arc<dyn Any + Send + Sync>),
    /// The loader panicked.
    Panicked,
    /// The leader went away, or found that there is nothing to load. Look again.
    Abandoned,
}

/// A caller's part in a load.
pub(crate) enum Part<'a> {
    Lead(Lead<'a>),
    Wait(Arc<Flight>),
}

impl Loads {
    pub(crate) fn new() -> Loads {
        Loads {
            shards: std::array::from_fn(|_| Mutex::new(HashMap::new())),
        }
    }

    fn shard(&self, hash: u64) -> &Mutex<Table> {
        &self.shards[hash as usize % SHARDS]
    }

    /// Leads the load of `key`, or waits for who does.
    pub(crate) fn join<'a>(&'a self, hash: u64, key: &'a [u8]) -> Part<'a> {
        let mut table = lock(self.shard(hash));
        match table.get(key) {
            Some(flight) => Part::Wait(flight.clone()),
            None => {
                let flight = Arc::new(Flight::new());
                table.insert(key.into(), flight.clone());
                Part::Lead(Lead {
                    loads: self,
                    hash,
                    key,
                    flight,
                    runs: false,
                    ended: false,
                })
            }
        }
    }

    /// Leads the load of `key` unless somebody does.
    pub(crate) fn lead<'a>(&'a self, hash: u64, key: &'a [u8]) -> Option<Lead<'a>> {
        match self.join(hash, key) {
            Part::Lead(lead) => Some(lead),
            Part::Wait(_) => None,
        }
    }

    /// How many wait for the load of `key`; whoever is just looking whether somebody leads it is among them.
    pub(crate) fn waiters(&self, hash: u64, key: &[u8]) -> usize {
        // The table and the leader hold one each.
        let table = lock(self.shard(hash));
        table
            .get(key)
            .map_or(0, |flight| Arc::strong_count(flight).saturating_sub(2))
    }

    #[cfg(test)]
    fn under_way(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }
}

impl Flight {
    fn new() -> Flight {
        Flight {
            state: Mutex::new(State {
                outcome: None,
                runner: None,
                wakers: Vec::new(),
                #[cfg(feature = "async")]
                next_waker: 0,
            }),
            ended: Condvar::new(),
        }
    }

    /// Whether this very thread runs the loader: to wait would be to wait for oneself.
    pub(crate) fn runs_here(&self) -> bool {
        lock(&self.state).runner == Some(thread::current().id())
    }

    /// Parks until the load has ended.
    pub(crate) fn wait(&self) -> Outcome {
        let mut state = lock(&self.state);
        loop {
            if let Some(outcome) = &state.outcome {
                return outcome.clone();
            }
            state = self
                .ended
                .wait(state)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// The outcome, or a promise to wake `waker`. `ticket` is the caller's, None at first.
    #[cfg(feature = "async")]
    pub(crate) fn poll(&self, ticket: &mut Option<u64>, waker: &Waker) -> Option<Outcome> {
        let mut state = lock(&self.state);
        if state.outcome.is_some() {
            return state.outcome.clone();
        }
        let known = state
            .wakers
            .iter_mut()
            .find(|(number, _)| Some(*number) == *ticket);
        match known {
            Some((_, old)) => old.clone_from(waker),
            None => {
                let number = state.next_waker;
                state.next_waker += 1;
                state.wakers.push((number, waker.clone()));
                *ticket = Some(number);
            }
        }
        None
    }

    /// Whoever held `ticket` waits no more.
    #[cfg(feature = "async")]
    pub(crate) fn forget(&self, ticket: u64) {
        lock(&self.state)
            .wakers
            .retain(|(number, _)| *number != ticket);
    }

    fn end(&self, outcome: Outcome) {
        let mut state = lock(&self.state);
        state.outcome = Some(outcome);
        state.runner = None;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        if !mutant(Mutant::Silent) {
            self.ended.notify_all();
        }
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

/// The right and the duty to load one key. Dropped, it ends the load for all who wait.
pub(crate) struct Lead<'a> {
    loads: &'a Loads,
    hash: u64,
    key: &'a [u8],
    flight: Arc<Flight>,
    runs: bool,
    ended: bool,
}

impl Lead<'_> {
    /// The loader runs on this thread from now on, until `leave` or the end.
    pub(crate) fn enter(&mut self) {
        self.runs = true;
        lock(&self.flight.state).runner = Some(thread::current().id());
    }

    /// The loader has given the thread back for a while.
    #[cfg(feature = "async")]
    pub(crate) fn leave(&mut self) {
        self.runs = false;
        lock(&self.flight.state).runner = None;
    }

    pub(crate) fn end(mut self, outcome: Outcome) {
        self.finish(outcome);
    }

    fn finish(&mut self, outcome: Outcome) {
        self.ended = true;
        if !mutant(Mutant::StaysListed) {
            let gone = lock(self.loads.shard(self.hash)).remove(self.key);
            debug_assert!(gone.is_some_and(|gone| Arc::ptr_eq(&gone, &self.flight)));
        }
        self.flight.end(outcome);
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        if !self.ended && !mutant(Mutant::NoLastWord) {
            let outcome = match self.runs {
                true => Outcome::Panicked,
                false => Outcome::Abandoned,
            };
            self.finish(outcome);
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn lead<'a>(loads: &'a Loads, key: &'a [u8]) -> Lead<'a> {
        loads.lead(7, key).expect("nobody leads yet")
    }

    fn follow(loads: &Loads, key: &[u8]) -> Arc<Flight> {
        match loads.join(7, key) {
            Part::Wait(flight) => flight,
            Part::Lead(_) => panic!("somebody leads already"),
        }
    }

    #[test]
    fn the_record_is_gone_when_the_load_has_ended() {
        let loads = Loads::new();
        let first = lead(&loads, b"k");
        let other = lead(&loads, b"other");
        let waiter = follow(&loads, b"k");
        assert_eq!(loads.under_way(), 2);
        first.end(Outcome::Value(Arc::new(b"v".to_vec())));
        assert!(matches!(waiter.wait(), Outcome::Value(value) if *value == b"v"));
        assert_eq!(loads.under_way(), 1);
        drop(other);
        assert_eq!(loads.under_way(), 0);
        assert!(loads.lead(7, b"k").is_some());
    }

    #[test]
    fn a_dropped_lead_says_why() {
        let loads = Loads::new();
        let cancelled = lead(&loads, b"k");
        let waiter = follow(&loads, b"k");
        drop(cancelled);
        assert!(matches!(waiter.wait(), Outcome::Abandoned));
        let mut running = lead(&loads, b"k");
        running.enter();
        let waiter = follow(&loads, b"k");
        assert!(waiter.runs_here());
        drop(running);
        assert!(matches!(waiter.wait(), Outcome::Panicked));
        assert!(!waiter.runs_here());
    }
}

#[cfg(all(test, shuttle))]
mod models {
    //! Every waiter wakes, whatever order threads run in; shuttle reports a lost wake-up as a deadlock.

    use super::*;
    use crate::models_switch::activate;
    use shuttle::sync::atomic::{AtomicU32, Ordering};
    use std::panic::{catch_unwind, AssertUnwindSafe};

    /// The model must fail with this line taken out.
    fn fails_without(line: Mutant, model: impl FnOnce()) {
        activate(Some(line));
        let failed = catch_unwind(AssertUnwindSafe(model)).is_err();
        activate(None);
        assert!(failed, "the model does not notice: {line:?}");
    }

    /// Three callers of one key: the outcome of the leader reaches whoever waits.
    fn three_callers(end: fn(Lead<'_>, u32)) {
        shuttle::check_random(
            move || {
                let loads = Arc::new(Loads::new());
                let leads = Arc::new(AtomicU32::new(0));
                let callers: Vec<_> = (0..3)
                    .map(|_| {
                        let (loads, leads) = (loads.clone(), leads.clone());
                        thread::spawn(move || loop {
                            match loads.join(1, b"k") {
                                Part::Lead(mut lead) => {
                                    lead.enter();
                                    let number = leads.fetch_add(1, Ordering::SeqCst);
                                    thread::yield_now();
                                    return end(lead, number);
                                }
                                Part::Wait(flight) => {
                                    assert!(!flight.runs_here());
                                    match flight.wait() {
                                        Outcome::Abandoned => continue,
                                        _ => return,
                                    }
                                }
                            }
                        })
                    })
                    .collect();
                for caller in callers {
                    caller.join().unwrap();
                }
                assert!(loads.shards.iter().all(|shard| lock(shard).is_empty()));
            },
            2000,
        );
    }

    #[test]
    fn a_value_wakes_all() {
        let value = |lead: Lead<'_>, number| lead.end(Outcome::Value(Arc::new(vec![number as u8])));
        three_callers(value);
        fails_without(Mutant::Silent, || three_callers(value));
    }

    #[test]
    fn a_panicked_leader_wakes_all() {
        let panicked = |lead: Lead<'_>, _| drop(lead);
        three_callers(panicked);
        fails_without(Mutant::NoLastWord, || three_callers(panicked));
    }

    #[test]
    fn an_abandoned_load_is_taken_over() {
        let abandoned = |lead: Lead<'_>, number| match number {
            0 => lead.end(Outcome::Abandoned),
            _ => lead.end(Outcome::Value(Arc::new(Vec::new()))),
        };
        three_callers(abandoned);
        fails_without(Mutant::StaysListed, || three_callers(abandoned));
    }
}
