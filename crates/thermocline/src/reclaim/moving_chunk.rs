//! Moving one chunk of a large value to another segment, coded on its way down where that pays.
//!
//! A chunk needs no freeze: its bytes never change, and its place in the owner's table is turned by one
//! compare-exchange, which a concurrent removal wins. Each chunk is coded alone; readers see by its own mark whether
//! it is.

use super::moving::{reserve, Coder, Moved, Target};
use crate::compress::Compress;
use crate::item::{Kind, Layout, CHUNK_PREFIX};
use crate::location::{Place, Tier};
use crate::mem::Pin;
use crate::metrics::Counter;
use crate::models_switch::{mutant, Mutant};
use crate::store::{Seen, Store};
use crate::sync::Ordering;

pub(super) fn move_chunk(
    store: &Store,
    pin: &Pin,
    owner: u64,
    from: Place,
    target: Target,
    coder: Option<Coder<'_>>,
) -> Moved {
    let item = store.item(from);
    let layout = item.layout(item.header());
    let (_, number) = item.chunk_owner();
    let coder = coder.filter(|_| target.tier == Tier::Compressed);
    let coded = coder.and_then(|coder| code(store, owner, from, &layout, coder));
    let payload = coded.as_ref().map_or(layout.value_bytes, Vec::len);
    let bytes = (CHUNK_PREFIX + payload).next_multiple_of(8);
    let Some(to) = reserve(store, pin, bytes, true, target) else {
        return Moved::NoRoom;
    };
    let copy = store.item(to);
    let is_coded = coded.is_some() || layout.is_coded();
    match is_coded {
        true => copy.write_coded_chunk_head(owner, number, payload, bytes),
        false => copy.write_chunk_head(owner, number, payload, bytes),
    }
    let (source, place) = (from.offset() + CHUNK_PREFIX, to.offset() + CHUNK_PREFIX);
    match &coded {
        Some(coded) => store.region().copy_in(place, coded),
        None => store.region().copy_within(source, place, payload),
    }
    if is_coded {
        // Before it can be found and buried by others.
        store.raise_chunk(to, payload);
    }
    let turned = store.index.find(owner, |place| {
        let seen = store.look(place);
        owns(store, &seen, number)
            && store
                .chunk_word(&seen, number as usize)
                .compare_exchange(from.raw(), to.raw(), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    });
    if turned.is_none() && !mutant(Mutant::ChunkBlind) {
        store.bury_chunk(to, &copy.layout(copy.header()));
        return Moved::Gone;
    }
    store.bury_chunk(from, &layout);
    store.counters.add(pin, Counter::MovedBytes, bytes as u64);
    Moved::Done(bytes)
}

fn owns(store: &Store, seen: &Seen<'_>, number: u32) -> bool {
    if mutant(Mutant::LockedHeadIsGone) && seen.header.locked() {
        return false;
    }
    seen.layout.kind == Kind::Chunked && (number as usize) < store.chunk_count(&seen.layout)
}

/// The coded form of a chunk; None: it stays as it is.
fn code(
    store: &Store,
    owner: u64,
    from: Place,
    layout: &Layout,
    coder: Coder<'_>,
) -> Option<Vec<u8>> {
    let (press, _) = coder;
    let (at, bytes) = (from.offset() + layout.value_at, layout.value_bytes);
    let mut stored = Vec::new();
    let mut coded = Vec::new();
    if layout.is_coded() {
        // Only to leave a retired dictionary.
        store.region().append_out(at, bytes, &mut stored);
        if !store.compress.is_worth_anew(&stored, false) {
            return None;
        }
    }
    let key = key_of(store, owner, from)?;
    let mut plain = Vec::new();
    match layout.is_coded() {
        true => {
            let coded = Compress::unsealed(&stored)?;
            if !store.compress.decode_again(coded, &mut plain) {
                return None;
            }
        }
        false => store.region().append_out(at, bytes, &mut plain),
    }
    let taken = press.code(&store.compress, &key, &plain, &mut coded);
    (taken && store.compress.seal(&mut coded)).then_some(coded)
}

/// The key of a chunk's owner.
fn key_of(store: &Store, owner: u64, chunk: Place) -> Option<Vec<u8>> {
    let (_, place) = super::drain::owner_of(store, owner, chunk)?;
    let head = store.look(place);
    let mut key = Vec::with_capacity(head.layout.key_bytes);
    head.item.append_key(&head.layout, &mut key);
    Some(key)
}
