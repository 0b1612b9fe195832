//! A server whose jobs block the threads of their runtime: tasks that were fetched and cannot start are not lost.

use std::sync::mpsc;

use asynq_runtime::{
    RawTask, Registry, Server,
    broker::{Action, Settled},
    prelude::*,
    task::TaskState,
};
use asynq_tests::{BlockedWorker, Seeded as _, default_queue, eventually, soon, task};
use tokio::runtime::Builder;

use super::Fixture;

const ALL: usize = BlockedWorker::ALL;

fn names() -> Vec<String> {
    BlockedWorker::names()
}

async fn pending(t: &Fixture) -> Vec<String> {
    t.snapshot().await.ids(TaskState::Pending).into_iter().map(str::to_owned).collect()
}

/// Starts a server that the first job blocks, while a fetch is on its way.
async fn blocked(t: &Fixture) -> BlockedWorker {
    let placed = t.broker().enqueue(names().iter().map(|name| task(name)).collect()).await;
    assert!(placed.iter().all(Result::is_ok));
    let mut worker = BlockedWorker::start(t.shared()).await;
    worker.is_blocked().await;
    // The number does not change any more, where the thread of the jobs is that of the fetcher.
    let left = if t.broker().dequeues_beside_jobs() { ALL - worker.running.running() } else { 1 };
    assert!(left > 0, "all fetches were answered before a job began");
    eventually("a fetch is held up", async || (pending(t).await.len() < left).then_some(())).await;
    worker
}

/// A fetcher beside the jobs is blocked with them; elsewhere it has fetched all tasks, and the heartbeat runtime extends them.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn tasks_that_a_blocked_worker_did_not_fetch_are_requeued_before_their_lease_is_over() {
    let t = Fixture::real_time().await;
    let BlockedWorker { running, jobs, gate, ran, .. } = blocked(&t).await;
    let is_beside_jobs = t.broker().dequeues_beside_jobs();
    let started = if is_beside_jobs { running.running() } else { ALL };
    if is_beside_jobs {
        let is_back = async || (pending(&t).await.len() == ALL - started).then_some(());
        eventually("the tasks of the fetch that is held up go back", is_back).await;
    } else {
        soon(running.signals().extended.reached(1)).await;
    }
    let runs = t.take(ALL).await;
    let taken: Vec<&str> = runs.iter().map(|run| run.key.id.as_str()).collect();
    assert_eq!(taken, names()[started..]);
    assert!(runs.iter().all(|run| run.crashes == 0), "no worker died");
    // The tasks are settled together, because their leases are not extended.
    let done: Vec<_> = runs.iter().map(|run| run.ends_with(Action::Done)).collect();
    let settled = t.broker().settle(&done).await;
    assert!(settled.iter().all(|settled| matches!(settled, Ok(Settled::Ok))), "{settled:?}");
    drop(gate);
    eventually("all tasks are done", async || {
        (t.broker().queue_stats(&default_queue()).await.unwrap().size == 0).then_some(())
    })
    .await;
    let mut ran = std::mem::take(&mut *ran.lock().unwrap());
    ran.sort();
    assert_eq!(ran, names()[..started], "each once, and no requeued task");
    assert_eq!(running.signals().lost.count(), 0);
    soon(running.shutdown()).await.unwrap();
    jobs.shutdown_background();
}

/// A worker reports to the broker within a second of its shutdown timeout, as documented.
mod timing {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_blocked_worker_that_leaves_requeues_the_tasks_it_did_not_start() {
        let t = Fixture::real_time().await;
        let BlockedWorker { running, jobs, gate, ran, .. } = blocked(&t).await;
        soon(running.shutdown()).await.unwrap();
        assert_eq!(pending(&t).await, names(), "in their order");
        assert_eq!(*ran.lock().unwrap(), [] as [String; 0]);
        drop(gate);
        jobs.shutdown_background();
    }

    /// A pending fetch of a blocked worker may receive a task; the worker requeues the task when it leaves.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_worker_that_leaves_while_it_waits_and_is_blocked_keeps_nothing() {
        let t = Fixture::real_time().await;
        let jobs = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = Server::builder("nothing://is-connected")
            .broker(t.shared())
            .registry(Registry::from_descriptors([]).unwrap())
            .shutdown_timeout(BlockedWorker::SHUTDOWN_TIMEOUT)
            .handle("email:", |_: RawTask| async { JobResult::Ok(()) });
        let running = jobs.spawn(server.build().await.unwrap().start()).await.unwrap().unwrap();
        soon(running.signals().idle.reached(1)).await;
        let ((gate, opens), (blocks, blocked)) = (mpsc::channel::<()>(), tokio::sync::oneshot::channel());
        jobs.spawn(async move {
            blocks.send(()).unwrap();
            let _ = opens.recv();
        });
        blocked.await.unwrap();
        t.enqueue(task("while it waited")).await;
        soon(running.shutdown()).await.unwrap();
        assert_eq!(pending(&t).await, ["while it waited"]);
        t.enqueue(task("after it left")).await;
        gate.send(()).unwrap();
        assert_eq!(pending(&t).await, ["while it waited", "after it left"]);
        jobs.shutdown_background();
    }
}
