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
    /// The reason for a kill.
    pub(crate) killed: Option<String>,
}

impl Suite {
    /// Returns whether the binary has tests that measure real time.
    pub(crate) fn has_timing(&self) -> bool {
        // An ignored test has a command of its own that runs it.
        let list = |more: &[&str]| {
            let output = self.prepared(&[&[TIMING, "--list"], more].concat(), 0).stderr(Stdio::null()).output();
            output.map_or(0, |output| {
                String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.ends_with(": test")).count()
            })
        };
        self.name != "doc-tests" && list(&[]) > list(&["--ignored"])
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
        let is_success = status.success() && killed.is_none();
        Ended { name: self.name.clone(), part, output, took: began.elapsed(), cpu, is_success, killed }
    }

    /// The command with these further arguments.
    fn prepared(&self, arguments: &[&str], niceness: u32) -> Command {
        let mut command = Command::new("nice");
        command.arg("-n").arg(niceness.to_string()).args(&self.command).args(arguments);
        command.current_dir(&self.folder).env_clear().envs(self.variables.iter().map(|(key, value)| (key, value)));
        command
    }
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
