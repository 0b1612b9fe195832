//! A task whose message lies in a damaged page of the file is archived by the claim that meets it, and hides no other. One that
//! cannot be deleted keeps no other from it.

use std::fs;

use asynq_runtime::{
    broker::{BrokerErrorKind, GroupRules, Groups as _, Inspect as _, Maintain as _, Page, TaskBrief},
    task::{TaskInfo, TaskState},
};

use super::*;

fn in_queue(queue: &str, mut task: NewTask) -> NewTask {
    (task.message.queue, task.queue) = (queue.into(), QueueName::new(queue).unwrap());
    task
}

/// Makes a file with these tasks and damages pages in which the messages of the tasks lie that are named `damaged` and a number.
async fn damaged(tasks: impl IntoIterator<Item = NewTask>) -> (tempfile::TempDir, SqliteBroker) {
    let (folder, file) = new_file();
    let broker = open(&file).await;
    let mut tasks: Vec<NewTask> = tasks.into_iter().collect();
    for task in tasks.iter_mut().filter(|task| task.id.as_str().starts_with("damaged")) {
        // Longer than a page: the message goes on in further pages, of which each begins with the number of the next.
        task.message.payload = vec![b'~'; 9_000].into();
    }
    assert!(broker.enqueue(tasks).await.iter().all(Result::is_ok));
    broker.close().await;
    let mut bytes = fs::read(&file).unwrap();
    let pages = (0..bytes.len()).step_by(4096);
    let found: Vec<usize> = pages.filter(|at| bytes[at + 4..at + 4096].iter().all(|byte| *byte == b'~')).collect();
    assert!(!found.is_empty());
    for page in found {
        bytes[page..page + 4].fill(0x7f);
        // The second page of the file has five bytes for each page behind it. A deletion asks those of the next page first whether the
        // message goes on there.
        bytes[4096 + 5 * (page / 4096 - 1)] = 0x7f;
    }
    fs::write(&file, bytes).unwrap();
    (folder, open(&file).await)
}

fn shown(tasks: &[TaskInfo]) -> Vec<&str> {
    tasks.iter().map(|task| task.id.as_str()).collect()
}

/// Asserts that the task was archived, and is listed with the reason and no payload.
async fn is_archived(broker: &SqliteBroker) {
    let archived = broker.tasks(&queue(), TaskState::Archived, Page::default()).await.unwrap();
    assert_eq!(shown(&archived), ["damaged"]);
    assert_eq!((&*archived[0].r#type, &archived[0].payload[..]), ("undecodable", &b""[..]));
    assert!(archived[0].last_error.as_ref().unwrap().contains("its page of the file is damaged"));
    let one = broker.task(&queue(), &TaskId::new("damaged").unwrap()).await.unwrap();
    assert_eq!(one.as_ref(), archived.first());
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().archived, 1);
}

#[tokio::test]
async fn a_pending_task_in_a_damaged_page_holds_up_no_other() {
    let low = in_queue("low", task("c"));
    let (_folder, broker) = damaged([task("damaged"), task("a"), task("b"), low]).await;
    let member = join(&broker).await;
    let wanted = [Wanted { queue: queue(), n: 9 }, Wanted { queue: QueueName::new("low").unwrap(), n: 9 }];
    let error = broker.dequeue(&member, &wanted).await.unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Corrupt);
    let runs = broker.dequeue(&member, &wanted).await.unwrap();
    assert_eq!(ids(&runs), ["a", "b", "c"]);
    is_archived(&broker).await;
    broker.close().await;
}

#[tokio::test]
async fn a_grouped_task_in_a_damaged_page_holds_up_no_other() {
    let (_folder, broker) = damaged(["a", "damaged", "b"].map(|id| grouped(task(id)))).await;
    let at_once = GroupRules { max_delay: Some(Duration::ZERO), ..GroupRules::default() };
    let error = broker.claim_set(&queue(), &group(), &at_once).await.unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Corrupt);
    let set = broker.claim_set(&queue(), &group(), &at_once).await.unwrap().unwrap();
    assert_eq!(set.members.iter().map(|member| member.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    is_archived(&broker).await;
    broker.release_set(&set).await.unwrap();
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().aggregating, 2);
    broker.close().await;
}

#[tokio::test]
async fn a_list_leaves_out_a_task_in_a_damaged_page_and_shows_the_others() {
    for make in [|id| task(id), |id| grouped(task(id))] {
        let (_folder, broker) = damaged(["a", "damaged", "b"].map(make)).await;
        let group = make("a").group;
        let state = if group.is_some() { TaskState::Aggregating } else { TaskState::Pending };
        assert_eq!(shown(&broker.tasks(&queue(), state, Page::default()).await.unwrap()), ["a", "b"]);
        let briefs =
            broker.list(&queue(), state, group.as_ref(), Page::default(), Some(TaskBrief::BYTES)).await.unwrap();
        assert_eq!(briefs.iter().map(|brief| brief.task.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(broker.task(&queue(), &TaskId::new("damaged").unwrap()).await.unwrap(), None);
        broker.close().await;
    }
}

#[tokio::test]
async fn a_task_in_a_damaged_page_that_cannot_be_deleted_keeps_no_later_one() {
    for state in [TaskState::Completed, TaskState::Archived] {
        let (folder, broker) = damaged([task("damaged"), task("a"), task("b")]).await;
        let file = rusqlite::Connection::open(folder.path().join("jobs.db")).unwrap();
        let number = state.number();
        let kept = format!("UPDATE task SET state = {number}, at = 1; UPDATE tally SET state = {number};");
        file.execute_batch(&kept).unwrap();
        let delete = async || match state {
            TaskState::Completed => broker.delete_expired(&queue(), 9).await,
            _ => broker.trim_archive(&queue(), HOUR, 0, 9).await,
        };
        assert_eq!(delete().await.unwrap(), 2, "{state}");
        assert_eq!(delete().await.unwrap_err().kind(), BrokerErrorKind::Corrupt, "{state}");
        let left = file.query_row("SELECT group_concat(id) FROM task", [], |row| row.get::<_, String>(0));
        assert_eq!(left.unwrap(), "damaged");
        let stats = broker.queue_stats(&queue()).await.unwrap();
        assert_eq!(stats.completed + stats.archived, 1, "{state}");
        broker.close().await;
    }
}

/// Lets each task of the file be one whose retention has passed.
fn expire_all(folder: &tempfile::TempDir) {
    let file = rusqlite::Connection::open(folder.path().join("jobs.db")).unwrap();
    let completed = TaskState::Completed.number();
    let expire = format!("UPDATE task SET state = {completed}, at = 1; UPDATE tally SET state = {completed};");
    file.execute_batch(&expire).unwrap();
}

/// Returns how many transactions the file has had, from the head of its index of the log.
fn commits(folder: &tempfile::TempDir) -> u32 {
    let index = fs::read(folder.path().join("jobs.db-shm")).unwrap();
    u32::from_ne_bytes(index[8..12].try_into().unwrap())
}

#[tokio::test]
async fn tasks_behind_one_that_cannot_be_deleted_are_deleted_together() {
    let others = (0..60).map(|i| task(&format!("t{i}")));
    let (folder, broker) = damaged([task("damaged")].into_iter().chain(others)).await;
    expire_all(&folder);
    let before = commits(&folder);
    assert_eq!(broker.delete_expired(&queue(), 100).await.unwrap(), 60);
    let commits = commits(&folder) - before;
    assert!((1..10).contains(&commits), "{commits}");
    broker.close().await;
}

#[tokio::test]
async fn the_number_of_deleted_tasks_is_told_although_too_many_others_cannot_be_deleted() {
    let tasks = (0..251).map(|i| task(&format!("damaged{i}")));
    let (folder, broker) = damaged([task("a")].into_iter().chain(tasks).chain([task("b")])).await;
    expire_all(&folder);
    assert_eq!(broker.delete_expired(&queue(), 9).await.unwrap(), 1);
    broker.close().await;
}
