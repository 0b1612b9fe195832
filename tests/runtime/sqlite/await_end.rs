//! Waits for the ends of tasks: one look serves all waiters of a runtime, and none of them depends on another.

use asynq_runtime::broker::{Broker, Inspect as _, TaskEnd};
use asynq_test_support::{eventually, soon};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
    time::timeout,
};

use super::*;

/// A wait that outlasts this has most likely read its task.
const A_MOMENT: Duration = Duration::from_millis(50);

fn wait(broker: &Arc<SqliteBroker>, id: &str) -> JoinHandle<TaskEnd> {
    let (broker, id) = (Arc::clone(broker), TaskId::new(id).unwrap());
    tokio::spawn(async move { broker.wait_for_end(&queue(), &id, HOUR).await.unwrap() })
}

fn retained(id: &str) -> NewTask {
    let mut task = task(id);
    task.message.retention = 60;
    task
}

async fn complete(broker: &SqliteBroker, run: &Run) {
    assert_eq!(settle(broker, outcome(run, Action::Complete { result: None })).await, Settled::Ok);
}

#[tokio::test]
async fn waits_that_are_dropped_stop_no_others() {
    const TASKS: usize = 50;
    let (_folder, file) = new_file();
    let broker = Arc::new(open(&file).await);
    let other = open(&file).await;
    let member = join(&other).await;
    other.enqueue((0..TASKS).map(|n| retained(&format!("t{n:02}"))).collect()).await;
    let runs = dequeue(&other, &member, TASKS).await;
    let mut waiters: Vec<_> = runs.iter().map(|run| wait(&broker, run.key.id.as_str())).collect();
    // The oldest wait is dropped each time before the next task ends.
    while waiters.len() > 1 {
        waiters.remove(0).abort();
        let run = &runs[TASKS - waiters.len()];
        complete(&other, run).await;
        let ended = soon(waiters.remove(0)).await.unwrap();
        assert!(matches!(ended, TaskEnd::Stored(task) if task.id == run.key.id));
    }
}

#[test]
fn a_runtime_that_stands_still_and_one_that_has_ended_stop_no_wait_on_another() {
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let (running, still, ended) = (runtime(), runtime(), runtime());
    let folder = tempfile::tempdir().unwrap();
    let (broker, runs) = running.block_on(async {
        let broker = Arc::new(open(&folder.path().join("jobs.db")).await);
        let member = join(&broker).await;
        for id in ["t1", "t2", "t3"] {
            enqueue(&broker, retained(id)).await.unwrap();
        }
        let runs = dequeue(&broker, &member, 3).await;
        (broker, runs)
    });
    let default = queue();
    let begin = |runtime: &Runtime, run: usize| {
        let mut wait = broker.wait_for_end(&default, &runs[run].key.id, HOUR);
        runtime.block_on(async { assert!(timeout(A_MOMENT, &mut wait).await.is_err()) });
        wait
    };
    let (stands_still, _has_ended) = (begin(&still, 0), begin(&ended, 1));
    drop(ended);
    running.block_on(async {
        let other = wait(&broker, "t3");
        complete(&broker, &runs[2]).await;
        assert!(matches!(soon(other).await.unwrap(), TaskEnd::Stored(task) if task.id == runs[2].key.id));
        complete(&broker, &runs[0]).await;
    });
    let end = still.block_on(async { soon(stands_still).await.unwrap() });
    assert!(matches!(end, TaskEnd::Stored(task) if task.id == runs[0].key.id));
}

#[tokio::test]
async fn each_of_thousands_of_waiters_is_notified() {
    const TASKS: usize = 3_000;
    let folder = tempfile::tempdir().unwrap();
    let broker = Arc::new(open(&folder.path().join("jobs.db")).await);
    let member = join(&broker).await;
    for outcome in broker.enqueue((0..TASKS).map(|n| retained(&format!("t{n:04}"))).collect()).await {
        outcome.unwrap();
    }
    let mut runs = Vec::new();
    while runs.len() < TASKS {
        let more = dequeue(&broker, &member, 256).await;
        assert!(!more.is_empty(), "only {} of {TASKS} tasks came out", runs.len());
        runs.extend(more);
    }
    let waiters: Vec<_> = runs.iter().map(|run| wait(&broker, run.key.id.as_str())).collect();
    for slice in runs.chunks(200) {
        let batch: Vec<_> = slice.iter().map(|run| outcome(run, Action::Complete { result: None })).collect();
        assert!(broker.settle(&batch).await.into_iter().all(|settled| settled.unwrap() == Settled::Ok));
    }
    for (waiter, run) in waiters.into_iter().zip(&runs) {
        assert!(matches!(soon(waiter).await.unwrap(), TaskEnd::Stored(task) if task.id == run.key.id));
    }
}

#[tokio::test]
async fn a_broker_that_is_closed_ends_all_waits() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Arc::new(open(&folder.path().join("jobs.db")).await);
    for id in ["t1", "t2", "t3"] {
        enqueue(&broker, task(id)).await.unwrap();
    }
    let closes = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        broker.close().await;
    };
    let ids = ["t1", "t2", "t3"].map(|id| TaskId::new(id).unwrap());
    let queues = [queue()];
    let wait = |id| broker.wait_for_end(&queues[0], id, HOUR);
    let all = async {
        tokio::join!(wait(&ids[0]), wait(&ids[1]), wait(&ids[2]), broker.wait_until_idle(&queues, HOUR), closes)
    };
    let (one, two, three, idle, ()) = soon(all).await;
    for error in [one.unwrap_err(), two.unwrap_err(), three.unwrap_err(), idle.unwrap_err()] {
        assert!(!error.is_unavailable(), "{error}");
    }
}

#[tokio::test]
async fn a_program_that_waits_is_known_to_the_others_until_it_leaves() {
    let (folder, file) = new_file();
    let (waiter, worker) = (Arc::new(open(&file).await), open(&file).await);
    let known = || {
        let folder = std::fs::read_dir(folder.path().join("jobs.db-waiters"));
        folder.map(|folder| folder.count()).unwrap_or_default()
    };
    enqueue(&worker, retained("t1")).await.unwrap();
    let ended = waiter.wait_for_end(&queue(), &TaskId::new("t1").unwrap(), Duration::ZERO).await.unwrap();
    assert!(matches!(ended, TaskEnd::NotYet(_)));
    assert_eq!(known(), 1);
    // A program that was killed is forgotten with the next end.
    let dead = folder.path().join("jobs.db-waiters/dead.sock");
    drop(std::os::unix::net::UnixDatagram::bind(&dead).unwrap());
    assert_eq!(known(), 2);
    let wait = wait(&waiter, "t1");
    let member = join(&worker).await;
    complete(&worker, &dequeue(&worker, &member, 1).await[0]).await;
    assert!(matches!(soon(wait).await.unwrap(), TaskEnd::Stored(_)));
    eventually("the dead one is forgotten", async || (known() == 1).then_some(())).await;
    assert!(soon(waiter.wait_until_idle(&[queue()], HOUR)).await.unwrap());
    waiter.close().await;
    assert!(!folder.path().join("jobs.db-waiters").exists());
}
