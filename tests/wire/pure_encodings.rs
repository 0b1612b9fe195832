//! Byte equality without a Redis: task messages, the messages that show servers, key names.

use asynq_runtime::{
    broker::{Action, Broker, GroupRules, Member, ServerName, Wanted},
    task::{QueueWeight, SchedulerEnqueueEvent, SchedulerEntry, ServerInfo, TaskMessage, WorkerInfo},
};
use asynq_tests::{Build as _, RedisStore, Seeded as _, Store as _, default_queue, group, task};
use bytes::Bytes;
use chrono::DateTime;
use prost::Message as _;
use serde_json::Value as Json;

use crate::wire::{
    golden::{file, message},
    replay::{schedulers::entry, worker},
};

/// The golden files of this module.
pub(crate) const FILES: [&str; 3] = ["pure_task_message_encoding", "pure_other_encodings", "pure_key_names"];

fn bytes_of_hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

#[test]
fn task_messages_are_written_as_go_writes_them_and_read_back() {
    let golden = file("pure_task_message_encoding");
    let cases = golden["cases"].as_array().unwrap();
    for case in cases.iter().filter(|case| case["fields"].is_object()) {
        let name = case["name"].as_str().unwrap();
        let go = bytes_of_hex(case["bytes_hex"].as_str().unwrap());
        assert_eq!(message(&case["fields"]).encode(), go, "{name}");
        let decoded = TaskMessage::decode(Bytes::from(go.clone())).unwrap();
        assert_eq!(decoded, message(&case["decoded_back"]), "{name}");
        assert_eq!(decoded.encode(), go, "{name}");
    }
    let compared = cases.iter().filter(|case| case["fields"].is_object()).count();
    assert!(compared >= 13, "only {compared} cases were compared");
    // A map of several entries has a random order in Go; our decoder keeps the order of the bytes.
    for case in cases.iter().filter(|case| !case["fields"].is_object()) {
        let name = case["name"].as_str().unwrap_or_default();
        let Some(go) = case["bytes_hex"].as_str().map(bytes_of_hex) else { continue };
        assert_eq!(TaskMessage::decode(Bytes::from(go.clone())).unwrap().encode(), go, "{name}");
    }
}

fn time(fields: &Json, name: &str) -> Option<asynq_runtime::task::Timestamp> {
    Some(DateTime::parse_from_rfc3339(fields[name].as_str().unwrap()).unwrap().to_utc().into())
}

fn server(fields: &Json) -> Vec<u8> {
    let text = |name: &str| fields[name].as_str().unwrap().to_owned();
    let number = |name: &str| fields[name].as_i64().unwrap() as i32;
    let queues = fields["Queues"].as_object().unwrap().iter();
    let weight = |(name, weight): (&String, &Json)| QueueWeight {
        queue: Some(name.clone()),
        weight: weight.as_i64().map(|w| w as i32),
    };
    ServerInfo {
        host: text("Host"),
        pid: number("PID"),
        server_id: text("ServerID"),
        concurrency: number("Concurrency"),
        queues: queues.map(weight).collect(),
        strict_priority: fields["StrictPriority"].as_bool().unwrap(),
        status: text("Status"),
        start_time: time(fields, "Started"),
        active_worker_count: number("ActiveWorkerCount"),
        ..ServerInfo::default()
    }
    .encode_to_vec()
}

fn enqueue_event(fields: &Json) -> SchedulerEnqueueEvent {
    let task_id = fields["TaskID"].as_str().unwrap().to_owned();
    SchedulerEnqueueEvent { task_id, enqueue_time: time(fields, "EnqueuedAt") }
}

#[test]
fn servers_and_schedulers_are_written_as_go_writes_them() {
    let golden = file("pure_other_encodings");
    let mut compared = Vec::new();
    for case in golden["cases"].as_array().unwrap() {
        let kind = case["message"].as_str().unwrap();
        let ours = match kind {
            "ServerInfo" => server(&case["fields"]),
            "WorkerInfo" => worker(&case["fields"]).encode_to_vec(),
            "SchedulerEntry" => entry(&case["fields"]).encode_to_vec(),
            "SchedulerEnqueueEvent" => enqueue_event(&case["fields"]).encode_to_vec(),
            other => panic!("{other} is new"),
        };
        assert_eq!(ours, bytes_of_hex(case["bytes_hex"].as_str().unwrap()), "{kind}");
        compared.push(kind);
    }
    compared.sort_unstable();
    assert_eq!(compared, ["SchedulerEnqueueEvent", "SchedulerEntry", "ServerInfo", "WorkerInfo"]);
}

#[test]
fn a_go_program_skips_the_fields_that_we_add() {
    let with = ServerInfo {
        host: "h".into(),
        rust_version: "1.2.3".into(),
        clock_ahead_ms: Some(-7),
        aggregated_types: vec!["t".into()],
        ..ServerInfo::default()
    };
    let without =
        ServerInfo { rust_version: String::new(), clock_ahead_ms: None, aggregated_types: Vec::new(), ..with.clone() };
    assert!(with.encode_to_vec().starts_with(&without.encode_to_vec()), "the fields come last");
}

/// Every key that both Go and we write has Go's name: this compares the keys that a life of tasks leaves in Redis.
#[tokio::test]
async fn keys_are_named_as_go_names_them() {
    // 2030-01-02T23:30:00-05:00: the UTC date is the third.
    let at = DateTime::parse_from_rfc3339("2030-01-02T23:30:00-05:00").unwrap().to_utc();
    let golden = file("pure_key_names");
    let names = golden["cases"].as_object().unwrap();
    // The cancel channel is not a key; the key of a set ends with a random id.
    let other = ["aggregation_set", "cancel_channel"];

    let keys = keys_of_a_life(at).await;

    for (name, key) in names.iter().filter(|(name, _)| !other.contains(&name.as_str())) {
        assert!(keys.contains(&key.as_str().unwrap().to_owned()), "{name}: {key} is not among {keys:#?}");
    }
}

async fn keys_of_a_life(at: DateTime<chrono::Utc>) -> Vec<String> {
    let store = RedisStore::start().await;
    let clock = asynq_runtime::clock::ManualClock::new(at);
    let broker = store.connect(Some(std::sync::Arc::new(clock))).await;
    let name = ServerName { host: "h".into(), pid: 7, server_id: "S".into() };
    let info = ServerInfo { host: "h".into(), pid: 7, server_id: "S".into(), ..ServerInfo::default() };
    let member = broker.join(&name, &info).await.unwrap();
    broker.beat(&member, &info, &[WorkerInfo::default()]).await.unwrap();
    let minute = std::time::Duration::from_secs(60);
    for action in [
        asynq_tests::complete("42"),
        asynq_tests::retry(minute, "boom"),
        asynq_tests::archive("fatal"),
        Action::Requeue,
    ] {
        let id = if action == Action::Requeue { "ID".to_owned() } else { format!("{action:?}") };
        settle_one(&*broker, &member, &id, action).await;
    }
    let scheduled = task("later").after(minute);
    let rules = GroupRules { max_size: Some(1), ..GroupRules::default() };
    let batch = vec![scheduled, task("active"), task("g1").grouped("G"), task("g2").grouped("G")];
    assert!(broker.enqueue(batch).await.iter().all(Result::is_ok));
    assert!(broker.claim_set(&default_queue(), &group("G"), &rules).await.unwrap().is_some());
    let wanted = Wanted { queue: default_queue(), n: 1 };
    assert_eq!(broker.dequeue(&member, &[wanted]).await.unwrap().len(), 1);
    broker.pause(&default_queue()).await.unwrap();
    broker.show_entries("h:7:S", &[SchedulerEntry::default()], minute).await.unwrap();
    broker.record_enqueue("E", &SchedulerEnqueueEvent::default()).await.unwrap();
    store.keys().into_keys().collect()
}

async fn settle_one(broker: &dyn Broker, member: &Member, id: &str, action: Action) {
    broker.enqueue(vec![task(id).with_retention(60)]).await.remove(0).unwrap();
    let wanted = Wanted { queue: default_queue(), n: 1 };
    let run = broker.dequeue(member, &[wanted]).await.unwrap().remove(0);
    broker.settle(&[run.ends_with(action)]).await.remove(0).unwrap();
}
