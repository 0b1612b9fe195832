//! Reads the answers of the dequeue script.

use std::time::Duration;

use bytes::Bytes;
use chrono::DateTime;
use redis::Value;

use super::super::{
    super::{BrokerError, Run, RunKey},
    reply,
    unanswered::DequeueRequest,
};
use crate::task::{Extra, QueueName, TaskId, TaskMessage, UndecodableMessage};

/// The tasks that one script took, and its report on those that it passed.
#[derive(Debug)]
pub(super) struct TakenTasks {
    pub(super) runs: Vec<Run>,
    /// Indices of `runs` whose messages the script left for the caller to read. Until then they cannot be decoded.
    pub(super) long: Vec<usize>,
    /// Bytes of all messages as they are stored. The script counts these against the room that it is given, and stops after
    /// the message that uses it up.
    pub(super) bytes: usize,
    /// Quarantined tasks that the script passed.
    pub(super) passed: i64,
    /// Whether nothing else than those is left in the queue.
    pub(super) is_all_passed: bool,
}

/// Reads the answer to `request`.
///
/// # Errors
///
/// The value does not have the form of such an answer.
pub(super) fn read_answer(value: Value, request: &DequeueRequest, server: i64) -> Result<TakenTasks, BrokerError> {
    let DequeueRequest { queue, token, at, .. } = request;
    let mut parts = reply::array(value)?.into_iter();
    let tasks = reply::array(parts.next().unwrap_or_default())?;
    let facts = reply::array(parts.next().unwrap_or_default())?;
    let since = parts.next().and_then(reply::text).unwrap_or_default();
    let times: Vec<Option<i64>> = since.split(' ').map(|time| time.parse().ok()).collect();
    // The time of the server that took the tasks. A token is older by the way of the call, and an estimate, in a cluster of another
    // node's clock.
    let asked_at = DateTime::from_timestamp_nanos(token.0);
    let taken_at = times.first().copied().flatten().map_or(asked_at, DateTime::from_timestamp_nanos);
    let mut number = || parts.next().and_then(|part| reply::number(&part)).unwrap_or_default();
    let (passed, is_all_passed) = (number(), number() == 1);
    let (mut runs, mut long, mut bytes) = (Vec::with_capacity(tasks.len() / 2), Vec::new(), 0);
    let mut tasks = tasks.into_iter();
    while let (Some(id), Some(raw)) = (tasks.next(), tasks.next()) {
        let is_long = raw == Value::Nil;
        let raw = if is_long { Some(Vec::new()) } else { reply::bytes(raw) };
        let (Some(id), Some(raw)) = (reply::text(id), raw) else {
            return Err(reply::unexpected("a task without id or message"));
        };
        if is_long {
            long.push(runs.len());
        }
        bytes += raw.len();
        let key = RunKey { queue: queue.clone(), id: TaskId::from_wire(&id), token: *token, server, row: 0 };
        let message = read_message(raw.into(), &id, queue);
        runs.push(Run {
            key,
            message,
            crashes: 0,
            extra: Extra::default(),
            waited: None,
            asked: *at,
            asked_at,
            taken_at,
        });
    }
    let mut facts = facts.into_iter();
    while let (Some(place), Some(crashes), Some(extra)) = (facts.next(), facts.next(), facts.next()) {
        let place: usize = reply::count(&place).unwrap_or_default();
        if let Some(run) = runs.get_mut(place.wrapping_sub(1)) {
            run.crashes = reply::count(&crashes).unwrap_or_default();
            run.extra = reply::extra(extra);
        }
    }
    // With another number of moments, a foreign one has spaces in it, and none can be assigned to its run.
    if let Some((&now, since)) = times.split_first().filter(|(_, since)| since.len() == runs.len()) {
        runs.iter_mut().zip(since).for_each(|(run, &since)| run.waited = waited(since, now));
    }
    Ok(TakenTasks { runs, long, bytes, passed, is_all_passed })
}

/// Returns the time between two moments in nanoseconds, if both are known. Go writes the first by its own clock, which
/// may be ahead.
fn waited(since: Option<i64>, now: Option<i64>) -> Option<Duration> {
    let (since, now) = (since.filter(|&since| since > 0)?, now?);
    Some(Duration::from_nanos(u64::try_from(now.saturating_sub(since)).unwrap_or(0)))
}

/// Decodes a message. Returns the bytes with the reason if it cannot be decoded, or if its id or queue is not that of
/// the key where it lay.
pub(in crate::broker::redis) fn read_message(
    raw: Bytes,
    id: &str,
    queue: &QueueName,
) -> Result<TaskMessage, UndecodableMessage> {
    let message = TaskMessage::decode(raw.clone())?;
    let reason = if message.id != id {
        format!("it lay under the id {id:?} but is of task {:?}", message.id)
    } else if *queue != message.queue.as_str() {
        format!("it lay in queue {:?} but is of queue {:?}", queue.as_str(), message.queue)
    } else {
        return Ok(message);
    };
    Err(UndecodableMessage { raw, reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::RunToken;

    #[test]
    fn a_message_counts_only_where_it_belongs() {
        let queue = QueueName::from_wire("q");
        let message = TaskMessage { id: "a".into(), queue: "q".into(), r#type: "t".into(), ..Default::default() };
        let raw = Bytes::from(message.encode());
        assert_eq!(read_message(raw.clone(), "a", &queue), Ok(message));
        assert!(read_message(raw.clone(), "b", &queue).unwrap_err().reason.contains("\"b\""));
        let other = QueueName::from_wire("other");
        assert!(read_message(raw, "a", &other).unwrap_err().reason.contains("other"));
        let broken = Bytes::from_static(b"\xff\xff\xff");
        assert_eq!(read_message(broken.clone(), "a", &queue).unwrap_err().raw, broken);
    }

    #[test]
    fn a_run_was_taken_at_the_time_of_redis() {
        let request = DequeueRequest::new(QueueName::from_wire("q"), RunToken(1));
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        for (since, expected) in [("1893553450000000000 1893553449000000000", 1_893_553_450_000_000_000), ("", 1)] {
            let tasks = Value::Array(vec![text("a"), text("")]);
            let value = Value::Array(vec![tasks, Value::Array(Vec::new()), text(since)]);
            let taken = read_answer(value, &request, 0).unwrap();
            assert_eq!(taken.runs[0].taken_at, DateTime::from_timestamp_nanos(expected), "{since}");
        }
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_an_error_and_not_a_panic() {
        let request = DequeueRequest::new(QueueName::from_wire("q"), RunToken(1));
        let lists = |tasks: Vec<Value>| Value::Array(vec![Value::Array(tasks), Value::Array(Vec::new())]);
        for value in [Value::Int(1), lists(vec![Value::Nil, Value::Nil])] {
            assert!(read_answer(value, &request, 0).is_err());
        }
    }
}
