//! Workers that die: all of them at once, and several in a row of one task that kills them.

use std::collections::BTreeSet;

use asynq_runtime::TaskState;
use asynq_tests::eventually;

use crate::processes::world::World;

/// A worker dies with everything that it has in hand, once.
async fn a_mass_crash_costs_one_round(world: World) {
    const RUNS: usize = 40;
    let worker = world.everyday_of(RUNS).await;
    world.held(RUNS, RUNS).await;
    worker.kill();
    let _next = world.everyday_of(RUNS).await;
    // None of them ends before all run again: had they to run one by one, this would never come.
    eventually("all that was in flight runs again at once", async || {
        let history = world.history();
        (history.starts().values().filter(|&&starts| starts == 2).count() == RUNS).then_some(())
    })
    .await;
    world.release();
    let stats = world.settled().await;
    assert_eq!((stats.processed_total, stats.failed_total, stats.archived), (RUNS as u64, 0, 0));
    println!(
        "incident: kill -9 with {RUNS} in flight on {}: all of them run again at the same time",
        world.broker().kind()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "waits for a lease of 30 s: scripts/prove incidents"]
async fn a_mass_crash_costs_one_round_on_redis() {
    a_mass_crash_costs_one_round(World::redis().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "one of the incidents: scripts/prove incidents"]
async fn a_mass_crash_costs_one_round_on_sqlite() {
    a_mass_crash_costs_one_round(World::sqlite().await).await;
}

/// A task kills its worker, which a supervisor starts again each time, and 600 tasks are behind it.
async fn a_poison_takes_three_workers_and_marks_no_task_behind_it(world: World) {
    const INNOCENTS: usize = 600;
    const CONCURRENCY: usize = 8;
    let poison = world.enqueue_poison().await.to_string();
    world.enqueue_records(INNOCENTS, 20).await;
    let mut worker = world.everyday_of(CONCURRENCY).await;
    let (mut marked, mut beside) = (BTreeSet::new(), BTreeSet::new());
    let mut look = async || {
        for state in [TaskState::Pending, TaskState::Active] {
            let crashed = world.tasks(state).await.into_iter().filter(|task| task.crashes > 0);
            marked.extend(crashed.map(|task| task.id.to_string()));
        }
    };
    for _ in 0..3 {
        eventually("the worker dies", async || {
            look().await;
            worker.has_ended().then_some(())
        })
        .await;
        // The tasks that the dead worker had taken: no other worker lives.
        beside.extend(world.tasks(TaskState::Active).await.iter().map(|task| task.id.to_string()));
        worker = world.everyday_of(CONCURRENCY).await;
    }
    eventually("nothing waits or runs", async || {
        look().await;
        assert!(!worker.has_ended(), "it takes three workers and no more");
        world.stats().await.is_idle().then_some(())
    })
    .await;

    let (history, stats) = (world.history(), world.stats().await);
    let archived = world.tasks(TaskState::Archived).await;
    assert_eq!(archived.iter().map(|task| task.id.to_string()).collect::<Vec<_>>(), std::slice::from_ref(&poison));
    assert_eq!(archived[0].last_error.as_deref(), Some("worker died 3 times while this ran"));
    assert_eq!((history.starts()[poison.as_str()], history.ends().len()), (3, INNOCENTS));
    assert_eq!((stats.processed_total, stats.failed_total), (INNOCENTS as u64 + 1, 1));
    assert!(history.lines.iter().all(|line| line.retried == 0), "no innocent lost a retry");
    // A task that a worker had taken when it died is quarantined until the end of its next run; no other task is.
    assert!(beside.contains(&poison));
    assert_eq!(marked.difference(&beside).collect::<Vec<_>>(), [] as [&String; 0]);
    println!(
        "incident: poison on {}: archived after 3 workers had died; {INNOCENTS} of {INNOCENTS} tasks behind it done, {} of them \
         were in the hands of a worker that died, the others never marked",
        world.broker().kind(),
        beside.len() - 1
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "waits for three leases of 30 s: scripts/prove incidents"]
async fn a_poison_takes_three_workers_and_marks_no_task_behind_it_on_redis() {
    a_poison_takes_three_workers_and_marks_no_task_behind_it(World::redis().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "one of the incidents: scripts/prove incidents"]
async fn a_poison_takes_three_workers_and_marks_no_task_behind_it_on_sqlite() {
    a_poison_takes_three_workers_and_marks_no_task_behind_it(World::sqlite().await).await;
}
