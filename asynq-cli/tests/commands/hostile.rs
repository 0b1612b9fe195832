//! Hostile names and texts: only harmless characters reach a terminal, and programs get the exact text.

use std::time::Duration;

use asynq_runtime::{
    broker::NewTask,
    job::JobsLock,
    task::{QueueName, QueueWeight, SchedulerEntry, ServerInfo, WorkerInfo},
};
use asynq_tests::{Build as _, Store, archive, group, retry, task};

use crate::{
    docs::documented_commands,
    fixture::{Answer, CliFixture, on_both_brokers},
};

/// The commands that show nothing of a broker on a terminal, or, as `dash` and `web`, have tests of their own.
const WITHOUT_TEXTS: [&str; 5] = ["completions", "dash", "hash-password", "version", "web"];

/// Clears the screen, sets a colour and the title, turns the direction of writing; in C0, C1 and beyond.
const EVIL: &str = "e\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}31m\u{202e}\u{2066}\u{7f}\u{8}\r\u{85}\u{feff}v";

fn evil(id: &str) -> NewTask {
    let mut new = task(id).with_header(EVIL, EVIL);
    new.message.r#type = EVIL.into();
    new.message.queue = EVIL.into();
    new.message.payload = EVIL.into();
    new.queue = QueueName::from_wire(EVIL);
    new
}

/// Fills a queue of a hostile name with hostile tasks.
async fn seed<S: Store>(cli: &CliFixture<S>) {
    let hour = Duration::from_secs(3600);
    let run = cli.t.start_run(evil("retry")).await;
    cli.t.settle(&run, retry(hour, EVIL)).await;
    let run = cli.t.start_run(evil("archived")).await;
    cli.t.settle(&run, archive(EVIL)).await;
    let mut grouped = evil("grouped").grouped("x");
    grouped.message.group_key = EVIL.into();
    grouped.group = Some(group(EVIL));
    cli.t.enqueue(grouped).await;
    cli.t.enqueue(evil("scheduled").after(hour)).await;
    cli.t.start_run(evil("active")).await;
    let lock = format!("asynq:{{{EVIL}}}:unique:{EVIL}:0123");
    cli.t.enqueue(evil(EVIL).locked(&lock, 3600)).await;
    let entry = SchedulerEntry {
        id: EVIL.into(),
        spec: EVIL.into(),
        task_type: EVIL.into(),
        task_payload: EVIL.into(),
        enqueue_options: vec![format!("Queue(\"{EVIL}\")"), EVIL.into()],
        ..SchedulerEntry::default()
    };
    cli.t.broker().show_entries("host:1:x", &[entry], Duration::from_secs(60)).await.unwrap();
    let info = ServerInfo {
        host: EVIL.into(),
        server_id: EVIL.into(),
        status: EVIL.into(),
        rust_version: EVIL.into(),
        // This is not the queue of the tasks, so that `doctor` has a finding.
        queues: vec![QueueWeight { queue: Some(format!("other {EVIL}")), weight: Some(1) }],
        start_time: Some(cli.t.now().into()),
        ..ServerInfo::default()
    };
    let worker = WorkerInfo {
        host: EVIL.into(),
        server_id: EVIL.into(),
        task_id: EVIL.into(),
        task_type: EVIL.into(),
        task_payload: EVIL.into(),
        queue: EVIL.into(),
        ..WorkerInfo::default()
    };
    let member = cli.t.another_member(7).await;
    cli.t.broker().beat(&member, &info, &[worker]).await.unwrap();
}

#[track_caller]
fn is_harmless(answer: &Answer) {
    for text in [&answer.out, &answer.err] {
        let evil: Vec<char> =
            text.chars().filter(|c| *c != '\n' && EVIL.contains(*c) && !c.is_ascii_graphic()).collect();
        assert!(evil.is_empty(), "{evil:?} reached the terminal in {text:?}");
        assert!(!text.chars().any(|c| c != '\n' && c.is_control()), "{text:?}");
    }
}

on_both_brokers! {
    async fn nothing_hostile_reaches_a_terminal(cli) {
        seed(&cli).await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.lock");
        std::fs::write(&file, JobsLock::default().to_string()).unwrap();
        let (file, lock) = (file.to_str().unwrap(), format!("{EVIL}:0123"));
        let lock = lock.as_str();
        let mut untried = documented_commands();
        for words in [
            &["doctor"][..],
            &["stats"],
            &["queue", "ls"],
            &["queue", "ls", "-l"],
            &["queue", "inspect", EVIL, "nix\u{1b}[2J"],
            &["queue", "history", EVIL],
            &["queue", "pause", EVIL],
            &["queue", "resume", EVIL],
            &["queue", "rm", EVIL, "-f"],
            &["task", "ls", "-q", EVIL, "-s", "pending"],
            &["task", "ls", "-q", EVIL, "-s", "active"],
            &["task", "ls", "-q", EVIL, "-s", "retry"],
            &["task", "ls", "-q", EVIL, "-s", "archived"],
            &["task", "ls", "-q", EVIL, "-s", "scheduled"],
            &["task", "ls", "-q", EVIL, "-s", "aggregating"],
            &["task", "ls", "-q", EVIL, "-s", EVIL],
            &["lock", "ls", "-q", EVIL],
            &["lock", "rm", "-q", EVIL, EVIL],
            &["lock", "rm", "-q", EVIL, lock, "--yes"],
            &["task", "inspect", "-q", EVIL, EVIL],
            &["task", "inspect", "-q", EVIL, "retry"],
            &["task", "inspect", "-q", EVIL, "nix\u{1b}[2J"],
            &["task", "run", "-q", EVIL, EVIL],
            &["task", "cancel", EVIL],
            &["task", "delete", "-q", EVIL, EVIL],
            &["task", "delete-all", "-q", EVIL, "-s", "aggregating", "-g", EVIL],
            &["task", "move", "-q", EVIL, "retry", "--to", EVIL],
            &["task", "enqueue", "-t", EVIL, "-l", EVIL],
            &["task", "edit", "-q", EVIL, "retry", "--payload", EVIL, "--raw", "--yes"],
            &["task", "archive", "-q", EVIL, "scheduled", "nix\u{1b}[2J"],
            &["task", "archive-all", "-q", EVIL, "-s", "pending", "--yes"],
            &["task", "run-all", "-q", EVIL, "-s", "scheduled"],
            &["deploy", "check", EVIL],
            &["deploy", "check", file],
            &["group", "ls", "-q", EVIL],
            &["group", "ls", "-q", EVIL, "-l"],
            &["cron", "ls"],
            &["cron", "run", EVIL],
            &["cron", "pause", EVIL],
            &["cron", "resume", EVIL],
            &["cron", "history", EVIL],
            &["server", "ls"],
            &["server", "ls", EVIL],
            &["--url", EVIL, EVIL],
            &[EVIL],
        ] {
            untried.retain(|command| !words.starts_with(&command.split(' ').collect::<Vec<_>>()));
            for json in [&[][..], &["--json"]] {
                let answer = cli.run_words(&[words, json].concat()).await;
                is_harmless(&answer);
                assert!(!answer.out.is_empty() || !answer.err.is_empty(), "{words:?}");
                if !json.is_empty() && answer.code == 0 {
                    serde_json::from_str::<serde_json::Value>(&answer.out).unwrap();
                }
            }
        }
        assert_eq!(untried.into_iter().collect::<Vec<_>>(), WITHOUT_TEXTS, "a command is not tried");
    }

    async fn the_doctor_finds_fault_with_a_hostile_queue_and_shows_its_name_harmlessly(cli) {
        seed(&cli).await;
        let answer = cli.run("doctor").await;
        is_harmless(&answer);
        assert_eq!(answer.code, 1, "{answer}");
        assert!(answer.out.contains("error: no-consumer: e\u{fffd}[2J"), "{answer}");
        let report = cli.doctor().await;
        let subjects = report["findings"].as_array().unwrap().iter().map(|finding| &finding["subject"]);
        assert!(subjects.into_iter().any(|subject| subject == EVIL), "programs get the very name: {report}");
    }

    async fn programs_get_the_very_text(cli) {
        seed(&cli).await;
        assert_eq!(cli.json("queue ls").await[0]["queue"], EVIL);
        let answer = cli.run_words(&["task", "inspect", "-q", EVIL, "retry", "--json"]).await;
        let task: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
        assert_eq!((&task["type"], &task["last_error"]), (&EVIL.into(), &EVIL.into()));
        assert_eq!(task["payload"]["data"], EVIL);
        assert_eq!((&task["headers"][0]["key"], &task["failures"][0]["error"]), (&EVIL.into(), &EVIL.into()));
    }
}
