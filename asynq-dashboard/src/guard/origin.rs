//! Checks that a request was made by the dashboard's own pages: no other site can make a browser change anything, nor read.

use axum::http::{HeaderMap, Uri};

use crate::failure::{Failure, Kind};

/// The header that a form cannot send, and that a script of another site may send only after a CORS preflight.
const CUSTOM: &str = "x-asynq-dashboard";

/// Refuses reads that the page of another site makes a browser do: that page would see no answer, but searches are
/// costly and event streams are few. A link to the dashboard may be followed.
pub(super) fn check_reader(headers: &HeaderMap) -> Result<(), Failure> {
    let is = |name: &str, expected: &str| headers.get(name).is_some_and(|value| value == expected);
    let follows_a_link = is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document");
    if is("sec-fetch-site", "cross-site") && !follows_a_link {
        return Err(Failure::new(Kind::CrossSite, "another site's page asked for this"));
    }
    Ok(())
}

/// Refuses a change that lacks the custom header, or that did not come from the same origin.
pub(super) fn check(headers: &HeaderMap, host: Option<&str>) -> Result<(), Failure> {
    let refuse = |why: &str| Err(Failure::new(Kind::CrossSite, why));
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    if text(CUSTOM) != Some("1") {
        return refuse("a change needs the header `x-asynq-dashboard: 1`");
    }
    // A browser writes `Sec-Fetch-Site` where it trusts the connection (TLS, or this machine), and `Origin` always.
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

/// Returns whether the origin's authority is the host of the request, port included.
fn is_of(origin: &str, host: Option<&str>) -> bool {
    let Ok(origin) = origin.parse::<Uri>() else { return false };
    let is_http = matches!(origin.scheme_str(), Some("http" | "https"));
    let same = |authority: &str| host.is_some_and(|host| host.eq_ignore_ascii_case(authority));
    is_http && origin.authority().is_some_and(|authority| same(authority.as_str()))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn other_sites_may_link_to_the_dashboard_and_read_nothing() {
        for (site, mode, dest, is_good) in [
            ("", "", "", true),
            ("none", "navigate", "document", true),
            ("same-origin", "cors", "empty", true),
            ("cross-site", "navigate", "document", true),
            ("cross-site", "navigate", "iframe", false),
            ("cross-site", "no-cors", "image", false),
            ("cross-site", "cors", "empty", false),
            ("cross-site", "", "", false),
        ] {
            let headers = [("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)];
            let headers = headers.into_iter().filter(|(_, value)| !value.is_empty());
            let headers = headers.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            assert_eq!(check_reader(&headers.collect()).is_ok(), is_good, "{site} {mode} {dest}");
        }
    }

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
