//! The bytes of one field, by YCSB's two rules: random printable ones, and, for `dataintegrity`, those that follow
//! from the key and the field's name. Also Java's hash of a string, which both that rule and the order of a map
//! of fields rest on.

use super::key::{decimal, DIGITS};
use crate::workload::Random;

/// Appends `length` random bytes: six from each 32-bit word, all in 0x20..=0x7F.
pub fn random(random: &mut Random, length: usize, out: &mut Vec<u8>) {
    const MASKS: [i32; 6] = [31, 63, 95, 31, 63, 95];
    let end = out.len() + length;
    while out.len() < end {
        let word = (random.word() >> 32) as i32;
        for (k, mask) in MASKS.into_iter().enumerate() {
            out.push(((word >> (5 * k)) & mask) as u8 + b' ');
        }
    }
    out.truncate(end);
}

/// Appends the one value of `length` bytes that field `name` of `key` may have: key, colon, name, then colons and
/// hashes of all before them. Costs a hash step a byte.
pub fn integrity(key: &[u8], name: &[u8], length: usize, out: &mut Vec<u8>) {
    let from = out.len();
    out.extend_from_slice(key);
    out.push(b':');
    out.extend_from_slice(name);
    let mut hash = 0;
    let mut hashed = from;
    while out.len() < from + length {
        out.push(b':');
        hash = java_hash_on(hash, &out[hashed..]);
        hashed = out.len();
        out.extend_from_slice(decimal(i64::from(hash), &mut [0; DIGITS]));
    }
    out.truncate(from + length);
}

/// `String.hashCode` of text whose characters are bytes.
pub fn java_hash(text: &[u8]) -> i32 {
    java_hash_on(0, text)
}

fn java_hash_on(hash: i32, text: &[u8]) -> i32 {
    text.iter().fold(hash, |hash, &byte| {
        hash.wrapping_mul(31).wrapping_add(i32::from(byte))
    })
}

/// Names in the order in which Java's `HashMap` walks them after they were put in one by one.
pub fn map_order(names: Vec<String>) -> Vec<String> {
    // A map of 16 buckets doubles when it holds more than three quarters of them; a bucket keeps the order in
    // which its keys came, whatever the doublings.
    let mut buckets = 16usize;
    while names.len() * 4 > buckets * 3 {
        buckets *= 2;
    }
    let mut named: Vec<(usize, String)> = names
        .into_iter()
        .map(|name| {
            let hash = java_hash(name.as_bytes()) as u32;
            ((hash ^ (hash >> 16)) as usize & (buckets - 1), name)
        })
        .collect();
    named.sort_by_key(|&(bucket, _)| bucket);
    named.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integrity_values_are_ycsbs() {
        let mut out = b"before".to_vec();
        integrity(b"user6284781860667377211", b"field0", 100, &mut out);
        let value = std::str::from_utf8(&out[6..]).unwrap();
        assert_eq!(value.len(), 100);
        assert_eq!(
            &value[..60],
            "user6284781860667377211:field0:-56807877:2032869390:-1654881"
        );
        assert!(value.ends_with(":-169193395:-1039977118:-10"), "{value}");
        out.clear();
        integrity(b"user1", b"field0", 7, &mut out);
        assert_eq!(out, b"user1:f");
    }

    #[test]
    fn random_bytes_follow_the_masks() {
        let mut out = Vec::new();
        let mut source = Random::new(6);
        random(&mut source, 600_001, &mut out);
        assert_eq!(out.len(), 600_001);
        let mut seen = [[0u32; 256]; 6];
        for (at, &byte) in out.iter().enumerate() {
            seen[at % 6][byte as usize] += 1;
        }
        for (k, mask) in [31u32, 63, 95, 31, 63, 95].into_iter().enumerate() {
            for value in 0..256u32 {
                let possible = value >= 32 && (value - 32) & !mask == 0 && value - 32 <= mask;
                let count = seen[k][value as usize];
                assert_eq!(
                    count > 0,
                    possible,
                    "byte {k}: value {value} came {count} times"
                );
            }
        }
        let total = out.len() as f64;
        let entropy: f64 = (0..256)
            .map(|value| (0..6).map(|k| seen[k][value]).sum::<u32>())
            .filter(|&count| count > 0)
            .map(|count| -(f64::from(count) / total) * (f64::from(count) / total).log2())
            .sum();
        assert!((entropy - 6.25).abs() < 0.02, "{entropy} bits a byte");
    }

    #[test]
    fn fields_come_in_the_order_of_javas_map() {
        let names = (0..10).map(|n| format!("field{n}")).collect();
        let order = map_order(names).join(",");
        assert_eq!(
            order,
            "field1,field0,field7,field6,field9,field8,field3,field2,field5,field4"
        );
    }
}
