//! How many bytes of a segment have expired, without looking at its items.
//!
//! Owns a histogram of 16 buckets over time to live, counted from the moment the segment was opened, with
//! bounds that grow by e: 1 s, 3 s, 8 s ... 13.9 days, for ever. Each bucket also knows the latest expiry put
//! into it: a segment full of one TTL is found dead at that second, not at the bucket's bound 1.7x later.
//!
//! Must hold: never more is claimed than has truly expired. All steps are O(1), with any number of items;
//! writers share the histogram without a lock. Times are whole seconds of one clock, the caller's: it rounds
//! an expiry up and "now" down. Items without expiry are not added.

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

const BUCKETS: usize = 16;
/// Numbers that say everything: the opening, and two a bucket.
pub(crate) const WORDS: usize = 1 + 2 * BUCKETS;

/// Seconds after opening up to which a bucket reaches: powers of e, rounded up.
const BOUNDS_S: [u32; BUCKETS] = [
    1,
    3,
    8,
    21,
    55,
    149,
    404,
    1_097,
    2_981,
    8_104,
    22_027,
    59_875,
    162_755,
    442_414,
    1_202_605,
    u32::MAX,
];

/// Expiring bytes of one segment, by time.
#[derive(Debug, Default)]
pub struct ExpiringBytes {
    opened_s: AtomicU32,
    /// Whether anything was ever added: of most segments nothing, and they are asked at every choice.
    any: AtomicU32,
    buckets: [Bucket; BUCKETS],
}

#[derive(Debug, Default)]
struct Bucket {
    bytes: AtomicU32,
    latest_s: AtomicU32,
}

impl ExpiringBytes {
    #[cfg(test)]
    pub fn new(opened_s: u32) -> ExpiringBytes {
        let expiring = ExpiringBytes::default();
        expiring.opened_s.store(opened_s, Relaxed);
        expiring
    }

    /// Empties it for a segment opened now. The caller alone holds the segment: nobody adds or removes.
    pub fn reset(&self, opened_s: u32) {
        for bucket in &self.buckets {
            bucket.bytes.store(0, Relaxed);
            bucket.latest_s.store(0, Relaxed);
        }
        self.any.store(0, Relaxed);
        self.opened_s.store(opened_s, Release);
    }

    /// When the segment was opened.
    pub(crate) fn opened_s(&self) -> u32 {
        self.opened_s.load(Acquire)
    }

    /// Everything it knows, for the books of a stopped cache.
    pub(crate) fn words(&self) -> [u32; WORDS] {
        std::array::from_fn(|n| match n {
            0 => self.opened_s.load(Acquire),
            n if n % 2 == 1 => self.buckets[n / 2].bytes.load(Acquire),
            n => self.buckets[n / 2 - 1].latest_s.load(Relaxed),
        })
    }

    /// Takes over what another's `words` said. The caller alone holds the segment.
    pub(crate) fn set_words(&self, words: &[u32; WORDS]) {
        self.opened_s.store(words[0], Release);
        for (bucket, pair) in self.buckets.iter().zip(words[1..].chunks_exact(2)) {
            bucket.bytes.store(pair[0], Relaxed);
            bucket.latest_s.store(pair[1], Relaxed);
        }
        self.any.store(1, Relaxed);
    }

    /// An item of `bytes` that expires at `expires_s` was appended, or was given this expiry.
    pub fn add(&self, expires_s: u32, bytes: u32) {
        let bucket = self.bucket(expires_s);
        if self.any.load(Relaxed) == 0 {
            self.any.store(1, Relaxed);
        }
        // The latest expiry first: who sees these bytes sees that they live so long.
        bucket.latest_s.fetch_max(expires_s, Relaxed);
        bucket.bytes.fetch_add(bytes, Release);
    }

    /// The item is dead or moved, or its expiry is being changed: both numbers as they were added.
    pub fn remove(&self, expires_s: u32, bytes: u32) {
        let less = |held: u32| Some(held.saturating_sub(bytes));
        let _always_some = self
            .bucket(expires_s)
            .bytes
            .fetch_update(Release, Relaxed, less);
    }

    /// Bytes whose expiry has passed for certain. An item expires when `now_s` reaches its `expires_s`.
    pub fn expired(&self, now_s: u32) -> u64 {
        if self.any.load(Relaxed) == 0 {
            return 0;
        }
        self.held()
            .filter(|held| held.latest_s <= now_s)
            .map(|held| u64::from(held.bytes))
            .sum()
    }

    #[cfg(test)]
    /// All expiring bytes, expired or not.
    pub fn bytes(&self) -> u64 {
        self.held().map(|held| u64::from(held.bytes)).sum()
    }

    #[cfg(test)]
    /// The next second at which `expired` will say more than now; None when nothing is left to expire.
    pub fn next_s(&self, now_s: u32) -> Option<u32> {
        self.held()
            .map(|held| held.latest_s)
            .filter(|latest_s| *latest_s > now_s)
            .min()
    }

    fn held(&self) -> impl Iterator<Item = Held> + '_ {
        let held = |bucket: &Bucket| Held {
            bytes: bucket.bytes.load(Acquire),
            latest_s: bucket.latest_s.load(Relaxed),
        };
        self.buckets.iter().map(held).filter(|held| held.bytes > 0)
    }

    fn bucket(&self, expires_s: u32) -> &Bucket {
        let ttl_s = expires_s.saturating_sub(self.opened_s.load(Relaxed));
        let place = BOUNDS_S.iter().position(|bound_s| ttl_s <= *bound_s);
        &self.buckets[place.expect("the last bound is the largest u32")]
    }
}

/// What a bucket held when it was read. Bytes were read first, so the latest expiry is theirs or later.
struct Held {
    bytes: u32,
    latest_s: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENED_S: u32 = 1_700_000_000;

    #[test]
    fn nothing_expires_early() {
        let expiring = ExpiringBytes::new(OPENED_S);
        expiring.add(OPENED_S + 60, 100);
        expiring.add(OPENED_S + 70, 10);
        assert_eq!(expiring.expired(OPENED_S + 59), 0);
        assert_eq!(
            expiring.expired(OPENED_S + 69),
            0,
            "the bucket waits for its latest"
        );
        assert_eq!(expiring.expired(OPENED_S + 70), 110);
        assert_eq!(expiring.bytes(), 110);
    }

    #[test]
    fn one_ttl_is_found_at_its_second() {
        for ttl_s in [0, 1, 2, 3, 9, 60, 3600, 86_400, 2_592_000, 400_000_000] {
            let expiring = ExpiringBytes::new(OPENED_S);
            expiring.add(OPENED_S + ttl_s, 7);
            assert_eq!(
                expiring.expired((OPENED_S + ttl_s).saturating_sub(1)),
                0,
                "{ttl_s} s"
            );
            assert_eq!(expiring.expired(OPENED_S + ttl_s), 7, "{ttl_s} s");
        }
    }

    #[test]
    fn short_and_long_lives_do_not_wait_for_each_other() {
        let expiring = ExpiringBytes::new(OPENED_S);
        expiring.add(OPENED_S + 10, 1000);
        expiring.add(OPENED_S + 86_400, 1);
        assert_eq!(expiring.next_s(OPENED_S), Some(OPENED_S + 10));
        assert_eq!(expiring.expired(OPENED_S + 10), 1000);
        assert_eq!(expiring.next_s(OPENED_S + 10), Some(OPENED_S + 86_400));
        assert_eq!(expiring.next_s(OPENED_S + 86_400), None);
    }

    #[test]
    fn its_words_say_everything() {
        let expiring = ExpiringBytes::new(OPENED_S);
        expiring.add(OPENED_S + 10, 1000);
        expiring.add(OPENED_S + 86_400, 7);
        let again = ExpiringBytes::default();
        again.set_words(&expiring.words());
        assert_eq!(again.words(), expiring.words());
        assert_eq!(again.expired(OPENED_S + 10), 1000);
        assert_eq!(again.expired(OPENED_S + 86_400), 1007);
    }

    #[test]
    fn removed_bytes_do_not_expire() {
        let expiring = ExpiringBytes::new(OPENED_S);
        expiring.add(OPENED_S + 10, 100);
        expiring.add(OPENED_S + 11, 50);
        expiring.remove(OPENED_S + 10, 100);
        assert_eq!(expiring.expired(OPENED_S + 20), 50);
        expiring.remove(OPENED_S + 11, 9000);
        assert_eq!(expiring.bytes(), 0, "a double removal does not wrap");
    }

    #[test]
    fn an_expiry_before_opening_is_expired() {
        let expiring = ExpiringBytes::new(OPENED_S);
        expiring.add(OPENED_S - 5, 12);
        assert_eq!(expiring.expired(OPENED_S), 12);
    }

    #[test]
    fn a_reused_segment_starts_empty() {
        let expiring = ExpiringBytes::new(OPENED_S);
        expiring.add(OPENED_S + 10, 100);
        expiring.reset(OPENED_S + 1000);
        assert_eq!(expiring.expired(u32::MAX), 0);
        expiring.add(OPENED_S + 1010, 5);
        assert_eq!(expiring.expired(OPENED_S + 1009), 0);
    }

    #[test]
    fn a_reused_segment_does_not_wait_for_its_former_items() {
        let expiring = ExpiringBytes::new(OPENED_S);
        expiring.add(OPENED_S + 2000, 100);
        expiring.reset(OPENED_S + 5);
        expiring.add(OPENED_S + 1505, 5);
        assert_eq!(expiring.expired(OPENED_S + 1505), 5);
    }

    #[test]
    fn random_lives_are_never_overclaimed_and_soon_claimed() {
        let expiring = ExpiringBytes::new(OPENED_S);
        let mut word = 1u64;
        let mut items: Vec<(u32, u32)> = Vec::new();
        for _ in 0..10_000 {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let ttl_s = (1u32 << (word >> 59)).max(1) + (word >> 33) as u32 % 100;
            items.push((OPENED_S.saturating_add(ttl_s), (word >> 50) as u32 + 1));
        }
        items
            .iter()
            .for_each(|(expires_s, bytes)| expiring.add(*expires_s, *bytes));
        let truly = |now_s: u32| -> u64 {
            items
                .iter()
                .filter(|item| item.0 <= now_s)
                .map(|item| u64::from(item.1))
                .sum()
        };
        for ttl_s in [
            0,
            1,
            5,
            50,
            150,
            500,
            5_000,
            70_000,
            1_200_000,
            u32::MAX - OPENED_S,
        ] {
            let now_s = OPENED_S + ttl_s;
            let claimed = expiring.expired(now_s);
            assert!(claimed <= truly(now_s), "{claimed} claimed at {ttl_s} s");
            assert!(
                claimed >= truly(OPENED_S + (f64::from(ttl_s) / 3.0) as u32),
                "late at {ttl_s} s"
            );
        }
    }

    #[test]
    fn bounds_grow_and_cover_all() {
        assert!(BOUNDS_S.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(BOUNDS_S[BUCKETS - 1], u32::MAX);
    }
}
