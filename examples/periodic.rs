//! Periodic jobs: a schedule in a time zone, a rule for missed times, and a slow job that never runs twice at a time.
//!
//! Start the program as often as you like: each time of a schedule fires once. `periodic jobs` shows the next times.

use std::{
    sync::atomic::{AtomicU32, Ordering::SeqCst},
    time::Duration,
};

use asynq_cron::prelude::*;
use asynq_runtime::prelude::*;

struct Shop {
    name: String,
    counted: AtomicU32,
}

/// Runs at nine on working days of Berlin. After a time without a scheduler it runs once, however many mornings it missed.
#[periodic("0 9 * * mon-fri", tz = "Europe/Berlin", missed = "once", retry = 2)]
async fn report(tick: Tick, shop: State<Shop>) -> JobResult {
    println!("report of {} for {} ({} missed)", shop.name, tick.scheduled_at(), tick.missed());
    Ok(())
}

/// Runs each second, and makes up for seconds without a scheduler, up to 60 of them.
#[periodic("* * * * * *", missed = "all(60)")]
async fn count(tick: Tick, shop: State<Shop>) {
    let counted = shop.counted.fetch_add(1, SeqCst) + 1;
    println!("{}: count {counted} is for second {}", shop.name, tick.scheduled_at().timestamp());
}

/// Takes longer than its interval, so ticks are skipped until a run is done. A failed run does not stop the schedule.
#[periodic("@every 1s", overlap = "skip", timeout = "1m")]
async fn inventory(tick: Tick) {
    println!("inventory begins for {}", tick.scheduled_at().timestamp());
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    println!("inventory ends for {}", tick.scheduled_at().timestamp());
}

async fn setup(app: App) -> Result<App, BoxError> {
    Ok(app.state(Shop { name: "Corner Shop".into(), counted: AtomicU32::new(0) }).concurrency(4))
}

asynq_runtime::main!(setup);
