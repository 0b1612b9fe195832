//! Typed background jobs on Redis, wire-compatible with Go's asynq, or on an embedded SQLite file.

pub mod app;
pub mod broker;
mod client;
pub mod clock;
mod connect;
pub mod job;
pub mod server;
pub mod task;
pub mod testing;

// The expansion of `#[job]` names this crate absolutely, also in this crate's own tests.
#[allow(unused_extern_crates)]
extern crate self as asynq_runtime;

pub use asynq_macros::job;
pub use bytes::Bytes;

pub use self::{
    app::App,
    client::{Client, Enqueue},
    connect::{DEFAULT_URL, URL_VARIABLE},
    job::{
        BoxError, EnqueueError, Job, JobBuilder, JobContext, JobDescriptor, JobError, JobOptions, JobResult, Policy,
        PreparedTask, RawTask, Registry, State,
    },
    server::Server,
    task::{TaskId, TaskInfo, TaskState},
};

/// What a file with jobs needs: `use asynq_runtime::prelude::*;`.
pub mod prelude {
    pub use crate::{
        App, BoxError, Client, Enqueue, EnqueueError, Job, JobContext, JobError, JobOptions, JobResult, Policy,
        RawTask, Registry, Server, State, TaskInfo, TaskState, job,
    };
}

/// What expansions reach; nobody else should.
#[doc(hidden)]
pub mod __private {
    pub use std::{
        option::Option::{self, None, Some},
        result::Result::{self, Err, Ok},
        string::String,
        time::Duration,
        vec::Vec,
    };

    pub use bytes::Bytes;
    pub use inventory;
    pub use serde::{self, Deserialize, Serialize};

    pub use crate::{
        Client, EnqueueError, Job, JobBuilder, JobContext, JobDescriptor, JobOptions, JobResult, Policy, TaskInfo,
        job::{
            Codec, CodecError, IntoInstant, IntoJobResult, IntoSpan, StateKey, encode_key, run_blocking, state,
            with_policy,
        },
    };
}
