//! A run that is ended early leaves nothing behind.
#![allow(clippy::unwrap_used)]

use std::{
    env, fs, iter,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
};

use asynq_test_support::{Persistence, RedisServer, eventually_blocking, process};

fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

fn bench(arguments: &[&str], temporary: &Path) -> Command {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_asynq-bench"));
    bench.args(arguments).env("TMPDIR", temporary).stdout(Stdio::null()).stderr(Stdio::piped());
    bench
}

/// Starts a run, sends a signal once `is_under_way`, and returns the error texts of the run at its end.
fn ended_early(mut bench: Command, signal: &str, is_under_way: impl Fn() -> bool) -> String {
    let mut bench = bench.spawn().unwrap();
    eventually_blocking("the run is under way", || is_under_way().then_some(()));
    process::signal(signal, bench.id());
    eventually_blocking("the run has ended", || bench.try_wait().unwrap());
    let output = bench.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    text
}

#[test]
fn a_run_that_is_ended_by_a_signal_removes_its_servers_and_files() {
    for (broker, file, signal) in [("redis", "redis.sock", "INT"), ("sqlite", "bench.db-wal", "TERM")] {
        let temporary = tempfile::tempdir().unwrap();
        let has_file = |folder: String| temporary.path().join(folder).join(file).exists();
        let is_under_way = || entries(temporary.path()).into_iter().any(has_file);
        let text = ended_early(bench(&["idle", "--broker", broker], temporary.path()), signal, is_under_way);
        assert!(text.contains(&format!("SIG{signal}")), "{text}");
        assert_eq!(entries(temporary.path()), [""; 0], "{broker}");
    }
}

#[test]
fn a_run_that_is_ended_by_a_signal_leaves_no_task_on_the_broker_of_its_caller() {
    let (server, temporary) = (RedisServer::start(Persistence::None), tempfile::tempdir().unwrap());
    let scheduled =
        || -> u64 { redis::cmd("ZCARD").arg("asynq:{bench}:scheduled").query(&mut server.connection()).unwrap() };
    let url = server.url();
    let arguments = ["scheduled-million", "--n", "10", "--url", &url];
    let text = ended_early(bench(&arguments, temporary.path()), "INT", || scheduled() > 1_000);
    assert!(text.contains("SIGINT"), "{text}");
    assert_eq!(scheduled(), 0);
}

#[test]
fn a_run_that_is_ended_by_a_signal_does_not_wait_for_the_build_of_another_library() {
    let (tools, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (go, began) = (tools.path().join("go"), tools.path().join("began"));
    // It builds as long as its file is there, so that it ends with this test, too.
    let script = format!("#!/bin/sh\n: > '{}'\nwhile [ -e '{}' ]; do sleep 0.1; done\n", began.display(), go.display());
    fs::write(&go, script).unwrap();
    fs::set_permissions(&go, fs::Permissions::from_mode(0o755)).unwrap();
    let path =
        env::join_paths(iter::once(tools.path().to_owned()).chain(env::split_paths(&env::var_os("PATH").unwrap())));
    let mut bench = bench(&["peers", "--quick", "--only", "asynq"], temporary.path());
    bench.env("PATH", path.unwrap());
    let text = ended_early(bench, "TERM", || began.exists());
    assert!(text.contains("SIGTERM"), "{text}");
}
