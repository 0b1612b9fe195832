//! Enqueues: encodes tasks for the group commit and reads what the script says of them.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use chrono::DateTime;
use redis::Value;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    super::{BrokerError, BrokerErrorKind, NewTask, Placed, Produce, Refused, When, due_ms},
    RedisBroker,
    clock::BrokerClock,
    commit::{Commit, PER_SEND, REPEAT_PAUSE, REPEATS},
    connection::Link,
    durability::Durability,
    io::Io,
    reply,
};
use crate::task::{GroupName, QueueName, TaskId, TaskState};

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
}

impl Producer {
    pub(super) fn start(
        io: &Io,
        link: Link,
        clock: Arc<BrokerClock>,
        call_timeout: Duration,
        durability: Durability,
    ) -> Self {
        let (waiting, queue) = mpsc::channel(WAITING);
        let commit = Arc::new(Commit::new(link, clock, durability));
        io.spawn(Arc::clone(&commit).run(queue));
        Self { waiting, commit, patience: patience(call_timeout.saturating_add(durability.patience())) }
    }

    /// Makes the queue known again with the next task, because somebody deletes it.
    pub(super) fn forget(&self, queue: &QueueName) {
        self.commit.forget(queue);
    }

    async fn enqueue(&self, batch: Vec<NewTask>) -> Vec<Outcome> {
        let mut items: VecDeque<Item> = batch.into_iter().map(Item::new).collect();
        let mut outcomes = Vec::with_capacity(items.len());
        while !items.is_empty() {
            let part: Vec<Item> = items.drain(..items.len().min(PER_SEND)).collect();
            let size = part.len();
            match timeout(self.patience, self.enqueue_part(part)).await {
                Ok(Ok(part)) => outcomes.extend(part),
                Ok(Err(error)) => outcomes.extend(vec![Err(Refused::Broker(error)); size]),
                Err(_) => {
                    let late = BrokerError::new(BrokerErrorKind::Timeout, "Redis did not store the task in time");
                    outcomes.extend(vec![Err(Refused::Broker(late)); size]);
                }
            }
        }
        outcomes
    }

    async fn enqueue_part(&self, items: Vec<Item>) -> Result<Vec<Outcome>, BrokerError> {
        let closed = || BrokerError::new(BrokerErrorKind::Closed, "the broker was closed by this program");
        let (answer, answered) = oneshot::channel();
        self.waiting.send(Waiting { items, answer }).await.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())
    }
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
        }
    }
}

/// How long the sends of one call take at most: each may wait for a connection and for an answer.
fn patience(call_timeout: Duration) -> Duration {
    call_timeout.saturating_mul(2).saturating_add(REPEAT_PAUSE).saturating_mul(REPEATS + 2)
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
    let mut parts = reply::array(value)?.into_iter();
    let mut outcomes = Vec::with_capacity(parts.len() / 2);
    while let (Some(code), Some(detail)) = (parts.next(), parts.next()) {
        let code = reply::text(code).unwrap_or_default();
        let placed = |state| {
            let due = reply::number(&detail).and_then(DateTime::from_timestamp_millis);
            due.map(|process_at| Placed { state, process_at }).ok_or_else(|| reply::unexpected("no due time"))
        };
        outcomes.push(match code.as_str() {
            "p" => placed(TaskState::Pending).map_err(Refused::Broker),
            "s" => placed(TaskState::Scheduled).map_err(Refused::Broker),
            "g" => placed(TaskState::Aggregating).map_err(Refused::Broker),
            "c" => Err(Refused::IdConflict),
            "w" => Err(Refused::Broker(foreign_group())),
            "d" => {
                let holder = reply::text(detail).filter(|id| !id.is_empty());
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
        assert_eq!(patience(Duration::from_millis(500)), Duration::from_millis(6_300));
        assert_eq!(patience(Duration::MAX), Duration::MAX);
    }

    #[test]
    fn each_code_of_the_script_is_one_outcome() {
        let text = |text: &str| Value::BulkString(text.into());
        let value =
            ["p", "1700000000123", "s", "1700000000999", "c", "", "d", "other", "d", "", "?", "", "g", "7", "w", ""];
        let outcomes = read_outcomes(Value::Array(value.map(text).to_vec())).unwrap();
        let at = |ms| DateTime::from_timestamp_millis(ms).unwrap();
        assert!(
            matches!(&outcomes[0], Ok(p) if p.state == TaskState::Pending && p.process_at == at(1_700_000_000_123))
        );
        assert!(matches!(&outcomes[1], Ok(p) if p.state == TaskState::Scheduled));
        assert!(matches!(outcomes[2], Err(Refused::IdConflict)));
        assert!(matches!(&outcomes[3], Err(Refused::Duplicate { holder: Some(id) }) if *id == "other"));
        assert!(matches!(outcomes[4], Err(Refused::Duplicate { holder: None })));
        assert!(matches!(&outcomes[5], Err(Refused::Broker(e)) if e.kind() == BrokerErrorKind::Unexpected));
        assert!(matches!(&outcomes[6], Ok(p) if p.state == TaskState::Aggregating && p.process_at == at(7)));
        assert!(matches!(&outcomes[7], Err(Refused::Broker(e)) if e.kind() == BrokerErrorKind::Corrupt));
    }
}
