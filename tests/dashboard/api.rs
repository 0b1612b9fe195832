//! The JSON API returns the broker's data.

use std::time::Duration;

use asynq_runtime::task::SchedulerEntry;
use asynq_tests::{Build as _, archive, retry, task};
use serde_json::{Value, json};

use super::Fixture;
use crate::dashboard::stage::{ODD, Served, client, dashboard, furnish};

fn ids(answer: &Value) -> Vec<String> {
    let tasks = answer["tasks"].as_array().unwrap_or_else(|| panic!("no tasks: {answer}"));
    tasks.iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn queues_are_listed_with_their_numbers() {
    let fixture = Fixture::start().await;
    furnish(&fixture).await;
    fixture.enqueue(task("x").in_queue("a/b")).await;
    let served = Served::start(dashboard(&fixture)).await;
    let all = served.get("/api/queues").await.json();
    let names: Vec<_> = all["queues"].as_array().unwrap().iter().map(|queue| &queue["queue"]).collect();
    assert_eq!(names, ["a/b", "default"]);
    assert_eq!((&all["totals"]["pending"], &all["totals"]["active"]), (&json!(4), &json!(1)));
    let one = served.get("/api/queues/a%2Fb").await.json();
    assert_eq!((&one["queue"], &one["pending"], &one["paused"]), (&json!("a/b"), &json!(1), &json!(false)));
    let history = served.get("/api/queues/default/history?days=3").await.json();
    assert_eq!(history["days"].as_array().unwrap().len(), 3);
    for path in ["/api/queues/none", "/api/queues/none/tasks", "/api/queues/none/groups", "/api/samples?queue=none"] {
        let answer = served.get(path).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{path}");
    }
}

#[tokio::test]
async fn tasks_come_by_state_page_and_group() {
    let fixture = Fixture::start().await;
    furnish(&fixture).await;
    let served = Served::start(dashboard(&fixture)).await;
    for (query, expected) in [
        ("", vec!["t1", "t2", ODD]),
        ("?state=pending&per=1&page=2", vec!["t2"]),
        ("?state=active", vec!["busy"]),
        ("?state=scheduled", vec!["later"]),
        ("?state=archived", vec!["dead"]),
        ("?state=aggregating&group=g", vec!["member"]),
        ("?state=aggregating&group=nobody", vec![]),
    ] {
        assert_eq!(ids(&served.get(&format!("/api/queues/default/tasks{query}")).await.json()), expected, "{query}");
    }
    for bad in
        ["?state=nowhere", "?page=0", "?per=501", "?page=-1", "?page=18446744073709551615", "?per=1e9", "?page=x"]
    {
        let answer = served.get(&format!("/api/queues/default/tasks{bad}")).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad_request"), "{bad}");
    }
    let refused = served.get("/api/queues/default/tasks?state=retry&group=g").await;
    assert_eq!((refused.status, refused.code().as_str()), (400, "bad_request"));
    let message = "invalid `group`: only aggregating tasks wait in groups; list the state `aggregating`";
    assert_eq!(refused.json()["error"]["message"], message);
    let groups = served.get("/api/queues/default/groups").await.json();
    assert_eq!((&groups["groups"][0]["group"], &groups["groups"][0]["size"]), (&json!("g"), &json!(1)));
}

#[tokio::test]
async fn a_task_is_answered_with_its_failures() {
    let fixture = Fixture::start().await;
    let run = fixture.start_run(task("t1").with_payload("{\"to\":\"ann\"}").with_header("trace", "<b>")).await;
    fixture.settle(&run, retry(Duration::ZERO, "no <script>")).await;
    let served = Served::start(dashboard(&fixture)).await;
    let answer = served.get("/api/queues/default/tasks/t1").await.json();
    assert_eq!(
        (&answer["state"], &answer["retried"], &answer["type"]),
        (&json!("retry"), &json!(1), &json!("email:send"))
    );
    assert_eq!(
        answer["payload"],
        json!({
            "form": "json", "text": "{\n  \"to\": \"ann\"\n}", "size": 12, "is_cut": false
        })
    );
    assert_eq!(answer["failures"][0]["error"], "no <script>");
    assert_eq!(answer["headers"], json!([{ "key": "trace", "value": "<b>" }]));
    assert_eq!(served.get("/api/queues/default/tasks/none").await.status, 404);
}

#[tokio::test]
async fn a_megabyte_is_cut_and_bytes_are_a_dump() {
    let fixture = Fixture::start().await;
    fixture.enqueue(task("long").with_payload("ä".repeat(500_000))).await;
    fixture.enqueue(task("bytes").with_payload(vec![0_u8; 100_000])).await;
    let served = Served::start(dashboard(&fixture)).await;
    for (id, form, size) in [("long", "text", 1_000_000), ("bytes", "binary", 100_000)] {
        let answer = served.get(&format!("/api/queues/default/tasks/{id}")).await;
        assert!(answer.body.len() < 100_000, "{} bytes", answer.body.len());
        let payload = &answer.json()["payload"];
        assert_eq!(
            (&payload["form"], &payload["size"], &payload["is_cut"]),
            (&json!(form), &json!(size), &json!(true))
        );
    }
}

#[tokio::test]
async fn search_finds_by_id_type_arguments_error_state_and_time_and_goes_on() {
    let fixture = Fixture::start().await;
    let run = fixture.start_run(task("failed")).await;
    fixture.settle(&run, archive("Connection REFUSED by peer")).await;
    for n in 0..250 {
        fixture.enqueue(task(&format!("n{n:03}")).with_payload(format!("{{\"customer\":{n}}}"))).await;
    }
    fixture.enqueue(task("elsewhere").in_queue("low").after(Duration::from_secs(7200))).await;
    // In a hex dump of 16 bytes a line the text is in two lines.
    let bytes = [&b"\xff\x01\x02\x03\x04\x05\x06\x07\x08\x09"[..], b"Consumer-12345"].concat();
    fixture.enqueue(task("bytes").in_queue("low").grouped("g").with_payload(bytes)).await;
    // A task that a person archives has no other time.
    fixture.enqueue(task("put-away").in_queue("low")).await;
    client(&fixture).inspector().archive("low", "put-away").await.unwrap();
    let served = Served::start(dashboard(&fixture)).await;
    // A task that was found by its id may come a second time.
    let all = async |query: &str| {
        let tasks = served.found(query).await;
        let mut found: Vec<_> =
            tasks.iter().map(|task| format!("{}/{}", task["queue"], task["id"]).replace('"', "")).collect();
        found.sort();
        found
    };
    for (query, expected) in [
        ("q=elsewhere", vec!["low/elsewhere"]),
        ("q=ELSEWH", vec!["low/elsewhere"]),
        ("q=refused", vec!["default/failed"]),
        ("q=%22customer%22:%20149", vec!["default/n149"]),
        // Written as programs write it, with and without spaces, not as pages lay it out.
        ("q=%7B%22customer%22:149%7D", vec!["default/n149"]),
        ("q=%7B%20%22customer%22:149,%20%22order%22%20:%20%22a%20b%22", vec![]),
        ("q=consumer-12345", vec!["low/bytes"]),
        ("q=00000000", vec![]),
        ("q=n01&queue=low", vec![]),
        ("q=email:send&state=archived", vec!["default/failed", "low/put-away"]),
        ("type=email:send&state=scheduled", vec!["low/elsewhere"]),
        ("type=email:sen", vec![]),
        ("type=%20email:send%20&state=scheduled", vec!["low/elsewhere"]),
        ("since=2030-01-02T04:00:00Z", vec!["low/elsewhere"]),
        (
            "since=2030-01-02T03:00:00Z&until=2030-01-02T04:00:00Z&state=archived",
            vec!["default/failed", "low/put-away"],
        ),
    ] {
        let mut found = all(query).await;
        found.dedup();
        assert_eq!(found, expected, "{query}");
    }
    // More tasks than one answer holds, each once.
    let expected: Vec<_> = (0..250).map(|n| format!("default/n{n:03}")).collect();
    assert_eq!(all("q=n&state=pending").await, expected);
    // That many queues have a task of this id; tasks found by their id are found again because their id contains the text.
    for n in 0..130 {
        fixture.enqueue(task("same").in_queue(&format!("tenant-{n:03}"))).await;
    }
    let mut tenants = all("q=same").await;
    tenants.dedup();
    assert_eq!(tenants, (0..130).map(|n| format!("tenant-{n:03}/same")).collect::<Vec<_>>());
    for bad in ["state=x", "since=yesterday", "until=1", "after=9.9.9", "after=x"] {
        assert_eq!(served.get(&format!("/api/search?{bad}")).await.status, 400, "{bad}");
    }
    assert_eq!(served.get("/api/search?queue=none").await.status, 404);
}

#[tokio::test]
async fn servers_periodic_entries_and_the_broker_are_listed() {
    let fixture = Fixture::real_time().await;
    let entry = furnish(&fixture).await.entry;
    let served = Served::start(dashboard(&fixture)).await;
    let servers = served.get("/api/servers").await.json();
    assert_eq!((&servers["servers"][0]["host"], &servers["servers"][0]["concurrency"]), (&json!("host-1"), &json!(10)));
    let answer = served.get("/api/periodic").await.json();
    let answer = &answer["entries"][0];
    assert_eq!(
        (&answer["id"], &answer["queue"], &answer["can_pause"]),
        (&json!(entry), &json!("default"), &json!(true))
    );
    assert_eq!(answer["next"].as_array().unwrap().len(), 5);
    assert!(answer["sentence"].as_str().is_some_and(|sentence| sentence.contains("9:00")), "{answer}");
    let broker = served.get("/api/broker").await.json();
    assert_eq!((broker["kind"].as_str(), &broker["queues"]), (Some(fixture.broker().kind()), &json!(1)));
    assert!(broker["ahead_ms"].as_i64().is_some_and(|ahead| ahead.abs() < 5000), "{broker}");
}

#[tokio::test]
async fn periodic_entries_beyond_the_first_page_are_listed_on_the_next() {
    let fixture = Fixture::start().await;
    let entry = |n: usize| SchedulerEntry {
        id: format!("e{n:03}"),
        spec: "0 9 * * *".into(),
        task_type: format!("report:{n:03}"),
        ..SchedulerEntry::default()
    };
    let entries: Vec<_> = (0..501).map(entry).collect();
    fixture.broker().show_entries("host:1:s", &entries, Duration::from_secs(600)).await.unwrap();
    let served = Served::start(dashboard(&fixture)).await;
    for (query, first, entries, left_out) in
        [("", "e000", 500, 1), ("?page=1", "e000", 500, 1), ("?page=2", "e500", 1, 0), ("?page=9", "e500", 1, 0)]
    {
        let answer = served.get(&format!("/api/periodic{query}")).await.json();
        let listed = answer["entries"].as_array().unwrap();
        let found = (&listed[0]["id"], listed.len(), &answer["left_out"]);
        assert_eq!(found, (&json!(first), entries, &json!(left_out)), "{query}");
        let page = served.get(&format!("/periodic{query}")).await.body;
        assert!(page.contains("501 entries") && page.contains(&format!("report:{}", &first[1..])), "{page}");
        assert_eq!(page.contains("/periodic?page=2"), left_out > 0, "{page}");
    }
}
