//! Redis moves under load: a slot of a cluster again and again, and a primary that dies.

use std::{
    collections::BTreeSet,
    iter,
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::{Client, EnqueueError, broker::BrokerErrorKind, job::JobBuilder};
use asynq_tests::{
    RedisCluster, SentinelServers, eventually,
    jobs::Record,
    journal::{Event, History, tasks_with},
    soon,
};
use chrono::{DateTime, TimeDelta, Utc};
use tokio::{
    sync::watch,
    task::{JoinSet, spawn_blocking},
    time::sleep,
};

use crate::processes::world::World;

/// Concurrent enqueues, and the pause of each producer between two.
const PRODUCERS: usize = 8;
const PAUSE: Duration = Duration::from_millis(15);
/// Concurrent runs in each of the two workers.
const CONCURRENCY: usize = 20;
/// The duration of a job.
const MILLIS: u64 = 20;
/// For so long after the death of a primary, the dead primary may have assigned a task that a worker asked for: the clocks of the
/// worker and the test may differ, and the other servers believe the primary alive for about that time (`tests/src/redis`).
const BELIEVED_ALIVE: TimeDelta = TimeDelta::seconds(1);
/// For so long before its death a primary may have been the only one to know of an end: far longer than a replica lags behind.
const UNREPLICATED: TimeDelta = TimeDelta::seconds(30);

/// The answers that the producers got.
#[derive(Debug, Default)]
struct ProducerReport {
    /// Tasks stored with the durability asked for.
    safe: BTreeSet<String>,
    /// Tasks stored, but without a confirmed durability.
    unsure: BTreeSet<String>,
    /// The number of calls that failed and were repeated.
    again: usize,
    /// The longest time from the first call for a task to the one that worked.
    longest: Duration,
}

/// Enqueues until `stop` is set. Every task has an id and is retained after its end, so that a repeated call does not store it
/// twice.
async fn produce(client: Client, producer: usize, mut stop: watch::Receiver<bool>) -> ProducerReport {
    let mut report = ProducerReport::default();
    for number in 0.. {
        let id = format!("{producer}-{number}");
        let began = Instant::now();
        loop {
            let job = JobBuilder::new(Record { millis: MILLIS }).task_id(&id).retention("1h");
            match client.enqueue(job).await {
                Ok(_) => report.safe.insert(id.clone()),
                // An earlier call, whose answer was lost, stored the task.
                Err(EnqueueError::IdConflict { .. }) => report.unsure.insert(id.clone()),
                Err(EnqueueError::Broker(error)) if error.kind() == BrokerErrorKind::Unconfirmed => {
                    report.unsure.insert(id.clone())
                }
                Err(error) => {
                    let is_later = matches!(&error, EnqueueError::Broker(error) if error.is_unavailable());
                    assert!(is_later, "a move means later, not failure: {error:?}");
                    report.again += 1;
                    sleep(Duration::from_millis(20)).await;
                    continue;
                }
            };
            break;
        }
        report.longest = report.longest.max(began.elapsed());
        if tokio::time::timeout(PAUSE, stop.wait_for(|stop| *stop)).await.is_ok() {
            break;
        }
    }
    report
}

/// Runs producers and two workers beside `story`, then waits until all work is done.
async fn under_load<T>(world: &World, story: impl Future<Output = T>) -> (ProducerReport, T) {
    let _workers = [world.worker(CONCURRENCY), world.worker(CONCURRENCY)];
    let (stop, stopped) = watch::channel(false);
    let mut producers = JoinSet::new();
    for producer in 0..PRODUCERS {
        producers.spawn(produce(world.client.clone(), producer, stopped.clone()));
    }
    let outcome = story.await;
    stop.send_replace(true);
    let mut report = ProducerReport::default();
    for one in soon(producers.join_all()).await {
        report.safe.extend(one.safe);
        report.unsure.extend(one.unsure);
        report.again += one.again;
        report.longest = report.longest.max(one.longest);
    }
    world.settled().await;
    (report, outcome)
}

/// Tasks that no run has ended.
fn lost<'t>(ids: &'t BTreeSet<String>, history: &History) -> Vec<&'t String> {
    let ends = history.ends();
    ids.iter().filter(|id| !ends.contains_key(id.as_str())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_again_and_again_under_load_loses_nothing_and_doubles_nothing() {
    // Each master gives the slot away twice; `scripts/prove moves` goes on for longer.
    let rounds: usize = std::env::var("SLOT_MOVES").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let cluster = Arc::new(spawn_blocking(RedisCluster::start).await.unwrap());
    let world = World::at(cluster.url()).await;
    let (report, took) = under_load(&world, async {
        let mut took = Duration::ZERO;
        for _ in 0..rounds {
            let began = Instant::now();
            let cluster = Arc::clone(&cluster);
            let moving = move || {
                let slot = cluster.slot("asynq:{default}:pending");
                let to = (cluster.owner(slot) + 1) % 3;
                cluster.move_slot(slot, to, 10);
            };
            spawn_blocking(moving).await.unwrap();
            took += began.elapsed();
            // Progress on the new master before the next move shows that the workers have found it.
            let ended = || tasks_with(Event::End, &world.journal());
            let before = ended();
            eventually("work is done where the slot is now", async || (ended() > before + 20).then_some(())).await;
        }
        took
    })
    .await;

    let history = world.history();
    let all: BTreeSet<String> = report.safe.union(&report.unsure).cloned().collect();
    assert_eq!(lost(&all, &history), [] as [&String; 0], "lost");
    assert_eq!(history.repeated(), [], "doubled");
    assert_eq!(history.ends().len(), all.len());
    assert!(history.lines.iter().all(|line| line.retried == 0), "a move is not a failure of a task");
    println!(
        "cluster: a slot moved {rounds} times in {took:?} under load: {} tasks, 0 lost, 0 doubled; {} enqueues were made \
         again, the longest took {:?}",
        all.len(),
        report.again,
        report.longest
    );
}

/// The time of a primary's death: before and after the call that killed it.
#[derive(Debug, Clone, Copy)]
struct Death {
    earliest: DateTime<Utc>,
    latest: DateTime<Utc>,
}

impl Death {
    fn by(kill: impl FnOnce()) -> Self {
        let earliest = Utc::now();
        kill();
        Self { earliest, latest: Utc::now() }
    }

    /// The last moment at which a worker can have asked for a run that the dead primary assigned.
    fn last_write(&self) -> DateTime<Utc> {
        self.latest + BELIEVED_ALIVE
    }
}

/// Returns whether each repeated run of a task has a primary's death as its reason: the death came between the taking of a
/// run and the start of the next, and the primary lost the task's assignment or its end.
fn had_a_reason(history: &History, id: &str, deaths: &[Death]) -> bool {
    let lines = || history.lines.iter().filter(|line| line.id == id);
    let starts: Vec<_> = lines().filter(|line| line.event == Event::Start).collect();
    iter::zip(&starts, &starts[1..]).all(|(run, next)| {
        let ended = lines().filter(|line| line.fence == run.fence).map(|line| line.at).max().unwrap_or(run.at);
        deaths.iter().any(|death| {
            run.taken_at() <= death.last_write() && ended >= death.earliest - UNREPLICATED && next.at >= death.earliest
        })
    })
}

fn check_failovers(title: &str, report: &ProducerReport, history: &History, deaths: &[Death], away: &[Duration]) {
    assert_eq!(lost(&report.safe, history), [] as [&String; 0], "lost although a replica had confirmed it");
    let repeated = history.repeated();
    for (id, _) in &repeated {
        let lines: Vec<_> = history.lines.iter().filter(|line| line.id == *id).collect();
        let why = "was not in flight when a primary died and ran again";
        assert!(had_a_reason(history, id, deaths), "{id} {why}: deaths {deaths:?}, {lines:#?}");
    }
    assert!(history.lines.iter().all(|line| line.retried == 0), "a failover is not a failure of a task");
    println!(
        "{title}: primary killed {} time(s) under load, away for {away:?}: {} tasks confirmed by a replica, 0 lost; {} more \
         unconfirmed, {} of them lost; {} ran again, all in flight then; {} enqueues were made again",
        deaths.len(),
        report.safe.len(),
        report.unsure.len(),
        lost(&report.unsure, history).len(),
        repeated.len(),
        report.again,
    );
}

/// Waits until jobs begin that the successor assigned, and returns the time from `death` to the first of them.
async fn until_work_goes_on(world: &World, death: Death) -> Duration {
    eventually("work goes on after the failover", async || {
        let history = world.history();
        let ends = history.ends();
        let assigned_later = |at: DateTime<Utc>| at > death.last_write();
        let begun = history.lines.iter().filter(|line| line.event == Event::Start && assigned_later(line.taken_at()));
        let begun: Vec<_> = begun.filter(|line| ends.contains_key(line.id.as_str())).collect();
        let first = begun.iter().map(|line| line.at - death.latest).min()?;
        (begun.len() > CONCURRENCY).then(|| first.to_std().unwrap_or_default())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_behind_sentinels_that_dies_under_load_loses_nothing_that_was_confirmed() {
    let mut servers = spawn_blocking(SentinelServers::failing_over).await.unwrap();
    let url = servers.url() + "&lease=10s&durability=replicas(1)&durability_timeout=200ms";
    let world = World::at(url).await;
    let (report, (deaths, away, _servers)) = under_load(&world, async {
        let (mut deaths, mut away) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            world.started(100 * (1 + deaths.len())).await;
            let master = servers.master();
            let death = Death::by(|| servers.kill(master));
            deaths.push(death);
            away.push(until_work_goes_on(&world, death).await);
            servers = spawn_blocking(move || {
                servers.rejoin(master);
                servers
            })
            .await
            .unwrap();
        }
        // The servers have to live until all work is done.
        (deaths, away, servers)
    })
    .await;
    check_failovers("sentinel", &report, &world.history(), &deaths, &away);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_of_a_cluster_that_dies_under_load_loses_nothing_that_was_confirmed() {
    let mut cluster = spawn_blocking(RedisCluster::with_replicas).await.unwrap();
    let world = World::at(cluster.url() + "?lease=10s&durability=replicas(1)&durability_timeout=200ms").await;
    let (report, (deaths, away)) = under_load(&world, async {
        world.started(100).await;
        let master = cluster.owner(cluster.slot("asynq:{default}:pending"));
        let death = Death::by(|| cluster.kill(master));
        (vec![death], vec![until_work_goes_on(&world, death).await])
    })
    .await;
    check_failovers("cluster", &report, &world.history(), &deaths, &away);
}
