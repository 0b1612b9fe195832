//! Keeps the slot map true: asked of any node every two seconds, at once after a doubt, and corrected by what nodes say of
//! single slots.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::{
    super::{
        connection::Connection,
        reply::{answer, closed},
        role::{At, Role},
        slots::SlotMap,
        topology::Topology,
        url::Endpoints,
    },
    BrokerError, BrokerErrorKind, Call, Durability, Spawner,
};

/// How often to ask without a reason, and at most with one.
const EVERY: Duration = Duration::from_secs(2);
const AT_MOST_EVERY: Duration = Duration::from_millis(50);

/// Closes the topology when the task that asks ends, which is when the broker is closed.
struct Asking(Topology);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Begins to ask the nodes that the role's URL names.
pub(in super::super) fn open(io: &Spawner, role: Role) -> Topology {
    let seeds = match role.target.endpoints() {
        Endpoints::Cluster(seeds) => seeds.clone(),
        _ => Vec::new(),
    };
    let topology = Topology::new(seeds);
    let connection = Connection::open(io, Role { at: At::AnyNode(topology.clone()), ..role });
    io.spawn(keep(Asking(topology.clone()), connection));
    topology
}

async fn keep(asking: Asking, connection: Connection) {
    let topology = &asking.0;
    loop {
        let answer = ask(&connection).await;
        if answer.is_err() {
            connection.reconnect();
        }
        topology.learn(answer);
        sleep(AT_MOST_EVERY).await;
        // An end of this wait is as good a reason as a doubt.
        let _ = timeout(EVERY, topology.doubted()).await;
    }
}

async fn ask(connection: &Connection) -> Result<SlotMap, BrokerError> {
    let mut replies = connection.send(vec![Call::plain("CLUSTER").arg("SLOTS")], Durability::Async).await?;
    let value = replies.pop().map_or_else(|| Err(closed()), |reply| reply.value).and_then(answer);
    let value = value.map_err(|error| match error.kind() {
        BrokerErrorKind::Unexpected => BrokerError::with_source(
            BrokerErrorKind::Config,
            "this is not a node of a Redis Cluster: use a redis:// URL",
            error,
        ),
        _ => error,
    })?;
    let from = connection.connected_to().ok_or_else(|| unavailable("the connection was lost"))?;
    let map = SlotMap::read(value, &from)?;
    // A node that was thrown out, or has not met the others yet.
    if map.masters().is_empty() { Err(unavailable("this node of the cluster knows of no slots")) } else { Ok(map) }
}

fn unavailable(message: &str) -> BrokerError {
    BrokerError::new(BrokerErrorKind::Unavailable, message)
}
