//! Runs a worker of ten lines.

use asynq_runtime::{RawTask, task::TaskState};
use asynq_tests::{Build as _, eventually, task};

use crate::{
    process::Program,
    stage::{Stage, complaints, on_both_brokers, tasks, until},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_program-worker");

on_both_brokers! {
    async fn it_runs_tasks_that_were_enqueued_before_and_while_it_runs(stage: &Stage) {
        let printed = stage.ask(PROGRAM, &["enqueue", "send_email", r#"{"to":"a@b.c","subject":"Before"}"#]);
        assert!(printed.contains(" is pending in critical on "), "{printed}");

        let worker = Program::start(stage.program(PROGRAM));
        worker.wait_for(&["to a@b.c: Before"]);
        stage.ask(PROGRAM, &["enqueue", "send_email", r#"{"to":"a@b.c","subject":"While"}"#]);
        worker.wait_for(&["to a@b.c: While"]);

        let output = worker.terminate();
        let table = "send_email  critical  retry 5, timeout 3m, unique 1h";
        assert!(output.lines().any(|line| line == table), "{output}");
        assert!(output.lines().any(|line| line.starts_with("broker ") && line.contains("critical=1")), "{output}");
    }

    async fn an_idle_worker_that_leaves_logs_no_warning(stage: &Stage) {
        let worker = Program::start(stage.program(PROGRAM));
        worker.wait_for(&["serving"]);
        // The worker's subscriber must exist to disturb the shutdown.
        let client = stage.client().await;
        let listed = async || (!client.broker().servers().await.unwrap().is_empty()).then_some(());
        eventually("the worker is listed", listed).await;
        assert_eq!(complaints(&worker.terminate()), [""; 0]);
    }

    async fn an_unknown_type_is_requeued_visibly_and_warned_of_once(stage: &Stage) {
        let client = stage.client().await;
        for id in ["u1", "u2", "u3"] {
            client.enqueue(RawTask::new("of:tomorrow", "x").queue("critical").task_id(id)).await.unwrap();
        }
        let worker = Program::start(stage.program(PROGRAM));
        until(&client, "critical", |queue| queue.retry == 3).await;
        let json: serde_json::Value = serde_json::from_str(&stage.ask(PROGRAM, &["stats", "--json"])).unwrap();
        assert_eq!(json["queues"][0]["retry"], 3, "an inspector sees them wait: {json}");
        let waiting = tasks(&client, "critical", TaskState::Retry).await;
        assert_eq!(waiting.iter().map(|task| task.retried).collect::<Vec<_>>(), [0; 3]);
        let output = worker.terminate();
        let warnings: Vec<_> = output.lines().filter(|line| line.contains("a task cannot run here")).collect();
        assert_eq!(warnings.len(), 1, "{output}");
        assert!(warnings[0].contains("WARN") && warnings[0].contains("of:tomorrow"), "{warnings:?}");
        assert!(warnings[0].contains("jobs of another crate are linked by naming it"), "{warnings:?}");
    }

    async fn a_line_of_a_run_names_its_task_where_only_warnings_are_logged(stage: &Stage) {
        let task = RawTask::new("of:tomorrow", "x").queue("critical").task_id("u1");
        stage.client().await.enqueue(task).await.unwrap();
        let mut command = stage.program(PROGRAM);
        command.env("RUST_LOG", "warn");
        let worker = Program::start(command);
        worker.wait_for(&["job{id=u1 type=of:tomorrow queue=critical "]);
        worker.terminate();
    }

    async fn a_hostile_name_neither_acts_on_the_terminal_nor_begins_a_line_of_the_log(stage: &Stage) {
        const EVIL: &str = "x\nforged\u{1b}]0;pwned\u{7}\u{9b}2J\u{202e}";
        let mut evil = task(EVIL).in_queue("critical");
        evil.message.r#type = EVIL.into();
        let stored = stage.client().await.broker().enqueue(vec![evil]).await;
        assert!(stored[0].is_ok(), "{stored:?}");
        let worker = Program::start(stage.program(PROGRAM));
        worker.wait_for(&["a task cannot run here"]);
        let output = worker.terminate();
        let name = "x forged\u{fffd}]0;pwned\u{fffd}\u{fffd}2J\u{fffd}";
        assert!(output.contains(&format!("job{{id={name} type={name} ")), "{output:?}");
        let is_harmless = |line: &str| !line.starts_with("forged") && !line.chars().any(char::is_control);
        assert!(output.lines().all(is_harmless), "{output:?}");
    }

    async fn an_equal_task_is_refused_while_the_first_waits(stage: &Stage) {
        let args = ["enqueue", "send_email", r#"{"to":"a@b.c","subject":"Once"}"#];
        let first = stage.ask(PROGRAM, &args);
        let second = stage.program(PROGRAM).args(args).output().unwrap();
        let error = crate::stage::error_line(&second);
        let id = first.split(' ').next().unwrap();
        assert!(error.contains("an equal task already holds the unique lock") && error.contains(id), "{error}");
    }
}
