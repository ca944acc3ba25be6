//! The distribution grammar of OHC's benchmark: `[~]NAME(args)`, ranges as `min..max`, integers that may end in k,
//! m or b (10^3, 10^6, 10^9). `weibull` and `qextreme` work here, and `zipf` is added. Draws are whole numbers.

use crate::nearest::did_you_mean;
use crate::workload::size::normal_quantile;
use crate::workload::zipf::Zipf;
use crate::workload::Random;
use std::str::FromStr;
use std::sync::OnceLock;

/// The largest number drawn: keys of eight bytes, and far more bytes than a value may have.
const MAX: u64 = 1 << 53;
/// Bins of `qextreme`.
const BINS_MAX: u64 = 1 << 16;

/// The names known, aliases after what they stand for.
const NAMES: [&str; 13] = [
    "uniform", "gaussian", "gauss", "normal", "norm", "exp", "extreme", "extr", "weibull",
    "qextreme", "qextr", "fixed", "zipf",
];

/// A distribution of whole numbers between two bounds.
#[derive(Clone, Debug)]
pub struct Distribution {
    text: String,
    min: u64,
    max: u64,
    shape: Shape,
    /// `~`: low and high exchanged.
    mirrored: bool,
    /// Once it was asked for.
    mean: OnceLock<f64>,
}

#[derive(Clone, Debug)]
enum Shape {
    Fixed,
    Uniform,
    Gaussian {
        mean: f64,
        sd: f64,
    },
    /// Weibull of that shape; 1 is the exponential.
    Extreme {
        scale: f64,
        shape: f64,
    },
    /// The same, its quantile bins filled evenly: bounds of the bins, one more than bins.
    Binned {
        scale: f64,
        shape: f64,
        bounds: Vec<f64>,
    },
    Zipf(Zipf),
}

impl Distribution {
    pub fn min(&self) -> u64 {
        self.min
    }

    pub fn max(&self) -> u64 {
        self.max
    }

    /// Every number between the bounds is as likely as another.
    pub fn is_uniform(&self) -> bool {
        matches!(self.shape, Shape::Uniform | Shape::Fixed)
    }

    /// The next number, between the bounds.
    #[inline]
    pub fn sample(&self, random: &mut Random) -> u64 {
        let number = self.plain(random).clamp(self.min, self.max);
        if self.mirrored {
            self.min + self.max - number
        } else {
            number
        }
    }

    #[inline]
    fn plain(&self, random: &mut Random) -> u64 {
        let (min, span) = (self.min, (self.max - self.min) as f64);
        match &self.shape {
            Shape::Fixed => min,
            Shape::Uniform => min + random.below(self.max - min + 1),
            // Clamped by the caller, not drawn again: with s = 2, 2.3 % lie on each end. The quantile of 0 is
            // endless, hence the smallest number above it.
            Shape::Gaussian { mean, sd } => {
                (mean + sd * normal_quantile(random.unit().max(1e-17))).max(0.0) as u64
            }
            Shape::Extreme { scale, shape } => {
                min + extreme(*scale, *shape, random.unit()).min(span) as u64
            }
            Shape::Binned {
                scale,
                shape,
                bounds,
            } => {
                let draw = min as f64 + extreme(*scale, *shape, random.unit()).min(span);
                let last = bounds.len() - 2;
                let bin = bounds.partition_point(|&bound| bound <= draw);
                let bin = bin.saturating_sub(1).min(last);
                let (low, high) = (bounds[bin], bounds[bin + 1]);
                (low + random.unit() * (high - low)) as u64
            }
            Shape::Zipf(ranks) => min + ranks.sample(random),
        }
    }

    /// The mean, by 200,000 draws (seeded: always the same figure). Within 0.3 % for bounded shapes.
    pub fn mean(&self) -> f64 {
        *self.mean.get_or_init(|| self.drawn_mean())
    }

    fn drawn_mean(&self) -> f64 {
        match self.shape {
            Shape::Fixed => self.min as f64,
            Shape::Uniform => (self.min as f64 + self.max as f64) / 2.0,
            _ => {
                let mut random = Random::new(0x6d65_616e);
                let draws = 200_000;
                let sum: f64 = (0..draws).map(|_| self.sample(&mut random) as f64).sum();
                sum / f64::from(draws)
            }
        }
    }
}

/// The Weibull draw of `u` in [0, 1).
#[inline]
fn extreme(scale: f64, shape: f64, u: f64) -> f64 {
    let exponential = -(1.0 - u).ln();
    if shape == 1.0 {
        scale * exponential
    } else {
        scale * exponential.powf(1.0 / shape)
    }
}

impl std::fmt::Display for Distribution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (body, mirrored) = match text.strip_prefix('~') {
            Some(body) => (body, true),
            None => (text, false),
        };
        let form = || format!("`{text}`: write NAME(args), as in gaussian(1024..4096,2)");
        let (name, rest) = body.split_once('(').ok_or_else(form)?;
        let args = rest.trim_end().strip_suffix(')').ok_or_else(form)?;
        let args: Vec<&str> = args.split(',').map(str::trim).collect();
        let (min, max, shape) =
            parse(name.trim(), &args).map_err(|why| format!("`{text}`: {why}"))?;
        Ok(Distribution {
            text: text.to_string(),
            min,
            max,
            shape,
            mirrored,
            mean: OnceLock::new(),
        })
    }
}

type Parsed = Result<(u64, u64, Shape), String>;

fn parse(name: &str, args: &[&str]) -> Parsed {
    let lower = name.to_ascii_lowercase();
    match lower.as_str() {
        "fixed" => {
            expect(args, 1..=1, "fixed(value)")?;
            let value = integer(args[0])?;
            Ok((value, value, Shape::Fixed))
        }
        "uniform" => {
            expect(args, 1..=1, "uniform(min..max)")?;
            let (min, max) = range(args[0])?;
            Ok((min, max, Shape::Uniform))
        }
        "gaussian" | "gauss" | "normal" | "norm" => gaussian(args),
        "exp" => {
            expect(args, 1..=1, "exp(min..max)")?;
            weibull(args[0], 1.0)
        }
        "extreme" | "extr" | "weibull" => {
            expect(args, 2..=2, "extreme(min..max,shape)")?;
            weibull(args[0], number(args[1], "shape", 1e-3, 1e3)?)
        }
        "qextreme" | "qextr" => binned(args),
        "zipf" => {
            expect(args, 1..=2, "zipf(min..max[,exponent])")?;
            let (min, max) = range(args[0])?;
            let exponent = match args.get(1) {
                Some(text) => number(text, "exponent", 1e-6, 10.0)?,
                None => 0.99,
            };
            Ok((min, max, Shape::Zipf(Zipf::new(max - min + 1, exponent))))
        }
        _ => Err(format!(
            "no distribution `{name}`{}; there are {}",
            did_you_mean(&lower, NAMES),
            NAMES.join(", ")
        )),
    }
}

fn gaussian(args: &[&str]) -> Parsed {
    expect(
        args,
        1..=3,
        "gaussian(min..max[,s]) or gaussian(min..max,mean,sd)",
    )?;
    let (min, max) = range(args[0])?;
    let middle = (min as f64 + max as f64) / 2.0;
    let half = (max - min) as f64 / 2.0;
    let (mean, sd) = match args {
        [_] => (middle, half / 3.0),
        [_, s] => (middle, half / number(s, "s", 1e-6, 1e6)?),
        _ => (
            number(args[1], "mean", 0.0, MAX as f64)?,
            number(args[2], "sd", 0.0, MAX as f64)?,
        ),
    };
    Ok((min, max, Shape::Gaussian { mean, sd }))
}

/// Scaled so that one draw in sqrt(max - min) lies beyond max, where it piles up.
fn weibull(text: &str, shape: f64) -> Parsed {
    let (min, max) = range(text)?;
    let span = (max - min) as f64;
    if span < 2.0 {
        return Err(format!("the range {min}..{max} must span 2 at least"));
    }
    let scale = span / (0.5 * span.ln()).powf(1.0 / shape);
    Ok((min, max, Shape::Extreme { scale, shape }))
}

fn binned(args: &[&str]) -> Parsed {
    expect(args, 3..=3, "qextreme(min..max,shape,bins)")?;
    let (min, max, base) = weibull(args[0], number(args[1], "shape", 1e-3, 1e3)?)?;
    let Shape::Extreme { scale, shape } = base else {
        unreachable!("weibull makes nothing else");
    };
    let bins = integer(args[2])?;
    if bins == 0 || bins > BINS_MAX {
        return Err(format!("{bins} bins; 1 to {BINS_MAX} are possible"));
    }
    let end = max as f64 + 1.0;
    let bounds = (0..=bins)
        .map(|bin| match bin == bins {
            true => end,
            false => (min as f64 + extreme(scale, shape, bin as f64 / bins as f64)).min(end),
        })
        .collect();
    Ok((
        min,
        max,
        Shape::Binned {
            scale,
            shape,
            bounds,
        },
    ))
}

fn expect(args: &[&str], count: std::ops::RangeInclusive<usize>, form: &str) -> Result<(), String> {
    if count.contains(&args.len()) && args.iter().all(|arg| !arg.is_empty()) {
        return Ok(());
    }
    Err(format!("write {form}"))
}

/// `min..max`, with two dots or more.
fn range(text: &str) -> Result<(u64, u64), String> {
    let (min, rest) = text
        .split_once("..")
        .ok_or_else(|| format!("`{text}` is no range; write min..max"))?;
    let (min, max) = (integer(min)?, integer(rest.trim_start_matches('.'))?);
    if min > max {
        return Err(format!("the range {min}..{max} runs downward"));
    }
    Ok((min, max))
}

fn integer(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (digits, scale) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(b'b' | b'B') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|value| value.checked_mul(scale))
        .filter(|&value| value <= MAX)
        .ok_or_else(|| {
            format!("`{text}` is no whole number up to 2^53; it may end in k, m or b (10^3, 10^6, 10^9)")
        })
}

fn number(text: &str, what: &str, min: f64, max: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value >= min && value <= max => Ok(value),
        _ => Err(format!("{what} `{text}` is no number from {min} to {max}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 400,000 sorted draws.
    fn draws(text: &str) -> Vec<u64> {
        let distribution: Distribution = text.parse().unwrap();
        let mut random = Random::new(21);
        let mut all: Vec<u64> = (0..400_000)
            .map(|_| distribution.sample(&mut random))
            .collect();
        all.sort_unstable();
        assert!(all[0] >= distribution.min() && all[399_999] <= distribution.max());
        all
    }

    fn quantile(all: &[u64], q: f64) -> f64 {
        all[(q * all.len() as f64) as usize] as f64
    }

    fn near(got: f64, expected: f64, relative: f64) {
        assert!(
            (got - expected).abs() <= relative * expected,
            "{got} for {expected}"
        );
    }

    #[test]
    fn samples_agree_with_those_drawn_from_the_original() {
        let exp = draws("exp(1..1m)");
        for (q, expected) in [(0.5, 100_042.0), (0.9, 333_000.0), (0.99, 668_000.0)] {
            near(quantile(&exp, q), expected, 0.015);
        }
        let piled = exp.iter().filter(|&&n| n == 1_000_000).count() as f64 / 400_000.0;
        near(piled, 0.001, 0.2);
        near(quantile(&draws("extreme(1..1m,0.6)"), 0.5), 21_700.0, 0.02);
        near(quantile(&draws("WEIBULL(1..1m, 0.6)"), 0.5), 21_700.0, 0.02);
        let gaussian = draws("gaussian(1024..4096,2)");
        let mean = gaussian.iter().sum::<u64>() as f64 / 400_000.0;
        near(mean, 2559.0, 0.002);
        for end in [1024, 4096] {
            let share = gaussian.iter().filter(|&&n| n == end).count() as f64 / 400_000.0;
            near(share, 0.02275, 0.06);
        }
    }

    #[test]
    fn quantile_bins_are_as_full_as_the_plain_shape_and_even_inside() {
        let plain = draws("extr(1..100k,0.8)");
        let binned = draws("qextr(1..100k,0.8,4)");
        for q in [0.25, 0.5, 0.75] {
            near(quantile(&binned, q), quantile(&plain, q), 0.03);
        }
        // Even inside the second bin: its median is its middle, which the plain shape's is not.
        let (low, high) = (quantile(&plain, 0.25), quantile(&plain, 0.5));
        near(quantile(&binned, 0.375), (low + high) / 2.0, 0.03);
        assert_eq!(draws("qextreme(5..7,1,1)")[0], 5);
    }

    #[test]
    fn uniform_fixed_zipf_and_mirrors() {
        let uniform = draws("uniform(1..10)");
        for value in 1..=10 {
            let count = uniform.iter().filter(|&&n| n == value).count();
            assert!((39_000..41_000).contains(&count), "{value}: {count}");
        }
        assert_eq!(draws("fixed(64k)")[200_000], 64_000);
        let zipf = draws("zipf(10..1009,1.0)");
        let first = zipf.iter().filter(|&&n| n == 10).count() as f64;
        near(first, 400_000.0 / 7.485, 0.02);
        let mirrored = draws("~exp(1..1m)");
        near(quantile(&mirrored, 0.5), 1_000_001.0 - 100_042.0, 0.01);
        let gaussian: Distribution = "norm(0...100,20,5)".parse().unwrap();
        near(gaussian.mean(), 20.0, 0.05);
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        for (text, part) in [
            ("", "NAME(args)"),
            ("uniform", "NAME(args)"),
            ("uniform(1..", "NAME(args)"),
            ("unifrom(1..2)", "`uniform`"),
            ("zipfian(1..2)", "`zipf`"),
            ("uniform(2..1)", "downward"),
            ("uniform(1)", "min..max"),
            ("uniform(1..2x)", "`2x`"),
            ("uniform(-1..2)", "`-1`"),
            ("uniform(1..99999999999999999999)", "2^53"),
            ("exp(1..2)", "span 2"),
            ("qextreme(1..100,1,0)", "0 bins"),
            ("qextreme(1..100,1)", "qextreme(min..max,shape,bins)"),
            ("extreme(1..100,nan)", "shape"),
            ("gaussian(1..100,)", "gaussian("),
            ("zipf(1..100,0)", "exponent"),
        ] {
            let error = text.parse::<Distribution>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn any_text_is_read_or_refused_and_draws_stay_inside() {
        let seed = std::env::var("SEED").map_or(5, |s| s.parse().expect("SEED is a number"));
        println!("SEED={seed}");
        let mut random = Random::new(seed);
        let written = [
            "uniform(1..9k)",
            "~gauss(0..100,2)",
            "exp(1..1m)",
            "qextr(1..99,0.5,9)",
            "zipf(5..70,1.2)",
            "fixed(3)",
        ];
        let letters = b"~(),.019kmbe-";
        let mut read = 0;
        for _ in 0..20_000 {
            let mut text = written[random.below(6) as usize].as_bytes().to_vec();
            for _ in 0..random.below(4) {
                let at = random.below(text.len() as u64) as usize;
                text[at] = letters[random.below(letters.len() as u64) as usize];
            }
            let text = String::from_utf8(text).unwrap();
            if let Ok(distribution) = text.parse::<Distribution>() {
                read += 1;
                for _ in 0..20 {
                    let number = distribution.sample(&mut random);
                    assert!(
                        (distribution.min()..=distribution.max()).contains(&number),
                        "{text}"
                    );
                }
            }
        }
        assert!((5000..20_000).contains(&read), "{read} were read");
    }
}
