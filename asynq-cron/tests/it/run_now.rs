//! Entries that are run now, beside their schedule.

use asynq_cron::{PeriodicError, Schedule, prelude::*};
use asynq_runtime::{PreparedTask, prelude::*, task::SchedulerEntry};

/// A job that another program runs.
#[job]
async fn resize(width: u32) -> JobResult;

#[tokio::test]
async fn an_entry_that_is_run_now_leaves_the_shape_of_the_arguments_of_its_task() {
    let client = Client::connect("sqlite::memory:").await.expect("a broker");
    let task = PreparedTask::from(resize::job(7));
    let fingerprint = u32::from_le_bytes(task.payload()[1..5].try_into().expect("behind the format byte"));
    let entry = Periodic::new(CronSpec::parse("@yearly").expect("a spec"), task).expect("an entry").foreign();
    assert!(client.broker().shape("resize", Some(fingerprint)).await.expect("the broker answers").is_none());
    Schedule::new(&client).run_now(&entry).await.expect("a task");
    assert!(client.broker().shape("resize", Some(fingerprint)).await.expect("the broker answers").is_some());
}

#[tokio::test]
async fn an_entry_that_is_run_now_is_enqueued_before_the_shape_of_its_arguments_is_kept() {
    let client = Client::connect("sqlite::memory:").await.expect("a broker");
    let task = PreparedTask::from(resize::job(7));
    let fingerprint = u32::from_le_bytes(task.payload()[1..5].try_into().expect("behind the format byte"));
    let equal = RawTask::new("resize", task.payload().to_vec()).unique("1h");
    client.enqueue(equal).await.expect("a task");
    let spec = CronSpec::parse("@yearly").expect("a spec");
    let entry = Periodic::new(spec, task.unique("1h")).expect("an entry").foreign();
    let refused = Schedule::new(&client).run_now(&entry).await.expect_err("an equal task has the lock");
    assert!(matches!(refused, PeriodicError::Refused { .. }), "{refused}");
    assert!(client.broker().shape("resize", Some(fingerprint)).await.expect("the broker answers").is_none());
}

/// An entry of this crate lists its task, one of Go's scheduler its options: both go past what the client does to tasks of its own.
#[tokio::test]
async fn the_limit_of_the_client_is_not_that_of_a_listed_entry() {
    let client = Client::connect("sqlite::memory:").await.expect("a broker").payload_limit(1);
    let (task_type, task_payload) = ("report".to_owned(), "of a Go program".into());
    let listed = SchedulerEntry { id: "gos".into(), task_type, task_payload, ..SchedulerEntry::default() };
    let id = Schedule::new(&client).run_listed(&listed).await.expect("a task");
    let task = client.inspector().task("default", &id).await.expect("it is stored");
    assert_eq!((task.r#type.as_str(), &task.payload[..]), ("report", b"of a Go program".as_slice()));
}

#[tokio::test]
async fn an_entry_that_cannot_be_read_is_not_run() {
    let client = Client::connect("sqlite::memory:").await.expect("a broker");
    let entry = Periodic::invalid("resize", "7", "the width is missing");
    let refused = Schedule::new(&client).run_now(&entry).await.expect_err("the row is not valid");
    assert_eq!(refused.to_string(), "the row of `resize[7]` is not valid: the width is missing");
}
