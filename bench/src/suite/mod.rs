//! The whole suite: product and limit in turns, medians, the goals beside them, how cost grows, and a page of it.

mod goals;
mod growth;
mod machine;
mod plan;
mod plot;
mod report;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use asynq_runtime::prelude::BoxError;
use indicatif::{ProgressBar, ProgressStyle};

use self::plan::Planned;
pub(crate) use self::{
    machine::{facts, load},
    report::line,
};
use crate::{measured::Measured, page, run::Runner};

/// The extent of the suite.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    /// The number of times each run is made.
    pub(crate) runs: usize,
    /// A fraction of the tasks, to see that everything works; the figures mean little.
    pub(crate) quick: bool,
    /// The folder of the page and its plot.
    pub(crate) folder: PathBuf,
}

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
    let plan: Vec<Planned> = plan::plan(extent).into_iter().chain(growth::plan(extent)).collect();
    let once_more = |round: usize| plan.iter().filter(move |planned| round < planned.times);
    let rounds = (0..extent.runs).flat_map(once_more);

    let progress = Progress::new(rounds.clone().count());
    let (mut runner, mut found, mut failures) = (Runner::default(), Found::new(), Vec::new());
    for planned in rounds {
        progress.show(planned);
        match runner.once(&planned.order).await {
            Ok(measured) => found.entry(planned.key.clone()).or_default().push(measured),
            Err(error) => failures.push(error.to_string()),
        }
    }
    runner.end().await?;
    progress.bar.finish_and_clear();

    fs::create_dir_all(&extent.folder)?;
    growth::draw(&found, &extent.folder)?;
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

/// Shows which run is being measured.
struct Progress {
    bar: ProgressBar,
}

impl Progress {
    fn new(runs: usize) -> Self {
        let bar = ProgressBar::new(runs as u64);
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} {elapsed} {msg}") {
            bar.set_style(style);
        }
        Self { bar }
    }

    fn show(&self, planned: &Planned) {
        let (order, at) = (&planned.order, self.bar.position() + 1);
        let label = format!("{} on {}, concurrency {}", order.label(), order.broker, order.concurrency);
        if self.bar.is_hidden() {
            eprintln!("{at}/{} {label}", self.bar.length().unwrap_or(0));
        }
        self.bar.set_message(label);
        self.bar.inc(1);
    }
}

/// Returns the folder where the page is kept.
pub(crate) fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
