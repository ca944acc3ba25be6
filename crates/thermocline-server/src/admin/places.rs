//! The places of the admin door: a bounded number of connections, and who goes when more come.
//!
//! ```text
//! waiting (for a request, or the rest of one) --whole--> being answered --> waiting ...
//!    |  all places are taken and somebody new has come: whoever has its place longest
//!    +--> gone
//! ```
//! What must hold: a connection that is being answered never goes for another one; and half requests, however many,
//! keep nobody out for long: `/healthz` is asked in bad times.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

/// How long somebody new lets the one whose place it gets go, and how soon the next one goes. So a crowd of half
/// requests goes through at 500 a second, and each of a full house of 32 has had 64 ms for its request.
const GOING: Duration = Duration::from_millis(2);

pub(super) struct Places {
    free: Arc<Semaphore>,
    /// In the order in which they came.
    seats: Mutex<VecDeque<Arc<Seat>>>,
}

/// What others may know of a place and do to who has it.
pub(super) struct Seat {
    is_answered: AtomicBool,
    task: OnceLock<AbortHandle>,
}

impl Seat {
    /// The task that ends when the place is needed; it owns the place.
    pub(super) fn is_served_by(&self, task: AbortHandle) {
        // Set once, by who made the task.
        let _set = self.task.set(task);
    }
}

/// One connection's place, until it is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    seat: Arc<Seat>,
    _free: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new(count: usize) -> Arc<Places> {
        Arc::new(Places {
            free: Arc::new(Semaphore::new(count)),
            seats: Mutex::default(),
        })
    }

    /// A place for a connection that has come; waits while all are being answered.
    pub(super) async fn take(self: &Arc<Places>) -> Place {
        loop {
            if let Ok(free) = self.free.clone().try_acquire_owned() {
                return self.seated(free);
            }
            self.shed_longest();
            tokio::time::sleep(GOING).await;
        }
    }

    fn seated(self: &Arc<Places>, free: OwnedSemaphorePermit) -> Place {
        let seat = Arc::new(Seat {
            is_answered: AtomicBool::new(false),
            task: OnceLock::new(),
        });
        self.seats().push_back(seat.clone());
        Place {
            places: self.clone(),
            seat,
            _free: free,
        }
    }

    fn shed_longest(&self) {
        let mut seats = self.seats();
        let waiting = |seat: &Arc<Seat>| !seat.is_answered.load(Relaxed);
        let longest = seats.iter().position(waiting);
        let seat = longest.and_then(|at| seats.remove(at));
        if let Some(task) = seat.as_ref().and_then(|seat| seat.task.get()) {
            tracing::debug!("admin: a connection without a whole request goes for another");
            task.abort();
        }
    }

    fn seats(&self) -> MutexGuard<'_, VecDeque<Arc<Seat>>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Until it is dropped this connection is being answered.
    pub(super) fn answer(&self) -> Answering {
        self.seat.is_answered.store(true, Relaxed);
        Answering(self.seat.clone())
    }

    pub(super) fn seat(&self) -> Arc<Seat> {
        self.seat.clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places
            .seats()
            .retain(|seat| !Arc::ptr_eq(seat, &self.seat));
    }
}

/// A request is being answered.
pub(super) struct Answering(Arc<Seat>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.is_answered.store(false, Relaxed);
    }
}
