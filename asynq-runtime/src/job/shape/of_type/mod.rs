//! Finds the shape of a type by deserializing the type from nothing.
//!
//! A recording deserializer writes down every request and answers with a sample value. One run of it is a *pass*; an enum
//! shows one variant per pass, and a sample that a type rejects is replaced by the next one in the next pass, so passes
//! follow each other until none shows anything new.

mod alias;
mod arena;
mod at;
mod export;
mod probe;
mod reads;
mod recorder;
mod sample;
mod text;

use std::{
    any::type_name,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use serde::de::DeserializeOwned;

use self::{
    at::At,
    recorder::{Recorder, Stop},
};
pub(in crate::job) use self::{at::SECRET, reads::Reads, sample::STRINGS};
use super::ShapeDocument;

/// The knowledge about a type after the last pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::job) struct TypeShape {
    /// The shape as text. Equal shapes have equal texts, whatever the types are called.
    pub(in crate::job) shape: String,
    /// Whether nothing was left out.
    pub(in crate::job) complete: bool,
    /// The names of the fields, where the type is a struct.
    pub(in crate::job) fields: Option<Vec<&'static str>>,
    /// Whether the type holds nothing at all.
    pub(in crate::job) empty: bool,
    /// A type inside that asks for a self-describing format, which postcard is not.
    pub(in crate::job) self_describing: Option<String>,
    /// How the structs and enums inside are read.
    pub(in crate::job) reads: Reads,
    /// The shape for programs of other versions.
    pub(in crate::job) document: ShapeDocument,
}

thread_local! {
    /// Whether the recorder deserializes a type on this thread.
    pub(in crate::job) static RECORDING: Cell<bool> = const { Cell::new(false) };
}

/// More passes than any sane type needs: each one ends a variant, a sample or a place whose shape cannot be known.
const MOST_PASSES: usize = 4096;

/// After this many panics of a `Deserialize` no further sample is tried: each panic writes to standard error.
const MOST_PANICS: usize = 3;

/// Returns the shape of `T` as a format would read it that is `human_readable` (JSON) or not (postcard).
pub(in crate::job) fn shape_of<T: DeserializeOwned>(human_readable: bool) -> TypeShape {
    // A user's `Deserialize` that panics on a sample must not stop an enqueue.
    let pass: Pass<'_> = &|recorder| catch_unwind(AssertUnwindSafe(|| T::deserialize(At::root(recorder)).map(drop)));
    let before = RECORDING.replace(true);
    let type_shape = passes(human_readable, pass);
    RECORDING.set(before);
    type_shape
}

/// Lets the recorder deserialize a type once. All else is compiled once for all types, because a program may have hundreds of jobs.
type Pass<'p> = &'p dyn Fn(&mut Recorder) -> thread::Result<Result<(), Stop>>;

fn passes(human_readable: bool, pass_once: Pass<'_>) -> TypeShape {
    let mut recorder = Recorder::new(human_readable);
    let complete = record(&mut recorder, pass_once);
    let mut reads = std::mem::take(&mut recorder.reads);
    let names = alias::read_names(&mut recorder, pass_once);
    let document = recorder.arena.to_document(recorder.root, &names);
    reads.is_whole = complete;
    reads.needs_bounds = !complete || document.is_unbounded();
    TypeShape {
        shape: recorder.arena.to_text(recorder.root),
        document,
        complete,
        fields: recorder.arena.fields(recorder.root),
        empty: recorder.arena.is_empty(recorder.root),
        self_describing: recorder.self_describing,
        reads,
    }
}

/// Makes passes until none shows anything new. Returns whether nothing was left out.
fn record(recorder: &mut Recorder, pass_once: Pass<'_>) -> bool {
    let (mut complete, mut panics) = (true, 0);
    for _ in 0..MOST_PASSES {
        let seen = recorder.arena.variants_seen();
        recorder.begin_pass();
        let value = pass_once(recorder);
        panics += usize::from(value.is_err());
        if matches!(value, Ok(Ok(()))) {
            if recorder.arena.all_variants_seen() {
                return complete;
            }
            if recorder.arena.variants_seen() == seen {
                return false;
            }
        } else if recorder.is_stopped || panics >= MOST_PANICS || !recorder.try_next_sample() {
            complete = false;
            match recorder.failed_at {
                Some(choice) => recorder.arena.avoid(choice),
                None => return false,
            }
        }
    }
    false
}

/// Returns the name of a type without the paths in it: moving a type to another module changes nothing on the wire.
pub(in crate::job) fn short_name<T: ?Sized>() -> String {
    short(type_name::<T>())
}

/// Returns the type in whose derived `Deserialize` the type `name` is declared, or `name` itself: people know `Flat`, and not
/// `<impl Deserialize<'_> for Flat>::deserialize::__Field`.
fn owner(name: &str) -> &str {
    let inside = name.split_once("<impl ").and_then(|(_, rest)| rest.split_once(" for "));
    inside.and_then(|(_, rest)| rest.split_once(">::")).map_or(name, |(owner, _)| owner)
}

fn short(name: &str) -> String {
    let pieces = name.split_inclusive(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    pieces.map(|piece| piece.rsplit("::").next().unwrap_or(piece)).collect()
}

#[cfg(test)]
mod tests;
