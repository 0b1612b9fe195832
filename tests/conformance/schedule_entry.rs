//! Contract `Schedules`: an entry's stored state, the choice between programs' plans, and how an entry is paused and forgotten
//! (docs/design/schedules.md#versions).

use std::{sync::Arc, time::Duration};

use asynq_runtime::{
    broker::{EntryId, EntryPlan, EntryState, PlanChange, Planned, Tick, Ticked},
    clock::ManualClock,
};
use asynq_tests::{Store as _, default_queue, queue};
use chrono::TimeDelta;

use super::{
    Fixture,
    schedule::{fire, fire_now, is_enqueued, plan, report, state, this_second, tick},
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

#[tokio::test]
async fn a_new_entry_begins_now() {
    let t = Fixture::start().await;
    assert!(t.broker().entry(&default_queue(), &report()).await.unwrap().is_none());
    let planned = t.broker().plan_entry(&plan("0 9 * * *", 7)).await.unwrap();
    assert_eq!(planned.change, PlanChange::New);
    let planned = planned.state;
    let EntryState { spec, zone, revision, last, previous, paused, now } = planned.clone();
    assert_eq!((spec.as_str(), zone.as_str(), revision, previous, paused), ("0 9 * * *", "UTC", 7, None, false));
    assert!((now - t.now()).abs() < TimeDelta::milliseconds(1), "{now} is the broker's time");
    assert!((last - t.now()).abs() < TimeDelta::milliseconds(1), "{last} is now: nothing was missed");
    assert_eq!(state(&t).await, planned);
}

#[tokio::test]
async fn an_entry_planned_again_as_it_is_keeps_its_last_tick() {
    let t = Fixture::start().await;
    t.broker().plan_entry(&plan("* * * * * *", 1)).await.unwrap();
    t.advance(SECOND);
    let at = this_second(&t);
    assert!(is_enqueued(&fire_now(&t).await));
    t.advance(MINUTE);
    for revision in [1, 2] {
        let Planned { state, change } = t.broker().plan_entry(&plan("* * * * * *", revision)).await.unwrap();
        assert_eq!((state.last, state.previous, state.revision), (at, Some(report().task_id(at)), revision));
        assert_eq!(change, PlanChange::None);
    }
}

#[tokio::test]
async fn a_newer_program_with_another_spec_or_zone_begins_now() {
    let t = Fixture::start().await;
    t.broker().plan_entry(&plan("0 9 * * *", 1)).await.unwrap();
    let berlin = EntryPlan { zone: "Europe/Berlin".into(), ..plan("0 10 * * *", 3) };
    let mut before = ("0 9 * * *".to_owned(), "UTC".to_owned());
    for changed in [plan("0 10 * * *", 2), plan("0 11 * * *", 2), plan("0 10 * * *", 3), berlin] {
        t.advance(3 * DAY);
        let Planned { state: planned, change } = t.broker().plan_entry(&changed).await.unwrap();
        assert_eq!(change, PlanChange::Replaced { spec: before.0, zone: before.1 });
        before = (changed.spec.clone(), changed.zone.clone());
        assert_eq!((&planned.spec, &planned.zone, planned.revision), (&changed.spec, &changed.zone, changed.revision));
        assert!((planned.last - t.now()).abs() < TimeDelta::milliseconds(1), "old gaps are not read by a new spec");
        assert_eq!(state(&t).await, planned);
    }
}

#[tokio::test]
async fn an_older_program_changes_nothing() {
    let t = Fixture::start().await;
    let newest = t.broker().plan_entry(&plan("0 10 * * *", 2)).await.unwrap().state;
    t.advance(DAY);
    for older in [plan("0 9 * * *", 1), plan("0 10 * * *", 1)] {
        let Planned { state, change } = t.broker().plan_entry(&older).await.unwrap();
        assert_eq!((EntryState { now: newest.now, ..state }, change), (newest.clone(), PlanChange::None));
    }
}

#[tokio::test]
async fn an_older_program_replaces_the_plan_of_exactly_the_newer_one_that_is_gone() {
    let t = Fixture::start().await;
    t.broker().plan_entry(&plan("0 10 * * *", 3)).await.unwrap();
    t.broker().pause_entry(&default_queue(), &report(), true).await.unwrap();
    t.advance(DAY);
    let rolled_back = |gone| EntryPlan { supersedes: Some(gone), ..plan("* * * * * *", 1) };
    // The plan to be replaced is not the stored one.
    let known = t.broker().plan_entry(&rolled_back(2)).await.unwrap();
    assert_eq!((known.state.revision, known.change), (3, PlanChange::None));
    let Planned { state, change } = t.broker().plan_entry(&rolled_back(3)).await.unwrap();
    assert_eq!((state.spec.as_str(), state.revision, state.paused), ("* * * * * *", 1, true));
    assert_eq!(change, PlanChange::Replaced { spec: "0 10 * * *".into(), zone: "UTC".into() });
    assert!((state.last - t.now()).abs() < TimeDelta::milliseconds(1), "old gaps are not read by another spec");
    t.broker().pause_entry(&default_queue(), &report(), false).await.unwrap();
    t.advance(SECOND);
    assert!(is_enqueued(&fire_now(&t).await), "its ticks fire again");
    // A repeat after a lost answer changes nothing.
    assert_eq!(t.broker().plan_entry(&rolled_back(3)).await.unwrap().change, PlanChange::None);
}

#[tokio::test]
async fn an_entry_whose_last_tick_is_ahead_begins_now_for_any_program() {
    for revision in [1, 2, 3] {
        let t = Fixture::start().await;
        let clock = Arc::new(ManualClock::new(t.now() + TimeDelta::days(1)));
        let ahead = t.store.connect(Some(clock.clone())).await;
        ahead.plan_entry(&plan("* * * * * *", 2)).await.unwrap();
        let planned = t.broker().plan_entry(&plan("* * * * * *", revision)).await.unwrap().state;
        assert!((planned.last - t.now()).abs() < TimeDelta::milliseconds(1), "by {revision}: {}", planned.last);
        assert_eq!(planned.revision, revision.max(2));
        assert_eq!(state(&t).await, planned);
        // A clock that is a few seconds off does not count as set back.
        t.broker().forget_entry(&default_queue(), &report()).await.unwrap();
        clock.set(t.now() + TimeDelta::seconds(4));
        let begun = ahead.plan_entry(&plan("* * * * * *", 2)).await.unwrap().state;
        let planned = t.broker().plan_entry(&plan("* * * * * *", revision)).await.unwrap().state;
        assert_eq!(planned.last, begun.last);
    }
}

#[tokio::test]
async fn revisions_are_compared_as_numbers_however_large() {
    let t = Fixture::start().await;
    for (stored, older) in [(10, 9), (1_800_000_000, 999_999_999), (u64::MAX, u64::MAX - 1)] {
        t.broker().plan_entry(&plan("@daily", stored)).await.unwrap();
        let planned = t.broker().plan_entry(&plan("@hourly", older)).await.unwrap().state;
        assert_eq!((planned.spec.as_str(), planned.revision), ("@daily", stored));
    }
}

#[tokio::test]
async fn an_older_program_with_another_spec_yields() {
    let t = Fixture::start().await;
    let planned = t.broker().plan_entry(&plan("0 10 * * *", 2)).await.unwrap().state;
    t.advance(SECOND);
    assert!(matches!(fire_now(&t).await, Ticked::Stale));
    let after = state(&t).await;
    assert_eq!(EntryState { now: planned.now, ..after }, planned);
    assert!(t.drain().await.is_empty());
    // If both programs have the same spec, the first to come fires.
    let mut same = tick(this_second(&t));
    same.plan = plan("0 10 * * *", 1);
    assert!(is_enqueued(&fire(&t, &same).await));
    assert_eq!(state(&t).await.revision, 2);
}

#[tokio::test]
async fn a_tick_waits_where_the_broker_has_lost_one_that_the_scheduler_knows() {
    let t = Fixture::start().await;
    t.broker().plan_entry(&plan("* * * * * *", 1)).await.unwrap();
    t.advance(SECOND);
    assert!(is_enqueued(&fire_now(&t).await));
    let known = state(&t).await;
    t.advance(5 * SECOND);
    let sent = |known| Tick { known: Some(known), ..tick(this_second(&t)) };
    // As if the later ticks had been stored on a node that is gone.
    for _ in 0..2 {
        assert!(matches!(fire(&t, &sent(this_second(&t) - TimeDelta::seconds(1))).await, Ticked::Behind));
        assert_eq!(EntryState { now: known.now, ..state(&t).await }, known, "nothing was changed");
    }
    assert!(is_enqueued(&fire(&t, &tick(this_second(&t) - TimeDelta::seconds(1))).await), "it is made up for");
    assert!(is_enqueued(&fire(&t, &sent(this_second(&t) - TimeDelta::seconds(1))).await));
    // A forgotten entry is planned as a new one.
    t.broker().forget_entry(&default_queue(), &report()).await.unwrap();
    t.advance(SECOND);
    assert!(is_enqueued(&fire(&t, &sent(this_second(&t) - TimeDelta::seconds(1))).await));
}

#[tokio::test]
async fn an_early_tick_is_reported_as_early_first() {
    let t = Fixture::start().await;
    t.broker().plan_entry(&plan("0 10 * * *", 2)).await.unwrap();
    t.broker().pause_entry(&default_queue(), &report(), true).await.unwrap();
    assert!(matches!(fire(&t, &tick(this_second(&t) + TimeDelta::seconds(5))).await, Ticked::Early(_)));
}

#[tokio::test]
async fn the_ticks_of_a_paused_entry_pass_without_a_task_and_are_not_replayed() {
    let t = Fixture::start().await;
    t.broker().plan_entry(&plan("* * * * * *", 1)).await.unwrap();
    let pause = async |paused| t.broker().pause_entry(&default_queue(), &report(), paused).await.unwrap();
    assert!(pause(true).await);
    assert!(!pause(true).await, "it was paused already");
    assert!(state(&t).await.paused);
    t.advance(SECOND);
    let missed = this_second(&t);
    assert!(matches!(fire_now(&t).await, Ticked::Paused));
    assert_eq!(state(&t).await.last, missed);
    assert!(pause(false).await);
    assert!(!pause(false).await);
    assert!(matches!(fire(&t, &tick(missed)).await, Ticked::Duplicate));
    assert!(t.drain().await.is_empty());
    t.advance(SECOND);
    assert!(is_enqueued(&fire_now(&t).await));
}

#[tokio::test]
async fn a_resumed_entry_begins_now_even_if_no_leader_skipped_the_ticks_of_its_pause() {
    let t = Fixture::start().await;
    t.broker().plan_entry(&plan("* * * * * *", 1)).await.unwrap();
    t.broker().pause_entry(&default_queue(), &report(), true).await.unwrap();
    let paused = state(&t).await;
    t.advance(MINUTE);
    let missed = this_second(&t);
    t.broker().pause_entry(&default_queue(), &report(), false).await.unwrap();
    let resumed = state(&t).await;
    assert_eq!(resumed.last, resumed.now);
    assert!(resumed.last > paused.last && !resumed.paused);
    // Nor does the last tick move back if the entry was not paused.
    assert!(!t.broker().pause_entry(&default_queue(), &report(), false).await.unwrap());
    assert!(matches!(fire(&t, &tick(missed)).await, Ticked::Duplicate));
    t.advance(SECOND);
    assert!(is_enqueued(&fire_now(&t).await));
}

#[tokio::test]
async fn a_pause_outlives_a_change_of_the_spec() {
    let t = Fixture::start().await;
    t.broker().plan_entry(&plan("* * * * * *", 1)).await.unwrap();
    t.broker().pause_entry(&default_queue(), &report(), true).await.unwrap();
    assert!(t.broker().plan_entry(&plan("0 9 * * *", 2)).await.unwrap().state.paused);
}

#[tokio::test]
async fn an_unknown_entry_cannot_be_paused() {
    let t = Fixture::start().await;
    assert!(!t.broker().pause_entry(&default_queue(), &report(), true).await.unwrap());
    assert!(t.broker().entry(&default_queue(), &report()).await.unwrap().is_none());
}

#[tokio::test]
async fn an_entry_is_paused_and_forgotten_alone() {
    let t = Fixture::start().await;
    let mine = plan("* * * * * *", 1);
    let others = [
        EntryPlan { entry: EntryId::of("another", ""), ..mine.clone() },
        EntryPlan { queue: queue("low"), ..mine.clone() },
    ];
    for plan in others.iter().chain([&mine]) {
        t.broker().plan_entry(plan).await.unwrap();
    }
    assert!(t.broker().pause_entry(&default_queue(), &report(), true).await.unwrap());
    t.broker().forget_entry(&default_queue(), &report()).await.unwrap();
    for EntryPlan { queue, entry, .. } in &others {
        let other = t.broker().entry(queue, entry).await.unwrap().expect("the entry is known");
        assert!(!other.paused, "{queue} {entry}");
    }
}

#[tokio::test]
async fn a_forgotten_entry_is_a_new_one() {
    let t = Fixture::start().await;
    assert!(is_enqueued(&fire_now(&t).await));
    t.broker().pause_entry(&default_queue(), &report(), true).await.unwrap();
    for _ in 0..2 {
        t.broker().forget_entry(&default_queue(), &report()).await.unwrap();
        assert!(t.broker().entry(&default_queue(), &report()).await.unwrap().is_none());
    }
    let planned = t.broker().plan_entry(&plan("* * * * * *", 1)).await.unwrap().state;
    assert_eq!((planned.previous, planned.paused), (None, false));
    assert!((planned.last - t.now()).abs() < TimeDelta::milliseconds(1));
    t.advance(SECOND);
    assert!(is_enqueued(&fire_now(&t).await));
}

#[tokio::test]
async fn an_entry_without_ticks_is_remembered_for_as_long_as_its_plan_says() {
    let t = Fixture::start().await;
    let plan = EntryPlan { keep: 2 * MINUTE, ..plan("* * * * * *", 1) };
    t.broker().plan_entry(&plan).await.unwrap();
    t.advance(MINUTE);
    let known = async || t.broker().entry(&default_queue(), &report()).await.unwrap().is_some();
    assert!(known().await);
    assert!(is_enqueued(&fire(&t, &Tick { plan, ..tick(this_second(&t)) }).await));
    t.advance(MINUTE + 30 * SECOND);
    assert!(known().await, "its tick renewed it");
    // The plan of an older program does not.
    let older = super::schedule::plan("* * * * * *", 0);
    assert_eq!(t.broker().plan_entry(&older).await.unwrap().change, PlanChange::None);
    assert!(t.broker().pause_entry(&default_queue(), &report(), true).await.unwrap());
    t.advance(MINUTE);
    assert!(!known().await, "no program plans it any more");
    assert!(!t.broker().pause_entry(&default_queue(), &report(), true).await.unwrap());
    t.broker().plan_entry(&older).await.unwrap();
    assert!(!state(&t).await.paused, "its pause is over, too");
}
