//! Handles that are taken from the recorder once, and again only when another recorder was installed.

use std::sync::Arc;

use metrics::{Key, Level, Metadata, Recorder};
use parking_lot::RwLock;

use super::names;

/// The place in the program that a recorder is given with each metric.
pub(super) const METADATA: Metadata<'static> = Metadata::new("asynq_runtime", Level::INFO, None);

/// Handles of one recorder.
#[derive(Debug)]
pub(super) struct Resolved<T>(RwLock<Option<(usize, Arc<T>)>>);

impl<T> Resolved<T> {
    pub(super) const fn new() -> Self {
        Self(RwLock::new(None))
    }

    /// Returns the handles of the current recorder, made by `make` if it is another one than last time.
    pub(super) fn get(&self, make: impl FnOnce(&dyn Recorder) -> T) -> Arc<T> {
        metrics::with_recorder(|recorder| {
            let place = names::place(recorder);
            match &*self.0.read() {
                Some((of, handles)) if *of == place => return Arc::clone(handles),
                _ => {}
            }
            names::describe_to(recorder);
            let fresh = Arc::new(make(recorder));
            *self.0.write() = Some((place, Arc::clone(&fresh)));
            fresh
        })
    }
}

/// Returns a key with one label.
pub(super) fn key(name: &'static str, label: &'static str, value: &Arc<str>) -> Key {
    Key::from_parts(name, vec![metrics::Label::new(label, Arc::clone(value))])
}
