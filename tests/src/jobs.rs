//! The jobs of the journey worker; tests enqueue them by type.

use std::time::Duration;

use asynq_runtime::prelude::*;
use serde::{Deserialize, Serialize};

use crate::journal::{Event, Journal};

/// Writes down its start, takes its time, and writes down its end. After a crash it takes no time: a server runs such
/// suspects one by one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// How long it takes.
    pub millis: u64,
}

impl Job for Record {
    const NAME: &'static str = "record";
    const OPTIONS: JobOptions = JobOptions::new().retry(5);
    type Output = JobResult;

    async fn run(self, ctx: &JobContext) -> JobResult {
        let journal = ctx.state::<Journal>().ok_or("no journal")?;
        journal.write(Event::Start, ctx)?;
        if ctx.crashes() == 0 {
            tokio::time::sleep(Duration::from_millis(self.millis)).await;
        }
        journal.write(Event::End, ctx)?;
        Ok(())
    }
}

/// Takes the whole process down, as a stack overflow or the kernel would.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Poison {}

impl Job for Poison {
    const NAME: &'static str = "poison";
    const OPTIONS: JobOptions = JobOptions::new().retry(5);
    type Output = JobResult;

    async fn run(self, ctx: &JobContext) -> JobResult {
        ctx.state::<Journal>().ok_or("no journal")?.write(Event::Start, ctx)?;
        // Long enough that neighbours run beside it when it strikes.
        tokio::time::sleep(Duration::from_millis(30)).await;
        std::process::abort();
    }
}
