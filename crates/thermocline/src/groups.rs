//! Groups: keys that begin alike, counted together, dropped together, and protected up to a share of the cache.
//!
//! A key belongs to the longest configured prefix it begins with. Dropping a group is a mark, as a flush is: items of
//! the group in segments born up to the mark are gone. Each segment counts the bytes of each group in it, so that a
//! dropped group's bytes are found and reclaimed like expired ones, and the mark is forgotten when none is left.
//!
//! Owns prefixes, marks, counts. Leaves to `store` who asks when, and to `reclaim` what is done about it.
//!
//! Must hold: a published record is counted in its segment from before its publication until it is buried.

use crate::config::Group;
use crate::models_switch::{mutant, Mutant};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use std::ops::Range;

/// The n-th configured group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GroupId(u16);

pub(crate) struct Groups {
    list: Box<[One]>,
    /// Groups by first byte of their prefix, the longest first.
    sorted: Box<[GroupId]>,
    /// Where in `sorted` those with each first byte are.
    by_first: Box<[Range<u16>; 256]>,
    stripes: Box<[Stripe]>,
    /// Bytes of records by segment and group.
    bytes: Box<[AtomicU32]>,
}

struct One {
    prefix: Box<[u8]>,
    share: f64,
    /// Items in segments born up to here are gone; 0 = none.
    mark: AtomicU64,
    drops: AtomicU64,
    /// The epoch in which no byte under the mark was left; 0 = some were.
    clear_since: AtomicU64,
}

/// Counts of one core's readers and of reclaim.
#[repr(align(64))]
struct Stripe(Box<[Counts]>);

#[derive(Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    evicted: AtomicU64,
}

/// What is counted of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    Hit,
    Miss,
    Evicted,
}

impl GroupId {
    pub(crate) fn number(self) -> usize {
        usize::from(self.0)
    }
}

impl Groups {
    /// None where none are configured: then nothing is looked up anywhere.
    pub(crate) fn new(config: &[Group], segments: usize, cores: usize) -> Option<Groups> {
        if config.is_empty() {
            return None;
        }
        let one = |group: &Group| One {
            prefix: group.prefix.clone().into(),
            share: group.share,
            mark: AtomicU64::new(0),
            drops: AtomicU64::new(0),
            clear_since: AtomicU64::new(0),
        };
        let list: Box<[One]> = config.iter().map(one).collect();
        let mut sorted: Vec<GroupId> = (0..list.len()).map(|n| GroupId(n as u16)).collect();
        sorted.sort_by_key(|&GroupId(n)| {
            let prefix = &list[n as usize].prefix;
            (prefix[0], std::cmp::Reverse(prefix.len()))
        });
        let first = |&GroupId(n): &GroupId| list[n as usize].prefix[0];
        let by_first = std::array::from_fn(|byte| {
            let start = sorted.partition_point(|id| usize::from(first(id)) < byte);
            let end = sorted.partition_point(|id| usize::from(first(id)) <= byte);
            start as u16..end as u16
        });
        let stripe = || Stripe(list.iter().map(|_| Counts::default()).collect());
        Some(Groups {
            by_first: Box::new(by_first),
            sorted: sorted.into(),
            stripes: (0..cores.max(1)).map(|_| stripe()).collect(),
            bytes: (0..segments * list.len())
                .map(|_| AtomicU32::new(0))
                .collect(),
            list,
        })
    }

    /// Bytes of the tables for so many groups.
    pub(crate) fn table_bytes(groups: usize, segments: usize, cores: usize) -> u64 {
        let each = 4 * segments + cores * std::mem::size_of::<Counts>() + 256;
        (groups * each) as u64
    }

    /// The group of a key, or of its first `GROUP_PREFIX_MAX` bytes. A table look-up where no prefix begins as it does.
    #[inline]
    pub(crate) fn of(&self, key: &[u8]) -> Option<GroupId> {
        let near = self.by_first[usize::from(*key.first()?)].clone();
        self.sorted[usize::from(near.start)..usize::from(near.end)]
            .iter()
            .copied()
            .find(|&GroupId(n)| key.starts_with(&self.list[n as usize].prefix))
    }

    /// The group configured with exactly this prefix.
    pub(crate) fn named(&self, prefix: &[u8]) -> Option<GroupId> {
        let at = self.list.iter().position(|one| *one.prefix == *prefix)?;
        Some(GroupId(at as u16))
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = GroupId> {
        (0..self.list.len()).map(|n| GroupId(n as u16))
    }

    fn one(&self, GroupId(n): GroupId) -> &One {
        &self.list[usize::from(n)]
    }

    pub(crate) fn prefix(&self, id: GroupId) -> &[u8] {
        &self.one(id).prefix
    }

    pub(crate) fn share(&self, id: GroupId) -> f64 {
        self.one(id).share
    }

    /// Times the group was dropped.
    pub(crate) fn drops(&self, id: GroupId) -> u64 {
        self.one(id).drops.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn count(&self, id: GroupId, event: Event, core: usize) {
        let counts = &self.stripes[core % self.stripes.len()].0[usize::from(id.0)];
        let count = match event {
            Event::Hit => &counts.hits,
            Event::Miss => &counts.misses,
            Event::Evicted => &counts.evicted,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn sum(&self, id: GroupId, event: Event) -> u64 {
        let of = |stripe: &Stripe| {
            let counts = &stripe.0[usize::from(id.0)];
            let count = match event {
                Event::Hit => &counts.hits,
                Event::Miss => &counts.misses,
                Event::Evicted => &counts.evicted,
            };
            count.load(Ordering::Relaxed)
        };
        self.stripes.iter().map(of).sum()
    }

    fn cell(&self, segment: u32, id: GroupId) -> &AtomicU32 {
        &self.bytes[segment as usize * self.list.len() + usize::from(id.0)]
    }

    /// A record is about to be published in this segment.
    pub(crate) fn add(&self, segment: u32, id: GroupId, bytes: usize) {
        self.cell(segment, id)
            .fetch_add(bytes as u32, Ordering::Relaxed);
    }

    /// It is buried, or was not published after all.
    pub(crate) fn sub(&self, segment: u32, id: GroupId, bytes: usize) {
        self.cell(segment, id)
            .fetch_sub(bytes as u32, Ordering::Relaxed);
    }

    /// Bytes of the group's records in a segment.
    pub(crate) fn bytes(&self, segment: u32, id: GroupId) -> u64 {
        self.cell(segment, id).load(Ordering::Relaxed).into()
    }

    /// Whether a drop has made items of the group in segments of this birth invisible.
    #[inline]
    pub(crate) fn is_dark(&self, id: GroupId, birth: u64) -> bool {
        birth <= self.mark(id)
    }

    pub(crate) fn mark(&self, id: GroupId) -> u64 {
        self.one(id).mark.load(Ordering::Acquire)
    }

    /// Everything of the group in segments born up to `birth` is gone. Under the reclaim lock, no lane opening.
    pub(crate) fn drop_up_to(&self, id: GroupId, birth: u64) {
        let one = self.one(id);
        one.mark.fetch_max(birth, Ordering::AcqRel);
        one.clear_since.store(0, Ordering::Relaxed);
        one.drops.fetch_add(1, Ordering::Relaxed);
    }

    /// Bytes in a segment of this birth that drops have made invisible.
    pub(crate) fn dark_bytes(&self, segment: u32, birth: u64) -> u64 {
        let dark = self.ids().filter(|&id| self.is_dark(id, birth));
        dark.map(|id| self.bytes(segment, id)).sum()
    }

    /// Notes whether bytes under a group's mark are left, as seen in `epoch`. True when there have been none since an
    /// epoch that `passed` says is over for all pins: then no reader can still hold a place of one.
    pub(crate) fn is_clear(
        &self,
        id: GroupId,
        clear: bool,
        epoch: u64,
        passed: impl Fn(u64) -> bool,
    ) -> bool {
        let since = &self.one(id).clear_since;
        match (clear, since.load(Ordering::Relaxed)) {
            (true, _) if mutant(Mutant::ForgetNoGrace) => return true,
            (false, _) => since.store(0, Ordering::Relaxed),
            // Epochs may begin at 0, which here says "not clear".
            (true, 0) => since.store(epoch + 1, Ordering::Relaxed),
            (true, at) => return passed(at - 1),
        }
        false
    }

    /// Nothing is left under the mark. Under the reclaim lock.
    pub(crate) fn forget(&self, id: GroupId) {
        self.one(id).mark.store(0, Ordering::Release);
        self.one(id).clear_since.store(0, Ordering::Relaxed);
    }

    /// The youngest mark of all.
    pub(crate) fn youngest_mark(&self) -> u64 {
        self.ids().map(|id| self.mark(id)).max().unwrap_or(0)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn groups(prefixes: &[&str]) -> Groups {
        let config: Vec<Group> = prefixes.iter().map(|p| Group::new(p.as_bytes())).collect();
        Groups::new(&config, 4, 2).expect("some are configured")
    }

    #[test]
    fn the_longest_prefix_wins() {
        let groups = groups(&["user:", "user:7:", "u", "session:"]);
        let of = |key: &str| {
            groups
                .of(key.as_bytes())
                .map(|id| String::from_utf8_lossy(groups.prefix(id)).into_owned())
        };
        for (key, wanted) in [
            ("user:7:name", Some("user:7:")),
            ("user:8:name", Some("user:")),
            ("user", Some("u")),
            ("session:", Some("session:")),
            ("session", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(of(key).as_deref(), wanted, "{key}");
        }
        assert!(groups.named(b"user:").is_some() && groups.named(b"use").is_none());
        assert!(Groups::new(&[], 4, 2).is_none());
    }

    #[test]
    fn a_mark_darkens_what_was_born_before_and_is_forgotten_after_a_grace() {
        let groups = groups(&["a", "b"]);
        let a = groups.of(b"a1").unwrap();
        groups.add(3, a, 100);
        groups.add(3, groups.of(b"b1").unwrap(), 50);
        assert_eq!(groups.dark_bytes(3, 10), 0);
        groups.drop_up_to(a, 10);
        assert!(groups.is_dark(a, 10) && !groups.is_dark(a, 11));
        assert_eq!(
            (groups.dark_bytes(3, 10), groups.dark_bytes(3, 11)),
            (100, 0)
        );
        assert!(!groups.is_clear(a, false, 0, |_| true));
        assert!(
            !groups.is_clear(a, true, 0, |_| true),
            "seen for the first time"
        );
        assert!(!groups.is_clear(a, true, 5, |_| false), "not yet over");
        assert!(groups.is_clear(a, true, 5, |epoch| epoch == 0));
        // A drop meanwhile begins anew.
        groups.drop_up_to(a, 12);
        assert!(!groups.is_clear(a, true, 6, |_| true));
        groups.forget(a);
        assert_eq!(groups.youngest_mark(), 0);
        assert_eq!(groups.drops(a), 2);
    }
}
