//! Blocking jobs whose threads do not return when their time is over.

use std::{
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use asynq_runtime::{Client, State, TaskState, prelude::*, server::ServerError};
use asynq_test_support::{eventually, soon};

use super::{Log, logged, memory, server, start, task};
use crate::child::Program;

/// Threads wait here until the test lets them go.
type Gate = Arc<(Mutex<bool>, Condvar)>;

fn open(gate: &Gate) {
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
}

fn pass(gate: &Gate) {
    drop(gate.1.wait_while(gate.0.lock().unwrap(), |open| !*open).unwrap());
}

#[job(timeout = "1s", kill_after = "10ms", retry = 1)]
fn stuck(log: State<Log>, gate: State<Gate>) -> JobResult {
    log.send("started".into())?;
    pass(&gate);
    log.send("returned".into())?;
    Ok(())
}

#[job]
fn quick(log: State<Log>) -> JobResult {
    log.send("quick".into())?;
    Ok(())
}

const GIVEN_UP: &str = "context deadline exceeded; its thread did not return within 10ms and was given up";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_thread_does_not_return_is_given_up_and_its_late_result_is_nothing() {
    let broker = memory().await;
    let (builder, mut log) = server::<(stuck, quick)>(&broker);
    let gate = Gate::default();
    let running = start(builder.state(Gate::clone(&gate)).concurrency(2)).await;
    let client = running.client();
    stuck::job().task_id("stuck").enqueue(&client).await.unwrap();
    assert_eq!(logged(&mut log).await, "started");
    soon(running.signals().settled.reached(1)).await;
    let given_up = task(&broker, "stuck").await.unwrap();
    assert_eq!((given_up.state, given_up.retried), (TaskState::Retry, 1));
    assert_eq!(given_up.last_error.as_deref(), Some(GIVEN_UP));
    eventually("its slot is free", async || (running.running() == 0).then_some(())).await;
    quick::enqueue(&client).await.unwrap();
    assert_eq!(logged(&mut log).await, "quick");
    soon(running.signals().settled.reached(2)).await;
    // The thread returns after all, and its outcome is dropped.
    open(&gate);
    assert_eq!(logged(&mut log).await, "returned");
    soon(running.shutdown()).await.unwrap();
    assert_eq!(task(&broker, "stuck").await.unwrap().state, TaskState::Retry);
}

#[job(timeout = "1s", retry = 1)]
fn waits_for_a_thread(log: State<Log>) -> JobResult {
    log.send("began".into())?;
    Ok(())
}

#[job(timeout = "1h")]
fn keeps_the_thread(log: State<Log>, gate: State<Gate>) -> JobResult {
    log.send("started".into())?;
    pass(&gate);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocking_job_that_never_gets_a_thread_has_not_failed() {
    let broker = memory().await;
    let (builder, mut log) = server::<(waits_for_a_thread, keeps_the_thread)>(&broker);
    let gate = Gate::default();
    let running = start(builder.state(Gate::clone(&gate)).concurrency(2).blocking_limit(1)).await;
    let client = running.client();
    keeps_the_thread::enqueue(&client).await.unwrap();
    assert_eq!(logged(&mut log).await, "started");
    waits_for_a_thread::job().task_id("waits").enqueue(&client).await.unwrap();
    soon(running.signals().settled.reached(1)).await;
    let waits = task(&broker, "waits").await.unwrap();
    assert_eq!((waits.state, waits.retried), (TaskState::Retry, 0));
    let why = "no blocking thread became free within the timeout of the task";
    assert_eq!(waits.last_error.as_deref(), Some(why));
    open(&gate);
    soon(running.signals().settled.reached(2)).await;
    client.inspector().run("default", "waits").await.unwrap();
    assert_eq!(logged(&mut log).await, "began");
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_server_with_a_limit_of_no_blocking_job_runs_blocking_jobs() {
    let broker = memory().await;
    let (builder, mut log) = server::<(quick,)>(&broker);
    let running = start(builder.blocking_limit(0)).await;
    quick::enqueue(&running.client()).await.unwrap();
    assert_eq!(logged(&mut log).await, "quick");
    soon(running.shutdown()).await.unwrap();
}

#[job]
fn never_returns() -> JobResult {
    println!("started");
    loop {
        std::thread::park();
    }
}

/// The child's part: a program as `#[tokio::main]` makes it, with a job that never returns.
pub(crate) async fn embedded(shutdown_timeout: &str) {
    let timeout = shutdown_timeout.to_owned();
    let program = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let broker = memory().await;
            never_returns::enqueue(&Client::new(broker.clone())).await.unwrap();
            let (builder, _log) = server::<(never_returns,)>(&broker);
            builder.shutdown_timeout(timeout).build().await.unwrap().run().await.unwrap();
        });
        drop(runtime);
        println!("the runtime has ended");
    });
    soon(tokio::task::spawn_blocking(|| program.join())).await.unwrap().unwrap();
}

#[test]
fn a_blocking_job_that_never_returns_holds_neither_the_server_nor_the_runtime_of_its_program() {
    let mut worker = Program::start("embedded", "50ms");
    worker.prints("started");
    worker.signal("TERM");
    worker.prints("the runtime has ended");
    assert!(worker.ended().success());
}

/// A worker reports to the broker within a second of its shutdown timeout, as documented.
mod timing {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_server_whose_slots_are_all_given_up_leaves_with_an_error() {
        let broker = memory().await;
        let (builder, mut log) = server::<(stuck,)>(&broker);
        let gate = Gate::default();
        for id in ["a", "b", "c"] {
            stuck::job().task_id(id).enqueue(&Client::new(broker.clone())).await.unwrap();
        }
        let builder = builder.state(Gate::clone(&gate)).concurrency(2).shutdown_timeout(Duration::ZERO);
        let run = tokio::spawn(builder.build().await.unwrap().run());
        assert_eq!((logged(&mut log).await, logged(&mut log).await), ("started".into(), "started".into()));
        let ended = soon(run).await.unwrap();
        assert!(matches!(ended, Err(ServerError::Stuck { threads: 2 })), "{ended:?}");
        let mut left = Vec::new();
        for id in ["a", "b", "c"] {
            left.extend(task(&broker, id).await.filter(|task| task.last_error.as_deref() != Some(GIVEN_UP)));
        }
        let left: Vec<_> = left.iter().map(|task| (task.state, task.retried)).collect();
        assert_eq!(left, [(TaskState::Pending, 0)], "two are given up, and one is requeued");
        open(&gate);
    }
}
