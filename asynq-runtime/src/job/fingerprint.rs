//! The shape of a job's arguments in four bytes, traced from what serde asks for.

use std::{
    any::TypeId,
    collections::HashMap,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use super::Job;

/// The shape that serde sees, nested types included.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fingerprint {
    /// What a payload carries.
    pub value: u32,
    /// The shape for people.
    pub shape: String,
    /// Whether the whole shape could be traced; `false` means *partly checked*: a custom `Deserialize` stopped the trace.
    pub complete: bool,
    /// Whether the job takes no arguments at all.
    pub no_arguments: bool,
}

impl Fingerprint {
    /// The fingerprint of `J`'s arguments, traced once per job.
    pub fn of<J: Job>() -> Arc<Self> {
        static TRACED: OnceLock<RwLock<HashMap<TypeId, Arc<Fingerprint>>>> = OnceLock::new();
        let traced = TRACED.get_or_init(RwLock::default);
        if let Some(known) = traced.read().unwrap_or_else(PoisonError::into_inner).get(&TypeId::of::<J>()) {
            return Arc::clone(known);
        }
        let fresh = Arc::new(trace::<J>());
        let mut traced = traced.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(traced.entry(TypeId::of::<J>()).or_insert(fresh))
    }
}

// The tracing deserializer replaces this.
fn trace<J: Job>() -> Fingerprint {
    Fingerprint { value: 0, shape: J::NAME.to_owned(), complete: false, no_arguments: false }
}
