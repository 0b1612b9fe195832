//! Enqueues: encodes tasks for the group commit and reads what the script says of them.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use chrono::DateTime;
use redis::Value;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout_at},
};

use super::{
    super::{BrokerError, BrokerErrorKind, NewTask, Placed, Produce, Refused, Replaces, When, due_ms},
    RedisBroker,
    caller_driven::Purpose,
    commit::{Commit, IN_FLIGHT, PER_SEND, REPEAT_PAUSE, REPEATS},
    connection::WRITE,
    dedicated::DedicatedConnection,
    durability::Durability,
    io::Io,
    reply,
    reply::closed,
    role::Role,
    router::Router,
    script::PER_SCRIPT,
    socket::longest,
};
use crate::task::{GroupName, QueueName, TaskId, TaskState};

/// So many lone calls in a row make a connection of the caller's worth while.
const OFTEN: u32 = 8;
/// Calls that may wait for their turn before further callers wait outside.
const WAITING: usize = 1024;

pub(super) type Outcome = Result<Placed, Refused>;

#[async_trait::async_trait]
impl Produce for RedisBroker {
    async fn enqueue(&self, batch: Vec<NewTask>) -> Vec<Outcome> {
        self.producer.enqueue(batch).await
    }
}

/// The way in of one broker.
#[derive(Debug)]
pub(super) struct Producer {
    waiting: mpsc::Sender<Waiting>,
    commit: Arc<Commit>,
    patience: Duration,
    /// None where it cannot be: see [`Producer::start`].
    direct: Option<DedicatedConnection>,
    /// Calls that have not returned.
    under_way: AtomicUsize,
}

/// One call of `enqueue`, or a part of one that was too long for one send.
pub(super) struct Waiting {
    pub(super) items: Vec<Item>,
    pub(super) answer: oneshot::Sender<Vec<Outcome>>,
}

/// A task ready to be sent.
pub(super) struct Item {
    pub(super) queue: QueueName,
    pub(super) id: TaskId,
    pub(super) message: Vec<u8>,
    /// As the script reads it.
    pub(super) when: String,
    /// Key and seconds.
    pub(super) lock: Option<(String, u64)>,
    pub(super) extra: Vec<u8>,
    /// Whether the id is of our making.
    pub(super) ours: bool,
    pub(super) group: Option<GroupName>,
    /// Whether it replaces an equal one, and within how many milliseconds ('' no bound).
    pub(super) replaces: Option<String>,
}

impl Producer {
    /// Sends through `router`. A caller who is alone may send on a connection of its own, where nothing is to be waited for
    /// behind each write.
    pub(super) fn start(io: &Io, router: Router, role: Role, durability: Durability) -> Self {
        let (waiting, queue) = mpsc::channel(WAITING);
        let call_timeout = role.timeout.saturating_add(durability.patience());
        let patience = patience(call_timeout);
        let is_plain = durability == Durability::Async;
        let direct = is_plain.then(|| DedicatedConnection::beside(&router, &role, Purpose::Calls, OFTEN)).flatten();
        let commit = Arc::new(Commit::new(router, role.clock, durability, call_timeout));
        io.spawn(Arc::clone(&commit).run(queue));
        Self { waiting, commit, patience, direct, under_way: AtomicUsize::new(0) }
    }

    /// Opens no connection any more.
    pub(super) fn close(&self) {
        if let Some(direct) = &self.direct {
            direct.close();
        }
    }

    /// Makes the queue known again with the next task, because somebody deletes it.
    pub(super) fn forget(&self, queue: &QueueName) {
        self.commit.forget(queue);
    }

    async fn enqueue(&self, batch: Vec<NewTask>) -> Vec<Outcome> {
        let call = UnderWay::begin(&self.under_way);
        if call.is_alone
            && batch.len() <= PER_SCRIPT.0
            && let Some(direct) = &self.direct
            && let Some(own) = direct.take()
        {
            return match self.commit.send_alone(own, items(batch)).await {
                Ok(outcomes) => outcomes,
                Err(items) => self.send(items).await.answered().await,
            };
        }
        if batch.len() <= PER_SEND {
            return self.send(items(batch)).await.answered().await;
        }
        self.enqueue_in_parts(batch).await
    }

    /// Encodes and sends part by part: Redis stores one while the next is made ready.
    async fn enqueue_in_parts(&self, batch: Vec<NewTask>) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(batch.len());
        let mut under_way: VecDeque<Part> = VecDeque::with_capacity(IN_FLIGHT);
        let mut tasks = batch.into_iter();
        loop {
            let items: Vec<Item> = tasks.by_ref().take(PER_SEND).map(Item::new).collect();
            if items.is_empty() {
                break;
            }
            // The next part would overtake one of several writes, and its time would run while it waits for a durable one.
            let alone = self.commit.is_durable() || items.iter().map(Item::bytes).sum::<usize>() > WRITE / 2;
            let most = if alone { 0 } else { IN_FLIGHT - 1 };
            answers(&mut under_way, most, &mut outcomes).await;
            under_way.push_back(self.send(items).await);
            answers(&mut under_way, most, &mut outcomes).await;
        }
        answers(&mut under_way, 0, &mut outcomes).await;
        outcomes
    }

    async fn send(&self, items: Vec<Item>) -> Part {
        let (answer, answered) = oneshot::channel();
        let size = items.len();
        let end = Instant::now().checked_add(self.patience);
        let sent = self.waiting.send(Waiting { items, answer });
        let answered = match within(end, sent).await {
            Some(sent) => sent.map(|()| answered).map_err(|_| closed()),
            None => Err(late()),
        };
        Part { size, answered, end }
    }
}

/// Counts a call until it returns or is dropped.
struct UnderWay<'p> {
    calls: &'p AtomicUsize,
    /// Whether no other was under way when it began.
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
    /// Until when to wait; `None` = for ever.
    end: Option<Instant>,
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
            Ok(answered) => match within(self.end, answered).await {
                Some(answered) => answered.map_err(|_| closed()),
                None => Err(late()),
            },
            Err(error) => Err(error),
        };
        answered.unwrap_or_else(|error| vec![Err(Refused::Broker(error)); self.size])
    }
}

fn items(tasks: Vec<NewTask>) -> Vec<Item> {
    tasks.into_iter().map(Item::new).collect()
}

/// What `future` returns, if it does in time.
async fn within<T>(end: Option<Instant>, future: impl Future<Output = T>) -> Option<T> {
    match end {
        Some(end) => timeout_at(end, future).await.ok(),
        None => Some(future.await),
    }
}

fn late() -> BrokerError {
    BrokerError::new(BrokerErrorKind::Timeout, "Redis did not store the task in time")
}

impl Item {
    pub(super) fn new(task: NewTask) -> Self {
        Self {
            message: task.message.encode(),
            when: when(task.when),
            lock: task.unique.map(|lock| (lock.key, whole_seconds(lock.ttl).max(1))),
            extra: task.extra.to_bytes().unwrap_or_default(),
            queue: task.queue,
            id: task.id,
            ours: task.id_is_ours,
            group: task.group,
            replaces: task
                .replaces
                .map(|Replaces { within }| within.map(milliseconds).map_or(String::new(), |ms| ms.to_string())),
        }
    }
}

impl Item {
    /// Roughly what it costs to send.
    pub(super) fn bytes(&self) -> usize {
        self.message.len() + self.extra.len()
    }

    /// Whether id and message say everything.
    pub(super) fn is_plain(&self) -> bool {
        self.ours && self.when.is_empty() && self.lock.is_none() && self.extra.is_empty() && self.group.is_none()
    }
}

/// How long the sends of one call take at most: those before it and its own, each until it is not repeated any more and once
/// beyond that, byte by byte.
fn patience(call_timeout: Duration) -> Duration {
    let repeats = call_timeout.saturating_mul(4).saturating_add(REPEAT_PAUSE.saturating_mul(REPEATS));
    longest(call_timeout).saturating_mul(2).saturating_add(repeats)
}

/// The instant or delay in milliseconds as the script reads it.
fn when(when: When) -> String {
    match when {
        When::Now => String::new(),
        When::In(delay) => format!("+{}", milliseconds(delay)),
        When::At(at) => format!("@{}", due_ms(at)),
    }
}

/// Rounded up, so that nothing is early; beyond what a Lua number holds exactly it stays there.
pub(super) fn milliseconds(span: Duration) -> u64 {
    const MOST: u128 = 1 << 52;
    u64::try_from(span.as_nanos().div_ceil(1_000_000).min(MOST)).unwrap_or(u64::MAX)
}

/// Rounded up.
pub(super) fn whole_seconds(span: Duration) -> u64 {
    milliseconds(span).div_ceil(1000)
}

/// Why a task cannot join its group.
fn foreign_group() -> BrokerError {
    BrokerError::new(
        BrokerErrorKind::Corrupt,
        "the key of its group, or of the queue's groups, holds something else than asynq writes there (see TYPE of it)",
    )
}

/// What the script says of each item.
pub(super) fn read_outcomes(value: Value) -> Result<Vec<Outcome>, BrokerError> {
    let mut parts = match value {
        // What is said of one task that is plain: its letter and now in one text.
        Value::BulkString(mut text) if !text.is_empty() => {
            let now = text.split_off(1);
            vec![Value::BulkString(text), Value::BulkString(now)]
        }
        value => reply::array(value)?,
    }
    .into_iter();
    let letters = parts.next().and_then(reply::bytes).unwrap_or_default();
    let now = parts.next().unwrap_or_default();
    let due = |ms: &Value| reply::number(ms).and_then(DateTime::from_timestamp_millis);
    let placed = |state, process_at: Option<DateTime<_>>| {
        let placed = process_at.map(|process_at| Placed { state, process_at, replaced: None });
        placed.ok_or_else(|| Refused::Broker(reply::unexpected("no due time")))
    };
    let now = due(&now);
    let mut outcomes = Vec::with_capacity(letters.len());
    for letter in letters {
        outcomes.push(match letter {
            b'p' => placed(TaskState::Pending, now),
            b'g' => placed(TaskState::Aggregating, now),
            b's' => placed(TaskState::Scheduled, parts.next().as_ref().and_then(due)),
            b'r' => {
                let id = parts.next().and_then(reply::text).map(|id| TaskId::from_wire(&id));
                let is_scheduled = parts.next().and_then(reply::text).as_deref() == Some("s");
                let state = if is_scheduled { TaskState::Scheduled } else { TaskState::Pending };
                placed(state, parts.next().as_ref().and_then(due)).map(|placed| Placed { replaced: id, ..placed })
            }
            b'c' => Err(Refused::IdConflict),
            b'w' => Err(Refused::Broker(foreign_group())),
            b'd' => {
                let holder = parts.next().and_then(reply::text).filter(|id| !id.is_empty());
                Err(Refused::Duplicate { holder: holder.map(|id| TaskId::from_wire(&id)) })
            }
            _ => Err(Refused::Broker(reply::unexpected("an unknown outcome"))),
        });
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_rounded_up_to_the_millisecond_and_never_overflow_a_lua_number() {
        let cases = [
            (Duration::ZERO, 0, 0),
            (Duration::from_nanos(1), 1, 1),
            (Duration::from_millis(1500), 1500, 2),
            (Duration::from_secs(60), 60_000, 60),
            (Duration::MAX, 1 << 52, (1_u64 << 52).div_ceil(1000)),
        ];
        for (span, ms, s) in cases {
            assert_eq!((milliseconds(span), whole_seconds(span)), (ms, s), "{span:?}");
        }
        assert_eq!(when(When::Now), "");
        assert_eq!(when(When::In(Duration::from_millis(7))), "+7");
        let at = DateTime::from_timestamp_millis(1_700_000_000_123).unwrap();
        assert_eq!(when(When::At(at)), "@1700000000123");
        let later = at + chrono::TimeDelta::nanoseconds(1);
        assert_eq!(when(When::At(later)), "@1700000000124", "never early");
    }

    #[test]
    fn no_time_out_is_too_long_to_wait_for() {
        assert_eq!(patience(Duration::from_millis(500)), Duration::from_millis(22_200));
        assert_eq!(patience(Duration::MAX), Duration::MAX);
    }

    #[test]
    fn each_code_of_the_script_is_one_outcome() {
        let text = |text: &str| Value::BulkString(text.into());
        let value = ["pscdd?gwr", "1700000000123", "1700000000999", "other", "", "old", "s", "1700000000777"]
            .map(text)
            .to_vec();
        let outcomes = read_outcomes(Value::Array(value)).unwrap();
        let at = |ms| DateTime::from_timestamp_millis(ms).unwrap();
        assert!(
            matches!(&outcomes[0], Ok(p) if p.state == TaskState::Pending && p.process_at == at(1_700_000_000_123))
        );
        assert!(matches!(&outcomes[1], Ok(p) if p.state == TaskState::Scheduled));
        assert!(matches!(outcomes[2], Err(Refused::IdConflict)));
        assert!(matches!(&outcomes[3], Err(Refused::Duplicate { holder: Some(id) }) if *id == "other"));
        assert!(matches!(outcomes[4], Err(Refused::Duplicate { holder: None })));
        assert!(matches!(&outcomes[5], Err(Refused::Broker(e)) if e.kind() == BrokerErrorKind::Unexpected));
        assert!(
            matches!(&outcomes[6], Ok(p) if p.state == TaskState::Aggregating && p.process_at == at(1_700_000_000_123))
        );
        assert!(matches!(&outcomes[7], Err(Refused::Broker(e)) if e.kind() == BrokerErrorKind::Corrupt));
        let replaced = Some(TaskId::from_wire("old"));
        let expected = Placed { state: TaskState::Scheduled, process_at: at(1_700_000_000_777), replaced };
        assert!(matches!(&outcomes[8], Ok(placed) if *placed == expected));

        let one = |said: &str| read_outcomes(text(said)).unwrap().remove(0);
        assert!(
            matches!(one("p1700000000123"), Ok(p) if p.state == TaskState::Pending && p.process_at == at(1_700_000_000_123))
        );
        assert!(matches!(one("c1700000000123"), Err(Refused::IdConflict)));
        for strange in ["", "OK", "p"] {
            let read = read_outcomes(text(strange));
            assert!(read.is_err() || matches!(read.unwrap()[..], [Err(Refused::Broker(_))]), "{strange}");
        }
    }
}
