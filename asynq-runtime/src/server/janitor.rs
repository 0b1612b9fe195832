//! Deletes completed tasks past their retention, trims the archive, puts sets that nobody ended back to their groups, and
//! mends what crashes left behind.
//!
//! In slices with breaks between them: housekeeping never holds up work, and an outcome never fails because of it.

use std::{sync::Arc, time::Duration};

use super::{
    archives::Room,
    config::{JANITOR, SLICE},
    hub::Hub,
    trouble::Trouble,
};
use crate::{
    broker::{BrokerError, Swept},
    task::QueueName,
};

/// Between two slices of one turn.
const BREATH: Duration = Duration::from_millis(5);
/// Every so many turns the janitor sweeps: about once a minute.
const SWEEP_EVERY: u64 = 8;

/// Cleans until it is dropped.
pub(crate) async fn run(hub: Arc<Hub>) {
    let mut trouble = Trouble::of("janitor", JANITOR);
    for turn in 0u64.. {
        let pause = match clean(&hub, turn % SWEEP_EVERY == 0).await {
            Ok(()) => {
                trouble.over();
                hub.signals.cleaned.ring();
                JANITOR
            }
            Err(error) => trouble.met(&error),
        };
        tokio::time::sleep(pause).await;
    }
}

/// Cleans every queue once.
async fn clean(hub: &Hub, sweeps: bool) -> Result<(), BrokerError> {
    for queue in hub.queues.now().names() {
        while hub.answer(hub.broker.delete_expired(queue, SLICE)).await? >= SLICE {
            tokio::time::sleep(BREATH).await;
        }
        trim(hub, queue).await?;
        while hub.answer(hub.broker.reclaim_sets(queue)).await? >= SLICE {
            tokio::time::sleep(BREATH).await;
        }
        if sweeps {
            sweep(hub, queue).await?;
        }
    }
    Ok(())
}

/// Trims the archive: what is too old is gone as promised; what is too much is told, because somebody may miss it.
async fn trim(hub: &Hub, queue: &QueueName) -> Result<(), BrokerError> {
    let Room { size, age } = hub.config.archives.room(queue.as_str());
    trim_to(hub, queue, age, usize::MAX, &mut 0).await?;
    let mut dropped = 0;
    let trimmed = trim_to(hub, queue, age, size, &mut dropped).await;
    if dropped > 0 {
        let tasks = u64::try_from(dropped).unwrap_or(u64::MAX);
        crate::metrics::archive_dropped(queue.as_str(), tasks);
        hub.signals.trimmed.ring_by(tasks);
        tracing::warn!(
            %queue, dropped, size,
            "the archive was full: the oldest tasks in it were deleted; `.archive(..)` makes it larger"
        );
    }
    trimmed
}

async fn trim_to(
    hub: &Hub,
    queue: &QueueName,
    age: Duration,
    size: usize,
    deleted: &mut usize,
) -> Result<(), BrokerError> {
    loop {
        let slice = hub.answer(hub.broker.trim_archive(queue, age, size, SLICE)).await?;
        *deleted += slice;
        if slice < SLICE {
            return Ok(());
        }
        tokio::time::sleep(BREATH).await;
    }
}

async fn sweep(hub: &Hub, queue: &QueueName) -> Result<(), BrokerError> {
    let swept = hub.answer(hub.broker.sweep(queue)).await?;
    if swept != Swept::default() {
        let Swept { leases_restored: leases, ghosts_removed: ghosts, groups_restored: groups } = swept;
        let what = "mended active tasks without a lease, ids without a task, and groups that nobody knew";
        tracing::warn!(%queue, leases, ghosts, groups, "{what}");
    }
    Ok(())
}
