//! Warnings before keys that delete, and keys on tasks that have moved.

use asynq_runtime::{
    broker::ServerName,
    task::{ArchiveLimit, QueueWeight, ServerInfo},
};

use super::*;

#[tokio::test]
async fn archiving_into_a_full_archive_warns_of_the_deletion() {
    let mut watcher = Watcher::start().await;
    let broker = watcher.client.broker().clone();
    let info = ServerInfo {
        rust_version: "0.1.0".into(),
        queues: vec![QueueWeight { queue: Some("default".into()), weight: Some(1) }],
        archives: vec![ArchiveLimit { queue: "default".into(), tasks: 1 }],
        ..ServerInfo::default()
    };
    let name = ServerName { host: "small".into(), pid: 1, server_id: "small".into() };
    broker.join(&name, &info).await.unwrap();
    watcher.keys("j\n").await;
    watcher.select_tab(TaskState::Scheduled).await;
    let archived = watcher.client.inspector().queue("default").await.unwrap().archived;
    watcher.keys("a").await;
    let Some(Dialog::Sure(question, _)) = &watcher.model.dialog else { panic!("{}", watcher.text()) };
    let expected = format!("The archive keeps 1 tasks and holds {archived}: the oldest will be DELETED.");
    assert!(question.ends_with(&expected), "{question}");
    watcher.keys("n").await;
    assert_eq!(watcher.client.inspector().queue("default").await.unwrap().archived, archived, "no is no");
}

#[tokio::test]
async fn a_task_that_has_moved_since_it_was_shown_is_left() {
    let mut watcher = Watcher::start().await;
    let inspector = watcher.client.inspector();
    watcher.keys("j\n").await;
    watcher.select_tab(TaskState::Retry).await;
    watcher.keys("d").await;
    inspector.run("default", "retry").await.unwrap();
    watcher.keys("y").await;
    assert!(watcher.note().contains("it is pending now, not retry"), "{}", watcher.note());
    assert_eq!(inspector.task("default", "retry").await.unwrap().state, TaskState::Pending);
    watcher.select_tab(TaskState::Pending).await;
    watcher.keys("cy").await;
    assert!(watcher.note().contains("is pending, not running; there is no run to cancel"), "{}", watcher.note());
}
