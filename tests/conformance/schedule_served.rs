//! Schedulers as programs run them: the lead through deploys, and the effects of providers, control and clocks.
//!
//! On Redis and SQLite alone: other cases test the contract on every broker, and these wait for real leases.

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
use asynq_test_support::Log;
use asynq_tests::{Store as _, eventually, queue, soon};
use chrono::{DateTime, TimeDelta, Timelike as _, Utc};

use super::Fixture;

/// A lease of the lead that no scheduler loses when the machine stops for some seconds.
const TTL: Duration = Duration::from_secs(60);
/// The shortest allowed lease: for leases that have to expire, and for cases without assertions about the lead.
pub(super) const SHORTEST: Duration = Duration::from_secs(3);
pub(super) const EACH_SECOND: &str = "* * * * * *";

/// The entry of a job of this name, which another program would run.
pub(super) fn entry(job: &str, spec: &str) -> Periodic {
    let task = RawTask::new(job, "").queue("ticks");
    Periodic::new(CronSpec::parse(spec).unwrap(), task).unwrap().foreign()
}

pub(super) fn scheduler<const N: usize>(program: &str, release: u64, entries: [Periodic; N]) -> SchedulerService {
    let service = asynq_cron::service().program(program).release(release).leader_ttl(TTL);
    entries.into_iter().fold(service, SchedulerService::entry)
}

/// Runs a scheduler in a program of its own, without jobs.
pub(super) async fn start(t: &Fixture, service: SchedulerService) -> Running {
    start_on(t.another_broker().await, service).await
}

async fn start_on(broker: Arc<dyn Broker>, service: SchedulerService) -> Running {
    built(broker, service).await.start().await.unwrap()
}

async fn built(broker: Arc<dyn Broker>, service: SchedulerService) -> Server {
    let server = Server::builder("nothing://is-connected").broker(broker);
    server.registry(Registry::from_descriptors([]).unwrap()).service(service).build().await.unwrap()
}

/// The tasks of all ticks, which stay pending.
async fn tasks(t: &Fixture) -> Vec<TaskInfo> {
    t.broker().tasks(&queue("ticks"), TaskState::Pending, Page { number: 1, size: 1_000 }).await.unwrap()
}

/// The ticks of an entry that were enqueued, as Unix seconds in their order.
pub(super) async fn ticks(t: &Fixture, entry: &Periodic) -> Vec<i64> {
    let prefix = format!("cron:{}:", entry.id());
    let tasks = tasks(t).await;
    let ids = tasks.iter().filter_map(|task| task.id.as_str().strip_prefix(&prefix).map(str::to_owned));
    let mut ticks: Vec<i64> = ids.map(|second| second.parse().unwrap()).collect();
    ticks.sort_unstable();
    ticks
}

pub(super) async fn until_ticks(t: &Fixture, entry: &Periodic, n: usize) -> Vec<i64> {
    eventually(&format!("{n} ticks of {entry}"), async || {
        let ticks = ticks(t, entry).await;
        (ticks.len() >= n).then_some(ticks)
    })
    .await
}

/// Waits until the entry has fired `n` more times.
pub(super) async fn until_more(t: &Fixture, entry: &Periodic, n: usize) {
    let so_far = ticks(t, entry).await.len();
    until_ticks(t, entry, so_far + n).await;
}

pub(super) async fn state(t: &Fixture, entry: &Periodic) -> Option<EntryState> {
    t.broker().entry(entry.queue(), entry.id()).await.unwrap()
}

pub(super) async fn until_state(
    t: &Fixture,
    entry: &Periodic,
    goal: &str,
    is: impl Fn(&EntryState) -> bool,
) -> EntryState {
    eventually(goal, async || state(t, entry).await.filter(&is)).await
}

/// The jobs of the entries that living schedulers list, sorted.
pub(super) async fn listed(t: &Fixture) -> Vec<String> {
    let mut jobs: Vec<_> = t.broker().scheduler_entries().await.unwrap().into_iter().map(|e| e.task_type).collect();
    jobs.sort();
    jobs
}

pub(super) async fn until_listed(t: &Fixture, jobs: &[&str]) {
    eventually(&format!("{jobs:?} are listed"), async || (listed(t).await == jobs).then_some(())).await;
}

pub(super) async fn until_logged(log: &Log, part: &str) {
    eventually(part, async || (!log.with(part).is_empty()).then_some(())).await;
}

/// The changes of entries that a program has logged since the last call.
pub(super) fn changes(log: &Log, program: &str, from: &mut usize) -> Vec<String> {
    let end = format!(" program={program}");
    let lines = log.with("schedule: ").into_iter().filter_map(|line| line.strip_suffix(&end).map(str::to_owned));
    let lines: Vec<_> = lines.map(|line| line.trim_start_matches("schedule: ").to_owned()).collect();
    lines[std::mem::replace(from, lines.len())..].to_vec()
}

/// [`changes`] in a fixed order, for entries that were planned together.
pub(super) fn sorted_changes(log: &Log, program: &str, from: &mut usize) -> Vec<String> {
    let mut lines = changes(log, program, from);
    lines.sort();
    lines
}

#[tokio::test]
async fn each_program_schedules_its_own_entries_and_says_nothing_of_the_others() {
    let (t, log) = (Fixture::real_time().await, Log::keep());
    let (ours, theirs) = (entry("ours", EACH_SECOND), entry("theirs", EACH_SECOND));
    let shop = start(&t, scheduler("shop", 1, [ours.clone(), entry("stays", "@yearly")])).await;
    // Of a newer revision, but revisions of different programs are not compared.
    let stock = start(&t, scheduler("stock", 9, [theirs.clone()])).await;
    until_ticks(&t, &ours, 3).await;
    until_ticks(&t, &theirs, 3).await;
    until_listed(&t, &["ours", "stays", "theirs"]).await;
    let (mut shops, mut stocks) = (0, 0);
    assert_eq!(sorted_changes(&log, "shop", &mut shops), ["+ ours * * * * * *", "+ stays @yearly"]);
    assert_eq!(changes(&log, "stock", &mut stocks), ["+ theirs * * * * * *"]);

    // A deploy of the first program, with a moment without any version of it.
    shop.shutdown().await.unwrap();
    until_listed(&t, &["theirs"]).await;
    let shop = start(&t, scheduler("shop", 2, [entry("new", "@hourly"), entry("stays", "@yearly")])).await;
    until_listed(&t, &["new", "stays", "theirs"]).await;
    until_logged(&log, "+ new @hourly").await;
    assert_eq!(changes(&log, "shop", &mut shops), ["+ new @hourly"]);
    let gone = ticks(&t, &ours).await;
    until_more(&t, &theirs, 3).await;
    assert_eq!(ticks(&t, &ours).await, gone, "an entry that left the program fires no more");
    assert_eq!(changes(&log, "stock", &mut stocks), Vec::<String>::new());
    assert!(log.with("takes the schedule over").is_empty() && log.with("this scheduler follows").is_empty());
    shop.shutdown().await.unwrap();
    stock.shutdown().await.unwrap();
    assert!(listed(&t).await.is_empty());
}

#[tokio::test]
async fn a_newer_version_takes_the_schedule_over_and_an_older_one_leaves_its_changes() {
    let (t, log) = (Fixture::real_time().await, Log::keep());
    let (before, after) = (entry("changes", EACH_SECOND), entry("changes", "0 10 * * *"));
    // A leader notices a newer version after a third of its lease.
    let leads = scheduler("shop", 1, [before.clone(), entry("stays", EACH_SECOND)]).leader_ttl(TTL / 2);
    let old = start(&t, leads).await;
    until_ticks(&t, &before, 2).await;
    let mut logged = 0;
    assert_eq!(sorted_changes(&log, "shop", &mut logged), ["+ changes * * * * * *", "+ stays * * * * * *"]);
    let new = start(&t, scheduler("shop", 2, [after.clone(), entry("stays", EACH_SECOND)])).await;
    until_logged(&log, "a newer program takes the schedule over").await;
    until_logged(&log, "~ changes").await;
    assert_eq!(changes(&log, "shop", &mut logged), ["~ changes * * * * * * → 0 10 * * *"]);
    let planned = until_state(&t, &after, "the newer plan", |state| state.revision == 2).await;
    assert_eq!(planned.spec, "0 10 * * *");

    // While the newer version runs, its schedule is in force, and the older version's ticks do not fire.
    let fired = ticks(&t, &before).await;
    until_more(&t, &entry("stays", EACH_SECOND), 3).await;
    assert_eq!(ticks(&t, &before).await, fired);
    // A roll-back: the newer version goes, and the older one leads and schedules by its own plan.
    new.shutdown().await.unwrap();
    until_more(&t, &before, 3).await;
    let state = state(&t, &before).await.unwrap();
    assert_eq!((state.spec.as_str(), state.revision), (EACH_SECOND, 1));
    assert_eq!(changes(&log, "shop", &mut logged), ["~ changes 0 10 * * * → * * * * * *"]);
    until_listed(&t, &["changes", "stays"]).await;
    old.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_deploy_that_is_rolled_back_leaves_the_older_schedule_in_force() {
    // The lease and the listed entries of a killed version have to expire. Without an election no tick may fire before
    // that: the list lasts for longer than a busy machine takes to renew it.
    let longer = 4 * SHORTEST;
    for (election, is_killed, ttl) in [(true, false, TTL), (true, true, SHORTEST), (false, true, longer)] {
        let (t, log) = (Fixture::real_time().await, Log::keep());
        let (before, after) = (entry("report", EACH_SECOND), entry("report", "0 10 * * *"));
        let new = start(&t, scheduler("shop", 2, [after.clone()]).election(election).leader_ttl(ttl)).await;
        until_state(&t, &after, "the newer plan", |state| state.revision == 2).await;
        // Both run for a while; the entries that a killed version listed stay until they expire.
        let old = start(&t, scheduler("shop", 1, [before.clone()]).election(election).leader_ttl(SHORTEST)).await;
        if !election {
            until_logged(&log, "a newer program plans report * * * * * * in another way").await;
            assert!(ticks(&t, &before).await.is_empty());
        }
        if is_killed {
            drop(new);
        } else {
            new.shutdown().await.unwrap();
        }
        until_ticks(&t, &before, 2).await;
        until_listed(&t, &["report"]).await;
        old.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn of_two_versions_that_both_schedule_the_newer_ones_times_count() {
    let (t, _log) = (Fixture::real_time().await, Log::keep());
    let (every, even) = (entry("report", EACH_SECOND), entry("report", "*/2 * * * * *"));
    // Without an election each version sends all of its ticks.
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
async fn an_entry_that_the_leader_lacks_is_reported_by_a_follower_that_has_it() {
    let (t, log) = (Fixture::real_time().await, Log::keep());
    let (known, alone) = (entry("known", EACH_SECOND), entry("alone", EACH_SECOND));
    // Two programs of one name, or a leader of a version that does not have the entry.
    let leader = start(&t, scheduler("server", 1, [known.clone()])).await;
    until_ticks(&t, &known, 1).await;
    // A follower reads the listed entries once in three of its own leases.
    let follows = scheduler("server", 1, [known.clone(), alone.clone()]).leader_ttl(SHORTEST);
    let follower = start(&t, follows).await;
    until_logged(&log, "no scheduler fires alone * * * * * *: the leader of the program `server` does not have it")
        .await;
    assert_eq!(log.with("no scheduler fires ").len(), 1, "{:?}", log.with("no scheduler fires "));
    assert!(ticks(&t, &alone).await.is_empty());
    leader.shutdown().await.unwrap();
    // The follower has both entries and leads now.
    until_more(&t, &known, 2).await;
    until_more(&t, &alone, 2).await;
    follower.shutdown().await.unwrap();
}

/// The schedule and its lead run on the thread of the server's heartbeat.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_job_that_blocks_every_thread_of_its_runtime_stops_no_tick() {
    let t = Fixture::real_time().await;
    t.enqueue(asynq_tests::task("blocks")).await;
    let (gate, opens) = std::sync::mpsc::channel::<()>();
    let (starts, mut started) = tokio::sync::mpsc::unbounded_channel();
    let opens = Arc::new(Mutex::new(opens));
    let (report, ttl) = (entry("report", EACH_SECOND), 2 * SHORTEST);
    let jobs = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = Server::builder("nothing://is-connected")
        .broker(t.shared())
        .registry(Registry::from_descriptors([]).unwrap())
        .queue("default", 1)
        .service(scheduler("shop", 1, [report.clone()]).leader_ttl(ttl))
        .handle("email:", move |_: RawTask| {
            let (opens, starts) = (Arc::clone(&opens), starts.clone());
            async move {
                starts.send(())?;
                let _ = opens.lock().unwrap().recv();
                Ok::<(), BoxError>(())
            }
        });
    let running = jobs.spawn(server.build().await.unwrap().start()).await.unwrap().unwrap();
    soon(started.recv()).await.unwrap();
    // Longer than the lease of the lead.
    until_more(&t, &report, ttl.as_secs() as usize + 2).await;
    gate.send(()).unwrap();
    soon(running.shutdown()).await.unwrap();
    jobs.shutdown_background();
}

#[tokio::test]
async fn a_schedule_is_paused_resumed_and_forgotten_and_an_entry_runs_now() {
    let (t, _log) = (Fixture::real_time().await, Log::keep());
    let report = entry("report", EACH_SECOND);
    let schedule = Schedule::new(&Client::new(t.shared()));
    let (queue, id): (_, EntryId) = (report.queue().clone(), report.id().clone());
    assert!(!schedule.pause(&queue, &id).await.unwrap(), "no scheduler has planned it");
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

    assert!(schedule.pause(&queue, &id).await.unwrap());
    schedule.forget(&queue, &id).await.unwrap();
    // The pause is forgotten, too. The scheduler plans the entry anew, and fires none of its ticks a second time.
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
    // The other server is the case's own member.
    let it = servers.iter().find(|server| !server.info.rust_version.is_empty()).unwrap();
    assert!(it.info.queues.is_empty(), "{it:?}");
    running.shutdown().await.unwrap();

    // A server without entries and queues has no work, and queues need jobs.
    let server = || Server::builder("nothing://is-connected").registry(Registry::from_descriptors([]).unwrap());
    for builder in
        [server().service(asynq_cron::service()), server().service(scheduler("shop", 1, [report])).queue("default", 1)]
    {
        let error = builder.broker(t.shared()).build().await.unwrap_err();
        assert!(error.to_string().starts_with("this program has no jobs"), "{error}");
    }
}

#[tokio::test]
async fn a_server_with_an_entry_that_cannot_be_does_not_start_and_says_why() {
    let (t, _log) = (Fixture::real_time().await, Log::keep());
    let unknown = Periodic::new(CronSpec::parse("@daily").unwrap(), RawTask::new("reprot", "")).unwrap();
    let twice = || entry("report", "@daily");
    for (service, reason) in [
        (scheduler("shop", 1, [twice()]).leader_ttl("soon"), "invalid option `leader_ttl`: invalid duration \"soon\""),
        (
            scheduler("shop", 1, [twice()]).provider("soon", || async { Ok(Vec::new()) }),
            "invalid interval of the provider: invalid duration \"soon\"",
        ),
        (
            scheduler("shop", 1, [twice()])
                .provider("1m", || async { Ok(Vec::new()) })
                .provider("1h", || async { Ok(Vec::new()) }),
            "`provider` is given twice: give one provider that returns the entries of both",
        ),
        (scheduler("shop", 1, [unknown]), "no job `reprot` in this program; register it, or say `foreign()`"),
        (scheduler("shop", 1, [twice(), twice()]), "`report` is scheduled twice under the same key"),
    ] {
        let error = soon(built(t.another_broker().await, service).await.start()).await.unwrap_err();
        let reason_text =
            format!("{error} {}", std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default());
        assert!(reason_text.contains(reason), "{reason_text}");
    }
    assert!(tasks(&t).await.is_empty());
}

/// A clock that runs with the machine's and is off by the amount that the test sets.
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

/// The most ticks that are made up for after a jump of the clock.
const MADE_UP: u32 = 30;

#[tokio::test]
async fn a_brokers_clock_that_jumps_a_day_ahead_and_back_stops_nothing_and_doubles_nothing() {
    let (t, _log) = (Fixture::real_time().await, Log::keep());
    let clock = OffBy::default();
    let broker = t.store.connect(Some(Arc::new(clock.clone()))).await;
    // Half an hour from now, so that no tick becomes due by itself during the case.
    let minute = (Utc::now().minute() + 30) % 60;
    let hourly = entry("hourly", &format!("0 {minute} * * * *")).missed(Missed::All(50));
    // Ticks that a busy machine is late for are made up for, so that any gap comes from the clock.
    let often = entry("often", EACH_SECOND).missed(Missed::All(MADE_UP));
    // A scheduler asks for the broker's time once in a third of its lease.
    let service = scheduler("shop", 1, [often.clone(), hourly.clone()]).leader_ttl(SHORTEST);
    let running = start_on(broker, service).await;
    until_ticks(&t, &often, 2).await;

    // A day ahead: ticks that are due meanwhile are made up for, by the entry's policy.
    let (day, begun) = (TimeDelta::days(1), Utc::now().timestamp());
    clock.set(day);
    let fired = until_ticks(&t, &hourly, 24).await;
    assert!(fired.len() == 24 && fired.iter().all(|at| at % 3_600 == i64::from(minute) * 60), "{fired:?}");
    let is_ahead = |ticks: &[i64]| ticks.iter().filter(|&&at| at > begun + 80_000).count();
    eventually("ticks of tomorrow", async || {
        (is_ahead(&ticks(&t, &often).await) >= MADE_UP as usize + 2).then_some(())
    })
    .await;

    // And back: the schedule goes on, and no tick of tomorrow fires. If the jump were not noticed, it would stop for a day.
    clock.set(TimeDelta::zero());
    let back = Utc::now().timestamp();
    let since = eventually("ticks of today again", async || {
        let since: Vec<_> =
            ticks(&t, &often).await.into_iter().filter(|&at| (back..begun + 80_000).contains(&at)).collect();
        (since.len() >= 4).then_some(since)
    })
    .await;
    assert!(since.windows(2).all(|pair| pair[1] - pair[0] == 1), "{since:?}");
    let tomorrows = is_ahead(&ticks(&t, &often).await);
    until_more(&t, &often, 2).await;
    assert_eq!(is_ahead(&ticks(&t, &often).await), tomorrows);
    assert_eq!(ticks(&t, &hourly).await, fired, "an entry that fired ahead of its time fires no second time");

    // A day behind from the start of the broker's time: the opposite jump.
    clock.set(-day);
    let behind = Utc::now() - day;
    eventually("ticks of yesterday", async || {
        let ticks = ticks(&t, &often).await;
        (ticks.iter().filter(|&&at| at < behind.timestamp() + 1_000).count() >= 2).then_some(())
    })
    .await;
    running.shutdown().await.unwrap();
}
