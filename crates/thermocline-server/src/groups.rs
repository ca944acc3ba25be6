//! `thermocline groups` and `thermocline drop`: what groups of keys did and hold, and dropping one whole.

use crate::admin_client;
use crate::config::Listen;
use crate::shared::Shared;
use crate::wss::bytes;
use serde_json::{json, Value};
use std::fmt::Write;

/// A group's name: its prefix as it was configured. Only what is no UTF-8, which an embedder may have set, is escaped.
pub fn shown(prefix: &[u8]) -> String {
    match std::str::from_utf8(prefix) {
        Ok(text) => text.to_string(),
        Err(_) => prefix.escape_ascii().to_string(),
    }
}

/// `/groups`: one object a group, in the configured order.
pub fn page(shared: &Shared) -> Value {
    let groups = shared.cache.groups();
    let object = |group: &thermocline::GroupStats| {
        json!({
            "prefix": shown(&group.prefix),
            "share": group.share,
            "hits": group.hits,
            "misses": group.misses,
            "bytes": group.bytes,
            "evicted": group.evicted,
            "drops": group.drops,
        })
    };
    Value::Array(groups.iter().map(object).collect())
}

/// Shows the groups of the server at `at`.
pub fn run(at: &Listen, as_json: bool) -> Result<String, String> {
    let page = admin_client::json(at, "/groups")?;
    match as_json {
        true => Ok(format!("{page:#}\n")),
        false => text(&page)
            .ok_or_else(|| format!("{at}/groups: a figure is missing; is it another version?")),
    }
}

/// Drops the group with exactly this prefix.
pub fn drop_group(at: &Listen, prefix: &str) -> Result<String, String> {
    let (status, body) = admin_client::post(at, "/groups/drop", prefix)?;
    match status {
        200 => Ok(body),
        status => Err(format!(
            "{at}/groups/drop answered {status}: {}",
            body.trim()
        )),
    }
}

fn text(page: &Value) -> Option<String> {
    let list = page.as_array()?;
    if list.is_empty() {
        return Some("no groups are configured: --groups PREFIX,...\n".into());
    }
    let mut out =
        String::from("hits       misses     hit ratio      bytes  evicted  drops  group\n");
    for group in list {
        let number = |name: &str| group.get(name)?.as_u64();
        let (hits, misses) = (number("hits")?, number("misses")?);
        let ratio = hits as f64 / (hits + misses).max(1) as f64;
        let share = match group.get("share")?.as_f64()? {
            0.0 => String::new(),
            share => format!(" ({} % promised)", share * 100.0),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "{hits:<10} {misses:<10} {:>7.2} % {:>10} {:>8} {:>6}  {}{share}",
            ratio * 100.0,
            bytes(number("bytes")? as f64),
            number("evicted")?,
            number("drops")?,
            group.get("prefix")?.as_str()?,
        );
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_each_group() {
        let page = json!([{
            "prefix": "user:", "share": 0.1, "hits": 30, "misses": 10, "bytes": 2048, "evicted": 3, "drops": 1,
        }]);
        let text = text(&page).unwrap();
        assert!(
            text.contains("75.00 %    2.0 KiB        3      1  user: (10 % promised)"),
            "{text}"
        );
        assert!(super::text(&json!([])).unwrap().contains("--groups"));
        assert_eq!(super::text(&json!([{}])), None);
    }
}
