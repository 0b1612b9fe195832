//! The calls of the scripts that end runs, and the messages as they are stored afterwards.

use chrono::{DateTime, TimeDelta, Utc};

use super::super::{
    super::{Action, Settlement, settle::shortened},
    keys::Keys,
    script::{Call, DONE, SETTLE},
    span::milliseconds,
};
use crate::task::{QueueName, TaskMessage};

/// How long the counters of a day are kept.
const COUNTERS_TTL: TimeDelta = TimeDelta::days(90);

/// Returns the call that ends plain successes.
pub(super) fn done(batch: &[Settlement], queue: &QueueName, places: &[usize], now: DateTime<Utc>) -> Call {
    let keys = Keys::new(queue);
    let run = |place: &usize| &batch[*place].run;
    let count = 4 + places.len();
    let mut call = DONE.on_many(count, 3 + places.len(), 120 * count);
    [keys.active(), keys.lease(), keys.processed_on(now), keys.processed()].into_iter().for_each(|key| call.push(key));
    places.iter().for_each(|place| call.push(keys.task(run(place).id.as_str())));
    call.push(day_ends(now));
    for alike in places.chunk_by(|one, next| run(one).token == run(next).token) {
        call.push(alike.len());
        call.push(run(&alike[0]).token.to_string());
        alike.iter().for_each(|place| call.push(run(place).id.as_str()));
    }
    call
}

/// Returns the Unix second until which the counters of this day are kept.
pub(in super::super) fn day_ends(now: DateTime<Utc>) -> i64 {
    now.checked_add_signed(COUNTERS_TTL).unwrap_or(now).timestamp()
}

/// Returns the call that ends runs in any way.
pub(super) fn settle(
    batch: &[Settlement],
    queue: &QueueName,
    places: &[usize],
    given: &str,
    now: DateTime<Utc>,
) -> Call {
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
    names.push(keys.absent());
    let mut call = SETTLE.on(&names).arg(given).arg(day_ends(now));
    for &place in places {
        let Settlement { run, message, action, .. } = &batch[place];
        let (lock, retention) = (lock(message, &keys), message.retention.max(0));
        let rewritten = rewritten(message, action, now).unwrap_or_default();
        let head = |op: &str| call.arg(op).arg(run.id.as_str()).arg(run.token.to_string());
        call = match action {
            Action::Done => head("d").arg(lock),
            Action::Complete { result } => {
                let call = head("c").arg(rewritten).arg(retention).arg(lock).arg(i32::from(result.is_some()));
                call.arg(result.as_deref().unwrap_or_default()).arg("")
            }
            Action::Revoke { extra } => {
                let call = head("c").arg(rewritten).arg(retention).arg(lock).arg("-").arg("");
                call.arg(extra.to_bytes().unwrap_or_default())
            }
            Action::Retry { delay, extra, error, .. } | Action::Defer { delay, extra, error } => {
                let counted = match action {
                    Action::Retry { counted: true, .. } => "1",
                    Action::Retry { .. } => "0",
                    _ => "-",
                };
                let call = head("r").arg(rewritten).arg(milliseconds(*delay)).arg(counted);
                call.arg(extra.to_bytes().unwrap_or_default()).arg(i32::from(error.is_some()))
            }
            Action::Archive { extra, .. } => {
                head("a").arg(rewritten).arg(lock).arg(extra.to_bytes().unwrap_or_default())
            }
            Action::Requeue => head("q"),
        };
    }
    call
}

/// Returns the unique lock to free; empty for a key outside the queue, which a script must not access.
pub(in super::super) fn lock<'m>(message: &'m TaskMessage, keys: &Keys) -> &'m str {
    if message.unique_key.starts_with(keys.prefix()) { &message.unique_key } else { "" }
}

/// Returns the message to store after `action`, encoded; `None` if it stays as it is or is deleted.
fn rewritten(message: &TaskMessage, action: &Action, now: DateTime<Utc>) -> Option<Vec<u8>> {
    let failed = |error: &str, counted: bool| TaskMessage {
        retried: message.retried.saturating_add(i32::from(counted)),
        error_msg: shortened(error).to_owned(),
        last_failed_at: now.timestamp(),
        ..message.clone()
    };
    let changed = match action {
        Action::Done | Action::Requeue => return None,
        Action::Retry { error: None, counted: false, .. } | Action::Defer { error: None, .. } => return None,
        Action::Retry { error: None, counted: true, .. } => {
            TaskMessage { retried: message.retried.saturating_add(1), ..message.clone() }
        }
        Action::Retry { error: Some(error), counted, .. } => failed(error, *counted),
        Action::Archive { error, .. } | Action::Defer { error: Some(error), .. } => failed(error, false),
        Action::Complete { .. } | Action::Revoke { .. } => {
            TaskMessage { completed_at: now.timestamp(), ..message.clone() }
        }
    };
    Some(changed.encode())
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use bytes::Bytes;

    use super::{super::super::script::words, *};
    use crate::{
        broker::{RunKey, RunToken},
        task::{Extra, Header, TaskId},
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
        let with_headers = TaskMessage { headers, retried: i32::MAX, ..base };
        let bytes = rewritten(&with_headers, &retry(Some("e"), true), now).unwrap();
        let read = TaskMessage::decode(bytes.into()).unwrap();
        assert_eq!((read.headers, read.retried), (with_headers.headers, i32::MAX));
    }

    #[test]
    fn only_a_lock_of_its_own_queue_is_freed() {
        let keys = Keys::new(&QueueName::from_wire("default"));
        for (key, freed) in [("asynq:{default}:unique:t:", true), ("asynq:{other}:unique:t:", false), ("", false)] {
            let message = TaskMessage { unique_key: key.into(), ..message() };
            assert_eq!(!lock(&message, &keys).is_empty(), freed, "{key}");
        }
    }

    #[test]
    fn plain_successes_of_one_token_go_together() {
        let now = at("2030-01-02T03:04:05.999Z");
        let queue = QueueName::from_wire("a");
        let done = |(id, token): (&str, i64)| Settlement {
            run: RunKey { queue: queue.clone(), id: TaskId::from_wire(id), token: RunToken(token), server: 0, row: 0 },
            message: Arc::new(message()),
            action: Action::Done,
            resend: false,
        };
        let batch = [("1", 7), ("2", 7), ("3", 8), ("4", 7)].map(done);
        let command = super::done(&batch, &queue, &[0, 1, 2, 3], now).into_parts().2;
        let words: Vec<&str> = words(&command).map(|word| std::str::from_utf8(word).unwrap()).collect();
        assert_eq!(words[2], "8", "keys");
        let (seven, eight) = (RunToken(7), RunToken(8));
        let given = format!("asynq:{{a}}:t:4 1901329445 2 {seven} 1 2 1 {eight} 3 1 {seven} 4");
        assert_eq!(words[10..].join(" "), given);
    }
}
