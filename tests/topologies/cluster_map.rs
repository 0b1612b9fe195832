//! Redis Cluster: how a program keeps the map of its slots.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use asynq_runtime::broker::{
    Maintain as _, Produce as _, Refused, RetryOrder,
    redis::{RedisBroker, RedisOptions},
};
use asynq_tests::{Calls, RedisCluster, default_queue, eventually, task};

use crate::topologies::until_it_works;

/// The map of a cluster whose slots are all at a node that is gone.
const ALL_GONE: &[u8] = b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n";

/// Returns the map of the cluster as the node at `port` answers it.
fn map_of(port: u16) -> Vec<u8> {
    const BEHIND: &[u8] = b"+PONG\r\n";
    let mut node = TcpStream::connect(("127.0.0.1", port)).unwrap();
    node.write_all(b"CLUSTER SLOTS\r\nPING\r\n").unwrap();
    let (mut answer, mut buffer) = (Vec::<u8>::new(), [0; 4096]);
    while !answer.ends_with(BEHIND) {
        let n = node.read(&mut buffer).unwrap();
        assert!(n > 0, "the node ends the connection");
        answer.extend_from_slice(&buffer[..n]);
    }
    answer.truncate(answer.len() - BEHIND.len());
    answer
}

/// Starts a node that passes all calls on to the node at `port`, but for the map of the cluster, which is always this one. Returns its
/// port, and what tells when a connection ends on which the map was asked for.
fn stale_node_before(port: u16, map: &[u8]) -> (u16, mpsc::Receiver<()>) {
    let (sender, ended) = mpsc::channel();
    let map = map.to_vec();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    // The thread ends with the test's process; its connections end with either side.
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut node = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (sender, map) = (sender.clone(), map.clone());
            let (mut from_node, mut to_client) = (node.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut from_node, &mut to_client));
            thread::spawn(move || {
                let (mut buffer, mut is_asked) = ([0; 4096], false);
                while let Ok(n @ 1..) = client.read(&mut buffer) {
                    let is_map = buffer[..n].windows(5).any(|word| word == b"SLOTS");
                    is_asked |= is_map;
                    let sent = if is_map { client.write_all(&map) } else { node.write_all(&buffer[..n]) };
                    if sent.is_err() {
                        break;
                    }
                }
                if is_asked {
                    // The test may be over.
                    let _ = sender.send(());
                }
                node.shutdown(Shutdown::Both)
            });
        }
    });
    (own, ended)
}

#[tokio::test]
async fn a_node_with_an_old_map_is_not_asked_for_ever() {
    let cluster = RedisCluster::start();
    let (stale, _) = stale_node_before(cluster.port(0), ALL_GONE);
    let url = format!("redis-cluster://127.0.0.1:{stale},{}?timeout=500ms", cluster.nodes());
    let broker = RedisBroker::connect(&url, RedisOptions::default()).await.unwrap();
    let enqueue = async || match broker.enqueue(vec![task("t")]).await.remove(0) {
        Err(Refused::Broker(error)) => Err(error),
        stored => Ok(stored.unwrap()),
    };
    until_it_works("an enqueue", enqueue).await;
}

/// The others cannot reach it, so it does not hear of the move, and all masters of its map live.
#[tokio::test]
async fn a_node_that_does_not_learn_of_a_move_is_not_asked_for_ever() {
    let cluster = RedisCluster::start();
    let (stale, left) = stale_node_before(cluster.port(0), &map_of(cluster.port(0)));
    let url = format!("redis-cluster://127.0.0.1:{stale},{}", cluster.nodes());
    let broker = RedisBroker::connect(&url, RedisOptions::default()).await.unwrap();
    broker.enqueue(vec![task("before")]).await.remove(0).unwrap();
    assert!(left.try_recv().is_err(), "the map is true");
    let slot = cluster.slot("asynq:{default}:pending");
    cluster.move_slot(slot, (cluster.owner(slot) + 1) % 3, 100);
    broker.enqueue(vec![task("after")]).await.remove(0).unwrap();
    eventually("another node is asked", async || left.try_recv().ok()).await;
}

/// All programs ask the same node, and each failed call is a reason to ask.
#[tokio::test]
async fn the_nodes_are_asked_less_and_less_often_while_a_master_stays_away() {
    let mut cluster = RedisCluster::start();
    let url = format!("{}?timeout=500ms", cluster.url());
    let broker = RedisBroker::connect(&url, RedisOptions::default()).await.unwrap();
    let gone = cluster.owner(cluster.slot("asynq:{default}:lease"));
    cluster.kill(gone);
    let questions = || {
        let of_node = |node| {
            let stats: String = cluster.command(node, &["INFO", "commandstats"]);
            let calls = Calls::read(&stats);
            // Redis 6.2 does not count the parts of a command.
            calls.of("cluster|slots") + calls.of("cluster")
        };
        (0..3).filter(|node| *node != gone).map(of_node).sum::<u64>()
    };
    let forward = async || broker.forward(&[default_queue()], RetryOrder::Last).await.unwrap_err();
    // From here on the master has been away for longer than a call waits.
    forward().await;
    let (begun, before) = (Instant::now(), questions());
    while begun.elapsed() < Duration::from_secs(3) {
        forward().await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Six questions, up to 1.6 seconds apart, and one every two seconds.
    let (asked, allowed) = (questions() - before, 8 + begun.elapsed().as_secs() / 2);
    assert!(asked <= allowed, "{asked} questions, {allowed} may be");
    assert!(questions() > 0, "the questions are counted");
}
