//! The server over the embedded broker in memory: every ending, every fault, every way to stop.

mod archived;
pub(crate) mod backtraces;
mod checkpoints;
mod endings;
mod faults;
mod flaky;
mod groups;
mod handlers;
mod hooks;
mod layers;
mod locks;
mod misbehaving;
pub(crate) mod panicking_log;
mod pauses;
mod quarantine;
mod queues;
mod setup;
pub(crate) mod signals;
mod stopping;
pub(crate) mod stuck;
mod timing;
mod tokens;
mod waits;

use std::sync::Arc;

use asynq_runtime::{
    TaskId,
    broker::{Broker, Page, sqlite::SqliteBroker},
    prelude::*,
    server::Running,
    task::QueueName,
};
pub(crate) use asynq_tests::{
    server::{Log, logged, server, start},
    soon,
};
use chrono::{DateTime, TimeDelta, Utc};

use crate::sqlite::patient;

/// The permits of a test, each for one job to end.
pub(crate) type Gate = Arc<tokio::sync::Semaphore>;

#[job]
pub(crate) async fn counts(log: State<Log>, n: u32) -> JobResult {
    log.send(n.to_string())?;
    Ok(())
}

#[job]
pub(crate) async fn quick(log: State<Log>) -> JobResult {
    log.send("quick".into())?;
    Ok(())
}

#[job]
pub(crate) async fn waits_for_a_permit(log: State<Log>, gate: State<Gate>, name: String) -> JobResult {
    log.send(format!("{name} started"))?;
    gate.acquire().await?.forget();
    log.send(format!("{name} ended"))?;
    Ok(())
}

#[job]
pub(crate) async fn hangs(log: State<Log>) -> JobResult {
    log.send("started".into())?;
    std::future::pending::<()>().await;
    Ok(())
}

/// A job that hangs, and reports that it was dropped.
#[job]
pub(crate) async fn hangs_until_dropped(log: State<Log>) -> JobResult {
    struct Dropped(State<Log>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send("dropped".into());
        }
    }
    let _dropped = Dropped(log.clone());
    log.send("started".into())?;
    std::future::pending::<()>().await;
    Ok(())
}

/// Checks that a time that was set between `begun` and now lies `from` to `to` later, however long the test has taken.
#[track_caller]
pub(crate) fn is_later(time: Option<DateTime<Utc>>, begun: DateTime<Utc>, from: TimeDelta, to: TimeDelta) {
    // Brokers keep whole milliseconds.
    let (earliest, latest) = (begun + from - TimeDelta::milliseconds(1), Utc::now() + to);
    assert!(time.is_some_and(|time| earliest <= time && time <= latest), "{time:?} is not in {earliest}..={latest}");
}

pub(crate) async fn memory() -> Arc<dyn Broker> {
    Arc::new(SqliteBroker::in_memory(patient()).await.unwrap())
}

pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

pub(crate) fn id(id: &str) -> TaskId {
    TaskId::new(id).unwrap()
}

pub(crate) async fn task(broker: &Arc<dyn Broker>, id: &str) -> Option<TaskInfo> {
    broker.task(&queue("default"), &self::id(id)).await.unwrap()
}

/// Returns the task as soon as it is settled in this state.
pub(crate) async fn settled(broker: &Arc<dyn Broker>, running: &Running, id: &str, state: TaskState) -> TaskInfo {
    for seen in 1.. {
        soon(running.signals().settled.reached(seen)).await;
        if let Some(task) = task(broker, id).await.filter(|task| task.state == state) {
            return task;
        }
    }
    unreachable!()
}

pub(crate) async fn ids(broker: &Arc<dyn Broker>, state: TaskState) -> Vec<String> {
    let tasks = broker.tasks(&queue("default"), state, Page { number: 1, size: 1000 }).await.unwrap();
    tasks.into_iter().map(|task| task.id.to_string()).collect()
}

pub(crate) async fn enqueue(broker: &Arc<dyn Broker>, task: RawTask) -> TaskInfo {
    Client::new(Arc::clone(broker)).enqueue(task).await.unwrap()
}
