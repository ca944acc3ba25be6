//! The tables of seed 000, in its own layout: one for each `t.test` of the script, rows for the innermost loop,
//! columns for the outer, means over the interval of the change. Intervals are cut after two decimals, not
//! rounded, as they are there.

use super::r_print;
use super::script::Test;
use crate::stats::Welch;
use std::fmt::Write;

/// A test and its result.
pub type Tested<'a> = (&'a Test, Welch);

/// All tables, with common column widths.
pub fn tables(tested: &[Tested<'_>], metric: &str) -> String {
    let last = tested.iter().map(|(test, _)| test.statement).max();
    let grids: Vec<Grid> = (0..=last.unwrap_or(0))
        .map(|statement| {
            let of: Vec<&Tested<'_>> = tested
                .iter()
                .filter(|(test, _)| test.statement == statement)
                .collect();
            Grid::of(&of, metric)
        })
        .filter(|grid| grid.head.len() > 1)
        .collect();
    let columns = grids.iter().map(|grid| grid.head.len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| grids.iter().map(|g| g.width(column)).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for (number, grid) in grids.iter().enumerate() {
        grid.print(&widths, &mut out);
        let _ = writeln!(
            out,
            "Table {}. Comparison between {}\n",
            number + 1,
            grid.title
        );
    }
    out
}

struct Grid {
    title: String,
    head: Vec<String>,
    /// Row name, then two lines for each column.
    rows: Vec<(String, Vec<[String; 2]>)>,
}

impl Grid {
    /// The side that differs makes the title; of what both sides share, the first word is the column and the
    /// rest the row.
    fn of(tested: &[&Tested<'_>], metric: &str) -> Grid {
        let mut grid = Grid {
            title: String::new(),
            head: vec![format!("Mean {metric} [95% CI]")],
            rows: Vec::new(),
        };
        for (test, welch) in tested {
            let shared = shared_words(test);
            let (column, row) = match shared.split_first() {
                Some((column, row)) if !row.is_empty() => (spoken(column), row_name(row)),
                _ => ("All".to_string(), test.name.clone()),
            };
            if grid.title.is_empty() {
                grid.title = title(test);
            }
            if !grid.head[1..].contains(&column) {
                grid.head.push(column);
            }
            if !grid.rows.iter().any(|(name, _)| *name == row) {
                grid.rows.push((row.clone(), Vec::new()));
            }
            if let Some((_, cells)) = grid.rows.iter_mut().find(|(name, _)| *name == row) {
                cells.push(cell(welch));
            }
        }
        grid
    }

    fn width(&self, column: usize) -> usize {
        let head = self.head.get(column).map_or(0, String::len);
        let cells = self.rows.iter().map(|(name, cells)| match column {
            0 => name.len(),
            _ => cells
                .get(column - 1)
                .map_or(0, |lines| lines[0].len().max(lines[1].len())),
        });
        cells.max().unwrap_or(0).max(head)
    }

    fn print(&self, widths: &[usize], out: &mut String) {
        let widths = &widths[..self.head.len()];
        let rule: String = widths
            .iter()
            .map(|w| format!("+{}", "-".repeat(w + 2)))
            .collect();
        let line = |cells: &[&str], out: &mut String| {
            for (i, width) in widths.iter().enumerate() {
                let cell = cells.get(i).copied().unwrap_or_default();
                let _ = write!(out, "| {cell:<width$} ");
            }
            *out += "|\n";
        };
        let head: Vec<&str> = self.head.iter().map(String::as_str).collect();
        let _ = writeln!(out, "{rule}+");
        line(&head, out);
        let _ = writeln!(out, "{rule}+");
        for (name, cells) in &self.rows {
            for part in 0..2 {
                let first = if part == 0 { name.as_str() } else { "" };
                let mut row = vec![first];
                row.extend(cells.iter().map(|lines| lines[part].as_str()));
                line(&row, out);
            }
            let _ = writeln!(out, "{rule}+");
        }
    }
}

fn cell(welch: &Welch) -> [String; 2] {
    let means = r_print::format(&[welch.x.mean, welch.y.mean], 7);
    let change = welch.interval.negated();
    let cut = |value: f64| (value * 100.0).trunc() / 100.0;
    [
        format!("{} / {}", means[0], means[1]),
        format!("[{:.2}, {:.2}]", cut(change.low), cut(change.high)),
    ]
}

/// The words both sides have, in order.
fn shared_words(test: &Test) -> Vec<String> {
    let pairs = test.x.words.iter().zip(&test.y.words);
    pairs
        .filter(|(x, y)| x == y)
        .map(|(x, _)| x.clone())
        .collect()
}

fn title(test: &Test) -> String {
    let differing = test.x.words.iter().zip(&test.y.words).find(|(x, y)| x != y);
    match differing {
        Some((x, y)) => match (x.as_str(), y.as_str()) {
            ("baseline", "patched") => "the baseline and the patched kernels".into(),
            (x, y) => format!(
                "{} and {}",
                spoken(x).to_lowercase(),
                spoken(y).to_lowercase()
            ),
        },
        None => format!("{} and {}", test.written.0, test.written.1),
    }
}

fn row_name(words: &[String]) -> String {
    let spoken: Vec<String> = words.iter().map(|word| spoken(word)).collect();
    spoken.join(" ")
}

/// The script's short words as the document's tables spell them; any other word stands for itself.
fn spoken(word: &str) -> String {
    match word {
        "swapoff" => "No swap",
        "swapon" => "Minimum swap",
        "baseline" => "Baseline kernel",
        "patched" => "Patched kernel",
        "exp" => "Exponential access",
        "uni" => "Random access",
        "zip" => "Zipfian access",
        word => word,
    }
    .to_string()
}
