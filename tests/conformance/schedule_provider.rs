//! Entries of a provider: how they come, change and go, and the effect of a failing or hanging provider on the others.
//!
//! Runs on the same brokers as [`schedule_served`](super::schedule_served), for the same reasons.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use asynq_cron::{CronSpec, Periodic, SchedulerService};
use asynq_runtime::prelude::*;
use asynq_test_support::Log;
use asynq_tests::eventually;

use super::{
    Fixture,
    schedule_served::{
        EACH_SECOND, SHORTEST, changes, entry, listed, scheduler, sorted_changes, start, state, ticks, until_listed,
        until_logged, until_more, until_state, until_ticks,
    },
};

/// The current answer of a provider.
type ProviderAnswer = Arc<Mutex<Result<Vec<Periodic>, String>>>;

fn provided(service: SchedulerService, answer: &ProviderAnswer) -> SchedulerService {
    let answer = Arc::clone(answer);
    service.provider(Duration::from_secs(1), move || {
        let answer = answer.lock().unwrap().clone();
        async move { answer.map_err(BoxError::from) }
    })
}

#[tokio::test]
async fn entries_of_a_provider_come_change_and_go_while_the_program_runs() {
    let (t, log) = (Fixture::real_time().await, Log::keep());
    let (a, b, fixed) = (entry("a", EACH_SECOND), entry("b", EACH_SECOND), entry("fixed", "@yearly"));
    let answer: ProviderAnswer = Arc::new(Mutex::new(Ok(vec![a.clone()])));
    let provide = |entries: &[&Periodic]| *answer.lock().unwrap() = Ok(entries.iter().map(|&e| e.clone()).collect());
    // A short lease, because an entry is forgotten half a lease after it has left the list.
    let service = scheduler("shop", 1, [fixed]).leader_ttl(SHORTEST).election(false);
    let running = start(&t, provided(service, &answer)).await;
    until_ticks(&t, &a, 2).await;
    let mut seen = 0;
    assert_eq!(sorted_changes(&log, "shop", &mut seen), ["+ a * * * * * *", "+ fixed @yearly"]);

    provide(&[&a, &b]);
    until_ticks(&t, &b, 1).await;
    until_listed(&t, &["a", "b", "fixed"]).await;

    let changed = entry("a", "0 0 1 1 *");
    provide(&[&changed, &b]);
    until_state(&t, &a, "the new times", |state| state.spec == "0 0 1 1 *").await;
    until_logged(&log, "~ a").await;
    let fired = ticks(&t, &a).await;
    until_more(&t, &b, 2).await;
    assert_eq!(ticks(&t, &a).await, fired);

    provide(&[&changed]);
    eventually("b is forgotten", async || state(&t, &b).await.is_none().then_some(())).await;
    until_listed(&t, &["a", "fixed"]).await;
    until_logged(&log, "- b").await;
    let expected = ["+ b * * * * * *", "~ a * * * * * * → 0 0 1 1 *", "- b"];
    assert_eq!(changes(&log, "shop", &mut seen), expected);
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_provider_that_hangs_is_called_once_at_a_time_and_given_up_and_stops_no_tick() {
    let (t, log) = (Fixture::real_time().await, Log::keep());
    let (fixed, known) = (entry("fixed", EACH_SECOND), entry("known", EACH_SECOND));
    let (calls, answer) = (Arc::new(AtomicUsize::new(0)), known.clone());
    let counted = Arc::clone(&calls);
    let service = scheduler("shop", 1, [fixed.clone()]).provider(Duration::from_secs(1), move || {
        let (call, answer) = (counted.fetch_add(1, SeqCst), answer.clone());
        async move {
            // Hangs as a table does behind a connection that was cut silently.
            if call > 0 {
                std::future::pending::<()>().await;
            }
            Ok(vec![answer])
        }
    });
    let running = start(&t, service).await;
    eventually("a call that hangs", async || (calls.load(SeqCst) == 2).then_some(())).await;
    until_more(&t, &fixed, 4).await;
    assert_eq!(calls.load(SeqCst), 2, "one call at a time");
    until_logged(&log, "the provider of periodic entries has not answered for 30s").await;
    eventually("the provider is asked again", async || (calls.load(SeqCst) == 3).then_some(())).await;
    until_more(&t, &fixed, 2).await;
    until_more(&t, &known, 2).await;
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_providers_invalid_entries_are_reported_and_the_others_go_on() {
    let (t, log) = (Fixture::real_time().await, Log::keep());
    let (fixed, good) = (entry("fixed", "@yearly"), entry("good", EACH_SECOND));
    let unknown = Periodic::new(CronSpec::parse("@hourly").unwrap(), RawTask::new("unknown", "")).unwrap();
    let answer: ProviderAnswer = Arc::new(Mutex::new(Ok(vec![good.clone()])));
    let running = start(&t, provided(scheduler("shop", 1, [fixed.clone()]), &answer)).await;
    until_ticks(&t, &good, 1).await;

    *answer.lock().unwrap() = Err("the table is locked".into());
    until_logged(&log, "the known ones stay: the table is locked").await;
    until_more(&t, &good, 2).await;

    let twice = entry("fixed", EACH_SECOND);
    *answer.lock().unwrap() = Ok(vec![good.clone(), unknown, good.clone(), twice]);
    until_logged(&log, "no job `unknown` in this program").await;
    until_logged(&log, "`good` is scheduled twice under the same key").await;
    until_logged(&log, "`fixed` is scheduled twice under the same key").await;
    until_more(&t, &good, 2).await;
    assert_eq!(state(&t, &fixed).await.unwrap().spec, "@yearly");
    assert_eq!(listed(&t).await, ["fixed", "good"]);
    running.shutdown().await.unwrap();
}

#[job]
async fn served() {}

#[job(queue = "ticks")]
async fn left_to_others() {}

/// A worker that runs a part of its program's jobs may lead the schedulers of all of its program's workers.
#[tokio::test]
async fn a_worker_of_some_jobs_plans_the_entries_of_the_others() {
    let t = Fixture::real_time().await;
    let each_second = || Periodic::new(CronSpec::parse(EACH_SECOND).unwrap(), left_to_others::job()).unwrap();
    let (fixed, row) = (each_second().key("fixed"), each_second().key("row"));
    let answer: ProviderAnswer = Arc::new(Mutex::new(Ok(vec![row.clone()])));
    let server = Server::builder("nothing://is-connected")
        .broker(t.another_broker().await)
        .registry(Registry::only::<(served, left_to_others)>().unwrap())
        .only(["served"])
        .service(provided(scheduler("shop", 1, [fixed.clone()]), &answer));
    let running = server.build().await.unwrap().start().await.unwrap();
    until_ticks(&t, &fixed, 1).await;
    until_ticks(&t, &row, 1).await;
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_entry_that_is_invalid_for_a_while_does_not_fire_and_stays_paused() {
    let (t, log) = (Fixture::real_time().await, Log::keep());
    let report = entry("report", EACH_SECOND);
    let answer: ProviderAnswer = Arc::new(Mutex::new(Ok(vec![report.clone()])));
    let running = start(&t, provided(scheduler("shop", 1, []), &answer)).await;
    until_ticks(&t, &report, 1).await;
    assert!(t.broker().pause_entry(report.queue(), report.id(), true).await.unwrap());

    *answer.lock().unwrap() = Ok(vec![report.clone().jitter("5 parsecs")]);
    until_logged(&log, "invalid option `jitter`").await;
    until_listed(&t, &[]).await;

    *answer.lock().unwrap() = Ok(vec![report.clone()]);
    until_listed(&t, &["report"]).await;
    let known = state(&t, &report).await.expect("the entry is not forgotten");
    let passed = until_state(&t, &report, "its ticks pass again", |state| state.last > known.now).await;
    assert!(known.paused && passed.paused);
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_entry_that_another_program_schedules_too_is_not_forgotten() {
    let (t, _log) = (Fixture::real_time().await, Log::keep());
    let (shared, own) = (entry("shared", EACH_SECOND), entry("own", EACH_SECOND));
    let stock = start(&t, scheduler("stock", 1, [shared.clone()])).await;
    let answer: ProviderAnswer = Arc::new(Mutex::new(Ok(vec![shared.clone(), own.clone()])));
    // A short lease, because an entry is forgotten half a lease after it has left the list.
    let service = scheduler("shop", 1, []).leader_ttl(SHORTEST).election(false);
    let shop = start(&t, provided(service, &answer)).await;
    until_ticks(&t, &own, 1).await;
    until_listed(&t, &["own", "shared", "shared"]).await;
    assert!(t.broker().pause_entry(shared.queue(), shared.id(), true).await.unwrap());

    *answer.lock().unwrap() = Ok(vec![own.clone()]);
    until_listed(&t, &["own", "shared"]).await;
    *answer.lock().unwrap() = Ok(Vec::new());
    eventually("its own entry is forgotten", async || state(&t, &own).await.is_none().then_some(())).await;
    until_listed(&t, &["shared"]).await;
    assert!(state(&t, &shared).await.expect("the shared entry is not forgotten").paused);
    shop.shutdown().await.unwrap();
    stock.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_newer_release_whose_provider_fails_leaves_the_lead_to_one_that_knows_its_entries() {
    let (t, log) = (Fixture::real_time().await, Log::keep());
    let known = entry("known", EACH_SECOND);
    let (good, bad): (ProviderAnswer, ProviderAnswer) =
        (Arc::new(Mutex::new(Ok(vec![known.clone()]))), Arc::new(Mutex::new(Err("access denied".into()))));
    let short = |release| scheduler("shop", release, []).leader_ttl(SHORTEST);
    let old = start(&t, provided(short(1), &good)).await;
    until_ticks(&t, &known, 1).await;

    let new = start(&t, provided(short(2), &bad)).await;
    until_logged(&log, "the known ones stay: access denied").await;
    // For longer than a leader takes to learn that a newer release asks for the lead.
    until_more(&t, &known, 6).await;
    until_listed(&t, &["known"]).await;

    *bad.lock().unwrap() = Ok(vec![known.clone()]);
    until_logged(&log, "a newer program takes the schedule over").await;
    until_more(&t, &known, 2).await;
    old.shutdown().await.unwrap();
    new.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_new_leader_asks_its_provider_before_it_plans_the_entries() {
    let (t, log) = (Fixture::real_time().await, Log::keep());
    let (old, edited) = (entry("report", "@yearly"), entry("report", EACH_SECOND));
    let once_an_hour = |first: &Periodic, later: &Periodic| {
        let (answers, calls) = ([first.clone(), later.clone()], Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&calls);
        let service = scheduler("shop", 1, []).provider(Duration::from_secs(3_600), move || {
            let answer = answers[counted.fetch_add(1, SeqCst).min(1)].clone();
            async move { Ok(vec![answer]) }
        });
        (service, calls)
    };
    // The row is edited after the provider of one replica has answered, and before that of the leader does.
    let (leads, _) = once_an_hour(&edited, &edited);
    let leader = start(&t, leads).await;
    until_ticks(&t, &edited, 1).await;
    let (follows, calls) = once_an_hour(&old, &edited);
    let follower = start(&t, follows).await;
    eventually("the follower asks its provider", async || (calls.load(SeqCst) == 1).then_some(())).await;
    leader.shutdown().await.unwrap();
    until_more(&t, &edited, 2).await;
    assert_eq!(changes(&log, "shop", &mut 0), ["+ report * * * * * *"]);
    assert_eq!(state(&t, &edited).await.unwrap().spec, EACH_SECOND);
    follower.shutdown().await.unwrap();
}
