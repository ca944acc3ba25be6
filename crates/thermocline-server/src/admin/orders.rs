//! What changes something or walks the whole cache: `/lru_gen`, `/groups/drop`. Done on a thread of its own, so that metrics and
//! health are answered meanwhile.

use super::pages::{page, TEXT};
use crate::shared::Shared;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes};
use hyper::header::{HeaderMap, HOST, ORIGIN};
use hyper::{Method, Request, Response, StatusCode};
use std::sync::Arc;
use std::time::Duration;

/// Longest body of an order, bytes.
const BODY_BYTES_MAX: usize = 4 << 10;
/// A body that takes longer is given up.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

const LRU_GEN: &str = "/lru_gen";
const DROP: &str = "/groups/drop";

/// Whether `path` is one of ours.
pub fn is_order(path: &str) -> bool {
    matches!(path, LRU_GEN | DROP)
}

/// Answers GET by showing, POST by doing and then showing.
pub async fn answer<B>(request: Request<B>, shared: Arc<Shared>) -> Response<Full<Bytes>>
where
    B: Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let drops = request.uri().path() == DROP;
    let commands = match *request.method() {
        Method::GET | Method::HEAD if !drops => None,
        Method::POST => match order(request, &shared).await {
            Ok(text) => Some(text),
            Err(refusal) => return *refusal,
        },
        _ => {
            return text(
                StatusCode::METHOD_NOT_ALLOWED,
                match drops {
                    true => "POST the prefix of a group to be dropped; GET /groups shows them\n",
                    false => "POST an order; GET shows /lru_gen\n",
                },
            )
        }
    };
    let done = tokio::task::spawn_blocking(move || match drops {
        true => drop_group(&shared, commands.as_deref().unwrap_or("")),
        false => lru_gen(&shared, commands.as_deref()),
    })
    .await;
    done.unwrap_or_else(|_| text(StatusCode::INTERNAL_SERVER_ERROR, "it was given up\n"))
}

fn lru_gen(shared: &Shared, commands: Option<&str>) -> Response<Full<Bytes>> {
    match commands.map(|text| shared.cache.lru_gen_command(text)) {
        Some(Err(error)) => text(StatusCode::BAD_REQUEST, format!("{error}\n")),
        _ => text(StatusCode::OK, shared.cache.lru_gen()),
    }
}

fn drop_group(shared: &Shared, body: &str) -> Response<Full<Bytes>> {
    let prefix = body.trim_end_matches(['\r', '\n']);
    match shared.cache.drop_group(prefix.as_bytes()) {
        true => text(StatusCode::OK, format!("dropped {prefix}\n")),
        false => text(
            StatusCode::NOT_FOUND,
            format!("no group is configured with the prefix {prefix:?}\n"),
        ),
    }
}

/// The body of a POST, or why it is not obeyed.
async fn order<B>(
    request: Request<B>,
    shared: &Shared,
) -> Result<String, Box<Response<Full<Bytes>>>>
where
    B: Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if !shared.settings.allow_flush {
        return refuse(StatusCode::FORBIDDEN, "allow_flush is off\n");
    }
    if is_foreign(request.headers()) {
        return refuse(
            StatusCode::FORBIDDEN,
            "orders from pages of other sites are not obeyed\n",
        );
    }
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect();
    match tokio::time::timeout(BODY_TIMEOUT, body).await {
        Ok(Ok(body)) => String::from_utf8(body.to_bytes().to_vec())
            .or_else(|_| refuse(StatusCode::BAD_REQUEST, "the body is not UTF-8\n")),
        Ok(Err(_)) => refuse(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body has more than {BODY_BYTES_MAX} bytes\n"),
        ),
        Err(_) => refuse(StatusCode::REQUEST_TIMEOUT, "the body did not come\n"),
    }
}

fn refuse<T>(status: StatusCode, why: impl Into<String>) -> Result<T, Box<Response<Full<Bytes>>>> {
    Err(Box::new(text(status, why)))
}

/// A browser says where the page that sends the request came from; command-line tools do not.
fn is_foreign(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else {
        return false;
    };
    let site = |value: &hyper::header::HeaderValue| {
        let value = value.to_str().unwrap_or("");
        let host = value.split_once("://").map_or(value, |(_, host)| host);
        host.to_ascii_lowercase()
    };
    headers
        .get(HOST)
        .is_none_or(|host| site(host) != site(origin))
}

fn text(status: StatusCode, text: impl Into<String>) -> Response<Full<Bytes>> {
    page(status, TEXT, text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_of_foreign_pages_are_told_apart() {
        let headers = |origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, "127.0.0.1:9191".parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(ORIGIN, origin.parse().unwrap());
            }
            headers
        };
        assert!(!is_foreign(&headers(None)));
        assert!(!is_foreign(&headers(Some("http://127.0.0.1:9191"))));
        assert!(is_foreign(&headers(Some("https://example.com"))));
        assert!(is_foreign(&headers(Some("null"))));
        let mut nameless = headers(Some("http://a"));
        nameless.remove(HOST);
        assert!(is_foreign(&nameless));
    }
}
