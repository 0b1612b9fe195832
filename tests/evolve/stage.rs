//! A deploy: tasks of one version, a server of another, and the outcome of each task.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use asynq_runtime::{Client, JobDescriptor, PreparedTask, Registry, Server, TaskInfo, TaskState, broker::Broker};
use asynq_tests::{default_queue, eventually};

/// The arguments of the runs, by the ids of their tasks.
pub(crate) type Log = Arc<Mutex<BTreeMap<String, String>>>;

/// The outcome of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Became {
    /// The task ran with these arguments.
    Ran(String),
    /// The task was requeued for this reason and waits for a program that can read it.
    Waits(String),
    /// Any other outcome.
    Lost(String),
}

/// Enqueues each task under its id, with a client of its own, as another process would.
pub(crate) async fn enqueue(broker: Arc<dyn Broker>, tasks: Vec<(String, PreparedTask)>) {
    let client = Client::new(broker);
    for (id, task) in tasks {
        client.enqueue(task.task_id(id)).await.unwrap();
    }
}

/// Runs a server with these jobs until it has taken each task once.
pub(crate) async fn run(broker: Arc<dyn Broker>, jobs: Vec<JobDescriptor>, ids: &[String]) -> Log {
    let log = Log::default();
    let server = Server::builder("nothing://is-connected")
        .broker(Arc::clone(&broker))
        .registry(Registry::from_descriptors(jobs).unwrap())
        .state::<Log>(Arc::clone(&log))
        .concurrency(4);
    let running = server.build().await.unwrap().start().await.unwrap();
    for id in ids {
        // A requeued task has an error. A server takes it again after a while, so that runs cannot be counted.
        eventually("every task was tried", async || {
            let task = broker.task(&default_queue(), &asynq_tests::task_id(id)).await.unwrap();
            let has_run = log.lock().unwrap().contains_key(id);
            (has_run || task.is_none_or(|task| task.last_error.is_some())).then_some(())
        })
        .await;
    }
    running.shutdown().await.unwrap();
    log
}

/// The outcome of this task.
pub(crate) async fn became(broker: &dyn Broker, log: &Log, id: &str) -> Became {
    let ran = log.lock().unwrap().get(id).cloned();
    let task: Option<TaskInfo> = broker.task(&default_queue(), &asynq_tests::task_id(id)).await.unwrap();
    match (ran, task) {
        (Some(arguments), None) => Became::Ran(arguments),
        (None, Some(TaskInfo { state, retried: 0, last_error: Some(why), .. })) if state != TaskState::Archived => {
            Became::Waits(why)
        }
        (ran, task) => Became::Lost(format!("{ran:?} {task:?}")),
    }
}
