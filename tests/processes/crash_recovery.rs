//! A worker is killed with `kill -9` while it works.

use std::{collections::HashSet, time::Instant};

use asynq_runtime::TaskState;
use asynq_tests::eventually;

use crate::processes::world::World;

const IN_FLIGHT: usize = 16;

async fn killed_worker_loses_nothing(world: World) {
    let worker = world.worker(IN_FLIGHT);
    // These sixteen tasks outlast the first worker.
    let cut_off: HashSet<String> =
        world.enqueue_records(IN_FLIGHT, 3_600_000).await.iter().map(ToString::to_string).collect();
    world.started(IN_FLIGHT).await;
    // These tasks are pending behind the sixteen and must run once.
    let others = world.enqueue_records(100, 1).await;

    let pid = worker.kill();
    let killed = Instant::now();
    let victims: HashSet<String> = world.history().cut_off(pid).iter().map(|line| line.id.clone()).collect();
    assert_eq!(victims, cut_off, "all sixteen were under way");

    let _second = world.worker(IN_FLIGHT);
    eventually("the killed tasks start again", async || {
        let history = world.history();
        let starts = history.starts();
        cut_off.iter().all(|id| starts.get(id.as_str()) == Some(&2)).then_some(())
    })
    .await;
    let came_back = killed.elapsed();
    let stats = world.settled().await;

    let history = world.history();
    let (starts, ends) = (history.starts(), history.ends());
    for id in &cut_off {
        assert_eq!((starts[id.as_str()], ends[id.as_str()]), (2, 1), "{id} runs again, once");
    }
    for id in &others {
        assert_eq!((starts[id.as_str()], ends[id.as_str()]), (1, 1), "{id} is untouched");
    }
    assert!(history.lines.iter().all(|line| line.retried == 0), "a crash is not a failure");
    assert_eq!((stats.processed_total, stats.failed_total, stats.archived), (116, 0, 0));
    assert_eq!(world.tasks(TaskState::Retry).await, []);
    println!("{}: killed -9 with 16 in flight: all running again after {came_back:?}", world.broker().kind());
}

/// The leases last for an hour: a task that returns within a test's patience shows that the death itself was noticed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_in_flight_run_again_after_kill_9_on_sqlite() {
    killed_worker_loses_nothing(World::sqlite().await).await;
}

/// On Redis only the end of a lease tells that a worker is dead. This lease is short, yet a living worker extends it in time on
/// a busy machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_in_flight_run_again_after_kill_9_on_redis() {
    killed_worker_loses_nothing(World::redis_with("?lease=12s").await).await;
}
