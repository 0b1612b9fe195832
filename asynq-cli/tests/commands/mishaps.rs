//! What a tired person does to tasks: the question says what will be lost, a slip looks like a slip, and one broken key
//! hides nothing.

use std::time::Duration;

use asynq_runtime::{
    Client, TaskState, job,
    prelude::*,
    task::{ArchiveLimit, QueueWeight, SchedulerEntry, ServerInfo},
};
use asynq_tests::{Build as _, Store, queue, task};

use crate::desk::{Desk, on_both_brokers};

const HOUR: Duration = Duration::from_secs(3600);

#[job(name = "typed:double")]
async fn double(n: u64) -> JobResult {
    let _ = n;
    Ok(())
}

/// A server that serves the default queue and keeps so many archived tasks of it.
async fn serve<S: Store>(desk: &Desk<S>, archived: u64) {
    let member = desk.t.another_member(7).await;
    let info = ServerInfo {
        host: "host-7".into(),
        status: "active".into(),
        rust_version: "0.1.0".into(),
        start_time: Some(desk.t.now().into()),
        queues: vec![QueueWeight { queue: Some("default".into()), weight: Some(1) }],
        archives: vec![ArchiveLimit { queue: "def*".into(), tasks: archived }],
        ..ServerInfo::default()
    };
    desk.t.broker().beat(&member, &info, &[]).await.unwrap();
}

on_both_brokers! {
    async fn archiving_more_than_an_archive_keeps_says_before_what_will_be_deleted(desk) {
        serve(&desk, 100).await;
        desk.t.seed_archived("old").await;
        for n in 0..140 {
            desk.t.enqueue(task(&format!("t{n:03}")).after(HOUR)).await;
        }
        let line = "task archive-all -q default -s scheduled";
        let question = "Archive 140 scheduled tasks of queue default? Its archive keeps 100 tasks and holds 1: the 41 oldest \
                        will be DELETED.";
        let scheduled = async || desk.t.broker().queue_stats(&queue("default")).await.unwrap().scheduled;

        let refused = desk.run(line).await;
        assert_eq!(refused.code, 3, "{refused}");
        assert!(refused.err.contains(question), "{refused}");
        let with_yes = desk.run("task archive-all -q default -s scheduled --yes").await;
        assert!(with_yes.code == 3 && with_yes.err.contains(question), "{with_yes}");
        assert!(with_yes.err.contains("add --yes --beyond-archive to do it"), "{with_yes}");
        let declined = desk.run_typing("\n", line).await;
        assert!(declined.code == 3 && declined.err.contains(question), "{declined}");
        assert_eq!(scheduled().await, 140, "nothing happens without a yes");

        let done = desk.run_typing("y\n", line).await;
        assert_eq!((done.code, scheduled().await), (0, 0), "{done}");
        assert!(done.err.contains("a server will delete 41 tasks"), "{done}");

        desk.t.enqueue(task("one").after(HOUR)).await;
        let allowed = desk.run("task archive-all -q default -s scheduled --yes --beyond-archive").await;
        assert_eq!((allowed.code, scheduled().await), (0, 0), "{allowed}");
    }

    async fn archiving_one_task_into_a_full_archive_says_what_will_be_deleted(desk) {
        serve(&desk, 1).await;
        desk.t.seed_archived("old").await;
        desk.t.seed_pending(&["one", "two"]).await;
        let refused = desk.run("task archive -q default one --yes").await;
        let question = "Archive task one of queue default? Its archive keeps 1 task and holds 1: the oldest one will be DELETED.";
        assert!(refused.code == 3 && refused.err.contains(question), "{refused}");
        assert_eq!(desk.t.broker().queue_stats(&queue("default")).await.unwrap().pending, 2);
        // What is archived already, or is not there, deletes nothing.
        let typo = desk.run("task archive -q default old typo --yes").await;
        assert!(typo.code == 1 && typo.err.contains("`typo` was not found") && !typo.err.contains("DELETED"), "{typo}");
        let allowed = desk.run("task archive -q default one two --yes --beyond-archive").await;
        assert_eq!((allowed.code, allowed.out.as_str()), (0, "task one is archived\ntask two is archived\n"), "{allowed}");
    }

    async fn an_archive_with_room_is_not_spoken_of(desk) {
        serve(&desk, 100).await;
        desk.t.enqueue(task("t1").after(HOUR)).await;
        let asked = desk.run("task archive-all -q default -s scheduled").await;
        assert!(asked.err.contains("Archive 1 scheduled task of queue default? Standard input"), "{asked}");
    }

    async fn a_slip_in_a_name_is_no_success(desk) {
        desk.t.seed_pending(&["one"]).await;
        for (line, expected) in [
            ("queue pause defualt", "error: queue `defualt` was not found\n"),
            ("queue resume defualt", "error: queue `defualt` was not found\n"),
            ("task cancel nobody", "error: there is no task `nobody` in any queue\n"),
            ("task cancel one", "error: task `one` is pending in queue `default`, not running; there is no run to cancel\n"),
        ] {
            let answer = desk.run(line).await;
            assert_eq!((answer.code, answer.out.as_str(), answer.err.as_str()), (1, "", expected), "{answer}");
        }
        assert!(!desk.t.broker().queue_stats(&queue("defualt")).await.unwrap().paused);
        // What a program paused before its first task goes on.
        desk.t.broker().pause(&queue("future")).await.unwrap();
        assert_eq!(desk.run("queue resume future").await.code, 0);
    }

    async fn arguments_that_only_the_program_can_write_are_not_replaced_by_json(desk) {
        let client = Client::new(desk.t.shared());
        let old = double::job(7).task_id("t1").enqueue(&client).await.unwrap();
        let now = async || client.inspector().task("default", "t1").await.unwrap().payload;

        let refused = desk.run("task edit -q default t1 -l true --yes").await;
        assert_eq!(refused.code, 1, "{refused}");
        assert!(refused.err.contains("the arguments do not fit `typed:double`: ") && refused.err.contains("write u64"), "{refused}");
        assert_eq!(now().await, old.payload);
        // One whose shape nobody kept.
        let unknown = RawTask::new("typed:double", &b"\x01\x00\x00\x00\x00\x07"[..]).task_id("t2");
        client.enqueue(unknown).await.unwrap();
        let refused = desk.run("task edit -q default t2 -l 8 --yes").await;
        assert_eq!(refused.code, 1, "{refused}");
        for part in ["default codec (postcard)", "`typed:double`", "dashboard of its worker", "--raw"] {
            assert!(refused.err.contains(part), "{part}\n{refused}");
        }

        // The same header with other arguments is what its program would write.
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("payload");
        let new = [&old.payload[..5], &[8]].concat();
        std::fs::write(&file, &new).unwrap();
        let words = ["task", "edit", "-q", "default", "t1", "--payload-file", file.to_str().unwrap(), "--yes"];
        assert_eq!(desk.run_words(&words).await.code, 0);
        assert_eq!(now().await, new);
        assert_eq!(desk.run("task edit -q default t1 -l 8 --raw --yes").await.code, 0);
        assert_eq!(now().await, "8");
    }

    async fn a_periodic_entry_that_cannot_be_read_hides_nothing_else(desk) {
        let Some(go) = desk.t.store.go() else { return };
        desk.t.enqueue(task("sound").in_queue("low")).await;
        let entry = |id: &str| SchedulerEntry {
            id: id.into(),
            spec: "@hourly".into(),
            task_type: format!("report:{id}"),
            ..SchedulerEntry::default()
        };
        desk.t.broker().show_entries("host-1:1:a", &[entry("broken"), entry("whole")], HOUR).await.unwrap();
        go.put_text("x:cron:broken");

        let listed = desk.run("cron ls").await;
        assert_eq!(listed.code, 1, "{listed}");
        assert!(listed.out.contains("report:broken") && listed.out.contains("report:whole"), "{listed}");
        assert!(listed.err.contains("error: periodic entry `broken` cannot be read: "), "{listed}");
        let listed = desk.run("cron ls --json").await;
        let listed: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
        assert!(listed[0]["error"].is_string() && listed[0]["paused"].is_null(), "{listed}");
        assert!(listed[1].get("error").is_none() && listed[1]["paused"] == false, "{listed}");

        let found = desk.run("doctor --json").await;
        let found: serde_json::Value = serde_json::from_str(&found.out).unwrap_or_else(|error| panic!("{error}\n{found}"));
        let has = |check: &str, subject: &str| {
            let findings = found["findings"].as_array().unwrap();
            findings.iter().any(|finding| finding["check"] == check && finding["subject"] == subject)
        };
        assert!(has("unreadable", "report:broken") && has("no-consumer", "low"), "{found}");
    }

    async fn a_list_of_periodic_entries_that_cannot_be_read_hides_no_queue(desk) {
        let Some(go) = desk.t.store.go() else { return };
        desk.t.enqueue(task("sound").in_queue("low")).await;
        go.put_text_at("asynq:schedulers");
        let found = desk.run("doctor --json").await;
        let found: serde_json::Value = serde_json::from_str(&found.out).unwrap_or_else(|error| panic!("{error}\n{found}"));
        let findings = found["findings"].as_array().unwrap();
        let has = |check: &str, subject: &str| {
            findings.iter().any(|finding| finding["check"] == check && finding["subject"] == subject)
        };
        assert!(has("unreadable", "periodic entries") && has("no-consumer", "low"), "{found}");
    }

    async fn a_queue_that_cannot_be_read_hides_no_other(desk) {
        let Some(go) = desk.t.store.go() else { return };
        desk.t.seed_pending(&["one"]).await;
        desk.t.enqueue(task("sound").in_queue("low")).await;
        go.put_text("pending");
        let told = "queue `default` cannot be read: ";

        for line in ["stats", "queue ls -l"] {
            let answer = desk.run(line).await;
            assert_eq!(answer.code, 1, "{answer}");
            assert!(answer.out.contains("low"), "{answer}");
            assert!(answer.err.contains(told), "{answer}");
        }
        let listed = desk.run("queue ls --json").await;
        let listed: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
        assert_eq!((&listed[0]["queue"], &listed[1]["queue"]), (&"default".into(), &"low".into()), "{listed}");
        assert!(listed[0]["error"].is_string() && listed[1]["pending"] == 1, "{listed}");

        let found = desk.run("doctor --json").await;
        let found: serde_json::Value = serde_json::from_str(&found.out).unwrap();
        let has = |check: &str, subject: &str| {
            let findings = found["findings"].as_array().unwrap();
            findings.iter().any(|finding| finding["check"] == check && finding["subject"] == subject)
        };
        assert!(has("foreign-key", "default") && has("no-consumer", "low"), "{found}");
        let removed = desk.run("queue rm default --force --yes").await;
        assert!(removed.code == 1 && removed.err.contains(told), "{removed}");
        assert_eq!(desk.t.broker().task(&queue("low"), &asynq_tests::task_id("sound")).await.unwrap().unwrap().state, TaskState::Pending);
    }
}
