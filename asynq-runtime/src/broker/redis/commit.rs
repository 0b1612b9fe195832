//! Group commit of enqueues: calls that arrive while a send is in flight go out together in the next one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    task::JoinSet,
    time::sleep,
};

use super::{
    super::{BrokerError, BrokerErrorKind, Refused},
    chunk::{Chunk, Receipt, ordered},
    clock::BrokerClock,
    dedicated::{Sent, Taken},
    durability::Durability,
    identity::Identity,
    item::{Item, Outcome},
    keys::QUEUES,
    reply,
    router::{Answer, Router},
    script::Call,
};
use crate::task::QueueName;

/// Most tasks per send, and sends in flight.
pub(super) const PER_SEND: usize = 256;
pub(super) const IN_FLIGHT: usize = 2;
/// How often an unanswered send is repeated, and the pauses between.
pub(super) const REPEATS: u32 = 4;
pub(super) const REPEAT_PAUSE: Duration = Duration::from_millis(50);
/// The shortest and the longest time to live of a receipt.
const RECEIPT_TTL: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(86_400));
/// How long a queue counts as known to Go's tools; not for ever, because they can forget it.
const KNOWN_FOR: Duration = Duration::from_secs(60);

/// A call of `enqueue`, or a part of a call that was too long for one send.
pub(super) struct Waiting {
    pub(super) items: Vec<Item>,
    pub(super) answer: oneshot::Sender<Vec<Outcome>>,
}

/// Sends the waiting calls, on the broker's own thread.
#[derive(Debug)]
pub(super) struct Commit {
    router: Router,
    clock: Arc<BrokerClock>,
    durability: Durability,
    /// A send that took this long is not repeated any more.
    repeats_until: Duration,
    receipt_ttl: Duration,
    client: String,
    /// When each queue was last made known, and on which connection.
    known: Mutex<HashMap<QueueName, (u64, Instant)>>,
}

impl Commit {
    pub(super) fn new(router: Router, clock: Arc<BrokerClock>, durability: Durability, call_timeout: Duration) -> Self {
        let client = uuid::Uuid::new_v4().simple().to_string();
        let repeats_until = call_timeout.saturating_mul(2);
        let receipt_ttl = receipt_ttl(call_timeout);
        Self { router, clock, durability, repeats_until, receipt_ttl, client, known: Mutex::default() }
    }

    /// Returns whether an enqueue waits for a disk or for replicas.
    pub(super) fn is_durable(&self) -> bool {
        self.durability != Durability::Async
    }

    /// Makes the queue known again with the next task, because a caller deletes it.
    pub(super) fn forget(&self, queue: &QueueName) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(queue);
    }

    pub(super) async fn run(self: Arc<Self>, mut queue: mpsc::Receiver<Waiting>) {
        let commit = self;
        // A send that waits for replicas delays the next one on its connection, whose time-out runs meanwhile.
        let in_flight = if commit.is_durable() { 1 } else { IN_FLIGHT };
        let permits = Arc::new(Semaphore::new(in_flight));
        let free_slots = Arc::new(Mutex::new((0..in_flight).collect::<Vec<_>>()));
        let mut sends = JoinSet::new();
        let mut number = 0_u64;
        // Acquires the permit before the batch: calls that arrive meanwhile join it.
        while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
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
                drop(permit);
            });
        }
    }

    async fn send(&self, batch: Vec<Waiting>, slot: usize, number: u64) {
        let (batch, callers): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|Waiting { items, answer }| (items, answer)).unzip();
        let ordered = ordered(&batch);
        let mut chunks = Chunk::all(&batch, &ordered);
        let mut send = Send { receipt: format!("{}:{slot}", self.client), number, abandoned: None };
        self.deliver(&mut chunks, &mut send).await;
        for (caller, outcomes) in callers.into_iter().zip(outcomes(&batch, chunks)) {
            // If the caller no longer waits, its outcomes are dropped.
            let _ = caller.send(outcomes);
        }
    }

    /// Sends the tasks of a lone caller on the connection that its own task drives; returns the tasks if none was sent.
    /// If their outcome is unknown, the broker's own connection repeats the send, as for any other caller.
    pub(super) async fn send_alone(&self, mut own: Taken<'_>, items: Vec<Item>) -> Result<Vec<Outcome>, Vec<Item>> {
        let batch = [items];
        let ordered = ordered(&batch);
        let mut chunks = Chunk::all(&batch, &ordered);
        let (receipt, number) = own.next_receipt();
        let mut send = Send { receipt: format!("{}:{receipt}", self.client), number, abandoned: None };
        let open: Vec<usize> = (0..chunks.len()).collect();
        let generation = own.generation();
        let (noted, calls) = self.calls(&chunks, &open, &send, generation);
        match own.exchange(calls).await {
            Sent::Not => {
                drop(chunks);
                let [items] = batch;
                return Err(items);
            }
            Sent::Answered(answers) => {
                let answers = answers.into_iter().map(|answer| (answer, None)).collect();
                self.take_in(&mut chunks, &open, noted, answers);
            }
            Sent::Unanswered(identity) => {
                send.abandoned = Some(identity);
                let late = BrokerError::new(BrokerErrorKind::Timeout, "Redis did not answer the first send");
                chunks.iter_mut().for_each(|chunk| chunk.note(Err(late.clone()), None));
            }
        }
        if chunks.iter().any(Chunk::is_open) {
            self.deliver(&mut chunks, &mut send).await;
        }
        Ok(outcomes(&batch, chunks).pop().unwrap_or_default())
    }

    /// Sends every chunk until it is answered, or the repeats or their time are used up. A repeat is marked as one, and
    /// its script finds the receipt of the first send, so that a task is never stored twice, even if the first one has
    /// run and is gone.
    async fn deliver(&self, chunks: &mut [Chunk<'_>], send: &mut Send) {
        let began = Instant::now();
        for attempt in 0..=REPEATS {
            let open: Vec<usize> = (0..chunks.len()).filter(|&i| chunks[i].is_open()).collect();
            if open.is_empty() || began.elapsed() >= self.repeats_until {
                return;
            }
            if attempt > 0 {
                sleep(REPEAT_PAUSE).await;
            }
            let failed = |chunks: &mut [Chunk<'_>], error: &BrokerError| {
                open.iter().for_each(|&i| chunks[i].note(Err(error.clone()), None));
            };
            if let Some(abandoned) = &send.abandoned {
                if let Err(error) = self.router.end_abandoned(abandoned).await {
                    failed(chunks, &error);
                    continue;
                }
                send.abandoned = None;
            }
            let generation = self.router.generation();
            let (noted, calls) = self.calls(chunks, &open, send, generation);
            match self.router.send_safely(calls, self.durability).await {
                Ok(answers) => self.take_in(chunks, &open, noted, answers),
                Err(error) => failed(chunks, &error),
            }
        }
    }

    /// Returns the calls for the chunks `open`, after one that adds the queues which Go's tools may not know.
    fn calls(&self, chunks: &[Chunk<'_>], open: &[usize], send: &Send, generation: u64) -> (Noted, Vec<Call>) {
        let unknown = self.unknown_queues(open.iter().map(|&i| chunks[i].queue), generation);
        let mut calls = Vec::with_capacity(open.len() + 1);
        if !unknown.is_empty() {
            let mut call = Call::plain("SADD").arg(QUEUES);
            unknown.iter().for_each(|queue| call.push(queue.as_str()));
            calls.push(call);
        }
        let now = self.clock.argument();
        let mut scripts = Vec::with_capacity(open.len());
        for &i in open {
            let slot = format!("{}:{i}", send.receipt);
            let receipt = Receipt { slot: &slot, number: send.number, ttl: self.receipt_ttl };
            calls.extend(chunks[i].long_messages(receipt));
            scripts.push(calls.len());
            calls.push(chunks[i].call(&now, receipt));
        }
        (Noted { unknown, generation, scripts }, calls)
    }

    /// Notes the answers to [`calls`](Self::calls).
    fn take_in(
        &self,
        chunks: &mut [Chunk<'_>],
        open: &[usize],
        noted: Noted,
        answers: Vec<(Answer, Option<BrokerError>)>,
    ) {
        if answers.first().is_some_and(|(answer, _)| answer.is_ok()) {
            self.remember(noted.unknown, noted.generation);
        }
        let mut scripts = open.iter().zip(noted.scripts).peekable();
        for (at, (answer, doubt)) in answers.into_iter().enumerate() {
            if let Some((&i, _)) = scripts.next_if(|(_, script)| *script == at) {
                chunks[i].note(answer, doubt);
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

/// How a batch is sent.
struct Send {
    /// Where the script leaves its answer; a number is added for each chunk.
    receipt: String,
    /// Number of the send among those with the same receipt.
    number: u64,
    /// The connection of an earlier send, on which Redis may still read the calls.
    abandoned: Option<Arc<Identity>>,
}

/// The data that reading the answers to a send needs.
struct Noted {
    /// The queues that its first call makes known, and on which connection.
    unknown: Vec<QueueName>,
    generation: u64,
    /// The index of each chunk's script among the calls.
    scripts: Vec<usize>,
}

/// Returns how long a receipt is kept: until the last repeat. After a time-out on a connection of the caller's own,
/// repeats begin for two more, and each may wait as long for a connection.
fn receipt_ttl(call_timeout: Duration) -> Duration {
    call_timeout.saturating_mul(6).clamp(RECEIPT_TTL.0, RECEIPT_TTL.1)
}

/// Returns the outcome of each item, call by call.
fn outcomes(batch: &[Vec<Item>], chunks: Vec<Chunk<'_>>) -> Vec<Vec<Outcome>> {
    let mut outcomes: Vec<Vec<Option<Outcome>>> =
        batch.iter().map(|items| items.iter().map(|_| None).collect()).collect();
    for chunk in chunks {
        let (indices, answers) = chunk.outcomes();
        for (&(call, i), answer) in indices.iter().zip(answers) {
            outcomes[call][i] = Some(answer);
        }
    }
    let missing = || Err(Refused::Broker(reply::unexpected("an answer is missing")));
    outcomes.into_iter().map(|call| call.into_iter().map(|o| o.unwrap_or_else(missing)).collect()).collect()
}
