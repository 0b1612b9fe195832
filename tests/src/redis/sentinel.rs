//! One primary, one replica and three sentinels who watch them.

use std::{fs, sync::Mutex, time::Duration};

use ::redis::{Connection, FromRedisValue};
use asynq_test_support::{PATIENCE, eventually_blocking as eventually};
use tempfile::TempDir;

use super::{
    Servers,
    guard::{Guarded, on_free_ports},
    pool::{Lent, Pooled},
    port::free_port,
};

/// Their name for the master.
const MASTER: &str = "asynq";
/// The sentinels' password.
const WATCHWORD: &str = "watchword";
/// How long the primary may be silent before the replica takes over, where a test kills it. A primary that a busy machine stops
/// for a moment is not taken for dead: what it has stored and not replicated would be lost, though no test killed it.
const QUICK: Duration = Duration::from_secs(5);

/// A watched Redis; it ends with the test program.
#[derive(Debug)]
pub struct SentinelServers {
    servers: Vec<(Guarded, u16)>,
    sentinels: Vec<(Guarded, u16)>,
    /// The files of the sentinels, which they write themselves.
    _files: TempDir,
}

impl SentinelServers {
    /// Starts all five and waits until they know each other. They believe the primary alive for as long as a test waits: one
    /// that a slow machine stops for a moment stays the primary.
    pub fn start() -> Self {
        Self::with_silence(PATIENCE)
    }

    /// The same, but the replica takes over five seconds after the primary is gone, or soon after that.
    pub fn failing_over() -> Self {
        Self::with_silence(QUICK)
    }

    /// How many times a sentinel has seen another become the primary, by its own log: more often than a test killed one if they
    /// took one for dead that only was slow.
    pub fn switches(&self) -> usize {
        self.sentinels[0].0.log().matches("+switch-master").count()
    }

    /// The same after so much silence of the primary.
    pub fn with_silence(silence: Duration) -> Self {
        let data = || on_free_ports(|| start_data(None));
        let primary = data();
        let replica = on_free_ports(|| start_data(Some(primary.1)));
        let files = TempDir::new().expect("a temp dir for the sentinels");
        let sentinels = (0..3).map(|n| on_free_ports(|| start_sentinel(n, primary.1, &files, silence))).collect();
        let watched = Self { servers: vec![primary, replica], sentinels, _files: files };
        for n in 0..3 {
            eventually("the sentinels know each other", || watched.sentinel_is_ready(n).then_some(()));
        }
        watched
    }

    fn sentinel_is_ready(&self, n: usize) -> bool {
        let mut connection = sentinel_connection(self.sentinels[n].1);
        let known: std::collections::HashMap<String, String> =
            ::redis::cmd("SENTINEL").arg("MASTER").arg(MASTER).query(&mut connection).unwrap();
        known["num-other-sentinels"] == "2" && known["num-slaves"] == "1" && known["flags"] == "master"
    }

    /// The URL's part from the hosts on.
    pub fn hosts(&self) -> String {
        let hosts: Vec<String> = self.sentinels.iter().map(|(_, port)| format!("127.0.0.1:{port}")).collect();
        format!("{}/0?master={MASTER}&sentinel_pass={WATCHWORD}", hosts.join(","))
    }

    /// Its URL, without a login of the primary's.
    pub fn url(&self) -> String {
        format!("redis-sentinel://{}", self.hosts())
    }

    /// Kills one of the two that keep data, 0 being the first primary, as a power cut would.
    pub fn kill(&mut self, n: usize) {
        self.servers[n].0.kill();
    }

    /// Starts it again.
    pub fn restart(&mut self, n: usize) {
        self.servers[n].0.restart();
    }

    /// Kills the primary, waits until the replica has taken over, and starts it again as the replica of that.
    pub fn fail_over(&mut self) {
        let primary = self.master();
        self.kill(primary);
        eventually("the replica takes over", || (self.master() != primary).then_some(()));
        self.rejoin(primary);
    }

    /// Starts a killed primary again as the replica of its successor, and waits until the sentinels know both.
    pub fn rejoin(&mut self, n: usize) {
        let successor = self.servers[1 - n].1;
        self.servers[n].0.follow(successor);
        self.restart(n);
        self.settled();
    }

    /// Kills a sentinel.
    pub fn kill_sentinel(&mut self, n: usize) {
        self.sentinels[n].0.kill();
    }

    /// Runs a command on one of the two that keep data.
    pub fn command<T: FromRedisValue>(&self, n: usize, words: &[&str]) -> T {
        ::redis::cmd(words[0]).arg(&words[1..]).query(&mut self.servers[n].0.connection()).unwrap()
    }

    /// Waits until the replica has everything that the first primary has.
    pub fn replicated(&self) {
        eventually("the replica is in step", || self.servers[0].0.is_replicated().then_some(()));
    }

    /// The master by the word of a sentinel: its place among the two.
    pub fn master(&self) -> usize {
        let mut connection = sentinel_connection(self.sentinels[2].1);
        let (_, port): (String, u16) =
            ::redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(MASTER).query(&mut connection).unwrap();
        self.servers.iter().position(|(_, known)| *known == port).expect("one of the two")
    }

    /// Waits until the sentinels know both servers as they are, so that the next failover can begin.
    pub fn settled(&self) {
        for n in 0..3 {
            eventually("both servers are up again", || {
                let replica = 1 - self.master();
                let mut connection = self.servers[replica].0.connection();
                let info: String = ::redis::cmd("INFO").arg("replication").query(&mut connection).ok()?;
                (info.contains("role:slave") && info.contains("master_link_status:up") && self.sentinel_is_ready(n))
                    .then_some(())
            });
        }
    }
}

fn start_data(primary: Option<u16>) -> Option<(Guarded, u16)> {
    let port = free_port();
    let mut arguments: Vec<String> =
        ["--port", &port.to_string(), "--repl-diskless-sync-delay", "0"].map(str::to_owned).to_vec();
    if let Some(primary) = primary {
        arguments.extend(["--replicaof".to_owned(), format!("127.0.0.1 {primary}")]);
    }
    Some((Guarded::start(&[], |_| arguments)?, port))
}

fn start_sentinel(n: usize, primary: u16, files: &TempDir, silence: Duration) -> Option<(Guarded, u16)> {
    let port = free_port();
    let file = files.path().join(format!("sentinel-{n}-{port}.conf"));
    let server = Guarded::start(&[], |folder| {
        let text = format!(
            "port {port}\nbind 127.0.0.1\ndir {folder}\nlogfile log\nunixsocket redis.sock\nrequirepass {WATCHWORD}\n\
             sentinel monitor {MASTER} 127.0.0.1 {primary} 2\nsentinel down-after-milliseconds {MASTER} {silence}\n\
             sentinel failover-timeout {MASTER} 4000\n",
            folder = folder.display(),
            silence = silence.as_millis(),
        );
        fs::write(&file, text).expect("a file in a temp dir");
        vec![file.display().to_string(), "--sentinel".to_owned()]
    })?;
    Some((server, port))
}

fn sentinel_connection(port: u16) -> Connection {
    let url = format!("redis://:{WATCHWORD}@127.0.0.1:{port}");
    ::redis::Client::open(url).unwrap().get_connection().expect("the sentinel answers")
}

static POOL: Mutex<Vec<SentinelServers>> = Mutex::new(Vec::new());

impl Pooled for SentinelServers {
    fn pool() -> &'static Mutex<Vec<Self>> {
        &POOL
    }

    fn start() -> Self {
        Self::start()
    }

    fn all(&self) -> Vec<Connection> {
        self.servers.iter().map(|(server, _)| server.connection()).collect()
    }
}

impl Servers for Lent<SentinelServers> {
    const NAME: &'static str = "redis-sentinel";

    fn take() -> Self {
        Lent::take()
    }

    fn url(&self) -> String {
        format!("redis-sentinel://{}@{}", self.login(), self.hosts())
    }

    fn connections(&self) -> Vec<Connection> {
        vec![self.servers[0].0.connection()]
    }
}
