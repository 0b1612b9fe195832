//! A dashboard mounted in another application: below a path, beside other routes.

use asynq_dashboard::DashboardError;
use asynq_tests::{SqliteFixture as Fixture, soon};
use axum::{Router, routing::get};
use tokio_util::sync::CancellationToken;

use crate::dashboard::stage::{Events, Request, Served, TOKEN, dashboard};

/// Serves the application by axum itself.
async fn application(router: Router) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

#[tokio::test]
async fn it_lives_below_its_path_and_leaves_the_rest_alone() {
    let fixture = Fixture::start().await;
    fixture.seed_pending(&["t1"]).await;
    let jobs = dashboard(&fixture).mount("/jobs/").bearer_token(TOKEN).router().unwrap();
    let own = Router::new().route("/", get(|| async { "mine" })).fallback(|| async { "my 404" });
    let served = Served::at(application(own.merge(jobs)).await);
    let token = format!("Bearer {TOKEN}");
    let ask = async |path: &str| served.ask(&Request::new("GET", path).with("authorization", &token)).await;
    assert_eq!(ask("/").await.body, "mine");
    assert_eq!(ask("/nowhere").await.body, "my 404");
    assert!(!ask("/").await.headers.contains_key("content-security-policy"), "the application's own pages are its own");
    assert_eq!(ask("/jobs/api/queues").await.json()["queues"][0]["pending"], 1);
    assert_eq!(served.get("/jobs/api/queues").await.status, 401);
    for lost in ["/jobs/nowhere", "/jobs/api/nowhere/x"] {
        assert_eq!(ask(lost).await.status, 404, "{lost}");
    }
    let pause = Request::new("POST", "/jobs/queues/default/pause").own();
    assert_eq!(served.ask(&pause.with("authorization", &token)).await.status, 200);
    assert_eq!(ask("/jobs/api/queues").await.json()["queues"][0]["paused"], true);
}

#[tokio::test]
async fn the_first_page_is_at_the_mount_path_with_a_slash_and_without() {
    let fixture = Fixture::start().await;
    let bound = dashboard(&fixture).mount("/jobs").bind("127.0.0.1:0").await.unwrap();
    let (served, url) = (Served::at(bound.address()), bound.url());
    let serving = tokio::spawn(bound.serve_until(std::future::pending()));
    let printed = url.strip_prefix(&format!("http://{}", served.address)).unwrap();
    for path in [printed, "/jobs", "/jobs/"] {
        let answer = served.get(path).await;
        assert!(answer.status == 200 && answer.body.contains("<h1>Queues"), "{path}: {answer:?}");
        assert_eq!(served.post(path, "{}").await.status, 405, "{path}");
    }
    assert_eq!(served.get("/").await.status, 404);
    serving.abort();
    // Metrics and health alone have no first page.
    let served = Served::start(dashboard(&fixture).mount("/jobs").observed_only()).await;
    for (path, status) in [("/jobs", 404), ("/jobs/", 404), ("/jobs/healthz", 200)] {
        assert_eq!(served.get(path).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn a_mounted_dashboard_needs_a_login_or_the_word_that_the_application_has_one() {
    let fixture = Fixture::start().await;
    let error = dashboard(&fixture).router().unwrap_err();
    assert!(matches!(error, DashboardError::MountedWithoutLogin), "{error}");
    assert!(error.to_string().contains(".without_login()"), "{error}");
    let served = Served::at(application(dashboard(&fixture).without_login().router().unwrap()).await);
    assert_eq!(served.get("/api/queues").await.status, 200);
}

#[tokio::test]
async fn an_open_page_does_not_keep_the_application_from_stopping() {
    let fixture = Fixture::start().await;
    let stop = CancellationToken::new();
    let jobs = dashboard(&fixture).without_login().stopping(stop.clone().cancelled_owned()).router().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let served = Served::at(listener.local_addr().unwrap());
    let serve = axum::serve(listener, jobs).with_graceful_shutdown(stop.clone().cancelled_owned());
    let serving = tokio::spawn(serve.into_future());
    let (status, mut events) = Events::open(&served, "").await;
    assert_eq!(status, 200);
    events.next("samples").await;
    stop.cancel();
    soon(serving).await.unwrap().unwrap();
    assert!(events.end().await, "the stream has its end");
}

#[tokio::test]
async fn a_stopping_server_ends_the_streams_of_open_pages_and_does_not_cut_them_off() {
    let fixture = Fixture::start().await;
    let stop = CancellationToken::new();
    let bound = dashboard(&fixture).bind("127.0.0.1:0").await.unwrap();
    let served = Served::at(bound.address());
    let serving = tokio::spawn(bound.serve_until(stop.clone().cancelled_owned()));
    let (_, mut events) = Events::open(&served, "").await;
    events.next("samples").await;
    stop.cancel();
    assert!(events.end().await, "the stream has its end");
    soon(serving).await.unwrap();
}
