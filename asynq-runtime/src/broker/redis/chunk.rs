//! What one script call of an enqueue carries: tasks of one queue, and what became of them.

use std::time::Duration;

use redis::Value;

use super::{
    super::{BrokerError, Refused},
    item::{Item, Outcome, read_outcomes},
    keys::Keys,
    reply,
    script::{Call, ENQUEUE, ENQUEUE_ONE, REPLACE, portions},
};
use crate::task::{GroupName, QueueName, TaskState};

/// How long a long message waits for its script, which comes right behind it unless the connection breaks between them.
const LONG_MESSAGE_TTL: Duration = Duration::from_secs(3600);

/// Index of the call, and of the item within it.
pub(super) type ItemIndex = (usize, usize);

/// The indices of all items, those of one queue together and in their order.
pub(super) fn ordered(batch: &[Vec<Item>]) -> Vec<ItemIndex> {
    let mut indices: Vec<ItemIndex> =
        batch.iter().enumerate().flat_map(|(call, items)| (0..items.len()).map(move |i| (call, i))).collect();
    // Stable: the tasks of a queue stay in their order. It costs one look at each where all are of one queue.
    indices.sort_by(|a, b| queue(batch, *a).cmp(queue(batch, *b)));
    indices
}

fn queue(batch: &[Vec<Item>], (call, i): ItemIndex) -> &QueueName {
    &batch[call][i].queue
}

/// Some tasks of one queue.
pub(super) struct Chunk<'b> {
    batch: &'b [Vec<Item>],
    indices: &'b [ItemIndex],
    pub(super) queue: &'b QueueName,
    pub(super) answer: Option<Result<Value, BrokerError>>,
    /// Why what was stored is not as safe as it should be.
    pub(super) doubt: Option<BrokerError>,
}

impl<'b> Chunk<'b> {
    /// The whole batch in chunks that a script takes.
    pub(super) fn all(batch: &'b [Vec<Item>], ordered: &'b [ItemIndex]) -> Vec<Self> {
        let size = |&(call, i): &ItemIndex| batch[call][i].message.len();
        let mut chunks = Vec::with_capacity(1);
        let kind = |&(call, i): &ItemIndex| (&batch[call][i].queue, batch[call][i].replaces.is_some());
        for indices in ordered.chunk_by(|a, b| kind(a) == kind(b)) {
            let Some(first) = indices.first() else { continue };
            let queue = queue(batch, *first);
            let portions = portions(indices, size).into_iter();
            chunks.extend(portions.map(|indices| Self { batch, indices, queue, answer: None, doubt: None }));
        }
        chunks
    }

    /// Not sent yet, or sent without learning what became of it.
    pub(super) fn is_open(&self) -> bool {
        match &self.answer {
            None => true,
            Some(answer) => answer.as_ref().is_err_and(BrokerError::is_unavailable),
        }
    }

    /// What goes out right before its script: Lua hashes each text that it is given, so Redis gets long messages beside it, each
    /// in a hash that the script only renames. A send that is repeated carries all messages in its script, where nothing can
    /// come between.
    pub(super) fn long_messages(&self, receipt: &str, number: u64, again: bool) -> Vec<Call> {
        let mut calls = Vec::new();
        if again {
            return calls;
        }
        for (i, message) in self.long().map(|item| &item.message).enumerate() {
            let key = Keys::new(self.queue).long_message(receipt, number, i);
            // Its end comes first: whatever is lost behind it, nothing stays.
            calls.push(Call::plain("HSET").arg(&key).arg("state").arg(TaskState::Pending.as_str()));
            calls.push(Call::plain("EXPIRE").arg(&key).arg(LONG_MESSAGE_TTL.as_secs()));
            calls.push(Call::plain("HSET").arg(&key).arg("msg").arg(message));
        }
        calls
    }

    fn items(&self) -> impl Iterator<Item = &'b Item> {
        self.indices.iter().map(|&(call, i)| &self.batch[call][i])
    }

    /// Those whose messages go beside the script.
    fn long(&self) -> impl Iterator<Item = &'b Item> {
        self.items().filter(|item| item.is_long())
    }

    /// Which send of this sender it is, and whether it went out before.
    pub(super) fn call(&self, now: &str, receipt: &str, number: u64, again: bool) -> Call {
        let keys = Keys::new(self.queue);
        if let ([(call, i)], false) = (self.indices, again)
            && let item = &self.batch[*call][*i]
            && item.is_plain()
            && !item.is_long()
        {
            let mut call = ENQUEUE_ONE.on_many(3, 4, item.bytes() + 3 * (keys.prefix().len() + 60) + 120);
            call.push(keys.pending());
            call.push(keys.task(item.id.as_str()));
            call.push(keys.sent(receipt));
            return call.arg(now).arg(number).arg(item.id.as_str()).arg(&item.message);
        }
        let items = || self.items();
        if items().any(|item| item.replaces.is_some()) {
            return self.replacing_call(now, receipt, number, again);
        }
        let more =
            items().map(|item| usize::from(item.lock.is_some()) + usize::from(item.group.is_some())).sum::<usize>();
        let is_beside = |item: &Item| item.is_long() && !again;
        let bytes = items().map(|item| if is_beside(item) { 0 } else { item.bytes() }).sum::<usize>();
        let (long, each) = (self.long().count(), keys.prefix().len() + 100);
        let size = bytes + (self.indices.len() + long) * each + 200;
        let mut next_lock = 5 + self.indices.len();
        let first_long = next_lock + more + 1;
        let mut call = ENQUEUE.on_many(next_lock + more + long, 6 + 3 * self.indices.len(), size);
        for key in [keys.pending(), keys.scheduled(), keys.due(), keys.sent(receipt), keys.groups()] {
            call.push(key);
        }
        let mut key = keys.task_prefix();
        let prefix = key.len();
        for item in items() {
            key.truncate(prefix);
            key.push_str(item.id.as_str());
            call.push(&key);
        }
        if more > 0 {
            items().filter_map(|item| item.lock.as_ref()).for_each(|(key, _)| call.push(key));
            items().filter_map(|item| item.group.as_ref()).for_each(|group| call.push(keys.group(group)));
        }
        (0..long).for_each(|i| call.push(keys.long_message(receipt, number, i)));
        let mut call = call.arg(now).arg(self.indices.len()).arg(number).arg(i32::from(again));
        call = call.arg(keys.group_prefix()).arg(first_long);
        for item in items() {
            call.push(item.id.as_str());
            call.push(if is_beside(item) { &[][..] } else { &item.message[..] });
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

    /// The same for tasks that replace equal ones: one task hash and one lock for each.
    fn replacing_call(&self, now: &str, receipt: &str, number: u64, again: bool) -> Call {
        let keys = Keys::new(self.queue);
        let items = || self.items();
        let mut names = keys.places();
        names.push(keys.sent(receipt));
        names.extend(items().map(|item| keys.task(item.id.as_str())));
        names.extend(items().map(|item| item.lock.as_ref().map_or(String::new(), |(key, _)| key.clone())));
        let mut call = REPLACE.on(&names).arg(now).arg(keys.prefix());
        call = call.arg(self.indices.len()).arg(number).arg(i32::from(again));
        for item in items() {
            call.push(item.id.as_str());
            call.push(&item.message);
            call.push(&item.when);
            call.push(item.lock.as_ref().map_or(0, |(_, seconds)| *seconds));
            call.push(&item.extra);
            call.push(i32::from(item.ours));
            call.push(item.replaces.as_deref().unwrap_or_default());
        }
        call
    }

    /// Which items it carried, and what became of each.
    pub(super) fn outcomes(mut self) -> (&'b [ItemIndex], Vec<Outcome>) {
        let (indices, doubt) = (self.indices, self.doubt.take());
        let outcomes = self.stored();
        let outcomes = match doubt {
            None => outcomes,
            // A task that was refused is refused.
            Some(doubt) => {
                let doubted = |outcome: Outcome| outcome.and_then(|_| Err(Refused::Broker(doubt.clone())));
                outcomes.into_iter().map(doubted).collect()
            }
        };
        (indices, outcomes)
    }

    fn stored(self) -> Vec<Outcome> {
        let size = self.indices.len();
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
