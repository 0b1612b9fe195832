//! Go's ways to write durations, instants and options, as the golden files quote them.

use std::time::Duration;

use asynq_runtime::{
    broker::{NewTask, UniqueLock, When},
    task::Header,
};
use asynq_tests::{Build as _, queue, task, task_id};
use chrono::{DateTime, NaiveDateTime, Utc};
use serde_json::Value as Json;

use crate::golden::{Scenario, raw};

/// `1h30m`, `1.5s`, `+3s`.
pub(crate) fn duration(text: &str) -> Duration {
    let (mut total, mut number) = (Duration::ZERO, String::new());
    for c in text.trim_start_matches('+').chars() {
        let seconds = match c {
            'h' => 3600.0,
            'm' => 60.0,
            's' => 1.0,
            _ => {
                number.push(c);
                continue;
            }
        };
        total += Duration::from_secs_f64(std::mem::take(&mut number).parse::<f64>().unwrap() * seconds);
    }
    assert!(number.is_empty(), "{text} is no duration");
    total
}

/// RFC 3339, or `+3s` from `now`.
pub(crate) fn instant(text: &str, now: DateTime<Utc>) -> DateTime<Utc> {
    match text.strip_prefix('+') {
        Some(later) => now + duration(later),
        None => DateTime::parse_from_rfc3339(text).unwrap().to_utc(),
    }
}

/// The task that Go's client makes of a `Client.Enqueue` call.
pub(crate) fn client_task(scenario: &Scenario, call: &Json) -> NewTask {
    let mut new = task("none");
    new.message.r#type = call["type"].as_str().unwrap_or_default().into();
    new = new.with_payload(raw(&call["payload"]));
    for (key, value) in call["headers"].as_object().into_iter().flatten() {
        new = new.with_header(key, value.as_str().unwrap());
    }
    let mut unique = None;
    for option in call["options"].as_array().into_iter().flatten() {
        let option = option.as_str().unwrap();
        let (name, argument) = option.strip_suffix(')').and_then(|option| option.split_once('(')).unwrap();
        let quoted = || serde_json::from_str::<String>(argument).unwrap();
        let date = || NaiveDateTime::parse_from_str(argument, "%a %b %e %H:%M:%S UTC %Y").unwrap().and_utc();
        match name {
            "TaskID" => {
                new.id = task_id(&quoted());
                new.message.id = quoted();
            }
            "Queue" => {
                new.queue = queue(&quoted());
                new.message.queue = quoted();
            }
            "MaxRetry" => new.message.retry = argument.parse().unwrap(),
            "Timeout" => new.message.timeout = duration(argument).as_secs() as i64,
            "Deadline" => new.message.deadline = date().timestamp(),
            "Retention" => new.message.retention = duration(argument).as_secs() as i64,
            "ProcessIn" => new.when = When::In(duration(argument)),
            "ProcessAt" => new.when = When::At(date()),
            "Unique" => unique = Some(duration(argument)),
            "Group" => new.message.group_key = quoted(),
            "Header" => {
                let (key, value): (String, String) = serde_json::from_str(argument).unwrap();
                new.message.headers.retain(|header| header.key.as_ref() != Some(&key));
                new.message.headers.push(Header::new(key, value));
            }
            // What an option at the call overrides.
            "task-level MaxRetry" => {}
            other => panic!("{other} is no option that is replayed here"),
        }
    }
    if let Some(ttl) = unique {
        let prefix = format!("asynq:{{{}}}:unique:{}:", new.queue, new.message.r#type);
        let lock = |key: &&String| key.starts_with(&prefix);
        let hash = scenario.end.keys().find(lock).cloned();
        let key = hash.or_else(|| scenario.message(new.id.as_str()).map(|message| message.unique_key));
        let key = key.unwrap_or_else(|| panic!("{}: no key begins with {prefix}", scenario.name));
        new.message.unique_key.clone_from(&key);
        new.unique = Some(UniqueLock { key, ttl: Duration::from_secs(ttl.as_secs()) });
    }
    new
}
