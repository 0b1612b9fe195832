//! Group commit of enqueues: what queued up while a send was in flight goes out together in the next one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use redis::Value;
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::sleep,
};

use super::{
    super::{BrokerError, Refused},
    clock::BrokerClock,
    connection::Link,
    durability::Durability,
    keys::{Keys, QUEUES},
    produce::{Outcome, Waiting, read_outcomes},
    reply,
    script::{Call, ENQUEUE, portions},
};
use crate::task::{GroupName, QueueName};

/// Most tasks per send, and sends in flight (PERFORMANCE conclusion 6).
pub(super) const PER_SEND: usize = 256;
pub(super) const IN_FLIGHT: usize = 2;
/// How often an unanswered send is repeated, and the pauses between.
pub(super) const REPEATS: u32 = 4;
pub(super) const REPEAT_PAUSE: Duration = Duration::from_millis(50);
/// How long a queue counts as known to Go's tools; not for ever, because they can forget it (PROTOCOL W6).
const KNOWN_FOR: Duration = Duration::from_secs(60);

/// Sends what is waiting; lives on the broker's own thread.
#[derive(Debug)]
pub(super) struct Commit {
    link: Link,
    clock: Arc<BrokerClock>,
    durability: Durability,
    client: String,
    /// When each queue was last made known, and on which connection.
    known: Mutex<HashMap<QueueName, (u64, Instant)>>,
}

impl Commit {
    pub(super) fn new(link: Link, clock: Arc<BrokerClock>, durability: Durability) -> Self {
        Self { link, clock, durability, client: uuid::Uuid::new_v4().simple().to_string(), known: Mutex::default() }
    }

    /// Whether whoever enqueues waits for a disk or for replicas.
    pub(super) fn is_durable(&self) -> bool {
        self.durability != Durability::Async
    }

    /// Makes the queue known again with the next task, because somebody deletes it.
    pub(super) fn forget(&self, queue: &QueueName) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(queue);
    }

    pub(super) async fn run(self: Arc<Self>, mut queue: mpsc::Receiver<Waiting>) {
        let commit = self;
        // A send that waits for replicas keeps the next one on its connection waiting, whose time-out runs all the same.
        let in_flight = if commit.is_durable() { 1 } else { IN_FLIGHT };
        let turns = Arc::new(Semaphore::new(in_flight));
        let free_slots = Arc::new(Mutex::new((0..in_flight).collect::<Vec<_>>()));
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
            let (commit, free_slots) = (Arc::clone(&commit), Arc::clone(&free_slots));
            sends.spawn(async move {
                commit.send(batch, slot, number).await;
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
            let size = |&(call, i): &(usize, usize)| batch[call].items[i].message.len();
            let portions = portions(places, size).into_iter();
            chunks.extend(portions.map(|places| Chunk { queue, places, answer: None, doubt: None }));
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
                sleep(REPEAT_PAUSE).await;
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
            let others = calls.len() - open.len();
            match self.link.send_safely(calls, self.durability).await {
                Ok(mut answers) => {
                    let scripts = answers.split_off(others);
                    if answers.first().is_some_and(|(answer, _)| answer.is_ok()) {
                        self.remember(unknown, generation);
                    }
                    for (&i, (answer, doubt)) in open.iter().zip(scripts) {
                        (chunks[i].answer, chunks[i].doubt) = (Some(answer), doubt);
                    }
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
    /// Why what was stored is not as safe as it should be.
    doubt: Option<BrokerError>,
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
        let mut names = vec![keys.pending(), keys.scheduled(), keys.due(), keys.sent(receipt), keys.groups()];
        names.extend(items().map(|item| keys.task(item.id.as_str())));
        let mut next_lock = names.len();
        names.extend(items().filter_map(|item| item.lock.as_ref().map(|(key, _)| key.clone())));
        names.extend(items().filter_map(|item| item.group.as_ref().map(|group| keys.group(group))));
        let mut call = ENQUEUE
            .on(&names)
            .arg(now)
            .arg(self.places.len())
            .arg(number)
            .arg(i32::from(again))
            .arg(keys.group_prefix());
        for item in items() {
            call.push(item.id.as_str());
            call.push(&item.message);
            if item.is_plain() {
                call.push("");
                continue;
            }
            call.push(1);
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
            call.push(item.group.as_ref().map_or("", GroupName::as_str));
        }
        call
    }

    fn outcomes(mut self) -> Vec<Outcome> {
        let doubt = self.doubt.take();
        let outcomes = self.stored();
        match doubt {
            None => outcomes,
            // A task that was refused is refused.
            Some(doubt) => {
                let doubted = |outcome: Outcome| outcome.and_then(|_| Err(Refused::Broker(doubt.clone())));
                outcomes.into_iter().map(doubted).collect()
            }
        }
    }

    fn stored(self) -> Vec<Outcome> {
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
