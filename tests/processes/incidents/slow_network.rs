//! Networks to Redis with a long latency or a low rate.

use std::time::Duration;

use asynq_runtime::Client;
use asynq_tests::{NetworkOptions, Persistence, RedisServer, SlowNetwork, jobs::Parcel};

use crate::processes::{
    incidents::{all_done, crashes},
    world::World,
};

/// The workers are far from Redis.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "one of the incidents: scripts/prove incidents"]
async fn a_round_trip_of_a_quarter_of_a_second_is_not_an_outage() {
    const RUNS: usize = 20;
    let server = RedisServer::start(Persistence::None);
    let network = SlowNetwork::to(
        server.port(),
        NetworkOptions { bits_per_second: 100_000_000, round_trip: Duration::from_millis(250) },
    )
    .await;
    let world = World::at(network.url()).await;
    let _worker = world.everyday_of(RUNS / 2).await;
    world.enqueue_records(RUNS, 0).await;
    all_done(&world, RUNS).await;
    println!("incident: Redis 250 ms away: {RUNS} tasks enqueued and done");
}

/// Three tasks of almost the largest possible size go to a worker over `network`.
async fn large_tasks_arrive(megabits: f64) {
    const RUNS: usize = 3;
    let server = RedisServer::start(Persistence::None);
    let bits_per_second = (megabits * 1_000_000.0) as u64;
    let network =
        SlowNetwork::to(server.port(), NetworkOptions { bits_per_second, round_trip: Duration::from_millis(20) }).await;
    let world = World::beyond(&network, &server).await;
    world.enqueue_parcels(RUNS, 900_000).await;
    world.hold();
    let _worker = world.everyday_of(10).await;
    world.started(RUNS).await;
    assert_eq!(crashes(&world).await, [0; RUNS]);
    world.release();
    all_done(&world, RUNS).await;
    println!("incident: {RUNS} tasks of 900 kB over {megabits} Mbit/s: all of them ran, 0 crashes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "one of the incidents: scripts/prove incidents"]
async fn large_tasks_arrive_over_a_slow_network() {
    large_tasks_arrive(12.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes half a minute: scripts/prove incidents"]
async fn large_tasks_arrive_over_the_slowest_network() {
    large_tasks_arrive(1.2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "one of the incidents: scripts/prove incidents"]
async fn a_large_enqueue_over_the_slowest_network_is_stored() {
    let server = RedisServer::start(Persistence::None);
    let network = SlowNetwork::to(
        server.port(),
        NetworkOptions { bits_per_second: 1_200_000, round_trip: Duration::from_millis(20) },
    )
    .await;
    let client = Client::connect(&network.url()).await.unwrap();
    for bytes in [100_000, 1_000_000] {
        client.enqueue(Parcel { content: vec![b'x'; bytes] }).await.unwrap();
    }
    let pending: usize = redis::cmd("LLEN").arg("asynq:{default}:pending").query(&mut server.connection()).unwrap();
    assert_eq!(pending, 2, "each once");
    println!("incident: enqueues of 100 kB and 1 MB over 1.2 Mbit/s: stored, each once");
}
