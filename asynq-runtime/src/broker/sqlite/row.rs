//! Makes tasks from rows: a column replaces the same fact in the stored message, because only columns change.

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use rusqlite::{
    Row,
    types::{FromSql, FromSqlError, FromSqlResult, ValueRef},
};

use super::{error::is_damaged, sql, tx::View};
use crate::task::{Extra, Progress, QueueName, TaskId, TaskInfo, TaskMessage, TaskState, UndecodableMessage};

/// Facts of a task that may have changed since its message was stored.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Facts {
    pub(super) retried: i64,
    pub(super) err: Option<String>,
    /// Unix milliseconds.
    pub(super) failed_at: Option<i64>,
    /// Unix milliseconds.
    pub(super) completed_at: Option<i64>,
}

/// Returns the message of the task `id` in `queue` as it is now.
///
/// # Errors
///
/// The bytes are not a message, or are the message of another task.
pub(super) fn message(
    raw: Bytes,
    queue: &QueueName,
    id: &TaskId,
    facts: &Facts,
) -> Result<TaskMessage, UndecodableMessage> {
    let mut message = TaskMessage::decode(raw.clone())?;
    for (field, found, expected) in [("id", &message.id, id.as_str()), ("queue", &message.queue, queue.as_str())] {
        if found != expected {
            return Err(UndecodableMessage {
                raw,
                reason: format!("its {field} is {found:?}, but it lay under {expected:?}"),
            });
        }
    }
    message.retried = i32::try_from(facts.retried).unwrap_or(i32::MAX);
    if let Some(err) = &facts.err {
        message.error_msg.clone_from(err);
    }
    if let Some(failed_at) = facts.failed_at {
        message.last_failed_at = failed_at.div_euclid(1_000);
    }
    if let Some(completed_at) = facts.completed_at {
        message.completed_at = completed_at.div_euclid(1_000);
    }
    Ok(message)
}

/// A text of which other programs may have stored the bytes: what is not UTF-8 is replaced, because it must stop nothing.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) text: String,
    /// Whether it was UTF-8.
    pub(super) is_sound: bool,
}

impl FromSql for Text {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let ValueRef::Text(bytes) = value else { return Err(FromSqlError::InvalidType) };
        let text = String::from_utf8_lossy(bytes);
        let is_sound = matches!(text, Cow::Borrowed(_));
        Ok(Self { text: text.into_owned(), is_sound })
    }
}

/// Returns the text of a column, as [`Text`] reads it.
pub(super) fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(row.get::<_, Text>(column)?.text)
}

/// Returns the text of a column that may be NULL, as [`Text`] reads it.
pub(super) fn text_or_null(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    Ok(row.get::<_, Option<Text>>(column)?.map(|text| text.text))
}

/// Returns the extra facts of a column that may be NULL.
pub(super) fn extra(row: &Row<'_>, column: usize) -> rusqlite::Result<Extra> {
    Ok(row.get_ref(column)?.as_blob_or_null()?.map(Extra::from_bytes).unwrap_or_default())
}

/// Reads the task of a row of [`sql::inspect::TASK`] and, in the same snapshot of the file, its body; returns the length of message and
/// result, too. `None` stands for a task whose message cannot be read. A task that was archived because its message is lost is shown
/// all the same, with another in its place.
pub(super) fn task_info(
    view: &View<'_>,
    queue: &QueueName,
    row: &Row<'_>,
) -> rusqlite::Result<(Option<TaskInfo>, usize)> {
    let body = view.find(&sql::body::SHOWN, [row.get::<_, i64>(11)?], |row| Ok((row.get(0)?, row.get(1)?)));
    let (msg, result): (Option<Vec<u8>>, Option<Vec<u8>>) = match body {
        Err(error) if is_damaged(&error) => (None, None),
        body => body?.unwrap_or_default(),
    };
    let bytes = [&msg, &result].into_iter().flatten().map(Vec::len).sum();
    let Some(state) = TaskState::from_number(row.get(0)?) else { return Ok((None, bytes)) };
    let (at, id, extra) = (row.get::<_, i64>(1)?, TaskId::from_wire(&text(row, 2)?), extra(row, 10)?);
    let retention: i64 = row.get(7)?;
    let completed_at = (state == TaskState::Completed).then(|| at.saturating_sub(retention.saturating_mul(1_000)));
    let facts = Facts { retried: row.get(4)?, err: row.get(5)?, failed_at: row.get(6)?, completed_at };
    let in_its_place = || TaskMessage::in_place_of(Bytes::new(), &id, queue).encode();
    let raw = msg.or_else(|| (state == TaskState::Archived).then(in_its_place));
    let Some(Ok(message)) = raw.map(|raw| message(raw.into(), queue, &id, &facts)) else { return Ok((None, bytes)) };
    let mut info = TaskInfo::from_message(&message, state);
    (info.ending, info.expires) = (extra.ending().of(state), extra.expires());
    info.crashes = u32::try_from(row.get::<_, i64>(3)?).unwrap_or(0);
    info.last_failed_at = facts.failed_at.map(instant).or(info.last_failed_at);
    info.completed_at = completed_at.map(instant).or(info.completed_at);
    info.next_process_at = match state {
        TaskState::Scheduled | TaskState::Retry => Some(instant(at)),
        TaskState::Pending => Some(instant(view.now)),
        _ => None,
    };
    info.lease_until = (state == TaskState::Active).then(|| instant(at));
    info.archived_at = (state == TaskState::Archived).then(|| instant(at));
    info.result = result.map(Bytes::from);
    let note: Option<String> = row.get(9)?;
    let reported = row.get::<_, Option<f64>>(8)?.filter(|_| state == TaskState::Active);
    info.progress = reported.map(|fraction| Progress::new(fraction, note.unwrap_or_default()));
    Ok((Some(info), bytes))
}

/// Returns a number of rows as SQLite takes it; a number beyond the range of `i64` becomes its largest.
pub(super) fn limit_of(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Returns the instant of Unix milliseconds; those outside chrono's range become its ends.
pub(super) fn instant(ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(ms).unwrap_or(if ms < 0 {
        DateTime::<Utc>::MIN_UTC
    } else {
        DateTime::<Utc>::MAX_UTC
    })
}

/// Returns `now` plus `delay` in Unix milliseconds, rounded up. The delay is limited to 292 years, as on Redis: RFC 3339 cannot write a
/// year of five digits.
pub(super) fn after(now: i64, delay: Duration) -> i64 {
    let delay = delay.min(asynq_grammar::duration::MAX);
    let ms = i64::try_from(delay.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX);
    now.saturating_add(ms).min(DateTime::<Utc>::MAX_UTC.timestamp_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(change: impl FnOnce(&mut TaskMessage)) -> Bytes {
        let mut message = TaskMessage {
            r#type: "mail".into(),
            id: "a".into(),
            queue: "q".into(),
            retried: 1,
            error_msg: "old".into(),
            last_failed_at: 5,
            ..TaskMessage::default()
        };
        change(&mut message);
        message.encode().into()
    }

    fn read(raw: Bytes, facts: &Facts) -> Result<TaskMessage, UndecodableMessage> {
        message(raw, &QueueName::from_wire("q"), &TaskId::from_wire("a"), facts)
    }

    #[test]
    fn columns_replace_the_fields_of_the_message() {
        let same = read(stored(|_| {}), &Facts { retried: 1, ..Facts::default() }).unwrap();
        assert_eq!((same.retried, same.error_msg.as_str(), same.last_failed_at), (1, "old", 5));
        let facts = Facts { retried: 3, err: Some("new".into()), failed_at: Some(7_999), completed_at: Some(9_000) };
        let newer = read(stored(|_| {}), &facts).unwrap();
        assert_eq!(newer.retried, 3);
        assert_eq!(newer.error_msg, "new");
        assert_eq!(newer.last_failed_at, 7);
        assert_eq!(newer.completed_at, 9);
        assert_eq!(newer.r#type, "mail");
        let many = read(stored(|_| {}), &Facts { retried: i64::MAX, ..Facts::default() }).unwrap();
        assert_eq!(many.retried, i32::MAX);
    }

    #[test]
    fn bytes_that_are_not_a_message_of_this_task_stay_unchanged() {
        for (raw, reason) in [
            (Bytes::from_static(b"\xff\xff\xff"), "invalid"),
            (stored(|message| message.id = "b".into()), "its id is \"b\""),
            (stored(|message| message.queue = "r".into()), "its queue is \"r\""),
        ] {
            let error = read(raw.clone(), &Facts::default()).unwrap_err();
            assert_eq!(error.raw, raw);
            assert!(error.reason.contains(reason), "{}", error.reason);
        }
    }

    #[test]
    fn delays_are_rounded_up_to_the_millisecond_and_never_overflow() {
        assert_eq!(after(10, Duration::from_micros(1)), 11);
        assert_eq!(after(10, Duration::from_millis(5)), 15);
        assert_eq!(after(10, Duration::MAX), 9_223_372_036_010);
        let end = after(i64::MAX, Duration::from_secs(1));
        assert_eq!(instant(end).timestamp_millis(), end);
        assert_eq!(instant(i64::MAX), DateTime::<Utc>::MAX_UTC);
    }
}
