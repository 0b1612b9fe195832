//! The slot map of a cluster as it is known now; shared by all connections of a broker.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use super::{
    super::{BrokerError, BrokerErrorKind},
    reply::closed,
    slots::SlotMap,
    url::Address,
};

/// The known state of a cluster.
#[derive(Clone)]
pub(super) struct Topology(Arc<Inner>);

struct Inner {
    seeds: Vec<Address>,
    known: watch::Sender<Known>,
    /// Notified when a caller has seen that the map is not true any more.
    doubt: Notify,
    /// The last sign since the last question that a map may be an old one.
    sign: Mutex<Option<Sign>>,
}

/// A sign that a map is an old one.
#[derive(Debug, PartialEq)]
pub(super) enum Sign {
    /// This master fails, or waits for a failover.
    Fails(Address),
    /// A master has reported that the slot is at this one.
    Moved(u16, Address),
}

impl Sign {
    /// Returns whether `map` is still one that the sign speaks against.
    pub(super) fn is_against(&self, map: &SlotMap) -> bool {
        match self {
            Self::Fails(master) => map.masters().contains(master),
            Self::Moved(slot, to) => map.owner(*slot) != Some(to),
        }
    }
}

#[derive(Debug, Clone)]
struct Known {
    map: Arc<SlotMap>,
    /// The outcome of the last question; none before the first.
    outcome: Option<Result<(), BrokerError>>,
    /// Whether the broker was closed, so that nothing more will be known.
    is_closed: bool,
}

impl Topology {
    /// Creates the topology of a cluster of which only the nodes in the URL are known.
    pub(super) fn new(seeds: Vec<Address>) -> Self {
        let known = Known { map: Arc::new(SlotMap::empty()), outcome: None, is_closed: false };
        Self(Arc::new(Inner { seeds, known: watch::channel(known).0, doubt: Notify::new(), sign: Mutex::default() }))
    }

    /// Waits until a caller has doubts about the map.
    pub(super) async fn doubted(&self) {
        self.0.doubt.notified().await;
    }

    /// Notes the map that a node answered, or the reason why no node did. Returns whether the map is another one than before.
    pub(super) fn learn(&self, answer: Result<SlotMap, BrokerError>) -> bool {
        let mut is_changed = false;
        self.0.known.send_if_modified(|known| {
            let is_first = known.outcome.is_none();
            known.outcome = Some(answer.map(|map| {
                is_changed = map != *known.map;
                known.map = Arc::new(map);
            }));
            is_first || is_changed
        });
        is_changed
    }

    /// Ends all waits: the broker was closed.
    pub(super) fn close(&self) {
        self.0.known.send_modify(|known| known.is_closed = true);
    }

    /// Returns the current map.
    pub(super) fn now(&self) -> Arc<SlotMap> {
        Arc::clone(&self.0.known.borrow().map)
    }

    /// Waits until `node` is not in the map any more; for ever if it never is in it, since a name in the URL may stand for a node
    /// that the map names otherwise.
    pub(super) async fn left(&self, node: &Address) {
        let mut known = self.0.known.subscribe();
        for is_in in [true, false] {
            // The sender lives as long as this topology does.
            let _ = known.wait_for(|known| known.map.nodes().any(|other| other == node) == is_in).await;
        }
    }

    /// Returns a receiver that each change of the map wakes.
    pub(super) fn watch(&self) -> watch::Receiver<impl Sized + use<>> {
        self.0.known.subscribe()
    }

    /// Waits for the outcome of the first question.
    pub(super) async fn first(&self) -> Result<Arc<SlotMap>, BrokerError> {
        let mut known = self.0.known.subscribe();
        let known = known.wait_for(|known| known.outcome.is_some() || known.is_closed).await.map_err(|_| closed())?;
        match &known.outcome {
            Some(Err(error)) => Err(error.clone()),
            Some(Ok(())) => Ok(Arc::clone(&known.map)),
            None => Err(closed()),
        }
    }

    /// Returns the map; waits for the first one, at most for `patience`.
    pub(super) async fn map(&self, patience: Duration) -> Result<Arc<SlotMap>, BrokerError> {
        let map = self.now();
        if !map.masters().is_empty() {
            return Ok(map);
        }
        match timeout(patience, self.first()).await {
            Ok(map) => map,
            Err(_) => Err(BrokerError::new(BrokerErrorKind::Timeout, "no node of the cluster answered in time")),
        }
    }

    /// Has the map asked for again soon, because a call to `master` failed, or it answered that it waits for a failover.
    pub(super) fn failed(&self, master: &Address) {
        *self.0.sign.lock() = Some(Sign::Fails(master.clone()));
        self.0.doubt.notify_one();
    }

    /// Takes the last sign since this was asked.
    pub(super) fn take_sign(&self) -> Option<Sign> {
        self.0.sign.lock().take()
    }

    /// Notes that the slot is at `to` now, as the node reported that had it. Has the map asked for, because other slots
    /// may have moved with it.
    pub(super) fn moved(&self, slot: u16, to: &Address) {
        self.0.known.send_if_modified(|known| {
            let mut map = SlotMap::clone(&known.map);
            let changed = map.give(slot, to);
            if changed {
                known.map = Arc::new(map);
            }
            changed
        });
        *self.0.sign.lock() = Some(Sign::Moved(slot, to.clone()));
        self.0.doubt.notify_one();
    }

    /// Returns every node, beginning with another one each time: one that does not answer must not be the first for
    /// ever.
    pub(super) fn nodes_from(&self, first: u64) -> Vec<Address> {
        let map = self.now();
        let mut nodes: Vec<Address> = Vec::new();
        for node in map.nodes().chain(&self.0.seeds) {
            if !nodes.contains(node) {
                nodes.push(node.clone());
            }
        }
        let size = nodes.len().max(1) as u64;
        nodes.rotate_left(usize::try_from(first.wrapping_sub(1) % size).unwrap_or(0));
        nodes
    }

    /// Waits until the broker is closed, and returns the error that says so.
    pub(super) async fn ended(&self) -> BrokerError {
        // The sender lives as long as this topology does.
        let _ = self.0.known.subscribe().wait_for(|known| known.is_closed).await;
        closed()
    }
}
