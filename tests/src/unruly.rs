//! Jobs that break the rules for jobs, and one that reports its ticks; tests enqueue them by type.

use std::{collections::BTreeMap, fs::OpenOptions, io::Write as _, path::Path, time::Duration};

use asynq_cron::Tick;
use asynq_runtime::{job::run_blocking, prelude::*};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::journal::{Event, Journal, written};

/// Writes its start down on a blocking thread, and never returns, as a call into a library that waits for ever.
async fn never_returns(ctx: &JobContext) -> JobResult {
    run_blocking(ctx, |ctx| {
        ctx.state::<Journal>().ok_or("no journal")?.write(Event::Start, ctx)?;
        loop {
            std::thread::park();
        }
    })
    .await
}

/// Blocks its thread for ever, with a timeout of a second.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NeverReturns {}

impl Job for NeverReturns {
    const NAME: &'static str = "never_returns";
    const OPTIONS: JobOptions = JobOptions::new().timeout(Duration::from_secs(1));
    type Output = JobResult;

    async fn run(self, ctx: &JobContext) -> JobResult {
        never_returns(ctx).await
    }
}

/// A [`NeverReturns`] job that is killed some seconds after its timeout.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GivenUp {}

impl Job for GivenUp {
    const NAME: &'static str = "given_up";
    const OPTIONS: JobOptions = JobOptions::new().timeout(Duration::from_secs(1)).kill_after(Duration::from_secs(7));
    type Output = JobResult;

    async fn run(self, ctx: &JobContext) -> JobResult {
        never_returns(ctx).await
    }
}

/// Blocks the thread of the runtime that it runs on: an `async` function with a blocking sleep.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hog {
    /// How long a run blocks.
    pub seconds: u64,
}

impl Job for Hog {
    const NAME: &'static str = "hog";
    type Output = JobResult;

    async fn run(self, ctx: &JobContext) -> JobResult {
        let journal = ctx.state::<Journal>().ok_or("no journal")?;
        journal.write(Event::Start, ctx)?;
        std::thread::sleep(Duration::from_secs(self.seconds));
        journal.write(Event::End, ctx)?;
        Ok(())
    }
}

/// Writes its tick down in the file `TICKS`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Tock {}

impl Job for Tock {
    const NAME: &'static str = "tock";
    type Output = JobResult;

    async fn run(self, ctx: &JobContext) -> JobResult {
        let line = format!("{} {} {}\n", Tick::of(ctx).scheduled_at().timestamp(), ctx.id(), Utc::now().to_rfc3339());
        let path = std::env::var_os("TICKS").ok_or("no file for ticks")?;
        OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())?;
        Ok(())
    }
}

/// The ticks that every [`Tock`] wrote.
#[derive(Debug, Clone, Default)]
pub struct Ticks(
    /// For each second the tasks of its tick, with the time of their first start.
    pub BTreeMap<i64, BTreeMap<String, DateTime<Utc>>>,
);

impl Ticks {
    /// Reads the ticks; a file that does not exist yet has none. A task that was started again counts once.
    pub fn read(path: &Path) -> Self {
        let mut ticks = Self::default();
        for line in written(path).lines() {
            let words: Vec<_> = line.split(' ').collect();
            let [second, id, at] = words[..] else { panic!("not a line of a tick: {line:?}") };
            let (second, at) = (second.parse().unwrap(), DateTime::parse_from_rfc3339(at).unwrap().to_utc());
            ticks.0.entry(second).or_default().entry(id.to_owned()).or_insert(at);
        }
        ticks
    }

    /// The last second whose tick has come.
    pub fn last(&self) -> Option<i64> {
        self.0.last_key_value().map(|(&second, _)| second)
    }

    /// Seconds with more than one task.
    pub fn doubled(&self) -> Vec<i64> {
        self.0.iter().filter(|(_, tasks)| tasks.len() > 1).map(|(&second, _)| second).collect()
    }

    /// Seconds without a task between the first and the last, at a distance of `step` seconds.
    pub fn missing(&self, step: i64) -> Vec<i64> {
        let Some((&first, last)) = self.0.first_key_value().map(|(first, _)| first).zip(self.last()) else {
            return Vec::new();
        };
        (first..=last).step_by(step as usize).filter(|second| !self.0.contains_key(second)).collect()
    }

    /// The longest time without a start.
    pub fn longest_gap(&self) -> Duration {
        let mut starts: Vec<_> = self.0.values().flat_map(BTreeMap::values).copied().collect();
        starts.sort_unstable();
        let gaps = starts.windows(2).filter_map(|pair| (pair[1] - pair[0]).to_std().ok());
        gaps.max().unwrap_or_default()
    }
}
