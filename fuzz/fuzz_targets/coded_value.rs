#![no_main]
//! Any bytes as a coded value, and values through every method and back: nothing panics, nothing comes back
//! changed, and an error appends nothing.
use libfuzzer_sys::fuzz_target;
use thermocline::codec::{Decoder, Dictionary, Encoder, Method};

fuzz_target!(|input: &[u8]| {
    let Some((&split, rest)) = input.split_first() else {
        return;
    };
    let at = usize::from(split).min(rest.len());
    let (content, value) = rest.split_at(at);
    let dictionary = Dictionary::new(split & 63, content);
    let (mut decoder, mut out) = (Decoder::new(), Vec::new());
    if decoder.decode(&dictionary, value, &mut out).is_err() {
        assert!(out.is_empty());
    }
    let mut encoder = Encoder::new();
    for method in [Method::Lz4Fast, Method::Lz4High, Method::Zstd(1)] {
        let (mut coded, mut back) = (Vec::new(), Vec::new());
        if encoder.encode(&dictionary, method, value, value.len() + 64, &mut coded) {
            decoder.decode(&dictionary, &coded, &mut back).expect("what was coded decodes");
            assert_eq!(back, value);
        }
    }
});
