//! Contract `Consume`: a call gets the oldest tasks, each with a lease and a token of its own.

use std::time::Duration;

use asynq_runtime::{
    broker::{Page, Quarantined, Run, RunToken, Wanted},
    task::{Extra, TaskState},
};
use asynq_tests::{
    Build as _, Entry, Need, Seeded as _, Store as _, default_queue, eventually, queue, requeue, retry, snooze, soon,
    task, task_id,
};
use chrono::TimeDelta;

use super::Fixture;

const MINUTE: Duration = Duration::from_secs(60);

fn wanted(list: &[(&str, usize)]) -> Vec<Wanted> {
    list.iter().map(|(name, n)| Wanted { queue: queue(name), n: *n }).collect()
}

fn places(runs: &[Run]) -> Vec<String> {
    runs.iter().map(|run| format!("{}/{}", run.key.queue, run.key.id)).collect()
}

#[tokio::test]
async fn an_empty_queue_gives_nothing() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    assert_eq!(run.key.id, "t1");
    assert!(t.take(10).await.is_empty());
}

#[tokio::test]
async fn an_unknown_queue_gives_no_task() {
    let t = Fixture::start().await;
    assert!(t.broker().dequeue(t.member(), &wanted(&[("nowhere", 5)])).await.unwrap().is_empty());
    assert!(t.broker().queues().await.unwrap().is_empty(), "asking does not make a queue");
}

#[tokio::test]
async fn the_oldest_task_comes_first() {
    let t = Fixture::start().await;
    t.seed_pending(&["z", "a", "m"]).await;
    t.seed_pending(&["b"]).await;
    assert_eq!(t.drain().await, ["z", "a", "m", "b"]);
}

#[tokio::test]
async fn a_task_says_how_long_it_has_been_pending() {
    let t = Fixture::start().await;
    t.seed_pending(&["1"]).await;
    t.advance(Duration::from_millis(1500));
    let run = t.take_one().await;
    // SQLite keeps whole milliseconds.
    let waited = run.waited.expect("it was enqueued by us");
    assert!(waited.abs_diff(Duration::from_millis(1500)) <= Duration::from_millis(1), "{waited:?}");
    // After a requeue the wait starts anew.
    t.settle(&run, requeue()).await;
    t.advance(Duration::from_secs(2));
    let waited = t.take_one().await.waited.expect("it was requeued by us");
    assert!(waited.abs_diff(Duration::from_secs(2)) <= Duration::from_millis(1), "{waited:?}");
}

#[tokio::test]
async fn no_more_than_wanted_are_taken() {
    let t = Fixture::start().await;
    t.seed_pending(&["1", "2", "3"]).await;
    assert_eq!(places(&t.take(2).await), ["default/1", "default/2"]);
    assert_eq!(places(&t.take(2).await), ["default/3"]);
}

#[tokio::test]
async fn nothing_wanted_is_nothing_taken() {
    let t = Fixture::start().await;
    t.seed_pending(&["1"]).await;
    assert!(t.take(0).await.is_empty());
    assert!(t.broker().dequeue(t.member(), &[]).await.unwrap().is_empty());
    assert_eq!(t.snapshot().await.ids(TaskState::Pending), ["1"]);
}

#[tokio::test]
async fn queues_are_served_in_the_wanted_order_each_up_to_its_number() {
    let t = Fixture::start().await;
    for name in ["a", "b", "c"] {
        let batch = ["1", "2", "3"].map(|id| task(id).in_queue(name)).to_vec();
        assert!(t.broker().enqueue(batch).await.iter().all(Result::is_ok));
    }
    let runs = t.broker().dequeue(t.member(), &wanted(&[("c", 2), ("a", 1), ("none", 5), ("b", 9)])).await.unwrap();
    assert_eq!(places(&runs), ["c/1", "c/2", "a/1", "b/1", "b/2", "b/3"]);
}

#[tokio::test]
async fn a_paused_queue_gives_none_while_others_give() {
    let t = Fixture::start().await;
    t.seed_pending(&["1"]).await;
    t.enqueue(task("2").in_queue("low")).await;
    t.broker().pause(&default_queue()).await.unwrap();
    let runs = t.broker().dequeue(t.member(), &wanted(&[("default", 5), ("low", 5)])).await.unwrap();
    assert_eq!(places(&runs), ["low/2"]);
}

#[tokio::test]
async fn a_taken_task_is_active_with_a_lease() {
    let t = Fixture::start().await;
    let new = task("t1");
    t.enqueue(new.clone()).await;

    let run = t.take_one().await;

    assert_eq!(run.text(), &new.message);
    assert_eq!(run.crashes, 0);
    let seen = t.snapshot().await;
    assert_eq!(seen.active, [Entry::of(&new)]);
    assert_eq!(seen.len(), 1);
    let info = t.info("t1").await.unwrap();
    let lease = info.lease_until.unwrap() - t.now();
    let full = TimeDelta::from_std(t.broker().lease()).unwrap();
    assert!(lease <= full && lease > full - TimeDelta::seconds(1), "{lease} is not the lease of {full}");
}

#[tokio::test]
async fn a_taken_task_is_not_given_again() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    t.take_one().await;
    let other = t.another_member(2).await;
    assert!(t.take_as(&other, 10).await.is_empty());
}

#[tokio::test]
async fn a_token_reads_as_the_time_in_nineteen_digits() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    assert_eq!(run.key.token.to_string().len(), 19);
    assert!(run.key.token > RunToken(1_000_000_000_000_000_000), "{}", run.key.token);
}

#[tokio::test]
async fn a_task_gets_a_greater_token_with_every_run() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    let mut last = None;
    for _ in 0..5 {
        let run = t.take_one().await;
        assert!(last.is_none_or(|last| run.key.token > last), "{:?} after {last:?}", run.key.token);
        last = Some(run.key.token);
        t.settle(&run, requeue()).await;
        t.advance(Duration::from_millis(5));
    }
}

#[tokio::test]
async fn members_and_brokers_draw_different_tokens() {
    let t = Fixture::start().await;
    let mut keys = std::collections::HashSet::new();
    let second = t.another_broker().await;
    let there = t.member_of(&*second, 2).await;
    for round in 0..20 {
        t.seed_pending(&["t1"]).await;
        t.advance(Duration::from_millis(1));
        let (broker, member) = if round % 2 == 0 { (t.broker(), t.member()) } else { (&*second, &there) };
        let mut runs = broker.dequeue(member, &wanted(&[("default", 1)])).await.unwrap();
        let run = runs.remove(0);
        assert!(keys.insert(run.key.clone()), "a run of an id that is used again bears an earlier run's name");
        t.settle(&run, asynq_tests::done()).await;
    }
}

#[tokio::test]
async fn a_scheduled_task_is_not_taken_before_it_is_forwarded() {
    let t = Fixture::start().await;
    t.seed_scheduled("t1", MINUTE).await;
    assert!(t.take(1).await.is_empty());
    t.advance(MINUTE);
    assert_eq!(t.forward().await, 1);
    assert_eq!(t.drain().await, ["t1"]);
}

#[tokio::test]
async fn a_task_that_waits_for_its_retry_is_not_taken() {
    let t = Fixture::start().await;
    t.seed_retry("t1", MINUTE).await;
    assert!(t.take(1).await.is_empty());
}

#[tokio::test]
async fn archived_and_completed_tasks_are_never_taken() {
    let t = Fixture::start().await;
    t.seed_archived("t1").await;
    t.seed_completed("t2", 5).await;
    t.advance(Duration::from_secs(10));
    t.forward().await;
    assert!(t.take(10).await.is_empty());
}

#[tokio::test]
async fn three_hundred_at_once_come_in_order() {
    let t = Fixture::start().await;
    let ids: Vec<String> = (0..300).map(|i| format!("t{i:03}")).collect();
    assert!(t.broker().enqueue(ids.iter().map(|id| task(id)).collect()).await.iter().all(Result::is_ok));
    let taken: Vec<String> = t.take_exactly(300).await.iter().map(|run| run.key.id.to_string()).collect();
    assert_eq!(taken, ids);
    assert_eq!(t.snapshot().await.stats.active, 300);
}

#[tokio::test]
async fn one_task_can_lie_in_two_queues_under_one_id_and_run_twice() {
    let t = Fixture::start().await;
    t.enqueue(task("same").with_payload("1")).await;
    t.enqueue(task("same").in_queue("low").with_payload("2")).await;
    let runs = t.broker().dequeue(t.member(), &wanted(&[("default", 1), ("low", 1)])).await.unwrap();
    assert_eq!(places(&runs), ["default/same", "low/same"]);
    assert_eq!(runs[1].text().payload, "2");
}

#[tokio::test]
async fn ids_without_a_task_are_set_aside_and_the_good_ones_come() {
    let t = Fixture::start().await;
    if t.lacks(Need::Ghosts) {
        return;
    }
    t.seed_pending(&["ghost1", "good1", "ghost2", "good2"]).await;
    for id in ["ghost1", "ghost2"] {
        t.store.make_ghost(&default_queue(), &task_id(id));
    }
    let mut taken = Vec::new();
    for _ in 0..4 {
        taken.extend(t.drain().await);
    }
    assert_eq!(taken, ["good1", "good2"]);
    let stats = t.snapshot().await.stats;
    assert_eq!((stats.pending, stats.active), (0, 2), "a ghost is neither pending nor active any more");
    t.enqueue(task("ghost1")).await;
}

#[tokio::test]
async fn a_thousand_ghosts_do_not_hold_up_a_good_task() {
    let t = Fixture::start().await;
    if t.lacks(Need::Ghosts) {
        return;
    }
    let ids: Vec<String> = (0..1000).map(|i| format!("ghost{i}")).collect();
    assert!(t.broker().enqueue(ids.iter().map(|id| task(id)).collect()).await.iter().all(Result::is_ok));
    for id in &ids {
        t.store.make_ghost(&default_queue(), &task_id(id));
    }
    t.seed_pending(&["good"]).await;
    let mut calls = 0;
    while t.take(64).await.is_empty() {
        calls += 1;
        assert!(calls <= 1000 / 16, "a call must get past at least 16 ghosts");
    }
}

#[tokio::test]
async fn long_messages_come_whole_among_short_ones() {
    let t = Fixture::start().await;
    // Redis reads long messages in another way once some have come, and also short ones among them.
    let text = |i: usize| if i % 3 == 2 { i.to_string() } else { format!("{i} ").repeat(20_000) };
    let ids: Vec<String> = (0..12).map(|i| format!("t{i:02}")).collect();
    for (i, id) in ids.iter().enumerate() {
        t.enqueue(task(id).with_payload(text(i))).await;
    }
    let mut taken = Vec::new();
    while taken.len() < ids.len() {
        let runs = t.take(3).await;
        assert!(!runs.is_empty(), "after {} tasks", taken.len());
        taken.extend(runs);
    }
    for (i, run) in taken.iter().enumerate() {
        assert_eq!(run.key.id, ids[i].as_str());
        assert!(run.text().payload == text(i), "task {i} has another payload");
        assert!(run.waited.is_some());
        t.settle(run, requeue()).await;
    }
    // A long message that a retry rewrote is whole in the next run, too.
    let run = t.take(1).await.remove(0);
    t.settle(&run, retry(Duration::ZERO, "smtp down")).await;
    t.advance(Duration::from_secs(1));
    t.forward().await;
    assert_eq!(t.take_exactly(ids.len()).await.iter().map(|run| run.text().retried).sum::<i32>(), 1);
}

#[tokio::test]
async fn a_ghost_among_long_messages_is_set_aside() {
    let t = Fixture::start().await;
    if t.lacks(Need::Ghosts) {
        return;
    }
    for id in ["long1", "long2", "ghost", "long3"] {
        t.enqueue(task(id).with_payload(id.repeat(20_000))).await;
    }
    assert_eq!(t.take(1).await[0].key.id, "long1");
    t.store.make_ghost(&default_queue(), &task_id("ghost"));
    let rest: Vec<String> = t.take(9).await.iter().map(|run| run.key.id.to_string()).collect();
    assert_eq!(rest, ["long2", "long3"]);
}

#[tokio::test]
async fn the_next_run_starts_without_the_progress_of_the_last() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    t.broker().write_progress(&run.key, &asynq_runtime::task::Progress::new(0.5, "half")).await.unwrap();
    t.settle(&run, requeue()).await;
    t.take_one().await;
    assert_eq!(t.snapshot().await.active[0].progress, None);
}

#[tokio::test]
async fn the_error_of_a_retry_comes_with_the_next_run() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    t.settle(&run, retry(Duration::ZERO, "smtp down")).await;
    t.advance(Duration::from_secs(1));
    t.forward().await;
    let again = t.take_one().await;
    assert_eq!((again.text().retried, again.text().error_msg.as_str()), (1, "smtp down"));
    t.settle(&again, snooze(Duration::ZERO, asynq_runtime::task::Extra::default())).await;
    t.advance(Duration::from_secs(1));
    t.forward().await;
    assert_eq!(t.take_one().await.text().retried, 1);
}

#[tokio::test]
async fn quarantined_tasks_beyond_the_limit_are_passed_by_innocents() {
    let t = Fixture::start().await;
    t.seed_pending(&["s1", "s2", "s3"]).await;
    crash(&t, 2).await;
    t.seed_pending(&["i1", "i2", "i3"]).await;
    // Recovery promises the head of the queue, but no order among the recovered tasks.
    let pending = async || {
        let page = Page { number: 1, size: 9 };
        let tasks = t.broker().tasks(&default_queue(), TaskState::Pending, page).await.unwrap();
        tasks.into_iter().map(|task| task.id.to_string()).collect::<Vec<_>>()
    };
    let before = pending().await;
    let ask = async |n, quarantined| {
        let runs = t.broker().dequeue_sparing(t.member(), &wanted(&[("default", n)]), quarantined).await.unwrap();
        places(&runs)
    };
    assert_eq!(ask(2, Quarantined::None).await, ["default/i1", "default/i2"]);
    assert_eq!(pending().await, [&before[..3], &["i3".to_owned()]].concat());
    assert_eq!(ask(2, Quarantined::None).await, ["default/i3"]);
    assert!(ask(2, Quarantined::None).await.is_empty());
    assert_eq!(ask(2, Quarantined::One).await, [format!("default/{}", before[0])]);
    assert_eq!(pending().await, before[1..3]);
    assert_eq!(ask(9, Quarantined::All).await.len(), 2);
}

#[tokio::test]
async fn a_quarantined_task_that_was_passed_is_not_charged_for_a_death() {
    let t = Fixture::start().await;
    t.seed_pending(&["a", "b"]).await;
    crash(&t, 2).await;
    let wanted_here = wanted(&[("default", 5)]);
    let taken = t.broker().dequeue_sparing(t.member(), &wanted_here, Quarantined::One).await.unwrap();
    assert_eq!((taken.len(), taken[0].crashes), (1, 2));
    t.let_leases_pass();
    assert_eq!(t.recover().await.len(), 1);
    let mut crashes: Vec<u32> = t.take(2).await.iter().map(|run| run.crashes).collect();
    crashes.sort_unstable();
    assert_eq!(crashes, [2, 3]);
}

#[tokio::test]
async fn one_quarantined_task_is_taken_of_whichever_queue_has_one() {
    let t = Fixture::start().await;
    let names: Vec<String> = (0..60).map(|n| format!("empty{n}")).collect();
    let mut all: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 2)).collect();
    all.insert(40, ("default", 2));
    all.insert(20, ("other", 2));
    let wanted = wanted(&all);
    for name in ["default", "other"] {
        t.enqueue(task(name).in_queue(name)).await;
    }
    for _ in 0..2 {
        let queues = [default_queue(), queue("other")];
        assert_eq!(t.broker().dequeue(t.member(), &wanted).await.unwrap().len(), 2);
        t.let_leases_pass();
        assert_eq!(t.broker().recover(&queues).await.unwrap().tasks.len(), 2);
    }
    let mut taken = Vec::new();
    for call in 0..4 {
        let runs = t.broker().dequeue_sparing(t.member(), &wanted, Quarantined::One).await.unwrap();
        assert!(runs.len() <= 1, "one in all: {runs:?}");
        taken.extend(runs);
        // A broker that asks all queues at once learns in one call which of them have tasks.
        assert!(taken.len() >= call.min(2), "after {call} calls: {taken:?}");
    }
    assert_eq!(taken.len(), 2);
}

#[tokio::test]
async fn a_queue_of_quarantined_tasks_alone_is_not_ready_for_a_call_that_excludes_them() {
    let t = Fixture::start().await;
    t.seed_pending(&["a", "b"]).await;
    crash(&t, 2).await;
    let (queues, all) = ([default_queue()], wanted(&[("default", 9)]));
    let ready = async |quarantined| t.broker().ready(&queues, quarantined).await.unwrap().len();
    // A broker may trust the result of a dequeue for a moment only.
    let is_left_out = async || {
        eventually("the queue is left out after a dequeue", async || {
            let sparing = t.broker().dequeue_sparing(t.member(), &all, Quarantined::None).await.unwrap();
            assert!(sparing.is_empty(), "{sparing:?}");
            (ready(Quarantined::None).await == 0).then_some(())
        })
        .await;
        assert_eq!(ready(Quarantined::One).await, 1);
    };
    is_left_out().await;
    assert_eq!(t.broker().ready(&queues, Quarantined::All).await.unwrap().len(), 1);
    t.seed_pending(&["innocent"]).await;
    assert_eq!(ready(Quarantined::None).await, 1);
    let taken = t.broker().dequeue_sparing(t.member(), &all, Quarantined::None).await.unwrap();
    assert_eq!(taken.len(), 1);
    is_left_out().await;
    assert_eq!(t.broker().dequeue_sparing(t.member(), &all, Quarantined::One).await.unwrap().len(), 1);
    is_left_out().await;
}

/// Takes every pending task and lets the worker die, `times` times.
async fn crash(t: &Fixture, times: usize) {
    for _ in 0..times {
        let taken = t.take(100).await.len();
        t.let_leases_pass();
        assert_eq!(t.recover().await.len(), taken);
    }
}

#[tokio::test]
async fn a_task_is_quarantined_from_its_last_chance_on() {
    let t = Fixture::start().await;
    let limit = |max_crashes| Extra { max_crashes: Some(max_crashes), ..Extra::default() };
    let own = |id: &str, max_crashes| task(id).with_extra(limit(max_crashes));
    let batch = vec![task("default"), own("once", 1), own("twice", 2), own("often", 200)];
    assert!(t.broker().enqueue(batch).await.iter().all(Result::is_ok));
    let mut quarantined = Vec::new();
    for _ in 0..3 {
        crash(&t, 1).await;
        let wanted = wanted(&[("default", 9)]);
        let taken = t.broker().dequeue_sparing(t.member(), &wanted, Quarantined::None).await.unwrap();
        let mut passed = vec!["default", "often", "once", "twice"];
        passed.retain(|id| taken.iter().all(|run| run.key.id.as_str() != *id));
        quarantined.push(passed);
        for run in &taken {
            t.settle(run, requeue()).await;
        }
    }
    // A task without a chance left is archived and not run, but its hooks may be what kills a worker.
    let later = vec!["default", "once", "twice"];
    assert_eq!(quarantined, [vec!["once", "twice"], later.clone(), later]);
}

#[tokio::test]
async fn quarantined_tasks_hide_nothing_behind_them_whatever_their_crash_limit() {
    // The second limit does not fit into a byte.
    for (limit, crashes) in [(0, 1), (300, 299)] {
        let t = Fixture::start().await;
        let own = |id| task(id).with_extra(Extra { max_crashes: Some(limit), ..Extra::default() });
        assert!(t.broker().enqueue(vec![own("a"), own("b")]).await.iter().all(Result::is_ok));
        crash(&t, crashes).await;
        t.seed_pending(&["c", "d", "e", "f"]).await;
        let wanted = wanted(&[("default", 3)]);
        let taken = soon(t.broker().dequeue_sparing(t.member(), &wanted, Quarantined::One)).await.unwrap();
        assert_eq!(taken.iter().map(|run| run.key.id.as_str()).collect::<Vec<_>>(), ["a", "c", "d"], "limit {limit}");
        let taken = soon(t.broker().dequeue_sparing(t.member(), &wanted, Quarantined::None)).await.unwrap();
        assert_eq!(taken.iter().map(|run| run.key.id.as_str()).collect::<Vec<_>>(), ["e", "f"], "limit {limit}");
    }
}

#[tokio::test]
async fn many_quarantined_tasks_at_the_head_hide_nothing_behind_them() {
    let t = Fixture::start().await;
    let ids: Vec<String> = (0..100).map(|i| format!("q{i}")).collect();
    t.seed_pending(&ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    crash(&t, 2).await;
    t.seed_pending(&["innocent"]).await;
    let wanted = wanted(&[("default", 1)]);
    let mut calls = 0;
    loop {
        calls += 1;
        let taken = t.broker().dequeue_sparing(t.member(), &wanted, Quarantined::None).await.unwrap();
        if let Some(run) = taken.first() {
            assert_eq!(run.key.id.as_str(), "innocent");
            break;
        }
        assert!(calls < 100, "the innocent task is never reached");
    }
}
