//! Schedulers as programs run them: who plans what through deploys, and what comes of providers, control and clocks.
//!
//! On Redis and SQLite alone: the contract beneath is tried on every broker, and these cases wait for real leases.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
    time::Duration,
};

use asynq_cron::{CronSpec, EntryId, Missed, Periodic, Schedule, SchedulerService};
use asynq_runtime::{
    Client, RawTask, Registry, Server,
    broker::{Broker, EntryState, Page},
    clock::Clock,
    job::BoxError,
    server::Running,
    task::{TaskInfo, TaskState},
};
use asynq_tests::{Store as _, eventually, log::Log, queue, soon};
use chrono::{DateTime, TimeDelta, Timelike as _, Utc};

use super::Fixture;

/// The shortest lease that there is.
const TTL: Duration = Duration::from_secs(3);
const EACH_SECOND: &str = "* * * * * *";

/// The entry of a job of this name, which some other program would run.
fn entry(job: &str, spec: &str) -> Periodic {
    let task = RawTask::new(job, "").queue("ticks");
    Periodic::new(CronSpec::parse(spec).unwrap(), task).unwrap().foreign()
}

fn scheduler<const N: usize>(program: &str, release: u64, entries: [Periodic; N]) -> SchedulerService {
    let service = asynq_cron::service().program(program).release(release).leader_ttl(TTL);
    entries.into_iter().fold(service, SchedulerService::entry)
}

/// Runs a scheduler as a program of its own, without any job.
async fn start(t: &Fixture, service: SchedulerService) -> Running {
    start_on(t.another_broker().await, service).await
}

async fn start_on(broker: Arc<dyn Broker>, service: SchedulerService) -> Running {
    let server = Server::builder("nothing://is-connected").broker(broker);
    let server = server.registry(Registry::from_descriptors([]).unwrap()).service(service);
    server.build().await.unwrap().start().await.unwrap()
}

/// The tasks of all ticks; nobody runs them.
async fn tasks(t: &Fixture) -> Vec<TaskInfo> {
    t.broker().tasks(&queue("ticks"), TaskState::Pending, Page { number: 1, size: 1_000 }).await.unwrap()
}

/// The ticks of an entry that were enqueued, as Unix seconds in their order.
async fn ticks(t: &Fixture, entry: &Periodic) -> Vec<i64> {
    let prefix = format!("cron:{}:", entry.id());
    let tasks = tasks(t).await;
    let ids = tasks.iter().filter_map(|task| task.id.as_str().strip_prefix(&prefix).map(str::to_owned));
    let mut ticks: Vec<i64> = ids.map(|second| second.parse().unwrap()).collect();
    ticks.sort_unstable();
    ticks
}

async fn until_ticks(t: &Fixture, entry: &Periodic, n: usize) -> Vec<i64> {
    eventually(&format!("{n} ticks of {entry}"), async || {
        let ticks = ticks(t, entry).await;
        (ticks.len() >= n).then_some(ticks)
    })
    .await
}

/// Waits until the entry has fired so many more times.
async fn until_more(t: &Fixture, entry: &Periodic, n: usize) {
    let so_far = ticks(t, entry).await.len();
    until_ticks(t, entry, so_far + n).await;
}

async fn state(t: &Fixture, entry: &Periodic) -> Option<EntryState> {
    t.broker().entry(entry.queue(), entry.id()).await.unwrap()
}

async fn until_state(t: &Fixture, entry: &Periodic, what: &str, is: impl Fn(&EntryState) -> bool) -> EntryState {
    eventually(what, async || state(t, entry).await.filter(&is)).await
}

/// The jobs of the entries that living schedulers list, sorted.
async fn listed(t: &Fixture) -> Vec<String> {
    let mut jobs: Vec<_> = t.broker().scheduler_entries().await.unwrap().into_iter().map(|e| e.task_type).collect();
    jobs.sort();
    jobs
}

async fn until_listed(t: &Fixture, jobs: &[&str]) {
    eventually(&format!("{jobs:?} are listed"), async || (listed(t).await == jobs).then_some(())).await;
}

async fn until_logged(log: &Log, part: &str) {
    eventually(part, async || (!log.with(part).is_empty()).then_some(())).await;
}

/// What a program said of its entries since it was asked last.
fn changes(log: &Log, program: &str, from: &mut usize) -> Vec<String> {
    let end = format!(" program={program}");
    let lines = log.with("schedule: ").into_iter().filter_map(|line| line.strip_suffix(&end).map(str::to_owned));
    let lines: Vec<_> = lines.map(|line| line.trim_start_matches("schedule: ").to_owned()).collect();
    lines[std::mem::replace(from, lines.len())..].to_vec()
}

#[tokio::test]
async fn each_program_schedules_its_own_entries_and_says_nothing_of_the_others() {
    let (t, log) = (Fixture::real_time().await, Log::keep());
    let (ours, theirs) = (entry("ours", EACH_SECOND), entry("theirs", EACH_SECOND));
    let shop = start(&t, scheduler("shop", 1, [ours.clone(), entry("stays", "@yearly")])).await;
    // Newer by its number, but that is of another program.
    let stock = start(&t, scheduler("stock", 9, [theirs.clone()])).await;
    until_ticks(&t, &ours, 3).await;
    until_ticks(&t, &theirs, 3).await;
    until_listed(&t, &["ours", "stays", "theirs"]).await;
    let (mut shops, mut stocks) = (0, 0);
    assert_eq!(changes(&log, "shop", &mut shops), ["+ ours * * * * * *", "+ stays @yearly"]);
    assert_eq!(changes(&log, "stock", &mut stocks), ["+ theirs * * * * * *"]);

    // A deploy of the one, with a moment without any.
    shop.shutdown().await.unwrap();
    until_listed(&t, &["theirs"]).await;
    let shop = start(&t, scheduler("shop", 2, [entry("new", "@hourly"), entry("stays", "@yearly")])).await;
    until_listed(&t, &["new", "stays", "theirs"]).await;
    until_logged(&log, "+ new @hourly").await;
    assert_eq!(changes(&log, "shop", &mut shops), ["+ new @hourly", "- ours"]);
    let gone = ticks(&t, &ours).await;
    until_more(&t, &theirs, 3).await;
    assert_eq!(ticks(&t, &ours).await, gone, "what left the program fires no more");
    assert_eq!(changes(&log, "stock", &mut stocks), Vec::<String>::new());
    assert!(log.with("takes the schedule over").is_empty() && log.with("this scheduler follows").is_empty());
    shop.shutdown().await.unwrap();
    stock.shutdown().await.unwrap();
    assert!(listed(&t).await.is_empty());
}

#[tokio::test]
async fn a_newer_version_takes_the_schedule_over_and_an_older_one_leaves_what_it_changed_alone() {
    let (t, log) = (Fixture::real_time().await, Log::keep());
    let (before, after) = (entry("changes", EACH_SECOND), entry("changes", "0 10 * * *"));
    let old = start(&t, scheduler("shop", 1, [before.clone(), entry("stays", EACH_SECOND)])).await;
    until_ticks(&t, &before, 2).await;
    let mut said = 0;
    assert_eq!(changes(&log, "shop", &mut said), ["+ changes * * * * * *", "+ stays * * * * * *"]);
    let new = start(&t, scheduler("shop", 2, [after.clone(), entry("stays", EACH_SECOND)])).await;
    until_logged(&log, "a newer program takes the schedule over").await;
    until_logged(&log, "~ changes").await;
    assert_eq!(changes(&log, "shop", &mut said), ["~ changes * * * * * * → 0 10 * * *"]);
    let planned = until_state(&t, &after, "the newer plan", |state| state.revision == 2).await;
    assert_eq!(planned.spec, "0 10 * * *");

    // The newer one goes: the older one leads again, and still stands back where the two differ.
    let fired = ticks(&t, &before).await;
    new.shutdown().await.unwrap();
    until_logged(&log, "a newer program plans changes * * * * * * in another way").await;
    until_more(&t, &entry("stays", EACH_SECOND), 3).await;
    assert_eq!(ticks(&t, &before).await, fired);
    assert_eq!(state(&t, &before).await.unwrap().spec, "0 10 * * *");
    old.shutdown().await.unwrap();
}

#[tokio::test]
async fn of_two_versions_that_both_schedule_the_newer_ones_times_count() {
    let (t, _log) = (Fixture::real_time().await, Log::keep());
    let (every, even) = (entry("report", EACH_SECOND), entry("report", "*/2 * * * * *"));
    // Without an election each sends all of its ticks.
    let old = start(&t, scheduler("shop", 1, [every.clone()]).election(false)).await;
    eventually("a tick of an odd second", async || ticks(&t, &every).await.iter().find(|&at| at % 2 == 1).copied())
        .await;
    let new = start(&t, scheduler("shop", 2, [even.clone()]).election(false)).await;
    let planned = until_state(&t, &even, "the newer plan", |state| state.revision == 2).await;
    let later = eventually("three ticks of the newer plan", async || {
        let ticks = ticks(&t, &even).await.into_iter();
        let later: Vec<_> = ticks.filter(|&at| at > planned.now.timestamp()).collect();
        (later.len() >= 3).then_some(later)
    })
    .await;
    assert!(later.iter().all(|second| second % 2 == 0), "{later:?}");
    new.shutdown().await.unwrap();
    old.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_entry_that_the_leader_lacks_is_taken_over_by_whoever_has_it() {
    let (t, log) = (Fixture::real_time().await, Log::keep());
    let (known, alone) = (entry("known", EACH_SECOND), entry("alone", EACH_SECOND));
    // Two programs of one name, or two versions of one.
    let leader = start(&t, scheduler("server", 1, [known.clone()])).await;
    until_ticks(&t, &known, 1).await;
    let follower = start(&t, scheduler("server", 1, [known.clone(), alone.clone()])).await;
    until_ticks(&t, &alone, 2).await;
    assert_eq!(log.with("nobody else schedules ").len(), 1, "{:?}", log.with("nobody"));
    assert_eq!(log.with("nobody else schedules alone * * * * * *").len(), 1);
    assert_eq!(listed(&t).await, ["alone", "known"]);
    leader.shutdown().await.unwrap();
    // It has both, now that it leads.
    until_more(&t, &known, 2).await;
    until_more(&t, &alone, 2).await;
    follower.shutdown().await.unwrap();
}

/// What a provider says at the moment.
type Said = Arc<Mutex<Result<Vec<Periodic>, String>>>;

fn provided(service: SchedulerService, said: &Said) -> SchedulerService {
    let said = Arc::clone(said);
    service.provider(Duration::from_secs(1), move || {
        let said = said.lock().unwrap().clone();
        async move { said.map_err(BoxError::from) }
    })
}

#[tokio::test]
async fn entries_of_a_provider_come_change_and_go_while_the_program_runs() {
    let (t, log) = (Fixture::real_time().await, Log::keep());
    let (a, b, fixed) = (entry("a", EACH_SECOND), entry("b", EACH_SECOND), entry("fixed", "@yearly"));
    let said: Said = Arc::new(Mutex::new(Ok(vec![a.clone()])));
    let say = |entries: &[&Periodic]| *said.lock().unwrap() = Ok(entries.iter().map(|&e| e.clone()).collect());
    let running = start(&t, provided(scheduler("shop", 1, [fixed]), &said)).await;
    until_ticks(&t, &a, 2).await;
    let mut heard = 0;
    assert_eq!(changes(&log, "shop", &mut heard), ["+ a * * * * * *", "+ fixed @yearly"]);

    say(&[&a, &b]);
    until_ticks(&t, &b, 1).await;
    until_listed(&t, &["a", "b", "fixed"]).await;

    let changed = entry("a", "0 0 1 1 *");
    say(&[&changed, &b]);
    until_state(&t, &a, "the new times", |state| state.spec == "0 0 1 1 *").await;
    until_logged(&log, "~ a").await;
    let fired = ticks(&t, &a).await;
    until_more(&t, &b, 2).await;
    assert_eq!(ticks(&t, &a).await, fired);

    say(&[&changed]);
    eventually("b is forgotten", async || state(&t, &b).await.is_none().then_some(())).await;
    until_listed(&t, &["a", "fixed"]).await;
    until_logged(&log, "- b").await;
    let expected = ["+ b * * * * * *", "~ a * * * * * * → 0 0 1 1 *", "- b"];
    assert_eq!(changes(&log, "shop", &mut heard), expected);
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_is_wrong_with_a_providers_entries_is_said_and_the_others_go_on() {
    let (t, log) = (Fixture::real_time().await, Log::keep());
    let (fixed, good) = (entry("fixed", "@yearly"), entry("good", EACH_SECOND));
    let unknown = Periodic::new(CronSpec::parse("@hourly").unwrap(), RawTask::new("unknown", "")).unwrap();
    let said: Said = Arc::new(Mutex::new(Ok(vec![good.clone()])));
    let running = start(&t, provided(scheduler("shop", 1, [fixed.clone()]), &said)).await;
    until_ticks(&t, &good, 1).await;

    *said.lock().unwrap() = Err("the table is locked".into());
    until_logged(&log, "the known ones stay: the table is locked").await;
    until_more(&t, &good, 2).await;

    let twice = entry("fixed", EACH_SECOND);
    *said.lock().unwrap() = Ok(vec![good.clone(), unknown, good.clone(), twice]);
    until_logged(&log, "no job `unknown` in this program").await;
    until_logged(&log, "`good` is scheduled twice in queue `ticks`").await;
    until_logged(&log, "`fixed` is scheduled twice in queue `ticks`").await;
    until_more(&t, &good, 2).await;
    assert_eq!(state(&t, &fixed).await.unwrap().spec, "@yearly");
    assert_eq!(listed(&t).await, ["fixed", "good"]);
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_schedule_is_paused_resumed_and_forgotten_and_an_entry_runs_now() {
    let (t, _log) = (Fixture::real_time().await, Log::keep());
    let report = entry("report", EACH_SECOND);
    let schedule = Schedule::new(&Client::new(t.shared()));
    let (queue, id): (_, EntryId) = (report.queue().clone(), report.id().clone());
    assert!(!schedule.pause(&queue, &id).await.unwrap(), "nobody has planned it");
    let running = start(&t, scheduler("shop", 1, [report.clone()])).await;
    until_ticks(&t, &report, 2).await;

    assert!(schedule.pause(&queue, &id).await.unwrap());
    assert!(!schedule.pause(&queue, &id).await.unwrap());
    let fired = ticks(&t, &report).await;
    let paused = schedule.entry(&queue, &id).await.unwrap().unwrap();
    assert!(paused.paused);
    let two_later = paused.now + TimeDelta::seconds(2);
    let passed = until_state(&t, &report, "its ticks pass", |state| state.last >= two_later).await;
    assert_eq!(ticks(&t, &report).await, fired);
    assert!(schedule.resume(&queue, &id).await.unwrap());
    assert!(!schedule.resume(&queue, &id).await.unwrap());
    until_more(&t, &report, 2).await;
    let after = ticks(&t, &report).await;
    assert!(after[fired.len()] > passed.last.timestamp(), "the ticks of the pause are not made up for");

    let now = schedule.run_now(&report).await.unwrap();
    assert!(!now.as_str().starts_with("cron:"), "{now} is beside the schedule");
    let task = tasks(&t).await.into_iter().find(|task| task.id == now).unwrap();
    assert_eq!(task.r#type, "report");
    let history = schedule.history(&id, Page { number: 1, size: 100 }).await.unwrap();
    assert!(history.iter().any(|event| now == *event.task_id));
    let entries = schedule.entries().await.unwrap();
    assert_eq!((entries.len(), entries[0].id.as_str()), (1, id.as_str()));

    schedule.forget(&queue, &id).await.unwrap();
    // Its scheduler takes it for new, and fires none of its ticks a second time.
    until_more(&t, &report, 2).await;
    let ticks = ticks(&t, &report).await;
    assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]), "{ticks:?}");
    let history = schedule.history(&id, Page { number: 1, size: 100 }).await.unwrap();
    assert!(!history.is_empty() && history.iter().all(|event| now != *event.task_id), "{history:?}");
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_program_that_only_schedules_needs_no_job_and_takes_nothing_from_any_queue() {
    let (t, _log) = (Fixture::real_time().await, Log::keep());
    t.enqueue(asynq_tests::task("somebody's")).await;
    let report = entry("report", EACH_SECOND);
    let running = start(&t, scheduler("shop", 1, [report.clone()])).await;
    until_ticks(&t, &report, 2).await;
    assert_eq!(t.state_of("somebody's").await, Some(TaskState::Pending));
    let servers = t.broker().servers().await.unwrap();
    // The other one is the case's own.
    let it = servers.iter().find(|server| !server.info.rust_version.is_empty()).unwrap();
    assert!(it.info.queues.is_empty(), "{it:?}");
    running.shutdown().await.unwrap();

    // Without entries it has nothing to do, and with queues it means to work.
    let server = || Server::builder("nothing://is-connected").registry(Registry::from_descriptors([]).unwrap());
    for builder in
        [server().service(asynq_cron::service()), server().service(scheduler("shop", 1, [report])).queue("default", 1)]
    {
        let error = builder.broker(t.shared()).build().await.unwrap_err();
        assert!(error.to_string().starts_with("this program has no jobs"), "{error}");
    }
}

#[tokio::test]
async fn an_entry_that_cannot_be_stops_the_server_with_the_reason() {
    let (t, _log) = (Fixture::real_time().await, Log::keep());
    let unknown = Periodic::new(CronSpec::parse("@daily").unwrap(), RawTask::new("reprot", "")).unwrap();
    let twice = || entry("report", "@daily");
    for (service, reason) in [
        (scheduler("shop", 1, [unknown]), "no job `reprot` in this program; register it, or say `foreign()`"),
        (
            scheduler("shop", 1, [twice(), twice()]),
            "`report` is scheduled twice in queue `ticks` with the same payload",
        ),
    ] {
        let running = start(&t, service).await;
        soon(running.failed()).await;
        let error = running.shutdown().await.unwrap_err();
        let told =
            format!("{error} {}", std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default());
        assert!(told.contains(reason), "{told}");
    }
    assert!(tasks(&t).await.is_empty());
}

/// A clock that goes as fast as the machine's and is off by what the test says.
#[derive(Debug, Clone, Default)]
struct OffBy(Arc<AtomicI64>);

impl OffBy {
    fn set(&self, off: TimeDelta) {
        self.0.store(off.num_seconds(), SeqCst);
    }
}

impl Clock for OffBy {
    fn now(&self) -> DateTime<Utc> {
        Utc::now() + TimeDelta::seconds(self.0.load(SeqCst))
    }
}

/// How soon a jump of the clock is noticed is measured in real time, by whose seconds the ticks are named.
mod timing {
    use super::*;

    /// A lease, and as much again for a slow machine; what is not noticed stands still for a day.
    const NOTICED: i64 = 2 * TTL.as_secs() as i64;

    #[tokio::test]
    async fn a_brokers_clock_that_jumps_a_day_ahead_and_back_stops_nothing_and_doubles_nothing() {
        let (t, _log) = (Fixture::real_time().await, Log::keep());
        let clock = OffBy::default();
        let broker = t.store.connect(Some(Arc::new(clock.clone()))).await;
        // Half an hour from now, so that none comes due by itself while this runs.
        let minute = (Utc::now().minute() + 30) % 60;
        let hourly = entry("hourly", &format!("0 {minute} * * * *")).missed(Missed::All(50));
        // What a busy machine is late for is made up for, so that a gap is one of the clock's.
        let often = entry("often", EACH_SECOND).missed(Missed::All(10));
        let running = start_on(broker, scheduler("shop", 1, [often.clone(), hourly.clone()])).await;
        until_ticks(&t, &often, 2).await;

        // A day ahead: what is due meanwhile is made up for, by its policy.
        let (day, begun) = (TimeDelta::days(1), Utc::now().timestamp());
        clock.set(day);
        let fired = until_ticks(&t, &hourly, 24).await;
        assert!(fired.len() == 24 && fired.iter().all(|at| at % 3_600 == i64::from(minute) * 60), "{fired:?}");
        let is_ahead = |ticks: &[i64]| ticks.iter().filter(|&&at| at > begun + 80_000).count();
        eventually("ticks of tomorrow", async || (is_ahead(&ticks(&t, &often).await) >= 12).then_some(())).await;

        // And back: it goes on at once, and nothing of tomorrow fires.
        clock.set(TimeDelta::zero());
        let back = Utc::now().timestamp();
        let since = eventually("ticks of today again", async || {
            let since: Vec<_> =
                ticks(&t, &often).await.into_iter().filter(|&at| (back..begun + 80_000).contains(&at)).collect();
            (since.len() >= 4).then_some(since)
        })
        .await;
        assert!(since[0] - back <= NOTICED, "it was noticed within a lease: {since:?}, set back at {back}");
        assert!(since.windows(2).all(|pair| pair[1] - pair[0] == 1), "{since:?}");
        let tomorrows = is_ahead(&ticks(&t, &often).await);
        until_more(&t, &often, 2).await;
        assert_eq!(is_ahead(&ticks(&t, &often).await), tomorrows);
        assert_eq!(ticks(&t, &hourly).await, fired, "what fired ahead of its time fires no second time");

        // A day behind from the start of the broker's time: the same, the other way round.
        clock.set(-day);
        let behind = Utc::now() - day;
        eventually("ticks of yesterday", async || {
            let ticks = ticks(&t, &often).await;
            (ticks.iter().filter(|&&at| at < behind.timestamp() + 1_000).count() >= 2).then_some(())
        })
        .await;
        running.shutdown().await.unwrap();
    }
}
