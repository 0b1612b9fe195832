//! The wire side: one instance of a job, as every asynq program sees it.
//!
//! A *job* is a typed Rust function; a *task* is one instance of it in a queue. Nothing here knows about jobs or does
//! I/O: a Go message can be read without any Rust job existing.

mod extra;
mod id;
mod info;
mod message;
mod proto;
mod state;
mod text;

pub use self::{
    extra::{Ending, UniqueUntil},
    id::{GroupName, InvalidName, QueueName, TaskId},
    info::{Progress, TaskInfo},
    proto::{ArchiveLimit, QueueWeight, SchedulerEnqueueEvent, SchedulerEntry, ServerInfo, Timestamp, WorkerInfo},
    state::{ParseTaskStateError, TaskState},
};
// The stored forms, between the brokers and the crates of this project: a program sees a task as its `TaskInfo`.
#[doc(hidden)]
pub use self::{
    extra::{Extra, Unknown},
    message::{Header, TaskMessage, UndecodableMessage},
    proto::ListedTask,
};
pub(crate) use self::{
    id::{TaskIds, check_type_name, equal_task},
    message::length,
    text::{add_causes, chain, cut},
};
