//! Mistakes of a tired user: the question says which tasks will be lost, a slip looks like a slip, and one broken key
//! hides nothing else.

use std::{io, time::Duration};

use asynq_cli::{Environment, Input};
use asynq_runtime::{
    Client, TaskState,
    broker::{EntryId, EntryPlan},
    job,
    prelude::*,
    task::{ArchiveLimit, QueueWeight, SchedulerEntry, ServerInfo},
};
use asynq_tests::{Build as _, Store, lock_key, queue, task, task_id};

use crate::fixture::{CliFixture, on_both_brokers};

const HOUR: Duration = Duration::from_secs(3600);

#[job(name = "typed:double")]
async fn double(n: u64) -> JobResult {
    let _ = n;
    Ok(())
}

/// An output whose writes fail: its reader went away, or its disk is full.
struct Failing(io::ErrorKind);

impl io::Write for Failing {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a report of `doctor` has a finding of this check about this subject.
fn has(report: &serde_json::Value, check: &str, subject: &str) -> bool {
    let mut findings = report["findings"].as_array().unwrap().iter();
    findings.any(|finding| finding["check"] == check && finding["subject"] == subject)
}

/// Registers a server that serves the default queue and keeps this many archived tasks of it.
async fn serve<S: Store>(cli: &CliFixture<S>, archived: u64) {
    let member = cli.t.another_member(7).await;
    let info = ServerInfo {
        host: "host-7".into(),
        status: "active".into(),
        rust_version: "0.1.0".into(),
        start_time: Some(cli.t.now().into()),
        queues: vec![QueueWeight { queue: Some("default".into()), weight: Some(1) }],
        archives: vec![ArchiveLimit { queue: "def*".into(), tasks: archived }],
        ..ServerInfo::default()
    };
    cli.t.broker().beat(&member, &info, &[]).await.unwrap();
}

on_both_brokers! {
    async fn archiving_more_than_an_archive_keeps_warns_of_the_deletion_before(cli) {
        serve(&cli, 100).await;
        cli.t.seed_archived("old").await;
        for n in 0..140 {
            cli.t.enqueue(task(&format!("t{n:03}")).after(HOUR)).await;
        }
        let line = "task archive-all -q default -s scheduled";
        let question = "Archive 140 scheduled tasks of queue default? Its archive keeps 100 tasks and holds 1: the 41 oldest \
                        will be DELETED.";
        let scheduled = async || cli.t.broker().queue_stats(&queue("default")).await.unwrap().scheduled;

        let refused = cli.run(line).await;
        assert_eq!(refused.code, 3, "{refused}");
        assert!(refused.err.contains(question), "{refused}");
        let with_yes = cli.run("task archive-all -q default -s scheduled --yes").await;
        assert!(with_yes.code == 3 && with_yes.err.contains(question), "{with_yes}");
        assert!(with_yes.err.contains("add --yes --beyond-archive to do it"), "{with_yes}");
        let declined = cli.run_typing("\n", line).await;
        assert!(declined.code == 3 && declined.err.contains(question), "{declined}");
        assert_eq!(scheduled().await, 140, "nothing happens without a yes");

        let done = cli.run_typing("y\n", line).await;
        assert_eq!((done.code, scheduled().await), (0, 0), "{done}");
        assert!(done.err.contains("a server will delete 41 tasks"), "{done}");

        cli.t.enqueue(task("one").after(HOUR)).await;
        let allowed = cli.run("task archive-all -q default -s scheduled --yes --beyond-archive").await;
        assert_eq!((allowed.code, scheduled().await), (0, 0), "{allowed}");
    }

    async fn archiving_one_task_into_a_full_archive_warns_of_the_deletion(cli) {
        serve(&cli, 1).await;
        cli.t.seed_archived("old").await;
        cli.t.seed_pending(&["one", "two"]).await;
        let refused = cli.run("task archive -q default one --yes").await;
        let question = "Archive task one of queue default? Its archive keeps 1 task and holds 1: the oldest one will be DELETED.";
        assert!(refused.code == 3 && refused.err.contains(question), "{refused}");
        assert_eq!(cli.t.broker().queue_stats(&queue("default")).await.unwrap().pending, 2);
        // A task that is archived already, or does not exist, causes no deletion.
        let typo = cli.run("task archive -q default old typo --yes").await;
        assert!(typo.code == 1 && typo.err.contains("`typo` was not found") && !typo.err.contains("DELETED"), "{typo}");
        let allowed = cli.run("task archive -q default one two --yes --beyond-archive").await;
        assert_eq!((allowed.code, allowed.out.as_str()), (0, "task one is archived\ntask two is archived\n"), "{allowed}");
    }

    async fn an_orphan_that_is_put_back_into_a_full_archive_warns_of_the_deletion(cli) {
        let Some(go) = cli.t.go() else { return };
        serve(&cli, 1).await;
        for id in ["old", "lost"] {
            cli.t.seed_archived(id).await;
        }
        go.break_off("archived", "lost");
        let refused = cli.run("task archive -q default lost --yes").await;
        assert!(refused.code == 3 && refused.err.contains("the oldest one will be DELETED"), "{refused}");
    }

    async fn moving_an_archived_task_into_a_full_archive_warns_of_the_deletion(cli) {
        serve(&cli, 1).await;
        cli.t.seed_archived("old").await;
        cli.t.enqueue(task("moved").in_queue("low")).await;
        cli.t.enqueue(task("waits").in_queue("low")).await;
        assert_eq!(cli.run("task archive -q low moved").await.code, 0);
        let refused = cli.run("task move -q low moved waits --to default --yes").await;
        let question = "Move 2 tasks of queue low to queue default? Its archive keeps 1 task and holds 1: the oldest one will be DELETED.";
        assert!(refused.code == 3 && refused.err.contains(question), "{refused}");
        assert_eq!(cli.t.broker().queue_stats(&queue("low")).await.unwrap().size, 2);
        // A task that is not archived comes into no archive, and a move to the own queue changes nothing.
        for line in ["task move -q low waits --to default", "task move -q default old --to default"] {
            let answer = cli.run(line).await;
            assert!(answer.code == 0 && !answer.err.contains("DELETED"), "{answer}");
        }
        let allowed = cli.run("task move -q low moved --to default --yes --beyond-archive").await;
        assert_eq!((allowed.code, allowed.out.as_str()), (0, "task moved is in queue default\n"), "{allowed}");
    }

    async fn an_archive_with_room_is_not_spoken_of(cli) {
        serve(&cli, 100).await;
        cli.t.enqueue(task("t1").after(HOUR)).await;
        let refused = cli.run("task archive-all -q default -s scheduled").await;
        assert!(refused.err.contains("Archive 1 scheduled task of queue default? Standard input"), "{refused}");
    }

    async fn a_slip_in_a_name_is_not_a_success(cli) {
        cli.t.seed_pending(&["one"]).await;
        for (line, expected) in [
            ("queue pause defualt", "error: queue `defualt` was not found\n"),
            ("queue resume defualt", "error: queue `defualt` was not found\n"),
            ("task cancel nobody", "error: there is no task `nobody` in any queue\n"),
            ("task cancel one", "error: task `one` in queue `default` is in the state pending, not running; there is no run to cancel\n"),
        ] {
            let answer = cli.run(line).await;
            assert_eq!((answer.code, answer.out.as_str(), answer.err.as_str()), (1, "", expected), "{answer}");
        }
        assert!(!cli.t.broker().queue_stats(&queue("defualt")).await.unwrap().paused);
        // A queue that a program paused before its first task is resumed.
        cli.t.broker().pause(&queue("future")).await.unwrap();
        assert_eq!(cli.run("queue resume future").await.code, 0);
    }

    async fn arguments_that_only_the_program_can_write_are_not_replaced_by_json(cli) {
        let client = Client::new(cli.t.shared());
        let old = double::job(7).task_id("t1").enqueue(&client).await.unwrap();
        let now = async || client.inspector().task("default", "t1").await.unwrap().payload;

        let refused = cli.run("task edit -q default t1 -l true --yes").await;
        assert_eq!(refused.code, 1, "{refused}");
        assert!(refused.err.contains("the arguments do not fit `typed:double`: ") && refused.err.contains("write u64"), "{refused}");
        assert_eq!(now().await, old.payload);
        // The broker does not keep the shape of this task.
        let unknown = RawTask::new("typed:double", &b"\x01\x00\x00\x00\x00\x07"[..]).task_id("t2");
        client.enqueue(unknown).await.unwrap();
        let refused = cli.run("task edit -q default t2 -l 8 --yes").await;
        assert_eq!(refused.code, 1, "{refused}");
        for part in ["default codec (postcard)", "`typed:double`", "dashboard of its worker", "--raw"] {
            assert!(refused.err.contains(part), "{part}\n{refused}");
        }

        // The old header with other arguments is a payload that the task's program would write.
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("payload");
        let new = [&old.payload[..5], &[8]].concat();
        std::fs::write(&file, &new).unwrap();
        let words = ["task", "edit", "-q", "default", "t1", "--payload-file", file.to_str().unwrap(), "--yes"];
        assert_eq!(cli.run_words(&words).await.code, 0);
        assert_eq!(now().await, new);
        assert_eq!(cli.run("task edit -q default t1 -l 8 --raw --yes").await.code, 0);
        assert_eq!(now().await, "8");
    }

    async fn a_periodic_entry_that_cannot_be_read_hides_nothing_else(cli) {
        let Some(go) = cli.t.go() else { return };
        cli.t.enqueue(task("sound").in_queue("low")).await;
        let entry = |id: &str| SchedulerEntry {
            id: id.into(),
            spec: "@hourly".into(),
            task_type: format!("report:{id}"),
            ..SchedulerEntry::default()
        };
        cli.t.broker().show_entries("host-1:1:a", &[entry("broken"), entry("whole")], HOUR).await.unwrap();
        go.put_text("x:cron:broken");

        let listed = cli.run("cron ls").await;
        assert_eq!(listed.code, 1, "{listed}");
        assert!(listed.out.contains("report:broken") && listed.out.contains("report:whole"), "{listed}");
        assert!(listed.err.contains("error: periodic entry `broken` cannot be read: "), "{listed}");
        let listed = cli.run("cron ls --json").await;
        let listed: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
        assert!(listed[0]["error"].is_string() && listed[0]["paused"].is_null(), "{listed}");
        assert!(listed[1].get("error").is_none() && listed[1]["paused"] == false, "{listed}");

        let found = cli.doctor().await;
        assert!(has(&found, "unreadable", "report:broken") && has(&found, "no-consumer", "low"), "{found}");
    }

    async fn an_entry_that_cannot_be_read_keeps_no_other_from_being_paused(cli) {
        let Some(go) = cli.t.go() else { return };
        let plan = |id: &str| EntryPlan {
            queue: queue("default"),
            entry: EntryId::from_wire(id),
            spec: "@hourly".into(),
            zone: "UTC".into(),
            revision: 1,
            supersedes: None,
            keep: HOUR,
        };
        for id in ["broken", "whole"] {
            cli.t.broker().plan_entry(&plan(id)).await.unwrap();
        }
        go.put_text("x:cron:broken");
        let paused = cli.run("cron pause broken whole -q default --json").await;
        assert_eq!(paused.code, 1, "{paused}");
        let rows: serde_json::Value = serde_json::from_str(&paused.out).unwrap();
        assert!(rows[0]["error"].is_string() && rows[1]["paused"] == true, "{rows}");
    }

    async fn a_question_that_cannot_be_asked_is_not_a_success(cli) {
        cli.t.seed_pending(&["one"]).await;
        let environment = Environment {
            out: Box::new(io::sink()),
            err: Box::new(Failing(io::ErrorKind::BrokenPipe)),
            input: Input::Terminal(Box::new(&b"y\n"[..])),
            client: Some(Client::new(cli.t.another_broker().await)),
            ..Environment::of_this_process()
        };
        let words = ["asynq", "queue", "rm", "default", "--force"].map(Into::into);
        assert_eq!(asynq_cli::run(words, environment).await, 1);
        assert_eq!(cli.t.broker().queue_stats(&queue("default")).await.unwrap().pending, 1);
    }

    async fn a_refused_question_has_a_row_for_each_queue(cli) {
        cli.t.seed_pending(&["one"]).await;
        cli.t.enqueue(task("two").in_queue("low")).await;
        let refused = cli.run("queue rm default nix low --force --json").await;
        assert_eq!(refused.code, 3, "{refused}");
        let rows: serde_json::Value = serde_json::from_str(&refused.out).unwrap();
        let names: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["queue"].as_str().unwrap()).collect();
        assert_eq!(names, ["nix", "default", "low"], "{rows}");
        assert!(rows.as_array().unwrap().iter().all(|row| row["error"].is_string()), "{rows}");
    }

    async fn a_refused_question_has_a_row_for_each_lock_and_task(cli) {
        let t = &cli.t;
        t.seed_pending(&["one"]).await;
        t.store.leave_lock(&queue("default"), &lock_key("b"), &task_id("missing"), t.now() + HOUR);
        for (line, key, names) in [
            ("lock rm -q default nix email:send:b --json", "lock", ["nix", "email:send:b"]),
            ("task delete -q default one two --json", "id", ["one", "two"]),
        ] {
            let refused = cli.run(line).await;
            assert_eq!(refused.code, 3, "{refused}");
            let rows: serde_json::Value = serde_json::from_str(&refused.out).unwrap();
            let rows = rows.as_array().unwrap();
            assert_eq!(rows.iter().map(|row| row[key].as_str().unwrap()).collect::<Vec<_>>(), names, "{refused}");
            assert!(rows.iter().all(|row| row["error"].is_string()), "{refused}");
        }
    }

    async fn a_limit_of_no_locks_is_refused(cli) {
        cli.t.seed_pending(&["one"]).await;
        let refused = cli.run("lock ls -q default --limit 0").await;
        assert!(refused.code == 2 && refused.err.contains("--limit"), "{refused}");
    }

    async fn a_list_of_periodic_entries_that_cannot_be_read_hides_no_queue(cli) {
        let Some(go) = cli.t.go() else { return };
        cli.t.enqueue(task("sound").in_queue("low")).await;
        go.put_text_at("asynq:schedulers");
        let found = cli.doctor().await;
        assert!(has(&found, "unreadable", "periodic entries") && has(&found, "no-consumer", "low"), "{found}");
    }

    async fn a_queue_that_cannot_be_read_hides_no_other(cli) {
        let Some(go) = cli.t.go() else { return };
        cli.t.seed_pending(&["one"]).await;
        cli.t.enqueue(task("sound").in_queue("low")).await;
        go.put_text("pending");
        let expected = "queue `default` cannot be read: ";

        for line in ["stats", "queue ls -l"] {
            let answer = cli.run(line).await;
            assert_eq!(answer.code, 1, "{answer}");
            assert!(answer.out.contains("low"), "{answer}");
            assert!(answer.err.contains(expected), "{answer}");
        }
        let listed = cli.run("queue ls --json").await;
        let listed: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
        assert_eq!((&listed[0]["queue"], &listed[1]["queue"]), (&"default".into(), &"low".into()), "{listed}");
        assert!(listed[0]["error"].is_string() && listed[1]["pending"] == 1, "{listed}");

        let found = cli.doctor().await;
        assert!(has(&found, "foreign-key", "default") && has(&found, "no-consumer", "low"), "{found}");
        let told = cli.run("doctor").await;
        assert!(told.out.contains("\nNot every task was looked at: a foreign key in place of a list ends"), "{told}");
        let removed = cli.run("queue rm default --force --yes").await;
        assert!(removed.code == 1 && removed.err.contains(expected), "{removed}");
        assert_eq!(cli.t.broker().task(&queue("low"), &asynq_tests::task_id("sound")).await.unwrap().unwrap().state, TaskState::Pending);
    }
}

#[tokio::test]
async fn help_that_cannot_be_written_is_a_failure() {
    for (kind, code) in [(io::ErrorKind::StorageFull, 1), (io::ErrorKind::BrokenPipe, 0)] {
        for help in ["--help", "--version"] {
            let environment = Environment { out: Box::new(Failing(kind)), ..Environment::of_this_process() };
            assert_eq!(asynq_cli::run(["asynq", help].map(Into::into), environment).await, code, "{help}: {kind}");
        }
    }
}
