//! Ends runs that no server holds any more, as failures.

use bytes::Bytes;
use chrono::{DateTime, Utc};

use super::{TRIES, read_changed, restless};
use crate::{
    broker::{
        BrokerError, Changed,
        redis::{RedisBroker, keys::Keys, script::END_ORPHAN, settle::day_ends},
        settle::shortened,
    },
    task::{QueueName, TaskId, TaskMessage, TaskState},
};

impl RedisBroker {
    pub(super) async fn end_lapsed(&self, queue: &QueueName, id: &TaskId, error: &str) -> Result<Changed, BrokerError> {
        let keys = Keys::new(queue);
        for _ in 0..TRIES {
            let Some((_, raw)) = self.read_for_change(&keys, id).await? else { return Ok(Changed::NotFound) };
            let now = self.clock.now();
            let (message, state) = failed(queue, id, &raw, error, now);
            let counters = [keys.processed_on(now), keys.processed(), keys.failed_on(now), keys.failed()];
            let more = [keys.task(id.as_str())].into_iter().chain(counters).chain([keys.absent()]);
            let call = self
                .on_places(&END_ORPHAN, &keys, more)
                .arg(id.as_str())
                .arg(&raw[..])
                .arg(message.encode())
                .arg(state.as_str())
                .arg(day_ends(now));
            if let Some(changed) = read_changed(self.router.change(call).await?)? {
                return Ok(changed);
            }
        }
        Err(restless(id))
    }
}

/// Returns the message after one more failure, and the state that the task goes to: retry if one is left, or else
/// archived.
fn failed(queue: &QueueName, id: &TaskId, raw: &Bytes, error: &str, now: DateTime<Utc>) -> (TaskMessage, TaskState) {
    let mut message =
        TaskMessage::decode(raw.clone()).unwrap_or_else(|bad| TaskMessage::in_place_of(bad.raw, id, queue));
    message.error_msg = shortened(error).to_owned();
    message.last_failed_at = now.timestamp();
    if message.retried < message.retry {
        message.retried += 1;
        return (message, TaskState::Retry);
    }
    (message, TaskState::Archived)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_retried_while_a_retry_is_left() {
        let now = DateTime::from_timestamp(1_700_000_000, 5).unwrap();
        for (retry, retried, after, state) in [
            (25, 0, 1, TaskState::Retry),
            (1, 0, 1, TaskState::Retry),
            (1, 1, 1, TaskState::Archived),
            (0, 0, 0, TaskState::Archived),
            (i32::MAX, i32::MAX, i32::MAX, TaskState::Archived),
        ] {
            let raw = TaskMessage { retry, retried, ..TaskMessage::default() }.encode().into();
            let (message, became) = failed(&QueueName::from_wire("q"), &TaskId::from_wire("t"), &raw, "lost", now);
            assert_eq!((message.retried, became), (after, state), "{retry} {retried}");
            assert_eq!((message.error_msg.as_str(), message.last_failed_at), ("lost", 1_700_000_000));
        }
        let raw = Bytes::from_static(b"\xff\xff");
        let (message, became) = failed(&QueueName::from_wire("q"), &TaskId::from_wire("t"), &raw, "lost", now);
        assert_eq!((message.payload, became, message.id.as_str()), (raw, TaskState::Archived, "t"));
    }
}
