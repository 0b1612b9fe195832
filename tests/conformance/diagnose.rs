//! Contract `Diagnose`: a broker's facts about itself, and the inconsistencies of a queue.

use std::time::Duration;

use asynq_runtime::broker::{BulkAction, Examination, Oddity, OddityKind, TaskSet};
use asynq_tests::{Build as _, Need, Store as _, default_queue, lock_key, queue, soon, task, task_id};
use chrono::{TimeDelta, Utc};

use super::Fixture;

const ALL: usize = 1_000_000;

async fn examine(t: &Fixture, limit: usize) -> Examination {
    t.broker().examine(&default_queue(), limit).await.unwrap()
}

/// The only oddity found, with its examples.
async fn only_oddity(t: &Fixture) -> (OddityKind, Vec<String>) {
    let before = t.store.dump();
    let mut found = examine(t, ALL).await;
    assert_eq!(t.store.dump(), before, "looking changes nothing");
    assert_eq!(found.oddities.len(), 1, "{found:?}");
    let mut oddity = found.oddities.remove(0);
    // Redis returns its keys in no particular order.
    oddity.examples.sort();
    assert_eq!(oddity.count, oddity.examples.len() as u64);
    (oddity.kind, oddity.examples)
}

fn texts(ids: &[&str]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_broker_reports_its_kind_and_its_clock() {
    let t = Fixture::real_time().await;
    let nodes = t.broker().nodes().await.unwrap();
    assert!(!nodes.is_empty());
    assert_eq!(t.broker().write_refusal().await.unwrap(), None);
    for node in nodes {
        assert_eq!(node.refuses_writes, None);
        assert!(node.version.contains(|c: char| c.is_ascii_digit()), "{node:?}");
        assert!(!node.address.is_empty());
        assert!(!node.facts.is_empty());
        assert!(node.ahead.abs() < TimeDelta::seconds(1), "it is on this machine: {}", node.ahead);
        assert!(node.precision < Duration::from_secs(1));
        for call in node.slow_calls.unwrap_or_default() {
            assert!((Utc::now() - call.at).abs() < TimeDelta::hours(24), "{call:?}");
        }
    }
}

#[tokio::test]
async fn a_queue_in_order_has_no_oddities() {
    let t = Fixture::start().await;
    t.seed_every_state().await;
    t.seed_group("waiting", &["g1", "g2"]).await;
    t.seed_set(&["s1", "s2"]).await;
    t.enqueue(task("locked").locked(&lock_key("locked"), 60)).await;
    let found = examine(&t, ALL).await;
    assert_eq!(found, Examination { oddities: Vec::new(), complete: true });
    let none = t.broker().examine(&queue("none"), ALL).await.unwrap();
    assert_eq!(none, Examination { oddities: Vec::new(), complete: true });
}

#[tokio::test]
async fn a_reached_limit_is_reported_and_a_few_are_checked_in_any_case() {
    let t = Fixture::start().await;
    let ids: Vec<String> = (0..250).map(|n| format!("t{n}")).collect();
    t.seed_pending(&ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let found = examine(&t, 0).await;
    assert_eq!(found, Examination { oddities: Vec::new(), complete: false });
    assert!(examine(&t, ALL).await.complete);
}

#[tokio::test]
async fn the_keys_of_all_queues_are_found_at_once_and_a_task_that_ends_meanwhile_is_not_lost() {
    let t = Fixture::start().await;
    t.seed_every_state().await;
    t.enqueue(task("t1").in_queue("low")).await;
    let key = "asynq:{low}:unique:email:send:left";
    t.store.leave_lock(&queue("low"), key, &task_id("gone"), t.now() + TimeDelta::hours(1));
    let queues = [queue("none"), queue("low"), default_queue()];
    let keys = t.broker().keys_of_all(&queues, ALL).await;
    t.broker().change_task(&default_queue(), &task_id("archived"), None, BulkAction::Delete).await.unwrap();
    let mut found = Vec::new();
    for (queue, keys) in keys {
        let examination = t.broker().examine_with(&queue, &keys.unwrap(), ALL).await.unwrap();
        assert!(examination.complete, "{queue}");
        found.push(examination.oddities);
    }
    let lock = Oddity { kind: OddityKind::LockWithoutTask, count: 1, examples: texts(&[key]) };
    assert_eq!(found, [vec![], vec![lock], vec![]]);
}

#[tokio::test]
async fn as_many_groups_are_looked_at_as_the_limit_says() {
    let t = Fixture::start().await;
    let tasks = (0..450).map(|n| task(&format!("t{n}")).grouped(&format!("g{n}"))).collect();
    for answer in t.broker().enqueue(tasks).await {
        answer.unwrap();
    }
    assert_eq!(examine(&t, ALL).await, Examination { oddities: Vec::new(), complete: true });
    assert!(!examine(&t, 1).await.complete);
}

#[tokio::test]
async fn an_active_task_without_a_lease_is_found() {
    let t = Fixture::start().await;
    if t.lacks(Need::LostLease) {
        return;
    }
    t.seed_every_state().await;
    t.store.lose_lease(&default_queue(), &task_id("active"));
    assert_eq!(only_oddity(&t).await, (OddityKind::ActiveWithoutLease, texts(&["active"])));
}

#[tokio::test]
async fn an_id_without_a_task_is_found() {
    let t = Fixture::start().await;
    if t.lacks(Need::Ghosts) {
        return;
    }
    t.seed_every_state().await;
    for id in ["pending", "retry"] {
        t.store.make_ghost(&default_queue(), &task_id(id));
    }
    assert_eq!(only_oddity(&t).await, (OddityKind::IdWithoutTask, texts(&["pending", "retry"])));
}

#[tokio::test]
async fn a_lease_of_a_task_that_does_not_run_is_found() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    t.seed_every_state().await;
    go.lease("retry", t.now().timestamp() + 30);
    assert_eq!(only_oddity(&t).await, (OddityKind::LeaseWithoutTask, texts(&["retry"])));
}

#[tokio::test]
async fn a_task_in_no_place_is_found_in_any_state() {
    for place in ["pending", "scheduled", "archived"] {
        let t = Fixture::start().await;
        let Some(go) = t.go() else { return };
        t.seed_every_state().await;
        go.break_off(place, place);
        assert_eq!(only_oddity(&t).await, (OddityKind::TaskWithoutPlace, texts(&[place])));
    }
}

#[tokio::test]
async fn tasks_of_an_unknown_set_are_found_until_the_sweep() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    t.seed_set(&["s1", "s2"]).await;
    go.lose_deadlines();
    // The tasks are in no group and no set: no program finds them before the sweep makes them known again.
    assert_eq!(only_oddity(&t).await, (OddityKind::TaskWithoutPlace, texts(&["s1", "s2"])));
    soon(async { while t.broker().restore_groups(&[default_queue()]).await.unwrap() == 0 {} }).await;
    assert_eq!(examine(&t, ALL).await.oddities, []);
}

#[tokio::test]
async fn tasks_of_a_group_without_a_name_are_found_until_the_sweep() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    t.seed_set(&["s1", "s2"]).await;
    t.advance(TaskSet::DEADLINE + Duration::from_secs(1));
    // Go sends the tasks back to their group, and does not name it.
    go.reclaim(t.now().timestamp());
    assert_eq!(only_oddity(&t).await, (OddityKind::TaskWithoutPlace, texts(&["s1", "s2"])));
    soon(async { while t.broker().restore_groups(&[default_queue()]).await.unwrap() == 0 {} }).await;
    assert_eq!(examine(&t, ALL).await.oddities, []);
}

#[tokio::test]
async fn a_lock_that_no_task_holds_is_found() {
    let t = Fixture::start().await;
    if t.lacks(Need::Ghosts) {
        return;
    }
    t.enqueue(task("t1").locked(&lock_key("me"), 60)).await;
    t.store.make_ghost(&default_queue(), &task_id("t1"));
    let found = examine(&t, ALL).await;
    let kinds: Vec<_> = found.oddities.iter().map(|oddity| (oddity.kind, oddity.examples.clone())).collect();
    let expected = [(OddityKind::IdWithoutTask, texts(&["t1"])), (OddityKind::LockWithoutTask, vec![lock_key("me")])];
    assert_eq!(kinds, expected);
}

#[tokio::test]
async fn a_key_of_a_foreign_type_is_reported_and_stops_nothing() {
    for place in ["lease", "active", "pending", "scheduled", "completed", "groups", "aggregation_sets"] {
        let t = Fixture::start().await;
        let Some(go) = t.go() else { return };
        t.seed_every_state().await;
        t.seed_group("waiting", &["g1"]).await;
        go.put_text(place);
        let (kind, keys) = only_oddity(&t).await;
        assert_eq!((kind, keys), (OddityKind::ForeignKey, vec![format!("asynq:{{default}}:{place}")]));
        assert!(!examine(&t, ALL).await.complete);
    }
}

#[tokio::test]
async fn in_a_long_list_no_task_is_looked_up_by_itself() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    let ids: Vec<String> = (0..250).map(|n| format!("t{n}")).collect();
    t.seed_pending(&ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    go.break_off("pending", "t0");
    assert_eq!(examine(&t, 1).await.oddities, [], "only a read of the whole list can know");
    assert_eq!(only_oddity(&t).await, (OddityKind::TaskWithoutPlace, texts(&["t0"])));
}
