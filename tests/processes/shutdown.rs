//! A worker is stopped by signals.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use asynq_runtime::TaskState;
use asynq_tests::{eventually, eventually_blocking};

use crate::{process::Program, processes::world::World};

/// Longer than a test's patience: a worker that ends sooner has not waited for such jobs.
const AN_HOUR: u64 = 3_600_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_lets_short_jobs_end() {
    let world = World::sqlite().await;
    world.hold();
    world.enqueue_records(4, 0).await;
    let mut worker = world.worker_with(4, "1h");
    world.started(4).await;
    worker.signal("TERM");
    world.says("closed").await;
    world.release();
    assert!(worker.ended().await.success());
    assert_eq!(world.history().ends().len(), 4);
    let stats = world.stats().await;
    assert_eq!((stats.pending, stats.active, stats.processed_total), (0, 0, 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_sigterm_leaves_at_once_and_loses_nothing() {
    let world = World::sqlite().await;
    world.enqueue_records(4, AN_HOUR).await;
    let mut worker = world.everyday(&[("ASYNQ_CONCURRENCY", "4"), ("ASYNQ_SHUTDOWN_TIMEOUT", "1h")]).await;
    world.started(4).await;
    worker.signal("TERM");
    worker.logs("leaving: takes no more tasks running=4").await;
    // A signal that comes soon after the first one belongs to the same request.
    eventually("a second request is received", async || {
        worker.signal("TERM");
        worker.has_ended().then_some(())
    })
    .await;
    assert_eq!(worker.ended().await.code(), Some(130));
    let log = worker.log();
    let at_once = "leaving at once, as asked twice: these tasks run again, with one crash more tasks=4";
    assert!(log.contains(at_once), "{log}");
    let stats = world.stats().await;
    assert_eq!(stats.pending + stats.active, 4, "nothing is lost");
}

/// Starts the helper's program of two servers, and waits until the first one has failed.
fn servers_of_which_one_has_failed() -> Program {
    let mut command = Command::new(env!("CARGO_BIN_EXE_helper"));
    // The program ends when this input ends.
    command.arg("servers").stdin(Stdio::piped());
    let program = Program::start_with_log(command, Stdio::inherit());
    assert_eq!(program.line(""), "failed");
    program
}

/// Asks the program to leave before its second server, and waits until that one has left.
fn second_server_leaves(program: &mut Program) {
    program.process.signal("TERM");
    program.process.stdin.as_mut().unwrap().write_all(b"go on\n").unwrap();
    program.line("left");
}

#[test]
fn a_request_to_leave_between_two_servers_is_for_the_next_and_one_after_them_ends_the_process() {
    let mut program = servers_of_which_one_has_failed();
    second_server_leaves(&mut program);
    // A signal that comes soon after the first one belongs to the same request.
    eventually_blocking("a second request is received", || {
        program.process.signal("TERM");
        program.process.try_wait().unwrap()
    });
    let (status, output) = program.end();
    assert!(status.code() == Some(130) && output.starts_with("failed\nleft\n"), "{status}: {output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigtstp_takes_no_more_tasks_and_lets_the_others_go_on() {
    let world = World::sqlite().await;
    world.hold();
    world.enqueue_records(2, 0).await;
    let mut worker = world.worker(2);
    world.started(2).await;
    worker.signal("TSTP");
    world.says("stopped").await;
    let waiting = world.enqueue_records(3, 1).await;
    world.release();
    eventually("the running jobs end", async || (world.history().ends().len() == 2).then_some(())).await;
    assert!(!worker.has_ended(), "quiet is not the end");
    assert_eq!(world.tasks(TaskState::Pending).await.len(), waiting.len());
    worker.signal("TERM");
    assert!(worker.ended().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_logs_its_reaction_to_each_signal() {
    let world = World::sqlite().await;
    let mut worker = world.everyday_of(2).await;
    worker.signal("TSTP");
    worker.logs("quiet: takes no more tasks").await;
    worker.signal("TERM");
    assert!(worker.ended().await.success());
    let log = worker.log();
    let leaving = log.find("leaving: takes no more tasks running=0").expect(&log);
    assert!(leaving < log.find("has left server=").expect(&log), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_of_a_test_ends_with_the_test_program() {
    let world = World::sqlite().await;
    let mut worker = world.worker(1);
    worker.lose_parent();
    assert_eq!(worker.ended().await.code(), Some(1));
    // Between its servers, and after both.
    let mut program = servers_of_which_one_has_failed();
    drop(program.process.stdin.take());
    assert_eq!(program.end().0.code(), Some(1));
    let mut program = servers_of_which_one_has_failed();
    second_server_leaves(&mut program);
    drop(program.process.stdin.take());
    let (status, output) = program.end();
    assert!(status.code() == Some(1) && output.starts_with("failed\nleft\n"), "{status}: {output}");
}

/// A worker requeues its tasks within a second of its shutdown timeout, as documented.
mod timing {
    use super::*;

    async fn sigterm_spends_no_retry(world: World) {
        // Longer than the worker's shutdown timeout, so that all tasks are requeued.
        let ids = world.enqueue_records(8, AN_HOUR).await;
        let later = world.enqueue_records(1, 1).await;
        let mut worker = world.worker_with(8, "1s");
        world.started(8).await;

        worker.signal("TERM");
        let status = worker.ended().await;
        assert!(status.success(), "a requested stop is not an error: {status}");

        let pending = world.tasks(TaskState::Pending).await;
        assert_eq!(pending.len(), 9);
        let mut head: Vec<_> = pending[..8].iter().map(|task| task.id.clone()).collect();
        head.sort();
        let mut requeued = ids.clone();
        requeued.sort();
        assert_eq!(head, requeued, "requeued at the head of the queue");
        assert_eq!(pending[8].id, later[0]);
        assert!(pending.iter().all(|task| task.retried == 0 && task.crashes == 0 && task.last_error.is_none()));
        let stats = world.stats().await;
        assert_eq!((stats.active, stats.retry, stats.processed_total, stats.failed_total), (0, 0, 0, 0));
        let servers = world.broker().servers().await.expect("the broker answers");
        assert_eq!(servers, [], "it left the list of servers");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sigterm_requeues_without_spending_a_retry_on_redis() {
        sigterm_spends_no_retry(World::redis().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sigterm_requeues_without_spending_a_retry_on_sqlite() {
        sigterm_spends_no_retry(World::sqlite().await).await;
    }
}
