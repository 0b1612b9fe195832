//! Limits the head of a request.

use axum::http::{HeaderMap, Uri, header};

use super::body;
use crate::failure::{Failure, Kind};

/// Most bytes of path and query.
pub(super) const LONGEST_URI: usize = 8 * 1024;
/// Most bytes of all names and values of headers. A request also carries the cookies of other programs on this host.
const MOST_BYTES: usize = 32 * 1024;
/// Most headers.
const MOST_HEADERS: usize = 64;

/// Refuses a head that is too large.
pub(super) fn check(uri: &Uri, headers: &HeaderMap) -> Result<(), Failure> {
    let path = uri.path_and_query().map_or(0, |path| path.as_str().len());
    if path > LONGEST_URI {
        return Err(Failure::new(Kind::Headers, "the path is longer than 8 KiB"));
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if bytes > MOST_BYTES || headers.len() > MOST_HEADERS {
        return Err(Failure::new(Kind::Headers, "the headers are more than 64 or larger than 32 KiB"));
    }
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > body::MOST as u64) {
        return Err(body::too_large(body::MOST));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn a_request_that_is_too_large_is_refused() {
        let long = "x".repeat(LONGEST_URI);
        assert!(check(&Uri::from_static("/"), &HeaderMap::new()).is_ok());
        let uri: Uri = format!("/?{long}").parse().expect("a URI");
        assert_eq!(check(&uri, &HeaderMap::new()).map_err(|f| f.kind), Err(Kind::Headers));
        let mut large = HeaderMap::new();
        large.insert("cookie", HeaderValue::from_str(&"x".repeat(MOST_BYTES)).expect("a value"));
        assert_eq!(check(&Uri::from_static("/"), &large).map_err(|f| f.kind), Err(Kind::Headers));
        let mut many = HeaderMap::new();
        for n in 0..=MOST_HEADERS {
            many.insert(HeaderName::try_from(format!("x-{n}")).expect("a name"), HeaderValue::from_static("1"));
        }
        assert_eq!(check(&Uri::from_static("/"), &many).map_err(|f| f.kind), Err(Kind::Headers));
    }
}
