//! A program as companies run it: `main!` with the dashboard, and defaults for everything else. The incidents choose its jobs,
//! and set variables besides `ASYNQ_…`: `JOURNAL`, `TICKS` and `HOLD` name the files of its jobs, `SCHEDULE` is its cron
//! expression, and with `HANGING_PROVIDER` the provider of further periodic jobs answers once, and then never again. With `PAGES` it
//! brings a dashboard of its own at that address.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use asynq_cron::{CronSpec, Missed, Periodic, SchedulerService};
use asynq_runtime::{App, BoxError};
use asynq_tests::{
    jobs::{Parcel, Poison, Record, Trial},
    journal::Journal,
    unruly::{GivenUp, Hog, NeverReturns, Tock},
};

async fn setup(mut app: App) -> Result<App, BoxError> {
    let journal = PathBuf::from(std::env::var("JOURNAL")?);
    if let Ok(spec) = std::env::var("SCHEDULE") {
        let scheduler = scheduler(&spec)?;
        app = app.server(|server| server.service(scheduler));
    }
    if let Ok(address) = std::env::var("PAGES") {
        app = app.server(|server| server.service(asynq_dashboard::service(address)));
    }
    let app = app.server(|server| {
        let server = server.register::<Record>().register::<Parcel>().register::<Poison>().register::<Trial>();
        server.register::<NeverReturns>().register::<GivenUp>().register::<Hog>().register::<Tock>()
    });
    Ok(app.state(Journal::open(&journal)?))
}

fn scheduler(spec: &str) -> Result<SchedulerService, BoxError> {
    // Every tick counts here, also ticks that no scheduler could fire in time.
    let tick = Periodic::new(CronSpec::parse(spec)?, Tock {})?.missed(Missed::All(1_000));
    let scheduler = asynq_cron::service().entry(tick);
    if std::env::var_os("HANGING_PROVIDER").is_none() {
        return Ok(scheduler);
    }
    static HAS_ANSWERED: AtomicBool = AtomicBool::new(false);
    Ok(scheduler.provider(Duration::from_secs(1), || async {
        if HAS_ANSWERED.swap(true, Ordering::SeqCst) {
            // As a database does that cannot be reached any more.
            std::future::pending::<()>().await;
        }
        Ok(Vec::new())
    }))
}

asynq_runtime::main!(services: [asynq_dashboard], setup);
