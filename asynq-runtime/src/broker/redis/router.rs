//! Routes calls to Redis: to one server, or to every master of a cluster.

// One server needs neither the place of a key nor to be told which node is away.
#![cfg_attr(not(feature = "cluster"), allow(unused_variables))]

use redis::Value;

use super::{
    super::BrokerError,
    connection::{Away, Connection, Reply},
    durability::Durability,
    effect,
    identity::Identity,
    io::Io,
    reply::{self, answer},
    role::Role,
    script::Call,
};
#[cfg(feature = "cluster")]
use super::{cluster::Cluster, role::At};

/// Sends calls to the servers that keep their keys.
#[derive(Debug, Clone)]
pub(super) enum Router {
    One(Connection),
    #[cfg(feature = "cluster")]
    Many(Cluster),
}

/// An answer to one command.
pub(super) type Answer = Result<Value, BrokerError>;

impl Router {
    /// Begins to connect, on `io`, and keeps the connections up until `io` ends or the router is dropped.
    pub(super) fn open(io: &Io, role: Role) -> Self {
        #[cfg(feature = "cluster")]
        if let At::Cluster(topology) = &role.at {
            let topology = topology.clone();
            return Self::Many(Cluster::open(io.tasks.clone(), role, topology));
        }
        Self::One(Connection::open(&io.tasks, role))
    }

    /// Waits for the outcome of the first attempt to connect.
    pub(super) async fn first_attempt(&self) -> Result<(), BrokerError> {
        match self {
            Self::One(connection) => connection.first_attempt().await,
            #[cfg(feature = "cluster")]
            Self::Many(cluster) => cluster.first_attempt().await,
        }
    }

    /// Returns a number that changes with each new connection; then Redis may be another or have restarted.
    pub(super) fn generation(&self) -> u64 {
        match self {
            Self::One(connection) => connection.generation(),
            #[cfg(feature = "cluster")]
            Self::Many(cluster) => cluster.generation(),
        }
    }

    /// Returns a number that changes once a connection leads to another process of Redis, which may have older data.
    pub(super) fn process(&self) -> u64 {
        match self {
            Self::One(connection) => connection.process(),
            #[cfg(feature = "cluster")]
            Self::Many(cluster) => cluster.process(),
        }
    }

    /// Sends `calls`, those for one server in one write, or in several where they are large, and returns one answer
    /// each. Calls whose keys are on different masters run in no particular order. A script that Redis does not know is
    /// sent again with its text, and a call that a node of a cluster redirected without running it goes to the node
    /// that it named; nothing else is ever sent twice.
    ///
    /// # Errors
    ///
    /// No call was answered. Whether any of them took effect is then unknown, unless the error [`is_unsent`](BrokerError::is_unsent).
    pub(super) async fn send(&self, calls: Vec<Call>) -> Result<Vec<Answer>, BrokerError> {
        let replies = self.deliver(calls, Durability::Async, Away::Fails).await?;
        Ok(replies.into_iter().map(|reply| reply.value.and_then(answer)).collect())
    }

    /// Sends one call.
    pub(super) async fn send_one(&self, call: Call) -> Answer {
        self.send_together([call]).await.and_then(|[answer]| answer)
    }

    /// Sends a few calls as [`send`](Self::send) does.
    pub(super) async fn send_together<const N: usize>(&self, calls: [Call; N]) -> Result<[Answer; N], BrokerError> {
        self.send(calls.into()).await?.try_into().map_err(|_| reply::unexpected("no answer"))
    }

    /// Sends calls of which only the success matters, and returns the first error.
    pub(super) async fn send_all(&self, calls: Vec<Call>) -> Result<(), BrokerError> {
        self.send(calls).await?.into_iter().try_for_each(|answer| answer.map(drop))
    }

    /// Sends one call that changes something. An error says whether the change may have been made, where Redis was unavailable.
    pub(super) async fn change(&self, call: Call) -> Answer {
        self.send_one(call).await.map_err(effect::of_change)
    }

    /// Sends `calls` as [`send`](Self::send) does, and returns with each answer the reason why `durability` was not
    /// reached. The wait blocks the connection, which should be used for nothing else. A single server that is away is treated
    /// as a node of a cluster here: other calls of the broker have loops of their own, which wait for it.
    pub(super) async fn send_safely(
        &self,
        calls: Vec<Call>,
        durability: Durability,
        away: Away,
    ) -> Result<Vec<(Answer, Option<BrokerError>)>, BrokerError> {
        if let Self::One(connection) = self
            && away == Away::Fails
            && let Some(error) = connection.away()
        {
            return Err(error);
        }
        let replies = self.deliver(calls, durability, away).await?;
        Ok(replies.into_iter().map(|Reply { value, doubt }| (value.and_then(answer), doubt)).collect())
    }

    /// Takes one step of a walk over the keys of the server that keeps `beside`. Returns those that match, and the cursor of the next step,
    /// `None` at the end.
    pub(super) async fn scan(
        &self,
        beside: &str,
        cursor: &str,
        pattern: &str,
        count: usize,
    ) -> Result<(Vec<String>, Option<String>), BrokerError> {
        let scan = Call::plain("SCAN").arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(count);
        let (found, next) = reply::scanned(self.send_one(scan.beside(beside)).await?)?;
        Ok((found.into_iter().filter_map(reply::text).collect(), next))
    }

    /// Ends another connection of this broker, so that Redis runs no call of it from now on.
    pub(super) async fn end_abandoned(&self, other: &Identity) -> Result<(), BrokerError> {
        match self {
            Self::One(connection) => connection.end_abandoned(other).await,
            // There is no connection beside those of the cluster.
            #[cfg(feature = "cluster")]
            Self::Many(_) => Ok(()),
        }
    }

    /// Sends `call` to every server that takes writes.
    pub(super) async fn send_to_each(&self, call: Call) -> Result<Vec<Answer>, BrokerError> {
        self.deliver_to_each(call, Away::Fails).await
    }

    /// Sends `call` as [`send_to_each`](Self::send_to_each) does, and waits for no node of a cluster to which the last attempt to connect
    /// has failed.
    pub(super) async fn send_to_reachable(&self, call: Call) -> Result<Vec<Answer>, BrokerError> {
        self.deliver_to_each(call, Away::FailsAtOnce).await
    }

    /// Returns where this program reaches each server, in the order of [`send_to_each`](Self::send_to_each); `None` for a server
    /// that is away.
    pub(super) async fn endpoints(&self) -> Result<Vec<Option<String>>, BrokerError> {
        match self {
            Self::One(connection) => Ok(vec![connection.connected_to().map(|address| address.to_string())]),
            #[cfg(feature = "cluster")]
            Self::Many(cluster) => cluster.endpoints().await,
        }
    }

    /// Returns whether the keys may lie on several servers.
    pub(super) fn has_parts(&self) -> bool {
        !matches!(self, Self::One(_))
    }

    /// Returns whether the server that keeps this key has been away for longer than calls wait for a connection.
    pub(super) fn is_away(&self, key: &str) -> bool {
        match self {
            Self::One(connection) => connection.away().is_some(),
            #[cfg(feature = "cluster")]
            Self::Many(cluster) => cluster.is_away(key),
        }
    }

    /// Names the server that keeps each of these keys; `None` for a key that no node of a cluster keeps just now.
    ///
    /// # Errors
    ///
    /// The nodes of the cluster are not known.
    pub(super) async fn owners(&self, keys: &[String]) -> Result<Vec<Option<String>>, BrokerError> {
        match self {
            Self::One(_) => Ok(vec![Some(String::new()); keys.len()]),
            #[cfg(feature = "cluster")]
            Self::Many(cluster) => cluster.owners(keys).await,
        }
    }

    /// Waits until the broker is closed, and returns the error that says so.
    pub(super) async fn ended(&self) -> BrokerError {
        match self {
            Self::One(connection) => connection.ended().await,
            #[cfg(feature = "cluster")]
            Self::Many(cluster) => cluster.ended().await,
        }
    }

    async fn deliver_to_each(&self, call: Call, away: Away) -> Result<Vec<Answer>, BrokerError> {
        match self {
            Self::One(_) => self.send(vec![call]).await,
            #[cfg(feature = "cluster")]
            Self::Many(cluster) => {
                let replies = cluster.send_to_each(&call, away).await?;
                Ok(replies.into_iter().map(|reply| reply.value.and_then(answer)).collect())
            }
        }
    }

    async fn deliver(&self, calls: Vec<Call>, durability: Durability, away: Away) -> Result<Vec<Reply>, BrokerError> {
        // A batch may be empty, and a cluster without a map must not hold that up.
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        match self {
            Self::One(connection) => connection.send(calls, durability).await,
            #[cfg(feature = "cluster")]
            Self::Many(cluster) => cluster.send(calls, durability, away).await,
        }
    }
}
