//! The addresses where a dashboard may listen, and refusals with a sentence that says what to write.

use std::time::{Duration, Instant};

use asynq_dashboard::DashboardError;
use asynq_test_support::Log;
use asynq_tests::{PATIENCE, SqliteFixture as Fixture, eventually, soon};

use crate::dashboard::stage::{Request, Served, TOKEN, dashboard, hash};

#[tokio::test]
async fn anything_but_this_machine_needs_a_login() {
    let fixture = Fixture::start().await;
    for address in ["0.0.0.0:0", "[::]:0"] {
        let error = dashboard(&fixture).bind(address).await.unwrap_err();
        assert!(matches!(error, DashboardError::NoLogin { .. }), "{error}");
        let text = error.to_string();
        for part in ["127.0.0.1", ".password_hash(", ".bearer_token(", ".trusted_header(", "ASYNQ_DASHBOARD_TOKEN"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(
            dashboard(&fixture).without_login().bind(address).await.is_err(),
            "a port may be taken by another process"
        );
    }
    for dashboard in [
        dashboard(&fixture).bearer_token(TOKEN),
        dashboard(&fixture).password_hash(hash()),
        dashboard(&fixture).trusted_header("x-user"),
    ] {
        let bound = dashboard.bind("0.0.0.0:0").await.unwrap();
        assert!(bound.address().ip().is_unspecified());
    }
    for address in ["127.0.0.1:0", "localhost:0", "0"] {
        assert!(dashboard(&fixture).bind(address).await.unwrap().address().ip().is_loopback(), "{address}");
    }
}

/// Without the variable the command would make a file of its own, and the page would stay empty.
#[tokio::test]
async fn an_empty_broker_shows_how_to_enqueue_to_it() {
    let fixture = Fixture::start().await;
    let page = Served::start(dashboard(&fixture)).await.get("/").await.body;
    let (before, _) = page.split_once("asynq task enqueue").unwrap();
    assert!(before.contains("with <code>ASYNQ_URL</code> set to this broker"), "{page}");
}

#[tokio::test]
async fn an_invalid_setting_is_refused_with_a_valid_example() {
    let fixture = Fixture::start().await;
    let new = || dashboard(&fixture);
    for (dashboard, says) in [
        (new().password_hash("secret"), "$argon2id$"),
        (new().bearer_token("short"), "16"),
        (new().bearer_token("a".repeat(32)), "8 of them different"),
        (new().trusted_header("x y"), "`x y`"),
        (new().allow_host("https://jobs.example.com/"), "jobs.example.com"),
        (new().allow_host("*.example.com"), "each name or address by itself"),
        (new().mount("jobs"), "/jobs"),
    ] {
        let error = dashboard.clone().bind("127.0.0.1:0").await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        let error = dashboard.without_login().router().unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let taken = new().bind("127.0.0.1:0").await.unwrap();
    let error = new().bind(&taken.address().to_string()).await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("cannot listen at {}", taken.address())), "{error}");
}

#[tokio::test]
async fn trusted_proxies_without_a_trusted_header_are_warned_of() {
    let (fixture, log) = (Fixture::start().await, Log::keep());
    let named = || dashboard(&fixture).trust_proxy([10_u8, 0, 0, 5]);
    for (dashboard, warned) in [(named(), 1), (named().observed_only(), 0), (named().trusted_header("x-user"), 0)] {
        let before = log.with("`trust_proxy`").len();
        drop(dashboard.bind("127.0.0.1:0").await.unwrap());
        assert_eq!(log.with("`trust_proxy`").len() - before, warned);
    }
}

#[tokio::test]
async fn other_names_are_allowed_one_by_one() {
    let fixture = Fixture::start().await;
    let allowed = dashboard(&fixture).allow_host("jobs.example.com:8443").allow_host("2001:db8::1");
    let served = Served::start(allowed).await;
    for (host, status) in [
        ("jobs.example.com", 200),
        ("JOBS.example.com:1", 200),
        ("localhost", 200),
        ("[2001:db8::1]:8080", 200),
        ("example.com", 403),
        ("[2001:db8::2]:8080", 403),
    ] {
        let answer = served.ask(&Request::new("GET", "/api/queues").with("host", host)).await;
        assert_eq!(answer.status, status, "{host}");
        if status == 403 {
            assert!(answer.body.contains(".allow_host("), "{}", answer.body);
        }
    }
}

#[tokio::test]
async fn an_endpoint_for_metrics_has_nothing_else_and_answers_to_every_name_unless_it_is_on_this_machine() {
    let fixture = Fixture::start().await;
    // Beside metrics a password counts for nothing.
    let served = Served::start(dashboard(&fixture).password_hash(hash()).observed_only()).await;
    for path in ["/", "/api/queues", "/queues/default", "/events", "/login"] {
        assert_eq!(served.get(path).await.status, 404, "{path}");
    }
    assert_eq!(served.post("/queues/default/pause", "").await.status, 404);
    let foreign = Request::new("GET", "/stats").with("host", "evil.example");
    assert_eq!(served.ask(&foreign).await.status, 403, "a page under a name of its own would read it");
    assert_eq!(served.get("/stats").await.status, 200);
    let bound = dashboard(&fixture).observed_only().bind("0.0.0.0:0").await.unwrap();
    let open = Served::at(([127, 0, 0, 1], bound.address().port()).into());
    let serving = tokio::spawn(bound.serve_until(std::future::pending()));
    assert_eq!(open.ask(&foreign).await.status, 200, "as exporters are");
    serving.abort();
}

#[tokio::test]
async fn a_head_that_never_ends_is_cut_off() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let fixture = Fixture::start().await;
    let served = Served::start(dashboard(&fixture)).await;
    let began = Instant::now();
    let mut slow = tokio::net::TcpStream::connect(served.address).await.unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n").await.unwrap();
    let mut rest = Vec::new();
    // The server ends the connection after any answer.
    let _ = soon(slow.read_to_end(&mut rest)).await;
    assert!(began.elapsed() >= Duration::from_secs(9), "a client has ten seconds for its head");
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&rest));
}

/// How long the dashboard waits for a body.
const LONGEST_BODY: Duration = Duration::from_secs(10);

#[tokio::test]
async fn bodies_that_never_end_are_cut_off_and_leave_places_meanwhile() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let fixture = Fixture::start().await;
    let bound = dashboard(&fixture).password_hash(hash()).bind("0.0.0.0:0").await.unwrap();
    let port = bound.address().port();
    let serving = tokio::spawn(bound.serve_until(std::future::pending()));
    let served = Served::at(([127, 0, 0, 1], port).into());
    let head = "POST /login HTTP/1.1\r\nhost: localhost\r\nsec-fetch-site: same-origin\r\nx-asynq-dashboard: 1\r\n\
         content-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    let (slow, answer) = eventually("one more connection before the first body is cut off", async || {
        let (mut slow, began) = (Vec::new(), Instant::now());
        for _ in 0..128 {
            let mut stream = tokio::net::TcpStream::connect(served.address).await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            slow.push(stream);
        }
        let mut further = tokio::net::TcpStream::connect(served.address).await.unwrap();
        let mut answer = Vec::new();
        let _ = soon(further.read_to_end(&mut answer)).await;
        (began.elapsed() < LONGEST_BODY).then_some((slow, answer))
    })
    .await;
    // The server drops a connection beyond the share of one address.
    assert!(answer.is_empty(), "{answer:?}");
    // A client from another address of this machine is not held up. Only Linux has a second one without further settings.
    if cfg!(target_os = "linux") {
        let neighbour = tokio::net::TcpSocket::new_v4().unwrap();
        neighbour.bind(([127, 0, 0, 2], 0).into()).unwrap();
        let mut neighbour = neighbour.connect(served.address).await.unwrap();
        neighbour.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut healthy = String::new();
        soon(neighbour.read_to_string(&mut healthy)).await.unwrap();
        assert!(healthy.starts_with("HTTP/1.1 200"), "{healthy}");
    }
    for mut stream in slow {
        let mut answer = String::new();
        let _ = soon(stream.read_to_string(&mut answer)).await;
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    }
    assert_eq!(served.get("/healthz").await.status, 200, "its places are free again");
    serving.abort();
}

#[tokio::test]
async fn an_answer_that_the_client_does_not_read_is_cut_off() {
    use tokio::io::AsyncWriteExt as _;

    let fixture = Fixture::start().await;
    let served = Served::start(dashboard(&fixture)).await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    // A small buffer is full after a few answers.
    socket.set_recv_buffer_size(4096).unwrap();
    let mut silent_client = socket.connect(served.address).await.unwrap();
    // The requests do not end, so that the server's answers fill all buffers in between.
    let writes =
        async { while silent_client.write_all(b"GET /login HTTP/1.1\r\nhost: localhost\r\n\r\n").await.is_ok() {} };
    let cut = tokio::time::timeout(3 * PATIENCE, writes).await;
    assert!(cut.is_ok(), "an answer that the client does not read holds its connection for ever");
}
