//! Group 9: how it was run: order, times, what else ran, by whom. Most of it is of the moment.

use super::fields::Fields;
use super::{sha256, About};
use crate::root::Root;
use serde_json::json;

pub fn fields(root: &Root, about: &About) -> Fields {
    let mut fields = Fields::default();
    fields.moment("index", Ok(about.index));
    fields.moment("block", Ok(about.block));
    fields.file("boot_id", root, "/proc/sys/kernel/random/boot_id");
    let words = |path: &str, count: usize| {
        let text = root.read(path)?;
        Ok(text
            .split_whitespace()
            .take(count)
            .collect::<Vec<_>>()
            .join(" "))
    };
    fields.moment("uptime_s", words("/proc/uptime", 1));
    fields.moment("load", words("/proc/loadavg", 3));
    fields.moment("processes_running", running(root));
    let dropped = about.read_back.get("drop_caches").cloned();
    fields.value("caches_dropped_before", dropped.unwrap_or(json!("no")));
    fields.value("user_id", json!(rustix::process::geteuid().as_raw()));
    let host = root.read("/proc/sys/kernel/hostname");
    fields.read("host_sha256", host.map(|name| sha256(name.as_bytes())));
    fields
}

/// Runnable tasks, from the fourth word of /proc/loadavg.
fn running(root: &Root) -> Result<u64, String> {
    let text = root.read("/proc/loadavg")?;
    text.split_whitespace()
        .nth(3)
        .and_then(|word| word.split('/').next()?.parse().ok())
        .ok_or_else(|| "not in /proc/loadavg".into())
}
