//! Contract `Schedules`: each tick of a periodic entry is enqueued once, by any scheduler and at any number of sends
//! (docs/design/schedules.md#a-tick).

use std::{sync::Arc, time::Duration};

use asynq_runtime::{
    broker::{Broker, EntryId, EntryPlan, EntryState, Overlap, Refused, Settled, Tick, Ticked, When},
    clock::ManualClock,
    task::{Extra, TaskState},
};
use asynq_tests::{
    Build as _, Seeded as _, Store as _, complete, default_queue, done, group, lock_key, queue, retry, task,
};
use chrono::{DateTime, TimeDelta, Utc};

use super::Fixture;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// The entry of most cases.
pub(super) fn report() -> EntryId {
    EntryId::of("report", "")
}

pub(super) fn plan(spec: &str, revision: u64) -> EntryPlan {
    let (queue, entry) = (default_queue(), report());
    EntryPlan { queue, entry, spec: spec.into(), zone: "UTC".into(), revision, supersedes: None, keep: 30 * DAY }
}

/// The tick of an instant, from a program of revision 1.
pub(super) fn tick(at: DateTime<Utc>) -> Tick {
    let plan = plan("* * * * * *", 1);
    let mut task = task(plan.entry.task_id(at).as_str());
    task.id_is_ours = true;
    Tick { plan, at, marker: 600 * SECOND, known: None, overlap: Overlap::Allow, task }
}

/// The whole second of the clock.
pub(super) fn this_second(t: &Fixture) -> DateTime<Utc> {
    DateTime::from_timestamp(t.now().timestamp(), 0).unwrap()
}

pub(super) async fn fire(t: &Fixture, tick: &Tick) -> Ticked {
    t.broker().tick(tick).await.unwrap()
}

/// Sends the tick of this second.
pub(super) async fn fire_now(t: &Fixture) -> Ticked {
    fire(t, &tick(this_second(t))).await
}

pub(super) async fn state(t: &Fixture) -> EntryState {
    t.broker().entry(&default_queue(), &report()).await.unwrap().expect("the entry is known")
}

pub(super) fn is_enqueued(ticked: &Ticked) -> bool {
    matches!(ticked, Ticked::Enqueued(_))
}

/// Connects as another process on the same store, with a clock that is off by `by`.
async fn with_clock_off(t: &Fixture, by: TimeDelta) -> Arc<dyn Broker> {
    t.store.connect(Some(Arc::new(ManualClock::new(t.now() + by)))).await
}

#[tokio::test]
async fn a_tick_stores_its_task_and_is_the_last_one() {
    let t = Fixture::start().await;
    let at = this_second(&t);
    let mut tick = tick(at);
    tick.task = tick.task.with_payload("p").with_extra(Extra { max_crashes: Some(1), ..Extra::default() });
    let Ticked::Enqueued(placed) = fire(&t, &tick).await else { panic!("it fires") };
    assert_eq!((placed.state, placed.process_at.timestamp()), (TaskState::Pending, t.now().timestamp()));
    let state = state(&t).await;
    assert_eq!((state.last, state.previous, state.paused), (at, Some(report().task_id(at)), false));
    let run = t.take_one().await;
    assert_eq!((run.text(), &run.extra), (&tick.task.message, &tick.task.extra));
    assert_eq!(run.key.id, report().task_id(at));
    assert!(t.broker().queues().await.unwrap().contains(&default_queue()), "its queue is known");
}

#[tokio::test]
async fn a_tick_that_is_sent_again_after_a_lost_answer_is_a_duplicate() {
    let t = Fixture::start().await;
    let tick = tick(this_second(&t));
    assert!(is_enqueued(&fire(&t, &tick).await));
    let before = t.store.dump();
    for _ in 0..3 {
        assert!(matches!(fire(&t, &tick).await, Ticked::Duplicate));
    }
    assert_eq!(t.store.dump(), before);
}

#[tokio::test]
async fn a_tick_is_not_fired_again_when_its_task_has_run_and_is_gone() {
    let t = Fixture::start().await;
    let tick = tick(this_second(&t));
    assert!(is_enqueued(&fire(&t, &tick).await));
    let run = t.take_one().await;
    assert_eq!(t.settle(&run, done()).await, Settled::Ok);
    assert!(matches!(fire(&t, &tick).await, Ticked::Duplicate));
    assert!(t.drain().await.is_empty());
}

#[tokio::test]
async fn of_eight_schedulers_at_once_exactly_one_fires_a_tick() {
    let t = Fixture::start().await;
    let mut brokers = vec![t.shared(), t.shared()];
    brokers.extend([t.another_broker().await, t.another_broker().await]);
    for round in 0..10 {
        let tick = tick(this_second(&t));
        let mut races = tokio::task::JoinSet::new();
        for i in 0..8 {
            let (broker, tick) = (brokers[i % brokers.len()].clone(), tick.clone());
            races.spawn(async move { broker.tick(&tick).await.unwrap() });
        }
        let answers = races.join_all().await;
        assert_eq!(answers.iter().filter(|ticked| is_enqueued(ticked)).count(), 1, "round {round}: {answers:?}");
        assert_eq!(answers.iter().filter(|ticked| matches!(ticked, Ticked::Duplicate)).count(), 7, "{answers:?}");
        assert_eq!(t.drain().await, [report().task_id(tick.at).to_string()]);
        t.advance(SECOND);
    }
}

#[tokio::test]
async fn ticks_of_two_entries_know_nothing_of_each_other() {
    let t = Fixture::start().await;
    let at = this_second(&t);
    assert!(is_enqueued(&fire(&t, &tick(at)).await));
    let mut other = tick(at);
    other.plan.entry = EntryId::of("report", "another");
    other.task = task(other.plan.entry.task_id(at).as_str());
    assert!(is_enqueued(&fire(&t, &other).await));
    let mut elsewhere = tick(at);
    elsewhere.plan.queue = queue("low");
    elsewhere.task = elsewhere.task.in_queue("low");
    assert!(is_enqueued(&fire(&t, &elsewhere).await), "the same id in another queue is another entry");
}

#[tokio::test]
async fn a_tick_before_its_time_by_the_brokers_clock_is_early_and_changes_nothing() {
    let t = Fixture::start().await;
    t.broker().plan_entry(&plan("* * * * * *", 1)).await.unwrap();
    let before = state(&t).await;
    let at = this_second(&t) + TimeDelta::seconds(1);
    let Ticked::Early(left) = fire(&t, &tick(at)).await else { panic!("it is early") };
    let exact = (at - t.now()).to_std().unwrap();
    assert!(left >= exact && left < exact + Duration::from_millis(2), "{left:?} is about {exact:?}");
    assert_eq!(state(&t).await, before);
    assert!(t.drain().await.is_empty());
    t.advance(left);
    assert!(is_enqueued(&fire(&t, &tick(at)).await));
}

#[tokio::test]
async fn a_scheduler_a_day_ahead_fires_nothing() {
    let t = Fixture::start().await;
    let tomorrow = this_second(&t) + TimeDelta::days(1);
    let Ticked::Early(left) = fire(&t, &tick(tomorrow)).await else { panic!("it is early") };
    assert!(left > DAY - SECOND && left <= DAY, "{left:?}");
    assert!(is_enqueued(&fire_now(&t).await), "and it does no harm");
}

#[tokio::test]
async fn a_tick_before_the_last_one_is_a_duplicate_however_late_it_comes() {
    let t = Fixture::start().await;
    let first = this_second(&t);
    t.advance(SECOND);
    assert!(is_enqueued(&fire_now(&t).await));
    assert!(matches!(fire(&t, &tick(first)).await, Ticked::Duplicate), "no scheduler fired it, but it is past");
    t.advance(3 * DAY);
    assert!(matches!(fire(&t, &tick(first)).await, Ticked::Duplicate), "also when markers have ended");
    assert_eq!(state(&t).await.last, first + TimeDelta::seconds(1), "the last tick does not move back");
}

#[tokio::test]
async fn missed_ticks_can_be_sent_oldest_first() {
    let t = Fixture::start().await;
    let first = this_second(&t);
    t.advance(3 * SECOND);
    for i in 0..3 {
        assert!(is_enqueued(&fire(&t, &tick(first + TimeDelta::seconds(i))).await), "{i}");
    }
    assert_eq!(t.drain().await.len(), 3);
}

#[tokio::test]
async fn a_task_of_a_tick_waits_out_its_jitter() {
    let t = Fixture::start().await;
    let at = this_second(&t);
    let mut tick = tick(at);
    let due = at + TimeDelta::milliseconds(20_500);
    tick.task.when = When::At(due);
    let Ticked::Enqueued(placed) = fire(&t, &tick).await else { panic!("it fires") };
    assert_eq!((placed.state, placed.process_at), (TaskState::Scheduled, due));
    assert_eq!(t.forward().await, 0);
    t.advance(21 * SECOND);
    assert_eq!(t.forward().await, 1);
    assert_eq!(t.drain().await, [report().task_id(at).to_string()]);
}

#[tokio::test]
async fn a_jitter_that_is_over_already_delays_nothing() {
    let t = Fixture::start().await;
    let mut tick = tick(this_second(&t));
    tick.task.when = When::At(tick.at);
    let Ticked::Enqueued(placed) = fire(&t, &tick).await else { panic!("it fires") };
    assert_eq!((placed.state, placed.process_at.timestamp()), (TaskState::Pending, t.now().timestamp()));
}

#[tokio::test]
async fn a_task_of_a_tick_may_wait_in_a_group() {
    let t = Fixture::start().await;
    let mut tick = tick(this_second(&t));
    tick.task = tick.task.grouped("g");
    let Ticked::Enqueued(placed) = fire(&t, &tick).await else { panic!("it fires") };
    assert_eq!(placed.state, TaskState::Aggregating);
    assert_eq!(t.group_sizes().await, [(group("g").to_string(), 1)]);
}

/// The tick of this second with a lock of a minute.
fn unique(t: &Fixture) -> Tick {
    let mut tick = tick(this_second(t));
    tick.task = tick.task.locked(&lock_key("k"), 60);
    tick
}

#[tokio::test]
async fn a_tick_takes_the_lock_of_its_task() {
    let t = Fixture::start().await;
    let tick = unique(&t);
    assert!(is_enqueued(&fire(&t, &tick).await));
    assert_eq!(t.holder_of(&lock_key("k")).await, Some(tick.task.id));
    t.advance(61 * SECOND);
    assert_eq!(t.holder_of(&lock_key("k")).await, None);
}

#[tokio::test]
async fn the_lock_of_a_delayed_task_of_a_tick_outlives_its_jitter() {
    let t = Fixture::start().await;
    let mut tick = unique(&t);
    tick.task.when = When::At(tick.at + TimeDelta::seconds(30));
    assert!(is_enqueued(&fire(&t, &tick).await));
    t.advance(80 * SECOND);
    assert_eq!(t.holder_of(&lock_key("k")).await, Some(tick.task.id));
}

#[tokio::test]
async fn a_tick_whose_lock_is_taken_is_refused_and_counts_as_fired() {
    let t = Fixture::start().await;
    t.enqueue(task("holder").locked(&lock_key("k"), 600)).await;
    let tick = unique(&t);
    let refused = fire(&t, &tick).await;
    assert!(
        matches!(&refused, Ticked::Refused(Refused::Duplicate { holder: Some(id) }) if *id == "holder"),
        "{refused:?}"
    );
    assert_eq!(state(&t).await.last, tick.at);
    let run = t.take_one().await;
    assert_eq!(t.settle(&run, done()).await, Settled::Ok);
    assert!(matches!(fire(&t, &tick).await, Ticked::Duplicate), "not even when the lock is free");
    t.advance(SECOND);
    assert!(is_enqueued(&fire(&t, &unique(&t)).await), "the next one is");
}

#[tokio::test]
async fn a_tick_whose_id_is_taken_is_refused_and_counts_as_fired() {
    let t = Fixture::start().await;
    let tick = unique(&t);
    t.enqueue(task(tick.task.id.as_str())).await;
    assert!(matches!(fire(&t, &tick).await, Ticked::Refused(Refused::IdConflict)));
    assert_eq!(t.holder_of(&lock_key("k")).await, None, "no lock is left behind");
    assert_eq!(state(&t).await.last, tick.at);
    assert!(matches!(fire(&t, &tick).await, Ticked::Duplicate));
    t.broker().forget_entry(&default_queue(), &report()).await.unwrap();
    assert_eq!(t.drain().await.len(), 1);
    assert!(matches!(fire(&t, &tick).await, Ticked::Duplicate), "it counts as fired");
}

/// The entry and the marker are gone, and the task is kept: the clock was set back by more than the marker's time, for example.
#[tokio::test]
async fn a_tick_whose_own_task_is_kept_is_refused_when_its_marker_is_over() {
    let t = Fixture::start().await;
    let mut tick = tick(this_second(&t));
    tick.task = tick.task.with_retention(86_400);
    assert!(is_enqueued(&fire(&t, &tick).await));
    let run = t.take_one().await;
    assert_eq!(t.settle(&run, complete("42")).await, Settled::Ok);
    t.broker().forget_entry(&default_queue(), &report()).await.unwrap();
    t.advance(601 * SECOND);
    let refused = fire(&t, &tick).await;
    assert!(matches!(refused, Ticked::Refused(Refused::IdConflict)), "{refused:?}");
    assert_eq!((state(&t).await.last, t.drain().await.len()), (tick.at, 0));
}

#[tokio::test]
async fn the_marker_refuses_a_tick_whose_entry_was_forgotten() {
    let t = Fixture::start().await;
    let tick = tick(this_second(&t));
    assert!(is_enqueued(&fire(&t, &tick).await));
    t.broker().forget_entry(&default_queue(), &report()).await.unwrap();
    assert_eq!(t.drain().await.len(), 1);
    t.advance(tick.marker - 60 * SECOND);
    assert!(matches!(fire(&t, &tick).await, Ticked::Duplicate));
    assert_eq!(state(&t).await.last, tick.at, "the last tick moves on");
    assert!(t.drain().await.is_empty());
    t.advance(SECOND);
    assert!(is_enqueued(&fire_now(&t).await));
}

#[tokio::test]
async fn the_marker_of_a_tick_is_taken_away_when_its_time_is_over() {
    let t = Fixture::start().await;
    let fire_one = async |sweeps| {
        assert!(is_enqueued(&fire_now(&t).await));
        let run = t.take_one().await;
        t.settle(&run, done()).await;
        if sweeps {
            t.broker().sweep(&default_queue()).await.unwrap();
        }
        t.store.dump().lines().count()
    };
    let with_one_marker = fire_one(true).await;
    for sweeps in [true, false, false] {
        t.advance(601 * SECOND);
        assert_eq!(fire_one(sweeps).await, with_one_marker, "sweeps: {sweeps}");
    }
}

#[tokio::test]
async fn an_entry_goes_on_after_the_clock_of_the_broker_was_an_hour_ahead() {
    let t = Fixture::start().await;
    let ahead = with_clock_off(&t, TimeDelta::hours(1)).await;
    let fired_ahead = tick(this_second(&t) + TimeDelta::hours(1));
    assert!(is_enqueued(&ahead.tick(&fired_ahead).await.unwrap()));
    assert_eq!(t.drain().await.len(), 1);
    // The tick that finds the wrong clock out fires, and becomes the last one.
    let at = this_second(&t);
    assert!(is_enqueued(&fire_now(&t).await));
    assert_eq!(state(&t).await.last, at);
    assert!(matches!(fire(&t, &tick(at - TimeDelta::seconds(1))).await, Ticked::Duplicate));
    t.advance(SECOND);
    assert!(is_enqueued(&fire_now(&t).await));
    assert_eq!(t.drain().await.len(), 2);
}

#[tokio::test]
async fn a_clock_that_was_set_back_fires_no_tick_of_the_time_before() {
    let t = Fixture::start().await;
    let ahead = with_clock_off(&t, TimeDelta::days(1)).await;
    let fired_ahead = tick(this_second(&t) + TimeDelta::days(1));
    assert!(is_enqueued(&ahead.tick(&fired_ahead).await.unwrap()));
    // A slow scheduler sends this tick, and its marker may have ended while the clock was ahead.
    let slow = tick(this_second(&t) - TimeDelta::seconds(6));
    assert!(matches!(fire(&t, &slow).await, Ticked::Duplicate));
    assert!(state(&t).await.last < t.now(), "no scheduler waits for a day");
    assert!(matches!(fire(&t, &slow).await, Ticked::Duplicate));
    assert!(is_enqueued(&fire_now(&t).await));
}

#[tokio::test]
async fn a_pause_outlives_a_clock_that_was_set_back() {
    let t = Fixture::start().await;
    let ahead = with_clock_off(&t, TimeDelta::days(1)).await;
    assert!(is_enqueued(&ahead.tick(&tick(this_second(&t) + TimeDelta::days(1))).await.unwrap()));
    t.broker().pause_entry(&default_queue(), &report(), true).await.unwrap();
    assert!(matches!(fire_now(&t).await, Ticked::Paused));
    assert_eq!(state(&t).await.last, this_second(&t));
}

#[tokio::test]
async fn the_marker_refuses_a_tick_that_comes_again_because_the_clock_was_set_back() {
    let t = Fixture::start().await;
    let ahead = with_clock_off(&t, TimeDelta::minutes(1)).await;
    let at = this_second(&t) + TimeDelta::minutes(1);
    assert!(is_enqueued(&ahead.tick(&tick(at)).await.unwrap()));
    assert!(is_enqueued(&fire_now(&t).await), "the clock went back");
    t.advance(60 * SECOND);
    assert!(matches!(fire(&t, &tick(at)).await, Ticked::Duplicate), "it was fired when the clock was ahead");
    t.advance(SECOND);
    assert!(is_enqueued(&fire_now(&t).await));
}

#[tokio::test]
async fn a_clock_that_is_a_few_seconds_behind_resets_nothing() {
    let t = Fixture::start().await;
    let at = this_second(&t);
    assert!(is_enqueued(&fire(&t, &tick(at)).await));
    let behind = with_clock_off(&t, TimeDelta::seconds(-4)).await;
    assert!(matches!(behind.tick(&tick(at - TimeDelta::seconds(4))).await.unwrap(), Ticked::Duplicate));
    assert_eq!(state(&t).await.last, at);
}

#[tokio::test]
async fn a_tick_of_a_paused_queue_waits() {
    let t = Fixture::start().await;
    t.broker().pause(&default_queue()).await.unwrap();
    assert!(is_enqueued(&fire_now(&t).await));
    assert!(t.drain().await.is_empty());
    t.broker().resume(&default_queue()).await.unwrap();
    assert_eq!(t.drain().await.len(), 1);
}

#[tokio::test]
async fn a_task_of_a_tick_is_retried_as_any_other() {
    let t = Fixture::start().await;
    assert!(is_enqueued(&fire_now(&t).await));
    let run = t.take_one().await;
    assert_eq!(t.settle(&run, retry(SECOND, "boom")).await, Settled::Ok);
    t.advance(2 * SECOND);
    assert_eq!(t.forward().await, 1);
    assert_eq!(t.take_one().await.text().retried, 1);
}

#[tokio::test]
async fn a_tick_whose_task_is_for_another_queue_is_refused_with_nothing_changed() {
    let t = Fixture::start().await;
    let mut tick = tick(this_second(&t));
    tick.task = tick.task.in_queue("low");
    assert!(t.broker().tick(&tick).await.is_err());
    assert!(t.broker().entry(&default_queue(), &report()).await.unwrap().is_none());
}

#[tokio::test]
async fn an_entry_that_is_paused_stays_so_when_its_queue_is_deleted() {
    let t = Fixture::start().await;
    assert!(is_enqueued(&fire(&t, &tick(this_second(&t))).await));
    t.broker().pause_entry(&default_queue(), &report(), true).await.unwrap();
    let run = t.take_one().await;
    assert_eq!(t.settle(&run, done()).await, Settled::Ok);
    t.broker().delete_queue(&default_queue()).await.unwrap();
    t.advance(SECOND);
    assert!(matches!(fire_now(&t).await, Ticked::Paused));
}

#[tokio::test]
async fn an_entry_whose_queue_is_deleted_goes_on() {
    let t = Fixture::start().await;
    let tick = tick(this_second(&t));
    assert!(is_enqueued(&fire(&t, &tick).await));
    let run = t.take_one().await;
    assert_eq!(t.settle(&run, done()).await, Settled::Ok);
    t.broker().delete_queue(&default_queue()).await.unwrap();
    t.advance(SECOND);
    assert!(is_enqueued(&fire_now(&t).await));
}
