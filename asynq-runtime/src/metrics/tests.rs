use std::{sync::Arc, time::Duration};

use metrics_exporter_prometheus::PrometheusBuilder;

use super::*;
use crate::{
    broker::{Action, BrokerError, Refused},
    job::EnqueueError,
    task::{Extra, QueueName, TaskId, TaskInfo, TaskMessage, TaskState},
};

/// Returns the text of a recorder of its own after `act`.
fn recorded(act: impl FnOnce()) -> String {
    // The recorder is leaked, as a program's recorder is: another one never has its address.
    let recorder = Box::leak(Box::new(PrometheusBuilder::new().build_recorder()));
    metrics::with_local_recorder(recorder, act);
    recorder.handle().render()
}

#[track_caller]
fn has(text: &str, line: &str) {
    assert!(text.lines().any(|found| found == line), "{line} is missing in:\n{text}");
}

#[test]
fn a_run_is_in_flight_until_it_ends_and_then_an_outcome_with_its_times() {
    let jobs = JobMetricsMap::new(["metrics:run"]);
    let job = jobs.get("metrics:run").expect("it was named");
    let text = recorded(|| {
        let under = job.begin(Some(Duration::from_millis(250)));
        under.start();
        assert!(recorded(|| drop(job.begin(None))).contains("asynq_job_in_flight{type=\"metrics:run\"} 1"));
        under.end(Outcome::Retry, true);
        // An attempt that never started has no time of its own, one whose job did not run neither, and a dropped one has no outcome.
        job.begin(None).end(Outcome::Requeued, true);
        let waits = job.begin(None);
        waits.start();
        waits.end(Outcome::Deferred, false);
        drop(job.begin(None));
    });
    has(&text, "asynq_job_in_flight{type=\"metrics:run\"} 0");
    has(&text, "asynq_job_stuck{type=\"metrics:run\"} 0");
    let stuck = job.begin(None).stuck();
    has(&recorded(|| drop(job.begin(None))), "asynq_job_stuck{type=\"metrics:run\"} 1");
    drop(stuck);
    has(&recorded(|| drop(job.begin(None))), "asynq_job_stuck{type=\"metrics:run\"} 0");
    has(&text, "asynq_job_wait_seconds_sum{type=\"metrics:run\"} 0.25");
    has(&text, "asynq_job_wait_seconds_count{type=\"metrics:run\"} 1");
    has(&text, "asynq_job_run_seconds_count{type=\"metrics:run\"} 1");
    for (outcome, n) in [("retry", 1), ("requeued", 1), ("done", 0), ("archived", 0), ("revoked", 0), ("deferred", 1)] {
        has(&text, &format!("asynq_job_outcomes_total{{type=\"metrics:run\",outcome=\"{outcome}\"}} {n}"));
    }
}

#[test]
fn servers_of_one_program_share_the_metrics_of_a_job() {
    let (one, two) = (JobMetricsMap::new(["metrics:shared"]), JobMetricsMap::new(["metrics:shared"]));
    let text = recorded(|| {
        let first = one.get("metrics:shared").expect("named").begin(None);
        let _second = two.get("metrics:shared").expect("named").begin(None);
        first.end(Outcome::Done, true);
        has(
            &recorded(|| drop(one.get("metrics:shared").expect("named").begin(None))),
            "asynq_job_in_flight{type=\"metrics:shared\"} 1",
        );
    });
    assert!(one.get("metrics:other").is_none());
    has(&text, "asynq_job_in_flight{type=\"metrics:shared\"} 0");
}

#[test]
fn each_outcome_of_a_task_has_one_word() {
    let retry = |counted| Action::Retry { delay: Duration::ZERO, error: None, counted, extra: Extra::default() };
    for (action, is_revoked, expected) in [
        (Action::Done, false, "done"),
        (Action::Done, true, "revoked"),
        (Action::Complete { result: None }, false, "done"),
        (retry(true), false, "retry"),
        (retry(false), false, "deferred"),
        (Action::Requeue, false, "requeued"),
    ] {
        assert_eq!(Outcome::of(&action, is_revoked).as_str(), expected, "{action:?}");
    }
}

#[test]
fn enqueues_are_counted_by_type_and_failures_by_reason() {
    let stored = |r#type: &str| {
        let message = TaskMessage { r#type: r#type.to_owned(), ..TaskMessage::default() };
        Ok(TaskInfo::from_message(&message, TaskState::Pending))
    };
    let refused = |refused| Err(EnqueueError::refused(refused, QueueName::from_wire("q"), TaskId::from_wire("i")));
    let failed = |kind| Refused::Broker(BrokerError::new(kind, "failed"));
    let outcomes = [
        stored("metrics:a"),
        stored("metrics:a"),
        refused(Refused::IdConflict),
        stored("metrics:b"),
        refused(Refused::Duplicate { holder: None }),
        stored("metrics:a"),
        refused(failed(BrokerErrorKind::Unavailable)),
        refused(failed(BrokerErrorKind::Full)),
        Err(EnqueueError::TooLarge { size: 2, limit: 1 }),
    ];
    let text = recorded(|| enqueued(&outcomes));
    has(&text, "asynq_enqueued_total{type=\"metrics:a\"} 3");
    has(&text, "asynq_enqueued_total{type=\"metrics:b\"} 1");
    for reason in ["id_conflict", "duplicate", "broker", "full", "invalid"] {
        has(&text, &format!("asynq_enqueue_failures_total{{reason=\"{reason}\"}} 1"));
    }
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn the_tasks_of_a_call_whose_ping_fails_are_counted() {
    let client = crate::Client::connect("sqlite::memory:").await.expect("memory is there");
    client.broker().close().await;
    let recorder = Box::leak(Box::new(PrometheusBuilder::new().build_recorder()));
    let _guard = metrics::set_default_local_recorder(recorder);
    let tasks = ["a", "b", "c"].map(|name| crate::RawTask::new(name, ""));
    client.enqueue_many(tasks).await.expect_err("the broker is closed");
    has(&recorder.handle().render(), "asynq_enqueue_failures_total{reason=\"broker\"} 3");
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_task_that_no_transaction_takes_is_counted() {
    let client = crate::Client::connect("sqlite::memory:").await.expect("memory is there");
    let connection = rusqlite::Connection::open_in_memory().expect("memory is there");
    let too_large = || crate::RawTask::new("a", vec![0_u8; crate::Client::DEFAULT_PAYLOAD_LIMIT + 1]);
    let text = recorded(|| {
        client.enqueue_in_tx(&connection, too_large()).expect_err("it is too large");
        client.row(too_large()).expect_err("it is too large");
    });
    has(&text, "asynq_enqueue_failures_total{reason=\"invalid\"} 2");
}

#[test]
fn a_share_counts_until_it_is_dropped_and_a_late_recorder_gets_its_value() {
    static OF_TEST: total::Total = total::Total::new("asynq_of_a_test");
    let (one, two) = (OF_TEST.share(), OF_TEST.share());
    one.set(3);
    two.set(4);
    one.set(1);
    has(&recorded(|| two.set(4)), "asynq_of_a_test 5");
    drop(two);
    has(&recorded(|| one.set(2)), "asynq_of_a_test 2");
    assert!(recorded(refresh).contains("\nasynq_leader "));
}

#[test]
fn every_metric_is_described_once_to_each_recorder_and_named_for_its_kind() {
    let jobs = JobMetricsMap::new(["metrics:described"]);
    let text = recorded(|| {
        refresh();
        jobs.get("metrics:described").expect("named").begin(None).end(Outcome::Done, true);
        enqueued(&[Err(EnqueueError::TooLarge { size: 2, limit: 1 })]);
        broker_failed("fetcher", BrokerErrorKind::Timeout);
        fenced(2);
        lease_lost();
        archive_dropped("mails", 4_000);
    });
    has(&text, "asynq_broker_errors_total{component=\"fetcher\",kind=\"timeout\"} 1");
    has(&text, "asynq_outcomes_fenced_total 2");
    has(&text, "asynq_leases_lost_total 1");
    has(&text, "asynq_archive_dropped_total{queue=\"mails\"} 4000");
    let first = recorded(refresh);
    for metric in described().iter().filter(|metric| metric.kind == Kind::Counter && metric.labels.is_empty()) {
        has(&first, &format!("{} 0", metric.name));
    }
    let mut names: Vec<&str> = described().iter().map(|metric| metric.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), described().len(), "a name is there twice");
    for Described { name, kind, help, .. } in described() {
        assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
        let is_time = name.ends_with("_timestamp_seconds");
        assert_eq!(name.ends_with("_seconds") && !is_time, *kind == Kind::Histogram, "{name}");
        assert!(help.ends_with('.') && name.starts_with("asynq_"), "{name}: {help}");
    }
}

#[test]
fn the_guide_explains_each_kind_of_error_beside_its_alert() {
    const GUIDE: &str = include_str!("../../../docs/operations.md");
    let row = GUIDE.lines().find(|line| line.starts_with("| AsynqBrokerErrors | ")).expect("the alert is explained");
    // `RunEnded` is an error of a job alone: no component of a worker meets it.
    for kind in [
        BrokerErrorKind::Unavailable,
        BrokerErrorKind::Timeout,
        BrokerErrorKind::Full,
        BrokerErrorKind::Unconfirmed,
        BrokerErrorKind::Denied,
        BrokerErrorKind::Config,
        BrokerErrorKind::Corrupt,
        BrokerErrorKind::Closed,
        BrokerErrorKind::Unexpected,
    ] {
        assert!(row.contains(&format!("`{}`", kind_name(kind))), "{kind:?}");
    }
}

#[test]
fn ticks_are_counted_by_outcome_and_the_last_one_has_its_time() {
    let at = chrono::DateTime::from_timestamp(1_800_000_000, 0).expect("a time");
    let text = recorded(|| {
        ticks("metrics:tick", TickOutcome::Enqueued, 1);
        ticks("metrics:tick", TickOutcome::Missed, 3);
        ticks("metrics:tick", TickOutcome::Refused, 0);
        tick_lateness("metrics:tick", at, at + chrono::TimeDelta::milliseconds(250));
        last_tick("metrics:tick", at);
    });
    has(&text, "asynq_ticks_total{type=\"metrics:tick\",outcome=\"enqueued\"} 1");
    has(&text, "asynq_ticks_total{type=\"metrics:tick\",outcome=\"missed\"} 3");
    assert!(!text.contains("outcome=\"refused\""), "{text}");
    has(&text, "asynq_tick_lateness_seconds_sum{type=\"metrics:tick\"} 0.25");
    has(&text, "asynq_last_tick_timestamp_seconds{type=\"metrics:tick\"} 1800000000");
}

#[test]
fn a_recorder_that_is_installed_later_gets_the_counts_from_then_on() {
    let jobs = JobMetricsMap::new(["metrics:late"]);
    let job = Arc::clone(jobs.get("metrics:late").expect("named"));
    job.begin(None).end(Outcome::Done, true);
    let text = recorded(|| job.begin(None).end(Outcome::Done, true));
    has(&text, "asynq_job_outcomes_total{type=\"metrics:late\",outcome=\"done\"} 1");
}

#[test]
fn an_attempt_that_had_begun_when_the_recorder_was_installed_is_in_flight_and_then_ends() {
    let jobs = JobMetricsMap::new(["metrics:early"]);
    let under = jobs.get("metrics:early").expect("named").begin(None);
    under.start();
    has(&recorded(refresh), "asynq_job_in_flight{type=\"metrics:early\"} 1");
    let text = recorded(|| under.end(Outcome::Done, true));
    has(&text, "asynq_job_in_flight{type=\"metrics:early\"} 0");
    has(&text, "asynq_job_run_seconds_count{type=\"metrics:early\"} 1");
    has(&text, "asynq_job_outcomes_total{type=\"metrics:early\",outcome=\"done\"} 1");
}

/// `cargo test --release -p asynq-runtime --lib metrics::tests::cost_of_each_metric -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn cost_of_each_metric() {
    fn per_task(what: &str) {
        const N: u32 = 1_000_000;
        let jobs = JobMetricsMap::new(["metrics:cost"]);
        let message = TaskMessage { r#type: "metrics:cost".to_owned(), ..TaskMessage::default() };
        let stored = [Ok(TaskInfo::from_message(&message, TaskState::Pending))];
        let began = std::time::Instant::now();
        for _ in 0..N {
            let under = jobs.get(std::hint::black_box("metrics:cost")).expect("named").begin(Some(Duration::ZERO));
            under.start();
            under.end(Outcome::Done, true);
        }
        let run = began.elapsed() / N;
        let began = std::time::Instant::now();
        (0..N).for_each(|_| enqueued(std::hint::black_box(&stored)));
        eprintln!("{what}: {run:?} per run, {:?} per enqueue", began.elapsed() / N);
    }
    per_task("without a recorder");
    recorded(|| per_task("with Prometheus's"));
}

#[test]
fn queues_beyond_a_thousand_share_a_label() {
    static OF_TEST: labelled::Labelled = labelled::Labelled::new("asynq_of_a_test_total", "queue");
    let text = recorded(|| {
        (0..labelled::MOST_TYPES).for_each(|n| OF_TEST.count(&format!("tenant-{n}"), 1));
        for queue in ["tenant-7", "one-more", "another"] {
            OF_TEST.count(queue, 1);
        }
    });
    has(&text, "asynq_of_a_test_total{queue=\"tenant-7\"} 2");
    has(&text, "asynq_of_a_test_total{queue=\"other\"} 2");
    assert!(!text.contains("one-more"));
}
