//! Redis Cluster: how a program keeps the map of its slots.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use asynq_runtime::broker::{
    Maintain as _, Produce as _, Refused, RetryOrder,
    redis::{RedisBroker, RedisOptions},
};
use asynq_tests::{Calls, RedisCluster, default_queue, task};

use crate::topologies::until_it_works;

/// Starts a node that passes all calls on to the node at `port`, but for the map of the cluster: it gives all slots to a node that is
/// gone.
fn stale_node_before(port: u16) -> u16 {
    const MAP: &[u8] = b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    // The thread ends with the test's process; its connections end with either side.
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut node = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (mut from_node, mut to_client) = (node.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut from_node, &mut to_client));
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(n @ 1..) = client.read(&mut buffer) {
                    let is_map = buffer[..n].windows(5).any(|word| word == b"SLOTS");
                    let sent = if is_map { client.write_all(MAP) } else { node.write_all(&buffer[..n]) };
                    if sent.is_err() {
                        break;
                    }
                }
                node.shutdown(Shutdown::Both)
            });
        }
    });
    own
}

#[tokio::test]
async fn a_node_with_an_old_map_is_not_asked_for_ever() {
    let cluster = RedisCluster::start();
    let url =
        format!("redis-cluster://127.0.0.1:{},{}?timeout=500ms", stale_node_before(cluster.port(0)), cluster.nodes());
    let broker = RedisBroker::connect(&url, RedisOptions::default()).await.unwrap();
    let enqueue = async || match broker.enqueue(vec![task("t")]).await.remove(0) {
        Err(Refused::Broker(error)) => Err(error),
        stored => Ok(stored.unwrap()),
    };
    until_it_works("an enqueue", enqueue).await;
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
