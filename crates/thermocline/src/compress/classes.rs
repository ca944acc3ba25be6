//! Kinds of items, told by the prefix of their keys and the size of their values.
//!
//! Owns what is learned of each kind: whether it compresses at all, and how many bytes of it go by.
//! Must hold: no more than `CLASSES_MAX` prefixes are remembered; the rest share what all share.

/// Prefixes with books of their own.
pub(crate) const CLASSES_MAX: usize = 64;
/// A prefix ends within so many bytes, or the key has none.
const PREFIX_MAX: usize = 24;
/// Size bands with admission books of their own: powers of two of the value's bytes, folded.
const BANDS: usize = 64;
/// After so many refusals in a row a band is left alone, but for one value in `RETRY_EVERY`.
const REFUSALS_MAX: u32 = 32;
const RETRY_EVERY: u32 = 64;
/// Values shorter than this are not tried: rounding and the coded head eat the gain.
pub(crate) const PLAIN_BYTES_MIN: usize = 64;

/// The part of a key that names its kind: up to its first separator or digit. Keys without one, or with one
/// only after 24 bytes, have an empty prefix.
pub(crate) fn prefix(key: &[u8]) -> &[u8] {
    let ends = |byte: &u8| {
        matches!(
            byte,
            b':' | b'/' | b'.' | b'-' | b'_' | b'|' | b'#' | b'0'..=b'9'
        )
    };
    match key.iter().take(PREFIX_MAX).position(ends) {
        Some(end) => &key[..end],
        None => &[],
    }
}

/// A prefix by number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Class(pub(crate) u32);

impl Class {
    /// The class of `key`; 0 for keys without a prefix.
    pub(crate) fn of(key: &[u8]) -> Class {
        match prefix(key) {
            [] => Class(0),
            prefix => Class(crc32fast::hash(prefix).max(1)),
        }
    }
}

/// Why a coded value was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// Above 7/8 of the plain bytes (zcache's `reject_compress_poor`).
    Poor,
    /// Above 5/8 while the mean of what was taken is above 5/8 too (`mean_compress_poor`).
    PoorMean,
}

/// zcache's two tests, and which bands are not worth trying.
#[derive(Default)]
pub(crate) struct Admission {
    bands: Vec<Band>,
    /// Running mean of coded over plain bytes of what was taken; 0 before the first.
    mean: f64,
}

#[derive(Default, Clone, Copy)]
struct Band {
    refused_in_a_row: u32,
    skipped: u32,
}

impl Admission {
    /// Whether a value of this kind and size is worth the encoder's time.
    pub(crate) fn tries(&mut self, class: Class, plain_bytes: usize) -> bool {
        if plain_bytes < PLAIN_BYTES_MIN {
            return false;
        }
        let band = self.band(class, plain_bytes);
        if band.refused_in_a_row < REFUSALS_MAX {
            return true;
        }
        band.skipped = (band.skipped + 1) % RETRY_EVERY;
        band.skipped == 0
    }

    /// The longest coded form that will be taken of a value so long.
    pub(crate) fn most(&self, plain_bytes: usize) -> usize {
        match self.mean > 5.0 / 8.0 {
            true => plain_bytes * 5 / 8,
            false => plain_bytes * 7 / 8,
        }
    }

    /// Books a value taken.
    pub(crate) fn taken(&mut self, class: Class, plain_bytes: usize, coded_bytes: usize) {
        let share = coded_bytes as f64 / plain_bytes as f64;
        self.mean = match self.mean {
            0.0 => share,
            mean => mean + (share - mean) / 256.0,
        };
        *self.band(class, plain_bytes) = Band::default();
    }

    /// Books a value whose coded form was longer than `most`. While the mean is poor the stricter test
    /// applies, and the mean recovers with every refusal, so that no bad run of values shuts it for good.
    pub(crate) fn refused(&mut self, class: Class, plain_bytes: usize) -> Refusal {
        let poor_mean = self.mean > 5.0 / 8.0;
        if poor_mean {
            self.mean -= (self.mean - 0.5) / 1024.0;
        }
        let band = self.band(class, plain_bytes);
        band.refused_in_a_row = band.refused_in_a_row.saturating_add(1);
        match poor_mean {
            true => Refusal::PoorMean,
            false => Refusal::Poor,
        }
    }

    /// A new dictionary is in force: what was learned of the old ones' refusals says nothing about it.
    pub(crate) fn reopen(&mut self) {
        *self = Admission::default();
    }

    fn band(&mut self, class: Class, plain_bytes: usize) -> &mut Band {
        if self.bands.is_empty() {
            self.bands = vec![Band::default(); BANDS];
        }
        let size = plain_bytes.next_power_of_two().trailing_zeros();
        let mixed = (class.0 ^ size.wrapping_mul(0x9E37_79B9)).wrapping_mul(0x85EB_CA6B);
        &mut self.bands[(mixed >> 26) as usize % BANDS]
    }
}

/// How many bytes of each kind went by: which kind deserves a dictionary next.
#[derive(Default)]
pub(crate) struct Tally {
    rows: Vec<Row>,
}

/// One kind's books.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) class: Class,
    /// What its keys begin with; empty until it was seen.
    pub(crate) name: Box<[u8]>,
    /// Plain bytes demoted, halved now and then.
    pub(crate) bytes: u64,
    /// Running mean of coded over plain bytes; 0 before the first.
    pub(crate) share: f64,
    /// The mean soon after its dictionary was made; 0: it has none of its own.
    pub(crate) share_at_training: f64,
    /// Values since its dictionary was made.
    pub(crate) since: u32,
    /// It hardly compresses and no dictionary was found for it: after so many values another is looked for; 0: the
    /// first wait.
    again_after: u32,
}

/// Values after which a new dictionary's mean counts as what it can do.
const SETTLED_VALUES: u32 = 1000;
/// A mean ratio so much worse than at training asks for a new dictionary.
const DRIFT: f64 = 1.05;
/// A kind that is coded to this share or more is served by nothing. It cannot become worse, so that it may have
/// changed is found out by trying: after so many values, and each time twice as many up to the most. (While demotion
/// is held back one item in 64 that leaves is a value here.)
const BARREN: f64 = 0.9;
const AGAIN_AFTER: u32 = 1 << 14;
const AGAIN_AFTER_MAX: u32 = 1 << 20;

impl Tally {
    /// Books one value: its kind, its bytes, and its coded bytes (None: not taken).
    pub(crate) fn add(&mut self, class: Class, plain_bytes: usize, coded_bytes: Option<usize>) {
        let Some(row) = self.row(class) else { return };
        row.bytes += plain_bytes as u64;
        row.since = row.since.saturating_add(1);
        let share = coded_bytes.map_or(1.0, |coded| coded as f64 / plain_bytes as f64);
        row.share = match row.share {
            0.0 => share,
            mean => mean + (share - mean) / 256.0,
        };
        if row.since == SETTLED_VALUES && row.share_at_training < 0.0 {
            row.share_at_training = row.share;
        }
    }

    fn row(&mut self, class: Class) -> Option<&mut Row> {
        let at = match self.rows.iter().position(|row| row.class == class) {
            Some(at) => at,
            None if self.rows.len() < CLASSES_MAX => {
                self.rows.push(Row {
                    class,
                    ..Row::default()
                });
                self.rows.len() - 1
            }
            None => self.replace_least(class)?,
        };
        Some(&mut self.rows[at])
    }

    /// Every newcomer wears the smallest row down; at nothing it takes its place.
    fn replace_least(&mut self, class: Class) -> Option<usize> {
        let (at, least) = self
            .rows
            .iter_mut()
            .enumerate()
            .filter(|(_, row)| row.share_at_training == 0.0)
            .min_by_key(|(_, row)| row.bytes)?;
        if least.bytes > 0 {
            least.bytes /= 2;
            return None;
        }
        *least = Row {
            class,
            ..Row::default()
        };
        Some(at)
    }

    /// A dictionary for `class` was put in force: its next thousand values say what it can do.
    pub(crate) fn trained(&mut self, class: Class) {
        if let Some(row) = self.row(class) {
            row.settle();
        }
    }

    /// Whether half of the bytes that went by lately, or more, are of a kind.
    pub(crate) fn is_most(&self, class: Class) -> bool {
        let total: u64 = self.rows.iter().map(|row| row.bytes).sum();
        let own = self.rows.iter().find(|row| row.class == class);
        own.is_some_and(|row| row.bytes * 2 >= total)
    }

    /// These kinds are served as well as can be, as if each had a dictionary of its own. Only remembered ones count.
    pub(crate) fn settle(&mut self, classes: &[Class]) {
        let rows = self.rows.iter_mut();
        rows.filter(|row| classes.contains(&row.class))
            .for_each(Row::settle);
    }

    /// The kind with most bytes that has no dictionary of its own, or one that no longer fits.
    pub(crate) fn neediest(&self) -> Option<Row> {
        let total: u64 = self.rows.iter().map(|row| row.bytes).sum();
        self.rows
            .iter()
            .filter(|row| row.share_at_training == 0.0 || row.has_drifted() || row.is_due_again())
            // A kind under 1 % of the bytes cannot repay its dictionary.
            .filter(|row| row.bytes * 100 >= total)
            .max_by_key(|row| row.bytes)
            .cloned()
    }

    /// Whether the dictionary that serves a kind no longer fits it.
    pub(crate) fn has_drifted(&self, class: Class) -> bool {
        let row = self.rows.iter().find(|row| row.class == class);
        row.is_some_and(Row::has_drifted)
    }

    /// Forgets half, so that what goes by now counts most.
    pub(crate) fn age(&mut self) {
        self.rows.iter_mut().for_each(|row| row.bytes /= 2);
    }

    /// Notes what the keys of a kind begin with.
    pub(crate) fn name(&mut self, class: Class, key: &[u8]) {
        if let Some(row) = self.rows.iter_mut().find(|row| row.class == class) {
            if row.name.is_empty() {
                row.name = prefix(key).into();
            }
        }
    }

    /// All kinds' books.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }
}

impl Row {
    /// Served as well as its samples allow; the next try comes after `again_after` of its values.
    fn settle(&mut self) {
        self.again_after = match self.share >= BARREN {
            true => (self.again_after * 2).clamp(AGAIN_AFTER, AGAIN_AFTER_MAX),
            false => 0,
        };
        (self.share_at_training, self.since) = (-1.0, 0);
    }

    fn has_drifted(&self) -> bool {
        self.share_at_training > 0.0 && self.share > self.share_at_training * DRIFT
    }

    /// Nothing served it when last looked, nor does now, and that was long ago.
    fn is_due_again(&self) -> bool {
        self.again_after > 0 && self.share >= BARREN && self.since >= self.again_after
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_at_separators_and_digits() {
        for (key, expected) in [
            ("user:17", "user"),
            ("session/abc", "session"),
            ("item42", "item"),
            ("plain", ""),
            ("17", ""),
            (":x", ""),
            ("a_very_long_name", "a"),
            ("averyveryveryveryverylongprefix:1", ""),
        ] {
            assert_eq!(prefix(key.as_bytes()), expected.as_bytes(), "{key}");
        }
        assert_eq!(Class::of(b"user:1"), Class::of(b"user:2"));
        assert_ne!(Class::of(b"user:1"), Class::of(b"order:1"));
        assert_eq!(Class::of(b"17"), Class(0));
    }

    #[test]
    fn a_band_that_never_compresses_is_left_alone_and_retried() {
        let (mut admission, class) = (Admission::default(), Class::of(b"png:1"));
        for _ in 0..REFUSALS_MAX {
            assert!(admission.tries(class, 500));
            assert_eq!(admission.refused(class, 500), Refusal::Poor);
        }
        let tried = (0..6400).filter(|_| admission.tries(class, 500)).count();
        assert_eq!(tried, 100);
        admission.taken(class, 500, 100);
        assert!(admission.tries(class, 500), "one success opens it again");
        assert!(!admission.tries(class, PLAIN_BYTES_MIN - 1));
    }

    #[test]
    fn the_stricter_test_holds_while_the_mean_is_poor_and_not_for_ever() {
        let (mut admission, class) = (Admission::default(), Class(7));
        assert_eq!(admission.most(800), 700);
        (0..500).for_each(|_| admission.taken(class, 800, 650));
        assert_eq!(admission.most(800), 500);
        assert_eq!(admission.refused(class, 800), Refusal::PoorMean);
        (0..2000).for_each(|_| {
            admission.refused(class, 800);
        });
        assert_eq!(admission.most(800), 700);
    }

    #[test]
    fn the_neediest_kind_has_most_bytes_and_no_fitting_dictionary() {
        let mut tally = Tally::default();
        let (large, small) = (Class(1), Class(2));
        for _ in 0..2000 {
            tally.add(large, 1000, Some(500));
            tally.add(small, 100, Some(50));
        }
        assert_eq!(tally.neediest().unwrap().class, large);
        tally.trained(large);
        assert_eq!(tally.neediest().unwrap().class, small);
        (0..SETTLED_VALUES).for_each(|_| tally.add(large, 1000, Some(300)));
        assert_eq!(tally.neediest().unwrap().class, small);
        // The schema changes: its values no longer compress as they did.
        (0..2000).for_each(|_| tally.add(large, 1000, Some(600)));
        assert_eq!(tally.neediest().unwrap().class, large);
    }

    /// What hardly compresses cannot become worse: it is tried again, ever more rarely.
    #[test]
    fn a_kind_that_nothing_serves_is_tried_again() {
        let (mut tally, class) = (Tally::default(), Class(1));
        let mut waits = Vec::new();
        tally.add(class, 500, None);
        for _ in 0..9 {
            tally.settle(&[class]);
            let values = (1..).find(|_| {
                tally.add(class, 500, None);
                tally.neediest().is_some()
            });
            waits.push(values.unwrap() as u32);
        }
        let expected: Vec<u32> = (0..9)
            .map(|n| (AGAIN_AFTER << n).min(AGAIN_AFTER_MAX))
            .collect();
        assert_eq!(waits, expected);
        // Once it is served it waits for drift alone.
        (0..4000).for_each(|_| tally.add(class, 500, Some(200)));
        tally.trained(class);
        (0..2 * AGAIN_AFTER_MAX).for_each(|_| tally.add(class, 500, Some(200)));
        assert!(tally.neediest().is_none());
    }

    #[test]
    fn no_more_kinds_than_the_limit_are_remembered() {
        let mut tally = Tally::default();
        for n in 0..10_000u32 {
            tally.add(Class(n + 1), 10, None);
        }
        assert_eq!(tally.rows().len(), CLASSES_MAX);
        // A kind that goes by often finds a row all the same.
        (0..10_000).for_each(|_| tally.add(Class(77_777), 10, None));
        assert_eq!(tally.neediest().unwrap().class, Class(77_777));
    }
}
