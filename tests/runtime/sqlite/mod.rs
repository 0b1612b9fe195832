//! Tests of the SQLite broker alone; the conformance suite tests what every broker must do.

mod await_end;
mod bounded;
mod broken_file;
pub(crate) mod chaos;
mod damaged_page;
mod durability;
mod fence;
#[cfg(target_os = "linux")]
pub(crate) mod full;
pub(crate) mod group_chaos;
mod groups;
pub(crate) mod in_transaction;
mod incidents;
mod lifecycle;
mod memory;
mod opening;
pub(crate) mod others;
mod pages;
mod repair;
mod schedule;
mod timing;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use asynq_runtime::{
    broker::{
        Action, Broker as _, Consume as _, Member, NewTask, Placed, Presence as _, Produce as _, Refused, Run,
        ServerName, Settle as _, Settled, Settlement, UniqueLock, Wanted, When,
        sqlite::{SqliteBroker, SqliteOptions},
    },
    clock::ManualClock,
    task::{Extra, GroupName, QueueName, ServerInfo, TaskId},
};
use asynq_test_support::PATIENCE;
use tempfile::TempDir;

/// Longer than any test lasts: a wait with this limit that ends was woken.
const HOUR: Duration = Duration::from_secs(3_600);

/// The time-out of calls where a test waits for one: calls that are answered take a fraction of it on a busy machine too. A stuck
/// writer gives up a call that waited longer.
const BRIEF: Duration = Duration::from_secs(3);

fn group() -> GroupName {
    GroupName::new("g").unwrap()
}

/// Returns the task as one of [`group`].
fn grouped(mut task: NewTask) -> NewTask {
    task.group = Some(group());
    task.message.group_key = "g".into();
    task
}

fn queue() -> QueueName {
    QueueName::new("default").unwrap()
}

fn task(id: &str) -> NewTask {
    let mut task = asynq_tests::task(id);
    task.message.r#type = "test".into();
    task.message.payload = "payload".into();
    task.message.timeout = 60;
    task
}

fn unique(id: &str, key: &str) -> NewTask {
    let mut task = task(id);
    task.message.unique_key = key.into();
    task.unique = Some(UniqueLock { key: key.into(), ttl: Duration::from_secs(60) });
    task
}

async fn enqueue(broker: &SqliteBroker, task: NewTask) -> Result<Placed, Refused> {
    broker.enqueue(vec![task]).await.remove(0)
}

async fn join(broker: &SqliteBroker) -> Member {
    let name = ServerName { host: "here".into(), pid: std::process::id(), server_id: uuid::Uuid::new_v4().to_string() };
    broker.join(&name, &ServerInfo::default()).await.unwrap()
}

async fn dequeue(broker: &SqliteBroker, member: &Member, n: usize) -> Vec<Run> {
    broker.dequeue(member, &[Wanted { queue: queue(), n }]).await.unwrap()
}

fn outcome(run: &Run, action: Action) -> Settlement {
    Settlement { run: run.key.clone(), message: Arc::new(run.message.clone().unwrap()), action, resend: false }
}

async fn settle(broker: &SqliteBroker, settlement: Settlement) -> Settled {
    broker.settle(&[settlement]).await.remove(0).unwrap()
}

fn ids(runs: &[Run]) -> Vec<&str> {
    runs.iter().map(|run| run.key.id.as_str()).collect()
}

/// The Unix second at which [`clock`] stands.
const START: i64 = 1_893_553_445;

/// Returns a clock that stands at a whole millisecond, which is the precision of the file.
fn clock() -> ManualClock {
    ManualClock::new(chrono::DateTime::from_timestamp(START, 678_000_000).unwrap())
}

/// Returns a folder, and the path of a file in it that does not exist yet.
fn new_file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    (folder, file)
}

fn url(file: &Path) -> String {
    format!("sqlite://{}", file.display())
}

/// Returns options for a busy machine: no call may run into a time-out.
pub(crate) fn patient() -> SqliteOptions {
    let mut options = SqliteOptions::default();
    options.call_timeout = PATIENCE;
    options
}

/// Returns such options with a clock of the test.
pub(crate) fn with_clock(clock: ManualClock) -> SqliteOptions {
    let mut options = patient();
    options.clock = Some(Arc::new(clock));
    options
}

async fn open(file: &Path) -> SqliteBroker {
    SqliteBroker::open(&url(file), patient()).await.unwrap()
}

/// Opens a broker whose calls end after [`BRIEF`]. Another broker makes the file before, which may take longer.
async fn open_brief(file: &Path) -> SqliteBroker {
    open(file).await.close().await;
    let mut options = SqliteOptions::default();
    options.call_timeout = BRIEF;
    SqliteBroker::open(&url(file), options).await.unwrap()
}

/// A file that several programs may share, and a broker on it; all have one clock.
struct World {
    folder: TempDir,
    clock: ManualClock,
    broker: SqliteBroker,
}

impl World {
    async fn new() -> Self {
        Self::with("").await
    }

    /// Opens the broker by a URL with a query, such as `?shared=1`.
    async fn with(query: &str) -> Self {
        let ((folder, file), clock) = (new_file(), clock());
        let broker = SqliteBroker::open(&(url(&file) + query), with_clock(clock.clone())).await.unwrap();
        Self { folder, clock, broker }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("jobs.db")
    }

    async fn another_broker(&self) -> SqliteBroker {
        SqliteBroker::open(&url(&self.file()), with_clock(self.clock.clone())).await.unwrap()
    }

    fn sql(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.file()).unwrap()
    }

    async fn end(self) {
        self.broker.close().await;
        others::check_whole(&self.file());
    }
}

/// Opens a broker whose leases last an hour. In a test its tasks are requeued only when it ends.
async fn open_tenacious(file: &Path) -> SqliteBroker {
    let mut options = patient();
    options.lease = HOUR;
    SqliteBroker::open(&url(file), options).await.unwrap()
}
