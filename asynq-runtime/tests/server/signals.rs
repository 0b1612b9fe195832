//! What the operating system's signals do, tried on a process of its own: this test program, told to be a worker.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use asynq_runtime::{Client, State, TaskState, prelude::*};

use super::{Log, ids, memory, server};

/// Tells the test program to be a worker.
const WORKER: &str = "ASYNQ_TEST_WORKER";

#[job]
async fn hangs(log: State<Log>) -> JobResult {
    log.send("started".into())?;
    std::future::pending::<()>().await;
    Ok(())
}

/// A worker with one job that never ends; it prints what happens. No test when it is not told to be one.
#[tokio::test]
async fn worker() {
    let Ok(timeout) = std::env::var(WORKER) else { return };
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
    builder.shutdown_timeout(timeout).build().await.unwrap().run().await.unwrap();
    println!("pending {:?}", ids(&broker, TaskState::Pending).await);
}

struct Worker(Child, std::io::Lines<BufReader<std::process::ChildStdout>>);

impl Worker {
    fn start(timeout: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "signals::worker", "--nocapture"])
            .env(WORKER, timeout)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut worker = Self(child, lines);
        worker.says("started");
        worker
    }

    fn kill(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.0.id().to_string()]).status().unwrap().success());
    }

    fn says(&mut self, expected: &str) {
        assert!(self.1.any(|line| line.unwrap().ends_with(expected)), "the worker ended without saying {expected:?}");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn term_and_int_drain_and_hand_back() {
    for signal in ["-TERM", "-INT"] {
        let mut worker = Worker::start("1s");
        worker.kill(signal);
        worker.says("pending [\"h\"]");
        assert!(worker.0.wait().unwrap().success());
    }
}

#[test]
fn tstp_stops_fetching_and_the_worker_lives_on() {
    let mut worker = Worker::start("1s");
    worker.kill("-TSTP");
    worker.says("status stopped");
    assert!(worker.0.try_wait().unwrap().is_none());
    worker.kill("-TERM");
    worker.says("pending [\"h\"]");
}

#[test]
fn a_second_term_leaves_at_once() {
    let mut worker = Worker::start("1h");
    worker.kill("-TERM");
    worker.says("status closed");
    worker.kill("-TERM");
    assert_eq!(worker.0.wait().unwrap().code(), Some(130));
}
