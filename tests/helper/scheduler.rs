//! A scheduler for the tests of whole processes: four entries a second, whose tasks another process runs.
//!
//! `ASYNQ_URL` names the broker, `ELECTION` is `on` or `off`. The scheduler prints `leads` and `follows` when its role changes,
//! and ends with its standard input.

use std::{fmt, time::Duration};

use asynq_cron::{CronSpec, Missed, Periodic};
use asynq_runtime::{RawTask, prelude::*, server::Server};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// Prints the scheduler's log lines about its role.
struct Standing;

impl Visit for Standing {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            let message = format!("{value:?}");
            for word in ["leads", "follows"] {
                if message == format!("this scheduler {word}") {
                    println!("{word}");
                }
            }
        }
    }
}

impl Subscriber for Standing {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("asynq_cron")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Self);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

pub(crate) async fn run() -> Result<(), BoxError> {
    crate::end_with_parent();
    tracing::subscriber::set_global_default(Standing)?;
    let mut service =
        asynq_cron::service().leader_ttl(Duration::from_secs(3)).election(std::env::var("ELECTION")? == "on");
    for entry in 0..4 {
        let task = RawTask::new("tick", entry.to_string()).queue("ticks").retry(0);
        let spec = CronSpec::parse("* * * * * *")?;
        service = service.entry(Periodic::new(spec, task)?.missed(Missed::All(100)).foreign());
    }
    let server = Server::builder(std::env::var("ASYNQ_URL")?)
        .registry(Registry::from_descriptors([])?)
        .service(service)
        .build()
        .await?;
    println!("ready");
    server.run().await?;
    Ok(())
}
