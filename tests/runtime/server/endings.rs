//! The ways in which attempts end, and the states of their tasks afterwards.

use std::{sync::Arc, time::Duration};

use asynq_runtime::{
    Client, RawTask, State, TaskState,
    broker::{Broker, sqlite::SqliteBroker},
    clock::{Clock as _, ManualClock},
    prelude::*,
    server::OnUnknown,
};
use chrono::{TimeDelta, Utc};

use super::{
    Log, enqueue, hangs_until_dropped, id, is_later, logged, memory, queue, server, settled, soon, start, task,
};
use crate::sqlite::with_clock;

#[job]
async fn double(n: u64) -> JobResult<u64> {
    Ok(n * 2)
}

#[derive(Debug, thiserror::Error)]
#[error("the mail server refused")]
struct Refused(#[source] std::io::Error);

#[job]
async fn refused() -> Result<(), Refused> {
    Err(Refused(std::io::Error::other("connection reset")))
}

#[job]
async fn panics(ctx: &JobContext) -> JobResult {
    panic!("kaboom {}", ctx.id());
}
const PANIC_LINE: u32 = line!() - 2;

#[job]
fn panics_on_a_thread() -> JobResult {
    panic!("thread kaboom");
}
const THREAD_PANIC_LINE: u32 = line!() - 2;

#[job]
async fn panics_without_words() -> JobResult {
    std::panic::panic_any(7_u8);
}
const WORDLESS_LINE: u32 = line!() - 2;

#[job]
async fn panics_when_dropped() -> JobResult {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in the drop");
        }
    }
    let _bomb = Bomb;
    std::future::pending::<()>().await;
    Ok(())
}

#[job]
async fn policy(log: State<Log>, ending: String) -> JobResult {
    log.send(ending.clone())?;
    Err(match ending.as_str() {
        "skip" => JobError::skip_retry("bad address"),
        "revoke" => JobError::revoke("unsubscribed"),
        "snooze" => JobError::snooze("5m"),
        "at once" => JobError::retry_in(Duration::ZERO, "throttled"),
        _ => JobError::fail("no"),
    })
}

#[tokio::test]
async fn a_success_is_kept_with_its_result_only_where_it_has_a_retention() {
    let broker = memory().await;
    let (builder, _log) = server::<(double,)>(&broker);
    let running = start(builder).await;
    let client = running.client();
    double::job(3).task_id("gone").enqueue(&client).await.unwrap();
    double::job(21).task_id("kept").retention("1h").enqueue(&client).await.unwrap();
    settled(&broker, &running, "kept", TaskState::Completed).await;
    assert_eq!(client.result::<double>("kept").await.unwrap(), 42);
    soon(running.signals().settled.reached(2)).await;
    assert!(task(&broker, "gone").await.is_none());
    let stats = broker.queue_stats(&queue("default")).await.unwrap();
    assert_eq!((stats.processed_total, stats.failed_total, stats.active), (2, 0, 0));
    running.shutdown().await.unwrap();
    assert!(broker.servers().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_failure_waits_for_its_retry_with_the_error_and_its_cause() {
    let broker = memory().await;
    let (builder, _log) = server::<(refused,)>(&broker);
    let begun = Utc::now();
    refused::job().task_id("r").enqueue(&Client::new(broker.clone())).await.unwrap();
    let running = start(builder).await;
    let task = settled(&broker, &running, "r", TaskState::Retry).await;
    assert_eq!(task.last_error.as_deref(), Some("the mail server refused: connection reset"));
    assert_eq!(task.retried, 1);
    is_later(task.next_process_at, begun, TimeDelta::seconds(15), TimeDelta::seconds(44));
}

/// Returns the error of a task without the backtrace that the environment may ask for.
fn first_line(task: &TaskInfo) -> Option<&str> {
    task.last_error.as_deref()?.lines().next()
}

#[tokio::test]
async fn a_panic_is_a_failure_with_place_and_message() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    let (builder, _log) = server::<(panics, panics_on_a_thread)>(&broker);
    panics::job().task_id("p").enqueue(&client).await.unwrap();
    panics_on_a_thread::job().task_id("t").retry(0).enqueue(&client).await.unwrap();
    let running = start(builder).await;
    let task = settled(&broker, &running, "p", TaskState::Retry).await;
    let expected = format!("panic error cause by: panic [{}:{PANIC_LINE}]: kaboom p", file!());
    assert_eq!(first_line(&task), Some(&*expected));
    let task = settled(&broker, &running, "t", TaskState::Archived).await;
    let expected = format!("panic error cause by: panic [{}:{THREAD_PANIC_LINE}]: thread kaboom", file!());
    assert_eq!(first_line(&task), Some(&*expected));
}

#[tokio::test]
async fn a_panic_with_a_value_that_is_not_text_is_a_failure_with_its_place() {
    let broker = memory().await;
    let (builder, _log) = server::<(panics_without_words,)>(&broker);
    panics_without_words::job().task_id("w").enqueue(&Client::new(broker.clone())).await.unwrap();
    let running = start(builder).await;
    let task = settled(&broker, &running, "w", TaskState::Retry).await;
    let expected = format!("panic error cause by: panic [{}:{WORDLESS_LINE}]: a value that is not text", file!());
    assert_eq!((first_line(&task), task.retried), (Some(&*expected), 1));
}

#[tokio::test]
async fn an_error_text_of_any_length_and_characters_reaches_its_task() {
    #[job]
    async fn rants() -> JobResult {
        let garbled = String::from_utf8_lossy(b"caf\xe9 \x00 ").into_owned();
        Err(JobError::skip_retry(format!("{garbled}{}", "\u{1f4e8}".repeat(2_000))))
    }
    let broker = memory().await;
    let (builder, _log) = server::<(rants,)>(&broker);
    rants::job().task_id("r").enqueue(&Client::new(broker.clone())).await.unwrap();
    let running = start(builder).await;
    let text = settled(&broker, &running, "r", TaskState::Archived).await.last_error.unwrap();
    assert!(text.starts_with("caf\u{fffd} \0 \u{1f4e8}") && text.ends_with('\u{1f4e8}'), "{text}");
    assert!((4_093..=4_096).contains(&text.len()), "{} bytes", text.len());
}

#[tokio::test]
async fn an_attempt_that_takes_too_long_is_dropped_at_its_await() {
    let broker = memory().await;
    let (builder, mut log) = server::<(hangs_until_dropped,)>(&broker);
    hangs_until_dropped::job().task_id("h").timeout("1s").enqueue(&Client::new(broker.clone())).await.unwrap();
    let running = start(builder).await;
    let task = settled(&broker, &running, "h", TaskState::Retry).await;
    assert_eq!(task.last_error.as_deref(), Some("context deadline exceeded"));
    assert_eq!((logged(&mut log).await, logged(&mut log).await), ("started".into(), "dropped".into()));
}

#[tokio::test]
async fn a_job_that_panics_while_it_is_dropped_is_settled_all_the_same() {
    let broker = memory().await;
    let (builder, _log) = server::<(panics_when_dropped,)>(&broker);
    panics_when_dropped::job().task_id("b").timeout("1s").enqueue(&Client::new(broker.clone())).await.unwrap();
    let running = start(builder).await;
    let task = settled(&broker, &running, "b", TaskState::Retry).await;
    assert_eq!(task.last_error.as_deref(), Some("context deadline exceeded"));
    assert_eq!(running.running(), 0);
}

#[tokio::test]
async fn no_attempt_runs_after_the_deadline() {
    // The broker's clock stands still, so that the second task starts before its deadline however late that is.
    let clock = ManualClock::default();
    let broker = SqliteBroker::in_memory(with_clock(clock.clone())).await.unwrap();
    let broker: Arc<dyn Broker> = Arc::new(broker);
    let (builder, mut log) = server::<(hangs_until_dropped,)>(&broker);
    let client = Client::new(broker.clone());
    hangs_until_dropped::job()
        .task_id("past")
        .deadline(clock.now() - Duration::from_secs(5))
        .enqueue(&client)
        .await
        .unwrap();
    hangs_until_dropped::job()
        .task_id("next")
        .deadline(clock.now() + Duration::from_secs(1))
        .enqueue(&client)
        .await
        .unwrap();
    let running = start(builder).await;
    let past = settled(&broker, &running, "past", TaskState::Archived).await;
    assert_eq!((past.last_error.as_deref(), past.retried), (Some("deadline passed"), 0));
    let next = settled(&broker, &running, "next", TaskState::Archived).await;
    assert_eq!(next.last_error.as_deref(), Some("context deadline exceeded: the deadline of the task passed"));
    assert_eq!((logged(&mut log).await, logged(&mut log).await), ("started".into(), "dropped".into()));
}

#[tokio::test]
async fn a_cancelled_task_is_dropped_and_retried_in_any_queue() {
    let broker = memory().await;
    let (builder, mut log) = server::<(hangs_until_dropped,)>(&broker);
    let running = start(builder.queue("default", 1).queue("other", 1)).await;
    soon(running.signals().subscribed.reached(1)).await;
    for queue in ["default", "other"] {
        hangs_until_dropped::job().task_id("c").queue(queue).enqueue(&running.client()).await.unwrap();
        assert_eq!(logged(&mut log).await, "started");
    }
    broker.cancel(&id("nobody")).await.unwrap();
    broker.cancel(&id("c")).await.unwrap();
    assert_eq!((logged(&mut log).await, logged(&mut log).await), ("dropped".into(), "dropped".into()));
    soon(running.signals().settled.reached(2)).await;
    for name in ["default", "other"] {
        let task = broker.task(&queue(name), &id("c")).await.unwrap().unwrap();
        assert_eq!((task.state, task.last_error.as_deref()), (TaskState::Retry, Some("context canceled")));
    }
}

#[tokio::test]
async fn a_policy_decides_the_outcome_of_a_failure() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    let (builder, _log) = server::<(policy,)>(&broker);
    for ending in ["skip", "revoke", "snooze"] {
        policy::job(ending).task_id(ending).enqueue(&client).await.unwrap();
    }
    let begun = Utc::now();
    let running = start(builder).await;
    soon(running.signals().settled.reached(3)).await;
    let skipped = task(&broker, "skip").await.unwrap();
    assert_eq!((skipped.state, skipped.last_error.as_deref()), (TaskState::Archived, Some("bad address")));
    assert!(task(&broker, "revoke").await.is_none());
    let snoozed = task(&broker, "snooze").await.unwrap();
    assert_eq!((snoozed.state, snoozed.retried, snoozed.last_error), (TaskState::Retry, 0, None));
    is_later(snoozed.next_process_at, begun, TimeDelta::minutes(5), TimeDelta::minutes(5));
    let stats = broker.queue_stats(&queue("default")).await.unwrap();
    assert_eq!((stats.processed_total, stats.failed_total), (2, 1));
}

#[tokio::test]
async fn a_task_is_tried_as_often_as_it_may_be_and_then_archived() {
    let broker = memory().await;
    let (builder, mut log) = server::<(policy,)>(&broker);
    let running = start(builder).await;
    policy::job("at once").task_id("x").retry(3).enqueue(&running.client()).await.unwrap();
    for _ in 0..4 {
        assert_eq!(logged(&mut log).await, "at once");
    }
    let task = settled(&broker, &running, "x", TaskState::Archived).await;
    assert_eq!((task.retried, task.last_error.as_deref()), (3, Some("throttled")));
    assert!(running.signals().forwarded.count() >= 1);
    soon(running.signals().idle.reached(1)).await;
    assert!(log.try_recv().is_err());
}

#[tokio::test]
async fn a_task_of_an_unknown_type_is_requeued_with_the_reason_and_no_retry_spent() {
    let broker = memory().await;
    let (builder, _log) = server::<(double,)>(&broker);
    let begun = Utc::now();
    enqueue(&broker, RawTask::new("unheard:of", "payload").task_id("u").retry(0)).await;
    let running = start(builder).await;
    let task = settled(&broker, &running, "u", TaskState::Retry).await;
    assert_eq!((task.retried, &task.payload[..]), (0, &b"payload"[..]));
    assert_eq!(task.last_error.as_deref(), Some("handler not found for task \"unheard:of\""));
    is_later(task.next_process_at, begun, TimeDelta::seconds(5), TimeDelta::seconds(5));
    let stats = broker.queue_stats(&queue("default")).await.unwrap();
    assert_eq!((stats.processed_total, stats.failed_total), (0, 0));
}

#[tokio::test]
async fn arguments_of_another_shape_are_requeued_and_nonsense_is_archived() {
    let broker = memory().await;
    let (builder, _log) = server::<(double,)>(&broker);
    enqueue(&broker, RawTask::new("double", &b"\x01\0\0\0\0\x05"[..]).task_id("newer")).await;
    enqueue(&broker, RawTask::new("double", "{").task_id("nonsense")).await;
    let running = start(builder).await;
    // Each task is read as soon as it has settled: the one that is requeued is due again after five seconds.
    settled(&broker, &running, "newer", TaskState::Retry).await;
    let nonsense = settled(&broker, &running, "nonsense", TaskState::Archived).await;
    assert!(nonsense.last_error.unwrap().starts_with("the arguments of `double` cannot be read"));
}

#[tokio::test]
async fn a_server_may_archive_or_retry_tasks_of_unknown_types() {
    for (on_unknown, state, retried) in
        [(OnUnknown::Archive, TaskState::Archived, 0), (OnUnknown::Retry, TaskState::Retry, 1)]
    {
        let (broker, begun) = (memory().await, Utc::now());
        let (builder, _log) = server::<(double,)>(&broker);
        let builder = builder.backoff(|_, error, _| Duration::from_secs(error.to_string().len() as u64));
        enqueue(&broker, RawTask::new("unheard:of", "").task_id("u")).await;
        let running = start(builder.on_unknown(on_unknown)).await;
        let task = settled(&broker, &running, "u", state).await;
        let error = "handler not found for task \"unheard:of\"";
        assert_eq!(task.last_error.as_deref(), Some(error));
        assert_eq!(task.retried, retried);
        if state == TaskState::Retry {
            let pause = TimeDelta::seconds(error.len() as i64);
            is_later(task.next_process_at, begun, pause, pause);
        }
    }
}
