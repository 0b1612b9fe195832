//! Three masters, a third of the slots each, with a replica each if wanted.

use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex, PoisonError},
    time::Duration,
};

use ::redis::{Connection, FromRedisValue, Value};
use asynq_test_support::{Calls, Guarded, PATIENCE, eventually_blocking as eventually, free_port, on_free_ports};

use super::{LIVENESS, Servers};
use crate::Need;

/// First slots of the three masters, and the end.
const THIRDS: [u16; 4] = [0, 5461, 10_923, 16_384];
/// How long a node may be silent before its replica takes over, where a test kills masters. The limit is above a pause of a busy
/// machine: a failover that no test asked for would lose the writes that the node has not replicated.
const QUICK: Duration = Duration::from_secs(5);

/// A Redis Cluster that ends with the test program.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Node>,
}

/// One redis-server of the cluster.
#[derive(Debug)]
struct Node {
    server: Guarded,
    port: u16,
    id: String,
}

impl RedisCluster {
    /// Starts three masters that keep nothing on disk, and believe each other alive for as long as a test waits: a node that a
    /// slow machine stops for a moment does not stop the cluster.
    pub fn start() -> Self {
        Self::with_nodes(3, PATIENCE)
    }

    /// Starts three masters with a replica each, which takes over five seconds after its master is gone, or soon after that.
    pub fn with_replicas() -> Self {
        let cluster = Self::with_nodes(6, QUICK);
        for (replica, master) in (3..6).map(|replica| (replica, replica - 3)) {
            let id = cluster.nodes[master].id.clone();
            eventually("the replica knows its master", || {
                cluster.try_command::<()>(replica, &["CLUSTER", "REPLICATE", &id]).ok()
            });
        }
        for replica in 3..6 {
            eventually("the replica is in step", || {
                cluster.info(replica, "replication").contains("master_link_status:up").then_some(())
            });
        }
        cluster.agree();
        cluster
    }

    /// Starts one master of all slots. To a program that does not see its mode it is the endpoint of a sharded Redis, which refuses a
    /// call on keys of several slots.
    pub fn behind_one_endpoint() -> Self {
        Self::with_nodes(1, PATIENCE)
    }

    fn with_nodes(n: usize, node_timeout: Duration) -> Self {
        let nodes = (0..n).map(|_| on_free_ports(|| start_node(node_timeout))).collect();
        let mut cluster = Self { nodes };
        for i in 0..n {
            let number = (i + 1).to_string();
            cluster.command::<()>(i, &["CLUSTER", "SET-CONFIG-EPOCH", &number]);
            if i < 3 {
                let end = if n == 1 { THIRDS[3] } else { THIRDS[i + 1] };
                let range = [THIRDS[i].to_string(), (end - 1).to_string()];
                cluster.command::<()>(i, &["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]]);
            }
            cluster.nodes[i].id = cluster.command(i, &["CLUSTER", "MYID"]);
        }
        for i in 0..n {
            for j in (0..n).filter(|j| *j != i) {
                let (port, bus) = (cluster.nodes[j].port.to_string(), bus_port(&cluster.nodes[j].server));
                cluster.command::<()>(i, &["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
            }
        }
        cluster.agree();
        cluster
    }

    /// Waits until every node knows all others and every slot is served.
    fn agree(&self) {
        let known = format!("cluster_known_nodes:{}\r", self.nodes.len());
        for node in 0..self.nodes.len() {
            eventually("the nodes agree", || {
                let info: String = self.command(node, &["CLUSTER", "INFO"]);
                (info.contains("cluster_state:ok") && info.contains(&known) && info.contains("slots_ok:16384"))
                    .then_some(())
            });
        }
    }

    /// `host:port` of every node.
    pub fn nodes(&self) -> String {
        self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect::<Vec<_>>().join(",")
    }

    /// The URL of the cluster, without a login.
    pub fn url(&self) -> String {
        format!("redis-cluster://{}", self.nodes())
    }

    /// The port of a node.
    pub fn port(&self, node: usize) -> u16 {
        self.nodes[node].port
    }

    /// Runs a command on one node.
    ///
    /// # Errors
    ///
    /// The error that Redis answers.
    pub fn try_command<T: FromRedisValue>(&self, node: usize, words: &[&str]) -> ::redis::RedisResult<T> {
        try_answer(&mut self.nodes[node].server.connection(), words)
    }

    /// Runs a command on one node and panics if it fails.
    pub fn command<T: FromRedisValue>(&self, node: usize, words: &[&str]) -> T {
        answer(&mut self.nodes[node].server.connection(), words)
    }

    fn info(&self, node: usize, section: &str) -> String {
        self.command(node, &["INFO", section])
    }

    /// Waits until a replica has every write of this master.
    pub fn replicated(&self, master: usize) {
        eventually("the replica is in step", || self.nodes[master].server.is_replicated().then_some(()));
    }

    /// The slot of a key, computed by Redis.
    pub fn slot(&self, key: &str) -> u16 {
        self.command(0, &["CLUSTER", "KEYSLOT", key])
    }

    /// The number of calls of a command on all nodes together, calls by scripts included.
    pub fn calls(&self, command: &str) -> u64 {
        let of_node = |node| {
            let stats: String = self.command(node, &["INFO", "commandstats"]);
            Calls::read(&stats).of(command)
        };
        (0..self.nodes.len()).map(of_node).sum()
    }

    /// The master of a slot, as node 0 sees it.
    pub fn owner(&self, slot: u16) -> usize {
        self.owner_seen_by(0, slot)
    }

    fn owner_seen_by(&self, node: usize, slot: u16) -> usize {
        let nodes: String = self.command(node, &["CLUSTER", "NODES"]);
        let owns = |line: &str| {
            line.split(' ').skip(8).any(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                matches!((first.parse::<u16>(), last.parse::<u16>()), (Ok(a), Ok(b)) if a <= slot && slot <= b)
            })
        };
        let id = nodes.lines().find(|line| owns(line)).and_then(|line| line.split(' ').next()).expect("an owner");
        self.nodes.iter().position(|node| node.id == id).expect("a node of ours")
    }

    /// Moves a slot with its keys to another master, as `redis-cli --cluster reshard` does, with a pause of milliseconds after
    /// each portion.
    pub fn move_slot(&self, slot: u16, to: usize, portion: usize) {
        let from = self.owner(slot);
        let text = slot.to_string();
        let id = |node: usize| self.nodes[node].id.clone();
        self.command::<()>(to, &["CLUSTER", "SETSLOT", &text, "IMPORTING", &id(from)]);
        self.command::<()>(from, &["CLUSTER", "SETSLOT", &text, "MIGRATING", &id(to)]);
        let port = self.nodes[to].port.to_string();
        let timeout = PATIENCE.as_millis().to_string();
        // There are hundreds of portions, and a connection costs more than a portion.
        let (mut source, portion) = (self.nodes[from].server.connection(), portion.to_string());
        eventually("the slot is empty", || {
            let keys: Vec<String> = answer(&mut source, &["CLUSTER", "GETKEYSINSLOT", &text, &portion]);
            if keys.is_empty() {
                return Some(());
            }
            let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", &timeout, "REPLACE", "KEYS"];
            words.extend(keys.iter().map(String::as_str));
            answer::<Value>(&mut source, &words);
            None
        });
        for node in [to, from].into_iter().chain((0..3).filter(|node| *node != to && *node != from)) {
            self.command::<()>(node, &["CLUSTER", "SETSLOT", &text, "NODE", &id(to)]);
        }
    }

    /// Kills a node as a power cut would.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].server.kill();
    }

    /// Kills the master of a key, waits until its replica has taken over, and starts the old master again as its replica.
    pub fn fail_over(&mut self, key: &str) {
        let slot = self.slot(key);
        let master = self.owner(slot);
        let other = (master + 1) % self.nodes.len();
        self.kill(master);
        eventually("the replica takes over", || (self.owner_seen_by(other, slot) != master).then_some(()));
        self.restart(master);
        self.agree();
        eventually("both are in step again", || {
            self.info(master, "replication").contains("master_link_status:up").then_some(())
        });
    }

    /// Starts a killed node again.
    pub fn restart(&mut self, node: usize) {
        self.nodes[node].server.restart();
    }
}

fn try_answer<T: FromRedisValue>(connection: &mut Connection, words: &[&str]) -> ::redis::RedisResult<T> {
    ::redis::cmd(words[0]).arg(&words[1..]).query(connection)
}

fn answer<T: FromRedisValue>(connection: &mut Connection, words: &[&str]) -> T {
    try_answer(connection, words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

fn start_node(node_timeout: Duration) -> Option<Node> {
    let (port, bus) = (free_port(), free_port());
    let node_timeout = node_timeout.as_millis().to_string();
    let options = [
        "--port",
        &port.to_string(),
        "--cluster-port",
        &bus.to_string(),
        "--cluster-enabled",
        "yes",
        "--cluster-node-timeout",
        &node_timeout,
        "--cluster-config-file",
        "nodes.conf",
        "--cluster-replica-validity-factor",
        "0",
        "--repl-diskless-sync-delay",
        "0",
    ];
    let arguments = options.map(str::to_owned).to_vec();
    let server = Guarded::start(&[], |_| arguments)?;
    Some(Node { server, port, id: String::new() })
}

/// The port of the cluster bus, where the other nodes reach this one.
fn bus_port(server: &Guarded) -> String {
    let pairs: Vec<String> =
        ::redis::cmd("CONFIG").arg("GET").arg("cluster-port").query(&mut server.connection()).unwrap();
    pairs[1].clone()
}

static POOL: Mutex<Vec<RedisCluster>> = Mutex::new(Vec::new());

impl Servers for RedisCluster {
    const NAME: &'static str = "redis-cluster";
    const GAPS: &'static [(Need, &'static str)] =
        &[LIVENESS, (Need::NameWithoutTag, "the keys of a queue whose name begins with } are spread over the cluster")];

    fn pool() -> &'static Mutex<Vec<Self>> {
        &POOL
    }

    fn start() -> Self {
        Self::start()
    }

    fn url_as(&self, login: &str) -> String {
        format!("redis-cluster://{login}@{}", self.nodes())
    }

    fn all(&self) -> Vec<Connection> {
        self.nodes.iter().map(|node| node.server.connection()).collect()
    }

    fn place(&self, key: &[u8], connections: &mut [Connection]) -> usize {
        // Redis is asked once for each tag. The thirds are those of every cluster.
        static PLACES: LazyLock<Mutex<HashMap<Vec<u8>, usize>>> = LazyLock::new(Mutex::default);
        let places = || PLACES.lock().unwrap_or_else(PoisonError::into_inner);
        // The lock is not held while a server is asked: one that is stopped would hold up other tests.
        let known = places().get(tag(key)).copied();
        known.unwrap_or_else(|| {
            let slot: u16 = ::redis::cmd("CLUSTER").arg("KEYSLOT").arg(key).query(&mut connections[0]).unwrap();
            let place = THIRDS[1..].iter().position(|end| slot < *end).expect("a slot");
            places().insert(tag(key).to_vec(), place);
            place
        })
    }
}

/// The part of a key that alone decides on its slot.
fn tag(key: &[u8]) -> &[u8] {
    let find = |text: &[u8], byte: u8| text.iter().position(|found| *found == byte);
    let inner = find(key, b'{').map(|open| &key[open + 1..]);
    let tag = inner.and_then(|inner| find(inner, b'}').map(|close| &inner[..close]));
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}
