//! Sends the ticks that [`plan`] finds due, while this scheduler leads.

mod clock;
pub(crate) mod listing;
mod plan;
mod work;

use std::{collections::HashMap, sync::Arc, time::Duration};

use asynq_runtime::{
    Registry,
    broker::{Candidate, EntryId},
    server::ServiceContext,
};
use tokio::time::timeout;

pub(crate) use self::work::Provider;
use self::work::Work;
use crate::{Periodic, PeriodicError, leader::Campaign};

/// The time for a stopping scheduler to withdraw its entries and its lead.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(2);

/// The settings of a scheduler.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// How long the lead lasts without being renewed.
    pub(crate) ttl: Duration,
    /// Whether the schedulers elect a leader.
    pub(crate) election: bool,
    /// The name of this program, the same in all of its versions.
    pub(crate) program: String,
    /// The revision of this program.
    pub(crate) revision: u64,
    /// How often the provider is asked.
    pub(crate) sync_every: Duration,
}

/// Schedules until the server stops.
pub(crate) async fn run(settings: Settings, fixed: Vec<Arc<Periodic>>, provider: Option<Provider>, cx: ServiceContext) {
    if fixed.is_empty() && provider.is_none() {
        return;
    }
    let broker = Arc::clone(cx.client().broker());
    let name = cx.new_name();
    let candidate =
        Candidate { program: settings.program.clone(), token: name.server_id.clone(), revision: settings.revision };
    let name = name.to_string();
    let election = settings.election;
    // A scheduler with a provider asks for the lead when it has asked the provider, which may hang.
    let delay = if provider.is_some() { settings.ttl / 3 } else { Duration::ZERO };
    let campaign = Campaign::new(candidate, settings.ttl, election, delay);
    let mut work = Work::new(Arc::clone(&broker), name.clone(), settings, campaign, fixed, provider, &cx);
    tokio::select! {
        () = work.run() => {}
        () = cx.stopping() => {}
    }
    let candidate = work.into_candidate();
    let cleanup = async {
        listing::withdraw(&*broker, &name).await;
        if election && let Err(error) = broker.resign(&candidate).await {
            log!(debug, "the lead was not released; it expires by itself: {error}");
        }
    };
    if timeout(CLEANUP_TIMEOUT, cleanup).await.is_err() {
        log!(debug, "the broker did not confirm that this scheduler stops");
    }
}

/// Checks each entry, and that none comes twice.
pub(crate) fn checked(entries: Vec<Periodic>, registry: &Registry) -> Result<Vec<Arc<Periodic>>, PeriodicError> {
    let mut checked: HashMap<EntryId, Arc<Periodic>> = HashMap::new();
    for entry in entries {
        check(&entry, registry)?;
        let entry = Arc::new(entry);
        if let Some(other) = checked.insert(entry.id().clone(), Arc::clone(&entry)) {
            return Err(twice(&entry, &other));
        }
    }
    Ok(checked.into_values().collect())
}

/// Checks that the row of an entry was read, that this program, or another one by [`foreign`](Periodic::foreign), runs its job, and
/// that its jitter leaves the job time to run.
fn check(entry: &Periodic, registry: &Registry) -> Result<(), PeriodicError> {
    entry.check_row()?;
    entry.check_jitter()?;
    if entry.foreign || registry.get(entry.job()).is_some() {
        return Ok(());
    }
    Err(PeriodicError::UnknownJob { job: entry.job().to_owned() })
}

fn twice(entry: &Periodic, other: &Periodic) -> PeriodicError {
    PeriodicError::Twice { job: entry.name(), places: format!("{}, {}", other.place, entry.place) }
}
