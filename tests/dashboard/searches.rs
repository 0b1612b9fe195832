//! Four searches at a time: a fifth waits for a moment and is refused, and no other request waits with it.

use std::sync::Arc;

use asynq_dashboard::Dashboard;
use asynq_runtime::RawTask;
use asynq_tests::{Persistence, RedisServer, patient, soon};
use tokio::task::JoinSet;

use crate::dashboard::stage::Served;

#[tokio::test]
async fn a_fifth_search_is_refused_for_now() {
    let redis = RedisServer::start(Persistence::None);
    let client = patient::client(&redis.url()).await;
    client.enqueue_raw(RawTask::new("mail", "{}").task_id("t1")).await.unwrap();
    let served = Arc::new(Served::start(Dashboard::new(&client)).await);
    // None of the four ends before the fifth gives up.
    let stopped = redis.stop();
    let mut searches = JoinSet::new();
    for _ in 0..5 {
        let served = Arc::clone(&served);
        searches.spawn(async move { served.get("/api/search?q=mail").await });
    }
    let refused = soon(searches.join_next()).await.unwrap().unwrap();
    assert_eq!((refused.status, refused.code().as_str(), refused.header("retry-after")), (503, "busy", "3"));
    assert!(refused.body.contains("others are searching"), "{}", refused.body);
    drop(stopped);
    for answer in soon(searches.join_all()).await {
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    // The four permits are free again.
    assert_eq!(served.get("/api/search?q=mail").await.status, 200);
}
