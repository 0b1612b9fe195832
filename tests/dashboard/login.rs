//! Who gets in: password and session, back-off, token, trusted header.

use asynq_tests::SqliteFixture as Fixture;

use crate::stage::{PASSWORD, Request, Served, TOKEN, dashboard, hash};

async fn log_in(served: &Served, password: &str) -> crate::stage::Answer {
    served.post("/login", &serde_json::json!({ "password": password }).to_string()).await
}

#[tokio::test]
async fn a_password_opens_a_session_until_the_logout() {
    let fixture = Fixture::start().await;
    let served = Served::start(dashboard(&fixture).password_hash(hash()).read_only(true)).await;
    assert_eq!(served.get("/api/queues").await.status, 401);
    assert_eq!(log_in(&served, "wrong").await.code(), "wrong_login");
    let answer = log_in(&served, PASSWORD).await;
    assert_eq!(answer.status, 204);
    let cookie = answer.header("set-cookie");
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "it came without TLS: {cookie}");
    let key = cookie.split(';').next().unwrap();
    let asked = Request::new("GET", "/api/queues").with("cookie", key);
    assert_eq!(served.ask(&asked).await.status, 200);
    let leave = Request::new("POST", "/logout").own().with("cookie", key);
    let left = served.ask(&leave).await;
    assert_eq!((left.status, left.header("set-cookie").contains("Max-Age=0")), (204, true), "also when read-only");
    assert_eq!(served.ask(&asked).await.status, 401);
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
async fn who_guesses_waits_even_with_the_right_password() {
    let fixture = Fixture::start().await;
    let served = Served::start(dashboard(&fixture).password_hash(hash()).bearer_token(TOKEN)).await;
    for _ in 0..5 {
        assert_eq!(log_in(&served, "guess").await.status, 403);
    }
    let answer = log_in(&served, PASSWORD).await;
    assert_eq!((answer.status, answer.code().as_str(), answer.header("retry-after")), (429, "back_off", "1"));
    let with = |token: &str| Request::new("GET", "/api/queues").with("authorization", &format!("Bearer {token}"));
    assert_eq!(served.ask(&with("0123456789abcdef-wrong")).await.status, 429);
    assert_eq!(served.ask(&with(TOKEN)).await.status, 200, "a program that knows its token is not locked out");
    // The wait ends.
    let deadline = tokio::time::Instant::now() + crate::stage::PATIENCE;
    while log_in(&served, PASSWORD).await.status != 204 {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    assert_eq!(log_in(&served, "guess").await.status, 403, "forgiven");
}

#[tokio::test]
async fn many_guesses_at_once_are_as_many() {
    let fixture = Fixture::start().await;
    let served = Served::start(dashboard(&fixture).bearer_token(TOKEN)).await;
    let wrong = Request::new("GET", "/api/queues").with("authorization", "Bearer 0123456789abcdef-wrong");
    let answers = (0..20).map(|_| served.ask(&wrong));
    let mut statuses = Vec::new();
    for answer in futures(answers).await {
        statuses.push(answer.status);
    }
    assert_eq!(statuses.iter().filter(|status| **status == 403).count(), 5, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 15, "{statuses:?}");
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
async fn a_trusted_header_lets_in_and_without_it_nobody_is() {
    let fixture = Fixture::start().await;
    let served = Served::start(dashboard(&fixture).trusted_header("X-Forwarded-User")).await;
    let asked = Request::new("GET", "/api/queues");
    assert_eq!(served.ask(&asked).await.status, 401);
    assert_eq!(served.ask(&asked.clone().with("x-forwarded-user", "")).await.status, 401);
    assert_eq!(served.ask(&asked.with("x-forwarded-user", "ann")).await.status, 200);
}

#[tokio::test]
async fn a_page_leads_to_the_login_and_a_program_is_told() {
    let fixture = Fixture::start().await;
    let served = Served::start(dashboard(&fixture).password_hash(hash()).mount("/jobs")).await;
    let page = Request::new("GET", "/jobs/queues/a%2Fb?state=retry").with("accept", "text/html,*/*");
    let answer = served.ask(&page).await;
    assert_eq!(
        (answer.status, answer.header("location")),
        (303, "/jobs/login?next=%2Fjobs%2Fqueues%2Fa%252Fb%3Fstate%3Dretry")
    );
    let told = served.get("/jobs/api/queues").await;
    assert_eq!((told.status, told.code().as_str()), (401, "no_login"));
}

#[test]
fn no_secret_is_ever_shown() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fixture = runtime.block_on(Fixture::start());
    let shown = format!("{:?}", dashboard(&fixture).password_hash(hash()).bearer_token(TOKEN));
    assert!(!shown.contains(TOKEN) && !shown.contains("argon2"), "{shown}");
}
