//! Jobs with schedules.

use asynq_cron::{Tick, periodic};
use asynq_runtime::prelude::*;

#[periodic("0 9 * * *", name = "user:every_morning")]
async fn every_morning() {}

#[periodic(
    "@every 90s",
    name = "user:with_a_tick",
    tz = "Europe/Berlin",
    missed = "skip",
    overlap = "skip",
    jitter = "5s"
)]
async fn with_a_tick(tick: Tick, ctx: &JobContext, numbers: State<Vec<u8>>) -> JobResult {
    println!("{} {} {}", tick.scheduled_at(), ctx.attempt(), numbers.len());
    super::options::plain::enqueue(&ctx.client()?, "ann").await?;
    Ok(())
}

#[periodic("30 2 L * *", name = "user:blocking_schedule", timeout = "1h", unique = "1h")]
fn blocking_schedule() -> Result<(), std::io::Error> {
    std::fs::metadata(".").map(drop)
}

/// A company's crate that re-exports both crates.
mod company {
    pub(super) use asynq_cron as schedules;
    pub(super) use asynq_runtime as jobs;
}

mod renamed {
    use super::company;

    #[company::schedules::periodic(
        "@daily",
        name = "user:renamed_schedule",
        crate = company::jobs,
        cron_crate = company::schedules
    )]
    async fn renamed_schedule(tick: company::schedules::Tick) {
        println!("{tick:?}");
    }
}

async fn by_hand(client: &Client) -> Result<(), BoxError> {
    every_morning::enqueue(client).await?;
    every_morning {}.enqueue(client).await?;
    Ok(())
}
