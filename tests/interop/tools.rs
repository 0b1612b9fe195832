//! Go's tools over our data: the routes of the released asynqmon, and every reading call of asynq's inspector.
//!
//! The command line of asynq (module `github.com/hibiken/asynq/tools`) is not run: the module is on no module proxy under a
//! version, so it cannot be built by name. Most of its output is the result of that inspector.

use std::process::Command;

use asynq_cron::{CronSpec, Periodic};
use asynq_runtime::prelude::*;
use asynq_tests::{eventually, skip};
use serde_json::{Value, json};

use crate::interop::{
    go::{NO_GO, asynqmon_program},
    side::{Order, Side},
    stage::Stage,
    worker::{Settings, Worker},
};

/// A job that is never enqueued, because a server needs at least one.
#[job(queue = "nothing")]
async fn idle() {}

/// Fills a queue with our tasks in every state, with a server of ours that runs one.
async fn furnished() -> Option<(std::sync::Arc<Stage>, Worker, Vec<(&'static str, String)>)> {
    let stage = Stage::start().await?;
    let settings = Settings { queues: vec!["shown".into()], concurrency: 2, aggregate: false, journal: None };
    let mut worker = Worker::start(Side::Rust, &stage.address(), &settings).await;
    let keep = |order: Order| Order { retention_s: 600, ..order };
    let mut ids = Vec::new();
    for (state, order) in [
        ("completed", keep(Order::new("answer", "42"))),
        ("retry", Order::new("fail", "why")),
        ("archived", Order { retry: Some(0), ..Order::new("fail", "why not") }),
        ("scheduled", Order { delay_ms: 3_600_000, ..Order::new("succeed", "") }),
        ("aggregating", Order { group: Some("mails"), ..Order::new("succeed", "") }),
        ("active", Order::new("hang", "")),
    ] {
        let id = stage.enqueue(Side::Rust, "shown", &order).await;
        if state == "active" {
            worker.starts(&id).await;
        }
        stage.both_see("shown", &id, state).await;
        ids.push((state, id));
    }
    stage.pause(Side::Rust, "shown", true).await;
    let id = stage.enqueue(Side::Rust, "shown", &Order::new("succeed", "waits")).await;
    ids.push(("pending", id));
    Some((stage, worker, ids))
}

#[tokio::test]
async fn asynqmon_answers_every_get_route_over_our_data() {
    let Some((stage, _worker, ids)) = furnished().await else { skip!("{NO_GO}") };
    let mut paths: Vec<String> =
        ["queues", "queues/shown", "queue_stats", "queues/shown/groups", "servers", "scheduler_entries", "redis_info"]
            .map(|path| format!("/api/{path}"))
            .into();
    for (state, id) in &ids {
        paths.push(format!("/api/queues/shown/tasks/{id}"));
        paths.push(match *state {
            "aggregating" => "/api/queues/shown/groups/mails/aggregating_tasks".into(),
            state => format!("/api/queues/shown/{state}_tasks"),
        });
    }
    let body = |path: &str| get(&stage, path);
    paths.iter().for_each(|path| drop(body(path)));
    for (state, id) in &ids {
        assert_eq!(body(&format!("/api/queues/shown/tasks/{id}"))["state"], json!(state), "{id}");
    }
    let queue = &body("/api/queues/shown")["current"];
    for (state, _) in &ids {
        assert_eq!(queue[state], 1, "{state}: {queue}");
    }
    assert_eq!((&queue["paused"], &queue["size"]), (&json!(true), &json!(7)));
    let server = &body("/api/servers")["servers"][0];
    assert_eq!((&server["concurrency"], &server["status"]), (&json!(2), &json!("active")));
}

#[tokio::test]
async fn asynqmon_shows_our_periodic_entries_and_their_tasks() {
    let Some(stage) = Stage::start().await else { skip!("{NO_GO}") };
    let task = RawTask::new("cron:a", "pa").queue("low").retry(3);
    let often = Periodic::new(CronSpec::parse("@every 1s").unwrap(), task).unwrap();
    let registry = Registry::only::<(idle,)>().unwrap();
    let builder = Server::builder(stage.server.url()).registry(registry).queue("nothing", 1);
    let server = builder.service(asynq_cron::service().entry(often.foreign())).build().await.unwrap();
    let running = server.start().await.unwrap();
    let entry = eventually("asynqmon shows an entry that has fired", async || {
        let entries = get(&stage, "/api/scheduler_entries")["entries"].take();
        entries[0].get("prev_enqueue_at").is_some().then(|| entries[0].clone())
    })
    .await;
    let fields = json!([&entry["spec"], &entry["task_type"], &entry["task_payload"]]);
    assert_eq!(fields, json!(["@every 1s", "cron:a", "pa"]));
    let path = format!("/api/scheduler_entries/{}/enqueue_events", entry["id"].as_str().unwrap());
    let event = get(&stage, &path)["events"][0].take();
    let enqueued = stage.go("task", "low", event["task_id"].as_str().unwrap());
    assert_eq!(enqueued["state"], "pending", "{event}");
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn asynqmon_changes_our_tasks_and_queue() {
    let Some((stage, _worker, ids)) = furnished().await else { skip!("{NO_GO}") };
    let id = |wanted: &str| &ids.iter().find(|(state, _)| *state == wanted).unwrap().1;
    // The queue is paused, so a task that is run stays pending.
    for (method, state, action, becomes) in [
        ("POST", "retry", ":run", Some("pending")),
        ("POST", "scheduled", ":archive", Some("archived")),
        ("POST", "archived", ":run", Some("pending")),
        ("POST", "groups/mails/aggregating", ":archive", Some("archived")),
        ("POST", "active", ":cancel", Some("retry")),
        ("DELETE", "completed", "", None),
        ("DELETE", "pending", "", None),
    ] {
        let id = id(state.rsplit('/').next().unwrap());
        let answer = asynqmon(&stage, &format!("{method} /api/queues/shown/{state}_tasks/{id}{action}"));
        assert!((200..300).contains(&answer.0), "{state}{action}: {answer:?}");
        match becomes {
            Some(state) => drop(stage.both_see("shown", id, state).await),
            None => stage.both_miss("shown", id).await,
        }
    }
    let answer = asynqmon(&stage, "DELETE /api/queues/shown/archived_tasks:delete_all");
    assert_eq!(answer, (200, "{\"deleted\":2}\n".to_owned()));
    assert_eq!(asynqmon(&stage, "POST /api/queues/shown:resume").0, 204);
    // After the resume, the tasks that were run fail again.
    for state in ["retry", "archived"] {
        let id = id(state);
        eventually("a task that was run fails again", async || {
            stage.look(Side::Rust, "shown", id).await.filter(|seen| seen.state == state)
        })
        .await;
    }
}

#[tokio::test]
async fn gos_inspector_lists_our_queues_servers_and_tasks() {
    let Some((stage, _worker, ids)) = furnished().await else { skip!("{NO_GO}") };
    assert_eq!(stage.go("queues", "", ""), json!(["shown"]));
    let queue = stage.go("queue", "shown", "");
    for field in ["Pending", "Active", "Scheduled", "Retry", "Archived", "Completed", "Aggregating", "Groups"] {
        assert_eq!(queue[field], 1, "{field}: {queue}");
    }
    assert_eq!(stage.go("groups", "shown", ""), json!([{ "Group": "mails", "Size": 1 }]));
    assert_eq!(stage.go("history", "shown", "")[0]["Processed"], 3);
    let servers = stage.go("servers", "", "");
    assert_eq!(servers[0]["Concurrency"], 2);
    eventually("the active worker is shown", async || {
        let workers = stage.go("servers", "", "")[0]["ActiveWorkers"].clone();
        (workers[0]["TaskID"] == json!(ids.iter().find(|(state, _)| *state == "active").unwrap().1)).then_some(())
    })
    .await;
    for (state, id) in &ids {
        let request = json!({ "op": "tasks", "queue": "shown", "state": state, "group": "mails" });
        let listed = stage.talk.ask(&request).unwrap();
        assert_eq!((listed.as_array().unwrap().len(), &listed[0]["id"]), (1, &json!(id)), "{state}");
    }
}

/// The JSON of asynqmon's answer to a GET.
fn get(stage: &Stage, path: &str) -> Value {
    let (status, body) = asynqmon(stage, &format!("GET {path}"));
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// The status and the body of asynqmon's answer to a request, which is a method and a path.
fn asynqmon(stage: &Stage, request: &str) -> (u64, String) {
    let output = Command::new(asynqmon_program().unwrap()).args([&stage.address(), request]).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{request}: {error}: {}", String::from_utf8_lossy(&output.stderr)));
    (answer["status"].as_u64().unwrap(), answer["body"].as_str().unwrap().to_owned())
}
