use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::*;
use crate::{
    Job, JobContext, JobResult, RawTask,
    broker::When,
    job::{CodecError, JobBuilder, encode_key},
};

const NOW: DateTime<Utc> = match DateTime::from_timestamp(1_893_553_445, 678_912_345) {
    Some(now) => now,
    None => panic!("in range"),
};
const YEAR_9999: DateTime<Utc> = match DateTime::from_timestamp(253_370_764_800, 0) {
    Some(begin) => begin,
    None => panic!("in range"),
};
const LIMIT: usize = 1024;

fn new(task: impl Into<PreparedTask>) -> NewTask {
    task.into().bind(NOW, LIMIT).unwrap()
}

fn refused(task: impl Into<PreparedTask>) -> String {
    task.into().bind(NOW, LIMIT).unwrap_err().to_string()
}

fn raw() -> RawTask {
    RawTask::new("report", "abc")
}

#[derive(Serialize, Deserialize)]
struct Welcome {
    to: String,
    note: String,
}

impl Job for Welcome {
    const NAME: &'static str = "mail:welcome";
    const OPTIONS: JobOptions = JobOptions::new()
        .queue("critical")
        .retry(5)
        .timeout(Duration::from_millis(1500))
        .deadline(Duration::from_secs(3600))
        .unique(Duration::from_secs(60))
        .retention(Duration::from_secs(7200))
        .max_crashes(1);
    type Output = JobResult;

    fn unique_by(&self) -> Option<Result<bytes::Bytes, CodecError>> {
        Some(encode_key::<Self>(&(&self.to,)))
    }

    async fn run(self, _: &JobContext) -> JobResult {
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
struct Reminder {}

impl Job for Reminder {
    const NAME: &'static str = "reminder";
    const OPTIONS: JobOptions = JobOptions::new()
        .group("mails")
        .expires(Duration::from_secs(10))
        .unique(Duration::from_secs(60))
        .unique_until(UniqueUntil::Success)
        .unique_extend();
    type Output = JobResult;

    async fn run(self, _: &JobContext) -> JobResult {
        Ok(())
    }
}

fn welcome(to: &str, note: &str) -> Welcome {
    Welcome { to: to.into(), note: note.into() }
}

#[test]
fn a_task_without_options_has_asynqs_defaults() {
    let NewTask { message, queue, id, id_is_ours, when, unique, replaces, group, extra } = new(raw());
    assert_eq!(replaces, None);
    assert_eq!(group, None);
    assert_eq!((queue.as_str(), when, unique, extra), ("default", When::Now, None, Extra::default()));
    assert!(id_is_ours && id.as_str().len() == 36, "{id}");
    let expected = TaskMessage {
        r#type: "report".into(),
        payload: "abc".into(),
        id: id.to_string(),
        queue: "default".into(),
        retry: 25,
        timeout: 1800,
        ..TaskMessage::default()
    };
    assert_eq!(message, expected);
}

#[test]
fn the_options_of_a_job_hold_unless_the_builder_replaces_them() {
    let task = new(welcome("ann", "x"));
    assert_eq!((task.queue.as_str(), task.extra.max_crashes), ("critical", Some(1)));
    let message = task.message;
    assert_eq!((message.retry, message.timeout, message.retention), (5, 2, 7200));
    assert_eq!(message.deadline, 1_893_553_445 + 3600 + 1, "from the enqueue on, rounded up");

    let builder = JobBuilder::new(welcome("ann", "x"));
    let task = new(builder.queue("low").retry(0).timeout("90s").retention("1h").max_crashes(9).task_id("w-1"));
    assert_eq!((task.queue.as_str(), task.extra.max_crashes, task.id_is_ours), ("low", Some(9), false));
    assert_eq!((task.message.id.as_str(), task.message.queue.as_str()), ("w-1", "low"));
    assert_eq!((task.message.retry, task.message.timeout, task.message.retention), (0, 90, 3600));
}

#[test]
fn timeout_and_deadline_default_as_in_asynq() {
    let at = |seconds| DateTime::<Utc>::from_timestamp(seconds, 0).unwrap();
    for (task, timeout, deadline) in [
        (raw(), 1800, 0),
        (raw().timeout("5s"), 5, 0),
        (raw().timeout(Duration::from_millis(500)), 1, 0), // Go stores 0, which makes it 30 minutes
        (raw().deadline(at(2_000_000_000)), 0, 2_000_000_000),
        (raw().deadline(at(2_000_000_000) + chrono::TimeDelta::milliseconds(1)), 0, 2_000_000_001),
        (raw().timeout("5s").deadline(at(2_000_000_000)), 5, 2_000_000_000),
        (raw().deadline("90s"), 0, 1_893_553_445 + 90 + 1), // from the enqueue on
        (raw().deadline(SystemTime::UNIX_EPOCH), 0, 1),     // 0 would mean none
        (raw().deadline(YEAR_9999 - chrono::TimeDelta::seconds(1)), 0, YEAR_9999.timestamp() - 1),
        (raw().deadline(at(-5)), 0, 1),
        (raw().process_in("1h").deadline("61m"), 0, 1_893_553_445 + 3_660 + 1),
        (raw().process_at(at(5)).deadline(at(5)), 0, 5), // due in the past is due now
    ] {
        let message = new(task).message;
        assert_eq!((message.timeout, message.deadline), (timeout, deadline));
    }
}

#[test]
fn unique_keys_are_those_of_the_vectors() {
    let key = |task: RawTask| new(task.unique("60s")).unique.map(|lock| lock.key).unwrap();
    for (task, expected) in [
        (raw(), "asynq:{default}:unique:report:900150983cd24fb0d6963f7d28e17f72"), // c03
        (raw().queue("other"), "asynq:{other}:unique:report:900150983cd24fb0d6963f7d28e17f72"), // c03
        (RawTask::without_payload("cleanup"), "asynq:{default}:unique:cleanup:"),  // c04
        (RawTask::new("cleanup", ""), "asynq:{default}:unique:cleanup:d41d8cd98f00b204e9800998ecf8427e"), // c05
        (
            RawTask::new("img:resize", &b"\x00\x01\xff\xfe"[..]).queue("critical"),
            "asynq:{critical}:unique:img:resize:50d2419ec6481e50c7dc209833437157", // c02
        ),
    ] {
        assert_eq!(key(task), expected);
    }
}

#[test]
fn a_lock_is_in_the_message_and_lasts_whole_seconds() {
    let task = new(raw().unique(Duration::from_millis(1500)));
    let lock = task.unique.unwrap();
    assert_eq!((task.message.unique_key, lock.ttl), (lock.key, Duration::from_secs(2)));
    assert_eq!(new(raw()).message.unique_key, "");
    assert_eq!(new(raw().retention(Duration::from_millis(1))).message.retention, 1); // Go stores 0, which keeps nothing
}

#[test]
fn expiry_is_stored_to_the_millisecond_rounded_up() {
    let now_ms = NOW.timestamp_millis();
    let at = |ms| DateTime::<Utc>::from_timestamp_millis(ms).unwrap();
    for (task, expected) in [
        (raw(), None),
        (raw().expires("10m"), Some(now_ms + 600_000 + 1)),
        (raw().expires(Duration::from_micros(1)), Some(now_ms + 1)),
        (raw().expires(at(now_ms + 5)), Some(now_ms + 5)),
        (raw().expires(at(now_ms + 5) + chrono::TimeDelta::nanoseconds(1)), Some(now_ms + 6)),
        (raw().expires(at(5)), Some(5)),
        (raw().expires(SystemTime::UNIX_EPOCH), Some(0)),
        (raw().expires("1h").expires("2s"), Some(now_ms + 2_001)),
        (raw().process_in("10m").expires("11m"), Some(now_ms + 660_001)),
        (raw().process_at(at(5)).expires(at(5)), Some(5)), // due in the past is due now
    ] {
        assert_eq!(new(task).extra.expires_ms, expected);
    }
    let error = refused(raw().process_in("10m").expires("10m"));
    assert!(error.starts_with("invalid option `expires`: it would have passed before the task is due"), "{error}");
}

#[test]
fn a_group_is_in_the_task_and_in_its_message() {
    let task = new(raw().group("mails").unique("60s"));
    assert_eq!((task.group.unwrap().as_str(), task.message.group_key.as_str()), ("mails", "mails"));
    assert!(task.unique.is_some());
}

#[test]
fn the_event_that_frees_a_lock_is_stored_where_it_is_not_the_default() {
    let extra = |task: RawTask| new(task.unique("60s")).extra;
    assert_eq!(extra(raw().unique_until(UniqueUntil::End)), Extra::default());
    assert_eq!(extra(raw().unique_until(UniqueUntil::Start)).unique_until(), UniqueUntil::Start);
    assert_eq!(extra(raw().unique_until(UniqueUntil::Success)).unique_until(), UniqueUntil::Success);
    assert!(extra(raw().unique_extend()).unique_extend);
}

#[test]
fn a_job_declares_all_of_it() {
    let task = new(Reminder {});
    assert_eq!((task.group.unwrap().as_str(), task.extra.expires_ms), ("mails", Some(NOW.timestamp_millis() + 10_001)));
    assert_eq!((task.extra.unique_until(), task.extra.unique_extend), (UniqueUntil::Success, true));
}

#[test]
fn unique_by_leaves_the_other_arguments_out() {
    let key = |to: &str, note: &str| new(welcome(to, note)).message.unique_key;
    assert_eq!(key("ann", "x"), key("ann", "y"));
    assert_ne!(key("ann", "x"), key("bob", "x"));
}

#[test]
fn the_last_of_process_in_and_process_at_counts() {
    let at = NOW + chrono::TimeDelta::milliseconds(1);
    assert_eq!(new(raw().process_in("10m")).when, When::In(Duration::from_secs(600)));
    assert_eq!(new(raw().process_in("10m").process_at(at)).when, When::At(at));
    assert_eq!(new(raw().process_at(at).process_in("500ms")).when, When::In(Duration::from_millis(500)));
}

#[test]
fn a_header_given_twice_has_the_later_value() {
    let message = new(raw().header("k1", "v1").header("k2", "").header("k1", "v2")).message;
    assert_eq!(message.headers, [Header::new("k1", "v2"), Header::new("k2", "")]);
}

#[test]
fn headers_have_a_limit_together() {
    let with = |bytes| raw().header("k1", "v1").header("k2", "x".repeat(bytes));
    let most = MOST_HEADERS - "k1v1k2".len();
    assert_eq!(new(with(most)).message.headers.len(), 2);
    let error = refused(with(most + 1));
    assert!(error.starts_with("invalid option `header`: ") && error.contains("these 65537 bytes"), "{error}");
}

#[test]
fn the_error_of_an_invalid_task_says_what_to_write() {
    let long = "x".repeat(201);
    for (task, expected) in [
        (raw().queue(""), "\"\" cannot be used: queue name must not be empty"),
        (raw().queue("a{b}"), "\"a{b}\" cannot be used: queue name must not contain `{`; leave the braces out"),
        (raw().queue(&long), "queue name is 201 bytes long; write at most 200"),
        (raw().task_id(" "), "task id must not be empty"),
        (raw().task_id("a\nb"), "task id must not contain the control character `\\n`"),
        (raw().task_id("agg:1"), "invalid option `task_id`: ids that begin with `agg:` are reserved; choose another"),
        (raw().task_id("cron:report"), "ids that begin with `cron:` are reserved"),
        (raw().group(" "), "group name must not be empty"),
        (raw().group("a:018cc251-f400-7a00-8000-000000000000"), "cannot be used: group name"),
        (raw().expires("0s"), "invalid option `expires`: it must be longer than zero"),
        (raw().expires(YEAR_9999), "invalid option `expires`: it must lie before the year 9999"),
        (raw().expires("soon"), "invalid option `expires`: invalid duration \"soon\""),
        (raw().deadline("0s"), "invalid option `deadline`: it must be longer than zero"),
        (raw().deadline(YEAR_9999), "invalid option `deadline`: it must lie before the year 9999"),
        (raw().deadline(DateTime::<Utc>::MAX_UTC), "invalid option `deadline`: it must lie before the year 9999"),
        (raw().deadline(Duration::MAX), "invalid option `deadline`: it must be at most 292 years"),
        (raw().unique_until(UniqueUntil::Start), "invalid option `unique_until`: it needs `unique`"),
        (raw().unique_extend(), "invalid option `unique_extend`: it needs `unique`"),
        (raw().or_replace(), "invalid option `or_replace`: it needs `unique`"),
        (raw().unique("1h").or_replace().group("g"), "invalid option `or_replace`: a task in a group waits for others"),
        (
            raw().unique("1h").or_replace().task_id("x"),
            "invalid option `or_replace`: a task that takes new arguments keeps its id",
        ),
        (raw().debounce("30s").group("g"), "invalid option `debounce`: a task in a group waits for others"),
        (
            raw().debounce("30s").unique_until(UniqueUntil::Start),
            "invalid option `debounce`: an attempt without a lock is not found",
        ),
        (raw().debounce("0s"), "invalid option `debounce`: it must be longer than zero"),
        (raw().debounce_max("5m"), "invalid option `debounce_max`: it needs `debounce`"),
        (
            raw().debounce("30s").debounce_max("29s"),
            "invalid option `debounce_max`: it must be at least as long as `debounce`",
        ),
        (
            raw().debounce("30s").expires("10s"),
            "`expires`: it would have passed before the task is due; let `expires` end",
        ),
        (
            raw().debounce("30s").deadline("30s"),
            "`deadline`: it would have passed before the task is due; let `deadline` end",
        ),
        (
            raw().process_in("2h").deadline("1h"),
            "invalid option `deadline`: it would have passed before the task is due",
        ),
        (raw().awaited().group("g"), "invalid option `awaited`: a task in a group becomes part of another"),
        (
            raw().unique("1h").unique_until(UniqueUntil::Start).unique_extend(),
            "invalid option `unique_extend`: the lock is freed when the task starts; leave one out",
        ),
        (RawTask::new("\t", "abc"), "job name must not be empty"),
        (
            raw().timeout("3 parsecs"),
            "invalid option `timeout`: invalid duration \"3 parsecs\": unknown unit `parsecs`",
        ),
        (raw().timeout("0s"), "invalid option `timeout`: it must be longer than zero"),
        (raw().process_in("soon"), "invalid option `process_in`: invalid duration \"soon\""),
        (raw().process_in(Duration::MAX), "invalid option `process_in`: it must be at most 292 years"),
        (raw().process_at(DateTime::<Utc>::MAX_UTC), "invalid option `process_at`: it must lie before the year 9999"),
        (raw().unique("999ms"), "invalid option `unique`: it must be at least 1s"),
        (raw().unique(Duration::MAX), "invalid option `unique`: it must be at most 292 years"),
        (raw().retry(u32::MAX), "invalid option `retry`: it must be at most 2147483647"),
        (raw().max_crashes(0), "invalid option `max_crashes`: it must be at least 1"),
        (raw().queue("").retry(u32::MAX), "\"\" cannot be used: queue name"), // the first mistake
    ] {
        let error = refused(task);
        assert!(error.contains(expected), "{error}\n  should contain\n{expected}");
    }
}

/// A job written by hand, whose options no attribute has checked.
#[derive(Serialize, Deserialize)]
struct ByHand<const DEADLINE: u64, const CRASHES: u32> {}

impl<const DEADLINE: u64, const CRASHES: u32> Job for ByHand<DEADLINE, CRASHES> {
    const NAME: &'static str = "by hand";
    const OPTIONS: JobOptions = JobOptions::new().deadline(Duration::from_secs(DEADLINE)).max_crashes(CRASHES);
    type Output = JobResult;

    async fn run(self, _: &JobContext) -> JobResult {
        Ok(())
    }
}

#[test]
fn an_option_of_a_job_written_by_hand_is_checked_as_that_of_a_builder() {
    let deadline = refused(JobBuilder::new(ByHand::<0, 1> {}));
    assert_eq!(deadline, "invalid option `deadline`: it must be longer than zero");
    let crashes = refused(JobBuilder::new(ByHand::<1, 0> {}));
    assert_eq!(crashes, "invalid option `max_crashes`: it must be at least 1");
    assert_eq!(new(JobBuilder::new(ByHand::<1, 1> {})).extra.max_crashes, Some(1));
}

#[test]
fn a_payload_over_the_limit_is_refused_with_both_sizes() {
    assert_eq!(new(RawTask::new("report", vec![0; LIMIT])).message.payload.len(), LIMIT);
    let error = refused(RawTask::new("report", vec![0; LIMIT + 1]));
    assert!(error.starts_with("the payload has 1025 bytes, more than the limit of 1024;"), "{error}");
}

#[test]
fn an_awaited_task_is_retained_for_a_minute_at_least_and_is_marked() {
    for (task, seconds, is_awaited) in [
        (raw(), 0, false),
        (raw().retention("10s"), 10, false),
        (raw().awaited(), 60, true),
        (raw().awaited().retention("10s"), 60, true),
        (raw().retention("2m").awaited(), 120, true),
    ] {
        let made = new(task);
        assert_eq!((made.message.retention, made.extra.awaited), (seconds, is_awaited));
    }
}

#[test]
fn a_debounced_task_waits_for_quiet_and_replaces_within_the_time_that_it_names() {
    let seconds = Duration::from_secs;
    let made = |task: RawTask| {
        let NewTask { when, unique, replaces, .. } = new(task);
        (when, unique.map(|lock| lock.ttl), replaces.map(|replaces| replaces.within))
    };
    let day = Some(seconds(86_400));
    assert_eq!(made(raw().debounce("1500ms")), (When::In(Duration::from_millis(1500)), day, Some(None)));
    let bounded = raw().debounce("30s").debounce_max("5m").unique("1h");
    assert_eq!(made(bounded), (When::In(seconds(30)), Some(seconds(3600)), Some(Some(seconds(300)))));
    assert_eq!(made(raw().debounce("30s").process_in("1h")), (When::In(seconds(3600)), day, Some(None)));
    assert_eq!(made(raw().unique("1h").or_replace()), (When::Now, Some(seconds(3600)), Some(None)));
    assert_eq!(made(raw().unique("1h")), (When::Now, Some(seconds(3600)), None));
}
