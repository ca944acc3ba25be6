//! Values kept to train a dictionary from. Full, it takes no more until it is emptied.

use super::classes::Class;

/// Most values of one training: 5,000 reach what 20,000 would.
const SAMPLES_MAX: usize = 5000;
/// With so many a training can begin, however few bytes they have: 97 to 100 % of what 20,000 would give.
const SAMPLES_ENOUGH: usize = 1000;
/// A value longer than this would crowd the others out.
pub(crate) const SAMPLE_BYTES_MAX: usize = 16 << 10;
/// Of the values that qualify, one in so many is taken once a dictionary exists; of a kind that no longer fits
/// its own more, so that it is served again soon.
const EVERY: u32 = 16;
const EVERY_DRIFTED: u32 = 4;

/// A bounded store of samples of one kind, or of all.
#[derive(Default)]
pub(crate) struct Samples {
    /// None: values of every kind.
    pub(crate) class: Option<Class>,
    pub(crate) content: Vec<u8>,
    pub(crate) lengths: Vec<usize>,
    /// The kind of each.
    pub(crate) classes: Vec<Class>,
    /// Bytes it may hold; 0: it takes nothing.
    bytes_max: usize,
    every: u32,
    seen: u32,
}

impl Samples {
    /// `drifted`: the kind has a dictionary that no longer fits.
    pub(crate) fn new(class: Option<Class>, bytes_max: usize, drifted: bool) -> Samples {
        Samples {
            class,
            content: Vec::with_capacity(bytes_max),
            bytes_max,
            every: if drifted { EVERY_DRIFTED } else { EVERY },
            ..Samples::default()
        }
    }

    /// Looks at a value; `hurry` takes every one.
    pub(crate) fn see(&mut self, class: Class, value: &[u8], hurry: bool) {
        let wanted = self.class.is_none_or(|only| only == class);
        if !wanted || self.is_full() || value.is_empty() || value.len() > SAMPLE_BYTES_MAX {
            return;
        }
        self.seen = self.seen.wrapping_add(1);
        if !hurry && self.seen % self.every.max(1) != 0 {
            return;
        }
        if self.content.len() + value.len() > self.bytes_max {
            // What is left over is smaller than one value: full.
            self.bytes_max = self.content.len();
            return;
        }
        self.content.extend_from_slice(value);
        self.lengths.push(value.len());
        self.classes.push(class);
    }

    /// Bytes it may hold; 0: it takes nothing.
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Takes no more; also before it takes any.
    pub(crate) fn is_full(&self) -> bool {
        self.lengths.len() >= SAMPLES_MAX || self.content.len() >= self.bytes_max
    }

    /// Whether a training can begin.
    pub(crate) fn is_ready(&self) -> bool {
        // A dictionary is at most a tenth of them: with few bytes it would be small.
        let enough =
            self.lengths.len() >= SAMPLES_ENOUGH && self.content.len() * 2 >= self.bytes_max;
        !self.lengths.is_empty() && (self.is_full() || enough)
    }

    /// The first nine tenths, and the values of the last tenth, which judge the result.
    pub(crate) fn split(&self) -> (usize, usize) {
        let count = self.lengths.len() - self.lengths.len() / 10;
        (count, self.lengths[..count].iter().sum())
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn takes_its_kind_until_it_is_full() {
        let mut samples = Samples::new(Some(Class(1)), 1000, false);
        samples.see(Class(2), &[0; 100], true);
        assert!(samples.lengths.is_empty());
        for _ in 0..20 {
            samples.see(Class(1), &[0; 300], true);
        }
        assert_eq!((samples.lengths.len(), samples.is_ready()), (3, true));
        assert_eq!(samples.split(), (3, 900));
    }

    #[test]
    fn without_hurry_it_takes_some_and_more_of_what_has_drifted() {
        for (drifted, taken) in [(false, 400), (true, 1600)] {
            let mut samples = Samples::new(None, 1 << 20, drifted);
            (0..6400).for_each(|n| samples.see(Class(n), &[0; 10], false));
            assert_eq!(samples.lengths.len(), taken);
            assert!(!samples.is_ready(), "too few bytes");
        }
    }
}
