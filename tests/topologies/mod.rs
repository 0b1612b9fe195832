//! Topologies of Redis: the special sides of TLS, users with few rights, sentinels, clusters, slow networks and durability.
//!
//! The conformance suite tests the contracts on TLS, sentinels and clusters.
#![allow(clippy::unwrap_used)] // a case that cannot be set up is a failed test

mod access;
mod cluster;
mod cluster_away;
mod cluster_map;
mod durability;
mod eviction;
mod moved_name;
mod sentinel;
mod slow_network;
mod tls;

use std::net::{Ipv4Addr, TcpStream};

use asynq_runtime::broker::{BrokerError, NewTask, Produce as _, Refused, Run, Settlement, redis::RedisBroker};
use asynq_tests::{Lent, RedisCluster, RedisServer, Seeded as _, Store as _, StoreOn, done, eventually, patient};

async fn connect(url: &str) -> Result<RedisBroker, BrokerError> {
    RedisBroker::connect(url, patient::redis_options(None)).await
}

/// Repeats the call until it works: a failover sends no signal.
async fn until_it_works<T>(goal: &str, mut call: impl AsyncFnMut() -> Result<T, BrokerError>) -> T {
    eventually(goal, async || match call().await {
        Ok(done) => Some(done),
        Err(error) => {
            assert!(error.is_unavailable(), "{goal}: {error:?} is not a reason to wait");
            None
        }
    })
    .await
}

/// Enqueues a task that an earlier attempt may have stored.
async fn put_once(broker: &RedisBroker, new: NewTask) -> Result<(), BrokerError> {
    match broker.enqueue(vec![new]).await.remove(0) {
        Ok(_) | Err(Refused::IdConflict) => Ok(()),
        Err(Refused::Broker(error)) => Err(error),
        Err(other) => panic!("{other:?}"),
    }
}

/// The number of connections that a Redis has accepted, by its `INFO stats`.
fn connections(stats: &str) -> u64 {
    let count = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    count.and_then(|count| count.parse().ok()).unwrap()
}

/// The settlement of a run as a success.
fn ended(run: &Run) -> Settlement {
    run.ends_with(done())
}

#[test]
fn servers_of_a_test_that_failed_are_lent_to_no_other() {
    let lent = Lent::<RedisServer>::take();
    let port = lent.port();
    let test = std::thread::spawn(move || {
        let _lent = lent;
        panic!("on purpose");
    });
    assert!(test.join().is_err());
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err(), "the server waits for another test");
}

#[tokio::test]
async fn a_case_on_a_cluster_keeps_its_connections() {
    let store = StoreOn::<RedisCluster>::start().await;
    let made = || connections(&store.server().command::<String>(0, &["INFO", "stats"]));
    let before = made();
    for n in 0..200 {
        let key = format!("key-{n}");
        let _: Option<String> = store.command(&[b"GET", key.as_bytes()]);
    }
    // The question itself comes on a new connection, and a task that outlived an earlier test may try to log in again.
    assert!(made() - before < 100, "a connection is made for each command");
}
