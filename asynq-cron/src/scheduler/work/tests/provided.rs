//! The list and the log of a scheduler while its provider gives other entries.

use super::*;

/// The error of a provider that asks a database.
#[derive(Debug, thiserror::Error)]
#[error("the rows cannot be read")]
struct Unread(#[source] std::io::Error);

/// Takes the provider's only entry, without the entries that the program has itself.
fn provide(work: &mut Work, entry: &Arc<Periodic>) {
    work.known.retain(|_, known| known.origin != Origin::Program);
    work.provided(Ok(vec![Periodic::clone(entry)]));
}

/// Takes the same entry with an option that is not valid.
fn provide_invalid(work: &mut Work, entry: &Arc<Periodic>) {
    work.provided(Ok(vec![Periodic::clone(entry).jitter("5 parsecs")]));
}

/// Returns how many entries are still to be forgotten.
fn count_gone(work: &Work) -> usize {
    work.known.values().filter(|known| known.origin == Origin::Gone).count()
}

/// Handles the event of the call that ends next.
async fn take_next(work: &mut Work) {
    let event = soon(work.calls.join_next()).await.expect("a call is under way").expect("it does not panic");
    work.take(event);
}

/// Returns a leader that has listed the only entry of its provider, and forgets it after one look at the lists without it.
async fn listed() -> (Work, Arc<Periodic>, Running) {
    let (mut work, entry, running) = work("@yearly").await;
    provide(&mut work, &entry);
    work.begin_round();
    work.timers.measure += Duration::from_secs(3_600);
    work.settings.ttl = Duration::ZERO;
    take_next(&mut work).await;
    (work, entry, running)
}

/// Returns how many entries the broker lists.
async fn count_listed(work: &Work) -> usize {
    work.broker.scheduler_entries().await.expect("the broker answers").len()
}

#[tokio::test]
async fn the_last_entry_of_a_provider_is_not_listed_while_it_is_not_valid() {
    let (mut work, entry, running) = work("@yearly").await;
    provide(&mut work, &entry);
    work.begin_round();
    take_next(&mut work).await;
    assert_eq!(count_listed(&work).await, 1);
    provide_invalid(&mut work, &entry);
    work.begin_round();
    take_next(&mut work).await;
    assert_eq!(count_listed(&work).await, 0);
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn a_withdrawal_that_failed_is_tried_again() {
    let (mut work, _, running) = work("@yearly").await;
    work.begin_round();
    work.known.clear();
    // So a withdrawal begins.
    work.is_listed = false;
    let renew = work.timers.show;
    work.take(Event::ListingDone(renew, false, Vec::new()));
    assert!(work.is_listed && !work.showing);
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn a_list_and_a_withdrawal_follow_each_other() {
    let (mut work, entry, running) = work("@yearly").await;
    provide(&mut work, &entry);
    work.begin_round();
    work.timers.measure += Duration::from_secs(3_600);
    provide_invalid(&mut work, &entry);
    work.begin_round();
    assert_eq!(work.calls.len(), 1, "no withdrawal while the list is under way");
    take_next(&mut work).await;
    work.begin_round();
    provide(&mut work, &entry);
    work.begin_round();
    assert_eq!(work.calls.len(), 1, "no list while the withdrawal is under way");
    take_next(&mut work).await;
    assert_eq!(count_listed(&work).await, 0);
    work.begin_round();
    take_next(&mut work).await;
    assert_eq!(count_listed(&work).await, 1);
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn an_entry_that_the_provider_returns_before_it_is_forgotten_stays() {
    let (mut work, entry, running) = listed().await;
    let (queue, id) = (entry.queue(), entry.id());
    work.broker.plan_entry(&entry.plan(Utc::now(), 1)).await.expect("it is planned");
    work.broker.pause_entry(queue, id, true).await.expect("it is paused");
    // The entry returns before the list without it is sent, valid or not.
    for returns in [provide, provide_invalid] {
        work.provided(Ok(Vec::new()));
        assert_eq!(count_gone(&work), 1);
        returns(&mut work, &entry);
        assert_eq!(count_gone(&work), 0);
        provide(&mut work, &entry);
    }
    // It returns while that list is under way, and while the broker is asked which entries others list.
    for returns in [provide, provide_invalid] {
        for answers in [0, 1] {
            work.provided(Ok(Vec::new()));
            work.begin_round();
            for _ in 0..answers {
                take_next(&mut work).await;
            }
            returns(&mut work, &entry);
            while work.showing {
                take_next(&mut work).await;
            }
            assert!(work.calls.is_empty() && count_gone(&work) == 0);
            let state = work.broker.entry(queue, id).await.expect("the broker answers");
            assert!(state.is_some_and(|state| state.paused), "after {answers} answers");
            provide(&mut work, &entry);
            work.begin_round();
            take_next(&mut work).await;
        }
    }
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn an_entry_that_a_leader_could_not_forget_is_forgotten_after_the_next_list() {
    let (mut work, entry, running) = listed().await;
    work.broker.plan_entry(&entry.plan(Utc::now(), 1)).await.expect("it is planned");
    work.provided(Ok(Vec::new()));
    let renew = work.timers.show;
    for failed in
        [Event::ListingDone(renew, false, vec![entry.id().clone()]), Event::Forgotten(HashSet::new(), Vec::new())]
    {
        work.take(failed);
        assert!(work.calls.is_empty() && !work.showing);
        assert_eq!(count_gone(&work), 1);
    }
    work.timers.show = Instant::now();
    work.begin_round();
    while work.showing {
        take_next(&mut work).await;
    }
    assert_eq!(count_gone(&work), 0);
    let state = work.broker.entry(entry.queue(), entry.id()).await.expect("the broker answers");
    assert!(state.is_none(), "it is forgotten");
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn the_log_names_each_entry_that_is_left_out() {
    let log = Log::keep();
    let (mut work, entry, running) = work("@yearly").await;
    let wrong = ["1", "2"].map(|key| Periodic::clone(&entry).key(key).jitter("5 parsecs"));
    work.provided(Ok(Vec::from(wrong)));
    let lines = log.with("invalid duration");
    assert_eq!(lines.len(), 2, "{lines:?}");
    for name in ["report[1]", "report[2]"] {
        assert!(
            lines.iter().any(|line| line.starts_with(&format!("periodic entry {name} is left out: "))),
            "{lines:?}"
        );
    }
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_left_out_and_its_entry_is_not_forgotten() {
    let log = Log::keep();
    let (mut work, entry, running) = work("@yearly").await;
    let keyed = |key: &str| Periodic::clone(&entry).key(key);
    work.provided(Ok(vec![keyed("good"), keyed("bad")]));
    work.begin_round();
    let unreadable = Periodic::invalid("report", "bad", CronSpec::parse("0 25 * * *").expect_err("no such hour"));
    assert_eq!((unreadable.id(), unreadable.spec().next_after(Utc::now())), (keyed("bad").id(), None));
    work.provided(Ok(vec![keyed("good"), unreadable]));
    assert_eq!(count_gone(&work), 0);
    assert!(plans(&work, &keyed("good")) && !plans(&work, &keyed("bad")));
    let line = "periodic entry report[bad] is left out: the row of `report[bad]` is not valid: `0 25 * * *`: ";
    assert_eq!(log.with(line).len(), 1);
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn a_provider_that_goes_on_failing_is_in_the_log_again_after_an_hour() {
    let log = Log::keep();
    let (mut work, _, running) = work("@yearly").await;
    let failures_logged = |work: &mut Work| {
        work.provided(Err("access denied".into()));
        log.with("the known ones stay: access denied").len()
    };
    assert_eq!([failures_logged(&mut work), failures_logged(&mut work)], [1, 1]);
    work.run_due_timers(Instant::now() + WARN_AGAIN);
    assert_eq!([failures_logged(&mut work), failures_logged(&mut work)], [2, 2]);
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn the_causes_of_a_provider_that_fails_are_in_the_log_and_not_at_any_length() {
    let log = Log::keep();
    let (mut work, _, running) = work("@yearly").await;
    work.provided(Err(Unread(std::io::Error::other("connection refused")).into()));
    assert_eq!(log.with("the known ones stay: the rows cannot be read: connection refused").len(), 1);
    work.provided(Err("x".repeat(1 << 20).into()));
    let lines = log.with("the known ones stay: x");
    assert!(lines.len() == 1 && lines[0].len() < 5_000, "{} lines", lines.len());
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn a_provider_that_blocks_is_in_the_log_again_after_an_hour() {
    let log = Log::keep();
    let (mut work, _, running) = work("@yearly").await;
    let hangs = || std::future::pending::<Result<Vec<Periodic>, BoxError>>();
    work.provider = Some(Provider(Arc::new(move || Box::pin(hangs()))));
    let now = Instant::now();
    work.provide(now);
    // The call is given up, and its end is not taken: it blocks its thread.
    let limit = Duration::from_secs(30);
    for (lines, after) in [(1, limit), (1, limit * 2), (2, WARN_AGAIN)] {
        work.run_due_timers(now + after);
        assert_eq!(log.with("it is asked again when its call has ended").len(), lines, "after {after:?}");
    }
    assert!(!work.providing.is_empty());
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn many_warnings_about_one_topic_do_not_hide_those_about_another() {
    let log = Log::keep();
    let (mut work, _, running) = work("@yearly").await;
    for entry in 0..=MOST_WARNINGS {
        work.warn_once(WarningTopic::NewerVersion, format!("entry {entry} has a newer version"));
    }
    work.warn_once(WarningTopic::Provider, "access denied".to_owned());
    assert_eq!(log.with("has a newer version").len(), MOST_WARNINGS);
    assert_eq!(log.with("access denied").len(), 1);
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn a_provider_that_fails_again_is_in_the_log_again_though_a_row_stays_invalid() {
    let log = Log::keep();
    let (mut work, entry, running) = work("@yearly").await;
    for failures in [1, 2] {
        work.provided(Err("access denied".into()));
        provide_invalid(&mut work, &entry);
        assert_eq!(log.with("the known ones stay: access denied").len(), failures);
        assert_eq!(log.with("invalid duration").len(), 1);
    }
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn many_entries_that_are_gone_are_forgotten_at_once() {
    let (mut work, entry, running) = work("@yearly").await;
    let entries: Vec<_> = (0..2 * MOST_AT_ONCE + 2).map(|key| Periodic::clone(&entry).key(&key.to_string())).collect();
    for entry in &entries {
        work.broker.plan_entry(&entry.plan(Utc::now(), 1)).await.expect("it is planned");
    }
    work.provided(Ok(entries.clone()));
    work.begin_round();
    work.timers.measure += Duration::from_secs(3_600);
    // Then one look at the lists is enough.
    work.settings.ttl = Duration::ZERO;
    take_next(&mut work).await;
    work.provided(Ok(Vec::new()));
    work.begin_round();
    let mut events = 0;
    while work.showing {
        take_next(&mut work).await;
        events += 1;
    }
    // The list, the lists of others, and three batches.
    assert_eq!(events, 5);
    for entry in &entries {
        let state = work.broker.entry(entry.queue(), entry.id()).await.expect("the broker answers");
        assert!(state.is_none(), "{entry} is forgotten");
    }
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn a_tick_that_is_behind_does_not_have_planned_entries_planned_again() {
    let (mut work, entry, running) = work("@yearly").await;
    let entries = ["1", "2"].map(|key| Periodic::clone(&entry).key(key));
    work.provided(Ok(Vec::from(entries)));
    work.begin_round();
    work.timers.measure += Duration::from_secs(3_600);
    take_next(&mut work).await;
    work.begin_round();
    while work.planning > 0 {
        take_next(&mut work).await;
    }
    let fire = Fire { at: Utc::now(), missed: 0 };
    let behind = |entry: &Arc<Periodic>| Event::Ticked(Arc::clone(entry), fire, Ok(Ticked::Behind), false, at_once());
    // One entry has changed, and is planned for that reason alone.
    work.to_plan.insert((Instant::now(), entry.id().clone()));
    work.take(behind(&entry));
    assert_eq!(work.to_plan.len(), 3, "the broker lost writes");
    let [planned, waits] = [work.to_plan.pop_first(), work.to_plan.first().cloned()]
        .map(|waiting| Arc::clone(&work.known[&waiting.expect("it waits").1].entry));
    work.take(behind(&waits));
    assert!(work.to_plan.iter().all(|(_, id)| id != planned.id()));
    // One that was planned before the broker lost further writes is planned once more.
    work.take(behind(&planned));
    assert!(work.to_plan.iter().any(|(_, id)| id == planned.id()));
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn an_entry_is_not_forgotten_before_two_lists_lack_it_a_third_of_a_lease_apart() {
    let (mut work, entry, running) = work("@yearly").await;
    work.broker.plan_entry(&entry.plan(Utc::now(), 1)).await.expect("it is planned");
    provide(&mut work, &entry);
    work.begin_round();
    work.timers.measure += Duration::from_secs(3_600);
    take_next(&mut work).await;
    work.provided(Ok(Vec::new()));
    let hours = Duration::from_secs(10_800);
    for (ttl, is_known) in [(hours, true), (hours, true), (Duration::ZERO, false)] {
        work.settings.ttl = ttl;
        work.timers.show = Instant::now();
        work.begin_round();
        while work.showing {
            take_next(&mut work).await;
        }
        let state = work.broker.entry(entry.queue(), entry.id()).await.expect("the broker answers");
        assert_eq!((state.is_some(), count_gone(&work)), (is_known, usize::from(is_known)));
    }
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn a_new_leader_lists_entries_of_its_provider_before_that_answers() {
    let (mut work, entry, running) = work("@yearly").await;
    provide(&mut work, &entry);
    work.provider = Some(Provider(Arc::new(|| Box::pin(async { Err(BoxError::from("access denied")) }))));
    work.begin_round();
    assert!(work.is_unconfirmed && !plans(&work, &entry));
    take_next(&mut work).await;
    assert_eq!(count_listed(&work).await, 1);
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn a_follower_without_entries_of_its_own_reads_no_lists() {
    let (mut work, entry, running) = work("@yearly").await;
    for (origin, calls) in [(Origin::Provider, 0), (Origin::Program, 1)] {
        known(&mut work, &entry).origin = origin;
        let now = Instant::now();
        work.timers.list = now;
        work.run_due_timers(now);
        assert_eq!(work.calls.len(), calls, "{origin:?}");
    }
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn an_entry_that_goes_while_it_is_not_valid_is_forgotten() {
    let (mut work, entry, running) = listed().await;
    work.broker.plan_entry(&entry.plan(Utc::now(), 1)).await.expect("it is planned");
    provide_invalid(&mut work, &entry);
    work.provided(Ok(Vec::new()));
    work.begin_round();
    while work.showing {
        take_next(&mut work).await;
    }
    let state = work.broker.entry(entry.queue(), entry.id()).await.expect("the broker answers");
    assert!(state.is_none(), "it is forgotten");
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn an_entry_that_came_back_and_went_while_others_were_forgotten_waits_for_the_next_list() {
    let (mut work, entry, running) = work("@yearly").await;
    provide(&mut work, &entry);
    work.begin_round();
    work.timers.measure += Duration::from_secs(3_600);
    take_next(&mut work).await;
    work.provided(Ok(Vec::new()));
    // It was to be forgotten before it came back.
    work.take(Event::Forgotten(HashSet::new(), vec![entry.id().clone()]));
    assert!(work.calls.is_empty() && !work.showing);
    assert_eq!(count_gone(&work), 1);
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn an_answer_of_the_provider_that_comes_too_late_is_discarded_with_a_warning() {
    let log = Log::keep();
    let (mut work, entry, running) = work("@yearly").await;
    work.asked_at = Instant::now().checked_sub(Duration::from_secs(30));
    work.provider_ended(Ok(Ok(vec![Periodic::clone(&entry).key("late")])));
    assert!(!work.has_answered);
    assert_eq!(log.with("the provider of periodic entries has not answered for 30s").len(), 1);
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn a_new_leader_counts_the_entries_that_it_lists() {
    let log = Log::keep();
    let (mut work, entry, running) = work("@yearly").await;
    let keyed = |key: &str| Periodic::clone(&entry).key(key);
    work.provided(Ok(vec![keyed("good"), keyed("bad")]));
    work.provided(Ok(vec![keyed("good"), keyed("bad").jitter("5 parsecs")]));
    work.begin_round();
    let lines = log.with("this scheduler leads");
    // The entry of the program is one of them.
    assert!(lines.len() == 1 && lines[0].contains(" entries=2"), "{lines:?}");
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn the_clock_of_a_queue_is_forgotten_with_the_entries_of_the_queue() {
    let (mut work, _, running) = work("@yearly").await;
    for tenant in ["a", "b", "c"] {
        let spec = CronSpec::parse("@yearly").expect("a spec");
        let entry = Periodic::new(spec, RawTask::new("report", "").queue(tenant)).expect("an entry").foreign();
        let entry = Arc::new(entry.key(tenant));
        provide(&mut work, &entry);
        let now = Utc::now();
        work.take(Event::Measured(Arc::clone(&entry), now, Ok(Some(state(now, now))), at_once()));
        assert!(work.clocks.len() == 1 && work.clocks.contains_key(entry.queue()), "{tenant}");
    }
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn a_change_of_the_provider_ends_the_pause_of_the_changed_entry_alone() {
    let (mut work, entry, running) = work("@yearly").await;
    let keyed = |key: &str| Periodic::clone(&entry).key(key);
    work.provided(Ok(vec![keyed("refused")]));
    work.begin_round();
    work.to_plan.clear();
    let pause = (Instant::now() + RETRY_OTHER, keyed("refused").id().clone());
    work.plan_at(pause.0, &pause.1);
    work.provided(Ok(vec![keyed("refused"), keyed("new")]));
    let times = |work: &Work, id: &EntryId| -> Vec<Instant> {
        work.to_plan.iter().filter(|(_, waiting)| waiting == id).map(|(at, _)| *at).collect()
    };
    assert_eq!(times(&work, &pause.1), [pause.0]);
    assert!(times(&work, keyed("new").id())[0] < pause.0);
    work.provided(Ok(vec![keyed("refused").jitter(Duration::from_secs(60)), keyed("new")]));
    let changed = times(&work, &pause.1);
    assert!(changed.len() == 1 && changed[0] < pause.0, "{changed:?}");
    running.shutdown().await.expect("it leaves");
}
