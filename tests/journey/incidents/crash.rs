//! Workers that die: of everything at once, and of one task that kills them.

use asynq_tests::eventually;

use crate::journey::world::World;

/// A worker dies with everything that it has in hand, once.
async fn a_mass_crash_costs_one_round(world: World) {
    const RUNS: usize = 40;
    let worker = world.everyday_of(RUNS).await;
    world.hold();
    world.enqueue_records(RUNS, 0).await;
    world.started(RUNS).await;
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
