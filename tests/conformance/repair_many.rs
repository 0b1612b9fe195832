//! Contract `Repair`: many tasks at once, and whole queues.

use std::{collections::BTreeSet, time::Duration};

use asynq_runtime::{
    broker::{BulkAction, BulkSlice, Chosen, QueueDeleted, Settled},
    task::{Extra, TaskState, UniqueUntil},
};
use asynq_tests::{Build as _, Need, Store as _, default_queue, done, group, lock_key, queue, soon, task, task_id};

use super::{
    Fixture,
    repair::{every_state, ids},
};

const SECOND: Duration = Duration::from_secs(1);
const STATES: [TaskState; 7] = TaskState::ALL;

async fn some(t: &Fixture, chosen: Chosen, action: BulkAction, limit: usize) -> BulkSlice {
    t.broker().change_some(&default_queue(), &chosen, action, limit).await.unwrap()
}

fn slice(changed: usize, ghosts: usize, more: bool) -> BulkSlice {
    BulkSlice { changed, ghosts, more }
}

async fn table(action: BulkAction) {
    for state in STATES {
        let t = every_state().await;
        let before = t.store.dump();
        let done = some(&t, Chosen::InState(state), action, 100).await;
        if !action.fits(state) {
            assert_eq!((done, t.store.dump()), (BulkSlice::default(), before), "{action:?} {state}");
            continue;
        }
        assert_eq!(done, slice(1, 0, false), "{action:?} {state}");
        let after = match action {
            BulkAction::Run => Some(TaskState::Pending),
            BulkAction::Archive => Some(TaskState::Archived),
            BulkAction::Delete => None,
        };
        assert_eq!(t.state_of(state.as_str()).await, after, "{action:?} {state}");
        for other in STATES.into_iter().filter(|&other| other != state) {
            assert_eq!(t.state_of(other.as_str()).await, Some(other), "{action:?} {state}: the others stay");
        }
        let mut total = 0;
        for state in STATES {
            total += ids(&t, "default", state).await.len();
        }
        assert_eq!(total, if after.is_some() { 7 } else { 6 }, "{action:?} {state}: each is in one place");
        t.advance(7200 * SECOND);
        t.forward().await;
        let forwarded = STATES.len() - 1;
        assert!(
            ids(&t, "default", TaskState::Pending).await.len() < forwarded,
            "{action:?} {state}: no time was left behind"
        );
    }
}

#[tokio::test]
async fn many_are_run_in_the_states_of_the_contract() {
    table(BulkAction::Run).await;
}

#[tokio::test]
async fn many_are_archived_in_the_states_of_the_contract() {
    table(BulkAction::Archive).await;
}

#[tokio::test]
async fn many_are_deleted_in_the_states_of_the_contract() {
    table(BulkAction::Delete).await;
}

async fn seed_scheduled(t: &Fixture, n: usize) -> Vec<String> {
    let names: Vec<String> = (0..n).map(|i| format!("t{i:03}")).collect();
    let tasks = names.iter().enumerate().map(|(i, name)| task(name).after((60 + i as u32) * SECOND)).collect();
    for answer in t.broker().enqueue(tasks).await {
        answer.unwrap();
    }
    names
}

#[tokio::test]
async fn slices_follow_each_other_in_the_order_of_the_listing() {
    let t = Fixture::start().await;
    let names = seed_scheduled(&t, 250).await;
    let run = async |limit| some(&t, Chosen::InState(TaskState::Scheduled), BulkAction::Run, limit).await;
    assert_eq!(run(7).await, slice(7, 0, true));
    assert_eq!(run(1000).await, slice(100, 0, true), "at most 100 in one step");
    assert_eq!(run(100).await, slice(100, 0, true));
    assert_eq!(run(100).await, slice(43, 0, false));
    assert_eq!(run(100).await, slice(0, 0, false));
    assert_eq!(ids(&t, "default", TaskState::Pending).await, names);
    t.advance(600 * SECOND);
    assert_eq!(t.forward().await, 0);
}

#[tokio::test]
async fn a_slice_that_took_the_last_task_reports_no_more() {
    let t = Fixture::start().await;
    seed_scheduled(&t, 100).await;
    let first = some(&t, Chosen::InState(TaskState::Scheduled), BulkAction::Delete, 100).await;
    assert_eq!(first, slice(100, 0, false));
}

#[tokio::test]
async fn a_slice_of_none_changes_none() {
    let t = Fixture::start().await;
    t.seed_pending(&["a"]).await;
    let before = t.store.dump();
    assert_eq!(some(&t, Chosen::InState(TaskState::Pending), BulkAction::Archive, 0).await, slice(0, 0, true));
    assert_eq!(t.store.dump(), before);
}

#[tokio::test]
async fn the_oldest_pending_tasks_are_archived_first() {
    let t = Fixture::start().await;
    t.seed_pending(&["c", "a", "b"]).await;
    let done = some(&t, Chosen::InState(TaskState::Pending), BulkAction::Archive, 2).await;
    assert_eq!(done, slice(2, 0, true));
    assert_eq!(ids(&t, "default", TaskState::Pending).await, ["b"]);
    assert_eq!(
        ids(&t, "default", TaskState::Archived).await.into_iter().collect::<BTreeSet<_>>(),
        ["a", "c"].map(str::to_owned).into()
    );
}

#[tokio::test]
async fn an_empty_or_unknown_queue_has_nothing_to_change() {
    let t = Fixture::start().await;
    for action in [BulkAction::Run, BulkAction::Archive, BulkAction::Delete] {
        for state in STATES {
            assert_eq!(some(&t, Chosen::InState(state), action, 100).await, BulkSlice::default());
        }
        assert_eq!(some(&t, Chosen::InGroup(group("g")), action, 100).await, BulkSlice::default());
    }
}

#[tokio::test]
async fn one_group_is_changed_and_the_other_stays() {
    for action in [BulkAction::Run, BulkAction::Archive, BulkAction::Delete] {
        let t = Fixture::start().await;
        t.seed_group("g", &["a", "b", "c"]).await;
        t.seed_group("h", &["d"]).await;
        assert_eq!(some(&t, Chosen::InGroup(group("g")), action, 2).await, slice(2, 0, true), "{action:?}");
        assert_eq!(t.group_sizes().await, [("g".to_owned(), 1), ("h".to_owned(), 1)]);
        assert_eq!(t.state_of("c").await, Some(TaskState::Aggregating), "{action:?}: the last to join is left");
        assert_eq!(some(&t, Chosen::InGroup(group("g")), action, 2).await, slice(1, 0, false), "{action:?}");
        assert_eq!(t.group_sizes().await, [("h".to_owned(), 1)]);
    }
}

#[tokio::test]
async fn aggregating_means_all_groups() {
    let t = Fixture::start().await;
    for (id, name) in [("a", "z"), ("b", "g"), ("c", "z"), ("d", "h")] {
        t.enqueue(task(id).grouped(name)).await;
        t.advance(SECOND);
    }
    let run = async || some(&t, Chosen::InState(TaskState::Aggregating), BulkAction::Run, 3).await;
    assert_eq!(run().await, slice(3, 0, true));
    assert_eq!(t.group_sizes().await.len(), 1);
    assert_eq!(run().await, slice(1, 0, false));
    let mut ran = t.drain().await;
    // The members of a group come in the order of joining; the broker chooses the order of groups.
    assert!(ran.iter().position(|id| id == "a") < ran.iter().position(|id| id == "c"), "{ran:?}");
    ran.sort();
    assert_eq!(ran, ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn many_free_their_locks_as_one_does() {
    let until_success = Extra { unique_until: UniqueUntil::Success.into(), ..Extra::default() };
    for (action, is_kept) in [(BulkAction::Archive, true), (BulkAction::Delete, false)] {
        let t = Fixture::start().await;
        t.enqueue(task("a").locked(&lock_key("a"), 600)).await;
        t.enqueue(task("b").locked(&lock_key("b"), 600).with_extra(until_success.clone())).await;
        assert_eq!(some(&t, Chosen::InState(TaskState::Pending), action, 10).await, slice(2, 0, false));
        assert_eq!(t.holder_of(&lock_key("a")).await, None, "{action:?}");
        assert_eq!(t.holder_of(&lock_key("b")).await, is_kept.then(|| task_id("b")), "{action:?}");
    }
}

#[tokio::test]
async fn ids_without_a_task_are_taken_off_and_counted() {
    let t = Fixture::start().await;
    if t.lacks(Need::Ghosts) {
        return;
    }
    for state in [TaskState::Pending, TaskState::Scheduled] {
        let t = Fixture::start().await;
        for id in ["a", "ghost", "b"] {
            t.enqueue(if state == TaskState::Pending { task(id) } else { task(id).after(60 * SECOND) }).await;
        }
        t.store.make_ghost(&default_queue(), &task_id("ghost"));
        assert_eq!(some(&t, Chosen::InState(state), BulkAction::Archive, 10).await, slice(2, 1, false));
        assert_eq!(ids(&t, "default", TaskState::Archived).await, ["a", "b"]);
        assert_eq!(t.state_of("ghost").await, None);
        assert_eq!(t.snapshot().await.stats.size, 2, "the id is gone");
    }
}

#[tokio::test]
async fn a_task_is_either_changed_or_taken() {
    for action in [BulkAction::Archive, BulkAction::Delete] {
        let t = Fixture::start().await;
        let names: Vec<String> = (0..200).map(|i| format!("t{i}")).collect();
        t.seed_pending(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let repairer = t.another_broker().await;
        let (queue, chosen) = (default_queue(), Chosen::InState(TaskState::Pending));
        let changing = async {
            let mut changed = 0;
            loop {
                let done = repairer.change_some(&queue, &chosen, action, 7).await.unwrap();
                changed += done.changed;
                if !done.more {
                    return changed;
                }
            }
        };
        let taking = async {
            let mut taken = BTreeSet::new();
            loop {
                let runs = t.take(5).await;
                if runs.is_empty() {
                    return taken;
                }
                taken.extend(runs.iter().map(|run| run.key.id.to_string()));
            }
        };
        let (changed, taken) = soon(async { tokio::join!(changing, taking) }).await;
        assert_eq!(changed + taken.len(), 200, "{action:?}");
        let active: BTreeSet<String> = ids(&t, "default", TaskState::Active).await.into_iter().collect();
        assert_eq!(active, taken);
        let archived = ids(&t, "default", TaskState::Archived).await;
        assert_eq!(archived.len(), if action == BulkAction::Archive { changed } else { 0 });
        assert!(archived.iter().all(|id| !taken.contains(id)));
    }
}

async fn delete(t: &Fixture, name: &str) -> QueueDeleted {
    t.broker().delete_queue(&queue(name)).await.unwrap()
}

#[tokio::test]
async fn a_queue_that_does_not_exist_is_not_deleted() {
    let t = every_state().await;
    let before = t.store.dump();
    assert_eq!(delete(&t, "none").await, QueueDeleted::NotFound);
    assert_eq!(t.store.dump(), before);
}

#[tokio::test]
async fn one_task_of_any_kind_keeps_its_queue() {
    let seeds = ["active", "pending", "scheduled", "retry", "archived", "completed", "aggregating", "set"];
    for seed in seeds {
        let t = Fixture::start().await;
        match seed {
            "active" => drop(t.seed_active("t1").await),
            "pending" => t.seed_pending(&["t1"]).await,
            "scheduled" => t.seed_scheduled("t1", SECOND).await,
            "retry" => t.seed_retry("t1", SECOND).await,
            "archived" => t.seed_archived("t1").await,
            "completed" => t.seed_completed("t1", 60).await,
            "aggregating" => t.seed_group("g", &["t1"]).await,
            _ => drop(t.seed_set(&["t1"]).await),
        }
        assert_eq!(delete(&t, "default").await, QueueDeleted::NotEmpty, "{seed}");
        assert!(t.state_of("t1").await.is_some(), "{seed}");
    }
}

#[tokio::test]
async fn an_empty_queue_is_deleted_with_all_that_is_left_of_it() {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").locked(&lock_key("a"), 600)).await;
    assert_eq!(t.settle(&run, done()).await, Settled::Ok);
    t.seed_retry("t2", SECOND).await;
    t.broker().change_task(&default_queue(), &task_id("t2"), None, BulkAction::Delete).await.unwrap();
    t.broker().pause(&default_queue()).await.unwrap();
    t.enqueue(task("other").in_queue("low")).await;
    assert_eq!(delete(&t, "default").await, QueueDeleted::Done);
    assert_eq!(t.broker().queues().await.unwrap(), [queue("low")]);
    assert!(!t.store.dump().contains("{default}"), "{}", t.store.dump());
    assert_eq!(delete(&t, "default").await, QueueDeleted::NotFound);

    t.seed_pending(&["t1"]).await;
    let stats = t.snapshot().await.stats;
    assert_eq!((stats.pending, stats.processed_total, stats.failed_total, stats.paused), (1, 0, 0, false));
    assert_eq!(t.drain().await, ["t1"]);
}

#[tokio::test]
async fn a_task_that_is_enqueued_meanwhile_stays() {
    let t = Fixture::start().await;
    let deleter = t.another_broker().await;
    t.seed_pending(&["warm"]).await;
    t.drain().await;
    for n in 0..20 {
        let id = format!("t{n}");
        let queue = queue(&format!("q{n}"));
        t.enqueue(task("first").in_queue(queue.as_str())).await;
        t.broker().change_task(&queue, &task_id("first"), None, BulkAction::Delete).await.unwrap();
        let (deleted, placed) = tokio::join!(
            deleter.delete_queue(&queue),
            t.try_enqueue(task(&id).in_queue(queue.as_str()).locked(&format!("asynq:{{{queue}}}:unique:a:b"), 60))
        );
        placed.unwrap();
        assert_ne!(deleted.unwrap(), QueueDeleted::NotFound);
        let found = t.broker().task(&queue, &task_id(&id)).await.unwrap();
        assert_eq!(found.map(|task| task.state), Some(TaskState::Pending));
        let again = t
            .try_enqueue(task("again").in_queue(queue.as_str()).locked(&format!("asynq:{{{queue}}}:unique:a:b"), 60))
            .await;
        assert!(again.is_err(), "its lock stays, too");
    }
}
