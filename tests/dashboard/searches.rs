//! Four searches at a time: whoever comes then waits a moment and is told so, and nothing else waits with them.

use std::{sync::Arc, time::Duration};

use asynq_dashboard::Dashboard;
use asynq_runtime::{
    Client, RawTask,
    broker::redis::{RedisBroker, RedisOptions},
};
use asynq_tests::{Persistence, RedisServer};

use crate::stage::Served;

#[tokio::test]
async fn a_fifth_search_is_told_to_come_again() {
    let redis = RedisServer::start(Persistence::None);
    let mut patient = RedisOptions::default();
    patient.call_timeout = Duration::from_secs(60);
    let client = Client::new(Arc::new(RedisBroker::connect(&redis.url(), patient).await.unwrap()));
    client.enqueue_raw(RawTask::new("mail", "{}").task_id("t1")).await.unwrap();
    let served = Served::start(Dashboard::new(&client)).await;
    // Longer than a search waits for its turn, so that none of the four is over before the fifth gives up.
    let () = redis::cmd("CLIENT").arg(&["PAUSE", "8000", "ALL"]).query(&mut redis.connection()).unwrap();
    let ask = || served.get("/api/search?q=mail");
    let (a, b, c, d, e) = tokio::join!(ask(), ask(), ask(), ask(), ask());
    let answers = [a, b, c, d, e];
    let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 200, 503]);
    let refused = answers.iter().find(|answer| answer.status == 503).unwrap();
    assert_eq!((refused.code().as_str(), refused.header("retry-after")), ("busy", "3"), "{}", refused.body);
    assert!(refused.body.contains("others are searching"), "{}", refused.body);
    // Their turns are free again.
    assert_eq!(served.get("/api/search?q=mail").await.status, 200);
}
