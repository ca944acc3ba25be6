use super::*;

/// JSON-like records whose words come from a small list, so that they have much in common.
fn records(count: usize, seed: u64) -> Vec<Vec<u8>> {
    let words = [
        "amber", "birch", "cedar", "delta", "ember", "fjord", "glade", "heath",
    ];
    let mut state = seed;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut record = |n: usize| {
        let mut word = || words[next() as usize % words.len()];
        let (first, last, city) = (word(), word(), word());
        let number = next() % 1_000_000;
        format!(
            "{{\"id\":{n},\"firstName\":\"{first}\",\"lastName\":\"{last}\",\"city\":\"{city}\",\
             \"email\":\"{first}.{last}@{city}.example\",\"balance\":{number},\"active\":true}}"
        )
        .into_bytes()
    };
    (0..count).map(&mut record).collect()
}

fn trained(id: u8) -> Dictionary {
    let samples = records(2000, 7);
    let lengths: Vec<usize> = samples.iter().map(Vec::len).collect();
    let bytes =
        train(&samples.concat(), &lengths, 16 << 10, 256).expect("they have much in common");
    Dictionary::new(id, &bytes)
}

const METHODS: [Method; 3] = [Method::Lz4Fast, Method::Lz4High, Method::Zstd(3)];

#[test]
fn values_of_all_sizes_come_back_by_all_methods() {
    let (dictionary, mut encoder, mut decoder) = (trained(5), Encoder::new(), Decoder::new());
    let record = records(1, 99).remove(0);
    for bytes in [1, 2, 17, 63, 64, 200, 500, 4095, 70_000, PLAIN_BYTES_MAX] {
        let value: Vec<u8> = record.iter().copied().cycle().take(bytes).collect();
        for method in METHODS {
            let mut coded = vec![1, 2, 3];
            let most = bytes + 100;
            assert!(encoder.encode(&dictionary, method, &value, most, &mut coded));
            let head = CodedHead::read(&coded[3..]).unwrap();
            assert_eq!((head.plain_bytes, head.dictionary), (bytes, 5));
            let mut back = b"before".to_vec();
            decoder.decode(&dictionary, &coded[3..], &mut back).unwrap();
            assert!(
                back[..6] == *b"before" && back[6..] == value,
                "{method:?} {bytes}"
            );
        }
    }
}

/// Without the dictionary such a record hardly shrinks; a codec that forgot to attach it would fail here.
#[test]
fn the_dictionary_is_used() {
    let (dictionary, empty) = (trained(1), Dictionary::new(1, b""));
    let mut encoder = Encoder::new();
    for method in METHODS {
        let size = |encoder: &mut Encoder, dictionary: &Dictionary| -> usize {
            let mut coded = Vec::new();
            for value in records(50, 1234) {
                assert!(encoder.encode(dictionary, method, &value, 1000, &mut coded));
            }
            coded.len()
        };
        let (with, without) = (size(&mut encoder, &dictionary), size(&mut encoder, &empty));
        assert!(
            with * 2 < without,
            "{method:?}: {with} with, {without} without"
        );
    }
}

#[test]
fn a_value_over_the_limit_or_the_bytes_allowed_is_refused() {
    let (dictionary, mut encoder) = (trained(0), Encoder::new());
    let mut coded = Vec::new();
    let long = vec![b'x'; PLAIN_BYTES_MAX + 1];
    assert!(!encoder.encode(&dictionary, Method::Lz4Fast, &long, usize::MAX, &mut coded));
    assert!(!encoder.encode(&dictionary, Method::Lz4Fast, b"", usize::MAX, &mut coded));
    let noise: Vec<u8> = (0..500u32)
        .map(|n| (n.wrapping_mul(0x9E37_79B1) >> 24) as u8)
        .collect();
    assert!(!encoder.encode(&dictionary, Method::Lz4High, &noise, 437, &mut coded));
    assert!(coded.is_empty());
    assert!(encoder.encode(&dictionary, Method::Lz4Fast, &[7; 5000], 8, &mut coded));
    assert_eq!(
        coded.len(),
        7,
        "head of 6 and the byte that fills the value"
    );
}

#[test]
fn damage_is_always_seen() {
    let (dictionary, mut encoder, mut decoder) = (trained(3), Encoder::new(), Decoder::new());
    let value = records(1, 4242).remove(0);
    let mut seen = 0;
    for method in METHODS {
        let mut coded = Vec::new();
        assert!(encoder.encode(&dictionary, method, &value, 1000, &mut coded));
        for at in 0..coded.len() {
            for bit in 0..8 {
                let mut damaged = coded.clone();
                damaged[at] ^= 1 << bit;
                let mut out = Vec::new();
                match decoder.decode(&dictionary, &damaged, &mut out) {
                    Ok(()) => assert_eq!(out, value, "{method:?}: byte {at}, bit {bit}"),
                    Err(_) => assert!(out.is_empty()),
                }
                seen += 1;
            }
            let mut out = Vec::new();
            assert!(decoder.decode(&dictionary, &coded[..at], &mut out).is_err());
        }
    }
    assert!(seen > 1000);
}

#[test]
fn another_dictionary_is_never_taken_for_the_right_one() {
    let (right, mut encoder, mut decoder) = (trained(3), Encoder::new(), Decoder::new());
    let value = records(1, 4242).remove(0);
    for method in METHODS {
        let mut coded = Vec::new();
        assert!(encoder.encode(&right, method, &value, 1000, &mut coded));
        let mut out = Vec::new();
        let other = Dictionary::new(4, right.bytes());
        let error = decoder.decode(&other, &coded, &mut out);
        assert_eq!(error, Err(DecodeError::OtherDictionary));
        let reused_number = Dictionary::new(3, &[b'z'; 5000]);
        let error = decoder.decode(&reused_number, &coded, &mut out);
        assert_eq!(error, Err(DecodeError::Corrupt), "{method:?}");
        assert!(out.is_empty());
    }
}

#[test]
fn random_bytes_are_no_coded_value() {
    let (dictionary, mut decoder) = (trained(0), Decoder::new());
    let mut state = 0x1234_5678_9ABC_DEFFu64;
    for _ in 0..20_000 {
        let mut bytes = Vec::new();
        for _ in 0..(state % 60) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.push(state as u8);
        }
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        if let Some(first) = bytes.first_mut() {
            *first &= 0xC0;
        }
        let mut out = Vec::new();
        if decoder.decode(&dictionary, &bytes, &mut out).is_err() {
            assert!(out.is_empty());
        }
    }
}

#[test]
fn too_few_samples_train_nothing() {
    assert_eq!(train(b"", &[], 4096, 256), Err(TrainError::TooFewSamples));
    assert_eq!(
        train(&[1; 70], &[10; 7], 4096, 256),
        Err(TrainError::TooFewSamples)
    );
}

/// The C library against a decoder in safe Rust: the same value of sound bytes; of changed ones never another value
/// where both find one, and never a byte beyond what was asked for.
#[test]
fn two_decoders_agree() {
    let (dictionary, mut encoder) = (trained(5), Encoder::new());
    let mut state = 11u64;
    for value in records(60, 31) {
        let mut coded = Vec::new();
        assert!(encoder.encode(&dictionary, Method::Lz4High, &value, 1000, &mut coded));
        let head = CodedHead::read(&coded).unwrap();
        let mut payload = coded[head.bytes..].to_vec();
        for round in 0..200 {
            let (mut ours, mut other) = (b"before".to_vec(), vec![0; value.len()]);
            let done = lz4::decode(dictionary.bytes(), &payload, value.len(), &mut ours);
            let written = lz4_flex::block::decompress_into_with_dict(
                &payload,
                &mut other,
                dictionary.bytes(),
            );
            let sound = written.is_ok_and(|bytes| bytes == value.len());
            if round == 0 {
                assert!(done.is_ok() && sound && ours[6..] == value && other == value);
            } else if done.is_ok() && sound {
                assert_eq!(ours[6..], other);
            } else if done.is_err() {
                assert_eq!(ours, b"before");
            }
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let at = (state >> 33) as usize % payload.len();
            payload[at] ^= 1 << (state >> 61);
        }
    }
}
