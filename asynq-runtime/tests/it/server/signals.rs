//! What the operating system's signals do, tried on a process of its own.

use std::time::Duration;

use asynq_runtime::{Client, State, TaskState, prelude::*};

use super::{Log, ids, memory, server};
use crate::child::Program;

#[job]
async fn hangs(log: State<Log>) -> JobResult {
    log.send("started".into())?;
    std::future::pending::<()>().await;
    Ok(())
}

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
    println!("pending {:?}", ids(&broker, TaskState::Pending).await);
}

fn start(shutdown_timeout: &str) -> Program {
    let mut worker = Program::start("worker", shutdown_timeout);
    worker.says("started");
    worker
}

#[test]
fn term_and_int_drain_and_hand_back() {
    for signal in ["-TERM", "-INT"] {
        let mut worker = start("1s");
        worker.signal(signal);
        worker.says("pending [\"h\"]");
        assert!(worker.ended().success());
    }
}

#[test]
fn tstp_stops_fetching_and_the_worker_lives_on() {
    let mut worker = start("1s");
    worker.signal("-TSTP");
    worker.says("status stopped");
    assert!(worker.is_running());
    worker.signal("-TERM");
    worker.says("pending [\"h\"]");
}

#[test]
fn a_second_term_leaves_at_once() {
    let mut worker = start("1h");
    worker.signal("-TERM");
    worker.says("status closed");
    worker.signal("-TERM");
    assert_eq!(worker.ended().code(), Some(130));
}
