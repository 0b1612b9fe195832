//! Contract `Schedules`: the lead, and the schedulers in asynq's tools (docs/design/schedules.md#the-lead).

use std::{sync::Arc, time::Duration};

use asynq_runtime::{
    broker::{Broker, Candidate, Lead, Page},
    task::{SchedulerEnqueueEvent, SchedulerEntry, Timestamp},
};
use asynq_tests::{default_queue, soon};
use chrono::{DateTime, TimeDelta, Utc};
use tokio::task::JoinHandle;

use super::{Fixture, schedule::report};

/// Redis counts the time of a lead by its own clock, besides the time that a case lets pass: so the time is minutes, of which a
/// slow machine may use some. SQLite and the cases count by the manual clock alone.
const TTL: Duration = Duration::from_secs(1000);
/// The safety net: far beyond the patience of `soon`, so that a wait that only the net would end fails.
const LONG: Duration = Duration::from_secs(3600);

fn candidate(token: &str, revision: u64) -> Candidate {
    Candidate { program: "shop".into(), token: token.into(), revision }
}

async fn lead(t: &Fixture, token: &str, revision: u64) -> Lead {
    t.broker().lead(&candidate(token, revision), TTL).await.unwrap()
}

async fn resign(t: &Fixture, token: &str, revision: u64) {
    t.broker().resign(&candidate(token, revision)).await.unwrap();
}

const OURS: Lead = Lead::Ours { wanted: false };
const WANTED: Lead = Lead::Ours { wanted: true };

#[track_caller]
fn is_anothers(lead: Lead) {
    assert!(matches!(lead, Lead::Another(left) if left <= TTL && !left.is_zero()), "{lead:?}");
}

#[tokio::test]
async fn the_first_candidate_leads_and_the_others_learn_for_how_long() {
    let t = Fixture::start().await;
    assert_eq!(lead(&t, "a", 1).await, OURS);
    t.broker().sweep(&default_queue()).await.unwrap();
    is_anothers(lead(&t, "b", 1).await);
    t.advance(TTL * 6 / 10);
    let Lead::Another(left) = lead(&t, "b", 1).await else { panic!("a leads") };
    assert!(left <= TTL * 4 / 10, "{left:?}");
}

#[tokio::test]
async fn a_leader_renews_its_lease_by_asking_again() {
    let t = Fixture::start().await;
    for _ in 0..5 {
        assert_eq!(lead(&t, "a", 1).await, OURS);
        t.advance(TTL * 8 / 10);
        is_anothers(lead(&t, "b", 1).await);
    }
}

#[tokio::test]
async fn a_lead_that_is_not_renewed_ends() {
    let t = Fixture::start().await;
    assert_eq!(lead(&t, "a", 1).await, OURS);
    t.advance(TTL + Duration::from_millis(1));
    assert_eq!(lead(&t, "b", 1).await, OURS);
    is_anothers(lead(&t, "a", 1).await);
}

#[tokio::test]
async fn a_resignation_frees_the_lead_at_once() {
    let t = Fixture::start().await;
    assert_eq!(lead(&t, "a", 1).await, OURS);
    resign(&t, "a", 1).await;
    assert_eq!(lead(&t, "b", 1).await, OURS);
}

#[tokio::test]
async fn a_scheduler_cannot_resign_for_another() {
    let t = Fixture::start().await;
    resign(&t, "nobody", 1).await;
    assert_eq!(lead(&t, "a", 1).await, OURS);
    resign(&t, "b", 1).await;
    is_anothers(lead(&t, "b", 1).await);
    assert_eq!(lead(&t, "a", 1).await, OURS);
}

#[tokio::test]
async fn of_many_that_ask_at_once_one_leads() {
    let t = Fixture::start().await;
    let brokers = [t.shared(), t.another_broker().await];
    let mut races = tokio::task::JoinSet::new();
    for i in 0..8 {
        let broker = brokers[i % 2].clone();
        races.spawn(async move { broker.lead(&candidate(&format!("c{i}"), 1), TTL).await.unwrap() });
    }
    assert_eq!(races.join_all().await.into_iter().filter(|lead| *lead == OURS).count(), 1);
}

#[tokio::test]
async fn a_newer_program_wants_the_lead_and_gets_it_when_the_older_resigns() {
    let t = Fixture::start().await;
    assert_eq!(lead(&t, "old", 1).await, OURS);
    is_anothers(lead(&t, "new", 2).await);
    assert_eq!(lead(&t, "old", 1).await, WANTED);
    resign(&t, "old", 1).await;
    assert_eq!(lead(&t, "new", 2).await, OURS);
    is_anothers(lead(&t, "old", 1).await);
    assert_eq!(lead(&t, "new", 2).await, OURS);
}

#[tokio::test]
async fn a_request_that_was_fulfilled_is_forgotten() {
    let t = Fixture::start().await;
    assert_eq!(lead(&t, "new", 2).await, OURS);
    resign(&t, "new", 2).await;
    assert_eq!(lead(&t, "old", 1).await, OURS);
    is_anothers(lead(&t, "new", 2).await);
    resign(&t, "old", 1).await;
    assert_eq!(lead(&t, "new", 2).await, OURS);
    resign(&t, "new", 2).await;
    assert_eq!(lead(&t, "old", 1).await, OURS, "a roll-back finds no other candidate");
    is_anothers(lead(&t, "new", 2).await);
    assert_eq!(lead(&t, "old", 1).await, WANTED, "but the next roll-out");
}

#[tokio::test]
async fn a_request_ends_with_its_program() {
    let t = Fixture::start().await;
    assert_eq!(lead(&t, "old", 1).await, OURS);
    is_anothers(lead(&t, "new", 2).await);
    for _ in 0..4 {
        t.advance(TTL * 4 / 10);
        lead(&t, "old", 1).await;
    }
    assert_eq!(lead(&t, "old", 1).await, OURS, "the newer program has not asked for long");
}

#[tokio::test]
async fn programs_of_the_same_or_an_older_revision_want_nothing() {
    let t = Fixture::start().await;
    assert_eq!(lead(&t, "a", 2).await, OURS);
    is_anothers(lead(&t, "b", 2).await);
    is_anothers(lead(&t, "c", 1).await);
    assert_eq!(lead(&t, "a", 2).await, OURS);
}

#[tokio::test]
async fn the_newest_of_many_requests_counts() {
    let t = Fixture::start().await;
    assert_eq!(lead(&t, "a", 1).await, OURS);
    is_anothers(lead(&t, "c", 30).await);
    is_anothers(lead(&t, "b", 2).await);
    resign(&t, "a", 1).await;
    assert_eq!(lead(&t, "b", 2).await, WANTED, "30 is newer than 2");
}

#[tokio::test]
async fn each_program_has_a_leader_of_its_own() {
    let t = Fixture::start().await;
    let stock = |token: &str, revision| Candidate { program: "stock".into(), ..candidate(token, revision) };
    let lead_stock = async |token, revision| t.broker().lead(&stock(token, revision), TTL).await.unwrap();
    assert_eq!(lead(&t, "a", 1).await, OURS);
    assert_eq!(lead_stock("b", 2).await, OURS);
    is_anothers(lead_stock("c", 3).await);
    assert_eq!(lead(&t, "a", 1).await, OURS, "no replica of its own program wants the lead");
    assert_eq!(lead_stock("b", 2).await, WANTED);
    // A token of the other program's leader does not end the lead either.
    t.broker().resign(&stock("a", 1)).await.unwrap();
    is_anothers(lead(&t, "d", 1).await);
    t.broker().resign(&stock("b", 2)).await.unwrap();
    assert_eq!(lead_stock("c", 3).await, OURS);
    is_anothers(lead(&t, "d", 1).await);
}

#[tokio::test]
async fn names_of_programs_may_be_any_text() {
    let t = Fixture::start().await;
    let names = ["", "want", "a:b", "{a}", "a}b{", "Ünder wäre", "leader", " "];
    for name in names {
        let me = Candidate { program: name.into(), token: name.into(), revision: 1 };
        assert_eq!(t.broker().lead(&me, TTL).await.unwrap(), OURS, "{name:?}");
    }
    for name in names {
        let other = Candidate { program: name.into(), token: "other".into(), revision: 1 };
        is_anothers(t.broker().lead(&other, TTL).await.unwrap());
    }
}

#[tokio::test]
async fn without_a_leader_a_wait_for_the_lead_ends_at_once() {
    let t = Fixture::real_time().await;
    soon(t.broker().wait_for_lead("shop", LONG)).await.unwrap();
}

#[tokio::test]
async fn a_wait_for_the_lead_ends_at_its_limit() {
    let t = Fixture::real_time().await;
    assert_eq!(t.broker().lead(&candidate("a", 1), LONG).await.unwrap(), OURS);
    soon(t.broker().wait_for_lead("shop", Duration::from_millis(200))).await.unwrap();
}

/// Waits for the lead; returns once the wait has surely begun.
async fn waiting(broker: &Arc<dyn Broker>) -> JoinHandle<()> {
    // The first wait sets up the broker's listener.
    broker.wait_for_lead("shop", Duration::from_millis(50)).await.unwrap();
    let broker = broker.clone();
    let handle = tokio::spawn(async move { broker.wait_for_lead("shop", LONG).await.unwrap() });
    tokio::task::yield_now().await;
    handle
}

#[tokio::test]
async fn a_resignation_wakes_every_waiting_scheduler_at_once() {
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    let leader = candidate("a", 1);
    for _ in 0..3 {
        assert_eq!(there.lead(&leader, LONG).await.unwrap(), OURS);
        let waiters = [waiting(&t.shared()).await, waiting(&there).await];
        there.resign(&leader).await.unwrap();
        for waiter in waiters {
            soon(waiter).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_wait_for_the_lead_of_one_program_knows_nothing_of_another() {
    let t = Fixture::real_time().await;
    assert_eq!(t.broker().lead(&candidate("a", 1), LONG).await.unwrap(), OURS);
    soon(t.broker().wait_for_lead("stock", LONG)).await.unwrap();
}

#[tokio::test]
async fn the_end_of_a_lead_wakes_a_waiting_scheduler() {
    let t = Fixture::real_time().await;
    assert_eq!(t.broker().lead(&candidate("a", 1), Duration::from_millis(600)).await.unwrap(), OURS);
    let wait = async {
        // The wait may return early without a cause.
        while t.broker().lead(&candidate("b", 1), LONG).await.unwrap() != OURS {
            t.broker().wait_for_lead("shop", LONG).await.unwrap();
        }
    };
    soon(wait).await;
}

/// How long entries are shown; Redis counts this time as it counts [`TTL`].
const SHOWN: Duration = Duration::from_secs(2000);

fn timestamp(at: DateTime<Utc>) -> Option<Timestamp> {
    Some(at.into())
}

fn entry(t: &Fixture, id: &str) -> SchedulerEntry {
    SchedulerEntry {
        id: id.into(),
        spec: "0 9 * * *".into(),
        task_type: "report".into(),
        task_payload: "{}".into(),
        enqueue_options: vec!["Queue(\"low\")".into(), "MaxRetry(3)".into()],
        next_enqueue_time: timestamp(t.now() + TimeDelta::hours(1)),
        prev_enqueue_time: Some(Timestamp::NEVER),
        task: None,
        compat: true,
    }
}

async fn listed_ids(t: &Fixture) -> Vec<String> {
    t.broker().scheduler_entries().await.unwrap().into_iter().map(|entry| entry.id).collect()
}

async fn show(t: &Fixture, scheduler: &str, ids: &[&str]) {
    let entries: Vec<_> = ids.iter().map(|id| entry(t, id)).collect();
    t.broker().show_entries(scheduler, &entries, SHOWN).await.unwrap();
}

#[tokio::test]
async fn entries_are_shown_whole_and_in_their_order() {
    let t = Fixture::start().await;
    let entries = [entry(&t, "one"), entry(&t, "two"), entry(&t, "three")];
    t.broker().show_entries("host:1:s", &entries, SHOWN).await.unwrap();
    assert_eq!(t.broker().scheduler_entries().await.unwrap(), entries);
}

#[tokio::test]
async fn entries_that_are_shown_again_take_the_place_of_the_earlier_ones() {
    let t = Fixture::start().await;
    show(&t, "host:1:s", &["one", "two"]).await;
    show(&t, "host:1:s", &["two", "three"]).await;
    assert_eq!(listed_ids(&t).await, ["two", "three"]);
    show(&t, "host:1:s", &[]).await;
    assert!(listed_ids(&t).await.is_empty());
}

#[tokio::test]
async fn the_entries_of_every_scheduler_are_shown() {
    let t = Fixture::start().await;
    show(&t, "host:1:a", &["one"]).await;
    show(&t, "host:1:b", &["one", "two"]).await;
    let mut ids = listed_ids(&t).await;
    ids.sort();
    assert_eq!(ids, ["one", "one", "two"]);
}

#[tokio::test]
async fn entries_that_are_not_shown_again_disappear() {
    let t = Fixture::start().await;
    show(&t, "host:1:a", &["one"]).await;
    t.advance(SHOWN * 15 / 20);
    show(&t, "host:1:b", &["two"]).await;
    assert_eq!(listed_ids(&t).await.len(), 2);
    t.advance(SHOWN * 10 / 20);
    assert_eq!(listed_ids(&t).await, ["two"]);
}

#[tokio::test]
async fn entries_that_are_withdrawn_disappear_at_once() {
    let t = Fixture::start().await;
    show(&t, "host:1:a", &["one"]).await;
    show(&t, "host:1:b", &["two"]).await;
    for _ in 0..2 {
        t.broker().withdraw_entries("host:1:a").await.unwrap();
        assert_eq!(listed_ids(&t).await, ["two"]);
    }
}

fn event(t: &Fixture, n: i64) -> SchedulerEnqueueEvent {
    SchedulerEnqueueEvent { task_id: n.to_string(), enqueue_time: timestamp(t.now() + TimeDelta::seconds(n)) }
}

async fn record(t: &Fixture, events: impl Iterator<Item = i64>) {
    for n in events {
        t.broker().record_enqueue(report().as_str(), &event(t, n)).await.unwrap();
    }
}

async fn history(t: &Fixture, number: usize, size: usize) -> Vec<SchedulerEnqueueEvent> {
    t.broker().enqueue_history(report().as_str(), Page { number, size }).await.unwrap()
}

#[tokio::test]
async fn the_history_of_an_entry_is_read_newest_first_and_by_pages() {
    let t = Fixture::start().await;
    record(&t, 0..7).await;
    let expected = |numbers: &[i64]| numbers.iter().map(|n| event(&t, *n)).collect::<Vec<_>>();
    assert_eq!(history(&t, 1, 3).await, expected(&[6, 5, 4]));
    assert_eq!(history(&t, 3, 3).await, expected(&[0]));
    assert_eq!(history(&t, 4, 3).await, expected(&[]));
    assert_eq!(history(&t, 1, 0).await, expected(&[]));
    assert_eq!(history(&t, 1, usize::MAX).await.len(), 7);
    assert_eq!(history(&t, usize::MAX, usize::MAX).await, expected(&[]));
}

#[tokio::test]
async fn the_history_keeps_the_newest_thousand() {
    let t = Fixture::start().await;
    let older = event(&t, -1);
    t.broker().record_enqueue("another", &older).await.unwrap();
    record(&t, 0..1010).await;
    let all = history(&t, 1, 2000).await;
    assert_eq!((all.len(), all[0].task_id.as_str(), all[999].task_id.as_str()), (1000, "1009", "10"));
    assert_eq!(t.broker().enqueue_history("another", Page::default()).await.unwrap(), [older]);
}

#[tokio::test]
async fn an_event_that_is_recorded_again_is_there_once() {
    let t = Fixture::start().await;
    let first = event(&t, 0);
    for _ in 0..2 {
        t.broker().record_enqueue(report().as_str(), &first).await.unwrap();
    }
    assert_eq!(history(&t, 1, 10).await, [first]);
}

#[tokio::test]
async fn the_history_is_kept_for_ninety_days_without_new_events() {
    let t = Fixture::start().await;
    let day = Duration::from_secs(86_400);
    record(&t, 0..1).await;
    t.advance(80 * day);
    record(&t, 0..1).await;
    t.advance(80 * day);
    assert_eq!(history(&t, 1, 10).await.len(), 2);
    t.advance(11 * day);
    assert!(history(&t, 1, 10).await.is_empty());
}

#[tokio::test]
async fn histories_of_two_entries_know_nothing_of_each_other_and_go_with_their_entries() {
    let t = Fixture::start().await;
    record(&t, 0..3).await;
    t.broker().record_enqueue("another", &event(&t, 9)).await.unwrap();
    assert_eq!(history(&t, 1, 10).await.len(), 3);
    t.broker().forget_entry(&default_queue(), &report()).await.unwrap();
    assert!(history(&t, 1, 10).await.is_empty());
    let events = t.broker().enqueue_history("another", Page::default()).await.unwrap();
    assert_eq!(events, [event(&t, 9)]);
}
