//! One script call of an enqueue: its tasks, all of one queue, and their outcomes.

use std::time::Duration;

use redis::Value;

use super::{
    super::{BrokerError, BrokerErrorKind, Refused},
    effect,
    item::{Item, Outcome, read_outcomes},
    keys::Keys,
    reply,
    script::{Call, ENQUEUE, ENQUEUE_ONE, REPLACE, portions},
};
use crate::task::{GroupName, QueueName, TaskState};

/// Time to live of a long message, whose script follows at once unless the connection breaks or a cluster moves the
/// queue.
const LONG_MESSAGE_TTL: Duration = Duration::from_secs(60);

/// Index of the call, and of the item within the call.
pub(super) type ItemIndex = (usize, usize);

/// Returns the indices of all items, those of one queue together and in their order.
pub(super) fn ordered(batch: &[Vec<Item>]) -> Vec<ItemIndex> {
    let mut indices: Vec<ItemIndex> =
        batch.iter().enumerate().flat_map(|(call, items)| (0..items.len()).map(move |i| (call, i))).collect();
    // The sort is stable, so the tasks of a queue stay in their order. A batch of one queue costs one comparison per
    // task.
    indices.sort_by(|a, b| queue(batch, *a).cmp(queue(batch, *b)));
    indices
}

fn queue(batch: &[Vec<Item>], (call, i): ItemIndex) -> &QueueName {
    &batch[call][i].queue
}

/// Most tasks of one script that each replace an equal one: the script may look through 20,000 pending ids for each of them, which
/// takes Redis half a millisecond.
const REPLACING_PER_SCRIPT: usize = 8;

/// Where the script of a send leaves its answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Receipt<'r> {
    /// The slot of the sender.
    pub(super) slot: &'r str,
    /// The number of the send among those of the slot.
    pub(super) number: u64,
    pub(super) ttl: Duration,
}

/// Some tasks of one queue.
pub(super) struct Chunk<'b> {
    batch: &'b [Vec<Item>],
    indices: &'b [ItemIndex],
    pub(super) queue: &'b QueueName,
    /// Index of the chunk among those of its batch.
    pub(super) place: usize,
    /// The answer to the last send; `None` before the first.
    answer: Option<Result<Value, BrokerError>>,
    /// Why the stored tasks lack the durability that was asked for.
    doubt: Option<BrokerError>,
    /// Whether a send may have stored the tasks although its answer did not come, so that the script of the next one looks for the
    /// receipt. The answer to a later send does not change that.
    may_be_stored: bool,
}

impl<'b> Chunk<'b> {
    /// Splits the whole batch into chunks of one script each.
    pub(super) fn all(batch: &'b [Vec<Item>], ordered: &'b [ItemIndex]) -> Vec<Self> {
        let size = |&(call, i): &ItemIndex| batch[call][i].message.len();
        let mut chunks = Vec::with_capacity(1);
        let kind = |&(call, i): &ItemIndex| (&batch[call][i].queue, batch[call][i].replaces.is_some());
        for indices in ordered.chunk_by(|a, b| kind(a) == kind(b)) {
            let Some(first) = indices.first() else { continue };
            let queue = queue(batch, *first);
            let most = if batch[first.0][first.1].replaces.is_some() { REPLACING_PER_SCRIPT } else { indices.len() };
            let portions = indices.chunks(most).flat_map(|indices| portions(indices, size));
            for indices in portions {
                let place = chunks.len();
                chunks.push(Self { batch, indices, queue, place, answer: None, doubt: None, may_be_stored: false });
            }
        }
        chunks
    }

    /// Returns one of the keys by which a cluster finds the master of the chunk.
    pub(super) fn routing_key(&self) -> String {
        Keys::new(self.queue).pending()
    }

    /// Returns whether the chunk was not sent yet, or was sent with an unknown outcome.
    pub(super) fn is_open(&self) -> bool {
        match &self.answer {
            None => true,
            Some(answer) => answer.as_ref().is_err_and(BrokerError::is_unavailable),
        }
    }

    /// Returns whether Redis answered that it did not run the script, which it may do a moment later.
    pub(super) fn was_not_run(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.as_ref().is_err_and(reply::was_not_run))
    }

    /// Returns whether the script has run and answered.
    pub(super) fn is_answered(&self) -> bool {
        matches!(self.answer, Some(Ok(_)))
    }

    /// Notes how a send of the chunk ended, and why its tasks lack the durability that was asked for.
    pub(super) fn note(&mut self, answer: Result<Value, BrokerError>, doubt: Option<BrokerError>) {
        let may_have_run = |error: &BrokerError| {
            // The broker may have been closed between the send and the answer.
            (error.kind() == BrokerErrorKind::Closed || error.is_unavailable()) && !effect::changed_nothing(error)
        };
        self.may_be_stored |= answer.as_ref().is_err_and(may_have_run);
        (self.answer, self.doubt) = (Some(answer), doubt);
    }

    /// Returns the calls that carry the long messages ahead of the script (see `script.rs`). A repeat carries all
    /// messages in its script, where nothing can come between.
    pub(super) fn long_messages(&self, receipt: Receipt<'_>) -> Vec<Call> {
        let (mut calls, keys) = (Vec::new(), Keys::new(self.queue));
        for (i, item) in self.items().filter(|item| self.goes_ahead(item)).enumerate() {
            let key = keys.long_message(receipt.slot, receipt.number, i);
            let end = || Call::plain("EXPIRE").arg(&key).arg(LONG_MESSAGE_TTL.as_secs()).with_next();
            // The key expires even if the message never comes. The second `EXPIRE` begins anew after a message that
            // took long, or stands in for a first one that was refused.
            calls.push(Call::plain("HSET").arg(&key).arg("state").arg(TaskState::Pending.as_str()).with_next());
            calls.push(end());
            calls.push(Call::plain("HSET").arg(&key).arg("msg").arg(&item.message).with_next());
            calls.push(end());
        }
        calls
    }

    fn items(&self) -> impl Iterator<Item = &'b Item> {
        self.indices.iter().map(|&(call, i)| &self.batch[call][i])
    }

    /// Returns whether the message goes ahead of the script, and not in it.
    fn goes_ahead(&self, item: &Item) -> bool {
        item.is_long() && self.answer.is_none()
    }

    /// Returns the call of the script.
    pub(super) fn call(&self, now: &str, receipt: Receipt<'_>) -> Call {
        let keys = Keys::new(self.queue);
        if let [(call, i)] = self.indices
            && self.answer.is_none()
            && let item = &self.batch[*call][*i]
            && item.is_plain()
            && !item.is_long()
        {
            let mut call = ENQUEUE_ONE.on_many(3, 5, item.bytes() + 3 * (keys.prefix().len() + 60) + 120);
            call.push(keys.pending());
            call.push(keys.task(item.id.as_str()));
            call.push(keys.sent(receipt.slot));
            let call = call.arg(now).arg(receipt.number).arg(receipt.ttl.as_secs());
            return call.arg(item.id.as_str()).arg(&item.message);
        }
        if self.items().any(|item| item.replaces.is_some()) {
            return self.replacing_call(now, receipt);
        }
        let more = self
            .items()
            .map(|item| usize::from(item.lock.is_some()) + usize::from(item.group.is_some()))
            .sum::<usize>();
        let bytes = self.items().map(|item| if self.goes_ahead(item) { 0 } else { item.bytes() }).sum::<usize>();
        let (long, each) = (self.items().filter(|item| self.goes_ahead(item)).count(), keys.prefix().len() + 100);
        let size = bytes + (self.indices.len() + long) * each + 200;
        let mut next_lock = 5 + self.indices.len();
        let first_long = next_lock + more + 1;
        let mut call = ENQUEUE.on_many(next_lock + more + long, 7 + 3 * self.indices.len(), size);
        for key in [keys.pending(), keys.scheduled(), keys.due(), keys.sent(receipt.slot), keys.groups()] {
            call.push(key);
        }
        let mut key = keys.task_prefix();
        let prefix = key.len();
        for item in self.items() {
            key.truncate(prefix);
            key.push_str(item.id.as_str());
            call.push(&key);
        }
        if more > 0 {
            self.items().filter_map(|item| item.lock.as_ref()).for_each(|(key, _)| call.push(key));
            self.items().filter_map(|item| item.group.as_ref()).for_each(|group| call.push(keys.group(group)));
        }
        (0..long).for_each(|i| call.push(keys.long_message(receipt.slot, receipt.number, i)));
        let call = call.arg(now).arg(self.indices.len()).arg(receipt.number).arg(i32::from(self.may_be_stored));
        let mut call = call.arg(keys.group_prefix()).arg(first_long).arg(receipt.ttl.as_secs());
        for item in self.items() {
            call.push(item.id.as_str());
            let goes_ahead = self.goes_ahead(item);
            call.push(if goes_ahead { &[][..] } else { &item.message[..] });
            call.push(2 * i32::from(goes_ahead) + i32::from(!item.is_plain()));
            if item.is_plain() {
                continue;
            }
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

    /// Returns the call for tasks that replace equal ones, with one task hash and one lock for each; see
    /// [`call`](Self::call) for other tasks.
    fn replacing_call(&self, now: &str, receipt: Receipt<'_>) -> Call {
        let keys = Keys::new(self.queue);
        let mut names = keys.places();
        names.push(keys.sent(receipt.slot));
        names.extend(self.items().map(|item| keys.task(item.id.as_str())));
        names.extend(self.items().map(|item| item.lock.as_ref().map_or(String::new(), |(key, _)| key.clone())));
        let mut call = REPLACE.on(&names).arg(now).arg(keys.prefix());
        call = call.arg(self.indices.len()).arg(receipt.number).arg(i32::from(self.may_be_stored));
        call = call.arg(receipt.ttl.as_secs());
        for item in self.items() {
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

    /// Returns the items of the chunk, and the outcome of each.
    pub(super) fn outcomes(mut self) -> (&'b [ItemIndex], Vec<Outcome>) {
        let (indices, doubt) = (self.indices, self.doubt.take());
        let outcomes = self.stored();
        let outcomes = match doubt {
            None => outcomes,
            // A refusal stands; only a stored task is in doubt.
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
            Some(Err(error)) if self.may_be_stored && !is_of_a_script(&error) => all(unanswered(error)),
            Some(Err(error)) if effect::changed_nothing(&error) => all(error.without_effect()),
            Some(Err(error)) => all(error),
            None => all(reply::unexpected("no answer")),
        }
    }
}

/// Returns whether only a script answers with this error: it ran, and found that no send before it had stored the tasks.
fn is_of_a_script(error: &BrokerError) -> bool {
    matches!(error.kind(), BrokerErrorKind::Full | BrokerErrorKind::Corrupt)
}

/// Returns the error of tasks that an unanswered send may have stored, if no later send can tell.
fn unanswered(error: BrokerError) -> BrokerError {
    if error.is_ambiguous() {
        return error;
    }
    let message = format!("Redis did not answer whether it stored the task, and its repeat was refused: {error}");
    BrokerError::with_source(BrokerErrorKind::Unavailable, message, error)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            super::{NewTask, When},
            script::words,
        },
        *,
    };
    use crate::task::{Extra, TaskId, TaskMessage};

    fn item(id: &str, bytes: usize) -> Item {
        let message = TaskMessage { id: id.into(), payload: vec![b'x'; bytes].into(), ..TaskMessage::default() };
        let (queue, id) = (QueueName::from_wire("q"), TaskId::from_wire(id));
        let (unique, replaces, group, extra) = (None, None, None, Extra::default());
        Item::new(NewTask { message, queue, id, id_is_ours: false, when: When::Now, unique, replaces, group, extra })
    }

    #[test]
    fn a_repeat_carries_long_messages_in_the_script_and_asks_for_a_receipt_only_where_tasks_may_have_been_stored() {
        let batch = [vec![item("short", 10), item("long", 20_000)]];
        let ordered = ordered(&batch);
        let mut chunk = Chunk::all(&batch, &ordered).remove(0);
        let not_run =
            redis::parse_redis_value(b"-TRYAGAIN a long message did not come\r\n").map(reply::answer).unwrap();
        let late = Err(BrokerError::new(BrokerErrorKind::Timeout, "late"));
        let unread = redis::parse_redis_value(b"-OOM command not allowed\r\n").map(reply::answer).unwrap();
        assert!(!Chunk { answer: Some(unread), ..Chunk::all(&batch, &ordered).remove(0) }.is_open());
        let receipt = Receipt { slot: "c:0:0", number: 7, ttl: Duration::from_secs(60) };
        // A send that was not run tells nothing of the one before it, whose answer did not come.
        let answers = [None, Some(not_run.clone()), Some(late), Some(not_run)];
        for (answer, (ahead, again)) in answers.into_iter().zip([(4, b"0"), (0, b"0"), (0, b"1"), (0, b"1")]) {
            if let Some(answer) = answer {
                chunk.note(answer, None);
            }
            assert!(chunk.is_open());
            assert_eq!(chunk.long_messages(receipt).len(), ahead);
            let call = chunk.call("", receipt);
            assert_eq!(call.bytes() > 20_000, ahead == 0, "where the message is");
            let (.., command) = call.into_parts();
            let words: Vec<&[u8]> = words(&command).collect();
            // EVALSHA, digest, number of keys, keys, now, items, number of the send.
            let keys: usize = std::str::from_utf8(words[2]).unwrap().parse().unwrap();
            assert_eq!(words[3 + keys + 3], again);
        }
    }

    #[test]
    fn a_task_is_not_in_doubt_where_redis_took_no_writes_unless_an_earlier_send_was_not_answered() {
        let batch = [vec![item("a", 10)]];
        let ordered = ordered(&batch);
        let refused =
            |line: &str| redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).map(reply::answer).unwrap();
        let late = || Err(BrokerError::new(BrokerErrorKind::Timeout, "late"));
        let outcome = |answers: Vec<Result<Value, BrokerError>>| {
            let mut chunk = Chunk::all(&batch, &ordered).remove(0);
            answers.into_iter().for_each(|answer| chunk.note(answer, None));
            let Err(Refused::Broker(error)) = chunk.outcomes().1.remove(0) else { panic!("stored") };
            error
        };
        for (line, is_ambiguous) in [
            (
                "MISCONF Errors writing to the AOF file: No space left on device script: a8b3, on @user_script:31.",
                false,
            ),
            ("READONLY You can't write against a read only replica. script: a8b3, on @user_script:31.", false),
            ("NOREPLICAS Not enough good replicas to write. script: a8b3, on @user_script:31.", false),
            ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", false),
            ("MOVED 1 h:1", false),
            ("ASK 1 h:1", false),
            ("LOADING Redis is loading the dataset in memory", false),
            ("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", false),
            (
                "ERR Script attempted to execute a write command while the cluster is down and readonly script: 1, on \
                 @user_script:1.",
                false,
            ),
            ("ERR Error running script (call to f_1): @user_script:3: @user_script: 3: -NOREPLICAS Not enough", false),
            // The script looked for a key that is not there any more, perhaps after a write.
            ("ERR Script attempted to access a non local key in a cluster node script: 1, on @user_script:1.", true),
        ] {
            let error = outcome(vec![refused(line)]);
            assert!(error.is_unavailable(), "{line}");
            assert_eq!(error.is_ambiguous(), is_ambiguous, "{line}");
            assert!(outcome(vec![late(), refused(line)]).is_ambiguous(), "after an answer that did not come: {line}");
        }
    }

    #[test]
    fn a_task_that_was_never_sent_is_not_in_doubt_unless_an_earlier_send_was_not_answered() {
        use BrokerErrorKind::{Closed, Timeout, Unavailable};
        let batch = [vec![item("a", 10)]];
        let ordered = ordered(&batch);
        for kind in [Closed, Timeout, Unavailable] {
            let (sent, unsent) = (BrokerError::new(kind, "why"), BrokerError::new(kind, "why").unsent());
            let cases: [(&[&BrokerError], bool); 5] = [
                (&[&unsent], false),
                (&[&unsent, &unsent], false),
                (&[&sent], true),
                (&[&sent, &unsent], true),
                (&[&unsent, &sent], true),
            ];
            for (sends, is_ambiguous) in cases {
                let mut chunk = Chunk::all(&batch, &ordered).remove(0);
                sends.iter().for_each(|error| chunk.note(Err(BrokerError::clone(error)), None));
                let Err(Refused::Broker(error)) = chunk.outcomes().1.remove(0) else { panic!("stored") };
                assert_eq!(error.is_ambiguous(), is_ambiguous, "{kind:?} {} sends", sends.len());
            }
        }
    }

    #[test]
    fn a_task_that_may_be_stored_is_in_doubt_although_its_repeat_is_refused() {
        use BrokerErrorKind::{Closed, Config, Corrupt, Denied, Full, Timeout, Unavailable};
        let batch = [vec![item("a", 10)]];
        let ordered = ordered(&batch);
        let cases: [(&[BrokerErrorKind], BrokerErrorKind); 8] = [
            (&[Denied], Denied),
            (&[Config], Config),
            (&[Timeout, Timeout], Timeout),
            (&[Timeout, Denied], Unavailable),
            (&[Timeout, Config], Unavailable),
            // The script of the repeat has looked for the receipt.
            (&[Timeout, Full], Full),
            (&[Timeout, Corrupt], Corrupt),
            // The broker may have been closed after the send.
            (&[Closed], Unavailable),
        ];
        for (sends, outcome) in cases {
            let mut chunk = Chunk::all(&batch, &ordered).remove(0);
            sends.iter().for_each(|kind| chunk.note(Err(BrokerError::new(*kind, "why")), None));
            let Err(Refused::Broker(error)) = chunk.outcomes().1.remove(0) else { panic!("{sends:?} is stored") };
            assert_eq!(error.kind(), outcome, "{sends:?}: {error}");
            assert!(error.to_string().ends_with("why"), "{error}");
        }
    }
}
