//! Measures the cost of one call while something grows: time, commands and bytes against the size, and the slope of each.
//!
//! A slope belongs to a straight line through the logarithms: 0 where the cost does not depend on the size, 1 where it grows with
//! the size.

mod due;
mod errors;
mod file;
mod groups;
mod inspect;
mod repair;
mod running;
mod schedule;
#[cfg(feature = "dashboard")]
mod scrape;
mod slope;
mod spent;
mod wake;

use std::{future::Future, path::PathBuf, pin::Pin};

use asynq_runtime::{
    prelude::{BoxError, Client},
    server::ServerBuilder,
};
use clap::Args;
use serde::Serialize;

use self::{
    slope::slope,
    spent::{Counter, Spent},
};
use crate::{measured::short, order::Order, page, queue, run_broker::RunBroker, suite, task::Seen, workload::CYCLE};

/// The limits of a measurement.
#[derive(Debug, Clone, Args)]
pub(crate) struct Extent {
    /// No size is larger; a smaller one leaves rows out
    #[arg(long, default_value_t = 1_000_000, value_parser = crate::size::<u64>())]
    pub(crate) max: u64,
    /// Parts of the names of the tables, separated by commas; all unless said
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// One line of JSON per size instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Folder of the page; bench/ unless said; some rows of the section change no page unless it is named
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
}

/// The future of a row's measurement.
type Measuring<'a> = Pin<Box<dyn Future<Output = Result<Spent, BoxError>> + Send + 'a>>;

/// One table: a call, and the size that grows.
struct Row {
    name: &'static str,
    /// The name of the size.
    size: &'static str,
    broker: &'static str,
    sizes: &'static [u64],
    /// The unit to which the costs belong.
    per: &'static str,
    measure: fn(&Stage, u64) -> Measuring<'_>,
}

/// Sizes from ten to a million.
const TO_MILLION: &[u64] = &[10, 100, 1_000, 10_000, 100_000, 1_000_000];
const TO_100_000: &[u64] = TO_MILLION.split_at(5).0;
const TO_10_000: &[u64] = TO_MILLION.split_at(4).0;
const TO_1_000: &[u64] = TO_MILLION.split_at(3).0;
const TO_20_000: &[u64] = &[10, 100, 1_000, 10_000, 20_000];
/// Tasks of a set of a group.
const SETS: &[u64] = &[5, 100, 1_000];

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { name: "one enqueue beside 4 idle workers", size: "queues", broker: "redis", sizes: TO_10_000, per: "enqueue", measure: |stage, n| Box::pin(wake::beside(stage, 4, n)) },
    Row { name: "one enqueue beside idle workers of 10 queues", size: "workers", broker: "redis", sizes: &[1, 2, 4, 8, 12], per: "enqueue", measure: |stage, n| Box::pin(wake::beside(stage, n, 10)) },
    Row { name: "an idle worker", size: "queues", broker: "redis", sizes: TO_10_000, per: "second", measure: |stage, n| Box::pin(wake::idle(stage, n)) },
    Row { name: "a busy worker whose tasks are in one queue", size: "queues", broker: "redis", sizes: TO_1_000, per: "task", measure: |stage, n| Box::pin(wake::busy(stage, n)) },
    Row { name: "an idle worker beside groups that are not ripe", size: "groups", broker: "redis", sizes: TO_20_000, per: "second", measure: |stage, n| Box::pin(groups::unripe(stage, n)) },
    Row { name: "grouped tasks that run in sets", size: "tasks of a set", broker: "redis", sizes: SETS, per: "task", measure: |stage, n| Box::pin(groups::run(stage, n)) },
    Row { name: "delayed tasks that Go workers run: x:due", size: "parts of 1,000 tasks", broker: "redis", sizes: &[1, 2, 4, 8, 16], per: "part; bytes that stay in all", measure: |stage, n| Box::pin(due::beside_go(stage, n)) },
    Row { name: "a page of 100 groups", size: "groups", broker: "redis", sizes: TO_100_000, per: "page", measure: |stage, n| Box::pin(inspect::groups_page(stage, n)) },
    Row { name: "a look for ripe groups", size: "groups", broker: "redis", sizes: TO_100_000, per: "step of some hundred", measure: |stage, n| Box::pin(inspect::ripe_groups(stage, n)) },
    Row { name: "a page of grouped tasks", size: "groups", broker: "redis", sizes: TO_100_000, per: "page of 30", measure: |stage, n| Box::pin(inspect::aggregating_page(stage, n)) },
    Row { name: "counts and memory of a queue with groups", size: "groups", broker: "redis", sizes: TO_100_000, per: "question", measure: |stage, n| Box::pin(inspect::stats(stage, n)) },
    Row { name: "the last page of waiting tasks", size: "waiting tasks", broker: "redis", sizes: TO_MILLION, per: "page of 30", measure: |stage, n| Box::pin(inspect::last_page(stage, n)) },
    Row { name: "a search through waiting tasks", size: "waiting tasks", broker: "redis", sizes: TO_MILLION, per: "search of all", measure: |stage, n| Box::pin(inspect::search(stage, n)) },
    Row { name: "the list of queues", size: "queues", broker: "redis", sizes: TO_10_000, per: "list", measure: |stage, n| Box::pin(inspect::queues(stage, n)) },
    Row { name: "what a scrape asks of the broker", size: "queues", broker: "redis", sizes: TO_1_000, per: "scrape", measure: |stage, n| Box::pin(inspect::scrape(stage, n)) },
    Row { name: "a list of large payloads", size: "bytes of payload", broker: "redis", sizes: &[1_000, 10_000, 100_000, 1_000_000], per: "page of 30", measure: |stage, n| Box::pin(inspect::payloads(stage, n)) },
    Row { name: "an end of a run", size: "running tasks", broker: "redis", sizes: TO_20_000, per: "run", measure: |stage, n| Box::pin(running::settle(stage, n)) },
    Row { name: "an extension of leases", size: "running tasks", broker: "redis", sizes: TO_20_000, per: "100 runs", measure: |stage, n| Box::pin(running::extend(stage, n)) },
    Row { name: "the task of a lost answer is requeued", size: "newer running tasks", broker: "redis", sizes: TO_20_000, per: "search", measure: |stage, n| Box::pin(running::release(stage, n)) },
    Row { name: "a tick", size: "entries", broker: "redis", sizes: TO_10_000, per: "tick", measure: |stage, n| Box::pin(schedule::tick(stage, n)) },
    Row { name: "a list of entries is written", size: "entries", broker: "redis", sizes: TO_10_000, per: "list", measure: |stage, n| Box::pin(schedule::show(stage, n)) },
    Row { name: "a list of entries is read", size: "entries", broker: "redis", sizes: TO_10_000, per: "list", measure: |stage, n| Box::pin(schedule::list(stage, n)) },
    Row { name: "a sweep of 100 ids without a task", size: "waiting tasks", broker: "redis", sizes: TO_MILLION, per: "sweep", measure: |stage, n| Box::pin(repair::sweep(stage, n, false)) },
    Row { name: "sweeps up to 100 ids without a task that are deep", size: "waiting tasks", broker: "redis", sizes: TO_MILLION, per: "sweep", measure: |stage, n| Box::pin(repair::sweep(stage, n, true)) },
    Row { name: "a set behind ids without a task", size: "ids without a task", broker: "redis", sizes: TO_10_000, per: "set", measure: |stage, n| Box::pin(repair::claim(stage, n)) },
    Row { name: "all waiting tasks are archived", size: "waiting tasks", broker: "redis", sizes: TO_MILLION, per: "slice of 100", measure: |stage, _| Box::pin(repair::bulk(stage)) },
    Row { name: "a search for lost groups", size: "keys", broker: "redis", sizes: TO_MILLION, per: "turn", measure: |stage, _| Box::pin(repair::restore_groups(stage)) },
    Row { name: "long error texts", size: "failures", broker: "redis", sizes: &[1, 2, 5, 10], per: "task", measure: |stage, n| Box::pin(errors::stored(stage, n)) },
    Row { name: "SQLite: what an enqueue writes", size: "waiting tasks", broker: "sqlite", sizes: TO_MILLION, per: "task of a bulk of 100", measure: |stage, n| Box::pin(file::enqueue(stage, n)) },
    Row { name: "SQLite: what a drain writes", size: "tasks", broker: "sqlite", sizes: TO_100_000, per: "task", measure: |stage, n| Box::pin(file::drain(stage, n)) },
    Row { name: "SQLite: what a refused duplicate writes", size: "waiting tasks", broker: "sqlite", sizes: TO_MILLION, per: "refusal", measure: |stage, _| Box::pin(file::duplicate(stage)) },
    Row { name: "SQLite: grouped tasks that run in sets", size: "tasks of a set", broker: "sqlite", sizes: SETS, per: "task", measure: |stage, n| Box::pin(groups::run(stage, n)) },
    Row { name: "SQLite: an idle worker", size: "queues", broker: "sqlite", sizes: TO_10_000, per: "second", measure: |stage, n| Box::pin(wake::idle(stage, n)) },
    Row { name: "SQLite: one enqueue beside an idle worker", size: "queues", broker: "sqlite", sizes: TO_1_000, per: "enqueue", measure: |stage, n| Box::pin(wake::beside(stage, 1, n)) },
    Row { name: "SQLite: the file after its tasks were deleted", size: "deleted tasks", broker: "sqlite", sizes: &[100_000, 1_000_000], per: "file", measure: |stage, _| Box::pin(file::shrinks(stage)) },
    // This is the last row: from it on the metrics of this program are recorded, which costs time.
    #[cfg(feature = "dashboard")]
    Row { name: "a scrape of a worker's own metrics", size: "queues", broker: "redis", sizes: TO_1_000, per: "scrape", measure: |stage, n| Box::pin(scrape::scrape(stage, n)) },
];

/// A broker of its own for one size of one row.
struct Stage {
    order: Order,
    client: Client,
}

impl Stage {
    /// Starts to count the commands and bytes of the broker.
    fn count(&self) -> Result<Counter, BoxError> {
        Counter::start(&self.order)
    }

    /// Measures `worker` from its start until each task of `seen` has run and `runs` ends are acknowledged: the cost of each of
    /// `tasks` tasks.
    async fn work(&self, worker: ServerBuilder, seen: &Seen, tasks: u64, runs: u64) -> Result<Spent, BoxError> {
        let server = worker.build().await?;
        let counter = self.count()?;
        let running = server.start().await?;
        seen.all().await?;
        queue::acknowledged(&running, runs).await?;
        let spent = counter.stop(tasks)?;
        running.shutdown().await?;
        Ok(spent)
    }
}

/// One size as a JSON line for programs.
#[derive(Serialize)]
struct Line<'a> {
    row: &'a str,
    size: u64,
    #[serde(flatten)]
    spent: Spent,
}

impl Extent {
    /// Returns the rows to measure.
    fn rows(&self) -> Result<Vec<&'static Row>, BoxError> {
        if let Some(part) = self.only.iter().find(|part| !ROWS.iter().any(|row| row.name.contains(part.as_str()))) {
            return Err(format!("no table has {part:?} in its name").into());
        }
        let chosen = |row: &&Row| self.only.is_empty() || self.only.iter().any(|part| row.name.contains(part.as_str()));
        Ok(ROWS.iter().filter(chosen).collect())
    }

    /// Returns whether every size of every row is measured.
    fn is_whole(&self) -> bool {
        let most = ROWS.iter().flat_map(|row| row.sizes).max();
        cfg!(feature = "dashboard") && self.only.is_empty() && most.is_none_or(|most| *most <= self.max)
    }
}

/// Measures every row, prints the tables and puts them into RESULTS.md.
///
/// # Errors
///
/// A table is not there, the page cannot be written, or a measurement failed; the page then names the failure.
pub(crate) async fn grow(extent: &Extent) -> Result<(), BoxError> {
    let rows = extent.rows()?;
    let mut section = suite::facts();
    section += &format!(
        "- load of the machine at the beginning: {}\n\nMilliseconds, those of CPU of this program, commands of Redis (those in scripts \
         included) and bytes are those of what each heading names after *per*; bytes are those between Redis and its clients, and \
         those that were written on SQLite. A cell is empty where the figure would be that of a pause. *Longest* is the longest \
         command in Redis's slow log. The last lines are the slope of each column over all sizes, and over the last decade or \
         a little more, which shows what begins to grow at the end: 0 where the cost does not depend on the size, 1 where it grows with \
         it. Idle workers are watched for {CYCLE} s, a whole cycle of what they do without tasks.\n",
        suite::load()
    );
    let mut failures = Vec::new();
    for row in rows {
        let mut found = Vec::new();
        for size in row.sizes.iter().copied().filter(|size| *size <= extent.max) {
            eprintln!("{}: {size} {}", row.name, row.size);
            let broker = RunBroker::start(row.broker)?;
            let order = broker.order(&Order { payload_bytes: 100, n: size, concurrency: 10, ..Order::default() });
            let client = Client::connect(&order.url).await?;
            let stage = Stage { order, client };
            let spent = match (row.measure)(&stage, size).await {
                Ok(spent) => spent,
                Err(error) => {
                    failures.push(format!("{}, {size} {}: {error}", row.name, row.size));
                    break;
                }
            };
            if extent.json {
                println!("{}", serde_json::to_string(&Line { row: row.name, size, spent })?);
            }
            found.push((size, spent));
        }
        section += &table(row, &found);
    }
    for failure in &failures {
        section += &format!("\n**failed: {failure}**\n");
    }
    let folder = page::folder(extent.out.as_deref(), extent.is_whole());
    page::put(folder.as_deref(), page::COST, &section)?;
    if !extent.json {
        println!("## {}\n\n{section}", page::COST);
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

/// A column of a table: its figure, if there is one.
type Column = fn(&Spent) -> Option<f64>;

const COLUMNS: [(&str, Column); 5] = [
    ("ms", |spent| spent.ms),
    ("CPU, ms", |spent| spent.cpu_ms),
    ("commands", |spent| spent.commands),
    ("bytes", |spent| spent.bytes),
    ("longest, ms", |spent| spent.longest_ms),
];

fn table(row: &Row, found: &[(u64, Spent)]) -> String {
    let sizes = || found.iter().map(|(size, _)| *size);
    let most = sizes().max().unwrap_or(0);
    // The last sizes may be less than a decade apart, and a slope over so short a way is noise.
    let least = sizes().filter(|size| size * 10 <= most).max().unwrap_or(0);
    let slope_from = |least: u64, column: Column| {
        let sizes = found.iter().filter(|(size, _)| *size >= least);
        slope(sizes.filter_map(|(size, spent)| Some((*size as f64, column(spent)?))))
    };
    let costs = found.iter().map(|(size, spent)| {
        let cell = |(_, column): &(&str, Column)| column(spent).map(short).unwrap_or_default();
        [size.to_string()].into_iter().chain(COLUMNS.iter().map(cell)).collect::<Vec<_>>()
    });
    let slopes = [("slope", 0), ("slope of the last decade", least)].map(|(title, least)| {
        let cell = |(_, column)| slope_from(least, column).map(|slope| format!("{slope:.2}")).unwrap_or_default();
        [title.to_owned()].into_iter().chain(COLUMNS.map(cell)).collect::<Vec<_>>()
    });
    let head = [row.size].into_iter().chain(COLUMNS.map(|(title, _)| title)).collect::<Vec<_>>();
    format!("\n### {}, per {}\n\n{}", row.name, row.per, suite::table(&head, costs.chain(slopes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(only: &[&str], max: u64) -> Extent {
        let only = only.iter().map(ToString::to_string).collect();
        Extent { max, only, json: true, out: None }
    }

    #[test]
    fn a_part_that_no_table_has_in_its_name_is_an_error() {
        let names =
            |only: &[&str]| extent(only, 10).rows().map(|rows| rows.iter().map(|row| row.name).collect::<Vec<_>>());
        assert_eq!(names(&["a tick"]).unwrap(), ["a tick"]);
        assert_eq!(names(&[]).unwrap().len(), ROWS.len());
        assert!(names(&["a tick", "a tikc"]).is_err_and(|error| error.to_string().contains("a tikc")));
    }

    #[test]
    fn growth_at_the_end_is_seen_where_most_sizes_cost_the_same() {
        let spent =
            |cpu_ms: f64| Spent { ms: None, cpu_ms: Some(cpu_ms), commands: None, bytes: None, longest_ms: None };
        let [ten, hundred, thousand] = [10, 100, 1_000].map(|size| (size, spent(1.0)));
        let found = table(&ROWS[0], &[ten, hundred, thousand, (10_000, spent(10.0))]);
        assert!(found.contains("| slope |  | 0.30 |"), "{found}");
        assert!(found.contains("| slope of the last decade |  | 1.00 |"), "{found}");
        // From 10,000 on alone, it would be 1.00 here, too.
        let found = table(&ROWS[0], &[ten, hundred, thousand, (10_000, spent(1.0)), (20_000, spent(2.0))]);
        assert!(found.contains("| slope of the last decade |  | 0.17 |"), "{found}");
    }

    #[test]
    fn some_tables_or_small_sizes_are_not_the_whole_section() {
        assert_eq!(extent(&[], 1_000_000).is_whole(), cfg!(feature = "dashboard"));
        assert!(!extent(&["a tick"], 1_000_000).is_whole());
        assert!(!extent(&[], 100_000).is_whole());
    }
}
