//! Reading what a command prints, line by line, for the figures in it. Memory is bounded whatever it prints: a line by its
//! length, the text kept for a whole report by its size.

use super::super::Alone;
use crate::ycsb_report::Report as YcsbReport;
use anyhow::{bail, Context, Result};
use regex_lite::Regex;
use std::collections::BTreeMap;

/// Longest line looked at, bytes; the rest of a longer one is passed over.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// Text kept from the end, bytes: a benchmark's final report is a few KiB.
const TAIL_BYTES_MAX: usize = 1 << 20;

/// A report whose format is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    Ycsb,
}

impl Report {
    pub const CHOICES: &'static [(&'static str, Report)] = &[("ycsb", Report::Ycsb)];
}

#[derive(Debug, Default)]
pub struct Reader {
    patterns: Vec<(String, Regex)>,
    report: Option<Report>,
    found: BTreeMap<String, f64>,
    line: Vec<u8>,
    tail: Vec<u8>,
}

impl Reader {
    pub fn new(patterns: Vec<(String, Regex)>, report: Option<Report>) -> Self {
        Reader {
            patterns,
            report,
            ..Reader::default()
        }
    }

    /// Takes the next bytes of the output.
    pub fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LINE_BYTES_MAX - self.line.len();
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                self.look();
            }
        }
        if self.report.is_some() {
            self.tail.extend_from_slice(bytes);
            if self.tail.len() > 2 * TAIL_BYTES_MAX {
                self.tail.drain(..self.tail.len() - TAIL_BYTES_MAX);
            }
        }
    }

    /// Tries every pattern on the line without its end; the last line that matches counts.
    fn look(&mut self) {
        let line = String::from_utf8_lossy(&self.line);
        let line = line.trim_end_matches(['\r', '\n']);
        for (name, pattern) in &self.patterns {
            let number = pattern
                .captures(line)
                .and_then(|captures| captures.get(1))
                .and_then(|group| group.as_str().replace(',', "").parse::<f64>().ok())
                .filter(|number| number.is_finite());
            if let Some(number) = number {
                self.found.insert(name.clone(), number);
            }
        }
        self.line.clear();
    }

    /// The figures, at the end. One that was promised and is not there is an error.
    pub fn finish(mut self, alone: &mut Alone) -> Result<()> {
        self.look();
        for (name, pattern) in &self.patterns {
            if !self.found.contains_key(name) {
                bail!("`subject.metrics.{name}`: no line of the output has a number where `{pattern}` looks for it");
            }
        }
        alone.metrics.extend(self.found);
        match self.report {
            Some(Report::Ycsb) => ycsb(&String::from_utf8_lossy(&self.tail), alone),
            None => Ok(()),
        }
    }
}

/// Rows become `ycsb.GROUP.Name`; the throughput keeps the name the lab uses.
fn ycsb(text: &str, alone: &mut Alone) -> Result<()> {
    let report = YcsbReport::read(text).context("`subject.report` = \"ycsb\"")?;
    let Some(ops_per_s) = report.get("OVERALL", "Throughput(ops/sec)") else {
        bail!("`subject.report` = \"ycsb\": the report has no `[OVERALL], Throughput(ops/sec)`");
    };
    alone.metrics.insert("ops_per_s".into(), ops_per_s);
    for row in &report.rows {
        // Histogram buckets have numbers for names: they are not figures of their own.
        let is_bucket = row.measurement.starts_with('>') || row.measurement.parse::<f64>().is_ok();
        let number = row.value.value();
        if !is_bucket && number.is_finite() {
            let name = format!("ycsb.{}.{}", row.metric, row.measurement);
            alone.metrics.insert(name, number);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&str], pattern: &str) -> Result<Alone> {
        let mut reader = Reader::new(vec![("x".into(), Regex::new(pattern).unwrap())], None);
        for piece in pieces {
            reader.take(piece.as_bytes());
        }
        let mut alone = Alone::default();
        reader.finish(&mut alone).map(|()| alone)
    }

    #[test]
    fn a_figure_may_be_cut_between_pieces_and_the_last_one_counts() {
        let alone = read(&["x=1\nx=", "2", "3\nother\nx=4", "5"], "x=([0-9,.]+)").unwrap();
        assert_eq!(alone.metrics["x"], 45.0);
        assert_eq!(
            read(&["x=1,234.5\n"], "x=([0-9,.]+)").unwrap().metrics["x"],
            1234.5
        );
        assert!(read(&["x=,\n"], "x=([0-9,.]+)").is_err());
        assert_eq!(
            read(&["x=5\r\nx=6 y\n"], "^x=([0-9]+)$").unwrap().metrics["x"],
            5.0,
            "a line ends before its end of line"
        );
    }

    #[test]
    fn a_long_line_is_cut_not_kept() {
        let long = "y".repeat(LINE_BYTES_MAX * 3);
        let mut reader = Reader::new(vec![("x".into(), Regex::new("x=([0-9]+)").unwrap())], None);
        reader.take(long.as_bytes());
        assert!(reader.line.len() <= LINE_BYTES_MAX);
        reader.take(b" x=1\nx=2\n");
        let mut alone = Alone::default();
        reader.finish(&mut alone).unwrap();
        assert_eq!(alone.metrics["x"], 2.0);
    }

    #[test]
    fn a_ycsb_report_is_read() {
        let text = "[OVERALL], RunTime(ms), 822862.0\n[OVERALL], Throughput(ops/sec), 60763.53021527304\n[READ], AverageLatency(us), 12.5\n[READ], 0, 17\n[READ], >1000, 3\nShmemPmdMapped: 1 kB\n";
        let mut reader = Reader::new(Vec::new(), Some(Report::Ycsb));
        reader.take(text.as_bytes());
        let mut alone = Alone::default();
        reader.finish(&mut alone).unwrap();
        assert_eq!(alone.metrics["ops_per_s"], 60763.53021527304);
        assert_eq!(alone.metrics["ycsb.READ.AverageLatency(us)"], 12.5);
        assert_eq!(alone.metrics.len(), 4);
        let json = r#"{ "metric" : "OVERALL", "measurement" : "RunTime(ms)", "value" : 10 } { "metric" : "OVERALL", "measurement" : "Throughput(ops/sec)", "value" : 1.0E7 }"#;
        let mut reader = Reader::new(Vec::new(), Some(Report::Ycsb));
        reader.take(format!("starting\n{json}\n").as_bytes());
        let mut alone = Alone::default();
        reader.finish(&mut alone).unwrap();
        assert_eq!(alone.metrics["ops_per_s"], 1e7, "YCSB's other exporters");
        let mut empty = Reader::new(Vec::new(), Some(Report::Ycsb));
        empty.take(b"[OVERALL], RunTime(ms), x\n");
        assert!(empty.finish(&mut Alone::default()).is_err());
    }
}
