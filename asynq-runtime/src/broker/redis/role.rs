//! What a connection is for: where it leads, how long it waits, and the listener of its events.

use std::{sync::Arc, time::Duration};

use redis::{Cmd, PushInfo};

#[cfg(feature = "cluster")]
use super::topology::Topology;
#[cfg(feature = "cluster")]
use super::url::Address;
use super::{clock::BrokerClock, url::Target};

/// What one [`Router`](super::router::Router) is for.
#[derive(Clone)]
pub(super) struct Role {
    /// How to log in.
    pub(super) target: Target,
    /// Where.
    pub(super) at: At,
    /// Longest wait for a connection, and longest silence before an answer.
    pub(super) timeout: Duration,
    /// Longest attempt to connect.
    pub(super) connect_timeout: Duration,
    /// Learns Redis's time whenever a connection is made.
    pub(super) clock: Arc<BrokerClock>,
    /// Sent on each new connection; a refusal counts as a failure to connect.
    pub(super) greeting: Vec<Cmd>,
    /// Gets what Redis says unasked; and [`ConnectionEvent::Connected`] and [`ConnectionEvent::Lost`].
    pub(super) on_event: Option<Arc<dyn Fn(ConnectionEvent) + Send + Sync>>,
}

/// Which of the target's servers to connect to.
#[derive(Clone)]
pub(super) enum At {
    /// The one that the URL names, or the master that its sentinels name.
    Target,
    /// Every master of the cluster.
    #[cfg(feature = "cluster")]
    Cluster(Topology),
    /// One certain node.
    #[cfg(feature = "cluster")]
    Node(Address),
    /// Any node: the first that lets us in.
    #[cfg(feature = "cluster")]
    AnyNode(Topology),
}

impl Role {
    /// The same on one connection, where any node of a cluster will do.
    pub(super) fn on_one_server(self) -> Self {
        #[cfg(feature = "cluster")]
        if let At::Cluster(topology) = self.at {
            return Self { at: At::AnyNode(topology), ..self };
        }
        self
    }
}

/// What happens on a connection besides answers.
#[derive(Debug)]
pub(super) enum ConnectionEvent {
    /// A new connection is there, greeted.
    Connected,
    /// The connection is gone.
    Lost,
    /// Keys have moved between the nodes of a cluster.
    #[cfg(feature = "cluster")]
    Moved,
    /// Redis says something.
    Push(PushInfo),
}
