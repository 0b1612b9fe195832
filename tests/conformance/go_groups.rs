//! Go programs on the same groups: each side reclaims, ends and repairs sets of the other.

use std::time::Duration;

use asynq_runtime::{
    broker::{BulkAction, SetError, SetOutcome, TaskSet},
    task::{TaskMessage, TaskState},
};
use asynq_tests::{Build as _, becomes, default_queue, lock_key, made, members, retry, task, task_id};

use super::Fixture;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn grouped(id: &str) -> TaskMessage {
    task(id).grouped("g").message
}

async fn sweep(t: &Fixture) -> usize {
    t.broker().restore_groups(&[default_queue()]).await.unwrap()
}

#[tokio::test]
async fn a_task_that_go_put_into_a_group_is_taken() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    let now = t.now().timestamp();
    go.add_to_group(&grouped("t2"), now, None);
    go.add_to_group(&grouped("t1"), now - 5, None);
    let set = t.claim("g").await;
    assert_eq!(members(&set), ["t1", "t2"]);
    assert_eq!(set.members[0].message.as_ref().unwrap(), &grouped("t1"));
    t.finish(&set, &becomes(vec![made(&set, 0)])).await.unwrap();
    assert_eq!((t.state_of("t1").await, t.drain().await), (None, vec![set.task_id(0).to_string()]));
}

#[tokio::test]
async fn the_lock_that_go_names_in_the_message_alone_is_freed_with_the_set() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    let message = task("t1").grouped("g").locked(&lock_key("k"), 600).message;
    go.add_to_group(&message, t.now().timestamp(), Some(600));
    let set = t.claim("g").await;
    t.finish(&set, &becomes(vec![made(&set, 0)])).await.unwrap();
    assert_eq!(t.holder_of(&lock_key("k")).await, None);

    let message = task("t2").grouped("g").locked(&lock_key("l"), 600).message;
    go.add_to_group(&message, t.now().timestamp(), Some(600));
    let set = t.claim("g").await;
    t.finish(&set, &SetOutcome { alone: vec![task_id("t2")], ..SetOutcome::default() }).await.unwrap();
    assert_eq!(t.holder_of(&lock_key("l")).await, Some(task_id("t2")));
    t.broker().change_task(&default_queue(), &task_id("t2"), None, BulkAction::Delete).await.unwrap();
    assert_eq!(t.holder_of(&lock_key("l")).await, None, "it is known without the group, too");
}

#[tokio::test]
async fn our_set_has_the_key_and_deadline_that_go_gives_its_own() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    let set = t.seed_set(&["t1"]).await;
    assert_eq!(go.set(), format!("asynq:{{default}}:g:g:{}", set.id));
    assert_eq!(set.deadline.timestamp(), t.now().timestamp() + 120);
}

#[tokio::test]
async fn a_set_of_ours_that_go_took_back_is_lost_and_its_group_is_found_again() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    let set = t.seed_set(&["t1", "t2"]).await;
    t.advance(TaskSet::DEADLINE + SECOND);
    go.reclaim(t.now().timestamp());
    assert!(matches!(t.finish(&set, &becomes(vec![made(&set, 0)])).await, Err(SetError::Lost)));
    assert!(t.group_sizes().await.is_empty(), "asynq forgets its name");
    assert_eq!(sweep(&t).await, 1);
    assert_eq!(t.group_sizes().await, [("g".to_owned(), 2)]);
    assert_eq!(sweep(&t).await, 0);
    assert_eq!(members(&t.claim("g").await), ["t1", "t2"]);
}

#[tokio::test]
async fn a_set_of_go_goes_back_at_its_deadline_and_its_group_is_known() {
    const TASKS: usize = TaskSet::MOST + 100;
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    // That is more than a set of ours may have.
    for i in 0..TASKS {
        go.add_to_group(&grouped(&format!("t{i:04}")), t.now().timestamp(), None);
    }
    let set = go.aggregation_check("g", t.now().timestamp() + 120);
    assert_eq!(t.broker().reclaim_sets(&default_queue()).await.unwrap(), 0);
    t.advance(3 * MINUTE);
    assert_eq!(t.broker().reclaim_sets(&default_queue()).await.unwrap(), 1, "asynq's sets have no largest size");
    assert_eq!(t.group_sizes().await, [("g".to_owned(), TASKS as u64)]);
    assert!(!go.exists(&set));
}

#[tokio::test]
async fn a_set_of_go_that_comes_back_at_its_deadline_is_not_counted() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    go.add_to_group(&grouped("t1"), t.now().timestamp(), None);
    go.aggregation_check("g", t.now().timestamp() + 120);
    // Go leaves a set whose new task was refused; a set of ours has mostly lost its worker.
    for crashes in [0, 1] {
        t.advance(3 * MINUTE);
        assert_eq!(t.broker().reclaim_sets(&default_queue()).await.unwrap(), 1);
        assert_eq!(t.claim("g").await.crashes, crashes);
    }
}

#[tokio::test]
async fn a_live_set_of_go_is_left_alone() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    go.add_to_group(&grouped("t1"), t.now().timestamp(), None);
    let set = go.aggregation_check("g", t.now().timestamp() + 120);
    assert_eq!((sweep(&t).await, t.group_sizes().await.len()), (0, 0));
    go.delete_set(&set);
    assert_eq!(t.state_of("t1").await, None);
}

#[tokio::test]
async fn a_task_that_go_forwarded_to_its_group_is_found() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    t.enqueue(task("t1").grouped("g").after(MINUTE)).await;
    go.name_group_early("t1", "g");
    t.advance(2 * MINUTE);
    go.forward_scheduled("t1", t.now().timestamp());
    assert_eq!(t.forward().await, 0);
    assert!(t.group_sizes().await.is_empty());
    assert_eq!(sweep(&t).await, 1);
    assert_eq!(members(&t.claim("g").await), ["t1"]);
}

#[tokio::test]
async fn a_delayed_task_with_a_group_runs_alone_where_only_go_forwards() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    t.enqueue(task("t1").grouped("g").after(MINUTE)).await;
    t.advance(MINUTE);
    go.forward_scheduled("t1", t.now().timestamp());
    assert_eq!(t.state_of("t1").await, Some(TaskState::Pending));
    let run = t.take_one().await;
    // A retry of it does not join the group either.
    t.settle(&run, retry(SECOND, "refused")).await;
    t.advance(SECOND);
    assert_eq!(t.forward().await, 1);
    assert_eq!(t.state_of("t1").await, Some(TaskState::Pending));
}

#[tokio::test]
async fn a_delayed_task_of_an_earlier_version_joins_its_group() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    t.enqueue(task("t1").grouped("g").after(MINUTE)).await;
    go.name_group_early("t1", "g");
    t.advance(MINUTE);
    assert_eq!(t.forward().await, 1);
    assert_eq!(members(&t.claim("g").await), ["t1"]);
}

#[tokio::test]
async fn a_set_that_lost_its_deadline_goes_back() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    t.seed_set(&["t1"]).await;
    go.lose_deadlines();
    assert_eq!(sweep(&t).await, 1);
    assert_eq!(t.broker().reclaim_sets(&default_queue()).await.unwrap(), 1);
    assert_eq!(t.group_sizes().await, [("g".to_owned(), 1)]);
}

#[tokio::test]
async fn a_group_that_go_named_like_a_set_is_a_group() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    let name = "g:8e99094e-15f2-4d47-8e44-723a25eb3551";
    go.add_to_group(&task("t1").grouped(name).message, t.now().timestamp(), None);
    t.claim(name).await;
    t.advance(3 * MINUTE);
    go.reclaim(t.now().timestamp());
    assert_eq!(sweep(&t).await, 1);
    assert_eq!(t.group_sizes().await, [(name.to_owned(), 1)]);
    assert_eq!(t.state_of("t1").await, Some(TaskState::Aggregating));
}

#[tokio::test]
async fn lost_groups_are_found_among_many_keys() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    // The search looks at a thousand keys at a time.
    let other = (0..2_500).map(|i| task(&format!("t{i}")));
    assert!(t.broker().enqueue(other.collect()).await.iter().all(Result::is_ok));
    t.seed_set(&["lost"]).await;
    t.advance(3 * MINUTE);
    go.reclaim(t.now().timestamp());
    let mut found = 0;
    for _ in 0..4 {
        found += sweep(&t).await;
    }
    assert_eq!(found, 1);
}
