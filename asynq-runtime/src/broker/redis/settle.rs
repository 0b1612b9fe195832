//! Settles runs: one script per 64 plain successes of a queue, and one per 64 other outcomes, oldest runs first.

mod call;

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use redis::Value;

pub(super) use self::call::{day_ends, lock};
use super::{
    super::{Action, BrokerError, RunKey, Settle, Settled, Settlement, corrupt, settle::run_has_ended},
    RedisBroker,
    keys::Keys,
    reply,
    script::{Call, FREE_LOCK, WRITE, portions},
};
use crate::task::{Progress, QueueName, TaskId, TaskState};

#[async_trait::async_trait]
impl Settle for RedisBroker {
    async fn settle(&self, batch: &[Settlement]) -> Vec<Result<Settled, BrokerError>> {
        let now = self.clock.now();
        let given = self.clock.argument();
        let call = |Chunk { queue, places, is_plain }: Chunk<'_>| {
            let call = match is_plain {
                true => call::done(batch, queue, &places, now),
                false => call::settle(batch, queue, &places, &given, now),
            };
            (places, call)
        };
        let (places, calls) = chunks(batch).into_iter().map(call).unzip();
        self.send_by_places(batch.len(), places, calls, |letter, place| meaning(letter, &batch[place])).await
    }

    async fn write_result(&self, run: &RunKey, result: &Bytes) -> Result<Settled, BrokerError> {
        self.write(run, "result", result).await
    }

    async fn write_progress(&self, run: &RunKey, progress: &Progress) -> Result<Settled, BrokerError> {
        self.write(run, "progress", write_progress(progress).as_bytes()).await
    }

    async fn save_checkpoint(&self, run: &RunKey, checkpoint: &Bytes) -> Result<Settled, BrokerError> {
        self.write(run, CHECKPOINT, checkpoint).await
    }

    async fn checkpoint(&self, run: &RunKey) -> Result<Option<Bytes>, BrokerError> {
        let key = Keys::new(&run.queue).task(run.id.as_str());
        let call = Call::plain("HMGET").arg(key).arg("pending_since").arg("state").arg(CHECKPOINT);
        let mut found = reply::array(self.router.send_one(call).await?)?.into_iter();
        let (token, state) = (found.next().and_then(reply::text), found.next().and_then(reply::text));
        if token != Some(run.token.to_string()) || state.as_deref() != Some(TaskState::Active.as_str()) {
            return Err(run_has_ended());
        }
        Ok(found.next().and_then(reply::bytes).map(Bytes::from))
    }

    async fn free_lock(&self, run: &RunKey, key: &str) -> Result<Settled, BrokerError> {
        let keys = Keys::new(&run.queue);
        let task = keys.task(run.id.as_str());
        // A key outside the queue is not a lock of its tasks. The task's own key takes its place: it is not a lock
        // either, so the script answers the fence alone.
        let lock = if key.starts_with(keys.prefix()) { key } else { &task };
        let call = FREE_LOCK.on(&[task.as_str(), lock]).arg(run.token.to_string()).arg(run.id.as_str());
        written(self.router.send_one(call).await?)
    }
}

impl RedisBroker {
    /// Sends calls that each answer one letter for each of their `places` in a batch of this size, and returns what these mean.
    pub(super) async fn send_by_places(
        &self,
        size: usize,
        places: Vec<Vec<usize>>,
        calls: Vec<Call>,
        meaning: impl Fn(u8, usize) -> Result<Settled, BrokerError>,
    ) -> Vec<Result<Settled, BrokerError>> {
        let answers = match self.router.send(calls).await {
            Ok(answers) => answers,
            Err(error) => return vec![Err(error); size],
        };
        let mut settled = vec![Err(reply::unexpected("an answer is missing")); size];
        for (places, answer) in places.into_iter().zip(answers) {
            let letters = read_letters(answer, places.len());
            for (place, letter) in places.into_iter().zip(letters) {
                settled[place] = letter.and_then(|letter| meaning(letter, place));
            }
        }
        settled
    }

    async fn write(&self, run: &RunKey, field: &str, value: &[u8]) -> Result<Settled, BrokerError> {
        let key = Keys::new(&run.queue).task(run.id.as_str());
        let call = WRITE.on(&[key]).arg(run.token.to_string()).arg(field).arg(value);
        written(self.router.send_one(call).await?)
    }
}

/// Hash field of the checkpoint that a run leaves for the next one. Scripts of Go leave it as it is, and delete it with
/// the hash.
const CHECKPOINT: &str = "checkpoint";

/// Reads the letter of a script that writes for one run.
fn written(value: Value) -> Result<Settled, BrokerError> {
    settled(read_letters(Ok(value), 1).remove(0)?)
}

/// Returns the meaning of a letter that every script gives for a run.
pub(super) fn settled(letter: u8) -> Result<Settled, BrokerError> {
    match letter {
        b'o' => Ok(Settled::Ok),
        b'f' => Ok(Settled::Fenced),
        b'g' => Ok(Settled::Gone),
        _ => Err(reply::unexpected("an unknown letter")),
    }
}

/// The outcomes that one script settles: places of a batch, all of one queue.
#[derive(Debug)]
struct Chunk<'b> {
    queue: &'b QueueName,
    places: Vec<usize>,
    /// Whether all of them are plain successes. Most batches have no others, so these have a short script of their own.
    is_plain: bool,
}

/// Splits a batch by queue into portions of one script each. Oldest runs go first, because Redis finds those first. A
/// queue with a requeued run keeps the order of the batch, because the last run requeued is to be the next to be taken.
fn chunks(batch: &[Settlement]) -> Vec<Chunk<'_>> {
    let mut queues: BTreeMap<&QueueName, Vec<usize>> = BTreeMap::new();
    for (place, settlement) in batch.iter().enumerate() {
        queues.entry(&settlement.run.queue).or_default().push(place);
    }
    let mut chunks = Vec::new();
    for (queue, mut places) in queues {
        if places.iter().all(|&place| batch[place].action != Action::Requeue) {
            places.sort_by_key(|&place| batch[place].run.token);
        }
        let (plain, others) = plain_apart(batch, places);
        for (places, is_plain) in [(plain, true), (others, false)] {
            let cut = portions(&places, |&place| batch[place].bytes()).into_iter();
            chunks.extend(cut.map(|portion| Chunk { queue, places: portion.to_vec(), is_plain }));
        }
    }
    chunks
}

/// Separates the plain successes of `places` from the others. If one outcome of a task is among the others, all of them
/// are, so that the first of them stays the first.
fn plain_apart(batch: &[Settlement], places: Vec<usize>) -> (Vec<usize>, Vec<usize>) {
    let others: HashSet<&TaskId> =
        places.iter().map(|&place| &batch[place]).filter(|of| !is_plain(of)).map(|of| &of.run.id).collect();
    if others.is_empty() {
        return (places, Vec::new());
    }
    places.into_iter().partition(|&place| is_plain(&batch[place]) && !others.contains(&batch[place].run.id))
}

/// Returns whether the task is just to be deleted.
fn is_plain(settlement: &Settlement) -> bool {
    settlement.action == Action::Done && settlement.message.unique_key.is_empty()
}

/// Reads one letter per item; an error counts for all of them.
fn read_letters(answer: Result<Value, BrokerError>, size: usize) -> Vec<Result<u8, BrokerError>> {
    let letters = answer.and_then(|value| match reply::bytes(value) {
        Some(letters) if letters.len() == size => Ok(letters),
        _ => Err(reply::unexpected("not one letter per run")),
    });
    match letters {
        Ok(letters) => letters.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error); size],
    }
}

fn meaning(letter: u8, settlement: &Settlement) -> Result<Settled, BrokerError> {
    match letter {
        b'b' if settlement.resend => Ok(Settled::Ok),
        // The run ended before, and this outcome was not sent before: another outcome has ended the run.
        b'b' => Ok(Settled::Fenced),
        // A first send that succeeded has deleted the task, so no receipt of it is left.
        b'g' if settlement.resend && settlement.action == Action::Done => Ok(Settled::Ok),
        b'e' => Err(corrupt(format!("the key of task {} holds something else than a task", settlement.run.id))),
        b'w' => Err(corrupt(format!(
            "a key of queue {} holds something else than asynq writes there (see TYPE of its keys); the outcome of \
             task {} waits until it is moved away",
            settlement.run.queue, settlement.run.id
        ))),
        _ => settled(letter),
    }
}

/// Returns hash field `progress`: the fraction, a space, the note.
fn write_progress(progress: &Progress) -> String {
    format!("{} {}", progress.fraction, progress.note)
}

/// Reads the text of [`write_progress`].
pub(super) fn read_progress(text: &str) -> Option<Progress> {
    let (fraction, note) = text.split_once(' ')?;
    Some(Progress::new(fraction.parse().ok()?, note))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        broker::RunToken,
        task::{Extra, TaskMessage},
    };

    fn settlement(queue: &str, id: &str, token: i64, action: Action) -> Settlement {
        let run = RunKey {
            queue: QueueName::from_wire(queue),
            id: TaskId::from_wire(id),
            token: RunToken(token),
            server: 0,
            row: 0,
        };
        Settlement { run, message: Arc::default(), action, resend: false }
    }

    /// Queue, places, and whether they are plain.
    fn cut(batch: &[Settlement]) -> Vec<(&str, Vec<usize>, bool)> {
        chunks(batch).into_iter().map(|chunk| (chunk.queue.as_str(), chunk.places, chunk.is_plain)).collect()
    }

    #[test]
    fn outcomes_go_by_queue_oldest_first_and_those_that_are_requeued_as_they_came() {
        let done = |queue: &str, token| settlement(queue, "id", token, Action::Done);
        let batch = [done("b", 5), done("a", 9), done("a", 2), done("a", 9)];
        assert_eq!(cut(&batch), [("a", vec![2, 1, 3], true), ("b", vec![0], true)]);

        let batch: Vec<_> = (0..100).rev().map(|token| settlement("a", "id", token, Action::Requeue)).collect();
        let firsts: Vec<_> = chunks(&batch).into_iter().map(|chunk| (chunk.places[0], chunk.places.len())).collect();
        assert_eq!(firsts, [(0, 64), (64, 36)]);
    }

    #[test]
    fn plain_successes_have_their_own_script_but_for_those_of_a_task_with_another_outcome() {
        let done = |id| settlement("a", id, 1, Action::Done);
        let back = |id| settlement("a", id, 1, Action::Requeue);
        let batch = [back("1"), done("2"), back("3"), done("1"), done("4")];
        assert_eq!(cut(&batch), [("a", vec![1, 4], true), ("a", vec![0, 2, 3], false)]);
        let locked = TaskMessage { unique_key: "asynq:{a}:unique:t:".into(), ..TaskMessage::default() };
        let locked = Settlement { message: Arc::new(locked), ..done("1") };
        assert_eq!(cut(&[locked]), [("a", vec![0], false)]);
    }

    #[test]
    fn letters_mean_the_same_on_a_repeat_except_for_an_outcome_that_is_applied_already() {
        let archive = Action::Archive { error: String::new(), extra: Extra::default() };
        let cases = [
            (b'o', Action::Done, false, Settled::Ok),
            (b'b', Action::Done, true, Settled::Ok),
            (b'b', Action::Done, false, Settled::Fenced),
            (b'f', Action::Done, true, Settled::Fenced),
            (b'g', Action::Done, false, Settled::Gone),
            (b'g', Action::Done, true, Settled::Ok),
            (b'g', archive, true, Settled::Gone),
        ];
        for (letter, action, resend, expected) in cases {
            let settlement = Settlement { resend, ..settlement("q", "id", 1, action) };
            assert_eq!(meaning(letter, &settlement).unwrap(), expected);
        }
        for letter in [b'e', b'w'] {
            assert!(meaning(letter, &settlement("q", "id", 1, Action::Done)).is_err());
        }
        assert!(read_letters(Ok(Value::BulkString(b"oo".to_vec())), 3).iter().all(Result::is_err));
    }

    #[test]
    fn progress_is_read_as_it_was_written() {
        for progress in [Progress::new(0.25, "row 1 of 4"), Progress::new(1.0, "")] {
            assert_eq!(read_progress(&write_progress(&progress)), Some(progress));
        }
        assert_eq!(read_progress("half"), None);
    }
}
