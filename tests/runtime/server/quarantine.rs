//! Tasks whose worker died while they ran.

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use asynq_runtime::{
    Client, State, TaskState,
    broker::{Broker, ServerName, Wanted, sqlite::SqliteBroker},
    clock::ManualClock,
    prelude::*,
    task::ServerInfo,
};

use super::{Gate, Log, flaky::Flaky, ids, logged, queue, server, settled, soon, start, task};
use crate::sqlite::with_clock;

#[job]
async fn waits(log: State<Log>, gate: State<Gate>, ctx: &JobContext) -> JobResult {
    log.send(format!("{} started with {}", ctx.id(), ctx.crashes()))?;
    gate.acquire().await?.forget();
    Ok(())
}

/// Lets a worker die `times` times while it holds all pending tasks.
async fn crash(broker: &Arc<dyn Broker>, clock: &ManualClock, times: u32) {
    for time in 0..times {
        let name = ServerName { host: "dead".into(), pid: 1, server_id: format!("dead-{time}") };
        let member = broker.join(&name, &ServerInfo::default()).await.unwrap();
        let wanted = [Wanted { queue: queue("default"), n: 100 }];
        assert!(!broker.dequeue(&member, &wanted).await.unwrap().is_empty());
        clock.advance(broker.lease() + Duration::from_secs(1));
        assert!(!broker.recover(&[queue("default")]).await.unwrap().tasks.is_empty());
    }
}

async fn broker() -> (Arc<dyn Broker>, ManualClock) {
    let clock = ManualClock::default();
    let broker = SqliteBroker::in_memory(with_clock(clock.clone())).await.unwrap();
    (Arc::new(broker), clock)
}

#[tokio::test]
async fn quarantined_tasks_run_one_at_a_time_beside_innocents_while_the_others_are_back_in_their_queue() {
    let (broker, clock) = broker().await;
    let client = Client::new(broker.clone());
    for id in ["a", "b", "c"] {
        waits::job().task_id(id).enqueue(&client).await.unwrap();
    }
    crash(&broker, &clock, 2).await;
    let gate = Gate::new(tokio::sync::Semaphore::new(0));
    let (builder, mut log) = server::<(waits,)>(&broker);
    let running = start(builder.state(gate.clone())).await;
    assert_eq!(logged(&mut log).await, "a started with 2");
    // If a worker died now, it would take no other task down: it does not have the others.
    assert_eq!(ids(&broker, TaskState::Active).await, ["a"]);
    assert_eq!(ids(&broker, TaskState::Pending).await, ["b", "c"]);
    // A task without crashes passes them.
    waits::job().task_id("innocent").enqueue(&client).await.unwrap();
    assert_eq!(logged(&mut log).await, "innocent started with 0");
    assert_eq!(running.running(), 2);
    gate.add_permits(2);
    assert_eq!(logged(&mut log).await, "b started with 2");
    gate.add_permits(1);
    assert_eq!(logged(&mut log).await, "c started with 2");
    gate.add_permits(1);
    soon(running.signals().settled.reached(4)).await;
    let stats = broker.queue_stats(&queue("default")).await.unwrap();
    assert_eq!((stats.size, stats.processed_total, stats.failed_total), (0, 4, 0));
}

#[tokio::test]
async fn quarantined_tasks_follow_each_other_however_many_queues_are_empty() {
    let (inner, clock) = broker().await;
    let client = Client::new(inner.clone());
    for id in 0..8 {
        waits::job().task_id(id.to_string()).enqueue(&client).await.unwrap();
    }
    crash(&inner, &clock, 2).await;
    let flaky = Flaky::new(inner);
    let broker: Arc<dyn Broker> = flaky.clone();
    let gate = Gate::new(tokio::sync::Semaphore::new(8));
    let (builder, _log) = server::<(waits,)>(&broker);
    let empty = (0..60).map(|n| (format!("empty{n}"), 1));
    let running = start(builder.queue("default", 1).queues(empty).concurrency(100).state(gate)).await;
    soon(running.signals().settled.reached(8)).await;
    // One call gives each of these tasks; with a turn for each queue it would be sixty calls.
    let calls = flaky.dequeues.load(SeqCst);
    assert!(calls <= 8 * 4, "{calls} calls for 8 tasks");
}

#[tokio::test]
async fn after_one_crash_everything_that_was_in_flight_runs_again_at_once() {
    let (broker, clock) = broker().await;
    let client = Client::new(broker.clone());
    let tasks = (0..40).map(|_| waits::job());
    assert!(client.enqueue_many(tasks).await.unwrap().iter().all(Result::is_ok));
    crash(&broker, &clock, 1).await;
    let gate = Gate::new(tokio::sync::Semaphore::new(0));
    let (builder, mut log) = server::<(waits,)>(&broker);
    let running = start(builder.concurrency(40).state(gate.clone())).await;
    // No job ends before all have started.
    for _ in 0..40 {
        assert!(logged(&mut log).await.ends_with("started with 1"));
    }
    assert_eq!(running.running(), 40);
    gate.add_permits(40);
    soon(running.signals().settled.reached(40)).await;
    assert_eq!(broker.queue_stats(&queue("default")).await.unwrap().size, 0);
}

#[tokio::test]
async fn a_task_that_worker_after_worker_died_of_is_archived_without_running() {
    let (broker, clock) = broker().await;
    let client = Client::new(broker.clone());
    waits::job().task_id("poison").enqueue(&client).await.unwrap();
    crash(&broker, &clock, 2).await;
    waits::job().task_id("touchy").max_crashes(1).enqueue(&client).await.unwrap();
    waits::job().task_id("tough").max_crashes(4).enqueue(&client).await.unwrap();
    crash(&broker, &clock, 1).await;
    let (builder, mut log) = server::<(waits,)>(&broker);
    let running = start(builder.state(Gate::new(tokio::sync::Semaphore::new(9)))).await;
    let poison = settled(&broker, &running, "poison", TaskState::Archived).await;
    assert_eq!(poison.last_error.as_deref(), Some("worker died 3 times while this ran"));
    assert_eq!(poison.retried, 0);
    let touchy = settled(&broker, &running, "touchy", TaskState::Archived).await;
    assert_eq!(touchy.last_error.as_deref(), Some("worker died 1 times while this ran"));
    assert_eq!(logged(&mut log).await, "tough started with 1");
    soon(running.signals().settled.reached(3)).await;
    assert!(task(&broker, "tough").await.is_none());
    assert!(log.try_recv().is_err());
}

#[tokio::test]
async fn an_attempt_that_ends_by_itself_clears_the_suspicion() {
    #[job]
    async fn fails() -> JobResult {
        Err(JobError::fail("no"))
    }
    let (broker, clock) = broker().await;
    fails::job().task_id("f").enqueue(&Client::new(broker.clone())).await.unwrap();
    crash(&broker, &clock, 2).await;
    assert_eq!(task(&broker, "f").await.unwrap().crashes, 2);
    let (builder, _log) = server::<(fails,)>(&broker);
    let running = start(builder).await;
    let f = settled(&broker, &running, "f", TaskState::Retry).await;
    assert_eq!((f.crashes, f.retried), (0, 1));
}
