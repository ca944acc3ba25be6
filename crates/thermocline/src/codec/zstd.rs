//! zstd against a dictionary. Its frames are kept without their magic number, which says nothing here.

use super::frame::DecodeError;
use zstd_safe::{CCtx, CDict, DCtx, DDict, DParameter, FrameFormat};

/// The first bytes of every standard frame.
const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// Working memory of one encoding thread.
#[derive(Default)]
pub(super) struct Working(Option<CCtx<'static>>);

impl Working {
    /// Puts the compressed form of `value` into `payload`.
    pub(super) fn compress(&mut self, prepared: &CDict, value: &[u8], payload: &mut Vec<u8>) {
        let context = self.0.get_or_insert_with(CCtx::create);
        payload.resize(zstd_safe::compress_bound(value.len()), 0);
        let written = context
            .compress_using_cdict(&mut payload[..], value, prepared)
            .expect("the target holds the bound");
        assert!(payload[..written].starts_with(&MAGIC));
        payload.copy_within(MAGIC.len()..written, 0);
        payload.truncate(written - MAGIC.len());
    }
}

/// Working memory of one decoding thread.
#[derive(Default)]
pub(super) struct Reading(Option<DCtx<'static>>);

impl Reading {
    /// Decodes `payload` into all of `value`.
    pub(super) fn decompress(
        &mut self,
        prepared: &DDict,
        payload: &[u8],
        value: &mut [u8],
    ) -> Result<(), DecodeError> {
        let context = self.0.get_or_insert_with(|| {
            let mut context = DCtx::create();
            context
                .set_parameter(DParameter::Format(FrameFormat::Magicless))
                .expect("the library knows frames without magic");
            context
        });
        match context.decompress_using_ddict(value, payload, prepared) {
            Ok(bytes) if bytes == value.len() => Ok(()),
            _ => Err(DecodeError::Corrupt),
        }
    }
}

/// A dictionary whose number is 0 is written into no frame: the coded value names it already.
pub(super) fn without_number(dictionary: &mut [u8]) {
    const DICTIONARY_MAGIC: [u8; 4] = [0x37, 0xA4, 0x30, 0xEC];
    if dictionary.len() >= 8 && dictionary.starts_with(&DICTIONARY_MAGIC) {
        dictionary[4..8].fill(0);
    }
}
