//! What YCSB draws from: key numbers, lengths, and the sums behind them. Pure and seeded; YCSB itself draws from
//! an unseeded source, so distributions are equal, sequences are not.

mod keys;
mod lengths;
mod zeta;
mod zipfian;

pub use keys::{KeySpace, Keys, RequestDistribution};
pub use lengths::{Histogram, Lengths};
pub use zeta::zeta;
pub use zipfian::{Scrambled, Zipfian, SCRAMBLED_ITEMS, SCRAMBLED_ZETA, THETA};
