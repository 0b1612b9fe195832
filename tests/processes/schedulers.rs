//! Five scheduler processes with four entries a second, the leader of which is killed, stopped or cut off every few seconds.
//!
//! `SCHEDULER_TICKS` and `SCHEDULER_FAULTS` set the length of the run: `scripts/prove schedulers` makes it long.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use asynq_cron::Tick;
use asynq_runtime::{RawTask, prelude::*};
use asynq_tests::{PATIENCE, Persistence, RedisServer, eventually};
use tempfile::TempDir;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::process::Process;

const SCHEDULERS: usize = 5;
const ENTRIES: usize = 4;
/// The longest promised time without a leader: the lease of 3 s, and a second.
const TAKEOVER: Duration = Duration::from_secs(4);

/// The length of the run, which ends when both counts are reached.
#[derive(Clone, Copy)]
struct Length {
    ticks: usize,
    faults: usize,
    /// The longest time from a fault to the next leader.
    hand_over: Duration,
}

impl Length {
    /// A long run has the machine for itself and is held to the promised time without a leader.
    fn from_env() -> Self {
        let read = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        let (ticks, faults) = (read("SCHEDULER_TICKS"), read("SCHEDULER_FAULTS"));
        let hand_over = if faults.is_some() { TAKEOVER } else { PATIENCE };
        Self { ticks: ticks.unwrap_or(12), faults: faults.unwrap_or(3), hand_over }
    }
}

/// The broker that all schedulers share.
enum SharedBroker {
    Redis(RedisServer),
    Sqlite(TempDir),
}

impl SharedBroker {
    fn redis() -> Self {
        Self::Redis(RedisServer::start(Persistence::None))
    }

    fn sqlite() -> Self {
        Self::Sqlite(TempDir::new().unwrap())
    }

    fn url(&self) -> String {
        match self {
            Self::Redis(server) => server.url(),
            Self::Sqlite(_) => format!("sqlite://{}", self.file().unwrap().display()),
        }
    }

    fn file(&self) -> Option<PathBuf> {
        match self {
            Self::Redis(_) => None,
            Self::Sqlite(folder) => Some(folder.path().join("jobs.db")),
        }
    }

    /// Whether every writer is locked out: a process that was stopped in the middle of a transaction holds SQLite's own lock on
    /// the file until it continues. A process stopped outside of a transaction costs the others a moment (fair_write_lock.rs).
    fn is_locked(&self) -> bool {
        let Some(file) = self.file() else { return false };
        let connection = rusqlite::Connection::open(file).unwrap();
        connection.busy_timeout(TAKEOVER).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_err()
    }
}

/// A connection to Redis that can be cut.
struct Proxy {
    open: watch::Sender<bool>,
    port: u16,
}

impl Proxy {
    async fn to(redis: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (open, is_open) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut is_open = is_open.clone();
                if !*is_open.borrow_and_update() {
                    continue;
                }
                tokio::spawn(async move {
                    let Ok(mut far) = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], redis))).await else {
                        return;
                    };
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        _ = is_open.changed() => {}
                    }
                });
            }
        });
        Self { open, port }
    }
}

struct Scheduler {
    process: Process,
    proxy: Option<Proxy>,
    /// Whether this scheduler leads, and the time of its last message about that.
    leadership: Arc<Mutex<(bool, Instant)>>,
}

impl Scheduler {
    async fn start(broker: &SharedBroker, election: bool) -> Self {
        let proxy = match broker {
            SharedBroker::Redis(server) => Some(Proxy::to(server.port()).await),
            SharedBroker::Sqlite(_) => None,
        };
        let url = proxy.as_ref().map_or_else(|| broker.url(), |proxy| format!("redis://127.0.0.1:{}/0", proxy.port));
        let mut command = Command::new(env!("CARGO_BIN_EXE_helper"));
        command
            .arg("scheduler")
            .env("ASYNQ_URL", url)
            .env("ELECTION", if election { "on" } else { "off" })
            // The scheduler ends when this input ends.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = Process::start(&mut command);
        let leadership = Arc::new(Mutex::new((false, Instant::now())));
        let (state, output) = (Arc::clone(&leadership), process.stdout.take().unwrap());
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if line == "leads" || line == "follows" {
                    *state.lock().unwrap_or_else(PoisonError::into_inner) = (line == "leads", Instant::now());
                }
            }
        });
        Self { process, proxy, leadership }
    }

    fn leads(&self) -> Option<Instant> {
        let (leads, since) = *self.leadership.lock().unwrap();
        leads.then_some(since)
    }
}

/// The tasks that arrived: the number of each entry's ticks, by second.
#[derive(Clone, Default)]
struct Arrived(Arc<Mutex<BTreeMap<(String, i64), usize>>>);

impl Arrived {
    fn note(&self, entry: &[u8], tick: i64) {
        let entry = String::from_utf8_lossy(entry).into_owned();
        *self.0.lock().unwrap().entry((entry, tick)).or_insert(0) += 1;
    }

    /// The seconds of the first and the last tick of each entry.
    fn spans(&self) -> BTreeMap<String, (i64, i64)> {
        let mut spans = BTreeMap::new();
        for (entry, tick) in self.0.lock().unwrap().keys() {
            let span = spans.entry(entry.clone()).or_insert((*tick, *tick));
            *span = (span.0.min(*tick), span.1.max(*tick));
        }
        spans
    }
}

/// The leader after a fault.
enum Takeover {
    /// Another scheduler, so long after the fault.
    After(Duration),
    /// A scheduler that had taken the lead before the fault.
    Earlier,
    /// No scheduler can lead: the stopped one holds the lock of the file.
    Locked,
}

/// Runs five schedulers through faults and counts the ticks that arrive.
async fn story(broker: SharedBroker, election: bool, length: Length) {
    let arrived = Arrived::default();
    let noted = arrived.clone();
    // The worker is never harmed: a tick that runs twice was enqueued twice.
    let server = Server::builder(broker.url())
        .registry(Registry::from_descriptors([]).unwrap())
        .handle("tick", move |task: RawTask| {
            noted.note(task.payload(), Tick::of(&task.context()).scheduled_at().timestamp());
            async { Ok::<(), JobError>(()) }
        })
        .queue("ticks", 1)
        .concurrency(8)
        .build()
        .await
        .unwrap();
    let worker = server.start().await.unwrap();

    let mut schedulers = Vec::new();
    for _ in 0..SCHEDULERS {
        schedulers.push(Scheduler::start(&broker, election).await);
    }
    eventually("ticks of every entry arrive", async || (arrived.spans().len() == ENTRIES).then_some(())).await;
    let begun = arrived.spans();

    let (mut faults, mut kinds, mut takeovers, mut locked) = (0, [0; 3], Vec::new(), 0);
    let done =
        |arrived: &Arrived| arrived.spans().iter().all(|(entry, span)| span.1 - begun[entry].0 >= length.ticks as i64);
    while faults < length.faults || !done(&arrived) {
        // Each fault takes longer than half a second, and ticks missed meanwhile are made up for.
        assert!(faults <= length.faults + 3 * length.ticks, "the schedule stands still: {:?}", arrived.spans());
        // 2 to 8 s, different for each fault and the same in every run.
        let pause = 2_000 + (faults as u64 * 2_617) % 6_000;
        let pause = if length.faults < 10 { pause / 3 } else { pause };
        let leader = eventually("a scheduler leads", async || {
            let leaders: Vec<_> = (0..SCHEDULERS).filter(|&at| schedulers[at].leads().is_some()).collect();
            (!leaders.is_empty()).then(|| leaders[faults % leaders.len()])
        })
        .await;
        let struck = Instant::now();
        let kind = match (faults % 3, &schedulers[leader].proxy) {
            // The connection of a process to its file cannot be cut.
            (2, None) => 1,
            (kind, _) => kind,
        };
        match kind {
            0 => schedulers[leader].process.kill().unwrap(),
            1 => schedulers[leader].process.signal("STOP"),
            _ => {
                schedulers[leader].proxy.as_ref().unwrap().open.send_replace(false);
            }
        }
        *schedulers[leader].leadership.lock().unwrap() = (false, struck);
        faults += 1;
        kinds[kind] += 1;
        if election {
            let takeover = eventually("another scheduler leads", async || {
                let others = schedulers.iter().enumerate().filter(|(at, _)| *at != leader);
                let leads: Vec<_> = others.filter_map(|(_, other)| other.leads()).collect();
                if let Some(since) = leads.iter().filter(|&&since| since >= struck).min() {
                    return Some(Takeover::After(*since - struck));
                }
                let is_late = struck.elapsed() > TAKEOVER;
                match leads.is_empty() {
                    // The harmed scheduler had lost the lead before the fault, and had not said so yet.
                    false => Some(Takeover::Earlier),
                    true => (is_late && kind == 1 && broker.is_locked()).then_some(Takeover::Locked),
                }
            })
            .await;
            match takeover {
                Takeover::After(after) => takeovers.push(after),
                Takeover::Locked => locked += 1,
                Takeover::Earlier => {}
            }
        }
        tokio::time::sleep(Duration::from_millis(pause)).await;
        match kind {
            0 => schedulers[leader] = Scheduler::start(&broker, election).await,
            1 => schedulers[leader].process.signal("CONT"),
            _ => {
                schedulers[leader].proxy.as_ref().unwrap().open.send_replace(true);
            }
        }
        if !election && kind != 0 {
            schedulers[leader].leadership.lock().unwrap().0 = true;
        }
    }

    // Ticks that are missing now must still come.
    let until = chrono::Utc::now().timestamp();
    eventually("the schedule goes on", async || arrived.spans().values().all(|span| span.1 >= until).then_some(()))
        .await;
    drop(schedulers);
    worker.shutdown().await.unwrap();

    let all = arrived.0.lock().unwrap().clone();
    let doubled: Vec<_> = all.iter().filter(|(_, times)| **times > 1).collect();
    let missed: Vec<_> = begun
        .iter()
        .flat_map(|(entry, span)| (span.0..=until).map(move |tick| (entry.clone(), tick)))
        .filter(|key| !all.contains_key(key))
        .collect();
    assert_eq!(doubled, [], "ticks fired more than once");
    assert_eq!(missed, [], "ticks that never fired");
    takeovers.sort();
    let p99 = takeovers.get(takeovers.len().saturating_sub(1).min(takeovers.len() * 99 / 100)).copied();
    let [killed, stopped, cut] = kinds;
    println!(
        "schedulers: {} ticks of {ENTRIES} entries, {faults} faults ({killed} killed, {stopped} stopped, {cut} cut off), \
         election {election}: 0 missed, 0 doubled, hand-over p99 {p99:?}, longest {:?}, \
         {locked} stopped with the file's lock",
        all.len(),
        takeovers.last(),
    );
    let most = (stopped / 10).max(2);
    assert!(locked <= most, "{locked} of {stopped} were stopped with the file's lock, at most {most} may be by chance");
    if let Some(longest) = takeovers.last() {
        assert!(*longest <= length.hand_over, "the lead was handed over after {longest:?}");
    }
}

#[tokio::test]
async fn a_scheduler_ends_with_the_test_program() {
    let broker = SharedBroker::sqlite();
    let mut scheduler = Scheduler::start(&broker, true).await;
    drop(scheduler.process.stdin.take());
    let status = eventually("the scheduler ends", async || scheduler.process.try_wait().unwrap()).await;
    assert!(!status.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_tick_fires_once_on_redis_through_any_failure_of_the_leader() {
    story(SharedBroker::redis(), true, Length::from_env()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_tick_fires_once_on_sqlite_through_any_failure_of_the_leader() {
    story(SharedBroker::sqlite(), true, Length::from_env()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_tick_fires_once_on_redis_without_an_election() {
    story(SharedBroker::redis(), false, Length::from_env()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_tick_fires_once_on_sqlite_without_an_election() {
    story(SharedBroker::sqlite(), false, Length::from_env()).await;
}
