//! The shape of a job's arguments in four bytes, computed from the requests that their `Deserialize` makes.

use std::{
    any::TypeId,
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use md5::{Digest, Md5};
use parking_lot::RwLock;
use serde::{Deserialize, de::DeserializeOwned};

use super::{
    Codec, Job,
    shape::{
        ShapeDocument,
        of_type::{self, Reads, short_name},
    },
};

/// The shape that serde sees, nested types included.
///
/// The shape is made of field names, order and kinds and of every variant of every enum. The names of types are not part of
/// it, so that `String` and `std::string::String` are one, and so are a struct and the same struct elsewhere.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Fingerprint {
    /// The number that a payload carries.
    pub value: u32,
    /// The shape as text, such as `{to: str, lines: [u32]}`. An alias of a field is in it as if it were a field.
    pub shape: String,
    /// Whether the whole shape is known; `false` means *partly checked*: a custom `Deserialize` stopped the recorder, and
    /// changes behind it are not noticed.
    pub complete: bool,
    /// The names of the arguments, where they are a struct.
    pub fields: Option<Vec<&'static str>>,
    /// Whether the job takes no arguments at all; then a payload is ignored.
    pub(crate) no_arguments: bool,
    /// A type among the arguments that only a self-describing format can carry, such as `Value` of serde_json: postcard
    /// cannot read it back.
    pub self_describing: Option<String>,
    /// How the structs and enums inside are read.
    pub(crate) reads: Reads,
    /// The shape for programs of other versions.
    pub(crate) document: ShapeDocument,
    /// The numbers of the same shape under the names of the job, where the name of its type is part of `value`.
    renamed: Vec<u32>,
}

impl Fingerprint {
    /// Returns whether a payload with this number has this shape: the type of the job may have had another name, which is one
    /// of the job's own.
    pub(crate) fn is(&self, number: u32) -> bool {
        self.value == number || self.renamed.contains(&number)
    }

    /// Returns the shape for people.
    pub(crate) fn text(&self) -> String {
        self.document.text_of(&self.shape)
    }

    /// Returns the fingerprint of `J`'s arguments, computed once per job.
    pub(crate) fn of<J: Job>() -> Arc<Self> {
        static CACHE: FingerprintCache = LazyLock::new(RwLock::default);
        cached_or(&CACHE, TypeId::of::<J>(), &|| of_arguments::<J>(J::CODEC))
    }

    /// Returns the fingerprint of a value that is kept in postcard beside a job's arguments, computed once per type.
    pub(crate) fn of_value<T: DeserializeOwned + 'static>() -> Arc<Self> {
        static CACHE: FingerprintCache = LazyLock::new(RwLock::default);
        cached_or(&CACHE, TypeId::of::<T>(), &|| {
            fingerprint(of_type::shape_of::<T>(false), None, &[&short_name::<T>()])
        })
    }

    /// Returns the fingerprint of `J`'s arguments in postcard, whatever its codec is.
    pub(crate) fn in_postcard<J: Job>() -> Arc<Self> {
        static CACHE: FingerprintCache = LazyLock::new(RwLock::default);
        match J::CODEC {
            Codec::Postcard => Self::of::<J>(),
            Codec::Json => cached_or(&CACHE, TypeId::of::<J>(), &|| of_arguments::<J>(Codec::Postcard)),
        }
    }

    /// Returns the fingerprint of a job without arguments, which is the same in every program.
    pub(crate) fn of_nothing() -> Arc<Self> {
        #[derive(Deserialize)]
        struct Nothing {}

        Self::of_value::<Nothing>()
    }

    /// Returns the fingerprint in postcard of the arguments `T` that an earlier version of the job `J` had.
    pub(crate) fn of_earlier<J: Job, T: DeserializeOwned + 'static>() -> Arc<Self> {
        static CACHE: FingerprintCache = LazyLock::new(RwLock::default);
        // The name of the job is part of a fingerprint that is known in part.
        cached_or(&CACHE, TypeId::of::<(J, T)>(), &|| of_job::<J>(of_type::shape_of::<T>(false), None))
    }
}

/// The fingerprints that this process has made, by type.
type FingerprintCache = LazyLock<RwLock<HashMap<TypeId, Arc<Fingerprint>>>>;

fn cached_or(cache: &FingerprintCache, of: TypeId, make: &dyn Fn() -> Fingerprint) -> Arc<Fingerprint> {
    if let Some(cached) = cache.read().get(&of) {
        return Arc::clone(cached);
    }
    let fresh = Arc::new(make());
    let mut cache = cache.write();
    Arc::clone(cache.entry(of).or_insert(fresh))
}

fn of_arguments<J: Job>(codec: Codec) -> Fingerprint {
    let mut fingerprint = of_job::<J>(of_type::shape_of::<J>(codec == Codec::Json), J::FINGERPRINT);
    fingerprint.document = fingerprint.document.of_argument(J::ARGUMENT, J::ARGUMENT_ALIASES);
    fingerprint
}

fn of_job<J: Job>(type_shape: of_type::TypeShape, by_hand: Option<&str>) -> Fingerprint {
    let short = short_name::<J>();
    let names: Vec<&str> = [&*short, J::NAME].into_iter().chain(J::ALIASES.iter().copied()).collect();
    fingerprint(type_shape, by_hand, &names)
}

/// Returns the fingerprint of a shape. The first of the `names` is part of the number of a shape that is known in part.
fn fingerprint(type_shape: of_type::TypeShape, by_hand: Option<&str>, names: &[&str]) -> Fingerprint {
    let partly = |name: &&str| format!("{} of {name}", type_shape.shape);
    let number = |name| hash(&format!("partly {}", partly(name)));
    let (shape, value, renamed) = match (by_hand, names) {
        (Some(by_hand), _) => (format!("{by_hand:?} by hand"), hash(&format!("by hand {by_hand}")), Vec::new()),
        (None, [name, others @ ..]) if !type_shape.complete => {
            (partly(name), number(name), others.iter().map(number).collect())
        }
        (None, _) => (type_shape.shape.clone(), hash(&type_shape.shape), Vec::new()),
    };
    Fingerprint {
        value,
        shape,
        complete: type_shape.complete || by_hand.is_some(),
        fields: type_shape.fields,
        no_arguments: type_shape.empty,
        self_describing: type_shape.self_describing,
        reads: type_shape.reads,
        document: type_shape.document,
        renamed,
    }
}

/// Returns the first four bytes of the MD5. Tasks carry this number, so it must never change.
fn hash(basis: &str) -> u32 {
    let [a, b, c, d, ..] = <[u8; 16]>::from(Md5::digest(basis.as_bytes()));
    u32::from_le_bytes([a, b, c, d])
}
