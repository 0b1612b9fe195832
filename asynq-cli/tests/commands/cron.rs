//! `cron`: entries of ours and of Go's scheduler.

use std::time::Duration;

use asynq_runtime::{
    broker::{EntryId, EntryPlan},
    task::{SchedulerEnqueueEvent, SchedulerEntry},
};
use asynq_tests::{Store, queue};
use chrono::TimeDelta;

use crate::fixture::{CliFixture, assert_written, on_both_brokers};

/// Fills a broker with one entry of ours, listed by two replicas, and one of Go's.
async fn seed<S: Store>(cli: &CliFixture<S>) {
    let broker = cli.t.broker();
    let now = cli.t.now();
    let plan = EntryPlan {
        queue: queue("low"),
        entry: EntryId::from_wire("ours"),
        spec: "0 9 * * mon-fri".into(),
        zone: "Europe/Berlin".into(),
        revision: 1,
        supersedes: None,
        keep: Duration::from_secs(86_400),
    };
    broker.plan_entry(&plan).await.unwrap();
    let ours = SchedulerEntry {
        id: "ours".into(),
        spec: "TZ=Europe/Berlin 0 9 * * mon-fri".into(),
        task_type: "report".into(),
        task_payload: "{\"for\":\"ann\"}".into(),
        enqueue_options: vec!["Queue(\"low\")".into(), "MaxRetry(3)".into()],
        next_enqueue_time: Some((now + TimeDelta::hours(5)).into()),
        prev_enqueue_time: Some((now - TimeDelta::hours(19)).into()),
        ..SchedulerEntry::default()
    };
    let gos = SchedulerEntry {
        id: "gos".into(),
        spec: "@every 90s".into(),
        task_type: "ping".into(),
        task_payload: vec![1, 2, 255].into(),
        enqueue_options: Vec::new(),
        next_enqueue_time: Some((now + TimeDelta::seconds(9)).into()),
        prev_enqueue_time: Some(asynq_runtime::task::Timestamp::NEVER),
        ..SchedulerEntry::default()
    };
    let ttl = Duration::from_secs(60);
    broker.show_entries("host-1:1:a", &[ours.clone(), gos], ttl).await.unwrap();
    broker.show_entries("host-2:1:b", &[ours], ttl).await.unwrap();
    for n in 0..3 {
        let enqueue_time = Some((now - TimeDelta::days(n)).into());
        let event = SchedulerEnqueueEvent { task_id: format!("task-{n}"), enqueue_time };
        broker.record_enqueue("ours", &event).await.unwrap();
    }
}

on_both_brokers! {
    async fn entries_are_listed_with_their_history(cli) {
        seed(&cli).await;
        assert_written("cron_look", &[
            cli.run("cron ls").await,
            cli.run("cron list --json").await,
            cli.run("cron history ours").await,
            cli.run("cron history ours --page 2 --size 2 --json").await,
            cli.run("cron history gos nobody").await,
        ]);
    }

    async fn entries_are_paused_and_go_on(cli) {
        seed(&cli).await;
        assert_written("cron_pause", &[
            cli.run("cron pause ours").await,
            cli.run("cron pause ours --json").await,
            cli.run("cron ls").await,
            cli.run("cron resume ours").await,
            cli.run("cron resume ours").await,
            cli.run("cron pause gos nobody").await,
            cli.run("cron pause nobody -q low").await,
        ]);
        cli.t.advance(Duration::from_secs(3600));
        let unlisted = cli.run("cron pause ours").await;
        assert_eq!(unlisted.code, 1, "{unlisted}");
        let named = cli.run("cron pause ours -q low").await;
        assert_eq!(named.out, "entry ours is paused\n", "{named}");
    }

    async fn the_latest_tick_of_the_replicas_is_shown(cli) {
        let now = cli.t.now();
        let entry = |hours: i64| SchedulerEntry {
            id: "ours".into(),
            spec: "@hourly".into(),
            task_type: "report".into(),
            prev_enqueue_time: Some((now - TimeDelta::hours(hours)).into()),
            ..SchedulerEntry::default()
        };
        for (scheduler, hours) in [("host-1:1:a", 2), ("host-2:1:b", 1), ("host-3:1:c", 3)] {
            cli.t.broker().show_entries(scheduler, &[entry(hours)], Duration::from_secs(60)).await.unwrap();
        }
        let table = cli.run("cron ls").await.out;
        assert!(table.contains("1h ago") && !table.contains("2h ago") && !table.contains("3h ago"), "{table}");
    }

    async fn an_entry_that_is_listed_in_several_queues_is_asked_for_with_its_queue(cli) {
        let entry = |queue: &str| SchedulerEntry {
            id: "ours".into(),
            spec: "@hourly".into(),
            task_type: "report".into(),
            enqueue_options: vec![format!("Queue(\"{queue}\")")],
            ..SchedulerEntry::default()
        };
        for (scheduler, queue) in [("host-1:1:a", "old"), ("host-2:1:b", "new")] {
            cli.t.broker().show_entries(scheduler, &[entry(queue)], Duration::from_secs(60)).await.unwrap();
        }
        let listed = cli.json("cron ls").await;
        assert_eq!((&listed[0]["queue"], &listed[1]["queue"]), (&"new".into(), &"old".into()), "{listed}");
        for command in ["run", "pause", "resume"] {
            let answer = cli.run(&format!("cron {command} ours")).await;
            let expected = "error: periodic entry `ours` is listed in several queues (`new`, `old`); choose one with --queue\n";
            assert_eq!((answer.code, answer.err.as_str()), (1, expected), "{answer}");
        }
        let ran = cli.run("cron run ours -q old").await;
        assert!(ran.code == 0 && ran.out.contains(" is in queue old"), "{ran}");
        let nowhere = cli.run("cron run ours -q other").await;
        assert!(nowhere.code == 1 && nowhere.err.contains("not found in queue `other`"), "{nowhere}");
        assert_eq!(cli.run("cron history ours").await.code, 0, "a history has no queue");
    }

    async fn a_page_behind_the_end_of_a_history_is_empty_without_schedulers_too(cli) {
        seed(&cli).await;
        assert_eq!(cli.run("cron run ours").await.code, 0);
        cli.t.advance(Duration::from_secs(600));
        assert_eq!(cli.json("cron ls").await, serde_json::json!([]));
        for (page, code) in [("ours --page 1", 0), ("ours --page 99", 0), ("nobody --page 99", 1)] {
            let answer = cli.run(&format!("cron history {page}")).await;
            assert_eq!(answer.code, code, "{answer}");
        }
    }

    async fn a_type_in_place_of_an_id_leads_to_its_entries(cli) {
        seed(&cli).await;
        for command in ["run", "pause", "resume", "history"] {
            let answer = cli.run(&format!("cron {command} report")).await;
            let expected = "error: `report` is a type and not the id of a periodic entry; its entries are `ours`\n";
            assert_eq!((answer.code, answer.err.as_str()), (1, expected), "{answer}");
        }
    }

    async fn entries_run_now_beside_their_schedule(cli) {
        seed(&cli).await;
        assert_written("cron_run", &[
            cli.run("cron run ours").await,
            cli.run("cron run gos --json").await,
            cli.run("cron run nobody").await,
        ]);
        let tasks = cli.json("task ls -q low -s pending").await;
        assert_eq!((&tasks[0]["type"], &tasks[0]["max_retry"]), (&"report".into(), &3.into()));
        assert_eq!(tasks[0]["headers"][0]["key"], "asynq-cron-at");
        let history = cli.json("cron history ours").await;
        let newest = history[0]["enqueued"].as_array().unwrap().iter().any(|event| event["task_id"] == tasks[0]["id"]);
        assert!(newest, "{history}");
    }
}
