use asynq_cron::prelude::*;
use asynq_runtime::prelude::*;

#[periodic("*/5 * * * *")]
async fn cleanup() -> JobResult { Ok(()) }

#[periodic("0 9 * * mon-fri", tz = "Europe/Berlin", queue = "low", retry = 2, missed = "once", overlap = "skip")]
async fn report(tick: Tick) -> JobResult { println!("for {}", tick.scheduled_at()); Ok(()) }

#[periodic("@every 30s")]
async fn ping() -> JobResult { Ok(()) }

asynq_runtime::main!();
