//! How often and in which order the arms are taken. Pure: the same file and seed give the same order anywhere.

use super::arms::Arm;
use crate::point::Planned;
use crate::settings::{Settings, Table};
use crate::workload::Random;
use anyhow::{bail, Result};

/// `[plan]`, but for what one point needs (that is `measure::Setup`'s).
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Points of each arm.
    pub repeats: usize,
    /// Blocks they are spread over; each block has every arm equally often.
    pub blocks: usize,
    pub order: Order,
    pub seed: u64,
    pub kind: Kind,
    /// Arms that are the baselines again: their differences are false alarms.
    pub aa: bool,
    /// Longest a subject may take to be loaded, s.
    pub load_seconds_max: u64,
    /// What is left for `measure::Setup`.
    pub setup: Table,
}

/// Order within blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Shuffled in each block, by seed.
    Random,
    /// Forward and backward in turn: ABBA.
    Abba,
}

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// After `repeats`, whatever comes out.
    Fixed,
    /// After so many looks at equal distances, or at an earlier one whose bound is passed.
    Sequential { looks: usize },
}

const REPEATS_MAX: u64 = 100_000;
const POINTS_MAX: usize = 1_000_000;
const LOOKS_USUAL: u64 = 3;

impl Plan {
    pub fn read(settings: &mut Settings) -> Result<Plan> {
        let repeats = settings.count("repeats")?.unwrap_or(10);
        if repeats == 0 || repeats > REPEATS_MAX {
            bail!("`plan.repeats` lies between 1 and {REPEATS_MAX}");
        }
        let blocks = settings.count("blocks")?.unwrap_or(repeats);
        if blocks == 0 || repeats % blocks != 0 {
            bail!("`plan.blocks` = {blocks}: {repeats} repeats cannot be spread over it evenly");
        }
        let looks = settings.count("looks")?;
        let sequential = settings
            .choice("kind", &[("fixed", false), ("sequential", true)])?
            .unwrap_or(looks.is_some());
        let kind = match (sequential, looks.unwrap_or(LOOKS_USUAL)) {
            (false, _) if looks.is_some() => {
                bail!("`plan.looks` is for `plan.kind` = \"sequential\"")
            }
            (false, _) => Kind::Fixed,
            (true, looks) if looks < 2 || looks > repeats / 2 => {
                bail!("`plan.looks` lies between 2 and half of `plan.repeats`")
            }
            (true, looks) => Kind::Sequential {
                looks: looks as usize,
            },
        };
        Ok(Plan {
            repeats: repeats as usize,
            blocks: blocks as usize,
            order: settings
                .choice("order", &[("random", Order::Random), ("abba", Order::Abba)])?
                .unwrap_or(Order::Random),
            seed: settings.count("seed")?.unwrap_or(1),
            kind,
            aa: settings.truth("aa")?.unwrap_or(false),
            load_seconds_max: settings
                .duration("load_limit")?
                .map_or(3600, |limit| limit.as_secs().max(1)),
            setup: settings.rest(),
        })
    }

    /// Every point in the order in which they are taken.
    pub fn points(&self, arms: &[Arm]) -> Result<Vec<Planned>> {
        if self.repeats.saturating_mul(arms.len()) > POINTS_MAX {
            bail!("`plan.repeats`: more than {POINTS_MAX} points");
        }
        let each = self.repeats / self.blocks;
        let mut random = Random::lane(self.seed, 0x6f72_6465_7273);
        let mut points = Vec::new();
        for block in 0..self.blocks {
            let mut order: Vec<&Arm> = (0..each).flat_map(|_| arms).collect();
            match self.order {
                Order::Random => shuffle(&mut order, &mut random),
                Order::Abba if block % 2 == 1 => order.reverse(),
                Order::Abba => {}
            }
            for arm in order {
                points.push(Planned {
                    index: points.len(),
                    block,
                    arm: arm.name.clone(),
                    params: arm.params.clone(),
                });
            }
        }
        Ok(points)
    }
}

/// Fisher and Yates.
fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::super::arms::expand;
    use super::*;
    use serde_json::json;

    fn plan(values: serde_json::Value) -> Result<Plan> {
        let mut settings = Settings::new("plan", serde_json::from_value(values).unwrap());
        Plan::read(&mut settings)
    }

    fn arms() -> Vec<Arm> {
        expand(
            Some(json!([{ "name": "a" }, { "name": "b" }, { "name": "c" }])),
            None,
        )
        .unwrap()
    }

    fn order(plan: &Plan) -> Vec<(usize, String)> {
        let points = plan.points(&arms()).unwrap();
        for (index, point) in points.iter().enumerate() {
            assert_eq!(point.index, index);
        }
        points.into_iter().map(|p| (p.block, p.arm)).collect()
    }

    #[test]
    fn every_block_has_every_arm_and_the_seed_decides() {
        let ten = plan(json!({ "repeats": 10 })).unwrap();
        let taken = order(&ten);
        assert_eq!(taken.len(), 30);
        for block in taken.chunks(3) {
            let mut names: Vec<&str> = block.iter().map(|(_, arm)| arm.as_str()).collect();
            names.sort_unstable();
            assert_eq!(names, ["a", "b", "c"]);
            assert!(block.iter().all(|(number, _)| *number == block[0].0));
        }
        assert_eq!(order(&ten), taken, "the same order again");
        let other = plan(json!({ "repeats": 10, "seed": 2 })).unwrap();
        assert_ne!(order(&other), taken);
        let firsts = taken.chunks(3).filter(|block| block[0].1 == "a").count();
        assert!(firsts < 10, "not always the same arm first");
    }

    #[test]
    fn abba_goes_forward_and_backward() {
        let abba = plan(json!({ "repeats": 2, "order": "abba" })).unwrap();
        let names: Vec<String> = order(&abba).into_iter().map(|(_, arm)| arm).collect();
        assert_eq!(names, ["a", "b", "c", "c", "b", "a"]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (values, said) in [
            (json!({ "repeats": 0 }), "plan.repeats"),
            (json!({ "repeats": 10, "blocks": 3 }), "plan.blocks"),
            (json!({ "kind": "sequential", "looks": 9 }), "plan.looks"),
            (json!({ "kind": "fixed", "looks": 3 }), "plan.looks"),
            (json!({ "order": "abab" }), "did you mean `abba`"),
        ] {
            let error = plan(values).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let sequential = plan(json!({ "kind": "sequential" })).unwrap();
        assert_eq!(sequential.kind, Kind::Sequential { looks: 3 });
    }
}
