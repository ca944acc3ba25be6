//! From samples to a dictionary: trained, judged on values it has not seen, and the codec chosen by its costs.
//!
//! Runs without any lock for 50 to 200 ms; what it takes meanwhile is charged by the caller.

use super::classes::Class;
use super::press::Room;
use super::samples::Samples;
use super::shared::Compress;
use crate::codec::{
    train, training_bytes, with_zstd_tables, Decoder, Dictionary, Encoder, Method, ZSTD_VALUE_MIN,
};
use std::time::Instant;

/// A new dictionary must save this share of the coded bytes against the one in force.
const GAIN_MIN: f64 = 0.05;
/// Stretches tried: short ones for loose words, long ones for whole fields.
const STRETCHES: [usize; 3] = [128, 512, 2048];
/// zstd must save this share of LZ4's bytes to be thought of.
const ZSTD_GAIN_MIN: f64 = 0.04;
/// Compressed hits for each miss, in the mean of skewed loads: what a slower decoder costs.
const HITS_PER_MISS: f64 = 4.0;
/// Misses saved, as a share, for each share of bytes saved (the slope of usual miss-ratio curves).
const MISSES_PER_BYTES: f64 = 0.35;
/// What a miss costs until it is known, nanoseconds.
const MISS_NS: f64 = 1e6;
/// Bytes of an item beside its value: header, key, slot.
const ITEM_BYTES: usize = 40;

/// A dictionary, if one came of the samples.
pub(crate) struct Trained {
    pub(crate) class: Option<Class>,
    pub(crate) dictionary: Option<Dictionary>,
    /// What becomes of unseen values with it.
    pub(crate) learned: Option<Learned>,
    /// It is to serve all kinds without one of their own.
    pub(crate) for_all: bool,
    /// Kinds that need none of their own after this: those of which hardly a value became shorter, and the one that most
    /// samples were of.
    pub(crate) settled: Vec<Class>,
}

/// What a dictionary makes of items: coded over plain bytes, and nanoseconds to code one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Learned {
    pub(crate) share: f64,
    pub(crate) code_ns: f64,
}

/// What a dictionary and a method make of values: bytes, and nanoseconds a value.
#[derive(Clone, Copy, Default, Debug)]
struct Judged {
    bytes: usize,
    code_ns: f64,
    decode_ns: f64,
}

impl Trained {
    /// Most bytes that training on `samples_bytes` takes beside the samples: the trainer's table, encoders, and
    /// the tables of the candidates.
    pub(crate) fn scratch_bytes(samples_bytes: usize) -> usize {
        let encoder = Encoder::working_bytes(true);
        training_bytes(samples_bytes).max(1 << 20)
            + encoder
            + Dictionary::lz4_memory_bytes(64 << 10)
    }

    /// Trains on samples taken from a press and judges the result on those it has not seen.
    pub(crate) fn from(samples: Samples, room: Option<Room>, shared: &Compress) -> Trained {
        let mut trained = Trained {
            class: samples.class,
            dictionary: None,
            learned: None,
            for_all: room.is_some_and(|room| room.for_all),
            settled: Vec::new(),
        };
        let Some(room) = room else { return trained };
        let Some(best) = best(&samples, room) else {
            trained.settled = samples.classes;
            return trained;
        };
        if samples.class.is_none() {
            trained.settled = settled(&best, &samples);
        }
        if let Some((dictionary, judged)) = with_codec(best, &samples, room, shared) {
            trained.dictionary = Some(dictionary);
            trained.learned = Some(learned(judged, &samples));
        }
        trained
    }
}

fn learned(judged: Judged, samples: &Samples) -> Learned {
    let (count, _) = samples.split();
    let unseen = &samples.lengths[count..];
    let heads = unseen.len() * ITEM_BYTES;
    let plain = unseen.iter().sum::<usize>() + heads;
    Learned {
        share: (judged.bytes + heads) as f64 / plain.max(1) as f64,
        code_ns: judged.code_ns,
    }
}

/// Kinds whose unseen values a dictionary of all kinds made hardly shorter, and the one that three quarters are of.
fn settled(dictionary: &Dictionary, samples: &Samples) -> Vec<Class> {
    let (count, split) = samples.split();
    let (mut encoder, mut coded, mut at) = (Encoder::new(), Vec::new(), split);
    let mut sums: Vec<(Class, usize, usize)> = Vec::new();
    for (&length, &class) in samples.lengths[count..]
        .iter()
        .zip(&samples.classes[count..])
    {
        let value = &samples.content[at..at + length];
        at += length;
        coded.clear();
        let taken = encoder.encode(dictionary, Method::Lz4Fast, value, length, &mut coded);
        let bytes = if taken { coded.len() } else { length };
        match sums.iter_mut().find(|(of, ..)| *of == class) {
            Some(sum) => (sum.1, sum.2) = (sum.1 + length, sum.2 + bytes),
            None => sums.push((class, length, bytes)),
        }
    }
    let all: usize = sums.iter().map(|(_, plain, _)| plain).sum();
    let is_settled = |&&(_, plain, coded): &&(Class, usize, usize)| {
        plain * 4 >= all * 3 || coded as f64 > plain as f64 * (1.0 - GAIN_MIN)
    };
    let kinds = sums.iter().filter(is_settled);
    kinds.map(|&(class, ..)| class).collect()
}

/// The dictionary of which unseen values become shortest, whether or not it is worth having.
fn best(samples: &Samples, room: Room) -> Option<Dictionary> {
    let (count, split) = samples.split();
    let (content, lengths) = (&samples.content[..split], &samples.lengths[..count]);
    let mut best: Option<(usize, Vec<u8>)> = None;
    for stretch in STRETCHES {
        let Ok(bytes) = train(content, lengths, room.bytes, stretch) else {
            continue;
        };
        let candidate = Dictionary::new(room.id, &bytes);
        let judged = judge(&candidate, samples, |_| Method::Lz4Fast);
        if best.as_ref().is_none_or(|(least, _)| judged.bytes < *least) {
            best = Some((judged.bytes, bytes));
        }
    }
    best.map(|(_, bytes)| Dictionary::new(room.id, &bytes))
}

/// The same with the codec that serves these values best; None: it is not worth having beside the one in force.
fn with_codec(
    plain: Dictionary,
    samples: &Samples,
    room: Room,
    shared: &Compress,
) -> Option<(Dictionary, Judged)> {
    let class = samples.class.unwrap_or_default();
    let old = shared
        .dictionaries
        .with(|table| table.current(class).clone());
    let before = judge(&old, samples, |bytes| old.method(bytes, false));
    if let Some(zstd) = with_zstd(&plain, samples, room, shared) {
        let now = judge(&zstd, samples, |bytes| match room.only_zstd {
            true => Method::Zstd(zstd.zstd_level().unwrap_or(1)),
            false => zstd.method(bytes, false),
        });
        return is_better(now, before).then_some((zstd, now));
    }
    let now = judge(&plain, samples, |_| Method::Lz4Fast);
    is_better(now, before).then_some((plain, now))
}

fn is_better(now: Judged, before: Judged) -> bool {
    (now.bytes as f64) < before.bytes as f64 * (1.0 - GAIN_MIN)
}

/// The same dictionary for zstd, if that serves these values better: most of their bytes are in long values, and
/// what it saves outweighs the time it takes more.
fn with_zstd(
    plain: &Dictionary,
    samples: &Samples,
    room: Room,
    shared: &Compress,
) -> Option<Dictionary> {
    let level = room.zstd_level?;
    let (count, split) = samples.split();
    let unseen = &samples.lengths[count..];
    let long: usize = unseen
        .iter()
        .filter(|&&bytes| bytes >= ZSTD_VALUE_MIN)
        .sum();
    if !room.only_zstd && long * 10 < unseen.iter().sum::<usize>() * 9 {
        return None;
    }
    let (content, lengths) = (&samples.content[..split], &samples.lengths[..count]);
    let bytes = with_zstd_tables(plain.bytes(), content, lengths, level)?;
    let zstd = Dictionary::new(room.id, &bytes).preferring_zstd(level);
    if room.only_zstd {
        return Some(zstd);
    }
    let by_lz4 = judge(plain, samples, |_| Method::Lz4High);
    let by_zstd = judge(&zstd, samples, |bytes| zstd.method(bytes, true));
    let miss_ns = match shared.miss_worth_ns() {
        0 => MISS_NS,
        ns => ns as f64,
    };
    pays(by_lz4, by_zstd, unseen.len(), miss_ns).then_some(zstd)
}

/// Whether what zstd saves in misses is more than what it costs in time, a miss.
fn pays(by_lz4: Judged, by_zstd: Judged, values: usize, miss_ns: f64) -> bool {
    let all = (by_lz4.bytes + values * ITEM_BYTES) as f64;
    let saved = (by_lz4.bytes as f64 - by_zstd.bytes as f64) / all;
    let slower =
        (by_zstd.decode_ns - by_lz4.decode_ns) * HITS_PER_MISS + by_zstd.code_ns - by_lz4.code_ns;
    saved >= ZSTD_GAIN_MIN && saved * MISSES_PER_BYTES * miss_ns > slower
}

/// Codes and decodes the values that training has not seen.
fn judge(dictionary: &Dictionary, samples: &Samples, method: impl Fn(usize) -> Method) -> Judged {
    let (count, split) = samples.split();
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
    let (mut judged, mut at) = (Judged::default(), split);
    let (mut coded, mut back) = (Vec::new(), Vec::new());
    for &length in &samples.lengths[count..] {
        let value = &samples.content[at..at + length];
        at += length;
        coded.clear();
        back.clear();
        let started = Instant::now();
        let taken = encoder.encode(dictionary, method(length), value, length, &mut coded);
        let between = Instant::now();
        judged.code_ns += between.duration_since(started).as_nanos() as f64;
        if taken {
            let _ = decoder.decode(dictionary, &coded, &mut back);
            judged.decode_ns += between.elapsed().as_nanos() as f64;
        }
        judged.bytes += if taken { coded.len() } else { length };
    }
    let values = (samples.lengths.len() - count).max(1) as f64;
    (judged.code_ns, judged.decode_ns) = (judged.code_ns / values, judged.decode_ns / values);
    judged
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn judged(bytes: usize, code_ns: f64, decode_ns: f64) -> Judged {
        Judged {
            bytes,
            code_ns,
            decode_ns,
        }
    }

    #[test]
    fn zstd_pays_where_bytes_saved_outweigh_time() {
        let lz4 = judged(50_000, 15_000.0, 900.0);
        let zstd = judged(44_000, 6_000.0, 1_700.0);
        assert!(pays(lz4, zstd, 100, 1e6) && pays(lz4, zstd, 100, 1e5));
        let slow = judged(44_000, 25_000.0, 4_000.0);
        assert!(pays(lz4, slow, 100, 1e6));
        assert!(!pays(lz4, slow, 100, 1e5), "misses are too cheap");
        assert!(
            !pays(lz4, judged(49_000, 1_000.0, 100.0), 100, 1e6),
            "next to nothing is saved"
        );
    }
}
