//! The program of another library: how it is built, and one run of it.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use asynq_runtime::prelude::BoxError;
use hdrhistogram::Histogram;
use serde::Deserialize;
use tokio::{process::Command, time::timeout};

use crate::{
    measured::Measured,
    meter::{Meter, Usage},
    order::Order,
    suite,
    workload::{CYCLE, SETTLES},
};

/// A library to compare with: its program is in `bench/peers`.
#[derive(Debug)]
pub(super) struct Library {
    /// The name in tables.
    pub(super) name: &'static str,
    /// The folder of its program.
    folder: &'static str,
    /// The file that pins its version, and the name of the library there.
    manifest: (&'static str, &'static str),
    kind: Kind,
}

/// The tool that builds a program.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Go,
    /// The file that node runs.
    Node,
    /// The name of the program.
    Rust(&'static str),
}

/// The library whose protocol is ours, and beside which there are goals.
pub(super) const ASYNQ: &str = "asynq (Go)";

/// All libraries, the one whose protocol is ours first.
const ALL: &[Library] = &[
    Library {
        name: ASYNQ,
        folder: "asynq",
        manifest: (include_str!("../../peers/asynq/go.mod"), "hibiken/asynq"),
        kind: Kind::Go,
    },
    Library {
        name: "BullMQ",
        folder: "bullmq",
        manifest: (include_str!("../../peers/bullmq/package.json"), "\"bullmq\""),
        kind: Kind::Node,
    },
    Library {
        name: "rusty-sidekiq",
        folder: "sidekiq",
        manifest: (include_str!("../../peers/sidekiq/Cargo.toml"), "rusty-sidekiq"),
        kind: Kind::Rust("asynq-bench-sidekiq"),
    },
    Library {
        name: "apalis-redis",
        folder: "apalis",
        manifest: (include_str!("../../peers/apalis/Cargo.toml"), "apalis-redis"),
        kind: Kind::Rust("asynq-bench-apalis"),
    },
];

/// A program that is built.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) version: String,
    /// The path of the program, and its first arguments.
    command: Vec<PathBuf>,
}

/// The end of a run that did not fail.
#[derive(Debug)]
pub(super) enum Outcome {
    Measured(Box<Measured>),
    /// The library does not have the workload; the text says why.
    Cannot(String),
}

/// The output of a program.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    cannot: String,
    /// The time of the workload; a program may leave it out where it is not asked for, as after `fill`.
    seconds: Option<f64>,
    /// `None` where the system does not report it.
    cpu_us: Option<f64>,
    /// Different tasks that ran, and runs of tasks that had run.
    ran: u64,
    again: u64,
    /// Tasks that wait at the end.
    waiting: u64,
    micros: Vec<u64>,
}

/// A program that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(1_800);

/// Returns the libraries of these folders; an empty list names all.
///
/// # Errors
///
/// A folder is that of none.
pub(super) fn chosen(only: &[String]) -> Result<Vec<&'static Library>, BoxError> {
    if let Some(name) = only.iter().find(|name| !ALL.iter().any(|library| library.folder == **name)) {
        return Err(format!("bench/peers has no folder {name:?}").into());
    }
    let is_chosen = |library: &&Library| only.is_empty() || only.iter().any(|name| library.folder == name);
    Ok(ALL.iter().filter(is_chosen).collect())
}

impl Library {
    /// Builds its program in `target/peers`, as users of the library build theirs.
    ///
    /// # Errors
    ///
    /// A tool is not on this machine, or a package cannot be had from its registry.
    pub(super) async fn build(&self) -> Result<Program, BoxError> {
        let source = suite::folder().join("peers").join(self.folder);
        let target = suite::folder().join("../target/peers").join(self.folder);
        std::fs::create_dir_all(&target)?;
        let command = match self.kind {
            Kind::Go => {
                let program = target.join("peer");
                let output = program.to_str().ok_or("the path of the target folder is not UTF-8")?;
                finish(&source, "go", &["build", "-buildvcs=false", "-o", output, "."]).await?;
                vec![program]
            }
            Kind::Node => {
                // npm puts its downloads beside the program, and the folder of the sources must stay clean.
                for entry in std::fs::read_dir(&source)? {
                    let entry = entry?;
                    std::fs::copy(entry.path(), target.join(entry.file_name()))?;
                }
                // `npm ci` would refuse a registry that lacks packages for other systems.
                finish(&target, "npm", &["install", "--ignore-scripts", "--no-audit", "--no-fund"]).await?;
                vec!["node".into(), target.join("main.js")]
            }
            Kind::Rust(name) => {
                // All programs share one folder, because most of their dependencies are the same.
                let target = suite::folder().join("../target/peers/rust");
                let folder = target.to_str().ok_or("the path of the target folder is not UTF-8")?;
                finish(&source, "cargo", &["build", "--release", "--locked", "--target-dir", folder]).await?;
                vec![target.join("release").join(name)]
            }
        };
        Ok(Program { name: self.name, version: self.version(), command })
    }

    /// Returns the version that its manifest pins.
    fn version(&self) -> String {
        let (manifest, package) = self.manifest;
        let after = manifest.split_once(package).map_or("", |(_, after)| after);
        let digits = after.trim_start_matches(|letter: char| !letter.is_ascii_digit());
        digits.chars().take_while(|letter| letter.is_ascii_digit() || *letter == '.').collect()
    }
}

/// Runs a tool to its end; a signal to this program ends it, too.
async fn finish(folder: &Path, tool: &str, arguments: &[&str]) -> Result<(), BoxError> {
    let mut command = Command::new(tool);
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).kill_on_drop(true);
    let ran = command.output().await.map_err(|error| format!("{tool} cannot be started: {error}"))?;
    if ran.status.success() {
        return Ok(());
    }
    Err(format!("{tool} {}: {}", arguments.join(" "), last_line(&ran.stderr)).into())
}

/// Returns the last line of an output that is not empty.
fn last_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}

impl Program {
    /// Carries out an order and checks that it was carried out.
    ///
    /// # Errors
    ///
    /// The program failed, or not every task ran once.
    pub(super) async fn run(&self, order: &Order) -> Result<Outcome, BoxError> {
        if order.workload == "idle" {
            return self.idle(order).await;
        }
        if order.workload == "drain" {
            let filled = self.answer("fill", order).await?;
            if !filled.cannot.is_empty() {
                return Ok(Outcome::Cannot(filled.cannot));
            }
            expect("waiting before the drain", filled.waiting, order.waiting())?;
        }
        let meter = Meter::start(order)?;
        let answer = self.answer("measure", order).await?;
        let redis = meter.stop()?.redis;
        if !answer.cannot.is_empty() {
            return Ok(Outcome::Cannot(answer.cannot));
        }
        if order.workload.starts_with("enqueue") {
            expect("waiting", answer.waiting, order.n)?;
        } else {
            expect("that ran", answer.ran, order.n)?;
            expect("that ran again", answer.again, 0)?;
        }
        let measured = match order.workload.as_str() {
            "latency" => Measured::of(order),
            _ => {
                let own_cpu_us = answer.cpu_us.map(|cpu| cpu / order.n as f64);
                let seconds = answer.seconds.ok_or("its answer lacks the seconds")?;
                let usage = Usage { seconds, own_cpu_us: 0.0, redis };
                Measured { own_cpu_us, ..usage.per_task(order) }
            }
        };
        let mut micros = Histogram::<u64>::new(3)?;
        answer.micros.iter().try_for_each(|figure| micros.record(*figure))?;
        let measured = if micros.is_empty() { measured } else { measured.spread(&micros) };
        // The memory above is that of this process, not of the program.
        Ok(Outcome::Measured(Box::new(Measured { peak_rss_mib: None, ..measured })))
    }

    /// Measures the commands per second of a worker without tasks.
    async fn idle(&self, order: &Order) -> Result<Outcome, BoxError> {
        let mut worker = self.command("measure", order)?.spawn()?;
        let _input = worker.stdin.take();
        let ended = async { Ok::<_, BoxError>(worker.wait_with_output().await?.stdout) };
        let looked = async {
            tokio::time::sleep(SETTLES).await;
            let meter = Meter::start(order)?;
            tokio::time::sleep(Duration::from_secs(order.seconds.unwrap_or(CYCLE))).await;
            meter.stop()
        };
        tokio::select! {
            ended = ended => match serde_json::from_slice::<Answer>(&ended?) {
                Ok(answer) if !answer.cannot.is_empty() => Ok(Outcome::Cannot(answer.cannot)),
                _ => Err("the worker ended".into()),
            },
            usage = looked => {
                let usage = usage?;
                let redis = usage.redis.unwrap_or_default();
                let measured = Measured::of(order).with("commands per second", redis.commands / usage.seconds);
                Ok(Outcome::Measured(Box::new(measured)))
            }
        }
    }

    /// Starts the program with a role and reads its output at its end.
    async fn answer(&self, role: &str, order: &Order) -> Result<Answer, BoxError> {
        let mut program = self.command(role, order)?.spawn()?;
        let _input = program.stdin.take();
        let ended = timeout(PATIENCE, program.wait_with_output()).await;
        let ended = ended.map_err(|_| format!("it did not end within {} s", PATIENCE.as_secs()))??;
        if !ended.status.success() {
            return Err(format!("{role} ended with {}: {}", ended.status, last_line(&ended.stderr)).into());
        }
        Ok(serde_json::from_slice(&ended.stdout)?)
    }

    /// Returns the program with its arguments. It ends with its standard input, so that none stays behind when this program is killed:
    /// the input must be kept as long as the program shall run.
    fn command(&self, role: &str, order: &Order) -> Result<Command, BoxError> {
        let (program, arguments) = self.command.split_first().ok_or("no program")?;
        let mut command = Command::new(program);
        command.args(arguments).args([role, &serde_json::to_string(order)?, &order.url]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        Ok(command)
    }
}

fn expect(label: &str, found: u64, expected: u64) -> Result<(), BoxError> {
    if found == expected { Ok(()) } else { Err(format!("{found} tasks {label}, not {expected}").into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_library_is_an_error() {
        let names = |only: &[&str]| {
            let only: Vec<_> = only.iter().map(ToString::to_string).collect();
            chosen(&only).map(|libraries| libraries.iter().map(|library| library.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["asynq"]).unwrap(), [ASYNQ]);
        assert_eq!(names(&[]).unwrap().len(), ALL.len());
        assert!(names(&["asynq", "celery"]).is_err_and(|error| error.to_string().contains("celery")));
    }
}
