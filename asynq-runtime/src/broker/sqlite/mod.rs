//! The SQLite broker: one file, any number of programs, nothing to install.
//!
//! A broker has one thread that writes, one that syncs the log, one that waits for the write lock, two that read and one that
//! watches; async calls reach them through `Store` and come back within their deadline. Code inside a transaction is plain
//! synchronous code over a `View`.

mod await_end;
mod beside;
mod busy_queues;
mod candidate;
mod command;
mod connection;
mod consume;
mod diagnose;
mod disk;
mod disk_room;
mod error;
mod fair_write_lock;
mod file_status;
mod groups;
mod in_transaction;
mod inspect;
mod listed;
mod liveness;
mod maintain;
mod migrate;
mod obstacle;
mod open;
mod parked;
mod position;
mod presence;
mod produce;
#[cfg(test)]
mod query_plans;
mod reader;
mod repair;
mod row;
mod schedule;
mod semaphore;
mod settle;
mod shapes;
mod shared_state;
mod sql;
mod store;
mod stored_task;
mod tx;
mod url;
mod wake;
mod watch;
mod writer;

use std::{
    fmt, io,
    path::PathBuf,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use chrono::{DateTime, Utc};
use tokio::{
    sync::{oneshot, watch::Receiver},
    time::{Instant, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    clock::{Clock, SystemClock},
    panics,
};

pub use self::in_transaction::TransactionError;
use self::{
    await_end::EndWaiters,
    beside::beside,
    command::{Priority, WriteCommand},
    consume::Tokens,
    disk::Disk,
    error::{translate, translate_io},
    fair_write_lock::FairWriteLock,
    file_status::open_known,
    maintain::Lapses,
    reader::Readers,
    shared_state::SharedState,
    store::{LOOK_AT_MANUAL_CLOCK, Store, far},
    tx::Tx,
    url::Location,
    writer::{OtherThreads, Writer},
};
use super::{Broker, BrokerError, BrokerErrorKind, StoredShapes, config};

/// Returns the file that a SQLite URL names.
pub(crate) fn file_of(url: &str) -> Option<PathBuf> {
    Location::parse(url).ok()?.file
}

/// How a [`SqliteBroker`] behaves.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SqliteOptions {
    /// The broker's clock instead of the machine's, for tests. Programs on one file must agree on the time.
    pub clock: Option<Arc<dyn Clock>>,
    /// Longest time that one call takes; 10 s by default. A call that waits for work or for a due time has its own limit.
    /// `?timeout=10s` in the URL comes first; `?connect_timeout=10s` limits the opening alone.
    pub call_timeout: Duration,
    /// How long a dequeued task is ours without being extended; 10 s by default. A program that dies is noticed at once
    /// whatever the lease; the lease is for a program that hangs. Programs on one file must have the same: one with a shorter lease takes
    /// a program that extends its leases less often for one that hangs.
    pub lease: Duration,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { clock: None, call_timeout: Duration::from_secs(10), lease: Duration::from_secs(10) }
    }
}

impl SqliteOptions {
    /// Returns the defaults with another clock.
    pub fn with_clock(clock: impl Clock) -> Self {
        Self { clock: Some(Arc::new(clock)), ..Self::default() }
    }
}

/// Tasks in a SQLite file, or in memory for tests.
///
/// The broker must be used inside a tokio runtime with timers. Any runtime will do, since the broker has its own threads.
///
/// Several programs on one host may open the same file; each enqueue that returned is on disk. Dropping the broker ends
/// its threads; [`close`](Broker::close) waits until they have ended. When the last program on the file has closed it in this way,
/// `-wal` and `-shm` are gone, and the one file has everything: the lock files beside it, `-next` and `-turn`, are empty.
pub struct SqliteBroker {
    store: Arc<Store>,
    tokens: Tokens,
    ends: EndWaiters,
    lease: Duration,
    lapses: Arc<Lapses>,
    manual_clock: bool,
    stored_shapes: StoredShapes,
}

impl SqliteBroker {
    /// Opens the file of `sqlite://path` or `sqlite:path`, which is created if it does not exist, or a database in memory
    /// (`sqlite::memory:`).
    ///
    /// The query may say `timeout=10s`, `connect_timeout=10s`, `durability=normal` (a power cut may take the last commits; a
    /// killed process never does), `shared=1` (keep the tasks in another program's file, in tables called `asynq_…`) and
    /// `network_fs=i-know` (do not refuse a network file system).
    ///
    /// # Errors
    ///
    /// [`Config`](BrokerErrorKind::Config): the URL, the place or an option cannot be used.
    /// [`Corrupt`](BrokerErrorKind::Corrupt): the file is not a SQLite file, is damaged, or belongs to another program, and
    /// is left as it was; or it was replaced or deleted while it was opened. [`Denied`](BrokerErrorKind::Denied): no
    /// permission to read and write it and to create files beside it.
    pub async fn open(url: &str, options: SqliteOptions) -> Result<Self, BrokerError> {
        Self::start(Location::parse(url)?, options).await
    }

    /// Opens a database in memory that no other connection can see.
    ///
    /// # Errors
    ///
    /// The version of SQLite in this program is one that loses data, or no thread can be started.
    pub async fn in_memory(options: SqliteOptions) -> Result<Self, BrokerError> {
        Self::start(Location::memory(), options).await
    }

    async fn start(location: Location, mut options: SqliteOptions) -> Result<Self, BrokerError> {
        options.call_timeout = location.timeout.unwrap_or(options.call_timeout);
        let connect_timeout = location.connect_timeout.unwrap_or(options.call_timeout);
        if options.call_timeout.is_zero() || options.lease.is_zero() {
            return Err(config("call_timeout and lease must be more than zero"));
        }
        let place = location.file.as_deref().map_or_else(|| ":memory:".to_owned(), |file| file.display().to_string());
        let is_new = location.file.as_deref().is_some_and(|file| matches!(file.try_exists(), Ok(false)));
        let (send, opened) = oneshot::channel();
        let thread_options = options.clone();
        thread::Builder::new()
            .name("asynq-sqlite-write".into())
            .spawn(move || match set_up(&location, &thread_options) {
                Ok((started, writer)) => {
                    // Without the caller, the drop of the store ends the threads.
                    let _ = send.send(Ok(started));
                    let common = Arc::clone(&writer.common);
                    if panics::catch(|| writer.run()).is_err() {
                        let advice = "the thread that writes panicked; restart this program";
                        common.break_down(common.error(BrokerErrorKind::Unexpected, advice));
                    }
                }
                Err(error) => {
                    let _ = send.send(Err(error));
                }
            })
            .map_err(no_thread)?;
        let late = |_| {
            let message = format!(
                "{place}: it could not be opened within {connect_timeout:?} (another program keeps it locked, the disk is slow, or its \
                 file system has no locks); `lsof` shows the programs that have it open"
            );
            BrokerError::new(BrokerErrorKind::Timeout, message)
        };
        let unanswered =
            |_| BrokerError::new(BrokerErrorKind::Unexpected, format!("{place}: opening ended without an answer"));
        let store = timeout(connect_timeout, opened).await.map_err(late)?.map_err(unanswered)??;
        // Two programs in two folders have two files by one relative path.
        if is_new && let Some(file) = &store.common.file {
            log!(info, file = %file.display(), "made a new SQLite file");
        }
        Ok(Self {
            store: Arc::new(store),
            tokens: Tokens::new(),
            ends: EndWaiters::default(),
            lease: options.lease,
            lapses: Arc::default(),
            manual_clock: options.clock.is_some(),
            stored_shapes: StoredShapes::default(),
        })
    }

    /// Has the writer run a small change in a transaction, and returns its answer once it is committed.
    async fn change<T: Send + 'static>(
        &self,
        run: impl FnMut(&mut Tx<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, BrokerError> {
        self.store.write(WriteCommand::new(Priority::Settle, 1, run)).await
    }

    /// Waits for a notification until `time`, in Unix milliseconds, if there is one, or until `deadline`. Returns whether it came.
    async fn notified_before(&self, notifier: &mut Receiver<()>, time: Option<i64>, deadline: Instant) -> bool {
        // The clock may be a test's, so the length of the wait follows from the clock alone.
        loop {
            let left = time.map(|time| time.saturating_sub(self.store.common.now()));
            if left.is_some_and(|left| left <= 0) || Instant::now() >= deadline {
                return false;
            }
            let mut pause = far(left.map_or(Duration::MAX, |left| Duration::from_millis(left.unsigned_abs())));
            if self.manual_clock && left.is_some() {
                pause = pause.min(Instant::now() + LOOK_AT_MANUAL_CLOCK);
            }
            if timeout_at(pause.min(deadline), notifier.changed()).await.is_ok() {
                return true;
            }
        }
    }
}

impl crate::broker::Sealed for SqliteBroker {}

#[async_trait::async_trait]
impl Broker for SqliteBroker {
    fn kind(&self) -> &'static str {
        "sqlite"
    }

    fn location(&self) -> String {
        match &self.store.common.file {
            Some(file) => url::url_of(file),
            None => "sqlite::memory:".to_owned(),
        }
    }

    fn lease(&self) -> Duration {
        self.lease
    }

    fn call_limit(&self) -> Duration {
        self.store.call_timeout
    }

    async fn broken(&self) -> BrokerError {
        self.store.common.broken().await
    }

    fn now(&self) -> DateTime<Utc> {
        self.store.now()
    }

    async fn ping(&self) -> Result<(), BrokerError> {
        self.store.read(|view| view.find(&sql::presence::LAST_SIGNAL, [], |_| Ok(()))).await.map(|_| ())
    }

    fn as_sqlite(&self) -> Option<&SqliteBroker> {
        Some(self)
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

impl Drop for SqliteBroker {
    /// Ends the threads: listeners for cancel requests hold the store and may outlive the broker, but its threads do not.
    fn drop(&mut self) {
        self.store.stop();
    }
}

impl fmt::Debug for SqliteBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteBroker")
            .field("location", &self.location())
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}

/// Opens everything, on the thread that will write.
fn set_up(location: &Location, options: &SqliteOptions) -> Result<(Store, Writer), BrokerError> {
    open::check_version(rusqlite::version_number())?;
    let clock = options.clock.clone().unwrap_or_else(|| Arc::new(SystemClock));
    let (inbox_sender, inbox) = mpsc::channel();
    let ended = CancellationToken::new();
    let Some(file) = &location.file else {
        let place = ":memory:";
        let mut connection = connection::open_memory().map_err(|error| translate(error, place))?;
        let names = migrate::settle_in(&mut connection, false, place, |_| Ok(()))?;
        let common = Arc::new(SharedState::in_memory(names, clock));
        let connection = common.guard(connection);
        let store = Store::new(Arc::clone(&common), options.call_timeout, inbox_sender, None, ended.clone());
        let others = OtherThreads::default();
        return Ok((store, Writer::new(common, connection, None, None, others, inbox, ended.drop_guard())));
    };
    let file = open::look(file, location)?;
    let place = file.display().to_string();
    let failed = |error: rusqlite::Error| translate(error, &place);
    let (mut connection, identity) = open_known(&file).map_err(failed)?;
    connection::refuse_read_only(&connection).map_err(failed)?;
    let names = migrate::settle_in(&mut connection, location.shared, &place, connection::make_writer)?;
    // A copy made by VACUUM INTO is not in WAL mode before, and SQLite creates the log at the first look into the file.
    let look = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
    look.map_err(failed)?;
    let page_size = connection::page_size(&connection).map_err(failed)?;
    let common = SharedState::in_file(file.clone(), identity, page_size, names, location.normal, clock);
    let common = Arc::new(common);
    let connection = common.guard(connection);
    // The connection still has the file that it opened, even if another has taken the name since.
    common.look_for_file();
    common.check()?;
    open::check_locks(&file)?;
    let write_lock = FairWriteLock::open(&file).inspect_err(|error| {
        log!(warn, %error, file = place, "the lock files that order the writers cannot be used; goes on without them");
    });
    let no_log = |error: io::Error| translate_io(error, &beside(&file, "-wal"));
    let disk = if location.normal { None } else { Some(Disk::open(&file).map_err(no_log)?) };
    let (readers, mut threads) = Readers::start(&common).map_err(no_thread)?;
    threads.push(watch::start(&common, file, readers.queue(), inbox_sender.clone()).map_err(no_thread)?);
    let others = OtherThreads { reads: readers.queue(), threads };
    let store = Store::new(Arc::clone(&common), options.call_timeout, inbox_sender, Some(readers), ended.clone());
    Ok((store, Writer::new(common, connection, write_lock.ok(), disk, others, inbox, ended.drop_guard())))
}

fn no_thread(error: io::Error) -> BrokerError {
    BrokerError::with_source(BrokerErrorKind::Unavailable, format!("no thread can be started ({error})"), error)
}
