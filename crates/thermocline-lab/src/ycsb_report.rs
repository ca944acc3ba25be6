//! YCSB's final report: rows of metric, measurement and value, written as its three exporters write them and read
//! back from any of them, also from versions that printed the run time as a fraction. What its numbers mean is
//! left to whoever fills it.

use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Rows read from a report: one of 1,000 buckets an operation has 10,000.
pub const ROWS_MAX: usize = 1_000_000;
/// Longest line that can be a row, bytes. Longer ones are some other program's.
const LINE_BYTES_MAX: usize = 4096;

/// Java keeps whole numbers and fractions apart, and so does the report.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Number {
    Whole(i64),
    Real(f64),
}

impl Number {
    pub fn value(self) -> f64 {
        match self {
            Number::Whole(value) => value as f64,
            Number::Real(value) => value,
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number::Whole(value) => write!(f, "{value}"),
            Number::Real(value) => f.write_str(&java_double(*value)),
        }
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub metric: String,
    pub measurement: String,
    pub value: Number,
}

/// How a report is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exporter {
    #[default]
    Text,
    /// Text as versions before 2015 wrote it: the run time is a fraction.
    OldText,
    /// Objects one after the other.
    Json,
    JsonArray,
}

impl Exporter {
    /// From the class name YCSB is given, or its short form.
    pub fn named(name: &str) -> Option<Self> {
        let class = name.rsplit('.').next().unwrap_or(name);
        Some(match class.trim_end_matches("MeasurementsExporter") {
            "Text" => Exporter::Text,
            "OldText" => Exporter::OldText,
            "JSON" => Exporter::Json,
            "JSONArray" => Exporter::JsonArray,
            _ => return None,
        })
    }
}

/// A report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub rows: Vec<Row>,
}

impl Report {
    pub fn whole(&mut self, metric: &str, measurement: &str, value: u64) {
        self.push(
            metric,
            measurement,
            Number::Whole(value.min(i64::MAX as u64) as i64),
        );
    }

    pub fn real(&mut self, metric: &str, measurement: &str, value: f64) {
        self.push(metric, measurement, Number::Real(value));
    }

    fn push(&mut self, metric: &str, measurement: &str, value: Number) {
        self.rows.push(Row {
            metric: metric.to_string(),
            measurement: measurement.to_string(),
            value,
        });
    }

    /// A value by its names; the last one if there are several.
    pub fn get(&self, metric: &str, measurement: &str) -> Option<f64> {
        self.rows
            .iter()
            .rev()
            .find(|row| row.metric == metric && row.measurement == measurement)
            .map(|row| row.value.value())
    }

    /// All rows as `METRIC.measurement` and a number, for those who look for figures in any command's output.
    pub fn figures(&self) -> BTreeMap<String, f64> {
        self.rows
            .iter()
            .map(|row| {
                (
                    format!("{}.{}", row.metric, row.measurement),
                    row.value.value(),
                )
            })
            .collect()
    }

    pub fn write(&self, exporter: Exporter) -> String {
        match exporter {
            Exporter::Text => self.text(false),
            Exporter::OldText => self.text(true),
            Exporter::Json => {
                self.rows
                    .iter()
                    .map(json_object)
                    .collect::<Vec<_>>()
                    .join(" ")
                    + "\n"
            }
            Exporter::JsonArray => {
                let rows: Vec<String> = self.rows.iter().map(json_object).collect();
                format!("[ {} ]\n", rows.join(", "))
            }
        }
    }

    fn text(&self, old: bool) -> String {
        let mut out = String::new();
        for row in &self.rows {
            let value = match row.value {
                Number::Whole(ms) if old && row.measurement == "RunTime(ms)" => {
                    Number::Real(ms as f64)
                }
                value => value,
            };
            out += &format!("[{}], {}, {value}\n", row.metric, row.measurement);
        }
        out
    }

    /// Finds a report in a command's output, whatever else the command said. `Err` if there is none or one that
    /// cannot be read; says which line.
    pub fn read(output: &str) -> Result<Report> {
        let report = match json_start(output) {
            Some(at) => read_json(&output[at..])?,
            None => read_text(output)?,
        };
        if report.get("OVERALL", "RunTime(ms)").is_none() {
            bail!(
                "no YCSB report in {} bytes of output: `[OVERALL], RunTime(ms)` is missing",
                output.len()
            );
        }
        Ok(report)
    }
}

/// As Jackson's pretty printer has it.
fn json_object(row: &Row) -> String {
    let value = match row.value {
        Number::Real(value) if !value.is_finite() => format!("\"{}\"", java_double(value)),
        value => value.to_string(),
    };
    let text = |text: &str| serde_json::Value::from(text).to_string();
    format!(
        "{{\n  \"metric\" : {},\n  \"measurement\" : {},\n  \"value\" : {value}\n}}",
        text(&row.metric),
        text(&row.measurement)
    )
}

/// Where JSON begins: a brace that opens a line, alone or after the bracket of an array.
fn json_start(output: &str) -> Option<usize> {
    let mut at = 0;
    for line in output.split_inclusive('\n') {
        let trimmed = line.trim_start();
        let inside = trimmed.strip_prefix('[').unwrap_or(trimmed).trim_start();
        if inside.starts_with('{') {
            return Some(at + line.len() - trimmed.len());
        }
        at += line.len();
    }
    None
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Piece {
    Row(Row),
    Rows(Vec<Row>),
}

fn read_json(text: &str) -> Result<Report> {
    let mut report = Report::default();
    let mut pieces = serde_json::Deserializer::from_str(text).into_iter::<Piece>();
    loop {
        let at = pieces.byte_offset();
        match pieces.next() {
            Some(Ok(Piece::Row(row))) => report.rows.push(row),
            Some(Ok(Piece::Rows(rows))) => report.rows.extend(rows),
            // What follows the report is not ours; a fault before its end is.
            Some(Err(error))
                if report.rows.is_empty() || text[at..].trim_start().starts_with('{') =>
            {
                let line = text[..at].lines().count().max(1);
                return Err(error).with_context(|| format!("a YCSB report in JSON, line {line}"));
            }
            Some(Err(_)) | None => return Ok(report),
        }
        if report.rows.len() > ROWS_MAX {
            bail!("a YCSB report of more than {ROWS_MAX} rows");
        }
    }
}

fn read_text(text: &str) -> Result<Report> {
    let mut report = Report::default();
    for (at, line) in text.lines().enumerate() {
        let Some((metric, measurement, value)) = row_of(line) else {
            continue;
        };
        let Some(value) = number_of(value) else {
            bail!(
                "line {}: `{value}` after `{measurement}` is no number",
                at + 1
            );
        };
        report.push(metric, measurement, value);
        if report.rows.len() > ROWS_MAX {
            bail!("a YCSB report of more than {ROWS_MAX} rows");
        }
    }
    Ok(report)
}

/// `[METRIC], measurement, value`.
fn row_of(line: &str) -> Option<(&str, &str, &str)> {
    if line.len() > LINE_BYTES_MAX {
        return None;
    }
    let (metric, rest) = line.trim().strip_prefix('[')?.split_once("], ")?;
    let (measurement, value) = rest.rsplit_once(", ")?;
    (!metric.is_empty() && !metric.contains(['[', ' '])).then_some((metric, measurement, value))
}

fn number_of(text: &str) -> Option<Number> {
    if let Ok(whole) = text.parse::<i64>() {
        return Some(Number::Whole(whole));
    }
    // Java's own words; Rust would also read `inf` and `infinity`, which Java does not write.
    match text {
        "NaN" => Some(Number::Real(f64::NAN)),
        "Infinity" => Some(Number::Real(f64::INFINITY)),
        _ if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
            text.parse().ok().map(Number::Real)
        }
        _ => None,
    }
}

/// `Double.toString`: the shortest digits, at least one after the point, `1.0E7` from ten million up and below a
/// thousandth.
pub fn java_double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 {
            "Infinity".into()
        } else {
            "-Infinity".into()
        };
    }
    if value == 0.0 || (1e-3..1e7).contains(&value.abs()) {
        return format!("{value:?}");
    }
    let text = format!("{value:E}");
    match text.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Report {
        let mut report = Report::default();
        report.whole("OVERALL", "RunTime(ms)", 822_862);
        report.real("OVERALL", "Throughput(ops/sec)", 60_763.530_215_273_04);
        report.whole("READ", "Operations", 45_000_000);
        report.real("READ", "AverageLatency(us)", 1.5e7);
        report.whole("READ", "99.9PercentileLatency(us)", 12);
        report.whole("READ", "Return=OK", 44_999_999);
        report.whole("READ", ">1000", 0);
        report
    }

    #[test]
    fn doubles_are_written_as_java_does() {
        for (value, text) in [
            (0.0, "0.0"),
            (1.0, "1.0"),
            (822_862.0, "822862.0"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (1.25e7, "1.25E7"),
            (0.001, "0.001"),
            (0.0001, "1.0E-4"),
            (-3.5, "-3.5"),
            (60_763.530_215_273_04, "60763.53021527304"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(java_double(value), text);
        }
    }

    #[test]
    fn every_exporter_is_read_back() {
        let report = sample();
        for exporter in [Exporter::Text, Exporter::Json, Exporter::JsonArray] {
            let text = report.write(exporter);
            assert_eq!(Report::read(&text).unwrap(), report, "{exporter:?}: {text}");
            let noisy = format!("YCSB Client 0.18\n\nStarting test.\n{text}\ndone [really], 5\n");
            assert_eq!(
                Report::read(&noisy).unwrap(),
                report,
                "{exporter:?} among other words"
            );
        }
        let old = report.write(Exporter::OldText);
        assert!(
            old.starts_with("[OVERALL], RunTime(ms), 822862.0\n"),
            "{old}"
        );
        let read = Report::read(&old).unwrap();
        assert_eq!(read.get("OVERALL", "RunTime(ms)"), Some(822_862.0));
        assert_eq!(read.figures()["READ.Return=OK"], 44_999_999.0);
    }

    #[test]
    fn jsons_layout_is_jacksons() {
        let mut report = Report::default();
        report.whole("OVERALL", "RunTime(ms)", 5);
        let object = "{\n  \"metric\" : \"OVERALL\",\n  \"measurement\" : \"RunTime(ms)\",\n  \"value\" : 5\n}";
        assert_eq!(report.write(Exporter::Json), format!("{object}\n"));
        assert_eq!(report.write(Exporter::JsonArray), format!("[ {object} ]\n"));
    }

    #[test]
    fn the_documents_two_reports_are_read() {
        let text = "v4.7-rc1 + my implementation:\n[OVERALL], RunTime(ms), 822862.0\n\
                    [OVERALL], Throughput(ops/sec), 60763.53021527304\nShmemPmdMapped:  4999168 kB\n";
        let report = Report::read(text).unwrap();
        assert_eq!(report.rows.len(), 2);
        assert_eq!(
            report.get("OVERALL", "Throughput(ops/sec)"),
            Some(60_763.530_215_273_04)
        );
    }

    #[test]
    fn what_is_no_report_is_an_error() {
        for text in [
            "",
            "hello",
            "[READ], Operations, 5",
            "{",
            "[ {",
            "{\"metric\": 1}",
            "[OVERALL], RunTime(ms), soon",
        ] {
            assert!(Report::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn exporters_have_long_and_short_names() {
        assert_eq!(
            Exporter::named("site.ycsb.measurements.exporter.JSONArrayMeasurementsExporter"),
            Some(Exporter::JsonArray)
        );
        assert_eq!(
            Exporter::named("com.yahoo.ycsb.measurements.exporter.TextMeasurementsExporter"),
            Some(Exporter::Text)
        );
        assert_eq!(Exporter::named("JSON"), Some(Exporter::Json));
        assert_eq!(Exporter::named("XML"), None);
    }

    #[test]
    fn cut_and_spoiled_reports_never_panic() {
        let seed = std::env::var("SEED").map_or(23, |s| s.parse().expect("SEED is a number"));
        println!("SEED={seed}");
        let mut random = crate::workload::Random::new(seed);
        for exporter in [
            Exporter::Text,
            Exporter::OldText,
            Exporter::Json,
            Exporter::JsonArray,
        ] {
            let text = sample().write(exporter).into_bytes();
            for _ in 0..2000 {
                let mut spoiled = text.clone();
                spoiled.truncate(random.below(text.len() as u64 + 1) as usize);
                for _ in 0..random.below(4) {
                    if !spoiled.is_empty() {
                        let at = random.below(spoiled.len() as u64) as usize;
                        spoiled[at] = b"[]{},: \"E9.\n"[random.below(12) as usize];
                    }
                }
                let _ = Report::read(&String::from_utf8_lossy(&spoiled));
            }
        }
    }
}
