//! A worker is stopped by signals.

use std::process::Stdio;

use asynq_runtime::TaskState;
use asynq_tests::{eventually, soon};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use crate::processes::world::World;

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
async fn servers_of_which_one_has_failed() -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_helper"));
    command.arg("servers").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(soon(lines.next_line()).await.unwrap().as_deref(), Some("failed"));
    (child, lines)
}

#[tokio::test]
async fn a_request_to_leave_between_two_servers_is_for_the_next_and_one_after_them_ends_the_process() {
    let (mut child, mut lines) = servers_of_which_one_has_failed().await;
    let pid = child.id().unwrap().to_string();
    let term = async || assert!(Command::new("kill").args(["-TERM", &pid]).status().await.unwrap().success());
    term().await;
    // The program ends when this input ends.
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"go on\n").await.unwrap();
    assert_eq!(soon(lines.next_line()).await.unwrap().as_deref(), Some("left"));
    // A signal that comes soon after the first one belongs to the same request.
    eventually("a second request is received", async || {
        term().await;
        child.try_wait().unwrap().map(drop)
    })
    .await;
    assert_eq!(soon(child.wait()).await.unwrap().code(), Some(130));
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
    let (mut child, _lines) = servers_of_which_one_has_failed().await;
    drop(child.stdin.take());
    assert_eq!(soon(child.wait()).await.unwrap().code(), Some(1));
    let (mut child, mut lines) = servers_of_which_one_has_failed().await;
    let pid = child.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().await.unwrap().success());
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"go on\n").await.unwrap();
    assert_eq!(soon(lines.next_line()).await.unwrap().as_deref(), Some("left"));
    drop(input);
    assert_eq!(soon(child.wait()).await.unwrap().code(), Some(1));
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
