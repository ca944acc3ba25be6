//! Concurrent histories, checked for each key, while reclaim, flushes and resizing go on around them.
//!
//! Values carry their key, a number no other write of the key has, and bytes that follow from both: a torn
//! or strayed value shows at once. Reads are checked against the intervals of the writes: what a read
//! returns must have been current at some moment between its call and its return.
//!
//! One file, though long: the checker, the threads that feed it and the scenes they play share one form of history.
//!
//! `SEED=n` repeats the choices of the threads (not their timing); `TORTURE_SECONDS=n` runs longer.

mod torture;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use thermocline::{
    Cache, Change, CompressMode, Config, Error, Expiry, ExtentUse, NewValue, SetOptions, Stored,
};
use torture::{bytes_of, Random};

/// Key and number, then bytes that follow from them.
fn value_of(key: u64, number: u64, len: usize) -> Vec<u8> {
    let mut value = [key.to_le_bytes(), number.to_le_bytes()].concat();
    let mut fill = Random::new(key << 40 ^ number);
    while value.len() < len {
        value.extend_from_slice(&fill.next().to_le_bytes());
    }
    value.truncate(len.max(16));
    value
}

/// The number of a whole value of `key`; panics on any other bytes.
fn number_of(key: u64, value: &[u8]) -> u64 {
    assert!(value.len() >= 16, "a value of {} bytes", value.len());
    let word = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().expect("8 bytes"));
    assert_eq!(word(0), key, "another key's value");
    let number = word(8);
    assert!(
        value == value_of(key, number, value.len()),
        "torn: key {key} number {number}, {} bytes",
        value.len()
    );
    number
}

fn name(key: u64) -> Vec<u8> {
    format!("key-{key}").into_bytes()
}

/// How long a value is: mostly small, so that most overwrites happen in place.
fn length(random: &mut Random) -> usize {
    match random.below(100) {
        0..=59 => 100,
        60..=84 => 16 + random.below(700) as usize,
        85..=93 => 16 + random.below(6000) as usize,
        94..=97 => 20_000 + random.below(60_000) as usize,
        _ => 200_000 + random.below(300_000) as usize,
    }
}

// --- One register a key ------------------------------------------------------------------------

/// Nothing is there.
const ABSENT: u64 = 0;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    /// Value number written (ABSENT: deleted).
    Write(u64),
    /// Value number read (ABSENT: missed).
    Read(u64),
}

#[derive(Clone, Copy, Debug)]
struct Event {
    key: u64,
    begin: u64,
    end: u64,
    act: Act,
}

/// Checks reads against writes by intervals: a read of w is wrong if it ended before w began, or if some
/// other write lies wholly between w and the read. With values written once this finds all stale, early
/// and lost values; of two overlapping writes either order is accepted.
fn check_register(key: u64, events: &[Event], may_vanish: bool) -> Result<(), String> {
    let mut writes: Vec<Event> = events.iter().copied().filter(is_write).collect();
    writes.sort_by_key(|write| write.begin);
    let by_number: HashMap<u64, Event> = writes
        .iter()
        .filter_map(|write| match write.act {
            Act::Write(ABSENT) | Act::Read(_) => None,
            Act::Write(number) => Some((number, *write)),
        })
        .collect();
    // Latest begin among the writes that ended before a moment: by end, with the running maximum.
    let mut by_end = writes.clone();
    by_end.sort_by_key(|write| write.end);
    let mut latest = Vec::with_capacity(by_end.len());
    let mut most = (0, Act::Write(ABSENT));
    for write in &by_end {
        if write.begin > most.0 {
            most = (write.begin, write.act);
        }
        latest.push((write.end, most));
    }
    for read in events {
        let Act::Read(number) = read.act else {
            continue;
        };
        let before = latest.partition_point(|&(end, _)| end < read.begin);
        let last = before.checked_sub(1).map(|at| latest[at].1);
        if number == ABSENT {
            if may_vanish {
                continue;
            }
            check_miss(key, read, &writes, last)?;
            continue;
        }
        let write = by_number
            .get(&number)
            .ok_or_else(|| format!("key {key}: {read:?} of a value nobody wrote"))?;
        if write.begin > read.end {
            return Err(format!("key {key}: {read:?} before {write:?}"));
        }
        if let Some((begin, act)) = last.filter(|(begin, _)| *begin > write.end) {
            return Err(format!(
                "key {key}: {read:?} of {write:?}, but {act:?} began at {begin} and ended before the read"
            ));
        }
    }
    Ok(())
}

/// A miss is right if a delete may have been the last write: the beginning, or some delete that no write
/// follows wholly before the read.
fn check_miss(
    key: u64,
    read: &Event,
    writes: &[Event],
    last: Option<(u64, Act)>,
) -> Result<(), String> {
    let Some((begin, act)) = last else {
        return Ok(());
    };
    let excused = writes.iter().any(|write| {
        write.act == Act::Write(ABSENT) && write.begin <= read.end && write.end >= begin
    });
    match excused || act == Act::Write(ABSENT) {
        true => Ok(()),
        false => Err(format!("key {key}: {read:?} missed what {act:?} stored")),
    }
}

fn is_write(event: &Event) -> bool {
    matches!(event.act, Act::Write(_))
}

#[test]
fn the_checker_finds_stale_early_and_lost_values() {
    let event = |begin, end, act| Event {
        key: 1,
        begin,
        end,
        act,
    };
    let wrong = |events: &[Event]| check_register(1, events, false).is_err();
    let (one, two) = (event(1, 2, Act::Write(1)), event(3, 4, Act::Write(2)));
    assert!(!wrong(&[one, two, event(5, 6, Act::Read(2))]));
    assert!(!wrong(&[one, two, event(3, 6, Act::Read(1))]));
    assert!(wrong(&[one, two, event(5, 6, Act::Read(1))]), "stale");
    assert!(
        wrong(&[one, event(5, 6, Act::Write(2)), event(3, 4, Act::Read(2))]),
        "early"
    );
    assert!(wrong(&[one, event(3, 4, Act::Read(ABSENT))]), "lost");
    assert!(wrong(&[one, event(3, 4, Act::Read(9))]), "from nowhere");
    let deleted = event(3, 4, Act::Write(ABSENT));
    assert!(!wrong(&[one, deleted, event(5, 6, Act::Read(ABSENT))]));
    assert!(
        wrong(&[one, deleted, event(5, 6, Act::Read(1))]),
        "deleted and back"
    );
    assert!(!wrong(&[one, deleted, event(2, 6, Act::Read(1))]));
}

struct Scene {
    cache: Cache,
    stop: AtomicBool,
    /// A clock of steps: every call and return has one of its own.
    clock: AtomicU64,
    numbers: AtomicU64,
    /// Writes refused for want of room.
    refusals: AtomicU64,
    seed: u64,
}

/// What a thread of the scene does.
type Body<'a, R> = &'a (dyn Fn(&Scene, Random) -> R + Sync + 'a);

impl Scene {
    fn new(cache: Cache, seed: u64) -> Scene {
        println!("SEED={seed}");
        Scene {
            cache,
            stop: AtomicBool::new(false),
            clock: AtomicU64::new(1),
            numbers: AtomicU64::new(1),
            refusals: AtomicU64::new(0),
            seed,
        }
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, SeqCst)
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, SeqCst)
    }

    fn stopped(&self) -> bool {
        self.stop.load(SeqCst)
    }

    /// Runs the threads for the time, and hands over what they return.
    fn play<R: Send>(&self, time: Duration, threads: &[Body<'_, R>]) -> Vec<R> {
        torture::watch_panics();
        let start = Barrier::new(threads.len() + 1);
        let results = std::thread::scope(|scope| {
            let running: Vec<_> = threads
                .iter()
                .enumerate()
                .map(|(n, body)| {
                    let (start, random) = (&start, Random::new(self.seed + n as u64 * 7919));
                    scope.spawn(move || {
                        start.wait();
                        body(self, random)
                    })
                })
                .collect();
            start.wait();
            let until = Instant::now() + time;
            while Instant::now() < until && running.iter().any(|thread| !thread.is_finished()) {
                std::thread::sleep(Duration::from_millis(5));
            }
            self.stop.store(true, SeqCst);
            running
                .into_iter()
                .map(|thread| thread.join().expect("a thread of the scene"))
                .collect()
        });
        torture::assert_no_panics();
        results
    }
}

/// Keys of the registers; fillers have others.
const REGISTERS: u64 = 12;

/// What came of one operation on a register.
enum Outcome {
    Did(Act),
    /// It changed nothing.
    Nothing,
}
use Outcome::{Did, Nothing};

fn wrote(stored: bool, number: u64) -> Outcome {
    match stored {
        true => Did(Act::Write(number)),
        false => Nothing,
    }
}

/// Writes, deletes and reads the few keys in every way there is. A write may be refused when other
/// threads' pins last too long; a refused `set` has removed what was there.
fn registers(scene: &Scene, mut random: Random) -> Vec<Event> {
    let mut events = Vec::new();
    while !scene.stopped() && events.len() < 3_000_000 {
        let key = random.below(REGISTERS);
        let choice = random.below(100);
        let number = scene.number();
        let value = match choice {
            // Half of the keys always fit where they lie; there a mover meets them.
            0..=39 if key % 2 == 0 => value_of(key, number, 100),
            0..=39 => value_of(key, number, length(&mut random)),
            _ => Vec::new(),
        };
        let begin = scene.tick();
        let outcome = one_operation(scene, &mut random, choice, key, number, &value);
        let end = scene.tick();
        let act = match outcome {
            Ok(Did(act)) => act,
            Ok(Nothing) => continue,
            Err(Error::NoRoom) => {
                scene.refusals.fetch_add(1, SeqCst);
                match choice {
                    0..=19 | 30..=34 => Act::Write(ABSENT),
                    _ => continue,
                }
            }
            Err(error) => panic!("refused: {error}: {:?}", scene.cache.stats()),
        };
        events.push(Event {
            key,
            begin,
            end,
            act,
        });
    }
    events
}

fn one_operation(
    scene: &Scene,
    random: &mut Random,
    choice: u64,
    key: u64,
    number: u64,
    value: &[u8],
) -> Result<Outcome, Error> {
    let cache = &scene.cache;
    let name = name(key);
    Ok(match choice {
        0..=19 => wrote(cache.set(&name, value).map(|()| true)?, number),
        20..=24 => wrote(cache.add(&name, value)?, number),
        25..=29 => wrote(cache.replace(&name, value)?, number),
        30..=34 => wrote(stream(scene, &name, value, random)?, number),
        35..=39 => wrote(put_by_update(scene, &name, value).map(|()| true)?, number),
        40..=42 => {
            cache.delete(&name);
            Did(Act::Write(ABSENT))
        }
        43..=46 => {
            // Whole seconds go in place where the item has an expiry, others by copy.
            let seconds = 5000 + random.below(100);
            let millis = random.below(2) * 500;
            let at = (cache.now_ms() / 1000 + seconds) * 1000 + millis;
            cache.touch(&name, Expiry::AtMs(at))?;
            Nothing
        }
        47..=69 => {
            let mut buffer = Vec::new();
            let read = cache.get_into(&name, &mut buffer);
            Did(Act::Read(read.map_or(ABSENT, |_| number_of(key, &buffer))))
        }
        _ => {
            let guard = cache.get(&name);
            let number = guard.map_or(ABSENT, |guard| number_of(key, &guard.as_slice()));
            Did(Act::Read(number))
        }
    })
}

/// Stores by pieces, or gives up half way.
fn stream(scene: &Scene, name: &[u8], value: &[u8], random: &mut Random) -> Result<bool, Error> {
    let mut writer = scene
        .cache
        .write(name, value.len(), &SetOptions::default())?;
    let cut = random.below(value.len() as u64 + 1) as usize;
    writer.write(&value[..cut])?;
    if random.one_in(4) {
        return Ok(false);
    }
    writer.write(&value[cut..])?;
    Ok(writer.commit()?.is_stored())
}

fn put_by_update(scene: &Scene, name: &[u8], value: &[u8]) -> Result<(), Error> {
    scene
        .cache
        .update(name, |_| {
            let new = NewValue {
                value: value.to_vec(),
                ..NewValue::default()
            };
            (Change::Put(new), ())
        })
        .map(|_| ())
}

/// Fills the cache with other keys, so that reclaim never rests. Reads some back whole.
fn filler(scene: &Scene, mut random: Random) -> Vec<Event> {
    while !scene.stopped() {
        let key = 1000 + random.below(60_000);
        let number = scene.number();
        let value = value_of(key, number, length(&mut random));
        match scene.cache.set(&name(key), &value) {
            Ok(()) | Err(Error::NoRoom) => {}
            Err(error) => panic!("{error}"),
        }
        let other = 1000 + random.below(60_000);
        if let Some(guard) = scene.cache.get(&name(other)) {
            number_of(other, &guard.as_slice());
        }
    }
    Vec::new()
}

/// Holds large values over much reclaim; they must not change.
fn holder(scene: &Scene, mut random: Random) -> Vec<Event> {
    let mut held = Vec::new();
    while !scene.stopped() {
        let key = match random.one_in(2) {
            true => random.below(REGISTERS),
            false => 1000 + random.below(60_000),
        };
        if let Some(guard) = scene.cache.get(&name(key)) {
            if guard.len() > 4096 {
                held.push((key, guard));
            }
        }
        if held.len() > 3 {
            let (key, guard) = held.swap_remove(0);
            let bytes: Vec<u8> = guard
                .chunks()
                .flat_map(|piece| piece.into_owned())
                .collect();
            number_of(key, &bytes);
            assert_eq!(guard.len(), bytes.len());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Vec::new()
}

/// Walks over everything, and looks at what it meets.
fn walker(scene: &Scene, _: Random) -> Vec<Event> {
    while !scene.stopped() {
        let mut met = HashSet::new();
        let mut scan = scene.cache.scan();
        while !scene.stopped()
            && scan.step(|key, _| assert!(met.insert(key.to_vec()), "a key came twice"))
        {}
        scene.cache.stats();
        std::thread::sleep(Duration::from_millis(3));
    }
    Vec::new()
}

fn config(memory: u64, random: &mut Random) -> Config {
    let mut config = Config::new(memory);
    config.background = random.one_in(2);
    config.marks = random.one_in(2);
    config.threads = 1 + random.below(4) as usize;
    config.extent_use = [ExtentUse::Compound, ExtentUse::Team][random.below(2) as usize];
    config.compress = [CompressMode::Off, CompressMode::On][random.below(2) as usize];
    config
}

fn check_all(events: Vec<Vec<Event>>, may_vanish: bool) {
    let mut by_key: HashMap<u64, Vec<Event>> = HashMap::new();
    for event in events.into_iter().flatten() {
        by_key.entry(event.key).or_default().push(event);
    }
    assert_eq!(by_key.len(), REGISTERS as usize, "every key was used");
    for (key, events) in by_key {
        check_register(key, &events, may_vanish).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

/// A cache with enough room for all that lives: nothing may vanish.
fn roomy(seed: u64) -> Cache {
    let mut config = config(32 << 20, &mut Random::new(seed));
    config.memory_max = Some(48 << 20);
    config.evict = false;
    Cache::new(config).expect("a cache")
}

/// Stores and removes other keys, so that segments are mostly dead and compaction moves the few items
/// among them that stay.
fn churner(scene: &Scene, mut random: Random) -> Vec<Event> {
    while !scene.stopped() {
        let key = 1000 + random.below(200);
        match scene
            .cache
            .set(&name(key), &bytes_of(key, length(&mut random)))
        {
            Ok(()) | Err(Error::NoRoom) => {}
            Err(error) => panic!("{error}"),
        }
        scene.cache.delete(&name(1000 + random.below(200)));
        if random.one_in(10) {
            let key = 2000 + random.below(2000);
            let value = value_of(key, scene.number(), 100);
            let _ = scene.cache.set(&name(key), &value);
        }
    }
    Vec::new()
}

/// Flushes now and then: a delete of every key at once.
fn flusher(scene: &Scene, mut random: Random) -> Vec<Event> {
    let mut events = Vec::new();
    while !scene.stopped() {
        let begin = scene.tick();
        scene.cache.flush();
        let end = scene.tick();
        events.extend((0..REGISTERS).map(|key| Event {
            key,
            begin,
            end,
            act: Act::Write(ABSENT),
        }));
        std::thread::sleep(Duration::from_micros(random.below(3000)));
    }
    events
}

/// The budget goes up and down.
fn resizer(scene: &Scene, mut random: Random) -> Vec<Event> {
    while !scene.stopped() {
        let memory = (20 + random.below(28)) << 20;
        match scene.cache.set_memory(memory) {
            Ok(()) => assert!(scene.cache.stats().charged_bytes <= memory),
            Err(Error::NoRoom) => {}
            Err(error) => panic!("{error}"),
        }
        std::thread::sleep(Duration::from_millis(random.below(20)));
    }
    Vec::new()
}

#[test]
fn registers_keep_every_write_under_compaction() {
    let seed = torture::seeds(1)[0];
    let scene = Scene::new(roomy(seed), seed);
    let time = torture::run_time(Duration::from_millis(1200));
    let events = scene.play(
        time,
        &[&registers, &registers, &registers, &churner, &walker],
    );
    let stats = scene.cache.stats();
    let moved = stats.overwritten_in_place > 0 && stats.moved > 0;
    assert!(moved && stats.evicted == 0, "{stats:?}");
    check_all(events, false);
}

#[test]
fn a_flush_removes_what_was_there_and_nothing_else() {
    let seed = torture::seeds(1)[0];
    let scene = Scene::new(roomy(seed), seed);
    let time = torture::run_time(Duration::from_millis(800));
    let events = scene.play(time, &[&registers, &registers, &registers, &flusher]);
    assert_eq!(
        scene.cache.stats().evicted,
        0,
        "of a cache that is not to evict"
    );
    check_all(events, false);
}

/// Hard reclaim, guards, walks, resizing, and a second cache that turns the same epochs: misses are
/// allowed, wrong values are not.
#[test]
fn registers_are_never_wrong_under_reclaim() {
    let seed = torture::seeds(1)[0];
    let mut random = Random::new(seed);
    let cache = Cache::new(config(24 << 20, &mut random)).expect("a cache");
    let other = Scene::new(
        Cache::new(config(16 << 20, &mut random)).expect("a cache"),
        seed,
    );
    let elsewhere = |scene: &Scene, mut random: Random| {
        while !scene.stopped() {
            let value = bytes_of(1, length(&mut random));
            let _ = other.cache.set(&name(random.below(10_000)), &value);
        }
        Vec::new()
    };
    let scene = Scene::new(cache, seed);
    let time = torture::run_time(Duration::from_millis(2000));
    let events = scene.play(
        time,
        &[
            &registers, &registers, &registers, &filler, &filler, &holder, &walker, &resizer,
            &elsewhere,
        ],
    );
    let stats = scene.cache.stats();
    assert!(stats.evicted > 0 && stats.moved > 0, "{stats:?}");
    check_all(events, true);
}

// --- Exactness ---------------------------------------------------------------------------------

const COUNTERS: u64 = 4;

#[test]
fn no_increment_is_lost() {
    let seed = torture::seeds(1)[0];
    let scene = Scene::new(roomy(seed), seed);
    for key in 0..COUNTERS {
        scene.cache.set(&name(key), b"0").expect("room");
    }
    let adder = |scene: &Scene, mut random: Random| {
        let mut sums = [0u64; COUNTERS as usize];
        while !scene.stopped() {
            let (key, by) = (random.below(COUNTERS), random.below(100_000));
            let answer = scene.cache.incr(&name(key), by).expect("a number");
            assert!(
                answer.is_some(),
                "a counter vanished: {:?}",
                scene.cache.stats()
            );
            sums[key as usize] += by;
        }
        sums
    };
    let churn = |scene: &Scene, random: Random| {
        churner(scene, random);
        [0; COUNTERS as usize]
    };
    let time = torture::run_time(Duration::from_millis(600));
    let sums = scene.play(time, &[&adder, &adder, &adder, &churn]);
    for key in 0..COUNTERS {
        let sum: u64 = sums.iter().map(|sums| sums[key as usize]).sum();
        let last = scene.cache.get(&name(key)).map(|guard| guard.to_vec());
        let expected = Some(sum.to_string().into_bytes());
        assert_eq!(last, expected, "key {key}: {:?}", scene.cache.stats());
    }
}

/// Each token wins once: the successes of all threads count the versions.
#[test]
fn a_token_wins_exactly_once() {
    let seed = torture::seeds(1)[0];
    let scene = Scene::new(roomy(seed), seed);
    for key in 0..COUNTERS {
        scene
            .cache
            .set(&name(key), &value_of(key, 1, 100))
            .expect("room");
    }
    let swapper = |scene: &Scene, mut random: Random| {
        let mut wins = [0u64; COUNTERS as usize];
        while !scene.stopped() {
            let key = random.below(COUNTERS);
            let mut seen = None;
            let read = scene.cache.update(&name(key), |view| {
                seen = view.map(|view| (view.meta.token, number_of(key, view.value)));
                (Change::Keep, ())
            });
            read.expect("nothing is written");
            let Some((Some(token), number)) = seen else {
                panic!("key {key} vanished: {:?}", scene.cache.stats())
            };
            let value = value_of(key, number + 1, length(&mut random).min(9000));
            match scene.cache.compare_and_set(&name(key), &value, token) {
                Ok(Stored::Stored(_)) => wins[key as usize] += 1,
                Ok(Stored::Exists) | Err(Error::NoRoom) => {}
                other => panic!("key {key}: {other:?}"),
            }
        }
        wins
    };
    let churn = |scene: &Scene, random: Random| {
        churner(scene, random);
        [0; COUNTERS as usize]
    };
    let time = torture::run_time(Duration::from_millis(600));
    let wins = scene.play(time, &[&swapper, &swapper, &swapper, &churn]);
    for key in 0..COUNTERS {
        let won: u64 = wins.iter().map(|wins| wins[key as usize]).sum();
        let value = scene.cache.get(&name(key)).expect("it is there").to_vec();
        assert_eq!(number_of(key, &value), won + 1, "key {key}");
    }
}

/// With one client only, a token stays good until that client writes: reclaim may move the item as it
/// likes.
#[test]
fn a_token_outlives_every_move() {
    let seed = torture::seeds(1)[0];
    let scene = Scene::new(roomy(seed), seed);
    let owners = AtomicU64::new(0);
    let owner = |scene: &Scene, mut random: Random| {
        let name = name(owners.fetch_add(1, SeqCst));
        let options = SetOptions {
            want_token: true,
            ..SetOptions::default()
        };
        let mut token = 0;
        while !scene.stopped() {
            let value = bytes_of(1, length(&mut random).min(9000));
            let mode = match token {
                0 => thermocline::Mode::Set,
                token => thermocline::Mode::CompareAndSet(token),
            };
            let options = SetOptions { mode, ..options };
            match scene.cache.set_with(&name, &value, &options) {
                Ok(Stored::Stored(Some(next))) => token = next,
                Err(Error::NoRoom) => {}
                other => panic!(
                    "a token that was good: {other:?}: {:?}",
                    scene.cache.stats()
                ),
            }
        }
    };
    let churn = |scene: &Scene, random: Random| {
        churner(scene, random);
    };
    let time = torture::run_time(Duration::from_millis(600));
    scene.play(time, &[&owner, &owner, &owner, &churn, &churn]);
}

/// Of racing `add`s one wins, until the winner has deleted.
#[test]
fn an_add_wins_alone() {
    let seed = torture::seeds(1)[0];
    let scene = Scene::new(roomy(seed), seed);
    let owned: Vec<AtomicBool> = (0..COUNTERS).map(|_| AtomicBool::new(false)).collect();
    let owned = Arc::new(owned);
    let racer = |scene: &Scene, mut random: Random| {
        while !scene.stopped() {
            let key = random.below(COUNTERS);
            let value = value_of(key, 1, length(&mut random).min(9000));
            if scene.cache.add(&name(key), &value).unwrap_or(false) {
                assert!(!owned[key as usize].swap(true, SeqCst), "two adds won");
                number_of(key, &scene.cache.get(&name(key)).expect("mine").as_slice());
                owned[key as usize].store(false, SeqCst);
                assert!(scene.cache.delete(&name(key)), "it was mine");
            }
        }
    };
    let churn = |scene: &Scene, random: Random| {
        churner(scene, random);
    };
    let time = torture::run_time(Duration::from_millis(500));
    scene.play(time, &[&racer, &racer, &racer, &churn]);
}
