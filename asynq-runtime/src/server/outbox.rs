//! Keeps outcomes until the broker says ok, fenced or gone, and sends what has queued up in one call.
//!
//! One call is in flight at a time; what ends meanwhile goes out together in the next one, so batches grow with the load
//! and an outcome on an idle server waits for nothing. An outcome whose call failed stays in front and is sent again,
//! marked as such, for as long as it takes: the run's fence makes that safe (RELIABILITY F1, F2).

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use super::{hub::Hub, trouble::Trouble};
use crate::{
    broker::{BrokerError, Settled, Settlement},
    metrics::{self, Share},
};

/// Most outcomes in one call; a broker cuts it further where a shorter script is faster.
const BATCH: usize = 256;
/// Longest pause between two tries: an outage must not be felt long after it is over.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
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

#[derive(Debug, Default)]
struct Items {
    waiting: VecDeque<Item>,
    /// Handed back by a server that is leaving, with their places: sent together, so that their order stays.
    handed_back: Vec<(u64, Item)>,
    /// Whether those were sent.
    gathers: bool,
    /// Refused while others of the same call were taken; the broker lives, so they must not hold up the rest.
    put_off: Vec<(Instant, Item)>,
    told: Option<Share>,
}

#[derive(Debug)]
struct Item {
    settlement: Settlement,
    refused: u32,
}

impl Outbox {
    /// Adds an outcome.
    pub(crate) fn put(&self, settlement: Settlement) {
        self.lock().waiting.push_back(Item { settlement, refused: 0 });
        self.added.notify_one();
    }

    /// From now on what is handed back waits for [`hand_back`](Self::hand_back).
    pub(crate) fn gather(&self) {
        self.lock().gathers = true;
    }

    /// Adds a task that goes back to the head of its queue. It was the `place`th that this server took.
    pub(crate) fn put_back(&self, place: u64, settlement: Settlement) {
        let mut items = self.lock();
        if items.gathers {
            items.handed_back.push((place, Item { settlement, refused: 0 }));
        } else {
            drop(items);
            self.put(settlement);
        }
    }

    /// Sends what was gathered. The last one to be put back is the first to be taken again: so in reverse, and the tasks
    /// of a queue stand in it as they did before.
    pub(crate) fn hand_back(&self) {
        let mut items = self.lock();
        items.gathers = false;
        let mut gathered = std::mem::take(&mut items.handed_back);
        gathered.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
        items.waiting.extend(gathered.into_iter().map(|(_, item)| item));
        drop(items);
        self.added.notify_one();
    }

    /// How many outcomes wait, those in flight included.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Waits until the broker has taken everything.
    pub(crate) async fn emptied(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.len() == 0 {
                return;
            }
            emptied.await;
        }
    }

    /// Sends outcomes until it is dropped. They stay in the outbox until they are answered, so that nothing is lost with
    /// this future.
    pub(crate) async fn run(hub: Arc<Hub>) {
        let outbox = &hub.outbox;
        let mut trouble = Trouble::of("outbox", LONGEST_PAUSE);
        loop {
            let (batch, next_due) = outbox.lock().next(Instant::now());
            if batch.is_empty() {
                tokio::select! {
                    () = outbox.added.notified() => {}
                    () = tokio::time::sleep_until(next_due.unwrap_or_else(far_off).into()) => {}
                }
                continue;
            }
            let answers = answers(&hub, &batch).await;
            match outbox.answered(&hub, answers) {
                None => trouble.over(),
                Some(error) => tokio::time::sleep(trouble.met(&error)).await,
            }
        }
    }

    /// Takes out what was answered. Returns an error if the whole call failed: then all of it stays in front.
    fn answered(&self, hub: &Hub, answers: Vec<Result<Settled, BrokerError>>) -> Option<BrokerError> {
        let mut items = self.lock();
        let n = answers.len().min(items.waiting.len());
        let sent: Vec<Item> = items.waiting.drain(..n).collect();
        let all_failed = answers.iter().all(Result::is_err);
        let (mut error, mut done, mut lost) = (None, 0, 0);
        for (mut item, answer) in sent.into_iter().zip(answers).rev() {
            match answer {
                Ok(settled) => {
                    let key = &item.settlement.run;
                    hub.runs.forget(key);
                    if settled == Settled::Ok {
                        done += 1;
                    } else {
                        lost += 1;
                        tracing::warn!(id = %key.id, queue = %key.queue, "an outcome came too late: {settled:?}");
                    }
                }
                Err(failed) if all_failed => {
                    item.settlement.resend = true;
                    items.waiting.push_front(item);
                    error = Some(failed);
                }
                Err(failed) => {
                    let key = &item.settlement.run;
                    tracing::warn!(id = %key.id, queue = %key.queue, "an outcome was refused, will try again: {failed}");
                    item.settlement.resend = true;
                    item.refused = item.refused.saturating_add(1);
                    let pause = FIRST_REFUSAL.saturating_mul(1 << item.refused.min(10)).min(LONGEST_REFUSAL);
                    items.put_off.push((Instant::now() + pause, item));
                }
            }
        }
        let is_empty = items.len() == 0;
        items.tell();
        drop(items);
        metrics::fenced(lost);
        hub.signals.settled.ring_by(done);
        hub.signals.lost.ring_by(lost);
        if is_empty {
            self.emptied.notify_waiters();
            hub.note_idle();
        }
        // The fetcher may be waiting for room in here.
        hub.runs.poke();
        error
    }

    fn lock(&self) -> MutexGuard<'_, Items> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Items {
    fn len(&self) -> usize {
        self.waiting.len() + self.handed_back.len() + self.put_off.len()
    }

    /// Shows how many there are.
    fn tell(&mut self) {
        let n = self.len();
        self.told.get_or_insert_with(|| metrics::OUTBOX.share()).set(n);
    }

    /// The oldest outcomes, which stay where they are; and when the next one that was put off is due. Copies are cheap:
    /// the message is shared.
    fn next(&mut self, now: Instant) -> (Vec<Settlement>, Option<Instant>) {
        let due = self.put_off.extract_if(.., |(due, _)| *due <= now).map(|(_, item)| item);
        self.waiting.extend(due);
        let batch = self.waiting.iter().take(BATCH).map(|item| item.settlement.clone()).collect();
        (batch, self.put_off.iter().map(|(due, _)| *due).min())
    }
}

/// When nothing is put off: late enough to be never, soon enough to be representable.
fn far_off() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

/// One answer per outcome, also when the call as a whole got none.
async fn answers(hub: &Hub, batch: &[Settlement]) -> Vec<Result<Settled, BrokerError>> {
    let call = async { Ok(hub.broker.settle(batch).await) };
    let mut answers = match hub.answer(call).await {
        Ok(answers) => answers,
        Err(error) => vec![Err(error); batch.len()],
    };
    answers.resize_with(batch.len(), || Err(super::hub::no_answer()));
    answers
}
