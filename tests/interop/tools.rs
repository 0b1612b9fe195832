//! Go's tools over our data: every GET route of the released asynqmon, and every reading call of asynq's inspector.
//!
//! The command line of asynq (module `github.com/hibiken/asynq/tools`) prints what that inspector returns; the module
//! itself is on no module proxy under a version, so it cannot be built by name.

use std::process::Command;

use asynq_tests::skip;
use serde_json::{Value, json};

use crate::{
    go::{NO_GO, programs},
    side::{Order, Side},
    stage::Stage,
    worker::{Settings, Worker},
};

/// Our data in every state, with a server of ours that runs something.
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
    paths.push("/api/scheduler_entries/none/enqueue_events".into());
    for (state, id) in &ids {
        paths.push(format!("/api/queues/shown/tasks/{id}"));
        paths.push(match *state {
            "aggregating" => "/api/queues/shown/groups/mails/aggregating_tasks".into(),
            state => format!("/api/queues/shown/{state}_tasks"),
        });
    }
    let shown = asynqmon(&stage, &paths);
    for (path, status, body) in &shown {
        assert_eq!(*status, 200, "{path}: {body}");
    }
    let body = |path: &str| {
        let found = shown.iter().find(|(shown, ..)| shown == path).unwrap();
        serde_json::from_str::<Value>(&found.2).unwrap()
    };
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
    asynq_tests::eventually("the active worker is shown", async || {
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

/// Path, status and body of each GET.
fn asynqmon(stage: &Stage, paths: &[String]) -> Vec<(String, u64, String)> {
    let output = Command::new(&programs().unwrap().asynqmon).arg(stage.address()).args(paths).output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let shown: Vec<(String, u64, String)> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|line| {
            let text = |field: &str| line[field].as_str().unwrap().to_owned();
            (text("path"), line["status"].as_u64().unwrap(), text("body"))
        })
        .collect();
    assert_eq!(shown.len(), paths.len(), "{}", String::from_utf8_lossy(&output.stderr));
    shown
}
