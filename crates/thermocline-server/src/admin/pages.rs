//! The pages of the admin door.

use super::{metrics, mrc, tiers};
use crate::groups;
use crate::pages;
use crate::shared::{Shared, Stop};
use crate::stats::{self, KEYS_LISTED_MAX};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::{Method, Request, Response, StatusCode};
use nix::sys::resource::{getrusage, UsageWho};
use serde_json::{json, Map, Value};

const JSON: &str = "application/json";
pub(super) const TEXT: &str = "text/plain; charset=utf-8";
/// The text format of Prometheus.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const KEYS_LISTED: usize = 20;

const INDEX: &str = "\
thermocline
/metrics     counters and gauges for Prometheus
/healthz     200 while the process runs
/readyz      200 while clients are served, 503 while stopping
/pressure    what memory pressure there was in the last ten minutes, and what was done, as JSON
/stats       memcached's stats and the cache's own, as JSON
/mrc         the live miss-ratio curve, as JSON
/groups      hits, misses, bytes and evictions of each group of keys, as JSON; POST a prefix to /groups/drop
/lru_gen     bytes and items by age, as the kernel's lru_gen; POST `+` to age, `- N` to evict
/tiers       what lies hot and what compressed, dictionaries, costs, as JSON
             POST /tiers?compress=auto|on|off switches; POST /tiers/trim?age=SECONDS&bytes=SIZE evicts what
             has been compressed for so long
/keys/hot?n= the most read keys
/keys/big?n= the keys with the largest values
";

pub fn answer<B>(request: &Request<B>, shared: &Shared) -> Response<Full<Bytes>> {
    if request.method() == Method::POST {
        if let Some(done) = tiers::post(request, shared) {
            return done;
        }
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut response = page(
            StatusCode::METHOD_NOT_ALLOWED,
            TEXT,
            "only GET is answered here\n".into(),
        );
        response
            .headers_mut()
            .insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let count = count_of(request.uri().query());
    match request.uri().path() {
        "/" => page(StatusCode::OK, TEXT, INDEX.into()),
        "/metrics" => page(StatusCode::OK, METRICS, metrics::text(shared)),
        "/healthz" => page(StatusCode::OK, TEXT, "ok\n".into()),
        "/readyz" => match shared.stop() {
            Stop::Run => page(StatusCode::OK, TEXT, "ready\n".into()),
            Stop::Drain | Stop::Now => {
                page(StatusCode::SERVICE_UNAVAILABLE, TEXT, "stopping\n".into())
            }
        },
        "/stats" => json_page(&all_stats(shared)),

        "/mrc" => match mrc::page(shared) {
            Some(curve) => json_page(&curve),
            None => page(
                StatusCode::NOT_FOUND,
                TEXT,
                "the cache keeps no curve\n".into(),
            ),
        },
        "/groups" => json_page(&groups::page(shared)),
        "/tiers" => json_page(&stats::tiers::object(&shared.cache.tiers())),
        "/pressure" => json_page(&shared.pressure.to_json()),
        "/keys/hot" | "/keys/big" if !shared.settings.allow_dump => {
            page(StatusCode::FORBIDDEN, TEXT, "allow_dump is off\n".into())
        }
        "/keys/hot" | "/keys/big" if count.is_none() => {
            page(StatusCode::BAD_REQUEST, TEXT, "n= wants a number\n".into())
        }
        "/keys/hot" => json_page(&hot_keys(shared, count.unwrap_or(KEYS_LISTED))),
        "/keys/big" => json_page(&big_keys(shared, count.unwrap_or(KEYS_LISTED))),
        _ => page(StatusCode::NOT_FOUND, TEXT, INDEX.into()),
    }
}

pub(super) fn page(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

pub(super) fn json_page(value: &Value) -> Response<Full<Bytes>> {
    page(StatusCode::OK, JSON, format!("{value:#}\n"))
}

/// `n=` of a query; None: not a number.
fn count_of(query: Option<&str>) -> Option<usize> {
    let pairs = query.into_iter().flat_map(|query| query.split('&'));
    let count = match pairs.filter_map(|pair| pair.strip_prefix("n=")).next() {
        Some(number) => number.parse().ok()?,
        None => KEYS_LISTED,
    };
    Some(count.clamp(1, KEYS_LISTED_MAX))
}

/// Numbers as numbers, everything else as text.
fn object(lines: stats::Lines) -> Value {
    let value = |text: String| match text.parse::<u64>() {
        Ok(number) => json!(number),
        Err(_) => json!(text),
    };
    let map: Map<String, Value> = lines
        .into_iter()
        .map(|(name, text)| (name, value(text)))
        .collect();
    Value::Object(map)
}

fn all_stats(shared: &Shared) -> Value {
    let reserve = shared.reserve();
    json!({
        "general": object(stats::general(shared)),
        "settings": object(stats::settings(shared)),
        "cache": metrics::cache_object(shared),
        "pages": object(stats::pages(shared)),
        "process": process(shared),
        "reserved_bytes": {
            "base": reserve.base,
            "workers": reserve.workers,
            "connections": reserve.connections,
            "buffer_pool": reserve.pool,
            "admin": reserve.admin,
        },
    })
}

/// The process as the kernel sees it.
fn process(shared: &Shared) -> Value {
    let usage = getrusage(UsageWho::RUSAGE_SELF);
    let faults = usage.map_or((0, 0), |usage| {
        (usage.minor_page_faults(), usage.major_page_faults())
    });
    let huge = shared.cache.pages().bytes.unwrap_or_default();
    json!({
        "resident_bytes": pages::resident_bytes(),
        "huge_percent": huge.coverage_percent(),
        "minor_faults": faults.0,
        "major_faults": faults.1,
    })
}

fn hot_keys(shared: &Shared, count: usize) -> Value {
    let list = shared.cache.hot_keys(count);
    let entry = |hot: &thermocline::HotKey| json!({ "key": hot.key.escape_ascii().to_string(), "share": hot.share, "whole": hot.whole });
    Value::Array(list.iter().map(entry).collect())
}

fn big_keys(shared: &Shared, count: usize) -> Value {
    let list = shared.largest_keys(count);
    let entry = |(bytes, key): &(u64, Vec<u8>)| json!({ "key": key.escape_ascii().to_string(), "value_bytes": bytes });
    Value::Array(list.iter().map(entry).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_keys_is_read_and_bounded() {
        assert_eq!(count_of(None), Some(KEYS_LISTED));
        assert_eq!(count_of(Some("a=b&n=7")), Some(7));
        assert_eq!(count_of(Some("n=x")), None);
        assert_eq!(count_of(Some("n=99999999")), Some(KEYS_LISTED_MAX));
    }
}
