//! Names in URLs, both ways: any queue, id or entry, whatever characters it has, as one segment of a path.

use axum::{
    extract::{FromRequestParts, Path, Query},
    http::request::Parts,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};

use crate::failure::Failure;

/// All characters but the unreserved ones of RFC 3986, and the colon, which is common in ids.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':');

/// The prefix of names that a browser would take for a step in the path, `.` and `..`, even if they are encoded; and of
/// names that begin with this prefix.
const SHIELD: char = '~';

/// Returns `name` as one segment of a path; [`Name`] reads it.
pub(crate) fn segment(name: &str) -> String {
    let encoded = utf8_percent_encode(name, ESCAPED);
    if name == "." || name == ".." || name.starts_with(SHIELD) {
        format!("{SHIELD}{encoded}")
    } else {
        encoded.to_string()
    }
}

/// Returns the path of these segments below `mount`: `["queues", "a/b"]` → `/jobs/queues/a%2Fb`.
pub(crate) fn href(mount: &str, segments: &[&str]) -> String {
    let mut path = mount.to_owned();
    for part in segments {
        path.push('/');
        path.push_str(&segment(part));
    }
    if path.is_empty() { "/".to_owned() } else { path }
}

/// Returns `path` with a query string of these pairs; pairs with an empty value are left out.
pub(crate) fn with_query(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut url = path.to_owned();
    let pairs = pairs.iter().filter(|(_, value)| !value.is_empty());
    for (at, (key, value)) in pairs.enumerate() {
        url.push(if at == 0 { '?' } else { '&' });
        url.extend([key.to_string(), "=".to_owned(), utf8_percent_encode(value, ESCAPED).to_string()]);
    }
    url
}

/// A queue, id, group or entry that a path names, decoded.
#[derive(Debug)]
pub(crate) struct Name(pub(crate) String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut name = String::deserialize(from)?;
        if name.starts_with(SHIELD) {
            name.remove(0);
        }
        Ok(Self(name))
    }
}

/// The names of a path: `Segments(Name(queue)): Segments<Name>`, `Segments((Name(queue), Name(id))): Segments<(Name, Name)>`.
#[derive(Debug)]
pub(crate) struct Segments<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Segments<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let names = Path::<T>::from_request_parts(parts, state).await;
        let Path(names) = names.map_err(|why| Failure::bad_request(format!("the path cannot be read: {why}")))?;
        Ok(Self(names))
    }
}

/// The query string, read into `T`; a query string that does not fit is a bad request.
#[derive(Debug)]
pub(crate) struct UrlQuery<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for UrlQuery<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        let Query(query) = query.map_err(|why| Failure::bad_request(why.to_string()))?;
        Ok(Self(query))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_comes_back_from_one_segment() {
        for (name, expected) in [
            ("default", "default"),
            ("a/b", "a%2Fb"),
            ("100%", "100%25"),
            ("..", "~.."),
            (".", "~."),
            ("~x", "~~x"),
            ("a..b", "a..b"),
            ("\"><script>", "%22%3E%3Cscript%3E"),
            ("ä \n\0?#&+", "%C3%A4%20%0A%00%3F%23%26%2B"),
            ("cron:9", "cron:9"),
        ] {
            assert_eq!(segment(name), expected);
            let decoded = percent_encoding::percent_decode_str(expected).decode_utf8().expect("UTF-8");
            let read: Name = serde_json::from_value(decoded.into()).expect("a text");
            assert_eq!(read.0, name);
        }
    }

    #[test]
    fn a_link_has_its_mount_and_only_the_pairs_that_say_something() {
        assert_eq!(href("", &[]), "/");
        assert_eq!(href("/jobs", &[]), "/jobs");
        let link = href("/jobs", &["queues", "a b", "tasks", "?"]);
        assert_eq!(link, "/jobs/queues/a%20b/tasks/%3F");
        assert_eq!(with_query("/search", &[("q", "a&b"), ("state", ""), ("page", "2")]), "/search?q=a%26b&page=2");
        assert_eq!(with_query("/search", &[("q", "")]), "/search");
    }
}
