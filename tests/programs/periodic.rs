//! Runs periodic jobs.

use asynq_runtime::{Client, broker::Page, task::Timestamp};
use asynq_tests::eventually;
use serde_json::Value;

use crate::{
    process::{Program, program},
    stage::{Stage, complaints, on_both_brokers, text},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_program-periodic");

#[test]
fn jobs_shows_when_they_run_next() {
    let output = program(PROGRAM).args(["jobs", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = json["services"].as_array().unwrap();
    let row = |job: &str| rows.iter().find(|row| row["subject"] == job).unwrap_or_else(|| panic!("{job}: {json:#}"));
    let report = row("report");
    assert_eq!(report["detail"], "TZ=Europe/Berlin 0 9 * * mon-fri · At 09:00, Monday to Friday, Europe/Berlin time");
    assert_eq!(report["next"].as_array().map(Vec::len), Some(5), "{report}");
    assert_eq!(row("ping")["detail"], "@every 30s · Every 30 seconds");
    assert_eq!(row("cleanup")["detail"], "*/5 * * * * · Every 5 minutes");
    let queues: Vec<_> = json["jobs"].as_array().unwrap().iter().map(|job| &job["queue"]).collect();
    assert!(queues.contains(&&"low".into()), "{queues:?}");

    let table = text(&program(PROGRAM).arg("jobs").output().unwrap().stdout);
    assert!(table.contains("Every 5 minutes"), "{table}");
    let help = text(&program(PROGRAM).arg("--help").output().unwrap().stdout);
    assert!(help.contains("--no-schedule"), "{help}");
}

/// The tables of all time zones are a megabyte of pointers, which the loader writes at the start of each program that has them.
#[test]
fn a_program_without_periodic_jobs_contains_no_time_zones() {
    let has_zones = |program: &str| {
        let bytes = std::fs::read(program).unwrap();
        let zone = b"America/Argentina/Buenos_Aires";
        bytes.windows(zone.len()).any(|window| window == zone)
    };
    assert!(!has_zones(env!("CARGO_BIN_EXE_neighbours")), "it links asynq-cron and has no periodic job");
    assert!(has_zones(PROGRAM));
}

/// Waits until the scheduler lists its entries.
async fn listed(client: &Client) -> Vec<asynq_runtime::task::SchedulerEntry> {
    eventually("a scheduler shows its entries", async || {
        let entries = client.broker().scheduler_entries().await.unwrap();
        (!entries.is_empty()).then_some(entries)
    })
    .await
}

on_both_brokers! {
    async fn they_run_by_themselves_and_by_hand(stage: &Stage) {
        let worker = Program::start(stage.program(PROGRAM));
        worker.wait_for(&["schedule: + report TZ=Europe/Berlin 0 9 * * mon-fri"]);
        let client = stage.client().await;
        let mut entries = listed(&client).await;
        entries.sort_by(|a, b| a.task_type.cmp(&b.task_type));
        let names: Vec<_> = entries.iter().map(|entry| entry.task_type.as_str()).collect();
        assert_eq!(names, ["cleanup", "ping", "report"]);
        assert_eq!(entries[2].enqueue_options, ["Queue(\"low\")", "MaxRetry(2)"]);
        assert!(entries.iter().all(|entry| entry.prev_enqueue_time.is_some()));
        assert_ne!(entries[1].next_enqueue_time, Some(Timestamp::NEVER));

        // A task that is enqueued from the command line has the time of its run.
        stage.ask(PROGRAM, &["enqueue", "report"]);
        worker.wait_for(&["for 20", " UTC"]);

        // The next multiple of 30 s.
        let history = eventually("`ping` is enqueued", async || {
            let page = Page { number: 1, size: 10 };
            let history = client.broker().enqueue_history(&entries[1].id, page).await.unwrap();
            (!history.is_empty()).then_some(history)
        })
        .await;
        assert_eq!(history.len(), 1, "{history:?}");
        assert!(history[0].task_id.starts_with(&format!("cron:{}:", entries[1].id)), "{history:?}");

        assert_eq!(complaints(&worker.terminate()), [""; 0]);
        assert!(client.broker().scheduler_entries().await.unwrap().is_empty(), "a scheduler that left is listed");
    }

    async fn a_program_can_leave_the_schedule_to_others(stage: &Stage) {
        let mut command = stage.program(PROGRAM);
        command.arg("--no-schedule");
        let worker = Program::start(command);
        stage.ask(PROGRAM, &["enqueue", "report"]);
        worker.wait_for(&["for 20", " UTC"]);
        let output = worker.terminate();
        assert!(!output.contains("scheduler leads"), "{output}");
    }
}
