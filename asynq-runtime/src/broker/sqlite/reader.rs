//! The threads that read, so that a page of a dashboard never waits for a write.

use std::{
    collections::VecDeque,
    io,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use rusqlite::InterruptHandle;

use super::{
    command::ReadRequest,
    connection,
    shared_state::{GuardedConnection, SharedState},
};
use crate::panics;

/// Readers per broker.
const READERS: usize = 2;

/// How long a query waits for a reader that has a connection, or is opening it, before another reader opens one for the query:
/// a connection takes a quarter of a megabyte, and a program with a few queries at its start needs only one.
const WORTH_OPENING: Duration = Duration::from_millis(10);

/// How long one query may take: a longer one would keep the WAL from being reset.
const LONGEST: Duration = Duration::from_secs(1);

/// The readers; its drop ends them.
#[derive(Debug)]
pub(super) struct Readers(Arc<ReadQueue>);

/// The queries that wait for a reader, and those that run. Unlike a channel behind a lock, the queue wakes one reader only, and
/// always the first free one that has a connection: where one reader is enough, the others open no connection.
#[derive(Default)]
pub(super) struct ReadQueue {
    waiting: Mutex<Waiting>,
    /// One condition variable per reader.
    changed: [Condvar; READERS],
    running: [RunningRead; READERS],
}

partial_debug!(ReadQueue { .. });

/// When the running query of one reader began, and the handle of its connection, under one lock: the watch must not stop the query
/// that follows a slow one.
type RunningRead = Mutex<Option<(Instant, InterruptHandle)>>;

#[derive(Default)]
struct Waiting {
    queries: VecDeque<Box<dyn ReadRequest>>,
    /// The readers that wait and are not called yet.
    free: [bool; READERS],
    /// The readers that took a query, and so have a connection or are about to open one.
    open: [bool; READERS],
    is_over: bool,
}

impl Waiting {
    /// Whether `reader`, which would have to open a connection for the next query, lets a reader that has one come first.
    fn leaves_time(&self, reader: usize) -> bool {
        !self.open[reader] && self.open.contains(&true) && !self.queries.is_empty()
    }
}

impl Readers {
    /// Starts the readers, and returns their threads, too.
    ///
    /// # Errors
    ///
    /// No thread can be started.
    pub(super) fn start(common: &Arc<SharedState>) -> io::Result<(Self, Vec<JoinHandle<()>>)> {
        let readers = Self(Arc::default());
        let mut threads = Vec::with_capacity(READERS);
        for number in 0..READERS {
            let (common, queue) = (Arc::clone(common), readers.queue());
            let thread = thread::Builder::new().name(format!("asynq-sqlite-read-{number}")).spawn(move || {
                // A query that panics, as by a clock of the program, costs its caller the answer, and the reader its connection.
                while panics::catch(|| read(&common, &queue, number)).is_err() {
                    *queue.running[number].lock() = None;
                }
            })?;
            threads.push(thread);
        }
        Ok((readers, threads))
    }

    /// Returns the queue, for the watch.
    pub(super) fn queue(&self) -> Arc<ReadQueue> {
        Arc::clone(&self.0)
    }

    /// Has the next free reader answer `query`, which holds the caller's permit to wait.
    pub(super) fn ask(&self, query: Box<dyn ReadRequest>) {
        let mut waiting = self.0.waiting.lock();
        if waiting.is_over {
            // The caller of a query that is dropped gets the error of the broker.
            return;
        }
        waiting.queries.push_back(query);
        let is_free = |reader: &usize| waiting.free[*reader];
        let has_connection = |reader: &usize| is_free(reader) && waiting.open[*reader];
        if let Some(called) = (0..READERS).find(has_connection).or_else(|| (0..READERS).find(is_free)) {
            waiting.free[called] = false;
            self.0.changed[called].notify_one();
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl ReadQueue {
    /// Stops the queries that run, and ends the readers once all queries that wait are answered, which closes their connections. The
    /// broker must be closed or broken before.
    pub(super) fn end(&self) {
        self.waiting.lock().is_over = true;
        self.changed.iter().for_each(|changed| _ = changed.notify_one());
        self.interrupt_those_over(Duration::ZERO);
    }

    /// Waits for the next query of `reader`; `None` when there will be none.
    fn next(&self, reader: usize) -> Option<Box<dyn ReadRequest>> {
        let mut waiting = self.waiting.lock();
        let mut has_waited = false;
        loop {
            waiting.free[reader] = false;
            if waiting.leaves_time(reader) && !has_waited {
                has_waited = true;
                self.changed[reader].wait_for(&mut waiting, WORTH_OPENING);
                continue;
            }
            if let Some(query) = waiting.queries.pop_front() {
                waiting.open[reader] = true;
                return Some(query);
            }
            has_waited = false;
            if waiting.is_over {
                return None;
            }
            waiting.free[reader] = true;
            self.changed[reader].wait(&mut waiting);
        }
    }

    /// Stops queries that take too long.
    pub(super) fn interrupt_slow(&self) {
        self.interrupt_those_over(LONGEST);
    }

    fn interrupt_those_over(&self, longest: Duration) {
        for running in &self.running {
            if let Some((since, handle)) = &*running.lock()
                && since.elapsed() >= longest
            {
                handle.interrupt();
            }
        }
    }
}

fn read(common: &Arc<SharedState>, queue: &ReadQueue, reader: usize) {
    let running = &queue.running[reader];
    let mut connection: Option<GuardedConnection> = None;
    while let Some(query) = queue.next(reader) {
        if !query.begin() {
            continue;
        }
        if let Err(error) = common.check() {
            query.run(Err(error), common);
            continue;
        }
        match connection.take().map_or_else(|| open(common), Ok) {
            Ok(open) => {
                *running.lock() = Some((Instant::now(), open.get_interrupt_handle()));
                // An end that came before this query was seen to run has not stopped it.
                query.run(common.check().map(|()| common.view(&open)), common);
                *running.lock() = None;
                // An interrupt may have hit the ROLLBACK that ends a slow query. The open snapshot would fail all later queries of
                // this connection, and keep the log from beginning anew.
                connection = open.is_autocommit().then_some(open);
            }
            Err(error) => query.run(Err(common.explain(error)), common),
        }
    }
}

fn open(common: &Arc<SharedState>) -> rusqlite::Result<GuardedConnection> {
    let file = common.file.as_deref().ok_or(rusqlite::Error::InvalidQuery)?;
    // A file that has taken the place of ours must not be locked; the caller explains why.
    if common.look_for_file() {
        return Err(rusqlite::Error::InvalidQuery);
    }
    connection::open_reader(file).map(|connection| common.guard(connection))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use asynq_test_support::eventually_blocking;
    use tokio::sync::oneshot;

    use super::{
        super::{
            command::{Caller, ReadCall},
            connection::open_untouched,
            tx::View,
        },
        *,
    };
    use crate::broker::{BrokerError, BrokerErrorKind};

    /// Readers of a file with an empty table `a`.
    fn start_on_a_file() -> (tempfile::TempDir, Readers) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.db");
        open_untouched(&file).unwrap().execute_batch("PRAGMA journal_mode = wal; CREATE TABLE a(x)").unwrap();
        let common = SharedState::of_file(file);
        (folder, Readers::start(&common).unwrap().0)
    }

    /// Asks a reader to run `read`.
    fn ask(
        inbox: &Readers,
        read: impl Fn(&View<'_>) -> rusqlite::Result<i64> + Send + Sync + 'static,
    ) -> oneshot::Receiver<Result<i64, BrokerError>> {
        let (caller, answer) = Caller::of_a_test();
        inbox.ask(Box::new(ReadCall { read, caller }));
        answer
    }

    #[test]
    fn a_query_that_takes_too_long_is_stopped_and_the_reader_goes_on() {
        let (_folder, inbox) = start_on_a_file();
        let ask = |sql: &'static str| ask(&inbox, move |view| view.count(sql));
        let begun = Instant::now();
        let mut endless: Vec<_> = (0..READERS)
            .map(|_| ask("WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"))
            .collect();
        while let Some(mut answer) = endless.pop() {
            let stopped = eventually_blocking("the query is stopped", || {
                inbox.0.interrupt_slow();
                match answer.try_recv() {
                    Err(oneshot::error::TryRecvError::Empty) => None,
                    answer => Some(answer.unwrap()),
                }
            });
            assert_eq!(stopped.unwrap_err().kind(), BrokerErrorKind::Timeout);
        }
        assert!(begun.elapsed() >= LONGEST);
        assert_eq!(ask("SELECT count(*) FROM a").blocking_recv().unwrap().unwrap(), 0);
    }

    #[test]
    fn a_reader_does_not_open_the_file_that_took_the_place_of_its_own() {
        let (folder, inbox) = start_on_a_file();
        let other = folder.path().join("other.db");
        open_untouched(&other).unwrap().execute_batch("CREATE TABLE a(x)").unwrap();
        std::fs::rename(other, folder.path().join("jobs.db")).unwrap();
        let answer = ask(&inbox, |view| view.count("SELECT count(*) FROM a")).blocking_recv().unwrap();
        assert_eq!(answer.unwrap_err().kind(), BrokerErrorKind::Corrupt);
    }

    #[test]
    fn a_query_that_comes_after_the_end_of_the_readers_does_not_wait() {
        let (_folder, inbox) = start_on_a_file();
        inbox.0.end();
        let mut answer = ask(&inbox, |_| Ok(0));
        assert!(matches!(answer.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
    }

    #[test]
    fn queries_that_panic_leave_the_readers_to_others() {
        let (_folder, inbox) = start_on_a_file();
        for _ in 0..=READERS {
            let mut answer = ask(&inbox, |_| panic!("a defect"));
            eventually_blocking("the query ends", || {
                (!matches!(answer.try_recv(), Err(oneshot::error::TryRecvError::Empty))).then_some(())
            });
        }
        assert_eq!(ask(&inbox, |view| view.count("SELECT count(*) FROM a")).blocking_recv().unwrap().unwrap(), 0);
    }

    /// A query whose ROLLBACK has failed.
    struct LeftOpen(Arc<Barrier>);

    impl ReadRequest for LeftOpen {
        fn begin(&self) -> bool {
            true
        }

        fn run(self: Box<Self>, view: Result<View<'_>, BrokerError>, _: &SharedState) {
            // Each reader has one of these.
            self.0.wait();
            view.unwrap().batch("BEGIN; SELECT count(*) FROM a").unwrap();
        }
    }

    #[test]
    fn a_connection_that_is_left_in_a_transaction_is_not_used_again() {
        let (_folder, inbox) = start_on_a_file();
        let together = Arc::new(Barrier::new(READERS));
        for _ in 0..READERS {
            inbox.ask(Box::new(LeftOpen(Arc::clone(&together))));
        }
        assert_eq!(ask(&inbox, |view| view.count("SELECT count(*) FROM a")).blocking_recv().unwrap().unwrap(), 0);
    }

    #[test]
    fn one_query_reads_one_snapshot() {
        let (folder, inbox) = start_on_a_file();
        let writer = Mutex::new(open_untouched(&folder.path().join("jobs.db")).unwrap());
        let count = "SELECT count(*) FROM a";
        let came = ask(&inbox, move |view| {
            let before = view.count(count)?;
            writer.lock().execute("INSERT INTO a VALUES (1)", [])?;
            Ok(view.count(count)? - before)
        });
        assert_eq!(came.blocking_recv().unwrap().unwrap(), 0);
        assert_eq!(ask(&inbox, move |view| view.count(count)).blocking_recv().unwrap().unwrap(), 1);
    }

    #[test]
    fn one_query_after_the_other_is_read_by_the_same_reader_and_several_at_once_by_all() {
        let (_folder, inbox) = start_on_a_file();
        let all_are_free = || inbox.0.waiting.lock().free.iter().all(|&is_free| is_free);
        let used_readers = || inbox.0.waiting.lock().open.iter().filter(|&&is_open| is_open).count();
        for _ in 0..20 {
            eventually_blocking("all readers are free", || all_are_free().then_some(()));
            ask(&inbox, |view| view.count("SELECT count(*) FROM a")).blocking_recv().unwrap().unwrap();
        }
        assert_eq!(used_readers(), 1);
        let together = Arc::new(Barrier::new(READERS));
        let answers = [(); READERS].map(|()| {
            let together = Arc::clone(&together);
            ask(&inbox, move |view| {
                together.wait();
                view.count("SELECT count(*) FROM a")
            })
        });
        assert!(answers.into_iter().all(|answer| answer.blocking_recv().unwrap().is_ok()));
        assert_eq!(used_readers(), READERS);
    }

    #[test]
    fn a_reader_without_a_connection_leaves_time_for_one_that_has() {
        let readers = Readers(Arc::default());
        let waits = |reader: usize| {
            let _answer = ask(&readers, |_| Ok(0));
            let begun = Instant::now();
            assert!(readers.0.next(reader).is_some());
            begun.elapsed() >= WORTH_OPENING
        };
        waits(0);
        assert!(waits(1), "the first one is free soon");
        assert_eq!(readers.0.waiting.lock().open, [true; READERS]);
        let _answer = ask(&readers, |_| Ok(0));
        let mut waiting = readers.0.waiting.lock();
        waiting.open = [false; READERS];
        assert!(!waiting.leaves_time(1), "no other reader has a connection");
        waiting.open[0] = true;
        assert!(waiting.leaves_time(1) && !waiting.leaves_time(0));
    }

    #[test]
    fn a_free_reader_with_a_connection_is_called_before_one_without() {
        let readers = Readers(Arc::default());
        let called = |free, open| {
            let mut waiting = readers.0.waiting.lock();
            (waiting.free, waiting.open) = (free, open);
            drop(waiting);
            let _answer = ask(&readers, |_| Ok(0));
            readers.0.waiting.lock().free
        };
        assert_eq!(called([true, true], [false, true]), [true, false]);
        assert_eq!(called([true, true], [true, true]), [false, true]);
        assert_eq!(called([true, true], [false, false]), [false, true]);
        assert_eq!(called([true, false], [false, true]), [false, false]);
    }
}
