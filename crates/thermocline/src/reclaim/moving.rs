//! Moving one item to another segment. (Chunks of large values: `moving_chunk`.)
//!
//! An item is frozen first, so that no overwrite is lost between the copy and the turn of the slot; a
//! token that a client holds travels with it.

use crate::compress::Press;
use crate::item::{Header, Kind, Layout, Measured, Record};
use crate::location::{Place, Tier, UNIT_BYTES};
use crate::mem::Pin;
use crate::metrics::Counter;
use crate::models_switch::{mutant, Mutant};
use crate::policy::{Origin, Pool};
use crate::store::Store;
use crate::sync::Ordering;
use crate::writer::{Lane, Opening, Reserved};

/// Where survivors go.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) tier: Tier,
    /// To the compaction lane, which keeps the age.
    pub(super) compaction: bool,
    pub(super) pool: Pool,
    pub(super) generation: u32,
}

/// Who codes what is moved, and whether there is time to code anew what was coded by the fast search.
pub(super) type Coder<'a> = (&'a mut Press, bool);

pub(super) enum Moved {
    /// Bytes it takes in its new place.
    Done(usize),
    /// Somebody removed or replaced it meanwhile.
    Gone,
    /// A writer holds it: come back.
    Busy,
    NoRoom,
}

pub(super) fn move_item(
    store: &Store,
    pin: &Pin,
    hash: u64,
    from: Place,
    counter: u32,
    target: Target,
    coder: Option<Coder<'_>>,
) -> Moved {
    let item = store.item(from);
    let header = item.header();
    let heeds = !mutant(Mutant::MoveBlind);
    if heeds && (header.busy() || !item.try_freeze(header)) {
        return Moved::Busy;
    }
    let moved = copy_frozen(store, pin, hash, from, counter, target, coder);
    if !matches!(moved, Moved::Done(_)) {
        item.unfreeze();
    }
    moved
}

/// One version of an item, as it was read.
#[derive(Clone, Copy)]
pub(crate) struct Version {
    pub(crate) place: Place,
    /// Birth of its segment: the place may have been used again since.
    pub(crate) birth: u64,
    pub(crate) header: Header,
}

/// Publishes the plain form of a coded item that was read as `from` in hot main. False: it has changed or
/// gone, or there is no room at hand; nothing waits for that.
pub(crate) fn promote(store: &Store, hash: u64, from: Version, new: &Measured<'_>) -> bool {
    let pin = store.pin();
    let (place, header) = (from.place, from.header);
    if store.segments.of(place).birth() != from.birth
        || store.index.find(hash, |at| at == place).is_none()
    {
        return false;
    }
    let item = store.item(place);
    if header.busy() || !item.try_freeze(header) {
        return false;
    }
    let moved = publish_promoted(&pin, store, hash, place, header, new);
    if !moved {
        item.unfreeze();
    }
    moved
}

fn publish_promoted(
    pin: &Pin,
    store: &Store,
    hash: u64,
    from: Place,
    header: Header,
    new: &Measured<'_>,
) -> bool {
    let seen = store.look(from);
    let mut fields = new.record.fields;
    if header.token_out() && fields.token.is_none() {
        fields.token = Some(store.segments.token(from, header.version()));
    }
    // Touched or marked since it was read: what is published carries what stands now.
    if !seen.layout.is_coded() || !seen.fields.same_facts(&fields) {
        return false;
    }
    let new = Measured::new(Record {
        fields,
        ..new.record
    });
    let Reserved::At(to) = store.reserve(pin, Pool::Main, new.bytes, !new.small) else {
        return false;
    };
    // Flushed or dropped since it was read: the copy must not live on behind the mark. (While a mark is taken no
    // segment is opened, so the copy is dark too or this sees it.)
    if store.is_flushed(from) {
        store.write(to, &new);
        store.bury(to, new.bytes, 0);
        return false;
    }
    store.write(to, &new);
    store.group(to, new.bytes);
    store.book_expiry(to, new.bytes, fields.expires_ms);
    if !store.index.move_if(hash, from, to, Some(0)) {
        store.ungroup(to, new.bytes);
        store.bury(to, new.bytes, fields.expires_ms);
        return false;
    }
    store.bury_item(&seen);
    true
}

fn copy_frozen(
    store: &Store,
    pin: &Pin,
    hash: u64,
    from: Place,
    counter: u32,
    target: Target,
    coder: Option<Coder<'_>>,
) -> Moved {
    let item = store.item(from);
    let header = item.header();
    let layout = item.layout(header);
    let mut fields = item.fields(&layout);
    if header.token_out() && fields.token.is_none() {
        fields.token = Some(store.segments.token(from, header.version()));
    }
    if coder.is_none() && item.is_as_new(header, &layout) {
        let bytes = layout.reserved;
        let Some(to) = reserve(store, pin, bytes, header.is_long(), target) else {
            return Moved::NoRoom;
        };
        store.item(to).copy_from(item, header, bytes);
        let expires_ms = fields.expires_ms;
        return turn(
            store,
            pin,
            hash,
            (from, &layout),
            (to, bytes),
            counter,
            expires_ms,
        );
    }
    let mut key = Vec::with_capacity(layout.key_bytes);
    item.append_key(&layout, &mut key);
    let chunked = layout.kind == Kind::Chunked;
    let payload = match chunked {
        true => 8 * store.chunk_count(&layout),
        false => layout.value_bytes,
    };
    let mut value = Vec::new();
    if !chunked {
        value.reserve(payload);
        item.append_value(&layout, &mut value);
    }
    let mut coded = Vec::new();
    let mut record = Record {
        key: &key,
        fields,
        value: &value,
    };
    if let (false, Some(coder)) = (chunked, coder) {
        if code(store, &record, coder, &mut coded) {
            record.fields.coded = true;
            record.value = &coded;
        }
    }
    let new = Measured::new(record);
    let bytes = match chunked {
        true => crate::item::long_bytes(key.len(), &fields, payload, 8),
        false => new.bytes,
    };
    let wide = chunked || !new.small;
    let Some(to) = reserve(store, pin, bytes, wide, target) else {
        return Moved::NoRoom;
    };
    if chunked {
        copy_table(store, from, to, &record, layout.value_bytes, bytes);
    } else {
        store.write(to, &new);
    }
    if record.fields.coded {
        // Before it can be found and buried by others.
        store.compress.raise(record.value, record.value.len());
    }
    let moved = turn(
        store,
        pin,
        hash,
        (from, &layout),
        (to, bytes),
        counter,
        fields.expires_ms,
    );
    match moved {
        Moved::Done(_) if layout.is_coded() => store.compress.lower(&value, value.len()),
        Moved::Gone if record.fields.coded => {
            store.compress.lower(record.value, record.value.len())
        }
        _ => {}
    }
    moved
}

/// Turns the slot from the old record to its copy, if it still points there.
fn turn(
    store: &Store,
    pin: &Pin,
    hash: u64,
    (from, layout): (Place, &Layout),
    (to, bytes): (Place, usize),
    counter: u32,
    expires_ms: u64,
) -> Moved {
    store.group(to, bytes);
    store.book_expiry(to, bytes, expires_ms);
    let turned = store.index.move_if(hash, from, to, Some(counter));
    if !turned && !mutant(Mutant::MoveBlind) {
        store.ungroup(to, bytes);
        store.bury(to, bytes, expires_ms);
        return Moved::Gone;
    }
    store.ungroup(from, layout.reserved);
    store.bury(from, layout.reserved, expires_ms);
    store.counters.one(pin, Counter::Moved);
    store.counters.add(pin, Counter::MovedBytes, bytes as u64);
    Moved::Done(bytes)
}

/// Codes the value of a record that is moved; false: it stays as it is. A value that is coded already is coded
/// anew only to leave a retired dictionary, or to be searched better where there is time.
fn code(store: &Store, record: &Record<'_>, coder: Coder<'_>, coded: &mut Vec<u8>) -> bool {
    let (press, has_time) = coder;
    press.set_in_background(has_time);
    if !record.fields.coded {
        return press.code(&store.compress, record.key, record.value, coded);
    }
    let better = has_time && press.searches_better(&store.compress);
    let mut plain = Vec::new();
    store.compress.is_worth_anew(record.value, better)
        && store.compress.decode_again(record.value, &mut plain)
        && press.code(&store.compress, record.key, &plain, coded)
}

/// Copies the head of a chunked item. Reclaim is the only one that turns chunk places, and it is here.
fn copy_table(
    store: &Store,
    from: Place,
    to: Place,
    record: &Record<'_>,
    value_bytes: usize,
    bytes: usize,
) {
    let head = store.item(to);
    head.write_long_head(
        Kind::Chunked,
        record.key,
        &record.fields,
        value_bytes,
        bytes,
    );
    let (old, new) = (store.look(from), store.look(to));
    for number in 0..store.chunk_count(&new.layout) {
        let place = store.chunk_word(&old, number).load(Ordering::Acquire);
        store
            .chunk_word(&new, number)
            .store(place, Ordering::Release);
    }
}

/// Room for a record that is moved: in what is open, before a segment is opened for reclaim alone.
pub(super) fn reserve(
    store: &Store,
    pin: &Pin,
    bytes: usize,
    wide: bool,
    target: Target,
) -> Option<Place> {
    let to_main = target.pool == Pool::Main;
    let lane = match (target.tier, to_main, target.compaction) {
        (Tier::Hot, true, true) => &store.lanes.compaction,
        (Tier::Hot, true, false) => &store.lanes.survivors,
        (Tier::Hot, false, _) => &store.lanes.probation_compaction,
        (Tier::Compressed, true, true) => &store.lanes.compressed_compaction,
        (Tier::Compressed, true, false) => &store.lanes.compressed_main,
        (Tier::Compressed, false, _) => &store.lanes.compressed_probation,
    };
    if target.tier == Tier::Hot && !(to_main && target.compaction) {
        if let Some(place) = reserve_open(store, pin, bytes, wide, (target.pool, lane)) {
            return Some(place);
        }
    }
    let opening = Opening {
        tier: target.tier,
        origin: match (to_main, target.compaction) {
            (true, true) => Origin::Compacted(target.generation),
            (true, false) => Origin::Survivors,
            (false, _) => Origin::Fresh(Pool::Probation),
        },
        reserve: 0,
        now_s: store.time.now_s(),
    };
    match lane.reserve(&store.segments, pin, bytes, wide, opening, store) {
        Reserved::At(place) => Some(place),
        Reserved::Full => None,
    }
}

/// Room in what is open of a pool, in the writers' lanes or in reclaim's own: all are as young, and what is open and not
/// full holds nothing. The fullest first, so that small records fill what large ones leave.
fn reserve_open(
    store: &Store,
    pin: &Pin,
    bytes: usize,
    wide: bool,
    (pool, own): (Pool, &Lane),
) -> Option<Place> {
    if store.setting().rules.classes {
        // Where the kernel's generations are kept survivors are older than what is new.
        return None;
    }
    let room = store.segments.bytes();
    let grain = UNIT_BYTES * (1 + usize::from(wide));
    let writers = store.lanes.of_pool(pool).iter();
    let (_, lane) = writers
        .chain([own])
        .filter_map(|lane| Some((lane.open()?.1, lane)))
        .filter(|&(used, _)| used.next_multiple_of(grain) + bytes <= room)
        .max_by_key(|&(used, _)| used)?;
    let place = lane.reserve_open(&store.segments, pin, bytes, wide)?;
    if pool == Pool::Main && !std::ptr::eq(lane, own) {
        store.facts.among_new.add(bytes as u64);
    }
    Some(place)
}
