//! A Redis that may evict keys is not a place for a queue.

use asynq_runtime::{
    broker::{BrokerErrorKind, Presence as _, ServerName, redis::RedisBroker},
    task::ServerInfo,
};
use asynq_test_support::Log;
use asynq_tests::{Persistence, RedisCluster, RedisServer, eventually, patient};

use crate::topologies::connect;

const POLICIES: [&str; 7] =
    ["volatile-lru", "allkeys-lru", "volatile-lfu", "allkeys-lfu", "volatile-random", "allkeys-random", "volatile-ttl"];

#[tokio::test]
async fn any_policy_but_noeviction_is_refused_unless_allowed() {
    let server = RedisServer::start(Persistence::None);
    let set = |policy: &str| {
        let mut command = redis::cmd("CONFIG");
        command.arg("SET").arg("maxmemory-policy").arg(policy).exec(&mut server.connection()).unwrap();
    };
    for policy in POLICIES {
        set(policy);
        let error = connect(&server.url()).await.unwrap_err();
        assert_eq!(error.kind(), BrokerErrorKind::Config, "{policy}");
        assert!(error.to_string().contains(policy) && error.to_string().contains("allow_eviction"), "{error}");
        connect(&(server.url() + "?allow_eviction=true")).await.unwrap();
        let mut options = patient::redis_options(None);
        options.allow_eviction = true;
        RedisBroker::connect(&server.url(), options.clone()).await.unwrap();
        let url = server.url() + "?allow_eviction=false";
        assert!(RedisBroker::connect(&url, options).await.is_err(), "the URL comes first");
    }
    set("noeviction");
    connect(&server.url()).await.unwrap();
}

#[tokio::test]
async fn every_master_of_a_cluster_is_asked() {
    let cluster = RedisCluster::start();
    connect(&cluster.url()).await.unwrap();
    cluster.command::<()>(2, &["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]);
    let error = connect(&cluster.url()).await.unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Config, "{error:?}");
}

#[tokio::test]
async fn a_master_that_may_evict_once_a_server_has_connected_to_it_anew_is_warned_of() {
    let (cluster, log) = (RedisCluster::start(), Log::keep());
    let broker = connect(&cluster.url()).await.unwrap();
    let name = ServerName { host: "h".into(), pid: 1, server_id: "s".into() };
    let info = ServerInfo { host: name.host.clone(), ..ServerInfo::default() };
    let member = broker.join(&name, &info).await.unwrap();
    cluster.command::<()>(2, &["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]);
    cluster.command::<i64>(2, &["CLIENT", "KILL", "TYPE", "normal"]);
    let warned = || log.with("this Redis may evict tasks when its memory is full (maxmemory-policy volatile-lru)");
    let beat = async || broker.beat(&member, &info, &[]).await.ok().filter(|()| !warned().is_empty());
    eventually("a beat after the new connection has the warning", beat).await;
}
