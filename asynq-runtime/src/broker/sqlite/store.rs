//! Passes async calls to the threads that own the connections, and their answers back within the call's deadline.

use std::{
    future::Future,
    pin::pin,
    sync::{Arc, atomic::Ordering, mpsc},
    time::Duration,
};

use chrono::{DateTime, Utc};
use tokio::{
    sync::{Semaphore, oneshot},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::broker::{self, BrokerError, BrokerErrorKind, timeouts};

use super::{
    command::{Caller, CancelFlag, Command, Priority, ReadCall, WriteCommand},
    reader::Readers,
    shared_state::SharedState,
    tx::View,
};

/// How often a manual clock of a test is looked at, since it cannot notify of a change.
pub(super) const LOOK_AT_MANUAL_CLOCK: Duration = Duration::from_millis(5);

/// Calls of a kind that may wait for a thread; more wait for room, within their deadline.
const ROOM: usize = 1_024;

/// A call that was sent to a thread.
#[derive(Debug)]
pub(super) struct Sent<T> {
    answer: oneshot::Receiver<Result<T, BrokerError>>,
    cancel_flag: Arc<CancelFlag>,
    deadline: Instant,
}

/// A message to the writer.
pub(super) enum Message {
    /// Run this command.
    Command(Command),
    /// Another connection wrote something.
    Notification,
    /// End.
    Stop,
}

/// The async side of the broker's threads, which end by [`stop`](Self::stop).
#[derive(Debug)]
pub(super) struct Store {
    pub(super) common: Arc<SharedState>,
    /// Longest time a call may take.
    pub(super) call_timeout: Duration,
    writer: mpsc::Sender<Message>,
    /// Room for new tasks, apart from that of all other writes: no number of callers that enqueue may keep a lease or an
    /// outcome from the writer.
    insert_room: Arc<Semaphore>,
    writer_room: Arc<Semaphore>,
    readers: Option<Readers>,
    reader_room: Arc<Semaphore>,
    ended: CancellationToken,
}

impl Store {
    /// `readers` is absent for a database in memory, which has one connection; `ended` shows the writer's end.
    pub(super) fn new(
        common: Arc<SharedState>,
        call_timeout: Duration,
        writer: mpsc::Sender<Message>,
        readers: Option<Readers>,
        ended: CancellationToken,
    ) -> Self {
        Self {
            common,
            call_timeout,
            writer,
            insert_room: Arc::new(Semaphore::new(ROOM)),
            writer_room: Arc::new(Semaphore::new(ROOM)),
            readers,
            reader_room: Arc::new(Semaphore::new(ROOM)),
            ended,
        }
    }

    /// Has the writer do something and returns its answer once it is committed.
    ///
    /// # Errors
    ///
    /// The transaction failed, or there was no answer in time.
    pub(super) async fn write<T: Send + 'static>(&self, command: WriteCommand<T>) -> Result<T, BrokerError> {
        self.write_with(command, Arc::default()).await
    }

    /// Does as [`write`](Self::write), with a flag that the caller can ask afterwards.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub(super) async fn write_with<T: Send + 'static>(
        &self,
        command: WriteCommand<T>,
        cancel_flag: Arc<CancelFlag>,
    ) -> Result<T, BrokerError> {
        let sent = self.begin(command, cancel_flag).await?;
        self.done(sent).await
    }

    /// Sends a command as [`write`](Self::write) does, without waiting for the answer, which [`done`](Self::done) returns. So a
    /// caller prepares the next command while the writer runs this one.
    ///
    /// # Errors
    ///
    /// The command was not sent.
    pub(super) async fn begin<T: Send + 'static>(
        &self,
        command: WriteCommand<T>,
        cancel_flag: Arc<CancelFlag>,
    ) -> Result<Sent<T>, BrokerError> {
        let room = if command.priority == Priority::Insert { &self.insert_room } else { &self.writer_room };
        let (caller, sent) = self.caller(room, cancel_flag).await?;
        self.writer.send(Message::Command(command.called_by(caller))).map_err(|_| self.common.closed_error())?;
        Ok(sent)
    }

    /// Waits for the answer to a call that was sent.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub(super) async fn done<T>(&self, sent: Sent<T>) -> Result<T, BrokerError> {
        match timeouts::before(sent.deadline, pin!(sent.answer)).await {
            Some(answer) => self.understood(answer),
            None => Err(self.common.timeout(self.call_timeout, !sent.cancel_flag.give_up())),
        }
    }

    /// Has the writer do something as soon as there is something to do; `None` if there was nothing before `limit` or
    /// `stop`. Such a command waits only for its own [`once`](WriteCommand::once).
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub(super) async fn write_once<T: Send + 'static>(
        &self,
        command: WriteCommand<T>,
        cancel_flag: Arc<CancelFlag>,
        limit: Duration,
        stop: impl Future<Output = ()>,
    ) -> Result<Option<T>, BrokerError> {
        // The listener notices that the broker has ended, and shows the watch that a call waits.
        let mut notifier = self.common.notifier.signal.subscribe();
        let until = far(limit);
        let mut stop = pin!(stop);
        let mut sent = tokio::select! {
            biased;
            sent = self.begin(command, cancel_flag) => sent?,
            () = &mut stop => return Ok(None),
        };
        loop {
            tokio::select! {
                biased;
                answer = &mut sent.answer => return self.understood(answer).map(Some),
                () = &mut stop => break,
                () = tokio::time::sleep_until(until) => break,
                _ = notifier.changed() => if let Err(error) = self.common.check() {
                    if sent.cancel_flag.give_up() {
                        return Err(error);
                    }
                    // The command was begun: its result has to be known.
                    break;
                },
            }
        }
        if sent.cancel_flag.give_up() {
            return Ok(None);
        }
        self.done(Sent { deadline: far(self.call_timeout), ..sent }).await.map(Some)
    }

    /// Has a reader run `read` and returns its answer.
    ///
    /// # Errors
    ///
    /// The query failed, or there was no answer in time.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&View<'_>) -> rusqlite::Result<T> + Send + Sync + 'static,
    ) -> Result<T, BrokerError> {
        let Some(readers) = &self.readers else {
            let read = Arc::new(read);
            let look = Arc::clone(&read);
            let command = WriteCommand::new(Priority::Settle, 1, move |tx| read(&tx.view));
            return self.write(command.unless(move |view| look(view).map(Some))).await;
        };
        let (caller, sent) = self.caller(&self.reader_room, Arc::default()).await?;
        readers.ask(Box::new(ReadCall { read, caller }));
        self.done(sent).await
    }

    /// Wakes every wait in this process, and has the writer wake the other programs on the file, without waiting for it. While the
    /// writer commits, tidies the file or waits for the write lock, the safety net of those programs wakes them.
    pub(super) fn wake_all_processes(&self) {
        self.common.wakes_others.store(true, Ordering::Release);
        self.common.wake_waits(|| drop(self.writer.send(Message::Notification)));
    }

    /// Ends the threads without waiting for their end.
    pub(super) fn stop(&self) {
        self.common.close();
        let _ = self.writer.send(Message::Stop);
    }

    /// Ends the threads and waits for the end of the writer, which ends last, at most one call's time.
    pub(super) async fn close(&self) {
        self.stop();
        let _ = timeout_at(far(self.call_timeout), self.ended.cancelled()).await;
    }

    /// Returns the broker's time.
    pub(super) fn now(&self) -> DateTime<Utc> {
        self.common.clock.now()
    }

    /// Returns a caller that has room for its call, and the answer to come.
    async fn caller<T>(
        &self,
        room: &Arc<Semaphore>,
        cancel_flag: Arc<CancelFlag>,
    ) -> Result<(Caller<T>, Sent<T>), BrokerError> {
        self.common.check()?;
        let deadline = far(self.call_timeout);
        let room = match timeout_at(deadline, Arc::clone(room).acquire_owned()).await {
            Ok(permit) => permit.map_err(|_| self.common.closed_error())?,
            Err(_) => return Err(self.common.timeout(self.call_timeout, false)),
        };
        let (reply, answer) = oneshot::channel();
        let caller = Caller { cancel_flag: Arc::clone(&cancel_flag), reply, _room: room };
        Ok((caller, Sent { answer, cancel_flag, deadline }))
    }

    fn understood<T>(
        &self,
        answer: Result<Result<T, BrokerError>, oneshot::error::RecvError>,
    ) -> Result<T, BrokerError> {
        answer.unwrap_or_else(|_| {
            self.common.check()?;
            Err(self.common.error(BrokerErrorKind::Unavailable, "the call was dropped without an answer"))
        })
    }
}

impl Drop for Store {
    /// Ends the threads of a store that became no broker's, because its opening was abandoned.
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns now plus `limit`, which may be endless.
pub(super) fn far(limit: Duration) -> Instant {
    broker::far(Instant::now(), limit)
}

#[cfg(test)]
mod tests {
    use std::{path::Path, pin::pin, thread};

    use asynq_test_support::soon;
    use futures_util::FutureExt as _;

    use super::{
        super::{Broker as _, SqliteBroker, SqliteOptions, beside::beside},
        *,
    };

    /// Opens a file with `query`, and waits until the watch has a connection to it, too.
    async fn open(file: &Path, query: &str) -> SqliteBroker {
        let url = format!("sqlite://{}{query}", file.display());
        let broker = SqliteBroker::open(&url, SqliteOptions::default()).await.unwrap();
        let mut notifier = broker.store.common.notifier.work.subscribe();
        // The first look into the file finds something new.
        soon(notifier.changed()).await.unwrap();
        broker
    }

    fn has_log(file: &Path) -> bool {
        ["-wal", "-shm"].iter().any(|suffix| beside(file, suffix).exists())
    }

    /// A copy of the file alone has every commit then.
    #[tokio::test]
    async fn the_last_close_stops_a_query_and_leaves_no_log() {
        for query in ["", "?durability=normal"] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("jobs.db");
            let broker = open(&file, query).await;
            let (begins, has_begun) = mpsc::channel();
            let mut slow = pin!(broker.store.read(move |view| {
                let _ = begins.send(());
                // The first interrupt comes before the statement, which it does not stop.
                thread::sleep(Duration::from_millis(50));
                let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";
                let stopped = view.count(endless);
                // The writer ends sooner, unless it waits for this reader.
                thread::sleep(Duration::from_millis(200));
                stopped
            }));
            assert!(slow.as_mut().now_or_never().is_none());
            has_begun.recv_timeout(asynq_test_support::PATIENCE).unwrap();
            assert!(has_log(&file));
            broker.close().await;
            assert!(!has_log(&file), "{query}");
            assert_eq!(soon(slow).await.unwrap_err().kind(), BrokerErrorKind::Closed);
        }
    }

    mod timing {
        use super::*;

        #[tokio::test]
        async fn a_close_wakes_the_watch_which_else_looks_once_a_second() {
            let mut took = Vec::new();
            for _ in 0..3 {
                let folder = tempfile::tempdir().unwrap();
                let broker = open(&folder.path().join("jobs.db"), "").await;
                // The watch waits again meanwhile. A reader would wake it by the close of its connection.
                broker.store.write(WriteCommand::new(Priority::Settle, 1, |_| Ok(()))).await.unwrap();
                let begun = Instant::now();
                broker.close().await;
                took.push(begun.elapsed());
            }
            took.sort();
            assert!(took[1] < Duration::from_millis(500), "{took:?}");
        }
    }
}
