//! Jobs that block: a thread for ever, or the whole runtime for longer than a lease.

use std::time::{Duration, Instant};

use asynq_runtime::TaskState;
use asynq_tests::{
    eventually,
    unruly::{GivenUp, Hog, NeverReturns},
};
use chrono::Utc;

use crate::{
    process::{address_in, ask},
    processes::{
        incidents::all_done,
        world::{Worker, World},
    },
};

/// Longer than a lease on either broker.
const BLOCKED: Duration = Duration::from_secs(45);

async fn a_blocking_job_that_never_returns_is_seen_and_holds_up_no_end(world: World) {
    let mut worker = world.everyday(&[("ASYNQ_CONCURRENCY", "2"), ("ASYNQ_METRICS", "127.0.0.1:0")]).await;
    let line = worker.logs("http://127.0.0.1:").await;
    let blocked_id = world.client.enqueue(NeverReturns {}).await.unwrap().id;
    let began = Instant::now();
    world.started(1).await;
    worker.logs("stuck: it was asked to stop").await;
    let seen = began.elapsed();
    eventually("the metric shows it", async || {
        let metrics = ask(address_in(&line), "GET /metrics", "").unwrap();
        metrics.lines().any(|line| line == "asynq_job_stuck{type=\"never_returns\"} 1").then_some(())
    })
    .await;
    eventually("the list of servers shows it, which `asynq doctor` reads", async || {
        let servers = world.broker().servers().await.ok()?;
        servers.iter().flat_map(|server| &server.workers).any(|run| run.is_stuck(Utc::now())).then_some(())
    })
    .await;
    // The second slot goes on running tasks.
    world.enqueue_records(5, 1).await;
    eventually("others are done", async || (world.history().ends().len() == 5).then_some(())).await;
    let signalled = Instant::now();
    worker.signal("TERM");
    let status = worker.ended().await;
    let ended = signalled.elapsed();
    assert!(status.success(), "{status}: {}", worker.log());
    let tasks = world.tasks(TaskState::Retry).await;
    assert_eq!(
        tasks.iter().map(|task| (&task.id, task.retried, task.crashes)).collect::<Vec<_>>(),
        [(&blocked_id, 1, 0)],
        "its attempt has failed by its time-out"
    );
    println!(
        "incident: blocking job outlives its time-out on {}: seen after {seen:.1?} (log, metric, doctor), others done; TERM \
         ends the worker after {ended:.1?} with {status}, the task is retried",
        world.broker().kind()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a quarter of a minute: scripts/prove incidents"]
async fn a_blocking_job_that_never_returns_is_seen_and_holds_up_no_end_on_redis() {
    a_blocking_job_that_never_returns_is_seen_and_holds_up_no_end(World::redis().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a quarter of a minute: scripts/prove incidents"]
async fn a_blocking_job_that_never_returns_is_seen_and_holds_up_no_end_on_sqlite() {
    a_blocking_job_that_never_returns_is_seen_and_holds_up_no_end(World::sqlite().await).await;
}

async fn a_worker_whose_jobs_are_given_up_ends_for_its_supervisor(world: World) {
    let mut worker = world.everyday_of(2).await;
    let ids = [world.client.enqueue(GivenUp {}).await.unwrap().id, world.client.enqueue(GivenUp {}).await.unwrap().id];
    let began = Instant::now();
    let status = worker.ended().await;
    let ended = began.elapsed();
    assert_eq!(status.code(), Some(1), "{}", worker.log());
    let log_line = worker.logs("error: ").await;
    let retried = world.tasks(TaskState::Retry).await;
    assert_eq!(retried.len(), ids.len());
    for task in &retried {
        assert_eq!((task.retried, task.crashes), (1, 0));
        assert!(task.last_error.as_ref().is_some_and(|error| error.contains("was given up")), "{task:?}");
    }
    println!(
        "incident: {} blocking jobs given up by kill_after on {}: failed, and the worker ended by itself after {ended:.1?} with \
         {status}: {log_line}",
        ids.len(),
        world.broker().kind()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a quarter of a minute: scripts/prove incidents"]
async fn a_worker_whose_jobs_are_given_up_ends_for_its_supervisor_on_redis() {
    a_worker_whose_jobs_are_given_up_ends_for_its_supervisor(World::redis().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a quarter of a minute: scripts/prove incidents"]
async fn a_worker_whose_jobs_are_given_up_ends_for_its_supervisor_on_sqlite() {
    a_worker_whose_jobs_are_given_up_ends_for_its_supervisor(World::sqlite().await).await;
}

/// Starts a worker whose runtime threads are all blocked; returns the number of threads as well.
async fn blocked(world: &World) -> (Worker, usize) {
    let threads = std::thread::available_parallelism().unwrap().get();
    let worker = world.everyday_of(threads).await;
    for _ in 0..threads {
        world.client.enqueue(Hog { seconds: BLOCKED.as_secs() }).await.unwrap();
    }
    world.started(threads).await;
    (worker, threads)
}

async fn jobs_that_block_the_runtime_keep_their_leases(world: World) {
    let (_worker, threads) = blocked(&world).await;
    // This worker is idle, and would take any task whose lease lapses.
    let _other = world.everyday_of(threads).await;
    tokio::time::sleep(BLOCKED).await;
    all_done(&world, threads).await;
    println!(
        "incident: {threads} jobs block all {threads} threads of the runtime for {BLOCKED:?} on {}, another worker idle: 0 \
         run twice",
        world.broker().kind()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute: scripts/prove incidents"]
async fn jobs_that_block_the_runtime_keep_their_leases_on_redis() {
    jobs_that_block_the_runtime_keep_their_leases(World::redis().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute: scripts/prove incidents"]
async fn jobs_that_block_the_runtime_keep_their_leases_on_sqlite() {
    jobs_that_block_the_runtime_keep_their_leases(World::sqlite().await).await;
}

async fn a_worker_whose_runtime_is_blocked_ends_on_a_signal(world: World) {
    let (mut worker, threads) = blocked(&world).await;
    let signalled = Instant::now();
    worker.signal("TERM");
    let status = worker.ended().await;
    let ended = signalled.elapsed();
    assert!(status.success(), "{status}: {}", worker.log());
    assert!(!worker.log().contains("on_drain"), "the program has no such hook: {}", worker.log());
    assert_eq!(world.history().ends().len(), 0);
    let tasks = world.tasks(TaskState::Pending).await;
    assert_eq!(tasks.iter().map(|task| (task.retried, task.crashes)).collect::<Vec<_>>(), vec![(0, 0); threads]);
    println!(
        "incident: TERM while jobs block the whole runtime on {}: the worker has ended {ended:.1?} later with {status}, all \
         {threads} tasks are requeued",
        world.broker().kind()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes ten seconds: scripts/prove incidents"]
async fn a_worker_whose_runtime_is_blocked_ends_on_a_signal_on_redis() {
    a_worker_whose_runtime_is_blocked_ends_on_a_signal(World::redis().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes ten seconds: scripts/prove incidents"]
async fn a_worker_whose_runtime_is_blocked_ends_on_a_signal_on_sqlite() {
    a_worker_whose_runtime_is_blocked_ends_on_a_signal(World::sqlite().await).await;
}
