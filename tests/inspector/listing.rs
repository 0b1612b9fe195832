//! Pages of tasks and of groups.

use asynq_runtime::{Inspector, TaskState, inspector::InspectError, task::TaskInfo};
use asynq_tests::{Build as _, task};

use super::Fixture;

fn ids(tasks: Vec<TaskInfo>) -> Vec<String> {
    tasks.into_iter().map(|task| task.id.to_string()).collect()
}

#[tokio::test]
async fn pages_follow_each_other_and_hold_30_by_default() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    let all: Vec<String> = (0..70).map(|n| format!("t{n:02}")).collect();
    t.seed_pending(&all.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let page = async |n| ids(inspector.tasks("default", TaskState::Pending).page(n).await.unwrap());
    assert_eq!(ids(inspector.tasks("default", TaskState::Pending).await.unwrap()), all[..30]);
    assert_eq!((page(2).await, page(3).await, page(4).await), (all[30..60].to_vec(), all[60..].to_vec(), vec![]));
    let most = inspector.tasks("default", TaskState::Pending).per_page(500).await.unwrap();
    assert_eq!(ids(most), all);
    assert!(inspector.tasks("default", TaskState::Retry).await.unwrap().is_empty());
}

#[tokio::test]
async fn an_invalid_page_is_refused_with_the_valid_range() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    t.seed_pending(&["t1"]).await;
    let list = || inspector.tasks("default", TaskState::Pending);
    for (call, expected) in [
        (list().page(0), "invalid `page`: pages are counted from 1"),
        (list().per_page(0), "invalid `per_page`: it must be 1 to 500"),
        (list().per_page(501), "invalid `per_page`: it must be 1 to 500"),
        (list().group("g"), "invalid `group`: only aggregating tasks wait in groups; list the state `aggregating`"),
    ] {
        assert_eq!(call.await.unwrap_err().to_string(), expected);
    }
    for limit in [0, 501] {
        let error = inspector.groups("default").limit(limit).await.unwrap_err();
        assert_eq!(error.to_string(), "invalid `limit`: it must be 1 to 500");
    }
    assert!(list().page(usize::MAX).per_page(500).await.unwrap().is_empty(), "there is nothing so far away");
}

#[tokio::test]
async fn groups_and_their_tasks_are_listed() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    for (id, group) in [("t1", "b"), ("t2", "a"), ("t3", "b")] {
        t.enqueue(task(id).grouped(group)).await;
    }
    let page = inspector.groups("default").await.unwrap();
    assert_eq!(page.next, None);
    assert_eq!(page.groups.iter().map(|g| (g.group.as_str(), g.size)).collect::<Vec<_>>(), [("a", 1), ("b", 2)]);
    let one = inspector.groups("default").limit(1).await.unwrap();
    let next = inspector.groups("default").after(one.next.unwrap()).limit(1).await.unwrap();
    assert_eq!((one.groups[0].group.as_str(), next.groups[0].group.as_str()), ("a", "b"));

    let mut of_b = ids(inspector.tasks("default", TaskState::Aggregating).group("b").await.unwrap());
    of_b.sort();
    assert_eq!(of_b, ["t1", "t3"]);
    assert_eq!(inspector.tasks("default", TaskState::Aggregating).await.unwrap().len(), 3);
    assert!(inspector.tasks("default", TaskState::Aggregating).group("none").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_queue_without_groups_has_none() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    let inspector = Inspector::new(t.shared());
    assert!(inspector.groups("default").await.unwrap().groups.is_empty());
    assert!(matches!(inspector.groups("none").await, Err(InspectError::QueueNotFound { .. })));
}
