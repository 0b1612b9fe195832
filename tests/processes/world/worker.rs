//! A worker process as a supervisor sees it.

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, ChildStdout, Command, ExitStatus},
    sync::mpsc,
    thread,
};

use asynq_tests::{PATIENCE, eventually, journal::written};

/// A worker process; killed when dropped.
#[derive(Debug)]
pub struct Worker {
    pub(super) child: Option<Child>,
    /// The log of the program `everyday`.
    pub(super) log: PathBuf,
}

impl Worker {
    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
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
        let mut child = self.child.take().unwrap();
        let pid = child.id();
        child.kill().unwrap();
        child.wait().unwrap();
        pid
    }

    /// Sends a signal by name, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.pid().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Ends the worker's standard input, as the end of the test program does.
    pub fn lose_parent(&mut self) {
        drop(self.child.as_mut().unwrap().stdin.take());
    }

    /// Waits until the process ends by itself.
    pub async fn ended(&mut self) -> ExitStatus {
        let child = self.child.as_mut().unwrap();
        eventually("the worker ends", async || child.try_wait().unwrap()).await
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.as_mut().unwrap().try_wait().unwrap().is_some()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The first line that a process prints.
pub(super) fn first_line(output: ChildStdout) -> String {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(output).read_line(&mut line);
        let _ = sender.send(read.map(|_| line));
    });
    receiver.recv_timeout(PATIENCE).expect("the process says something").unwrap()
}
