//! The small examples: one per feature.

use asynq_tests::{Persistence, RedisServer};
use tempfile::tempdir;

use crate::program::{Program, run};

/// Asserts that `output` has these lines in this order; others may stand between them.
#[track_caller]
fn assert_lines(output: &str, expected: &[&str]) {
    let mut lines = output.lines();
    for expected in expected {
        assert!(lines.any(|line| line.contains(expected)), "no line with {expected:?} in its place in:\n{output}");
    }
}

/// Runs `example` on SQLite and on a Redis of its own and asserts its lines on both.
#[track_caller]
fn on_both_brokers(example: &str, expected: &[&str]) {
    let folder = tempdir().unwrap();
    assert_lines(&run(example, folder.path(), &[], &[]), expected);
    let redis = RedisServer::start(Persistence::None);
    assert_lines(&run(example, folder.path(), &[], &[("ASYNQ_URL", &redis.url())]), expected);
}

#[test]
fn hello_is_the_first_program_of_the_readme() {
    let readme = include_str!("../../README.md");
    let hello = include_str!("../hello.rs");
    let first = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    let program = hello.split_once("\n\n").map(|(_doc, program)| program);
    assert_eq!(first, program);
}

#[test]
fn hello_enqueues_answers_works_and_leaves_when_told() {
    let folder = tempdir().unwrap();
    let at = folder.path();
    run("hello", at, &["enqueue", "send_email", r#"{"to":"ann@example.com","subject":"Hi"}"#], &[]);
    assert_lines(&run("hello", at, &["jobs"], &[]), &["send_email"]);
    assert_lines(&run("hello", at, &["stats"], &[]), &["critical"]);

    let worker = Program::start("hello", at, &[], &[]);
    worker.line("to ann@example.com: Hi");
    worker.signal("TERM");
    let (status, output) = worker.end();
    assert!(status.success(), "{status}:\n{output}");
}

#[test]
fn hello_refuses_arguments_that_the_job_does_not_take() {
    let folder = tempdir().unwrap();
    let arguments = ["enqueue", "send_email", r#"{"to":7}"#];
    let (status, output) = Program::start("hello", folder.path(), &arguments, &[]).end();
    assert!(!status.success(), "{output}");
}

#[test]
fn a_state_is_shared_by_every_run() {
    let folder = tempdir().unwrap();
    for name in ["Ann", "Bob"] {
        run("state", folder.path(), &["enqueue", "greet", &format!("\"{name}\"")], &[]);
    }
    let worker = Program::start("state", folder.path(), &[], &[]);
    worker.line("You are number 2.");
    worker.signal("TERM");
    let (status, output) = worker.end();
    assert!(status.success(), "{status}:\n{output}");
    assert!(output.contains("Hello, Ann!") && output.contains("Hello, Bob!"), "{output}");
}

#[test]
fn options_are_the_jobs_unless_the_call_says_otherwise() {
    on_both_brokers(
        "options",
        &[
            "declared: queue reports, 3 retries, timeout Some(90s)",
            "later: scheduled",
            "this call: queue reports-urgent, 0 retries, timeout Some(120s)",
            "in bulk: 4 of 4",
            "refused: ",
        ],
    );
}

#[test]
fn an_error_says_what_becomes_of_its_task() {
    on_both_brokers(
        "retry_and_skip",
        &["fine is gone", "throttled is gone", "missing is archived: 404", "withdrawn is gone"],
    );
    let folder = tempdir().unwrap();
    assert_lines(
        &run("retry_and_skip", folder.path(), &[], &[]),
        &["attempt 1 at throttled", "attempt 2 at throttled"],
    );
}

#[test]
fn an_equal_task_is_refused() {
    let first = [
        "bakery: accepted, pending",
        "bakery again: refused, an equal task waits",
        "butcher: accepted, pending",
        "order 4711: accepted, pending",
        "order 4711 again: refused, the id is taken",
    ];
    on_both_brokers("unique", &first);
}

#[test]
fn a_result_is_kept_with_its_task() {
    on_both_brokers("result", &["resizing cat.png", "the result is 240"]);
}

#[test]
fn a_given_up_task_is_found_mended_and_run() {
    on_both_brokers(
        "inspect",
        &[
            "queue printer: 1 tasks, 1 given up",
            "invoice:print was given up: there is no invoice 0",
            "printed invoice 17 of Ann",
            "paused: true",
            "moved: invoice:print waits upstairs",
            "was not found in queue `printer`",
        ],
    );
}

#[test]
fn hundreds_of_tasks_are_repaired_at_once() {
    on_both_brokers(
        "repair",
        &[
            "350 archived, 0 left, 0 too many to keep",
            "200 run again so far",
            "and 150 more",
            "refused: queue `letters` has 350 tasks",
            "350 tasks would be deleted",
            "350 tasks are gone, 0 queues are left",
        ],
    );
}

#[test]
fn a_semaphore_limits_all_workers_together() {
    let folder = tempdir().unwrap();
    let redis = RedisServer::start(Persistence::None);
    for environment in [&[][..], &[("ASYNQ_URL", redis.url().as_str())]] {
        let output = run("semaphore", folder.path(), &[], environment);
        let placed: Vec<_> = output.lines().filter(|line| line.contains("is placed")).collect();
        assert_eq!(placed.len(), 6, "{output}");
        let fits = |line: &&str| line.contains("at most 1 at") || line.contains("at most 2 at");
        assert!(placed.iter().all(fits), "{output}");
        assert_lines(&output, &["refused: a semaphore must have at least 1 token"]);
    }
}

#[test]
fn what_goes_on_is_one_value() {
    on_both_brokers(
        "statistics",
        &[
            "report:build runs in reports since Some(",
            "1 waiting, 0 processed",
            "as JSON: 1 queue, 1 server",
            "\"failed_today\": 0",
        ],
    );
}

#[test]
fn a_job_can_be_written_by_hand() {
    on_both_brokers("handwritten_job", &["invoice:print waits in queue printer", "done"]);
    let folder = tempdir().unwrap();
    assert_lines(&run("handwritten_job", folder.path(), &[], &[]), &["welcome, Ann (task "]);
}

#[test]
fn producer_and_worker_share_one_process_and_one_file() {
    let folder = tempdir().unwrap();
    let output = run("embedded_sqlite", folder.path(), &[], &[]);
    assert_lines(&output, &["nothing left"]);
    assert!(output.contains("Haiku: 4 words") && output.contains("Limerick: 8 words"), "{output}");
    assert!(folder.path().join("words.db").exists());
}

#[test]
fn a_row_and_its_job_are_there_together_or_not_at_all() {
    let folder = tempdir().unwrap();
    let output = run("transactional", folder.path(), &[], &[]);
    assert_lines(
        &output,
        &[
            "accepted: order 1 of ann@example.com",
            "refused: order of bob@example.com, that is too much for one card",
            "accepted: order 2 of eve@example.com",
            "orders: 2",
        ],
    );
    for confirmed in ["to ann@example.com: we have your order 1", "to eve@example.com: we have your order 2"] {
        assert!(output.contains(confirmed), "{output}");
    }
    assert!(!output.contains("to bob"), "{output}");
}
