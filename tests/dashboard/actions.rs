//! Every action really changes the broker, and an action on a missing task is a 404.

use std::time::Duration;

use asynq_runtime::{broker::EntryId, task::TaskState};
use asynq_tests::{Build as _, default_queue, eventually, queue, requeue, task};
use serde_json::{Value, json};

use super::Fixture;
use crate::dashboard::stage::{Events, ODD, Request, Served, client, dashboard, furnish, post, show};

#[tokio::test]
async fn one_task_is_run_archived_and_deleted_under_any_name() {
    let fixture = Fixture::start().await;
    furnish(&fixture).await;
    let served = Served::start(dashboard(&fixture)).await;
    let odd = "/queues/default/tasks/a%2Fb%3F%22%3Ci%3E%25";
    assert_eq!(served.post(&format!("{odd}/archive"), "").await.status, 200);
    assert_eq!(fixture.state_of(ODD).await, Some(TaskState::Archived));
    assert_eq!(served.post(&format!("{odd}/run"), "{}").await.status, 200);
    assert_eq!(fixture.state_of(ODD).await, Some(TaskState::Pending));
    let (status, answer) = post(&served, &format!("{odd}/delete"), json!({})).await;
    assert_eq!((status, answer["message"].as_str()), (200, Some("Task a/b?\"<i>% is deleted.")));
    assert_eq!(fixture.state_of(ODD).await, None);
    for dots in [".", "..", "~x"] {
        fixture.enqueue(task(dots)).await;
        assert_eq!(served.post(&format!("/queues/default/tasks/~{dots}/delete"), "").await.status, 200, "{dots}");
        assert_eq!(fixture.state_of(dots).await, None, "{dots}");
    }
}

#[tokio::test]
async fn a_run_that_is_repeated_with_its_state_does_not_run_what_has_succeeded() {
    let fixture = Fixture::start().await;
    fixture.seed_completed("paid", 3600).await;
    let served = Served::start(dashboard(&fixture)).await;
    let path = "/queues/default/tasks/paid/run";
    let (status, answer) = post(&served, path, json!({ "state": "archived" })).await;
    assert_eq!((status, answer["error"]["code"].as_str()), (409, Some("conflict")), "{answer}");
    assert_eq!(fixture.state_of("paid").await, Some(TaskState::Completed));
    assert_eq!(post(&served, path, json!({})).await.0, 200);
    assert_eq!(fixture.state_of("paid").await, Some(TaskState::Pending));
}

#[tokio::test]
async fn an_action_that_the_state_forbids_is_refused_with_the_reason() {
    let fixture = Fixture::start().await;
    furnish(&fixture).await;
    let served = Served::start(dashboard(&fixture)).await;
    for (path, why) in [
        ("/queues/default/tasks/t1/run", "it is pending already"),
        ("/queues/default/tasks/dead/archive", "it is archived already"),
        ("/queues/default/tasks/busy/delete", "it is running; cancel it instead"),
    ] {
        let (status, answer) = post(&served, path, json!({})).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert_eq!((status, answer["error"]["code"].as_str()), (409, Some("conflict")), "{path}");
        assert!(message.contains(why), "{path}: {message}");
    }
}

#[tokio::test]
async fn a_missing_object_is_not_found() {
    let fixture = Fixture::start().await;
    let entry = furnish(&fixture).await.entry;
    let served = Served::start(dashboard(&fixture)).await;
    let bulk = json!({ "action": "run", "state": "archived", "all": true });
    let ids = json!({ "action": "run", "state": "archived", "ids": ["x"] });
    let group = json!({ "action": "run", "state": "aggregating", "group": "nobody", "all": true });
    for (path, body) in [
        ("/queues/none/pause".to_owned(), json!({})),
        ("/queues/none/resume".to_owned(), json!({})),
        ("/queues/none/delete".to_owned(), json!({})),
        ("/queues/none/bulk".to_owned(), bulk),
        ("/queues/none/bulk".to_owned(), ids),
        ("/queues/default/bulk".to_owned(), group),
        ("/queues/none/tasks/t1/run".to_owned(), json!({})),
        ("/queues/default/tasks/none/run".to_owned(), json!({})),
        ("/queues/default/tasks/none/archive".to_owned(), json!({})),
        ("/queues/default/tasks/none/delete".to_owned(), json!({})),
        ("/queues/default/tasks/none/cancel".to_owned(), json!({})),
        ("/queues/default/tasks/none/edit".to_owned(), json!({ "payload": "x" })),
        ("/periodic/default/none/run".to_owned(), json!({})),
        ("/periodic/default/none/pause".to_owned(), json!({})),
        (format!("/periodic/low/{entry}/resume"), json!({})),
    ] {
        let (status, answer) = post(&served, &path, body).await;
        assert_eq!((status, answer["error"]["code"].as_str()), (404, Some("not_found")), "{path}: {answer}");
    }
}

#[tokio::test]
async fn a_queue_is_paused_and_resumed() {
    let fixture = Fixture::start().await;
    furnish(&fixture).await;
    let (served, inspector) = (Served::start(dashboard(&fixture)).await, client(&fixture).inspector());
    for (verb, paused) in [("pause", true), ("pause", true), ("resume", false), ("resume", false)] {
        assert_eq!(served.post(&format!("/queues/default/{verb}"), "").await.status, 200);
        assert_eq!(inspector.queue("default").await.unwrap().paused, paused, "{verb}");
        // Cached answers of other pages are dropped: the next page shows the change.
        let page = served.get("/api/queues").await.json();
        assert_eq!(page["queues"][0]["paused"], paused, "{verb}");
    }
}

#[tokio::test]
async fn a_request_that_goes_on_tells_what_all_requests_changed() {
    let fixture = Fixture::start().await;
    let furnished = furnish(&fixture).await;
    let served = Served::start(dashboard(&fixture)).await;
    let bulk = json!({ "action": "delete", "state": "archived", "all": true, "before": 1_999 });
    let (_, answer) = post(&served, "/queues/default/bulk", bulk).await;
    assert_eq!((&answer["changed"], &answer["message"]), (&json!(1), &json!("2,000 tasks were deleted.")));
    fixture.settle(&furnished.busy, requeue()).await;
    let (_, answer) = post(&served, "/queues/default/delete", json!({ "force": true, "before": 1_994 })).await;
    let message = "Queue default is deleted, and 2,000 tasks with it.";
    assert_eq!((&answer["tasks"], &answer["message"]), (&json!(6), &json!(message)));
}

#[tokio::test]
async fn a_queue_with_tasks_is_deleted_by_force_and_one_that_runs_some_is_not() {
    let fixture = Fixture::start().await;
    let furnished = furnish(&fixture).await;
    let served = Served::start(dashboard(&fixture)).await;
    let delete = "/queues/default/delete";
    assert_eq!(post(&served, delete, json!({})).await.0, 409);
    assert_eq!(post(&served, delete, json!({ "force": true })).await.0, 409, "it runs a task");
    assert_eq!(fixture.state_of("t1").await, Some(TaskState::Pending));
    assert!(!client(&fixture).inspector().queue("default").await.unwrap().paused, "it was refused as a whole");
    fixture.settle(&furnished.busy, requeue()).await;
    let (status, answer) = post(&served, delete, json!({ "force": true })).await;
    assert_eq!((status, &answer["more"], &answer["tasks"]), (200, &json!(false), &json!(7)), "{answer}");
    assert!(client(&fixture).inspector().queue("default").await.unwrap_err().is_not_found());
    assert_eq!(post(&served, delete, json!({})).await.0, 404);
}

/// A deletion that was broken off would leave the queue paused.
#[tokio::test]
async fn a_deletion_goes_on_when_its_client_is_gone() {
    let fixture = Fixture::start().await;
    let all = (0..3_000).map(|n| task(&format!("t{n}"))).collect();
    fixture.broker().enqueue(all).await.into_iter().for_each(|answer| assert!(answer.is_ok(), "{answer:?}"));
    let served = Served::start(dashboard(&fixture)).await;
    let request = Request::new("POST", "/queues/default/delete").own().body(r#"{"force":true}"#);
    let mut stream = tokio::net::TcpStream::connect(served.address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stream, &request.bytes(served.address)).await.unwrap();
    let inspector = client(&fixture).inspector();
    let begun = async || inspector.queue("default").await.map_or(true, |queue| queue.paused).then_some(());
    eventually("the deletion begins", begun).await;
    drop(stream);
    let gone = async || inspector.queue("default").await.is_err_and(|error| error.is_not_found()).then_some(());
    eventually("the queue is gone", gone).await;
}

#[tokio::test]
async fn a_deleted_queue_is_not_listed_among_more_than_are_read_for_each_page() {
    let fixture = Fixture::real_time().await;
    let all = (0..=200).map(|n| task("t1").in_queue(&format!("q{n:03}"))).collect();
    fixture.broker().enqueue(all).await.into_iter().for_each(|answer| assert!(answer.is_ok(), "{answer:?}"));
    let served = Served::start(dashboard(&fixture)).await;
    let (_, mut events) = Events::open(&served, "").await;
    // The page shows the last sample of so many queues.
    events.next("samples").await;
    assert!(served.get("/").await.body.contains("/queues/q007"));
    let (status, answer) = post(&served, "/queues/q007/delete", json!({ "force": true })).await;
    assert_eq!(status, 200, "{answer}");
    let page = served.get("/").await.body;
    assert!(page.contains("200 queues") && !page.contains("/queues/q007"), "{page}");
}

#[tokio::test]
async fn many_tasks_are_changed_by_id_with_a_word_on_each_that_could_not_be() {
    let fixture = Fixture::start().await;
    furnish(&fixture).await;
    let served = Served::start(dashboard(&fixture)).await;
    let bulk = "/queues/default/bulk";
    let ids = json!({ "action": "archive", "state": "pending", "ids": ["t1", "t2", "busy", "nobody"] });
    let (status, answer) = post(&served, bulk, ids).await;
    assert_eq!((status, &answer["changed"]), (200, &json!(2)), "{answer}");
    let refused: Vec<_> = answer["refused"].as_array().unwrap().iter().map(|refused| &refused["id"]).collect();
    assert_eq!(refused, ["busy", "nobody"]);
    assert_eq!(fixture.state_of("t1").await, Some(TaskState::Archived));
    for (bad, why) in [
        (json!({ "action": "run", "state": "archived" }), "either"),
        (json!({ "action": "run", "state": "archived", "ids": ["t1"], "all": true }), "either"),
        (json!({ "action": "run", "state": "archived", "ids": vec!["x"; 501] }), "500"),
        (json!({ "action": "run", "state": "nowhere", "all": true }), "state"),
        (json!({ "action": "explode", "state": "archived", "all": true }), "explode"),
        (json!({ "action": "run", "state": "archived", "group": "g", "all": true }), "group"),
        (json!({ "action": "archive", "state": "completed", "all": true }), "completed"),
    ] {
        let (status, answer) = post(&served, bulk, bad.clone()).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(why), "{bad}: {status} {answer}");
    }
}

#[tokio::test]
async fn all_tasks_of_a_state_or_group_are_changed() {
    let fixture = Fixture::start().await;
    for n in 0..250 {
        fixture.enqueue(task(&format!("n{n}")).after(Duration::from_secs(60))).await;
    }
    for (n, name) in [(0, "g"), (1, "g"), (2, "other")] {
        fixture.enqueue(task(&format!("m{n}")).grouped(name)).await;
    }
    let (served, inspector) = (Served::start(dashboard(&fixture)).await, client(&fixture).inspector());
    let bulk = "/queues/default/bulk";
    let (_, answer) = post(&served, bulk, json!({ "action": "run", "state": "scheduled", "all": true })).await;
    assert_eq!(
        (&answer["changed"], &answer["left"], &answer["more"]),
        (&json!(250), &json!(0), &json!(false)),
        "{answer}"
    );
    assert_eq!(inspector.queue("default").await.unwrap().pending, 250);
    let group = json!({ "action": "archive", "state": "aggregating", "group": "g", "all": true });
    assert_eq!(post(&served, bulk, group).await.1["changed"], 2);
    let (_, answer) = post(&served, bulk, json!({ "action": "delete", "state": "pending", "all": true })).await;
    assert_eq!(answer["message"], "250 tasks were deleted.");
    let left = inspector.queue("default").await.unwrap();
    assert_eq!((left.size, left.archived, left.aggregating), (3, 2, 1));
}

#[tokio::test]
async fn a_running_task_is_asked_to_cancel() {
    let fixture = Fixture::real_time().await;
    furnish(&fixture).await;
    let mut cancellations = fixture.broker().cancellations().await.unwrap();
    let served = Served::start(dashboard(&fixture)).await;
    let (status, answer) = post(&served, "/queues/default/tasks/busy/cancel", json!({})).await;
    assert_eq!((status, answer["message"].as_str()), (200, Some("The worker of task busy is asked to cancel it.")));
    let id = asynq_tests::soon(cancellations.next()).await.unwrap();
    assert_eq!(id.as_str(), "busy");
}

#[tokio::test]
async fn arguments_that_have_changed_since_they_were_shown_are_left() {
    let fixture = Fixture::start().await;
    fixture.enqueue(task("t1").with_payload("{\"a\":1}")).await;
    let served = Served::start(dashboard(&fixture)).await;
    let shown = async || served.get("/api/queues/default/tasks/t1").await.json()["payload"]["text"].clone();
    let edit = async |was: &Value| {
        post(&served, "/queues/default/tasks/t1/edit", json!({ "payload": "mine", "was": was })).await
    };
    let before = shown().await;
    let (status, answer) = edit(&json!("{\n  \"a\": 2\n}")).await;
    assert_eq!((status, answer["error"]["code"].as_str()), (409, Some("conflict")), "{answer}");
    assert_eq!(shown().await, before);
    assert_eq!(edit(&before).await.0, 200);
    assert_eq!(shown().await, "mine");
}

#[tokio::test]
async fn a_payload_is_edited_as_text_or_as_checked_arguments() {
    use asynq_runtime::{Registry, prelude::*};

    #[job]
    async fn greet(name: String, times: u32) -> JobResult {
        let _ = (name, times);
        Ok(())
    }

    #[job]
    async fn note(text: Option<String>) -> JobResult {
        let _ = text;
        Ok(())
    }

    let fixture = Fixture::start().await;
    fixture.enqueue(task("t1")).await;
    let client = client(&fixture);
    let sent = client.enqueue(greet::job("ann", 1).task_id("g1")).await.unwrap();
    client.enqueue(note::job(Some("old".to_owned())).task_id("n1")).await.unwrap();
    let registry = Registry::only::<(greet, note)>().unwrap();
    let served = Served::start(dashboard(&fixture).registry(registry)).await;
    let edit = |id: &str| format!("/queues/default/tasks/{id}/edit");

    assert_eq!(post(&served, &edit("t1"), json!({ "payload": "{\"a\":1}" })).await.0, 200);
    assert_eq!(client.inspector().task("default", "t1").await.unwrap().payload, "{\"a\":1}");
    let arguments = json!({ "name": "bob", "times": 3 });
    assert_eq!(post(&served, &edit("g1"), json!({ "arguments": arguments })).await.0, 200);
    let page = served.get("/api/queues/default/tasks/g1").await.json();
    assert_eq!(page["payload"]["form"], "arguments");
    let text: Value = serde_json::from_str(page["payload"]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, arguments);
    let before = client.inspector().task("default", "g1").await.unwrap().payload;
    assert_ne!(before, sent.payload);
    let nothing = post(&served, &edit("n1"), json!({ "arguments": null })).await;
    assert_eq!(nothing.0, 200, "null is a lone argument: {}", nothing.1);
    assert_eq!(served.get("/api/queues/default/tasks/n1").await.json()["payload"]["text"], "null");
    for (id, bad, why) in [
        ("g1", json!({ "arguments": { "name": 7, "times": 3 } }), "expected a string"),
        ("g1", json!({ "arguments": { "name": "x" } }), "times"),
        ("t1", json!({ "arguments": {} }), "email:send"),
        ("t1", json!({}), "either"),
        ("t1", json!({ "payload": "x", "arguments": {} }), "either"),
    ] {
        let (status, answer) = post(&served, &edit(id), bad.clone()).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(why), "{bad}: {status} {answer}");
    }
    assert_eq!(client.inspector().task("default", "g1").await.unwrap().payload, before);
}

#[tokio::test]
async fn a_payload_that_a_known_job_cannot_read_is_shown_nowhere() {
    use asynq_runtime::{Registry, prelude::*};

    #[job]
    async fn pay(account: String, key: Secret<String>) -> JobResult {
        let _ = (account, key);
        Ok(())
    }

    let fixture = Fixture::start().await;
    let client = client(&fixture);
    client.enqueue(pay::job("ann", Secret::new("now private".to_owned())).task_id("p1")).await.unwrap();
    let before = br#"{"account": 7, "key": "once private"}"#;
    client.enqueue(RawTask::new("pay", before.as_slice()).task_id("p2")).await.unwrap();
    let registry = Registry::only::<(pay,)>().unwrap();
    let served = Served::start(dashboard(&fixture).registry(registry)).await;
    for path in
        ["/queues/default?state=pending", "/queues/default/tasks/p2", "/api/queues/default/tasks/p2", "/search?q=p2"]
    {
        let answer = served.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.body.contains("cannot be read with this program"), "{path}: {}", answer.body);
        assert!(!answer.body.contains("once private") && !answer.body.contains("data-edit"), "{path}: {}", answer.body);
    }
    let page = served.get("/api/queues/default/tasks/p2").await.json();
    assert_eq!((&page["payload"]["form"], &page["payload"]["size"]), (&json!("unreadable"), &json!(before.len())));
    for guess in ["once", "cannot%20be"] {
        let found = served.found(&format!("q={guess}")).await;
        assert!(found.is_empty(), "a search would reveal it letter by letter");
    }
    // A mask is not accepted as a secret, whichever field it is written to.
    for arguments in [json!({ "account": "bob", "key": "***" }), json!({ "account": "***", "key": "new" })] {
        let (status, answer) = post(&served, "/queues/default/tasks/p1/edit", json!({ "arguments": arguments })).await;
        assert!(status == 400 && answer["error"]["message"].as_str().unwrap().contains("***"), "{answer}");
    }
}

#[tokio::test]
async fn a_payload_given_as_text_cannot_turn_a_secret_into_its_mask() {
    use asynq_runtime::{Registry, prelude::*};

    #[job(codec = "json")]
    async fn charge(account: String, key: Secret<String>) -> JobResult {
        let _ = (account, key);
        Ok(())
    }

    #[job(codec = "json")]
    async fn note(text: String) -> JobResult {
        let _ = text;
        Ok(())
    }

    let fixture = Fixture::start().await;
    let client = client(&fixture);
    client.enqueue(charge::job("ann", Secret::new("private".to_owned())).task_id("p1")).await.unwrap();
    client.enqueue(RawTask::new("charge", r#"{"account":7,"key":"private"}"#).task_id("p2")).await.unwrap();
    client.enqueue(note::job("plain").task_id("n1")).await.unwrap();
    let registry = Registry::only::<(charge, note)>().unwrap();
    let served = Served::start(dashboard(&fixture).registry(registry)).await;
    let edit = async |id: &str, payload: &str| {
        post(&served, &format!("/queues/default/tasks/{id}/edit"), json!({ "payload": payload })).await
    };
    let stored = async |id: &str| client.inspector().task("default", id).await.unwrap().payload;
    // The shown payload is sent back: over a payload that can be read, and over one that cannot.
    for id in ["p1", "p2"] {
        let before = stored(id).await;
        let (status, answer) = edit(id, r#"{"account":"bob","key":"***"}"#).await;
        assert_eq!(status, 400, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("write it anew"), "{answer}");
        assert_eq!(stored(id).await, before);
        assert_eq!(edit(id, r#"{"account":"bob","key":"new ***"}"#).await.0, 200);
    }
    // Without a secret, stars are a text like any other.
    assert_eq!(edit("n1", r#"{"text":"***"}"#).await.0, 200);
    assert_eq!(&stored("n1").await[..], br#"{"text":"***"}"#);
}

#[tokio::test]
async fn a_periodic_entry_is_paused_resumed_and_run() {
    let fixture = Fixture::start().await;
    let id = furnish(&fixture).await.entry;
    let served = Served::start(dashboard(&fixture)).await;
    let path = |verb: &str| format!("/periodic/default/{id}/{verb}");
    for (verb, paused) in [("pause", true), ("resume", false)] {
        assert_eq!(post(&served, &path(verb), json!({})).await.0, 200);
        let state = fixture.broker().entry(&default_queue(), &EntryId::from_wire(&id)).await.unwrap().unwrap();
        assert_eq!(state.paused, paused);
    }
    let (status, answer) = post(&served, &path("run"), json!({})).await;
    assert_eq!(status, 200, "{answer}");
    let ran = client(&fixture).inspector().task("default", answer["id"].as_str().unwrap()).await.unwrap();
    assert_eq!((ran.r#type.as_str(), &ran.payload[..]), ("report", &b"{}"[..]));
    let page = served.get(&format!("/api/periodic/default/{id}")).await.json();
    assert_eq!(page["history"][0]["task"], answer["id"]);
}

#[tokio::test]
async fn an_entry_of_a_go_scheduler_runs_with_its_options_and_cannot_be_paused() {
    let fixture = Fixture::start().await;
    show(&fixture, "go-1", &["Queue(\"lo\\\"w\")", "MaxRetry(3)", "Timeout(1m30s)", "Retention(24h0m0s)"]).await;
    let served = Served::start(dashboard(&fixture)).await;
    let (status, answer) = post(&served, "/periodic/lo%22w/go-1/run", json!({})).await;
    assert_eq!(status, 200, "{answer}");
    let id = answer["id"].as_str().unwrap();
    let ran = fixture.broker().task(&queue("lo\"w"), &asynq_tests::task_id(id)).await.unwrap().unwrap();
    assert_eq!(
        (ran.max_retry, ran.timeout, ran.retention),
        (3, Some(Duration::from_secs(90)), Some(Duration::from_secs(86_400)))
    );
    let page = served.get("/api/periodic/lo%22w/go-1").await.json();
    assert_eq!(page["history"][0]["task"].as_str(), Some(id), "in the history that people look at");
    let (status, answer) = post(&served, "/periodic/lo%22w/go-1/pause", json!({})).await;
    assert!(status == 409 && answer["error"]["message"].as_str().unwrap().contains("Go"), "{answer}");
}
