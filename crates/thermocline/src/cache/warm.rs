//! Warm restart: a cache whose memory is a file leaves it to the next process, index and all.
//!
//! What lies in the file stays where it is: items, directory, units. What lives on the heap is written beside them
//! when the cache is kept: the table of segments, which extents and slabs are whose, the queues, the generations, the
//! ghosts. Nothing of it grows with the number of items but the ghosts. `mem/kept.rs` says when it may be believed.

use super::pages::Backings;
use super::{Cache, Inner};
use crate::error::Error;
use crate::image::{In, Out};
use crate::mem::kept;
use std::sync::Arc;
use std::time::Instant;

/// How a cache came to its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Start {
    /// Empty, as any new cache.
    Cold,
    /// Empty, though there was a memory file: why it was of no use.
    ColdBecause(String),
    /// With what the last process left.
    Warm {
        /// Items taken over.
        items: u64,
        /// How long it took, milliseconds.
        ms: u64,
    },
}

/// What a kept cache left behind.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Kept {
    /// Items in it.
    pub items: u64,
    /// Bytes of the books beside them.
    pub books_bytes: u64,
}

impl Inner {
    /// A cache in the memory that is there, or a new one in the same place.
    pub(super) fn open(
        config: &crate::config::Config,
        bell: Option<Arc<super::Bell>>,
    ) -> Result<Inner, Error> {
        let begin = Instant::now();
        let seed = config.seed.unwrap_or_else(crate::hash::random_seed);
        let mut backings = Backings::new(config, seed)?;
        if let Some((books, seed)) = backings.take_books() {
            let mut inner = Inner::new(config, bell.clone(), &backings, seed)?;
            if inner.take_over(&books).is_some() {
                inner.start = Start::Warm {
                    items: inner.store.index.items(),
                    ms: begin.elapsed().as_millis() as u64,
                };
                return Ok(inner);
            }
            backings.start = Start::ColdBecause("its books contradict each other".into());
        }
        backings.clear()?;
        Inner::new(config, bell, &backings, seed)
    }

    fn take_over(&self, books: &[u8]) -> Option<()> {
        let from = &mut In::new(books);
        self.store.segments.read(from)?;
        self.store.index.read(from)?;
        self.store.read_books(from)?;
        self.reclaim.read(&self.store, from)?;
        self.store.refresh_capacity();
        self.recount_groups();
        from.is_empty().then_some(())
    }

    fn books(&self) -> Vec<u8> {
        self.bury_dropped();
        self.reclaim.settle(&self.store);
        let mut out = Out::default();
        self.store.segments.write(&mut out);
        self.store.index.write(&mut out);
        self.store.write_books(&mut out);
        self.reclaim.write(&mut out);
        out.into_bytes()
    }
}

impl Cache {
    /// How this cache came to its contents.
    pub fn start(&self) -> &Start {
        &self.inner.start
    }

    /// Ends this cache and leaves its memory to the next process that opens the same `Config::memory_dir` with the
    /// same memory, `memory_max` and page size. Reads no item. Refused, and everything lost, where the cache is in
    /// use: by another handle, a guard, a `Writer`, an iterator.
    pub fn keep(self) -> Result<Kept, Error> {
        let wrong = |text: &str| Error::Config(text.into());
        let Cache { inner, _threads } = self;
        let threads = Arc::try_unwrap(_threads)
            .map_err(|_| wrong("the cache is still in use: another handle lives"))?;
        drop(threads);
        let inner = Arc::try_unwrap(inner)
            .map_err(|_| wrong("the cache is still in use: a guard or a writer lives"))?;
        let Some(identity) = inner.identity else {
            return Err(wrong(
                "only page_mode = shmem with a memory_dir and without compression can be kept",
            ));
        };
        let books = inner.books();
        let items = inner.store.index.items();
        let backing = inner.store.region().backing();
        let (file, at) = backing
            .file
            .clone()
            .ok_or_else(|| wrong("the memory is no file"))?;
        debug_assert_eq!(at, kept::HEADER_BYTES);
        let header = backing.at_start();
        let regions = inner.regions_bytes;
        // Whatever could still change the memory is gone before it is said to be whole.
        drop(inner);
        kept::keep(&header, &file, regions, &identity, &books)?;
        Ok(Kept {
            items,
            books_bytes: books.len() as u64,
        })
    }
}
