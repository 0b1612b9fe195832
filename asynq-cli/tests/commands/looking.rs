//! Commands that look and change nothing.

use std::time::Duration;

use asynq_runtime::{Client, job, prelude::*, task::SchedulerEntry};
use asynq_tests::{Build as _, Seeded as _, group, queue, retry, task};

use crate::fixture::{Setting, assert_written, on_both_brokers};

const HOUR: Duration = Duration::from_secs(3600);

#[job(name = "cli:ping")]
async fn ping() -> JobResult {
    Ok(())
}

#[job(name = "cli:greet")]
async fn greet(name: String) -> JobResult {
    let _ = name;
    Ok(())
}

on_both_brokers! {
    async fn nothing_is_there_yet(cli) {
        assert_written("empty", &[
            cli.run("stats").await,
            cli.run("queue ls").await,
            cli.run("queue ls --json").await,
            cli.run("cron ls").await,
            cli.run("cron ls --json").await,
        ]);
    }

    async fn everything_at_a_glance(cli) {
        cli.t.seed_every_state().await;
        cli.t.seed_group("mails", &["one", "two"]).await;
        cli.t.enqueue(task("later").in_queue("low").after(HOUR)).await;
        cli.t.broker().pause(&queue("low")).await.unwrap();
        assert_written("stats", &[
            cli.run("stats").await,
            cli.run("stats --json").await,
        ]);
    }

    async fn redis_info_prints_the_fields_that_gos_tool_shows(cli) {
        cli.t.seed_pending(&["t1"]).await;
        let (text, json) = (cli.run("stats").await.out, cli.json("stats").await);
        assert_eq!(json["slots"], serde_json::json!([]), "there is no cluster");
        if cli.t.broker().kind() != "redis" {
            assert!(!text.contains("REDIS") && json["redis"] == serde_json::json!([]), "{text}");
            return;
        }
        for heading in ["VERSION", "UPTIME", "CONNECTIONS", "MEMORY", "PEAK MEMORY"] {
            assert!(text.contains(heading), "{heading}\n{text}");
        }
        let node = &json["redis"][0];
        for number in ["uptime_seconds", "connections", "memory_bytes", "peak_memory_bytes"] {
            assert!(node[number].is_u64(), "{number}: {node}");
        }
        assert!(node["version"].as_str().unwrap().contains('.') && node["cluster_state"].is_null(), "{node}");
    }

    async fn queues(cli) {
        cli.t.seed_every_state().await;
        cli.t.seed_group("mails", &["one", "two"]).await;
        cli.t.enqueue(task("later").in_queue("low").after(HOUR)).await;
        assert_written("queue", &[
            cli.run("queue ls").await,
            cli.run("queue list --long").await,
            cli.run("queue ls --json").await,
            cli.run("queue inspect default low").await,
            cli.run("queue inspect low --json").await,
            cli.run("queue history default --days 2").await,
            cli.run("queue history default low -x 1 --json").await,
        ]);
    }

    async fn tasks_in_every_state(cli) {
        cli.t.seed_every_state().await;
        cli.t.seed_group("mails", &["one", "two"]).await;
        let mut answers = Vec::new();
        for state in ["active", "pending", "scheduled", "retry", "archived", "completed", "aggregating"] {
            answers.push(cli.run(&format!("task ls -q default -s {state}")).await);
        }
        answers.push(cli.run("task ls -q default -s aggregating -g mails --size 1 --page 2").await);
        answers.push(cli.run("task ls -q default -s pending --page 9").await);
        answers.push(cli.run("task ls -q default -s aggregating -g none").await);
        assert_written("task_ls", &answers);
    }

    async fn tasks_for_programs(cli) {
        cli.t.seed_every_state().await;
        assert_written("task_ls_json", &[
            cli.run("task ls -q default -s retry --json").await,
            cli.run("task ls -q default -s completed --json --max-payload 3").await,
            cli.run("task ls -q default -s active --json").await,
            cli.run("task ls -q default -s aggregating --json").await,
        ]);
    }

    async fn one_task(cli) {
        cli.t.seed_every_state().await;
        let rich = task("rich").locked(&asynq_tests::lock_key("rich"), 60).with_retention(60).with_header("trace", "abc");
        let run = {
            // No other task may be pending when this one is taken.
            cli.t.drain().await;
            cli.t.start_run(rich).await
        };
        assert_eq!(run.text().id, "rich");
        cli.t.settle(&run, retry(HOUR, "line one\nline two")).await;
        assert_written("task_inspect", &[
            cli.run("task inspect -q default -i rich").await,
            cli.run("task inspect -q default rich --json").await,
            cli.run("task inspect -q default completed").await,
            cli.run("task inspect -q default active").await,
            cli.run("task inspect -q default archived --max-payload 3").await,
        ]);
    }

    async fn a_limit_that_has_passed_is_not_now(cli) {
        let mut late = task("late");
        late.message.deadline = (cli.t.now() - chrono::TimeDelta::hours(1)).timestamp();
        cli.t.enqueue(late).await;
        let answer = cli.run("task inspect -q default late").await;
        assert!(answer.out.contains("2030-01-02T02:04:05.000Z (1h ago)"), "{answer}");
    }

    async fn servers(cli) {
        cli.t.another_member(2).await;
        cli.t.seed_active("busy").await;
        assert_written("server_ls", &[
            cli.run("server ls").await,
            cli.run("server list --json").await,
        ]);
        cli.t.advance(HOUR);
        let none = cli.run("server ls").await;
        assert_eq!((none.out.as_str(), none.code), ("no server is running\n", 0));
    }

    async fn groups(cli) {
        cli.t.seed_group("mails", &["one", "two"]).await;
        cli.t.seed_group("notes", &["three"]).await;
        cli.t.enqueue(task("plain").in_queue("low")).await;
        assert_eq!(group("mails").as_str(), "mails");
        assert_written("group_ls", &[
            cli.run("group ls -q default").await,
            cli.run("group list --queue default --long").await,
            cli.run("group ls -q default --json").await,
            cli.run("group ls -q low").await,
            cli.run("group ls -q low --json").await,
        ]);
    }

    async fn more_groups_than_one_call_brings(cli) {
        let many = (0..1_001).map(|n| task(&format!("t{n}")).grouped(&format!("g{n:04}"))).collect();
        for answer in cli.t.broker().enqueue(many).await {
            answer.unwrap();
        }
        let names = cli.run("group ls -q default").await;
        assert_eq!(names.out.lines().count(), 1_001);
        assert_eq!(cli.json("queue inspect default").await[0]["groups"], 1_001);
    }

    async fn colours_are_there_only_when_asked_for(cli) {
        cli.t.seed_every_state().await;
        let words = ["stats"];
        let plain = cli.run_in(Setting::default(), &words).await;
        assert!(!plain.out.contains('\u{1b}'), "{plain}");
        let coloured = cli.run_in(Setting { colours: true, ..Setting::default() }, &words).await;
        assert!(coloured.out.contains("\u{1b}["), "{coloured}");
        let json = cli.run_in(Setting { colours: true, ..Setting::default() }, &["stats", "--json"]).await;
        assert!(!json.out.contains('\u{1b}'), "{json}");
    }

    async fn a_job_without_arguments_has_none(cli) {
        let client = Client::new(cli.t.another_broker().await);
        let task = ping::job().task_id("t1").enqueue(&client).await.unwrap();
        let entry = SchedulerEntry {
            id: "e".into(),
            spec: "@hourly".into(),
            task_type: "cli:ping".into(),
            task_payload: task.payload.clone(),
            ..SchedulerEntry::default()
        };
        cli.t.broker().show_entries("host:1:x", &[entry], HOUR).await.unwrap();
        for line in ["task ls -q default -s pending", "task inspect -q default t1", "cron ls"] {
            let shown = cli.run(line).await;
            assert!(shown.out.contains("{}") && !shown.out.contains("non-printable"), "{shown}");
        }
        let listed = cli.json("task ls -q default -s pending").await;
        assert_eq!(listed[0]["payload"], serde_json::json!({ "bytes": 5, "encoding": "arguments", "cut": false, "data": {} }));
        let edited = cli.run("task edit -q default t1 -l {} --yes").await;
        assert_eq!(edited.code, 0, "{edited}");
    }

    async fn arguments_with_an_invisible_character_are_shown_with_its_escape(cli) {
        let client = Client::new(cli.t.another_broker().await);
        greet::job("\u{feff}ann").task_id("t1").enqueue(&client).await.unwrap();
        for line in ["task ls -q default -s pending", "task inspect -q default t1"] {
            let shown = cli.run(line).await;
            assert!(shown.out.contains(r#""\ufeffann""#), "{shown}");
        }
    }

    async fn a_narrow_terminal_keeps_ids_whole(cli) {
        let mut long = task("a-task-with-a-rather-long-identifier");
        long.message.payload = "words that can be broken ".repeat(3).into();
        cli.t.enqueue(long).await;
        let words = ["task", "ls", "-q", "default", "-s", "pending"];
        let narrow = cli.run_in(Setting { width: Some(70), ..Setting::default() }, &words).await;
        assert!(narrow.out.contains("\na-task-with-a-rather-long-identifier  email:send  "), "{narrow}");
        assert!(narrow.out.lines().count() > 3 && narrow.out.lines().all(|line| line.len() <= 70), "{narrow}");
    }
}

#[tokio::test]
async fn a_command_that_needs_no_broker_connects_to_none() {
    let version = crate::fixture::run(None, Setting::default(), &["version", "--json"]).await;
    assert_eq!(version.out, format!("{{\n  \"version\": \"{}\"\n}}\n", env!("CARGO_PKG_VERSION")));
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = crate::fixture::run(None, Setting::default(), &["completions", shell]).await;
        assert!(script.code == 0 && script.out.contains("archive-all"), "{script}");
        assert!(!script.out.contains("archiveall"), "aliases of Go's tool are understood, not offered");
    }
    let help = crate::fixture::run(None, Setting::default(), &["--help"]).await;
    assert!(help.code == 0 && help.out.contains("Exit codes:") && help.out.contains("ASYNQ_URL"), "{help}");
}
