//! Contracts `Inspect` and `Repair`: unique locks are listed, and operators can free them.

use std::{collections::BTreeMap, time::Duration};

use asynq_runtime::{
    broker::{BrokerErrorKind, LockInfo, Refused},
    task::TaskState,
};
use asynq_tests::{Build as _, Store as _, default_queue, lock_key, queue, soon, task, task_id};

use super::Fixture;

async fn locks(t: &Fixture) -> BTreeMap<String, LockInfo> {
    soon(async {
        let (mut found, mut after) = (BTreeMap::new(), None::<String>);
        loop {
            let page = t.broker().locks(&default_queue(), after.as_deref()).await.unwrap();
            found.extend(page.locks.into_iter().map(|lock| (lock.key.clone(), lock)));
            after = page.next;
            if after.is_none() {
                return found;
            }
        }
    })
    .await
}

/// A fixture with the lock of a waiting task, and a lock whose task is gone.
async fn two() -> Fixture {
    let t = Fixture::start().await;
    t.enqueue(task("over").locked(&lock_key("over"), 5)).await;
    t.advance(Duration::from_secs(7));
    t.enqueue(task("waits").locked(&lock_key("a"), 600)).await;
    let until = t.now() + Duration::from_secs(600);
    t.store.leave_lock(&default_queue(), &lock_key("b"), &task_id("gone"), until);
    t.enqueue(task("plain")).await;
    t.enqueue(task("gone").in_queue("low")).await;
    t.enqueue(task("elsewhere").in_queue("low").locked("asynq:{low}:unique:email:send:a", 600)).await;
    t
}

#[tokio::test]
async fn each_lock_that_is_held_is_listed_with_the_state_of_its_holder() {
    let t = two().await;
    let found = locks(&t).await;
    assert_eq!(found.keys().cloned().collect::<Vec<_>>(), [lock_key("a"), lock_key("b")]);
    let (a, b) = (&found[&lock_key("a")], &found[&lock_key("b")]);
    assert_eq!((a.holder.as_str(), a.state), ("waits", Some(TaskState::Pending)));
    assert_eq!((b.holder.as_str(), b.state), ("gone", None));
    // Redis counts the time by its own clock, which goes on.
    let left = a.until.unwrap() - t.now();
    assert!((500..=601).contains(&left.num_seconds()), "{left}");
    assert!(b.until.is_some());
    assert_eq!(t.broker().locks(&queue("none"), None).await.unwrap().locks, []);
}

#[tokio::test]
async fn a_lock_is_freed_only_if_it_is_still_as_it_was_seen() {
    let t = two().await;
    let release = async |name: &str, holder: &str, stuck| {
        t.broker().release_lock(&default_queue(), &lock_key(name), &task_id(holder), stuck).await.unwrap()
    };
    let before = t.store.dump();
    assert!(!release("a", "gone", false).await, "another holds it");
    assert!(!release("a", "waits", true).await, "its task is there");
    assert!(!release("c", "waits", false).await, "no task holds it");
    assert_eq!(t.store.dump(), before, "nothing changes");
    assert!(release("b", "gone", true).await);
    assert!(!release("b", "gone", true).await, "it is free by now");
    let refused = t.try_enqueue(task("equal").locked(&lock_key("a"), 600)).await;
    assert!(matches!(refused, Err(Refused::Duplicate { .. })));
    assert!(release("a", "waits", false).await);
    t.enqueue(task("equal").locked(&lock_key("a"), 600)).await;
}

#[tokio::test]
async fn a_thousand_locks_are_listed_step_by_step() {
    let t = Fixture::start().await;
    let many = (0..1100).map(|n| task(&format!("t{n}")).locked(&lock_key(&format!("{n:04}")), 600)).collect();
    assert!(t.broker().enqueue(many).await.iter().all(Result::is_ok));
    assert_eq!(locks(&t).await.len(), 1100);
    let first = t.broker().locks(&default_queue(), None).await.unwrap();
    assert!(first.next.is_some() && first.locks.len() < 1100, "not all in one call");
    let nowhere = t.broker().locks(&default_queue(), Some("nowhere")).await.unwrap_err();
    assert_eq!(nowhere.kind(), BrokerErrorKind::Config, "{nowhere}");
}
