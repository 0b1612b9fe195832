//! Fires the linked periodic jobs in a `TestApp`, whose clock the test advances.

use asynq_runtime::{
    Client, Registry,
    broker::{Refused, Ticked},
    job::{BoxError, BoxFuture},
    testing::Timetable,
};
use chrono::{DateTime, TimeDelta, Utc};

use crate::{Periodic, PeriodicEntry, PeriodicError, Tick};

/// The revision of this program; in memory there are no other releases.
const REVISION: u64 = 1;

/// The timetable of a program with `#[periodic]` jobs.
pub(crate) const LINKED: Timetable = Timetable { next, fire };

asynq_runtime::__private::inventory::submit! {
    Timetable {
        next: |client, registry| match PeriodicEntry::code() {
            Some(code) => (code.timetable.next)(client, registry),
            None => Box::pin(async { Ok(None) }),
        },
        fire: |client, registry| match PeriodicEntry::code() {
            Some(code) => (code.timetable.fire)(client, registry),
            None => Box::pin(async { Ok(()) }),
        },
    }
}

/// The entries of the jobs of the application's program.
fn entries(registry: &Registry) -> Result<Vec<Periodic>, PeriodicError> {
    let entries = PeriodicEntry::linked().into_iter().filter(|entry| registry.get(entry.job.name).is_some());
    entries.map(PeriodicEntry::to_periodic).collect()
}

fn next<'a>(client: &'a Client, registry: &'a Registry) -> BoxFuture<'a, Result<Option<DateTime<Utc>>, BoxError>> {
    Box::pin(async move {
        let (now, mut next) = (client.broker().now(), None);
        for entry in entries(registry)? {
            client.broker().plan_entry(&entry.plan(now, REVISION)).await?;
            next = next.into_iter().chain(entry.spec().next_after(now)).min();
        }
        Ok(next)
    })
}

fn fire<'a>(client: &'a Client, registry: &'a Registry) -> BoxFuture<'a, Result<(), BoxError>> {
    Box::pin(async move {
        let now = client.broker().now();
        for entry in entries(registry)? {
            // Ticks are at whole seconds.
            if entry.spec().next_after(now - TimeDelta::seconds(1)) != Some(now) {
                continue;
            }
            let tick = entry.tick(Tick::new(now), DateTime::UNIX_EPOCH, now, REVISION)?;
            // A task whose id or lock is taken is left out, as by a scheduler.
            if let Ticked::Refused(Refused::Broker(error)) = client.broker().tick(&tick).await? {
                return Err(error.into());
            }
        }
        Ok(())
    })
}
