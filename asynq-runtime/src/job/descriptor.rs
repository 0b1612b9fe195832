//! A job with its type erased, as the inventory holds it and the server runs it.

use std::{
    any::{TypeId, type_name},
    future::Future,
    pin::Pin,
    sync::Arc,
};

use bytes::Bytes;

use super::{
    ArgumentShape, Backoff, Codec, Fingerprint, IntoJobResult, Job, JobContext, JobError, JobOptions, JobResult,
    PayloadError, PreparedTask, StateKey,
    codec::{self, decode_arguments, encode_result},
    resolve::{ShapeLookup, resolve},
    secret::for_people,
    upgrade::{Content, Earlier},
};
use crate::panics::catch;

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The outcome of an attempt: the encoded result (`None` for `()`), or the error with its policy.
#[doc(hidden)]
pub type RunResult = JobResult<Option<Bytes>>;

/// An attempt, not yet polled, or the reason why the payload cannot be read.
type Started = Result<BoxFuture<'static, RunResult>, PayloadError>;

/// Calls a job's own function for archived tasks, with the shape of the arguments that the broker keeps.
pub(crate) type OnArchiveFn = fn(JobContext, Option<&ShapeLookup>, JobError) -> BoxFuture<'static, ()>;

/// Everything a program knows about a job, without its type.
#[derive(Clone, Copy)]
pub struct JobDescriptor {
    /// Name on the wire.
    pub name: &'static str,
    /// Other names that tasks of the job may have.
    pub aliases: &'static [&'static str],
    /// Declared options.
    pub options: JobOptions,
    /// States that the job needs.
    pub requires: &'static [StateKey],
    /// Number of functions from the arguments of earlier versions.
    pub upgrades: usize,
    /// Names of the arguments that make a task unique; empty if all do.
    pub unique_by: &'static [&'static str],
    /// How the arguments are encoded.
    pub codec: Codec,
    /// How long a failed task waits, if not by the server's own back-off.
    pub backoff: Option<Backoff>,
    /// Whether another program runs the job ([`Job::IS_CONTRACT`]).
    pub is_contract: bool,
    /// The file of the job; the path of its type if it was registered by hand.
    pub file: &'static str,
    /// The line in that file; 0 if the job was registered by hand.
    pub line: u32,
    type_id: fn() -> TypeId,
    type_name: fn() -> &'static str,
    start: fn(&[u8], Option<&ShapeLookup>, JobContext) -> Started,
    reads: fn(&[u8], Option<&ShapeLookup>) -> Result<(), PayloadError>,
    /// Calls the job's own function for archived tasks, if the job has one.
    pub(crate) on_archive: Option<OnArchiveFn>,
    prepare: fn(&[u8], bool) -> Result<PreparedTask, serde_json::Error>,
    show: fn(&[u8]) -> Result<serde_json::Value, PayloadError>,
    unique_bytes: fn(&[u8]) -> Option<Bytes>,
    changes_in_json: fn(&[u8]) -> bool,
    has_idle_upgrade: fn() -> bool,
    pub(crate) shape: ArgumentShape,
}

inventory::collect!(JobDescriptor);

impl JobDescriptor {
    /// Returns the descriptor of `J`, written at `file`:`line`; `const`, because the inventory is made of statics.
    pub const fn of<J: Job>(file: &'static str, line: u32) -> Self {
        Self {
            name: J::NAME,
            aliases: J::ALIASES,
            options: J::OPTIONS,
            requires: J::REQUIRES,
            upgrades: J::UPGRADES.len(),
            unique_by: J::UNIQUE_BY,
            codec: J::CODEC,
            backoff: J::BACKOFF,
            is_contract: J::IS_CONTRACT,
            file,
            line,
            type_id: TypeId::of::<J>,
            type_name: type_name::<J>,
            start: start::<J>,
            reads: |payload, lookup| resolve::<J>(payload, lookup).map(drop),
            on_archive: if J::ON_ARCHIVE.is_some() { Some(on_archive::<J>) } else { None },
            prepare: prepare::<J>,
            show: show::<J>,
            unique_bytes: |payload| decode_arguments::<J>(payload).ok()?.unique_by()?.ok(),
            changes_in_json: |payload| decode_arguments::<J>(payload).is_ok_and(|job| codec::changes_in_json(&job)),
            has_idle_upgrade: if J::UPGRADES.is_empty() { || false } else { has_idle_upgrade::<J> },
            shape: ArgumentShape::of::<J>(),
        }
    }

    /// Reads the arguments and returns the attempt, not yet polled.
    ///
    /// # Errors
    ///
    /// The payload is not one of this job.
    #[doc(hidden)]
    pub fn start(&self, payload: &[u8], ctx: JobContext) -> Started {
        (self.start)(payload, None, ctx)
    }

    /// [`start`](Self::start) for a payload of another shape, with the shape that the broker keeps.
    ///
    /// # Errors
    ///
    /// Those arguments cannot become this job's.
    pub(crate) fn start_earlier(&self, payload: &[u8], lookup: Option<&ShapeLookup>, ctx: JobContext) -> Started {
        (self.start)(payload, lookup, ctx)
    }

    /// Checks that the job can run a payload of this shape.
    ///
    /// # Errors
    ///
    /// Those arguments cannot become this job's.
    pub(crate) fn reads(&self, payload: &[u8], lookup: Option<&ShapeLookup>) -> Result<(), PayloadError> {
        (self.reads)(payload, lookup)
    }

    /// Returns the bytes that make a task with this payload unique, if not all its arguments do and they can be read.
    pub(crate) fn unique_by(&self, payload: &[u8]) -> Option<Bytes> {
        // A type may panic in its own `Deserialize` or `Serialize`; an edit, or a page that lists its tasks, must not end with it. So it
        // is with the other methods that catch.
        catch(|| (self.unique_bytes)(payload)).ok().flatten()
    }

    /// Returns a task of arguments written as JSON, such as those of `enqueue` on the command line, checked against the
    /// argument types.
    ///
    /// # Errors
    ///
    /// The arguments do not fit; the text says which and why.
    pub fn prepare(&self, arguments: &serde_json::Value) -> Result<PreparedTask, serde_json::Error> {
        // As text, because a job is compiled for one reader of JSON.
        (self.prepare)(&serde_json::to_vec(arguments)?, is_nothing(arguments)).map_err(codec::without_place)
    }

    /// Returns the arguments in a payload for people; a [`Secret`](crate::Secret) is `***`.
    ///
    /// # Errors
    ///
    /// The payload is not one of this job.
    pub fn show(&self, payload: &[u8]) -> Result<serde_json::Value, PayloadError> {
        let shown = catch(|| (self.show)(payload));
        shown.unwrap_or_else(|reason| Err(PayloadError::Undecodable { job: self.name, reason }))
    }

    /// Returns whether the arguments in a payload are other ones when [`prepare`](Self::prepare) reads them from their JSON.
    pub(crate) fn changes_in_json(&self, payload: &[u8]) -> bool {
        catch(|| (self.changes_in_json)(payload)).unwrap_or(false)
    }

    /// Returns whether both describe one and the same Rust type.
    pub(crate) fn is_same_job(&self, other: &Self) -> bool {
        (self.type_id)() == (other.type_id)()
    }

    /// Returns the place of the job for people: `FILE:LINE`, or the path of its type if it was registered by hand.
    pub fn place(&self) -> String {
        match self.line {
            0 => self.file.to_owned(),
            line => format!("{}:{line}", self.file),
        }
    }

    /// Returns the path of the job's Rust type, for people.
    pub fn type_name(&self) -> &'static str {
        (self.type_name)()
    }

    /// Returns whether one of the job's upgrades takes arguments of today's shape: it would never be asked.
    pub(crate) fn has_idle_upgrade(&self) -> bool {
        (self.has_idle_upgrade)()
    }

    /// Returns the shape of the job's arguments.
    pub fn fingerprint(&self) -> Arc<Fingerprint> {
        (self.shape.fingerprint)()
    }
}

partial_debug!(JobDescriptor { name, options, requires, codec, backoff, file, line, .. });

fn start<J: Job>(payload: &[u8], lookup: Option<&ShapeLookup>, ctx: JobContext) -> Started {
    let job: J = resolve(payload, lookup)?;
    Ok(Box::pin(async move {
        let value = job.run(&ctx).await.into_job_result()?;
        result_bytes::<J, _>(&ctx, &value)
    }))
}

fn has_idle_upgrade<J: Job>() -> bool {
    let today = Fingerprint::in_postcard::<J>();
    // Postcard carries no `Value`, and two JSON types that hold one look alike, whatever is in it.
    let is_known = J::CODEC == Codec::Postcard || today.complete;
    let earlier = Earlier(Content::Postcard(today.value, &[]));
    is_known && J::UPGRADES.iter().any(|upgrade| (upgrade.0)(&earlier).is_some())
}

fn on_archive<J: Job>(ctx: JobContext, lookup: Option<&ShapeLookup>, error: JobError) -> BoxFuture<'static, ()> {
    match J::ON_ARCHIVE {
        Some(function) => function.call(ctx, lookup, error),
        None => Box::pin(std::future::ready(())),
    }
}

/// Encodes the result of a job. A result that is not kept is dropped: no program reads it, so it need not be encodable.
fn result_bytes<J: Job, T: serde::Serialize + 'static>(ctx: &JobContext, value: &T) -> RunResult {
    if !ctx.keeps_result() || TypeId::of::<T>() == TypeId::of::<()>() {
        return Ok(None);
    }
    encode_result(J::NAME, J::CODEC, value).map(Some).map_err(JobError::skip_retry)
}

fn prepare<J: Job>(json: &[u8], is_nothing: bool) -> Result<PreparedTask, serde_json::Error> {
    let job = if is_nothing && Fingerprint::of::<J>().no_arguments {
        decode_arguments::<J>(&[]).map_err(serde::de::Error::custom)?
    } else {
        serde_json::from_slice::<J>(json)?
    };
    Ok(job.into())
}

/// Returns whether people write this value for no arguments.
fn is_nothing(arguments: &serde_json::Value) -> bool {
    match arguments {
        serde_json::Value::Null => true,
        serde_json::Value::Array(items) => items.is_empty(),
        serde_json::Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn show<J: Job>(payload: &[u8]) -> Result<serde_json::Value, PayloadError> {
    let job = decode_arguments::<J>(payload)?;
    for_people(|| serde_json::to_value(&job))
        .map_err(|error| PayloadError::Undecodable { job: J::NAME, reason: error.to_string() })
}
