//! Any bytes as a stream of classic requests: no panic, limits kept, every byte accounted for, and what the quick way
//! takes is read as the general way reads it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thermocline_server::wire::{self, Limits, Read, Request, VALUE_BYTES_MAX};

const LIMITS: Limits = Limits {
    key_size_max: 250,
    keys_max: 1000,
};

fuzz_target!(|input: &[u8]| {
    let mut rest = input;
    while let Some((line, bytes)) = wire::split_line(rest) {
        assert!(bytes <= rest.len() && line.len() < bytes);
        let quick = wire::quick_read(rest, LIMITS.key_size_max);
        let parsed = wire::parse(line, LIMITS);
        assert!(quick.is_none() || parsed.is_ok());
        let skip = match parsed {
            Ok(request) => {
                check(&request);
                check_quick(quick, &request, bytes);
                request.payload_bytes()
            }
            Err(refusal) => refusal.swallow,
        };
        assert!(skip <= VALUE_BYTES_MAX + 2);
        rest = &rest[bytes..];
        rest = &rest[(skip as usize).min(rest.len())..];
    }
});

/// What the quick way takes is a read of one key, of the same line and with the same flags.
fn check_quick(quick: Option<(Read<'_>, usize)>, request: &Request<'_>, line_bytes: usize) {
    match (quick, request) {
        (None, _) => {}
        (Some((Read::Get(key), bytes)), Request::Get(get)) => {
            assert!(!get.token && get.keys.clone().eq([key]));
            assert_eq!(bytes, line_bytes);
        }
        (Some((Read::Meta { key, flags }, bytes)), Request::MetaGet(meta)) => {
            assert_eq!((key, flags, bytes), (meta.key, meta.flags.sent, line_bytes));
        }
        _ => panic!("the quick way read another command"),
    }
}

fn check(request: &Request<'_>) {
    let fits = |key: &[u8]| assert!(!key.is_empty() && key.len() <= LIMITS.key_size_max);
    match request {
        Request::Get(get) => {
            get.keys.clone().for_each(fits);
            assert!(get.keys.clone().count() <= LIMITS.keys_max);
        }
        Request::GetTouch(touch) => touch.get.keys.clone().for_each(fits),
        Request::Store(store) => fits(store.key),
        Request::Delete(delete) => fits(delete.key),
        Request::Arith(arith) => fits(arith.key),
        Request::Touch(touch) => fits(touch.key),
        _ => {}
    }
}
