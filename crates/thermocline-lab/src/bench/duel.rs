//! The compression duel re-scored on traces: what following it costs beside never compressing and beside the best way
//! that does not change. A model: costs are sums of prices, items are of one size, every trace is read as its keys.

use super::row::{one, Bound, Rows};
use crate::machine::Machine;
use crate::report::Report;
use crate::trace::Origin;
use crate::workload::{mix, Kind, Popularity};
use anyhow::{Context, Result};
use clap::Args;
use std::path::PathBuf;
use thermocline::simulate::{Assumed, Crowd, Scored, Scoring};

/// The compression duel on recorded traces and synthetic loads: its cost beside off and beside the best way
#[derive(Args, Clone, Debug)]
pub struct DuelOptions {
    /// Folder of traces; synthetic loads alone without it
    #[arg(long)]
    pub traces: Option<PathBuf>,
    /// Requests of a trace that are used, at most
    #[arg(long, default_value_t = 2_000_000)]
    pub requests: usize,
    /// Cache sizes, percent of the keys
    #[arg(long, value_delimiter = ',', default_values_t = [2.0, 5.0, 10.0, 20.0, 40.0])]
    pub percents: Vec<f64>,
    /// Plain over coded bytes
    #[arg(long, default_value_t = 2.5)]
    pub ratio: f64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Smallest cache scored, items: smaller ones have no sample to speak of.
const ITEMS_MIN: u64 = 500;

/// Code and decode times and the time of a miss, microseconds; and requests under way at a time on two processors, which
/// work 12 us for a miss; 0: processors without end.
#[derive(Clone, Copy)]
struct Priced {
    code_us: f64,
    decode_us: f64,
    miss_us: f64,
    under_way: f64,
}

const PRICES: [Priced; 7] = [
    priced(1.0, 0.15, 10.0, 0.0),
    priced(1.0, 0.15, 100.0, 0.0),
    priced(1.0, 0.15, 1000.0, 0.0),
    priced(5.0, 0.3, 100.0, 0.0),
    priced(5.0, 1.5, 1000.0, 0.0),
    priced(3.0, 0.4, 100.0, 8.0),
    priced(3.0, 0.4, 100.0, 128.0),
];

const fn priced(code_us: f64, decode_us: f64, miss_us: f64, under_way: f64) -> Priced {
    Priced {
        code_us,
        decode_us,
        miss_us,
        under_way,
    }
}

impl Priced {
    fn name(self) -> String {
        let crowd = match self.under_way > 0.0 {
            true => format!(", {} under way", self.under_way),
            false => String::new(),
        };
        format!(
            "code {} us, decode {} us, miss {} us{crowd}",
            self.code_us, self.decode_us, self.miss_us
        )
    }

    /// What following the duel may lose in the worst load, percent: promised where a miss costs a hundred times the coding.
    fn loss_most(self) -> Bound {
        match self.code_us / self.miss_us <= 0.011 && self.under_way == 0.0 {
            true => Bound::AtMost(1.0),
            false => Bound::Free,
        }
    }
}

pub fn run(options: &DuelOptions) -> Result<Report> {
    let machine = Machine::read();
    let loads = loads(options)?;
    let mut rows = Rows::default();
    let mut points = Vec::new();
    for priced in PRICES {
        let scores = score_all(options, &loads, priced);
        add_rows(&mut rows, priced, &scores);
        points.extend(scores.into_iter().map(|scores| scores.point));
    }
    let mut report = Report::new(
        "the compression duel, re-scored",
        machine,
        rows.into_table(),
    );
    let names: Vec<&str> = loads.iter().map(|(name, ..)| name.as_str()).collect();
    report.notes.push(format!(
        "a model, not a system; loads: {}",
        names.join(", ")
    ));
    report.points = serde_json::to_value(points)?;
    Ok(report)
}

/// One load at one size, with everything about it for the record.
struct Score {
    scored: Scored,
    point: serde_json::Value,
}

impl Score {
    fn against_off(&self) -> f64 {
        100.0 * (self.scored.auto_ns / self.scored.off_ns - 1.0)
    }

    fn against_best(&self) -> f64 {
        100.0 * (self.scored.auto_ns / self.scored.best_ns() - 1.0)
    }
}

/// Loads too small for a sample at a size are left out.
fn score_all(options: &DuelOptions, loads: &[Load], priced: Priced) -> Vec<Score> {
    let mut scores = Vec::new();
    for (name, keys, distinct) in loads {
        for percent in &options.percents {
            let items = (*distinct as f64 * percent / 100.0) as u64;
            if items < ITEMS_MIN {
                continue;
            }
            let scored = score(items, keys, options.ratio, priced);
            let point = serde_json::json!({
                "trace": name, "percent": percent, "items": items,
                "code_us": priced.code_us, "decode_us": priced.decode_us, "miss_us": priced.miss_us,
                "under_way": priced.under_way,
                "off_ns": scored.off_ns, "on_ns": scored.on_ns, "filtered_ns": scored.filtered_ns,
                "auto_ns": scored.auto_ns, "switches": scored.switches,
            });
            scores.push(Score { scored, point });
        }
    }
    scores
}

/// Where nothing was scored the rows say so; a zero would look like a result.
fn add_rows(rows: &mut Rows, priced: Priced, scores: &[Score]) {
    let what = priced.name();
    let mean = |figure: fn(&Score) -> f64| {
        let sum: f64 = scores.iter().map(figure).sum();
        (!scores.is_empty()).then(|| sum / scores.len() as f64)
    };
    let most = |figure: fn(&Score) -> f64| scores.iter().map(figure).reduce(f64::max);
    rows.show(
        format!("{what}: cost against off, mean (%)"),
        mean(Score::against_off).and_then(one),
        1,
    );
    rows.show(
        format!("{what}: cost against the best way, mean (%)"),
        mean(Score::against_best).and_then(one),
        1,
    );
    rows.add(
        format!("{what}: worst loss against off (%)"),
        most(Score::against_off).and_then(|loss| one(loss.max(0.0))),
        2,
        priced.loss_most(),
        Bound::Free,
    );
    rows.show(
        format!("{what}: most changes of a run"),
        most(|score| score.scored.switches as f64).and_then(one),
        0,
    );
}

fn score(items: u64, keys: &[u64], ratio: f64, priced: Priced) -> Scored {
    let crowd = Crowd {
        under_way: priced.under_way,
        processors: 2.0,
        miss_cpu_ns: 12_000.0,
    };
    let mut scoring = Scoring::new(
        Assumed {
            items,
            coded_share: 1.0 / ratio,
            code_ns: priced.code_us * 1e3,
            decode_ns: priced.decode_us * 1e3,
            miss_ns: priced.miss_us * 1e3,
            base_ns: 300.0,
            crowd: (priced.under_way > 0.0).then_some(crowd),
        },
        7,
    );
    keys.iter().for_each(|&hash| scoring.request(hash));
    scoring.scored()
}

/// Name, hashes of the keys in order, and how many different ones.
type Load = (String, Vec<u64>, usize);

fn loads(options: &DuelOptions) -> Result<Vec<Load>> {
    let mut loads = vec![
        drawn("zipf 0.99", Popularity::Zipf(0.99), options.requests),
        drawn("uniform", Popularity::Uniform, options.requests),
    ];
    let looped = (0..options.requests as u64)
        .map(|at| mix(at % 50_000))
        .collect();
    loads.push(("loop".into(), looped, 50_000));
    if let Some(folder) = &options.traces {
        let list = std::fs::read_dir(folder)
            .with_context(|| format!("cannot read {}", folder.display()))?;
        let mut paths: Vec<PathBuf> = list.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        for path in paths {
            let origin = Origin::File(path);
            // Other files lie there too.
            let Ok(reader) = origin.open(None) else {
                continue;
            };
            let mut keys = Vec::new();
            for request in reader.take(options.requests) {
                let request = request?;
                if matches!(request.kind, Kind::Read | Kind::Write) {
                    keys.push(mix(request.id));
                }
            }
            let distinct: std::collections::HashSet<u64> = keys.iter().copied().collect();
            loads.push((origin.name(), keys, distinct.len()));
        }
    }
    Ok(loads)
}

fn drawn(name: &str, popularity: Popularity, requests: usize) -> Load {
    let keys = 100_000;
    let ranks = crate::workload::popularity::Ranks::new(popularity, keys);
    let mut random = crate::workload::Random::new(3);
    let list = (0..requests)
        .map(|_| mix(ranks.sample(&mut random)))
        .collect();
    (name.into(), list, keys as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(percent: f64) -> Vec<Vec<String>> {
        let report = run(&DuelOptions {
            traces: None,
            requests: 300_000,
            percents: vec![percent],
            ratio: 2.5,
            json: false,
        })
        .unwrap();
        assert_eq!(report.table.rows.len(), 4 * PRICES.len());
        report.table.rows
    }

    #[test]
    fn synthetic_loads_are_scored_and_the_loss_is_bounded() {
        let rows = rows(10.0);
        let bounded: Vec<_> = rows.iter().filter(|row| row[2] == "≤ 1.00").collect();
        assert!(bounded.len() >= 2, "{rows:?}");
        for row in bounded {
            assert_eq!(row[4], "met", "{row:?}");
        }
    }

    #[test]
    fn nothing_scored_is_no_zero() {
        for row in rows(0.001) {
            assert_eq!(row[4], "not measured", "{row:?}");
        }
    }
}
