//! Keeps the slot map true: asked of any node every two seconds, at once after a hint that it is not, and corrected by
//! what nodes say of single slots.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};

use super::{
    super::{
        connection::{Connection, answer},
        connection_manager::{At, Role},
        url::{Address, Place},
    },
    BrokerError, BrokerErrorKind, Call, Durability, SlotMap, Spawner, closed,
};

/// How often to ask without a reason, and at most with one.
const EVERY: Duration = Duration::from_secs(2);
const AT_MOST_EVERY: Duration = Duration::from_millis(50);

/// What is known of the cluster; shared by all links of a broker.
#[derive(Clone)]
pub(in super::super) struct Topology(Arc<Inner>);

struct Inner {
    seeds: Vec<Address>,
    known: watch::Sender<Known>,
    /// Somebody has seen that the map is not true any more.
    doubt: Notify,
    connection: OnceLock<Connection>,
}

#[derive(Debug, Clone)]
struct Known {
    map: Arc<SlotMap>,
    /// The outcome of the last question; none before the first.
    asked: Option<Result<(), BrokerError>>,
}

impl Topology {
    /// Begins to ask the nodes that the role's URL names.
    pub(in super::super) fn open(io: &Spawner, role: Role) -> Self {
        let seeds = match role.target.place() {
            Place::Cluster(seeds) => seeds.clone(),
            _ => Vec::new(),
        };
        let (known, _) = watch::channel(Known { map: Arc::new(SlotMap::empty()), asked: None });
        let topology = Self(Arc::new(Inner { seeds, known, doubt: Notify::new(), connection: OnceLock::new() }));
        let connection = Connection::open(io, Role { at: At::AnyNode(topology.clone()), ..role });
        // It is set here and nowhere else.
        let _ = topology.0.connection.set(connection.clone());
        io.spawn(topology.clone().keep(connection));
        topology
    }

    async fn keep(self, connection: Connection) {
        loop {
            let asked = ask(&connection).await;
            if asked.is_err() {
                connection.reconnect();
            }
            self.0.known.send_if_modified(|known| {
                let first = known.asked.is_none();
                let (map, outcome) = match asked {
                    Ok(map) => (Some(map), Ok(())),
                    Err(error) => (None, Err(error)),
                };
                known.asked = Some(outcome);
                let news = map.filter(|map| *map != *known.map);
                let changed = news.is_some();
                if let Some(map) = news {
                    known.map = Arc::new(map);
                }
                first || changed
            });
            sleep(AT_MOST_EVERY).await;
            // An end of this wait is as good a reason as a doubt.
            let _ = timeout(EVERY, self.0.doubt.notified()).await;
        }
    }

    /// The map as it is.
    pub(super) fn now(&self) -> Arc<SlotMap> {
        Arc::clone(&self.0.known.borrow().map)
    }

    /// Wakes whenever the map changes.
    pub(super) fn watch(&self) -> watch::Receiver<impl Sized + use<>> {
        self.0.known.subscribe()
    }

    /// Waits for the outcome of the first question.
    pub(super) async fn first(&self) -> Result<Arc<SlotMap>, BrokerError> {
        let mut known = self.0.known.subscribe();
        let known = known.wait_for(|known| known.asked.is_some()).await.map_err(|_| closed())?;
        match &known.asked {
            Some(Err(error)) => Err(error.clone()),
            _ => Ok(Arc::clone(&known.map)),
        }
    }

    /// The map, waiting for the first one at most this long.
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

    /// Asks again soon.
    pub(super) fn refresh(&self) {
        self.0.doubt.notify_one();
    }

    /// One slot is at `to` now: so says the node that had it. Others may have moved with it.
    pub(super) fn moved(&self, slot: u16, to: &Address) {
        self.0.known.send_if_modified(|known| {
            let mut map = SlotMap::clone(&known.map);
            let changed = map.give(slot, to);
            if changed {
                known.map = Arc::new(map);
            }
            changed
        });
        self.refresh();
    }

    /// Every node, beginning with another one each time: one that does not answer must not be the first for ever.
    pub(in super::super) fn nodes_from(&self, turn: u64) -> Vec<Address> {
        let map = self.now();
        let mut nodes: Vec<Address> = Vec::new();
        for node in map.nodes().chain(&self.0.seeds) {
            if !nodes.contains(node) {
                nodes.push(node.clone());
            }
        }
        let size = nodes.len().max(1) as u64;
        nodes.rotate_left(usize::try_from(turn.wrapping_sub(1) % size).unwrap_or(0));
        nodes
    }

    pub(super) async fn ended(&self) -> BrokerError {
        match self.0.connection.get() {
            Some(connection) => connection.ended().await,
            None => closed(),
        }
    }
}

async fn ask(connection: &Connection) -> Result<SlotMap, BrokerError> {
    let mut replies = connection.send(vec![Call::plain("CLUSTER").arg("SLOTS")], Durability::Async).await?;
    let value = replies.pop().map_or_else(|| Err(closed()), |reply| reply.value).and_then(answer);
    let value = value.map_err(|error| match error.kind() {
        BrokerErrorKind::Unexpected => BrokerError::with_source(
            BrokerErrorKind::Config,
            "this is no node of a Redis Cluster: use a redis:// URL",
            error,
        ),
        _ => error,
    })?;
    let from = connection.connected_to().ok_or_else(|| lost("the connection was lost"))?;
    let map = SlotMap::read(value, &from)?;
    // A node that was thrown out, or has not met the others yet.
    if map.masters().is_empty() { Err(lost("this node of the cluster knows of no slots")) } else { Ok(map) }
}

fn lost(message: &str) -> BrokerError {
    BrokerError::new(BrokerErrorKind::Unavailable, message)
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topology").field("masters", &self.now().masters()).finish_non_exhaustive()
    }
}
