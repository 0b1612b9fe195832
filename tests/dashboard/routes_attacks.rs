//! Every route against every attack: no attack changes anything, and each has its status. The dashboard refuses all of them before it
//! asks a broker, so these cases run on one broker.

use asynq_dashboard::{Access, RouteInfo};

use super::{
    Fixture,
    routes::{check_headers, everything, good, is_change, locked},
};
use crate::dashboard::stage::{Request, Served, furnish};

const TEN_MEGABYTES: usize = 10 * 1024 * 1024;

/// An attack that every route must refuse.
struct Attack {
    name: &'static str,
    change: fn(Request) -> Request,
    /// The status of a route of this kind; `None` where the attack does not apply.
    expected: fn(&RouteInfo) -> Option<u16>,
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
