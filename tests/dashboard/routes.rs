//! Every route against every attack: no attack changes anything, and each has its status.

use asynq_dashboard::{Access, Dashboard, RouteInfo};
use asynq_runtime::broker::EntryId;
use asynq_tests::{Store as _, default_queue, requeue};

use super::Fixture;
use crate::dashboard::stage::{Answer, Request, Served, TOKEN, dashboard, furnish, hash};

const TEN_MEGABYTES: usize = 10 * 1024 * 1024;

/// An attack that every route must refuse.
struct Attack {
    name: &'static str,
    change: fn(Request) -> Request,
    /// The status of a route of this kind; `None` where the attack does not apply.
    expected: fn(&RouteInfo) -> Option<u16>,
}

fn is_change(route: &RouteInfo) -> bool {
    route.method != "GET"
}

fn of_changes(route: &RouteInfo, status: u16) -> Option<u16> {
    is_change(route).then_some(status)
}

/// The read-only attack and path traversals are separate: they need another dashboard and other paths.
const ATTACKS: &[Attack] = &[
    Attack {
        name: "no login",
        change: |request| request.without("authorization"),
        expected: |route| (!matches!(route.access, Access::Public | Access::Probe)).then_some(401),
    },
    Attack {
        name: "a wrong token",
        change: |request| request.with("authorization", "Bearer 0123456789abcdef-wrong"),
        expected: |route| (!matches!(route.access, Access::Public | Access::Probe)).then_some(403),
    },
    Attack {
        name: "a session that was never opened",
        change: |request| request.without("authorization").with("cookie", "asynq_session_{port}=0123456789abcdef"),
        expected: |route| (!matches!(route.access, Access::Public | Access::Probe)).then_some(401),
    },
    Attack {
        name: "from another site",
        change: |request| request.with("sec-fetch-site", "cross-site").with("origin", "https://evil.example"),
        // Reads are refused as well, because searches and event streams have a cost.
        expected: |_| Some(403),
    },
    Attack {
        name: "from a neighbour of the site",
        change: |request| request.with("sec-fetch-site", "same-site"),
        expected: |route| of_changes(route, 403),
    },
    Attack {
        name: "by a form of another site, from a browser that says nothing of sites",
        change: |request| request.without("sec-fetch-site").with("origin", "http://evil.example"),
        expected: |route| of_changes(route, 403),
    },
    Attack {
        name: "from a sandboxed frame",
        change: |request| request.without("sec-fetch-site").with("origin", "null"),
        expected: |route| of_changes(route, 403),
    },
    Attack {
        name: "by a program that names no site",
        change: |request| request.without("sec-fetch-site"),
        expected: |route| of_changes(route, 403),
    },
    Attack {
        name: "without the custom header",
        change: |request| request.without("x-asynq-dashboard"),
        expected: |route| of_changes(route, 403),
    },
    Attack {
        name: "by another name",
        change: |request| request.with("host", "evil.example"),
        expected: |route| (route.access != Access::Probe).then_some(403),
    },
    Attack {
        name: "by a name that begins like ours",
        change: |request| request.with("host", "localhost.evil.example:80"),
        expected: |route| (route.access != Access::Probe).then_some(403),
    },
    Attack {
        name: "without a name",
        change: |request| request.with("host", ""),
        expected: |route| (route.access != Access::Probe).then_some(403),
    },
    Attack {
        name: "with 1 MiB and a byte",
        change: |request| request.body(&format!("\"{}\"", "x".repeat(1024 * 1024 - 1))),
        expected: |_| Some(413),
    },
    Attack {
        name: "with ten megabytes that never come",
        change: |request| request.with("content-length", &TEN_MEGABYTES.to_string()),
        expected: |_| Some(413),
    },
    Attack {
        name: "as a form",
        change: |request| request.with("content-type", "application/x-www-form-urlencoded").body("action=delete"),
        expected: |route| of_changes(route, 415),
    },
    Attack {
        name: "as plain text, which needs no preflight",
        change: |request| {
            let body = if request.body.is_empty() { "{}".to_owned() } else { request.body.clone() };
            request.with("content-type", "text/plain").body(&body)
        },
        expected: |route| of_changes(route, 415),
    },
    Attack {
        name: "with JSON that never ends",
        change: |request| request.body(&"[".repeat(100_000)),
        expected: |route| of_changes(route, 400),
    },
    Attack {
        name: "with a field that the route does not know",
        change: |request| request.body("{\"__proto__\": {\"action\": \"delete\"}}"),
        // A logout takes nothing and reads nothing.
        expected: |route| of_changes(route, 400).filter(|_| route.path != "/logout"),
    },
    Attack {
        name: "with a header of 40 KiB",
        change: |request| request.with("x-long", &"x".repeat(40 * 1024)),
        expected: |_| Some(431),
    },
    Attack {
        name: "with a header of 64 KiB",
        change: |request| request.with("x-long", &"x".repeat(64 * 1024)),
        expected: |_| Some(431),
    },
    Attack {
        name: "with 90 headers",
        change: |request| (0..90).fold(request, |request, n| request.with(&format!("x-{n}"), "1")),
        expected: |_| Some(431),
    },
];

/// A request that works: logged in, from the dashboard's own page, with a valid body.
fn good(route: &RouteInfo, entry: &str) -> Request {
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

fn locked(fixture: &Fixture) -> Dashboard {
    dashboard(fixture).password_hash(hash()).bearer_token(TOKEN)
}

/// All stored data, with the state of the entry, which dumps of Redis leave out.
async fn everything(fixture: &Fixture, entry: &str) -> String {
    let state = fixture.broker().entry(&default_queue(), &EntryId::from_wire(entry)).await.unwrap();
    format!("{}{state:?}", fixture.store.dump())
}

/// Asserts that no other site may read, run or frame anything.
fn check_headers(answer: &Answer, call: &str) {
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
async fn no_attack_on_any_route_changes_anything() {
    let fixture = Fixture::start().await;
    let entry = furnish(&fixture).await.entry;
    let before = everything(&fixture, &entry).await;
    let routes = locked(&fixture).routes();
    assert!(routes.len() > 25, "{}", routes.len());
    let mut cells = 0;
    for attack in ATTACKS {
        // A new dashboard for each, so that wrong logins of one route do not make the next one wait.
        let mut served = Served::start(locked(&fixture)).await;
        for (n, route) in routes.iter().enumerate() {
            if n % 4 == 3 {
                served = Served::start(locked(&fixture)).await;
            }
            let Some(expected) = (attack.expected)(route) else { continue };
            let call = format!("{} {} {}", attack.name, route.method, route.path);
            let mut request = (attack.change)(good(route, &entry));
            let port = served.address.port().to_string();
            request.headers.iter_mut().for_each(|(_, value)| *value = value.replace("{port}", &port));
            let answer = served.ask(&request).await;
            assert_eq!(answer.status, expected, "{call}: {answer:?}");
            if !answer.headers.is_empty() && answer.headers.contains_key("content-security-policy") {
                check_headers(&answer, &call);
            } else {
                assert_eq!(expected, 431, "only a head that is too large is refused before us: {call}");
            }
            assert_eq!(everything(&fixture, &entry).await, before, "{call}");
            cells += 1;
        }
    }
    assert!(cells > 300, "{cells}");
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
        // A request to cancel goes to workers and is not stored.
        let changes =
            route.access == Access::Write && !route.path.ends_with("/cancel") && !route.path.ends_with("/resume");
        assert_eq!(changed, changes, "{call}");
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
