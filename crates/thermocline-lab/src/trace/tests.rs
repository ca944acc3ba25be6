//! The formats by example, the recipes by hash, and bytes that are no trace.

use super::input::{decompress, LINE_BYTES_MAX};
use super::*;
use crate::workload::Random;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

fn reader(name: &str, bytes: &[u8], format: Option<Format>) -> anyhow::Result<Reader> {
    let input = decompress(std::io::Cursor::new(bytes.to_vec()))?;
    Reader::new(Path::new(name), input, format)
}

fn all(name: &str, bytes: &[u8]) -> anyhow::Result<Vec<Request>> {
    reader(name, bytes, None)?.collect()
}

fn error(name: &str, bytes: &[u8], format: Option<Format>) -> String {
    let requests =
        reader(name, bytes, format).and_then(|reader| reader.collect::<Result<Vec<_>, _>>());
    format!("{:#}", requests.expect_err("must be refused"))
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn plain_text_compressed_or_not() {
    let text = b"0 100\n1 2\r\n0 100\n\nuser:7 30\n";
    let zstd = zstd::encode_all(&text[..], 3).unwrap();
    // Files made by several runs of a compressor hold several frames.
    let twice: Vec<u8> = [zstd.clone(), zstd.clone()].concat();
    let plain = all("t.txt", text).unwrap();
    assert_eq!(
        plain[..3],
        [
            Request::read(0, 100),
            Request::read(1, 2),
            Request::read(0, 100)
        ]
    );
    assert_eq!((plain.len(), plain[3].value_bytes), (4, 30));
    assert_eq!(all("t.txt.zst", &zstd).unwrap(), plain);
    assert_eq!(all("misnamed", &gzip(text)).unwrap(), plain);
    assert_eq!(all("t", &twice).unwrap().len(), 8);
    assert_eq!(
        all("t", &[gzip(text), gzip(text)].concat()).unwrap().len(),
        8
    );
}

#[test]
fn twitter_lines() {
    let text = b"0,q:q:1:8WTfjZU14ee,17,213,4,get,0\n3,a,b,5,90,2,set,600\n3,k,1,0,2,delete,0\n";
    let requests = all("cluster.sort", text).unwrap();
    let first = requests[0];
    assert_eq!(
        (first.key_bytes, first.value_bytes, first.kind),
        (17, 213, Kind::Read)
    );
    let second = requests[1];
    assert_eq!(
        (second.at_ns, second.key_bytes, second.ttl_s, second.kind),
        (3_000_000_000, 5, 600, Kind::Write),
        "a comma in the key"
    );
    assert_eq!(second.item_bytes(), 95);
    assert_eq!(requests[2].kind, Kind::Delete);
    assert!(error("c", b"0,k,1,2,3,get,0\n0,k,1,2,3,gat,0\n", None).contains("line 2"));
}

#[test]
fn msr_lines() {
    let text = b"128166372003061629,hm,1,Read,383496192,32768,413\n128166372016382155,hm,0,Write,383496192,512,7\n";
    let requests = all("hm_1.csv", text).unwrap();
    assert_eq!(
        (requests[0].value_bytes, requests[0].kind),
        (32768, Kind::Read)
    );
    assert_eq!(requests[1].kind, Kind::Write);
    assert_ne!(
        requests[0].id, requests[1].id,
        "the same offset of another disk"
    );
    assert_eq!(requests[1].at_ns - requests[0].at_ns, 1_332_052_600);
}

fn oracle_bytes(records: &[(u32, u64, u32, i64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (time, id, size, next) in records {
        bytes.extend_from_slice(&time.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
        bytes.extend_from_slice(&size.to_le_bytes());
        bytes.extend_from_slice(&next.to_le_bytes());
    }
    bytes
}

#[test]
fn oracle_general_records_are_known_by_name_or_look() {
    let bytes = oracle_bytes(&[
        (7, u64::MAX, 4096, 2),
        (7, 5, 12, -1),
        (9, u64::MAX, 4096, -1),
    ]);
    for (name, bytes) in [
        ("w.oracleGeneral.bin", bytes.clone()),
        ("w", bytes.clone()),
        (
            "w.oracleGeneral.zst",
            zstd::encode_all(&bytes[..], 1).unwrap(),
        ),
    ] {
        let requests = all(name, &bytes).unwrap();
        assert_eq!(requests.len(), 3);
        assert_eq!(
            (requests[0].id, requests[2].at_ns),
            (u64::MAX, 9_000_000_000)
        );
    }
    let message = error("w.oracleGeneral", &bytes[..60], None);
    assert!(
        message.contains("record 3") && message.contains("12 of the record's 24"),
        "{message}"
    );
}

#[test]
fn errors_name_file_and_line() {
    let message = error("x.txt", b"1 2\n1 2 3\n", None);
    assert!(
        message.contains("x.txt, line 2") && message.contains("`1 2 3`"),
        "{message}"
    );
    assert!(error("x", b"1 99999999999999999999\n", Some(Format::Text)).contains("above"));
    assert!(error("x", b"1 -2\n", Some(Format::Text)).contains("not a whole number"));
    assert!(error("x", b"hello, world\n", None).contains("--format"));
    assert!(
        error("x", &vec![b'1'; LINE_BYTES_MAX + 1], Some(Format::Text)).contains("longer than")
    );
    let cut = zstd::encode_all(&b"1 2\n"[..], 3).unwrap();
    assert!(error("x", &cut[..cut.len() - 3], Some(Format::Text)).contains("line"));
    let missing = "no/such/file"
        .parse::<Origin>()
        .unwrap()
        .open(None)
        .err()
        .unwrap();
    assert!(format!("{missing:#}").contains("no/such/file"));
}

#[test]
fn keys_of_digits_are_their_number() {
    let id = super::text::key_id;
    assert_eq!(
        (id(b"0"), id(b"1234567890123456789")),
        (0, 1_234_567_890_123_456_789)
    );
    let distinct = [
        id(b"00"),
        id(b"01"),
        id(b"99999999999999999999"),
        id(b"a"),
        id(b""),
    ];
    assert!(distinct.iter().all(|id| *id > 1 << 32), "{distinct:?}");
}

#[test]
fn names_are_read_and_shown() {
    let name = |text: &str| text.parse::<Origin>().unwrap().name();
    assert_eq!(name("/a/arc_p3.txt.zst"), "arc_p3");
    assert_eq!(name("w98.oracleGeneral.bin.gz"), "w98");
    assert_eq!(name("syn:loop"), "syn_loop");
    assert!("syn:lop".parse::<Origin>().unwrap_err().contains("loop"));
}

/// SHA-256 of the keys, relabelled by first appearance, as little-endian u32.
fn sha_of(keys: impl Iterator<Item = u64>) -> String {
    let mut labels = HashMap::new();
    let mut sha = Sha256::new();
    for key in keys {
        let next = labels.len() as u32;
        sha.update(labels.entry(key).or_insert(next).to_le_bytes());
    }
    sha.finalize()[..6]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[test]
fn synthetic_traces_are_the_published_ones() {
    for (recipe, sha) in [
        (Recipe::Zipf099, "dfba2361aa95"),
        (Recipe::Uniform, "778838f67350"),
        (Recipe::Exponential, "628731baf008"),
        (Recipe::ScanZipf, "e4957337c48d"),
        (Recipe::Loop, "ce102152784b"),
        (Recipe::Shift, "f5611874adf0"),
    ] {
        assert_eq!(sha_of(recipe.keys()), sha, "{}", recipe.name());
    }
}

#[test]
fn the_other_recipes_have_the_shape_they_say() {
    let count = |recipe: Recipe| {
        let keys: Vec<u64> = recipe.keys().collect();
        let distinct: std::collections::HashSet<_> = keys.iter().collect();
        (keys.len(), distinct.len())
    };
    assert_eq!(count(Recipe::BackAndForth), (1_000_000, 20_000));
    let (requests, keys) = count(Recipe::Burst);
    assert!(
        requests == 1_000_000 && (660_000..674_000).contains(&keys),
        "{keys}"
    );
    assert_eq!(count(Recipe::Phase).0, 1_000_000);
}

/// Whatever the bytes: requests, an end or an error, never a panic, and never more requests than bytes.
#[test]
fn random_bytes_end_or_are_refused() {
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(4);
    println!("SEED={seed}");
    let mut random = Random::new(seed);
    let good: [&[u8]; 4] = [
        b"0 100\n17 2\nabc 3\n",
        b"0,k1,17,213,4,get,0\n3,k2,5,90,2,set,600\n",
        b"128166372003061629,hm,1,Read,383496192,32768,413\n",
        &oracle_bytes(&[(7, 1, 4096, 2), (7, 5, 12, -1)]),
    ];
    let formats = [
        Format::Text,
        Format::Twitter,
        Format::Msr,
        Format::OracleGeneral,
    ];
    for _ in 0..20_000 {
        let which = random.below(4) as usize;
        let mut bytes = good[which].repeat(1 + random.below(3) as usize);
        if random.below(3) == 0 {
            bytes = if random.below(2) == 0 {
                gzip(&bytes)
            } else {
                zstd::encode_all(&bytes[..], 1).unwrap()
            };
        }
        for _ in 0..random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(3) {
                0 => bytes[at] = random.word() as u8,
                1 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, b",\n 9\0"[random.below(5) as usize]),
            }
        }
        let format = (random.below(2) == 0).then(|| formats[random.below(4) as usize]);
        let Ok(reader) = reader("random", &bytes, format) else {
            continue;
        };
        let requests = reader.take_while(Result::is_ok).take(100_000).count();
        // Nothing here unpacks to much more than it was packed from.
        assert!(
            requests < 10_000,
            "{requests} requests of {} bytes",
            bytes.len()
        );
    }
}
