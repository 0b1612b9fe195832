//! A worker process as a supervisor sees it.

use std::{path::PathBuf, process::ExitStatus};

use asynq_tests::{SlowNetwork, eventually, journal::written};

use crate::process::Process;

/// A worker process; killed when dropped.
#[derive(Debug)]
pub struct Worker {
    pub(super) process: Process,
    /// The log of the program `everyday`.
    pub(super) log: PathBuf,
    /// The network to Redis that this worker alone uses, if it has one.
    pub network: Option<SlowNetwork>,
}

impl Worker {
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The log so far.
    pub fn log(&self) -> String {
        written(&self.log)
    }

    /// Waits until the worker logs a line with `text`, and returns that line.
    pub async fn logs(&self, text: &str) -> String {
        eventually(&format!("the worker logs {text:?}"), async || {
            self.log().lines().find(|line| line.contains(text)).map(str::to_owned)
        })
        .await
    }

    /// Whether the worker's scheduler leads, by its own log.
    pub fn leads(&self) -> bool {
        let log = self.log();
        log.rfind("this scheduler leads") > log.rfind("this scheduler follows")
    }

    /// Sends kill -9, waits for the end, and returns the process id.
    pub fn kill(mut self) -> u32 {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.pid()
    }

    /// Sends a signal by name, such as `TERM`.
    pub fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Ends the worker's standard input, as the end of the test program does.
    pub fn lose_parent(&mut self) {
        drop(self.process.stdin.take());
    }

    /// Waits until the process ends by itself.
    pub async fn ended(&mut self) -> ExitStatus {
        eventually("the worker ends", async || self.process.try_wait().unwrap()).await
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }
}
