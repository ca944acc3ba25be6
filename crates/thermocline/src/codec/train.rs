//! Dictionaries out of samples: the stretches that most samples share.
//!
//! The content is cut into epochs; each gives in turn the stretch whose 8-byte words occur in most samples,
//! and words once taken count no more (the cover of zstd's trainer). Counted in one table of at most 1 MiB, where
//! that trainer takes 10: a cache of 64 MiB would show it. The best stretches come last, where LZ4, which looks
//! back 64 KiB, sees them longest.

use super::c_calls;
use super::dictionary::DICTIONARY_BYTES_MAX;

/// Samples should hold this many times the dictionary's bytes: with less it fits the samples, not their kind
/// (174 kB of samples for 64 KiB: ratio 4.9 where 7.4 was to be had).
pub const SAMPLE_FACTOR: usize = 10;
/// Bytes that two samples must share to count.
const WORD: usize = 8;
/// Largest table of counts, as a power of two of entries.
const TABLE_BITS_MAX: u32 = 19;
/// Marks within a stretch, as a power of two: 32 KiB.
const MARK_BITS: u32 = 13;
/// The dictionary is gathered in about this many rounds over all epochs.
const ROUNDS: usize = 4;

/// Why no dictionary came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainError {
    /// Fewer than 8 samples, or less than [`SAMPLE_FACTOR`] times 1 KiB of them.
    TooFewSamples,
    /// The samples have too little in common.
    NothingInCommon,
}

impl std::fmt::Display for TrainError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            TrainError::TooFewSamples => "too few samples to train a dictionary",
            TrainError::NothingInCommon => "the samples have too little in common",
        })
    }
}

impl std::error::Error for TrainError {}

/// Bytes that [`train`] takes beside its samples and its result, for samples of `content_bytes`.
pub fn training_bytes(content_bytes: usize) -> usize {
    (2 << table_bits(content_bytes)) + (4 << MARK_BITS) + (16 << 10)
}

/// Trains a dictionary of at most `bytes_max` (and 64 KiB, and a tenth of the samples) from `samples`, which
/// lie one after the other in `content`, `lengths` long each. It is gathered in stretches of `stretch` bytes (64
/// to 2048; records of like fields want long ones). Takes 10 to 30 ms for 640 KiB.
pub fn train(
    content: &[u8],
    lengths: &[usize],
    bytes_max: usize,
    stretch: usize,
) -> Result<Vec<u8>, TrainError> {
    assert_eq!(
        lengths.iter().sum::<usize>(),
        content.len(),
        "samples tile their content"
    );
    let bytes = bytes_max
        .min(DICTIONARY_BYTES_MAX)
        .min(content.len() / SAMPLE_FACTOR);
    if lengths.len() < 8 || bytes < 1 << 10 {
        return Err(TrainError::TooFewSamples);
    }
    let stretch = stretch.clamp(64, 2048).min(bytes / 2);
    let dictionary = Cover::new(content, lengths).gather(bytes, stretch);
    match dictionary.len() >= 256 {
        true => Ok(dictionary),
        false => Err(TrainError::NothingInCommon),
    }
}

/// The same content with the entropy tables that zstd wants before it, made for `level`; at most 64 KiB. None:
/// the samples give no tables. Takes about 1 MiB for some milliseconds.
pub fn with_zstd_tables(
    dictionary: &[u8],
    content: &[u8],
    lengths: &[usize],
    level: i32,
) -> Option<Vec<u8>> {
    c_calls::with_tables(dictionary, content, lengths, level, DICTIONARY_BYTES_MAX)
}

/// Four entries a word, so that few words share one.
fn table_bits(content_bytes: usize) -> u32 {
    content_bytes
        .next_power_of_two()
        .ilog2()
        .clamp(12, TABLE_BITS_MAX)
}

fn hash(content: &[u8], at: usize) -> u64 {
    let word = u64::from_le_bytes(content[at..at + WORD].try_into().expect("eight bytes"));
    word.wrapping_mul(0xCF1B_BCDC_B7A5_6463)
}

/// In how many samples each word occurs.
struct Cover<'a> {
    content: &'a [u8],
    counts: Vec<u16>,
    bits: u32,
}

impl<'a> Cover<'a> {
    fn new(content: &'a [u8], lengths: &[usize]) -> Cover<'a> {
        let bits = table_bits(content.len());
        let mut counts = vec![0u16; 1 << bits];
        // Where a word was counted last: a word repeated within its sample counts once.
        let mut marks = vec![u32::MAX; 1 << MARK_BITS];
        let mut start = 0;
        for (number, length) in lengths.iter().enumerate() {
            let end = start + length;
            for at in start..(end + 1).saturating_sub(WORD).max(start) {
                let hash = hash(content, at);
                let mark = &mut marks[(hash >> (64 - MARK_BITS)) as usize];
                let tag = (number as u32) << 12 | (hash >> 20) as u32 & 0xFFF;
                if *mark != tag {
                    *mark = tag;
                    let count = &mut counts[(hash >> (64 - bits)) as usize];
                    *count = count.saturating_add(1);
                }
            }
            start = end;
        }
        // What one sample alone has is worth nothing.
        counts
            .iter_mut()
            .for_each(|count| *count -= (*count).min(1));
        Cover {
            content,
            counts,
            bits,
        }
    }

    fn worth(&self, hash: u64) -> u64 {
        u64::from(self.counts[(hash >> (64 - self.bits)) as usize])
    }

    /// Fills a dictionary from its end.
    fn gather(&mut self, bytes: usize, stretch: usize) -> Vec<u8> {
        let epochs = (bytes / stretch / ROUNDS).max(1);
        let epoch_bytes = (self.content.len() / epochs).max(stretch);
        let mut dictionary = vec![0; bytes];
        let (mut left, mut barren, mut epoch) = (bytes, 0, 0);
        while left >= WORD && barren < epochs.max(10) {
            let from = epoch % epochs * epoch_bytes;
            let to = (from + epoch_bytes).min(self.content.len());
            epoch += 1;
            let Some((at, length)) = self.best(from, to, stretch.min(left)) else {
                barren += 1;
                continue;
            };
            barren = 0;
            self.take(at, length);
            left -= length;
            dictionary[left..left + length].copy_from_slice(&self.content[at..at + length]);
        }
        dictionary.split_off(left)
    }

    /// The stretch of most worth between two places, without words of no worth at its ends.
    fn best(&self, from: usize, to: usize, stretch: usize) -> Option<(usize, usize)> {
        let words = stretch.saturating_sub(WORD) + 1;
        let mut marks = vec![u32::MAX; 1 << MARK_BITS];
        // What each word of the window counts for: nothing where it comes again within it.
        let mut counted = vec![0u64; words];
        let (mut now, mut best, mut best_at) = (0u64, 0, from);
        for (step, at) in (from..(to + 1).saturating_sub(WORD)).enumerate() {
            let cell = step % words;
            now -= std::mem::take(&mut counted[cell]);
            let hash = hash(self.content, at);
            let mark = &mut marks[(hash >> (64 - MARK_BITS)) as usize];
            let before = std::mem::replace(mark, step as u32) as usize;
            let again = before != u32::MAX as usize
                && step - before < words
                && self.hash_of(from + before) == hash;
            let worth = match again {
                // Moves to its youngest place.
                true => {
                    let moved = std::mem::take(&mut counted[before % words]);
                    now -= moved;
                    moved
                }
                false => self.worth(hash),
            };
            counted[cell] = worth;
            now += worth;
            if now > best {
                (best, best_at) = (now, (at + 1).saturating_sub(words).max(from));
            }
        }
        (best > 0).then(|| self.trimmed(best_at, stretch.min(to - best_at)))
    }

    fn hash_of(&self, at: usize) -> u64 {
        hash(self.content, at)
    }

    fn trimmed(&self, at: usize, length: usize) -> (usize, usize) {
        let worth = |at: usize| self.worth(self.hash_of(at)) > 0;
        let last = at + length - WORD;
        let first = (at..=last).find(|&at| worth(at)).unwrap_or(at);
        let last = (first..=last).rev().find(|&at| worth(at)).unwrap_or(last);
        (first, last + WORD - first)
    }

    /// Its words count no more.
    fn take(&mut self, at: usize, length: usize) {
        for at in at..at + length - WORD + 1 {
            let cell = (self.hash_of(at) >> (64 - self.bits)) as usize;
            self.counts[cell] = 0;
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn what_samples_share_is_taken_first_and_lies_last() {
        let mut state = 9u64;
        let mut noise = |bytes: usize| -> Vec<u8> {
            (0..bytes)
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    (state >> 56) as u8
                })
                .collect()
        };
        let shared = noise(300);
        let samples: Vec<Vec<u8>> = (0..400)
            .map(|_| [noise(200), shared.clone(), noise(100)].concat())
            .collect();
        let lengths: Vec<usize> = samples.iter().map(Vec::len).collect();
        let dictionary = train(&samples.concat(), &lengths, 4096, 512).unwrap();
        let end = &dictionary[dictionary.len() - 512..];
        let holds = |part: &[u8]| end.windows(part.len()).any(|it| it == part);
        assert!(holds(&shared[20..280]), "what most share comes last");
    }

    #[test]
    fn it_takes_what_it_says() {
        for (content_bytes, most) in [
            (100 << 10, 400 << 10),
            (640 << 10, 1100 << 10),
            (10 << 20, 1100 << 10),
        ] {
            assert!(training_bytes(content_bytes) <= most);
        }
    }
}
