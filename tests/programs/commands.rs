//! The commands beside the worker, and their usage errors.

use std::process::Output;

use asynq_runtime::task::QueueName;
use asynq_tests::{RedisServer, eventually_blocking, soon, task};
use serde_json::Value;

use crate::{
    process::{Program, program},
    stage::{Stage, error_line, on_both_brokers, text},
};

const ONE: &str = env!("CARGO_BIN_EXE_program-worker");
const MISFIT: &str = env!("CARGO_BIN_EXE_misfit");
const JOBLESS: &str = env!("CARGO_BIN_EXE_jobless");

/// Clears the screen, sets a colour and the title, turns the direction of writing; in C0, C1 and beyond.
const EVIL: &str = "e\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}31m\u{202e}\u{2066}\u{7f}\u{8}\r\u{85}\u{feff}v";

fn run(binary: &str, args: &[&str]) -> Output {
    program(binary).args(args).output().unwrap()
}

fn good(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn help_and_version_are_the_programs_own() {
    assert_eq!(good(&run(ONE, &["--version"])), format!("program-worker {}\n", env!("CARGO_PKG_VERSION")));
    let help = good(&run(ONE, &["--help"]));
    for part in
        ["Usage: program-worker", "jobs", "enqueue", "stats", "--url", "ASYNQ_URL", "--queues", "--shutdown-timeout"]
    {
        assert!(help.contains(part), "{part} is missing in\n{help}");
    }
}

#[test]
fn jobs_needs_no_broker_and_does_not_run_the_set_up() {
    let output = program(MISFIT).arg("jobs").env("ASYNQ_URL", "nonsense").env("MISFIT", "fail").output().unwrap();
    let table = good(&output);
    assert!(!table.contains("set-up ran"), "{table}");
    assert!(table.starts_with("JOB"), "{table}");
    assert!(table.contains("needs_mailer  default  retry 25, timeout 30m  none"), "{table}");
    assert!(table.contains("str of picky (partly checked)"), "{table}");
    assert!(table.contains("fingerprint = \"v2\"") && table.contains("programs/bin/misfit.rs:"), "{table}");
}

#[test]
fn jobs_speaks_json() {
    let json: Value = serde_json::from_str(&good(&run(ONE, &["jobs", "--json"]))).unwrap();
    assert_eq!(json["jobs"].as_array().map(Vec::len), Some(1), "a crate that is not named is not linked");
    let job = &json["jobs"][0];
    assert_eq!((&job["name"], &job["queue"], &job["retry"]), (&"send_email".into(), &"critical".into(), &5.into()));
    assert_eq!((&job["timeout_seconds"], &job["unique_seconds"]), (&180.0.into(), &3600.0.into()));
    assert_eq!(job["arguments"]["shape"], "{to: str, subject: str}");
    assert_eq!(json["services"], Value::Array(vec![]));
}

#[test]
fn a_program_without_jobs_says_how_to_get_some() {
    let folder = tempfile::tempdir().unwrap();
    let [new, empty] = ["new.lock", "empty.lock"].map(|name| folder.path().join(name));
    std::fs::write(&empty, "").unwrap();
    let (lock, check) = (format!("--lock={}", new.display()), format!("--check={}", empty.display()));
    for args in [&[][..], &["jobs"], &["jobs", &lock], &["jobs", &check]] {
        let error = error_line(&run(JOBLESS, args));
        assert!(error.contains("this program has no jobs") && error.contains("main!(jobs: [that_crate])"), "{error}");
    }
    assert!(!new.exists(), "it has no shape to lock");
}

#[test]
fn two_jobs_of_one_name_are_refused_with_both_places() {
    for args in [&[][..], &["jobs"], &["enqueue", "mail:send"]] {
        let error = error_line(&run(env!("CARGO_BIN_EXE_twins"), args));
        for part in ["two jobs are named `mail:send`", "programs/bin/twins.rs:7", "programs/bin/twins.rs:15"] {
            assert!(error.contains(part), "{error}\n  should contain {part}");
        }
    }
}

#[test]
fn tasks_do_not_go_to_a_new_file_where_the_set_up_may_name_another_broker() {
    let folder = tempfile::tempdir().unwrap();
    let ask = |binary, args: &[&str]| program(binary).args(args).current_dir(folder.path()).output().unwrap();
    let enqueue = ["enqueue", "picky", "\"password\""];
    for (args, expected) in [
        (
            &enqueue[..],
            "--url: the set-up of this program may name a broker, and is not run here; start the worker once",
        ),
        (&["stats"], "/asynq.db\": name the broker by ASYNQ_URL (or --url of a command)"),
    ] {
        let error = error_line(&ask(MISFIT, args));
        assert!(error.contains(expected), "{error}");
        assert!(!folder.path().join("asynq.db").exists(), "{args:?}");
    }
    let error = error_line(&ask(ONE, &["stats"]));
    assert!(error.contains("there is no SQLite file \"/"), "looking makes no file: {error}");
    good(&ask(MISFIT, &["--url", "sqlite://asynq.db", "enqueue", "picky", "\"password\""]));
    let printed = good(&ask(MISFIT, &enqueue));
    assert!(printed.contains(" is pending in default on sqlite://") && printed.ends_with("asynq.db\n"), "{printed}");
}

#[test]
fn a_missing_state_and_a_failing_set_up_end_the_worker_before_it_connects() {
    let error = error_line(&program(MISFIT).env("ASYNQ_URL", "redis://127.0.0.1:1").output().unwrap());
    for part in ["job `needs_mailer`", "programs/bin/misfit.rs:", "needs State<misfit::Mailer>"] {
        assert!(error.contains(part), "{error}");
    }
    let output = program(MISFIT).env("MISFIT", "fail").output().unwrap();
    let error = error_line(&output);
    assert!(error.ends_with("the set-up of this program failed: the database of the shop is not there"), "{error}");
    assert!(text(&output.stdout).contains("set-up ran"));
}

#[test]
fn a_set_up_that_panics_ends_the_worker_beside_a_call_that_never_returns() {
    let mut command = program(MISFIT);
    command.env("MISFIT", "panic");
    let worker = Program::start(command);
    worker.line("the shop is closed");
    assert_eq!(worker.end().0.code(), Some(101));
}

/// Stands for a limit of threads that tokio reaches while it starts: there is room for one stack, and for no second one.
#[cfg(target_os = "linux")]
#[test]
fn a_worker_whose_threads_the_system_refuses_ends_with_the_reason() {
    let mut command = program("sh");
    command.args(["-c", "ulimit -v 1700000 && exec \"$0\"", ONE]);
    command.env("RUST_MIN_STACK", (1 << 30).to_string()).env("TOKIO_WORKER_THREADS", "2");
    let (status, output) = Program::start(command).end();
    assert_eq!(status.code(), Some(1), "{output}");
    assert!(output.starts_with("error: the runtime cannot start: OS can't spawn worker thread"), "{output}");
    assert_eq!(output.lines().count(), 1, "{output}");
}

#[test]
fn a_request_to_leave_ends_a_worker_in_order_while_its_set_up_waits() {
    let mut command = program(MISFIT);
    command.env("MISFIT", "wait");
    let worker = Program::start(command);
    worker.line("set-up ran");
    let output = worker.terminate();
    assert!(output.contains("asked to leave before the start: takes no task"), "{output}");
}

#[tokio::test]
async fn a_request_to_leave_ends_an_app_in_order_while_it_connects() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}/0?timeout=1m&connect_timeout=1m", silent.local_addr().unwrap());
    let mut command = program(env!("CARGO_BIN_EXE_helper"));
    command.arg("app").env("ASYNQ_URL", url);
    let worker = Program::start(command);
    let _unanswered = soon(silent.accept()).await.unwrap();
    worker.terminate();
}

#[test]
fn a_second_request_to_leave_ends_a_worker_at_once_while_its_set_up_blocks() {
    let mut command = program(MISFIT);
    command.env("MISFIT", "block");
    let mut worker = Program::start(command);
    worker.line("set-up ran");
    let status = eventually_blocking("the program ends", || {
        worker.process.signal("TERM");
        worker.process.try_wait().unwrap()
    });
    assert_eq!(status.code(), Some(130));
}

#[test]
fn arguments_that_do_not_fit_the_job_are_one_clear_error() {
    let url = "sqlite:///nowhere/at/all.db"; // never opened
    for (args, expected) in [
        (&["send_email", r#"{"to":"a@b.c"}"#][..], "missing field `subject`; it takes {to: str, subject: str}"),
        (&["send_email", r#"{"to":1,"subject":"x"}"#], "invalid type: integer `1`, expected a string"),
        (&["send_email", r#"{"to":"a","subject":"x","cc":"b"}"#], "unknown field `cc`"),
        (&["send_email", "to=a"], "this is not JSON"),
        (&["send_mail", "{}"], "this program has no job `send_mail`; it has `send_email`"),
        (&["send_email", r#"{"to":"a","subject":"x"}"#, "--at", "noon"], "--at: \"noon\" is not a valid time"),
    ] {
        let args: Vec<&str> = ["--url", url, "enqueue"].into_iter().chain(args.iter().copied()).collect();
        let error = error_line(&run(ONE, &args));
        assert!(error.contains(expected), "{error}\n  should contain\n{expected}");
    }
}

on_both_brokers! {
    async fn enqueued_tasks_are_counted(stage: &Stage) {
        let arguments = r#"{"to":"a@b.c","subject":"Hi"}"#;
        for (options, expected) in [
            (&[][..], " is pending in critical on "),
            (&["--queue", "low", "--in", "10m"], ", due "),
            (&["--queue", "low", "--at", "2222-01-02T03:04:05.678Z"], "holds the unique lock"),
            (&["--queue", "other", "--at", "2222-01-02T03:04:05.678Z"], ", due 2222-01-02T03:04:05.678Z\n"),
        ] {
            let args: Vec<&str> = ["enqueue", "send_email", arguments].iter().chain(options).copied().collect();
            let output = stage.program(ONE).args(&args).output().unwrap();
            let printed = text(&output.stdout) + &text(&output.stderr);
            assert!(printed.contains(expected), "{options:?}: {printed}\n  should contain\n{expected}");
        }

        let table = stage.ask(ONE, &["stats"]);
        assert!(table.contains("no worker is listed"), "{table}");
        let json: Value = serde_json::from_str(&stage.ask(ONE, &["stats", "--json"])).unwrap();
        let counts: Vec<_> = json["queues"].as_array().unwrap().iter().map(|queue| {
            (queue["queue"].as_str().unwrap(), queue["pending"].as_u64().unwrap(), queue["scheduled"].as_u64().unwrap())
        }).collect();
        assert_eq!(counts, [("critical", 1, 0), ("low", 0, 1), ("other", 0, 1)]);
    }

    async fn a_name_from_outside_does_not_act_on_the_terminal(stage: &Stage) {
        let mut hostile = task("t1");
        hostile.message.queue = EVIL.into();
        hostile.queue = QueueName::from_wire(EVIL);
        stage.client().await.broker().enqueue(vec![hostile]).await.remove(0).unwrap();
        let table = stage.ask(ONE, &["stats"]);
        assert!(table.contains("e\u{fffd}[2J"), "{table:?}");
        let json = stage.ask(ONE, &["stats", "--json"]);
        for shown in [table, json.clone()] {
            let is_harmless = |c: char| matches!(c, '\n' | '\u{fffd}' | ' '..='~');
            assert!(shown.chars().all(is_harmless), "{shown:?}");
        }
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["queues"][0]["queue"], EVIL);
    }

    async fn bad_names_and_times_are_refused_by_the_client(stage: &Stage) {
        for (option, value, expected) in [
            ("--queue", "a{b}", "\"a{b}\" cannot be used: queue name must not contain `{`"),
            ("--queue", "", "\"\" cannot be used: queue name must not be empty"),
            ("--queue", &"x".repeat(201), "queue name is 201 bytes long; write at most 200"),
            ("--in", "soon", "--in: invalid duration \"soon\""),
        ] {
            let arguments = r#"{"to":"a@b.c","subject":"Hi"}"#;
            let output = stage.program(ONE).args(["enqueue", "send_email", arguments, option, value]).output().unwrap();
            let error = error_line(&output);
            assert!(error.contains(expected), "{error}\n  should contain\n{expected}");
        }
    }
}

#[test]
fn a_setting_that_cannot_be_read_is_one_clear_error() {
    for (args, expected) in [
        (&["--queues", "a{b}=1"][..], "error: --queues: \"a{b}\" cannot be used: queue name must not contain `{`"),
        (&["--queues", "a=0"], "error: --queues: the weight of queue `a` is \"0\""),
        (&["--concurrency", "0"], "error: --concurrency: \"0\" is not a number of tasks"),
        (&["--shutdown-timeout", "8"], "error: --shutdown-timeout: invalid duration \"8\""),
        (&["--log-format", "xml"], "error: --log-format: \"xml\" is not a log format"),
        (&["--dashboard"], "error: `--dashboard` comes with the crate asynq-dashboard"),
    ] {
        let error = error_line(&run(ONE, args));
        assert!(error.starts_with(expected), "{error}\n  should start with\n{expected}");
    }
    let output = program(ONE).env("ASYNQ_CONCURRENCY", "many").output().unwrap();
    assert!(error_line(&output).starts_with("error: ASYNQ_CONCURRENCY: \"many\""));
}

#[test]
fn a_variable_of_a_dashboard_that_is_not_linked_is_warned_of() {
    let mut command = program(ONE);
    command.env("ASYNQ_URL", "redis://127.0.0.1:1").env("ASYNQ_METRICS", "127.0.0.1:0").env("ASYNQ_DASHBOARD", " ");
    let log = text(&command.output().unwrap().stderr);
    assert!(log.contains("ASYNQ_METRICS has no effect") && !log.contains("ASYNQ_DASHBOARD has"), "{log}");
}

#[test]
fn a_misspelled_variable_is_warned_of_without_its_value() {
    for verb in ["worker", "stats"] {
        let mut command = program(ONE);
        command.arg(verb).env("ASYNQ_URL", "redis://127.0.0.1:1");
        command.env("ASYNQ_CONCURENCY", "canary").env("ASYNQ_SENTRY", "canary");
        let log = text(&command.output().unwrap().stderr);
        let warning = "the environment variable `ASYNQ_CONCURENCY` is not known; `ASYNQ_CONCURRENCY` is";
        assert_eq!(log.matches(warning).count(), 1, "{log}");
        assert!(!log.contains("canary") && !log.contains("ASYNQ_SENTRY"), "{log}");
    }
}

#[test]
fn a_lock_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("other.lock").display().to_string();
    let (lock, check) = (format!("--lock={file}"), format!("--check={file}"));
    let missing = error_line(&run(ONE, &["jobs", &check]));
    assert!(missing.starts_with(&format!("error: cannot read {file}, which `jobs {lock}` writes: ")), "{missing}");
    std::fs::write(&file, "not a lock").unwrap();
    for flag in [&lock, &check] {
        let error = error_line(&run(ONE, &["jobs", flag]));
        assert!(error.starts_with(&format!("error: {file}: line 1 cannot be read: ")), "{error}");
    }
}

#[test]
fn a_variable_that_is_not_text_is_an_error_and_not_as_if_it_were_not_set() {
    use std::os::unix::ffi::OsStringExt as _;
    let garbled = std::ffi::OsString::from_vec(b"sqlite:///tmp/\xff.db".to_vec());
    for variable in ["ASYNQ_URL", "ASYNQ_QUEUES", "ASYNQ_CONCURRENCY"] {
        let output = program(ONE).arg("worker").env(variable, &garbled).output().unwrap();
        assert_eq!(error_line(&output), format!("error: {variable}: its value is not UTF-8 text"));
    }
    // The client of `as_written/enqueueing.rs` reads the same variable.
    let output = program(env!("CARGO_BIN_EXE_helper")).arg("produce").env("ASYNQ_URL", &garbled).output().unwrap();
    assert!(!output.status.success() && text(&output.stderr).contains("not UTF-8 text"), "{}", text(&output.stderr));
}

#[test]
fn a_flag_wins_over_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("flag.db").display());
    let task = ["enqueue", "send_email", r#"{"to":"a@b.c","subject":"Hi"}"#, "--url", &url];
    let output = program(ONE).args(task).env("ASYNQ_URL", "redis://127.0.0.1:1").output();
    let printed = good(&output.unwrap());
    assert!(printed.ends_with("flag.db\n"), "{printed}");
}

#[test]
fn a_broker_that_cannot_be_used_is_one_clear_error_without_its_password() {
    let server = RedisServer::with_password("right-word");
    let wrong = format!("redis://:wrong-word@127.0.0.1:{}/0", server.port());
    for (url, expected) in [
        ("postgres://u:secret-word@h/db", "sqlite://"),
        ("asynq.db", "sqlite://"),
        ("redis://:secret-word@127.0.0.1:1", "127.0.0.1:1"),
        ("redis://h:notaport", "port"),
        (&wrong, "password"),
        ("sqlite:///dev/null/jobs.db", "/dev/null"),
    ] {
        for args in [&[][..], &["stats"], &["enqueue", "send_email", r#"{"to":"a","subject":"b"}"#]] {
            let output = program(ONE).args(args).env("ASYNQ_URL", url).output().unwrap();
            let error = error_line(&output);
            assert!(error.contains(expected), "{url} {args:?}: {error}\n  should contain {expected}");
            assert!(!error.contains("secret-word") && !error.contains("wrong-word"), "{error}");
        }
    }
    let right = good(&program(ONE).arg("stats").env("ASYNQ_URL", server.url()).output().unwrap());
    assert!(!right.contains("right-word"), "{right}");
}
