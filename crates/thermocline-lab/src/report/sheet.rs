//! How figures are printed: medians with their spread, Markdown tables that can be pasted into the docs with
//! the command and the machine above them, and JSON. Holds no figures of its own.

use crate::machine::Machine;
use serde::{Deserialize, Serialize};

/// A figure over the rounds of one arm: the median, and the extremes so that noise is seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub rounds: usize,
}

impl Spread {
    /// `None` without a figure to take it from.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            (sorted[middle - 1] + sorted[middle]) / 2.0
        };
        Some(Spread {
            median,
            min,
            max,
            rounds: sorted.len(),
        })
    }
}

/// `412` or `412 [398–430]`; `–` where there is no figure.
pub fn show(spread: Option<Spread>, decimals: usize) -> String {
    match spread {
        None => "–".into(),
        Some(s) if s.rounds < 2 || s.min == s.max => format!("{:.decimals$}", s.median),
        Some(s) => format!(
            "{:.decimals$} [{:.decimals$}–{:.decimals$}]",
            s.median, s.min, s.max
        ),
    }
}

/// A Markdown table.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Table {
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Table {
            head: head.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        debug_assert_eq!(cells.len(), self.head.len(), "a cell for each column");
        self.rows.push(cells);
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
        writeln!(f, "{}", line(&self.head))?;
        writeln!(f, "|{}", "---|".repeat(self.head.len()))?;
        for row in &self.rows {
            writeln!(f, "{}", line(row))?;
        }
        Ok(())
    }
}

/// What a verb hands back: the table for people, the points for programs.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub title: String,
    pub command: String,
    pub machine: Machine,
    /// What must be known to read the figures right: settings, what was not charged, how it was measured.
    pub notes: Vec<String>,
    pub table: Table,
    /// The figures the first table was made of.
    pub details: Vec<Table>,
    /// Raw results, one for each arm and round.
    pub points: serde_json::Value,
    /// Operations that failed: any makes the exit code non-zero.
    pub failures: u64,
}

impl Report {
    pub fn new(title: impl Into<String>, machine: Machine, table: Table) -> Self {
        Report {
            title: title.into(),
            command: command_line(),
            machine,
            notes: Vec::new(),
            table,
            details: Vec::new(),
            points: serde_json::Value::Null,
            failures: 0,
        }
    }

    /// Prints to standard output, as JSON or Markdown.
    pub fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            println!("{}", serde_json::to_string_pretty(self)?);
            return Ok(());
        }
        println!("### {}\n", self.title);
        println!("`{}`\n", self.command);
        println!("{}\n", self.machine);
        for table in std::iter::once(&self.table).chain(&self.details) {
            println!("{table}");
        }
        for note in &self.notes {
            println!("- {note}");
        }
        if self.failures > 0 {
            println!(
                "- **{} operations failed**; the figures above do not count them",
                self.failures
            );
        }
        println!();
        Ok(())
    }
}

/// This process's command line, the binary by its bare name.
fn command_line() -> String {
    let mut words = std::env::args();
    words.next();
    std::iter::once("thermolab".to_string())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spread() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([f64::NAN]), None);
        let odd = Spread::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!(
            (odd.median, odd.min, odd.max, odd.rounds),
            (2.0, 1.0, 3.0, 3)
        );
        assert_eq!(Spread::of([4.0, 1.0]).unwrap().median, 2.5);
    }

    #[test]
    fn absent_figures_are_dashes_not_zeros() {
        assert_eq!(show(None, 1), "–");
        assert_eq!(show(Spread::of([1.25]), 1), "1.2");
        assert_eq!(show(Spread::of([1.0, 2.0, 4.0]), 0), "2 [1–4]");
    }

    #[test]
    fn tables_are_markdown() {
        let mut table = Table::new(["arm", "ns"]);
        table.row(["ours", "1"]);
        assert_eq!(table.to_string(), "| arm | ns |\n|---|---|\n| ours | 1 |\n");
    }
}
