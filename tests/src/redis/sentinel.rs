//! One primary, one replica and three sentinels that watch both.

use std::{fs, sync::Mutex, time::Duration};

use ::redis::{Connection, FromRedisValue};
use asynq_test_support::{Guarded, PATIENCE, eventually_blocking as eventually, free_port, on_free_ports};

use super::Servers;

/// The sentinels' name for the master.
const MASTER: &str = "asynq";
/// The sentinels' password.
const WATCHWORD: &str = "watchword";
/// How long the primary may be silent before the replica takes over, where a test kills it. The limit is above a pause of a busy
/// machine: a failover that no test asked for would lose the writes that the primary has not replicated.
const QUICK: Duration = Duration::from_secs(5);

/// A Redis watched by sentinels; it ends with the test program.
#[derive(Debug)]
pub struct SentinelServers {
    servers: Vec<(Guarded, u16)>,
    sentinels: Vec<(Guarded, u16)>,
}

impl SentinelServers {
    /// Starts all five and waits until the sentinels know each other. They believe the primary alive for as long as a test
    /// waits: a primary that a slow machine stops for a moment stays the primary.
    pub fn start() -> Self {
        Self::with_down_after(PATIENCE)
    }

    /// [`start`](Self::start), but the replica takes over five seconds after the primary is gone, or soon after that.
    pub fn failing_over() -> Self {
        Self::with_down_after(QUICK)
    }

    /// The number of failovers by the log of a sentinel. The number exceeds that of the primaries killed if the sentinels took a
    /// slow one for dead.
    pub fn switches(&self) -> usize {
        self.sentinels[0].0.log().matches("+switch-master").count()
    }

    /// [`start`](Self::start), but the replica takes over when the primary has been silent for `down_after`.
    pub fn with_down_after(down_after: Duration) -> Self {
        let data = || on_free_ports(|| start_data(None));
        let primary = data();
        let replica = on_free_ports(|| start_data(Some(primary.1)));
        let sentinels = (0..3).map(|_| on_free_ports(|| start_sentinel(primary.1, down_after))).collect();
        let watched = Self { servers: vec![primary, replica], sentinels };
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

    /// The URL of the sentinels, without a login of the primary.
    pub fn url(&self) -> String {
        format!("redis-sentinel://{}", self.hosts())
    }

    /// Kills one of the two data servers, 0 being the first primary, as a power cut would.
    pub fn kill(&mut self, n: usize) {
        self.servers[n].0.kill();
    }

    /// Starts a killed data server again.
    pub fn restart(&mut self, n: usize) {
        self.servers[n].0.restart();
    }

    /// Kills the primary, waits until the replica has taken over, and starts the old primary again as a replica of the new one.
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

    /// Has all sentinels call the second data server the master, and leave the first one alone, which goes on as a master, too.
    pub fn name_the_other(&self) {
        let ask = |n: usize, words: &[&str]| {
            let mut connection = sentinel_connection(self.sentinels[n].1);
            ::redis::cmd("SENTINEL").arg(words).exec(&mut connection).expect("a sentinel that obeys");
        };
        (0..3).for_each(|n| ask(n, &["REMOVE", MASTER]));
        let _: String = self.command(1, &["REPLICAOF", "NO", "ONE"]);
        (0..3).for_each(|n| ask(n, &["MONITOR", MASTER, "127.0.0.1", &self.servers[1].1.to_string(), "2"]));
    }

    /// Kills a sentinel.
    pub fn kill_sentinel(&mut self, n: usize) {
        self.sentinels[n].0.kill();
    }

    /// Runs a command on one of the two data servers.
    pub fn command<T: FromRedisValue>(&self, n: usize, words: &[&str]) -> T {
        ::redis::cmd(words[0]).arg(&words[1..]).query(&mut self.servers[n].0.connection()).unwrap()
    }

    /// Waits until the replica has every write of the first primary.
    pub fn replicated(&self) {
        eventually("the replica is in step", || self.servers[0].0.is_replicated().then_some(()));
    }

    /// The index of the data server that a sentinel calls the master.
    pub fn master(&self) -> usize {
        let mut connection = sentinel_connection(self.sentinels[2].1);
        let (_, port): (String, u16) =
            ::redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(MASTER).query(&mut connection).unwrap();
        self.servers.iter().position(|(_, known)| *known == port).expect("one of the two")
    }

    /// Waits until the sentinels see both servers as a primary and its replica, so that the next failover can begin.
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

fn start_sentinel(primary: u16, down_after: Duration) -> Option<(Guarded, u16)> {
    let port = free_port();
    let server = Guarded::start(&[], |folder| {
        let text = format!(
            "port {port}\nbind 127.0.0.1\ndir {folder}\nlogfile log\nunixsocket redis.sock\nrequirepass {WATCHWORD}\n\
             sentinel monitor {MASTER} 127.0.0.1 {primary} 2\nsentinel down-after-milliseconds {MASTER} {down_after}\n\
             sentinel failover-timeout {MASTER} 4000\n",
            folder = folder.display(),
            down_after = down_after.as_millis(),
        );
        // A sentinel writes its file itself, too. The folder is removed at its end.
        let file = folder.join("sentinel.conf");
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

impl Servers for SentinelServers {
    const NAME: &'static str = "redis-sentinel";

    fn pool() -> &'static Mutex<Vec<Self>> {
        &POOL
    }

    fn start() -> Self {
        Self::start()
    }

    fn url_as(&self, login: &str) -> String {
        format!("redis-sentinel://{login}@{}", self.hosts())
    }

    fn all(&self) -> Vec<Connection> {
        self.servers.iter().map(|(server, _)| server.connection()).collect()
    }

    fn connections(&self) -> Vec<Connection> {
        vec![self.servers[0].0.connection()]
    }
}
