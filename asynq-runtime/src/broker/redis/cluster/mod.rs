//! Routes calls to the masters of a Redis Cluster: one connection each, a batch split by owner and sent in parallel.
//!
//! The redis crate's own cluster client repeats calls without an answer; this one repeats none. A call that a node
//! refused because the slot is elsewhere was not run, and goes on to the node that the refusal names.

mod redirect;
mod refresh;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
    mem,
    sync::Arc,
    time::Instant,
};

use futures_util::future::join_all;
use parking_lot::Mutex;

use self::redirect::Redirect;
pub(super) use self::refresh::open as open_topology;
use super::{
    super::{BrokerError, far, unavailable},
    connection::{Away, Connection, Reply},
    durability::Durability,
    role::{At, ConnectionEvent, Role},
    script::Call,
    slots::{SlotMap, slot},
    topology::Topology,
    url::Address,
};
use crate::thread::Tasks;

/// Most redirections of one call; a slot that moves that often is still moving.
const HOPS: usize = 5;

/// The connections to every master, opened when they are needed.
#[derive(Clone)]
pub(super) struct Cluster(Arc<Shared>);

partial_debug!(Cluster { .. });

struct Shared {
    topology: Topology,
    role: Role,
    io: Tasks,
    connections: Mutex<HashMap<Address, Connection>>,
}

/// A call and the node that it goes to.
struct RoutedCall {
    /// Index of its reply.
    place: usize,
    call: Call,
    to: Address,
}

/// Calls to one node, and their replies.
type Trip = (Address, Vec<RoutedCall>, Result<Vec<Reply>, BrokerError>);

impl Cluster {
    pub(super) fn open(io: Tasks, role: Role, topology: Topology) -> Self {
        let mut maps = topology.watch();
        let shared = Arc::new(Shared { topology, role, io: io.clone(), connections: Mutex::default() });
        let watched = Arc::downgrade(&shared);
        io.spawn(async move {
            while maps.changed().await.is_ok()
                && let Some(shared) = watched.upgrade()
            {
                shared.close_removed(None);
                if let Some(notify) = &shared.role.on_event {
                    notify(ConnectionEvent::Moved);
                }
            }
        });
        Self(shared)
    }

    /// Waits until the nodes of the cluster are known.
    pub(super) async fn first_attempt(&self) -> Result<(), BrokerError> {
        self.0.topology.first().await.map(|_| ())
    }

    /// Returns a number that changes whenever one of the connections was opened again.
    pub(super) fn generation(&self) -> u64 {
        self.sum(Connection::generation)
    }

    /// Returns a number that changes whenever one of the connections leads to another process.
    pub(super) fn process(&self) -> u64 {
        self.sum(Connection::process)
    }

    /// Returns the sum of the numbers of all connections, to which their order does not matter.
    fn sum(&self, number: fn(&Connection) -> u64) -> u64 {
        let hashes = BuildHasherDefault::<DefaultHasher>::default();
        let hash = |(address, connection)| hashes.hash_one((address, number(connection)));
        self.0.connections.lock().iter().map(hash).fold(0, u64::wrapping_add)
    }

    /// Returns which node has which slot.
    pub(super) async fn map(&self) -> Result<Arc<SlotMap>, BrokerError> {
        self.0.topology.map(self.0.role.timeout).await
    }

    /// See [`Router::send`](super::router::Router::send).
    pub(super) async fn send(
        &self,
        calls: Vec<Call>,
        durability: Durability,
        away: Away,
    ) -> Result<Vec<Reply>, BrokerError> {
        let map = self.map().await.map_err(BrokerError::unsent)?;
        let deadline = far(Instant::now(), self.0.role.timeout);
        let mut replies: Vec<Option<Reply>> = vec![None; calls.len()];
        let owned = |(place, call)| Some(RoutedCall { place, to: self.owner(&map, &call)?, call });
        let mut open: Vec<RoutedCall> = calls.into_iter().enumerate().filter_map(owned).collect();
        let mut hops = 0;
        while !open.is_empty() {
            for (from, routed_calls, outcome) in self.travel(mem::take(&mut open), durability, away).await {
                let back = match outcome {
                    Ok(back) => back,
                    Err(error) => {
                        // The node may be gone for good, and another one may have its slots.
                        self.0.topology.failed(&from);
                        routed_calls.iter().for_each(|routed| replies[routed.place] = Some(refused(error.clone())));
                        continue;
                    }
                };
                for (routed, reply) in routed_calls.into_iter().zip(back) {
                    match Redirect::read(&reply.value, &from) {
                        Some(redirect) => {
                            if !redirect.asking {
                                self.0.topology.moved(redirect.slot, &redirect.to);
                            }
                            if hops < HOPS && Instant::now() < deadline {
                                let call = routed.call.asking(redirect.asking);
                                open.push(RoutedCall { place: routed.place, call, to: redirect.to });
                                continue;
                            }
                        }
                        None if redirect::is_down(&reply.value) => self.0.topology.failed(&from),
                        None => {}
                    }
                    replies[routed.place] = Some(reply);
                }
            }
            hops += 1;
        }
        Ok(replies.into_iter().map(|reply| reply.unwrap_or_else(|| refused(no_owner().unsent()))).collect())
    }

    /// Sends `call` to every master.
    pub(super) async fn send_to_each(&self, call: &Call, away: Away) -> Result<Vec<Reply>, BrokerError> {
        let map = self.map().await?;
        let routed_call = |to: &Address| RoutedCall { place: 0, call: call.clone(), to: to.clone() };
        let routed_calls = map.masters().iter().map(routed_call).collect();
        let trips = self.travel(routed_calls, Durability::Async, away).await;
        Ok(trips.into_iter().flat_map(|(_, _, outcome)| outcome.unwrap_or_else(|error| vec![refused(error)])).collect())
    }

    /// See [`Router::endpoints`](super::router::Router::endpoints).
    pub(super) async fn endpoints(&self) -> Result<Vec<Option<String>>, BrokerError> {
        let map = self.map().await?;
        Ok(map.masters().iter().map(|master| Some(master.to_string())).collect())
    }

    /// See [`Router::is_away`](super::router::Router::is_away).
    pub(super) fn is_away(&self, key: &str) -> bool {
        let (map, connections) = (self.0.topology.now(), self.0.connections.lock());
        let connection = map.owner(slot(key.as_bytes())).and_then(|owner| connections.get(owner));
        connection.is_some_and(|connection| connection.away().is_some())
    }

    /// See [`Router::owners`](super::router::Router::owners).
    pub(super) async fn owners(&self, keys: &[String]) -> Result<Vec<Option<String>>, BrokerError> {
        let map = self.map().await?;
        Ok(keys.iter().map(|key| map.owner(slot(key.as_bytes())).map(ToString::to_string)).collect())
    }

    pub(super) async fn ended(&self) -> BrokerError {
        let error = self.0.topology.ended().await;
        // The tasks of the nodes end in any order, and a connection that is opened from now on never comes up.
        let connections: Vec<Connection> = self.0.connections.lock().values().cloned().collect();
        for connection in connections {
            connection.ended().await;
        }
        error
    }

    /// Returns the master that keeps the call's key; for a call without a key, a node that is connected already.
    fn owner(&self, map: &SlotMap, call: &Call) -> Option<Address> {
        if let Some(key) = call.routing_key() {
            return map.owner(slot(key)).cloned();
        }
        let connections = self.0.connections.lock();
        let up = map
            .masters()
            .iter()
            .find(|master| connections.get(*master).is_some_and(|connection| connection.generation() > 0));
        up.or_else(|| map.masters().first()).cloned()
    }

    /// Sends every call once: those to one node in one batch, and to all nodes concurrently.
    async fn travel(&self, routed_calls: Vec<RoutedCall>, durability: Durability, away: Away) -> Vec<Trip> {
        let mut by_node: Vec<(Address, Vec<RoutedCall>)> = Vec::new();
        for routed in routed_calls {
            match by_node.iter_mut().find(|(to, _)| *to == routed.to) {
                Some((_, some)) => some.push(routed),
                None => by_node.push((routed.to.clone(), vec![routed])),
            }
        }
        let trip = |to: Address, routed_calls: Vec<RoutedCall>| {
            let connection = self.connection(&to);
            async move {
                let gone = match away {
                    Away::Fails => connection.away(),
                    Away::FailsAtOnce => connection.unreachable().await,
                    Away::IsWaitedFor => None,
                };
                let outcome = match gone {
                    Some(error) => Err(error),
                    // Each call is copied, because the node may redirect it.
                    None => {
                        connection
                            .send(routed_calls.iter().map(|routed| routed.call.clone()).collect(), durability)
                            .await
                    }
                };
                (to, routed_calls, outcome)
            }
        };
        if by_node.len() == 1
            && let Some((to, routed_calls)) = by_node.pop()
        {
            return vec![trip(to, routed_calls).await];
        }
        // `join_all` keeps their order, by which a caller that asks each node several questions tells the answers apart.
        join_all(by_node.into_iter().map(|(to, routed_calls)| trip(to, routed_calls))).await
    }

    /// Returns the connection to a node.
    fn connection(&self, to: &Address) -> Connection {
        let mut connections = self.0.connections.lock();
        if let Some(connection) = connections.get(to) {
            return connection.clone();
        }
        let connection = Connection::open(&self.0.io, Role { at: At::Node(to.clone()), ..self.0.role.clone() });
        connections.insert(to.clone(), connection.clone());
        drop(connections);
        // A call that was routed by the map before may have opened this one again.
        self.0.close_removed(Some(to));
        connection
    }
}

impl Shared {
    /// Closes the connections, but one, to nodes that have left the cluster: another server may have such an address later, and would be
    /// sent the login.
    fn close_removed(&self, but: Option<&Address>) {
        let map = self.topology.now();
        self.connections.lock().retain(|address, _| but == Some(address) || map.masters().contains(address));
    }
}

fn refused(error: BrokerError) -> Reply {
    Reply { value: Err(error), doubt: None }
}

fn no_owner() -> BrokerError {
    unavailable("no node of the cluster has this queue now")
}
