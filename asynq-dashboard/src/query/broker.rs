//! The health of the broker: its kind, its response times, and the distance of its clock from ours.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};

use crate::{failure::Failure, state::AppState};

/// Pings of one measurement.
const PINGS: usize = 5;

/// The health of the broker.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    /// `redis` or `sqlite`.
    pub(crate) kind: &'static str,
    /// The URL without its password.
    pub(crate) location: String,
    /// How long a worker holds a dequeued task without extending the lease.
    pub(crate) lease: Duration,
    /// The broker's clock.
    pub(crate) now: DateTime<Utc>,
    /// How far the broker's clock is ahead of ours; negative if it is behind.
    pub(crate) ahead: TimeDelta,
    /// Round trips of some pings, the fastest first.
    pub(crate) pings: Vec<Duration>,
    /// Queues that the broker knows.
    pub(crate) queues: usize,
    /// Servers that live; `None` where a list of them cannot be read.
    pub(crate) servers: Option<usize>,
    /// Periodic entries that schedulers list; `None` where a list of them cannot be read.
    pub(crate) entries: Option<usize>,
}

/// Measures the health of the broker.
///
/// # Errors
///
/// The broker does not answer.
pub(crate) async fn health(app: &AppState) -> Result<Health, Failure> {
    let broker = app.client.broker();
    let mut pings = Vec::with_capacity(PINGS);
    for _ in 0..PINGS {
        let began = Instant::now();
        broker.ping().await?;
        pings.push(began.elapsed());
    }
    pings.sort_unstable();
    let now = broker.now();
    Ok(Health {
        kind: broker.kind(),
        location: broker.location(),
        lease: broker.lease(),
        now,
        ahead: now - Utc::now(),
        pings,
        queues: broker.queues().await?.len(),
        servers: broker.servers().await.ok().map(|servers| servers.len()),
        entries: app.schedule.entries().await.ok().map(|entries| entries.len()),
    })
}
