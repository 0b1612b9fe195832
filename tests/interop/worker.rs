//! A worker process of either side, and the events that it reports.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use asynq_tests::PATIENCE;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::timeout};

use crate::{
    interop::{go::peer_program, side::Side},
    process::Process,
};

/// A worker process, which is killed with -9 when dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    _process: Process,
    side: Side,
    events: mpsc::UnboundedReceiver<Value>,
}

/// The queues and the options of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Settings<'a> {
    pub(crate) queues: Vec<String>,
    pub(crate) concurrency: usize,
    pub(crate) aggregate: bool,
    pub(crate) journal: Option<&'a Path>,
}

impl<'a> Settings<'a> {
    pub(crate) fn of(queue: &str) -> Self {
        Self { queues: vec![queue.to_owned()], concurrency: 4, aggregate: false, journal: None }
    }

    fn to_json(&self) -> String {
        let queues: serde_json::Map<String, Value> = self.queues.iter().map(|name| (name.clone(), json!(1))).collect();
        json!({
            "queues": queues,
            "concurrency": self.concurrency,
            "aggregate": self.aggregate,
            "journal": self.journal,
        })
        .to_string()
    }
}

impl Worker {
    /// Starts a worker and waits until it can take tasks.
    pub(crate) async fn start(side: Side, address: &str, settings: &Settings<'_>) -> Self {
        let mut command = match side {
            Side::Go => {
                let mut command = Command::new(peer_program().unwrap());
                command.args(["serve", address]);
                command
            }
            Side::Rust => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_helper"));
                command.arg("interop").arg(format!("redis://{address}"));
                command
            }
        };
        let mut process = Process::start(command.arg(settings.to_json()).stdin(Stdio::piped()).stdout(Stdio::piped()));
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, events) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let Ok(event) = serde_json::from_str(&line) else { continue };
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        let mut worker = Self { _process: process, side, events };
        worker.event("ready", |_| true).await;
        worker
    }

    /// Waits for an event of this name that satisfies `is_it`; earlier events are dropped.
    pub(crate) async fn event(&mut self, name: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let wait = async {
            loop {
                let event = self.events.recv().await.unwrap_or_else(|| panic!("the {} worker ended", self.side));
                if event["event"] == name && is_it(&event) {
                    return event;
                }
            }
        };
        timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("the {} worker never printed {name}", self.side))
    }

    /// Waits until the worker starts the task.
    pub(crate) async fn starts(&mut self, id: &str) -> Value {
        self.event("start", |event| event["id"] == id).await
    }

    /// Waits until the worker has ended the task with success.
    pub(crate) async fn does(&mut self, id: &str) {
        self.event("done", |event| event["id"] == id).await;
    }
}
