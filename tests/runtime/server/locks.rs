//! Before the start: tasks that have expired, and unique locks that end with the start or last as long as the run.

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use asynq_runtime::{
    PreparedTask, State, TaskState,
    broker::{Broker, BrokerError, BrokerErrorKind, NewTask, Settled, UniqueLock, When},
    prelude::*,
    task::{Extra, TaskMessage, UniqueUntil},
};
use asynq_test_support::{Log as Warnings, eventually};
use tokio::sync::oneshot;

use super::{Log, flaky::Flaky, flaky::down, id, ids, logged, memory, queue, server, settled, soon, start};

#[job(codec = "json")]
async fn runs(log: State<Log>) -> JobResult {
    log.send("ran".into())?;
    Ok(())
}

async fn enqueue(broker: &Arc<dyn Broker>, name: &str, task_id: &str, extra: Extra) {
    let key = "asynq:{default}:unique:runs:1";
    let message = TaskMessage {
        r#type: name.to_owned(),
        id: task_id.to_owned(),
        queue: "default".to_owned(),
        retry: 3,
        timeout: 60,
        unique_key: key.to_owned(),
        ..TaskMessage::default()
    };
    let new = NewTask {
        message,
        queue: queue("default"),
        id: id(task_id),
        id_is_ours: false,
        when: When::Now,
        group: None,
        replaces: None,
        unique: Some(UniqueLock { key: key.to_owned(), ttl: Duration::from_secs(60) }),
        extra,
    };
    for outcome in broker.enqueue(vec![new]).await {
        outcome.unwrap();
    }
}

fn flaky(inner: Arc<dyn Broker>) -> (Arc<Flaky>, Arc<dyn Broker>) {
    let flaky = Flaky::with_lease(inner, Duration::from_millis(150));
    (flaky.clone(), flaky)
}

fn until_start() -> Extra {
    Extra { unique_until: UniqueUntil::Start.into(), ..Extra::default() }
}

#[tokio::test]
async fn a_task_that_has_expired_is_not_started_but_archived_with_the_time() {
    let broker = memory().await;
    let at = broker.now().timestamp_millis() - 1;
    enqueue(&broker, "runs", "late", Extra { expires_ms: Some(at), ..Extra::default() }).await;
    let (builder, mut log) = server::<(runs,)>(&broker);
    let running = start(builder).await;
    let archived = settled(&broker, &running, "late", TaskState::Archived).await;
    let text = archived.last_error.unwrap();
    assert!(text.starts_with("expired: no attempt begins after 20") && text.ends_with('Z'), "{text}");
    assert_eq!(archived.retried, 0);
    enqueue(&broker, "runs", "soon", Extra { expires_ms: Some(at + 60_000), ..Extra::default() }).await;
    assert_eq!(logged(&mut log).await, "ran");
    soon(running.shutdown()).await.unwrap();
    assert!(log.try_recv().is_err());
}

#[tokio::test]
async fn the_lock_of_a_task_that_is_unique_until_its_start_is_free_before_it_runs() {
    let (flaky, broker) = flaky(memory().await);
    let (builder, mut log) = server::<(runs,)>(&broker);
    let running = start(builder).await;
    enqueue(&broker, "runs", "a", until_start()).await;
    assert_eq!(logged(&mut log).await, "ran");
    assert_eq!(*flaky.freed.lock().unwrap(), ["asynq:{default}:unique:runs:1"]);
    soon(running.signals().settled.reached(1)).await;
    // Other tasks keep their locks.
    enqueue(&broker, "runs", "b", Extra::default()).await;
    assert_eq!(logged(&mut log).await, "ran");
    assert_eq!(flaky.freed.lock().unwrap().len(), 1);
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_task_with_neither_timeout_nor_deadline_is_warned_of_once_although_its_lock_is_freed() {
    let warnings = Warnings::keep();
    let broker = memory().await;
    let (builder, mut log) = server::<(runs,)>(&broker);
    let running = start(builder).await;
    let task = PreparedTask::from(runs::job().unique("1h").unique_until(UniqueUntil::Start));
    let mut endless = task.bind(broker.now(), 1024).unwrap();
    endless.message.timeout = 0;
    broker.enqueue(vec![endless]).await.remove(0).unwrap();
    assert_eq!(logged(&mut log).await, "ran");
    assert_eq!(warnings.with("neither timeout nor deadline").len(), 1);
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_task_whose_deadline_passes_while_its_lock_is_freed_does_not_run() {
    let (flaky, broker) = flaky(memory().await);
    flaky.seconds_per_free.store(60, SeqCst);
    let (builder, mut log) = server::<(runs,)>(&broker);
    let running = start(builder).await;
    let soon_over = runs::job().task_id("a").unique("1h").unique_until(UniqueUntil::Start);
    soon_over.deadline(broker.now() + Duration::from_secs(30)).enqueue(&running.client()).await.unwrap();
    let archived = settled(&broker, &running, "a", TaskState::Archived).await;
    assert_eq!(archived.last_error.as_deref(), Some("deadline passed"));
    assert_eq!(flaky.freed.lock().unwrap().len(), 1);
    assert!(log.try_recv().is_err());
    soon(running.shutdown()).await.unwrap();
}

#[job]
async fn takes(n: u32) -> JobResult {
    Err(JobError::skip_retry(n.to_string()))
}

#[tokio::test]
async fn a_task_that_cannot_be_read_here_keeps_its_lock() {
    let (flaky, broker) = flaky(memory().await);
    let (builder, _log) = server::<(takes,)>(&broker);
    let other = RawTask::new("takes", &b"\x01\0\0\0\0\x05"[..]).task_id("other");
    let other = other.unique("1h").unique_until(UniqueUntil::Start);
    Client::new(broker.clone()).enqueue(other).await.unwrap();
    let running = start(builder).await;
    let deferred = settled(&broker, &running, "other", TaskState::Retry).await;
    assert!(deferred.last_error.unwrap().contains("takes"));
    assert!(flaky.freed.lock().unwrap().is_empty());
    // One that can be read frees it.
    let task = takes::job(7).task_id("ours").unique("1h").unique_until(UniqueUntil::Start);
    task.enqueue(&running.client()).await.unwrap();
    settled(&broker, &running, "ours", TaskState::Archived).await;
    assert_eq!(flaky.freed.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_task_whose_lock_is_not_freed_does_not_run_but_waits() {
    let refused = BrokerError::new(BrokerErrorKind::Unexpected, "a lock of a foreign type");
    let table = [
        // the answer to the free of the lock, whether the job runs at once
        (Ok(Settled::Fenced), true),
        (Err(down()), true),
        (Err(refused), false),
    ];
    for (answer, runs_at_once) in table {
        let (flaky, broker) = flaky(memory().await);
        flaky.lock_answers.lock().unwrap().push_back(answer.clone());
        let (builder, mut log) = server::<(runs,)>(&broker);
        let running = start(builder).await;
        enqueue(&broker, "runs", "a", until_start()).await;
        if runs_at_once {
            // The task is requeued and taken again, and the second try frees the lock.
            assert_eq!(logged(&mut log).await, "ran", "{answer:?}");
            assert_eq!(flaky.freed.lock().unwrap().len(), 2);
        } else {
            let deferred = settled(&broker, &running, "a", TaskState::Retry).await;
            assert_eq!((deferred.retried, deferred.last_error), (0, None));
            assert!(log.try_recv().is_err());
        }
        soon(running.shutdown()).await.unwrap();
    }
}

#[tokio::test]
async fn a_lock_is_waited_for_before_the_start_as_long_as_the_brokers_calls_may_take() {
    for extra in [until_start(), Extra { unique_extend: true, ..Extra::default() }] {
        let warnings = Warnings::keep();
        // No lock is extended after the start.
        let flaky = Flaky::with_lease(memory().await, Duration::from_secs(3_600));
        flaky.slow_calls.store(true, SeqCst);
        let broker: Arc<dyn Broker> = flaky;
        let (builder, mut log) = server::<(runs,)>(&broker);
        let running = start(builder).await;
        enqueue(&broker, "runs", "a", extra).await;
        assert_eq!(logged(&mut log).await, "ran");
        assert!(warnings.with("the broker is away").is_empty(), "{:?}", warnings.with(""));
        soon(running.shutdown()).await.unwrap();
    }
}

#[tokio::test]
async fn a_panic_outside_of_the_job_spends_a_retry_and_frees_the_slot() {
    let (flaky, broker) = flaky(memory().await);
    *flaky.panics.lock().unwrap() = Some("free_lock");
    let (builder, mut log) = server::<(runs,)>(&broker);
    let running = start(builder).await;
    enqueue(&broker, "runs", "a", until_start()).await;
    let failed = settled(&broker, &running, "a", TaskState::Retry).await;
    let error = failed.last_error.unwrap();
    assert!(failed.retried == 1 && error.contains("a defect of asynq-runtime"), "{error}");
    assert_eq!(running.running(), 0);
    soon(running.shutdown()).await.unwrap();
    assert!(log.try_recv().is_err());
}

#[tokio::test]
async fn a_lock_that_lasts_as_long_as_the_run_is_extended_before_it() {
    // The first turn that extends locks comes after a third of this lease.
    let flaky = Flaky::with_lease(memory().await, Duration::from_secs(3_600));
    let broker: Arc<dyn Broker> = flaky.clone();
    let (builder, mut log) = server::<(runs,)>(&broker);
    let running = start(builder).await;
    enqueue(&broker, "runs", "a", Extra { unique_extend: true, ..Extra::default() }).await;
    assert_eq!(logged(&mut log).await, "ran");
    assert_eq!(*flaky.extended.lock().unwrap(), ["asynq:{default}:unique:runs:1"]);
    soon(running.shutdown()).await.unwrap();
}

/// A worker reports to the broker within a second of its shutdown timeout, as documented.
mod timing {
    use super::*;

    const SHUTDOWN: Duration = Duration::from_millis(1);

    #[job(codec = "json")]
    async fn hangs(log: State<Log>) -> JobResult {
        log.send("ran".into())?;
        std::future::pending::<()>().await;
        Ok(())
    }

    #[tokio::test]
    async fn a_task_that_was_requeued_while_its_lock_was_extended_does_not_run() {
        let flaky = Flaky::with_lease(memory().await, Duration::from_secs(3_600));
        let (extends, gate) = oneshot::channel();
        *flaky.extends_locks_after.lock().unwrap() = Some(gate);
        let broker: Arc<dyn Broker> = flaky.clone();
        let (builder, mut log) = server::<(runs,)>(&broker);
        let running = start(builder.shutdown_timeout(SHUTDOWN)).await;
        enqueue(&broker, "runs", "a", Extra { unique_extend: true, ..Extra::default() }).await;
        eventually("its lock is being extended", async || flaky.extended.lock().unwrap().first().cloned()).await;
        soon(running.shutdown()).await.unwrap();
        assert_eq!(ids(&broker, TaskState::Pending).await, ["a"]);
        extends.send(()).unwrap();
        assert_eq!(soon(log.recv()).await, None, "the attempt ends without the job");
    }

    #[tokio::test]
    async fn locks_that_last_as_long_as_their_runs_are_extended_with_the_leases() {
        let (flaky, broker) = flaky(memory().await);
        let (builder, mut log) = server::<(hangs,)>(&broker);
        let running = start(builder.shutdown_timeout(SHUTDOWN)).await;
        enqueue(&broker, "hangs", "a", Extra { unique_extend: true, ..Extra::default() }).await;
        assert_eq!(logged(&mut log).await, "ran");
        let extended = running.signals().extended.count();
        soon(running.signals().extended.reached(extended + 2)).await;
        assert!(flaky.extended.lock().unwrap().iter().all(|key| key == "asynq:{default}:unique:runs:1"));
        assert!(!flaky.extended.lock().unwrap().is_empty());
        soon(running.shutdown()).await.unwrap();
        assert_eq!(ids(&broker, TaskState::Pending).await, ["a"]);
    }
}
