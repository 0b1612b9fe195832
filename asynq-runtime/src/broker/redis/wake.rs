//! Wakes idle workers: receives a notification of the next write by any client, Go's included, by client-side caching
//! on connections that are used for nothing else. Nothing polls, unless Redis or a proxy refuses the notifications.
//!
//! Redis announces the next change of each key that was read on a tracking connection, by the name of the key. Only
//! announced keys are asked again; the others are still announced. Scripts must never run on such a connection: a
//! script that reads a single key registers every key that it declares (docs/design/wire.md#waiting-without-polling).

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{
    super::{BrokerError, BrokerErrorKind},
    RedisBroker,
    connection_manager::is_unconnected,
    dedicated::{DedicatedConnection, Sent, Taken},
    io::Io,
    key_waiters::KeyWaiters,
    role::{ConnectionEvent, Role},
    router::{Answer, Router},
    script::Call,
    seen::{Change, Question, SharedSeen, Topic},
};

/// Poll interval where tracking is refused.
pub(super) const POLL: Duration = Duration::from_millis(250);

/// Questions that are sent together: a look at ten thousand queues does not hold the commands of all of them in memory, and other calls
/// do not wait for all of their answers.
const PER_TRIP: usize = 5000;

/// The tracking connection of callers without their own, and the channel that notifies them of changes.
#[derive(Debug)]
pub(super) struct Wake {
    pub(super) router: Router,
    seen: SharedSeen,
    notifier: watch::Sender<()>,
    /// The waiters of changes of certain keys.
    pub(super) waiters: KeyWaiters,
}

impl Wake {
    pub(super) fn open(io: &Io, role: Role) -> Self {
        let (notifier, _) = watch::channel(());
        let (notify, seen) = (notifier.clone(), SharedSeen::default());
        let (seen_by_listener, waiters) = (Arc::clone(&seen), KeyWaiters::default());
        let waiting = waiters.clone();
        let on_event = move |event| {
            let change = match event {
                ConnectionEvent::Push(push) => Change::read(push),
                ConnectionEvent::Lost => Some(Change::All),
                // A key that does not exist is not announced when its slot goes to another node.
                #[cfg(feature = "cluster")]
                ConnectionEvent::Moved => Some(Change::All),
            };
            if let Some(change) = change {
                waiting.notify(&change);
                seen_by_listener.lock().changed(&change);
                notify.send_replace(());
            }
        };
        let mut track = redis::cmd("CLIENT");
        track.arg("TRACKING").arg("ON");
        let router = Router::open(io, Role { greeting: vec![track], on_event: Some(Arc::new(on_event)), ..role });
        Self { router, seen, notifier, waiters }
    }

    /// Sends `calls`, so that Redis announces the next change of their keys. `None` if the connection for it is refused: by a proxy or a
    /// missing permission, or while the next attempt to make it waits, for a reason that may be over by now.
    ///
    /// # Errors
    ///
    /// Redis cannot be asked now.
    pub(super) async fn send(&self, calls: Vec<Call>) -> Result<Option<Vec<Answer>>, BrokerError> {
        let is_refusal = |error: &BrokerError| {
            matches!(error.kind(), BrokerErrorKind::Denied | BrokerErrorKind::Config | BrokerErrorKind::Unexpected)
        };
        match self.router.send(calls).await {
            Ok(answers) => {
                // Each node of a cluster has a connection of its own. An error that Redis answered refuses the keys of its call alone.
                let is_unconnected = |error: &BrokerError| is_refusal(error) && is_unconnected(error);
                let is_refused = !answers.iter().any(Result::is_ok)
                    && answers.iter().any(|answer| answer.as_ref().is_err_and(is_unconnected));
                Ok((!is_refused).then_some(answers))
            }
            Err(error) if is_refusal(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Asks questions, each again only when its answer may have changed, and is notified when one has.
pub(super) struct TrackedReads<'b> {
    broker: &'b RedisBroker,
    /// The purpose of these reads.
    pub(super) topic: Topic,
    /// The answers that these reads know, with their changes.
    pub(super) seen: SharedSeen,
    /// The number of announcements before the last look at the known answers.
    changes: u64,
    source: Source<'b>,
}

/// The source of announcements.
enum Source<'b> {
    /// A connection that the calling task drives, so that no other thread has to be woken to receive an announcement.
    Own(Taken<'b>),
    Shared(watch::Receiver<()>),
    /// Tracking is refused, by a proxy or a missing permission.
    Poll,
}

/// The outcome of questions.
#[derive(Default)]
pub(super) struct AnswerReport<'q> {
    /// Number of questions that had to be asked.
    pub(super) count: usize,
    /// The answers to those, even where they have changed since.
    pub(super) answers: Vec<(&'q Question, Option<i64>)>,
    /// The questions that Redis answered with an error, whose answers stay unknown.
    pub(super) failed: HashSet<&'q Question>,
    /// The first of these errors.
    pub(super) failure: Option<BrokerError>,
}

impl RedisBroker {
    /// Reads on the connection that all callers share.
    pub(super) fn reads(&self, topic: Topic) -> TrackedReads<'_> {
        let wake = self.wake();
        let source = Source::Shared(wake.notifier.subscribe());
        TrackedReads::new(self, topic, Arc::clone(&wake.seen), source)
    }

    /// Reads on a connection of the caller's own, or on the shared one while there is none.
    pub(super) fn own_reads(&self) -> TrackedReads<'_> {
        let Some(mut own) = self.waiting.as_ref().and_then(DedicatedConnection::take) else {
            return self.reads(Topic::Work);
        };
        // Reads the changes that were announced while no wait listened.
        if !own.catch_up() {
            return self.reads(Topic::Work);
        }
        TrackedReads::new(self, Topic::Work, own.seen(), Source::Own(own))
    }
}

impl<'b> TrackedReads<'b> {
    fn new(broker: &'b RedisBroker, topic: Topic, seen: SharedSeen, source: Source<'b>) -> Self {
        let mut reads = Self { broker, topic, seen, changes: 0, source };
        reads.changes = reads.announced();
        reads
    }

    /// Returns whether each change is announced; otherwise every answer has to be asked for again.
    pub(super) fn is_tracked(&self) -> bool {
        !matches!(self.source, Source::Poll)
    }

    /// Returns whether the connection is the caller's own.
    pub(super) fn is_own(&self) -> bool {
        matches!(self.source, Source::Own(_))
    }

    /// Returns a number that grows with each announcement that matters to these reads.
    fn announced(&self) -> u64 {
        self.seen.lock().changes_of(self.topic)
    }

    /// Returns the answer, if it is known. The inner `None` is an answer without a number, such as the head of an empty
    /// zset.
    pub(super) fn answer(&self, question: &Question) -> Option<Option<i64>> {
        self.seen.lock().answer(question)
    }

    /// Forgets answers that the caller is about to change.
    pub(super) fn forget<'q>(&self, questions: impl IntoIterator<Item = &'q Question>) {
        let mut seen = self.seen.lock();
        questions.into_iter().for_each(|question| seen.forget(question));
    }

    /// Asks those of `questions` whose answers are not known, in one round trip for each [`PER_TRIP`] of them.
    ///
    /// # Errors
    ///
    /// Redis cannot be asked.
    pub(super) async fn ask<'q>(
        &mut self,
        questions: impl IntoIterator<Item = &'q Question> + Clone,
    ) -> Result<AnswerReport<'q>, BrokerError> {
        'anew: loop {
            let unknown = {
                let mut seen = self.seen.lock();
                // The number is read before the trips, so that a change during any of them ends the next wait.
                self.changes = seen.changes_of(self.topic);
                seen.unknown(self.topic, questions.clone(), Instant::now())
            };
            let mut report = AnswerReport { count: unknown.len(), ..AnswerReport::default() };
            report.answers.reserve(unknown.len());
            for part in unknown.chunks(PER_TRIP) {
                let read = self.seen.lock().begin_read(self.topic, part);
                // Without an answer, Redis may be another by now: all questions are asked on another connection.
                let Some(answers) = self.send(part.iter().map(|question| question.call()).collect()).await? else {
                    continue 'anew;
                };
                self.note(read, part, answers, &mut report);
            }
            return Ok(report);
        }
    }

    /// Notes the answers to the questions of one trip, which began as this read.
    fn note<'q>(&self, read: u64, asked: &[&'q Question], answers: Vec<Answer>, report: &mut AnswerReport<'q>) {
        let (mut seen, now, mut evicted) = (self.seen.lock(), Instant::now(), 0);
        for (&question, answer) in asked.iter().zip(answers) {
            match answer {
                Ok(answer) => {
                    let answer = question.read(answer);
                    evicted += usize::from(seen.was_evicted(read, question, answer));
                    seen.answered(read, question, answer, now);
                    report.answers.push((question, answer));
                }
                Err(error) => {
                    seen.forget(question);
                    report.failed.insert(question);
                    report.failure.get_or_insert(error);
                }
            }
        }
        drop(seen);
        self.broker.evictions.note(evicted, now);
    }

    /// Returns the answers to `questions` at this moment, asked once, or twice where some have changed a moment ago;
    /// `None` for a question that Redis answered with an error.
    ///
    /// # Errors
    ///
    /// Redis cannot be asked.
    pub(super) async fn look(&mut self, questions: &[Question]) -> Result<Vec<Option<Option<i64>>>, BrokerError> {
        if questions.is_empty() {
            return Ok(Vec::new());
        }
        let first = self.ask(questions).await?;
        if first.count == 0 {
            self.catch_up().await?;
        }
        let second = self.ask(questions).await?;
        let fresh: HashMap<&Question, Option<i64>> = first.answers.into_iter().chain(second.answers).collect();
        let answer = |question| fresh.get(question).copied().or_else(|| self.answer(question));
        Ok(questions.iter().map(answer).collect())
    }

    /// Sends a `PING`, whose answer comes behind all announcements that Redis has made until now.
    pub(super) async fn catch_up(&mut self) -> Result<(), BrokerError> {
        let ping = Call::plain("PING");
        match self.source {
            // Each node of a cluster announces on a connection of its own.
            Source::Shared(_) => self.broker.wake().router.send_to_each(ping).await.map(drop),
            Source::Own(_) | Source::Poll => self.send(vec![ping]).await.map(drop),
        }
    }

    /// Asks on the connections of other calls from now on, and takes nothing for known.
    pub(super) fn stop_tracking(&mut self) {
        (self.seen, self.source) = (SharedSeen::default(), Source::Poll);
    }

    /// Returns the answers to `calls`; `None` if these have to be sent again, on another connection.
    async fn send(&mut self, calls: Vec<Call>) -> Result<Option<Vec<Answer>>, BrokerError> {
        match &mut self.source {
            Source::Own(own) => match own.exchange(calls).await {
                Sent::Answered(answers) => return Ok(Some(answers)),
                Sent::Not | Sent::Unanswered(_) => *self = self.broker.reads(self.topic),
            },
            Source::Shared(_) => match self.broker.wake().send(calls).await? {
                Some(answers) => return Ok(Some(answers)),
                None => self.stop_tracking(),
            },
            Source::Poll => return self.broker.router.send(calls).await.map(Some),
        }
        Ok(None)
    }

    /// Waits until an answer may have changed, of these or other questions. `false` if `limit` passes before, or the
    /// connection has ended.
    ///
    /// # Errors
    ///
    /// The broker was closed.
    pub(super) async fn changed(&mut self, limit: Duration) -> Result<bool, BrokerError> {
        self.changed_or(false, limit).await
    }

    /// Waits as [`changed`](Self::changed) does, unless a change `is_announced` already. Where Redis evicts many keys, the wait gathers
    /// announcements as long as a poll lasts: each read makes Redis evict others.
    ///
    /// # Errors
    ///
    /// The broker was closed.
    pub(super) async fn changed_or(&mut self, is_announced: bool, limit: Duration) -> Result<bool, BrokerError> {
        let Self { broker, topic, seen, changes, source } = self;
        let begun = Instant::now();
        // Only changes of the topic count, so that each lease does not wake a wait for due tasks.
        let has_changed = || seen.lock().changes_of(*topic) != *changes;
        let changed = async {
            let received = match source {
                // A wait ends also where announcements never do.
                _ if limit.is_zero() => false,
                _ if is_announced => true,
                Source::Own(own) => own.receive(has_changed, limit).await,
                Source::Shared(notifier) => {
                    let notified = async { while !has_changed() && notifier.changed().await.is_ok() {} };
                    timeout(limit, notified).await.is_ok()
                }
                Source::Poll => {
                    sleep(POLL.min(limit)).await;
                    seen.lock().changed(&Change::All);
                    POLL < limit
                }
            };
            if received && broker.evictions.are_many(Instant::now()) {
                sleep(POLL.min(limit.saturating_sub(begun.elapsed()))).await;
                if let Source::Own(own) = source {
                    own.catch_up();
                }
            }
            received
        };
        let received = tokio::select! {
            received = changed => Ok(received),
            closed = broker.router.ended() => Err(closed),
        };
        // The caller looks at the changes only after this, so it misses none.
        self.changes = self.announced();
        received
    }
}
