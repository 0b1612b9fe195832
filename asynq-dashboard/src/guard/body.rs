//! The body of a change: a JSON object or nothing, at most 1 MiB (128 KiB without a login), at most 64 deep, and in time.

use std::time::Duration;

use axum::{body::Body, extract::Request, http::header};
use futures_util::StreamExt as _;

use crate::{
    failure::{Failure, Kind},
    query::payload::{DEEPEST, json::depth_of},
};

/// Most bytes of a body.
pub(crate) const MOST: usize = 1024 * 1024;

/// Most bytes of a body on a route that needs no login: clients without a password may hold most of the 256 connections, each with
/// a body that does not end.
pub(super) const MOST_OPEN: usize = 128 * 1024;

/// How long a body may take to come: a slow body is cut off as early as a slow head.
const LONGEST: Duration = Duration::from_secs(10);

/// Reads the body of the request, of at most so many bytes.
pub(super) async fn read(request: Request, most: usize) -> Result<Request, Failure> {
    let (parts, body) = request.into_parts();
    let bytes = match tokio::time::timeout(LONGEST, whole(body, most)).await {
        Ok(read) => read?,
        Err(_) => return Err(Failure::new(Kind::Stalled, "the body did not come within 10 s")),
    };
    if !bytes.is_empty() {
        let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !is_json(kind) {
            return Err(Failure::new(Kind::MediaType, "a body must be JSON: `Content-Type: application/json`"));
        }
        if depth_of(&bytes) > DEEPEST {
            return Err(Failure::bad_request("the JSON is more than 64 levels deep"));
        }
        // serde takes an array for a struct, its elements for the fields in their order.
        if bytes.trim_ascii_start().first().is_some_and(|first| *first != b'{') {
            return Err(Failure::bad_request("the body must be a JSON object"));
        }
    }
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

async fn whole(body: Body, most: usize) -> Result<Vec<u8>, Failure> {
    let (mut bytes, mut chunks) = (Vec::new(), body.into_data_stream());
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Failure::bad_request("the body broke off"))?;
        if bytes.len() + chunk.len() > most {
            return Err(too_large(most));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Returns the failure of a body of more than so many bytes.
pub(super) fn too_large(most: usize) -> Failure {
    Failure::new(Kind::TooLarge, format!("the body is larger than {} KiB", most / 1024))
}

fn is_json(kind: &str) -> bool {
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_is_json_and_small_or_refused() {
        let large = " ".repeat(MOST + 1);
        let deep = "[".repeat(65);
        for (kind, body, expected) in [
            ("application/json", "{}", None),
            ("Application/JSON; charset=utf-8", "{}", None),
            ("", "", None),
            ("text/plain", "", None),
            ("text/plain", "{}", Some(Kind::MediaType)),
            ("application/x-www-form-urlencoded", "a=b", Some(Kind::MediaType)),
            ("application/jsonp", "{}", Some(Kind::MediaType)),
            ("", "{}", Some(Kind::MediaType)),
            ("application/json", large.as_str(), Some(Kind::TooLarge)),
            ("application/json", deep.as_str(), Some(Kind::BadRequest)),
            ("application/json", "[true]", Some(Kind::BadRequest)),
            ("application/json", " {}", None),
        ] {
            let request = Request::post("/").header("content-type", kind).body(Body::from(body.to_owned()));
            let answer = read(request.expect("a request"), MOST).await.err().map(|failure| failure.kind);
            assert_eq!(answer, expected, "{kind} {}", body.len());
        }
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_not_too_large() {
        let chunks = futures_util::stream::iter([Ok("{"), Err(std::io::Error::other("reset"))]);
        let request = Request::post("/").header("content-type", "application/json").body(Body::from_stream(chunks));
        let failure = read(request.expect("a request"), MOST).await.expect_err("half of a body");
        assert_eq!(failure.kind, Kind::BadRequest);
    }
}
