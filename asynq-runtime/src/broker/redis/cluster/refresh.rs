//! Keeps the slot map up to date: asks any node every two seconds, and at once after a doubt, but less and less often while the answer
//! stays the same; the next node, if the one that is asked still names a master that fails, or does not hear of a move. Redirections
//! correct single slots in between.

use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::{
    super::{
        connection::Connection,
        reply::{answer, closed},
        role::{At, Role},
        slots::SlotMap,
        topology::{Sign, Topology},
        url::Endpoints,
    },
    BrokerError, Call, Durability,
};
use crate::{
    broker::{BrokerErrorKind, unavailable},
    thread::Tasks,
};

/// Longest pause between two nodes that are asked because of a [`Sign`] that the map is an old one.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long a sign counts.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);
/// Interval of the questions, and the shortest one while there are doubts and the answers change.
const EVERY: Duration = Duration::from_secs(2);
const AT_MOST_EVERY: Duration = Duration::from_millis(50);

/// Closes the topology when the task that asks ends, which is when the broker is closed.
struct CloseOnDrop(Topology);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Begins to ask the nodes that the role's URL names.
pub(in super::super) fn open(io: &Tasks, role: Role) -> Topology {
    let seeds = match &role.target.endpoints {
        Endpoints::Cluster(seeds) => seeds.clone(),
        _ => Vec::new(),
    };
    let (topology, unasked) = (Topology::new(seeds.clone()), seeds.len());
    let connection = Connection::open(io, Role { at: At::AnyNode(topology.clone()), ..role });
    io.spawn(refresh(CloseOnDrop(topology.clone()), connection, unasked));
    topology
}

/// `unasked` counts the nodes that the URL names.
async fn refresh(guard: CloseOnDrop, connection: Connection, mut unasked: usize) {
    let topology = &guard.0;
    // The attempt tries all seeds, which may take longer than a call waits. Its outcome is that of the first question.
    let _ = connection.first_attempt().await;
    let (mut since, mut pause, mut shortest) = (Instant::now(), EVERY, AT_MOST_EVERY);
    // The last sign that a map is an old one, and when it came.
    let mut last: Option<(Sign, Instant)> = None;
    loop {
        if let Some(sign) = topology.take_sign() {
            if last.as_ref().is_none_or(|(before, _)| *before != sign) {
                (pause, shortest) = (EVERY, AT_MOST_EVERY);
            }
            last = Some((sign, Instant::now()));
        }
        last = last.filter(|(_, at)| at.elapsed() < REMEMBERED_FOR);
        let answer = read_slots(&connection).await;
        // A node without slots was removed from the cluster, or has not met the others yet.
        let is_alone = answer.as_ref().is_ok_and(|map| map.masters().is_empty());
        let answer = if is_alone { Err(unavailable("this node of the cluster knows of no slots")) } else { answer };
        match &answer {
            Ok(map) if last.as_ref().is_none_or(|(sign, _)| !sign.is_against(map)) => {
                (last, pause) = (None, EVERY);
            }
            // A node that the others have left behind knows its old map for ever: the next node may know a newer one. Less and
            // less often, because most masters that are away have no successor yet.
            Ok(_) if since.elapsed() < pause => {}
            Ok(_) => {
                connection.reconnect();
                (since, pause) = (Instant::now(), (pause * 2).min(LONGEST_PAUSE));
            }
            Err(_) => {
                connection.reconnect();
                since = Instant::now();
            }
        }
        if is_alone && unasked > 1 {
            // It keeps no program from its start while another node may know the cluster.
            unasked -= 1;
            continue;
        }
        unasked = 0;
        let is_answered = answer.is_ok();
        let is_new = topology.learn(answer);
        sleep(shortest).await;
        // A time-out is as good a reason to ask as a doubt.
        let is_doubted = timeout(EVERY, topology.doubted()).await.is_ok();
        // Each call to a master that is away is a doubt, and many programs ask the same node.
        shortest = if is_doubted && is_answered && !is_new { (shortest * 2).min(EVERY) } else { AT_MOST_EVERY };
    }
}

async fn read_slots(connection: &Connection) -> Result<SlotMap, BrokerError> {
    let mut replies = connection.send(vec![Call::plain("CLUSTER").arg("SLOTS")], Durability::Async).await?;
    let value = replies.pop().map_or_else(|| Err(closed()), |reply| reply.value).and_then(answer);
    let value = value.map_err(|error| match error.kind() {
        BrokerErrorKind::Unexpected => BrokerError::with_source(
            BrokerErrorKind::Config,
            "this is not a node of a Redis Cluster: use a redis:// URL, or with TLS a rediss:// URL",
            error,
        ),
        _ => error,
    })?;
    let from = connection.connected_to().ok_or_else(|| unavailable("the connection was lost"))?;
    SlotMap::read(value, &from)
}
