//! The shape of a job's arguments in four bytes, traced from what serde asks for.

use std::{
    any::TypeId,
    collections::HashMap,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use md5::{Digest, Md5};
use serde::de::DeserializeOwned;

use super::{
    Codec, Job,
    shape::ShapeDocument,
    trace::{self, Reads, short_name},
};

/// The shape that serde sees, nested types included.
///
/// Made of field names, order and kinds and of every variant of every enum; not of the names of types, so that
/// `String` and `std::string::String` are one, and so are a struct and the same struct elsewhere.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Fingerprint {
    /// What a payload carries.
    pub value: u32,
    /// The shape for people, such as `{to: str, lines: [u32]}`.
    pub shape: String,
    /// Whether the whole shape could be traced; `false` means *partly checked*: a custom `Deserialize` stopped the trace,
    /// and changes behind it are not noticed.
    pub complete: bool,
    /// The names of the arguments, where they are a struct.
    pub fields: Option<Vec<&'static str>>,
    /// Whether the job takes no arguments at all; then a payload is ignored.
    pub no_arguments: bool,
    /// A type among the arguments that only a self-describing format can carry, such as `Value` of serde_json: postcard
    /// cannot read it back.
    pub self_describing: Option<String>,
    /// What is read of the structs and enums inside; `None` where the trace was stopped.
    pub(crate) reads: Option<Reads>,
    /// The shape for programs of other versions.
    pub(crate) document: ShapeDocument,
}

impl Fingerprint {
    /// The fingerprint of `J`'s arguments, traced once per job.
    pub fn of<J: Job>() -> Arc<Self> {
        static TRACED: Traced = OnceLock::new();
        once(&TRACED, TypeId::of::<J>(), || of_job::<J>(J::CODEC))
    }

    /// The fingerprint of a value beside a job's arguments and is kept in postcard, traced once per type.
    pub(crate) fn of_value<T: DeserializeOwned + 'static>() -> Arc<Self> {
        static TRACED: Traced = OnceLock::new();
        once(&TRACED, TypeId::of::<T>(), || fingerprint(trace::trace::<T>(false), None, &short_name::<T>()))
    }

    /// The fingerprint of `J`'s arguments in postcard, whatever its codec is.
    pub(crate) fn in_postcard<J: Job>() -> Arc<Self> {
        static TRACED: Traced = OnceLock::new();
        match J::CODEC {
            Codec::Postcard => Self::of::<J>(),
            Codec::Json => once(&TRACED, TypeId::of::<J>(), || of_job::<J>(Codec::Postcard)),
        }
    }

    /// The fingerprint in postcard of the arguments `T` that an earlier version of the job `J` had.
    pub(crate) fn of_earlier<J: Job, T: DeserializeOwned + 'static>() -> Arc<Self> {
        static TRACED: Traced = OnceLock::new();
        // The name of the job is part of a fingerprint that is known in part.
        once(&TRACED, TypeId::of::<(J, T)>(), || {
            let traced = trace::trace::<T>(false);
            fingerprint(traced, None, &short_name::<J>())
        })
    }
}

/// What was traced, by type.
type Traced = OnceLock<RwLock<HashMap<TypeId, Arc<Fingerprint>>>>;

fn once(traced: &Traced, of: TypeId, trace: impl FnOnce() -> Fingerprint) -> Arc<Fingerprint> {
    let traced = traced.get_or_init(RwLock::default);
    if let Some(known) = traced.read().unwrap_or_else(PoisonError::into_inner).get(&of) {
        return Arc::clone(known);
    }
    let fresh = Arc::new(trace());
    let mut traced = traced.write().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(traced.entry(of).or_insert(fresh))
}

impl PartialEq for Fingerprint {
    /// Whether the shapes are the same. The names of types, which `reads` goes by, are not part of a shape.
    fn eq(&self, other: &Self) -> bool {
        let shape = |of: &Self| (of.value, of.complete, of.no_arguments);
        shape(self) == shape(other)
            && self.shape == other.shape
            && self.fields == other.fields
            && self.self_describing == other.self_describing
    }
}

impl Eq for Fingerprint {}

fn of_job<J: Job>(codec: Codec) -> Fingerprint {
    let mut fingerprint = fingerprint(trace::trace::<J>(codec == Codec::Json), J::FINGERPRINT, &short_name::<J>());
    fingerprint.document = fingerprint.document.of_argument(J::ARGUMENT);
    fingerprint
}

fn fingerprint(traced: trace::Traced, by_hand: Option<&str>, name: &str) -> Fingerprint {
    let (shape, basis) = match by_hand {
        Some(by_hand) => (format!("{by_hand:?} by hand"), format!("by hand {by_hand}")),
        None if traced.complete => (traced.shape.clone(), traced.shape),
        None => {
            let shape = format!("{} of {name}", traced.shape);
            (shape.clone(), format!("partly {shape}"))
        }
    };
    Fingerprint {
        value: hash(&basis),
        shape,
        complete: traced.complete || by_hand.is_some(),
        fields: traced.fields,
        no_arguments: traced.empty,
        self_describing: traced.self_describing,
        reads: traced.complete.then_some(traced.reads),
        document: traced.document,
    }
}

/// The first four bytes of the MD5: tasks carry it, so it must never change.
fn hash(basis: &str) -> u32 {
    let [a, b, c, d, ..] = <[u8; 16]>::from(Md5::digest(basis.as_bytes()));
    u32::from_le_bytes([a, b, c, d])
}
