//! Data that Go's schedulers write and its tools read.

use std::time::Duration;

use asynq_runtime::{
    broker::Page,
    task::{SchedulerEnqueueEvent, SchedulerEntry, Timestamp},
};
use asynq_tests::PINNED;
use chrono::TimeDelta;
use serde_json::Value as Json;

use super::{Replay, duration, instant, raw};
use crate::wire::golden::base64;

/// The entry whose history is trimmed; the golden file does not name it.
const ENTRY: &str = "entry";

impl Replay {
    pub(super) async fn write_scheduler_entries(&self, args: &Json) -> Option<String> {
        let entries: Vec<_> = args["entries"].as_array().unwrap().iter().map(entry).collect();
        let (scheduler, ttl) = (args["scheduler_id"].as_str().unwrap(), duration(args["ttl"].as_str().unwrap()));
        let written = self.broker.show_entries(scheduler, &entries, ttl).await;
        let listed = self.broker.scheduler_entries().await.unwrap();
        assert_eq!(listed, entries, "we read our own bytes");
        written.err().map(|error| error.to_string())
    }

    pub(super) async fn record_enqueue(&self, args: &Json) -> Option<String> {
        let at = instant(args["enqueued_at"].as_str().unwrap(), self.now());
        let task_id = String::from_utf8(raw(&args["task_id"])).unwrap();
        let event = SchedulerEnqueueEvent { task_id, enqueue_time: Some(at.into()) };
        let recorded = self.broker.record_enqueue(args["entry"].as_str().unwrap(), &event).await;
        recorded.err().map(|error| error.to_string())
    }

    /// Records `events` events, a second apart, named by their number.
    pub(super) async fn record_many(&self, events: u32) -> Option<String> {
        for n in 0..events {
            let at = self.now() + TimeDelta::from_std(Duration::from_secs(n.into())).unwrap();
            let event = SchedulerEnqueueEvent { task_id: n.to_string(), enqueue_time: Some(at.into()) };
            self.broker.record_enqueue(ENTRY, &event).await.unwrap();
        }
        None
    }

    pub(super) fn count_history(&self, expected: &Json) -> Option<String> {
        let key = format!("asynq:scheduler_history:{ENTRY}");
        let n: i64 = self.store.command(&[b"ZCARD", key.as_bytes()]);
        assert_eq!(*expected, n);
        None
    }

    /// The last call of its scenario, after which Redis is emptied.
    pub(super) async fn newest_enqueues(&self, size: usize, expected: &Json) -> Option<String> {
        let events = self.broker.enqueue_history(ENTRY, Page { number: 1, size }).await.unwrap();
        let ids: Vec<&str> = events.iter().map(|event| event.task_id.as_str()).collect();
        assert_eq!(*expected, serde_json::json!(ids));
        self.store.command::<i64>(&[b"DEL", format!("asynq:scheduler_history:{ENTRY}").as_bytes()]);
        None
    }
}

/// An entry from the fields that a golden file spells out.
pub(crate) fn entry(fields: &Json) -> SchedulerEntry {
    let text = |name: &str| fields[name].as_str().unwrap().to_owned();
    let time = |name: &str| Some(Timestamp::from(instant(&text(name), PINNED)));
    let options = fields["Opts"].as_array().into_iter().flatten();
    SchedulerEntry {
        id: text("ID"),
        spec: text("Spec"),
        task_type: text("Type"),
        task_payload: fields["Payload"].as_str().map(base64).unwrap_or_default().into(),
        enqueue_options: options.map(|option| option.as_str().unwrap().to_owned()).collect(),
        next_enqueue_time: time("Next"),
        prev_enqueue_time: time("Prev"),
        ..SchedulerEntry::default()
    }
}
