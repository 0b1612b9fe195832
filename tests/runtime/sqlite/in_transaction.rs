//! Enqueues in a transaction of the caller's own connection: by the client's function, and by the view that other libraries
//! use. Most cases are the same for both.

mod not_utf_8;
pub(crate) mod programs;
mod view;

use asynq_runtime::{
    Client, EnqueueError, RawTask,
    broker::{Inspect as _, Maintain as _, RetryOrder, sqlite::TransactionError},
    clock::{Clock as _, ManualClock},
    job::PreparedTask,
    rusqlite::{self, Connection, Error, Transaction, TransactionBehavior::Immediate, ffi, params},
    task::TaskState,
};
use tempfile::TempDir;

use super::{others::check_whole, *};

/// The two ways into a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Api {
    Function,
    View,
}

const APIS: [Api; 2] = [Api::Function, Api::View];

/// The reason why a task was refused, in either way.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Refusal {
    Id,
    Lock,
}

impl Api {
    fn enqueue(self, client: &Client, tx: &Connection, task: impl Into<PreparedTask>) -> Result<(), Refusal> {
        match self {
            Self::Function => match client.enqueue_in_tx(tx, task) {
                Ok(_) => Ok(()),
                Err(EnqueueError::IdConflict { .. }) => Err(Refusal::Id),
                Err(EnqueueError::Duplicate { holder: Some(_) }) => Err(Refusal::Lock),
                Err(error) => panic!("{error:?}"),
            },
            Self::View => {
                let row = client.row(task).unwrap();
                match tx.execute(row.sql, params![row.facts, row.message, row.extra]) {
                    Ok(_) => Ok(()),
                    Err(error) => Err(unique_error(&error)),
                }
            }
        }
    }
}

/// Returns the meaning of a UNIQUE error of the view.
fn unique_error(error: &Error) -> Refusal {
    let Error::SqliteFailure(code, Some(text)) = error else { panic!("{error:?}") };
    let unique = [ffi::SQLITE_CONSTRAINT_UNIQUE, ffi::SQLITE_CONSTRAINT_PRIMARYKEY];
    assert!(unique.contains(&code.extended_code), "{error:?}");
    if text.contains("task.id") {
        Refusal::Id
    } else if text.contains("ulock.key") {
        Refusal::Lock
    } else {
        panic!("{text}")
    }
}

struct World {
    folder: TempDir,
    clock: ManualClock,
    broker: Arc<SqliteBroker>,
    member: Member,
    client: Client,
}

impl World {
    async fn new() -> Self {
        Self::at("").await
    }

    /// `query` is the query of the URL.
    async fn at(query: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::new(chrono::DateTime::from_timestamp(2_000_000_000, 678_912_345).unwrap());
        let file = folder.path().join("jobs.db");
        let options = with_clock(clock.clone());
        let broker = Arc::new(SqliteBroker::open(&format!("{}{query}", url(&file)), options).await.unwrap());
        let member = join(&broker).await;
        Self { client: Client::new(broker.clone()), folder, clock, broker, member }
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("jobs.db")
    }

    /// Opens a connection of the user, with a table of the user's own.
    fn theirs(&self) -> Connection {
        let connection = Connection::open(self.file()).unwrap();
        connection.execute_batch("CREATE TABLE IF NOT EXISTS person(name TEXT)").unwrap();
        self.client.attach(&connection).unwrap();
        connection
    }

    fn number(&self, sql: &str) -> i64 {
        Connection::open(self.file()).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    async fn size(&self) -> u64 {
        self.broker.queue_stats(&queue()).await.map_or(0, |stats| stats.pending + stats.scheduled)
    }
}

fn begin(connection: &mut Connection) -> Transaction<'_> {
    connection.transaction_with_behavior(Immediate).unwrap()
}

fn add_person(tx: &Connection, name: &str) {
    tx.execute("INSERT INTO person(name) VALUES (?1)", [name]).unwrap();
}

fn raw(id: &str) -> RawTask {
    RawTask::new("mail", id.to_owned()).task_id(id)
}

#[asynq_runtime::job]
async fn greets(_name: String) {}

mod newer {
    use asynq_runtime::Secret;

    #[asynq_runtime::job]
    pub(super) async fn greets(_name: Secret<String>) {}
}

#[tokio::test]
async fn a_task_that_is_refused_keeps_the_shape_of_the_next_one_not_from_being_kept() {
    let t = World::new().await;
    let client = t.client.clone().payload_limit(64);
    let too_large = client.enqueue(greets::job("x".repeat(100))).await.unwrap_err();
    assert!(matches!(too_large, EnqueueError::TooLarge { .. }), "{too_large}");
    client.enqueue(greets::job("ann")).await.unwrap();
    assert_eq!(t.number("SELECT count(*) FROM shape"), 1);
}

#[tokio::test]
async fn the_shape_of_the_arguments_is_kept_with_the_first_task_that_commits() {
    let t = World::new().await;
    let mut theirs = t.theirs();
    let shapes = "SELECT count(*) FROM shape";
    let tx = begin(&mut theirs);
    t.client.enqueue_in_tx(&tx, greets::job("ann")).unwrap();
    tx.rollback().unwrap();
    assert!(t.client.enqueue_in_tx(&theirs, greets::job("ann")).is_err(), "outside of a transaction");
    assert_eq!(t.number(shapes), 0);
    let tx = begin(&mut theirs);
    t.client.enqueue_in_tx(&tx, greets::job("ann")).unwrap();
    tx.commit().unwrap();
    assert_eq!(t.number(shapes), 1);
    // A shape is not written again by each transaction, but once a day.
    for (hours, is_extended) in [(1, false), (24, true)] {
        let until = t.number("SELECT until FROM shape");
        t.clock.advance(Duration::from_secs(hours * 3_600));
        let tx = begin(&mut theirs);
        t.client.enqueue_in_tx(&tx, greets::job("bob")).unwrap();
        tx.commit().unwrap();
        assert_eq!(t.number("SELECT until FROM shape") > until, is_extended, "{hours} hours later");
    }
    theirs.execute("DELETE FROM shape", []).unwrap();
    // A program of another version, in which the argument is secret, adds that to the kept shape, and the older one leaves it there.
    let other = async || {
        let broker = SqliteBroker::open(&url(&t.file()), with_clock(t.clock.clone())).await.unwrap();
        Client::new(Arc::new(broker))
    };
    let secrets = "SELECT count(*) FROM shape WHERE body LIKE '%secret%'";
    for (is_secret, marked) in [(false, 0), (true, 1), (false, 1)] {
        let tx = begin(&mut theirs);
        let client = other().await;
        if is_secret {
            client.enqueue_in_tx(&tx, newer::greets::job("eve".to_owned().into())).unwrap();
        } else {
            client.enqueue_in_tx(&tx, greets::job("eve")).unwrap();
        }
        tx.commit().unwrap();
        assert_eq!((t.number(shapes), t.number(secrets)), (1, marked));
    }
}

#[tokio::test]
async fn a_row_and_its_task_are_there_together_or_not_at_all() {
    for api in APIS {
        let t = World::new().await;
        let mut theirs = t.theirs();
        let tx = begin(&mut theirs);
        add_person(&tx, "ann");
        api.enqueue(&t.client, &tx, raw("a")).unwrap();
        assert_eq!(t.size().await, 0, "{api:?}: no connection sees it yet");
        tx.commit().unwrap();
        assert_eq!(t.size().await, 1);
        let run = dequeue(&t.broker, &t.member, 9).await.remove(0);
        assert_eq!((run.key.id.as_str(), &run.message.as_ref().unwrap().payload[..]), ("a", &b"a"[..]));
        assert_eq!(settle(&t.broker, outcome(&run, Action::Done)).await, Settled::Ok);

        let tables = ["person", "queue", "task", "body", "ulock"];
        let counts = || tables.map(|table| t.number(&format!("SELECT count(*) FROM {table}")));
        let before = counts();
        let tx = begin(&mut theirs);
        add_person(&tx, "bob");
        api.enqueue(&t.client, &tx, raw("b").queue("fresh").unique("1h")).unwrap();
        tx.rollback().unwrap();
        assert_eq!(counts(), before, "{api:?}: nothing is left of it");
        check_whole(&t.file());
    }
}

#[asynq_runtime::job(unique_by = "doc", debounce = "30s")]
async fn debounced_index(doc: u64, text: String) {
    drop((doc, text));
}

#[tokio::test]
async fn a_task_takes_new_arguments_with_the_transaction_or_not_at_all() {
    let t = World::new().await;
    let mut theirs = t.theirs();
    let key = |text: &str| PreparedTask::from(debounced_index::job(7, text));
    let has = |text: &str| {
        let sql = "SELECT count(*) FROM body WHERE instr(msg, CAST(?1 AS BLOB)) > 0";
        Connection::open(t.file()).unwrap().query_row(sql, [text], |row| row.get::<_, i64>(0)).unwrap() == 1
    };
    let first = t.client.enqueue(key("draft")).await.unwrap();
    let tx = begin(&mut theirs);
    add_person(&tx, "ann");
    let second = t.client.enqueue_in_tx(&tx, key("lost")).unwrap();
    assert_eq!((&second.id, second.replaced, second.state), (&first.id, true, TaskState::Scheduled));
    tx.rollback().unwrap();
    assert!(has("draft"), "nothing of it is left");
    let tx = begin(&mut theirs);
    t.client.enqueue_in_tx(&tx, key("better")).unwrap();
    t.client.enqueue_in_tx(&tx, key("final")).unwrap();
    tx.commit().unwrap();
    assert!(has("final") && !has("better"));
    assert_eq!(t.number("SELECT count(*) FROM task"), 1);
    check_whole(&t.file());
    let refused = t.client.row(key("by row")).unwrap_err().to_string();
    assert!(refused.contains("use `enqueue_in_tx`"), "{refused}");
}

#[tokio::test]
async fn a_refused_task_leaves_the_rest_of_the_transaction() {
    for api in APIS {
        let t = World::new().await;
        let mut theirs = t.theirs();
        t.client.enqueue(raw("taken")).await.unwrap();
        t.client.enqueue(RawTask::new("mail", "to ann").unique("1h")).await.unwrap();
        let tx = begin(&mut theirs);
        add_person(&tx, "ann");
        api.enqueue(&t.client, &tx, raw("before")).unwrap();
        assert_eq!(api.enqueue(&t.client, &tx, raw("taken")), Err(Refusal::Id), "{api:?}");
        let equal = || RawTask::new("mail", "to ann").unique("1h");
        assert_eq!(api.enqueue(&t.client, &tx, equal()), Err(Refusal::Lock), "{api:?}");
        api.enqueue(&t.client, &tx, equal().task_id("before")).unwrap_err();
        api.enqueue(&t.client, &tx, raw("after").unique("1h")).unwrap();
        assert_eq!(api.enqueue(&t.client, &tx, raw("after").queue("default")), Err(Refusal::Id), "{api:?}");
        tx.commit().unwrap();
        let runs = dequeue(&t.broker, &t.member, 9).await;
        assert_eq!(runs.len(), 4);
        assert_eq!(ids(&runs[2..]), ["before", "after"], "{api:?}");
        assert_eq!(t.number("SELECT count(*) FROM person"), 1);
        check_whole(&t.file());
    }
}

#[tokio::test]
async fn a_lock_whose_time_has_passed_is_free() {
    for api in APIS {
        let t = World::new().await;
        let mut theirs = t.theirs();
        let task = |id: &str| RawTask::new("mail", "same").unique("1h").task_id(id);
        t.client.enqueue(task("a")).await.unwrap();
        t.clock.advance(Duration::from_secs(3_599));
        let tx = begin(&mut theirs);
        assert_eq!(api.enqueue(&t.client, &tx, task("b")), Err(Refusal::Lock), "{api:?}");
        t.clock.advance(Duration::from_secs(1));
        api.enqueue(&t.client, &tx, task("b")).unwrap();
        tx.commit().unwrap();
        assert_eq!(t.number("SELECT count(*) FROM ulock WHERE id = 'b'"), 1, "{api:?}");
    }
}

/// Every way stores the same rows: each column of each table, for tasks with every option.
#[tokio::test]
async fn a_task_is_stored_as_an_enqueue_stores_it() {
    let tasks = |clock: &ManualClock| -> Vec<RawTask> {
        vec![
            raw("plain"),
            raw("options").queue("low").retry(3).timeout("90s").retention("1d").max_crashes(1).header("k", "it's"),
            raw("deadline").deadline(clock.now() + Duration::from_secs(7_200)),
            raw("late").process_in("10m"),
            raw("at").process_at(clock.now() + Duration::from_micros(1_500)),
            raw("past").process_at(clock.now() - Duration::from_secs(5)),
            raw("locked").unique("1h"),
            raw("locked later").process_in("1m").unique("1h"),
            RawTask::without_payload("quote's \"type\"").task_id("ünïcode"),
        ]
    };
    for query in ["", "?shared=1"] {
        let mut stored = Vec::new();
        for api in [None, Some(Api::Function), Some(Api::View)] {
            let t = World::at(query).await;
            let mut theirs = t.theirs();
            let mut enqueue = async |task: RawTask| match api {
                None => drop(t.client.enqueue(task).await.unwrap()),
                Some(api) => {
                    let tx = begin(&mut theirs);
                    api.enqueue(&t.client, &tx, task).unwrap();
                    tx.commit().unwrap();
                }
            };
            // After a step of the clock backwards, the last place in the queue lies in the future.
            for id in ["first", "second"] {
                t.client.enqueue(raw(id)).await.unwrap();
                t.clock.advance(Duration::from_secs(60));
            }
            t.clock.set(t.clock.now() - Duration::from_secs(120));
            for task in tasks(&t.clock) {
                enqueue(task).await;
            }
            t.clock.advance(Duration::from_secs(120));
            enqueue(raw("when the clock is there")).await;
            let p = if query.is_empty() { "" } else { "asynq_" };
            stored.push(["queue", "task", "body", "ulock", "tally"].map(|table| rows(&theirs, &format!("{p}{table}"))));
        }
        assert!(stored[0][1].lines().count() == 12, "{:?}", stored[0]);
        assert_eq!(stored[1], stored[0], "by the function, {query:?}");
        assert_eq!(stored[2], stored[0], "by the view, {query:?}");
    }
}

fn rows(connection: &Connection, table: &str) -> String {
    let mut rows = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
    let columns = rows.column_count();
    let row = |row: &rusqlite::Row<'_>| {
        (0..columns).map(|i| row.get::<_, rusqlite::types::Value>(i)).collect::<Result<Vec<_>, _>>()
    };
    let rows: Vec<_> = rows.query_map([], row).unwrap().map(|row| format!("{:?}\n", row.unwrap())).collect();
    rows.concat()
}

#[tokio::test]
async fn the_info_says_where_the_task_will_be() {
    let t = World::new().await;
    let mut theirs = t.theirs();
    let tx = begin(&mut theirs);
    let info = t.client.enqueue_in_tx(&tx, raw("a").process_in("1m")).unwrap();
    assert_eq!((info.state, info.id.as_str()), (TaskState::Scheduled, "a"));
    tx.commit().unwrap();
    assert_eq!(t.broker.task(&queue(), &info.id).await.unwrap().unwrap().next_process_at, info.next_process_at);
    t.clock.advance(Duration::from_secs(60));
    assert_eq!(t.broker.forward(&[queue()], RetryOrder::Last).await.unwrap().moved, 1);
    let bad = t.client.enqueue_in_tx(&theirs, raw("b").queue("a{b}")).unwrap_err();
    assert!(matches!(bad, EnqueueError::Name(_)), "{bad:?}");
}

#[tokio::test]
async fn a_connection_that_cannot_take_a_task_is_refused_with_the_reason() {
    let t = World::new().await;
    let theirs = t.theirs();
    let error = t.client.enqueue_in_tx(&theirs, raw("a")).unwrap_err();
    assert!(matches!(error, EnqueueError::Transaction(TransactionError::NoTransaction)), "{error:?}");
    assert!(!error.is_ambiguous() && !error.is_duplicate());

    let other = t.folder.path().join("other.db");
    let (foreign, memory) = (Connection::open(&other).unwrap(), Connection::open_in_memory().unwrap());
    for connection in [&foreign, &memory] {
        connection.execute_batch("CREATE TABLE task(x); BEGIN IMMEDIATE").unwrap();
        let before = connection.total_changes();
        let refused = t.client.attach(connection).unwrap_err();
        assert!(matches!(refused, TransactionError::OtherFile { .. }), "{refused:?}");
        let refused = t.client.enqueue_in_tx(connection, raw("a")).unwrap_err();
        assert!(matches!(refused, EnqueueError::Transaction(TransactionError::OtherFile { .. })), "{refused:?}");
        assert_eq!(connection.total_changes(), before, "it is left as it was");
    }
    let error = t.client.attach(&memory).unwrap_err().to_string();
    assert!(error.contains("has a database in memory open"), "{error}");
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::ffi::OsStrExt as _;
        let unnamed = Connection::open(t.folder.path().join(std::ffi::OsStr::from_bytes(b"\xff.db"))).unwrap();
        let error = t.client.attach(&unnamed).unwrap_err().to_string();
        assert!(error.contains("whose path is not UTF-8"), "{error}");
    }
    let same = Connection::open(t.folder.path().join("./jobs.db")).unwrap();
    t.client.attach(&same).unwrap();

    let in_memory = Client::connect("sqlite::memory:").await.unwrap();
    let refused = in_memory.attach(&theirs).unwrap_err();
    assert!(matches!(refused, TransactionError::InMemory), "{refused:?}");
    let refused = in_memory.enqueue_in_tx(&memory, raw("a")).unwrap_err();
    assert!(matches!(refused, EnqueueError::Transaction(TransactionError::InMemory)), "{refused:?}");
    t.broker.close().await;
    let error = t.client.attach(&theirs).unwrap_err().to_string();
    assert!(error.contains("closed"), "{error}");
}

#[tokio::test]
async fn a_connection_that_never_syncs_is_refused() {
    let t = World::new().await;
    let theirs = t.theirs();
    for (synchronous, is_refused) in [("OFF", true), ("NORMAL", false), ("FULL", false)] {
        theirs.execute_batch(&format!("PRAGMA synchronous={synchronous}")).unwrap();
        let refused = t.client.attach(&theirs).err().map(|error| error.to_string());
        assert_eq!(refused.as_ref().is_some_and(|text| text.contains("synchronous=OFF")), is_refused, "{refused:?}");
        assert_eq!(refused.is_some(), is_refused, "{refused:?}");
    }
}

#[tokio::test]
async fn a_connection_that_can_only_read_is_refused() {
    let t = World::new().await;
    let query_only = t.theirs();
    query_only.execute_batch("PRAGMA query_only=ON").unwrap();
    let read_only = Connection::open_with_flags(t.file(), rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    for theirs in [query_only, read_only] {
        let error = t.client.attach(&theirs).unwrap_err().to_string();
        assert!(error.contains("attach the one that writes"), "{error}");
    }
}

#[tokio::test]
async fn a_transaction_that_read_before_others_wrote_is_refused_with_a_hint_to_begin_immediate() {
    let t = World::new().await;
    let mut theirs = t.theirs();
    let tx = theirs.transaction().unwrap();
    let _: i64 = tx.query_row("SELECT count(*) FROM person", [], |row| row.get(0)).unwrap();
    t.client.enqueue(raw("meanwhile")).await.unwrap();
    let error = t.client.enqueue_in_tx(&tx, raw("a")).unwrap_err();
    assert!(matches!(error, EnqueueError::Transaction(TransactionError::Stale)), "{error:?}");
    assert!(error.to_string().contains("BEGIN IMMEDIATE"), "{error}");
}

#[tokio::test]
async fn a_transaction_that_does_not_begin_by_writing_while_others_write_gets_the_same_hint() {
    let t = World::new().await;
    for reads_first in [true, false] {
        let (mut theirs, mut other) = (t.theirs(), t.theirs());
        let tx = theirs.transaction().unwrap();
        if reads_first {
            let _: i64 = tx.query_row("SELECT count(*) FROM person", [], |row| row.get(0)).unwrap();
        }
        let writes = begin(&mut other);
        add_person(&writes, "bob");
        let error = t.client.enqueue_in_tx(&tx, raw("a")).unwrap_err();
        assert!(matches!(error, EnqueueError::Transaction(TransactionError::Stale)), "{reads_first}: {error:?}");
        drop((tx, writes));
        let tx = begin(&mut theirs);
        t.client.enqueue_in_tx(&tx, raw("a")).unwrap();
    }
}

#[tokio::test]
async fn a_failure_half_way_takes_back_the_whole_task_and_nothing_else() {
    let t = World::new().await;
    let mut theirs = t.theirs();
    let tx = begin(&mut theirs);
    add_person(&tx, "ann");
    // The last of the writes fails.
    tx.execute_batch("CREATE TRIGGER no BEFORE INSERT ON tally BEGIN SELECT RAISE(FAIL, 'no'); END").unwrap();
    let error = t.client.enqueue_in_tx(&tx, raw("a").unique("1h")).unwrap_err();
    assert!(matches!(error, EnqueueError::Broker(_)) && !error.is_ambiguous(), "{error:?}");
    tx.execute_batch("DROP TRIGGER no").unwrap();
    tx.commit().unwrap();
    assert_eq!(t.number("SELECT (SELECT count(*) FROM task) + (SELECT count(*) FROM ulock)"), 0);
    assert_eq!(t.number("SELECT count(*) FROM person"), 1);
}

#[tokio::test]
async fn a_full_disk_is_the_error_that_an_enqueue_has_outside_of_a_transaction() {
    let t = World::new().await;
    let mut theirs = t.theirs();
    // SQLite fails as on a disk without a byte left.
    theirs.execute_batch("PRAGMA max_page_count = 1").unwrap();
    let tx = begin(&mut theirs);
    let error = t.client.enqueue_in_tx(&tx, RawTask::new("mail", "x".repeat(300_000))).unwrap_err();
    assert!(matches!(&error, EnqueueError::Broker(full) if full.is_full()), "{error:?}");
    assert!(!error.is_ambiguous());
}
