//! Every route with a proper request, on a read-only dashboard, and by paths and methods that must find nothing.

use std::collections::BTreeSet;

use asynq_dashboard::{Access, Dashboard, RouteInfo};
use asynq_runtime::broker::EntryId;
use asynq_tests::{Store as _, default_queue, requeue};

use super::Fixture;
use crate::dashboard::stage::{Answer, Request, Served, TOKEN, dashboard, furnish, hash};

pub(super) fn is_change(route: &RouteInfo) -> bool {
    route.method != "GET"
}

/// A request that works: logged in, from the dashboard's own page, with a valid body.
pub(super) fn good(route: &RouteInfo, entry: &str) -> Request {
    let method = if is_change(route) { "POST" } else { "GET" };
    let request = Request::new(method, &path(route, "t1", entry)).with("authorization", &format!("Bearer {TOKEN}"));
    let body = match route.path {
        path if path.ends_with("/bulk") => r#"{"action": "delete", "state": "pending", "ids": ["t2"]}"#,
        path if path.ends_with("/edit") => r#"{"payload": "new"}"#,
        path if path.ends_with("/queues/{queue}/delete") => r#"{"force": true}"#,
        "/login" => r#"{"password": "correct horse"}"#,
        _ => "",
    };
    if is_change(route) { request.own().body(body) } else { request }
}

fn path(route: &RouteInfo, id: &str, entry: &str) -> String {
    let id = match route.path.rsplit('/').next() {
        Some("cancel") => "busy",
        Some("run") => "later",
        _ => id,
    };
    let filled =
        [("{queue}", "default"), ("{id}", id), ("{entry}", entry), ("{version}", "x"), ("{*name}", "style.css")];
    filled.iter().fold(route.path.to_owned(), |path, (name, value)| path.replace(name, value))
}

pub(super) fn locked(fixture: &Fixture) -> Dashboard {
    dashboard(fixture).password_hash(hash()).bearer_token(TOKEN)
}

/// All stored data, with the state of the entry, which dumps of Redis leave out.
pub(super) async fn everything(fixture: &Fixture, entry: &str) -> String {
    let state = fixture.broker().entry(&default_queue(), &EntryId::from_wire(entry)).await.unwrap();
    format!("{}{state:?}", fixture.store.dump())
}

/// Asserts that no other site may read, run or frame anything.
pub(super) fn check_headers(answer: &Answer, call: &str) {
    assert!(!answer.headers.keys().any(|name| name.starts_with("access-control-")), "{call}: {answer:?}");
    let policy = answer.header("content-security-policy");
    for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
        assert!(policy.contains(part), "{call}: {policy}");
    }
    assert!(!policy.contains("unsafe-"), "{call}: {policy}");
    assert_eq!(answer.header("x-content-type-options"), "nosniff", "{call}");
    assert_eq!(answer.header("referrer-policy"), "no-referrer", "{call}");
    assert_eq!(answer.header("x-frame-options"), "DENY", "{call}");
}

#[tokio::test]
async fn every_route_answers_a_proper_request() {
    for route in locked(&Fixture::start().await).routes() {
        let fixture = Fixture::start().await;
        let furnished = furnish(&fixture).await;
        let entry = furnished.entry.clone();
        if route.path.ends_with("/queues/{queue}/delete") {
            // A queue with a running task cannot be deleted.
            fixture.settle(&furnished.busy, requeue()).await;
        }
        let served = Served::start(locked(&fixture)).await;
        let before = everything(&fixture, &entry).await;
        let call = format!("{} {}", route.method, route.path);
        if route.path == "/events" {
            // The stream does not end; another case tests its events.
            assert_eq!(served.status(&good(&route, &entry)).await, 200);
            continue;
        }
        let answer = served.ask(&good(&route, &entry)).await;
        assert!(matches!(answer.status, 200 | 204), "{call}: {answer:?}");
        check_headers(&answer, &call);
        let changed = everything(&fixture, &entry).await != before;
        // A request to cancel goes to workers; Redis keeps it at the run, and SQLite beside the tasks.
        if !route.path.ends_with("/cancel") {
            assert_eq!(changed, route.access == Access::Write && !route.path.ends_with("/resume"), "{call}");
        }
        assert!(
            answer.body.len() < 100_000 || route.path.starts_with("/assets"),
            "{call}: {} bytes",
            answer.body.len()
        );
    }
}

#[tokio::test]
async fn every_page_has_its_json() {
    let routes = locked(&Fixture::start().await).routes();
    let there = |path: &str| routes.iter().any(|route| route.method == "GET" && route.path == path);
    let pages = routes.iter().filter(|route| route.method == "GET" && route.access == Access::Read);
    // These are JSON, figures, or a stream of events already.
    let other = ["/api/", "/metrics", "/stats", "/events"];
    let pages = pages.filter(|route| !other.iter().any(|other| route.path.starts_with(other)));
    let pages: Vec<&str> = pages.map(|route| route.path).collect();
    assert!(pages.len() >= 9 && pages.contains(&"/queues/{queue}/tasks/{id}"), "{pages:?}");
    for page in pages {
        let json = if page == "/" { "/api/queues".to_owned() } else { format!("/api{page}") };
        assert!(there(&json), "{page} has no {json}");
    }
}

#[tokio::test]
async fn the_page_of_the_api_names_every_route_and_no_other() {
    let spans = include_str!("../../docs/api.md").split('`');
    let named: BTreeSet<String> =
        spans.filter(|span| span.starts_with("GET /") || span.starts_with("POST /")).map(str::to_owned).collect();
    let routes = locked(&Fixture::start().await).routes();
    let served: BTreeSet<String> = routes.iter().map(|route| format!("{} {}", route.method, route.path)).collect();
    let unknown: Vec<_> = named.difference(&served).collect();
    let missing: Vec<_> = served.difference(&named).collect();
    assert!(unknown.is_empty() && missing.is_empty(), "docs/api.md names {unknown:?}, and lacks {missing:?}");
}

#[tokio::test]
async fn a_read_only_dashboard_refuses_every_change_and_still_shows_everything() {
    let fixture = Fixture::start().await;
    let entry = furnish(&fixture).await.entry;
    let dashboard = locked(&fixture).read_only(true);
    let (routes, served) = (dashboard.routes(), Served::start(dashboard).await);
    let before = everything(&fixture, &entry).await;
    for route in &routes {
        if route.path == "/events" {
            assert_eq!(served.status(&good(route, &entry)).await, 200);
            continue;
        }
        let answer = served.ask(&good(route, &entry)).await;
        if route.access == Access::Write {
            assert_eq!((answer.status, answer.code().as_str()), (403, "read_only"), "{}", route.path);
        } else {
            assert!(matches!(answer.status, 200 | 204), "{} {}: {answer:?}", route.method, route.path);
        }
        assert_eq!(everything(&fixture, &entry).await, before, "{}", route.path);
    }
}

#[tokio::test]
async fn a_path_that_climbs_or_cannot_be_read_finds_nothing() {
    let fixture = Fixture::start().await;
    let entry = furnish(&fixture).await.entry;
    let dashboard = locked(&fixture);
    let (routes, served) = (dashboard.routes(), Served::start(dashboard).await);
    let before = everything(&fixture, &entry).await;
    for route in routes.iter().filter(|route| route.path.contains('{')) {
        for name in ["..%2f..%2fetc%2fpasswd", "%00", "%ff", "~..", "%252e%252e", "-", "%7Bdefault%7D:t:t1", "*"] {
            let names = ["{queue}", "{id}", "{entry}", "{version}", "{*name}"];
            let path = names.iter().fold(route.path.to_owned(), |path, known| path.replace(known, name));
            let request = Request { path, ..good(route, &entry) };
            let answer = served.ask(&request).await;
            assert!(matches!(answer.status, 400 | 404), "{} {}: {answer:?}", request.method, request.path);
            assert!(!answer.body.contains("root:"), "{answer:?}");
            assert_eq!(everything(&fixture, &entry).await, before, "{}", request.path);
        }
    }
    let long = format!("/queues/{}", "x".repeat(20_000));
    for path in ["/../../etc/passwd", "/assets/x/../../Cargo.toml", "/assets/x/..%2f..%2fCargo.toml", "//", "/%", &long]
    {
        let answer = served.ask(&Request::new("GET", path).with("authorization", &format!("Bearer {TOKEN}"))).await;
        assert!(matches!(answer.status, 400 | 404 | 431), "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn no_other_method_gets_through() {
    let fixture = Fixture::start().await;
    let entry = furnish(&fixture).await.entry;
    let dashboard = locked(&fixture);
    let (routes, served) = (dashboard.routes(), Served::start(dashboard).await);
    let before = everything(&fixture, &entry).await;
    for route in &routes {
        for method in ["PUT", "DELETE", "PATCH", "OPTIONS"] {
            let answer = served.ask(&Request { method, ..good(route, &entry) }).await;
            assert_eq!(answer.status, 405, "{method} {}: {answer:?}", route.path);
            check_headers(&answer, route.path);
        }
        // A read must not become a write by a header.
        if route.access == Access::Write {
            for name in ["x-http-method-override", "x-http-method", "x-method-override"] {
                let request = Request { method: "GET", ..good(route, &entry) }.with(name, "POST");
                assert_eq!(served.ask(&request).await.status, 405, "{name} {}", route.path);
            }
        }
    }
    assert_eq!(everything(&fixture, &entry).await, before);
}
