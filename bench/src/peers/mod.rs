//! Ours beside other libraries: the same tasks on one redis-server, in turns, each program as its users build it.

mod plan;
mod program;
mod report;

use std::{collections::BTreeMap, path::PathBuf};

use asynq_runtime::prelude::{BoxError, Client};
use serde::Serialize;

use self::{plan::Planned, program::Outcome};
use crate::{measured::Measured, order::Order, page, run, run_broker::RunBroker, suite};

/// The name of our program in tables.
const OURS: &str = "asynq-rs";

/// The extent of a comparison.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    /// The number of times each run is made.
    pub(crate) runs: usize,
    /// A fraction of the tasks, to see that everything works; the figures mean little.
    pub(crate) quick: bool,
    /// Tasks that wait in the row of the large backlog.
    pub(crate) waiting: u64,
    /// Names of the libraries to compare with; all of them if empty.
    pub(crate) only: Vec<String>,
    /// Prints a line of JSON per run instead of the table.
    pub(crate) json: bool,
    /// Folder of RESULTS.md.
    pub(crate) folder: PathBuf,
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
/// Redis or our own program failed. A library that cannot be built or fails is named in the table.
pub(crate) async fn compare(extent: &Extent) -> Result<(), BoxError> {
    let (facts, mut programs, mut skipped) = (suite::facts(), Vec::new(), Vec::new());
    for library in program::ALL.iter().filter(|library| library.is_in(&extent.only)) {
        match library.build() {
            Ok(program) => programs.push(program),
            Err(error) => skipped.push(format!("{} was skipped: {error}", library.name)),
        }
    }
    skipped.iter().for_each(|line| eprintln!("{line}"));
    let (plan, broker) = (plan::plan(extent), RunBroker::start("redis")?);
    let mut table = Table::new();
    for round in 0..extent.runs {
        for planned in plan.iter().filter(|planned| round < planned.times) {
            eprintln!("round {} of {}: {}", round + 1, extent.runs, planned.key);
            let order = broker.order(&planned.order);
            let measured = ours(&order).await?;
            let found = table.entry((OURS, planned.key)).or_default();
            print_row(extent, OURS, env!("CARGO_PKG_VERSION"), planned, &measured)?;
            found.runs.push(measured);
            for program in &programs {
                let found = table.entry((program.name, planned.key)).or_default();
                // One failure is enough: a library without the workload fails every time.
                if found.missing.is_some() {
                    continue;
                }
                match program.run(&order).await {
                    Ok(Outcome::Measured(measured)) => {
                        print_row(extent, program.name, &program.version, planned, &measured)?;
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
    page::put(&extent.folder.join("RESULTS.md"), page::PEERS, &section)?;
    if !extent.json {
        println!("## {}\n\n{section}", page::PEERS);
    }
    Ok(())
}

/// Runs one order of ours, by the workload of its name.
async fn ours(order: &Order) -> Result<Measured, BoxError> {
    let client = Client::connect(&order.url).await?;
    let measured = run::measured(order, &client).await;
    forget(order)?;
    measured.map_err(|error| format!("{}: {error}", order.label()).into())
}

/// Removes all that a run left.
fn forget(order: &Order) -> Result<(), BoxError> {
    let mut redis = redis::Client::open(order.url.as_str())?.get_connection()?;
    redis::cmd("FLUSHALL").exec(&mut redis)?;
    Ok(())
}

fn print_row(
    extent: &Extent,
    library: &str,
    version: &str,
    planned: &Planned,
    measured: &Measured,
) -> Result<(), BoxError> {
    if extent.json {
        println!("{}", serde_json::to_string(&Line { library, version, row: planned.key, measured })?);
    }
    Ok(())
}
