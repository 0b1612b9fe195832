//! The effect of the operating system's signals, on a process of its own.

use std::time::Duration;

use asynq_runtime::{Client, TaskState, prelude::*};

use asynq_test_support::{eventually, eventually_blocking};

use super::{hangs, ids, memory, server};
use crate::child::Program;

/// The child's part: a worker with one job that never ends prints its states.
pub(crate) async fn worker(shutdown_timeout: &str) {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    hangs::job().task_id("h").enqueue(&client).await.unwrap();
    let (builder, mut log) = server::<(hangs,)>(&broker);
    let watch = broker.clone();
    tokio::spawn(async move {
        while let Some(line) = log.recv().await {
            println!("{line}");
        }
    });
    tokio::spawn(async move {
        let mut last = None;
        loop {
            let status = watch.servers().await.ok().and_then(|servers| Some(servers.first()?.info.status.clone()));
            if let Some(status) = status.filter(|status| last.as_ref() != Some(status)) {
                println!("status {status}");
                last = Some(status);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    builder.shutdown_timeout(shutdown_timeout).build().await.unwrap().run().await.unwrap();
    let (pending, active) = (ids(&broker, TaskState::Pending).await, ids(&broker, TaskState::Active).await);
    println!("pending {pending:?} active {active:?}");
}

#[job]
async fn blocks_its_runtime() -> JobResult {
    println!("started");
    loop {
        std::thread::park();
    }
}

/// The child's part: a job blocks the only thread that its runtime has, for ever.
pub(crate) async fn blocked_worker(shutdown_timeout: &str) {
    let broker = memory().await;
    blocks_its_runtime::job().task_id("b").enqueue(&Client::new(broker.clone())).await.unwrap();
    let (builder, _log) = server::<(blocks_its_runtime,)>(&broker);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for (state, label) in [(TaskState::Active, "active"), (TaskState::Pending, "requeued")] {
                let there = async || Some(ids(&broker, state).await).filter(|ids| !ids.is_empty());
                println!("{label} {:?}", eventually(label, there).await);
            }
        });
    });
    builder.shutdown_timeout(shutdown_timeout).build().await.unwrap().run().await.unwrap();
}

/// A worker reports to the broker within a second of its shutdown timeout, as documented.
mod timing {
    use super::*;

    /// The shutdown timeout of the workers that shut down in order.
    const SHUTDOWN: &str = "1s";

    #[test]
    fn a_signal_is_followed_though_a_job_blocks_the_runtime() {
        let mut worker = Program::start("blocked_worker", "50ms");
        worker.prints("active [\"b\"]");
        worker.signal("TERM");
        worker.prints("requeued [\"b\"]");
        assert!(worker.is_running(), "the job blocks the program's own thread");
    }

    #[test]
    fn signals_that_come_together_are_one_request_to_leave() {
        let mut worker = start(SHUTDOWN);
        // Two signals of one kind would be one to a process that has not received the first yet.
        worker.signals(&["TERM", "INT"]);
        assert!(worker.ended().success());
    }

    /// Sends the signal and expects the job's task to be requeued.
    fn leaves(worker: &mut Program, signal: &str) {
        worker.signal(signal);
        let left = loop {
            let line = worker.next_line();
            if line.starts_with("pending ") {
                break line;
            }
        };
        assert_eq!(left, "pending [\"h\"] active []");
    }

    #[test]
    fn term_and_int_drain_and_requeue() {
        for signal in ["TERM", "INT"] {
            let mut worker = start(SHUTDOWN);
            leaves(&mut worker, signal);
            assert!(worker.ended().success());
        }
    }

    #[test]
    fn tstp_stops_fetching_and_the_worker_lives_on() {
        let mut worker = start(SHUTDOWN);
        worker.signal("TSTP");
        worker.prints("status stopped");
        assert!(worker.is_running());
        leaves(&mut worker, "TERM");
    }
}

#[test]
fn a_second_term_leaves_at_once_though_a_job_blocks_the_runtime() {
    let mut worker = Program::start("blocked_worker", "1h");
    worker.prints("started");
    leaves_at_once(&mut worker);
}

/// Sends TERM until the worker has ended: a signal that comes soon after the first one belongs to the same request.
fn leaves_at_once(worker: &mut Program) {
    eventually_blocking("a second request is received", || {
        worker.signal("TERM");
        (!worker.is_running()).then_some(())
    });
    assert_eq!(worker.ended().code(), Some(130));
}

fn start(shutdown_timeout: &str) -> Program {
    let mut worker = Program::start("worker", shutdown_timeout);
    worker.prints("started");
    worker
}

#[test]
fn a_second_term_leaves_at_once() {
    let mut worker = start("1h");
    worker.signal("TERM");
    worker.prints("status closed");
    leaves_at_once(&mut worker);
}
