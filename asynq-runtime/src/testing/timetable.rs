//! Schedules that fire when the clock of a `TestApp` advances.

use chrono::{DateTime, Utc};

use crate::{
    client::Client,
    job::{BoxError, BoxFuture, Registry},
};

/// The answer of a timetable.
type Answer<'a, T> = BoxFuture<'a, Result<T, BoxError>>;

/// The schedules of a linked crate for a [`TestApp`](super::TestApp) with schedules:
/// `inventory::submit! { Timetable { .. } }`.
#[derive(Clone, Copy)]
pub struct Timetable {
    /// Lists the crate's entries in the broker and returns when one is due next.
    pub next: for<'a> fn(&'a Client, &'a Registry) -> Answer<'a, Option<DateTime<Utc>>>,
    /// Enqueues the tasks of the entries that are due at exactly the broker's time.
    pub fire: for<'a> fn(&'a Client, &'a Registry) -> Answer<'a, ()>,
}

inventory::collect!(Timetable);

partial_debug!(Timetable { .. });

/// Returns when an entry of any timetable is due next.
#[cfg(feature = "sqlite")]
pub(super) async fn next(client: &Client, registry: &Registry) -> Option<DateTime<Utc>> {
    let mut next = None;
    for timetable in inventory::iter::<Timetable>() {
        let at = (timetable.next)(client, registry).await.unwrap_or_else(|error| panic!("{error}"));
        next = next.into_iter().chain(at).min();
    }
    next
}

/// Enqueues the tasks of the entries that are due now.
#[cfg(feature = "sqlite")]
pub(super) async fn fire(client: &Client, registry: &Registry) {
    for timetable in inventory::iter::<Timetable>() {
        (timetable.fire)(client, registry).await.unwrap_or_else(|error| panic!("{error}"));
    }
}
