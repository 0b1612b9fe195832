//! A server whose jobs block the threads of their runtime: what it fetched and cannot start is not lost (RELIABILITY F30).

use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use asynq_runtime::{
    RawTask, Registry, Server,
    broker::{Action, Settled},
    prelude::*,
    server::Running,
    task::TaskState,
};
use asynq_tests::{default_queue, soon, task};
use tokio::runtime::{Builder, Runtime};

use super::Fixture;

const ALL: usize = 150;
/// The most that one fetch takes: so many tasks are fetched before the first one starts, and the fetch of the others is answered
/// while that one blocks.
const FIRST: usize = 128;

struct Blocked {
    running: Running,
    jobs: Runtime,
    /// Lets the job that blocks go on.
    gate: mpsc::Sender<()>,
    ran: Arc<Mutex<Vec<String>>>,
}

fn names() -> Vec<String> {
    (0..ALL).map(|n| format!("t{n:03}")).collect()
}

async fn pending(t: &Fixture) -> Vec<String> {
    t.snapshot().await.ids(TaskState::Pending).into_iter().map(str::to_owned).collect()
}

async fn until(t: &Fixture, mut is_so: impl FnMut(usize) -> bool) {
    while !is_so(pending(t).await.len()) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn blocked(t: &Fixture) -> Blocked {
    let placed = t.broker().enqueue(names().iter().map(|name| task(name)).collect()).await;
    assert!(placed.iter().all(Result::is_ok));
    let (gate, opens) = mpsc::channel::<()>();
    let (starts, mut started) = tokio::sync::mpsc::unbounded_channel();
    let (opens, ran) = (Arc::new(Mutex::new(opens)), Arc::<Mutex<Vec<String>>>::default());
    let log = Arc::clone(&ran);
    let jobs = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = Server::builder("nothing://is-connected")
        .broker(t.shared())
        .registry(Registry::from_descriptors([]).unwrap())
        .concurrency(200)
        .shutdown_timeout(Duration::from_millis(50))
        .handle("email:", move |task: RawTask| {
            let (opens, log, starts) = (Arc::clone(&opens), Arc::clone(&log), starts.clone());
            async move {
                let id = task.context().id().to_string();
                if id == "t000" {
                    starts.send(())?;
                    let _ = opens.lock().unwrap().recv();
                }
                log.lock().unwrap().push(id);
                JobResult::Ok(())
            }
        });
    let running = jobs.spawn(server.build().await.unwrap().start()).await.unwrap().unwrap();
    soon(started.recv()).await.unwrap();
    soon(until(t, |pending| pending == 0)).await;
    Blocked { running, jobs, gate, ran }
}

/// Where the fetcher lives beside the jobs it is held up with them; elsewhere all is in hand, and the heart extends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_a_blocked_worker_could_not_fetch_goes_back_before_its_lease_is_over() {
    let t = Fixture::real_time().await;
    let Blocked { running, jobs, gate, ran } = blocked(&t).await;
    let kept = if t.broker().dequeues_beside_jobs() { FIRST } else { ALL };
    if kept < ALL {
        soon(until(&t, |pending| pending > 0)).await;
    } else {
        soon(running.signals().extended.reached(1)).await;
    }
    let runs = t.take(ALL).await;
    let taken: Vec<&str> = runs.iter().map(|run| run.key.id.as_str()).collect();
    assert_eq!(taken, names()[kept..]);
    for run in &runs {
        assert_eq!(run.crashes, 0, "nobody died");
        assert_eq!(t.settle(run, Action::Done).await, Settled::Ok);
    }
    gate.send(()).unwrap();
    soon(async {
        while t.broker().queue_stats(&default_queue()).await.unwrap().size > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let mut ran = std::mem::take(&mut *ran.lock().unwrap());
    ran.sort();
    assert_eq!(ran, names()[..kept], "each once, and nothing of what went back");
    assert_eq!(running.signals().lost.count(), 0);
    running.shutdown().await.unwrap();
    jobs.shutdown_background();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_blocked_worker_that_leaves_hands_back_what_it_could_not_start() {
    let t = Fixture::real_time().await;
    let Blocked { running, jobs, gate, ran } = blocked(&t).await;
    soon(running.shutdown()).await.unwrap();
    // The runtime begins with the last that came.
    let ran = ran.lock().unwrap().clone();
    assert!(ran.len() < 10, "{ran:?}");
    let left: Vec<String> = names().into_iter().filter(|name| !ran.contains(name)).collect();
    assert_eq!(pending(&t).await, left);
    gate.send(()).unwrap();
    jobs.shutdown_background();
}

/// What waits in the broker for a first task is not waited for by anybody who could start it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_worker_that_leaves_while_it_waits_and_is_blocked_keeps_nothing() {
    let t = Fixture::real_time().await;
    let jobs = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = Server::builder("nothing://is-connected")
        .broker(t.shared())
        .registry(Registry::from_descriptors([]).unwrap())
        .shutdown_timeout(Duration::from_millis(50))
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
