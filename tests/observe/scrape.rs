//! `/metrics`: asynq's names and ours, in a text that Prometheus accepts, for any names of queues and any state of the
//! broker.

use std::collections::BTreeSet;

use asynq_cron::Periodic;
use asynq_dashboard::Dashboard;
use asynq_runtime::{metrics::described, prelude::*};
use asynq_tests::{
    Calls, Persistence, RedisServer, eventually, patient,
    prometheus::{Families, check},
    soon,
};
use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode, header},
};
use tower::ServiceExt as _;

use crate::stage::{Stage, on_both_brokers};

#[job(queue = "measured", retry = 1, backoff = "10ms")]
async fn measured(ctx: &JobContext, fails: bool) -> JobResult {
    if fails && ctx.retried() == 0 { Err("on purpose".into()) } else { Ok(()) }
}

pub(crate) fn observed(client: &Client) -> Router {
    Dashboard::new(client).observed_only().router().unwrap()
}

pub(crate) async fn get(router: &Router, path: &str) -> (StatusCode, String, String) {
    let request = Request::get(path).header(header::HOST, "localhost").body(Body::empty()).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let kind = response.headers().get(header::CONTENT_TYPE).map(|kind| kind.to_str().unwrap().to_owned());
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, kind.unwrap_or_default(), String::from_utf8(body.to_vec()).unwrap())
}

async fn scrape(router: &Router) -> Families {
    let (status, kind, text) = soon(get(router, "/metrics")).await;
    assert_eq!((status, kind.as_str()), (StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8"));
    check(&text).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
}

/// Scrapes until the families satisfy `shows`; answers are shared for a second.
async fn scraped(router: &Router, shows: impl Fn(&Families) -> bool) -> Families {
    eventually("a scrape shows it", async || Some(scrape(router).await).filter(&shows)).await
}

#[track_caller]
fn value(families: &Families, name: &str, labels: &[(&str, &str)]) -> f64 {
    let family = families.get(name).unwrap_or_else(|| panic!("no {name}"));
    family.value(labels).unwrap_or_else(|| panic!("no {name}{labels:?} in {family:#?}"))
}

/// Whether this metric exists, with any value.
fn has(families: &Families, name: &str, labels: &[(&str, &str)]) -> bool {
    families.get(name).is_some_and(|family| family.value(labels).is_some())
}

/// Whether the broker answered for every queue within the scrape's own time limit.
fn is_in_time(families: &Families) -> bool {
    value(families, "asynq_broker_up", &[]) == 1.0
        && value(families, "asynq_queues_unread", &[("reason", "late")]) == 0.0
}

on_both_brokers! {
    async fn a_scrape_has_asynqs_names_and_the_programs_own_metrics(stage: &Stage) {
        let client = stage.client().await;
        let router = observed(&client);
        client.enqueue(measured::job(false).queue("later").process_in("1h")).await.unwrap();
        client.inspector().pause("later").await.unwrap();
        let before = scrape(&router).await;
        let of = |families: &Families, outcome: &str| {
            let labels = [("type", "measured"), ("outcome", outcome)];
            families.get("asynq_job_outcomes_total").and_then(|family| family.value(&labels)).unwrap_or_default()
        };
        let running = Server::builder(&stage.url).state(client.clone()).build().await.unwrap().start().await.unwrap();
        for fails in [false, false, true] {
            measured::enqueue(&client, fails).await.unwrap();
        }
        let processed = |families: &Families| {
            families.get("asynq_tasks_processed_total").and_then(|family| family.value(&[("queue", "measured")]))
        };
        let memory = "asynq_queue_memory_usage_approx_bytes";
        let is_whole = |families: &Families| is_in_time(families) && has(families, memory, &[("queue", "later")]);
        let after = scraped(&router, |families| processed(families) == Some(4.0) && is_whole(families)).await;
        running.shutdown().await.unwrap();

        let queue = [("queue", "measured")];
        assert_eq!(value(&after, "asynq_tasks_failed_total", &queue), 1.0);
        assert_eq!(value(&after, "asynq_queue_size", &queue), 0.0);
        assert_eq!(value(&after, "asynq_queue_latency_seconds", &queue), 0.0);
        assert_eq!(value(&after, "asynq_queue_paused_total", &queue), 0.0);
        assert_eq!(value(&after, "asynq_queue_paused_total", &[("queue", "later")]), 1.0);
        assert!(value(&after, memory, &[("queue", "later")]) > 0.0);
        for (state, n) in [("scheduled", 1.0), ("pending", 0.0), ("active", 0.0), ("retry", 0.0), ("archived", 0.0)] {
            assert_eq!(value(&after, "asynq_tasks_enqueued_total", &[("queue", "later"), ("state", state)]), n);
        }
        assert_eq!(after["asynq_tasks_enqueued_total"].value(&[("queue", "later"), ("state", "aggregating")]), None);
        assert_eq!(value(&after, "asynq_broker_up", &[]), 1.0);
        assert_eq!(value(&after, "asynq_queues", &[]), 2.0);
        assert_eq!(value(&after, "asynq_queues_unread", &[("reason", "failed")]), 0.0);

        // Both tests of this program count into the same numbers.
        assert!(of(&after, "done") - of(&before, "done") >= 3.0);
        assert!(of(&after, "retry") - of(&before, "retry") >= 1.0);
        let job = [("type", "measured")];
        assert!(value(&after, "asynq_enqueued_total", &job) >= 4.0);
        assert!(has(&after, "asynq_job_in_flight", &job));
        for name in ["asynq_job_run_seconds", "asynq_job_wait_seconds"] {
            let count = after[name].samples.iter().find(|s| s.name.ends_with("_count") && s.labels["type"] == "measured");
            assert!(count.is_some_and(|count| count.value >= 4.0), "{name}: {:#?}", after[name]);
            // The default timeout of a job and the run of one that takes hours have buckets of their own.
            for bound in ["1800", "21600"] {
                let has_bound = after[name].samples.iter().any(|s| s.labels.get("le").is_some_and(|le| le == bound));
                assert!(has_bound, "{name}: {:#?}", after[name]);
            }
        }
        for name in ["asynq_outbox_length", "asynq_outcomes_fenced_total", "asynq_leases_lost_total", "asynq_leader"] {
            assert!(has(&after, name, &[]), "no {name}");
        }
    }
}

#[job]
async fn rarely() -> JobResult {
    Ok(())
}

/// An alert about late ticks also sees a job whose first tick never comes.
#[tokio::test]
async fn a_periodic_job_has_a_last_tick_as_soon_as_it_is_planned() {
    let entry = |key: &str, spec: &str| Periodic::new(spec.parse().unwrap(), rarely::job()).unwrap().key(key);
    let scheduler = asynq_cron::service().without_linked();
    let scheduler = scheduler.entry(entry("a", "@yearly")).entry(entry("b", "@every 24h"));
    let client = Client::connect("sqlite::memory:").await.unwrap();
    let router = observed(&client);
    let began = client.broker().now().timestamp() as f64;
    let server = Server::builder("").broker(client.broker().clone()).service(scheduler).state(client.clone());
    let running = server.build().await.unwrap().start().await.unwrap();
    let (name, job) = ("asynq_last_tick_timestamp_seconds", [("type", "rarely")]);
    let families = scraped(&router, |families| has(families, name, &job)).await;
    let timestamp = value(&families, name, &job);
    assert!((began..began + 3_600.0).contains(&timestamp), "{timestamp} since {began}");
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_aggregation_that_fails_is_counted() {
    let client = Client::connect("sqlite::memory:").await.unwrap();
    let router = observed(&client);
    let server = Server::builder("").broker(client.broker().clone()).state(client.clone()).group_max_size(1);
    let server = server.aggregate("broken", |_, _| -> Result<RawTask, BoxError> { panic!("on purpose") });
    let running = server.build().await.unwrap().start().await.unwrap();
    client.enqueue(RawTask::new("of Go", "x").queue("measured").group("broken")).await.unwrap();
    scraped(&router, |families| has(families, "asynq_aggregations_total", &[("outcome", "failed")])).await;
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn hostile_queue_names_are_escaped_and_one_that_fails_hides_no_other() {
    let redis = RedisServer::start(Persistence::None);
    let client = patient::client(&redis.url()).await;
    let hostile =
        ["a\"} 1\nevil 2", "back\\slash", "\u{0}\u{7f}", "le=\"0.1\"", "\u{1f980} {x}", "'; DROP--", "# HELP x"];
    let mut connection = redis.connection();
    for name in hostile.iter().chain(&["good", "bad"]) {
        redis::cmd("SADD").arg("asynq:queues").arg(name).exec(&mut connection).unwrap();
    }
    redis::cmd("SET").arg("asynq:{bad}:pending").arg("not a list").exec(&mut connection).unwrap();
    let families = scraped(&observed(&client), is_in_time).await;
    for name in hostile.iter().chain(&["good"]) {
        assert_eq!(value(&families, "asynq_queue_size", &[("queue", name)]), 0.0);
    }
    assert_eq!(families["asynq_queue_size"].value(&[("queue", "bad")]), None);
    assert_eq!(value(&families, "asynq_queues_unread", &[("reason", "failed")]), 1.0);
    assert_eq!(value(&families, "asynq_queues", &[]), 9.0);
}

/// A worker serves its own metrics without those of the queues.
#[tokio::test]
async fn a_scrape_of_a_programs_own_metrics_asks_the_broker_nothing() {
    let redis = RedisServer::start(Persistence::None);
    let client = patient::client(&redis.url()).await;
    let own = Dashboard::new(&client).observed_only().queue_metrics(false).router().unwrap();
    measured::job(false).enqueue(&client).await.unwrap();
    let mut connection = redis.connection();
    // A connection of the client may still be opened.
    let before = eventually("three scrapes cost the broker nothing", async || {
        let before = Calls::ask(&mut connection).sum();
        for _ in 0..3 {
            let families = scrape(&own).await;
            assert!(families.contains_key("asynq_enqueued_total") && !families.contains_key("asynq_broker_up"));
        }
        (Calls::ask(&mut connection).sum() == before).then_some(before)
    })
    .await;
    scraped(&observed(&client), is_in_time).await;
    assert!(Calls::ask(&mut connection).sum() > before, "commands are counted");
}

#[tokio::test]
async fn every_metric_that_the_guide_names_exists_and_every_one_that_exists_is_in_the_guide() {
    let client = Client::connect("sqlite::memory:").await.unwrap();
    let scraped: BTreeSet<String> = scrape(&observed(&client)).await.into_keys().collect();
    let ours = described().iter().map(|metric| metric.name.to_owned());
    let exist: BTreeSet<String> = scraped.into_iter().filter(|name| name.starts_with("asynq_")).chain(ours).collect();
    let guide = include_str!("../../docs/operations.md");
    let words = guide.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let crates_and_tables = ["asynq_runtime", "asynq_dashboard", "asynq_jobs", "asynq_tally", "asynq_task"];
    let named: BTreeSet<String> = words
        .filter(|word| word.starts_with("asynq_") && !crates_and_tables.contains(word))
        .map(str::to_owned)
        .collect();
    assert_eq!(named, exist);
    // The page explains each alert of the rules.
    let alerts: Vec<_> = guide.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 8);
    for alert in alerts {
        assert!(guide.contains(&format!("| {alert} | ")), "{alert} is not explained");
    }
}

/// A scrape ends in time, no matter how much there is to read.
mod timing {
    use super::*;

    /// Seconds after which Prometheus gives a scrape up; our documentation promises less than half of that.
    const PROMETHEUS_WAITS: f64 = 10.0;

    #[tokio::test]
    async fn a_lost_broker_is_reported_and_the_programs_own_metrics_are_there() {
        let mut redis = RedisServer::start(Persistence::Always);
        let client = Client::connect(&redis.url()).await.unwrap();
        // The first dashboard of a process starts the measurements.
        let router = observed(&client);
        measured::job(false).queue("away").enqueue(&client).await.unwrap();
        assert_eq!(value(&scrape(&router).await, "asynq_broker_up", &[]), 1.0);
        redis.kill();
        let families = scraped(&router, |families| value(families, "asynq_broker_up", &[]) == 0.0).await;
        assert_eq!(families["asynq_queue_size"].samples, []);
        assert!(value(&families, "asynq_scrape_seconds", &[]) < PROMETHEUS_WAITS);
        assert!(families.contains_key("asynq_enqueued_total"));
        redis.restart();
        scraped(&router, |families| value(families, "asynq_broker_up", &[]) == 1.0).await;
    }

    #[tokio::test]
    async fn ten_thousand_queues_are_read_in_bounded_time() {
        let redis = RedisServer::start(Persistence::None);
        let names: Vec<String> = (0..10_000).map(|n| format!("tenant:{n}")).collect();
        redis::cmd("SADD").arg("asynq:queues").arg(&names).exec(&mut redis.connection()).unwrap();
        let client = patient::client(&redis.url()).await;
        let router = observed(&client);
        let queues_read = |families: &Families| families["asynq_queue_size"].samples.len();
        let late = |families: &Families| value(families, "asynq_queues_unread", &[("reason", "late")]) as usize;
        let first = scrape(&router).await;
        let took = value(&first, "asynq_scrape_seconds", &[]);
        eprintln!("{} of 10,000 queues in {took:.2} s", queues_read(&first));
        assert!(took < PROMETHEUS_WAITS, "{took} s");
        assert_eq!(value(&first, "asynq_queues", &[]), 10_000.0);
        assert_eq!(queues_read(&first) + late(&first), 10_000);
        // The next scrape begins with the queues that were late, and still shows the known numbers of the others.
        let more =
            scraped(&router, |families| queues_read(families) > queues_read(&first) || queues_read(families) == 10_000)
                .await;
        assert_eq!(value(&more, "asynq_queues_unread", &[("reason", "failed")]), 0.0);
    }
}
