//! Fires ticks: one script decides and enqueues a tick of an entry.

use std::time::Duration;

use chrono::DateTime;
use redis::Value;

use crate::{
    broker::{
        BrokerError, Overlap, Placed, Refused, Tick, Ticked, corrupt,
        redis::{
            item::Item,
            keys::Keys,
            maintain::GO_GRACE,
            reply,
            script::{Call, TICK},
            span::whole_seconds,
        },
    },
    task::TaskState,
};

pub(super) fn call(tick: &Tick, now: &str) -> Call {
    let plan = &tick.plan;
    let item = Item::new(tick.task.clone());
    let keys = Keys::new(&plan.queue);
    let at = tick.at.timestamp();
    let mut names = keys.places();
    names.extend([keys.cron(&plan.entry), keys.fired(&plan.entry, at), keys.task(item.id.as_str())]);
    let (lock, lock_seconds) = item.lock.unwrap_or_default();
    names.extend(Some(&lock).filter(|lock| !lock.is_empty()).cloned());
    names.extend(item.group.as_ref().map(|group| keys.group(group)));
    TICK.on(&names)
        .arg(now)
        .arg(keys.prefix())
        .arg(at)
        .arg(&plan.spec)
        .arg(&plan.zone)
        .arg(plan.revision)
        .arg(whole_seconds(plan.keep).max(1))
        .arg(whole_seconds(tick.marker).max(1))
        .arg(word(tick.overlap))
        .arg(GO_GRACE.as_secs())
        .arg(item.id.as_str())
        .arg(&item.message)
        .arg(&item.when)
        .arg(lock)
        .arg(lock_seconds)
        .arg(&item.extra)
        .arg(item.group.as_ref().map_or("", |group| group.as_str()))
        .optional(tick.known.map(|known| known.timestamp_millis()))
}

fn word(overlap: Overlap) -> &'static str {
    match overlap {
        Overlap::Allow => "allow",
        Overlap::Skip => "skip",
        Overlap::Replace => "replace",
    }
}

pub(super) fn read_ticked(answer: Value, tick: &Tick) -> Result<Ticked, BrokerError> {
    let mut parts = reply::array(answer)?.into_iter();
    let mut next = || parts.next().and_then(reply::text).unwrap_or_default();
    let (code, detail) = (next(), next());
    match code.as_str() {
        "o" => {
            let state = match detail.as_str() {
                "p" => TaskState::Pending,
                "s" => TaskState::Scheduled,
                "g" => TaskState::Aggregating,
                _ => return Err(reply::unexpected("an unknown state")),
            };
            let due = next().parse().ok().and_then(DateTime::from_timestamp_millis);
            let process_at = due.ok_or_else(|| reply::unexpected("no due time"))?;
            Ok(Ticked::Enqueued(Placed { state, process_at, replaced: None }))
        }
        "e" => {
            let left = detail.parse().map_err(|_| reply::unexpected("no time left"))?;
            Ok(Ticked::Early(Duration::from_millis(left)))
        }
        "s" => Ok(Ticked::Stale),
        "b" => Ok(Ticked::Behind),
        "p" => Ok(Ticked::Paused),
        "d" => {
            if detail == "back" {
                log!(warn, entry = %tick.plan.entry, "the clock of Redis went back: the entry goes on from now");
            }
            Ok(Ticked::Duplicate)
        }
        "k" => reply::id(detail).map(Ticked::Skipped).ok_or_else(|| reply::unexpected("no id")),
        "c" => Ok(Ticked::Refused(Refused::IdConflict)),
        "u" => Ok(Ticked::Refused(Refused::Duplicate { holder: reply::id(detail) })),
        "w" => Err(corrupt(format!(
            "the key {detail} holds something else than asynq writes there; entry {} does not fire until it is moved away",
            tick.plan.entry
        ))),
        _ => Err(reply::unexpected("an unknown outcome")),
    }
}

#[cfg(test)]
mod tests {
    use chrono::Utc;

    use super::*;
    use crate::{
        broker::{BrokerErrorKind, EntryId, EntryPlan, NewTask, When},
        task::{Extra, QueueName, TaskMessage},
    };

    fn tick() -> Tick {
        let (queue, entry) = (QueueName::from_wire("q"), EntryId::from_wire("e"));
        let plan = EntryPlan {
            queue: queue.clone(),
            entry: entry.clone(),
            spec: "@daily".into(),
            zone: "UTC".into(),
            revision: 1,
            supersedes: None,
            keep: Duration::ZERO,
        };
        let task = NewTask {
            message: TaskMessage::default(),
            queue,
            id: entry.task_id(DateTime::<Utc>::UNIX_EPOCH),
            id_is_ours: true,
            when: When::Now,
            unique: None,
            replaces: None,
            group: None,
            extra: Extra::default(),
        };
        let at = DateTime::<Utc>::UNIX_EPOCH;
        Tick { plan, at, marker: Duration::ZERO, known: None, overlap: Overlap::Allow, task }
    }

    #[test]
    fn each_code_of_the_script_is_one_answer() {
        let tick = tick();
        let read = |parts: &[&str]| {
            read_ticked(Value::Array(parts.iter().map(|part| Value::BulkString((*part).into())).collect()), &tick)
        };
        let cases: [(&[&str], &str); 11] = [
            (&["o", "p", "0"], "Enqueued(Placed { state: Pending, process_at: 1970-01-01T00:00:00Z, replaced: None })"),
            (
                &["o", "s", "7"],
                "Enqueued(Placed { state: Scheduled, process_at: 1970-01-01T00:00:00.007Z, replaced: None })",
            ),
            (
                &["o", "g", "0"],
                "Enqueued(Placed { state: Aggregating, process_at: 1970-01-01T00:00:00Z, replaced: None })",
            ),
            (&["e", "1500"], "Early(1.5s)"),
            (&["s", ""], "Stale"),
            (&["b", ""], "Behind"),
            (&["p", ""], "Paused"),
            (&["d", "back"], "Duplicate"),
            (&["k", "x"], "Skipped(\"x\")"),
            (&["c", ""], "Refused(the task id is taken in this queue)"),
            (&["u", ""], "Refused(an equal task already holds the unique lock)"),
        ];
        for (answer, ticked) in cases {
            assert_eq!(format!("{:?}", read(answer).unwrap()), ticked);
        }
        assert_eq!(read(&["w", "some:key"]).unwrap_err().kind(), BrokerErrorKind::Corrupt);
        for answer in [&["?", ""][..], &["k", ""], &["e", "soon"], &["o", "?", "0"], &["o", "p"], &[]] {
            assert_eq!(read(answer).unwrap_err().kind(), BrokerErrorKind::Unexpected, "{answer:?}");
        }
    }
}
