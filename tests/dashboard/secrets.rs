//! A secret of a job that the dashboard does not know, or that its worker does not run, is on no page, in no answer and in no search.

use asynq_runtime::prelude::*;
use asynq_test_support::Log;
use asynq_tests::{eventually, task};

use super::Fixture;
use crate::{
    dashboard::stage::{Served, client, dashboard},
    process::address_in,
};

#[job(name = "hidden:pay")]
async fn pay(pin: Secret<String>, to: String) -> JobResult {
    let _ = (pin, to);
    Ok(())
}

#[tokio::test]
async fn a_secret_of_an_unknown_job_stays_hidden_however_long_its_payload_is() {
    let t = Fixture::start().await;
    let pin = "Q".repeat(5 * 1024);
    let medium = pay::job(Secret::new(pin.clone()), "ann").task_id("medium").enqueue(&client(&t)).await.unwrap();
    // The shape is kept, but does not read these: one is too long, the other is cut off.
    let long = [&medium.payload[..], pin.repeat(400).as_bytes()].concat();
    for (id, payload) in [("long", &long[..]), ("damaged", &medium.payload[..1024])] {
        let mut task = task(id);
        (task.message.r#type, task.message.payload) = ("hidden:pay".into(), payload.to_vec().into());
        t.enqueue(task).await;
    }
    let served = Served::start(dashboard(&t)).await;
    for path in [
        "/queues/default?state=pending",
        "/queues/default/tasks/medium",
        "/queues/default/tasks/long",
        "/queues/default/tasks/damaged",
        "/api/queues/default/tasks?state=pending",
        "/api/queues/default/tasks/medium",
        "/api/queues/default/tasks/long",
        "/api/queues/default/tasks/damaged",
        "/search?q=hidden",
    ] {
        let answer = served.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        // As text, and as a hex dump.
        assert!(!answer.body.contains("QQQ") && !answer.body.contains("51 51"), "{path}: {}", answer.body);
    }
    let listed = served.found("q=hidden").await;
    assert_eq!(listed.len(), 3, "{listed:?}");
    for (id, form, listed_form) in [
        ("medium", "arguments", "arguments"),
        ("long", "unreadable", "arguments"),
        ("damaged", "unreadable", "unreadable"),
    ] {
        let whole = served.get(&format!("/api/queues/default/tasks/{id}")).await.json();
        let listed = listed.iter().find(|task| task["id"] == id).unwrap();
        assert_eq!(
            (&whole["payload"]["form"], &listed["payload"]["form"]),
            (&form.into(), &listed_form.into()),
            "{id}"
        );
        let is_editable = served.get(&format!("/queues/default/tasks/{id}")).await.body.contains("data-edit");
        assert!(!is_editable, "{id}");
    }
    for guess in ["QQQ", "51%2051"] {
        assert!(served.found(&format!("q={guess}")).await.is_empty(), "a search would reveal it letter by letter");
    }
}

#[job(name = "hidden:charge", codec = "json")]
async fn charge(key: Secret<String>) -> JobResult {
    let _ = key;
    Ok(())
}

/// No shape of JSON is kept, so that the job itself must be known.
#[tokio::test]
async fn the_dashboard_of_a_worker_of_some_jobs_hides_the_secrets_of_the_others() {
    let (t, log) = (Fixture::real_time().await, Log::keep());
    charge::job(Secret::new("QQQ".to_owned())).task_id("charge").enqueue(&client(&t)).await.unwrap();
    let server = Server::builder("nothing://is-connected")
        .broker(t.shared())
        .registry(Registry::only::<(pay, charge)>().unwrap())
        .only(["hidden:pay"])
        .queue("idle", 1)
        .service(asynq_dashboard::service("127.0.0.1:0"));
    let running = server.build().await.unwrap().start().await.unwrap();
    let line = eventually("the dashboard listens", async || log.with("dashboard at http://").pop()).await;
    let page = Served::at(address_in(&line).parse().unwrap()).get("/queues/default/tasks/charge").await;
    assert!(page.status == 200 && page.body.contains("***") && !page.body.contains("QQQ"), "{}", page.body);
    running.shutdown().await.unwrap();
}
