//! A broker that dies while a page is open: the page shows the outage, asks again by itself, and recovers.

use std::{sync::Arc, time::Duration};

use asynq_dashboard::Dashboard;
use asynq_runtime::{
    Client,
    broker::sqlite::{SqliteBroker, SqliteOptions},
};
use asynq_tests::{Persistence, RedisServer, SqliteFixture, eventually};

use crate::dashboard::stage::{Events, Request, Served};

#[tokio::test]
async fn the_loss_and_the_return_of_a_broker_are_reported() {
    let mut redis = RedisServer::start(Persistence::None);
    let client = Client::connect(&redis.url()).await.unwrap();
    let served = Served::start(Dashboard::new(&client)).await;
    let (status, mut events) = Events::open(&served, "").await;
    assert_eq!(status, 200);
    events.next("samples").await;
    let page = Request::new("GET", "/").with("accept", "text/html");
    assert_eq!(served.ask(&page).await.status, 200);

    redis.kill();
    assert_eq!(events.next("broker").await, "away");
    for path in ["/", "/queues/default", "/servers", "/periodic", "/broker", "/search?q=x"] {
        let answer = served.ask(&Request { path: path.to_owned(), ..page.clone() }).await;
        assert_eq!((answer.status, answer.header("retry-after"), answer.header("refresh")), (503, "3", "3"), "{path}");
        assert!(answer.body.contains("<main") && !answer.body.contains("panicked"), "{path}: {}", answer.body);
    }
    let api = served.get("/api/queues").await;
    assert_eq!((api.status, api.code().as_str()), (503, "away"));
    let change = served.post("/queues/default/pause", "").await;
    assert_eq!((change.status, change.code().as_str()), (503, "away"));

    redis.restart();
    assert_eq!(events.next("broker").await, "back");
    events.next("samples").await;
    eventually("the page recovers", async || (served.ask(&page).await.status == 200).then_some(())).await;
}

/// The program that serves the page has to be started again. The page may hear of that by nothing but its own tries: its stream of events
/// may reach the new program alone.
#[tokio::test]
async fn a_page_of_a_file_that_was_deleted_asks_again_by_itself() {
    let fixture = SqliteFixture::real_time().await;
    let served = Served::start(Dashboard::new(&Client::new(fixture.shared()))).await;
    std::fs::remove_file(fixture.store.path()).unwrap();
    let page = Request::new("GET", "/queues/default").with("accept", "text/html");
    let failed =
        eventually("the file is missed", async || Some(served.ask(&page).await).filter(|answer| answer.status == 500))
            .await;
    for part in ["deleted or moved away", "data-failed", "tries again by itself"] {
        assert!(failed.body.contains(part), "{part} is missing in {}", failed.body);
    }
}

#[tokio::test]
async fn a_file_that_another_program_locks_is_reported_and_goes_on_afterwards() {
    let fixture = SqliteFixture::real_time().await;
    fixture.seed_pending(&["t1"]).await;
    // The calls of this broker time out sooner than those of other tests, which wait as long as the test does.
    let mut options = SqliteOptions::default();
    options.call_timeout = Duration::from_secs(3);
    let client = Client::new(Arc::new(SqliteBroker::open(&fixture.store.url(), options).await.unwrap()));
    let served = Served::start(Dashboard::new(&client)).await;
    let shell = fixture.store.connection();
    shell.execute_batch("BEGIN IMMEDIATE").unwrap();
    let page = Request::new("GET", "/queues/default").with("accept", "text/html");
    assert_eq!(served.ask(&page).await.status, 200, "a read waits for no write");
    let refused = served.post("/queues/default/pause", "").await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "away"), "{}", refused.body);
    assert!(refused.body.contains("another program") && refused.body.contains("lock"), "{}", refused.body);
    assert_eq!(served.ask(&page).await.status, 200);
    shell.execute_batch("ROLLBACK").unwrap();
    assert_eq!(served.post("/queues/default/pause", "").await.status, 200);
}
