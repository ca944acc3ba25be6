//! What was measured, made readable: for the terminal, as Markdown, and as one HTML page with plots.
//!
//! - `sheet`: medians and tables that verbs without an experiment print
//! - `plan`: what the experiment's file laid down beforehand: comparisons, families, what matters
//! - `cells`, `figures`: points gathered by arm and setting; numbers with their units
//! - `analysis`, `checks`: verdicts, and whether the campaign deserves them
//! - `document`, `compose`: the report as blocks; `terminal`, `markdown`, `html`: the blocks in three dresses
//! - `plot`: the blocks that are pictures; `svg`: one of them as a file of its own
//!
//! What must hold: points that failed, were refused or did not complete are listed and never averaged; one run an
//! arm leads to no conclusion; a report is a pure function of the points file.

mod analysis;
mod cells;
mod checks;
mod compose;
mod document;
mod figures;
mod html;
mod markdown;
mod pictures;
mod plan;
mod plot;
mod sheet;
mod svg;
mod terminal;
mod verbs;

pub use sheet::{show, Report, Spread, Table};
pub use verbs::{compare, report, CompareOptions, ReportOptions};
