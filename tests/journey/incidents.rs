//! Incidents that every company meets in a year, with whole processes, default settings and the real lease; each takes minutes.
//! `scripts/prove incidents` runs them and prints a line for each.

use std::time::Duration;

use asynq_runtime::{Client, TaskId};
use asynq_tests::{Line, Persistence, RedisServer, ThinLine, eventually, jobs::Parcel};

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

/// Workers are far from Redis.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "one of the incidents: scripts/prove incidents"]
async fn a_round_trip_of_a_quarter_of_a_second_is_no_outage() {
    const RUNS: usize = 20;
    let server = RedisServer::start(Persistence::None);
    let line =
        ThinLine::to(server.port(), Line { bits_per_second: 100_000_000, round_trip: Duration::from_millis(250) })
            .await;
    let world = World::at(line.url()).await;
    let _worker = world.worker(RUNS / 2);
    world.enqueue_records(RUNS, 0).await;
    let stats = world.settled().await;
    assert_eq!(world.history().repeated(), []);
    assert_eq!((stats.processed_total, stats.failed_total, stats.archived), (RUNS as u64, 0, 0));
    println!("incident: Redis 250 ms away: {RUNS} tasks enqueued and done");
}

/// Three tasks of almost the largest size there is go to a worker over `line`.
async fn large_tasks_arrive(megabits: f64) {
    const RUNS: usize = 3;
    let server = RedisServer::start(Persistence::None);
    let bits_per_second = (megabits * 1_000_000.0) as u64;
    let line = ThinLine::to(server.port(), Line { bits_per_second, round_trip: Duration::from_millis(20) }).await;
    let world = World::beyond(&line, &server).await;
    let ids = world.enqueue_parcels(RUNS, 900_000).await;
    world.hold();
    let _worker = world.worker(10);
    world.started(RUNS).await;
    assert_eq!(crashes(&server, &ids), [0; RUNS]);
    world.release();
    let stats = world.settled().await;
    assert_eq!((world.history().starts().len(), world.history().repeated()), (RUNS, Vec::new()));
    assert_eq!((stats.processed_total, stats.failed_total, stats.archived), (RUNS as u64, 0, 0));
    println!("incident: {RUNS} tasks of 900 kB over {megabits} Mbit/s: all of them ran, 0 crashes");
}

fn crashes(server: &RedisServer, ids: &[TaskId]) -> Vec<u64> {
    let mut redis = server.connection();
    let mut of = |id: &TaskId| -> Option<u64> {
        redis::cmd("HGET").arg(format!("asynq:{{default}}:t:{id}")).arg("crashes").query(&mut redis).unwrap()
    };
    ids.iter().map(|id| of(id).unwrap_or_default()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "one of the incidents: scripts/prove incidents"]
async fn large_tasks_arrive_over_a_thin_line() {
    large_tasks_arrive(12.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes half a minute: scripts/prove incidents"]
async fn large_tasks_arrive_over_the_thinnest_line() {
    large_tasks_arrive(1.2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "one of the incidents: scripts/prove incidents"]
async fn a_large_enqueue_over_the_thinnest_line_is_stored() {
    let server = RedisServer::start(Persistence::None);
    let line =
        ThinLine::to(server.port(), Line { bits_per_second: 1_200_000, round_trip: Duration::from_millis(20) }).await;
    let client = Client::connect(&line.url()).await.unwrap();
    for bytes in [100_000, 1_000_000] {
        client.enqueue(Parcel { content: vec![b'x'; bytes] }).await.unwrap();
    }
    let pending: usize = redis::cmd("LLEN").arg("asynq:{default}:pending").query(&mut server.connection()).unwrap();
    assert_eq!(pending, 2, "each once");
    println!("incident: enqueues of 100 kB and 1 MB over 1.2 Mbit/s: stored, each once");
}
