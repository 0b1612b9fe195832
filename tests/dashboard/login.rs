//! Authentication: password and session, back-off, token, trusted header.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use asynq_test_support::Log;
use asynq_tests::{SqliteFixture as Fixture, eventually};

use crate::dashboard::stage::{Events, OWN, PASSWORD, Request, Served, TOKEN, dashboard, hash};

/// How long the dashboard makes a client wait after five wrong guesses.
const FIRST_WAIT: Duration = Duration::from_secs(1);

async fn log_in(served: &Served, password: &str) -> crate::dashboard::stage::Answer {
    served.post("/login", &serde_json::json!({ "password": password }).to_string()).await
}

#[tokio::test]
async fn a_password_opens_a_session_until_the_logout() {
    let fixture = Fixture::start().await;
    let served = Served::start(dashboard(&fixture).password_hash(hash()).read_only(true)).await;
    assert_eq!(served.get("/api/queues").await.status, 401);
    let form = served.get("/login").await.body;
    assert!(form.contains("needs JavaScript") && !form.contains("can be read without"), "{form}");
    assert_eq!(log_in(&served, "wrong").await.code(), "wrong_login");
    let answer = log_in(&served, PASSWORD).await;
    assert_eq!(answer.status, 204);
    let cookie = answer.header("set-cookie");
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "it came without TLS: {cookie}");
    let key = cookie.split(';').next().unwrap();
    let request = Request::new("GET", "/api/queues").with("cookie", key);
    assert_eq!(served.ask(&request).await.status, 200);
    let leave = Request::new("POST", "/logout").own().with("cookie", key);
    let left = served.ask(&leave).await;
    assert_eq!((left.status, left.header("set-cookie").contains("Max-Age=0")), (204, true), "also when read-only");
    assert_eq!(served.ask(&request).await.status, 401);
}

/// Many such bodies at once would take the memory of the worker that serves the dashboard.
#[tokio::test]
async fn a_client_without_a_login_sends_small_bodies_only() {
    let fixture = Fixture::start().await;
    let served = Served::start(dashboard(&fixture).password_hash(hash())).await;
    let answer = log_in(&served, &"x".repeat(200 * 1024)).await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "too_large"), "{}", answer.body);
    assert!(answer.body.contains("larger than 128 KiB"), "{}", answer.body);
}

#[tokio::test]
async fn two_dashboards_of_one_host_keep_their_sessions_apart() {
    let fixture = Fixture::start().await;
    let mut served = Vec::new();
    for mount in ["", "", "/jobs"] {
        served.push((mount, Served::start(dashboard(&fixture).password_hash(hash()).mount(mount)).await));
    }
    let (mut cookies, mut names) = (Vec::new(), Vec::new());
    for (mount, one) in &served {
        let body = serde_json::json!({ "password": PASSWORD }).to_string();
        let answer = one.post(&format!("{mount}/login"), &body).await;
        let cookie = answer.header("set-cookie").split(';').next().unwrap().to_owned();
        names.push(cookie.split('=').next().unwrap().to_owned());
        cookies.push(cookie);
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), served.len(), "a browser keeps one cookie of a name for all ports: {names:?}");
    for (mount, one) in &served {
        let request = Request::new("GET", &format!("{mount}/api/queues")).with("cookie", &cookies.join("; "));
        assert_eq!(one.ask(&request).await.status, 200, "{mount}");
    }
}

#[tokio::test]
async fn behind_tls_the_cookie_is_secure() {
    let fixture = Fixture::start().await;
    let served = Served::start(dashboard(&fixture).password_hash(hash()).allow_host("jobs.example.com")).await;
    let body = serde_json::json!({ "password": PASSWORD }).to_string();
    let request = Request::new("POST", "/login").own().body(&body).with("host", "jobs.example.com");
    let answer = served.ask(&request.with("origin", "https://jobs.example.com")).await;
    assert!(answer.status == 204 && answer.header("set-cookie").ends_with("; Secure"), "{answer:?}");
}

#[tokio::test]
async fn a_guessing_peer_is_throttled_even_with_the_right_password() {
    let fixture = Fixture::start().await;
    let (served, answer) = eventually("a sixth try before the wait is over", async || {
        let served = Served::start(dashboard(&fixture).password_hash(hash()).bearer_token(TOKEN)).await;
        for _ in 0..4 {
            assert_eq!(log_in(&served, "guess").await.status, 403);
        }
        let began = Instant::now();
        assert_eq!(log_in(&served, "guess").await.status, 403);
        let answer = log_in(&served, PASSWORD).await;
        (began.elapsed() < FIRST_WAIT).then_some((served, answer))
    })
    .await;
    assert_eq!((answer.status, answer.code().as_str(), answer.header("retry-after")), (429, "back_off", "1"));
    let with = |token: &str| Request::new("GET", "/api/queues").with("authorization", &format!("Bearer {token}"));
    assert_eq!(served.ask(&with("0123456789abcdef-wrong")).await.status, 403, "tokens are counted apart");
    assert_eq!(
        served.ask(&with(TOKEN)).await.status,
        200,
        "a program is not locked out by a client that guesses passwords"
    );
    // The wait ends.
    eventually("the password is looked at", async || (log_in(&served, PASSWORD).await.status == 204).then_some(()))
        .await;
    assert_eq!(log_in(&served, "guess").await.status, 403, "forgiven");
}

#[tokio::test]
async fn many_guesses_at_once_are_as_many() {
    let fixture = Fixture::start().await;
    let bearer = |token: &str| Request::new("GET", "/api/queues").with("authorization", &format!("Bearer {token}"));
    let (wrong, right) = (bearer("0123456789abcdef-wrong"), bearer(TOKEN));
    let (served, statuses, answer) = eventually("all answers before the wait is over", async || {
        let served = Served::start(dashboard(&fixture).bearer_token(TOKEN)).await;
        let began = Instant::now();
        let answers = futures((0..20).map(|_| served.ask(&wrong))).await;
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        let answer = served.ask(&right).await;
        (began.elapsed() < FIRST_WAIT).then_some((served, statuses, answer))
    })
    .await;
    assert_eq!(statuses.iter().filter(|status| **status == 403).count(), 5, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 15, "{statuses:?}");
    // Before the wait is over, the answer does not tell whether a guess is right.
    assert_eq!(answer.status, 429);
    eventually("the token is looked at", async || (served.ask(&right).await.status == 200).then_some(())).await;
}

#[tokio::test]
async fn the_log_names_each_change_and_each_failed_login_and_no_secret() {
    let log = Log::keep();
    let fixture = Fixture::start().await;
    fixture.seed_pending(&["t1"]).await;
    let served = Served::start(dashboard(&fixture).password_hash(hash()).bearer_token(TOKEN)).await;
    let program = Request::new("POST", "/queues/default/tasks/t1/edit").own();
    let program = program.with("authorization", &format!("Bearer {TOKEN}")).body(r#"{"payload": "very private"}"#);
    assert_eq!(served.ask(&program).await.status, 200);
    assert_eq!(log_in(&served, "a wrong guess").await.status, 403);
    let answer = log_in(&served, PASSWORD).await;
    let cookie = answer.header("set-cookie").split(';').next().unwrap();
    let person = Request::new("POST", "/queues/none/pause").own().with("cookie", cookie);
    assert_eq!(served.ask(&person).await.status, 404);
    assert_eq!(served.ask(&person.without("cookie")).await.status, 401);
    let wrong = Request::new("GET", "/api/queues").with("authorization", "Bearer 0123456789abcdef-wrong");
    assert_eq!(served.ask(&wrong).await.status, 403);
    served.get("/login").await;

    let changes = log.with("the dashboard was asked for a change");
    let expected = [
        r#"who="program" peer="127.0.0.1" method=POST path="/queues/default/tasks/t1/edit" status=200"#,
        r#"who="nobody" peer="127.0.0.1" method=POST path="/login" status=403"#,
        r#"who="nobody" peer="127.0.0.1" method=POST path="/login" status=204"#,
        r#"who="person" peer="127.0.0.1" method=POST path="/queues/none/pause" status=404"#,
        r#"who="nobody" peer="127.0.0.1" method=POST path="/queues/none/pause" status=401"#,
    ];
    assert_eq!(changes.len(), expected.len(), "{changes:?}");
    for (change, expected) in changes.iter().zip(expected) {
        assert!(change.ends_with(expected), "{change}");
    }
    let guesses = log.with("a wrong login to the dashboard");
    assert_eq!(guesses.len(), 2, "{guesses:?}");
    assert!(guesses[0].contains("password") && guesses[1].contains("token"), "{guesses:?}");
    let key = cookie.split_once('=').unwrap().1;
    for secret in ["very private", "a wrong guess", PASSWORD, TOKEN, "abcdef-wrong", key] {
        assert_eq!(log.with(secret), [""; 0], "{secret}");
    }
}

#[tokio::test]
async fn a_stream_ends_with_its_session() {
    let fixture = Fixture::real_time().await;
    let served = Served::start(dashboard(&fixture).password_hash(hash())).await;
    let cookie =
        |answer: &crate::dashboard::stage::Answer| answer.header("set-cookie").split(';').next().unwrap().to_owned();
    let (ann, bob) = (cookie(&log_in(&served, PASSWORD).await), cookie(&log_in(&served, PASSWORD).await));
    let (status, mut hers) = Events::open_with(&served, "", &ann).await;
    let (_, mut his) = Events::open_with(&served, "", &bob).await;
    assert_eq!(status, 200);
    hers.next("samples").await;
    his.next("samples").await;
    let leave = Request::new("POST", "/logout").own().with("cookie", &ann);
    assert_eq!(served.ask(&leave).await.status, 204);
    hers.end().await;
    his.next("samples").await;
    assert_eq!(Events::open_with(&served, "", &ann).await.0, 401);
}

async fn futures<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut waiting: Vec<_> = all.map(Box::pin).collect();
    let mut done = Vec::new();
    std::future::poll_fn(|cx| {
        waiting.retain_mut(|future| match future.as_mut().poll(cx) {
            std::task::Poll::Ready(value) => {
                done.push(value);
                false
            }
            std::task::Poll::Pending => true,
        });
        if waiting.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done
}

#[tokio::test]
async fn a_trusted_header_lets_in_and_a_request_without_it_is_refused() {
    let fixture = Fixture::start().await;
    let served = Served::start(dashboard(&fixture).trusted_header("X-Forwarded-User")).await;
    let request = Request::new("GET", "/api/queues");
    assert_eq!(served.ask(&request).await.status, 401);
    assert_eq!(served.ask(&request.clone().with("x-forwarded-user", "")).await.status, 401);
    assert_eq!(served.ask(&request.clone().with("x-forwarded-user", "ann")).await.status, 200);
    let mut twice = request.with("x-forwarded-user", "ann");
    twice.headers.push(("X-Forwarded-User".to_owned(), "root".to_owned()));
    let answer = served.ask(&twice).await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (403, "wrong_login"),
        "a proxy that adds to the header of a client"
    );
}

#[tokio::test]
async fn a_trusted_header_lets_in_from_the_proxies_that_are_named() {
    use axum::extract::ConnectInfo;
    use tower::ServiceExt as _;

    let fixture = Fixture::start().await;
    let router = dashboard(&fixture).trusted_header("x-user").trust_proxy([10_u8, 0, 0, 5]).router().unwrap();
    for (last, status, says) in [
        (Some(5_u8), 200, "queues"),
        (Some(6), 403, "ASYNQ_DASHBOARD_TRUSTED_PROXIES"),
        (None, 403, "into_make_service_with_connect_info"),
    ] {
        let mut request = http::Request::get("/api/queues").header("host", "localhost").header("x-user", "ann");
        if let Some(last) = last {
            request = request.extension(ConnectInfo(std::net::SocketAddr::from(([10, 0, 0, last], 4000))));
        }
        let request = request.body(axum::body::Body::empty()).unwrap();
        let answer = router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{last:?}");
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        assert!(String::from_utf8_lossy(&body).contains(says), "{last:?}: {body:?}");
    }
}

#[tokio::test]
async fn a_page_redirects_to_the_login_and_the_api_answers_401() {
    let fixture = Fixture::start().await;
    let served = Served::start(dashboard(&fixture).password_hash(hash()).mount("/jobs")).await;
    let page = Request::new("GET", "/jobs/queues/a%2Fb?state=retry").with("accept", "text/html,*/*");
    let answer = served.ask(&page).await;
    assert_eq!(
        (answer.status, answer.header("location")),
        (303, "/jobs/login?next=%2Fjobs%2Fqueues%2Fa%252Fb%3Fstate%3Dretry")
    );
    let answer = served.get("/jobs/api/queues").await;
    assert_eq!((answer.status, answer.code().as_str()), (401, "no_login"));
}

#[test]
fn no_secret_is_ever_shown() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fixture = runtime.block_on(Fixture::start());
    let debug = format!("{:?}", dashboard(&fixture).password_hash(hash()).bearer_token(TOKEN));
    assert!(!debug.contains(TOKEN) && !debug.contains("argon2"), "{debug}");
}

/// The address of the broker holds a host, a path or a name, and a visitor may see nothing.
#[tokio::test]
async fn a_failure_says_nothing_of_the_broker_to_a_visitor() {
    let fixture = Fixture::start().await;
    let served = Served::start(dashboard(&fixture).bearer_token(TOKEN)).await;
    let page = |path: &str| Request::new("GET", path).with("accept", "text/html");
    let token = format!("Bearer {TOKEN}");
    for (request, status, is_known) in [
        (page("/"), 401, false),
        (page("/nowhere"), 404, false),
        (page("/").with("host", "evil.example"), 403, false),
        (page("/nowhere").with("host", "evil.example").with("authorization", &token), 403, false),
        (page("/nowhere").with("authorization", &token), 404, true),
    ] {
        let answer = served.ask(&request).await;
        assert_eq!(answer.status, status, "{request:?}");
        for part in ["class=\"where\"", "data-events"] {
            assert_eq!(answer.body.contains(part), is_known, "{part}: {request:?}");
        }
    }
}

#[tokio::test]
async fn a_change_is_in_the_log_although_the_client_hung_up() {
    use futures_util::stream;
    use tower::ServiceExt as _;

    let log = Log::keep();
    let fixture = Fixture::start().await;
    let router = dashboard(&fixture).without_login().router().unwrap();
    let request = OWN.iter().fold(http::Request::post("/queues/default/tasks/t1/delete"), |request, (name, value)| {
        request.header(*name, *value)
    });
    let never = axum::body::Body::from_stream(stream::pending::<Result<&str, std::convert::Infallible>>());
    let request = request.header("host", "localhost").body(never).unwrap();
    let mut call = Box::pin(router.oneshot(request));
    assert!(polled_once(&mut call).await.is_pending(), "its body does not end");
    drop(call);
    let changes = log.with("the dashboard was asked for a change");
    assert!(changes.len() == 1 && changes[0].ends_with("status=unanswered"), "{changes:?}");
}

#[tokio::test]
async fn the_path_of_a_client_without_a_login_is_not_in_the_log_as_a_whole() {
    let log = Log::keep();
    let fixture = Fixture::start().await;
    let served = Served::start(dashboard(&fixture).password_hash(hash())).await;
    for (length, status) in [(20 * 1024, 431), (1024, 401)] {
        assert_eq!(served.post(&format!("/queues/{}/pause", "x".repeat(length)), "").await.status, status);
    }
    let changes = log.with("the dashboard was asked for a change");
    assert!(changes.len() == 2 && changes.iter().all(|line| line.len() < 500), "{changes:?}");
}

/// Polls a future once.
async fn polled_once<F: Future + Unpin>(future: &mut F) -> std::task::Poll<F::Output> {
    std::future::poll_fn(|cx| std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx))).await
}
