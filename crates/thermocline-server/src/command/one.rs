//! Reading a single item with a choice of what the read records.

use crate::net::{Out, COPY_BYTES_MAX};
use thermocline::{Cache, Guard, Meta, ReadSink, Want};

/// An item that was read: its facts and its value, small ones copied, large ones held.
pub(super) struct Found {
    pub meta: Meta,
    value: Vec<u8>,
    held: Option<Guard>,
}

impl Found {
    pub fn copied(meta: Meta, value: Vec<u8>) -> Found {
        Found {
            meta,
            value,
            held: None,
        }
    }

    /// Puts the value into the reply.
    pub fn put(self, out: &mut Out) {
        match self.held {
            Some(guard) => out.hold(guard),
            None => out.push(&self.value),
        }
    }
}

pub(super) fn read_one(cache: &Cache, key: &[u8], want: Want) -> Option<Found> {
    let mut one = One::default();
    cache.get_many(&[key], want, &mut one);
    let meta = one.meta?;
    Some(Found {
        meta,
        value: one.value,
        held: one.held,
    })
}

#[derive(Default)]
struct One {
    meta: Option<Meta>,
    value: Vec<u8>,
    held: Option<Guard>,
}

impl ReadSink for One {
    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.value
    }

    fn copy_max(&self) -> usize {
        COPY_BYTES_MAX
    }

    fn head(&mut self, _index: usize, _meta: &Meta) {}

    fn tail(&mut self, _index: usize, meta: &Meta) {
        self.meta = Some(*meta);
    }

    fn held(&mut self, _index: usize, guard: Guard) {
        self.meta = Some(*guard.meta());
        self.held = Some(guard);
    }

    fn miss(&mut self, _index: usize) {}
}
