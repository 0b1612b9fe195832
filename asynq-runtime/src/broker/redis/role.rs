//! The role of a connection: its server, its time-outs, and the listener of its events.

use std::{sync::Arc, time::Duration};

use redis::{Cmd, PushInfo};

#[cfg(feature = "sentinel")]
use super::sentinel::MasterWatch;
#[cfg(feature = "cluster")]
use super::topology::Topology;
use super::{
    clock::BrokerClock,
    identity::Identity,
    name_watch::NameWatch,
    socket::OpenConnection,
    url::{Address, Target},
};

/// The role of a [`Router`](super::router::Router).
#[derive(Clone)]
pub(super) struct Role {
    /// How to log in.
    pub(super) target: Target,
    /// The servers to connect to.
    pub(super) at: At,
    /// Longest wait for a connection, and longest silence before an answer.
    pub(super) timeout: Duration,
    /// Longest attempt to connect.
    pub(super) connect_timeout: Duration,
    /// Learns Redis's time when a connection is made, and while it lasts.
    pub(super) clock: Arc<BrokerClock>,
    /// Sent on each new connection; a refusal counts as a failure to connect.
    pub(super) greeting: Vec<Cmd>,
    /// Receives the pushes of Redis, and [`ConnectionEvent::Lost`].
    pub(super) on_event: Option<Arc<dyn Fn(ConnectionEvent) + Send + Sync>>,
}

/// Which of the target's servers to connect to.
#[derive(Clone)]
pub(super) enum At {
    /// The one that the URL names.
    Target(NameWatch),
    /// The master that the sentinels of the URL name.
    #[cfg(feature = "sentinel")]
    Master(MasterWatch),
    /// Every master of the cluster.
    #[cfg(feature = "cluster")]
    Cluster(Topology),
    /// A certain node.
    #[cfg(feature = "cluster")]
    Node(Address),
    /// Any node: the first that accepts the connection.
    #[cfg(feature = "cluster")]
    AnyNode(Topology),
}

impl Role {
    /// Returns this role on one connection, which may lead to any node of a cluster.
    pub(super) fn on_one_server(self) -> Self {
        #[cfg(feature = "cluster")]
        if let At::Cluster(topology) = self.at {
            return Self { at: At::AnyNode(topology), ..self };
        }
        self
    }
}

impl At {
    /// Returns whether the URL asks for one server outside of a cluster.
    pub(super) fn is_alone(&self) -> bool {
        matches!(self, Self::Target(_)) || self.is_by_sentinels()
    }

    /// Returns whether sentinels name the server.
    pub(super) fn is_by_sentinels(&self) -> bool {
        #[cfg(feature = "sentinel")]
        if matches!(self, Self::Master(_)) {
            return true;
        }
        false
    }

    /// Returns whether Redis's time is asked for here while the connection lasts. The masters of a cluster may have clocks of their own,
    /// so the connection that asks for the map follows one of them.
    pub(super) fn tells_time(&self) -> bool {
        #[cfg(feature = "cluster")]
        if matches!(self, Self::Node(_)) {
            return false;
        }
        true
    }

    /// Returns the watch of the name in the URL, if that names the server.
    pub(super) fn name(&mut self) -> Option<&mut NameWatch> {
        match self {
            Self::Target(name) => Some(name),
            #[cfg(any(feature = "cluster", feature = "sentinel"))]
            _ => None,
        }
    }

    /// Waits until `server` is not the one to ask any more: the name in the URL leads elsewhere, the sentinels name another master, or
    /// it has left the cluster. `process` is the one at the other end of `connection`, if Redis tells it.
    #[cfg_attr(not(any(feature = "cluster", feature = "sentinel")), allow(unused_variables))]
    pub(super) async fn replaced(&mut self, server: &Address, connection: &OpenConnection, process: Option<&Identity>) {
        match self {
            Self::Target(name) => name.replaced(connection, process).await,
            #[cfg(feature = "sentinel")]
            Self::Master(watched) => watched.replaced(server).await,
            #[cfg(feature = "cluster")]
            Self::AnyNode(topology) => topology.left(server).await,
            #[cfg(feature = "cluster")]
            Self::Cluster(_) | Self::Node(_) => std::future::pending().await,
        }
    }
}

/// An event on a connection other than an answer.
#[derive(Debug)]
pub(super) enum ConnectionEvent {
    /// The connection is gone.
    Lost,
    /// Keys have moved between the nodes of a cluster.
    #[cfg(feature = "cluster")]
    Moved,
    /// Redis sent a push.
    Push(PushInfo),
}
