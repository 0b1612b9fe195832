//! A broker that cannot be reached for longer than a lease.

use std::time::Duration;

use asynq_tests::Persistence;

use crate::processes::{
    incidents::{all_done, crashes},
    world::World,
};

/// Longer than the lease of 30 s, so that every lease lapses and no worker can extend one.
const OUTAGE: Duration = Duration::from_secs(38);

/// A worker that counted the outage as a death would requeue the runs within this time.
const AFTERWARDS: Duration = Duration::from_secs(45);

/// Between two outages: too short for a mistake after the first to be corrected before the next.
const BETWEEN: Duration = Duration::from_secs(8);

/// Redis is away `outages` times while `workers` have 20 runs under way.
async fn outages_cost_nothing(outages: u32, workers: usize) {
    const RUNS: usize = 20;
    let mut world = World::redis().await;
    let mut running = Vec::new();
    for _ in 0..workers {
        running.push(world.everyday_of(RUNS).await);
    }
    world.held(RUNS, RUNS).await;
    for outage in 0..outages {
        if outage > 0 {
            tokio::time::sleep(BETWEEN).await;
        }
        world.redis.as_mut().unwrap().kill();
        tokio::time::sleep(OUTAGE).await;
        world.redis.as_mut().unwrap().restart();
    }
    tokio::time::sleep(AFTERWARDS).await;
    assert_eq!(world.history().starts().len(), RUNS);
    assert_eq!((world.history().repeated(), crashes(&world).await), (Vec::new(), vec![0; RUNS]));
    world.release();
    all_done(&world, RUNS).await;
    println!(
        "incident: Redis away {outages} times for {OUTAGE:?}, {workers} workers alive, {RUNS} jobs running: 0 run twice, \
         0 crashes counted, {RUNS} done"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute and a half: scripts/prove incidents"]
async fn an_outage_longer_than_the_lease_takes_nothing_from_one_worker() {
    outages_cost_nothing(1, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes three minutes: scripts/prove incidents"]
async fn three_outages_in_a_row_take_nothing_from_two_workers() {
    outages_cost_nothing(3, 2).await;
}

/// Redis is killed and at once started again, with a snapshot in which every lease has lapsed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute and a half: scripts/prove incidents"]
async fn a_quick_restart_from_an_older_snapshot_takes_nothing_from_two_workers() {
    const RUNS: usize = 20;
    let mut world = World::redis_keeping(Persistence::None, "").await;
    let _workers = [world.everyday_of(RUNS / 2).await, world.everyday_of(RUNS / 2).await];
    world.held(RUNS, RUNS).await;
    ::redis::cmd("SAVE").exec(&mut world.redis.as_ref().unwrap().connection()).unwrap();
    tokio::time::sleep(OUTAGE).await;
    let server = world.redis.as_mut().unwrap();
    server.kill();
    server.restart();
    tokio::time::sleep(AFTERWARDS).await;
    assert_eq!((world.history().repeated(), crashes(&world).await), (Vec::new(), vec![0; RUNS]));
    world.release();
    all_done(&world, RUNS).await;
    println!(
        "incident: Redis restarted at once with the leases of {OUTAGE:?} ago, 2 workers alive, {RUNS} jobs running: 0 run \
         twice, 0 crashes counted, {RUNS} done"
    );
}

/// Another program keeps the write lock of the file for longer than the lease, three times in a row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute and a half: scripts/prove incidents"]
async fn a_file_that_is_locked_for_longer_than_the_lease_takes_nothing_from_two_workers() {
    const RUNS: usize = 6;
    const LOCKED: Duration = Duration::from_secs(15);
    let world = World::sqlite().await;
    let _workers = [world.everyday_of(RUNS / 2).await, world.everyday_of(RUNS / 2).await];
    world.held(RUNS, RUNS).await;
    let other = rusqlite::Connection::open(world.file()).unwrap();
    other.busy_timeout(Duration::from_secs(60)).unwrap();
    for turn in 0..3 {
        if turn > 0 {
            tokio::time::sleep(BETWEEN).await;
        }
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        tokio::time::sleep(LOCKED).await;
        other.execute_batch("COMMIT").unwrap();
    }
    // Two leases, after which a lapse would be counted as a crash.
    tokio::time::sleep(2 * world.broker().lease() + Duration::from_secs(5)).await;
    assert_eq!((world.history().repeated(), crashes(&world).await), (Vec::new(), vec![0; RUNS]));
    world.release();
    all_done(&world, RUNS).await;
    println!(
        "incident: SQLite locked 3 times for {LOCKED:?}, 2 workers alive, {RUNS} jobs running: 0 run twice, {RUNS} ended"
    );
}
