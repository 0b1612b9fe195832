//! A broker, a journal and worker processes: the world of every story here.

mod worker;

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use asynq_runtime::{
    Client, TaskId, TaskInfo, TaskState,
    broker::{Broker, Page, QueueStats},
    task::QueueName,
};
use asynq_tests::{
    NetworkOptions, Persistence, RedisServer, SlowNetwork, WallClock, eventually,
    jobs::{Parcel, Poison, Record},
    journal::{Event, History, tasks_with},
    patient,
    unruly::Ticks,
};
use tempfile::TempDir;

pub use self::worker::Worker;
use crate::process::{self, Process, Program};

/// The broker, the client and the files of a story.
#[derive(Debug)]
pub struct World {
    pub redis: Option<RedisServer>,
    pub url: String,
    pub client: Client,
    folder: TempDir,
}

impl World {
    /// A world on a Redis that keeps every answered write.
    pub async fn redis() -> Self {
        Self::redis_with("").await
    }

    /// [`redis`](Self::redis) with parameters in the URL.
    pub async fn redis_with(parameters: &str) -> Self {
        Self::redis_keeping(Persistence::Always, parameters).await
    }

    /// A world on a Redis that uses this clock.
    pub async fn redis_by_clock(clock: &WallClock) -> Self {
        Self::on(RedisServer::in_environment(Persistence::Always, &clock.environment()), "").await
    }

    /// A world on a Redis with this persistence.
    pub async fn redis_keeping(persistence: Persistence, parameters: &str) -> Self {
        Self::on(RedisServer::start(persistence), parameters).await
    }

    async fn on(server: RedisServer, parameters: &str) -> Self {
        let url = server.url() + parameters;
        Self::new(patient::client(&url).await, url, Some(server), TempDir::new().unwrap())
    }

    /// A world on a SQLite file on a real disk.
    pub async fn sqlite() -> Self {
        let folder = TempDir::new().unwrap();
        let url = format!("sqlite://{}", folder.path().join("jobs.db").display());
        Self::new(patient::client(&url).await, url, None, folder)
    }

    /// A world on servers that the story owns and kills: its client has a program's default timeout.
    pub async fn at(url: String) -> Self {
        Self::new(Client::connect(&url).await.unwrap(), url, None, TempDir::new().unwrap())
    }

    /// A world on a server that the story owns, with the workers behind a slow network.
    pub async fn beyond(network: &SlowNetwork, server: &RedisServer) -> Self {
        Self::new(patient::client(&server.url()).await, network.url(), None, TempDir::new().unwrap())
    }

    fn new(client: Client, url: String, redis: Option<RedisServer>, folder: TempDir) -> Self {
        Self { redis, url, client, folder }
    }

    pub fn queue() -> QueueName {
        QueueName::new("default").unwrap()
    }

    pub fn broker(&self) -> &Arc<dyn Broker> {
        self.client.broker()
    }

    /// Starts a worker process and waits until it can take tasks.
    pub fn worker(&self, concurrency: usize) -> Worker {
        self.worker_with(concurrency, "8s")
    }

    pub fn worker_with(&self, concurrency: usize, shutdown_timeout: &str) -> Worker {
        self.start(concurrency, &[("SHUTDOWN_TIMEOUT", shutdown_timeout.to_owned())])
    }

    /// Starts a worker with default settings, which also schedules a task every five seconds, and uses `clock` if there is one. On a
    /// single Redis it has a network of its own.
    pub async fn soaked_worker(&self, concurrency: usize, clock: Option<&WallClock>) -> Worker {
        let network = self.network().await;
        let environment = clock.map(WallClock::environment).into_iter().flatten();
        let url = network.as_ref().map_or_else(|| self.url.clone(), SlowNetwork::url);
        let settings: Vec<_> = environment.chain([("SOAK", "1".to_owned()), ("ASYNQ_URL", url)]).collect();
        Worker { network, ..self.start(concurrency, &settings) }
    }

    /// A fast network to the Redis of this world, which can fall silent.
    pub async fn network(&self) -> Option<SlowNetwork> {
        let options = NetworkOptions { bits_per_second: 10_000_000_000, round_trip: Duration::ZERO };
        match &self.redis {
            Some(redis) => Some(SlowNetwork::to(redis.port(), options).await),
            None => None,
        }
    }

    fn start(&self, concurrency: usize, settings: &[(&str, String)]) -> Worker {
        let mut command = self.program(env!("CARGO_BIN_EXE_helper"));
        command
            .arg("worker")
            .env("CONCURRENCY", concurrency.to_string())
            .envs(settings.iter().map(|(name, value)| (name, value)));
        // The worker ends when this input ends.
        command.stdin(Stdio::piped());
        let program = Program::start_with_log(command, Stdio::inherit());
        assert_eq!(program.line(""), "ready", "the worker did not start");
        Worker { process: program.process, log: PathBuf::new(), network: None }
    }

    /// Starts a process of the program `everyday` with defaults, apart from the `settings` in its environment. The process
    /// may not be ready yet.
    pub fn launched(&self, settings: &[(&str, &str)]) -> Worker {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let log = self.folder.path().join(format!("log-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        let mut command = self.program(env!("CARGO_BIN_EXE_everyday"));
        // A line of standard error is written in pieces, and a file keeps each piece at once.
        command.stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap()).envs(settings.iter().copied());
        Worker { process: Process::start(&mut command), log, network: None }
    }

    /// [`launched`](Self::launched), and waits until the process can take tasks.
    pub async fn everyday(&self, settings: &[(&str, &str)]) -> Worker {
        let worker = self.launched(settings);
        worker.logs("serving").await;
        worker
    }

    /// [`everyday`](Self::everyday) with this concurrency.
    pub async fn everyday_of(&self, concurrency: usize) -> Worker {
        self.everyday(&[("ASYNQ_CONCURRENCY", &concurrency.to_string())]).await
    }

    /// The command of a program of this world.
    fn program(&self, file: &str) -> Command {
        let mut command = process::program(file);
        command.env("ASYNQ_URL", &self.url).env("JOURNAL", self.journal()).env("DIGESTS", self.digests());
        command.env("TICKS", self.ticks_file()).env("HOLD", self.hold_file());
        command
    }

    /// The SQLite file.
    pub fn file(&self) -> PathBuf {
        PathBuf::from(self.url.strip_prefix("sqlite://").unwrap())
    }

    fn ticks_file(&self) -> PathBuf {
        self.folder.path().join("ticks")
    }

    /// The ticks that every [`Tock`](asynq_tests::unruly::Tock) wrote.
    pub fn ticks(&self) -> Ticks {
        Ticks::read(&self.ticks_file())
    }

    pub fn journal(&self) -> PathBuf {
        self.folder.path().join("journal")
    }

    /// The file that the worker's [`Digest`](asynq_tests::jobs::Digest) jobs write.
    pub fn digests(&self) -> PathBuf {
        self.folder.path().join("digests")
    }

    fn hold_file(&self) -> PathBuf {
        self.folder.path().join("hold")
    }

    /// Keeps all jobs and aggregations of digests from ending.
    pub fn hold(&self) {
        fs::write(self.hold_file(), "").unwrap();
    }

    /// Lets jobs and aggregations end again after [`hold`](Self::hold).
    pub fn release(&self) {
        fs::remove_file(self.hold_file()).unwrap();
    }

    pub fn history(&self) -> History {
        History::read(&self.journal())
    }

    /// Enqueues `n` tasks that take `millis` each.
    pub async fn enqueue_records(&self, n: usize, millis: u64) -> Vec<TaskId> {
        let outcomes = self.client.enqueue_many((0..n).map(|_| Record { millis })).await.unwrap();
        outcomes.into_iter().map(|outcome| outcome.unwrap().id).collect()
    }

    /// [Holds](Self::hold) all jobs, enqueues `n` tasks and waits until `running` have begun.
    pub async fn held(&self, n: usize, running: usize) -> Vec<TaskId> {
        self.hold();
        let ids = self.enqueue_records(n, 0).await;
        self.started(running).await;
        ids
    }

    /// Enqueues `n` tasks of so many bytes.
    pub async fn enqueue_parcels(&self, n: usize, bytes: usize) -> Vec<TaskId> {
        let mut ids = Vec::new();
        for _ in 0..n {
            ids.push(self.client.enqueue(Parcel { content: vec![b'x'; bytes] }).await.unwrap().id);
        }
        ids
    }

    pub async fn enqueue_poison(&self) -> TaskId {
        self.client.enqueue(Poison {}).await.unwrap().id
    }

    /// The queue's counts. Asks again when an answer is late: these stories are about workers and not about busy machines.
    pub async fn stats(&self) -> QueueStats {
        eventually("the broker lists the queue", async || self.broker().queue_stats(&Self::queue()).await.ok()).await
    }

    /// The tasks in a state. Asks again when an answer is late, as [`stats`](Self::stats) does.
    pub async fn tasks(&self, state: TaskState) -> Vec<TaskInfo> {
        let page = Page { number: 1, size: 10_000 };
        eventually("the broker lists tasks", async || self.broker().tasks(&Self::queue(), state, page).await.ok()).await
    }

    /// Waits until the queue is idle.
    pub async fn settled(&self) -> QueueStats {
        eventually("nothing waits or runs", async || {
            let stats = self.broker().queue_stats(&Self::queue()).await.ok()?;
            stats.is_idle().then_some(stats)
        })
        .await
    }

    /// Waits until `n` tasks have begun and have written their start.
    pub async fn started(&self, n: usize) {
        let goal = format!("{n} tasks have started");
        eventually(&goal, async || (tasks_with(Event::Start, &self.journal()) >= n).then_some(())).await;
    }

    /// Waits until the only worker has this status.
    pub async fn says(&self, status: &str) {
        eventually(&format!("the worker calls itself {status}"), async || {
            let servers = self.broker().servers().await.ok()?;
            servers.iter().any(|server| server.info.status == status).then_some(())
        })
        .await;
    }
}
