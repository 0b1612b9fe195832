//! The broker itself and the order in its queues, as operators ask for them.

use asynq_runtime::{
    Inspector,
    broker::{Examination, OddityKind},
    inspector::InspectError,
};
use asynq_tests::{Need, Store as _, default_queue, task_id};

use super::Fixture;

#[tokio::test]
async fn the_nodes_of_a_broker_are_listed_with_their_versions() {
    let t = Fixture::real_time().await;
    let nodes = Inspector::new(t.shared()).nodes().await.unwrap();
    assert_eq!(nodes.len(), 1);
    let node = &nodes[0];
    let (text, numbers) = if t.broker().kind() == "redis" {
        ("redis_version", ["uptime_in_seconds", "used_memory", "connected_clients"])
    } else {
        ("quick_check", ["page_size", "disk_room_bytes", "disk_reserve_bytes"])
    };
    assert!(node.fact(text).is_some() && numbers.iter().all(|name| node.number(name).is_some()), "{node:?}");
    assert_eq!((node.fact("nothing"), node.number(text)), (None, None));
}

#[tokio::test]
async fn a_queue_is_examined_by_its_name() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    let error = inspector.examine("none", 10).await.unwrap_err();
    assert!(matches!(error, InspectError::QueueNotFound { .. }), "{error:?}");
    t.seed_every_state().await;
    let sound = Examination { complete: true, ..Examination::default() };
    assert_eq!(inspector.examine("default", 100).await.unwrap(), sound);
    if t.lacks(Need::LostLease) {
        return;
    }
    t.store.lose_lease(&default_queue(), &task_id("active"));
    let found = inspector.examine("default", 100).await.unwrap();
    assert_eq!(found.count(OddityKind::ActiveWithoutLease), 1, "{found:?}");
}
