//! What happens by itself when the clock of a `TestApp` is turned.

use std::fmt;

use chrono::{DateTime, Utc};

use crate::{
    client::Client,
    job::{BoxError, BoxFuture, Registry},
};

/// What a timetable says of one question.
type Answer<'a, T> = BoxFuture<'a, Result<T, BoxError>>;

/// What a linked crate does at times of its own in a [`TestApp`](super::TestApp) with schedules:
/// `inventory::submit! { Timetable { .. } }`.
#[derive(Clone, Copy)]
pub struct Timetable {
    /// Makes its entries known to the broker and says when one is due next.
    pub next: for<'a> fn(&'a Client, &'a Registry) -> Answer<'a, Option<DateTime<Utc>>>,
    /// Does what is due at exactly the broker's time.
    pub fire: for<'a> fn(&'a Client, &'a Registry) -> Answer<'a, ()>,
}

inventory::collect!(Timetable);

impl fmt::Debug for Timetable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timetable").finish_non_exhaustive()
    }
}

/// When something is due next.
#[cfg(feature = "sqlite")]
pub(super) async fn next(client: &Client, registry: &Registry) -> Option<DateTime<Utc>> {
    let mut next = None;
    for timetable in inventory::iter::<Timetable>() {
        let at = (timetable.next)(client, registry).await.unwrap_or_else(|error| panic!("{error}"));
        next = next.into_iter().chain(at).min();
    }
    next
}

/// Does what is due now.
#[cfg(feature = "sqlite")]
pub(super) async fn fire(client: &Client, registry: &Registry) {
    for timetable in inventory::iter::<Timetable>() {
        (timetable.fire)(client, registry).await.unwrap_or_else(|error| panic!("{error}"));
    }
}
