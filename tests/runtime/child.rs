//! The test binary as a child process of its own tests: workers that get signals, programs that are killed, a log of a
//! program's own.
//!
//! libtest knows no subcommands, so one test, [`process`], plays the part that its environment names. The test passes at once if
//! the environment names none.

use std::{
    ffi::{OsStr, OsString},
    io::Read as _,
    process::{Command, ExitStatus, Stdio},
    thread,
};

use asynq_test_support::{eventually_blocking, process::Program as Child};

use crate::{quiet_shutdown, server, sqlite};

/// Names the part that a child plays.
const PART: &str = "ASYNQ_TEST_PART";

/// The argument of the part: a file, a time.
const WITH: &str = "ASYNQ_TEST_WITH";

/// Plays the part of a child process.
#[tokio::test]
#[ignore = "not a test: other tests start it as a process of its own"]
async fn process() {
    let part = std::env::var(PART).expect("the parent names the part");
    let with = std::env::var_os(WITH).expect("the parent gives the argument");
    // The pipe ends with the parent, however the parent ends, so no child outlives it.
    thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
    play(&part, with).await;
}

async fn play(part: &str, with: OsString) {
    let text = || with.to_str().expect("it is UTF-8");
    match part {
        "quiet_shutdown" => quiet_shutdown::leaves_in_order().await,
        "worker" => server::signals::worker(text()).await,
        "blocked_worker" => server::signals::blocked_worker(text()).await,
        "panics" => server::backtraces::panics().await,
        "panicking_log" => server::panicking_log::goes_on().await,
        "embedded" => server::stuck::embedded(text()).await,
        #[cfg(target_os = "linux")]
        "full" => sqlite::full::fills_a_disk(with.as_ref()).await,
        "chaos" => sqlite::chaos::enqueues_and_settles(with.as_ref()).await,
        "group_chaos" => sqlite::group_chaos::aggregates(with.as_ref()).await,
        "taker" => sqlite::others::takes_everything(with.as_ref()).await,
        "transaction" => sqlite::in_transaction::programs::begins_a_transaction(text()).await,
        other => panic!("no such part: {other}"),
    }
}

/// A child process, which ends with the test.
pub(crate) struct Program {
    child: Child,
    /// How many of its lines were read.
    read: usize,
}

impl Program {
    /// Starts a child that plays `part` with `with`.
    pub(crate) fn start(part: &str, with: impl AsRef<OsStr>) -> Self {
        Self::start_by(&[], part, with)
    }

    /// Starts a child as [`start`](Self::start) does, by a command that runs others, such as `unshare`, with its options.
    pub(crate) fn start_by(by: &[&str], part: &str, with: impl AsRef<OsStr>) -> Self {
        let program = std::env::current_exe().unwrap();
        let words = by.iter().map(OsStr::new).chain([program.as_os_str()]).collect::<Vec<_>>();
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .args(["child::process", "--exact", "--include-ignored", "--nocapture", "--test-threads=1"])
            .env(PART, part)
            .env(WITH, with)
            .stdin(Stdio::piped());
        Self { child: Child::start_with_log(command, Stdio::inherit()), read: 0 }
    }

    /// Waits until the child prints a line that ends with `expected`.
    ///
    /// Panics after [`PATIENCE`](asynq_test_support::PATIENCE), or when the child ends without it, with all that the child printed.
    #[track_caller]
    pub(crate) fn prints(&mut self, expected: &str) {
        self.line(expected, |line| line.ends_with(expected));
    }

    /// Returns the next line that the child prints.
    ///
    /// Panics as [`prints`](Self::prints) does.
    #[track_caller]
    pub(crate) fn next_line(&mut self) -> String {
        self.line("something", |_| true)
    }

    #[track_caller]
    fn line(&mut self, expected: &str, is_it: impl Fn(&str) -> bool) -> String {
        let (read, line) = self.child.line_after(self.read, expected, is_it);
        self.read = read;
        line
    }

    /// Sends the signal of this name, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        self.child.process.signal(name);
    }

    /// Sends the signals of these names, one right after the other.
    pub(crate) fn signals(&self, names: &[&str]) {
        let kills: Vec<_> = names.iter().map(|name| format!("kill -{name} {}", self.child.process.id())).collect();
        assert!(Command::new("sh").args(["-c", &kills.join(" && ")]).status().unwrap().success());
    }

    /// Returns whether the child has not ended yet.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.process.try_wait().unwrap().is_none()
    }

    /// Waits until the child has ended.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        eventually_blocking("the child ends", || self.child.process.try_wait().unwrap())
    }

    /// Kills the child, which must not have ended before.
    pub(crate) fn kill(mut self) {
        assert!(self.is_running(), "no child may end by itself; it printed:\n{}", self.child.output());
        self.child.process.kill().unwrap();
        assert!(!self.ended().success());
    }
}
