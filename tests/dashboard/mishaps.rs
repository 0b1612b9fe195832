//! Mishaps of an operator: archiving more than an archive keeps, changing a task that has moved, looking at a broken key.

use std::time::Duration;

use asynq_runtime::{
    broker::Broker,
    task::{ArchiveLimit, QueueWeight, SchedulerEntry, ServerInfo, TaskState},
};
use asynq_tests::{Build as _, eventually, queue, task};
use serde_json::json;

use super::Fixture;
use crate::dashboard::stage::{Served, client, dashboard, post};

const HOUR: Duration = Duration::from_secs(3600);

/// Starts a server that serves the default queue and keeps so many archived tasks. It beats as long as the test runs.
async fn serve(t: &Fixture, archived: u64) {
    let member = t.another_member(7).await;
    let info = ServerInfo {
        host: "host-7".into(),
        status: "active".into(),
        rust_version: "0.1.0".into(),
        start_time: Some(t.now().into()),
        queues: vec![QueueWeight { queue: Some("default".into()), weight: Some(1) }],
        archives: vec![ArchiveLimit { queue: "default".into(), tasks: archived }],
        ..ServerInfo::default()
    };
    t.broker().beat(&member, &info, &[]).await.unwrap();
    let broker = t.shared();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let _ = broker.beat(&member, &info, &[]).await;
        }
    });
}

async fn scheduled(broker: &dyn Broker) -> u64 {
    broker.queue_stats(&queue("default")).await.unwrap().scheduled
}

#[tokio::test]
async fn more_than_an_archive_keeps_is_archived_only_on_confirmation() {
    let t = Fixture::start().await;
    serve(&t, 100).await;
    t.seed_archived("old").await;
    let tasks = (0..140).map(|n| task(&format!("t{n:03}")).after(HOUR)).collect();
    t.broker().enqueue(tasks).await.into_iter().for_each(|answer| assert!(answer.is_ok(), "{answer:?}"));
    let served = Served::start(dashboard(&t)).await;
    let bulk = "/queues/default/bulk";

    let (status, answer) = post(&served, bulk, json!({ "action": "archive", "state": "scheduled", "all": true })).await;
    let message = answer["error"]["message"].as_str().unwrap();
    assert_eq!(status, 409, "{answer}");
    assert!(message.contains("keeps 100 tasks and holds 1, so the 41 oldest would be deleted"), "{message}");
    let ids: Vec<String> = (0..100).map(|n| format!("t{n:03}")).collect();
    let picked = json!({ "action": "archive", "state": "scheduled", "ids": ids });
    assert_eq!(post(&served, bulk, picked).await.0, 409, "picked one by one it is the same");
    assert_eq!(scheduled(t.broker()).await, 140, "nothing was changed");

    // The page has these numbers before: its script makes the question of them.
    let page = served.get("/queues/default?state=scheduled").await.body;
    for part in [r#"data-count="140""#, r#"data-archived="1""#, r#"data-keeps="100""#] {
        assert!(page.contains(part), "{part} is missing in {page}");
    }
    // They cost a look at all servers.
    let page = served.get("/queues/default?state=archived").await.body;
    assert!(page.contains("data-bulk") && !page.contains("data-keeps"), "{page}");

    let meant = json!({ "action": "archive", "state": "scheduled", "all": true, "beyond_archive": true });
    let (status, answer) = post(&served, bulk, meant).await;
    assert_eq!((status, &answer["changed"]), (200, &json!(140)), "{answer}");
    assert!(
        answer["message"].as_str().unwrap().contains("The archive keeps 100: a worker will delete the 41 oldest"),
        "{answer}"
    );
    t.enqueue(task("late")).await;
    let page = served.get("/queues/default/tasks/late").await.body;
    assert!(page.contains("keeps 100 tasks and holds 141: the oldest will be DELETED"), "{page}");
}

#[tokio::test]
async fn all_are_at_most_those_that_were_confirmed() {
    let t = Fixture::start().await;
    for n in 0..5 {
        t.enqueue(task(&format!("t{n}")).after(HOUR)).await;
    }
    let served = Served::start(dashboard(&t)).await;
    let wanted = json!({ "action": "delete", "state": "scheduled", "all": true, "most": 3 });
    let (_, answer) = post(&served, "/queues/default/bulk", wanted).await;
    assert_eq!(
        (&answer["changed"], &answer["treated"], &answer["left"], &answer["more"]),
        (&json!(3), &json!(3), &json!(2), &json!(false)),
        "{answer}"
    );
    assert_eq!(answer["message"], "3 tasks were deleted. 2 are left.");
    assert_eq!(scheduled(t.broker()).await, 2);
}

#[tokio::test]
async fn a_task_that_has_moved_since_it_was_listed_is_left_and_reported() {
    let t = Fixture::start().await;
    t.seed_retry("moved", HOUR).await;
    t.seed_retry("stayed", HOUR).await;
    client(&t).inspector().run("default", "moved").await.unwrap();
    let served = Served::start(dashboard(&t)).await;
    let reason = "it is pending now, not retry";

    let picked = json!({ "action": "delete", "state": "retry", "ids": ["moved", "stayed"] });
    let (status, answer) = post(&served, "/queues/default/bulk", picked).await;
    assert_eq!((status, &answer["changed"]), (200, &json!(1)), "{answer}");
    assert_eq!(answer["refused"][0]["id"], "moved", "{answer}");
    assert!(answer["refused"][0]["message"].as_str().unwrap().contains(reason), "{answer}");
    assert_eq!((t.state_of("moved").await, t.state_of("stayed").await), (Some(TaskState::Pending), None));

    // A task's own page behaves alike, and sends the state that it shows.
    let page = served.get("/queues/default/tasks/moved").await.body;
    assert!(page.contains("{&quot;state&quot;:&quot;pending&quot;}"), "{page}");
    for verb in ["run", "archive", "delete"] {
        let (status, answer) =
            post(&served, &format!("/queues/default/tasks/moved/{verb}"), json!({ "state": "retry" })).await;
        assert_eq!(status, 409, "{verb}: {answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(reason), "{answer}");
    }
    let (status, answer) = post(&served, "/queues/default/tasks/moved/cancel", json!({})).await;
    assert!(
        status == 409 && answer["error"]["message"].as_str().unwrap().contains("there is no run to cancel"),
        "{answer}"
    );
    assert_eq!(t.state_of("moved").await, Some(TaskState::Pending));
}

#[tokio::test]
async fn a_payload_of_the_default_codec_is_not_replaced_by_text() {
    use asynq_runtime::prelude::*;

    #[job(name = "mishap:double")]
    async fn double(n: u64) -> JobResult {
        let _ = n;
        Ok(())
    }

    let t = Fixture::start().await;
    let old = double::job(7).task_id("t1").enqueue(&client(&t)).await.unwrap();
    // A dashboard without the job.
    let served = Served::start(dashboard(&t)).await;
    let (status, answer) = post(&served, "/queues/default/tasks/t1/edit", json!({ "payload": "8" })).await;
    assert_eq!(status, 409, "{answer}");
    assert!(
        answer["error"]["message"].as_str().unwrap().contains("which only the program of `mishap:double` can write"),
        "{answer}"
    );
    assert_eq!(client(&t).inspector().task("default", "t1").await.unwrap().payload, old.payload);
}

/// A dashboard without the job, or one of a newer program, reads and writes arguments by the shape that the broker stores.
#[tokio::test]
async fn arguments_of_other_programs_are_shown_found_and_edited_by_their_shape() {
    use asynq_runtime::{Registry, prelude::*};

    mod newer {
        use asynq_runtime::prelude::*;

        #[job(name = "mishap:transfer")]
        pub(super) async fn transfer(
            #[serde(alias = "to")] recipient: String,
            iban: Secret<String>,
            n: u8,
        ) -> JobResult {
            let _ = (recipient, iban, n);
            Ok(())
        }
    }

    #[job(name = "mishap:transfer")]
    async fn transfer(to: String, iban: String, pin: Secret<String>) -> JobResult {
        let _ = (to, iban, pin);
        Ok(())
    }

    let t = Fixture::start().await;
    let job = transfer::job("ann", "DE00", Secret::new("4711".to_owned()));
    job.task_id("t1").header("tenant", "acme").enqueue(&client(&t)).await.unwrap();
    let served = Served::start(dashboard(&t)).await;
    for page in [
        served.get("/queues/default/tasks/t1").await.body,
        served.get("/queues/default").await.body,
        served.searched("q=DE00").await,
        served.searched("q=acme").await,
    ] {
        assert!(page.contains("DE00") && page.contains("***") && !page.contains("4711"), "{page}");
    }
    assert!(served.found("q=4711").await.is_empty());
    let edit =
        async |arguments| post(&served, "/queues/default/tasks/t1/edit", json!({ "arguments": arguments })).await;
    let (status, answer) = edit(json!({ "to": "bob", "iban": 7, "pin": "1" })).await;
    assert!(
        status == 400 && answer.to_string().contains("`iban`: expected a text, found a number; write {"),
        "{answer}"
    );
    let (status, answer) = edit(json!({ "to": "bob", "iban": "DE01", "pin": "***" })).await;
    assert!(status == 400 && answer.to_string().contains("write it anew"), "{answer}");
    let (status, answer) = edit(json!({ "to": "bob", "iban": "DE01", "pin": "0815" })).await;
    assert_eq!(status, 200, "{answer}");
    let read = |job: &mut transfer| assert_eq!((job.iban.as_str(), job.pin.expose().as_str()), ("DE01", "0815"));
    client(&t).inspector().edit::<transfer>("default", "t1", read).await.unwrap();

    // Fields that are secret in the newer program are hidden in the tasks of the older one.
    let newer = Served::start(dashboard(&t).registry(Registry::only::<(newer::transfer,)>().unwrap())).await;
    let page = newer.get("/queues/default/tasks/t1").await.body;
    assert!(page.contains("bob") && !page.contains("DE01") && !page.contains("0815"), "{page}");
}

/// The dashboard may be in a worker, whose runs would end with it.
#[tokio::test]
async fn the_page_of_a_task_whose_arguments_no_stack_can_hold_says_that_they_cannot_be_read() {
    use asynq_runtime::{Registry, prelude::*};

    mod nested {
        use asynq_runtime::prelude::*;
        use serde::{Deserialize, Serialize};

        #[derive(Serialize, Deserialize)]
        pub(super) enum Expression {
            Leaf,
            Not(Box<Expression>),
        }

        #[job(name = "mishap:eval")]
        pub(super) async fn eval(expression: Expression) -> JobResult {
            let _ = expression;
            Ok(())
        }
    }

    let t = Fixture::start().await;
    let client = client(&t);
    let registry = Registry::only::<(nested::eval,)>().unwrap();
    let fingerprint = registry.get("mishap:eval").unwrap().fingerprint().value;
    let leaf = [&[1][..], &fingerprint.to_le_bytes(), &[0]].concat();
    let endless = [&leaf[..5], &vec![1; 900_000], &[0]].concat();
    for (id, payload) in [("leaf", leaf), ("endless", endless)] {
        client.enqueue(RawTask::new("mishap:eval", payload).task_id(id)).await.unwrap();
    }
    let served = Served::start(dashboard(&t).registry(registry)).await;
    assert!(served.get("/queues/default/tasks/leaf").await.body.contains("Leaf"));
    let page = served.get("/queues/default/tasks/endless").await;
    assert!(page.status == 200 && page.body.contains("cannot be read with this program"), "{}", page.body);
    let edit = json!({ "arguments": { "Not": "Leaf" } });
    let (status, answer) = post(&served, "/queues/default/tasks/endless/edit", edit).await;
    assert!(status < 500, "{status}: {answer}");
}

/// A page of large tasks carries the beginning of each; the task's own page has the whole.
#[tokio::test]
async fn a_listing_shows_the_beginning_of_large_arguments_and_the_tasks_page_all_of_them() {
    use asynq_runtime::{Registry, prelude::*};

    #[job(name = "mishap:import")]
    async fn import(rows: String) -> JobResult {
        let _ = rows;
        Ok(())
    }

    let t = Fixture::start().await;
    let client = client(&t);
    // The cut goes through a letter of two bytes.
    let text = format!("[\"{}the end\"]", "ä".repeat(10_000));
    client.enqueue(RawTask::new("raw", text.clone()).task_id("raw")).await.unwrap();
    import::job("x".repeat(10_000)).task_id("typed").enqueue(&client).await.unwrap();
    let served = Served::start(dashboard(&t).registry(Registry::only::<(import,)>().unwrap())).await;

    let listed =
        served.get("/api/queues/default/tasks?state=pending").await.json()["tasks"].as_array().unwrap().clone();
    for tasks in [listed, served.found("q=mishap").await, served.found("q=raw&state=pending").await] {
        assert!(!tasks.is_empty());
        for task in tasks {
            assert!(task.to_string().len() < 6_000, "{task}");
            let (payload, is_typed) = (&task["payload"], task["id"] == "typed");
            assert_eq!(payload["is_cut"], true, "{task}");
            assert_eq!(payload["size"], if is_typed { 10_007 } else { text.len() }, "{task}");
            // A part of typed arguments cannot be decoded; they are still shown as arguments and not as unknown bytes.
            let (form, begins) = if is_typed { ("arguments", "") } else { ("text", "[\"ää") };
            assert_eq!(payload["form"], form, "{task}");
            assert!(payload["text"].as_str().unwrap().starts_with(begins), "{task}");
        }
    }
    // A search has a limited time, in which a busy machine may look at none.
    let searched = async |path: &str| {
        eventually("a search looks at all tasks", async || {
            Some(served.get(path).await.body).filter(|page| page.contains("that was all"))
        })
        .await
    };
    // No answer says of a task that was not searched to its end that it is without the text.
    for (query, unsearched) in [("q=the%20end", 2), ("q=raw", 1), ("q=the%20end&type=raw", 1), ("type=none", 0)] {
        let answer = eventually("a search looks at all tasks", async || {
            Some(served.get(&format!("/api/search?{query}")).await.json()).filter(|answer| answer["next"].is_null())
        })
        .await;
        assert_eq!(answer["partly_searched"], unsearched, "{query}");
    }
    let page = searched("/search?q=the%20end").await;
    let bar = "0 found, 2 looked at: that was all, but 2 have more than 4 KiB of arguments";
    assert!(page.contains(bar) && !page.contains("No task has all of that."), "{page}");
    let page = searched("/search?q=mishap").await;
    assert!(page.contains("that was all, but 1 has more than 4 KiB of arguments"), "{page}");
    let page = served.get("/queues/default?state=pending").await;
    assert!(page.body.contains("10,007 bytes"), "{}", page.body);
    let whole = served.get("/api/queues/default/tasks/raw").await.json();
    assert_eq!((&whole["payload"]["form"], &whole["payload"]["is_cut"]), (&json!("json"), &json!(false)), "{whole}");
    assert!(whole["payload"]["text"].as_str().unwrap().contains("the end"));
    let typed = served.get("/api/queues/default/tasks/typed").await.json();
    assert_eq!(typed["payload"]["form"], "arguments");
}

#[tokio::test]
async fn the_tabs_of_a_queue_keep_the_length_of_its_pages() {
    let t = Fixture::start().await;
    t.seed_pending(&["one"]).await;
    let served = Served::start(dashboard(&t)).await;
    let page = served.get("/queues/default?state=pending&per=100").await.body;
    assert!(page.contains(r#"href="/queues/default?state=retry&amp;per=100""#), "{page}");
}

#[tokio::test]
async fn one_broken_key_hides_no_other_queue() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    t.seed_pending(&["one"]).await;
    t.enqueue(task("sound").in_queue("low")).await;
    go.put_text("pending");
    let served = Served::start(dashboard(&t)).await;

    let page = served.get("/").await;
    assert_eq!(page.status, 200, "{}", page.body);
    for part in ["cannot be read", "default", "/queues/low", "2 queues"] {
        assert!(page.body.contains(part), "{part} is missing in {}", page.body);
    }
    for path in ["/api/queues", "/stats"] {
        let answer = served.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let answer = answer.json();
        assert_eq!(answer["unreadable"][0]["queue"], "default", "{path}: {answer}");
        assert_eq!(answer["queues"][0]["queue"], "low", "{path}: {answer}");
    }
    let broken = served.get("/api/queues/default").await;
    assert_eq!(broken.status, 500);
    assert!(broken.body.contains("queue `default` cannot be read"), "{}", broken.body);

    // No task has this id: the lists of both queues are looked at.
    let answer = eventually("a search looks at all that can be read", async || {
        Some(served.get("/api/search?q=soun").await.json()).filter(|answer| answer["next"].is_null())
    })
    .await;
    assert_eq!((&answer["tasks"][0]["id"], &answer["incomplete"]), (&json!("sound"), &json!(true)), "{answer}");
}

#[tokio::test]
async fn one_broken_key_hides_no_task_and_no_periodic_entry() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    t.enqueue(task("one").after(HOUR)).await;
    let entry = |id: &str| SchedulerEntry {
        id: id.into(),
        spec: "@hourly".into(),
        task_type: format!("report:{id}"),
        ..SchedulerEntry::default()
    };
    t.broker().show_entries("host-1:1:a", &[entry("broken"), entry("whole")], HOUR).await.unwrap();
    go.put_text("completed");
    go.put_text("x:cron:broken");
    let served = Served::start(dashboard(&t)).await;

    // The page would show the size of the archive, which is one of the queue's numbers.
    let page = served.get("/queues/default/tasks/one").await;
    assert!(page.status == 200 && page.body.contains("/queues/default/tasks/one/archive"), "{}", page.body);

    let page = served.get("/periodic").await;
    assert_eq!(page.status, 200, "{}", page.body);
    for part in ["report:broken", "report:whole", "cannot be read"] {
        assert!(page.body.contains(part), "{part} is missing in {}", page.body);
    }
    let answer = served.get("/api/periodic").await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let answer = answer.json();
    assert!(answer["entries"][0]["error"].is_string() && answer["entries"][0]["paused"].is_null(), "{answer}");
    assert!(answer["entries"][1]["error"].is_null() && answer["entries"][1]["paused"] == false, "{answer}");
}

#[tokio::test]
async fn the_broker_page_does_without_a_list_of_schedulers_that_cannot_be_read() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    go.put_text_at("asynq:schedulers");
    let served = Served::start(dashboard(&t)).await;
    let page = served.get("/broker").await;
    assert!(page.status == 200 && page.body.contains("<dt>Periodic entries</dt><dd>unknown</dd>"), "{}", page.body);
    let answer = served.get("/api/broker").await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let answer = answer.json();
    assert!(answer["entries"].is_null() && answer["kind"] == "redis", "{answer}");
}
