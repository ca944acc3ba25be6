//! Coding and decoding single values with a dictionary, by the thread's CPU clock, beside the C library's own
//! calls on the same values in the same run.

use super::compressed::{values, CompressedOptions};
use super::row::{Bound, Rows};
use crate::machine::thread_cpu_ns;
use crate::report::Spread;
use anyhow::{Context, Result};
use std::hint::black_box;
use thermocline::codec::{reference, train, Decoder, Dictionary, Encoder, Method};

/// Values of a loop, and loops of which the best counts.
const VALUES: u64 = 2000;
const LOOPS: usize = 5;

/// A set's dictionary, values it has not seen, and their coded forms.
struct Bench {
    dictionary: Dictionary,
    values: Vec<Vec<u8>>,
    coded: Vec<Vec<u8>>,
    /// Their payloads by LZ4's high search, without the head.
    blocks: Vec<Vec<u8>>,
    reference: reference::Lz4,
}

/// us of one value, in the mean, best of several loops.
fn best(values: usize, mut all: impl FnMut()) -> f64 {
    let one = |_| {
        let before = thread_cpu_ns();
        all();
        (thread_cpu_ns() - before) as f64 / values as f64 / 1000.0
    };
    (0..LOOPS).map(one).fold(f64::INFINITY, f64::min)
}

impl Bench {
    fn new(set: &str, options: &CompressedOptions) -> Result<Bench> {
        let all = values(set, options.data.as_deref())?.context("a class that can be made")?;
        let half = all.count() / 2;
        let samples: Vec<&[u8]> = (0..half.min(3000)).map(|id| all.of_key(id)).collect();
        let lengths: Vec<usize> = samples.iter().map(|value| value.len()).collect();
        let bytes = train(&samples.concat(), &lengths, 64 << 10, 512)
            .context("these values have much in common")?;
        let dictionary = Dictionary::new(1, &bytes);
        let reference = reference::Lz4::new(&bytes);
        let values: Vec<Vec<u8>> = (half..(half + VALUES).min(all.count()))
            .map(|id| all.of_key(id).to_vec())
            .collect();
        let (mut encoder, mut scratch) = (Encoder::new(), reference.working());
        let (mut coded, mut blocks) = (Vec::new(), Vec::new());
        for value in &values {
            let mut one = Vec::new();
            encoder.encode(&dictionary, Method::Lz4High, value, usize::MAX, &mut one);
            coded.push(one);
            let mut block = Vec::new();
            reference.high(&mut scratch, value, &mut block);
            blocks.push(block);
        }
        Ok(Bench {
            dictionary,
            values,
            coded,
            blocks,
            reference,
        })
    }

    fn mean_bytes(&self) -> f64 {
        self.values.iter().map(Vec::len).sum::<usize>() as f64 / self.values.len() as f64
    }

    fn ratio(&self) -> f64 {
        let coded: usize = self.coded.iter().map(Vec::len).sum();
        self.mean_bytes() * self.values.len() as f64 / coded as f64
    }

    /// us to decode one, ours and the C library's.
    fn decode(&self) -> (f64, f64) {
        let (mut decoder, mut out) = (Decoder::new(), Vec::with_capacity(64 << 10));
        let ours = best(self.values.len(), || {
            for coded in &self.coded {
                out.clear();
                let _ = black_box(decoder.decode(&self.dictionary, black_box(coded), &mut out));
            }
        });
        let theirs = best(self.values.len(), || {
            for (block, value) in self.blocks.iter().zip(&self.values) {
                out.clear();
                black_box(
                    self.reference
                        .decompress(black_box(block), value.len(), &mut out),
                );
            }
        });
        (ours, theirs)
    }

    /// us to code one, ours and the C library's, by the fast search or the high one.
    fn code(&self, method: Method) -> (f64, f64) {
        let (mut encoder, mut out) = (Encoder::new(), Vec::with_capacity(64 << 10));
        let ours = best(self.values.len(), || {
            for value in &self.values {
                out.clear();
                black_box(encoder.encode(&self.dictionary, method, value, usize::MAX, &mut out));
            }
        });
        let mut scratch = self.reference.working();
        let theirs = best(self.values.len(), || {
            for value in &self.values {
                out.clear();
                match method {
                    Method::Lz4Fast => self.reference.fast(&mut scratch, value, &mut out),
                    _ => self.reference.high(&mut scratch, value, &mut out),
                }
                black_box(&out);
            }
        });
        (ours, theirs)
    }
}

/// Rounds of pairs: their spread, and that of their ratio.
fn pairs(rounds: usize, one: impl Fn() -> (f64, f64)) -> (Option<Spread>, Option<Spread>) {
    let pairs: Vec<(f64, f64)> = (0..rounds.max(1)).map(|_| one()).collect();
    (
        Spread::of(pairs.iter().map(|pair| pair.0)),
        Spread::of(pairs.iter().map(|pair| pair.0 / pair.1)),
    )
}

pub fn rows(rows: &mut Rows, options: &CompressedOptions) -> Result<()> {
    for (set, least, ambition) in [
        ("user300", 0.20, 0.12),
        ("user500", 0.35, 0.20),
        ("rec2k", 1.2, 0.75),
    ] {
        let bench = Bench::new(set, options)?;
        let name = format!("{set}, {:.0} B", bench.mean_bytes());
        let (time, beside) = pairs(options.rounds, || bench.decode());
        let (least, ambition) = (Bound::AtMost(least), Bound::AtMost(ambition));
        rows.add(
            format!("decode warm, {name} (us)"),
            time,
            3,
            least,
            ambition,
        );
        rows.show("  beside the C library", beside, 2);
        rows.show(
            "  ratio by the high search",
            super::row::one(bench.ratio()),
            2,
        );
        if set == "user500" {
            for (what, method, least, ambition) in [
                ("fast", Method::Lz4Fast, 1.5, 1.0),
                ("high", Method::Lz4High, 7.0, 4.5),
            ] {
                let (time, beside) = pairs(options.rounds, || bench.code(method));
                let what = format!("compress {what}, {name} (us)");
                rows.add(what, time, 2, Bound::AtMost(least), Bound::AtMost(ambition));
                rows.show("  beside the C library", beside, 2);
            }
        }
    }
    Ok(())
}
