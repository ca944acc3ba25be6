//! The books of the index, written down at a clean stop and read at the next start: which slabs belong to which
//! class, and how far each class is filled. Directory and units lie in the index's own memory, which stays.
//!
//! Written only when nobody uses the index any more.

use super::*;
use crate::image::{In, Out};

impl Index {
    pub(crate) fn write(&self, out: &mut Out) {
        let pool = self.classes.pool();
        // Nobody is left to read what was retired: it is free.
        while pool.extents().drop_warm() {}
        out.u64(self.words as u64);
        out.u64(u64::from(self.fine.get().is_some()));
        out.u64(self.stats.items());
        out.list(pool.extents().taken_ids().into_iter());
        out.list(pool.idle_slabs().into_iter());
        self.classes.write(out);
    }

    /// Takes over what `write` wrote, into an index made with the same geometry and the same memory. None: it
    /// is not whole; then this index must not be used.
    pub(crate) fn read(&self, from: &mut In<'_>) -> Option<()> {
        let pool = self.classes.pool();
        from.within(self.words as u64..self.words as u64 + 1)?;
        let fine = from.within(0..2)? == 1;
        let items = from.u64()?;
        let extents = from.ids(pool.extents().capacity() as usize)?;
        let slabs = pool.region().bytes() / pool.slab_bytes();
        let idle = from.ids(slabs)?;
        let used = self.classes.read(slabs, from)?;
        // Every slab of a taken extent but the directory's is idle or some class's, and no other is.
        let per = EXTENT_BYTES / pool.slab_bytes();
        let mut owners = vec![0u8; slabs];
        for &extent in &extents {
            owners[extent as usize * per..][..per].fill(1);
        }
        let table = (self.words * 8).div_ceil(pool.slab_bytes());
        let ours = idle
            .iter()
            .chain(&used)
            .map(|&slab| slab as usize)
            .chain(0..table);
        for slab in ours {
            (std::mem::replace(owners.get_mut(slab)?, 0) == 1).then_some(())?;
        }
        if owners.contains(&1) || fine && !self.ensure_fine() {
            return None;
        }
        pool.take_over(&extents, idle);
        self.stats.items_changed(0, i64::try_from(items).ok()?);
        Some(())
    }
}
