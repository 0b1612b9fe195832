use asynq_test_support::soon;
use tokio::sync::mpsc;

use super::{
    super::{
        fake_server::{Reaction, role_to, serve},
        url::Endpoints,
    },
    *,
};
use crate::thread::Thread;

#[tokio::test]
async fn the_connection_to_a_node_that_has_left_the_cluster_is_closed() {
    let (sender, mut closed) = mpsc::unbounded_channel();
    let stays = serve(|_, _| Reaction::Answer);
    let leaves = serve(move |_, bytes| {
        if bytes.is_empty() {
            let _ = sender.send(());
        }
        Reaction::Answer
    });
    let [stays, leaves] = [stays, leaves].map(|url| role_to(&url));
    let map = |nodes: &[&Role]| {
        let mut map = SlotMap::empty();
        for (slot, node) in (0..).zip(nodes) {
            let Endpoints::One(address) = &node.target.endpoints else { panic!("not one server") };
            map.give(slot, address);
        }
        map
    };
    let (thread, topology) = (Thread::start("t").unwrap(), Topology::new(Vec::new()));
    topology.learn(Ok(map(&[&stays, &leaves])));
    let cluster = Cluster::open(thread.tasks(), stays.clone(), topology.clone());
    let replies = cluster.send_to_each(&Call::plain("PING"), Away::Fails).await.unwrap();
    assert!(replies.len() == 2 && replies.iter().all(|reply| reply.value.is_ok()), "{replies:?}");
    topology.learn(Ok(map(&[&stays])));
    soon(closed.recv()).await.unwrap();
}

/// Each of them would set the clock of the whole broker.
#[test]
fn the_connections_to_the_masters_do_not_follow_their_clocks() {
    let node = At::Node(Address::Unix("s".into()));
    assert!(!node.tells_time() && At::AnyNode(Topology::new(Vec::new())).tells_time());
}
