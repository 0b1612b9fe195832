//! Contract `Groups`: a set ends once, and whole or not at all.

use std::{sync::Arc, time::Duration};

use asynq_runtime::{
    broker::{BrokerErrorKind, GroupRules, NewTask, Refused, SetError, SetOutcome, Settled, TaskSet},
    clock::ManualClock,
    task::{Extra, TaskId, TaskState},
};
use asynq_tests::{
    Build as _, Seeded as _, Store as _, becomes, default_queue, done, group, lock_key, made, members, retry, task,
    task_id,
};
use bytes::Bytes;

use super::Fixture;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn alone(ids: &[&str]) -> SetOutcome {
    SetOutcome { alone: ids.iter().map(|id| task_id(id)).collect(), ..SetOutcome::default() }
}

fn again(outcome: &SetOutcome) -> SetOutcome {
    SetOutcome { resend: true, ..outcome.clone() }
}

async fn reclaim(t: &Fixture) -> usize {
    t.broker().reclaim_sets(&default_queue()).await.unwrap()
}

/// Claims two locked tasks of the group `g` as a set.
async fn locked_set(t: &Fixture, extra: Extra) -> TaskSet {
    for id in ["t1", "t2"] {
        t.enqueue(task(id).grouped("g").locked(&lock_key(id), 600).with_extra(extra.clone())).await;
    }
    t.claim("g").await
}

#[tokio::test]
async fn the_made_task_replaces_the_tasks_of_its_set() {
    let t = Fixture::start().await;
    let set = t.seed_set(&["t1", "t2"]).await;
    let new = made(&set, 0).with_payload("1,2");
    t.finish(&set, &becomes(vec![new.clone()])).await.unwrap();
    assert_eq!((t.state_of("t1").await, t.state_of("t2").await), (None, None));
    let run = t.take_one().await;
    assert_eq!(run.text(), &new.message);
    assert_eq!(run.key.id, format!("agg:{}", set.id).as_str());
    assert_eq!(t.settle(&run, done()).await, Settled::Ok);
    assert_eq!((t.snapshot().await.len(), t.group_sizes().await.len()), (0, 0));
}

#[tokio::test]
async fn several_tasks_can_be_made_of_a_set() {
    let t = Fixture::start().await;
    let set = t.seed_set(&["t1", "t2"]).await;
    let extra = Extra { max_crashes: Some(1), ..Extra::default() };
    let new = vec![
        made(&set, 0).with_extra(extra.clone()),
        made(&set, 1).after(MINUTE),
        made(&set, 2).locked(&lock_key("k"), 600),
    ];
    t.finish(&set, &becomes(new)).await.unwrap();
    let ids: Vec<TaskId> = (0..3).map(|n| set.task_id(n)).collect();
    let runs = t.take(5).await;
    assert_eq!(runs.iter().map(|run| &run.key.id).collect::<Vec<_>>(), [&ids[0], &ids[2]]);
    assert_eq!(runs[0].extra, extra);
    assert_eq!(t.holder_of(&lock_key("k")).await.as_ref(), Some(&ids[2]));
    assert_eq!(t.state_of(ids[1].as_str()).await, Some(TaskState::Scheduled));
    t.advance(MINUTE);
    t.forward().await;
    assert_eq!(t.drain().await, [ids[1].to_string()]);
}

#[tokio::test]
async fn a_made_task_may_wait_in_a_group_itself() {
    let t = Fixture::start().await;
    let set = t.seed_set(&["t1"]).await;
    t.finish(&set, &becomes(vec![made(&set, 0).grouped("of groups")])).await.unwrap();
    assert_eq!(t.group_sizes().await, [("of groups".to_owned(), 1)]);
    assert_eq!(members(&t.claim("of groups").await), [set.task_id(0).as_str()]);
}

#[tokio::test]
async fn a_set_may_become_nothing() {
    let t = Fixture::start().await;
    let set = t.seed_set(&["t1", "t2"]).await;
    t.finish(&set, &SetOutcome::default()).await.unwrap();
    assert_eq!((t.snapshot().await.len(), t.state_of("t1").await), (0, None));
    t.enqueue(task("t1")).await;
}

#[tokio::test]
async fn a_made_task_of_a_paused_queue_waits() {
    let t = Fixture::start().await;
    t.broker().pause(&default_queue()).await.unwrap();
    let set = t.seed_set(&["t1"]).await;
    t.finish(&set, &becomes(vec![made(&set, 0)])).await.unwrap();
    assert!(t.drain().await.is_empty());
    assert_eq!(t.state_of(set.task_id(0).as_str()).await, Some(TaskState::Pending));
}

#[tokio::test]
async fn tasks_that_run_alone_become_pending_in_their_order_with_their_locks() {
    let t = Fixture::start().await;
    // A task that was enqueued first may join its group last.
    t.enqueue(task("late").grouped("g").after(2 * SECOND)).await;
    for id in ["t1", "t2", "t3"] {
        t.enqueue(task(id).grouped("g").locked(&lock_key(id), 600)).await;
        t.advance(SECOND);
    }
    assert_eq!(t.forward().await, 1);
    let set = t.claim("g").await;
    assert_eq!(members(&set), ["t1", "t2", "t3", "late"]);
    t.finish(&set, &alone(&["t3", "late", "t1", "t2"])).await.unwrap();
    assert_eq!(t.snapshot().await.ids(TaskState::Pending), ["t1", "t2", "t3", "late"]);
    assert_eq!(t.state_of("t1").await, Some(TaskState::Pending));
    assert_eq!(t.holder_of(&lock_key("t2")).await.unwrap(), "t2");
    t.advance(SECOND);
    for (run, id) in t.take_exactly(4).await.iter().zip(["t1", "t2", "t3", "late"]) {
        assert_eq!((run.key.id.as_str(), run.waited), (id, Some(SECOND)), "since the set ended");
    }
}

#[tokio::test]
async fn a_task_that_runs_alone_is_not_grouped_again_when_it_is_retried() {
    let t = Fixture::start().await;
    let set = t.seed_set(&["t1"]).await;
    t.finish(&set, &alone(&["t1"])).await.unwrap();
    let run = t.take_one().await;
    assert_eq!(t.settle(&run, retry(SECOND, "boom")).await, Settled::Ok);
    t.advance(2 * SECOND);
    t.forward().await;
    assert_eq!(t.drain().await, ["t1"]);
}

#[tokio::test]
async fn bytes_that_could_not_be_read_run_alone_and_the_others_go_on() {
    let t = Fixture::start().await;
    t.seed_group("g", &["t1", "bad"]).await;
    t.store.overwrite_message(&default_queue(), &task_id("bad"), b"\xff\xff");
    let set = t.claim("g").await;
    t.finish(&set, &SetOutcome { made: vec![made(&set, 0)], ..alone(&["bad"]) }).await.unwrap();
    let runs = t.take_exactly(2).await;
    let bad = runs.iter().find(|run| run.key.id == "bad").unwrap();
    assert_eq!(bad.message.as_ref().unwrap_err().raw, Bytes::from_static(b"\xff\xff"));
}

#[tokio::test]
async fn a_set_may_become_a_task_and_tasks_that_run_alone_at_once() {
    let t = Fixture::start().await;
    let set = t.seed_set(&["part", "single"]).await;
    t.finish(&set, &SetOutcome { made: vec![made(&set, 0)], ..alone(&["single"]) }).await.unwrap();
    let mut pending = t.snapshot().await.ids(TaskState::Pending).into_iter().map(str::to_owned).collect::<Vec<_>>();
    pending.sort();
    assert_eq!(pending, [set.task_id(0).as_str(), "single"]);
    assert_eq!(t.state_of("part").await, None);
}

#[tokio::test]
async fn the_locks_of_tasks_that_became_a_part_are_freed() {
    let t = Fixture::start().await;
    let set = locked_set(&t, Extra::default()).await;
    assert_eq!(t.holder_of(&lock_key("t1")).await.unwrap(), "t1", "a set holds its locks");
    t.finish(&set, &becomes(vec![made(&set, 0)])).await.unwrap();
    assert_eq!(t.holder_of(&lock_key("t1")).await, None);
    assert_eq!(t.holder_of(&lock_key("t2")).await, None);
}

#[tokio::test]
async fn a_lock_that_another_took_over_is_not_freed_with_the_set() {
    let t = Fixture::start().await;
    t.enqueue(task("t1").grouped("g").locked(&lock_key("k"), 5)).await;
    let set = t.claim("g").await;
    t.advance(6 * SECOND);
    t.enqueue(task("next").locked(&lock_key("k"), 600)).await;
    t.finish(&set, &becomes(vec![made(&set, 0)])).await.unwrap();
    assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "next");
}

#[tokio::test]
async fn a_made_task_may_take_over_the_lock_of_a_part() {
    let t = Fixture::start().await;
    let set = locked_set(&t, Extra::default()).await;
    t.finish(&set, &becomes(vec![made(&set, 0).locked(&lock_key("t1"), 600)])).await.unwrap();
    assert_eq!(t.holder_of(&lock_key("t1")).await, Some(set.task_id(0)));
}

/// Asserts that the outcome is refused with nothing changed, and that the set can still be ended.
async fn is_refused(t: &Fixture, set: &TaskSet, outcome: SetOutcome) -> Refused {
    let before = t.store.dump();
    let SetError::Refused(refused) = t.finish(set, &outcome).await.unwrap_err() else { panic!("the set is there") };
    assert_eq!(t.store.dump(), before, "nothing was changed");
    t.finish(set, &alone(&members(set))).await.unwrap();
    refused
}

#[tokio::test]
async fn a_made_task_whose_lock_is_held_is_refused() {
    let t = Fixture::start().await;
    t.enqueue(task("holder").locked(&lock_key("k"), 600)).await;
    let set = locked_set(&t, Extra::default()).await;
    let new = vec![made(&set, 0), made(&set, 1).locked(&lock_key("k"), 600)];
    let refused = is_refused(&t, &set, becomes(new)).await;
    assert!(matches!(&refused, Refused::Duplicate { holder: Some(id) } if *id == "holder"), "{refused:?}");
}

#[tokio::test]
async fn a_made_task_cannot_take_the_lock_of_one_that_runs_alone() {
    let t = Fixture::start().await;
    let set = locked_set(&t, Extra::default()).await;
    let made = vec![made(&set, 0).locked(&lock_key("t1"), 600)];
    let refused = is_refused(&t, &set, SetOutcome { made, ..alone(&["t1"]) }).await;
    assert!(matches!(&refused, Refused::Duplicate { holder: Some(id) } if *id == "t1"), "{refused:?}");
}

#[tokio::test]
async fn two_made_tasks_cannot_hold_one_lock() {
    let t = Fixture::start().await;
    let set = t.seed_set(&["t1"]).await;
    let new = (0..2).map(|n| made(&set, n).locked(&lock_key("k"), 600)).collect();
    let refused = is_refused(&t, &set, becomes(new)).await;
    assert!(matches!(&refused, Refused::Duplicate { .. }), "{refused:?}");
    assert_eq!(t.holder_of(&lock_key("k")).await, None);
}

#[tokio::test]
async fn a_made_task_whose_id_is_taken_is_refused() {
    for id_is_ours in [false, true] {
        let t = Fixture::start().await;
        let set = t.seed_set(&["t1"]).await;
        t.enqueue(task(set.task_id(1).as_str())).await;
        let new = (0..2).map(|n| NewTask { id_is_ours, ..made(&set, n) }).collect();
        let refused = is_refused(&t, &set, becomes(new)).await;
        assert!(matches!(&refused, Refused::IdConflict), "{refused:?}");
    }
}

#[tokio::test]
async fn a_made_task_for_another_queue_is_refused() {
    let t = Fixture::start().await;
    let set = t.seed_set(&["t1"]).await;
    let refused = is_refused(&t, &set, becomes(vec![made(&set, 0).in_queue("other")])).await;
    assert!(matches!(&refused, Refused::Broker(e) if e.kind() == BrokerErrorKind::Config), "{refused:?}");
}

#[tokio::test]
async fn a_set_that_is_ended_again_after_a_lost_answer_changes_nothing() {
    let t = Fixture::start().await;
    let set = t.seed_set(&["part", "single"]).await;
    let outcome = SetOutcome { made: vec![made(&set, 0)], ..alone(&["single"]) };
    t.finish(&set, &outcome).await.unwrap();
    // The outbox of a server may keep an outcome for longer than a set may be held.
    t.advance(TaskSet::DEADLINE + SECOND);
    assert_eq!(reclaim(&t).await, 0);
    let before = t.store.dump();
    t.finish(&set, &again(&outcome)).await.unwrap();
    assert_eq!(t.store.dump(), before);
}

#[tokio::test]
async fn a_made_task_is_not_made_again_when_it_has_run_meanwhile() {
    let t = Fixture::start().await;
    let set = t.seed_set(&["t1"]).await;
    let outcome = becomes(vec![made(&set, 0)]);
    t.finish(&set, &outcome).await.unwrap();
    let run = t.take_one().await;
    assert_eq!(t.settle(&run, done()).await, Settled::Ok);
    t.finish(&set, &again(&outcome)).await.unwrap();
    assert!(t.drain().await.is_empty());
}

#[tokio::test]
async fn a_first_send_that_never_arrived_is_done_by_the_second() {
    let t = Fixture::start().await;
    let set = t.seed_set(&["t1"]).await;
    t.finish(&set, &again(&becomes(vec![made(&set, 0)]))).await.unwrap();
    assert_eq!(t.drain().await, [set.task_id(0).to_string()]);
}

/// Asserts that the set is lost to this server, with nothing changed.
async fn is_lost(t: &Fixture, set: &TaskSet) {
    for outcome in [becomes(vec![made(set, 0)]), alone(&["t1"]), SetOutcome::default()] {
        for outcome in [outcome.clone(), again(&outcome)] {
            let before = t.store.dump();
            let lost = t.finish(set, &outcome).await;
            assert!(matches!(lost, Err(SetError::Lost)), "{lost:?}");
            assert_eq!(t.store.dump(), before);
        }
    }
}

#[tokio::test]
async fn a_set_that_was_taken_back_cannot_be_ended() {
    let t = Fixture::start().await;
    let set = t.seed_set(&["t1"]).await;
    t.advance(TaskSet::DEADLINE + SECOND);
    assert_eq!(reclaim(&t).await, 1);
    is_lost(&t, &set).await;
    let next = t.claim("g").await;
    is_lost(&t, &set).await;
    t.finish(&next, &becomes(vec![made(&next, 0)])).await.unwrap();
    assert_eq!(t.drain().await, [next.task_id(0).to_string()]);
}

#[tokio::test]
async fn a_set_that_was_ended_cannot_be_ended_otherwise() {
    let t = Fixture::start().await;
    let set = t.seed_set(&["t1"]).await;
    t.finish(&set, &alone(&["t1"])).await.unwrap();
    assert!(matches!(t.finish(&set, &becomes(vec![made(&set, 0)])).await, Err(SetError::Lost)));
    assert_eq!(t.drain().await, ["t1"]);
}

#[tokio::test]
async fn a_set_past_its_deadline_is_still_its_takers_until_it_is_reclaimed() {
    let t = Fixture::start().await;
    let set = t.seed_set(&["t1"]).await;
    t.advance(TaskSet::DEADLINE + MINUTE);
    t.finish(&set, &becomes(vec![made(&set, 0)])).await.unwrap();
    assert_eq!((reclaim(&t).await, t.drain().await), (0, vec![set.task_id(0).to_string()]));
}

#[tokio::test]
async fn another_broker_can_end_a_set() {
    let t = Fixture::start().await;
    let set = t.seed_set(&["t1"]).await;
    let other = t.another_broker().await;
    other.finish_set(&set, &becomes(vec![made(&set, 0)])).await.unwrap();
    assert_eq!(t.drain().await, [set.task_id(0).to_string()]);
}

#[tokio::test]
async fn a_released_set_is_in_its_group_again_since_when_it_was() {
    let t = Fixture::start().await;
    let joined = t.now();
    let set = t.seed_set(&["t1", "t2"]).await;
    t.advance(30 * SECOND);
    t.broker().release_set(&set).await.unwrap();
    let found = t.broker().groups(&default_queue(), None, 10).await.unwrap().groups;
    assert_eq!((found[0].group.as_str(), found[0].size), ("g", 2));
    assert_eq!(found[0].oldest.unwrap().timestamp(), joined.timestamp());
    is_lost(&t, &set).await;
    t.advance(31 * SECOND);
    assert_eq!(members(&t.try_claim("g", &GroupRules::default()).await.unwrap()), ["t1", "t2"]);
}

#[tokio::test]
async fn releasing_a_set_that_is_gone_changes_nothing() {
    let t = Fixture::start().await;
    let set = t.seed_set(&["t1"]).await;
    t.finish(&set, &becomes(vec![made(&set, 0)])).await.unwrap();
    let before = t.store.dump();
    t.broker().release_set(&set).await.unwrap();
    assert_eq!(t.store.dump(), before);
}

#[tokio::test]
async fn releasing_or_ending_one_set_leaves_the_others() {
    let t = Fixture::start().await;
    let first = t.seed_set(&["t1"]).await;
    let second = t.seed_set(&["t2"]).await;
    let third = t.seed_set(&["t3"]).await;
    t.broker().release_set(&first).await.unwrap();
    assert_eq!(t.group_sizes().await, [("g".to_owned(), 1)]);
    t.finish(&second, &alone(&["t2"])).await.unwrap();
    t.finish(&third, &alone(&["t3"])).await.unwrap();
    assert_eq!(t.drain().await, ["t2", "t3"]);
}

#[tokio::test]
async fn a_set_goes_back_at_its_deadline_and_its_group_is_known_again() {
    let t = Fixture::start().await;
    let set = t.seed_set(&["t1", "t2"]).await;
    t.advance(TaskSet::DEADLINE - 2 * SECOND);
    assert_eq!(reclaim(&t).await, 0);
    t.advance(3 * SECOND);
    assert!(t.broker().now() > set.deadline);
    assert_eq!(reclaim(&t).await, 1);
    assert_eq!(t.group_sizes().await, [("g".to_owned(), 2)]);
    assert_eq!(reclaim(&t).await, 0);
    let rules = GroupRules { max_delay: Some(2 * MINUTE), ..GroupRules::default() };
    assert_eq!(members(&t.try_claim("g", &rules).await.unwrap()), ["t1", "t2"], "they kept their times");
}

/// A server claimed a set and died, and then the broker's clock was set back.
#[tokio::test]
async fn a_deadline_later_than_any_clock_can_have_given_it_becomes_that_of_a_set_of_now() {
    let t = Fixture::start().await;
    t.seed_set(&["now"]).await;
    t.enqueue(task("late").grouped("late")).await;
    let ahead = t.store.connect(Some(Arc::new(ManualClock::new(t.now() + 120 * MINUTE)))).await;
    let rules = GroupRules { max_size: Some(1), ..GroupRules::default() };
    assert!(ahead.claim_set(&default_queue(), &group("late"), &rules).await.unwrap().is_some());
    t.advance(MINUTE);
    assert!(t.broker().worth_sweeping(&[default_queue()]).await.unwrap().contains(&default_queue()));
    t.broker().sweep(&default_queue()).await.unwrap();
    t.advance(MINUTE + SECOND);
    assert_eq!(
        (reclaim(&t).await, t.group_sizes().await),
        (1, vec![("g".to_owned(), 1)]),
        "a set of now is left alone"
    );
    t.advance(MINUTE);
    assert_eq!(reclaim(&t).await, 1);
}

#[tokio::test]
async fn released_tasks_join_those_that_came_meanwhile() {
    let t = Fixture::start().await;
    t.seed_set(&["t1", "t2"]).await;
    t.advance(MINUTE);
    t.seed_group("g", &["t3"]).await;
    t.advance(2 * MINUTE);
    assert_eq!(reclaim(&t).await, 1);
    assert_eq!(members(&t.claim("g").await), ["t1", "t2", "t3"]);
}

#[tokio::test]
async fn a_set_tells_how_often_its_workers_died_and_a_task_that_runs_alone_begins_a_new_count() {
    let t = Fixture::start().await;
    t.seed_group("g", &["t1", "t2"]).await;
    for crashes in 0..3 {
        assert_eq!(t.claim("g").await.crashes, crashes);
        t.advance(TaskSet::DEADLINE + SECOND);
        assert_eq!(reclaim(&t).await, 1);
    }
    assert_eq!(t.info("t2").await.unwrap().crashes, 0, "the first task counts for its set");
    // The worker of a set that is released lives.
    t.broker().release_set(&t.claim("g").await).await.unwrap();
    let set = t.claim("g").await;
    assert_eq!(set.crashes, 3);
    t.finish(&set, &alone(&["t1", "t2"])).await.unwrap();
    assert_eq!(t.take(2).await.iter().map(|run| run.crashes).collect::<Vec<_>>(), [0, 0]);
}

#[tokio::test]
async fn a_set_has_the_most_crashes_of_all_its_tasks() {
    let t = Fixture::start().await;
    let first = t.seed_set(&["t1"]).await;
    t.advance(SECOND);
    t.seed_set(&["t2"]).await;
    t.broker().release_set(&first).await.unwrap();
    t.advance(TaskSet::DEADLINE + SECOND);
    assert_eq!(reclaim(&t).await, 1);
    let set = t.claim("g").await;
    assert_eq!((members(&set), set.crashes), (vec!["t1", "t2"], 1));
}

#[tokio::test]
async fn at_most_a_hundred_sets_go_back_at_once() {
    let t = Fixture::start().await;
    for i in 0..103 {
        t.enqueue(task(&format!("t{i}")).grouped(&format!("g{i}"))).await;
        let rules = GroupRules { max_size: Some(1), ..GroupRules::default() };
        assert!(t.broker().claim_set(&default_queue(), &group(&format!("g{i}")), &rules).await.unwrap().is_some());
    }
    t.advance(3 * MINUTE);
    let turns = [reclaim(&t).await, reclaim(&t).await, reclaim(&t).await];
    assert_eq!(turns, [100, 3, 0]);
    assert_eq!(t.group_sizes().await.len(), 103);
}

#[tokio::test]
async fn a_set_of_a_thousand_goes_back_and_ends_in_one_step() {
    let t = Fixture::start().await;
    let all = (0..TaskSet::MOST).map(|i| task(&format!("t{i:04}")).grouped("g").locked(&lock_key(&i.to_string()), 600));
    assert!(t.broker().enqueue(all.collect()).await.iter().all(Result::is_ok));
    assert_eq!(t.claim("g").await.members.len(), TaskSet::MOST);
    t.advance(3 * MINUTE);
    assert_eq!(reclaim(&t).await, 1);
    let set = t.claim("g").await;
    let ids = members(&set);
    let outcome = SetOutcome { made: vec![made(&set, 0)], ..alone(&ids[..300]) };
    t.finish(&set, &outcome).await.unwrap();
    let seen = t.snapshot().await;
    assert_eq!((seen.pending.len(), seen.len()), (301, 301));
    assert_eq!(t.holder_of(&lock_key("999")).await, None);
    assert_eq!(t.holder_of(&lock_key("0")).await.unwrap(), "t0000");
}
