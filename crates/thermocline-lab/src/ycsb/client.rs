//! The properties of YCSB's client: threads, target, limits, status, measurements and the report.

use crate::nearest::did_you_mean;
use crate::workload::ycsb::settings::Reader;
use crate::workload::ycsb::Properties;
use crate::ycsb_report::Exporter;
use anyhow::{bail, Result};
use std::path::PathBuf;
use std::time::Duration;

/// Threads at most: each is one of the machine's.
const THREADS_MAX: u64 = 1024;
/// Operations a second at most.
const TARGET_MAX: f64 = 1e9;
/// Seconds of a run at most: a day.
const SECONDS_MAX: u64 = 86_400;

/// Which latencies are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// From the start of the operation.
    Op,
    /// From its intended start, under the operation's own name.
    Intended,
    /// Both, the latter as `Intended-READ`.
    Both,
}

/// How latencies are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeping {
    pub hdr: bool,
    pub histogram: bool,
    pub raw: bool,
    pub series: bool,
}

/// YCSB's client, as asked for.
#[derive(Clone, Debug)]
pub struct Client {
    pub threads: usize,
    /// Operations a second over all threads.
    pub target: Option<f64>,
    pub time_max: Duration,
    /// Between status lines.
    pub status: Option<Duration>,
    pub label: String,
    pub keeping: Keeping,
    pub interval: Interval,
    pub percentiles: Vec<f64>,
    /// Where HDR logs go: `<path><OPERATION>.hdr`.
    pub hdr_path: Option<String>,
    pub buckets: usize,
    pub verbose_histogram: bool,
    pub series_step: Duration,
    /// Where raw latencies go; standard output if empty.
    pub raw_path: Option<PathBuf>,
    pub raw_summary: bool,
    pub exporter: Exporter,
    pub export_path: Option<PathBuf>,
    pub retries: u32,
    pub retry_after: Duration,
    pub keep_going: bool,
    pub memcached_hosts: String,
}

impl Client {
    pub fn read(properties: &Properties) -> Result<Self> {
        let say = Reader(properties);
        // Read for their faults alone: there is no JVM, errors are told apart anyway, and the open loop spins by itself.
        for name in [
            "measurement.trackjvm",
            "reportlatencyforeacherror",
            "spin.sleep",
        ] {
            say.flag(name)?;
        }
        let seconds = match say.number("maxexecutiontime", 0, SECONDS_MAX)? {
            0 => SECONDS_MAX,
            seconds => seconds,
        };
        let keeping = keeping(&say)?;
        Ok(Client {
            threads: say.number("threadcount", 1, THREADS_MAX)? as usize,
            target: Some(say.number("target", 0.0, TARGET_MAX)?).filter(|&rate| rate > 0.0),
            time_max: Duration::from_secs(seconds),
            status: say
                .flag("status")?
                .then_some(Duration::from_secs(say.number(
                    "status.interval",
                    1,
                    3600,
                )?)),
            label: say.text("label"),
            interval: match say
                .one_of("measurement.interval", &["op", "intended", "both"])?
                .as_str()
            {
                "op" => Interval::Op,
                "intended" => Interval::Intended,
                _ => Interval::Both,
            },
            percentiles: percentiles(&say)?,
            hdr_path: say
                .flag("hdrhistogram.fileoutput")?
                .then(|| say.text("hdrhistogram.output.path")),
            buckets: say.number("histogram.buckets", 1, 1_000_000)?,
            verbose_histogram: say.flag("measurement.histogram.verbose")?,
            series_step: Duration::from_millis(say.number(
                "timeseries.granularity",
                1,
                3_600_000,
            )?),
            raw_path: path(say.text("measurement.raw.output_file")),
            raw_summary: !say.flag("measurement.raw.no_summary")?,
            exporter: exporter(&say)?,
            export_path: path(say.text("exportfile")),
            retries: say.number("core_workload_insertion_retry_limit", 0, 1000)?,
            retry_after: Duration::from_secs_f64(say.number(
                "core_workload_insertion_retry_interval",
                0.0,
                3600.0,
            )?),
            keep_going: say.flag("core_workload_insertion_keep_going_on_error")?,
            memcached_hosts: say.text("memcached.hosts"),
            keeping,
        })
    }
}

fn path(text: String) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}

fn keeping(say: &Reader) -> Result<Keeping> {
    let kinds = [
        "hdrhistogram",
        "histogram",
        "hdrhistogram+histogram",
        "hdrhistogram+raw",
        "timeseries",
        "raw",
    ];
    let kind = say.one_of("measurementtype", &kinds)?;
    let has = |part: &str| kind.split('+').any(|word| word == part);
    Ok(Keeping {
        hdr: has("hdrhistogram"),
        histogram: has("histogram"),
        raw: has("raw"),
        series: has("timeseries"),
    })
}

fn percentiles(say: &Reader) -> Result<Vec<f64>> {
    let text = say.text("hdrhistogram.percentiles");
    text.split(',')
        .map(|word| match word.trim().parse::<f64>() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
            _ => bail!(
                "{}: hdrhistogram.percentiles: `{word}` is no number from 0 to 100",
                say.place("hdrhistogram.percentiles")
            ),
        })
        .collect()
}

fn exporter(say: &Reader) -> Result<Exporter> {
    let name = say.text("exporter");
    Exporter::named(&name).ok_or_else(|| {
        let known = ["Text", "OldText", "JSON", "JSONArray"];
        anyhow::anyhow!(
            "{}: no exporter `{name}`{}; there are {}",
            say.place("exporter"),
            did_you_mean(&name, known),
            known.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(flags: &[&str]) -> Result<Client> {
        let flags: Vec<String> = flags.iter().map(|flag| flag.to_string()).collect();
        Client::read(&Properties::merge(&[] as &[&str], &flags)?)
    }

    #[test]
    fn defaults_are_ycsbs() {
        let client = read(&[]).unwrap();
        assert_eq!(
            (client.threads, client.target, client.status),
            (1, None, None)
        );
        assert_eq!(client.percentiles, [50.0, 95.0, 99.0]);
        assert_eq!(
            (client.interval, client.exporter),
            (Interval::Op, Exporter::Text)
        );
        assert!(client.keeping.hdr && !client.keeping.histogram && !client.keeping.raw);
        assert_eq!(
            (client.retries, client.retry_after),
            (0, Duration::from_secs(3))
        );
    }

    #[test]
    fn faults_name_their_flag() {
        for (flag, part) in [
            ("threadcount=0", "threadcount=`0`"),
            ("target=-1", "target=`-1`"),
            ("measurementtype=hdr", "measurementtype"),
            ("measurement.interval=ops", "`op`"),
            ("hdrhistogram.percentiles=50,101", "`101`"),
            ("exporter=JSONN", "`JSON`"),
            ("timeseries.granularity=0", "timeseries.granularity"),
        ] {
            let error = read(&[flag]).unwrap_err().to_string();
            assert!(
                error.contains(part) && error.contains(flag),
                "{flag}: {error}"
            );
        }
    }
}
