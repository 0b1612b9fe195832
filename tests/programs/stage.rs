//! A stage for programs: one private broker, the binaries, and their output.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
};

use asynq_runtime::{
    Client,
    broker::{Page, QueueStats},
    task::{QueueName, TaskInfo, TaskState},
};
use asynq_tests::{PATIENCE, Persistence, RedisServer, eventually, eventually_blocking, fast_folder, patient};
use tempfile::TempDir;

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

/// The command of a program in an environment without settings.
pub(crate) fn program(binary: &str) -> Command {
    let mut command = Command::new(binary);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ASYNQ_") || name == "RUST_LOG") {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
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

/// A program that runs as a worker, killed when dropped.
pub(crate) struct Worker {
    child: Child,
    printed: Arc<Printed>,
}

#[derive(Default)]
struct Printed {
    lines: Mutex<Vec<String>>,
    printing: Condvar,
}

impl Worker {
    pub(crate) fn start(command: Command) -> Self {
        Self::start_with_log(command, Stdio::piped())
    }

    /// Starts a worker whose log lines go to `log`.
    pub(crate) fn start_with_log(mut command: Command, log: impl Into<Stdio>) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let printed = Arc::new(Printed::default());
        let mut outputs: Vec<Box<dyn std::io::Read + Send>> = vec![Box::new(child.stdout.take().unwrap())];
        outputs.extend(child.stderr.take().map(|log| Box::new(log) as _));
        for output in outputs {
            let printed = Arc::clone(&printed);
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    printed.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                    printed.printing.notify_all();
                }
            });
        }
        Self { child, printed }
    }

    /// Waits until the program has printed each of `parts`, on either output.
    pub(crate) fn wait_for(&self, parts: &[&str]) {
        for part in parts {
            self.line(part);
        }
    }

    /// Waits until the program has printed a line that contains `part`, and returns it.
    pub(crate) fn line(&self, part: &str) -> String {
        let with = |lines: &[String]| lines.iter().find(|line| line.contains(part)).cloned();
        let lines = self.printed.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = |lines: &mut Vec<String>| with(lines).is_none();
        let (lines, _) = self.printed.printing.wait_timeout_while(lines, PATIENCE, missing).unwrap();
        with(&lines).unwrap_or_else(|| panic!("{part:?} did not come; it printed {:#?}", *lines))
    }

    pub(crate) fn send_term(&self) {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits until the program has ended and returns its exit code.
    pub(crate) fn exit_code(mut self) -> Option<i32> {
        eventually_blocking("the program ends", || self.child.try_wait().unwrap()).code()
    }

    /// Sends TERM until the program has ended and returns its exit code.
    pub(crate) fn terminate_at_once(mut self) -> Option<i32> {
        let ended = || {
            self.send_term();
            self.child.try_wait().unwrap()
        };
        eventually_blocking("the program ends", ended).code()
    }

    /// Sends TERM as a supervisor does and returns the output.
    pub(crate) fn terminate(mut self) -> Vec<String> {
        self.send_term();
        let status = eventually_blocking("the program leaves", || self.child.try_wait().unwrap());
        let lines = std::mem::take(&mut *self.printed.lines.lock().unwrap_or_else(PoisonError::into_inner));
        assert!(status.success(), "{status}: {lines:#?}");
        lines
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The warnings and errors of a program, except those about a broker that was late, as on a slow machine.
pub(crate) fn complaints(lines: &[String]) -> Vec<&str> {
    let is_complaint = |line: &str| line.contains("ERROR") || line.contains("WARN");
    lines.iter().map(String::as_str).filter(|line| is_complaint(line) && !line.contains("in time")).collect()
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
