//! Contract: the servers that run, and the cancel channel (docs/design/wire.md#keys-of-a-server).

use std::fmt;

use chrono::TimeDelta;

use super::BrokerError;
use crate::task::{ServerInfo, TaskId, WorkerInfo};

/// Makes servers visible and carries cancel requests.
#[async_trait::async_trait]
pub trait Presence {
    /// Makes a server known and gives it the identity it dequeues with. It must beat from then on.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn join(&self, name: &ServerName, info: &ServerInfo) -> Result<Member, BrokerError>;

    /// Shows that the member lives and what it runs; due every 5 s, a server that has not been heard of for 10 s is gone
    /// from [`servers`](Self::servers). What it runs is unaffected by that: only leases decide.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn beat(&self, member: &Member, info: &ServerInfo, workers: &[WorkerInfo]) -> Result<(), BrokerError>;

    /// Takes a server off the list. Its active tasks must be settled before.
    ///
    /// # Errors
    ///
    /// The broker failed; the server disappears by itself after 10 s.
    async fn leave(&self, member: &Member) -> Result<(), BrokerError>;

    /// The servers that live, ours and Go's, ordered by host and process id.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn servers(&self) -> Result<Vec<ServerState>, BrokerError>;

    /// Asks the server that runs task `id` to cancel it. It is not an error if no server listens.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn cancel(&self, id: &TaskId) -> Result<(), BrokerError>;

    /// Listens for cancel requests from now on; dropping the listener ends it.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn cancellations(&self) -> Result<Box<dyn Cancellations>, BrokerError>;
}

/// Cancel requests as they come in.
#[async_trait::async_trait]
pub trait Cancellations: fmt::Debug + Send {
    /// Waits for the next request. Dropping the future loses none.
    ///
    /// # Errors
    ///
    /// The connection is lost; listen again after a back-off.
    async fn next(&mut self) -> Result<TaskId, BrokerError>;
}

/// `HOST:PID:UUID`, which names one server object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerName {
    /// Host name, `unknown-host` if there is none.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// UUID v4 of the server object.
    pub server_id: String,
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.host, self.pid, self.server_id)
    }
}

/// A server's identity with the broker, as [`Presence::join`] gave it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Member {
    /// Its name.
    pub name: ServerName,
    /// Its number on SQLite, 0 elsewhere.
    pub number: i64,
}

/// A server that lives, with what it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerState {
    /// The server.
    pub info: ServerInfo,
    /// Its running tasks.
    pub workers: Vec<WorkerInfo>,
    /// How far the clock of its host was ahead of the broker's at its last beat, negative when it was behind. One of ours
    /// measures it; of Go's the broker can tell it to half a second, and only while it is off by less than 10 s: beyond
    /// that the server is not seen at all, or stays after its death. `None` on SQLite, where all share one clock.
    pub clock_ahead: Option<TimeDelta>,
}

impl ServerState {
    /// A server of whose clock nothing is known.
    pub fn new(info: ServerInfo, workers: Vec<WorkerInfo>) -> Self {
        Self { info, workers, clock_ahead: None }
    }
}
