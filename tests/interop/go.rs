//! Builds the Go programs, and talks to the program that is a client and an inspector.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, OnceLock, PoisonError, mpsc},
    thread,
};

use asynq_tests::{PATIENCE, has_go};
use serde_json::Value;

use crate::process::Process;

/// Why these tests are skipped. The list of accepted skips lacks this reason, so that Go is required where `CI` is set.
pub(crate) const NO_GO: &str = "there is no Go 1.24 or newer here to build the real asynq with";

/// Returns the program `peer`, built by the first test that calls this; `None` without a Go that builds it.
pub(crate) fn peer_program() -> Option<&'static Path> {
    static PEER: OnceLock<Option<PathBuf>> = OnceLock::new();
    PEER.get_or_init(|| build("interop", "./peer", "peer")).as_deref()
}

/// Returns the program `asynqmon`, built by the first test that calls this; `None` without a Go that builds it. Most tests need
/// `peer` alone, and do not wait for this build.
pub(crate) fn asynqmon_program() -> Option<&'static Path> {
    static ASYNQMON: OnceLock<Option<PathBuf>> = OnceLock::new();
    ASYNQMON.get_or_init(|| build("interop/asynqmon", ".", "asynqmon")).as_deref()
}

fn build(module: &str, package: &str, name: &str) -> Option<PathBuf> {
    if !has_go() {
        return None;
    }
    let program = crate::interop::matrix::folder().join(name);
    let built = Command::new("go")
        .args(["build", "-buildvcs=false", "-o"])
        .arg(&program)
        .arg(package)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(module))
        .output()
        .unwrap();
    assert!(built.status.success(), "go build {package}: {}", String::from_utf8_lossy(&built.stderr));
    Some(program)
}

/// A running `peer talk`, which ends when this handle is dropped.
#[derive(Debug)]
pub(crate) struct Talk {
    _process: Process,
    pipes: Mutex<(ChildStdin, mpsc::Receiver<String>)>,
}

impl Talk {
    pub(crate) fn start(peer: &Path, address: &str) -> Self {
        let mut command = Command::new(peer);
        let mut process = Process::start(command.args(["talk", address]).stdin(Stdio::piped()).stdout(Stdio::piped()));
        let pipes = (process.stdin.take().unwrap(), lines(process.stdout.take().unwrap()));
        Self { _process: process, pipes: Mutex::new(pipes) }
    }

    /// Sends a request and returns its answer: asynq's return value, or the text of its error.
    pub(crate) fn ask(&self, request: &Value) -> Result<Value, String> {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(pipes.0, "{request}").unwrap();
        let line = pipes.1.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{request}: no answer"));
        let mut answer: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{request}: {line:?}: {error}"));
        match answer["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer["value"].take()),
        }
    }
}

/// The output of a program, line by line.
fn lines(output: ChildStdout) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let _ = BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line));
    });
    receiver
}
