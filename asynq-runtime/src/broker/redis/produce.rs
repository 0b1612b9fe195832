//! Enqueues in groups: what queued up while a send was in flight goes out together in the next one.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use chrono::DateTime;
use redis::Value;
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    super::{BrokerError, BrokerErrorKind, NewTask, Placed, Produce, Refused, When},
    RedisBroker,
    clock::BrokerClock,
    connection::Link,
    io::Io,
    keys::{Keys, QUEUES},
    reply,
    script::{Call, ENQUEUE},
};
use crate::task::{QueueName, TaskId, TaskState};

/// Most tasks per script, per send, and sends in flight (PERFORMANCE conclusions 5 and 6).
const PER_SCRIPT: usize = 64;
const PER_SEND: usize = 512;
const IN_FLIGHT: usize = 2;
/// Calls that may wait for their turn before further callers wait outside.
const WAITING: usize = 1024;
/// How often an unanswered send is repeated, and the pauses between.
const REPEATS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(50);
/// How long a queue counts as known to Go's tools; not for ever, because they can forget it (PROTOCOL W6).
const KNOWN_FOR: Duration = Duration::from_secs(60);

type Outcome = Result<Placed, Refused>;

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
    patience: Duration,
}

/// One call of `enqueue`, or a part of one that was too long for one send.
struct Waiting {
    items: Vec<Item>,
    answer: oneshot::Sender<Vec<Outcome>>,
}

/// A task ready to be sent.
struct Item {
    queue: QueueName,
    id: TaskId,
    message: Vec<u8>,
    when: String,
    lock: Option<(String, u64)>,
    extra: Vec<u8>,
    ours: bool,
}

impl Producer {
    pub(super) fn start(io: &Io, link: Link, clock: Arc<BrokerClock>, call_timeout: Duration) -> Self {
        let (waiting, queue) = mpsc::channel(WAITING);
        let client = uuid::Uuid::new_v4().simple().to_string();
        io.spawn(Sender { link, clock, client, known: Mutex::default() }.run(queue));
        // Each repeat may wait for a connection and for an answer.
        Self { waiting, patience: (call_timeout * 2 + PAUSE) * (REPEATS + 2) }
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
    fn new(task: NewTask) -> Self {
        Self {
            message: task.message.encode(),
            when: when(task.when),
            lock: task.unique.map(|lock| (lock.key, whole_seconds(lock.ttl).max(1))),
            extra: task.extra.to_bytes().unwrap_or_default(),
            queue: task.queue,
            id: task.id,
            ours: task.id_is_ours,
        }
    }
}

/// The instant or delay in milliseconds as the script reads it.
fn when(when: When) -> String {
    match when {
        When::Now => String::new(),
        When::In(delay) => format!("+{}", milliseconds(delay)),
        When::At(at) => format!("@{}", at.timestamp_millis()),
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

/// Sends what is waiting; lives on the broker's own thread.
struct Sender {
    link: Link,
    clock: Arc<BrokerClock>,
    client: String,
    /// When each queue was last made known, and on which connection.
    known: Mutex<HashMap<QueueName, (u64, Instant)>>,
}

impl Sender {
    async fn run(self, mut queue: mpsc::Receiver<Waiting>) {
        let sender = Arc::new(self);
        let turns = Arc::new(Semaphore::new(IN_FLIGHT));
        let free_slots = Arc::new(Mutex::new((0..IN_FLIGHT).collect::<Vec<_>>()));
        let mut sends = JoinSet::new();
        let mut number = 0_u64;
        // The turn first, the batch after it: what comes in meanwhile travels together.
        while let Ok(turn) = Arc::clone(&turns).acquire_owned().await {
            while sends.try_join_next().is_some() {}
            let Some(first) = queue.recv().await else { return };
            let mut size = first.items.len();
            let mut batch = vec![first];
            while size < PER_SEND
                && let Ok(more) = queue.try_recv()
            {
                size += more.items.len();
                batch.push(more);
            }
            number += 1;
            let slot = free_slots.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
            let (sender, free_slots) = (Arc::clone(&sender), Arc::clone(&free_slots));
            sends.spawn(async move {
                sender.send(batch, slot, number).await;
                free_slots.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
                drop(turn);
            });
        }
    }

    async fn send(&self, batch: Vec<Waiting>, slot: usize, number: u64) {
        let mut places: HashMap<QueueName, Vec<(usize, usize)>> = HashMap::new();
        for (call, waiting) in batch.iter().enumerate() {
            for (i, item) in waiting.items.iter().enumerate() {
                places.entry(item.queue.clone()).or_default().push((call, i));
            }
        }
        let mut chunks: Vec<Chunk<'_>> = Vec::new();
        for (queue, places) in &places {
            chunks.extend(places.chunks(PER_SCRIPT).map(|places| Chunk { queue, places, answer: None }));
        }
        self.deliver(&batch, &mut chunks, slot, number).await;

        let mut outcomes: Vec<Vec<Option<Outcome>>> =
            batch.iter().map(|waiting| waiting.items.iter().map(|_| None).collect()).collect();
        for chunk in chunks {
            let places = chunk.places;
            for (&(call, i), answer) in places.iter().zip(chunk.outcomes()) {
                outcomes[call][i] = Some(answer);
            }
        }
        for (waiting, outcomes) in batch.into_iter().zip(outcomes) {
            let missing = || Err(Refused::Broker(reply::unexpected("an answer is missing")));
            // A caller who does not wait any more wants no answer.
            let _ = waiting.answer.send(outcomes.into_iter().map(|o| o.unwrap_or_else(missing)).collect());
        }
    }

    /// Sends every chunk until it is answered or patience ends. A repeat says so, and the script knows its first send by
    /// the receipt, so that a task is never stored twice even if the first one has run and is gone.
    async fn deliver(&self, batch: &[Waiting], chunks: &mut [Chunk<'_>], slot: usize, number: u64) {
        for attempt in 0..=REPEATS {
            let generation = self.link.generation();
            let open: Vec<usize> = (0..chunks.len()).filter(|&i| chunks[i].is_open()).collect();
            if open.is_empty() {
                return;
            }
            if attempt > 0 {
                sleep(PAUSE).await;
            }
            let unknown = self.unknown_queues(open.iter().map(|&i| chunks[i].queue), generation);
            let mut calls = Vec::with_capacity(open.len() + 1);
            if !unknown.is_empty() {
                let mut call = Call::plain("SADD").arg(QUEUES);
                unknown.iter().for_each(|queue| call.push(queue.as_str()));
                calls.push(call);
            }
            for &i in &open {
                let receipt = format!("{}:{slot}:{i}", self.client);
                calls.push(chunks[i].call(batch, &self.clock.argument(), &receipt, number, attempt > 0));
            }
            match self.link.send(&calls).await {
                Ok(mut answers) => {
                    let scripts = answers.split_off(calls.len() - open.len());
                    if answers.first().is_some_and(Result::is_ok) {
                        self.remember(unknown, generation);
                    }
                    open.iter().zip(scripts).for_each(|(&i, answer)| chunks[i].answer = Some(answer));
                }
                Err(error) => open.iter().for_each(|&i| chunks[i].answer = Some(Err(error.clone()))),
            }
        }
    }

    fn unknown_queues<'q>(&self, queues: impl Iterator<Item = &'q QueueName>, generation: u64) -> Vec<QueueName> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = |queue: &QueueName| {
            known.get(queue).is_some_and(|(on, since)| *on == generation && since.elapsed() < KNOWN_FOR)
        };
        let mut unknown: Vec<QueueName> = queues.filter(|queue| !is_known(queue)).cloned().collect();
        unknown.dedup();
        unknown
    }

    fn remember(&self, queues: Vec<QueueName>, generation: u64) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(queues.into_iter().map(|queue| (queue, (generation, Instant::now()))));
    }
}

/// What one script call carries: tasks of one queue, named by call and place in it.
struct Chunk<'b> {
    queue: &'b QueueName,
    places: &'b [(usize, usize)],
    answer: Option<Result<Value, BrokerError>>,
}

impl Chunk<'_> {
    /// Not sent yet, or sent without learning what became of it.
    fn is_open(&self) -> bool {
        match &self.answer {
            None => true,
            Some(answer) => answer.as_ref().is_err_and(BrokerError::is_unavailable),
        }
    }

    fn call(&self, batch: &[Waiting], now: &str, receipt: &str, number: u64, again: bool) -> Call {
        let keys = Keys::new(self.queue);
        let items = || self.places.iter().map(|&(call, i)| &batch[call].items[i]);
        let mut names = vec![keys.pending(), keys.scheduled(), keys.due(), keys.sent(receipt)];
        names.extend(items().map(|item| keys.task(item.id.as_str())));
        let mut next_lock = names.len();
        names.extend(items().filter_map(|item| item.lock.as_ref().map(|(key, _)| key.clone())));
        let mut call = ENQUEUE.on(&names).arg(now).arg(self.places.len()).arg(number).arg(i32::from(again));
        for item in items() {
            call.push(item.id.as_str());
            call.push(&item.message);
            call.push(&item.when);
            match &item.lock {
                Some((_, seconds)) => {
                    next_lock += 1;
                    call.push(next_lock);
                    call.push(*seconds);
                }
                None => {
                    call.push(0);
                    call.push(0);
                }
            }
            call.push(&item.extra);
            call.push(i32::from(item.ours));
        }
        call
    }

    fn outcomes(self) -> Vec<Outcome> {
        let size = self.places.len();
        let all = |error: BrokerError| vec![Err(Refused::Broker(error)); size];
        match self.answer {
            Some(Ok(value)) => match read_outcomes(value) {
                Ok(outcomes) if outcomes.len() == size => outcomes,
                Ok(_) => all(reply::unexpected("not one answer per task")),
                Err(error) => all(error),
            },
            Some(Err(error)) => all(error),
            None => all(reply::unexpected("no answer")),
        }
    }
}

fn read_outcomes(value: Value) -> Result<Vec<Outcome>, BrokerError> {
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
            "c" => Err(Refused::IdConflict),
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
    }

    #[test]
    fn each_code_of_the_script_is_one_outcome() {
        let text = |text: &str| Value::BulkString(text.into());
        let value = ["p", "1700000000123", "s", "1700000000999", "c", "", "d", "other", "d", "", "?", ""];
        let outcomes = read_outcomes(Value::Array(value.map(text).to_vec())).unwrap();
        let at = |ms| DateTime::from_timestamp_millis(ms).unwrap();
        assert!(
            matches!(&outcomes[0], Ok(p) if p.state == TaskState::Pending && p.process_at == at(1_700_000_000_123))
        );
        assert!(matches!(&outcomes[1], Ok(p) if p.state == TaskState::Scheduled));
        assert!(matches!(outcomes[2], Err(Refused::IdConflict)));
        assert!(matches!(&outcomes[3], Err(Refused::Duplicate { holder: Some(id) }) if *id == "other"));
        assert!(matches!(outcomes[4], Err(Refused::Duplicate { holder: None })));
        assert!(matches!(outcomes[5], Err(Refused::Broker(_))));
    }
}
