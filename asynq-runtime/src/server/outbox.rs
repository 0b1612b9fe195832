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

use super::{error::ServerError, retry_backoff::BETWEEN_LINES};
use crate::{
    broker::{Action, BrokerError, BrokerErrorKind, RunKey, Settled, Settlement},
    metrics::{self, Share},
    pause::doubled,
    task::QueueName,
    until::until,
};

/// Most outcomes in one call; a broker cuts it further where a shorter script is faster.
const BATCH: usize = 256;
/// Most bytes in one call, but for a single outcome that is larger: the call has to end within its time on a slow network, too, or all
/// of it is sent again.
const BATCH_BYTES: usize = 4 << 20;
/// Pauses of a single outcome that the broker refuses while it takes others.
const FIRST_REFUSAL: Duration = Duration::from_millis(50);
const LONGEST_REFUSAL: Duration = Duration::from_secs(10);

/// The outcomes that the broker has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    items: Mutex<Items>,
    added: Notify,
    emptied: Notify,
}

/// The effect of the answers to one batch of outcomes.
#[derive(Debug)]
pub(crate) struct Answered {
    /// How many outcomes the outbox had held.
    pub(crate) before: usize,
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
    /// When the last line about refused outcomes was logged.
    last_line: Option<Instant>,
    gauge: Option<Share>,
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

impl Outbox {
    /// Adds the result of `settlement`, if any, for the task that this server took as its `place`th. The outbox is locked
    /// meanwhile: no other call, such as [`send_requeued`](Self::send_requeued), sees a settled task that is not in the outbox.
    pub(crate) fn add(&self, place: u64, settlement: impl FnOnce() -> Option<Settlement>) {
        let mut items = self.items.lock();
        let Some(settlement) = settlement() else { return };
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
                () = tokio::time::sleep_until(next_due.unwrap_or_else(far_off).into()) => {}
            }
        }
    }

    /// Removes the outcomes of the last batch that were answered. If the whole call failed, only outcomes of other queues go before
    /// them.
    pub(crate) fn answered(&self, answers: Vec<Result<Settled, BrokerError>>) -> Answered {
        let mut items = self.items.lock();
        let before = items.len();
        let (sent, history) = items.sent.take().unwrap_or_default();
        let all_failed = answers.iter().all(Result::is_err);
        let (mut error, mut first_refusal, mut done) = (None, None, 0);
        let mut late: Vec<(&RunKey, Settled)> = Vec::new();
        let (mut unanswered, mut from_behind) = (VecDeque::new(), Vec::new());
        for ((settlement, history), answer) in sent.iter().zip(history).zip(answers).rev() {
            let key = &settlement.run;
            let again = |history| Item { settlement: Settlement { resend: true, ..settlement.clone() }, history };
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
                    let (refused, is_sent_alone) = (history.refused.saturating_add(1), is_about_items(&failed));
                    from_behind
                        .push(again(SendHistory { refused, is_sent_alone: history.is_sent_alone || is_sent_alone }));
                    first_refusal = Some((key, failed));
                }
            }
        }
        items.resend(unanswered);
        items.defer(from_behind.into_iter().rev(), Instant::now());
        let refused = first_refusal.is_some().then(|| items.refused_to_log()).flatten();
        let is_empty = items.len() == 0;
        items.update_gauge();
        drop(items);
        if is_empty {
            self.emptied.notify_waiters();
        }
        // Lines and metrics are code of the program, which may be slow: a job that ends waits for the lock.
        for (key, settled) in &late {
            log!(warn, id = %key.id, queue = %key.queue, "an outcome came too late: {settled:?}");
        }
        if let Some((key, failed)) = first_refusal {
            metrics::broker_failed("settler", failed.kind());
            if let Some(refused) = refused {
                log!(warn, refused, id = %key.id, queue = %key.queue, "outcomes were refused, will try again; that of this task: {failed}");
            }
        }
        Answered { before, done, lost: u64::try_from(late.len()).unwrap_or(u64::MAX), is_empty, error }
    }
}

impl Items {
    fn len(&self) -> usize {
        let sent = self.sent.as_ref().map_or(0, |(sent, _)| sent.len());
        self.waiting.len() + sent + self.requeued.len() + self.deferred.len()
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

    /// Returns how many outcomes are refused if a line about them is due, which is now and then: they may be refused for ever.
    fn refused_to_log(&mut self) -> Option<usize> {
        let is_due = self.last_line.is_none_or(|at| at.elapsed() >= BETWEEN_LINES);
        is_due.then(|| {
            self.last_line = Some(Instant::now());
            self.deferred.len()
        })
    }

    /// Shows in the metrics how many outcomes there are.
    fn update_gauge(&mut self) {
        let n = self.len();
        self.gauge.get_or_insert_with(|| metrics::OUTBOX.share()).set(n);
    }

    /// Returns the oldest outcomes, which stay here until they are answered, and when the next deferred one is due.
    fn next(&mut self, now: Instant) -> (Arc<Vec<Settlement>>, Option<Instant>) {
        if let Some((sent, history)) = self.sent.take() {
            // The call that sent these has panicked, and they are sent again.
            let again = |settlement: &Settlement| Settlement { resend: true, ..settlement.clone() };
            let again = sent.iter().map(again).zip(history);
            let again = again.map(|(settlement, history)| Item { settlement, history }).rev();
            again.for_each(|item| self.waiting.push_front(item));
        }
        if !self.deferred.is_empty() {
            let due = self.deferred.extract_if(.., |(due, _)| *due <= now).map(|(_, item)| item);
            self.waiting.extend(due);
        }
        let mut bytes = 0;
        let goes_along = |item: &&Item| {
            bytes += item.settlement.bytes();
            !item.history.is_sent_alone && bytes <= BATCH_BYTES
        };
        // The first outcome goes out in any case: it may be one that is sent alone, or is larger than a batch.
        let n = self.waiting.iter().take(BATCH).take_while(goes_along).count().max(1).min(self.waiting.len());
        let (batch, history): (Vec<_>, Vec<_>) =
            self.waiting.drain(..n).map(|item| (item.settlement, item.history)).unzip();
        let batch = Arc::new(batch);
        if n > 0 {
            self.sent = Some((Arc::clone(&batch), history));
        }
        (batch, self.deferred.iter().map(|(due, _)| *due).min())
    }
}

/// Returns whether a call failed because of its contents, and not because of the broker as a whole.
fn is_about_items(error: &BrokerError) -> bool {
    matches!(error.kind(), BrokerErrorKind::Corrupt | BrokerErrorKind::Unexpected)
}

/// Returns an instant that stands for never: in an hour, because an `Instant` far in the future may not be representable.
fn far_off() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use asynq_test_support::Log;
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;
    use crate::{
        broker::RunToken,
        task::{Extra, TaskId, TaskMessage},
    };

    fn item(id: &str) -> Item {
        item_of("q", id)
    }

    fn item_of(queue: &str, id: &str) -> Item {
        let (queue, id) = (QueueName::from_wire(queue), TaskId::from_wire(id));
        let run = RunKey { queue, id, token: RunToken(1), server: 0, row: 0 };
        Item {
            settlement: Settlement { run, message: Arc::default(), action: Action::Done, resend: false },
            history: SendHistory::default(),
        }
    }

    fn refused(id: &str, refused: u32) -> Item {
        Item { history: SendHistory { refused, is_sent_alone: false }, ..item(id) }
    }

    /// Returns the ids in each of the batches in which `items` go out.
    fn batches(mut items: Items) -> Vec<String> {
        let next = || {
            items.sent = None;
            let (batch, _) = items.next(Instant::now());
            (!batch.is_empty()).then(|| batch.iter().map(|sent| sent.run.id.to_string()).collect::<String>())
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn an_outcome_that_spoiled_a_call_is_sent_alone() {
        let mut items = Items { waiting: ["a", "b", "x", "y", "c"].map(item).into(), ..Items::default() };
        for number in [2, 3] {
            items.waiting[number].history.is_sent_alone = true;
        }
        assert_eq!(batches(items), ["ab", "x", "y", "c"]);
    }

    /// A call of 100 MB does not end in its time at 12 Mbit/s, and would be sent again from its beginning for ever.
    #[test]
    fn a_batch_of_large_outcomes_is_cut_and_one_that_is_larger_than_a_batch_is_sent_alone() {
        let retry = |(id, megabytes): (&str, usize)| {
            let message = TaskMessage { payload: vec![0_u8; megabytes << 20].into(), ..TaskMessage::default() };
            let action = Action::Retry { delay: Duration::ZERO, error: None, counted: true, extra: Extra::default() };
            let Item { settlement, history } = item(id);
            Item { settlement: Settlement { message: Arc::new(message), action, ..settlement }, history }
        };
        let waiting = [("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 1), ("f", 5), ("g", 1)].map(retry).into();
        assert_eq!(batches(Items { waiting, ..Items::default() }), ["abcd", "e", "f", "g"]);
    }

    #[test]
    fn a_sent_outcome_stays_until_it_is_answered_and_is_sent_again_marked_and_first() {
        let mut items = Items { waiting: ["a", "b"].map(item).into(), ..Items::default() };
        let now = Instant::now();
        let ids =
            |batch: &[Settlement]| batch.iter().map(|sent| (sent.run.id.to_string(), sent.resend)).collect::<Vec<_>>();
        let (first, next_due) = items.next(now);
        assert_eq!(ids(&first), [("a".to_owned(), false), ("b".to_owned(), false)]);
        assert_eq!((items.len(), next_due), (2, None));
        // The call that sent the first batch has panicked.
        items.waiting.push_back(item("c"));
        let (again, _) = items.next(now);
        assert_eq!(ids(&again), [("a".to_owned(), true), ("b".to_owned(), true), ("c".to_owned(), false)]);
        assert_eq!(items.len(), 3);
        items.sent = None;
        assert!(items.next(now).0.is_empty());
    }

    #[test]
    fn outcomes_of_a_queue_that_is_away_let_those_of_others_pass() {
        let outbox = Outbox::default();
        let ids = |items: &Items| -> Vec<String> {
            items.waiting.iter().map(|item| item.settlement.run.id.to_string()).collect()
        };
        let (sent, waiting) = (["a1", "a2"].map(|id| item_of("away", id)), ["a3", "b1", "a4", "b2"]);
        let waiting = waiting.map(|id| item_of(if id.starts_with('a') { "away" } else { "here" }, id));
        outbox.items.lock().waiting = sent.into();
        outbox.items.lock().next(Instant::now());
        outbox.items.lock().waiting.extend(waiting);
        let away = BrokerError::new(BrokerErrorKind::Unavailable, "away");
        let answered = outbox.answered(vec![Err(away.clone()), Err(away)]);
        assert!(answered.error.is_some() && answered.before == 6);
        assert_eq!(ids(&outbox.items.lock()), ["b1", "b2", "a1", "a2", "a3", "a4"]);
    }

    #[test]
    fn a_call_of_which_outcomes_are_refused_is_an_error_of_the_broker_and_one_line() {
        let (outbox, log) = (Outbox::default(), Log::keep());
        outbox.items.lock().waiting = ["a", "b", "c"].map(item).into();
        outbox.items.lock().next(Instant::now());
        let damaged = || Err(BrokerError::new(BrokerErrorKind::Corrupt, "a damaged page"));
        let recorder = Box::leak(Box::new(PrometheusBuilder::new().build_recorder()));
        let answers = vec![damaged(), Ok(Settled::Ok), damaged()];
        let answered = ::metrics::with_local_recorder(recorder, || outbox.answered(answers));
        assert!(answered.error.is_none() && answered.done == 1);
        let text = recorder.handle().render();
        let counted = "asynq_broker_errors_total{component=\"settler\",kind=\"corrupt\"} 1";
        assert!(text.lines().any(|line| line == counted), "{text}");
        let lines = log.with("a damaged page");
        assert!(lines.len() == 1 && lines[0].contains("refused=2 id=a"), "{lines:?}");
    }

    #[test]
    fn lines_are_logged_without_the_lock_and_a_panic_in_one_loses_no_outcome() {
        let (outbox, locked) = (Arc::new(Outbox::default()), Arc::new(AtomicUsize::new(0)));
        let (seen, counted) = (Arc::clone(&outbox), Arc::clone(&locked));
        let log = Log::calling(move || {
            counted.fetch_add(usize::from(seen.items.is_locked()), Ordering::Relaxed);
            panic!("the line cannot be written");
        });
        outbox.items.lock().waiting = ["a", "b"].map(item).into();
        outbox.items.lock().next(Instant::now());
        let damaged = BrokerError::new(BrokerErrorKind::Corrupt, "a damaged page");
        let answered = outbox.answered(vec![Err(damaged), Ok(Settled::Fenced)]);
        assert_eq!((answered.lost, outbox.len()), (1, 1));
        assert_eq!((log.with("").len(), locked.load(Ordering::Relaxed)), (2, 0), "{:?}", log.with(""));
    }

    #[test]
    fn a_refused_outcome_waits_longer_each_time_and_is_sent_again_in_its_order() {
        let (mut items, now) = (Items::default(), Instant::now());
        let ids = |batch: &[Settlement]| batch.iter().map(|sent| sent.run.id.to_string()).collect::<Vec<_>>();
        items.defer(["a", "b"].map(|id| refused(id, 1)).into_iter(), now);
        let (none, due) = items.next(now);
        assert!(none.is_empty());
        let due = due.unwrap();
        assert_eq!(due, now + 2 * FIRST_REFUSAL);
        items.defer([refused("often", 30)].into_iter(), now);
        assert_eq!(ids(&items.next(due).0), ["a", "b"]);
        items.sent = None;
        assert_eq!(items.next(due).1, Some(now + LONGEST_REFUSAL));
    }

    #[test]
    fn a_server_that_leaves_sends_refused_outcomes_at_once_and_their_pauses_begin_anew() {
        let outbox = Outbox::default();
        outbox.gather();
        outbox.items.lock().defer([refused("refused", 30)].into_iter(), Instant::now());
        outbox.items.lock().requeued = ["a", "b"].map(item).into_iter().zip(1..).map(|(item, n)| (n, item)).collect();
        outbox.send_requeued();
        let (batch, due) = outbox.items.lock().next(Instant::now());
        let ids: Vec<_> = batch.iter().map(|sent| sent.run.id.to_string()).collect();
        assert_eq!((ids, due), (["refused", "b", "a"].map(str::to_owned).to_vec(), None));
        let away = BrokerError::new(BrokerErrorKind::Unavailable, "away");
        outbox.answered(vec![Err(away), Ok(Settled::Ok), Ok(Settled::Ok)]);
        let items = outbox.items.lock();
        assert_eq!(items.deferred.iter().map(|(_, item)| item.history.refused).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn the_pauses_of_outcomes_that_are_under_way_when_a_server_leaves_begin_anew_too() {
        let outbox = Outbox::default();
        outbox.items.lock().waiting = [refused("often", 30), item("b")].into();
        outbox.items.lock().next(Instant::now());
        outbox.send_requeued();
        let away = BrokerError::new(BrokerErrorKind::Unavailable, "away");
        outbox.answered(vec![Err(away), Ok(Settled::Ok)]);
        let items = outbox.items.lock();
        assert_eq!(items.deferred.iter().map(|(_, item)| item.history.refused).collect::<Vec<_>>(), [1]);
    }
}
