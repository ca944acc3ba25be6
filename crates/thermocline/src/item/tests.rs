use super::*;
use crate::mem::{Grain, EXTENT_BYTES};

fn region() -> Region {
    Region::reserve(EXTENT_BYTES, Grain::Items, false).unwrap()
}

fn fields(bits: u32) -> Fields {
    Fields {
        marks: (bits & 1 != 0).then(|| MarkWord::new(MarkWord::STALE, 1_800_000_000)),
        flags: if bits & 2 != 0 { 0xDEAD_BEEF } else { 0 },
        expires_ms: match bits >> 2 & 3 {
            0 => 0,
            1 => 1_800_000_000_000,
            2 => 1_800_000_000_123,
            _ => EXPIRY_MAX_MS,
        },
        token: (bits & 16 != 0).then_some(0x0123_4567_89AB_CDEF),
        coded: bits & 32 != 0,
    }
}

fn check(item: &Item, record: &Record) {
    let header = item.header();
    let layout = item.layout(header);
    assert_eq!(layout.key_bytes, record.key.len());
    assert!(item.key_is(record.key));
    assert_eq!(item.fields(&layout), record.fields);
    let mut value = Vec::new();
    item.append_value(&layout, &mut value);
    assert_eq!(value, record.value, "key {} bytes", record.key.len());
    let mut key = Vec::new();
    item.append_key(&layout, &mut key);
    assert_eq!(key, record.key);
}

#[test]
fn how_long_ago_an_access_was_is_known_after_2032_too() {
    const MID_2032_S: u32 = 1_704_067_200 + (1 << 28);
    for access_s in [
        1_800_000_000,
        MID_2032_S - 5,
        MID_2032_S + 5,
        MID_2032_S + (1 << 28),
    ] {
        let word = MarkWord::new(MarkWord::FETCHED, access_s);
        for idle_s in [0, 1, 100, 100_000_000] {
            assert_eq!(word.idle_s(access_s + idle_s), idle_s);
        }
        assert_eq!(word.idle_s(access_s - 3), 0);
        assert_eq!(word.flags(), MarkWord::FETCHED);
    }
}

#[test]
fn every_small_shape_reads_back() {
    let region = region();
    for key_bytes in [1, 2, 3, 4, 5, 16, 17, 254, 255] {
        for value_bytes in (0..40).chain([255, 256, 1000, 3000]) {
            for bits in 0..64 {
                let (key, value) = (vec![b'k'; key_bytes], vec![0xA5; value_bytes]);
                let record = Record {
                    key: &key,
                    fields: fields(bits),
                    value: &value,
                };
                assert!(Measured::new(record).small);
                let item = Item::at(&region, 4096);
                item.write_small(&Measured::new(record));
                check(&item, &record);
                assert_eq!(
                    item.layout(item.header()).reserved,
                    Measured::new(record).bytes
                );
                assert!(!item.key_is(&vec![b'k'; key_bytes + 1]));
            }
        }
    }
}

#[test]
fn a_plain_item_costs_four_bytes_and_padding() {
    let record = Record {
        key: &[1; 16],
        fields: Fields::default(),
        value: &[2; 100],
    };
    assert_eq!(Measured::new(record).bytes, 120);
}

#[test]
fn overwrites_of_other_lengths_keep_place_and_bump_the_version() {
    let region = region();
    let item = Item::at(&region, 0);
    let first = Record {
        key: b"key",
        fields: fields(3),
        value: &[7; 900],
    };
    item.write_small(&Measured::new(first));
    for (n, len) in [900usize, 899, 640, 0, 12, 900].into_iter().enumerate() {
        let value = vec![n as u8; len];
        let record = Record {
            key: b"key",
            fields: fields(n as u32 & 3),
            value: &value,
        };
        let header = item.header();
        assert!(item.fits(header, &Measured::new(record)));
        assert!(item.try_lock(header));
        assert!(!item.try_lock(header));
        item.overwrite(header, &Measured::new(record));
        check(&item, &record);
        assert_eq!(item.header().version(), n as u32 + 1);
        assert_eq!(
            item.layout(item.header()).reserved,
            Measured::new(first).bytes
        );
    }
    let long = Record {
        value: &[0; 906],
        ..first
    };
    assert!(!item.fits(item.header(), &Measured::new(long)));
}

#[test]
fn no_overwrite_in_place_past_the_last_version_or_beyond_recordable_slack() {
    let region = region();
    let item = Item::at(&region, 0);
    let record = Record {
        key: b"k",
        fields: Fields::default(),
        value: &[1; 2000],
    };
    item.write_small(&Measured::new(record));
    let tiny = Record {
        value: b"x",
        ..record
    };
    assert!(!item.fits(item.header(), &Measured::new(tiny)));
    for _ in 0..VERSION_MAX {
        let header = item.header();
        assert!(item.fits(header, &Measured::new(record)) && item.try_lock(header));
        item.overwrite(header, &Measured::new(record));
    }
    assert_eq!(item.header().version(), VERSION_MAX);
    assert!(!item.fits(item.header(), &Measured::new(record)));
}

#[test]
fn freezing_and_tokens() {
    let region = region();
    let item = Item::at(&region, 0);
    let record = Record {
        key: b"k",
        fields: Fields::default(),
        value: b"v",
    };
    item.write_small(&Measured::new(record));
    let before = item.header();
    assert!(item.mark_token_out(before));
    assert!(!item.mark_token_out(before), "the header has moved on");
    let header = item.header();
    assert!(before.still(header));
    assert!(item.try_freeze(header));
    assert!(header.still(item.header()));
    assert!(!item.try_freeze(item.header()));
    item.unfreeze();
    assert!(item.try_lock(item.header()));
    assert!(!header.still(item.header()));
}

#[test]
fn long_items_chunks_and_fillers_walk() {
    let region = region();
    let key = vec![9u8; 65_536];
    let value = vec![3u8; 10_000];
    let record = Record {
        key: &key,
        fields: fields(31),
        value: &value,
    };
    assert!(!Measured::new(record).small);
    let item = Item::at(&region, 8);
    item.write_long_head(
        Kind::Plain,
        &key,
        &record.fields,
        value.len(),
        Measured::new(record).bytes,
    );
    let layout = item.layout(item.header());
    region.copy_in(item.value_offset(&layout), &value);
    check(&item, &record);
    let next = Item::at(&region, 8 + layout.reserved);
    next.write_chunk_head(0xFEED_0000_BEEF, 7, 4096, CHUNK_PREFIX + 4096);
    assert_eq!(next.chunk_owner(), (0xFEED_0000_BEEF, 7));
    assert_eq!(next.layout(next.header()).kind, Kind::Chunk);
    assert_eq!(next.layout(next.header()).value_bytes, 4096);
    for reserved in [4, 8, PLAIN_MAX, PLAIN_MAX + 4, 100_000] {
        next.write_filler(reserved);
        let layout = next.layout(next.header());
        assert_eq!((layout.kind, layout.reserved), (Kind::Filler, reserved));
    }
}

#[test]
fn the_short_way_sees_and_writes_what_the_long_way_does() {
    let region = region();
    let item = Item::at(&region, 64);
    for key_bytes in [1, 3, 4, 16, 255] {
        for (value_bytes, bits) in [(0, 0), (0, 1), (1, 0), (100, 1), (101, 0), (1500, 1)] {
            let (key, value) = (vec![b'k'; key_bytes], vec![0xA5; value_bytes]);
            let fields = fields(bits);
            let first = Record {
                key: &key,
                fields,
                value: &value,
            };
            item.write_small(&Measured::new(first));
            let marked = bits == 1;
            assert!(item.bare(key_bytes, !marked).is_none());
            let reserved = item.layout(item.header()).reserved;
            for len in (0..value_bytes + 8).step_by(7).chain([value_bytes]) {
                let new = vec![len as u8; len];
                let record = Record {
                    value: &new,
                    ..first
                };
                let bare = item.bare(key_bytes, marked).expect("a bare item");
                let fits = item.fits(item.header(), &Measured::new(record));
                let slack = bare.slack_under(len);
                // The long way counts in units of 4 bytes.
                assert_eq!(slack.is_some(), fits, "{key_bytes} {value_bytes} {len}");
                let Some(slack) = slack else { continue };
                assert!(bare.try_lock());
                assert!(item.bare(key_bytes, marked).is_none(), "locked");
                bare.overwrite(record.fields.marks, &new, slack, false);
                assert!(!bare.is_still(), "a new version");
                check(&item, &record);
                let bare = item.bare(key_bytes, marked).expect("still bare");
                assert_eq!(bare.value_bytes(), len);
                assert_eq!(bare.reserved(), reserved);
                let mut copy = Vec::new();
                bare.append_value(0, len, &mut copy);
                assert_eq!(copy, new);
                copy.clear();
                bare.append_value(len / 3, len - len / 3, &mut copy);
                assert_eq!(copy, new[len / 3..]);
            }
        }
    }
    let optioned = Record {
        key: b"key",
        fields: fields(2),
        value: b"value",
    };
    item.write_small(&Measured::new(optioned));
    assert!(item.bare(3, false).is_none() && item.bare(3, true).is_none());
}
