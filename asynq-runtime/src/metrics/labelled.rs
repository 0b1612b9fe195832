//! Counters by a label whose values come from outside.

use std::{collections::HashMap, sync::Arc};

use metrics::Counter;
use parking_lot::RwLock;

use super::resolved::{METADATA, Resolved, key};

/// How many types that are enqueued, and how many queues with a full archive, have a label of their own.
pub(super) const MOST_TYPES: usize = 1000;
/// The label of all others.
const OTHER: &str = "other";

/// A counter by a label, of which the first [`MOST_TYPES`] values have a series of their own and all others share [`OTHER`].
#[derive(Debug)]
pub(super) struct Labelled {
    name: &'static str,
    label: &'static str,
    all: RwLock<Option<HashMap<Arc<str>, Arc<Series>>>>,
}

#[derive(Debug)]
struct Series {
    value: Arc<str>,
    counter: Resolved<Counter>,
}

impl Labelled {
    pub(super) const fn new(name: &'static str, label: &'static str) -> Self {
        Self { name, label, all: RwLock::new(None) }
    }

    /// Counts `n` events of this value of the label.
    pub(super) fn count(&self, value: &str, n: u64) {
        let series = self.series(value);
        let counter = series
            .counter
            .get(|recorder| recorder.register_counter(&key(self.name, self.label, &series.value), &METADATA));
        counter.increment(n);
    }

    fn series(&self, value: &str) -> Arc<Series> {
        if let Some(known) = self.all.read().as_ref().and_then(|all| all.get(value)) {
            return Arc::clone(known);
        }
        let mut all = self.all.write();
        let all = all.get_or_insert_default();
        let value: Arc<str> = if all.len() < MOST_TYPES { value.into() } else { OTHER.into() };
        let fresh = || Arc::new(Series { value: Arc::clone(&value), counter: Resolved::new() });
        Arc::clone(all.entry(Arc::clone(&value)).or_insert_with(fresh))
    }
}
