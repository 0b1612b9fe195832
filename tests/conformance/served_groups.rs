//! A server on this broker that aggregates: a member that is damaged does not hold up the others of its group.

use asynq_runtime::{
    Client, RawTask, State,
    prelude::*,
    task::{TaskInfo, TaskState},
};
use asynq_tests::{
    Store as _, default_queue,
    server::{Log, logged, server, start},
    soon, task_id,
};

use super::Fixture;

#[job]
async fn digest(log: State<Log>, ids: String) -> JobResult {
    log.send(ids)?;
    Ok(())
}

fn ids(tasks: &[TaskInfo]) -> String {
    let mut ids: Vec<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
    ids.sort_unstable();
    ids.join(" ")
}

#[tokio::test]
async fn bytes_that_are_not_a_message_are_archived_and_the_others_of_their_group_become_one_task() {
    let t = Fixture::real_time().await;
    let client = Client::new(t.shared());
    for id in ["one", "bad", "two"] {
        client.enqueue(RawTask::new("note", id).task_id(id).group("notes")).await.unwrap();
    }
    t.store.overwrite_message(&default_queue(), &task_id("bad"), b"\xff\xfe not a message");
    let (builder, mut log) = server::<(digest,)>(&t.shared());
    let aggregated = builder.aggregate("notes", |_, tasks| Ok::<_, BoxError>(digest::job(ids(&tasks))));
    let running = start(aggregated.group_max_size(3)).await;
    assert_eq!(logged(&mut log).await, "one two");
    soon(running.signals().settled.reached(2)).await;
    let bad = t.info("bad").await.unwrap();
    assert_eq!((bad.state, &*bad.r#type), (TaskState::Archived, "undecodable"));
    assert_eq!(&bad.payload[..], b"\xff\xfe not a message");
    assert!(bad.last_error.unwrap().starts_with("undecodable task message (16 bytes)"));
    assert_eq!(t.broker().queue_stats(&default_queue()).await.unwrap().aggregating, 0);
    soon(running.shutdown()).await.unwrap();
}
