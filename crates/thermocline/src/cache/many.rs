//! Many values in one call, for callers without a sink of their own.

use super::value::{Guard, Meta};
use super::{Cache, ReadSink, Want};

/// The values of a batch, copied out, in the order of their keys.
struct Values {
    /// Empty between two items.
    buffer: Vec<u8>,
    values: Vec<Option<Vec<u8>>>,
}

impl ReadSink for Values {
    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    fn copy_max(&self) -> usize {
        usize::MAX
    }

    fn head(&mut self, _index: usize, _meta: &Meta) {}

    fn tail(&mut self, index: usize, _meta: &Meta) {
        self.values[index] = Some(self.buffer.to_vec());
        self.buffer.clear();
    }

    fn held(&mut self, index: usize, guard: Guard) {
        let mut value = Vec::new();
        self.values[index] = guard.append_to(&mut value).then_some(value);
    }

    fn miss(&mut self, _index: usize) {}
}

impl Cache {
    /// The values of `keys`, in their order; None where nothing is. One batch of `get_many`: in a cache larger than the
    /// processor's it halves the CPU of reading one key after the other. Allocates and copies each value; a `ReadSink` of
    /// your own need not.
    ///
    /// ```
    /// # use thermocline::{Cache, Config};
    /// # let cache = Cache::new(Config::new(16 << 20))?;
    /// cache.set(b"a", b"1")?;
    /// cache.set(b"c", b"3")?;
    /// let values = cache.get_all(&[b"a", b"b", b"c"]);
    /// assert_eq!(values, [Some(b"1".to_vec()), None, Some(b"3".to_vec())]);
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    pub fn get_all(&self, keys: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
        let mut sink = Values {
            buffer: Vec::new(),
            values: vec![None; keys.len()],
        };
        self.get_many(keys, Want::default(), &mut sink);
        sink.values
    }
}
