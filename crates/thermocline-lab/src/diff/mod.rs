//! `thermolab diff A B`: the fields of the environment that differ between two results, what most likely matters
//! first. A field that one side read and the other did not is a finding of its own: the question nobody can answer.
//!
//! Owns the ranking; leaves the reading of fields to `environment` and the points to `point`.

mod fields;
mod side;
mod weight;

pub use fields::{differences, Difference, Reading};
pub use side::{FieldMap, Side};
pub use weight::weight;

use anyhow::Result;
use std::fmt::Write;
use std::path::PathBuf;

/// Rows printed unless `--all`.
const ROWS_SHOWN: usize = 30;

/// Ranks the environment fields that differ between two results
#[derive(clap::Args, Debug)]
pub struct DiffOptions {
    /// A run's directory or points file
    a: PathBuf,
    /// Another
    b: PathBuf,
    /// Only points of this arm, on both sides
    #[arg(long)]
    arm: Option<String>,
    /// Every difference, not only the first thirty
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(options: &DiffOptions) -> Result<String> {
    let a = Side::read(&options.a, options.arm.as_deref())?;
    let b = Side::read(&options.b, options.arm.as_deref())?;
    let differences = differences(&a.fields, &b.fields);
    if options.json {
        return Ok(serde_json::to_string_pretty(&differences)? + "\n");
    }
    let shown = if options.all { usize::MAX } else { ROWS_SHOWN };
    Ok(print(&a, &b, &differences, shown))
}

fn print(a: &Side, b: &Side, differences: &[Difference], shown: usize) -> String {
    let mut out = format!("A  {}\nB  {}\n\n", a.about, b.about);
    for note in a.notes.iter().chain(&b.notes) {
        let _ = writeln!(out, "! {note}");
    }
    if differences.is_empty() {
        out += "No field differs.\n";
        return out;
    }
    let one_sided = differences.iter().filter(|d| d.one_sided()).count();
    let _ = writeln!(
        out,
        "{} fields differ; {one_sided} of them were read on one side only. What most likely matters first:\n",
        differences.len()
    );
    for (rank, d) in differences.iter().take(shown).enumerate() {
        let _ = writeln!(out, "{:>3}  {}/{}  ({})", rank + 1, d.group, d.field, d.why);
        let _ = writeln!(out, "       A  {}", d.a);
        let _ = writeln!(out, "       B  {}", d.b);
    }
    if differences.len() > shown {
        let _ = writeln!(out, "\n{} more with --all", differences.len() - shown);
    }
    out
}
