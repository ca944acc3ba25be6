//! The keyed hash of keys. One key a cache, drawn at random, so that nobody outside can aim at one unit.
//!
//! Which bits go where: the index takes the directory from the top and 16 tag bits below; ghosts and
//! sampling use the rest. Nothing else may use the index's bits.

use rapidhash::v3::{rapidhash_v3_inline, RapidSecrets};

pub(crate) struct Hasher {
    secrets: RapidSecrets,
}

impl Hasher {
    pub(crate) fn new(seed: u64) -> Hasher {
        Hasher {
            secrets: RapidSecrets::seed(seed),
        }
    }

    #[inline(always)]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        rapidhash_v3_inline::<true, false, true>(key, &self.secrets)
    }
}

/// A seed nobody can guess, from the standard library's own random keys.
pub(crate) fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher as _};
    std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_and_keys_matter() {
        let (a, b) = (Hasher::new(1), Hasher::new(2));
        assert_eq!(a.hash(b"key"), a.hash(b"key"));
        assert_ne!(a.hash(b"key"), b.hash(b"key"));
        assert_ne!(a.hash(b"key"), a.hash(b"kez"));
        assert_ne!(random_seed(), random_seed());
    }
}
