//! What the properties of YCSB's core workload say, each checked against its range. An error names the property,
//! its value and the file and line, or flag, that said it. Leaves the client's own properties to `client`.

use super::draw::{Histogram, KeySpace, Lengths, RequestDistribution};
use super::key::{KeyFormat, ZERO_PADDING_MAX};
use super::known::{self, default_of};
use super::properties::Properties;
use crate::nearest::did_you_mean;
use crate::workload::Kind;
use anyhow::{bail, Result};
use std::path::Path;
use std::str::FromStr;

/// Java's largest int: what a `recordcount` of 0 stands for.
pub const INT_MAX: u64 = i32::MAX as u64;
/// Records and operations at most. (YCSB's own limit is 2^31 - 1; ours is what 64-bit arithmetic leaves room for.)
const COUNT_MAX: u64 = 1 << 40;
/// Bytes of a row at most: what the lab writes at most.
pub const ROW_BYTES_MAX: u64 = 64 << 20;
const FIELDS_MAX: u64 = 1 << 16;

/// How often each operation is chosen; they add up to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proportions {
    pub read: f64,
    pub update: f64,
    pub insert: f64,
    pub scan: f64,
    pub read_modify_write: f64,
}

impl Proportions {
    /// Kinds and their shares, in the order in which YCSB adds them.
    pub fn all(&self) -> [(Kind, f64); 5] {
        [
            (Kind::Read, self.read),
            (Kind::Update, self.update),
            (Kind::Insert, self.insert),
            (Kind::Scan, self.scan),
            (Kind::ReadModifyWrite, self.read_modify_write),
        ]
    }
}

/// YCSB's core workload.
#[derive(Clone, Debug)]
pub struct Settings {
    pub space: KeySpace,
    /// `operationcount`; `None` runs until stopped.
    pub operations: Option<u64>,
    pub proportions: Proportions,
    pub distribution: RequestDistribution,
    pub table: String,
    pub keys: KeyFormat,
    pub field_count: usize,
    pub field_prefix: String,
    pub lengths: Lengths,
    pub read_all_fields: bool,
    pub read_all_fields_by_name: bool,
    pub write_all_fields: bool,
    pub scan_lengths: Lengths,
    pub data_integrity: bool,
    /// Properties of some binding, without effect here.
    pub ignored: Vec<String>,
}

impl Settings {
    /// Reads all properties of the core; refuses unknown ones.
    pub fn read(properties: &Properties) -> Result<Self> {
        let ignored = known::check_names(properties)?;
        let say = Reader(properties);
        say.one_of(
            "workload",
            &[
                "site.ycsb.workloads.CoreWorkload",
                "site.ycsb.CoreWorkload",
                "com.yahoo.ycsb.workloads.CoreWorkload",
            ],
        )?;
        let operations = Some(say.number("operationcount", 0, COUNT_MAX)?).filter(|&n| n > 0);
        let proportions = proportions(&say)?;
        let distribution = distribution(&say)?;
        let space = key_space(&say, operations, &proportions, distribution)?;
        let data_integrity = say.flag("dataintegrity")?;
        let field_count = say.number("fieldcount", 1, FIELDS_MAX)? as usize;
        let lengths = field_lengths(&say)?;
        if data_integrity && !matches!(lengths, Lengths::Constant(_)) {
            bail!(
                "{}: dataintegrity needs fieldlengthdistribution=constant",
                say.place("dataintegrity")
            );
        }
        let row = field_count as u64 * u64::from(lengths.max());
        if row > ROW_BYTES_MAX {
            bail!(
                "{}: a row of {field_count} fields has up to {row} bytes; at most {ROW_BYTES_MAX} are written",
                say.place("fieldlength")
            );
        }
        Ok(Settings {
            space,
            operations,
            proportions,
            distribution,
            table: say.text("table"),
            keys: KeyFormat {
                prefix: Vec::new(),
                hashed: say.text("insertorder") == "hashed",
                digits_min: say.number("zeropadding", 0, ZERO_PADDING_MAX)? as usize,
            },
            field_count,
            field_prefix: say.text("fieldnameprefix"),
            lengths,
            read_all_fields: say.flag("readallfields")?,
            read_all_fields_by_name: say.flag("readallfieldsbyname")?,
            write_all_fields: say.flag("writeallfields")?,
            scan_lengths: scan_lengths(&say)?,
            data_integrity,
            ignored,
        })
    }
}

fn proportions(say: &Reader) -> Result<Proportions> {
    let share = |name: &str| say.number(name, 0.0, 1e9);
    let mut shares = Proportions {
        read: share("readproportion")?,
        update: share("updateproportion")?,
        insert: share("insertproportion")?,
        scan: share("scanproportion")?,
        read_modify_write: share("readmodifywriteproportion")?,
    };
    let sum: f64 = shares.all().iter().map(|(_, share)| share).sum();
    if sum <= 0.0 {
        bail!("all proportions are 0: set readproportion or another above 0");
    }
    for share in [
        &mut shares.read,
        &mut shares.update,
        &mut shares.insert,
        &mut shares.scan,
        &mut shares.read_modify_write,
    ] {
        *share /= sum;
    }
    Ok(shares)
}

fn distribution(say: &Reader) -> Result<RequestDistribution> {
    let text = say.text("requestdistribution");
    Ok(match text.as_str() {
        "uniform" => RequestDistribution::Uniform,
        "zipfian" => RequestDistribution::Zipfian,
        "latest" => RequestDistribution::Latest,
        "sequential" => RequestDistribution::Sequential,
        "hotspot" => RequestDistribution::Hotspot {
            data: say.number("hotspotdatafraction", 0.0, 1.0)?,
            operations: say.number("hotspotopnfraction", 0.0, 1.0)?,
        },
        "exponential" => RequestDistribution::Exponential {
            percentile: say.number("exponential.percentile", 1e-6, 99.999_999)?,
            share: say.number("exponential.frac", 1e-9, 1e9)?,
        },
        other => {
            if let Some(theta) = other.strip_prefix("zipfian-true:") {
                match theta.parse::<f64>() {
                    Ok(theta) if theta > 0.0 && theta <= 10.0 => {
                        return Ok(RequestDistribution::TrueZipf(theta))
                    }
                    _ => bail!(
                        "{}: `{other}`: the exponent lies above 0 and at most 10",
                        say.place("requestdistribution")
                    ),
                }
            }
            bail!(
                "{}: no request distribution `{other}`{}; there are uniform, zipfian, latest, hotspot, \
                 sequential, exponential and zipfian-true:THETA",
                say.place("requestdistribution"),
                did_you_mean(other, RequestDistribution::NAMES)
            );
        }
    })
}

fn key_space(
    say: &Reader,
    operations: Option<u64>,
    proportions: &Proportions,
    distribution: RequestDistribution,
) -> Result<KeySpace> {
    let records = match say.number("recordcount", 0, COUNT_MAX)? {
        0 => INT_MAX,
        records => records,
    };
    let first = say.number("insertstart", 0, COUNT_MAX)?;
    let count = match say.0.get("insertcount") {
        Some(_) => say.number("insertcount", 0, COUNT_MAX)?,
        None => records.saturating_sub(first),
    };
    if first + count > records {
        bail!(
            "{}: recordcount={records} is below insertstart={first} + insertcount={count}",
            say.place("recordcount")
        );
    }
    if count == 0 {
        bail!(
            "{}: insertcount is 0: there is no record",
            say.place("insertstart")
        );
    }
    let zipfian = distribution == RequestDistribution::Zipfian;
    if zipfian && proportions.insert > 0.0 && operations.is_none() {
        bail!(
            "{}: zipfian with inserts sizes its key space by operationcount: set it",
            say.place("requestdistribution")
        );
    }
    Ok(KeySpace {
        first,
        count,
        records,
        expected_new: (operations.unwrap_or(0) as f64 * proportions.insert * 2.0) as u64,
    })
}

fn field_lengths(say: &Reader) -> Result<Lengths> {
    let max = say.number("fieldlength", 0, ROW_BYTES_MAX)? as u32;
    let name = say.one_of(
        "fieldlengthdistribution",
        &["constant", "uniform", "zipfian", "histogram"],
    )?;
    match name.as_str() {
        "constant" => Ok(Lengths::Constant(max)),
        "histogram" => Ok(Lengths::Histogram(Histogram::read(Path::new(
            &say.text("fieldlengthhistogram"),
        ))?)),
        _ => {
            let min = say.number("minfieldlength", 0, ROW_BYTES_MAX)? as u32;
            if min > max {
                bail!(
                    "{}: minfieldlength={min} is above fieldlength={max}",
                    say.place("minfieldlength")
                );
            }
            Ok(if name == "uniform" {
                Lengths::Uniform { min, max }
            } else {
                Lengths::zipfian(min, max)
            })
        }
    }
}

fn scan_lengths(say: &Reader) -> Result<Lengths> {
    let min = say.number("minscanlength", 0, INT_MAX)? as u32;
    let max = say.number("maxscanlength", 1, INT_MAX)? as u32;
    if min > max {
        bail!(
            "{}: minscanlength={min} is above maxscanlength={max}",
            say.place("minscanlength")
        );
    }
    let name = say.one_of("scanlengthdistribution", &["uniform", "zipfian"])?;
    Ok(if name == "uniform" {
        Lengths::Uniform { min, max }
    } else {
        Lengths::zipfian(min, max)
    })
}

/// Properties read as what they are to be.
pub struct Reader<'a>(pub &'a Properties);

impl Reader<'_> {
    /// What was said, or YCSB's default.
    pub fn text(&self, name: &str) -> String {
        match self.0.get(name) {
            Some(said) => said.value.trim_end().to_string(),
            None => default_of(name).to_string(),
        }
    }

    /// `file:line` or the flag that said it; else that it is the default.
    pub fn place(&self, name: &str) -> String {
        self.0.get(name).map_or_else(
            || format!("{name} (not set)"),
            |said| said.origin.to_string(),
        )
    }

    /// A number within its range, ends included.
    pub fn number<T: FromStr + PartialOrd + std::fmt::Display>(
        &self,
        name: &str,
        min: T,
        max: T,
    ) -> Result<T> {
        let text = self.text(name);
        match text.trim().parse::<T>() {
            Ok(value) if value >= min && value <= max => Ok(value),
            _ => bail!(
                "{}: {name}=`{text}` is not a number from {min} to {max}",
                self.place(name)
            ),
        }
    }

    /// `true` or `false`.
    pub fn flag(&self, name: &str) -> Result<bool> {
        let text = self.text(name);
        match text.trim().to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => bail!(
                "{}: {name}=`{text}` is neither true nor false",
                self.place(name)
            ),
        }
    }

    /// One of some words.
    pub fn one_of(&self, name: &str, words: &[&'static str]) -> Result<String> {
        let text = self.text(name);
        if words.contains(&text.as_str()) {
            return Ok(text);
        }
        bail!(
            "{}: {name}=`{text}`{}; there are {}",
            self.place(name),
            did_you_mean(&text, words.iter().copied()),
            words.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings> {
        let mut properties = Properties::default();
        properties.read_bytes(text.as_bytes(), "w.properties")?;
        Settings::read(&properties)
    }

    #[test]
    fn defaults_are_ycsbs() {
        let settings = read("").unwrap();
        assert_eq!(settings.space.records, INT_MAX);
        assert_eq!((settings.space.first, settings.space.count), (0, INT_MAX));
        assert_eq!(settings.operations, None);
        let shares: Vec<f64> = settings.proportions.all().map(|(_, share)| share).to_vec();
        assert_eq!(shares, [0.95, 0.05, 0.0, 0.0, 0.0]);
        assert_eq!(settings.distribution, RequestDistribution::Uniform);
        assert!(matches!(settings.lengths, Lengths::Constant(100)));
        assert_eq!(
            (settings.field_count, settings.field_prefix.as_str()),
            (10, "field")
        );
        assert!(settings.keys.hashed && settings.read_all_fields && !settings.write_all_fields);
        assert!(matches!(
            settings.scan_lengths,
            Lengths::Uniform { min: 1, max: 1000 }
        ));
        assert_eq!(settings.table, "usertable");
    }

    #[test]
    fn every_default_reads_as_itself() {
        for (name, default) in known::KNOWN {
            if !default.is_empty() {
                let text = format!("{name}={default}\n");
                read(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            }
        }
    }

    #[test]
    fn proportions_are_made_to_add_up() {
        let settings =
            read("readproportion=0.9\nupdateproportion=0.1\ninsertproportion=1").unwrap();
        assert!((settings.proportions.read - 0.45).abs() < 1e-12);
        assert!((settings.proportions.insert - 0.5).abs() < 1e-12);
        assert!(read("readproportion=0\nupdateproportion=0").is_err());
    }

    #[test]
    fn the_zipfian_key_space_foresees_inserts() {
        let text = "recordcount=1000\noperationcount=500\ninsertproportion=0.05\n\
                    readproportion=0.95\nupdateproportion=0\nrequestdistribution=zipfian";
        assert_eq!(read(text).unwrap().space.expected_new, 50);
        let unlimited = text.replace("operationcount=500", "");
        let error = read(&unlimited).unwrap_err().to_string();
        assert!(error.contains("operationcount"), "{error}");
    }

    #[test]
    fn the_last_of_the_exact_names_is_our_own() {
        let settings = read("requestdistribution=zipfian-true:1.2").unwrap();
        assert_eq!(settings.distribution, RequestDistribution::TrueZipf(1.2));
    }

    #[test]
    fn what_is_wrong_is_named_with_file_and_line() {
        for (text, parts) in [
            ("\nrecordcount=-5", ["w.properties:2", "recordcount=`-5`"]),
            ("recordcount=ten", ["w.properties:1", "`ten`"]),
            (
                "recordcount=10\ninsertstart=8\ninsertcount=5",
                ["w.properties:1", "insertcount=5"],
            ),
            (
                "requestdistribution=zipfain",
                ["w.properties:1", "`zipfian`"],
            ),
            (
                "requestdistribution=zipfian-true:x",
                ["w.properties:1", "exponent"],
            ),
            (
                "exponential.frac=0\nrequestdistribution=exponential",
                ["w.properties:1", "exponential.frac"],
            ),
            (
                "fieldlengthdistribution=normal",
                ["w.properties:1", "uniform"],
            ),
            (
                "fieldlengthdistribution=histogram\nfieldlengthhistogram=/no",
                ["fieldlengthhistogram", "/no"],
            ),
            (
                "fieldlengthdistribution=uniform\nminfieldlength=200",
                ["w.properties:2", "200"],
            ),
            (
                "dataintegrity=true\nfieldlengthdistribution=uniform",
                ["w.properties:1", "constant"],
            ),
            (
                "fieldlength=60000000\nfieldcount=5",
                ["w.properties:1", "300000000"],
            ),
            ("readallfields=perhaps", ["w.properties:1", "perhaps"]),
            (
                "workload=site.ycsb.workloads.TimeSeriesWorkload",
                ["w.properties:1", "CoreWorkload"],
            ),
            (
                "minscanlength=5\nmaxscanlength=2",
                ["w.properties:1", "maxscanlength=2"],
            ),
            (
                "hotspotdatafraction=1.5\nrequestdistribution=hotspot",
                ["w.properties:1", "1.5"],
            ),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            for part in parts {
                assert!(error.contains(part), "{text}: {error} lacks {part}");
            }
        }
    }
}
