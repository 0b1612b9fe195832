//! Keeps outcomes until the broker answers ok, fenced or gone, and gives out those that have queued up in one batch.
//!
//! One batch is under way at a time (`settler.rs`). Outcomes that are added meanwhile go out together in the next one, so batches
//! grow with the load, and an outcome on an idle server is sent at once. An outcome whose call failed is sent again, marked as a
//! resend, for as long as it takes, before all others but those of queues that were not in the call: the run's fence makes that safe (docs/design/fence.md#outbox). An outcome that
//! cannot be written delays no other: where a whole call is refused for one of its outcomes, they are sent again one by one.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::error::ServerError;
use crate::{
    broker::{Action, BrokerError, BrokerErrorKind, CALL_BYTES, RunKey, Settled, Settlement},
    metrics::{self, Share},
    pause::{SeldomLines, doubled},
    task::QueueName,
    until::until,
};

/// Most outcomes in one call; a broker cuts it further where a shorter script is faster.
const BATCH: usize = 256;
/// Bytes of payloads and results in the outbox from which on nothing is fetched, however few outcomes they are.
const FULL: usize = 64 << 20;
/// The same bound while the broker refuses every outcome here: up to it, each call fetches one task, because refused outcomes may wait
/// for ever and must not keep the tasks of other queues from running. The memory of the host bounds them all the same: eight payloads
/// of the largest size fit, [`Client::MAX_PAYLOAD_LIMIT`](crate::Client::MAX_PAYLOAD_LIMIT).
const MOST_REFUSED: usize = 8 * FULL;
/// Pauses of a single outcome that the broker refuses while it takes others.
const FIRST_REFUSAL: Duration = Duration::from_millis(50);
const LONGEST_REFUSAL: Duration = Duration::from_secs(10);

/// The outcomes that the broker has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// How many outcomes may wait before fetching stops.
    capacity: usize,
    items: Mutex<Items>,
    added: Notify,
    emptied: Notify,
}

/// The effect of the answers to one batch of outcomes.
#[derive(Debug)]
pub(crate) struct Answered {
    /// Whether the outbox had no room.
    pub(crate) was_full: bool,
    /// How many outcomes the broker stored.
    pub(crate) done: u64,
    /// How many came too late: their runs had lost their tasks.
    pub(crate) lost: u64,
    /// Whether the outbox is empty now.
    pub(crate) is_empty: bool,
    /// The error of a call that failed as a whole.
    pub(crate) error: Option<BrokerError>,
}

#[derive(Debug, Default)]
struct Items {
    waiting: VecDeque<Item>,
    /// Outcomes that were sent and not answered, with the history of each: older than the waiting ones.
    sent: Option<(Arc<Vec<Settlement>>, Vec<SendHistory>)>,
    /// Outcomes that requeue the tasks of a leaving server, with their places: sent together, so that their order is kept.
    requeued: Vec<(u64, Item)>,
    /// Whether requeued outcomes are gathered instead of sent.
    gathers: bool,
    /// Outcomes that were refused while others of their call were taken, with the time of the next try. The broker answers, so
    /// they must not delay the rest.
    deferred: Vec<(Instant, Item)>,
    /// The lines about refused outcomes: they may be refused for ever.
    refusal_lines: SeldomLines,
    /// Shows in the metrics how many outcomes there are.
    gauge: Option<Share>,
    /// Payloads and results of all outcomes.
    bytes: usize,
}

#[derive(Debug)]
struct Item {
    settlement: Settlement,
    history: SendHistory,
}

/// The earlier tries to send an outcome.
#[derive(Debug, Clone, Copy, Default)]
struct SendHistory {
    /// How often the outcome was refused while others of the same call were taken.
    refused: u32,
    /// Whether the outcome is sent alone: it was in a call that was refused for its contents, and may be the cause.
    is_sent_alone: bool,
}

impl Item {
    /// Returns the item of an outcome that was sent before.
    fn again(settlement: &Settlement, history: SendHistory) -> Self {
        Self { settlement: Settlement { resend: true, ..settlement.clone() }, history }
    }
}

impl Outbox {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, ..Self::default() }
    }

    /// Adds the result of `settlement`, if any, for the task that this server took as its `place`th. The outbox is locked
    /// meanwhile: no other call, such as [`send_requeued`](Self::send_requeued), sees a settled task that is not in the outbox.
    pub(crate) fn add(&self, place: u64, settlement: impl FnOnce() -> Option<Settlement>) {
        let mut items = self.items.lock();
        let Some(settlement) = settlement() else { return };
        items.bytes += settlement.held();
        let is_requeue = matches!(settlement.action, Action::Requeue);
        let item = Item { settlement, history: SendHistory::default() };
        if is_requeue && items.gathers {
            items.requeued.push((place, item));
            return;
        }
        items.waiting.push_back(item);
        drop(items);
        self.added.notify_one();
    }

    /// Gathers outcomes that requeue tasks from now on, until [`send_requeued`](Self::send_requeued) is called.
    pub(crate) fn gather(&self) {
        self.items.lock().gathers = true;
    }

    /// Sends the gathered outcomes, the last one first, so that the tasks of a queue have their former order: the task that is
    /// requeued last is taken first. Refused outcomes are sent before them, and their pauses begin anew: the longest one outlasts the
    /// time that a leaving server has.
    pub(crate) fn send_requeued(&self) {
        let mut items = self.items.lock();
        let Items { waiting, requeued, gathers, deferred, sent, .. } = &mut *items;
        *gathers = false;
        waiting.extend(deferred.drain(..).map(|(_, item)| item));
        // Those under way, and those that were due already, too.
        let under_way = sent.iter_mut().flat_map(|(_, histories)| histories);
        waiting.iter_mut().map(|item| &mut item.history).chain(under_way).for_each(|history| history.refused = 0);
        requeued.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
        waiting.extend(requeued.drain(..).map(|(_, item)| item));
        drop(items);
        self.added.notify_one();
    }

    /// Returns how many outcomes wait, those in flight included.
    pub(crate) fn len(&self) -> usize {
        self.items.lock().len()
    }

    /// Returns how many tasks may be fetched before their outcomes would be too many.
    pub(crate) fn room(&self) -> usize {
        self.items.lock().room(self.capacity)
    }

    /// Waits until the broker has taken everything.
    pub(crate) async fn emptied(&self) {
        until(&self.emptied, || (self.len() == 0).then_some(())).await;
    }

    /// Returns an error while the broker has not taken everything.
    ///
    /// # Errors
    ///
    /// [`ServerError::Unsettled`].
    pub(crate) fn outcome(&self) -> Result<(), ServerError> {
        match self.len() {
            0 => Ok(()),
            outcomes => Err(ServerError::Unsettled { outcomes }),
        }
    }

    /// Waits until outcomes are due, and returns the oldest of them. They stay in the outbox until [`answered`](Self::answered)
    /// takes them out, so that nothing is lost with the caller.
    pub(crate) async fn next(&self) -> Arc<Vec<Settlement>> {
        loop {
            let (batch, next_due) = self.items.lock().next(Instant::now());
            if !batch.is_empty() {
                return batch;
            }
            tokio::select! {
                () = self.added.notified() => {}
                () = tokio::time::sleep_until(next_due.unwrap_or_else(Instant::now).into()), if next_due.is_some() => {}
            }
        }
    }

    /// Removes the outcomes of the last batch that were answered. If the whole call failed, only outcomes of other queues go before
    /// them.
    pub(crate) fn answered(&self, answers: Vec<Result<Settled, BrokerError>>) -> Answered {
        let mut items = self.items.lock();
        let was_full = items.room(self.capacity) == 0;
        let (sent, history) = items.sent.take().unwrap_or_default();
        let all_failed = answers.iter().all(Result::is_err);
        let (mut error, mut first_refusal, mut done) = (None, None, 0);
        let mut late: Vec<(&RunKey, Settled)> = Vec::new();
        let (mut unanswered, mut from_behind) = (VecDeque::new(), Vec::new());
        for ((settlement, history), answer) in sent.iter().zip(history).zip(answers).rev() {
            let key = &settlement.run;
            if answer.is_ok() {
                items.bytes = items.bytes.saturating_sub(settlement.held());
            }
            let again = |history| Item::again(settlement, history);
            match answer {
                Ok(Settled::Ok) => done += 1,
                Ok(settled) => late.push((key, settled)),
                Err(failed) if all_failed && !is_about_items(&failed) => {
                    unanswered.push_front(again(history));
                    error = Some(failed);
                }
                // One outcome of the call is the cause: the others are taken when they are sent alone.
                Err(_) if all_failed && sent.len() > 1 => {
                    items.waiting.push_front(again(SendHistory { is_sent_alone: true, ..history }));
                }
                Err(failed) => {
                    let refused = history.refused.saturating_add(1);
                    from_behind.push(again(SendHistory { refused, is_sent_alone: is_about_items(&failed) }));
                    first_refusal = Some((key, failed));
                }
            }
        }
        items.resend(unanswered);
        items.defer(from_behind.into_iter().rev(), Instant::now());
        let is_line_due = first_refusal.is_some() && items.refusal_lines.is_due();
        let refused = items.deferred.len();
        let left = items.len();
        items.gauge.get_or_insert_with(|| metrics::OUTBOX.share()).set(left);
        drop(items);
        let is_empty = left == 0;
        if is_empty {
            self.emptied.notify_waiters();
        }
        // Lines and metrics are code of the program, which may be slow: a job that ends waits for the lock.
        for (key, settled) in &late {
            log!(warn, id = %key.id, queue = %key.queue, "an outcome came too late: {settled:?}");
        }
        if let Some((key, failed)) = first_refusal {
            metrics::broker_failed("settler", failed.kind());
            if is_line_due {
                log!(warn, refused, id = %key.id, queue = %key.queue, "outcomes were refused, will try again; that of this task: {failed}");
            }
        }
        Answered { was_full, done, lost: u64::try_from(late.len()).unwrap_or(u64::MAX), is_empty, error }
    }
}

impl Items {
    fn len(&self) -> usize {
        let sent = self.sent.as_ref().map_or(0, |(sent, _)| sent.len());
        self.waiting.len() + sent + self.requeued.len() + self.deferred.len()
    }

    fn room(&self, capacity: usize) -> usize {
        let room = capacity.saturating_sub(self.len());
        if self.bytes < FULL {
            return room;
        }
        room.min(usize::from(self.bytes < MOST_REFUSED && self.deferred.len() == self.len()))
    }

    /// Puts outcomes of a call without an answer before those of the same queues, and behind those of other queues: one master of a
    /// cluster may be away, while another takes outcomes.
    fn resend(&mut self, unanswered: VecDeque<Item>) {
        if unanswered.is_empty() {
            return;
        }
        let queues: HashSet<QueueName> = unanswered.iter().map(|item| item.settlement.run.queue.clone()).collect();
        let is_other = |item: &Item| !queues.contains(&item.settlement.run.queue);
        let (mut others, same): (VecDeque<Item>, VecDeque<Item>) =
            std::mem::take(&mut self.waiting).into_iter().partition(is_other);
        others.extend(unanswered);
        others.extend(same);
        self.waiting = others;
    }

    /// Defers outcomes that were refused, longer each time. Outcomes that were refused together are sent again in their order.
    fn defer(&mut self, refused: impl Iterator<Item = Item>, now: Instant) {
        let pause = |refused| doubled(FIRST_REFUSAL, refused, LONGEST_REFUSAL);
        self.deferred.extend(refused.map(|item| (now + pause(item.history.refused), item)));
    }

    /// Returns the oldest outcomes, which stay here until they are answered, and when the next deferred one is due.
    fn next(&mut self, now: Instant) -> (Arc<Vec<Settlement>>, Option<Instant>) {
        if let Some((sent, history)) = self.sent.take() {
            // The call that sent these has panicked, and they are sent again.
            for (settlement, history) in sent.iter().zip(history).rev() {
                self.waiting.push_front(Item::again(settlement, history));
            }
        }
        let due = self.deferred.extract_if(.., |(due, _)| *due <= now).map(|(_, item)| item);
        self.waiting.extend(due);
        let mut bytes = 0;
        let goes_along = |item: &&Item| {
            bytes += item.settlement.bytes();
            !item.history.is_sent_alone && bytes <= CALL_BYTES
        };
        // The first outcome goes out in any case: it may be one that is sent alone, or is larger than a batch.
        let n = self.waiting.iter().take(BATCH).take_while(goes_along).count().max(1).min(self.waiting.len());
        let (batch, history): (Vec<_>, Vec<_>) =
            self.waiting.drain(..n).map(|item| (item.settlement, item.history)).unzip();
        let batch = Arc::new(batch);
        self.sent = Some((Arc::clone(&batch), history));
        (batch, self.deferred.iter().map(|(due, _)| *due).min())
    }
}

/// Returns whether a call failed because of its contents, and not because of the broker as a whole.
fn is_about_items(error: &BrokerError) -> bool {
    matches!(error.kind(), BrokerErrorKind::Corrupt | BrokerErrorKind::Unexpected)
}

#[cfg(test)]
mod tests;
