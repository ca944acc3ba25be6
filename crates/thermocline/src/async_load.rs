//! `get_or_load` for tasks: the same loads under way, waited for by wakers instead of parked threads.
//!
//! Needs no runtime: it only polls the loader's future and registers wakers. Tasks and threads may wait
//! for the same load. Owns polling and cancelling; leaves the steps of a load to `loader`.
//!
//! Must hold: a load whose future is dropped half way is given up, and one of those who wait takes over
//! with its own loader.

use crate::cache::Cache;
use crate::flight::{Flight, Outcome};
use crate::loader::{shared, LoadError, LoadOptions, Loaded, Turn};
use std::future::{poll_fn, Future};
use std::pin::{pin, Pin};
use std::sync::Arc;
use std::task::{Context, Poll};

impl Cache {
    /// As `get_or_load`, with a loader that returns a future. The call that loads drives that future; if
    /// it is dropped before it ends, one of the waiting calls loads instead.
    ///
    /// `LoadError::Recursive` is given where a loader's own poll asks for its key; a loader that spawns
    /// another task which does so, and waits for that task, waits for ever.
    pub async fn get_or_load_async<E, F, L>(
        &self,
        key: &[u8],
        options: &LoadOptions,
        loader: F,
    ) -> Result<Loaded, LoadError<E>>
    where
        E: Send + Sync + 'static,
        F: FnOnce() -> L,
        L: Future<Output = Result<Vec<u8>, E>>,
    {
        let mut first = true;
        let (mut lead, mode) = loop {
            match self.turn(key, options, first)? {
                Turn::Have(value) => return Ok(value),
                Turn::Recursive => return Err(LoadError::Recursive),
                Turn::Load(lead, mode) => break (lead, mode),
                Turn::Wait(flight) => {
                    if let Some(shared) = shared(Wait::new(flight).await) {
                        return shared;
                    }
                }
            }
            first = false;
        };
        // The loader itself may panic before there is a future.
        lead.enter();
        let mut load = pin!(loader());
        lead.leave();
        let made = poll_fn(|context| {
            lead.enter();
            let polled = load.as_mut().poll(context);
            if polled.is_pending() {
                lead.leave();
            }
            polled
        })
        .await;
        self.end_load(key, options, lead, mode, made)
    }
}

/// Ready when the load has ended. Dropped before, it takes its waker back.
struct Wait {
    flight: Arc<Flight>,
    ticket: Option<u64>,
}

impl Wait {
    fn new(flight: Arc<Flight>) -> Wait {
        Wait {
            flight,
            ticket: None,
        }
    }
}

impl Future for Wait {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let wait = self.get_mut();
        match wait.flight.poll(&mut wait.ticket, context.waker()) {
            Some(outcome) => Poll::Ready(outcome),
            None => Poll::Pending,
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.flight.forget(ticket);
        }
    }
}
