//! What pressure there was and what was done about it: an entry a second for ten minutes, and the last changes of the
//! budget.

use super::controller::{Level, Verdict};
use serde_json::{json, Value};
use std::collections::VecDeque;

/// Seconds kept, and changes kept: 60 KiB together.
const SECONDS_MAX: usize = 600;
const CHANGES_MAX: usize = 200;

#[derive(Clone, Copy)]
struct Second {
    unix_s: u64,
    level: Level,
    stall_percent: f64,
    headroom: Option<u64>,
    budget: u64,
    charged: u64,
    spare: Option<u64>,
}

struct Change {
    unix_ms: u64,
    from: u64,
    to: u64,
    cause: &'static str,
    /// Points of hit ratio, by the miss-ratio curve.
    costs: Option<f64>,
}

#[derive(Default)]
pub struct History {
    seconds: VecDeque<Second>,
    changes: VecDeque<Change>,
    /// Bytes given back, and taken again, since the start; and how often.
    pub given_back: u64,
    pub taken_again: u64,
    pub reactions: u64,
    pub level: Level,
    /// Of late, 0 to 1; None while there is no curve to go by.
    pub hit_ratio: Option<f64>,
}

impl History {
    /// Books one look. The worst of a second is what is kept of it.
    pub fn book(
        &mut self,
        unix_ms: u64,
        verdict: &Verdict,
        budget: u64,
        charged: u64,
        spare: Option<u64>,
    ) {
        self.level = verdict.level;
        let second = Second {
            unix_s: unix_ms / 1000,
            level: verdict.level,
            stall_percent: verdict.stall_percent,
            headroom: verdict.headroom,
            budget,
            charged,
            spare,
        };
        match self.seconds.back_mut() {
            Some(last) if last.unix_s == second.unix_s => {
                if (last.level as u8) < second.level as u8 {
                    last.level = second.level;
                }
                last.stall_percent = last.stall_percent.max(second.stall_percent);
                last.headroom = last.headroom.min(second.headroom);
                (last.budget, last.charged, last.spare) = (budget, charged, spare);
            }
            _ => push(&mut self.seconds, second, SECONDS_MAX),
        }
    }

    /// Books a change of the budget, and the points of hit ratio it costs.
    pub fn change(
        &mut self,
        unix_ms: u64,
        from: u64,
        to: u64,
        cause: &'static str,
        costs: Option<f64>,
    ) {
        if to < from {
            self.reactions += 1;
            self.given_back += from - to;
        } else {
            self.taken_again += to - from;
        }
        let cause = if to < from { cause } else { "calm" };
        push(
            &mut self.changes,
            Change {
                unix_ms,
                from,
                to,
                cause,
                costs,
            },
            CHANGES_MAX,
        );
    }

    pub fn to_json(&self) -> Value {
        let seconds: Vec<Value> = self.seconds.iter().map(second_json).collect();
        let changes: Vec<Value> = self.changes.iter().map(change_json).collect();
        json!({
            "level": self.level.name(),
            "reactions": self.reactions,
            "given_back_bytes": self.given_back,
            "taken_again_bytes": self.taken_again,
            "hit_ratio": self.hit_ratio,
            "changes": changes,
            "seconds": seconds,
        })
    }
}

fn push<T>(queue: &mut VecDeque<T>, entry: T, most: usize) {
    if queue.len() == most {
        queue.pop_front();
    }
    queue.push_back(entry);
}

fn second_json(second: &Second) -> Value {
    json!({
        "unix_s": second.unix_s,
        "level": second.level.name(),
        "stall_percent": second.stall_percent,
        "headroom_bytes": second.headroom,
        "budget_bytes": second.budget,
        "charged_bytes": second.charged,
        "spare_bytes_for_one_point": second.spare,
    })
}

fn change_json(change: &Change) -> Value {
    json!({ "unix_ms": change.unix_ms, "from_bytes": change.from, "to_bytes": change.to, "cause": change.cause, "costs_points": change.costs })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(level: Level, stall_percent: f64) -> Verdict {
        Verdict {
            level,
            target: 0,
            cause: "test",
            stall_percent,
            headroom: Some(5),
        }
    }

    #[test]
    fn a_second_keeps_its_worst_and_ten_minutes_are_kept() {
        let mut history = History::default();
        history.book(1_000, &verdict(Level::Tight, 20.0), 7, 8, None);
        history.book(1_900, &verdict(Level::Calm, 1.0), 6, 6, Some(3));
        let json = history.to_json();
        assert_eq!(json["seconds"].as_array().unwrap().len(), 1);
        assert_eq!(json["seconds"][0]["level"], "tight");
        assert_eq!(json["seconds"][0]["budget_bytes"], 6);
        assert_eq!(json["seconds"][0]["spare_bytes_for_one_point"], 3);
        assert_eq!(json["level"], "calm");
        for n in 0..2_000 {
            history.book(n * 1000, &verdict(Level::Calm, 0.0), 1, 1, None);
            history.change(n * 1000, 10, 8, "test", Some(0.5));
            history.change(n * 1000, 8, 9, "test", None);
        }
        let json = history.to_json();
        assert_eq!(json["seconds"].as_array().unwrap().len(), SECONDS_MAX);
        assert_eq!(json["changes"].as_array().unwrap().len(), CHANGES_MAX);
        assert_eq!(json["changes"][0]["costs_points"], 0.5);
        assert_eq!(
            (history.reactions, history.given_back, history.taken_again),
            (2000, 4000, 2000)
        );
    }
}
