//! Single rounds of the loop, on a broker in memory.

mod provided;

use asynq_runtime::{
    JobResult, PreparedTask, RawTask,
    broker::{BrokerErrorKind, Lead, Page, PlanChange},
    job::BoxFuture,
    server::{Running, Server, Service},
};
use asynq_test_support::{Log, soon};
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::sync::oneshot;

use super::*;
use crate::{
    CronSpec,
    scheduler::{checked, listing},
};

const TTL: Duration = Duration::from_secs(9);
const EACH_SECOND: &str = "* * * * * *";

/// Sends its context to the test.
struct Probe(oneshot::Sender<ServiceContext>);

impl Service for Probe {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn stands_alone(&self) -> bool {
        true
    }

    fn run(self: Box<Self>, cx: ServiceContext) -> BoxFuture<'static, Result<(), BoxError>> {
        assert!(self.0.send(cx).is_ok(), "the test waits for the context");
        Box::pin(async { Ok(()) })
    }
}

/// Returns an entry as the scheduler knows it.
fn known<'a>(work: &'a mut Work, entry: &Periodic) -> &'a mut Known {
    work.known.get_mut(entry.id()).expect("the entry is known")
}

/// Returns whether the scheduler plans an entry.
fn plans(work: &Work, entry: &Periodic) -> bool {
    work.planned_entries().any(|planned| planned.id() == entry.id())
}

/// A scheduler of one entry that leads from its first round on, and the server beneath it.
async fn work(spec: &str) -> (Work, Arc<Periodic>, Running) {
    let (context, received) = oneshot::channel();
    let server = Server::builder("sqlite::memory:").registry(Registry::from_descriptors([]).expect("a registry"));
    let server = server.service(Probe(context)).build().await.expect("a server");
    let running = server.start().await.expect("it starts");
    let cx = soon(received).await.expect("the service runs");
    let spec = CronSpec::parse(spec).expect("a spec");
    let entry = Periodic::new(spec, RawTask::new("report", "")).expect("an entry").foreign();
    let fixed = checked(vec![entry], cx.registry()).expect("the entry is valid");
    let settings = Settings { ttl: TTL, election: false, program: "shop".to_owned(), revision: 1, sync_every: TTL };
    let candidate = Candidate { program: "shop".to_owned(), token: "t".to_owned(), revision: 1 };
    let campaign = Campaign::new(candidate, TTL, false, Duration::ZERO);
    let broker = Arc::clone(cx.client().broker());
    let entry = Arc::clone(&fixed[0]);
    (Work::new(broker, "host:1:t".to_owned(), settings, campaign, fixed, None, &cx), entry, running)
}

/// A round trip that took no time.
fn at_once() -> RoundTrip {
    let now = Reading::now();
    RoundTrip { before: now, after: now }
}

fn state(last: DateTime<Utc>, now: DateTime<Utc>) -> EntryState {
    let (spec, zone) = (String::new(), String::new());
    EntryState { spec, zone, revision: 0, last, previous: None, paused: false, now }
}

#[tokio::test]
async fn a_scheduler_that_gets_the_lead_lists_its_entries_in_the_same_round() {
    let (mut work, _, running) = work("@yearly").await;
    work.begin_round();
    assert!(work.leads && work.showing);
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn a_line_that_panics_does_not_end_the_schedule() {
    let (mut work, _, running) = work("@yearly").await;
    let log = Log::calling(|| panic!("the line cannot be written"));
    work.begin_round();
    assert!(work.leads && work.showing);
    assert_eq!(log.with("this scheduler leads").len(), 1);
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn a_lead_that_the_broker_does_not_tell_is_in_the_log_once() {
    let log = Log::keep();
    let (mut work, _, running) = work("@yearly").await;
    let mut answered = |lead| work.take(Event::Lead(Answer::Lead(Instant::now(), lead)));
    let away = || Err(BrokerError::new(BrokerErrorKind::Unavailable, "away"));
    answered(away());
    answered(away());
    let text = "the lead is not known; once the last answer about it is over, no tick is sent: away";
    assert_eq!(log.with(text).len(), 1);
    answered(Ok(Lead::Ours { wanted: false }));
    answered(away());
    assert_eq!(log.with("the lead is not known").len(), 2);
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn a_listing_that_ended_late_does_not_keep_the_next_round_from_planning() {
    let (mut work, _, running) = work("@yearly").await;
    work.begin_round();
    assert!(work.showing && work.planning == 0);
    // Half a lease has passed since the listing began.
    let renew = Instant::now();
    work.timers.show = renew;
    work.take(Event::ListingDone(renew, true, Vec::new()));
    work.begin_round();
    assert!(!work.showing && work.planning == 1);
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn an_entry_that_became_known_during_a_listing_is_listed_before_it_is_planned() {
    let (mut work, _, running) = work("@yearly").await;
    work.begin_round();
    let renew = work.timers.show;
    work.timers.show = Instant::now();
    work.take(Event::ListingDone(renew, true, Vec::new()));
    work.begin_round();
    assert!(work.showing && work.planning == 0);
    running.shutdown().await.expect("it leaves");
}

/// Returns the metrics that a recorder of its own has after `act`.
fn recorded(act: impl FnOnce()) -> String {
    let recorder = Box::leak(Box::new(PrometheusBuilder::new().build_recorder()));
    ::metrics::with_local_recorder(recorder, act);
    recorder.handle().render()
}

#[tokio::test]
async fn a_tick_whose_answer_was_lost_is_the_last_tick_and_in_the_history() {
    let (mut work, entry, running) = work("@every 1h").await;
    let hour = |hours: i64| DateTime::from_timestamp(1_700_000_000 / 3_600 * 3_600 + hours * 3_600, 0).expect("a time");
    let (last, at) = (hour(-1), hour(0));
    work.clock = BrokerClock::measured(at, Reading::now(), Reading::now());
    work.plan.set(Arc::clone(&entry), &state(last, at));
    work.send(at);
    let event = soon(work.calls.join_next()).await.expect("a tick is sent").expect("it does not panic");
    let Event::Ticked(entry, fire, Ok(Ticked::Enqueued(_)), false, _) = event else { panic!("it is enqueued") };
    let lost = BrokerError::new(BrokerErrorKind::Unavailable, "no answer");
    let metrics = recorded(|| work.take(Event::Ticked(entry.clone(), fire, Err(lost), false, at_once())));
    let error = "asynq_broker_errors_total{component=\"scheduler\",kind=\"unavailable\"} 1";
    assert!(metrics.contains(error), "{metrics}");

    work.send(at + TimeDelta::seconds(10));
    let event = soon(work.calls.join_next()).await.expect("it is sent again").expect("it does not panic");
    assert!(matches!(event, Event::Ticked(_, _, Ok(Ticked::Duplicate), true, _)));
    let metrics = recorded(|| work.take(event));
    let gauge = format!("asynq_last_tick_timestamp_seconds{{type=\"report\"}} {}", at.timestamp());
    assert!(metrics.contains(&gauge) && metrics.contains("outcome=\"enqueued\"} 1"), "{metrics}");
    assert_eq!(work.plan.rows()[0].1, Some(at));
    soon(work.calls.join_next()).await.expect("it is recorded").expect("it does not panic");
    let history = work.broker.enqueue_history(entry.id().as_str(), Page { number: 1, size: 10 }).await.expect("a page");
    let tasks: Vec<_> = history.iter().map(|event| event.task_id.as_str()).collect();
    assert_eq!(tasks, [entry.id().task_id(at).as_str()]);
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn a_tick_that_was_early_corrects_the_clock_and_is_sent_at_its_own_time() {
    let (mut work, entry, running) = work(EACH_SECOND).await;
    let last = work.clock.at(Reading::now()) - TimeDelta::seconds(1);
    work.plan.set(Arc::clone(&entry), &state(last, last));
    let (_, fire, _) = work.plan.take(last + TimeDelta::seconds(1), 1).remove(0);
    let before = Reading::now();
    let after = Reading { wall: before.wall + TimeDelta::seconds(2), steady: before.steady + Duration::from_secs(2) };
    let early = Ok(Ticked::Early(Duration::from_secs(2)));
    work.take(Event::Ticked(Arc::clone(&entry), fire, early, false, RoundTrip { before, after }));
    // The broker answered in the middle of the round trip, however late the scheduler handles the answer.
    assert_eq!(work.clock.at(after), fire.at - TimeDelta::seconds(1));
    assert_eq!(work.plan.next(), Some(fire.at));
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn an_entry_that_goes_on_failing_is_in_the_log_once_while_another_succeeds() {
    let log = Log::keep();
    let (mut work, failing, running) = work(EACH_SECOND).await;
    let other = Arc::new(Periodic::clone(&failing).key("other"));
    let answer = |entry: &Arc<Periodic>, ticked| {
        Event::Ticked(Arc::clone(entry), Fire { at: Utc::now(), missed: 0 }, ticked, false, at_once())
    };
    for lines in [1, 2] {
        for _ in 0..2 {
            let away = BrokerError::new(BrokerErrorKind::Unavailable, "no answer");
            work.take(answer(&failing, Err(away)));
            assert_eq!(log.with("is sent again").len(), lines);
            work.take(answer(&other, Ok(Ticked::Duplicate)));
        }
        work.take(answer(&failing, Ok(Ticked::Duplicate)));
    }
    running.shutdown().await.expect("it leaves");
}

#[test]
fn an_entry_whose_jitter_outlasts_its_task_is_refused() {
    let spec = CronSpec::parse("@daily").expect("a spec");
    let entry = Periodic::new(spec, RawTask::new("report", "").expires("10m")).expect("an entry").foreign();
    let registry = Registry::from_descriptors([]).expect("a registry");
    let error = checked(vec![entry.jitter(Duration::from_secs(1_800))], &registry).expect_err("too long");
    assert!(error.to_string().contains("invalid option `jitter`"), "{error}");
}

#[tokio::test]
async fn a_brokers_clock_that_is_set_back_has_all_entries_planned_again() {
    let (mut work, entry, running) = work(EACH_SECOND).await;
    work.begin_round();
    let now = Reading::now();
    let by = |seconds| now.wall + TimeDelta::seconds(seconds);
    // This machine's clock and the broker's are ahead, and one of them or both are set back.
    for (wall, broker, is_planned) in [(600, 600, false), (0, 600, false), (600, 0, true), (0, 0, true)] {
        let ahead = Reading { wall: by(600), ..now };
        work.clock = BrokerClock::measured(by(600), ahead, ahead);
        work.clocks = HashMap::from([(entry.queue().clone(), work.clock)]);
        work.plan.set(Arc::clone(&entry), &state(by(600), by(600)));
        work.to_plan.clear();
        let after = Reading { wall: by(wall), ..now };
        let answer = Ok(Some(state(by(600), by(broker))));
        work.take(Event::Measured(entry.clone(), by(600), answer, RoundTrip { before: after, after }));
        assert_eq!(!work.to_plan.is_empty(), is_planned, "this machine's clock {wall}, the broker's {broker}");
    }
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn the_log_says_on_which_side_a_clock_is_off_and_when_it_agrees_again() {
    let log = Log::keep();
    let (mut work, entry, running) = work(EACH_SECOND).await;
    let now = Reading::now();
    for seconds in [-3_600, 0, 3_600, 0] {
        let broker = now.wall + TimeDelta::seconds(seconds);
        let answer = Ok(Some(state(broker, broker)));
        work.take(Event::Measured(Arc::clone(&entry), broker, answer, RoundTrip { before: now, after: now }));
    }
    let lines: Vec<_> = log.with("this machine's clock");
    let expected = ["3600 s ahead of the broker's", "agrees with", "3600 s behind the broker's", "agrees with"];
    assert!(lines.len() == 4 && lines.iter().zip(expected).all(|(line, part)| line.contains(part)), "{lines:?}");
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn a_master_whose_clock_is_behind_that_of_another_has_entries_planned_again_once_and_one_warning() {
    let log = Log::keep();
    let (mut work, entry, running) = work(EACH_SECOND).await;
    work.begin_round();
    let spec = CronSpec::parse(EACH_SECOND).expect("a spec");
    let ahead = Periodic::new(spec, RawTask::new("report", "").queue("ahead")).expect("an entry").foreign();
    let ahead = Arc::new(ahead);
    let now = Reading::now();
    for (round, is_planned) in [(1, true), (2, false), (3, false)] {
        for (entry, seconds) in [(&ahead, 60), (&entry, 0)] {
            work.to_plan.clear();
            let broker = now.wall + TimeDelta::seconds(seconds);
            let answer = Ok(Some(state(broker, broker)));
            work.take(Event::Measured(Arc::clone(entry), broker, answer, RoundTrip { before: now, after: now }));
        }
        assert_eq!(!work.to_plan.is_empty(), is_planned, "round {round}");
    }
    assert_eq!(log.with("this machine's clock is 60 s behind the broker's").len(), 1);
    assert_eq!(log.with("this machine's clock").len(), 1);
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn a_broker_call_that_panics_ends_the_scheduler() {
    let (mut work, _, running) = work("@yearly").await;
    work.calls.spawn(async { panic!("the broker panics") });
    let ended = soon(tokio::spawn(async move { work.run().await })).await.expect_err("the panic goes on");
    assert!(ended.is_panic());
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn a_leader_looks_at_the_lists_within_a_third_of_a_lease_while_a_newer_version_counts() {
    let (mut work, entry, running) = work("@yearly").await;
    work.begin_round();
    known(&mut work, &entry).newer = Some(2);
    let now = Instant::now() + TTL;
    work.run_due_timers(now);
    assert_eq!(work.timers.list, now + TTL / 3);
    running.shutdown().await.expect("it leaves");
}

/// A job that another program runs.
#[asynq_runtime::job]
async fn resize(width: u32) -> JobResult;

#[tokio::test]
async fn a_tick_leaves_the_shape_of_the_arguments_of_its_task() {
    let (mut work, _, running) = work("@every 1h").await;
    let task = PreparedTask::from(resize::job(7));
    let fingerprint = u32::from_le_bytes(task.payload()[1..5].try_into().expect("behind the format byte"));
    let spec = CronSpec::parse("@every 1h").expect("a spec");
    let entry = Arc::new(Periodic::new(spec, task).expect("an entry").foreign());
    let at = DateTime::from_timestamp(1_700_000_000 / 3_600 * 3_600, 0).expect("a time");
    work.plan.set(entry, &state(at - TimeDelta::hours(1), at));
    work.send(at);
    assert_eq!(work.calls.len(), 2, "the tick does not wait for the shape");
    let mut is_enqueued = false;
    while let Some(event) = soon(work.calls.join_next()).await {
        let event = event.expect("it does not panic");
        is_enqueued |= matches!(event, Event::Ticked(_, _, Ok(Ticked::Enqueued(_)), false, _));
    }
    assert!(is_enqueued);
    let shape = work.broker.shape("resize", Some(fingerprint)).await.expect("the broker answers");
    assert!(shape.is_some());
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn an_entry_of_a_newer_version_is_over_when_two_lists_in_a_row_lack_it() {
    let (mut work, entry, running) = work("@yearly").await;
    work.begin_round();
    known(&mut work, &entry).newer = Some(2);
    let listed =
        SchedulerEntry { spec: "@daily".to_owned(), ..listing::entry(&(Arc::clone(&entry), None, None), Utc::now()) };
    // Another replica of the newer version lists the entry a moment after the one that stopped has withdrawn it.
    for (rows, is_over) in [(vec![], false), (vec![listed], false), (vec![], false), (vec![], true)] {
        work.listed(rows);
        assert_eq!(known(&mut work, &entry).superseded().is_some(), is_over);
    }
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn a_follower_does_not_count_a_list_in_which_no_scheduler_has_an_entry() {
    let log = Log::keep();
    let (mut work, entry, running) = work("@yearly").await;
    let of_the_leader = Arc::new(Periodic::clone(&entry).key("of the leader"));
    let listed = || vec![listing::entry(&(Arc::clone(&of_the_leader), None, None), Utc::now())];
    for (rows, lines) in [(vec![], 0), (vec![], 0), (vec![], 0), (listed(), 0), (vec![], 0), (listed(), 1)] {
        work.listed(rows);
        assert_eq!(log.with("no scheduler fires report").len(), lines, "{log:?}");
    }
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn a_further_entry_of_a_newer_version_does_not_bring_the_next_list_forward() {
    let (mut work, entry, running) = work("@yearly").await;
    work.begin_round();
    let (due, now) = (work.timers.list, Utc::now());
    let another = Arc::new(Periodic::clone(&entry).key("another"));
    work.known.insert(another.id().clone(), Known::new(Arc::clone(&another), Origin::Program));
    known(&mut work, &another).newer = Some(2);
    let newer = EntryState { spec: "@daily".to_owned(), revision: 2, ..state(now, now) };
    let planned = Planned { state: newer, change: PlanChange::None };
    work.take(Event::Planned(Arc::clone(&entry), Ok(planned), at_once()));
    assert!(known(&mut work, &entry).newer.is_some());
    assert_eq!(work.timers.list, due);
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn entries_of_a_provider_wait_for_its_answer_to_the_new_leader_but_not_for_long() {
    let (mut work, entry, running) = work("@yearly").await;
    let hangs = || std::future::pending::<Result<Vec<Periodic>, BoxError>>();
    work.provider = Some(Provider(Arc::new(move || Box::pin(hangs()))));
    known(&mut work, &entry).origin = Origin::Provider;
    let before = Instant::now();
    work.begin_round();
    assert!(work.leads && !work.providing.is_empty() && !plans(&work, &entry));
    // The answer to a call that began before the lead may be older than the plans of the leader before.
    work.asked_at = Some(before);
    work.provider_ended(Ok(Ok(Vec::new())));
    assert!(!plans(&work, &entry) && known(&mut work, &entry).origin == Origin::Provider);
    work.provide(Instant::now() + Duration::from_secs(30));
    assert!(plans(&work, &entry));
    // Such an answer is discarded also when it comes after the wait.
    work.asked_at = Some(before);
    work.provider_ended(Ok(Ok(Vec::new())));
    assert!(plans(&work, &entry));
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn an_error_of_the_provider_leaves_its_last_answer_to_the_new_leader() {
    let (mut work, entry, running) = work("@yearly").await;
    work.provider = Some(Provider(Arc::new(|| Box::pin(async { Err(BoxError::from("access denied")) }))));
    known(&mut work, &entry).origin = Origin::Provider;
    work.begin_round();
    assert!(!plans(&work, &entry));
    let answer = soon(work.providing.join_next()).await.expect("the provider is asked");
    work.provider_ended(answer);
    assert!(plans(&work, &entry));
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn an_entry_that_was_forgotten_is_planned_again_before_its_next_tick() {
    let (mut work, entry, running) = work("@yearly").await;
    work.begin_round();
    let spec = CronSpec::parse("@yearly").expect("a spec");
    let forgotten = Periodic::new(spec, RawTask::new("report", "forgotten")).expect("an entry").foreign();
    let forgotten = Arc::new(forgotten);
    work.known.insert(forgotten.id().clone(), Known::new(Arc::clone(&forgotten), Origin::Program));
    let known = work.broker.plan_entry(&entry.plan(Utc::now(), 1)).await.expect("it is planned").state;
    work.plan.set(Arc::clone(&entry), &known);
    work.plan.set(Arc::clone(&forgotten), &state(known.last - TimeDelta::seconds(1), known.now));
    work.to_plan.clear();
    for _ in 0..2 {
        let now = Instant::now();
        work.timers.measure = now;
        work.run_due_timers(now);
    }
    while let Some(event) = soon(work.calls.join_next()).await {
        work.take(event.expect("it does not panic"));
    }
    assert!(work.to_plan.iter().any(|(_, id)| id == forgotten.id()));
    running.shutdown().await.expect("it leaves");
}
