//! The other options of `main!`: crates with jobs, services with flags, a set-up with a client; and their precedence.

use serde_json::Value;

use crate::{
    process::{Program, program},
    stage::{Stage, text, until},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_neighbours");

#[test]
fn a_service_brings_its_flag_and_its_rows() {
    let help = program(PROGRAM).arg("--help").output().unwrap();
    assert!(text(&help.stdout).contains("--greet"), "{}", text(&help.stdout));
    let json = program(PROGRAM).args(["jobs", "--json"]).output().unwrap();
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    let table = text(&program(PROGRAM).arg("jobs").output().unwrap().stdout);
    assert!(table.ends_with("\nSERVICE  WHAT      DETAIL  NEXT\ngreeter  greeting  once\n"), "{table}");
    let names: Vec<_> = json["jobs"].as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["bill", "from_a_library", "hello", "stuck"], "a crate is linked by being named");
    assert_eq!(
        (&json["services"][0]["service"], &json["services"][0]["subject"]),
        (&"greeter".into(), &"greeting".into())
    );
}

#[test]
fn a_service_runs_beside_the_jobs_if_its_flag_is_set() {
    for args in [["worker", "--greet", "ann"], ["--greet", "ann", "worker"]] {
        let stage = Stage::sqlite();
        let mut command = stage.program(PROGRAM);
        command.args(args);
        let worker = Program::start(command);
        worker.wait_for(&["hello ann", "greeter", "queues bills=2 default=1 · 3 at a time"]);
        let output = worker.terminate();
        assert!(output.lines().any(|line| line == "greeter leaves"), "{output}");
    }
}

#[test]
fn a_set_up_enqueues_by_the_client_of_its_app() {
    let stage = Stage::sqlite();
    let mut command = stage.program(PROGRAM);
    command.env("GREET_FIRST", "bob");
    let worker = Program::start(command);
    worker.wait_for(&["hello bob"]);
    worker.terminate();
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_set_up() {
    for (flag, variable, expected) in [
        (None, None, "queues bills=2 default=1 · 3 at a time"),
        (None, Some("env=4"), "queues env=4 · 3 at a time"),
        (Some("flag=5"), Some("env=4"), "queues flag=5 · 3 at a time"),
    ] {
        let stage = Stage::sqlite();
        let mut command = stage.program(PROGRAM);
        command.args(flag.map(|queues| format!("--queues={queues}")));
        if let Some(queues) = variable {
            command.env("ASYNQ_QUEUES", queues);
        }
        let worker = Program::start(command);
        worker.wait_for(&[expected, "serving"]);
        let output = worker.terminate();
        let warned: Vec<&str> =
            output.lines().filter(|line| line.contains("does not serve the queue of these jobs")).collect();
        // One for each queue, with its jobs.
        assert_eq!(warned.len(), if variable.is_some() { 2 } else { 0 }, "{output}");
        for (line, jobs) in warned.iter().zip(["bill", "from_a_library, hello, stuck"]) {
            assert!(line.contains(&format!("jobs=\"{jobs}")), "{line}");
        }
    }
}

#[test]
fn json_logs_are_one_object_per_line_without_a_table() {
    let stage = Stage::sqlite();
    let mut command = stage.program(PROGRAM);
    command.args(["--log-format", "json"]);
    let worker = Program::start(command);
    worker.wait_for(&["worker starts", "serving"]);
    for line in worker.terminate().lines() {
        let object: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(object["level"].is_string() && object["timestamp"].is_string(), "{line}");
    }
}

#[test]
fn the_error_that_ends_a_worker_is_an_object_in_json_logs_whatever_is_selected() {
    for selected in ["info", "neighbours=info"] {
        let mut command = program(PROGRAM);
        command.args(["--log-format", "json", "--url", "redis://127.0.0.1:1"]).env("RUST_LOG", selected);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let log = text(&output.stderr);
        let parsed = |line: &str| -> Value { serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")) };
        let lines: Vec<Value> = log.lines().map(parsed).collect();
        let last = lines.last().unwrap_or_else(|| panic!("{selected}: nothing is logged"));
        let message = last["message"].as_str().unwrap_or_default();
        assert!(last["level"] == "ERROR" && message.starts_with("the broker cannot be used: "), "{log}");
    }
}

#[test]
fn a_line_of_a_run_names_its_task_where_lines_of_the_program_alone_are_logged() {
    let stage = Stage::sqlite();
    let mut command = stage.program(PROGRAM);
    command.env("GREET_FIRST", "bob").env("RUST_LOG", "neighbours=info");
    let worker = Program::start(command);
    let line = worker.line("a greeting is said");
    assert!(line.contains("job{id=") && line.contains(" type=hello queue=default "), "{line}");
    worker.terminate();
}

/// A program requeues its tasks within a second of its shutdown timeout, as documented.
mod timing {
    use super::*;

    #[tokio::test]
    async fn a_blocking_job_that_never_returns_is_requeued_and_does_not_hold_the_process() {
        let stage = Stage::sqlite();
        stage.ask(PROGRAM, &["enqueue", "stuck"]);
        let mut command = stage.program(PROGRAM);
        command.args(["--shutdown-timeout", "100ms"]);
        let worker = Program::start(command);
        worker.wait_for(&["serving", "inside a broken library"]);
        worker.terminate();
        let stats = until(&stage.client().await, "default", |stats| stats.active == 0).await;
        assert_eq!((stats.pending, stats.retry, stats.processed_total), (1, 0, 0), "nothing is spent");
    }
}
