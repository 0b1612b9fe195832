//! A test binary, and a run of it.

use std::{
    ffi::OsString,
    io::{BufRead as _, BufReader, Read},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use crate::{
    monitor::{self, Monitor, TICK, Verdict},
    plan,
};

/// The name of the modules whose tests measure real time.
const TIMING: &str = "timing::";

/// The part of a binary's tests that a run covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All tests that do not measure real time.
    Parallel {
        /// The processors of this machine.
        processors: usize,
    },
    /// The tests that measure real time, one at a time in each binary.
    Timing,
}

/// A test binary as cargo would run it.
#[derive(Debug)]
pub(crate) struct Suite {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) command: Vec<OsString>,
    pub(crate) variables: Vec<(OsString, OsString)>,
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) name: String,
    pub(crate) part: Part,
    /// The output of both streams, in the order of arrival.
    pub(crate) output: Vec<String>,
    pub(crate) took: Duration,
    /// The processor time of the binary, of the processes that it awaited, and of those that were there at the last tick, on systems
    /// that report it.
    pub(crate) cpu: Option<Duration>,
    pub(crate) is_success: bool,
    /// The reason for a failure that the output does not tell.
    pub(crate) fault: Option<String>,
}

impl Suite {
    /// Returns whether the binary has tests that measure real time. A binary that does not list its tests may have some: its run
    /// shows them, or the fault.
    pub(crate) fn has_timing(&self) -> bool {
        // An ignored test has a command of its own that runs it.
        let list = |more: &[&str]| -> Option<usize> {
            let output = self.prepared(&[&[TIMING, "--list"], more].concat(), 0).stderr(Stdio::null()).output();
            let output = output.ok().filter(|output| output.status.success())?;
            Some(String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.ends_with(": test")).count())
        };
        self.name != "doc-tests"
            && match (list(&[]), list(&["--ignored"])) {
                (Some(all), Some(ignored)) => all > ignored,
                _ => true,
            }
    }

    /// Runs `part` to its end, or until a limit is exceeded.
    pub(crate) fn run(&self, part: Part) -> Ended {
        let plan = plan::of(&self.name);
        let mut command = match part {
            Part::Parallel { .. } if self.name == "doc-tests" => self.prepared(&[], plan.niceness),
            Part::Parallel { .. } => self.prepared(&["--skip", TIMING], plan.niceness),
            Part::Timing => self.prepared(&[TIMING, "--test-threads=1"], 0),
        };
        if let (Part::Parallel { processors }, None) = (part, std::env::var_os("RUST_TEST_THREADS")) {
            command.env("RUST_TEST_THREADS", plan.tests_at_a_time(processors).to_string());
        }
        let began = Instant::now();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", self.name));
        let (output, killed, seen) = watch(&self.name, &mut child);
        let cpu = monitor::cpu_time(child.id()).max(seen);
        let status = child.wait().expect("the child was not waited for before");
        let fault = match killed {
            Some(why) => Some(format!("killed: {why}")),
            None if status.success() && !has_all_results(&output) => Some(WITHOUT_RESULT.to_owned()),
            None => None,
        };
        let is_success = status.success() && fault.is_none();
        Ended { name: self.name.clone(), part, output, took: began.elapsed(), cpu, is_success, fault }
    }

    /// The command with these further arguments.
    fn prepared(&self, arguments: &[&str], niceness: u32) -> Command {
        let mut command = Command::new("nice");
        command.arg("-n").arg(niceness.to_string()).args(&self.command).args(arguments);
        command.current_dir(&self.folder).env_clear().envs(self.variables.iter().map(|(key, value)| (key, value)));
        command
    }
}

/// The fault of a binary that exits with success and without a result, such as by `process::exit(0)` in a test: the tests that had
/// not ended are lost.
const WITHOUT_RESULT: &str = "it ended before the result of its tests";

/// Whether libtest printed its result: once for a binary, and at least once for each crate whose doc tests cargo runs.
fn has_all_results(output: &[String]) -> bool {
    // Cargo may colour the line.
    let crates = output.iter().filter(|line| line.contains(" Doc-tests")).count();
    let results = output.iter().filter(|line| line.starts_with("test result: ")).count();
    results >= crates.max(1)
}

/// Collects the lines of a child until both its streams end, and kills it when a limit is exceeded. Returns the lines, the reason for
/// a kill, and the most processor time that the child and all processes below it had at a tick.
fn watch(name: &str, child: &mut Child) -> (Vec<String>, Option<String>, Option<Duration>) {
    let (lines, arrived) = mpsc::channel();
    follow(child.stdout.take().expect("it is piped"), lines.clone());
    follow(child.stderr.take().expect("it is piped"), lines);
    let (mut monitor, mut output, mut killed) = (Monitor::new(Instant::now()), Vec::new(), None);
    let (mut cpu, mut ticked) = (None::<Duration>, Instant::now());
    loop {
        if ticked.elapsed() >= TICK {
            cpu = cpu.max(monitor::cpu_time_with_descendants(child.id()));
            ticked = Instant::now();
        }
        match arrived.recv_timeout(TICK) {
            Ok(line) => {
                if let Some(test) = monitor.line(&line, Instant::now()) {
                    println!("      … {name}: {test} has been running for over 60 seconds");
                }
                output.push(line);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return (output, killed, cpu),
        }
        match monitor.verdict(Instant::now()) {
            Verdict::GoOn => {}
            Verdict::Kill(why) if killed.is_none() => {
                let why = format!("{why}\n{}", monitor::processes_of(child.id()));
                println!("KILLED  {name}: {why}");
                monitor::kill_with_children(child.id());
                // `run` awaits the end of the binary, which must come also where the program `kill` is missing.
                let _ = child.kill();
                killed = Some(why);
            }
            // A process that left the tree may still hold the pipe open, so its end is not awaited.
            Verdict::Kill(_) => return (output, killed, cpu),
        }
    }
}

fn follow(stream: impl Read + Send + 'static, lines: Sender<String>) {
    thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
            if lines.send(text).is_err() {
                return;
            }
            line.clear();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A binary that is a script of the shell; the arguments of libtest begin at `$0`.
    fn script(text: &str) -> Suite {
        Suite {
            name: "script".to_owned(),
            folder: std::env::temp_dir(),
            command: ["sh", "-c", text].map(OsString::from).into(),
            variables: std::env::vars_os().collect(),
        }
    }

    #[test]
    fn a_binary_that_ends_before_the_result_of_its_tests_has_failed() {
        for part in [Part::Parallel { processors: 1 }, Part::Timing] {
            let ended = script("echo running 2 tests").run(part);
            assert_eq!((ended.is_success, ended.fault.as_deref()), (false, Some(WITHOUT_RESULT)));
            let ended = script("echo 'test result: ok. 2 passed; 0 failed'").run(part);
            assert_eq!((ended.is_success, ended.fault), (true, None));
            let ended = script("exit 101").run(part);
            assert_eq!((ended.is_success, ended.fault), (false, None), "its output tells why");
        }
    }

    #[test]
    fn each_crate_with_doc_tests_has_a_result() {
        let output = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let (named, result) = ("   Doc-tests asynq_cron", "test result: ok. 5 passed; 0 failed");
        assert!(has_all_results(&output(&[named, result, named, result, result])));
        assert!(!has_all_results(&output(&[named, result, named])));
    }

    #[test]
    fn timing_tests_of_a_binary_that_does_not_list_them_are_run() {
        let listing = "[ \"$2\" = --ignored ] || echo 'timing::a: test'";
        for (text, expected) in [(listing, true), ("echo 'timing::a: test'", false), ("exit 101", true)] {
            assert_eq!(script(text).has_timing(), expected, "{text}");
        }
    }
}
