//! The whole suite: product and limit in turns, medians, the goals beside them, how cost grows, and a page of it.

mod goals;
mod growth;
mod machine;
mod plan;
mod report;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use asynq_runtime::prelude::BoxError;
use clap::Args;

pub(crate) use self::{
    machine::{facts, load},
    report::table,
};
use crate::{measured::Measured, page, run::Runner, size};

/// The extent of the suite.
#[derive(Debug, Clone, Args)]
pub(crate) struct Extent {
    /// How often each run is made
    #[arg(long, default_value_t = 5, default_value_if("quick", "true", "1"), value_parser = size::<usize>())]
    pub(crate) runs: usize,
    /// Few tasks, and once unless --runs says otherwise: shows that everything works
    #[arg(long)]
    pub(crate) quick: bool,
    /// Folder of the page and its plot; bench/, and with --quick target/bench/
    #[arg(long = "out", default_value = FOLDER, default_value_if("quick", "true", QUICK_FOLDER), hide_default_value = true)]
    pub(crate) folder: PathBuf,
}

/// The folder where the page is kept, and that of a quick run.
const FOLDER: &str = env!("CARGO_MANIFEST_DIR");
pub(crate) const QUICK_FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench");

/// The divisor of the number of tasks in a quick run.
const QUICK: u64 = 500;

impl Extent {
    /// Returns how many tasks stand for `n`.
    fn tasks(&self, n: u64) -> u64 {
        if self.quick { (n / QUICK).max(2) } else { n }
    }
}

/// The runs, by the plan's keys.
pub(crate) type Found = BTreeMap<String, Vec<Measured>>;

/// Runs the plan and writes the page.
///
/// # Errors
///
/// The page cannot be written, or a run failed; the page then names the failure.
pub(crate) async fn all(extent: &Extent) -> Result<(), BoxError> {
    let (began, facts) = (Instant::now(), facts());
    let plan = plan::plan(extent);
    let once_more = |round: usize| plan.iter().filter(move |planned| round < planned.times);
    let rounds = (0..extent.runs).flat_map(once_more);

    let count = rounds.clone().count();
    let (mut runner, mut found, mut failures) = (Runner::default(), Found::new(), Vec::new());
    for (done, planned) in rounds.enumerate() {
        let order = &planned.order;
        eprintln!("{}/{count} {} on {}, concurrency {}", done + 1, order.label(), order.broker, order.concurrency);
        match runner.once(order).await {
            Ok(measured) => found.entry(planned.key.clone()).or_default().push(measured),
            Err(error) => failures.push(error.to_string()),
        }
    }
    runner.end().await?;

    fs::create_dir_all(&extent.folder)?;
    growth::draw(&found, &extent.folder.join("queues.svg"))?;
    let mut page = report::page(extent, &facts, &plan, &found, &failures, began.elapsed());
    let path = extent.folder.join("RESULTS.md");
    // The sections of other commands stay.
    let before = fs::read_to_string(&path).unwrap_or_default();
    for heading in page::SECTIONS {
        if let Some(section) = page::section(&before, heading) {
            page = page::with(&page, heading, section);
        }
    }
    fs::write(&path, &page)?;
    println!("{page}\n{}", path.display());
    if failures.is_empty() { Ok(()) } else { Err(format!("{} runs failed", failures.len()).into()) }
}

/// Returns the folder where the page is kept.
pub(crate) fn folder() -> &'static Path {
    Path::new(FOLDER)
}
