//! One job aborts its process; tasks that run beside it lose no retry (docs/design/recovery.md#quarantine-and-poison).

use asynq_runtime::TaskState;
use asynq_tests::{eventually, journal::Event};

use crate::processes::world::{Worker, World};

const INNOCENTS: usize = 500;

/// Replaces each worker that has ended, until `is_so` holds; returns the number of workers that ended.
async fn with_workers(world: &World, workers: &mut [Worker], goal: &str, is_so: impl AsyncFn(usize) -> bool) -> usize {
    let mut deaths = 0;
    eventually(goal, async || {
        for worker in workers.iter_mut() {
            if worker.has_ended() {
                deaths += 1;
                *worker = world.worker(8);
            }
        }
        is_so(deaths).await.then_some(deaths)
    })
    .await
}

async fn poison_is_archived_and_innocents_pay_nothing(world: World) {
    let mut ids = world.enqueue_records(INNOCENTS / 2, 20).await;
    let poison = world.enqueue_poison().await;
    ids.extend(world.enqueue_records(INNOCENTS / 2, 20).await);

    let mut workers: Vec<_> = (0..4).map(|_| world.worker(8)).collect();
    // Each wait has its own minute: on Redis a lease passes between two deaths. On SQLite one probe may see two deaths at once.
    let mut deaths = 0;
    while deaths < 3 {
        deaths += with_workers(&world, &mut workers, "the poison strikes", async |deaths| deaths > 0).await;
    }
    let idle = async |_| world.stats().await.is_idle();
    deaths += with_workers(&world, &mut workers, "nothing waits or runs", idle).await;

    let history = world.history();
    let starts = history.starts();
    assert_eq!(starts[poison.as_str()], 3, "the poison ran exactly three times");
    assert_eq!(deaths, 3, "and took three workers down");
    let archived = world.tasks(TaskState::Archived).await;
    assert_eq!(archived.iter().map(|task| &task.id).collect::<Vec<_>>(), [&poison]);
    assert_eq!(archived[0].last_error.as_deref(), Some("worker died 3 times while this ran"));
    assert_eq!(archived[0].retried, 0);

    let ends = history.ends();
    for id in &ids {
        assert!(ends.contains_key(id.as_str()), "{id} reached its end");
    }
    // A run beside the poison may be cut off, even between its end and its settling; no other task runs twice.
    let deadly: Vec<u32> =
        history.lines.iter().filter(|line| line.id == poison.as_str()).map(|line| line.pid).collect();
    for (id, _) in history.repeated() {
        let outside = history
            .lines
            .iter()
            .filter(|line| line.event == Event::Start && line.id == id && !deadly.contains(&line.pid))
            .count();
        assert!(outside <= 1, "{id} ran again without a crash");
    }
    assert!(history.lines.iter().all(|line| line.retried == 0), "no innocent lost a retry");
    let stats = world.stats().await;
    assert_eq!((stats.processed_total, stats.failed_total), (INNOCENTS as u64 + 1, 1));
    println!(
        "{}: one poison, {INNOCENTS} innocents, 4 workers: all done with retried 0, poison archived after 3",
        world.broker().kind(),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poison_job_is_archived_after_three_crashes_on_redis() {
    // Three crashes, each noticed one lease later: the lease is short, yet a living worker extends it in time on a busy machine.
    poison_is_archived_and_innocents_pay_nothing(World::redis_with("?lease=12s").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poison_job_is_archived_after_three_crashes_on_sqlite() {
    poison_is_archived_and_innocents_pay_nothing(World::sqlite().await).await;
}
