//! Any bytes as a stream of classic requests: no panic, limits kept, every byte accounted for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thermocline_server::wire::{self, Limits, Request, VALUE_BYTES_MAX};

const LIMITS: Limits = Limits {
    key_size_max: 250,
    keys_max: 1000,
};

fuzz_target!(|input: &[u8]| {
    let mut rest = input;
    while let Some((line, bytes)) = wire::split_line(rest) {
        assert!(bytes <= rest.len() && line.len() < bytes);
        let skip = match wire::parse(line, LIMITS) {
            Ok(request) => {
                check(&request);
                request.payload_bytes()
            }
            Err(refusal) => refusal.swallow,
        };
        assert!(skip <= VALUE_BYTES_MAX + 2);
        rest = &rest[bytes..];
        rest = &rest[(skip as usize).min(rest.len())..];
    }
});

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
