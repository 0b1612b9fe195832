//! Tasks of every kind under hundreds of faults, with whole processes and default settings. `scripts/prove soak` runs it and
//! prints a line per broker; the seed decides about tasks and faults.

mod fault;
mod ledger;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::{Duration, Instant},
};

use asynq_runtime::{Client, EnqueueError, TaskState, broker::BrokerErrorKind, job::JobBuilder};
use asynq_tests::{
    RedisCluster, SentinelServers, SlowNetwork, WallClock,
    jobs::{Note, Trial},
    journal::written,
};
use chrono::Utc;
use fastrand::Rng;
use tempfile::TempDir;
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::sleep,
};

use self::{
    fault::{Fault, within},
    ledger::{Harm, Incident, ProducerReport, judge},
};
use crate::{
    process::number,
    processes::{
        small_disk,
        world::{Worker, World},
    },
};

const WORKERS: usize = 3;
/// Concurrent runs in each worker.
const CONCURRENCY: usize = 10;
/// Seconds between two ticks of the entry that the workers schedule.
const EVERY: i64 = 5;
/// Longer than a lease.
const LONG: Duration = Duration::from_secs(35);
/// Longer than a lease, in seconds.
const STEP: i64 = 40;
/// How long the remaining tasks may take after the last fault: two leases and the longest delay, many times over.
const REST: Duration = Duration::from_secs(600);

/// A producer's part of a round: enqueues `n` tasks, whose numbers begin with `first`.
///
/// Where a primary may die, a task counts as stored only if a replica has confirmed it, and no notes are enqueued: the record of
/// the set that a note was in could be lost with the primary.
async fn produce(client: Client, first: u32, n: u32, may_fail_over: bool, mut random: Rng) -> ProducerReport {
    let mut report = ProducerReport::default();
    for number in first..first + n {
        let id = number.to_string();
        let kind = random.u64(..100);
        // One in fifty of the failing tasks fails until it is archived.
        let fails = if kind < 20 { 1 + random.u64(..50).saturating_sub(46) as u32 } else { 0 };
        let is_note = (50..60).contains(&kind) && !may_fail_over;
        let mut again = false;
        loop {
            let trial = JobBuilder::new(Trial { fails, millis: random.u64(..60) }).task_id(&id).retention("1h");
            let stored = match kind {
                20..40 => client.enqueue(trial.process_in(within(20_000, &mut random))).await,
                40..50 => client.enqueue(trial.unique("1m")).await,
                _ if is_note => client.enqueue(JobBuilder::new(Note { n: number }).task_id(&id)).await,
                _ => client.enqueue(trial).await,
            };
            match stored {
                Ok(_) if is_note => _ = report.notes.insert(number),
                Err(EnqueueError::IdConflict { .. }) if may_fail_over => _ = report.unsure.insert(id.clone()),
                Err(EnqueueError::Broker(error)) if error.kind() == BrokerErrorKind::Unconfirmed => {
                    report.unsure.insert(id.clone());
                }
                Ok(_) | Err(EnqueueError::IdConflict { .. }) => _ = report.stored.insert(id.clone(), fails),
                // An earlier call may have stored this very task.
                Err(EnqueueError::Duplicate { .. }) if again => _ = report.unsure.insert(id.clone()),
                Err(EnqueueError::Duplicate { .. }) => report.refused += 1,
                // A note leaves no trace under its id, so that a second call could store it twice.
                Err(_) if is_note => {}
                Err(EnqueueError::Broker(_)) => {
                    (report.again, again) = (report.again + 1, true);
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
                Err(error) => panic!("{id}: {error}"),
            }
            break;
        }
    }
    report
}

/// Replicated servers of which one can be killed.
enum Replicated {
    Sentinel(SentinelServers),
    Cluster(RedisCluster),
}

impl Replicated {
    fn fail_over(&mut self) {
        match self {
            Self::Sentinel(servers) => servers.fail_over(),
            Self::Cluster(cluster) => cluster.fail_over("asynq:{default}:pending"),
        }
    }
}

/// The workers, and the incidents that they had.
struct Fleet {
    workers: Vec<Worker>,
    incidents: Vec<Incident>,
    replicated: Option<Replicated>,
    /// The clock of the workers, where it can be stepped.
    clock: Option<WallClock>,
    /// The network of the producers, on a single Redis.
    of_producers: Option<SlowNetwork>,
    /// The number of workers that ended with an error at their start.
    never_began: usize,
    /// Workers that are stopped or out of reach for long, each until its task here ends.
    stopped: Vec<JoinHandle<(Worker, Incident)>>,
}

impl Fleet {
    fn kill(&mut self, nth: usize) {
        let from = Utc::now();
        let pid = self.workers.swap_remove(nth).kill();
        self.incidents.push(Incident::since(from, pid, Harm::Killed));
    }

    /// Starts workers until their number is complete, as a supervisor does. A worker may have ended by itself only if it could
    /// not start because the broker was away.
    async fn complete(&mut self, world: &World) {
        for mut worker in std::mem::take(&mut self.workers) {
            if worker.has_ended() {
                let has_run = world.history().lines.iter().any(|line| line.pid == worker.pid());
                assert!(!has_run, "a worker ended without a signal");
                self.never_began += 1;
            } else {
                self.workers.push(worker);
            }
        }
        while self.workers.len() < WORKERS {
            self.workers.push(world.soaked_worker(CONCURRENCY, self.clock.as_ref()).await);
        }
    }

    async fn inject(&mut self, fault: Fault, world: &mut World, random: &mut Rng) {
        let nth = random.usize(..self.workers.len());
        match fault {
            Fault::Kill => self.kill(nth),
            Fault::KillAll => (0..self.workers.len()).for_each(|_| self.kill(0)),
            Fault::Term => {
                let mut worker = self.workers.swap_remove(nth);
                let (from, pid) = (Utc::now(), worker.pid());
                worker.signal("TERM");
                assert!(worker.ended().await.success(), "a worker that is asked to leaves without an error");
                self.incidents.push(Incident::since(from, pid, Harm::Terminated));
            }
            Fault::StopShort => {
                let worker = &self.workers[nth];
                worker.signal("STOP");
                sleep(within(3_000, random)).await;
                worker.signal("CONT");
            }
            Fault::StopLong => {
                let worker = self.workers.swap_remove(nth);
                self.stopped.push(tokio::spawn(async move {
                    let from = Utc::now();
                    worker.signal("STOP");
                    sleep(LONG).await;
                    worker.signal("CONT");
                    let incident = Incident::since(from, worker.pid(), Harm::Stopped);
                    (worker, incident)
                }));
            }
            Fault::SilentShort => {
                let of_worker = self.workers[nth].network.as_ref();
                let networks: Vec<_> = of_worker.into_iter().chain(&self.of_producers).collect();
                networks.iter().for_each(|network| network.freeze());
                sleep(within(8_000, random)).await;
                networks.iter().for_each(|network| network.thaw());
            }
            Fault::SilentLong => {
                let worker = self.workers.swap_remove(nth);
                self.stopped.push(tokio::spawn(async move {
                    let (from, network) = (Utc::now(), worker.network.as_ref().unwrap());
                    network.freeze();
                    sleep(LONG).await;
                    network.thaw();
                    let incident = Incident::since(from, worker.pid(), Harm::Silenced);
                    (worker, incident)
                }));
            }
            Fault::Forget => self.workers[nth].network.as_ref().unwrap().forget_connections(),
            Fault::Restart | Fault::Outage => {
                let redis = world.redis.as_mut().unwrap();
                redis.kill();
                sleep(if fault == Fault::Outage { LONG + Duration::from_secs(5) } else { within(3_000, random) }).await;
                redis.restart();
            }
            Fault::Cut => {
                redis::cmd("CLIENT")
                    .arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"])
                    .exec(&mut world.redis.as_ref().unwrap().connection())
                    .unwrap();
            }
            Fault::Full => {
                let mut connection = world.redis.as_ref().unwrap().connection();
                let mut limit =
                    |bytes: &str| redis::cmd("CONFIG").arg(&["SET", "maxmemory", bytes]).exec(&mut connection).unwrap();
                limit("1");
                sleep(within(3_000, random)).await;
                limit("0");
            }
            Fault::Freeze => {
                let _stopped = world.redis.as_ref().unwrap().stop();
                sleep(within(8_000, random)).await;
            }
            Fault::FailOver => {
                let mut servers = self.replicated.take().unwrap();
                // Tasks that the dead primary assigned before count, and none that its successor assigns.
                let killed = Utc::now();
                let fail_over = move || {
                    servers.fail_over();
                    servers
                };
                self.replicated = Some(spawn_blocking(fail_over).await.unwrap());
                self.incidents.push(Incident { pid: 0, from: killed, until: killed, harm: Harm::FailedOver });
            }
            Fault::Lock | Fault::LockLong => {
                let other = rusqlite::Connection::open(world.url.strip_prefix("sqlite://").unwrap()).unwrap();
                other.busy_timeout(REST).unwrap();
                other.execute_batch("BEGIN IMMEDIATE").unwrap();
                sleep(if fault == Fault::LockLong { LONG } else { within(4_000, random) }).await;
                other.execute_batch("COMMIT").unwrap();
            }
            Fault::Step => {
                let clock = self.clock.as_ref().unwrap();
                clock.step_to(STEP);
                sleep(within(20_000, random)).await;
                clock.step_to(0);
            }
            Fault::FullDisk => {
                let filler = world.file().with_file_name("filler");
                small_disk::fill(&filler);
                sleep(within(8_000, random)).await;
                fs::remove_file(filler).unwrap();
            }
        }
        self.take_back(JoinHandle::is_finished).await;
    }

    /// Takes workers that were stopped or out of reach for long back into the fleet.
    async fn take_back(&mut self, which: impl Fn(&JoinHandle<(Worker, Incident)>) -> bool) {
        for stopped in self.stopped.extract_if(.., |stopped| which(stopped)).collect::<Vec<_>>() {
            let (worker, incident) = stopped.await.unwrap();
            self.incidents.push(incident);
            self.workers.push(worker);
        }
    }
}

/// Returns the faults of `weights` that can be injected here, and prints the others with the reason.
fn possible(weights: &[(u64, Fault)], has_clock: bool, has_small_disk: bool) -> Vec<(u64, Fault)> {
    let why_not = |fault| match fault {
        Fault::Step if !has_clock => Some(WallClock::MISSING),
        Fault::FullDisk if !has_small_disk => Some("this user may not mount a small file system"),
        _ => None,
    };
    let (possible, others): (Vec<_>, Vec<_>) = weights.iter().partition(|(_, fault)| why_not(*fault).is_none());
    for (_, fault) in others {
        println!("soak: without {fault:?}: {}", why_not(fault).unwrap_or_default());
    }
    possible
}

async fn soak(mut world: World, replicated: Option<Replicated>, clock: Option<WallClock>, weights: &[(u64, Fault)]) {
    let (seed, tasks, faults) = (number("SOAK_SEED", 1), number("SOAK_TASKS", 100_000), number("SOAK_FAULTS", 250));
    let (began, mut random) = (Instant::now(), Rng::with_seed(seed));
    let of_producers = world.network().await;
    let url = of_producers.as_ref().map_or_else(|| world.url.clone(), SlowNetwork::url);
    let client = Client::connect(&url).await.unwrap();
    let (workers, incidents, stopped) = (Vec::new(), Vec::new(), Vec::new());
    let mut fleet = Fleet { workers, incidents, replicated, clock, of_producers, never_began: 0, stopped };
    let may_fail_over = fleet.replicated.is_some();
    let (mut report, mut injected) = (ProducerReport::default(), BTreeMap::<Fault, usize>::new());
    fleet.complete(&world).await;
    let mut first = 0;
    for round in 0..faults {
        let share = tasks / faults + u64::from(round < tasks % faults);
        // Four producers, each with numbers of its own.
        let producers: Vec<_> = (0..4)
            .map(|nth| {
                let n = (share / 4 + u64::from(nth < share % 4)) as u32;
                let random = Rng::with_seed(seed ^ (round << 8) ^ (nth << 40));
                first += n;
                tokio::spawn(produce(client.clone(), first - n, n, may_fail_over, random))
            })
            .collect();
        // A fault can come at any moment of the round, so its time is drawn and not awaited.
        sleep(within(1_000, &mut random)).await;
        let fault = if round == faults / 2 { weights[weights.len() - 1].1 } else { Fault::drawn(weights, &mut random) };
        fleet.inject(fault, &mut world, &mut random).await;
        *injected.entry(fault).or_default() += 1;
        fleet.complete(&world).await;
        for producer in producers {
            report.add(producer.await.unwrap());
        }
    }
    fleet.take_back(|_| true).await;

    // The next leader makes up for missed ticks first. Tasks that a killed worker had claimed from a group come back after two
    // minutes, and no state counts them until then.
    let (rest, last) = (Instant::now(), Utc::now().timestamp());
    // The numbers are those of the look that finds the queue idle: the next one may see a tick run.
    let stuck = loop {
        let (lost, _) = ledger::misplaced(&report.notes, &written(&world.digests()));
        let stats = world.broker().queue_stats(&World::queue()).await;
        let is_idle = stats.as_ref().is_ok_and(|stats| stats.is_idle());
        let is_over = lost.is_empty() && is_idle && ledger::ticks(&world.history()).last() >= Some(&last);
        if is_over || rest.elapsed() >= REST {
            let stats = stats.unwrap();
            break stats.size - stats.archived - stats.completed;
        }
        sleep(Duration::from_secs(1)).await;
    };
    // Ticks go on until the workers leave, so that some tasks are running then.
    for worker in &mut fleet.workers {
        let (from, pid) = (Utc::now(), worker.pid());
        worker.signal("TERM");
        assert!(worker.ended().await.success());
        fleet.incidents.push(Incident::since(from, pid, Harm::Terminated));
    }
    let history = world.history();
    let ticks = ledger::ticks(&history);
    let missing = ledger::missing(&ticks, EVERY);
    let archived = world.tasks(TaskState::Archived).await.into_iter().map(|task| task.id.to_string()).collect();
    let verdict = judge(&report, &history.lines, &fleet.incidents, &archived);
    let (lost_notes, doubled_notes) = ledger::misplaced(&report.notes, &written(&world.digests()));
    println!(
        "soak: {}{} with seed {seed}: {} tasks and {} notes stored, {} refused as duplicates, {} calls made again; {faults} faults \
         {injected:?}: lost {}, unexplained {}, notes lost {}, in two digests {}, stuck {stuck}; {} ran again, each after an incident to \
         its worker, {} of them reached their end twice; {} failures and {} archived as planned; {} archived after three kills; {} ticks and {} missing; {} workers could not start; \
         {:?}",
        world.broker().kind(),
        match fleet.replicated {
            None => "",
            Some(Replicated::Sentinel(_)) => " behind Sentinel",
            Some(Replicated::Cluster(_)) => " Cluster",
        },
        report.stored.len(),
        report.notes.len(),
        report.refused,
        report.again,
        verdict.lost.len(),
        verdict.unexplained.len(),
        lost_notes.len(),
        doubled_notes.len(),
        verdict.again,
        verdict.ended_twice,
        verdict.failures,
        verdict.archived,
        verdict.crashed,
        ticks.len(),
        missing.len(),
        fleet.never_began,
        began.elapsed(),
    );
    if let Some(Replicated::Sentinel(servers)) = &fleet.replicated {
        println!("the sentinels have seen {} failovers", servers.switches());
    }
    // The workers whose tasks ran again without a reason, and the times of failovers.
    let mut by: BTreeMap<u32, usize> = BTreeMap::new();
    for id in &verdict.unexplained {
        let last = history.lines.iter().rfind(|line| line.id == *id);
        *by.entry(last.map_or(0, |line| line.pid)).or_default() += 1;
    }
    if !by.is_empty() {
        let harms: Vec<_> =
            fleet.incidents.iter().filter(|incident| incident.pid == 0 || by.contains_key(&incident.pid)).collect();
        println!("run again by {by:?}: {harms:#?}");
    }
    for id in verdict.lost.iter().chain(&verdict.unexplained).take(5) {
        let lines: Vec<_> = history.lines.iter().filter(|line| line.id == *id).collect();
        let pids: BTreeSet<u32> = lines.iter().map(|line| line.pid).collect();
        let incidents: Vec<_> = fleet.incidents.iter().filter(|incident| pids.contains(&incident.pid)).collect();
        println!("{id}: {lines:#?}\n{incidents:#?}\narchived: {}", archived.contains(id));
    }
    assert_eq!((stuck, verdict.lost, verdict.unexplained), (0, Vec::new(), Vec::new()));
    assert_eq!((lost_notes, doubled_notes), (Vec::new(), Vec::new()));
    assert!(ticks.last() >= Some(&last), "the schedule has stopped: {ticks:?}");
    assert_eq!(missing, [] as [i64; 0], "of {ticks:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a quarter of an hour: scripts/prove soak"]
async fn nothing_is_lost_on_redis() {
    let clock = WallClock::new();
    let weights = possible(Fault::REDIS, clock.is_some(), false);
    soak(World::redis().await, None, clock, &weights).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a quarter of an hour: scripts/prove soak"]
async fn nothing_is_lost_behind_sentinels() {
    // Long enough that a primary which a busy machine stops for a moment is not taken for dead and gets no rival.
    let servers = spawn_blocking(|| SentinelServers::with_down_after(Duration::from_secs(5))).await.unwrap();
    replicated(servers.url() + "&", Replicated::Sentinel(servers)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a quarter of an hour: scripts/prove soak"]
async fn nothing_is_lost_on_a_cluster() {
    let cluster = spawn_blocking(RedisCluster::with_replicas).await.unwrap();
    replicated(cluster.url() + "?", Replicated::Cluster(cluster)).await;
}

/// Runs on servers at `url`, to whose end a parameter can be appended.
async fn replicated(url: String, servers: Replicated) {
    let world = World::at(url + "durability=replicas(1)&durability_timeout=200ms").await;
    let clock = WallClock::new();
    let weights = possible(Fault::REPLICATED, clock.is_some(), false);
    soak(world, Some(servers), clock, &weights).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a quarter of an hour: scripts/prove soak"]
async fn nothing_is_lost_on_sqlite() {
    const NAME: &str = "processes::soak::nothing_is_lost_on_sqlite";
    let on = async |url: String, has_small_disk| {
        let clock = WallClock::new();
        let weights = possible(Fault::SQLITE, clock.is_some(), has_small_disk);
        soak(World::at(url).await, None, clock, &weights).await;
    };
    let on_disk = async |folder: &Path| on(format!("sqlite://{}/jobs.db", folder.display()), true).await;
    if !small_disk::run_on("1g", NAME, "soak: ", on_disk).await {
        let folder = TempDir::new().unwrap();
        on(format!("sqlite://{}/jobs.db", folder.path().display()), false).await;
    }
}
