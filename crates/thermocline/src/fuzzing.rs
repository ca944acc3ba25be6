//! What the fuzz targets need of the engine's insides. Behind the feature `fuzzing`; not part of the API.

use crate::item::{Fields, Item, MarkWord, Measured, Record};
use crate::mem::{Grain, Region, EXTENT_BYTES};

/// Takes the first byte off the input; 0 when it is used up.
fn take(input: &mut &[u8]) -> u8 {
    let Some((&first, rest)) = input.split_first() else {
        return 0;
    };
    *input = rest;
    first
}

fn fields(input: &mut &[u8]) -> Fields {
    let bits = take(input);
    Fields {
        marks: (bits & 1 != 0).then(|| MarkWord::new(MarkWord::WON, 1_800_000_000)),
        flags: u32::from(bits & 2) << 7 | u32::from(bits >> 7),
        expires_ms: [0, 1, 1_800_000_000_000, 1_800_000_000_123][usize::from(bits >> 2 & 3)],
        token: (bits & 16 != 0).then_some(u64::MAX - u64::from(bits)),
        coded: bits & 32 != 0,
    }
}

fn value(input: &mut &[u8], fill: u8) -> Vec<u8> {
    let len = usize::from(take(input)) * [1, 1, 4, 15][usize::from(take(input) & 3)];
    (0..len).map(|n| fill.wrapping_add(n as u8)).collect()
}

/// Two versions of a small item at the very end of a region, and any mixture of their bytes under the
/// header of the first: decoding stays within the item, else the region's own check panics.
pub fn item_decode(mut input: &[u8]) {
    let key = vec![0xC3; 1 + usize::from(take(&mut input))];
    let key = &key[..key.len().min(255)];
    let first_value = value(&mut input, 1);
    let first = measured(key, fields(&mut input), &first_value);
    let second_value = value(&mut input, 128);
    let second = measured(key, fields(&mut input), &second_value);
    if !first.small || !second.small {
        return;
    }
    thread_local! {
        static REGION: Region = Region::reserve(EXTENT_BYTES, Grain::Items, false)
            .expect("address space");
    }
    REGION.with(|region| mix(region, &first, &second, input));
}

fn measured<'a>(key: &'a [u8], fields: Fields, value: &'a [u8]) -> Measured<'a> {
    Measured::new(Record { key, fields, value })
}

fn mix(region: &Region, first: &Measured<'_>, second: &Measured<'_>, mask: &[u8]) {
    let (at, bytes) = (region.bytes() - first.bytes, first.bytes);
    let item = Item::at(region, at);
    item.write_small(first);
    check(&item, &first.record);
    let header = item.header();
    if !item.fits(header, second) {
        return;
    }
    let bytes_now = || {
        let mut copy = Vec::new();
        region.append_out(at, bytes, &mut copy);
        copy
    };
    let one = bytes_now();
    assert!(item.try_lock(header));
    item.overwrite(header, second);
    check(&item, &second.record);
    let mut other = bytes_now();
    for n in 4..bytes {
        let bit = mask.get(n / 8 % mask.len().max(1)).copied().unwrap_or(0x55) >> (n % 8) & 1;
        other[n] = if bit == 0 { one[n] } else { other[n] };
    }
    region.copy_in(at + 4, &other[4..]);
    for header in [header, item.header()] {
        let layout = item.layout(header);
        assert_eq!(layout.reserved, bytes);
        assert!(layout.key_at + layout.key_bytes <= bytes);
        assert!(layout.value_at + layout.value_bytes <= bytes);
        item.fields(&layout);
        item.append_value(&layout, &mut Vec::new());
        assert!(item.key_is(first.record.key), "keys never change");
    }
}

fn check(item: &Item<'_>, record: &Record<'_>) {
    let layout = item.layout(item.header());
    let mut value = Vec::new();
    item.append_value(&layout, &mut value);
    assert_eq!(value, record.value);
    assert_eq!(item.fields(&layout), record.fields);
    assert!(item.key_is(record.key));
}
