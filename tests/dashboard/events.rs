//! Live events: numbers as they change, the broker's outages and returns, and a limit of listeners.

use super::Fixture;
use crate::dashboard::stage::{Events, Served, dashboard};
use asynq_tests::{eventually, soon, task};

#[tokio::test]
async fn numbers_come_at_once_and_again_and_again() {
    let fixture = Fixture::real_time().await;
    fixture.seed_pending(&["t1", "t2"]).await;
    let served = Served::start(dashboard(&fixture)).await;
    let (status, mut events) = Events::open(&served, "").await;
    assert_eq!(status, 200);
    let first: serde_json::Value = serde_json::from_str(&events.next("samples").await).unwrap();
    assert_eq!(first["queues"]["default"]["pending"], 2);
    fixture.enqueue(task("t3")).await;
    let third = async {
        loop {
            let next: serde_json::Value = serde_json::from_str(&events.next("samples").await).unwrap();
            if next["queues"]["default"]["pending"] == 3 {
                return;
            }
        }
    };
    soon(third).await;
    let series = served.get("/api/samples?queue=default").await.json();
    let pending = series["pending"].as_array().unwrap();
    assert!(pending.len() >= 2 && pending.last() == Some(&3.into()), "{series}");
    let (_, mut only) = Events::open(&served, "?queue=none").await;
    let only: serde_json::Value = serde_json::from_str(&only.next("samples").await).unwrap();
    assert_eq!(only["queues"], serde_json::json!({}));
}

#[tokio::test]
async fn the_sixty_fifth_listener_is_sent_away_until_one_leaves() {
    let fixture = Fixture::real_time().await;
    let served = Served::start(dashboard(&fixture)).await;
    let mut open = Vec::new();
    for _ in 0..64 {
        let (status, events) = Events::open(&served, "").await;
        assert_eq!(status, 200);
        open.push(events);
    }
    assert_eq!(Events::open(&served, "").await.0, 503);
    open.pop();
    // The server notices a closed connection at its next write.
    eventually("a place becomes free", async || (Events::open(&served, "").await.0 == 200).then_some(())).await;
}

#[tokio::test]
async fn the_events_of_a_page_carry_no_numbers() {
    let fixture = Fixture::real_time().await;
    fixture.seed_pending(&["t1"]).await;
    let served = Served::start(dashboard(&fixture)).await;
    assert!(served.get("/").await.body.contains(r#"data-events="/events?brief=1""#));
    let (_, mut events) = Events::open(&served, "?brief=1").await;
    let first: serde_json::Value = serde_json::from_str(&events.next("samples").await).unwrap();
    assert!(first["at"].is_string() && first["queues"].is_null(), "{first}");
}
