//! Passes async calls to the threads that own the connections, and their answers back within the call's deadline.

use std::{
    fs,
    future::Future,
    io,
    path::{Path, PathBuf},
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use chrono::{DateTime, Utc};
use tokio::{
    sync::{Notify, Semaphore, oneshot, watch},
    time::{Instant, timeout_at},
};

use crate::{
    broker::{BrokerError, BrokerErrorKind, timeouts},
    clock::Clock,
};

use super::{
    beside::beside,
    command::{Call, CancelFlag, Command, NotifyProcesses, Priority, ReadCall, WriteCommand},
    error::translate,
    liveness::Liveness,
    reader::Readers,
    sql::Names,
    tx::View,
    wake::notifier::Notifier,
    wake::watch::{FileStatus, Identity, is_unreadable, restore},
};

/// Calls of a kind that may wait for a thread; more wait for room, within their deadline.
const ROOM: usize = 1_024;

/// Moves the log of a file that was replaced away from the new file, into which SQLite would read it: a backup would get the
/// commits that it was to undo. Another program may have moved the log already.
fn set_log_aside(file: &Path, log: &Path) {
    let aside = beside(file, "-wal-replaced");
    match fs::rename(log, &aside) {
        Ok(()) => {
            // `-shm` is the index of the log, and is made anew from it.
            let _ = fs::remove_file(beside(file, "-shm"));
            tracing::warn!(kept = %aside.display(), "the log of the file that was replaced is set aside");
        }
        Err(error) => tracing::debug!("the log of the file that was replaced stays where it is: {error}"),
    }
}

/// State that all threads and calls of one broker share.
#[derive(Debug)]
pub(super) struct Common {
    /// The database as people know it.
    pub(super) place: String,
    /// The file, unless the database is in memory.
    pub(super) file: Option<PathBuf>,
    /// Identity of the file when it was opened.
    pub(super) identity: Option<Identity>,
    /// Path and identity of the log, if the file has one.
    log: Option<(PathBuf, Option<Identity>)>,
    /// Whether a power cut may take the last commits.
    pub(super) normal: bool,
    /// How our tables are called in the file.
    pub(super) names: Names,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) notifier: Notifier,
    pub(super) liveness: Option<Liveness>,
    /// Whether the writer is notified already that another program wrote something.
    told: AtomicBool,
    closed: AtomicBool,
    broken: OnceLock<BrokerError>,
    broke: Notify,
}

impl Common {
    /// Returns the state of a database in memory.
    pub(super) fn in_memory(names: Names, clock: Arc<dyn Clock>) -> Self {
        Self {
            place: ":memory:".to_owned(),
            file: None,
            identity: None,
            log: None,
            normal: false,
            names,
            clock,
            notifier: Notifier::new(),
            liveness: None,
            told: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            broken: OnceLock::new(),
            broke: Notify::new(),
        }
    }

    /// Returns the state of the database in `file`, which must be there.
    ///
    /// # Errors
    ///
    /// The file is not there.
    pub(super) fn in_file(file: PathBuf, names: Names, normal: bool, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let log = beside(&file, "-wal");
        Ok(Self {
            place: file.display().to_string(),
            identity: Identity::of(&file)?,
            log: Identity::of(&log).ok().map(|found| (log, found)),
            normal,
            liveness: Some(Liveness::new(file.clone())),
            file: Some(file),
            ..Self::in_memory(names, clock)
        })
    }

    /// The broker's time in Unix milliseconds.
    pub(super) fn now(&self) -> i64 {
        self.clock.now().timestamp_millis()
    }

    /// Checks that the broker can be used.
    ///
    /// # Errors
    ///
    /// The broker was closed, or its file is not there any more.
    pub(super) fn check(&self) -> Result<(), BrokerError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(self.closed_error());
        }
        self.broken.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Waits until every call fails for good, and returns why.
    pub(super) async fn broken(&self) -> BrokerError {
        loop {
            let broke = self.broke.notified();
            if let Some(error) = self.broken.get() {
                return error.clone();
            }
            broke.await;
        }
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken.get().is_some()
    }

    /// Looks whether the file is still the one that was opened; if not, every call fails from now on.
    pub(super) fn look_for_file(&self) {
        let Some(file) = &self.file else { return };
        let status = FileStatus::of_database(file, self.identity);
        // Our connections keep the log open, so that SQLite itself never removes it.
        let of_log = self.log.as_ref().map(|(log, identity)| (log, FileStatus::of(log, *identity)));
        if let (FileStatus::Replaced, Some((log, FileStatus::Same))) = (status, of_log) {
            set_log_aside(file, log);
        }
        let of_log = || of_log.and_then(|(log, status)| status.error(&log.display().to_string()));
        if let Some(error) = status.error(&self.place).or_else(of_log) {
            self.break_down(error);
        }
    }

    /// Translates a failure for its caller. After a failure that says that the file is damaged as a whole, every call fails.
    pub(super) fn explain(&self, error: rusqlite::Error) -> BrokerError {
        self.look_for_file();
        let error = translate(error, &self.place);
        if let (BrokerErrorKind::Corrupt, false, Some(file)) = (error.kind(), self.is_broken(), &self.file)
            && is_unreadable(file)
        {
            let place = &self.place;
            let message = format!(
                "{place} was overwritten or damaged while it was in use: the list of its tables cannot be read; {}",
                restore(place)
            );
            self.break_down(BrokerError::with_source(BrokerErrorKind::Corrupt, message, error.clone()));
        }
        self.broken.get().cloned().unwrap_or(error)
    }

    /// Makes every call fail with `error` from now on.
    pub(super) fn break_down(&self, error: BrokerError) {
        let message = error.to_string();
        if self.broken.set(error).is_ok() {
            tracing::error!(error = message, "the SQLite broker stops");
            self.broke.notify_waiters();
            self.notifier.notify_all();
        }
    }

    /// Notifies every wait in this process that another connection has written; the writer, in which claims wait, first. One
    /// message to the writer at a time is enough.
    pub(super) fn wake_waits(&self, writer: &mpsc::Sender<Message>) {
        if !self.told.swap(true, Ordering::AcqRel) {
            let _ = writer.send(Message::Notifier);
        }
        self.notifier.notify_all();
    }

    /// Notes that the writer received its notification, and looks from here on.
    pub(super) fn notified(&self) {
        self.told.store(false, Ordering::Release);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Makes calls fail and threads end from now on.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.notifier.notify_all();
    }

    fn closed_error(&self) -> BrokerError {
        BrokerError::new(BrokerErrorKind::Closed, format!("{}: this broker was closed", self.place))
    }

    fn timeout(&self, limit: Duration, unknown: bool) -> BrokerError {
        let effect = if unknown { "whether the call took effect is unknown" } else { "nothing was changed" };
        BrokerError::new(
            BrokerErrorKind::Timeout,
            format!(
                "{}: no answer within {limit:?} (a slow disk, or another program holds the lock); {effect}",
                self.place
            ),
        )
    }
}

type Answer<T> = oneshot::Receiver<Result<T, BrokerError>>;

/// A call that was sent to the writer.
#[derive(Debug)]
pub(super) struct Sent<T> {
    answer: Answer<T>,
    cancel_flag: Arc<CancelFlag>,
    deadline: Instant,
}

/// A message to the writer.
pub(super) enum Message {
    /// Run this command.
    Command(Box<dyn Command>),
    /// Another program wrote something.
    Notifier,
    /// End.
    Stop,
}

/// The async side of the broker's threads, which end by [`stop`](Self::stop).
#[derive(Debug)]
pub(super) struct Store {
    pub(super) common: Arc<Common>,
    /// Longest time a call may take.
    pub(super) call_timeout: Duration,
    writer: mpsc::Sender<Message>,
    /// Room for new tasks, apart from that of all other writes: no number of callers that enqueue may keep a lease or an
    /// outcome from the writer.
    insert_room: Arc<Semaphore>,
    writer_room: Arc<Semaphore>,
    readers: Option<Readers>,
    reader_room: Arc<Semaphore>,
    ended: watch::Receiver<bool>,
}

impl Store {
    /// `readers` is absent for a database in memory, which has one connection; `ended` shows the writer's end.
    pub(super) fn new(
        common: Arc<Common>,
        call_timeout: Duration,
        writer: mpsc::Sender<Message>,
        readers: Option<Readers>,
        ended: watch::Receiver<bool>,
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

    /// Sends a command as [`write`](Self::write) does, without waiting for the answer, which [`done`](Self::done) returns. So a
    /// caller prepares the next command while the writer runs this one.
    ///
    /// # Errors
    ///
    /// The command was not sent.
    pub(super) async fn begin<T: Send + 'static>(&self, command: WriteCommand<T>) -> Result<Sent<T>, BrokerError> {
        let (deadline, cancel_flag) = (far(self.call_timeout), Arc::default());
        Ok(Sent { answer: self.send(command, &cancel_flag).await?, cancel_flag, deadline })
    }

    /// Waits for the answer to a command that was sent.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub(super) async fn done<T: Send + 'static>(&self, sent: Sent<T>) -> Result<T, BrokerError> {
        self.answer(sent.answer, &sent.cancel_flag, sent.deadline).await
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
        let deadline = far(self.call_timeout);
        let answer = self.send(command, &cancel_flag).await?;
        self.answer(answer, &cancel_flag, deadline).await
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
        let mut notifier = self.common.notifier.signals();
        let until = far(limit);
        let mut stop = pin!(stop);
        let mut answer = tokio::select! {
            biased;
            sent = self.send(command, &cancel_flag) => sent?,
            () = &mut stop => return Ok(None),
        };
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return self.understood(answer).map(Some),
                () = &mut stop => break,
                () = tokio::time::sleep_until(until) => break,
                () = notifier.notified() => if let Err(error) = self.common.check() {
                    if cancel_flag.give_up() {
                        return Err(error);
                    }
                    // The command was begun: its result has to be known.
                    break;
                },
            }
        }
        if cancel_flag.give_up() {
            return Ok(None);
        }
        self.answer(answer, &cancel_flag, far(self.call_timeout)).await.map(Some)
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
        self.common.check()?;
        let deadline = far(self.call_timeout);
        let room = self.room(&self.reader_room, deadline).await?;
        let (reply, answer) = oneshot::channel();
        let cancel_flag = Arc::<CancelFlag>::default();
        let question = ReadCall { read, cancel_flag: Arc::clone(&cancel_flag), reply, _room: room };
        readers.ask(Box::new(question));
        self.answer(answer, &cancel_flag, deadline).await
    }

    /// Wakes every wait in this process, and has a reader wake the other programs on the file, without waiting for it. If the
    /// readers have no room, the safety net of those programs wakes them.
    pub(super) fn wake_all_processes(&self) {
        self.common.wake_waits(&self.writer);
        if let Some(readers) = &self.readers
            && let Ok(room) = Arc::clone(&self.reader_room).try_acquire_owned()
        {
            readers.ask(Box::new(NotifyProcesses { _room: room }));
        }
    }

    /// Ends the threads without waiting for their end.
    pub(super) fn stop(&self) {
        self.common.close();
        let _ = self.writer.send(Message::Stop);
    }

    /// Ends the threads and waits for the end of the writer, at most one call's time.
    pub(super) async fn close(&self) {
        self.stop();
        let mut ended = self.ended.clone();
        let _ = timeout_at(far(self.call_timeout), ended.wait_for(|ended| *ended)).await;
    }

    /// Returns the broker's time.
    pub(super) fn now(&self) -> DateTime<Utc> {
        self.common.clock.now()
    }

    /// Gives a command to the writer.
    async fn send<T: Send + 'static>(
        &self,
        command: WriteCommand<T>,
        cancel_flag: &Arc<CancelFlag>,
    ) -> Result<Answer<T>, BrokerError> {
        self.common.check()?;
        let room = if command.priority() == Priority::Insert { &self.insert_room } else { &self.writer_room };
        let room = self.room(room, far(self.call_timeout)).await?;
        let (reply, answer) = oneshot::channel();
        let call = Call::new(command, Arc::clone(cancel_flag), reply, room);
        self.writer.send(Message::Command(Box::new(call))).map_err(|_| self.common.closed_error())?;
        Ok(answer)
    }

    async fn room(
        &self,
        room: &Arc<Semaphore>,
        deadline: Instant,
    ) -> Result<tokio::sync::OwnedSemaphorePermit, BrokerError> {
        match timeout_at(deadline, Arc::clone(room).acquire_owned()).await {
            Ok(permit) => permit.map_err(|_| self.common.closed_error()),
            Err(_) => Err(self.common.timeout(self.call_timeout, false)),
        }
    }

    async fn answer<T>(
        &self,
        answer: Answer<T>,
        cancel_flag: &CancelFlag,
        deadline: Instant,
    ) -> Result<T, BrokerError> {
        match timeouts::before(deadline, pin!(answer)).await {
            Some(answer) => self.understood(answer),
            None => Err(self.common.timeout(self.call_timeout, !cancel_flag.give_up())),
        }
    }

    fn understood<T>(
        &self,
        answer: Result<Result<T, BrokerError>, oneshot::error::RecvError>,
    ) -> Result<T, BrokerError> {
        answer.unwrap_or_else(|_| {
            self.common.check()?;
            Err(BrokerError::new(
                BrokerErrorKind::Unavailable,
                format!("{}: the call was dropped without an answer", self.common.place),
            ))
        })
    }
}

/// Returns now plus `limit`, which may be endless.
pub(super) fn far(limit: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(limit).unwrap_or_else(|| now + Duration::from_secs(365 * 86_400))
}
