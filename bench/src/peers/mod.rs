//! Ours beside other libraries: the same tasks on one redis-server, in turns, each program as its users build it.

mod distance;
mod plan;
mod program;
mod report;

use std::{collections::BTreeMap, path::PathBuf};

use asynq_runtime::prelude::{BoxError, Client};
use clap::Args;
use serde::Serialize;

use self::program::Outcome;
use crate::{measured::Measured, order::Order, page, run, run_broker::RunBroker, size, suite};

/// The name of our program in tables.
const OURS: &str = "asynq-rs";

/// The extent of a comparison.
#[derive(Debug, Clone, Args)]
pub(crate) struct Extent {
    /// How often each run is made
    #[arg(long, default_value_t = 5, default_value_if("quick", "true", "1"), value_parser = size::<usize>())]
    pub(crate) runs: usize,
    /// Few tasks, and once unless --runs says otherwise: shows that everything works
    #[arg(long)]
    pub(crate) quick: bool,
    /// Tasks that wait in the row of the large backlog
    #[arg(long, default_value_t = 5_000_000, value_parser = size::<u64>())]
    pub(crate) waiting: u64,
    /// Folders of bench/peers, separated by commas; all unless said
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// One line of JSON per run instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Folder of the page; bench/, and with --quick target/bench/; some of the libraries change no page unless it is named
    #[arg(long, default_value_if("quick", "true", suite::QUICK_FOLDER))]
    pub(crate) out: Option<PathBuf>,
}

/// The results of one planned run of one library.
#[derive(Debug, Default)]
struct Found {
    runs: Vec<Measured>,
    /// The reason why there are no runs, or not all.
    missing: Option<String>,
}

/// The results, by library and name of the planned run.
type Table = BTreeMap<(&'static str, &'static str), Found>;

/// One run as a JSON line for programs.
#[derive(Serialize)]
struct Line<'a> {
    library: &'a str,
    version: &'a str,
    row: &'a str,
    #[serde(flatten)]
    measured: &'a Measured,
}

/// Runs every library in turns, prints the table and puts it into RESULTS.md.
///
/// # Errors
///
/// Redis failed, `only` names a library that is not there, or a run of ours failed, which the table names. A library that cannot be
/// built or fails is named in the table alone.
pub(crate) async fn compare(extent: &Extent) -> Result<(), BoxError> {
    let (facts, mut programs, mut skipped) = (suite::facts(), Vec::new(), Vec::new());
    for library in program::chosen(&extent.only)? {
        match library.build().await {
            Ok(program) => programs.push(program),
            Err(error) => skipped.push(format!("{} was skipped: {error}", library.name)),
        }
    }
    skipped.iter().for_each(|line| eprintln!("{line}"));
    let (plan, broker) = (plan::plan(extent), RunBroker::start("redis")?);
    let away = broker.behind(distance::before)?;
    let mut table = Table::new();
    for round in 0..extent.runs {
        for planned in plan.iter().filter(|planned| round < planned.times) {
            eprintln!("round {} of {}: {}", round + 1, extent.runs, planned.key);
            let order = if planned.is_away { &away } else { &broker }.order(&planned.order);
            for program in sequence(&programs, round) {
                let (name, version) = program
                    .map_or((OURS, env!("CARGO_PKG_VERSION")), |program| (program.name, program.version.as_str()));
                let found = table.entry((name, planned.key)).or_default();
                // One failure is enough: a library without the workload fails every time.
                if found.missing.is_some() {
                    continue;
                }
                let ran = match program {
                    None => ours(&order).await,
                    Some(program) => program.run(&order).await,
                };
                match ran {
                    Ok(Outcome::Measured(measured)) => {
                        if extent.json {
                            let line = Line { library: name, version, row: planned.key, measured: &measured };
                            println!("{}", serde_json::to_string(&line)?);
                        }
                        found.runs.push(*measured);
                    }
                    Ok(Outcome::Cannot(reason)) => found.missing = Some(reason),
                    Err(error) => found.missing = Some(format!("failed: {error}")),
                }
                forget(&order)?;
            }
        }
    }
    let section = report::section(extent, &facts, &programs, &skipped, &table);
    let is_whole = extent.only.is_empty() && skipped.is_empty();
    page::put(page::folder(extent.out.as_deref(), is_whole).as_deref(), page::PEERS, &section)?;
    if !extent.json {
        println!("## {}\n\n{section}", page::PEERS);
    }
    let failures = failures_of_ours(&table);
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

/// Returns ours, which is `None`, and the others in the sequence of a round. Each round begins with another one, and every second round
/// has them the other way round, so that a library does not always run behind the same other.
fn sequence<T>(others: &[T], round: usize) -> Vec<Option<&T>> {
    let mut all: Vec<_> = std::iter::once(None).chain(others.iter().map(Some)).collect();
    let first = round % all.len();
    if round % 2 == 1 {
        all.reverse();
    }
    all.rotate_left(first);
    all
}

/// Runs one order of ours, by the workload of its name.
async fn ours(order: &Order) -> Result<Outcome, BoxError> {
    let client = Client::connect(&order.url).await?;
    Ok(Outcome::Measured(Box::new(run::measured(order, &client).await?)))
}

/// Returns the rows of ours that have failed, with their reasons.
fn failures_of_ours(table: &Table) -> Vec<String> {
    let ours = table.iter().filter(|((library, _), _)| *library == OURS);
    ours.filter_map(|((_, row), found)| Some(format!("{row}: {}", found.missing.as_ref()?))).collect()
}

/// Removes all that a run left.
fn forget(order: &Order) -> Result<(), BoxError> {
    let mut redis = order.redis_connection()?;
    redis::cmd("FLUSHALL").exec(&mut redis)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_library_always_runs_behind_the_same_other() {
        let others = ["asynq", "BullMQ", "sidekiq", "apalis"];
        let names = |round| sequence(&others, round).into_iter().map(|other| other.copied().unwrap_or(OURS));
        // Each round has two rows, the second of which begins behind the last library of the first.
        let order: Vec<_> = (0..3).flat_map(|round| names(round).chain(names(round))).collect();
        for library in others.into_iter().chain([OURS]) {
            let pairs = order.windows(2).filter(|pair| pair[1] == library);
            let before: BTreeSet<_> = pairs.map(|pair| pair[0]).collect();
            assert!(before.len() > 1, "{library} always runs behind {before:?}");
        }
        let firsts: BTreeSet<_> = (0..3).filter_map(|round| names(round).next()).collect();
        assert_eq!(firsts.len(), 3, "{firsts:?}");
        assert_eq!(sequence::<&str>(&[], 5), [None]);
    }

    #[test]
    fn a_failed_run_of_ours_is_told_beside_the_runs_of_the_others() {
        let failed = |reason: &str| Found { runs: Vec::new(), missing: Some(reason.to_owned()) };
        let table = Table::from([
            ((OURS, "drain 10"), Found::default()),
            ((OURS, "drain 100"), failed("failed: no memory")),
            (("BullMQ", "drain 10"), failed("failed: its own fault")),
        ]);
        assert_eq!(failures_of_ours(&table), ["drain 100: failed: no memory"]);
    }
}
