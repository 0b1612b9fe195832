//! The answers to an enqueue that must be safe on replicas or on disk, and is not.

use std::time::{Duration, Instant};

use asynq_runtime::{
    Client, RawTask,
    broker::{BrokerErrorKind, Inspect as _, Produce as _, Refused},
};
use asynq_tests::{
    Build as _, Persistence, RedisCluster, RedisServer, SentinelServers, default_queue, eventually, lock_key, patient,
    queue, task,
};

use crate::topologies::connect;

#[tokio::test]
async fn a_replica_confirms_an_enqueue() {
    let servers = SentinelServers::start();
    servers.settled();
    let broker = connect(&(servers.url() + "&durability=replicas(1)&durability_timeout=60s")).await.unwrap();
    broker.enqueue(vec![task("t1")]).await.remove(0).unwrap();
    let there: i64 = servers.command(1, &["LLEN", "asynq:{default}:pending"]);
    assert_eq!(there, 1, "the replica has it when the enqueue returns");
}

#[tokio::test]
async fn without_enough_replicas_the_task_is_stored_and_the_call_returns_an_error() {
    let server = RedisServer::start(Persistence::None);
    let url = server.url() + "?durability=replicas(1)&durability_timeout=300ms";
    let broker = connect(&url).await.unwrap();
    let began = Instant::now();
    let mut answers =
        broker.enqueue(vec![task("t1").locked(&lock_key("k"), 60), task("t2").locked(&lock_key("k"), 60)]).await;
    assert!(began.elapsed() >= Duration::from_millis(300), "it waited");
    let second = answers.pop().unwrap();
    assert!(matches!(second, Err(Refused::Duplicate { .. })), "a refusal stays one: {second:?}");
    let first = answers.pop().unwrap();
    let Err(Refused::Broker(error)) = &first else { panic!("{first:?}") };
    assert_eq!(error.kind(), BrokerErrorKind::Unconfirmed);
    assert!(error.is_ambiguous() && !error.is_unavailable(), "{error:?}");
    assert!(error.to_string().contains("is stored"), "{error}");
    assert_eq!(broker.queue_stats(&default_queue()).await.unwrap().pending, 1, "stored, and not twice");

    let client = Client::connect(&url).await.unwrap();
    let error = client.enqueue(RawTask::new("x", "y")).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error:?}");
}

#[tokio::test]
async fn the_durability_of_the_options_is_used_and_the_url_comes_first() {
    let server = RedisServer::start(Persistence::None);
    let mut options = patient::redis_options(None);
    options.durability = asynq_runtime::broker::redis::Durability::replicas(1).within(Duration::from_millis(50));
    let connect = async |url: String| asynq_runtime::broker::redis::RedisBroker::connect(&url, options.clone()).await;
    let broker = connect(server.url()).await.unwrap();
    broker.enqueue(vec![task("t1")]).await.remove(0).unwrap_err();
    let broker = connect(server.url() + "?durability=async").await.unwrap();
    broker.enqueue(vec![task("t2")]).await.remove(0).unwrap();
}

#[tokio::test]
async fn each_master_of_a_cluster_answers_for_its_own() {
    let mut cluster = RedisCluster::with_replicas();
    // The first master's replica is gone.
    cluster.kill(3);
    let broker = connect(&(cluster.url() + "?durability=replicas(1)&durability_timeout=1s")).await.unwrap();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let is_alone = |name: &str| cluster.owner(cluster.slot(&format!("asynq:{{{name}}}:pending"))) == 0;
    let with_replica = names.iter().filter(|name| !is_alone(name)).count();
    assert!((1..names.len()).contains(&with_replica), "some of each: {with_replica}");
    let mut calls = 0;
    // The other replicas may be slower than a second; a missing one never answers.
    eventually("every master with a replica confirms", async || {
        calls += 1;
        let tasks = names.iter().map(|name| task(&format!("t{calls}")).in_queue(name)).collect();
        let mut confirmed = 0;
        for (name, answer) in names.iter().zip(broker.enqueue(tasks).await) {
            match answer {
                Ok(_) => {
                    assert!(!is_alone(name), "{name} is on the master without a replica");
                    confirmed += 1;
                }
                Err(Refused::Broker(error)) => assert_eq!(error.kind(), BrokerErrorKind::Unconfirmed, "{name}"),
                Err(other) => panic!("{other:?}"),
            }
            assert_eq!(broker.queue_stats(&queue(name)).await.unwrap().pending, calls);
        }
        (confirmed == with_replica).then_some(())
    })
    .await;
}

/// Redis has `WAITAOF` since version 7.2; older servers are refused at connect, newer ones confirm.
#[tokio::test]
async fn on_disk_needs_a_redis_that_reports_its_fsync() {
    let server = RedisServer::start(Persistence::Always);
    let mut connection = server.connection();
    let known = redis::cmd("WAITAOF").arg(1).arg(0).arg(1).exec(&mut connection).is_ok();
    let connected = connect(&(server.url() + "?durability=fsync")).await;
    if known {
        connected.unwrap().enqueue(vec![task("t1")]).await.remove(0).unwrap();
    } else {
        let error = connected.unwrap_err();
        assert_eq!(error.kind(), BrokerErrorKind::Config, "{error:?}");
        assert!(error.to_string().contains("7.2"), "{error}");
    }
    let without = RedisServer::start(Persistence::None);
    let error = connect(&(without.url() + "?durability=fsync")).await.unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Config, "no file to write: {error:?}");
}
