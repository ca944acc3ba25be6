//! `thermolab ttest FILE`: the comparisons of an R script as R prints them, the tables of seed 000 made from them,
//! and what the document leaves out: the family, the size, the ranks, the baseline's own error, a verdict.

mod r_print;
mod scan;
mod script;
mod tables;

use crate::report::Table;
use crate::stats::{self, Better, Comparison, Judgement, Runs};
use anyhow::{ensure, Context, Result};
use std::path::{Path, PathBuf};

/// A longer file is no script.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Welch's test on the figures of an R script, as R prints it, and the tables of seed 000
#[derive(clap::Args, Debug)]
pub struct TtestOptions {
    /// The R script, or a text that contains it: `v <- c(..)`, `a <- array(v, dim = c(..))`, loops with t.test
    file: PathBuf,
    /// What the figures are, for the tables' heads
    #[arg(long, default_value = "OPS")]
    metric: String,
    /// A smaller change, percent of the baseline, does not matter: enables the verdict `equivalent`
    #[arg(long, value_name = "PERCENT")]
    smallest_effect: Option<f64>,
    /// Lower figures are better
    #[arg(long)]
    lower_is_better: bool,
    /// Leave out R's own print of every test
    #[arg(long)]
    tables_only: bool,
}

/// Everything the verb prints.
pub fn run(options: &TtestOptions) -> Result<String> {
    let file = options.file.display();
    if let Some(percent) = options.smallest_effect {
        ensure!(
            percent > 0.0 && percent.is_finite(),
            "--smallest-effect {percent}: write a percentage above zero"
        );
    }
    let text = read_file(&options.file)?;
    let tests = script::read(&text).with_context(|| file.to_string())?;
    let mut tested = Vec::new();
    let mut out = String::new();
    for test in &tests {
        let welch = stats::welch(&test.x.values, &test.y.values, 0.95)
            .with_context(|| format!("{file}: {}", test.name))?;
        if !options.tables_only {
            out += &r_print::htest(&welch, &test.written);
            out += &r_print::summary(&test.name, &welch);
        }
        tested.push((test, welch));
    }
    out += "\n";
    out += &tables::tables(&tested, &options.metric);
    out += &extended(&tests, options).to_string();
    out += "\nx is the baseline. p: Welch's, two-sided; Holm's and Benjamini-Hochberg's over all rows. \
            seed %: the interval with the\nbaseline's mean taken as exact; Fieller %: with its error. \
            g: Hedges'. rank p: Mann-Whitney's; shift: Hodges-Lehmann's.\n";
    Ok(out)
}

fn read_file(path: &Path) -> Result<String> {
    let bytes = std::fs::metadata(path)
        .with_context(|| format!("cannot read {}", path.display()))?
        .len();
    ensure!(
        bytes <= FILE_BYTES_MAX,
        "{} has {bytes} bytes, more than the {FILE_BYTES_MAX} a script may have",
        path.display()
    );
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// A script knows complete runs only.
fn whole(side: &script::Side) -> Runs<'_> {
    Runs {
        values: &side.values,
        did_not_complete: 0,
    }
}

fn extended(tests: &[script::Test], options: &TtestOptions) -> Table {
    let judgement = Judgement {
        better: if options.lower_is_better {
            Better::Lower
        } else {
            Better::Higher
        },
        alpha: 0.05,
        smallest_effect_percent: options.smallest_effect,
        family: tests.len(),
    };
    let comparisons: Vec<Comparison> = tests
        .iter()
        .map(|test| stats::compare(whole(&test.x), whole(&test.y), &judgement))
        .collect();
    let p: Vec<Option<f64>> = comparisons.iter().map(Comparison::p).collect();
    let (holm, bh) = (stats::holm(&p), stats::benjamini_hochberg(&p));
    let mut table = Table::new([
        "comparison",
        "change %",
        "seed %",
        "Fieller %",
        "p",
        "Holm p",
        "BH p",
        "g",
        "rank p",
        "shift",
        "verdict",
    ]);
    for (i, (test, c)) in tests.iter().zip(&comparisons).enumerate() {
        let interval = |interval: Result<stats::Interval, _>| {
            interval.map_or("–".into(), |i| format!("[{:.2}, {:.2}]", i.low, i.high))
        };
        let p = |p: Option<f64>| p.map_or("–".into(), |p| r_print::format(&[p], 4).remove(0));
        let change = c.welch.ok().and_then(|w| w.change_percent());
        table.row([
            test.name.clone(),
            change.map_or("–".into(), |change| format!("{change:+.2}")),
            interval(c.seed_percent),
            interval(c.fieller_percent),
            p(c.p()),
            p(holm[i]),
            p(bh[i]),
            c.hedges_g.map_or("–".into(), |g| format!("{g:.2}")),
            p(c.rank.ok().map(|rank| rank.p)),
            c.shift.map_or("–".into(), |(shift, i)| {
                format!("{shift:.1} [{:.1}, {:.1}]", i.low, i.high)
            }),
            stats::judge(c, holm[i], &judgement).to_string(),
        ]);
    }
    table
}
