//! Contracts `Produce` and `Groups`: how tasks join groups, and when they leave them as a set.

use std::{sync::Arc, time::Duration};

use asynq_runtime::{
    broker::{GroupRules, GroupStep, Refused, TaskSet},
    clock::ManualClock,
    task::{Extra, QueueName, TaskState, UniqueUntil},
};
use asynq_tests::{Build as _, Need, Store as _, default_queue, group, lock_key, members, queue, task, task_id};

use super::Fixture;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn grace(grace: Duration) -> GroupRules {
    GroupRules { grace, ..GroupRules::default() }
}

fn at_size(size: usize) -> GroupRules {
    GroupRules { grace: 60 * MINUTE, max_size: Some(size), ..GroupRules::default() }
}

async fn names(t: &Fixture, queue: &QueueName) -> Vec<String> {
    let found = t.broker().groups(queue, None, 100).await.unwrap().groups;
    found.into_iter().map(|stats| stats.group.to_string()).collect()
}

#[tokio::test]
async fn a_grouped_task_waits_in_its_group_and_is_not_taken() {
    let t = Fixture::start().await;
    let placed = t.enqueue(task("t1").grouped("g")).await;
    assert_eq!(placed.state, TaskState::Aggregating);
    assert!((placed.process_at - t.now()).num_milliseconds().abs() <= 1, "{placed:?}");
    assert!(t.drain().await.is_empty());
    assert_eq!(t.group_sizes().await, [("g".to_owned(), 1)]);
}

#[tokio::test]
async fn only_queues_with_groups_are_worth_aggregating() {
    let t = Fixture::start().await;
    let queues: Vec<_> = ["a", "b", "never"].map(queue).into();
    let worth = async || t.broker().worth_aggregating(&queues).await.unwrap();
    t.enqueue(task("t1").in_queue("a")).await;
    assert!(worth().await.is_empty());
    t.enqueue(task("t2").in_queue("b").grouped("g")).await;
    assert_eq!(worth().await, [queue("b")]);
}

#[tokio::test]
async fn a_grouped_task_shows_its_state_and_group() {
    let t = Fixture::start().await;
    t.enqueue(task("t1").grouped("g")).await;
    let info = t.info("t1").await.unwrap();
    assert_eq!((info.state, info.group.as_deref()), (TaskState::Aggregating, Some("g")));
    let stats = t.broker().queue_stats(&default_queue()).await.unwrap();
    assert_eq!((stats.aggregating, stats.size, stats.pending), (1, 1, 0));
}

#[tokio::test]
async fn groups_are_listed_by_name_with_their_size_and_the_time_of_the_first() {
    let t = Fixture::start().await;
    let first = t.now();
    t.seed_group("b", &["b1", "b2"]).await;
    let second = t.now();
    t.enqueue(task("a1").grouped("a")).await;
    let found = t.broker().groups(&default_queue(), None, 10).await.unwrap().groups;
    let seen: Vec<_> = found.iter().map(|stats| (stats.group.as_str(), stats.size)).collect();
    assert_eq!(seen, [("a", 1), ("b", 2)]);
    let oldest = |n: usize| found[n].oldest.unwrap().timestamp();
    assert_eq!([oldest(0), oldest(1)], [second.timestamp(), first.timestamp()]);
}

#[tokio::test]
async fn groups_are_listed_in_pages() {
    let t = Fixture::start().await;
    for i in 0..25 {
        t.enqueue(task(&format!("t{i}")).grouped(&format!("g{i:02}"))).await;
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = t.broker().groups(&default_queue(), after.as_ref(), 10).await.unwrap();
        assert!(page.groups.len() <= 10);
        seen.extend(page.groups.into_iter().map(|stats| stats.group.to_string()));
        assert!(seen.len() <= 25, "a page comes again: {seen:?}");
        let Some(next) = page.next else { break };
        // A step survives being written into an address.
        after = Some(GroupStep::from_text(next.as_str()));
    }
    assert_eq!(seen, (0..25).map(|i| format!("g{i:02}")).collect::<Vec<_>>());
    assert!(t.broker().groups(&default_queue(), None, 0).await.unwrap().groups.is_empty());
}

#[tokio::test]
async fn one_group_is_read_by_any_name() {
    let t = Fixture::start().await;
    for (n, name) in ["a", "a\0", "ab", "b", "*", "\u{10ffff}"].iter().enumerate() {
        for i in 0..=n {
            t.enqueue(task(&format!("t{n}-{i}")).grouped(name)).await;
        }
        let found = t.broker().group(&default_queue(), &group(name)).await.unwrap().unwrap();
        assert_eq!((found.group.as_str(), found.size), (*name, n as u64 + 1));
        assert!(found.oldest.is_some());
    }
    for (q, name) in [("default", "aa"), ("default", ""), ("none", "a")] {
        assert_eq!(t.broker().group(&queue(q), &group(name)).await.unwrap(), None, "{q} {name}");
    }
}

#[tokio::test]
async fn a_group_whose_tasks_were_all_taken_is_not_listed() {
    let t = Fixture::start().await;
    t.seed_set(&["t1", "t2"]).await;
    assert!(t.group_sizes().await.is_empty());
    assert!(t.broker().groups(&queue("none"), None, 10).await.unwrap().groups.is_empty());
}

#[tokio::test]
async fn groups_belong_to_their_queue() {
    let t = Fixture::start().await;
    t.enqueue(task("t1").grouped("g")).await;
    t.enqueue(task("t1").in_queue("other").grouped("g")).await;
    t.enqueue(task("t2").in_queue("other").grouped("h")).await;
    let set = t.claim("g").await;
    assert_eq!((members(&set), set.queue.as_str()), (vec!["t1"], "default"));
    assert!(names(&t, &default_queue()).await.is_empty());
    assert_eq!(names(&t, &queue("other")).await, ["g", "h"]);
}

#[tokio::test]
async fn an_id_is_taken_in_whichever_group_it_waits() {
    let t = Fixture::start().await;
    t.enqueue(task("t1").grouped("g")).await;
    let before = t.store.dump();
    for again in [task("t1"), task("t1").grouped("g"), task("t1").grouped("h")] {
        assert!(matches!(t.try_enqueue(again).await, Err(Refused::IdConflict)));
    }
    assert_eq!(t.store.dump(), before);
}

#[tokio::test]
async fn a_grouped_task_holds_its_lock() {
    let t = Fixture::start().await;
    t.enqueue(task("t1").grouped("g").locked(&lock_key("k"), 600)).await;
    let before = t.store.dump();
    let refused = t.try_enqueue(task("t2").grouped("g").locked(&lock_key("k"), 600)).await;
    assert!(matches!(&refused, Err(Refused::Duplicate { holder: Some(id) }) if *id == "t1"), "{refused:?}");
    assert_eq!(t.store.dump(), before);
}

#[tokio::test]
async fn a_delayed_task_joins_its_group_when_it_is_due() {
    let t = Fixture::start().await;
    let placed = t.enqueue(task("t1").grouped("g").after(MINUTE)).await;
    assert_eq!(placed.state, TaskState::Scheduled);
    assert!(t.group_sizes().await.is_empty());
    t.advance(MINUTE);
    assert_eq!(t.forward().await, 1);
    assert_eq!(t.state_of("t1").await, Some(TaskState::Aggregating));
    assert_eq!(t.group_sizes().await, [("g".to_owned(), 1)]);
    assert!(t.drain().await.is_empty());
}

#[tokio::test]
async fn a_delayed_task_counts_from_when_it_joined_its_group() {
    let t = Fixture::start().await;
    t.enqueue(task("t1").grouped("g").after(MINUTE)).await;
    t.advance(MINUTE + 30 * SECOND);
    t.forward().await;
    t.advance(59 * SECOND);
    assert!(t.try_claim("g", &grace(MINUTE)).await.is_none());
    t.advance(SECOND);
    assert_eq!(members(&t.try_claim("g", &grace(MINUTE)).await.unwrap()), ["t1"]);
}

#[tokio::test]
async fn an_instant_that_has_passed_joins_the_group_now() {
    let t = Fixture::start().await;
    let placed = t.enqueue(task("t1").grouped("g").at(t.now() - MINUTE)).await;
    assert_eq!(placed.state, TaskState::Aggregating);
}

#[tokio::test]
async fn a_batch_goes_to_several_groups_and_places() {
    let t = Fixture::start().await;
    let batch = vec![
        task("a").grouped("g"),
        task("b"),
        task("c").grouped("h").locked(&lock_key("k"), 60),
        task("a").grouped("h"),
        task("d").grouped("g").after(MINUTE),
        task("e").grouped("g"),
    ];
    let answers = t.broker().enqueue(batch).await;
    let states: Vec<_> = answers.iter().map(|answer| answer.as_ref().ok().map(|placed| placed.state)).collect();
    let (waits, later) = (Some(TaskState::Aggregating), Some(TaskState::Scheduled));
    assert_eq!(states, [waits, Some(TaskState::Pending), waits, None, later, waits]);
    assert_eq!(t.group_sizes().await, [("g".to_owned(), 2), ("h".to_owned(), 1)]);
    assert_eq!(t.drain().await, ["b"]);
}

#[tokio::test]
async fn any_name_of_a_group_works() {
    let t = Fixture::start().await;
    let mut all = ["a:b", "a", "g:1:2", "Ärger & Söhne", "*?[x]", "x y"];
    for (i, name) in all.iter().enumerate() {
        t.enqueue(task(&format!("t{i}")).grouped(name)).await;
    }
    for (i, name) in all.iter().enumerate() {
        assert_eq!(members(&t.claim(name).await), [format!("t{i}")], "{name}");
    }
    t.advance(3 * MINUTE);
    assert_eq!(t.broker().reclaim_sets(&default_queue()).await.unwrap(), all.len());
    all.sort_unstable();
    assert_eq!(names(&t, &default_queue()).await, all);
}

#[tokio::test]
async fn a_group_is_ripe_when_nothing_has_joined_for_the_grace_period() {
    let t = Fixture::start().await;
    t.enqueue(task("t1").grouped("g")).await;
    t.advance(59 * SECOND);
    assert!(t.try_claim("g", &grace(MINUTE)).await.is_none());
    t.advance(SECOND);
    assert_eq!(members(&t.try_claim("g", &grace(MINUTE)).await.unwrap()), ["t1"]);
}

#[tokio::test]
async fn a_walk_over_many_groups_names_those_that_are_ripe() {
    let t = Fixture::start().await;
    let in_group = |n: usize| task(&format!("t{n}")).grouped(&format!("g{:03}", n % 500));
    let (old, new) = (|n: &usize| n.is_multiple_of(3), |n: &usize| !n.is_multiple_of(3));
    assert!(t.broker().enqueue((0..500).filter(old).map(in_group).collect()).await.iter().all(Result::is_ok));
    t.advance(30 * SECOND);
    assert!(t.broker().enqueue((0..500).filter(new).map(in_group).collect()).await.iter().all(Result::is_ok));
    assert_eq!(t.ripe(&default_queue(), &grace(MINUTE)).await.len(), 0);
    t.advance(30 * SECOND);
    let ripe = t.ripe(&default_queue(), &grace(MINUTE)).await;
    let expected = (0..500).filter(old).map(|n| group(&format!("g{n:03}"))).collect();
    assert_eq!(ripe, expected);
    // Groups are ripe by the longest delay and by the size as well.
    let rules = GroupRules { max_delay: Some(MINUTE), ..grace(60 * MINUTE) };
    assert_eq!(t.ripe(&default_queue(), &rules).await, expected);
    t.enqueue(task("another").grouped("g001")).await;
    assert_eq!(t.ripe(&default_queue(), &at_size(2)).await, [group("g001")].into());
    let nowhere = GroupStep::from_text("that no broker gave");
    t.broker().ripe_groups(&default_queue(), &rules, Some(&nowhere)).await.unwrap();
    t.broker().groups(&default_queue(), Some(&nowhere), 10).await.unwrap();
    assert!(t.ripe(&queue("none"), &grace(MINUTE)).await.is_empty());
}

#[tokio::test]
async fn each_task_that_joins_begins_the_grace_period_again() {
    let t = Fixture::start().await;
    for i in 0..5 {
        t.enqueue(task(&format!("t{i}")).grouped("g")).await;
        t.advance(40 * SECOND);
        assert!(t.try_claim("g", &grace(MINUTE)).await.is_none());
    }
    t.advance(20 * SECOND);
    assert_eq!(t.try_claim("g", &grace(MINUTE)).await.unwrap().members.len(), 5);
}

/// The broker's clock was ahead when the task joined, and was set back.
#[tokio::test]
async fn a_group_with_a_task_of_a_time_to_come_does_not_wait_for_that_time() {
    let t = Fixture::start().await;
    for (ahead, name, expected) in [(120 * MINUTE, "g", true), (4 * SECOND, "h", false)] {
        let ahead = t.store.connect(Some(Arc::new(ManualClock::new(t.now() + ahead)))).await;
        ahead.enqueue(vec![task(&format!("{name}1")).grouped(name)]).await.remove(0).unwrap();
        t.enqueue(task(&format!("{name}2")).grouped(name)).await;
        assert_eq!(t.try_claim(name, &grace(MINUTE)).await.is_some(), expected, "{name}");
    }
}

#[tokio::test]
async fn a_group_is_ripe_when_its_first_task_has_waited_for_the_longest_delay() {
    let t = Fixture::start().await;
    let rules = GroupRules { max_delay: Some(2 * MINUTE), ..grace(MINUTE) };
    for i in 0..3 {
        t.enqueue(task(&format!("t{i}")).grouped("g")).await;
        t.advance(39 * SECOND);
        assert!(t.try_claim("g", &rules).await.is_none());
    }
    t.enqueue(task("t3").grouped("g")).await;
    t.advance(3 * SECOND);
    assert_eq!(members(&t.try_claim("g", &rules).await.unwrap()), ["t0", "t1", "t2", "t3"]);
}

#[tokio::test]
async fn a_group_is_ripe_when_it_is_large_enough_and_the_rest_waits_on() {
    let t = Fixture::start().await;
    t.seed_group("g", &["t1", "t2"]).await;
    assert!(t.try_claim("g", &at_size(3)).await.is_none());
    t.enqueue(task("t3").grouped("g")).await;
    t.advance(SECOND);
    t.enqueue(task("t4").grouped("g")).await;
    assert_eq!(members(&t.try_claim("g", &at_size(3)).await.unwrap()), ["t1", "t2", "t3"]);
    assert_eq!(t.group_sizes().await, [("g".to_owned(), 1)]);
    assert!(t.try_claim("g", &at_size(3)).await.is_none());
}

#[tokio::test]
async fn no_set_is_larger_than_the_rules_say() {
    let t = Fixture::start().await;
    t.seed_group("g", &["t1", "t2", "t3"]).await;
    t.advance(MINUTE);
    let rules = GroupRules { max_size: Some(2), ..grace(MINUTE) };
    assert_eq!(members(&t.try_claim("g", &rules).await.unwrap()), ["t1", "t2"]);
    assert_eq!(members(&t.try_claim("g", &rules).await.unwrap()), ["t3"], "ripe by its grace period");
    assert!(t.try_claim("g", &rules).await.is_none());
}

#[tokio::test]
async fn a_large_group_is_taken_in_sets_of_a_thousand() {
    let t = Fixture::start().await;
    let all = (0..TaskSet::MOST + 100).map(|i| task(&format!("t{i:04}")).grouped("g")).collect();
    assert!(t.broker().enqueue(all).await.iter().all(Result::is_ok));
    let larger = GroupRules { max_size: Some(TaskSet::MOST + 50), ..grace(MINUTE) };
    let set = t.try_claim("g", &larger).await.expect("as large as a set can be is large enough");
    assert_eq!(set.members.len(), TaskSet::MOST);
    assert_eq!(t.group_sizes().await, [("g".to_owned(), 100)]);
    t.advance(MINUTE);
    let rest = t.try_claim("g", &grace(MINUTE)).await.unwrap();
    let mut seen: Vec<&str> = members(&set).into_iter().chain(members(&rest)).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), TaskSet::MOST + 100, "each once");
}

#[tokio::test]
async fn a_set_says_whether_its_messages_fill_it() {
    let t = Fixture::start().await;
    for id in ["t1", "t2", "t3"] {
        t.enqueue(task(id).grouped("g").with_payload(vec![7; TaskSet::BYTES / 2 + 1])).await;
        t.advance(SECOND);
    }
    let set = t.try_claim("g", &at_size(3)).await.unwrap();
    assert!(set.is_full && members(&set) == ["t1", "t2"], "{:?}", members(&set));
    t.advance(61 * MINUTE);
    let set = t.try_claim("g", &at_size(3)).await.unwrap();
    assert!(!set.is_full && members(&set) == ["t3"], "{:?}", members(&set));
}

#[tokio::test]
async fn a_claimed_set_is_not_claimed_again() {
    let t = Fixture::start().await;
    t.seed_group("g", &["t1", "t2"]).await;
    t.advance(MINUTE);
    let (a, b) = (t.another_broker().await, t.another_broker().await);
    let (queue, name, rules) = (default_queue(), group("g"), grace(MINUTE));
    let (a, b) = tokio::join!(a.claim_set(&queue, &name, &rules), b.claim_set(&queue, &name, &rules));
    let found: Vec<TaskSet> = [a, b].into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(t.try_claim("g", &rules).await.is_none());
}

#[tokio::test]
async fn two_sets_of_a_group_have_nothing_in_common() {
    let t = Fixture::start().await;
    let first = t.seed_set(&["t1", "t2"]).await;
    t.seed_group("g", &["t3"]).await;
    let second = t.claim("g").await;
    assert_eq!((members(&first), members(&second)), (vec!["t1", "t2"], vec!["t3"]));
    assert_ne!(first.id, second.id);
}

#[tokio::test]
async fn a_group_that_no_task_joined_is_never_ripe() {
    let t = Fixture::start().await;
    let rules = GroupRules { max_delay: Some(SECOND), max_size: Some(1), ..grace(SECOND) };
    assert!(t.try_claim("none", &rules).await.is_none());
    assert!(t.broker().claim_set(&queue("none"), &group("g"), &rules).await.unwrap().is_none());
}

#[tokio::test]
async fn a_claimed_set_says_its_deadline_and_its_tasks_stay_aggregating() {
    let t = Fixture::start().await;
    let set = t.seed_set(&["t1"]).await;
    assert!(((set.deadline - t.now()).as_seconds_f64() - 120.0).abs() <= 1.0, "{:?}", set.deadline);
    assert_eq!((set.group.as_str(), set.queue.as_str()), ("g", "default"));
    assert!(uuid_like(&set.id), "{}", set.id);
    assert_eq!(t.state_of("t1").await, Some(TaskState::Aggregating));
    assert!(matches!(t.try_enqueue(task("t1")).await, Err(Refused::IdConflict)));
}

fn uuid_like(id: &str) -> bool {
    let lengths: Vec<usize> = id.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && id.bytes().all(|c| c == b'-' || c.is_ascii_hexdigit())
}

#[tokio::test]
async fn a_member_is_as_it_was_enqueued() {
    let t = Fixture::start().await;
    let extra = Extra { expires_ms: Some(7), unique_until: UniqueUntil::Success.into(), ..Extra::default() };
    let new =
        task("t1").grouped("g").with_header("trace", "1").with_payload(&b"\x00\xff"[..]).with_extra(extra.clone());
    t.enqueue(new.clone()).await;
    let set = t.claim("g").await;
    assert_eq!((set.members[0].message.as_ref(), &set.members[0].extra), (Ok(&new.message), &extra));
}

#[tokio::test]
async fn bytes_that_cannot_be_read_come_with_the_set_and_stop_nothing() {
    let t = Fixture::start().await;
    t.seed_group("g", &["t1", "bad", "t3"]).await;
    t.store.overwrite_message(&default_queue(), &task_id("bad"), b"\xff\xff");
    let set = t.claim("g").await;
    assert_eq!(members(&set), ["t1", "bad", "t3"]);
    assert!(set.members[0].message.is_ok() && set.members[2].message.is_ok());
    assert_eq!(set.members[1].message.as_ref().unwrap_err().raw, &b"\xff\xff"[..]);
}

#[tokio::test]
async fn a_task_whose_message_is_lost_leaves_its_group_and_the_others_become_a_set() {
    let t = Fixture::start().await;
    t.seed_group("g", &["t1", "lost", "t3"]).await;
    t.store.lose_message(&default_queue(), &task_id("lost"));
    t.advance(MINUTE);
    let set = t.try_claim("g", &grace(MINUTE)).await.unwrap();
    assert_eq!(members(&set), ["t1", "t3"]);
    t.broker().release_set(&set).await.unwrap();
    assert_eq!(t.group_sizes().await, [("g".to_owned(), 2)], "it does not come back");
}

#[tokio::test]
async fn ids_without_a_task_are_dropped_from_their_group() {
    let t = Fixture::start().await;
    if t.lacks(Need::Ghosts) {
        return;
    }
    t.seed_group("g", &["t1", "ghost", "t3"]).await;
    t.store.make_ghost(&default_queue(), &task_id("ghost"));
    assert!(t.try_claim("g", &at_size(3)).await.is_none(), "only two tasks are left");
    assert_eq!(t.group_sizes().await, [("g".to_owned(), 2)]);
    assert_eq!(members(&t.try_claim("g", &at_size(2)).await.unwrap()), ["t1", "t3"]);
}

#[tokio::test]
async fn a_group_of_nothing_but_ghosts_goes_away() {
    let t = Fixture::start().await;
    if t.lacks(Need::Ghosts) {
        return;
    }
    t.seed_group("g", &["ghost"]).await;
    t.store.make_ghost(&default_queue(), &task_id("ghost"));
    t.advance(MINUTE);
    assert!(t.try_claim("g", &grace(MINUTE)).await.is_none());
    assert!(t.group_sizes().await.is_empty());
}

#[tokio::test]
async fn a_paused_queue_still_gathers_tasks_in_sets() {
    let t = Fixture::start().await;
    t.broker().pause(&default_queue()).await.unwrap();
    assert_eq!(members(&t.seed_set(&["t1"]).await), ["t1"]);
}

#[tokio::test]
async fn tasks_that_join_within_one_second_come_in_their_order_and_on_redis_by_their_ids() {
    let t = Fixture::start().await;
    for id in ["b", "a"] {
        t.enqueue(task(id).grouped("g")).await;
    }
    t.advance(SECOND);
    t.enqueue(task("0").grouped("g")).await;
    let expected = if t.broker().kind() == "redis" { ["a", "b", "0"] } else { ["b", "a", "0"] };
    assert_eq!(members(&t.claim("g").await), expected);
}
