//! Waits for the ends of tasks: one waiter looks for all, and whoever leaves hands that on.

use asynq_runtime::broker::{Broker, Inspect as _, TaskEnd};
use asynq_test_support::soon;
use tokio::task::JoinHandle;

use super::*;

fn wait(broker: &Arc<SqliteBroker>, id: &str) -> JoinHandle<TaskEnd> {
    let (broker, id) = (Arc::clone(broker), TaskId::new(id).unwrap());
    tokio::spawn(async move { broker.wait_for_end(&queue(), &id, HOUR).await.unwrap() })
}

fn kept(id: &str) -> NewTask {
    let mut task = task(id);
    task.message.retention = 60;
    task
}

async fn complete(broker: &SqliteBroker, run: &Run) {
    assert_eq!(settle(broker, outcome(run, Action::Complete { result: None })).await, Settled::Ok);
}

#[tokio::test]
async fn when_the_waiter_that_looks_for_all_leaves_another_one_looks() {
    const TASKS: usize = 50;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    let broker = Arc::new(open(&file).await);
    let other = open(&file).await;
    let member = join(&other).await;
    other.enqueue((0..TASKS).map(|n| kept(&format!("t{n:02}"))).collect()).await;
    let runs = dequeue(&other, &member, TASKS).await;
    let mut waiters: Vec<_> = runs.iter().map(|run| wait(&broker, run.key.id.as_str())).collect();
    // Those who came first leave, whichever of them looks for the others; then ends come one by one.
    while waiters.len() > 1 {
        waiters.remove(0).abort();
        let run = &runs[TASKS - waiters.len()];
        complete(&other, run).await;
        let ended = soon(waiters.remove(0)).await.unwrap();
        assert!(matches!(ended, TaskEnd::Kept(task) if task.id == run.key.id));
    }
}

#[tokio::test]
async fn each_of_thousands_of_waiters_is_told() {
    const TASKS: usize = 3_000;
    let folder = tempfile::tempdir().unwrap();
    let broker = Arc::new(open(&folder.path().join("jobs.db")).await);
    let member = join(&broker).await;
    for outcome in broker.enqueue((0..TASKS).map(|n| kept(&format!("t{n:04}"))).collect()).await {
        outcome.unwrap();
    }
    let mut runs = Vec::new();
    while runs.len() < TASKS {
        runs.extend(dequeue(&broker, &member, 256).await);
    }
    let waiters: Vec<_> = runs.iter().map(|run| wait(&broker, run.key.id.as_str())).collect();
    for slice in runs.chunks(200) {
        let batch: Vec<_> = slice.iter().map(|run| outcome(run, Action::Complete { result: None })).collect();
        assert!(broker.settle(&batch).await.into_iter().all(|settled| settled.unwrap() == Settled::Ok));
    }
    for (waiter, run) in waiters.into_iter().zip(&runs) {
        assert!(matches!(soon(waiter).await.unwrap(), TaskEnd::Kept(task) if task.id == run.key.id));
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
