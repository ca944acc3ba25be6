//! The short way to a bare item: a small one whose only optional field can be the marks' word. Most are.
//!
//! Its header and the length of its key, which the caller has compared, say all there is to know, so
//! nothing is gathered first. Layout and order of steps are those of `layout` and `change`.

use super::{Header, Item, Kind, MarkWord, LONG_PREFIX, SLACK_MAX};
use crate::sync::{fence, AtomicU32, Ordering};

/// Where the key of a bare item starts.
const KEY_AT: usize = 4;

/// A bare item as its header was read.
#[derive(Clone, Copy)]
pub(crate) struct Bare<'a> {
    item: Item<'a>,
    word: &'a AtomicU32,
    header: Header,
    /// Where the value starts, relative to the item.
    value_at: usize,
}

impl<'a> Item<'a> {
    /// This item if it is bare, with or without marks, and nobody is writing it. `key_bytes`: its key's.
    #[inline(always)]
    pub(crate) fn bare(self, key_bytes: usize, marked: bool) -> Option<Bare<'a>> {
        let word = self.word();
        let header = Header(word.load(Ordering::Acquire));
        if header.is_long() || header.0 & (Header::LOCK | Header::OPTIONS) != 0 {
            return None;
        }
        if header.marked() != marked {
            return None;
        }
        let value_at = match marked {
            false => KEY_AT + key_bytes,
            true => (KEY_AT + key_bytes).next_multiple_of(4) + 4,
        };
        Some(Bare {
            item: self,
            word,
            header,
            value_at,
        })
    }
}

/// A long item in one piece without optional fields.
#[derive(Clone, Copy)]
pub(crate) struct BareLong {
    /// Offset of the value in the region.
    pub(crate) value_offset: usize,
    pub(crate) value_bytes: usize,
    pub(crate) reserved: usize,
}

impl Item<'_> {
    /// This item if it is long, in one piece, without optional fields and not being replaced. Such an item
    /// never changes: nothing needs validation.
    #[inline(always)]
    pub(crate) fn bare_long(&self, key_bytes: usize) -> Option<BareLong> {
        let header = self.header();
        if !header.is_long() || header.locked() {
            return None;
        }
        let word = |at: usize| self.region.u32(self.at + at).load(Ordering::Relaxed);
        // Options byte and kind are zero: a plain item without fields.
        if word(12) as u16 != Kind::Plain as u16 {
            return None;
        }
        Some(BareLong {
            value_offset: self.at + (LONG_PREFIX + key_bytes).next_multiple_of(4),
            value_bytes: word(8) as usize,
            reserved: 4 * word(4) as usize,
        })
    }
}

impl Bare<'_> {
    #[inline(always)]
    pub(crate) fn version(&self) -> u32 {
        self.header.version()
    }

    /// Bytes the item takes.
    #[inline(always)]
    pub(crate) fn reserved(&self) -> usize {
        4 * self.header.units()
    }

    /// Bytes of the value. Validate afterwards (`is_still`): slack that is being written can say anything.
    #[inline(always)]
    pub(crate) fn value_bytes(&self) -> usize {
        let slack = match self.header.slack() {
            true => self.item.slack_bytes(self.reserved()),
            false => 0,
        };
        self.reserved().saturating_sub(self.value_at + slack)
    }

    /// The marks, if the item has them. Validate afterwards.
    #[inline(always)]
    pub(crate) fn marks(&self) -> Option<MarkWord> {
        let word = || self.marks_word().load(Ordering::Relaxed);
        self.header.marked().then(|| MarkWord(word()))
    }

    /// Gives the item these marks, unless somebody else is at it: then what they do counts.
    #[inline]
    pub(crate) fn try_mark(&self, marks: MarkWord) {
        if self.header.marked() && !self.header.busy() && self.try_lock() {
            self.marks_word().store(marks.0, Ordering::Relaxed);
            self.unlock();
        }
    }

    /// Only of an item that has marks.
    #[inline(always)]
    fn marks_word(&self) -> &AtomicU32 {
        self.item.region.u32(self.item.at + self.value_at - 4)
    }

    /// Appends `bytes` of the value from its byte `from` on to `out`; validate afterwards.
    #[inline(always)]
    pub(crate) fn append_value(&self, from: usize, bytes: usize, out: &mut Vec<u8>) {
        let at = self.item.at + self.value_at + from;
        self.item.region.append_out(at, bytes, out);
    }

    /// Whether what was copied is whole.
    #[inline(always)]
    pub(crate) fn is_still(&self) -> bool {
        fence(Ordering::Acquire);
        self.header.still(Header(self.word.load(Ordering::Relaxed)))
    }

    /// The slack that a value of so many bytes would leave here; None: it cannot be overwritten by it.
    #[inline(always)]
    pub(crate) fn slack_under(&self, value_bytes: usize) -> Option<usize> {
        if self.header.busy() || self.header.is_last_version() {
            return None;
        }
        let slack = self.reserved().checked_sub(self.value_at + value_bytes)?;
        (slack < SLACK_MAX).then_some(slack)
    }

    /// Takes the lock if the header still is as it was read.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> bool {
        let locked = self.header.0 | Header::LOCK;
        self.word
            .compare_exchange(self.header.0, locked, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Gives the lock back, nothing changed.
    #[inline(always)]
    pub(crate) fn unlock(&self) {
        self.word.store(self.header.0, Ordering::Release);
    }

    /// Overwrites the locked item by a value that leaves `slack`, and unlocks it with the next version.
    #[inline(always)]
    pub(crate) fn overwrite(
        &self,
        marks: Option<MarkWord>,
        value: &[u8],
        slack: usize,
        token_out: bool,
    ) {
        // Readers that see any new byte must also see the lock or the new version.
        fence(Ordering::Release);
        let (region, at) = (self.item.region, self.item.at);
        if let Some(marks) = marks {
            let word = region.u32(at + self.value_at - 4);
            word.store(marks.0, Ordering::Relaxed);
        }
        region.copy_in(at + self.value_at, value);
        let mut next = self.header.0 & !(Header::SLACK | Header::TOKEN_OUT);
        if slack > 0 {
            next |= Header::SLACK;
            self.item.write_slack(self.reserved(), slack);
        }
        if token_out {
            next |= Header::TOKEN_OUT;
        }
        let next = next + (1 << Header::VERSION_SHIFT);
        self.word.store(next, Ordering::Release);
    }
}
