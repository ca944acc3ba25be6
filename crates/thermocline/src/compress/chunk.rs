//! A chunk of a large value, coded: a coded value, and behind it a check of those very bytes.
//!
//! A reader of a large value gets one decoded chunk after the other, and what was handed out cannot be taken back. So the
//! stored bytes of all chunks are checked first, together with the dictionary they were coded with; that takes a small part of the
//! time of decoding them. The check in the coded value's own head, of its plain bytes, is made when it is decoded.

use super::shared::Compress;
use crate::codec::{CodedHead, Dictionary};
use std::sync::Arc;

/// Bytes of the check.
const CHECK_BYTES: usize = 4;

/// A chunk whose bytes are as they were stored.
pub(crate) struct Sound {
    pub(crate) dictionary: Arc<Dictionary>,
    pub(crate) plain_bytes: usize,
}

impl Compress {
    /// Puts the check behind a coded value. False: its dictionary has gone.
    pub(crate) fn seal(&self, coded: &mut Vec<u8>) -> bool {
        let Some(dictionary) = self.dictionary_of(coded) else {
            return false;
        };
        let check = check_of(&dictionary, coded);
        coded.extend_from_slice(&check);
        true
    }

    /// What it takes to decode a chunk; None: its bytes were changed, or its dictionary has gone.
    pub(crate) fn sound(&self, stored: &[u8]) -> Option<Sound> {
        let coded = Self::unsealed(stored)?;
        let dictionary = self.dictionary_of(coded)?;
        let plain_bytes = Self::plain_bytes(coded)?;
        let same = check_of(&dictionary, coded) == stored[coded.len()..];
        same.then_some(Sound {
            dictionary,
            plain_bytes,
        })
    }

    /// A chunk without its check; None: it is shorter than that.
    pub(crate) fn unsealed(stored: &[u8]) -> Option<&[u8]> {
        stored.get(..stored.len().checked_sub(CHECK_BYTES)?)
    }

    fn dictionary_of(&self, coded: &[u8]) -> Option<Arc<Dictionary>> {
        let id = CodedHead::read(coded).ok()?.dictionary;
        self.dictionaries.with(|table| table.get(id).cloned())
    }
}

fn check_of(dictionary: &Dictionary, coded: &[u8]) -> [u8; CHECK_BYTES] {
    let hash = crate::codec::hash_of(coded) ^ dictionary.fingerprint();
    (hash as u32).to_le_bytes()
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::super::options::{CompressMode, CompressOptions};
    use super::*;
    use crate::codec::{Encoder, Method};

    /// Whichever bit is changed, in the coded value or behind it; and a dictionary of other content under the same number.
    #[test]
    fn what_was_changed_is_not_sound() {
        let compress = Compress::new(CompressMode::On, CompressOptions::default(), None);
        let plain = compress.dictionaries.with(|table| table.get(0).cloned());
        let plain = plain.expect("the empty one is always there");
        let value = b"amber and fjord, fjord and amber ".repeat(30);
        let (mut stored, mut coder) = (Vec::new(), Encoder::new());
        assert!(coder.encode(&plain, Method::Lz4Fast, &value, 1000, &mut stored));
        assert!(compress.seal(&mut stored));
        assert_eq!(
            compress.sound(&stored).expect("as stored").plain_bytes,
            value.len()
        );
        for bit in 0..8 * stored.len() {
            let mut changed = stored.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(compress.sound(&changed).is_none(), "bit {bit}");
        }
        for bytes in 0..stored.len() {
            assert!(compress.sound(&stored[..bytes]).is_none(), "{bytes} bytes");
        }
        let coded = Compress::unsealed(&stored).expect("as stored");
        let other = Dictionary::new(0, b"fjord and amber");
        assert!(check_of(&other, coded) != check_of(&plain, coded));
        let mut back = Vec::new();
        assert!(compress.decode_chunk(&plain, &stored, &mut back) && back == value);
    }
}
