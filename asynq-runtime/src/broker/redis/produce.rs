//! Enqueues tasks: encodes them for the group commit, and returns their outcomes.

use std::{
    collections::VecDeque,
    iter::Peekable,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout_at},
};

use super::{
    super::{BrokerError, BrokerErrorKind, NewTask, Produce, Refused, far, part, unavailable},
    RedisBroker,
    caller_driven::Purpose,
    commit::{Commit, IN_FLIGHT, REPEAT_PAUSES, Waiting},
    connection::WRITE,
    dedicated::{DedicatedConnection, OFTEN},
    durability::Durability,
    io::Io,
    item::{Item, Outcome},
    queue_names::QueueNames,
    reply::closed,
    role::Role,
    router::Router,
    script::PER_SCRIPT,
    socket::longest,
};

/// Calls that may wait in the queue of the group commit; further callers wait for room in it.
const WAITING: usize = 1024;

#[async_trait::async_trait]
impl Produce for RedisBroker {
    async fn enqueue_each(&self, tasks: &mut (dyn Iterator<Item = NewTask> + Send)) -> Vec<Outcome> {
        self.producer.enqueue(tasks).await
    }
}

/// The enqueue side of one broker.
#[derive(Debug)]
pub(super) struct Producer {
    waiting: mpsc::Sender<Waiting>,
    commit: Arc<Commit>,
    patience: Duration,
    /// `None` in a cluster, and for a durability that waits (see [`Producer::start`]).
    dedicated: Option<DedicatedConnection>,
    /// Calls that have not returned.
    under_way: AtomicUsize,
    /// Whether no further call is sent: the task that sends ends a moment after the broker was closed.
    is_closed: AtomicBool,
}

impl Producer {
    /// Sends through `router`. A lone caller may send on a dedicated connection, unless `durability` needs a wait
    /// behind each write.
    pub(super) fn start(io: &Io, router: Router, role: Role, durability: Durability) -> Self {
        let (waiting, queue) = mpsc::channel(WAITING);
        let call_timeout = role.timeout.saturating_add(durability.patience());
        let patience = patience(call_timeout);
        let is_plain = durability == Durability::Async;
        let dedicated = is_plain.then(|| DedicatedConnection::beside(&router, &role, Purpose::Calls, OFTEN)).flatten();
        let commit = Arc::new(Commit::new(router.clone(), role.clock, durability, call_timeout));
        io.tasks.spawn(Arc::clone(&commit).run(queue));
        io.tasks.spawn(Arc::clone(&commit.names).write_missing(router));
        Self { waiting, commit, patience, dedicated, under_way: AtomicUsize::new(0), is_closed: AtomicBool::new(false) }
    }

    /// Closes the dedicated connection, opens no other, and sends nothing any more.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        if let Some(dedicated) = &self.dedicated {
            dedicated.close();
        }
    }

    /// Returns the names of the queues.
    pub(super) fn names(&self) -> &QueueNames {
        &self.commit.names
    }

    async fn enqueue(&self, tasks: &mut (dyn Iterator<Item = NewTask> + Send)) -> Vec<Outcome> {
        let call = UnderWay::begin(&self.under_way);
        let mut tasks = tasks.map(Item::new).peekable();
        let first = part(&mut tasks, Item::bytes);
        if first.is_empty() {
            return Vec::new();
        }
        if tasks.peek().is_some() {
            return self.enqueue_in_parts(first, tasks).await;
        }
        if call.is_alone
            && first.len() <= PER_SCRIPT.0
            && bytes(&first) <= WRITE
            && let Some(dedicated) = &self.dedicated
            && let Some(own) = dedicated.take()
        {
            return match self.commit.send_alone(own, first).await {
                Ok(outcomes) => outcomes,
                Err(items) => self.send(items).await.answered().await,
            };
        }
        self.send(first).await.answered().await
    }

    /// Sends part by part: Redis stores one part while the next is prepared and encoded.
    async fn enqueue_in_parts(&self, first: Vec<Item>, mut rest: Peekable<impl Iterator<Item = Item>>) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        let mut under_way: VecDeque<Part> = VecDeque::with_capacity(IN_FLIGHT);
        let mut items = first;
        while !items.is_empty() {
            // The next part would overtake a part of several writes. Behind a durable part, it would wait while its
            // time-out runs.
            let alone = self.commit.is_durable() || bytes(&items) > WRITE / 2;
            let most = if alone { 0 } else { IN_FLIGHT - 1 };
            answers(&mut under_way, most, &mut outcomes).await;
            under_way.push_back(self.send(items).await);
            answers(&mut under_way, most, &mut outcomes).await;
            items = part(&mut rest, Item::bytes);
        }
        answers(&mut under_way, 0, &mut outcomes).await;
        outcomes
    }

    async fn send(&self, items: Vec<Item>) -> Part {
        let (answer, answered) = oneshot::channel();
        let size = items.len();
        let end = far(Instant::now(), self.patience);
        if self.is_closed.load(Ordering::Acquire) {
            return Part { size, answered: Err(closed()), end };
        }
        let sent = self.waiting.send(Waiting { items, answer });
        let answered = match timeout_at(end, sent).await {
            Ok(sent) => sent.map(|()| answered).map_err(|_| closed()),
            Err(_) => Err(queued()),
        };
        Part { size, answered, end }
    }
}

/// Counts a call until it returns or is dropped.
struct UnderWay<'p> {
    calls: &'p AtomicUsize,
    /// Whether no other call was under way when this one began.
    is_alone: bool,
}

impl<'p> UnderWay<'p> {
    fn begin(calls: &'p AtomicUsize) -> Self {
        Self { calls, is_alone: calls.fetch_add(1, Ordering::Relaxed) == 0 }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tasks that were sent together.
struct Part {
    size: usize,
    answered: Result<oneshot::Receiver<Vec<Outcome>>, BrokerError>,
    /// Until when to wait.
    end: Instant,
}

/// Waits for answers until `most` parts are under way.
async fn answers(under_way: &mut VecDeque<Part>, most: usize, outcomes: &mut Vec<Outcome>) {
    while under_way.len() > most
        && let Some(part) = under_way.pop_front()
    {
        outcomes.extend(part.answered().await);
    }
}

impl Part {
    async fn answered(self) -> Vec<Outcome> {
        let answered = match self.answered {
            Ok(answered) => match timeout_at(self.end, answered).await {
                Ok(answered) => answered.map_err(|_| closed_unanswered()),
                Err(_) => Err(late()),
            },
            Err(error) => Err(error),
        };
        answered.unwrap_or_else(|error| vec![Err(Refused::Broker(error)); self.size])
    }
}

fn bytes(items: &[Item]) -> usize {
    items.iter().map(Item::bytes).sum()
}

fn late() -> BrokerError {
    BrokerError::new(BrokerErrorKind::Timeout, "Redis did not answer in time whether it stored the task")
}

/// Returns the error of a call that found no room among those that wait to be sent.
fn queued() -> BrokerError {
    let text = "Redis did not answer the enqueues before this one in time, so its tasks were not sent";
    BrokerError::new(BrokerErrorKind::Timeout, text).without_effect()
}

/// Returns the error of a call that waited for its outcome when the broker was closed: it may have been sent.
fn closed_unanswered() -> BrokerError {
    let text = "the broker was closed by this program before Redis answered whether it stored the task";
    unavailable(text)
}

/// Returns the longest time that the sends of one call take: those before it and its own, which are as long as one write. Each is
/// repeated until its time is up, the last time after one more pause, and then waits once more for an answer that comes byte by byte.
fn patience(call_timeout: Duration) -> Duration {
    let repeats = call_timeout.saturating_mul(4).saturating_add(REPEAT_PAUSES.1.saturating_mul(2));
    longest(call_timeout).saturating_mul(2).saturating_add(repeats)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_out_is_too_long_to_wait_for() {
        assert_eq!(patience(Duration::from_millis(500)), Duration::from_millis(22_500));
        assert_eq!(patience(Duration::MAX), Duration::MAX);
    }
}
