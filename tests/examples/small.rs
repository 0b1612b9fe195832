//! The small examples: one per feature.

use asynq_tests::{Persistence, RedisServer, eventually_blocking};
use tempfile::tempdir;

use crate::program::{run, start};

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
    let hello = include_str!("../../examples/hello.rs");
    let first = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    let program = hello.split_once("\n\n").map(|(_doc, program)| program);
    assert_eq!(first, program);
}

#[test]
fn hello_enqueues_answers_works_and_leaves_on_a_signal() {
    let folder = tempdir().unwrap();
    let at = folder.path();
    run("hello", at, &["enqueue", "send_email", r#"{"to":"ann@example.com","subject":"Hi"}"#], &[]);
    assert_lines(&run("hello", at, &["jobs"], &[]), &["send_email"]);
    assert_lines(&run("hello", at, &["stats"], &[]), &["critical"]);

    let worker = start("hello", at, &[], &[]);
    worker.line("to ann@example.com: Hi");
    worker.terminate();
}

#[test]
fn hello_refuses_arguments_that_the_job_does_not_take() {
    let folder = tempdir().unwrap();
    let arguments = ["enqueue", "send_email", r#"{"to":7}"#];
    let (status, output) = start("hello", folder.path(), &arguments, &[]).end();
    assert!(!status.success(), "{output}");
}

#[test]
fn a_state_is_shared_by_every_run() {
    let folder = tempdir().unwrap();
    for name in ["Ann", "Bob"] {
        // A program with a set-up makes no file for a task, unless it is told to.
        let greet = format!("\"{name}\"");
        run("state", folder.path(), &["enqueue", "greet", &greet, "--url", "sqlite://asynq.db"], &[]);
    }
    let worker = start("state", folder.path(), &[], &[]);
    worker.line("You are number 2.");
    let output = worker.terminate();
    assert!(output.contains("Hello, Ann!") && output.contains("Hello, Bob!"), "{output}");
}

#[test]
fn periodic_jobs_run_by_themselves_and_a_slow_one_not_beside_itself() {
    let folder = tempdir().unwrap();
    let listing = run("periodic", folder.path(), &["jobs"], &[]);
    assert!(listing.contains("At 09:00, Monday to Friday, Europe/Berlin time"), "{listing}");
    let (mut seconds, mut inventories) = (Vec::<i64>::new(), Vec::<i64>::new());
    for enough in ["Corner Shop: count 5", "Corner Shop: count 9"] {
        // No program counts for three seconds; the second program makes up for them.
        let last = seconds.iter().max().copied().unwrap_or(i64::MIN);
        let is_over = || chrono::Utc::now().timestamp().saturating_sub(4) >= last;
        eventually_blocking("three seconds are over", || is_over().then_some(()));
        let worker = start("periodic", folder.path(), &[], &[]);
        worker.line(enough);
        worker.line("inventory ends for");
        let output = worker.terminate();
        let mut running = 0_i32;
        for line in output.lines() {
            running += i32::from(line.starts_with("inventory begins")) - i32::from(line.starts_with("inventory ends"));
            assert!((0..=1).contains(&running), "two inventories at a time:\n{output}");
            let second = || line.rsplit(' ').next().unwrap().parse::<i64>().unwrap();
            if line.contains(" is for second ") {
                seconds.push(second());
            } else if line.starts_with("inventory begins") {
                inventories.push(second());
            }
        }
    }
    let counted = seconds.len();
    seconds.sort_unstable();
    seconds.dedup();
    assert_eq!(seconds.len(), counted, "a second was counted twice");
    let span = seconds[counted - 1] - seconds[0] + 1;
    assert_eq!(i64::try_from(counted).unwrap(), span, "a second was not counted: {seconds:?}");
    // A tick each second, a run of 2.5 s: ticks in between were left out. A requeued run begins again.
    inventories.dedup();
    assert!(inventories.windows(2).all(|pair| pair[1] - pair[0] >= 2), "{inventories:?}");
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
fn an_error_decides_the_outcome_of_its_task() {
    on_both_brokers(
        "retry_and_skip",
        &["fine is done", "throttled is done", "missing is archived: 404", "withdrawn: Revoked"],
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
        "refresh: accepted, pending",
        "refresh again: refused, an equal task waits",
    ];
    on_both_brokers("unique", &first);
}

#[test]
fn the_tasks_of_a_group_become_one() {
    let mail = [
        "Eve's comment is aggregating",
        "one mail for group comments with 3 comments:",
        "  Ann: Nice.",
        "  Eve: First!",
    ];
    on_both_brokers("group", &mail);
    let folder = tempdir().unwrap();
    assert_lines(&run("group", folder.path(), &[], &[]), &["group comments:other with 1 comments", "Zoe"]);
}

#[test]
fn a_function_makes_one_task_of_a_group() {
    on_both_brokers("aggregate", &["wrote 3 lines: [log:web] | started | ready"]);
    let folder = tempdir().unwrap();
    assert_lines(&run("aggregate", folder.path(), &[], &[]), &["wrote 1 lines: log:audit: 1 tasks"]);
}

#[test]
fn a_failed_task_waits_as_its_job_or_the_server_says() {
    on_both_brokers("backoff", &["poll front: attempt 1", "poll front: attempt 3", "all given up in time: true"]);
    let folder = tempdir().unwrap();
    let output = run("backoff", folder.path(), &[], &[]);
    assert!(output.contains("call 555-0100: attempt 2") && output.contains("plain: attempt 2"), "{output}");
}

#[test]
fn a_task_that_is_too_late_is_archived() {
    let expected = ["refused: invalid option `expires`", "code 4711 to ann", "bob's code was not sent"];
    on_both_brokers("expires", &expected);
}

#[test]
fn a_result_is_kept_with_its_task() {
    on_both_brokers("result", &["resizing cat.png", "the result is 240", "and once more: 240"]);
}

#[test]
fn progress_and_results_show_while_the_job_runs() {
    on_both_brokers(
        "progress",
        &[" 25 %: page 1 of 4", " 50 %: page 2", " 75 %: page 3", "100 %: page 4 of 4", "copied 4 pages"],
    );
}

#[test]
fn each_failure_and_each_day_is_printed() {
    let newest_first = [
        "given up: the number has changed",
        "attempt 3: the number has changed",
        "attempt 2: they hung up",
        "attempt 1: they do not answer",
        ": 3 processed, 3 failed",
    ];
    on_both_brokers("history", &newest_first);
}

#[test]
fn a_given_up_task_is_found_repaired_and_run() {
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
            "350 archived, 0 left",
            "200 run again so far",
            "and 150 more",
            "refused: queue `letters` still has tasks (350)",
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
fn the_statistics_are_one_value() {
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
fn layers_wrap_attempts_and_enqueues() {
    on_both_brokers("layers", &["hello Ann, greeted by the example", "greet ended well within "]);
}

#[test]
fn hooks_run_at_the_start_at_failures_and_at_the_end() {
    let lines = ["about to start", "archived after 0 failures", "retry after 0 failures", "draining"];
    on_both_brokers("hooks", &lines);
    let folder = tempdir().unwrap();
    let output = run("hooks", folder.path(), &[], &[]);
    assert_lines(&output, &["attempt 1 of charge failed: the card is stolen", "given up: the card is stolen"]);
    assert!(!output.contains("failed: the bank is closed"), "{output}");
}

#[test]
fn a_raw_handler_runs_types_that_no_job_names() {
    let lines =
        ["typed: 80 pixels", "any image: image:blur with {\"by\":3}", "crop, trace abc", "the result is cropped"];
    on_both_brokers("raw_handler", &lines);
}

#[test]
fn tenants_are_served_as_they_appear_one_task_at_a_time_each() {
    on_both_brokers("queue_patterns", &["imports", "no tenant has a task left"]);
    let folder = tempdir().unwrap();
    let output = run("queue_patterns", folder.path(), &[], &[]);
    assert!(output.matches(" imports ").count() == 6 && !output.contains("twice at a time"), "{output}");
}

#[test]
fn a_queue_has_no_more_tasks_at_a_time_than_its_limit() {
    let folder = tempdir().unwrap();
    let redis = RedisServer::start(Persistence::None);
    for environment in [&[][..], &[("ASYNQ_URL", redis.url().as_str())]] {
        let output = run("queue_concurrency", folder.path(), &[], environment);
        assert_lines(&output, &["nothing is left", "never more than "]);
        // The machine decides whether two calls ever meet.
        let most = ["never more than 1 calls at a time", "never more than 2 calls at a time"];
        assert!(most.iter().any(|line| output.contains(line)), "{output}");
    }
}

#[test]
fn a_program_enqueues_tasks_that_another_one_runs() {
    let folder = tempdir().unwrap();
    let at = folder.path();
    let producer = start("contract", at, &[], &[]);
    producer.line("enqueued resize in images");
    let worker = start("contract_worker", at, &[], &[]);
    worker.line("cat.png is now 80 pixels wide");
    let (status, output) = producer.end();
    assert!(status.success() && output.contains("the worker wrote 4800 bytes"), "{output}");
    worker.terminate();
}

#[test]
fn a_worker_runs_the_jobs_that_were_chosen() {
    let folder = tempdir().unwrap();
    let at = folder.path();
    for (name, arguments) in [("render", "7"), ("mail:bye", "\"Ann\""), ("mail:welcome", "\"Bob\"")] {
        run("choose_jobs", at, &["enqueue", name, arguments], &[]);
    }
    // The queues are those of the chosen jobs, and the table at the start shows no other.
    let worker = start("choose_jobs", at, &["--only", "mail:*"], &[]);
    worker.line("bye, Ann");
    worker.line("welcome, Bob");
    let output = worker.terminate();
    assert!(output.contains("queues mail=1 ") && !output.contains("render"), "{output}");

    let worker = start("choose_jobs", at, &[], &[("ASYNQ_EXCEPT", "mail:*")]);
    worker.line("rendered page 7");
    worker.terminate();

    let (status, output) = start("choose_jobs", at, &["--only", "rendr"], &[]).end();
    assert!(!status.success() && output.contains("no job `rendr`; did you mean `render`?"), "{output}");
}

#[test]
fn a_program_learns_of_its_brokers_health() {
    on_both_brokers("health_check", &["the broker answers"]);
}

#[test]
fn a_worker_is_measured() {
    let lines = [
        "/readyz says ok",
        "asynq_job_outcomes_total{type=\"resize\",outcome=\"archived\"} 1",
        "asynq_job_outcomes_total{type=\"resize\",outcome=\"done\"} 2",
        "asynq_tasks_failed_total{queue=\"measured\"} 1",
        "asynq_tasks_processed_total{queue=\"measured\"} 3",
        "pictures_width_pixels_count 3",
    ];
    on_both_brokers("metrics", &lines);
}

#[test]
fn a_request_and_the_runs_that_it_causes_are_one_trace() {
    on_both_brokers("tracing", &["POST /orders ", "job order", "job receipt"]);
}

#[test]
fn a_task_is_cancelled_from_elsewhere() {
    on_both_brokers("cancel", &["endless: Archived(\"context canceled\")", "polite noticed at ", "polite: Revoked"]);
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
