//! Incidents that every company meets in a year, with whole processes, default settings and the real lease; each takes minutes.
//! `scripts/prove incidents` runs them and prints a line for each.

use std::time::Duration;

use asynq_tests::eventually;

use crate::journey::world::World;

/// Longer than the lease of 30 s, so that every lease lapses while nobody can extend one.
const OUTAGE: Duration = Duration::from_secs(38);

/// A worker that were wrong would take the runs back within this time after the outage.
const AFTERWARDS: Duration = Duration::from_secs(45);

/// Redis is away while `workers` have 20 runs under way.
async fn an_outage_costs_nothing(workers: usize) {
    const RUNS: usize = 20;
    let mut world = World::redis().await;
    let _workers: Vec<_> = (0..workers).map(|_| world.worker(RUNS)).collect();
    world.hold();
    let ids = world.enqueue_records(RUNS, 0).await;
    world.started(RUNS).await;
    world.redis.as_mut().unwrap().kill();
    tokio::time::sleep(OUTAGE).await;
    world.redis.as_mut().unwrap().restart();
    tokio::time::sleep(AFTERWARDS).await;
    assert_eq!(world.history().starts().len(), ids.len());
    assert_eq!(world.history().repeated(), []);
    world.release();
    let stats = world.settled().await;
    assert_eq!(world.history().repeated(), []);
    assert_eq!((stats.processed_total, stats.failed_total, stats.archived), (RUNS as u64, 0, 0));
    println!(
        "incident: Redis away for {OUTAGE:?}, {workers} workers alive, {RUNS} jobs running: 0 run twice, {RUNS} ended"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute and a half: scripts/prove incidents"]
async fn an_outage_longer_than_the_lease_takes_nothing_from_one_worker() {
    an_outage_costs_nothing(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute and a half: scripts/prove incidents"]
async fn an_outage_longer_than_the_lease_takes_nothing_from_two_workers() {
    an_outage_costs_nothing(2).await;
}

/// Another program keeps the write lock of the file for longer than the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute: scripts/prove incidents"]
async fn a_file_that_is_locked_for_longer_than_the_lease_takes_nothing_from_two_workers() {
    const RUNS: usize = 6;
    const LOCKED: Duration = Duration::from_secs(15);
    let world = World::sqlite().await;
    let _workers: Vec<_> = (0..2).map(|_| world.worker(RUNS / 2)).collect();
    world.hold();
    world.enqueue_records(RUNS, 0).await;
    world.started(RUNS).await;
    let file = world.url.strip_prefix("sqlite://").unwrap().to_owned();
    let other = rusqlite::Connection::open(file).unwrap();
    other.busy_timeout(Duration::from_secs(60)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    tokio::time::sleep(LOCKED).await;
    other.execute_batch("COMMIT").unwrap();
    // Two leases, after which a lapse would count.
    tokio::time::sleep(2 * world.broker().lease() + Duration::from_secs(5)).await;
    assert_eq!(world.history().repeated(), []);
    world.release();
    let stats = world.settled().await;
    assert_eq!(world.history().repeated(), []);
    assert_eq!((stats.processed_total, stats.failed_total, stats.archived), (RUNS as u64, 0, 0));
    println!("incident: SQLite locked for {LOCKED:?}, 2 workers alive, {RUNS} jobs running: 0 run twice, {RUNS} ended");
}

/// A worker dies with everything that it has in hand, once.
async fn a_mass_crash_costs_one_round(world: World) {
    const RUNS: usize = 40;
    let worker = world.worker(RUNS);
    world.hold();
    world.enqueue_records(RUNS, 0).await;
    world.started(RUNS).await;
    worker.kill();
    let _next = world.worker(RUNS);
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
