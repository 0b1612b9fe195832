//! The broker's servers or files, by their own facts, as a page and as JSON.

use std::time::{Duration, Instant};

use asynq_tests::eventually;

use super::Fixture;
use crate::dashboard::stage::{Request, Served, dashboard};

#[tokio::test]
async fn the_nodes_are_listed_with_their_facts() {
    let fixture = Fixture::real_time().await;
    fixture.seed_pending(&["t1"]).await;
    let served = Served::start(dashboard(&fixture)).await;
    // A busy broker may answer too late to be shown, or so late that its clock seems to be off.
    let answer = eventually("the node is listed, with a clock that is right", async || {
        let answer = served.get("/api/broker/nodes").await.json();
        answer["nodes"][0]["ahead_ms"].as_i64().is_some_and(|ahead| ahead.abs() < 5000).then_some(answer)
    })
    .await;
    let node = &answer["nodes"][0];
    assert!(node["version"].as_str().is_some_and(|version| version.contains(|c: char| c.is_ascii_digit())), "{answer}");
    assert!(!node["address"].as_str().unwrap().is_empty());
    if fixture.broker().kind() == "redis" {
        assert!(node["facts"]["memory"]["used_memory"].is_string() && node["slow_calls"].is_array(), "{answer}");
    } else {
        assert_eq!(node["facts"]["integrity"]["quick_check"], "ok", "{answer}");
        assert!(node["facts"]["file"]["bytes"].is_string() && node["slow_calls"].is_null(), "{answer}");
    }
    // A second request at once is answered from the cache: an answer is valid for five seconds.
    let answers = eventually("two answers within the time for which one holds", async || {
        let began = Instant::now();
        let answers = [served.get("/api/broker/nodes").await.json(), served.get("/api/broker/nodes").await.json()];
        // The first answer may have been cached just before it expired, and then the second is as new as the third.
        let third = served.get("/api/broker/nodes").await.json();
        let [first, second] = answers.map(|answer| answer["at"].clone());
        (began.elapsed() < Duration::from_secs(5)).then_some([first, second, third["at"].clone()])
    })
    .await;
    assert!(answers[0] == answers[1] || answers[1] == answers[2], "{answers:?}");
}

#[tokio::test]
async fn the_page_shows_them_as_soon_as_they_are_known() {
    let fixture = Fixture::real_time().await;
    fixture.seed_pending(&["t1"]).await;
    let served = Served::start(dashboard(&fixture)).await;
    let page = eventually("the page shows the nodes", async || {
        let page = served.ask(&Request::new("GET", "/broker").with("accept", "text/html")).await.body;
        // A page without the node's facts loads them later.
        assert_ne!(page.contains("data-again"), page.contains("id=\"node-0\""), "{page}");
        page.contains("id=\"node-0\"").then_some(page)
    })
    .await;
    let figures = if fixture.broker().kind() == "redis" {
        ["Memory used", "Eviction", "Persistence", "Clients", "Uptime"]
    } else {
        ["File", "Write-ahead log", "Free pages", "Durability", "Quick check"]
    };
    for figure in figures {
        assert!(page.contains(&format!("<dt>{figure}</dt>")), "{figure}: {page}");
    }
}
