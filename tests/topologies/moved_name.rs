//! A name that leads to another server after a failover, such as that of a service of Kubernetes: connections to the server before live
//! on, and it answers reads.

use std::{
    io,
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
    thread,
    time::Duration,
};

use asynq_runtime::{
    broker::{BrokerError, BrokerErrorKind, Inspect as _, TaskEnd, redis::RedisBroker},
    task::TaskState,
};
use asynq_tests::{Persistence, RedisServer, default_queue, eventually, task, task_id};
use redis::Commands as _;

use crate::topologies::{connect, put_once, until_it_works};

/// Two servers, and a name that leads to the first one.
struct World {
    old: RedisServer,
    new: RedisServer,
    port: u16,
    leads_to: Arc<AtomicU16>,
}

impl World {
    fn new() -> Self {
        let (old, new) = (RedisServer::start(Persistence::None), RedisServer::start(Persistence::None));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let leads_to = Arc::new(AtomicU16::new(old.port()));
        let now = Arc::clone(&leads_to);
        // The thread ends with the test's process; its connections end with either side.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(("127.0.0.1", now.load(Ordering::SeqCst))).unwrap();
                let (from_client, from_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || pass(from_client, server));
                thread::spawn(move || pass(from_server, client));
            }
        });
        Self { old, new, port, leads_to }
    }

    async fn connect(&self) -> RedisBroker {
        connect(&format!("redis://127.0.0.1:{}", self.port)).await.unwrap()
    }

    /// Makes the name lead to the new server.
    fn move_name(&self) {
        self.leads_to.store(self.new.port(), Ordering::SeqCst);
    }

    /// Makes the old server a replica, of a server that does not answer.
    fn demote_old(&self) {
        redis::cmd("REPLICAOF").arg("127.0.0.1").arg(1).exec(&mut self.old.connection()).unwrap();
    }

    /// Cuts all connections to the old server but the one on which changes are announced.
    fn cut_all_but_the_tracking_connection(&self) {
        let mut redis = self.old.connection();
        let own: i64 = redis::cmd("CLIENT").arg("ID").query(&mut redis).unwrap();
        let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut redis).unwrap();
        for client in list.lines() {
            let field = |name: &str| client.split(' ').find_map(|field| field.strip_prefix(name)).unwrap();
            if !field("flags=").contains('t') && field("id=") != own.to_string() {
                let _: i64 = redis::cmd("CLIENT").arg("KILL").arg("ID").arg(field("id=")).query(&mut redis).unwrap();
            }
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    to.set_nodelay(true).unwrap();
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
}

/// Looks at the end of a task on the tracking connection.
async fn end(broker: &RedisBroker, id: &str) -> Result<TaskEnd, BrokerError> {
    broker.wait_for_end(&default_queue(), &task_id(id), Duration::from_millis(50)).await
}

/// Waits until a look at the end of the task finds it pending.
async fn until_seen(broker: &RedisBroker, id: &str) {
    let is_seen = async || matches!(end(broker, id).await, Ok(TaskEnd::NotYet(TaskState::Pending))).then_some(());
    eventually("the task is seen by its waiter", is_seen).await;
}

#[tokio::test]
async fn connections_that_only_read_follow_those_that_write_to_the_new_master() {
    let t = World::new();
    let broker = t.connect().await;
    put_once(&broker, task("t1")).await.unwrap();
    assert_eq!(end(&broker, "t1").await.unwrap(), TaskEnd::NotYet(TaskState::Pending));
    t.move_name();
    t.demote_old();
    until_it_works("an enqueue on the new master", async || put_once(&broker, task("t2")).await).await;
    until_seen(&broker, "t2").await;
}

/// Such a replica answers reads with an error as well, but greets each new connection.
#[tokio::test]
async fn a_replica_that_must_not_show_old_data_is_left() {
    let t = World::new();
    let broker = t.connect().await;
    put_once(&broker, task("t1")).await.unwrap();
    t.move_name();
    redis::cmd("CONFIG").arg(&["SET", "replica-serve-stale-data", "no"]).exec(&mut t.old.connection()).unwrap();
    t.demote_old();
    until_it_works("an enqueue on the new master", async || put_once(&broker, task("t2")).await).await;
}

#[tokio::test]
async fn connections_that_only_read_follow_to_a_new_server_although_the_old_one_is_a_master_still() {
    let t = World::new();
    let broker = t.connect().await;
    put_once(&broker, task("t1")).await.unwrap();
    assert_eq!(end(&broker, "t1").await.unwrap(), TaskEnd::NotYet(TaskState::Pending));
    t.move_name();
    t.cut_all_but_the_tracking_connection();
    until_it_works("an enqueue at the new server", async || put_once(&broker, task("t2")).await).await;
    let is_stored: bool = t.new.connection().exists("asynq:{default}:t:t2").unwrap();
    assert!(is_stored, "at the new server");
    until_seen(&broker, "t2").await;
}

/// A replica cannot wait for replicas of its own.
#[tokio::test]
async fn a_program_that_waits_for_replicas_starts_while_its_name_leads_to_a_replica() {
    let t = World::new();
    t.demote_old();
    let url = format!("redis://127.0.0.1:{}?durability=replicas(1)&durability_timeout=50ms", t.port);
    let broker = connect(&url).await.unwrap();
    t.move_name();
    until_it_works("an enqueue on the new master", async || match put_once(&broker, task("t1")).await {
        // This master has no replica.
        Err(error) if error.kind() == BrokerErrorKind::Unconfirmed => Ok(()),
        outcome => outcome,
    })
    .await;
    let is_stored: bool = t.new.connection().exists("asynq:{default}:t:t1").unwrap();
    assert!(is_stored, "at the new server");
}

/// No answer tells such a program that its server takes no writes.
#[tokio::test]
async fn a_program_that_only_reads_notices_that_its_server_has_become_a_replica() {
    let t = World::new();
    let broker = t.connect().await;
    assert!(broker.queues().await.unwrap().is_empty());
    let _: i64 = t.new.connection().sadd("asynq:queues", "default").unwrap();
    t.move_name();
    t.demote_old();
    let is_known = async || broker.queues().await.ok().filter(|queues| *queues == [default_queue()]).map(drop);
    eventually("the queues of the new master", is_known).await;
}
