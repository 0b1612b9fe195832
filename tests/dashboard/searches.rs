//! Searches while others search, while workers take tasks from the lists that are searched, and among tasks that cannot be read.

use std::sync::Arc;

use asynq_dashboard::Dashboard;
use asynq_runtime::{RawTask, broker::BulkAction};
use asynq_tests::{
    Build as _, Persistence, RedisFixture, RedisServer, SqliteFixture as Fixture, default_queue, eventually, patient,
    soon, task, task_id,
};
use tokio::task::JoinSet;

use crate::dashboard::stage::{Served, client, dashboard};

/// Four searches at a time: a fifth waits for a moment and is refused, and no other request waits with it.
#[tokio::test]
async fn a_fifth_search_is_refused_for_now() {
    let redis = RedisServer::start(Persistence::None);
    let client = patient::client(&redis.url()).await;
    client.enqueue(RawTask::new("mail", "{}").task_id("t1")).await.unwrap();
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

/// An answer ends in the third slice of the list or with it, and tasks are taken from the head before the next: none, fewer than
/// were looked at, or all that were.
#[tokio::test]
async fn a_search_goes_on_behind_the_task_that_it_looked_at_last_or_says_that_some_may_be_missing() {
    for (hay, tasks, taken) in [(400, 550, Some(0)), (400, 550, Some(150)), (400, 550, None), (500, 700, None)] {
        let fixture = Fixture::start().await;
        let new = (0..tasks).map(|n| task(&format!("t{n:03}")).with_payload(if n < hay { "hay" } else { "needle" }));
        for answer in fixture.broker().enqueue(new.collect()).await {
            answer.unwrap();
        }
        let served = Served::start(dashboard(&fixture)).await;
        let (mut found, mut before) = (Vec::new(), 0);
        let mut answer = served.get("/api/search?q=needle&state=pending").await.json();
        loop {
            found.extend(answer["tasks"].as_array().unwrap().iter().map(|task| task["id"].clone()));
            let Some(next) = answer["next"].as_str() else { break };
            if before == 0 && !found.is_empty() {
                before = found.len();
                for n in 0..taken.unwrap_or(hay + before) {
                    fixture
                        .broker()
                        .change_task(&default_queue(), &task_id(&format!("t{n:03}")), None, BulkAction::Delete)
                        .await
                        .unwrap();
                }
            }
            answer = served.get(&format!("/api/search?q=needle&state=pending&after={next}")).await.json();
        }
        let (expected, incomplete) = if taken.is_some() { (tasks - hay, false) } else { (before, true) };
        let result = (found.len(), answer["incomplete"].as_bool());
        assert_eq!(result, (expected, Some(incomplete)), "{hay} of {tasks}, {taken:?}");
        found.dedup();
        assert_eq!(found.len(), expected, "each once");
    }
}

/// A Redis with an eviction policy deletes the contents of tasks and leaves their ids in the lists.
#[tokio::test]
async fn tasks_behind_a_slice_that_cannot_be_read_are_found() {
    let fixture = RedisFixture::start().await;
    let new = (0..250).map(|n| task(&format!("t{n:03}")).with_payload(if n < 249 { "hay" } else { "needle" }));
    for answer in fixture.broker().enqueue(new.collect()).await {
        answer.unwrap();
    }
    for n in 0..200 {
        let key = format!("asynq:{{default}}:t:t{n:03}");
        assert_eq!(fixture.store.command::<i64>(&[b"DEL", key.as_bytes()]), 1, "{key}");
    }
    let served = Served::start(dashboard(&fixture)).await;
    let found = served.found("q=needle&state=pending").await;
    assert!(found.len() == 1 && found[0]["id"] == "t249", "{found:?}");
    let page = served.get("/queues/default?state=pending").await.body;
    assert!(
        page.contains("1–30 of 250") && page.contains("or cannot be read. `asynq doctor` names ids without a task"),
        "{page}"
    );
}

/// A worker takes tasks that cannot be read from the list, so that those behind them move up.
#[tokio::test]
async fn tasks_that_moved_up_into_a_slice_that_could_not_be_read_are_found() {
    let fixture = Fixture::start().await;
    fixture.enqueue(task("t1").with_payload("needle")).await;
    let served = Served::start(dashboard(&fixture)).await;
    // The position in the pending tasks behind one slice of which no task could be read.
    let answer = served.get("/api/search?q=needle&state=pending&after=4.1.0..0.0.default").await.json();
    assert_eq!(answer["tasks"][0]["id"], "t1", "{answer}");
}

/// Most lists of very many queues are empty, and the numbers of a queue take more commands than its list.
#[tokio::test]
async fn an_empty_list_is_not_counted_where_the_numbers_of_its_queue_were_just_read() {
    let fixture = RedisFixture::start().await;
    fixture.enqueue(task("t1").in_queue("low")).await;
    fixture.seed_pending(&["t2"]).await;
    let key = b"asynq:{default}:completed";
    let served = Served::start(dashboard(&fixture)).await;
    // Each new try is for a sampler that reads the queues again while the key is broken.
    eventually("a search that does not ask for the numbers of the queues", async || {
        fixture.store.command::<i64>(&[b"DEL", key]);
        let known = served.get("/api/queues").await.json();
        assert!(known["queues"].is_array(), "{known}");
        // From here on the numbers of the queue cannot be read, and its other lists can.
        fixture.store.command::<String>(&[b"SET", key, b"rubbish"]);
        let answer = served.get("/api/search?type=none&state=retry").await.json();
        (answer["incomplete"] == false && answer["next"].is_null()).then_some(())
    })
    .await;
    let numbers = served.get("/api/queues/default").await;
    assert_eq!(numbers.status, 500, "{}", numbers.body);
}

/// One reader of arguments looks up 64 shapes, and a slice of a list has 200 tasks.
#[tokio::test]
async fn arguments_are_searched_in_tasks_of_more_job_types_than_one_reader_knows() {
    use asynq_runtime::{broker::NewShape, prelude::*};

    #[job(name = "search:letter")]
    async fn letter(text: String, copies: u8) -> JobResult {
        let _ = (text, copies);
        Ok(())
    }

    let fixture = Fixture::start().await;
    let (client, broker) = (client(&fixture), fixture.broker());
    letter::job("needle", 7).task_id("t00").enqueue(&client).await.unwrap();
    let payload = client.inspector().task("default", "t00").await.unwrap().payload;
    let fingerprint = Some(u32::from_le_bytes(payload[1..5].try_into().unwrap()));
    let body = broker.shape("search:letter", fingerprint).await.unwrap().unwrap();
    let job = |n: usize| format!("search:letter-{n}");
    let shape = |n| NewShape { job: job(n), fingerprint, body: body.clone() };
    broker.keep_shapes(&(1..70).map(shape).collect::<Vec<_>>(), |new, _| Some(new.body.clone())).await.unwrap();
    let new = (1..70).map(|n| {
        let mut task = task(&format!("t{n:02}")).with_payload(payload.clone());
        task.message.r#type = job(n);
        task
    });
    for answer in broker.enqueue(new.collect()).await {
        answer.unwrap();
    }
    let served = Served::start(dashboard(&fixture)).await;
    assert_eq!(served.found("q=needle").await.len(), 70);
}

#[tokio::test]
async fn a_search_in_a_queue_that_has_ended_does_not_say_that_it_goes_on() {
    let fixture = Fixture::start().await;
    fixture.seed_pending(&["t1"]).await;
    let served = Served::start(dashboard(&fixture)).await;
    let page = eventually("a search looks at the task", async || {
        let page = served.get("/queues/default?state=pending&q=none").await.body;
        page.contains("that was all").then_some(page)
    })
    .await;
    assert!(page.contains("Nothing found") && !page.contains("Nothing found so far"), "{page}");
}
