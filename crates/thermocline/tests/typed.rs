//! Typed caches and entries: what a failing codec does, and what atomic means.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use thermocline::{
    Cache, Change, Codec, Config, Expiry, LoadError, LoadOptions, Mode, NewValue, Plain,
    SetOptions, Stored, Typed, TypedError, TypedLoadError,
};

fn cache() -> Cache {
    Cache::new(Config::new(32 << 20)).unwrap()
}

/// Numbers as four bytes; refuses odd keys, and encodes no value above a million.
#[derive(Clone, Copy, Debug)]
struct Picky;

#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    Key,
    Value,
    Bytes(usize),
}

impl Codec<u32, u32> for Picky {
    type Error = Refusal;

    fn encode_key(&self, key: &u32, out: &mut Vec<u8>) -> Result<(), Refusal> {
        out.extend_from_slice(&key.to_be_bytes());
        (key % 2 == 0).then_some(()).ok_or(Refusal::Key)
    }

    fn encode_value(&self, value: &u32, out: &mut Vec<u8>) -> Result<(), Refusal> {
        out.extend_from_slice(&value.to_be_bytes());
        (*value <= 1_000_000).then_some(()).ok_or(Refusal::Value)
    }

    fn decode_value(&self, bytes: &[u8]) -> Result<u32, Refusal> {
        let four = bytes.try_into().map_err(|_| Refusal::Bytes(bytes.len()))?;
        Ok(u32::from_be_bytes(four))
    }
}

type Numbers = Typed<u32, u32, Picky>;

#[test]
fn the_plain_codec_keeps_bytes_and_text() {
    let text: Typed<str, String, Plain> = Typed::new(cache(), Plain);
    // 1, 2 and 3 bytes a letter.
    for word in ["", "plain", "äöü", "水温跃层"] {
        text.set("word", &word.to_string()).unwrap();
        assert_eq!(text.get("word").as_deref(), Some(word));
    }
    let bytes: Typed<[u8], Vec<u8>, Plain> = Typed::new(text.cache().clone(), Plain);
    bytes.set(b"word", &vec![0xFF, 0xFE]).unwrap();
    assert_eq!(bytes.get(b"word"), Some(vec![0xFF, 0xFE]));
    assert!(matches!(text.try_get("word"), Err(TypedError::Codec(_))));
    assert!(text.contains("word").unwrap(), "try_get removes nothing");
    assert_eq!(text.get("word"), None);
    assert_eq!(text.undecodable(), 1);
    assert!(!text.contains("word").unwrap(), "get has removed it");
}

#[test]
fn operations_of_a_typed_cache() {
    let numbers = Numbers::new(cache(), Picky);
    assert_eq!(numbers.get(&2), None);
    assert!(numbers.add(&2, &20).unwrap());
    assert!(!numbers.add(&2, &21).unwrap());
    assert_eq!(numbers.get(&2), Some(20));
    let replace = SetOptions {
        mode: Mode::Replace,
        ..SetOptions::default()
    };
    assert_eq!(
        numbers.set_with(&4, &40, &replace).unwrap(),
        Stored::NotStored
    );
    assert!(numbers.touch(&2, Expiry::Never).unwrap());
    assert!(numbers.delete(&2).unwrap());
    assert!(!numbers.clone().contains(&2).unwrap());
}

#[test]
fn an_encoding_that_fails_leaves_the_cache_as_it_was() {
    let numbers = Numbers::new(cache(), Picky);
    numbers.set(&2, &20).unwrap();
    let before = numbers.cache().stats();
    assert!(matches!(
        numbers.set(&2, &2_000_000),
        Err(TypedError::Codec(Refusal::Value))
    ));
    assert!(matches!(
        numbers.set(&3, &30),
        Err(TypedError::Codec(Refusal::Key))
    ));
    assert_eq!(numbers.get(&3), None);
    let after = numbers.cache().stats();
    assert_eq!(
        (after.items, after.live_bytes),
        (before.items, before.live_bytes)
    );
    assert_eq!(numbers.get(&2), Some(20));
}

#[test]
fn a_typed_load_encodes_once_and_decodes_for_the_others() {
    let numbers = Numbers::new(cache(), Picky);
    let options = LoadOptions::default();
    let load = |value| numbers.get_or_load(&2, &options, || Ok::<u32, String>(value));
    assert_eq!(load(20).unwrap(), 20);
    assert_eq!(load(21).unwrap(), 20);
    let failed = numbers.get_or_load(&4, &options, || Err("down".to_string()));
    match failed.unwrap_err() {
        LoadError::Failed(error) => {
            assert!(matches!(&*error, TypedLoadError::Loader(text) if text == "down"));
        }
        other => panic!("{other:?}"),
    }
    let too_large = numbers.get_or_load(&4, &options, || Ok::<u32, String>(2_000_000));
    match too_large.unwrap_err() {
        LoadError::Failed(error) => {
            assert!(matches!(*error, TypedLoadError::Codec(Refusal::Value)));
        }
        other => panic!("{other:?}"),
    }
    assert!(!numbers.contains(&4).unwrap());
}

#[test]
fn a_cached_value_that_does_not_decode_is_loaded_anew() {
    let numbers = Numbers::new(cache(), Picky);
    numbers.cache().set(&2u32.to_be_bytes(), b"old").unwrap();
    let loads = AtomicU32::new(0);
    let value = numbers.get_or_load(&2, &LoadOptions::default(), || {
        loads.fetch_add(1, Ordering::Relaxed);
        Ok::<u32, String>(20)
    });
    assert_eq!(value.unwrap(), 20);
    assert_eq!(numbers.get(&2), Some(20));
    assert_eq!((numbers.undecodable(), loads.into_inner()), (1, 1));
}

#[cfg(feature = "serde")]
#[test]
fn serde_values_round_trip_and_foreign_bytes_are_misses() {
    use serde::{Deserialize, Serialize};
    use thermocline::Postcard;

    #[derive(Serialize, Deserialize, PartialEq, Debug, Clone)]
    struct Session {
        user: u64,
        roles: Vec<String>,
        note: Option<String>,
    }

    let sessions: Typed<(u32, String), Session, Postcard> = Typed::new(cache(), Postcard);
    let session = Session {
        user: 7,
        roles: vec!["reader".into(), "writer".into()],
        note: None,
    };
    let key = (1, "a".to_string());
    sessions.set(&key, &session).unwrap();
    assert_eq!(sessions.get(&key), Some(session.clone()));
    assert_eq!(sessions.get(&(2, "a".into())), None);
    // Every cut of the bytes, and more bytes than there should be.
    let stored = sessions.cache().keys().next().unwrap();
    let bytes = sessions.cache().get(&stored).unwrap().to_vec();
    for cut in 0..bytes.len() {
        sessions.cache().set(&stored, &bytes[..cut]).unwrap();
        assert_eq!(sessions.get(&key), None, "cut at {cut}");
    }
    let longer = [&bytes[..], &[0]].concat();
    sessions.cache().set(&stored, &longer).unwrap();
    assert_eq!(sessions.get(&key), None);
    assert_eq!(sessions.undecodable(), bytes.len() as u64 + 1);
}

#[test]
fn entries_change_one_key() {
    let cache = cache();
    assert_eq!(cache.entry(b"k").flags(7).or_set(b"1").unwrap(), b"1");
    assert_eq!(cache.peek(b"k", false).unwrap().flags, 7);
    assert!(cache.entry(b"k").modify(|value| value.push(b'2')).unwrap());
    assert_eq!(
        cache.peek(b"k", false).unwrap().flags,
        7,
        "modify keeps flags"
    );
    assert_eq!(
        cache.entry(b"k").swap(b"3").unwrap().as_deref(),
        Some(&b"12"[..])
    );
    assert_eq!(
        cache.entry(b"k").take().unwrap().as_deref(),
        Some(&b"3"[..])
    );
    assert_eq!(cache.entry(b"k").take().unwrap(), None);
    assert!(!cache.entry(b"k").modify(|_| ()).unwrap());
}

#[test]
fn concurrent_changes_lose_nothing() {
    let cache = cache();
    const EACH: usize = 2000;
    thread::scope(|scope| {
        for thread in 0..4 {
            let cache = &cache;
            scope.spawn(move || {
                for _ in 0..EACH {
                    let add = |number: Option<u64>| (number.unwrap_or(0) + 1).to_be_bytes();
                    match thread % 2 {
                        0 => cache
                            .compute(b"sum", |view| {
                                let number =
                                    view.map(|v| u64::from_be_bytes(v.value.try_into().unwrap()));
                                Change::Put(NewValue {
                                    value: add(number).to_vec(),
                                    ..NewValue::default()
                                })
                            })
                            .unwrap(),
                        _ => {
                            cache.entry(b"sum").or_set(&0u64.to_be_bytes()).unwrap();
                            let changed = cache.entry(b"sum").modify(|value| {
                                let number = u64::from_be_bytes(value[..].try_into().unwrap());
                                value.copy_from_slice(&add(Some(number)));
                            });
                            assert!(changed.unwrap());
                        }
                    }
                }
            });
        }
    });
    let sum = cache.get(b"sum").unwrap().to_vec();
    assert_eq!(u64::from_be_bytes(sum.try_into().unwrap()), 4 * EACH as u64);
}
