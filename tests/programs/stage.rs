//! A stage for programs: one private broker, the binaries, and their output.

use std::process::{Command, Output};

use asynq_runtime::{
    Client,
    broker::{Page, QueueStats},
    task::{QueueName, TaskInfo, TaskState},
};
use asynq_tests::{Persistence, RedisServer, eventually, fast_folder, patient};
use tempfile::TempDir;

use crate::process::program;

/// Makes two tests of one body, one per broker.
macro_rules! on_both_brokers {
    ($($(#[$meta:meta])* async fn $name:ident($stage:ident: &Stage) $body:block)*) => {$(
        mod $name {
            use super::*;

            async fn case($stage: &Stage) $body

            #[tokio::test]
            async fn on_sqlite() {
                case(&Stage::sqlite()).await;
            }

            #[tokio::test]
            async fn on_redis() {
                case(&Stage::redis()).await;
            }
        }
    )*};
}
pub(crate) use on_both_brokers;

/// A private broker.
pub(crate) struct Stage {
    pub(crate) url: String,
    _store: Store,
}

enum Store {
    Folder(#[allow(dead_code)] TempDir),
    Redis(#[allow(dead_code)] RedisServer),
}

impl Stage {
    pub(crate) fn sqlite() -> Self {
        let folder = fast_folder();
        Self { url: format!("sqlite://{}", folder.path().join("jobs.db").display()), _store: Store::Folder(folder) }
    }

    pub(crate) fn redis() -> Self {
        let server = RedisServer::start(Persistence::None);
        Self { url: server.url(), _store: Store::Redis(server) }
    }

    pub(crate) async fn client(&self) -> Client {
        patient::client(&self.url).await
    }

    /// The command of a program on this broker.
    pub(crate) fn program(&self, binary: &str) -> Command {
        let mut command = program(binary);
        command.env("ASYNQ_URL", &self.url);
        command
    }

    /// Runs a command of a program, asserts its success and returns its output.
    pub(crate) fn ask(&self, binary: &str, args: &[&str]) -> String {
        let output = self.program(binary).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("programs print UTF-8")
}

/// The only line of an error.
pub(crate) fn error_line(output: &Output) -> String {
    let stderr = text(&output.stderr);
    assert!(!output.status.success(), "it should have failed: {stderr}");
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(lines.len(), 1, "one line was expected: {stderr}");
    assert!(lines[0].starts_with("error: "), "{stderr}");
    lines[0].to_owned()
}

/// The warnings and errors of a program, except those about a broker that was late, as on a slow machine.
pub(crate) fn complaints(output: &str) -> Vec<&str> {
    let is_complaint = |line: &str| line.contains("ERROR") || line.contains("WARN");
    output.lines().filter(|line| is_complaint(line) && !line.contains("in time")).collect()
}

pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

/// Waits until the queue satisfies `wanted`; another process works on the queue, so no signal tells of the change.
pub(crate) async fn until(client: &Client, name: &str, wanted: impl Fn(&QueueStats) -> bool) -> QueueStats {
    eventually(&format!("queue {name} is as it should be"), async || {
        let stats = client.broker().queue_stats(&queue(name)).await.unwrap();
        wanted(&stats).then_some(stats)
    })
    .await
}

pub(crate) async fn tasks(client: &Client, name: &str, state: TaskState) -> Vec<TaskInfo> {
    client.broker().tasks(&queue(name), state, Page { number: 1, size: 100 }).await.unwrap()
}
