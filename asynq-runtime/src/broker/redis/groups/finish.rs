//! Ends a set with all its outcomes, in one script.

use redis::Value;

use super::{
    super::{
        item::Item,
        keys::Keys,
        reply,
        script::{Call, FINISH},
        settle::lock,
    },
    RECEIPT_TTL,
};
use crate::{
    broker::{Refused, SetError, SetOutcome, TaskSet, corrupt},
    task::TaskId,
};

/// Returns the call that ends `set`, with new tasks of its queue.
pub(super) fn call(set: &TaskSet, outcome: &SetOutcome, given: &str) -> Call {
    let keys = Keys::new(&set.queue);
    let made: Vec<Item> = outcome.made.iter().cloned().map(Item::new).collect();
    let mut names = vec![
        keys.sets(),
        keys.set(&set.group, &set.id),
        keys.ended(&set.id),
        keys.pending(),
        keys.scheduled(),
        keys.due(),
        keys.groups(),
    ];
    names.extend(made.iter().map(|item| keys.task(item.id.as_str())));
    let mut next_lock = names.len();
    names.extend(made.iter().filter_map(|item| item.lock.as_ref().map(|(key, _)| key.clone())));
    names.extend(made.iter().filter_map(|item| item.group.as_ref().map(|group| keys.group(group))));

    let locks: Vec<(&TaskId, &str)> = set
        .members
        .iter()
        .filter_map(|member| Some((&member.id, lock(member.message.as_ref().ok()?, &keys))))
        .filter(|(_, key)| !key.is_empty())
        .collect();

    let mut call = FINISH
        .on(&names)
        .arg(given)
        .arg(keys.prefix())
        .arg(i32::from(outcome.resend))
        .arg(RECEIPT_TTL.as_secs())
        .arg(made.len())
        .arg(outcome.alone.len())
        .arg(locks.len());
    for item in &made {
        call.push(item.id.as_str());
        call.push(&item.message);
        call.push(&item.when);
        next_lock += usize::from(item.lock.is_some());
        call.push(if item.lock.is_some() { next_lock } else { 0 });
        call.push(item.lock.as_ref().map_or(0, |(_, seconds)| *seconds));
        call.push(&item.extra);
        call.push(item.group.as_ref().map_or("", |group| group.as_str()));
    }
    for id in &outcome.alone {
        call.push(id.as_str());
    }
    for (id, key) in locks {
        call.push(id.as_str());
        call.push(key);
    }
    call
}

pub(super) fn read_end(value: Value, set: &TaskSet) -> Result<(), SetError> {
    let mut parts = reply::array(value)?.into_iter();
    let code = parts.next().and_then(reply::text).unwrap_or_default();
    let detail = parts.next().and_then(reply::text).unwrap_or_default();
    match code.as_str() {
        "o" => Ok(()),
        "l" => Err(SetError::Lost),
        "c" => Err(Refused::IdConflict.into()),
        "d" => Err(Refused::Duplicate { holder: reply::id(detail) }.into()),
        "w" => Err(corrupt(format!(
            "the key {detail} holds something else than asynq writes there; the aggregated task of set {} waits until \
             the key is moved away",
            set.id
        ))
        .into()),
        _ => Err(reply::unexpected("an unknown outcome").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        broker::BrokerErrorKind,
        task::{GroupName, QueueName},
    };

    #[test]
    fn each_code_of_the_script_is_one_answer() {
        let set = TaskSet {
            queue: QueueName::from_wire("q"),
            group: GroupName::from_wire("g"),
            id: "S".into(),
            number: 0,
            deadline: chrono::DateTime::UNIX_EPOCH,
            members: Vec::new(),
            is_full: false,
            crashes: 0,
        };
        let read = |code: &str, detail: &str| {
            read_end(Value::Array(vec![Value::BulkString(code.into()), Value::BulkString(detail.into())]), &set)
        };
        assert!(read("o", "").is_ok());
        assert!(matches!(read("l", ""), Err(SetError::Lost)));
        assert!(matches!(read("c", "agg:S"), Err(SetError::Refused(Refused::IdConflict))));
        assert!(matches!(read("d", "x"), Err(SetError::Refused(Refused::Duplicate { holder: Some(id) })) if id == "x"));
        assert!(matches!(read("d", ""), Err(SetError::Refused(Refused::Duplicate { holder: None }))));
        for (code, kind) in [("w", BrokerErrorKind::Corrupt), ("?", BrokerErrorKind::Unexpected)] {
            assert!(matches!(read(code, "k"), Err(SetError::Refused(Refused::Broker(e))) if e.kind() == kind));
        }
    }
}
