//! Group commit of enqueues: calls that arrive while a send is in flight go out together in the next one.

use std::{mem, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    task::JoinSet,
    time::sleep,
};

use super::{
    super::{BrokerError, BrokerErrorKind, PART, Refused},
    chunk::{Chunk, Receipt, ordered},
    clock::{BrokerClock, since_boot},
    connection::{Away, WRITE},
    dedicated::{Sent, Taken},
    durability::Durability,
    identity::Identity,
    item::{Item, Outcome},
    queue_names::QueueNames,
    reply,
    router::{Answer, Router},
    script::Call,
    socket::longest,
};
use crate::task::QueueName;

/// Most sends in flight.
pub(super) const IN_FLIGHT: usize = 2;
/// Most sends that are repeated at a time for masters that are away. Further ones fail.
const REPEATING: usize = 64;
/// How often tasks are sent again of which Redis does not say that it did not run their script.
const REPEATS: u32 = 4;
/// The first and the longest pause between the repeats of a send.
pub(super) const REPEAT_PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(250));
/// Longest time between two sends that are repeated while the server is away.
const LONGEST_PACE: Duration = Duration::from_millis(250);
/// The shortest and the longest time to live of a receipt.
const RECEIPT_TTL: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(86_400));

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
    /// A send that took this long is not repeated any more. The time in which the machine slept counts, because receipts end meanwhile.
    repeats_until: Duration,
    /// The longest time of a single send.
    longest_send: Duration,
    receipt_ttl: Duration,
    client: String,
    pub(super) names: Arc<QueueNames>,
    repeating: Semaphore,
}

impl Commit {
    pub(super) fn new(router: Router, clock: Arc<BrokerClock>, durability: Durability, call_timeout: Duration) -> Self {
        let client = uuid::Uuid::new_v4().simple().to_string();
        let repeats_until = call_timeout.saturating_mul(2);
        let (longest_send, receipt_ttl) = (longest(call_timeout), receipt_ttl(call_timeout));
        let (names, repeating) = (Arc::default(), Semaphore::new(REPEATING));
        Self { router, clock, durability, repeats_until, longest_send, receipt_ttl, client, names, repeating }
    }

    /// Returns whether an enqueue waits for a disk or for replicas.
    pub(super) fn is_durable(&self) -> bool {
        self.durability != Durability::Async
    }

    pub(super) async fn run(self: Arc<Self>, mut queue: mpsc::Receiver<Waiting>) {
        // A send that waits for replicas delays the next one on its connection, whose time-out runs meanwhile.
        let in_flight = if self.is_durable() { 1 } else { IN_FLIGHT };
        let permits = Arc::new(Semaphore::new(in_flight));
        let free_slots = Arc::new(Mutex::new((0..in_flight + REPEATING).rev().collect::<Vec<_>>()));
        let mut sends = JoinSet::new();
        let mut number = 0_u64;
        // Acquires the permit before the batch: calls that arrive meanwhile join it.
        while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
            while sends.try_join_next().is_some() {}
            let Some(first) = queue.recv().await else { return };
            let batch = gather(first, &mut queue);
            if batch.is_empty() {
                continue;
            }
            number += 1;
            let slot = free_slots.lock().pop().unwrap_or_default();
            let (commit, free_slots) = (Arc::clone(&self), Arc::clone(&free_slots));
            sends.spawn(async move {
                let permit = commit.send(batch, slot, number, permit).await;
                free_slots.lock().push(slot);
                drop(permit);
            });
        }
    }

    /// Sends a batch, and answers its callers. Returns the permit, unless it was given to another send.
    async fn send(
        &self,
        batch: Vec<Waiting>,
        slot: usize,
        number: u64,
        permit: OwnedSemaphorePermit,
    ) -> Option<OwnedSemaphorePermit> {
        let (batch, callers): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|Waiting { items, answer }| (items, answer)).unzip();
        let ordered = ordered(&batch);
        let mut answers = Answers::new(&batch, callers);
        let mut send = Send { receipt: format!("{}:{slot}", self.client), number, abandoned: None };
        let began = since_boot();
        let open = self.attempt(Chunk::all(&batch, &ordered), &mut send, Away::Fails, &mut answers).await;
        if open.is_empty() {
            return Some(permit);
        }
        let is_away = open.iter().all(|chunk| self.router.is_away(&chunk.routing_key()));
        // The tasks for a server that is away, or cannot take them now, hold up no others: those for another master, or those that
        // learn of the outage.
        let is_away = is_away || open.iter().all(Chunk::was_not_run);
        let may_pass = self.router.has_parts() || is_away && !self.is_durable();
        let repeating = if may_pass { self.repeating.try_acquire().ok() } else { None };
        if repeating.is_some() && !self.router.has_parts() {
            // Calls gather into a batch meanwhile, at a pace at which the repeats of an outage are never too many.
            sleep(self.pace_of_repeats()).await;
        }
        let permit = Some(permit).filter(|_| repeating.is_none());
        // Very many are repeated already.
        if permit.is_some() && is_away && may_pass {
            answers.give(open);
        } else {
            self.repeat(open, &mut send, began, &mut answers).await;
        }
        permit
    }

    /// Returns the time after which a send that is repeated lets another begin, so that fewer than [`REPEATING`] are repeated, each
    /// for its whole time. With call time-outs above 3.6 s they may be more, and the last ones fail at once: the time is short
    /// enough for a server that is back.
    fn pace_of_repeats(&self) -> Duration {
        let others = u32::try_from(REPEATING / IN_FLIGHT - 2).unwrap_or(1);
        (self.repeats_until / others).min(LONGEST_PACE)
    }

    /// Sends the tasks of a lone caller on the connection that its own task drives; returns the tasks if none was sent.
    /// If their outcome is unknown, the broker's own connection repeats the send, as for any other caller.
    pub(super) async fn send_alone(&self, mut own: Taken<'_>, items: Vec<Item>) -> Result<Vec<Outcome>, Vec<Item>> {
        let batch = [items];
        let ordered = ordered(&batch);
        let mut chunks = Chunk::all(&batch, &ordered);
        let mut all = Answers::new(&batch, Vec::new());
        let (receipt, number) = own.next_receipt();
        let mut send = Send { receipt: format!("{}:{receipt}", self.client), number, abandoned: None };
        let generation = own.generation();
        let (noted, calls) = self.calls(&chunks, &send, generation);
        let sent = since_boot();
        match own.exchange(calls).await {
            Sent::Not => {
                drop(chunks);
                let [items] = batch;
                return Err(items);
            }
            Sent::Answered(answers) => {
                let answers = answers.into_iter().map(|answer| (answer, None)).collect();
                self.take_in(&mut chunks, noted, answers);
            }
            Sent::Unanswered(identity) => {
                send.abandoned = Some(identity);
                let late = BrokerError::new(BrokerErrorKind::Timeout, "Redis did not answer the first send");
                chunks.iter_mut().for_each(|chunk| chunk.note(Err(late.clone()), None));
            }
        }
        let open = all.give_closed(chunks);
        // The first send had its own time, which is that of the longest send at most: beyond that, the machine slept.
        let began = since_boot().min(sent.saturating_add(self.longest_send));
        self.repeat(open, &mut send, began, &mut all).await;
        Ok(all.take(0))
    }

    /// Sends every chunk again until it is answered, or the repeats or their time are used up. A server that answers that it cannot
    /// do it now, as while a slot moves or a server loads its data, is given as much time as one that is silent. The script of a
    /// repeat finds the receipt of the first send, so that a task is never stored twice, even if the first one has run and is gone.
    /// The send began at `began` by [`since_boot`].
    async fn repeat(&self, mut open: Vec<Chunk<'_>>, send: &mut Send, began: Duration, answers: &mut Answers) {
        let (mut repeats, mut pause) = (0, REPEAT_PAUSES.0);
        while !open.is_empty() {
            sleep(pause).await;
            pause = (pause * 2).min(REPEAT_PAUSES.1);
            // Only now, because the machine may have slept in the pause.
            let is_in_time = || since_boot().saturating_sub(began) < self.repeats_until;
            let is_repeated = |chunk: &Chunk<'_>| is_in_time() && (repeats < REPEATS || chunk.was_not_run());
            let over;
            (open, over) = open.into_iter().partition(is_repeated);
            answers.give(over);
            if open.is_empty() {
                return;
            }
            repeats += 1;
            open = self.attempt(open, send, Away::IsWaitedFor, answers).await;
        }
    }

    /// Sends `chunks` once. Answers the callers of which no chunk is open, and returns the chunks that are.
    async fn attempt<'b>(
        &self,
        mut chunks: Vec<Chunk<'b>>,
        send: &mut Send,
        away: Away,
        answers: &mut Answers,
    ) -> Vec<Chunk<'b>> {
        let sent = async {
            if let Some(abandoned) = &send.abandoned {
                self.router.end_abandoned(abandoned).await?;
                send.abandoned = None;
            }
            let (noted, calls) = self.calls(&chunks, send, self.router.generation());
            Ok((noted, self.router.send_safely(calls, self.durability, away).await?))
        };
        match sent.await {
            Ok((noted, answers)) => self.take_in(&mut chunks, noted, answers),
            Err(error) => chunks.iter_mut().for_each(|chunk| chunk.note(Err(BrokerError::clone(&error)), None)),
        }
        answers.give_closed(chunks)
    }

    /// Returns the calls for `chunks`, after one that writes the names of queues which may not be written.
    fn calls(&self, chunks: &[Chunk<'_>], send: &Send, generation: u64) -> (Noted, Vec<Call>) {
        let unwritten = self.names.unwritten(chunks.iter().map(|chunk| chunk.queue), generation);
        let mut calls = Vec::with_capacity(chunks.len() + 1);
        if !unwritten.is_empty() {
            calls.push(QueueNames::call(&unwritten));
        }
        let now = self.clock.argument();
        let mut scripts = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let slot = format!("{}:{}", send.receipt, chunk.place);
            let receipt = Receipt { slot: &slot, number: send.number, ttl: self.receipt_ttl };
            calls.extend(chunk.long_messages(receipt));
            scripts.push(calls.len());
            calls.push(chunk.call(&now, receipt));
        }
        (Noted { unwritten, generation, scripts }, calls)
    }

    /// Notes the answers to [`calls`](Self::calls).
    fn take_in(&self, chunks: &mut [Chunk<'_>], noted: Noted, answers: Vec<(Answer, Option<BrokerError>)>) {
        let Noted { unwritten, generation, scripts } = noted;
        let failure = match answers.first() {
            Some((Err(error), _)) if !unwritten.is_empty() => Some(error.clone()),
            _ => None,
        };
        let mut scripts = chunks.iter_mut().zip(scripts).peekable();
        for (at, (answer, doubt)) in answers.into_iter().enumerate() {
            if let Some((chunk, _)) = scripts.next_if(|(_, script)| *script == at) {
                chunk.note(answer, doubt);
            }
        }
        let Some(error) = failure else { return self.names.remember(unwritten, generation) };
        let is_noted = |chunk: &&Chunk<'_>| chunk.is_answered() && unwritten.contains(chunk.queue);
        let answered = chunks.iter().filter(is_noted).map(|chunk| chunk.queue);
        self.names.write_later(answered, generation, &error);
    }
}

/// Takes the calls that wait behind `first`, until they are as many tasks or bytes as one send carries.
fn gather(first: Waiting, queue: &mut mpsc::Receiver<Waiting>) -> Vec<Waiting> {
    let (mut size, mut bytes, mut batch, mut next) = (0, 0, Vec::new(), Some(first));
    while let Some(waiting) = next {
        // A caller that has given up would not learn that its tasks are stored.
        if !waiting.answer.is_closed() {
            size += waiting.items.len();
            bytes += waiting.items.iter().map(Item::bytes).sum::<usize>();
            batch.push(waiting);
        }
        next = if size < PART && bytes < WRITE { queue.try_recv().ok() } else { None };
    }
    batch
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
    /// The queues whose names its first call writes, and on which connection.
    unwritten: Vec<QueueName>,
    generation: u64,
    /// The index of each chunk's script among the calls.
    scripts: Vec<usize>,
}

/// Returns how long a receipt is kept: until the last repeat. A send may be given up as late as the longest call after its script has
/// run. After a time-out on a connection of the caller's own, repeats begin for two more, and each may wait as long for a connection.
fn receipt_ttl(call_timeout: Duration) -> Duration {
    let repeats = call_timeout.saturating_mul(6);
    longest(call_timeout).saturating_add(repeats).clamp(RECEIPT_TTL.0, RECEIPT_TTL.1)
}

/// The outcomes of the items of a batch, call by call, as far as they are known.
struct Answers {
    outcomes: Vec<Vec<Option<Outcome>>>,
    /// Number of items of each call without an outcome.
    left: Vec<usize>,
    /// The callers that wait for their outcomes.
    callers: Vec<Option<oneshot::Sender<Vec<Outcome>>>>,
}

impl Answers {
    fn new(batch: &[Vec<Item>], callers: Vec<oneshot::Sender<Vec<Outcome>>>) -> Self {
        let outcomes = batch.iter().map(|items| items.iter().map(|_| None).collect()).collect();
        Self { outcomes, left: batch.iter().map(Vec::len).collect(), callers: callers.into_iter().map(Some).collect() }
    }

    /// Notes the outcomes of the chunks that are not open, and returns the others.
    fn give_closed<'b>(&mut self, chunks: Vec<Chunk<'b>>) -> Vec<Chunk<'b>> {
        let (open, closed) = chunks.into_iter().partition(Chunk::is_open);
        self.give(closed);
        open
    }

    /// Notes the outcomes of `chunks`. Answers each caller all of whose outcomes are known.
    fn give(&mut self, chunks: Vec<Chunk<'_>>) {
        for chunk in chunks {
            let (indices, answers) = chunk.outcomes();
            for (&(call, i), answer) in indices.iter().zip(answers) {
                self.outcomes[call][i] = Some(answer);
                self.left[call] -= 1;
                if self.left[call] == 0
                    && let Some(caller) = self.callers.get_mut(call).and_then(Option::take)
                {
                    // If the caller no longer waits, its outcomes are dropped.
                    let _ = caller.send(self.take(call));
                }
            }
        }
    }

    /// Takes the outcomes of a call.
    fn take(&mut self, call: usize) -> Vec<Outcome> {
        let missing = || Err(Refused::Broker(reply::unexpected("an answer is missing")));
        let outcomes = self.outcomes.get_mut(call).map(mem::take).unwrap_or_default();
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(missing)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_sent_together_until_they_are_as_many_tasks_or_bytes_as_one_send_carries() {
        for (bytes, calls, sends) in [(10, 300, [PART, 44, 0]), (WRITE / 4, 10, [4, 4, 2])] {
            let (sender, mut queue) = mpsc::channel(calls);
            let callers = (0..calls).map(|_| {
                let (answer, answered) = oneshot::channel();
                assert!(sender.try_send(Waiting { items: vec![Item::of_length(bytes)], answer }).is_ok());
                answered
            });
            let _callers: Vec<_> = callers.collect();
            let gathered = sends.map(|_| queue.try_recv().map_or(0, |first| gather(first, &mut queue).len()));
            assert_eq!(gathered, sends, "{calls} calls of {bytes} bytes");
        }
    }

    #[test]
    fn a_receipt_is_kept_until_the_last_repeat_of_a_send_that_was_given_up_as_late_as_can_be() {
        for seconds in [1, 3, 20, 60] {
            let call_timeout = Duration::from_secs(seconds);
            // The repeats begin for two time-outs more; the last one may wait for a connection and for an answer.
            let last_repeat = longest(call_timeout) + 4 * call_timeout;
            assert!(receipt_ttl(call_timeout) >= last_repeat, "{call_timeout:?}");
        }
        assert_eq!(receipt_ttl(Duration::from_millis(50)), RECEIPT_TTL.0);
        assert_eq!(receipt_ttl(Duration::MAX), RECEIPT_TTL.1);
    }
}
