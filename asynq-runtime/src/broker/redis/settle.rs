//! Settles: one script per 64 outcomes of a queue, oldest runs first.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use redis::Value;

use super::{
    super::{Action, BrokerError, BrokerErrorKind, RunKey, Settle, Settled, Settlement, settle::shortened},
    RedisBroker,
    keys::Keys,
    produce::milliseconds,
    reply,
    script::{Call, FREE_LOCK, SETTLE, WRITE, portions},
};
use crate::task::{Progress, QueueName, TaskId, TaskMessage};

/// How long the counters of a day are kept.
pub(super) const COUNTERS_KEPT: TimeDelta = TimeDelta::days(90);

#[async_trait::async_trait]
impl Settle for RedisBroker {
    async fn settle(&self, batch: &[Settlement]) -> Vec<Result<Settled, BrokerError>> {
        let chunks = chunks(batch);
        let now = self.clock.now();
        let given = self.clock.argument();
        let calls: Vec<Call> = chunks.iter().map(|(queue, places)| call(batch, queue, places, &given, now)).collect();
        let answers = match self.link.send(calls).await {
            Ok(answers) => answers,
            Err(error) => return vec![Err(error); batch.len()],
        };
        let mut settled = vec![Err(reply::unexpected("an answer is missing")); batch.len()];
        for ((_, places), answer) in chunks.iter().zip(answers) {
            let answers = read_letters(answer, places.len());
            for (&place, answer) in places.iter().zip(answers) {
                settled[place] = answer.and_then(|letter| meaning(letter, &batch[place]));
            }
        }
        settled
    }

    async fn write_result(&self, run: &RunKey, result: &Bytes) -> Result<Settled, BrokerError> {
        self.write(run, "result", result).await
    }

    async fn write_progress(&self, run: &RunKey, progress: &Progress) -> Result<Settled, BrokerError> {
        self.write(run, "progress", write_progress(progress).as_bytes()).await
    }

    async fn free_lock(&self, run: &RunKey, key: &str) -> Result<Settled, BrokerError> {
        let keys = Keys::new(&run.queue);
        let task = keys.task(run.id.as_str());
        // A key outside the queue is no lock of its tasks; the task's own key is none either, and answers the fence alone.
        let lock = if key.starts_with(keys.prefix()) { key } else { &task };
        let call = FREE_LOCK.on(&[task.as_str(), lock]).arg(run.token.to_string()).arg(run.id.as_str());
        written(self.link.send_one(call).await?)
    }
}

impl RedisBroker {
    async fn write(&self, run: &RunKey, field: &str, value: &[u8]) -> Result<Settled, BrokerError> {
        let key = Keys::new(&run.queue).task(run.id.as_str());
        let call = WRITE.on(&[key]).arg(run.token.to_string()).arg(field).arg(value);
        written(self.link.send_one(call).await?)
    }
}

/// The letter of a script that writes for one run.
fn written(value: Value) -> Result<Settled, BrokerError> {
    match reply::text(value).as_deref() {
        Some("o") => Ok(Settled::Ok),
        Some("f") => Ok(Settled::Fenced),
        Some("g") => Ok(Settled::Gone),
        _ => Err(reply::unexpected("an unknown letter")),
    }
}

/// The places of a batch by queue, in portions of one script: oldest runs first, which are found first, but where something
/// is put back: the last of those is to be the next to be taken.
fn chunks(batch: &[Settlement]) -> Vec<(&QueueName, Vec<usize>)> {
    let mut queues: BTreeMap<&QueueName, Vec<usize>> = BTreeMap::new();
    for (place, settlement) in batch.iter().enumerate() {
        queues.entry(&settlement.run.queue).or_default().push(place);
    }
    let mut chunks = Vec::new();
    for (queue, mut places) in queues {
        if places.iter().all(|&place| batch[place].action != Action::Requeue) {
            places.sort_by_key(|&place| batch[place].run.token);
        }
        let cut = portions(&places, |&place| bytes(&batch[place])).into_iter();
        chunks.extend(cut.map(|portion| (queue, plain_first(batch, portion))));
    }
    chunks
}

/// The same places, plain successes first: most batches have nothing else, and the script is short for them. Of several
/// outcomes of one task the first stays the first.
fn plain_first(batch: &[Settlement], places: &[usize]) -> Vec<usize> {
    let others: HashSet<&TaskId> =
        places.iter().map(|&place| &batch[place]).filter(|of| !is_plain(of)).map(|of| &of.run.id).collect();
    let mut ordered = places.to_vec();
    if !others.is_empty() {
        ordered.sort_by_key(|&place| !is_plain(&batch[place]) || others.contains(&batch[place].run.id));
    }
    ordered
}

/// Whether the task is just to be deleted.
fn is_plain(settlement: &Settlement) -> bool {
    settlement.action == Action::Done && settlement.message.unique_key.is_empty()
}

/// Roughly what an outcome sends.
fn bytes(settlement: &Settlement) -> usize {
    let message = settlement.message.payload.len();
    match &settlement.action {
        Action::Done | Action::Requeue => 0,
        Action::Complete { result } => message + result.as_ref().map_or(0, Bytes::len),
        Action::Retry { .. } | Action::Archive { .. } => message,
    }
}

fn call(batch: &[Settlement], queue: &QueueName, places: &[usize], given: &str, now: DateTime<Utc>) -> Call {
    let keys = Keys::new(queue);
    let mut names = vec![
        keys.active(),
        keys.lease(),
        keys.pending(),
        keys.completed(),
        keys.retry(),
        keys.archived(),
        keys.due(),
        keys.processed_on(now),
        keys.processed(),
        keys.failed_on(now),
        keys.failed(),
    ];
    names.extend(places.iter().map(|&place| keys.task(batch[place].run.id.as_str())));
    let day_ends = now.checked_add_signed(COUNTERS_KEPT).unwrap_or(now).timestamp();
    let mut call = SETTLE.on(&names).arg(given).arg(day_ends);
    let mut rest = places;
    while let (alike @ 1.., Some(&first)) = (plain_alike(batch, rest), rest.first()) {
        call.push("D");
        call.push(alike);
        call.push(batch[first].run.token.to_string());
        let (plain, others) = rest.split_at(alike);
        plain.iter().for_each(|&place| call.push(batch[place].run.id.as_str()));
        rest = others;
    }
    for &place in rest {
        let Settlement { run, message, action, .. } = &batch[place];
        let lock = lock(message, &keys);
        let rewritten = rewritten(message, action, now).unwrap_or_default();
        let mut head = |op: &str| {
            call.push(op);
            call.push(run.id.as_str());
            call.push(run.token.to_string());
        };
        match action {
            Action::Done => {
                head("d");
                call.push(lock);
            }
            Action::Complete { result } => {
                head("c");
                call.push(rewritten);
                call.push(message.retention.max(0));
                call.push(lock);
                call.push(i32::from(result.is_some()));
                call.push(result.as_deref().unwrap_or_default());
            }
            Action::Retry { delay, counted, extra, error } => {
                head("r");
                call.push(rewritten);
                call.push(milliseconds(*delay));
                call.push(i32::from(*counted));
                call.push(extra.to_bytes().unwrap_or_default());
                call.push(i32::from(error.is_some()));
            }
            Action::Archive { extra, .. } => {
                head("a");
                call.push(rewritten);
                call.push(if extra.keeps_lock_when_archived() { "" } else { lock });
                call.push(extra.to_bytes().unwrap_or_default());
            }
            Action::Requeue => head("q"),
        }
    }
    call
}

/// How many of the first of these places are plain successes without a lock, of runs with one token.
fn plain_alike(batch: &[Settlement], places: &[usize]) -> usize {
    let token = places.first().map(|&first| batch[first].run.token);
    places.iter().take_while(|&&place| is_plain(&batch[place]) && Some(batch[place].run.token) == token).count()
}

/// The unique lock to free; none that lies outside the queue, where a script must not reach.
pub(super) fn lock<'m>(message: &'m TaskMessage, keys: &Keys) -> &'m str {
    if message.unique_key.starts_with(keys.prefix()) { &message.unique_key } else { "" }
}

/// The message as it is stored after `action`, encoded; `None` where it stays as it is or is deleted.
fn rewritten(message: &TaskMessage, action: &Action, now: DateTime<Utc>) -> Option<Vec<u8>> {
    let failed = |error: &str, counted: bool| TaskMessage {
        retried: message.retried.saturating_add(i32::from(counted)),
        error_msg: shortened(error).to_owned(),
        last_failed_at: now.timestamp(),
        ..message.clone()
    };
    let changed = match action {
        Action::Done | Action::Requeue => return None,
        Action::Retry { error: None, counted: false, .. } => return None,
        Action::Retry { error: None, counted: true, .. } => {
            TaskMessage { retried: message.retried.saturating_add(1), ..message.clone() }
        }
        Action::Retry { error: Some(error), counted, .. } => failed(error, *counted),
        Action::Archive { error, .. } => failed(error, false),
        Action::Complete { .. } => TaskMessage { completed_at: now.timestamp(), ..message.clone() },
    };
    Some(changed.encode())
}

/// One letter per item, or the same error for all.
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
        b'o' => Ok(Settled::Ok),
        b'b' if settlement.resend => Ok(Settled::Ok),
        // What was not sent before was not done before: it was another outcome.
        b'b' => Ok(Settled::Fenced),
        // A first send that worked left nothing behind that could say so.
        b'g' if settlement.resend && settlement.action == Action::Done => Ok(Settled::Ok),
        b'g' => Ok(Settled::Gone),
        b'f' => Ok(Settled::Fenced),
        b'e' => Err(BrokerError::new(
            BrokerErrorKind::Corrupt,
            format!("the key of task {} holds something else than a task", settlement.run.id),
        )),
        b'w' => Err(BrokerError::new(
            BrokerErrorKind::Corrupt,
            format!(
                "a key of queue {} holds something else than asynq writes there (see TYPE of its keys); the outcome of \
                 task {} waits until it is moved away",
                settlement.run.queue, settlement.run.id
            ),
        )),
        _ => Err(reply::unexpected("an unknown letter")),
    }
}

/// Letters of runs to extend mean the same.
pub(super) fn read_settled(answer: Result<Value, BrokerError>, size: usize) -> Result<Vec<Settled>, BrokerError> {
    let letters = read_letters(answer, size).into_iter();
    letters
        .map(|letter| match letter? {
            b'o' => Ok(Settled::Ok),
            b'f' => Ok(Settled::Fenced),
            b'g' => Ok(Settled::Gone),
            _ => Err(reply::unexpected("an unknown letter")),
        })
        .collect()
}

/// Hash field `progress`: the fraction, a space, the note.
fn write_progress(progress: &Progress) -> String {
    format!("{} {}", progress.fraction, progress.note)
}

/// Reads what [`write_progress`] wrote.
pub(super) fn read_progress(text: &str) -> Option<Progress> {
    let (fraction, note) = text.split_once(' ')?;
    Some(Progress::new(fraction.parse().ok()?, note))
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::{
        broker::RunToken,
        task::{Extra, Header},
    };

    fn message() -> TaskMessage {
        TaskMessage {
            r#type: "email".into(),
            payload: Bytes::from_static(b"hello"),
            id: "t1".into(),
            queue: "default".into(),
            retry: 25,
            timeout: 1800,
            ..Default::default()
        }
    }

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn settlement(queue: &str, id: &str, token: i64, action: Action) -> Settlement {
        let run = RunKey {
            queue: QueueName::from_wire(queue),
            id: TaskId::from_wire(id),
            token: RunToken(token),
            server: 0,
            row: 0,
        };
        Settlement { run, message: Arc::new(message()), action, resend: false }
    }

    fn retry(error: Option<&str>, counted: bool) -> Action {
        Action::Retry { delay: Duration::ZERO, error: error.map(Into::into), counted, extra: Extra::default() }
    }

    #[test]
    fn a_counted_retry_is_byte_equal_to_gos() {
        // vectors/b08_retry_failure.json
        let golden = "0a05656d61696c120568656c6c6f1a027431220764656661756c74281930\
                      013a04626f6f6d40880e58a6aaf58607";
        let bytes = rewritten(&message(), &retry(Some("boom"), true), at("2030-01-02T03:04:06.678Z")).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, golden);
    }

    #[test]
    fn each_action_changes_its_own_fields_only() {
        let now = at("2030-01-02T03:04:05.999Z");
        let base = message();
        let seconds = now.timestamp();
        let cases = [
            (Action::Done, None),
            (Action::Requeue, None),
            (retry(None, false), None),
            (retry(None, true), Some(TaskMessage { retried: 1, ..base.clone() })),
            (
                retry(Some("e"), false),
                Some(TaskMessage { error_msg: "e".into(), last_failed_at: seconds, ..base.clone() }),
            ),
            (
                Action::Archive { error: "dead".into(), extra: Extra::default() },
                Some(TaskMessage { error_msg: "dead".into(), last_failed_at: seconds, ..base.clone() }),
            ),
            (Action::Complete { result: None }, Some(TaskMessage { completed_at: seconds, ..base.clone() })),
        ];
        for (action, expected) in cases {
            assert_eq!(rewritten(&base, &action, now), expected.map(|message| message.encode()), "{action:?}");
        }
        let headers = vec![Header::new("a", ""), Header::new("", "b")];
        let kept = TaskMessage { headers, retried: i32::MAX, ..base };
        let bytes = rewritten(&kept, &retry(Some("e"), true), now).unwrap();
        let read = TaskMessage::decode(bytes.into()).unwrap();
        assert_eq!((read.headers, read.retried), (kept.headers, i32::MAX));
    }

    #[test]
    fn outcomes_go_by_queue_oldest_first_and_those_that_are_put_back_as_they_came() {
        let done = |queue: &str, token| settlement(queue, "id", token, Action::Done);
        let batch = [done("b", 5), done("a", 9), done("a", 2), done("a", 9)];
        let places: Vec<_> = chunks(&batch).into_iter().map(|(queue, places)| (queue.as_str(), places)).collect();
        assert_eq!(places, [("a", vec![2, 1, 3]), ("b", vec![0])]);

        let batch: Vec<_> = (0..100).rev().map(|token| settlement("a", "id", token, Action::Requeue)).collect();
        let firsts: Vec<_> = chunks(&batch).into_iter().map(|(_, places)| (places[0], places.len())).collect();
        assert_eq!(firsts, [(0, 64), (64, 36)]);
    }

    #[test]
    fn plain_successes_of_one_token_go_together() {
        let mut batch = vec![settlement("a", "1", 7, Action::Done); 5];
        batch[2] = settlement("a", "3", 7, Action::Requeue);
        batch[4].run.token = RunToken(8);
        let alike = |batch: &[Settlement]| {
            (0..=batch.len()).map(|first| plain_alike(batch, &[0, 1, 2, 3, 4][first..])).collect::<Vec<_>>()
        };
        assert_eq!(alike(&batch), [2, 1, 0, 1, 1, 0]);
        batch[0].message = Arc::new(TaskMessage { unique_key: "asynq:{a}:unique:t:".into(), ..message() });
        assert_eq!(alike(&batch)[0], 0);
    }

    #[test]
    fn plain_successes_go_first_but_for_those_of_a_task_with_another_outcome() {
        let done = |id| settlement("a", id, 1, Action::Done);
        let back = |id| settlement("a", id, 1, Action::Requeue);
        let batch = [back("1"), done("2"), back("3"), done("1"), done("4")];
        assert_eq!(plain_first(&batch, &[0, 1, 2, 3, 4]), [1, 4, 0, 2, 3]);
        assert_eq!(plain_first(&batch, &[4, 1]), [4, 1]);
    }

    #[test]
    fn letters_mean_the_same_on_a_repeat_but_for_what_is_done_already() {
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

    #[test]
    fn only_a_lock_of_its_own_queue_is_freed() {
        let keys = Keys::new(&QueueName::from_wire("default"));
        for (key, freed) in [("asynq:{default}:unique:t:", true), ("asynq:{other}:unique:t:", false), ("", false)] {
            let message = TaskMessage { unique_key: key.into(), ..message() };
            assert_eq!(!lock(&message, &keys).is_empty(), freed, "{key}");
        }
    }
}
