//! The way from an async call to the threads that own the connections, and back within the call's deadline.

use std::{
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use chrono::{DateTime, Utc};
use tokio::{
    sync::{Semaphore, oneshot, watch},
    time::{Instant, timeout_at},
};

use crate::{
    broker::{BrokerError, BrokerErrorKind},
    clock::Clock,
};

use super::{
    job::{Job, Order, Query, Question, Ticket, Work},
    liveness::Liveness,
    news::News,
    tx::View,
};

/// Calls that may wait for a thread; more wait for room, within their deadline.
const ROOM: usize = 1_024;

/// What every thread and every call of one broker shares.
#[derive(Debug)]
pub(super) struct Common {
    /// The database as people know it.
    pub(super) place: String,
    /// The file, unless the database is in memory.
    pub(super) file: Option<PathBuf>,
    /// Whether a power cut may take the last commits.
    pub(super) normal: bool,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) news: News,
    pub(super) liveness: Option<Liveness>,
    closed: AtomicBool,
    broken: OnceLock<BrokerError>,
}

impl Common {
    pub(super) fn new(
        place: String,
        file: Option<PathBuf>,
        normal: bool,
        clock: Arc<dyn Clock>,
        liveness: Option<Liveness>,
    ) -> Self {
        Self {
            place,
            file,
            normal,
            clock,
            news: News::new(),
            liveness,
            closed: AtomicBool::new(false),
            broken: OnceLock::new(),
        }
    }

    /// The broker's time in Unix milliseconds.
    pub(super) fn now(&self) -> i64 {
        self.clock.now().timestamp_millis()
    }

    /// Whether calls make sense.
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

    pub(super) fn is_broken(&self) -> bool {
        self.broken.get().is_some()
    }

    /// From now on every call fails with `error`.
    pub(super) fn break_down(&self, error: BrokerError) {
        tracing::error!(%error, "the SQLite broker stops");
        let _ = self.broken.set(error);
        self.news.publish_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.news.publish_all();
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

/// What the writer is told.
pub(super) enum Message {
    /// Do this.
    Work(Box<dyn Work>),
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
    writer_room: Arc<Semaphore>,
    readers: Option<mpsc::Sender<Box<dyn Query>>>,
    reader_room: Arc<Semaphore>,
    ended: watch::Receiver<bool>,
}

impl Store {
    /// `readers` is absent for a database in memory, which has one connection; `ended` shows the writer's end.
    pub(super) fn new(
        common: Arc<Common>,
        call_timeout: Duration,
        writer: mpsc::Sender<Message>,
        readers: Option<mpsc::Sender<Box<dyn Query>>>,
        ended: watch::Receiver<bool>,
    ) -> Self {
        Self {
            common,
            call_timeout,
            writer,
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
    pub(super) async fn write<T: Send + 'static>(&self, order: Order<T>) -> Result<T, BrokerError> {
        self.write_with(order, Arc::default()).await
    }

    /// The same with a ticket that the caller can ask afterwards.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub(super) async fn write_with<T: Send + 'static>(
        &self,
        order: Order<T>,
        ticket: Arc<Ticket>,
    ) -> Result<T, BrokerError> {
        self.common.check()?;
        let deadline = Instant::now() + self.call_timeout;
        let room = self.room(&self.writer_room, deadline).await?;
        let (reply, answer) = oneshot::channel();
        let job = Job::new(order, Arc::clone(&ticket), reply, room);
        self.writer.send(Message::Work(Box::new(job))).map_err(|_| self.common.closed_error())?;
        self.answer(answer, &ticket, deadline).await
    }

    /// Reads.
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
            let order = Order::new(super::job::Stage::Settle, 1, move |tx| read(&tx.view));
            return self.write(order.unless(move |view| look(view).map(Some))).await;
        };
        self.common.check()?;
        let deadline = Instant::now() + self.call_timeout;
        let room = self.room(&self.reader_room, deadline).await?;
        let (reply, answer) = oneshot::channel();
        let ticket = Arc::<Ticket>::default();
        let question = Question { read, ticket: Arc::clone(&ticket), reply, _room: room };
        readers.send(Box::new(question)).map_err(|_| self.common.closed_error())?;
        self.answer(answer, &ticket, deadline).await
    }

    /// Ends the threads without waiting for it.
    pub(super) fn stop(&self) {
        self.common.close();
        let _ = self.writer.send(Message::Stop);
    }

    /// Ends the threads and waits for it, at most one call's time.
    pub(super) async fn close(&self) {
        self.stop();
        let mut ended = self.ended.clone();
        let _ = timeout_at(Instant::now() + self.call_timeout, ended.wait_for(|ended| *ended)).await;
    }

    /// The broker's time.
    pub(super) fn now(&self) -> DateTime<Utc> {
        self.common.clock.now()
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
        answer: oneshot::Receiver<Result<T, BrokerError>>,
        ticket: &Ticket,
        deadline: Instant,
    ) -> Result<T, BrokerError> {
        match timeout_at(deadline, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                self.common.check()?;
                Err(BrokerError::new(
                    BrokerErrorKind::Unavailable,
                    format!("{}: the call was dropped without an answer", self.common.place),
                ))
            }
            Err(_) => Err(self.common.timeout(self.call_timeout, !ticket.give_up())),
        }
    }
}
