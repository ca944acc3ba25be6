//! Numbers in a row: how the books of a cache are written down when it stops, and read when the next one starts.
//!
//! Little-endian, no padding. Reading is checked: what is too short or out of bounds is None, never a panic.

use std::ops::Range;

/// What is being written.
#[derive(Default)]
pub(crate) struct Out(Vec<u8>);

impl Out {
    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A list: its length, then its members.
    pub(crate) fn list(&mut self, ids: impl ExactSizeIterator<Item = u32>) {
        self.u64(ids.len() as u64);
        ids.for_each(|id| self.u32(id));
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// What is being read.
pub(crate) struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> In<'a> {
        In(bytes)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// A number within bounds.
    pub(crate) fn within(&mut self, bounds: Range<u64>) -> Option<u64> {
        self.u64().filter(|value| bounds.contains(value))
    }

    /// A length of things of at least `bytes` each, which must all be there.
    pub(crate) fn count(&mut self, bytes: usize) -> Option<usize> {
        let count = usize::try_from(self.u64()?).ok()?;
        (count.checked_mul(bytes)? <= self.0.len()).then_some(count)
    }

    /// A list of different ids below `end`.
    pub(crate) fn ids(&mut self, end: usize) -> Option<Vec<u32>> {
        let count = self.count(4)?;
        let mut seen = vec![false; end];
        (0..count)
            .map(|_| {
                let id = self.u32()?;
                let seen = seen.get_mut(id as usize)?;
                (!std::mem::replace(seen, true)).then_some(id)
            })
            .collect()
    }

    /// Everything has been read.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut out = Out::default();
        out.u32(7);
        out.u64(1 << 40);
        out.list([3, 1].into_iter());
        let bytes = out.into_bytes();
        let mut read = In::new(&bytes);
        assert_eq!((read.u32(), read.u64()), (Some(7), Some(1 << 40)));
        assert_eq!(read.ids(4), Some(vec![3, 1]));
        assert!(read.is_empty());
        assert_eq!(read.u32(), None);
    }

    #[test]
    fn ids_out_of_bounds_twice_or_too_many_are_refused() {
        let ids = |ids: &[u32], end| {
            let mut out = Out::default();
            out.list(ids.iter().copied());
            In::new(&out.into_bytes()).ids(end)
        };
        assert_eq!(ids(&[0, 1], 2), Some(vec![0, 1]));
        assert_eq!(ids(&[0, 2], 2), None);
        assert_eq!(ids(&[1, 1], 2), None);
        let mut out = Out::default();
        out.u64(u64::MAX);
        assert_eq!(In::new(&out.into_bytes()).ids(8), None);
    }
}
