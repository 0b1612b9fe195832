//! Compares two states of Redis: one line per difference, without our own keys and fields.

use std::{collections::BTreeMap, time::Duration};

use asynq_runtime::task::{SchedulerEnqueueEvent, SchedulerEntry, ServerInfo, TaskMessage, WorkerInfo};
use asynq_tests::{Dumped, Value};
use bytes::Bytes;

use crate::wire::deviations;

/// Fields of a task that only our programs write.
const OWN_FIELDS: [&str; 8] = ["last", "crashes", "crashes_retried", "x", "progress", "cancel", "move", "fails"];

/// Keys with their data.
type Dump = BTreeMap<String, Dumped>;

/// The parts that differ between two runs of Go itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Volatile {
    /// Only the end of keys by Redis's own clock: the client's clock was pinned.
    Nothing,
    /// Enqueue times: the client's clock was real.
    EnqueueTime,
    /// Enqueue times and all scores.
    Scores,
    /// Every time, and dates in keys: the whole server's clock was real.
    Times,
}

/// The part of a scenario that is compared.
#[derive(Clone, Copy)]
pub(crate) struct Compared<'a> {
    pub scenario: &'a str,
    /// The name of the dump, if it was taken between the calls.
    pub step: Option<&'a str>,
    pub volatile: Volatile,
}

/// Every difference, as a line with the place and both sides.
pub(crate) fn differences(compared: Compared<'_>, go: &Dump, (mut ours, elapsed): (Dump, Duration)) -> Vec<String> {
    forget_ageing(compared, go, &mut ours, elapsed);
    let (go, ours) = (flatten(go, compared.volatile), flatten(&ours, compared.volatile));
    let mut lines = Vec::new();
    for (place, theirs) in &go {
        match ours.get(place) {
            None => lines.push(format!("{place}: only Go has {theirs}")),
            Some(own) if theirs != own => lines.push(format!("{place}: Go has {theirs}, we have {own}")),
            Some(_) => {}
        }
    }
    let added = ours.iter().filter(|(place, _)| !go.contains_key(*place));
    lines.extend(added.map(|(place, own)| format!("{place}: only we have {own}")));
    match compared.step {
        Some(step) => lines.into_iter().map(|line| format!("{step}: {line}")).collect(),
        None => lines,
    }
}

/// Sets a time-to-live of ours back to its first value, where the present value may be the rest of that after at most
/// `elapsed`, and restores a key that may have expired. The first value is Go's, or the one in deviations.rs.
fn forget_ageing(compared: Compared<'_>, go: &Dump, ours: &mut Dump, elapsed: Duration) {
    let elapsed = elapsed.as_millis() as i64;
    // Go's own dump of a server's scenario was made some seconds after its writes.
    let slack = if compared.volatile == Volatile::Times { 10_000 } else { 0 };
    let same = |a: &str, b: &str| a == b || without_date(a) == without_date(b);
    for (key, theirs) in go.iter().filter(|(_, theirs)| theirs.pttl >= 0) {
        if ours.keys().all(|own| !same(own, key)) && theirs.pttl <= elapsed {
            ours.insert(key.clone(), theirs.clone());
        }
    }
    for (key, own) in ours.iter_mut().filter(|(_, own)| own.pttl >= 0) {
        let as_go = || go.iter().find(|(theirs, _)| same(theirs, key)).map(|(_, theirs)| theirs.pttl);
        let set = deviations::seconds_of_ours(compared, key).map(|seconds| seconds * 1000).or_else(as_go);
        if let Some(set) = set.filter(|set| (own.pttl - slack..=own.pttl + elapsed + slack).contains(set)) {
            own.pttl = set;
        }
    }
}

/// Places and their values, as readable text.
fn flatten(dump: &Dump, volatile: Volatile) -> BTreeMap<String, String> {
    let mut places = BTreeMap::new();
    for (key, dumped) in dump.iter().filter(|(key, _)| !key.contains("}:x:") && !key.starts_with("asynq:x:")) {
        let task = key.contains("}:t:");
        let key = if volatile == Volatile::Times { without_date(key) } else { without_set_id(key) };
        match &dumped.value {
            Value::String(value) => drop(places.insert(key.clone(), string(&key, value))),
            Value::List(items) | Value::Set(items) => {
                let items: Vec<_> = items.iter().map(|item| listed(&key, item)).collect();
                places.insert(key.clone(), items.join(" "));
            }
            Value::Zset(members) => {
                for (member, score) in members {
                    let joined = volatile == Volatile::EnqueueTime && key.contains("}:g:");
                    let masked = joined || matches!(volatile, Volatile::Scores | Volatile::Times);
                    let score = if masked { "<score>" } else { score };
                    places.insert(format!("{key} {}", without_set_id(&listed(&key, member))), score.to_owned());
                }
            }
            Value::Hash(fields) => {
                for (field, value) in fields {
                    let field = readable(field);
                    if task && is_ours(&field, fields) {
                        continue;
                    }
                    let value = if field == "msg" {
                        message(value, volatile)
                    } else {
                        field_text(&key, &field, value, volatile)
                    };
                    places.insert(format!("{key} {field}"), value);
                }
            }
        }
        if dumped.expire_at > 1_890_000_000 {
            places.insert(format!("{key} ttl"), format!("ends at {}", dumped.expire_at));
        } else if dumped.pttl >= 0 {
            places.insert(format!("{key} ttl"), format!("ends in {}", (dumped.pttl + 999) / 1000));
        }
    }
    places
}

/// Our own fields, and the run token that replaces the enqueue time of an active task.
fn is_ours(field: &str, fields: &BTreeMap<Vec<u8>, Vec<u8>>) -> bool {
    let active = fields.get(&b"state"[..]).is_some_and(|state| state == b"active");
    let failure = field.len() == 2 && field.starts_with('e') && field.ends_with(|c: char| c.is_ascii_digit());
    failure || OWN_FIELDS.contains(&field) || (field == "pending_since" && active)
}

fn without_date(key: &str) -> String {
    let date = |tail: &str| tail.len() == 10 && tail.bytes().all(|c| c.is_ascii_digit() || c == b'-');
    match key.rsplit_once(':') {
        Some((head, tail)) if date(tail) => format!("{head}:<date>"),
        _ => key.to_owned(),
    }
}

/// Removes the id of a set, which is random.
fn without_set_id(key: &str) -> String {
    let is_id = |tail: &str| tail.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    match key.rsplit_once(':') {
        Some((head, tail)) if head.contains("}:g:") && is_id(tail) => format!("{head}:<set>"),
        _ => key.to_owned(),
    }
}

fn readable(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap_or_else(|_| format!("{bytes:02x?}"))
}

/// A member of a list, set or sorted set.
fn listed(key: &str, bytes: &[u8]) -> String {
    if key.starts_with("asynq:schedulers:{") {
        return proto::<SchedulerEntry>(bytes);
    }
    if key.starts_with("asynq:scheduler_history:") {
        return proto::<SchedulerEnqueueEvent>(bytes);
    }
    readable(bytes)
}

fn string(key: &str, value: &[u8]) -> String {
    if key.starts_with("asynq:servers:{") {
        return proto::<ServerInfo>(value);
    }
    readable(value)
}

fn field_text(key: &str, field: &str, value: &[u8], volatile: Volatile) -> String {
    if key.starts_with("asynq:workers:{") {
        return proto::<WorkerInfo>(value);
    }
    if field == "pending_since" && volatile != Volatile::Nothing {
        let text = readable(value);
        assert!(text.len() == 19 && text.parse::<i64>().is_ok(), "{text} is not a time in nanoseconds");
        return "<ns>".into();
    }
    readable(value)
}

/// Decoded, for a reader; equal text means equal bytes, because encoding it again gives the same bytes.
fn proto<M: prost::Message + Default + std::fmt::Debug>(raw: &[u8]) -> String {
    let decoded = M::decode(raw).unwrap();
    assert_eq!(decoded.encode_to_vec(), raw, "a message that we read is written as Go wrote it");
    format!("{decoded:?}")
}

/// The fields of a message that are set. Headers are sorted: Go writes its map in random order.
fn message(raw: &[u8], volatile: Volatile) -> String {
    let mut m = TaskMessage::decode(Bytes::copy_from_slice(raw)).unwrap();
    assert_eq!(m.encode(), raw, "a message that we read is written as Go wrote it");
    m.headers.sort_by(|a, b| a.key.cmp(&b.key));
    if volatile == Volatile::Times {
        m.last_failed_at = m.last_failed_at.min(1);
        m.completed_at = m.completed_at.min(1);
    }
    let headers: Vec<_> = m.headers.iter().map(|h| format!("{:?}={:?}", h.key, h.value)).collect();
    let numbers = [
        ("retry", i64::from(m.retry)),
        ("retried", m.retried.into()),
        ("timeout", m.timeout),
        ("deadline", m.deadline),
        ("last_failed_at", m.last_failed_at),
        ("retention", m.retention),
        ("completed_at", m.completed_at),
    ];
    let numbers = numbers.into_iter().filter(|(_, n)| *n != 0).map(|(name, n)| format!("{name}={n}"));
    let texts = [
        ("type", m.r#type),
        ("payload", readable(&m.payload)),
        ("id", m.id),
        ("queue", m.queue),
        ("error_msg", m.error_msg),
        ("unique_key", m.unique_key),
        ("group_key", m.group_key),
        ("headers", headers.join(",")),
    ];
    let texts = texts.into_iter().filter(|(_, text)| !text.is_empty()).map(|(name, text)| format!("{name}={text:?}"));
    texts.chain(numbers).collect::<Vec<_>>().join(" ")
}
