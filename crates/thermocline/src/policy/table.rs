//! The nodes of a shadow: three first-in-first-out lists whose members are found by key.
//!
//! One vector of 24-byte nodes and one of chain heads; a node is in one chain and one list. Freed nodes are
//! used again, so memory follows the most that was ever held.

const NONE: u32 = u32::MAX;
const LISTS: usize = 3;
const HEADS_MIN: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    Probation = 0,
    Main = 1,
    Ghosts = 2,
}

const ALL: [List; LISTS] = [List::Probation, List::Main, List::Ghosts];

#[derive(Debug, Clone, Copy)]
struct Node {
    key: u32,
    size: u32,
    /// Next in the chain of its head, or next free node.
    chain: u32,
    older: u32,
    younger: u32,
    generation: u16,
    list: u8,
    counter: u8,
}

const _: () = assert!(std::mem::size_of::<Node>() == 24);

#[derive(Debug, Clone, Copy)]
struct Ends {
    oldest: u32,
    youngest: u32,
    len: usize,
}

const EMPTY: Ends = Ends {
    oldest: NONE,
    youngest: NONE,
    len: 0,
};

#[derive(Debug)]
pub struct Table {
    heads: Vec<u32>,
    nodes: Vec<Node>,
    free: u32,
    lists: [Ends; LISTS],
    /// The youngest generation seen: nodes keep its low 16 bits.
    now: u32,
}

impl Default for Table {
    fn default() -> Table {
        Table {
            heads: Vec::new(),
            nodes: Vec::new(),
            free: NONE,
            lists: [EMPTY; LISTS],
            now: 0,
        }
    }
}

impl Table {
    pub fn find(&self, key: u32) -> Option<u32> {
        if self.heads.is_empty() {
            return None;
        }
        let mut at = self.heads[self.head_of(key)];
        while at != NONE {
            let node = &self.nodes[at as usize];
            if node.key == key {
                return Some(at);
            }
            at = node.chain;
        }
        None
    }

    /// Puts a key that is not there at the young end of a list.
    pub fn push(&mut self, list: List, key: u32, size: u32, generation: u32, counter: u8) {
        debug_assert!(self.find(key).is_none(), "one node a key");
        self.now = self.now.max(generation);
        let at = self.take_node();
        let head = self.head_of(key);
        let ends = self.lists[list as usize];
        self.nodes[at as usize] = Node {
            key,
            size,
            chain: self.heads[head],
            older: ends.youngest,
            younger: NONE,
            generation: generation as u16,
            list: list as u8,
            counter,
        };
        self.heads[head] = at;
        match ends.youngest {
            NONE => self.lists[list as usize].oldest = at,
            youngest => self.nodes[youngest as usize].younger = at,
        }
        self.lists[list as usize].youngest = at;
        self.lists[list as usize].len += 1;
    }

    pub fn remove(&mut self, at: u32) {
        let node = self.nodes[at as usize];
        self.unchain(at, node.key);
        let ends = &mut self.lists[node.list as usize];
        ends.len -= 1;
        if node.older == NONE {
            ends.oldest = node.younger;
        }
        if node.younger == NONE {
            ends.youngest = node.older;
        }
        if node.older != NONE {
            self.nodes[node.older as usize].younger = node.younger;
        }
        if node.younger != NONE {
            self.nodes[node.younger as usize].older = node.older;
        }
        self.nodes[at as usize].chain = self.free;
        self.free = at;
    }

    pub fn oldest(&self, list: List) -> Option<u32> {
        let oldest = self.lists[list as usize].oldest;
        (oldest != NONE).then_some(oldest)
    }

    pub fn len(&self, list: List) -> usize {
        self.lists[list as usize].len
    }

    /// Every node, list by list, the oldest first.
    pub fn nodes(&self) -> Vec<u32> {
        let mut found = Vec::new();
        for ends in &self.lists {
            let mut at = ends.oldest;
            while at != NONE {
                found.push(at);
                at = self.nodes[at as usize].younger;
            }
        }
        found
    }

    pub fn key(&self, at: u32) -> u32 {
        self.nodes[at as usize].key
    }

    pub fn size(&self, at: u32) -> u32 {
        self.nodes[at as usize].size
    }

    pub fn set_size(&mut self, at: u32, size: u32) {
        self.nodes[at as usize].size = size;
    }

    pub fn counter(&self, at: u32) -> u8 {
        self.nodes[at as usize].counter
    }

    pub fn list(&self, at: u32) -> List {
        ALL[self.nodes[at as usize].list as usize]
    }

    /// The generation it was put in with. One more than 65,535 ago counts as younger than it is; a ghost or
    /// an item that old is the next to go.
    pub fn generation(&self, at: u32) -> u32 {
        let age = (self.now as u16).wrapping_sub(self.nodes[at as usize].generation);
        self.now - u32::from(age).min(self.now)
    }

    /// A hit.
    pub fn bump(&mut self, at: u32) {
        let counter = &mut self.nodes[at as usize].counter;
        *counter = (*counter + 1).min(super::COUNTER_MAX);
    }

    /// Gives back the memory of nodes that are free.
    pub fn compact(&mut self) {
        let nodes = self.nodes();
        let heads = nodes.len().max(HEADS_MIN);
        let mut table = Table {
            heads: vec![NONE; heads],
            nodes: Vec::with_capacity(nodes.len()),
            now: self.now,
            ..Table::default()
        };
        for at in nodes {
            let generation = self.generation(at);
            let (key, size) = (self.key(at), self.size(at));
            table.push(self.list(at), key, size, generation, self.counter(at));
        }
        *self = table;
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> u64 {
        let nodes = self.nodes.capacity() * std::mem::size_of::<Node>();
        (nodes + self.heads.capacity() * 4) as u64
    }

    fn take_node(&mut self) -> u32 {
        if self.free != NONE {
            let at = self.free;
            self.free = self.nodes[at as usize].chain;
            return at;
        }
        if self.nodes.len() >= self.heads.len() {
            self.grow();
        }
        if self.nodes.len() == self.nodes.capacity() {
            // By a quarter, not by doubling: memory is what limits how many keys are sampled.
            let more = (self.nodes.len() / 4).max(HEADS_MIN);
            self.nodes.reserve_exact(more);
        }
        self.nodes.push(Node {
            key: 0,
            size: 0,
            chain: NONE,
            older: NONE,
            younger: NONE,
            generation: 0,
            list: 0,
            counter: 0,
        });
        self.nodes.len() as u32 - 1
    }

    /// One head more, which takes from the chain of one other what is its own now (linear hashing, Litwin 1980). So no
    /// push chains all nodes anew: twice the heads at once took 100 us in an insert of a cache of 8 M items.
    fn grow(&mut self) {
        let new = self.heads.len();
        if new == self.heads.capacity() {
            self.heads.reserve_exact((new / 4).max(HEADS_MIN));
        }
        self.heads.push(NONE);
        if new == 0 {
            return;
        }
        let split = new - (new + 1).next_power_of_two() / 2;
        let mut at = std::mem::replace(&mut self.heads[split], NONE);
        while at != NONE {
            let head = self.head_of(self.nodes[at as usize].key);
            let next = std::mem::replace(&mut self.nodes[at as usize].chain, self.heads[head]);
            self.heads[head] = at;
            at = next;
        }
    }

    fn unchain(&mut self, at: u32, key: u32) {
        let head = self.head_of(key);
        let next = self.nodes[at as usize].chain;
        if self.heads[head] == at {
            self.heads[head] = next;
            return;
        }
        let mut before = self.heads[head];
        while self.nodes[before as usize].chain != at {
            before = self.nodes[before as usize].chain;
        }
        self.nodes[before as usize].chain = next;
    }

    /// By as many low bits as number the heads, or one fewer where that head is not there yet. The multiplication
    /// spreads keys that are no hashes; its high bits are the good ones, so they are put low.
    fn head_of(&self, key: u32) -> usize {
        let heads = self.heads.len();
        let spread = key.wrapping_mul(0x9E37_79B1).swap_bytes() as usize;
        let all = heads.next_power_of_two();
        let head = spread & (all - 1);
        if head < heads {
            head
        } else {
            head - all / 2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn lists_keep_their_order_and_keys_are_found() {
        let seed = 11u64;
        let mut word = seed;
        let mut table = Table::default();
        let mut model: [VecDeque<u32>; LISTS] = Default::default();
        for step in 0..20_000u32 {
            word = word.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            let key = (word >> 33) as u32 % 500;
            let list = ALL[(word >> 20) as usize % LISTS];
            match table.find(key) {
                Some(node) => {
                    let held = table.list(node);
                    assert!(
                        model[held as usize].contains(&key),
                        "seed {seed} step {step}"
                    );
                    model[held as usize].retain(|other| *other != key);
                    table.remove(node);
                }
                None => {
                    assert!(!model.iter().any(|keys| keys.contains(&key)));
                    table.push(list, key, step, step / 100, 0);
                    model[list as usize].push_back(key);
                }
            }
            for list in ALL {
                assert_eq!(table.len(list), model[list as usize].len());
                let oldest = table.oldest(list).map(|node| table.key(node));
                assert_eq!(oldest, model[list as usize].front().copied());
            }
        }
        let all: Vec<u32> = table.nodes().into_iter().map(|n| table.key(n)).collect();
        assert_eq!(all, model.concat_all());
        assert!(table.bytes() < 512 * 28 + 64);
    }

    trait ConcatAll {
        fn concat_all(&self) -> Vec<u32>;
    }

    impl ConcatAll for [VecDeque<u32>; LISTS] {
        fn concat_all(&self) -> Vec<u32> {
            self.iter().flatten().copied().collect()
        }
    }

    #[test]
    fn a_push_chains_few_nodes_anew() {
        let mut table = Table::default();
        let mut moved = 0;
        for key in 0..10_000u32 {
            let before = table.heads.clone();
            table.push(List::Main, key, 1, 0, 0);
            let touched = before.iter().zip(&table.heads).filter(|(a, b)| a != b);
            moved = moved.max(touched.count());
            assert!(table.find(key).is_some() && table.find(key / 2).is_some());
        }
        // One chain gives, one takes the new node; the new head is not among those from before.
        assert!(moved <= 2, "{moved} heads changed in one push");
        let longest = (0..10_000).map(|key| chain_length(&table, key)).max();
        assert!(longest <= Some(24), "a chain of {longest:?} nodes");
    }

    fn chain_length(table: &Table, key: u32) -> usize {
        let mut at = table.heads[table.head_of(key)];
        let mut nodes = 0;
        while at != NONE {
            nodes += 1;
            at = table.nodes[at as usize].chain;
        }
        nodes
    }

    #[test]
    fn generations_come_back_across_the_wrap_of_their_sixteen_bits() {
        let mut table = Table::default();
        table.push(List::Ghosts, 1, 0, 65_530, 0);
        table.push(List::Ghosts, 2, 0, 65_540, 0);
        let generation = |key| table.generation(table.find(key).expect("it was put in"));
        assert_eq!((generation(1), generation(2)), (65_530, 65_540));
    }
}
