//! Whether a change was asked for by the dashboard's own pages: no other site can make a browser do it.

use axum::http::{HeaderMap, Uri};

use crate::failure::{Failure, Kind};

/// The header that a form cannot send and a script of another site may not send without asking first.
const CUSTOM: &str = "x-asynq-dashboard";

/// Refuses a change that lacks the custom header, or that did not come from the same origin.
pub(super) fn check(headers: &HeaderMap, host: Option<&str>) -> Result<(), Failure> {
    let refuse = |why: &str| Err(Failure::new(Kind::CrossSite, why));
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    if text(CUSTOM) != Some("1") {
        return refuse("a change needs the header `x-asynq-dashboard: 1`");
    }
    // A browser writes the one where it trusts the connection (TLS, or this machine), the other always.
    match (text("sec-fetch-site"), text("origin")) {
        (Some("same-origin"), _) => Ok(()),
        (Some(_), _) => refuse("a change must come from the dashboard's own pages: `Sec-Fetch-Site: same-origin`"),
        (None, Some(origin)) if is_of(origin, host) => Ok(()),
        (None, _) => refuse(
            "a change must come from the dashboard's own pages: `Sec-Fetch-Site: same-origin`, or an `Origin` that is the \
             host",
        ),
    }
}

/// Whether the origin's authority is the host of the request, port included.
fn is_of(origin: &str, host: Option<&str>) -> bool {
    let Ok(origin) = origin.parse::<Uri>() else { return false };
    let is_http = matches!(origin.scheme_str(), Some("http" | "https"));
    let same = |authority: &str| host.is_some_and(|host| host.eq_ignore_ascii_case(authority));
    is_http && origin.authority().is_some_and(|authority| same(authority.as_str()))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_the_dashboards_own_pages_change_anything() {
        let host = Some("localhost:8080");
        for (custom, site, origin, is_good) in [
            ("1", "same-origin", "", true),
            ("1", "same-origin", "http://proxy.example", true),
            ("1", "", "http://localhost:8080", true),
            ("1", "", "https://LOCALHOST:8080", true),
            ("", "same-origin", "http://localhost:8080", false),
            ("0", "same-origin", "", false),
            ("1", "", "", false),
            ("1", "none", "", false),
            ("1", "same-site", "http://localhost:8080", false),
            ("1", "cross-site", "http://localhost:8080", false),
            ("1", "same-origin, cross-site", "", false),
            ("1", "", "null", false),
            ("1", "", "http://localhost", false),
            ("1", "", "http://localhost:8081", false),
            ("1", "", "http://evil.example", false),
            ("1", "", "ftp://localhost:8080", false),
            ("1", "", "localhost:8080", false),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in [(CUSTOM, custom), ("sec-fetch-site", site), ("origin", origin)] {
                if !value.is_empty() {
                    headers.insert(name, HeaderValue::from_static(value));
                }
            }
            assert_eq!(check(&headers, host).is_ok(), is_good, "{custom} {site} {origin}");
        }
    }
}
