//! Where an item lies, packed into one index word. This file is the only packer.
//!
//! ```text
//! slot  = tag 16 | counter 2 | tier 2 | place 44        0 = empty
//! place = byte offset in the item region / 4 + 1        so a place is never 0; 64 TiB
//! ```
//! A place needs no incarnation: whoever holds one is pinned, and a segment is reused only when no
//! pin from before its retirement is left (`mem/pin.rs`).

/// Grain of item addresses and sizes, bytes.
pub(crate) const UNIT_BYTES: usize = 4;
const PLACE_BITS: u32 = 44;
const PLACE_MASK: u64 = (1 << PLACE_BITS) - 1;
const TIER_SHIFT: u32 = PLACE_BITS;
const COUNTER_SHIFT: u32 = TIER_SHIFT + 2;
const TAG_SHIFT: u32 = COUNTER_SHIFT + 2;
const _: () = assert!(TAG_SHIFT + 16 == 64);

/// The largest value of a slot's counter.
pub(crate) const COUNTER_MAX: u32 = 3;

/// A kind of memory an item can be in: a mark of its segment. Two bits of the slot are kept for places that
/// are in no segment of this memory; in the slots of both of these they say `Hot`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tier {
    Hot = 0,
    /// What hot evicts: coded where that pays, as it is where not.
    Compressed = 1,
}

/// The address of an item: an offset into the item region, in units of 4 bytes, plus 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Place(u64);

impl Place {
    pub(crate) fn from_offset(offset: usize) -> Place {
        debug_assert_eq!(offset % UNIT_BYTES, 0);
        let place = (offset / UNIT_BYTES) as u64 + 1;
        assert!(place <= PLACE_MASK, "item region larger than 64 TiB");
        Place(place)
    }

    #[inline(always)]
    pub(crate) fn offset(self) -> usize {
        (self.0 as usize - 1) * UNIT_BYTES
    }

    /// The bare number, never 0.
    #[inline(always)]
    pub(crate) fn raw(self) -> u64 {
        self.0
    }

    pub(crate) fn from_raw(raw: u64) -> Option<Place> {
        (raw != 0 && raw <= PLACE_MASK).then_some(Place(raw))
    }
}

/// One index word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot(pub(crate) u64);

impl Slot {
    pub(crate) const EMPTY: Slot = Slot(0);

    #[inline(always)]
    pub(crate) fn new(tag: u16, counter: u32, tier: Tier, place: Place) -> Slot {
        debug_assert!(counter <= COUNTER_MAX);
        Slot(
            (tag as u64) << TAG_SHIFT
                | (counter as u64) << COUNTER_SHIFT
                | (tier as u64) << TIER_SHIFT
                | place.0,
        )
    }

    #[inline(always)]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    pub(crate) fn tag(self) -> u16 {
        (self.0 >> TAG_SHIFT) as u16
    }

    #[inline(always)]
    pub(crate) fn counter(self) -> u32 {
        (self.0 >> COUNTER_SHIFT) as u32 & 3
    }

    /// The place. Must not be asked of an empty slot.
    #[inline(always)]
    pub(crate) fn place(self) -> Place {
        debug_assert!(!self.is_empty());
        Place(self.0 & PLACE_MASK)
    }

    #[inline(always)]
    pub(crate) fn with_counter(self, counter: u32) -> Slot {
        Slot(self.0 & !(3 << COUNTER_SHIFT) | (counter as u64) << COUNTER_SHIFT)
    }

    #[inline(always)]
    pub(crate) fn with_place(self, tier: Tier, place: Place) -> Slot {
        Slot(self.0 & !(PLACE_MASK | 3 << TIER_SHIFT) | (tier as u64) << TIER_SHIFT | place.0)
    }

    /// The same slot, one access more; itself when saturated.
    #[inline(always)]
    pub(crate) fn bumped(self) -> Slot {
        if self.counter() == COUNTER_MAX {
            self
        } else {
            Slot(self.0 + (1 << COUNTER_SHIFT))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_and_unpacks() {
        let place = Place::from_offset(4 * 123_456_789);
        let slot = Slot::new(0xBEEF, 2, Tier::Hot, place);
        assert_eq!(slot.tag(), 0xBEEF);
        assert_eq!(slot.counter(), 2);
        assert_eq!(slot.place(), place);
        assert_eq!(slot.place().offset(), 4 * 123_456_789);
        assert_eq!(slot.bumped().counter(), 3);
        assert_eq!(slot.bumped().bumped(), slot.bumped());
        assert_eq!(slot.with_counter(0).counter(), 0);
        let moved = slot.with_place(Tier::Hot, Place::from_offset(0));
        assert_eq!(moved.place().offset(), 0);
        assert_eq!((moved.tag(), moved.counter()), (0xBEEF, 2));
        assert!(!moved.is_empty());
    }

    #[test]
    fn zero_is_no_place() {
        assert_eq!(Place::from_raw(0), None);
        assert_eq!(Place::from_raw(PLACE_MASK + 1), None);
        assert_eq!(Place::from_raw(7).map(Place::raw), Some(7));
    }
}
