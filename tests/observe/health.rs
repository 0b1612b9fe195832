//! `/healthz`, `/readyz` and `/stats`.

use std::{
    sync::{Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use asynq_runtime::{
    job::BoxFuture,
    prelude::*,
    server::{Service, ServiceContext},
};
use asynq_test_support::Log;
use asynq_tests::{Calls, Persistence, RedisServer, eventually, patient};
use axum::{Router, http::StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    process::{Program, address_in, ask},
    scrape::{get, observed},
    stage::{Stage, on_both_brokers},
};

async fn status(router: &Router, path: &str) -> StatusCode {
    get(router, path).await.0
}

async fn becomes(router: &Router, expected: StatusCode) {
    let goal = format!("/readyz is {expected}");
    eventually(&goal, async || (status(router, "/readyz").await == expected).then_some(())).await;
}

on_both_brokers! {
    async fn a_worker_is_live_and_ready_and_serves_its_statistics(stage: &Stage) {
        let client = stage.client().await;
        client.enqueue(RawTask::new("x", "").queue("default")).await.unwrap();
        let router = observed(&client);
        assert_eq!(status(&router, "/healthz").await, StatusCode::OK);
        becomes(&router, StatusCode::OK).await;
        let (kind, stats) = eventually("/stats is answered in time", async || {
            let (status, kind, stats) = get(&router, "/stats").await;
            (status == StatusCode::OK).then_some((kind, stats))
        })
        .await;
        assert_eq!(kind, "application/json");
        let stats: Value = serde_json::from_str(&stats).unwrap();
        assert_eq!(stats["queues"][0]["queue"], "default");
        assert_eq!((&stats["totals"]["waiting"], &stats["queues_left_out"]), (&1.into(), &0.into()));
    }

    async fn a_job_that_blocks_every_thread_delays_no_health_check(stage: &Stage) {
        let log = Log::keep();
        let ((started, starts), (open, gate)) = (mpsc::channel(), mpsc::channel::<()>());
        let gate = Mutex::new(gate);
        let server = Server::builder(&stage.url)
            .registry(Registry::from_descriptors([]).unwrap())
            .handle("blocks", move |_: RawTask| {
                started.send(()).unwrap();
                gate.lock().unwrap().recv().unwrap();
                async { Ok::<(), JobError>(()) }
            })
            .service(asynq_dashboard::service("127.0.0.1:0").metrics("127.0.0.1:0"));
        let running = server.build().await.unwrap().start().await.unwrap();
        let line = eventually("the port is open", async || log.with("metrics at http://").pop()).await;
        // The runtime of this test, which is that of the job, has one thread: the job may block it before the enqueue has returned.
        let asked = thread::spawn(move || {
            starts.recv().unwrap();
            let answer = ask(address_in(&line), "GET /healthz", "");
            open.send(()).unwrap();
            answer
        });
        running.client().enqueue(RawTask::new("blocks", "")).await.unwrap();
        eventually("the job has ended", async || asked.is_finished().then_some(())).await;
        let answer = asked.join().unwrap().unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        running.shutdown().await.unwrap();
    }

    async fn statistics_are_served_in_the_words_of_go_workers_too(stage: &Stage) {
        let client = stage.client().await;
        let router = observed(&client);
        // One task succeeds, one fails and waits for its next attempt, and one runs on while a fourth has no worker.
        for kind in ["ends", "fails", "hangs"] {
            client.enqueue(RawTask::new(kind, "").queue("busy").task_id(kind).retry(1)).await.unwrap();
        }
        client.enqueue(RawTask::new("x", "").queue("idle")).await.unwrap();
        let server = Server::builder(&stage.url)
            .registry(Registry::from_descriptors([]).unwrap())
            .handle("ends", |_: RawTask| async { Ok::<(), JobError>(()) })
            .handle("fails", |_: RawTask| async { Err::<(), _>(JobError::retry_in("1h", "no")) })
            .handle("hangs", |_: RawTask| std::future::pending::<Result<(), JobError>>())
            .queue("busy", 1);
        let before = chrono::Utc::now().timestamp();
        let running = server.build().await.unwrap().start().await.unwrap();
        let stats = eventually("one waits, one has ended and one runs", async || {
            let (status, _, stats) = get(&router, "/stats").await;
            // A dashboard that had too little time has nothing to tell.
            if status != StatusCode::OK {
                return None;
            }
            let stats: Value = serde_json::from_str(&stats).unwrap();
            let is_so = stats["retries"] == 1 && stats["processed"] == 1 && stats["jobs"]["busy"][0].is_object();
            is_so.then_some(stats)
        })
        .await;
        drop(running);
        assert_eq!(stats["failed"], 1);
        assert_eq!(stats["enqueued"], json!({ "busy": "0", "idle": "1" }));
        assert_eq!(stats["jobs"]["idle"], json!([]));
        let jobs = stats["jobs"]["busy"].as_array().unwrap();
        assert_eq!(jobs.len(), 1, "{stats}");
        assert_eq!(jobs[0]["message"], json!({ "jid": "hangs", "class": "hangs", "queue": "busy" }));
        let started = jobs[0]["started_at"].as_i64().unwrap();
        assert!((before..=chrono::Utc::now().timestamp()).contains(&started), "{started}");
        assert_eq!(stats["totals"]["processed_total"], 2, "ours is there as before");
    }
}

#[tokio::test]
async fn a_service_exports_the_numbers_of_queues_where_it_is_told_to() {
    let log = Log::keep();
    let start = async |dashboard: asynq_dashboard::DashboardService| {
        let server = Server::builder("sqlite::memory:").registry(Registry::from_descriptors([]).unwrap());
        let server = server.handle("x", |_: RawTask| async { Ok::<(), JobError>(()) }).service(dashboard);
        server.build().await.unwrap().start().await.unwrap()
    };
    for (number, queues) in [false, true].into_iter().enumerate() {
        let dashboard = asynq_dashboard::service("127.0.0.1:0").metrics("127.0.0.1:0").queue_metrics(queues);
        let running = start(dashboard).await;
        running.client().enqueue(RawTask::new("x", "").process_in("1h")).await.unwrap();
        let opened = async || log.with("metrics at http://").get(number).cloned();
        let line = eventually("the port is open", opened).await;
        let asking = move || ask(address_in(&line), "GET /metrics", "");
        let answer = tokio::task::spawn_blocking(asking).await.unwrap().unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert_eq!(answer.contains("asynq_queue_size"), queues, "{answer}");
        running.shutdown().await.unwrap();
    }
    let running = start(asynq_dashboard::service("127.0.0.1:0").queue_metrics(true)).await;
    let warned = async || log.with("`queue_metrics` has no effect without an address for `metrics`").pop();
    eventually("the service says that it exports nothing", warned).await;
    running.shutdown().await.unwrap();
}

/// A dashboard that lost its settings would be open to every client of a proxy on its machine.
#[test]
fn a_dashboard_that_a_program_brings_itself_obeys_the_environment_and_says_that_flags_do_not_count() {
    let (stage, folder) = (Stage::sqlite(), TempDir::new().unwrap());
    let mut command = stage.program(env!("CARGO_BIN_EXE_everyday"));
    command.env("JOURNAL", folder.path().join("journal")).env("PAGES", "127.0.0.1:0");
    command.env("ASYNQ_DASHBOARD_READ_ONLY", "true");
    command.env("ASYNQ_METRICS", "127.0.0.1:0").env("ASYNQ_METRICS_QUEUES", "true");
    command.args(["--metrics", "127.0.0.1:0", "--dashboard-host", "jobs.example.com"]);
    let worker = Program::start(command);
    let pages = ask(address_in(&worker.line("dashboard at http://")), "GET /", "").unwrap();
    assert!(pages.starts_with("HTTP/1.1 200") && pages.contains(">read-only<"), "{pages}");
    let metrics = ask(address_in(&worker.line("metrics at http://")), "GET /metrics", "").unwrap();
    assert!(metrics.starts_with("HTTP/1.1 200") && metrics.contains("asynq_broker_up"), "{metrics}");
    worker.line("`--dashboard-host` has no effect: this program brings the service itself");
    worker.terminate();
}

#[tokio::test]
async fn a_server_whose_dashboard_or_metrics_cannot_listen_does_not_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (dashboard, setting) in [
        (asynq_dashboard::service(&address), "asynq_dashboard::service"),
        (asynq_dashboard::service("127.0.0.1:0").metrics(&address), "DashboardService::metrics"),
    ] {
        let server = Server::builder("sqlite::memory:").registry(Registry::from_descriptors([]).unwrap());
        let server = server.handle("x", |_: RawTask| async { Ok::<(), JobError>(()) }).service(dashboard);
        let error = server.build().await.unwrap().start().await.unwrap_err().to_string();
        let expected = format!("service `dashboard` failed: {setting}: cannot listen at {address}: ");
        assert!(error.starts_with(&expected) && error.ends_with("has the port: write another port"), "{error}");
    }
}

/// A service of a program, from the time when there was no `before_start`.
struct Wrapper(asynq_dashboard::DashboardService);

impl Service for Wrapper {
    fn name(&self) -> &'static str {
        "wrapper"
    }

    fn run(self: Box<Self>, cx: ServiceContext) -> BoxFuture<'static, Result<(), BoxError>> {
        let Self(dashboard) = *self;
        Box::new(dashboard).run(cx)
    }
}

#[tokio::test]
async fn a_dashboard_listens_in_a_service_that_does_not_pass_before_start_on() {
    let log = Log::keep();
    let server = Server::builder("sqlite::memory:").registry(Registry::from_descriptors([]).unwrap());
    let server = server.handle("x", |_: RawTask| async { Ok::<(), JobError>(()) });
    let server = server.service(Wrapper(asynq_dashboard::service("127.0.0.1:0")));
    let running = server.build().await.unwrap().start().await.unwrap();
    eventually("the port is open", async || log.with("dashboard at http://").pop()).await;
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn readiness_goes_with_the_broker_and_comes_back_and_the_process_lives_on() {
    let mut redis = RedisServer::start(Persistence::None);
    let client = Client::connect(&redis.url()).await.unwrap();
    let router = observed(&client);
    becomes(&router, StatusCode::OK).await;
    redis.kill();
    becomes(&router, StatusCode::SERVICE_UNAVAILABLE).await;
    let (_, _, text) = get(&router, "/readyz").await;
    assert!(!text.contains("127.0.0.1"), "any client may read it: {text}");
    assert_eq!(status(&router, "/healthz").await, StatusCode::OK);
    assert_eq!(status(&router, "/stats").await, StatusCode::SERVICE_UNAVAILABLE);
    redis.restart();
    becomes(&router, StatusCode::OK).await;
}

#[tokio::test]
async fn many_questions_cost_the_broker_few() {
    let redis = RedisServer::start(Persistence::None);
    let client = patient::client(&redis.url()).await;
    let router = observed(&client);
    let pings = || Calls::ask(&mut redis.connection()).of("ping");
    let (before, began) = (pings(), Instant::now());
    becomes(&router, StatusCode::OK).await;
    let mut is_late = false;
    for _ in 0..300 {
        let sent_at = Instant::now();
        let status = status(&router, "/readyz").await;
        // Where a Redis did not answer within two seconds, that is reported until the next ping.
        is_late = status != StatusCode::OK && (is_late || sent_at.elapsed() >= Duration::from_secs(2));
        assert!(status == StatusCode::OK || is_late, "{status}");
    }
    let allowed = 1 + began.elapsed().as_secs();
    let reached = pings() - before;
    assert!(reached >= 1 && reached <= allowed, "{reached} of 300 questions reached the broker, {allowed} may");
}
