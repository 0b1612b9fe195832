//! `/healthz`, `/readyz` and `/stats`.

use std::time::{Duration, Instant};

use asynq_runtime::prelude::*;
use asynq_tests::{Persistence, RedisServer};
use axum::{Router, http::StatusCode};
use serde_json::Value;

use crate::{
    scrape::{get, observed},
    stage::{PATIENCE, Stage, on_both_brokers},
};

async fn status(router: &Router, path: &str) -> StatusCode {
    get(router, path).await.0
}

async fn becomes(router: &Router, expected: StatusCode) {
    let since = Instant::now();
    while status(router, "/readyz").await != expected {
        assert!(since.elapsed() < PATIENCE, "/readyz is not {expected}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

on_both_brokers! {
    async fn a_worker_lives_is_ready_and_tells_what_goes_on(stage: &Stage) {
        let client = stage.client().await;
        client.enqueue(RawTask::new("x", "").queue("default")).await.unwrap();
        let router = observed(&client);
        assert_eq!((status(&router, "/healthz").await, status(&router, "/readyz").await), (StatusCode::OK, StatusCode::OK));
        let (status, kind, stats) = get(&router, "/stats").await;
        assert_eq!((status, kind.as_str()), (StatusCode::OK, "application/json"));
        let stats: Value = serde_json::from_str(&stats).unwrap();
        assert_eq!(stats["queues"][0]["queue"], "default");
        assert_eq!((&stats["totals"]["waiting"], &stats["queues_left_out"]), (&1.into(), &0.into()));
    }
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
    assert!(!text.contains("127.0.0.1"), "everybody may read it: {text}");
    assert_eq!(status(&router, "/healthz").await, StatusCode::OK);
    assert_eq!(status(&router, "/stats").await, StatusCode::SERVICE_UNAVAILABLE);
    redis.restart();
    becomes(&router, StatusCode::OK).await;
}

#[tokio::test]
async fn many_questions_cost_the_broker_few() {
    let redis = RedisServer::start(Persistence::None);
    let client = Client::connect(&redis.url()).await.unwrap();
    let router = observed(&client);
    let pings = || {
        let info: String = redis::cmd("INFO").arg("commandstats").query(&mut redis.connection()).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_ping:calls=").map(str::to_owned));
        line.and_then(|line| line.split(',').next()?.parse::<u64>().ok()).unwrap_or_default()
    };
    let (before, began) = (pings(), Instant::now());
    for _ in 0..300 {
        assert_eq!(status(&router, "/readyz").await, StatusCode::OK);
    }
    let allowed = 1 + began.elapsed().as_secs();
    let asked = pings() - before;
    assert!(asked >= 1 && asked <= allowed, "{asked} of 300 questions reached the broker, {allowed} may");
}
