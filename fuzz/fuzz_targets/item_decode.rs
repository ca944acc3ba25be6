//! Any mixture of two versions of an item, as a reader may meet it while one overwrites the other: decoding
//! stays inside the item, and a whole version decodes to itself.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| thermocline::fuzzing::item_decode(input));
