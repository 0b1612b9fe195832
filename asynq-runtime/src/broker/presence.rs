//! Contract: the servers that run, and cancel requests to them (docs/design/wire.md#keys-of-a-server).

use std::fmt;

use chrono::TimeDelta;

use super::BrokerError;
use crate::task::{ServerInfo, TaskId, WorkerInfo};

/// Makes servers visible and carries cancel requests.
#[async_trait::async_trait]
pub trait Presence {
    /// Makes a server known and returns its identity for dequeues. The server must [`beat`](Self::beat) from then on.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn join(&self, name: &ServerName, info: &ServerInfo) -> Result<Member, BrokerError>;

    /// Shows that the member lives, and its running tasks. A beat is due every 5 s; after 10 s without one,
    /// [`servers`](Self::servers) does not list the server any more. Its runs are unaffected: only leases decide about them.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn beat(&self, member: &Member, info: &ServerInfo, workers: &[WorkerInfo]) -> Result<(), BrokerError>;

    /// Removes a server from the list. The server must have settled its active tasks before.
    ///
    /// # Errors
    ///
    /// The broker failed; the server disappears by itself after 10 s.
    async fn leave(&self, member: &Member) -> Result<(), BrokerError>;

    /// Returns the servers that live, those of this crate and Go's, ordered by host and process id.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn servers(&self) -> Result<Vec<ServerState>, BrokerError>;

    /// Returns how many servers lived at the last beat of a member of this broker, Go's servers included; at least 1. A server that does
    /// what every other server does as well spares the broker by this number. Default: 1, for a broker that does not count servers.
    fn servers_alive(&self) -> usize {
        1
    }

    /// Asks the server that runs task `id` to cancel it, if that server listens now. A request that no server receives is not an error.
    /// [`Repair::end_orphan`](super::Repair::end_orphan), called before, keeps the request for a server that does not listen.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn cancel(&self, id: &TaskId) -> Result<(), BrokerError>;

    /// Subscribes to cancel requests from now on; dropping the listener unsubscribes.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn cancellations(&self) -> Result<Box<dyn Cancellations>, BrokerError>;
}

/// A stream of cancel requests.
#[async_trait::async_trait]
pub trait Cancellations: fmt::Debug + Send {
    /// Waits for the next request. Dropping the future loses none.
    ///
    /// # Errors
    ///
    /// The connection is lost, or requests came too fast; subscribe again after a back-off. A broker that stores the requests goes on
    /// by itself while it is unavailable, so that none is missed.
    async fn next(&mut self) -> Result<TaskId, BrokerError>;
}

/// The name of one server object, `HOST:PID:UUID`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerName {
    /// The host name; `unknown-host` if the host has none.
    pub host: String,
    /// The process id.
    pub pid: u32,
    /// UUID v4 of the server object.
    pub server_id: String,
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.host, self.pid, self.server_id)
    }
}

/// The identity of a server at the broker, as [`Presence::join`] returned it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Member {
    /// The name of the server.
    pub name: ServerName,
    /// The number of the server on SQLite, 0 elsewhere.
    pub number: i64,
}

/// A server that lives, with its running tasks.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ServerState {
    /// The server.
    pub info: ServerInfo,
    /// The running tasks of the server.
    pub workers: Vec<WorkerInfo>,
    /// How far the clock of the server's host was ahead of the broker's at the last beat; negative if it was behind. A server of
    /// this crate measures the difference. For a Go server the broker can tell it to half a second, and only below 10 s: with a
    /// larger difference the server is not seen at all, or stays after its death. A beat that waited for Redis makes a Go server
    /// look behind by as long, until its next beat. `None` on SQLite, where all servers share one clock.
    pub clock_ahead: Option<TimeDelta>,
}

impl ServerState {
    /// Makes a server of whose clock nothing is known.
    pub fn new(info: ServerInfo, workers: Vec<WorkerInfo>) -> Self {
        Self { info, workers, clock_ahead: None }
    }

    /// Orders servers as [`Presence::servers`] returns them.
    pub(crate) fn sort(servers: &mut [Self]) {
        servers.sort_by(|a, b| {
            (&a.info.host, a.info.pid, &a.info.server_id).cmp(&(&b.info.host, b.info.pid, &b.info.server_id))
        });
    }
}
