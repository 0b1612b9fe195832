//! `/metrics` of a worker counts what it did from its first task on.

use std::{fs::File, path::Path};

use asynq_tests::{
    eventually_blocking,
    jobs::Record,
    prometheus::{Families, check},
};
use tempfile::TempDir;

use crate::{
    process::{Program, address_in, ask},
    stage::{Stage, on_both_brokers},
};

const JOB: (&str, &str) = ("type", "record");

/// A worker of two slots whose jobs do not end while the file `hold` exists.
fn worker(stage: &Stage, folder: &Path) -> Program {
    let mut command = stage.program(env!("CARGO_BIN_EXE_everyday"));
    command.args(["--concurrency", "2", "--dashboard", "127.0.0.1:0"]);
    command.env("JOURNAL", folder.join("journal")).env("HOLD", folder.join("hold"));
    Program::start(command)
}

/// Scrapes until the families satisfy `shows`.
fn scraped(address: &str, goal: &str, shows: impl Fn(&Families) -> bool) -> Families {
    eventually_blocking(goal, || {
        let answer = ask(address, "GET /metrics", "").unwrap();
        let (_, text) = answer.split_once("\r\n\r\n").unwrap();
        Some(check(text).unwrap_or_else(|wrong| panic!("{wrong}\n{answer}"))).filter(&shows)
    })
}

fn value(families: &Families, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    families.get(name)?.value(labels)
}

/// How many times a histogram has.
fn count(families: &Families, name: &str) -> Option<f64> {
    let is_count = |name: &str| name.ends_with("_count");
    families.get(name)?.samples.iter().find(|s| is_count(&s.name) && s.labels[JOB.0] == JOB.1).map(|s| s.value)
}

on_both_brokers! {
    /// They may run for hours, and begin before the first scrape.
    async fn tasks_that_wait_for_a_worker_when_it_starts_are_counted_like_all_others(stage: &Stage) {
        let (client, folder) = (stage.client().await, TempDir::new().unwrap());
        let hold = folder.path().join("hold");
        File::create(&hold).unwrap();
        for _ in 0..4 {
            client.enqueue(Record { millis: 0 }).await.unwrap();
        }
        let worker = worker(stage, folder.path());
        let line = worker.line("dashboard at http://");
        let address = address_in(&line);
        let in_flight = |n| move |families: &Families| value(families, "asynq_job_in_flight", &[JOB]) == Some(n);
        let first = scraped(address, "two are in flight", in_flight(2.0));
        assert_eq!(count(&first, "asynq_job_wait_seconds"), Some(2.0));

        std::fs::remove_file(&hold).unwrap();
        let is_done = |families: &Families| {
            value(families, "asynq_job_outcomes_total", &[JOB, ("outcome", "done")]) == Some(4.0)
        };
        let last = scraped(address, "four are done", |families| is_done(families) && in_flight(0.0)(families));
        for name in ["asynq_job_wait_seconds", "asynq_job_run_seconds"] {
            assert_eq!(count(&last, name), Some(4.0), "{name}");
        }
        worker.terminate();
    }
}
