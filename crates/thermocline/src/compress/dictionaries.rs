//! The dictionaries in force, and those that items still need.
//!
//! ```text
//! install -> current of its class -> (replaced) retired -> no live item needs it -> gone, its number free
//! ```
//! A reader decodes a copy of the coded bytes after it has unpinned, so its item may have gone and the
//! dictionary's number may have been given anew meanwhile: then decoding fails by the check or by the
//! number, and the reader reads again. Numbers are given in turn, so that one comes back late.
//!
//! Must hold: number 0 is the empty dictionary and never goes; a dictionary that a live item was coded with
//! stays (`live` is raised before the item is published and lowered after it is buried).

use super::classes::Class;
use crate::codec::{Dictionary, DICTIONARY_ID_MAX};
use crate::mem::current_core;
use crate::sync::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

const IDS: usize = DICTIONARY_ID_MAX as usize + 1;
/// Dictionaries in force or retired, the empty one not counted. Sixteen kinds by prefix gain what there is
/// to be had: eight reach 95 % of one for each kind.
pub(crate) const DICTIONARIES_MAX: usize = 16;

/// What readers and encoders look at: never changed, only replaced.
#[derive(Clone, Default)]
pub(crate) struct Table {
    by_id: Vec<Option<Arc<Dictionary>>>,
    by_class: Vec<(Class, u8)>,
    /// For kinds without one of their own.
    shared: u8,
}

impl Table {
    fn new() -> Table {
        let mut by_id = vec![None; IDS];
        by_id[0] = Some(Arc::new(Dictionary::new(0, b"")));
        Table {
            by_id,
            ..Table::default()
        }
    }

    pub(crate) fn get(&self, id: u8) -> Option<&Arc<Dictionary>> {
        self.by_id[id as usize].as_ref()
    }

    /// The dictionary to code values of `class` with.
    pub(crate) fn current(&self, class: Class) -> &Arc<Dictionary> {
        let own = self.by_class.iter().find(|(of, _)| *of == class);
        let id = own.map_or(self.shared, |&(_, id)| id);
        self.get(id).expect("what is in force is there")
    }

    pub(crate) fn has_own(&self, class: Class) -> bool {
        self.by_class.iter().any(|(of, _)| *of == class)
    }

    pub(crate) fn has_any(&self) -> bool {
        self.shared != 0
    }

    fn is_in_force(&self, id: u8) -> bool {
        id == self.shared || self.by_class.iter().any(|&(_, own)| own == id)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Dictionary>> {
        self.by_id.iter().flatten()
    }
}

#[repr(align(64))]
struct Handle(RwLock<Arc<Table>>);

/// Live items and bytes by dictionary.
#[derive(Default)]
struct Live {
    items: AtomicU64,
    coded_bytes: AtomicU64,
    plain_bytes: AtomicU64,
}

/// One dictionary in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) items: u64,
    pub(crate) coded_bytes: u64,
    pub(crate) plain_bytes: u64,
}

pub(crate) struct Dictionaries {
    /// One handle a core on the same table, so that readers do not meet on one lock.
    handles: Box<[Handle]>,
    live: Box<[Live]>,
}

impl Dictionaries {
    pub(crate) fn new() -> Dictionaries {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let table = Arc::new(Table::new());
        Dictionaries {
            handles: (0..cores)
                .map(|_| Handle(RwLock::new(table.clone())))
                .collect(),
            live: (0..IDS).map(|_| Live::default()).collect(),
        }
    }

    /// Shows the table. Held for a decode or an encode at most; costs two uncontended atomic steps.
    #[inline]
    pub(crate) fn with<R>(&self, look: impl FnOnce(&Table) -> R) -> R {
        let handle = &self.handles[current_core() % self.handles.len()];
        look(
            &handle
                .0
                .read()
                .unwrap_or_else(|poisoned| poisoned.into_inner()),
        )
    }

    fn replace(&self, table: Table) {
        let table = Arc::new(table);
        for handle in &self.handles {
            *handle
                .0
                .write()
                .unwrap_or_else(|poisoned| poisoned.into_inner()) = table.clone();
        }
    }

    /// Whether there is any beside the empty one, in force or retired.
    pub(crate) fn has_some(&self) -> bool {
        self.with(|table| table.all().count() > 1)
    }

    /// Bytes of all dictionaries and their tables.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.with(|table| table.all().map(|it| it.memory_bytes()).sum())
    }

    /// A number no dictionary has, the one after the youngest first. None: all places are taken.
    pub(crate) fn free_id(&self, after: u8) -> Option<u8> {
        self.with(|table| {
            if table.all().count() > DICTIONARIES_MAX {
                return None;
            }
            (1..IDS as u8)
                .map(|step| (after as usize + step as usize) % IDS)
                .map(|id| id as u8)
                .find(|&id| id != 0 && table.get(id).is_none())
        })
    }

    /// Puts a dictionary in force, for one kind or for all without their own. The caller is the only one
    /// that changes the table.
    pub(crate) fn install(&self, class: Option<Class>, dictionary: Dictionary) {
        let mut table = self.with(Table::clone);
        let id = dictionary.id();
        table.by_id[id as usize] = Some(Arc::new(dictionary));
        match class {
            None => table.shared = id,
            Some(class) => {
                table.by_class.retain(|&(of, _)| of != class);
                table.by_class.push((class, id));
            }
        }
        self.replace(table);
    }

    /// Drops retired dictionaries that no live item needs. True if any went.
    pub(crate) fn drop_unused(&self) -> bool {
        let unused = |table: &Table| -> Vec<u8> {
            (1..IDS as u8)
                .filter(|&id| table.get(id).is_some() && !table.is_in_force(id))
                .filter(|&id| self.used(id).items == 0)
                .collect()
        };
        let ids = self.with(unused);
        if ids.is_empty() {
            return false;
        }
        let mut table = self.with(Table::clone);
        ids.iter().for_each(|&id| table.by_id[id as usize] = None);
        self.replace(table);
        true
    }

    /// Drops all of them. No live item needs one; a reader that still has an item's bytes reads again.
    pub(crate) fn clear(&self) {
        if self.has_some() {
            self.replace(Table::new());
        }
    }

    /// Whether items should leave this dictionary when they are copied.
    pub(crate) fn is_retired(&self, id: u8) -> bool {
        self.with(|table| !table.is_in_force(id))
    }

    pub(crate) fn raise(&self, id: u8, coded_bytes: usize, plain_bytes: usize) {
        let live = &self.live[id as usize];
        live.items.fetch_add(1, Ordering::Relaxed);
        live.coded_bytes
            .fetch_add(coded_bytes as u64, Ordering::Relaxed);
        live.plain_bytes
            .fetch_add(plain_bytes as u64, Ordering::Relaxed);
    }

    /// Saturates: the numbers come from the item's bytes, and damaged ones must not do more harm than that a
    /// dictionary goes early (its items are misses then) or late.
    pub(crate) fn lower(&self, id: u8, coded_bytes: usize, plain_bytes: usize) {
        let live = &self.live[id as usize];
        for (cell, by) in [
            (&live.items, 1),
            (&live.coded_bytes, coded_bytes as u64),
            (&live.plain_bytes, plain_bytes as u64),
        ] {
            let less = |now: u64| Some(now.saturating_sub(by));
            let _ = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    pub(crate) fn used(&self, id: u8) -> Use {
        let live = &self.live[id as usize];
        Use {
            items: live.items.load(Ordering::Relaxed),
            coded_bytes: live.coded_bytes.load(Ordering::Relaxed),
            plain_bytes: live.plain_bytes.load(Ordering::Relaxed),
        }
    }

    /// Plain bytes of all values that lie coded.
    pub(crate) fn plain_bytes(&self) -> u64 {
        (0..IDS as u8).map(|id| self.used(id).plain_bytes).sum()
    }

    /// All dictionaries, and whether new values are coded with them.
    pub(crate) fn list(&self) -> Vec<(Arc<Dictionary>, bool)> {
        self.with(|table| {
            let row = |it: &Arc<Dictionary>| (it.clone(), table.is_in_force(it.id()));
            table.all().map(row).collect()
        })
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn dictionary(id: u8) -> Dictionary {
        Dictionary::new(id, format!("dictionary {id}").as_bytes())
    }

    #[test]
    fn a_kind_has_its_own_others_share() {
        let dictionaries = Dictionaries::new();
        let id_of = |class| dictionaries.with(|table| table.current(class).id());
        assert_eq!(id_of(Class(9)), 0);
        dictionaries.install(None, dictionary(1));
        dictionaries.install(Some(Class(9)), dictionary(2));
        assert_eq!((id_of(Class(9)), id_of(Class(8))), (2, 1));
        assert!(dictionaries.with(|table| table.has_own(Class(9)) && !table.has_own(Class(8))));
    }

    #[test]
    fn a_retired_dictionary_stays_while_items_need_it() {
        let dictionaries = Dictionaries::new();
        dictionaries.install(None, dictionary(1));
        dictionaries.raise(1, 50, 100);
        dictionaries.install(None, dictionary(2));
        assert!(dictionaries.is_retired(1) && !dictionaries.is_retired(2));
        assert!(!dictionaries.drop_unused());
        dictionaries.lower(1, 50, 100);
        assert!(dictionaries.drop_unused());
        assert!(dictionaries.with(|table| table.get(1).is_none() && table.get(2).is_some()));
        assert!(
            dictionaries.with(|table| table.get(0).is_some()),
            "the empty one never goes"
        );
    }

    #[test]
    fn numbers_come_in_turn_and_end_at_the_limit() {
        let dictionaries = Dictionaries::new();
        assert_eq!(dictionaries.free_id(0), Some(1));
        assert_eq!(dictionaries.free_id(63), Some(1));
        dictionaries.install(None, dictionary(5));
        assert_eq!(dictionaries.free_id(4), Some(6));
        (10..25).for_each(|id| dictionaries.install(Some(Class(id as u32)), dictionary(id)));
        assert_eq!(dictionaries.free_id(30), None);
    }
}
