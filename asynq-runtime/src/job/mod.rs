//! The `Job` trait and its parts, for user code and the macro: options, codec, context, errors and registry.
//!
//! A job is a Rust type that holds its arguments and can run. `#[job]` writes that type from a function; by hand it is a
//! struct and one `impl`:
//!
//! ```
//! use asynq_runtime::prelude::*;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Welcome { to: String }
//!
//! impl Job for Welcome {
//!     const NAME: &'static str = "welcome";
//!     type Output = JobResult;
//!     async fn run(self, ctx: &JobContext) -> JobResult {
//!         tracing::info!(id = %ctx.id(), "welcome {}", self.to);
//!         Ok(())
//!     }
//! }
//! ```

mod aggregates;
mod archived;
mod argument_shape;
mod backoff;
mod blocking;
mod bounded;
mod builder;
mod cancel;
mod checkpoint;
mod codec;
mod context;
mod descriptor;
mod enqueue_error;
mod error;
mod fingerprint;
mod format;
mod from_context;
mod into_task;
mod lock;
mod options;
mod output;
mod payload_error;
mod prepared;
mod raw;
mod registry;
mod registry_error;
mod resolve;
mod results;
mod run_blocking;
mod secret;
pub(crate) mod shape;
mod shape_cache;
mod shared_error;
mod state;
#[cfg(test)]
mod test_jobs;
mod times;
mod type_checks;
mod upgrade;

use std::future::Future;

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

#[cfg(feature = "sqlite")]
pub(crate) use self::argument_shape::due_in_transaction;
/// The text that the `Debug` of errors writes, also in the crates that build on this one.
#[doc(hidden)]
pub use self::error::with_causes;
pub use self::{
    aggregates::{Aggregates, Aggregation},
    archived::{ArchivedTask, OnArchive},
    backoff::Backoff,
    builder::JobBuilder,
    checkpoint::Checkpoint,
    codec::CodecError,
    context::JobContext,
    descriptor::{BoxFuture, JobDescriptor, RunResult},
    enqueue_error::EnqueueError,
    error::{BoxError, JobError, JobResult, Policy},
    fingerprint::Fingerprint,
    format::Codec,
    from_context::FromContext,
    into_task::IntoTask,
    lock::{InvalidLock, JobsLock, LockFinding, LockedShape, Verdict},
    options::JobOptions,
    output::{IntoJobResult, ReadResult},
    payload_error::PayloadError,
    prepared::PreparedTask,
    raw::RawTask,
    registry::{JobSet, Registry},
    registry_error::RegistryError,
    results::{TooLarge, WriteError},
    secret::Secret,
    shared_error::SharedError,
    state::{Shared, State, StateKey, StateMap},
    times::{IntoInstant, IntoSpan, IntoUntil, InvalidInstant, InvalidSpan, InvalidUntil, Until},
    upgrade::{Earlier, Upgrade},
};
pub(crate) use self::{
    aggregates::{Arguments, Limits},
    argument_shape::{ArgumentShape, DueShapes},
    blocking::NoThread,
    checkpoint::Unloaded,
    codec::{decode_arguments, decode_result, encode_arguments, encode_result, fingerprint_of, postcard_header},
    prepared::Prepared,
    registry_error::LINKED_BY_NAME,
    resolve::{Needs, ShapeLookup, resolve as resolve_arguments, show as show_by_shape},
    results::RESULT_LIMIT,
    shape::encode as encode_by_shape,
    shape_cache::ShapeCache,
};
/// Items that expansions reach by `__private`, and the parts of which a server makes a context.
#[doc(hidden)]
pub use self::{
    blocking::BlockingPool,
    cancel::Cancel,
    codec::encode_key,
    context::ContextParts,
    error::no_handler,
    run_blocking::run_blocking,
    type_checks::{
        Argument, Checked, CheckpointValue, ClientArgument, Failed, IntoText, Loaded, OnError, Part, PartOf, Returned,
        Stored, Supplied, TickArgument,
    },
};

/// Returns whether tasks of this name are tasks of `J`.
pub(crate) fn is_named<J: Job>(name: &str) -> bool {
    name == J::NAME || J::ALIASES.contains(&name)
}

/// A typed job: its arguments, its options, and its work.
///
/// Everything `#[job]` generates can be written by hand against this trait; see the [module](self) for an example.
///
/// ```
/// # use asynq_runtime::prelude::*;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Greet {
///     name: String,
/// }
///
/// impl Job for Greet {
///     const NAME: &'static str = "greet";
///     const OPTIONS: JobOptions = JobOptions::new().queue("low").retry(3);
///     type Output = JobResult<usize>;
///
///     async fn run(self, ctx: &JobContext) -> JobResult<usize> {
///         println!("{}: hello {}", ctx.id(), self.name);
///         Ok(self.name.len())
///     }
/// }
/// # async fn produce(client: Client) -> Result<(), BoxError> {
/// Greet { name: "ann".into() }.enqueue(&client).await?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a job",
    label = "expected a job",
    note = "put `#[job]` on a function `f` and name it here, where `f::enqueue(…)` and `f::job(…)` make tasks and `f(…)` runs it; or write `impl Job for {Self}`"
)]
pub trait Job: Serialize + DeserializeOwned + Send + Sized + 'static {
    /// Name on the wire, which routes a task to its job. Tasks that are queued under an earlier name need that name among the
    /// [`ALIASES`](Self::ALIASES).
    const NAME: &'static str;

    /// The options that apply unless an enqueue sets others.
    const OPTIONS: JobOptions = JobOptions::new();

    /// The shared states that [`run`](Self::run) needs; a server without one of them refuses to start. [`StateKey::all`] joins those
    /// of several [`FromContext`] types.
    const REQUIRES: &'static [StateKey] = &[];

    /// How arguments and results are encoded.
    const CODEC: Codec = Codec::Postcard;

    /// Replaces the computed fingerprint of the arguments, for types whose shape their `Deserialize` hides.
    const FINGERPRINT: Option<&'static str> = None;

    /// The name of the argument, if there is exactly one and the payload is that value itself, as `#[job]` makes it: a
    /// version with more arguments finds the value by this name. `None` for a struct with fields.
    const ARGUMENT: Option<&'static str> = None;

    /// Other names by which that one argument is found among the arguments of another version, as `#[serde(alias = "…")]` on it says.
    const ARGUMENT_ALIASES: &'static [&'static str] = &[];

    /// Other names that tasks of this job may have: the earlier names of the job (`alias`).
    const ALIASES: &'static [&'static str] = &[];

    /// Functions from the arguments of earlier versions to this job, for changes that serde's rules do not cover (`upgrade`).
    /// The first one that takes a task's arguments is used.
    const UPGRADES: &'static [Upgrade<Self>] = &[];

    /// How long a failed task waits for its next attempt; `None` for the server's own back-off.
    const BACKOFF: Option<Backoff> = None;

    /// The function that the worker calls when it gives a task up (`on_archive`) and is about to archive it.
    /// It is like the [server's](crate::server::ServerBuilder::on_archive), and called after it.
    const ON_ARCHIVE: Option<OnArchive<Self>> = None;

    /// Whether another program runs the job (`#[job] async fn name(..);`, without a body): a server refuses to serve it.
    const IS_CONTRACT: bool = false;

    /// The names of the arguments that make a task unique, if not all do. They are only shown: the lock is on the bytes of
    /// [`unique_by`](Self::unique_by).
    const UNIQUE_BY: &'static [&'static str] = &[];

    /// The return type of [`run`](Self::run): `()`, or `Result<T, E>` where `E` is any error.
    type Output: IntoJobResult;

    /// Returns the bytes that make a task of this job unique, if not all its arguments do (`unique_by`).
    fn unique_by(&self) -> Option<Result<Bytes, CodecError>> {
        None
    }

    /// Runs the job. The future is dropped at an await point when the attempt is cancelled or times out.
    fn run(self, ctx: &JobContext) -> impl Future<Output = Self::Output> + Send;
}
