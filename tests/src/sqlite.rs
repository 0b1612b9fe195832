//! A SQLite file per fixture, and the ways around the contract into it.

use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf, sync::Arc, time::Duration};

use asynq_runtime::{
    broker::Broker,
    clock::Clock,
    task::{QueueName, TaskId},
};
use asynq_test_support::{PATIENCE, fast_folder};
use chrono::{DateTime, Utc};
use rusqlite::{Connection, types::ValueRef};
use tempfile::TempDir;

use crate::{GoPeer, Need, Store, patient, sqlite_view::ByView};

/// A SQLite file as a [`Store`]; in memory where there is room, so that commits cost no disk. With `BY_VIEW`, every task is
/// enqueued as other programs do it.
#[derive(Debug)]
pub struct SqliteFile<const BY_VIEW: bool> {
    folder: TempDir,
}

/// A SQLite file as a [`Store`].
pub type SqliteStore = SqliteFile<false>;
/// A SQLite file as a [`Store`] that other programs put tasks into.
pub type SqliteViewStore = SqliteFile<true>;

/// The needs that no file can meet, and at the end the one that a file cannot meet by its view.
const GAPS: &[(Need, &str)] = &[
    (Need::GoPeer, "no Go program reads it"),
    (Need::Ghosts, "an id is a row, and a row is its task"),
    (Need::LostLease, "the lease is a column of the task"),
    (Need::LeftLock, "through the view, a lock that is held is a UNIQUE error also for its own holder"),
];

impl<const BY_VIEW: bool> SqliteFile<BY_VIEW> {
    /// The database file.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("jobs.db")
    }

    /// The URL of the file.
    pub fn url(&self) -> String {
        format!("sqlite://{}", self.path().display())
    }

    /// A connection of the test itself.
    pub fn connection(&self) -> Connection {
        let connection = Connection::open(self.path()).unwrap();
        connection.busy_timeout(PATIENCE).unwrap();
        connection
    }
}

impl<const BY_VIEW: bool> Store for SqliteFile<BY_VIEW> {
    const NAME: &'static str = if BY_VIEW { "sqlite by the view" } else { "sqlite" };
    const KIND: &'static str = "sqlite";
    const GAPS: &'static [(Need, &'static str)] = if BY_VIEW { GAPS } else { GAPS.split_at(GAPS.len() - 1).0 };

    async fn start() -> Self {
        Self { folder: fast_folder() }
    }

    fn url(&self) -> String {
        Self::url(self)
    }

    async fn connect(&self, clock: Option<Arc<dyn Clock>>) -> Arc<dyn Broker> {
        let clock_is_manual = clock.is_some();
        let inner = patient::broker(&self.url(), clock).await;
        if BY_VIEW { Arc::new(ByView { inner, file: self.path(), clock_is_manual }) } else { inner }
    }

    fn dump(&self) -> String {
        const PRESENCE: [&str; 3] = ["server", "worker", "signal"];
        let connection = self.connection();
        let mut names =
            connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").unwrap();
        let names = names.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
        let mut text = String::new();
        for name in names.filter(|name| !name.starts_with("sqlite_") && !PRESENCE.contains(&name.as_str())) {
            dump_table(&connection, &name, &mut text);
        }
        text
    }

    fn overwrite_message(&self, queue: &QueueName, id: &TaskId, bytes: &[u8]) {
        let changed = self.connection().execute(
            "UPDATE body SET msg = ?3 WHERE seq = \
             (SELECT seq FROM task WHERE id = ?2 AND q = (SELECT q FROM queue WHERE name = ?1))",
            (queue.as_str(), id.as_str(), bytes),
        );
        assert_eq!(changed.unwrap(), 1, "the task existed");
    }

    fn lose_message(&self, queue: &QueueName, id: &TaskId) {
        let changed = self.connection().execute(
            "DELETE FROM body WHERE seq = \
             (SELECT seq FROM task WHERE id = ?2 AND q = (SELECT q FROM queue WHERE name = ?1))",
            (queue.as_str(), id.as_str()),
        );
        assert_eq!(changed.unwrap(), 1, "the task existed");
    }

    fn age(&self, _: Duration, _: DateTime<Utc>) {
        // Every time in the file comes from the broker's clock.
    }

    fn locks(&self, queue: &QueueName, now: DateTime<Utc>) -> BTreeMap<String, String> {
        let connection = self.connection();
        let sql = "SELECT key, id FROM ulock JOIN queue USING(q) WHERE name = ?1 AND until > ?2";
        let mut locks = connection.prepare(sql).unwrap();
        let locks = locks.query_map((queue.as_str(), now.timestamp_millis()), |row| Ok((row.get(0)?, row.get(1)?)));
        locks.unwrap().map(Result::unwrap).collect()
    }

    fn make_ghost(&self, _: &QueueName, _: &TaskId) {
        panic!("a case about ghosts asks for Need::Ghosts first");
    }

    fn list_as_expired(&self, _: &QueueName, _: &TaskId) {
        panic!("a case about misplaced ids asks for Need::Ghosts first");
    }

    fn leave_lock(&self, queue: &QueueName, key: &str, id: &TaskId, until: DateTime<Utc>) {
        let connection = self.connection();
        connection.execute("INSERT INTO queue(name) VALUES (?1) ON CONFLICT DO NOTHING", [queue.as_str()]).unwrap();
        let sql = "INSERT INTO ulock(q, key, id, until) SELECT q, ?2, ?3, ?4 FROM queue WHERE name = ?1";
        connection.execute(sql, (queue.as_str(), key, id.as_str(), until.timestamp_millis())).unwrap();
    }

    fn lose_lease(&self, _: &QueueName, _: &TaskId) {
        panic!("a case about lost leases asks for Need::LostLease first");
    }

    fn go(&self) -> Option<GoPeer<'_>> {
        None
    }
}

fn dump_table(connection: &Connection, name: &str, text: &mut String) {
    let mut rows = connection.prepare(&format!("SELECT * FROM \"{name}\"")).unwrap();
    let columns = rows.column_count();
    let mut rows = rows.query([]).unwrap();
    let mut lines = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let cells = (0..columns).map(|i| match row.get_ref(i).unwrap() {
            ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
            other => format!("{other:?}"),
        });
        lines.push(format!("{name} {}\n", cells.collect::<Vec<_>>().join(" | ")));
    }
    lines.sort();
    let _ = write!(text, "{}", lines.concat());
}
