//! The properties of YCSB's core and of its client, with their defaults, and what becomes of a name that is not
//! among them: a binding's own is left alone, anything else is refused with the nearest that is known.

use super::properties::Properties;
use crate::nearest::did_you_mean;
use anyhow::{bail, Result};

/// Every property read, with YCSB's default as it would be written.
pub const KNOWN: [(&str, &str); 60] = [
    ("core_workload_insertion_keep_going_on_error", "false"),
    ("core_workload_insertion_retry_interval", "3"),
    ("core_workload_insertion_retry_limit", "0"),
    ("dataintegrity", "false"),
    ("db", ""),
    ("dotransactions", ""),
    ("exponential.frac", "0.8571428571"),
    ("exponential.percentile", "95"),
    (
        "exporter",
        "site.ycsb.measurements.exporter.TextMeasurementsExporter",
    ),
    ("exportfile", ""),
    ("fieldcount", "10"),
    ("fieldlength", "100"),
    ("fieldlengthdistribution", "constant"),
    ("fieldlengthhistogram", "hist.txt"),
    ("fieldnameprefix", "field"),
    ("hdrhistogram.fileoutput", "false"),
    ("hdrhistogram.output.path", ""),
    ("hdrhistogram.percentiles", "50,95,99"),
    ("histogram.buckets", "1000"),
    ("hotspotdatafraction", "0.2"),
    ("hotspotopnfraction", "0.8"),
    ("insertcount", ""),
    ("insertorder", "hashed"),
    ("insertproportion", "0"),
    ("insertstart", "0"),
    ("label", ""),
    ("latencytrackederrors", ""),
    ("maxexecutiontime", "0"),
    ("maxscanlength", "1000"),
    ("measurement.histogram.verbose", "false"),
    ("measurement.interval", "op"),
    ("measurement.raw.no_summary", "false"),
    ("measurement.raw.output_file", ""),
    ("measurement.trackjvm", "false"),
    ("measurementtype", "hdrhistogram"),
    ("minfieldlength", "1"),
    ("minscanlength", "1"),
    ("operationcount", "0"),
    ("readallfields", "true"),
    ("readallfieldsbyname", "false"),
    ("readmodifywriteproportion", "0"),
    ("readproportion", "0.95"),
    ("recordcount", "0"),
    ("reportlatencyforeacherror", "false"),
    ("requestdistribution", "uniform"),
    ("scanlengthdistribution", "uniform"),
    ("scanproportion", "0"),
    ("spin.sleep", "false"),
    ("status", "false"),
    ("status.interval", "10"),
    ("table", "usertable"),
    ("target", "0"),
    ("threadcount", "1"),
    ("timeseries.granularity", "1000"),
    ("updateproportion", "0.05"),
    ("workload", "site.ycsb.workloads.CoreWorkload"),
    ("writeallfields", "false"),
    ("zeropadding", "1"),
    ("memcached.hosts", ""),
    ("memcached.objectExpirationTime", "2147483647"),
];

/// Undotted names that bindings take: not ours, and no slip of the finger.
const OF_BINDINGS: [&str; 7] = [
    "hosts",
    "port",
    "user",
    "password",
    "debug",
    "columnfamily",
    "basicdb.verbose",
];

/// The names of the core and the client.
pub fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|(name, _)| *name)
}

/// YCSB's default of a known property.
pub fn default_of(name: &str) -> &'static str {
    KNOWN
        .iter()
        .find(|(known, _)| *known == name)
        .map_or("", |(_, default)| default)
}

/// Refuses names that nobody knows; returns those that are some binding's own and have no effect here.
pub fn check_names(properties: &Properties) -> Result<Vec<String>> {
    let mut ignored = Vec::new();
    for (name, said) in properties.iter() {
        if names().any(|known| known == name) {
            continue;
        }
        let near = did_you_mean(name, names());
        let is_of_a_binding = near.is_empty() && name.contains('.');
        if is_of_a_binding || OF_BINDINGS.contains(&name) {
            ignored.push(name.to_string());
            continue;
        }
        bail!(
            "{}: `{name}` is no property of YCSB's core{near}; docs/ycsb.md lists them",
            said.origin
        );
    }
    Ok(ignored)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(flags: &[&str]) -> Properties {
        let flags: Vec<String> = flags.iter().map(|flag| flag.to_string()).collect();
        Properties::merge(&[] as &[&str], &flags).unwrap()
    }

    #[test]
    fn slips_are_refused_and_bindings_left_alone() {
        let properties = with(&[
            "cassandra.keyspace=x",
            "hosts=h",
            "recordcount=1",
            "redis.port=1",
        ]);
        let ignored = check_names(&properties).unwrap();
        assert_eq!(ignored, ["cassandra.keyspace", "hosts", "redis.port"]);
        for (slip, meant) in [
            ("recordcuont=1", "`recordcount`"),
            ("measurment.interval=op", "`measurement.interval`"),
            ("exponential.fraction=1", "`exponential.frac`"),
        ] {
            let error = check_names(&with(&[slip])).unwrap_err().to_string();
            assert!(error.contains(meant) && error.contains(slip), "{error}");
        }
        assert!(check_names(&with(&["colour=blue"])).is_err());
    }

    #[test]
    fn every_property_is_in_the_docs() {
        let docs = include_str!("../../../../../docs/ycsb.md");
        for (name, default) in KNOWN {
            let row = docs
                .lines()
                .find(|line| line.starts_with(&format!("| `{name}` |")))
                .unwrap_or_else(|| panic!("{name} is not in docs/ycsb.md"));
            assert!(row.contains(default), "{name}: {row} lacks {default}");
        }
    }
}
