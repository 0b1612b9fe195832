//! A queue with more groups than one answer lists: every group has its own size, pages and search.

use asynq_tests::{Build as _, soon, task};

use super::Fixture;
use crate::dashboard::stage::{Request, Served, dashboard};

#[tokio::test]
async fn the_last_of_many_groups_has_its_size_and_pages() {
    let fixture = Fixture::start().await;
    let many = (0..600).map(|n| task(&format!("t{n}")).grouped(&format!("g{n:03}"))).collect();
    let last = (0..35).map(|n| task(&format!("last-{n:02}")).grouped("z z")).collect();
    for answer in [fixture.broker().enqueue(many).await, fixture.broker().enqueue(last).await].into_iter().flatten() {
        answer.unwrap();
    }
    let served = Served::start(dashboard(&fixture)).await;
    let page = async |query: &str| {
        let path = format!("/queues/default?{query}");
        served.ask(&Request::new("GET", &path).with("accept", "text/html")).await.body
    };
    let rows = |page: &str| page.matches("/tasks/").count();
    let first = page("group=z+z").await;
    assert!(first.contains("1–30 of 35") && rows(&first) >= 30 && !first.contains("last-30"), "{first}");
    let second = page("group=z+z&page=2").await;
    assert!(second.contains("31–35 of 35") && second.contains("last-30") && !second.contains("last-29"), "{second}");
    assert!(first.contains("group=z%20z&amp;page=2"), "{first}");
    assert!(page("group=nobody").await.contains("No group has tasks"));
    // A search in a group finds no task of another. One answer searches for a limited time: the next continues.
    assert!(!page("group=z+z&q=t1").await.contains("t100"));
    for (text, expected) in [("t1", 0), ("last-1", 10)] {
        let all = soon(async {
            let (mut found, mut looked_at, mut after) = (0, 0, String::new());
            loop {
                let path = format!("/api/queues/default/tasks?group=z+z&q={text}&after={after}");
                let answer = served.get(&path).await.json();
                found += answer["tasks"].as_array().unwrap().len();
                looked_at += answer["looked_at"].as_u64().unwrap();
                let Some(next) = answer["next"].as_str() else { return (found, looked_at) };
                after = next.to_owned();
            }
        });
        assert_eq!(all.await, (expected, 35), "{text}");
    }
}
