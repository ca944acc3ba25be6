//! MGLRU's books: which generation is the youngest, which is the oldest, and when to open a new one.
//!
//! Owns the two sequence numbers and the count of main segments in each generation. Knows ids only: what a
//! segment is, where it lies and who moves it is left to `segment` and `reclaim`.
//!
//! Must hold: min_seq <= max_seq, and at most GENERATIONS_MAX generations are told apart.

/// The cache's bytes pass through main's young end once in this many generations. 2 and 8 differ from 4 by
/// 0.02 points of miss ratio.
pub const GENERATIONS_PER_CAPACITY: u64 = 4;

/// Generations told apart at once. Where there are more, the two oldest count as one: a segment that old is
/// the next to be drained anyway.
pub const GENERATIONS_MAX: usize = 64;

/// Where bytes put into main came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// An admission, a promotion or a whole segment relinked.
    New,
    /// A second chance out of a main segment of this generation.
    SecondChance(u32),
}

#[derive(Debug)]
pub struct Generations {
    max_seq: u32,
    min_seq: u32,
    /// Main segments of generation g at place g mod GENERATIONS_MAX.
    segments: [u32; GENERATIONS_MAX],
    put_bytes: u64,
    quota_bytes: u64,
    /// Ages only when asked: see `wants_ageing`.
    on_demand: bool,
}

impl Generations {
    pub fn new(capacity_bytes: u64) -> Generations {
        Generations {
            max_seq: 0,
            min_seq: 0,
            segments: [0; GENERATIONS_MAX],
            put_bytes: 0,
            quota_bytes: quota(capacity_bytes),
            on_demand: false,
        }
    }

    /// The kernel's way: no quota; a generation begins when eviction runs out of cold ones. Starts with the
    /// two that are never evicted and one that is.
    pub fn on_demand() -> Generations {
        Generations {
            max_seq: 2,
            on_demand: true,
            ..Generations::new(0)
        }
    }

    /// The kernel's trigger: none is cold, or with three of them too much is young or too little old; about
    /// a third each is wanted. Segments count, not bytes: they are alike.
    pub fn wants_ageing(&self) -> bool {
        let of = |generation: u32| u64::from(self.segments[place(generation)]);
        match self.max_seq - self.min_seq {
            0 | 1 => true,
            2 => {
                let all: u64 = (self.min_seq..=self.max_seq).map(of).sum();
                of(self.max_seq) * 2 > all || of(self.min_seq) * 4 < all
            }
            _ => false,
        }
    }

    /// Where the kernel puts what is new to it: one above the oldest, the oldest itself while few are apart.
    pub fn above_oldest(&self) -> u32 {
        match self.max_seq - self.min_seq {
            0..=2 => self.min_seq,
            _ => self.min_seq + 1,
        }
    }

    /// Oldest and youngest number, and bytes put since the youngest began: the books of a stopped cache.
    pub(crate) fn words(&self) -> [u64; 3] {
        [self.min_seq.into(), self.max_seq.into(), self.put_bytes]
    }

    /// What `words` said, with main segments of these generations. None: it cannot be.
    pub(crate) fn from_words(
        words: [u64; 3],
        capacity_bytes: u64,
        main: &[u32],
    ) -> Option<Generations> {
        let mut generations = Generations::new(capacity_bytes);
        generations.min_seq = u32::try_from(words[0]).ok()?;
        generations.max_seq = u32::try_from(words[1]).ok()?;
        generations.put_bytes = words[2];
        let told_apart = generations.max_seq.checked_sub(generations.min_seq)?;
        if told_apart as usize >= GENERATIONS_MAX {
            return None;
        }
        for &generation in main {
            generations.open_main_as(generation);
        }
        Some(generations)
    }

    /// The youngest generation: the "now" of the policy and of the ghosts' epochs.
    pub fn now(&self) -> u32 {
        self.max_seq
    }

    /// The oldest generation that still has a main segment; `now()` when main has none.
    pub fn oldest(&self) -> u32 {
        self.min_seq
    }

    #[cfg(test)]
    /// Main segments of one generation.
    pub fn segments(&self, generation: u32) -> u32 {
        if (self.min_seq..=self.max_seq).contains(&generation) {
            self.segments[place(generation)]
        } else {
            0
        }
    }

    /// Main opens a segment: the generation it bears for life.
    pub fn open_main(&mut self) -> u32 {
        self.segments[place(self.max_seq)] += 1;
        self.max_seq
    }

    /// A compaction segment takes the generation of its first source, so that it joins main's queue at that age.
    /// Returns the generation it bears: the source's, or the oldest still told apart.
    pub fn open_main_as(&mut self, source: u32) -> u32 {
        let generation = source.clamp(self.min_seq, self.max_seq);
        self.segments[place(generation)] += 1;
        generation
    }

    /// A main segment of this generation is gone.
    pub fn free_main(&mut self, generation: u32) {
        let generation = generation.clamp(self.min_seq, self.max_seq);
        let count = &mut self.segments[place(generation)];
        debug_assert!(*count > 0, "generation {generation} has no segment to free");
        *count = count.saturating_sub(1);
        self.advance_oldest();
    }

    /// A main segment goes whole to the young end: its new generation. Its bytes are counted by `put_main`.
    pub fn relink_main(&mut self, generation: u32) -> u32 {
        let now = self.open_main();
        self.free_main(generation);
        now
    }

    /// Counts bytes put into main. True when they filled a quarter of the cache and a new generation began;
    /// it shows on the next segment opened.
    pub fn put_main(&mut self, bytes: u64, source: Source) -> bool {
        // A second chance inside the youngest generation only turns it round: counting it would let a main
        // of one generation age by its own motion.
        if self.on_demand || source == Source::SecondChance(self.max_seq) {
            return false;
        }
        self.put_bytes += bytes;
        let aged = self.put_bytes >= self.quota_bytes;
        if aged {
            self.age();
        }
        aged
    }

    /// Opens a new youngest generation now, whatever was counted (the kernel's `+` command).
    pub fn age(&mut self) {
        self.put_bytes = 0;
        self.max_seq += 1;
        if (self.max_seq - self.min_seq) as usize >= GENERATIONS_MAX {
            self.merge_two_oldest();
        }
        self.segments[place(self.max_seq)] = 0;
        self.advance_oldest();
    }

    /// The cache was resized: later generations are a quarter of the new size.
    pub fn set_capacity(&mut self, capacity_bytes: u64) {
        self.quota_bytes = quota(capacity_bytes);
    }

    fn merge_two_oldest(&mut self) {
        let merged = self.segments[place(self.min_seq)];
        self.min_seq += 1;
        self.segments[place(self.min_seq)] += merged;
    }

    fn advance_oldest(&mut self) {
        // On demand two young generations stay apart, however empty.
        let youngest_old = match self.on_demand {
            true => self.max_seq.saturating_sub(1),
            false => self.max_seq,
        };
        while self.min_seq < youngest_old && self.segments[place(self.min_seq)] == 0 {
            self.min_seq += 1;
        }
    }
}

fn quota(capacity_bytes: u64) -> u64 {
    (capacity_bytes / GENERATIONS_PER_CAPACITY).max(1)
}

fn place(generation: u32) -> usize {
    generation as usize % GENERATIONS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_cache_makes_a_generation() {
        let mut generations = Generations::new(400);
        assert_eq!(generations.open_main(), 0);
        assert!(!generations.put_main(99, Source::New));
        assert!(generations.put_main(1, Source::New));
        assert_eq!(generations.now(), 1);
        assert!(!generations.put_main(99, Source::New), "the count restarts");
        assert_eq!(generations.open_main(), 1);
    }

    #[test]
    fn second_chances_inside_the_youngest_do_not_age() {
        let mut generations = Generations::new(400);
        generations.open_main();
        for _ in 0..1000 {
            assert!(!generations.put_main(100, Source::SecondChance(0)));
        }
        generations.age();
        assert!(
            generations.put_main(100, Source::SecondChance(0)),
            "from an older one they do"
        );
        assert_eq!(generations.now(), 2);
    }

    #[test]
    fn the_oldest_follows_the_segments_that_are_left() {
        let mut generations = Generations::new(4);
        let first = generations.open_main();
        generations.put_main(1, Source::New);
        let second = generations.open_main();
        generations.put_main(1, Source::New);
        let third = generations.open_main();
        assert_eq!((first, second, third), (0, 1, 2));
        generations.free_main(second);
        assert_eq!(
            generations.oldest(),
            0,
            "a hole in the middle moves nothing"
        );
        generations.free_main(first);
        assert_eq!(generations.oldest(), 2);
        generations.free_main(third);
        assert_eq!(generations.oldest(), generations.now());
    }

    #[test]
    fn an_empty_main_keeps_the_oldest_at_now() {
        let mut generations = Generations::new(4);
        generations.age();
        generations.age();
        assert_eq!((generations.oldest(), generations.now()), (2, 2));
    }

    #[test]
    fn relinking_moves_a_segment_to_now() {
        let mut generations = Generations::new(4);
        let old = generations.open_main();
        generations.age();
        assert_eq!(generations.relink_main(old), 1);
        assert_eq!(generations.segments(0), 0);
        assert_eq!(generations.segments(1), 1);
        assert_eq!(generations.oldest(), 1);
    }

    #[test]
    fn more_generations_than_are_told_apart_merge_at_the_old_end() {
        let mut generations = Generations::new(4);
        let opened: Vec<u32> = (0..200)
            .map(|_| {
                let generation = generations.open_main();
                generations.age();
                generation
            })
            .collect();
        let span = generations.now() - generations.oldest();
        assert_eq!(span as usize, GENERATIONS_MAX - 1);
        for generation in opened {
            generations.free_main(generation);
        }
        assert_eq!(
            generations.oldest(),
            generations.now(),
            "every segment was given back"
        );
    }

    #[test]
    fn compaction_keeps_the_age_of_its_source() {
        let mut generations = Generations::new(4);
        let old = generations.open_main();
        generations.age();
        generations.open_main();
        assert_eq!(generations.open_main_as(old), old);
        assert_eq!(generations.segments(old), 2);
        generations.free_main(old);
        assert_eq!(generations.oldest(), old);
        generations.free_main(old);
        assert_eq!(
            generations.open_main_as(old),
            1,
            "a generation already gone is not reopened"
        );
    }

    #[test]
    fn a_resized_cache_ages_by_its_new_size() {
        let mut generations = Generations::new(400);
        generations.set_capacity(40);
        assert!(generations.put_main(10, Source::New));
        let mut tiny = Generations::new(0);
        assert!(tiny.put_main(1, Source::New), "no division of nothing");
    }
}
