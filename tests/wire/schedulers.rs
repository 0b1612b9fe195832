//! Compares the golden data of Go's scheduler in Redis with that of ours.

use std::{collections::BTreeSet, time::Duration};

use asynq_cron::{CronSpec, Periodic};
use asynq_runtime::{
    broker::Page,
    prelude::*,
    server::Running,
    task::{QueueName, SchedulerEntry, Timestamp},
};
use asynq_tests::{Persistence, RedisServer, eventually};
use redis::Commands as _;
use serde_json::Value as Json;

use crate::wire::golden::file;

/// The golden files of this module.
pub(crate) const FILES: [&str; 2] = ["s14_scheduler", "s15_two_schedulers_duplicate"];

/// A job that is never enqueued, because a server needs at least one.
#[job(queue = "nothing")]
async fn idle() {}

/// A scheduler with the entries of `s14_scheduler`.
async fn scheduler(server: &RedisServer, election: bool) -> Running {
    let often = RawTask::new("cron:a", "pa").queue("low").retry(3);
    let often = Periodic::new(CronSpec::parse("@every 1s").unwrap(), often).unwrap();
    let yearly = CronSpec::parse_compat("0 0 1 1 *").unwrap();
    let yearly = Periodic::new(yearly, RawTask::without_payload("cron:b")).unwrap();
    let service = asynq_cron::service().leader_ttl(Duration::from_secs(3)).election(election);
    let service = service.entry(often.foreign()).entry(yearly.foreign());
    let registry = Registry::only::<(idle,)>().unwrap();
    let builder = Server::builder(server.url()).registry(registry).queue("nothing", 1).service(service);
    builder.build().await.unwrap().start().await.unwrap()
}

fn golden_key<'a>(golden: &'a Json, prefix: &str) -> &'a Json {
    let running = golden["intermediate_dumps"]["running"].as_array().unwrap();
    running.iter().find(|entry| entry["key"].as_str().unwrap().starts_with(prefix)).unwrap()
}

/// The facts of an entry that are the same in every run.
fn facts(entry: &SchedulerEntry) -> (String, String, Vec<u8>, Vec<String>, bool) {
    let SchedulerEntry { spec, task_type, task_payload, enqueue_options, prev_enqueue_time, .. } = entry.clone();
    let never = prev_enqueue_time == Some(Timestamp::NEVER);
    (spec, task_type, task_payload.to_vec(), enqueue_options, never)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_leaves_the_state_that_gos_leaves() {
    let golden = file("s14_scheduler");
    let server = RedisServer::start(Persistence::None);
    let mut redis = server.connection();
    let running = scheduler(&server, true).await;
    let client = running.client();
    let broker = client.broker();
    let entries = eventually("`@every 1s` is listed with its last tick", async || {
        let entries = broker.scheduler_entries().await.unwrap();
        (entries.len() == 2 && !entries.iter().all(|entry| facts(entry).4)).then_some(entries)
    })
    .await;

    // The entries are equal to Go's apart from ids and times.
    let listed: BTreeSet<_> = entries.iter().map(facts).collect();
    let list = golden_key(&golden, "asynq:schedulers:{");
    let expected: BTreeSet<_> = list["value"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let entry = &entry["decoded_SchedulerEntry"];
            let text = |name: &str| entry[name].as_str().unwrap().to_owned();
            let options = entry["enqueue_options"].as_array().into_iter().flatten();
            let options = options.map(|option| option.as_str().unwrap().to_owned()).collect::<Vec<_>>();
            let payload = if text("task_payload_b64") == "cGE=" { b"pa".to_vec() } else { Vec::new() };
            let never = text("prev_enqueue_time") == "0001-01-01T00:00:00Z";
            (text("spec"), text("task_type"), payload, options, never)
        })
        .collect();
    assert_eq!(listed, expected);
    let members: Vec<(String, i64)> = redis.zrange_withscores("asynq:schedulers", 0, -1).unwrap();
    assert_eq!(members.len(), 1);
    assert!(members[0].0.starts_with("asynq:schedulers:{") && members[0].0.ends_with('}'), "{members:?}");
    let kind: String = redis::cmd("TYPE").arg(&members[0].0).query(&mut redis).unwrap();
    assert_eq!(kind, list["type"].as_str().unwrap());

    // The history has the score and the time of the enqueue, and the member names the task.
    let often = entries.iter().find(|entry| entry.task_type == "cron:a").unwrap();
    let history = eventually("the enqueue is in the history", async || {
        let history = broker.enqueue_history(&often.id, Page { number: 1, size: 30 }).await.unwrap();
        (!history.is_empty()).then_some(history)
    })
    .await;
    let key = format!("asynq:scheduler_history:{}", often.id);
    let kind: String = redis::cmd("TYPE").arg(&key).query(&mut redis).unwrap();
    assert_eq!(kind, golden_key(&golden, "asynq:scheduler_history:")["type"].as_str().unwrap());

    // The tasks have Go's message, apart from the id and two headers with the tick.
    let queue = QueueName::new("low").unwrap();
    let tasks = broker.tasks(&queue, TaskState::Pending, Page { number: 1, size: 30 }).await.unwrap();
    let message = &golden_key(&golden, "asynq:{low}:t:")["value"]["msg"]["decoded_TaskMessage"];
    assert!(!tasks.is_empty());
    for task in &tasks {
        assert_eq!(task.r#type, message["type"].as_str().unwrap());
        assert_eq!(task.payload.as_ref(), b"pa");
        assert_eq!(i64::from(task.max_retry), message["retry"].as_i64().unwrap());
        assert!(task.id.as_str().starts_with(&format!("cron:{}:", often.id)), "{}", task.id);
    }
    let known: Vec<_> = tasks.iter().map(|task| task.id.as_str()).collect();
    assert!(history.iter().all(|event| known.contains(&event.task_id.as_str())), "{history:?} {known:?}");

    running.shutdown().await.unwrap();
    assert!(!redis.exists::<_, bool>("asynq:schedulers").unwrap(), "a scheduler that left is listed");
    assert!(!redis.exists::<_, bool>(&members[0].0).unwrap());
    // Go deletes the history, because its ids end with the process; our ids are stable, and so the history stays.
    assert!(redis.exists::<_, bool>(&key).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_schedulers_enqueue_a_tick_once_where_go_enqueues_it_twice() {
    // Go's two schedulers put four tasks into the queue for two ticks.
    assert_eq!(file("s15_two_schedulers_duplicate")["calls"][0]["result"], 4);
    for election in [true, false] {
        let server = RedisServer::start(Persistence::None);
        let (first, second) = (scheduler(&server, election).await, scheduler(&server, election).await);
        let client = first.client();
        let queue = QueueName::new("low").unwrap();
        let tasks = eventually("four ticks fire", async || {
            let all = Page { number: 1, size: 100 };
            let tasks = client.broker().tasks(&queue, TaskState::Pending, all).await.unwrap();
            (tasks.len() >= 4).then_some(tasks)
        })
        .await;
        let ticks: BTreeSet<_> = tasks.iter().map(|task| task.id.as_str().rsplit(':').next().unwrap()).collect();
        assert_eq!(ticks.len(), tasks.len(), "a tick was enqueued twice");
        let entries = client.broker().scheduler_entries().await.unwrap();
        let often = entries.iter().find(|entry| entry.task_type == "cron:a").unwrap();
        let key = format!("asynq:scheduler_history:{}", often.id);
        eventually("every enqueue is in the history", async || {
            let known: usize = server.connection().zcard(&key).unwrap();
            (known >= tasks.len()).then_some(())
        })
        .await;
        first.shutdown().await.unwrap();
        second.shutdown().await.unwrap();
    }
}
