//! Where a segment's bytes come from decides which pool and which generation it is born into.

use super::{Pool, Setting};
use crate::generation::Generations;

/// Why a segment is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// For new items, admitted to this pool.
    Fresh(Pool),
    /// For promotions and second chances.
    Survivors,
    /// For the live rest of a main segment of this generation.
    Compacted(u32),
}

impl Origin {
    /// The pool and generation of the segment; main's books count it from now on.
    ///
    /// Under the kernel's rules all segments are main's: what is new to it starts above the oldest generation,
    /// what refaulted in the youngest, what is protected one above the oldest.
    pub fn open(self, setting: &Setting, generations: &mut Generations) -> (Pool, u32) {
        let classes = setting.rules.classes;
        match self {
            Origin::Compacted(source) => (Pool::Main, generations.open_main_as(source)),
            Origin::Fresh(Pool::Probation) | Origin::Survivors if classes => {
                let old = match self {
                    Origin::Survivors => generations.oldest() + 1,
                    _ => generations.above_oldest(),
                };
                (Pool::Main, generations.open_main_as(old))
            }
            Origin::Fresh(Pool::Probation) => (Pool::Probation, generations.now()),
            Origin::Fresh(Pool::Main) | Origin::Survivors => (Pool::Main, generations.open_main()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Objective, ReclaimPolicy};

    fn setting(policy: ReclaimPolicy) -> &'static Setting {
        &policy.settings(Objective::Balanced)[0]
    }

    #[test]
    fn generational_segments_are_born_young() {
        let setting = setting(ReclaimPolicy::GenDuel);
        let mut generations = Generations::new(4);
        generations.open_main();
        generations.age();
        generations.age();
        let mut open = |origin: Origin| origin.open(setting, &mut generations);
        assert_eq!(open(Origin::Fresh(Pool::Probation)), (Pool::Probation, 2));
        assert_eq!(open(Origin::Fresh(Pool::Main)), (Pool::Main, 2));
        assert_eq!(open(Origin::Survivors), (Pool::Main, 2));
        assert_eq!(open(Origin::Compacted(0)), (Pool::Main, 0));
    }

    #[test]
    fn the_kernels_are_born_where_it_puts_them() {
        let setting = setting(ReclaimPolicy::Mglru);
        let mut generations = Generations::on_demand();
        let oldest = generations.open_main_as(0);
        assert_eq!(oldest, 0);
        let fresh = Origin::Fresh(Pool::Probation).open(setting, &mut generations);
        assert_eq!(fresh, (Pool::Main, 0), "three generations: the oldest");
        generations.age();
        let fresh = Origin::Fresh(Pool::Probation).open(setting, &mut generations);
        assert_eq!(fresh, (Pool::Main, 1), "four: one above");
        let kept = Origin::Survivors.open(setting, &mut generations);
        assert_eq!(kept, (Pool::Main, 1));
        let refaulted = Origin::Fresh(Pool::Main).open(setting, &mut generations);
        assert_eq!(refaulted, (Pool::Main, 3));
    }
}
