//! Parses durations, instants and options of Go, as the golden files quote them.

use std::time::Duration;

use asynq_runtime::RawTask;
use chrono::{DateTime, NaiveDateTime, Utc};
use serde_json::Value as Json;

use crate::wire::golden::raw;

/// Parses `1h30m`, `1.5s` or `+3s`.
pub(crate) fn duration(text: &str) -> Duration {
    let (mut total, mut number) = (Duration::ZERO, String::new());
    // Go writes durations below one second in milliseconds.
    if let Some(ms) = text.strip_suffix("ms") {
        return Duration::from_millis(ms.parse().unwrap());
    }
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
    assert!(number.is_empty(), "{text} is not a duration");
    total
}

/// Parses RFC 3339, or `+3s` as a distance from `now`.
pub(crate) fn instant(text: &str, now: DateTime<Utc>) -> DateTime<Utc> {
    match text.strip_prefix('+') {
        Some(later) => now + duration(later),
        None => DateTime::parse_from_rfc3339(text).unwrap().to_utc(),
    }
}

/// The task of a `Client.Enqueue` call, as a caller of our client builds it.
pub(crate) fn raw_task(call: &Json) -> RawTask {
    let name = call["type"].as_str().unwrap_or_default();
    let nil = call["payload_is_nil"].as_bool().unwrap_or(call["payload"].is_null());
    let mut task = if nil { RawTask::without_payload(name) } else { RawTask::new(name, raw(&call["payload"])) };
    for (key, value) in call["headers"].as_object().into_iter().flatten() {
        task = task.header(key, value.as_str().unwrap());
    }
    for option in call["options"].as_array().into_iter().flatten() {
        let option = option.as_str().unwrap();
        let (name, argument) = option.strip_suffix(')').and_then(|option| option.split_once('(')).unwrap();
        let quoted = || serde_json::from_str::<String>(argument).unwrap();
        let date = || NaiveDateTime::parse_from_str(argument, "%a %b %e %H:%M:%S UTC %Y").unwrap().and_utc();
        task = match name {
            "TaskID" => task.task_id(quoted()),
            "Queue" => task.queue(quoted()),
            "MaxRetry" => task.retry(argument.parse().unwrap()),
            "Timeout" => task.timeout(duration(argument)),
            "Deadline" => task.deadline(date()),
            "Retention" => task.retention(duration(argument)),
            "ProcessIn" => task.process_in(duration(argument)),
            "ProcessAt" => task.process_at(date()),
            "Unique" => task.unique(duration(argument)),
            "Group" => task.group(quoted()),
            "Header" => {
                let (key, value): (String, String) = serde_json::from_str(argument).unwrap();
                task.header(key, value)
            }
            // An option at the call overrides this one.
            "task-level MaxRetry" => task,
            other => panic!("{other} is not an option that is replayed here"),
        };
    }
    task
}
