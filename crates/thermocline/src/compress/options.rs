//! What may be asked of compression: when, with which codec, in how much memory.

/// Whether items that leave the hot tier are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CompressMode {
    /// Where it pays: measured costs and a duel on sampled keys decide.
    Auto,
    /// Always.
    On,
    /// Never. Where it was never on, no memory is set aside for it.
    #[default]
    Off,
}

impl CompressMode {
    pub(crate) const ALL: [CompressMode; 3] =
        [CompressMode::Auto, CompressMode::On, CompressMode::Off];

    /// As a number, for an atomic.
    pub(crate) fn number(self) -> u32 {
        self as u32
    }

    pub(crate) fn of_number(number: u32) -> CompressMode {
        CompressMode::ALL[number as usize % 3]
    }
}

/// What values are coded with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CompressCodec {
    /// LZ4; zstd for kinds of long values where measured bytes and times say that it pays.
    #[default]
    Best,
    /// LZ4 alone: the fastest to read.
    Lz4,
    /// zstd alone, with dictionaries where they are trained.
    Zstd,
}

/// How the compressed tier codes, and what it may take. The defaults are meant to be the best.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CompressOptions {
    /// Which codec.
    pub codec: CompressCodec,
    /// zstd's level, 1 to 19. Default: 3, or 1 where memory for its tables is short.
    pub zstd_level: Option<i32>,
    /// Bytes that dictionaries, their tables and the encoder may take together; 0: no dictionaries are trained.
    /// Default: 1 % of the memory, at most 10 MiB; up to twice that in caches under 100 MiB.
    pub dictionary_memory: Option<u64>,
    /// The hot tier's share of the cache while compression is on, 0.01 to 0.9. Default: 0.05.
    pub hot_share: Option<f64>,
}

impl CompressOptions {
    /// What is wrong with them, in words.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(level) = self.zstd_level {
            if !(1..=19).contains(&level) {
                return Err(format!(
                    "compress_with.zstd_level = {level}: between 1 and 19"
                ));
            }
        }
        if let Some(share) = self.hot_share {
            if !(0.01..=0.9).contains(&share) {
                return Err(format!(
                    "compress_with.hot_share = {share}: between 0.01 and 0.9"
                ));
            }
        }
        Ok(())
    }
}
