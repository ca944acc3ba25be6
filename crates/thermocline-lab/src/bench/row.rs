//! A row of the target table: what was measured, what it must reach, what it is meant to reach, the verdict.

use crate::report::{show, Spread, Table};

/// On which side of a number a figure is to lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
    /// Shown for comparison, judged by nothing.
    Free,
}

impl Bound {
    fn holds(self, value: f64) -> Option<bool> {
        match self {
            Bound::AtMost(limit) => Some(value <= limit),
            Bound::AtLeast(limit) => Some(value >= limit),
            Bound::Free => None,
        }
    }

    fn text(self, decimals: usize) -> String {
        match self {
            Bound::AtMost(limit) => format!("≤ {limit:.decimals$}"),
            Bound::AtLeast(limit) => format!("≥ {limit:.decimals$}"),
            Bound::Free => "–".into(),
        }
    }
}

/// The rows of one report.
pub struct Rows {
    table: Table,
}

impl Default for Rows {
    fn default() -> Self {
        Rows {
            table: Table::new(["what", "measured", "at least", "ambition", "verdict"]),
        }
    }
}

impl Rows {
    /// A judged figure.
    pub fn add(
        &mut self,
        what: impl Into<String>,
        value: Option<Spread>,
        decimals: usize,
        least: Bound,
        ambition: Bound,
    ) {
        self.table.row([
            what.into(),
            show(value, decimals),
            least.text(decimals),
            ambition.text(decimals),
            verdict(value.map(|s| s.median), least, ambition).to_string(),
        ]);
    }

    /// A figure beside the others.
    pub fn show(&mut self, what: impl Into<String>, value: Option<Spread>, decimals: usize) {
        self.add(what, value, decimals, Bound::Free, Bound::Free);
    }

    pub fn into_table(self) -> Table {
        self.table
    }
}

fn verdict(value: Option<f64>, least: Bound, ambition: Bound) -> &'static str {
    let Some(value) = value else {
        return "not measured";
    };
    match (least.holds(value), ambition.holds(value)) {
        (_, Some(true)) => "ambition",
        (Some(true), _) => "met",
        (Some(false), _) => "**short**",
        (None, _) => "–",
    }
}

/// One figure of one run.
pub fn one(value: f64) -> Option<Spread> {
    Spread::of([value])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_judge_the_median_from_both_sides() {
        let (least, ambition) = (Bound::AtMost(1.0), Bound::AtMost(0.75));
        assert_eq!(verdict(Some(0.7), least, ambition), "ambition");
        assert_eq!(verdict(Some(1.0), least, ambition), "met");
        assert_eq!(verdict(Some(1.01), least, ambition), "**short**");
        assert_eq!(
            verdict(Some(19.0), Bound::AtLeast(10.0), Bound::AtLeast(20.0)),
            "met"
        );
        assert_eq!(verdict(Some(5.0), Bound::Free, Bound::Free), "–");
        assert_eq!(verdict(None, least, ambition), "not measured");
    }
}
