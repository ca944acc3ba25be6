//! Which key is asked for next: `uniform` or `zipf:0.99`. Yields key numbers; rank 0 is the hottest key.
//! Neighbouring ranks are not neighbouring keys: `key` scrambles the number.

use super::zipf::Zipf;
use super::Random;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// How popularity falls from key to key, as given on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Popularity {
    Uniform,
    Zipf(f64),
}

impl FromStr for Popularity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "uniform" {
            return Ok(Popularity::Uniform);
        }
        let exponent = text
            .strip_prefix("zipf")
            .and_then(|rest| match rest {
                "" => Some("0.99"),
                rest => rest.strip_prefix(':'),
            })
            .ok_or_else(|| format!("`{text}`: write `uniform` or `zipf:0.99`"))?;
        match exponent.parse::<f64>() {
            Ok(exponent) if exponent > 0.0 && exponent <= 10.0 => Ok(Popularity::Zipf(exponent)),
            _ => Err(format!(
                "`{text}`: the exponent lies above 0 and at most 10"
            )),
        }
    }
}

impl TryFrom<String> for Popularity {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Popularity> for String {
    fn from(value: Popularity) -> String {
        value.to_string()
    }
}

impl std::fmt::Display for Popularity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Popularity::Uniform => write!(f, "uniform"),
            Popularity::Zipf(exponent) => write!(f, "zipf:{exponent}"),
        }
    }
}

/// A popularity over a key space, ready to draw from.
#[derive(Clone, Debug)]
pub enum Ranks {
    Uniform(u64),
    Zipf(Zipf),
}

impl Ranks {
    pub fn new(popularity: Popularity, keys: u64) -> Self {
        match popularity {
            Popularity::Uniform => Ranks::Uniform(keys),
            Popularity::Zipf(exponent) => Ranks::Zipf(Zipf::new(keys, exponent)),
        }
    }

    #[inline]
    pub fn sample(&self, random: &mut Random) -> u64 {
        match self {
            Ranks::Uniform(keys) => random.below(*keys),
            Ranks::Zipf(zipf) => zipf.sample(random),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_as_printed() {
        for text in ["uniform", "zipf:0.99", "zipf:1.2"] {
            assert_eq!(text.parse::<Popularity>().unwrap().to_string(), text);
        }
        assert_eq!("zipf".parse(), Ok(Popularity::Zipf(0.99)));
        assert!("zipf:0".parse::<Popularity>().is_err());
        assert!("zipfy".parse::<Popularity>().is_err());
        assert!("zipf:x".parse::<Popularity>().is_err());
        assert!("hot".parse::<Popularity>().is_err());
    }
}
