//! Any bytes as the arguments of each meta command: no panic, and what is read back is what was written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thermocline_server::wire::{self, Limits, MetaFlags, Request, FLAGS_MAX, OPAQUE_MAX};

const LIMITS: Limits = Limits {
    key_size_max: 250,
    keys_max: 1000,
};

fuzz_target!(|input: &[u8]| {
    for command in [b"mg ".as_slice(), b"ms ", b"md ", b"ma ", b"me "] {
        let line = [command, input].concat();
        match wire::parse(&line, LIMITS) {
            Ok(Request::MetaGet(meta) | Request::MetaDelete(meta) | Request::MetaArith(meta) | Request::MetaDebug(meta)) => {
                assert!(!meta.key.is_empty() && meta.key.len() <= LIMITS.key_size_max);
                check(&meta.flags);
            }
            Ok(Request::MetaSet(set)) => check(&set.flags),
            Ok(_) => panic!("a meta command was read as another"),
            Err(_) => {}
        }
    }
});

fn check(flags: &MetaFlags<'_>) {
    assert!(flags.sent.words().count() <= FLAGS_MAX);
    for word in flags.sent.words() {
        assert!(flags.has(word[0]), "a flag was read over");
    }
    assert!(flags.opaque.is_none_or(|opaque| opaque.len() <= OPAQUE_MAX));
    // To a counter the token 0 is none.
    assert!(flags.compare.is_none() || flags.has(b'C'));
    assert_eq!(flags.ttl_s.is_some(), flags.has(b'T'));
}
