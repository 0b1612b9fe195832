//! The worker: runs the set-up, shows the start table, and works until it is asked to stop.

use std::io::Write as _;

use super::{
    super::{
        App,
        env::{LogFormat, Settings},
        program::SetUp,
        run_built,
        table::Table,
    },
    AppError,
    jobs::{options, services_table},
};
use crate::{
    job::Registry,
    server::{Flags, Server, ServiceRow},
};

pub(in super::super) async fn worker(
    settings: Settings,
    format: LogFormat,
    flags: Flags,
    setup: Option<SetUp>,
) -> Result<(), AppError> {
    run_built(set_up(settings, format, flags, setup)).await
}

/// Runs the set-up, connects, and shows the start table.
async fn set_up(settings: Settings, format: LogFormat, flags: Flags, setup: Option<SetUp>) -> Result<Server, AppError> {
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
    let start = Start {
        registry: server.registry(),
        location: server.broker().location(),
        queues: server.queues().collect(),
        limits: server.queue_limits().collect(),
        handlers: server.handlers().collect(),
        concurrency: server.concurrency(),
        services: &rows,
    };
    start.report(format);
    Ok(server)
}

/// The facts that are shown when a worker starts.
struct Start<'a> {
    registry: &'a Registry,
    location: String,
    queues: Vec<(&'a str, u32)>,
    limits: Vec<(&'a str, usize)>,
    handlers: Vec<&'a str>,
    concurrency: usize,
    services: &'a [(&'static str, Vec<ServiceRow>)],
}

impl Start<'_> {
    fn report(&self, format: LogFormat) {
        match format {
            // Standard output belongs to the jobs.
            LogFormat::Text => {
                let _ = std::io::stderr().write_all(self.to_text().as_bytes());
            }
            LogFormat::Json => log!(
                info,
                broker = self.location,
                queues = self.queue_list(),
                concurrency = self.concurrency,
                jobs = self.registry.iter().map(|job| job.name).collect::<Vec<_>>().join(" "),
                "worker starts"
            ),
        }
    }

    fn to_text(&self) -> String {
        let mut table = Table::new(&["JOB", "QUEUE", "OPTIONS"]);
        for job in self.registry.iter() {
            table.row([job.name.into(), job.options.queue.into(), options(job)]);
        }
        for pattern in &self.handlers {
            table.row([format!("{pattern}…"), String::new(), "handler of raw tasks".into()]);
        }
        format!(
            "{table}{}\nbroker {} · queues {} · {} at a time\n\n",
            services_table(self.services),
            self.location,
            self.queue_list(),
            self.concurrency,
        )
    }

    fn queue_list(&self) -> String {
        let limit =
            |queue: &str| self.limits.iter().find(|(name, _)| *name == queue).map(|(_, limit)| format!("/{limit}"));
        let one = |&(queue, weight): &(&str, u32)| format!("{queue}={weight}{}", limit(queue).unwrap_or_default());
        self.queues.iter().map(one).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
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

    #[test]
    fn the_start_shows_jobs_queues_and_broker() {
        let registry = Registry::only::<(Mail,)>().unwrap();
        let start = Start {
            registry: &registry,
            location: "redis://:***@h/0".into(),
            queues: vec![("critical", 6), ("tenant:*", 1)],
            limits: vec![("tenant:*", 2)],
            handlers: vec!["image:"],
            concurrency: 4,
            services: &[],
        };
        assert_eq!(
            start.to_text(),
            "JOB      QUEUE     OPTIONS\n\
             mail     critical  retry 5, timeout 30m\n\
             image:…            handler of raw tasks\n\
             \n\
             broker redis://:***@h/0 · queues critical=6 tenant:*=1/2 · 4 at a time\n\n"
        );
    }
}
