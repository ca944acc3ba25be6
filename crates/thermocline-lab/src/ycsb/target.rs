//! What is measured: from the target as written to a subject's settings.

use super::args::Args;
use super::client::Client;
use crate::nearest::did_you_mean;
use crate::subject::read_subject;
use crate::subject::Recipe;
use crate::workload::ycsb::Layout;
use anyhow::{bail, Result};
use serde_json::json;

/// The subject's recipe, checked.
pub fn recipe(args: &Args, client: &Client) -> Result<Box<dyn Recipe>> {
    let mut table = args.set.clone();
    let target = args.target.as_str();
    if is_server(target) {
        let address = address(target, client)?;
        table.insert("kind".into(), json!("memcached"));
        table.insert("address".into(), json!(address));
        table.entry("fill".into()).or_insert(json!(args.fill));
        table
            .entry("connections".into())
            .or_insert(json!(client.threads));
        let update = match args.layout {
            Layout::Memcached => "replace",
            Layout::Row => "set",
        };
        table.entry("update".into()).or_insert(json!(update));
        return read_subject(table);
    }
    let kind = match target.split_once(':') {
        None if target == "embedded" => "thermocline",
        None if target == "null" => "null",
        Some(("embedded", kind)) => kind,
        _ => bail!(
            "target `{target}`{}: write embedded, embedded:ENGINE, null, memcached://HOST:PORT or unix:///PATH",
            did_you_mean(target, ["embedded", "null", "memcached"])
        ),
    };
    table.insert("kind".into(), json!(kind));
    if kind != "null" {
        table.entry("memory".into()).or_insert(json!(args.memory));
    }
    table.entry("fill".into()).or_insert(json!(args.fill));
    table.entry("reading".into()).or_insert(json!("copy"));
    table
        .entry("time_every".into())
        .or_insert(json!(args.time_every));
    read_subject(table)
}

/// Whether the target is a server that keeps what was loaded.
pub fn is_server(target: &str) -> bool {
    target == "memcached" || target.starts_with("memcached://") || target.starts_with("unix:")
}

fn address(target: &str, client: &Client) -> Result<String> {
    if target != "memcached" {
        return Ok(target.to_string());
    }
    let hosts = client.memcached_hosts.trim();
    if hosts.is_empty() {
        bail!("target `memcached` needs -p memcached.hosts=HOST[:PORT]; or write memcached://HOST:PORT");
    }
    let with_port: Vec<String> = hosts
        .split(',')
        .map(|host| match host.trim() {
            host if host.contains(':') => host.to_string(),
            host => format!("{host}:11211"),
        })
        .collect();
    Ok(format!("memcached://{}", with_port.join(",")))
}
