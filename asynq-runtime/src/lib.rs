//! Typed background jobs on Redis, wire-compatible with Go's [asynq](https://github.com/hibiken/asynq), or on an embedded
//! SQLite file with nothing to install.
//!
//! Put [`#[job]`](macro@job) on a function, enqueue it like a call, and run a worker with one line:
//!
//! ```no_run
//! # mod program {
//! use asynq_runtime::prelude::*;
//!
//! /// Sends one e-mail.
//! #[job(queue = "critical", retry = 5, timeout = "3m", unique = "1h")]
//! async fn send_email(to: String, subject: String) -> JobResult {
//!     println!("to {to}: {subject}");
//!     Ok(())
//! }
//!
//! asynq_runtime::main!();
//! # }
//! # fn main() {}
//! ```
//!
//! A job on a broker in memory, from enqueue to the end:
//!
//! ```standalone_crate
//! use asynq_runtime::prelude::*;
//!
//! #[job]
//! async fn double(n: u64) -> JobResult<u64> {
//!     Ok(n * 2)
//! }
//!
//! # fn main() -> Result<(), BoxError> {
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! let server = Server::builder("sqlite::memory:").concurrency(4).build().await?;
//! let running = server.start().await?;
//! let client = running.client();
//!
//! let task = double::job(21).awaited().enqueue(&client).await?;
//! assert_eq!(task.wait("30s").await?.done()?, 42);
//! running.shutdown().await?;
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! # Where to read on
//!
//! | | |
//! |---|---|
//! | [`job`](macro@job) | every option of the attribute |
//! | [`Enqueued`] | waiting for a task and reading the result of its job |
//! | [`JobError`] | retry, archive, snooze or revoke a task when its job fails |
//! | [`app`] | settings of a program of [`main!`]: flags, environment, set-up |
//! | `RedisBroker::connect`, `SqliteBroker::open` in [`broker`] | URLs of brokers with all their parameters |
//! | [`testing`] | a whole application in memory, for tests of your own jobs |
//!
//! The guides are pages of the repository's `docs/`: start, jobs, changing a job, waiting for results, failures, groups, workers,
//! schedules, transactions, brokers, operating, the command line, the HTTP API, testing, coming from other frameworks, limits.
//!
//! # The parts
//!
//! - [`job`](mod@job): the typed side. A *job* is a function and its arguments.
//! - [`task`]: the wire side. A *task* is one instance of a job in a queue.
//! - [`broker`]: where tasks are kept: the contract, and Redis and SQLite behind it.
//! - [`Client`] enqueues, [`inspector`] looks and repairs, [`rate`] limits across programs.
//! - [`server`] works, [`app`] is the program of [`main!`], [`metrics`](mod@metrics) lists the metrics.
//!
//! Beside this crate stand `asynq-jobs`, the one crate that most programs depend on; `asynq-cron` with periodic jobs;
//! `asynq-dashboard`, the web pages; and `asynq-cli`, the command `asynq`.
//!
//! # Features
//!
//! | | |
//! |---|---|
//! | `redis`, `sqlite` | each brings its broker; both on by default; `sqlite` needs a C compiler |
//! | `main` | [`main!`], with its flags and commands; on by default. Producers and servers in a program that has a `main` leave it out |
//! | `cluster` | `redis-cluster://` URLs |
//! | `sentinel` | `redis-sentinel://` URLs |
//! | `otel` | the trace of an enqueue goes on in its runs, by OpenTelemetry |
//! | `tls` | `rediss://`, `rediss-cluster://` and `rediss-sentinel://` URLs, by rustls; needs a C compiler |
//!
//! A feature adds to this crate, and never changes its behaviour.

// docs.rs builds with this cfg and shows which feature an item needs; no other build has it.
#![cfg_attr(docsrs, feature(doc_cfg))]

// The first item, so that this error is printed before those about the calls that other systems lack.
#[cfg(not(unix))]
compile_error!(
    "asynq-runtime supports Unix only (Linux and macOS): its SQLite broker locks, wakes and watches through Unix calls, \
     and nothing else was ever built; build for Linux or macOS, for example in WSL or in a container"
);

/// Implements `Debug` with the named fields; the others are secret, without a `Debug` of their own, or too much for a log line.
/// A field with `as` is shown by the answer of that function. The macro is only for the crates of this repository.
#[doc(hidden)]
#[macro_export]
macro_rules! partial_debug {
    ($type:ident { $($field:ident $(as $shown:path)?,)* .. }) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type))
                    $(.field(stringify!($field).trim_start_matches("r#"), &$($shown)?(&self.$field)))*
                    .finish_non_exhaustive()
            }
        }
    };
}

/// Logs a line of a level as `tracing` does. The subscriber is code of the program, and a panic in it must not end the component
/// that logs: that of `tracing_subscriber::fmt::init` panics where neither the log nor standard error can be written. It is only
/// for the crates of this repository.
#[doc(hidden)]
#[macro_export]
macro_rules! log {
    ($level:ident, $($line:tt)+) => {{
        let _ = $crate::__private::catch(|| $crate::__private::tracing::$level!($($line)+));
    }};
}

/// Implements `Debug` of an error as its text and those of its causes: a `main` that returns an error prints its `Debug`. It is only
/// for the crates of this repository.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_as_text {
    ($error:ident) => {
        impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&$crate::job::with_causes(self))
            }
        }
    };
}

pub mod app;
pub mod broker;
mod censor;
mod client;
pub mod clock;
mod connect;
pub mod inspector;
pub mod job;
pub mod metrics;
mod panics;
mod pause;
mod propagation;
pub mod rate;
pub mod server;
pub mod task;
pub mod testing;
mod thread;
mod until;
mod variables;

// The expansion of `#[job]` names this crate absolutely, also in this crate's own tests.
#[allow(unused_extern_crates)]
extern crate self as asynq_runtime;

/// ```
/// use asynq_runtime::prelude::*;
///
/// pub struct Mailer;
///
/// #[job(queue = "critical", retry = 5, timeout = "3m", unique = "1h")]
/// async fn send_email(ctx: &JobContext, mailer: State<Mailer>, to: String, subject: &str) -> JobResult {
///     let _mailer: &Mailer = &mailer;
///     println!("{}: to {to}: {subject}", ctx.id());
///     Ok(())
/// }
///
/// # async fn produce(client: Client) -> Result<(), BoxError> {
/// send_email::enqueue(&client, "ann@example.com", "Welcome").await?;
/// send_email::job("ann@example.com", "Welcome").queue("low").enqueue(&client).await?;
/// # Ok(())
/// # }
/// ```
///
pub use asynq_macros::job;
pub use bytes::Bytes;
/// The SQLite library whose connections [`Client::enqueue_in_tx`] takes.
#[cfg(feature = "sqlite")]
pub use rusqlite;

#[cfg(feature = "sqlite")]
pub use self::client::EnqueueRow;
pub use self::{
    app::App,
    client::{Client, Enqueue, EnqueueService, Enqueued, NotDone, Outcome, ResultError},
    connect::{DEFAULT_URL, URL_VARIABLE},
    inspector::Inspector,
    job::{
        ArchivedTask, Backoff, BoxError, Checkpoint, EnqueueError, FromContext, Job, JobBuilder, JobContext,
        JobDescriptor, JobError, JobOptions, JobResult, Policy, PreparedTask, RawTask, Registry, Secret, Shared, State,
    },
    server::Server,
    task::{TaskId, TaskInfo, TaskState, UniqueUntil},
};

/// The names that a file with jobs needs: `use asynq_runtime::prelude::*;`.
pub mod prelude {
    // Not `crate::job`, which is the module as well.
    pub use asynq_macros::job;

    pub use crate::{
        App, ArchivedTask, Backoff, BoxError, Checkpoint, Client, Enqueue, EnqueueError, Enqueued, FromContext, Job,
        JobContext, JobError, JobOptions, JobResult, Policy, RawTask, Registry, Secret, Server, Shared, State,
        TaskInfo, TaskState, UniqueUntil,
    };
}

/// The names that expansions of the macros use; other code should not use them.
#[doc(hidden)]
pub mod __private {
    pub use std::{
        future::Future,
        option::Option::{self, None, Some},
        result::Result::{self, Err, Ok},
        string::String,
        time::Duration,
        vec::Vec,
    };

    pub use asynq_macros::instead;
    pub use bytes::Bytes;
    pub use inventory;
    pub use serde::{self, Deserialize, Serialize};
    pub use tracing;

    pub use crate::{
        Backoff, Client, EnqueueError, Enqueued, Job, JobBuilder, JobContext, JobDescriptor, JobError, JobOptions,
        JobResult, Policy, UniqueUntil,
        job::{
            Aggregates, Aggregation, Argument, BoxFuture, Checked, CheckpointValue, ClientArgument, Codec, CodecError,
            FromContext, IntoInstant, IntoJobResult, IntoSpan, IntoText, Loaded, OnArchive, OnError, Part, PartOf,
            Returned, StateKey, Stored, Supplied, TickArgument, Upgrade, encode_key, no_handler, run_blocking,
        },
        panics::catch,
    };
}
