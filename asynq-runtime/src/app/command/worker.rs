//! The worker: its set-up and its start table.

use std::io::Write as _;

use super::{
    super::{
        App,
        env::{LogFormat, Settings},
        program::SetUp,
        table::Table,
    },
    AppError,
    jobs::{options, services_table},
};
use crate::{
    job::Registry,
    server::{Flags, Server, ServiceRow},
};

/// Returns the worker: runs the set-up, connects, and shows the start table.
pub(in super::super) async fn worker(
    settings: Settings,
    format: LogFormat,
    flags: Flags,
    setup: Option<SetUp>,
) -> Result<Server, AppError> {
    // This precedes the set-up: a mistake in the jobs must not cost a connection first.
    Registry::linked()?;
    let app = match setup {
        Some(setup) => {
            let mut app = setup(App::with_settings(settings.clone())).await.map_err(AppError::SetUp)?;
            // A set-up may return an `App` of its own making.
            app.settings.get_or_insert(settings);
            app
        }
        None => App::with_settings(settings),
    };
    let mut builder = app.into_builder()?.flags(flags);
    let rows: Vec<_> = builder.add_linked_services().into_iter().map(|entry| (entry.name, (entry.rows)())).collect();
    let server = builder.build().await?;
    report(&server, &rows, format);
    Ok(server)
}

/// Shows the start of a worker.
fn report(server: &Server, services: &[(&str, Vec<ServiceRow>)], format: LogFormat) {
    match format {
        // Standard output belongs to the jobs.
        LogFormat::Text => {
            let _ = std::io::stderr().write_all(to_text(server, services).as_bytes());
        }
        LogFormat::Json => log!(
            info,
            broker = server.broker().location(),
            queues = queue_list(server),
            concurrency = server.concurrency(),
            jobs = server.registry().iter().map(|job| job.name).collect::<Vec<_>>().join(" "),
            "worker starts"
        ),
    }
}

fn to_text(server: &Server, services: &[(&str, Vec<ServiceRow>)]) -> String {
    let mut table = Table::new(&["JOB", "QUEUE", "OPTIONS"]);
    for job in server.registry().iter() {
        table.row([job.name.into(), job.options.queue.into(), options(job)]);
    }
    for pattern in server.handlers() {
        table.row([format!("{pattern}…"), String::new(), "handler of raw tasks".into()]);
    }
    format!(
        "{table}{}\nbroker {} · queues {} · {} at a time\n\n",
        services_table(services),
        server.broker().location(),
        queue_list(server),
        server.concurrency(),
    )
}

fn queue_list(server: &Server) -> String {
    let limit =
        |queue: &str| server.queue_limits().find(|(name, _)| *name == queue).map(|(_, limit)| format!("/{limit}"));
    let one = |(queue, weight): (&str, u32)| format!("{queue}={weight}{}", limit(queue).unwrap_or_default());
    server.queues().map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::job::{Job, JobContext, JobOptions, JobResult};

    #[derive(Serialize, Deserialize)]
    struct Mail {
        to: String,
    }

    impl Job for Mail {
        const NAME: &'static str = "mail";
        const OPTIONS: JobOptions = JobOptions::new().queue("critical").retry(5);
        type Output = JobResult;
        async fn run(self, _: &JobContext) -> JobResult {
            Ok(())
        }
    }

    #[tokio::test]
    async fn the_start_shows_jobs_queues_and_broker() {
        let builder = Server::builder("sqlite::memory:")
            .registry(Registry::only::<(Mail,)>().unwrap())
            .queues([("critical", 6), ("tenant:*", 1)])
            .queue_concurrency("tenant:*", 2)
            .handle("image:", |_| async {})
            .concurrency(4);
        assert_eq!(
            to_text(&builder.build().await.unwrap(), &[]),
            "JOB      QUEUE     OPTIONS\n\
             mail     critical  retry 5, timeout 30m\n\
             image:…            handler of raw tasks\n\
             \n\
             broker sqlite::memory: · queues critical=6 tenant:*=1/2 · 4 at a time\n\n"
        );
    }
}
