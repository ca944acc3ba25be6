//! The reading itself: slots of a mapped file in random order, every word of each.

use crate::workload::mix;
use thermocline::MappedFile;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Where to read next is known when the last slot was read: the latency of memory.
    Dependent,
    /// Places are drawn beforehand, so that the processor has several reads in flight.
    Independent,
}

impl Order {
    pub fn name(self) -> &'static str {
        match self {
            Order::Dependent => "dependent",
            Order::Independent => "independent",
        }
    }
}

/// Writes a random word everywhere: touches every page, and gives dependent reads something to depend on.
pub fn fill(map: &MappedFile, seed: u64) {
    for index in 0..map.words() {
        map.set_word(index, mix(seed ^ index as u64));
    }
}

/// Reads `reads` slots of `slot_bytes` and returns where the next would go.
pub fn read_slots(
    map: &MappedFile,
    slot_bytes: usize,
    reads: u64,
    order: Order,
    start: u64,
) -> u64 {
    let slot_words = slot_bytes / 8;
    let slots = (map.words() / slot_words) as u64;
    let mut place = start;
    let mut total = 0u64;
    for turn in 0..reads {
        // The high half of a product is an even draw without a division.
        let slot = ((u128::from(mix(place)) * u128::from(slots)) >> 64) as usize;
        let mut sum = 0u64;
        for word in slot * slot_words..(slot + 1) * slot_words {
            sum = sum.wrapping_add(map.word(word));
        }
        total ^= sum;
        // The turn keeps a chain of equal sums from going round in a circle.
        place = match order {
            Order::Dependent => sum ^ turn.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            Order::Independent => place.wrapping_add(0x9e37_79b9_7f4a_7c15),
        };
    }
    match order {
        Order::Dependent => place,
        Order::Independent => place ^ (total & 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(bytes: usize) -> MappedFile {
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes as u64).unwrap();
        MappedFile::map(&file, bytes).unwrap()
    }

    #[test]
    fn dependent_reads_follow_what_was_read() {
        let (one, two) = (map(2 << 20), map(2 << 20));
        fill(&one, 1);
        fill(&two, 1);
        let walk = |map: &MappedFile, order| read_slots(map, 1024, 1000, order, 7);
        assert_eq!(walk(&one, Order::Dependent), walk(&two, Order::Dependent));
        for index in 0..two.words() {
            two.set_word(index, two.word(index) ^ 0x5555);
        }
        assert_ne!(walk(&one, Order::Dependent), walk(&two, Order::Dependent));
    }

    #[test]
    fn every_slot_is_read_sooner_or_later_and_none_beyond() {
        // Each slot holds a bit of its own; the sums seen say which were read.
        let map = map(2 << 20);
        let slots = map.words() / 512;
        let mut seen = vec![0u32; slots];
        let mut place = 3;
        for _ in 0..slots * 20 {
            let slot = ((u128::from(mix(place)) * slots as u128) >> 64) as usize;
            seen[slot] += 1;
            place = read_slots(&map, 4096, 1, Order::Independent, place);
        }
        let unread = seen.iter().filter(|count| **count == 0).count();
        assert!(unread == 0, "{unread} of {slots} slots were never read");
    }
}
