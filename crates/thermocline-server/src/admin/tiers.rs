//! What an operator may change about the tiers while the server runs: `POST /tiers`, `POST /tiers/trim`.
//!
//! Refused for pages of a browser, which say where they come from: a stranger's page must not steer a server that
//! listens on the loopback address of whoever reads it.

use super::pages::{json_page, page, TEXT};
use crate::config::parse_size;
use crate::shared::Shared;
use crate::stats::tiers;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::ORIGIN;
use hyper::{Request, Response, StatusCode};
use serde_json::json;
use std::time::Duration;
use thermocline::CompressMode;

/// Bytes that one trim evicts at most unless asked otherwise: the admin door is busy meanwhile.
const TRIM_BYTES: u64 = 256 << 20;

/// The answer to a POST; None: there is nothing to change under this path.
pub fn post<B>(request: &Request<B>, shared: &Shared) -> Option<Response<Full<Bytes>>> {
    let query = request.uri().query().unwrap_or("");
    let done = match request.uri().path() {
        "/tiers" | "/tiers/trim" if request.headers().contains_key(ORIGIN) => {
            let text = "not for pages of a browser\n".into();
            return Some(page(StatusCode::FORBIDDEN, TEXT, text));
        }
        "/tiers" => force(query, shared),
        "/tiers/trim" => trim(query, shared),
        _ => return None,
    };
    Some(done.unwrap_or_else(|text| page(StatusCode::BAD_REQUEST, TEXT, format!("{text}\n"))))
}

fn force(query: &str, shared: &Shared) -> Result<Response<Full<Bytes>>, String> {
    let asked = value_of(query, "compress").ok_or("POST /tiers?compress=auto|on|off")?;
    let mode = [CompressMode::Auto, CompressMode::On, CompressMode::Off]
        .into_iter()
        .find(|&mode| tiers::mode_name(mode) == asked)
        .ok_or_else(|| format!("compress={asked}: auto, on or off"))?;
    shared
        .cache
        .set_compress(mode)
        .map_err(|error| error.to_string())?;
    tracing::info!(
        compress = asked,
        "compression was switched by the admin door"
    );
    Ok(json_page(&tiers::object(&shared.cache.tiers())))
}

fn trim(query: &str, shared: &Shared) -> Result<Response<Full<Bytes>>, String> {
    let age = value_of(query, "age").ok_or("POST /tiers/trim?age=SECONDS&bytes=SIZE")?;
    let age: u64 = age
        .parse()
        .map_err(|_| format!("age={age}: seconds are wanted"))?;
    let bytes = match value_of(query, "bytes") {
        Some(text) => parse_size(text).map_err(|error| format!("bytes={text}: {error}"))?,
        None => TRIM_BYTES,
    };
    let done = shared
        .cache
        .trim_compressed(Duration::from_secs(age), bytes);
    tracing::info!(
        age,
        bytes = done.bytes,
        "the compressed tier was trimmed by the admin door"
    );
    Ok(json_page(
        &json!({ "segments": done.segments, "bytes": done.bytes }),
    ))
}

fn value_of<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let value = |pair: &'a str| pair.strip_prefix(name)?.strip_prefix('=');
    query.split('&').find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_whole_name() {
        assert_eq!(value_of("age=3&bytes=1MiB", "bytes"), Some("1MiB"));
        assert_eq!(value_of("lineage=3&age=5", "age"), Some("5"));
        assert_eq!(value_of("", "age"), None);
        assert_eq!(value_of("age", "age"), None);
    }
}
