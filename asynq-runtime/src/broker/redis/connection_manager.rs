//! Opens a connection, greets Redis on it, and does both again whenever it is lost.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use redis::{Pipeline, Value};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{
    super::{BrokerError, BrokerErrorKind, config, unavailable},
    back_off::{self, Life},
    clock::{BrokerClock, since_boot},
    connection_state::{State, Up, report_lost},
    identity::{Identity, info_field},
    name_watch::ask_role,
    open_connection::open_connection,
    reply::{self, answer},
    role::{At, ConnectionEvent, Role},
    socket::OpenConnection,
    url::{Address, Endpoints},
};
use crate::panics::Caught;

/// How often a program without a server that beats asks for Redis's time: that clock may be set, and this machine's stands still while
/// a hypervisor moves the machine.
const TIME_EVERY: Duration = Duration::from_secs(10);

/// Opens all connections of one role.
pub(super) struct ConnectionManager {
    role: Role,
    state: watch::Sender<State>,
    lost: watch::Sender<u64>,
    previous: Option<Arc<Identity>>,
    /// How many processes of Redis were met; one that was a replica meanwhile counts as another, because its data is another's.
    process: u64,
    /// The id of the history of its data (`master_replid`), where it is asked for.
    history: Option<String>,
}

impl ConnectionManager {
    pub(super) fn new(role: Role, state: watch::Sender<State>, lost: watch::Sender<u64>) -> Self {
        Self { role, state, lost, previous: None, process: 0, history: None }
    }

    /// Keeps the connection up until dropped.
    pub(super) async fn run(mut self, mut reports: watch::Receiver<u64>) {
        let (mut failures, mut down_since) = (0, None);
        for generation in 1.. {
            // The end of this task would be the end of the connection for good, so a panic is a failed attempt like any other.
            let attempted = Caught::new(self.keep_up(generation, &mut reports)).await;
            let pause = match attempted.unwrap_or_else(|panic| Err(panicked(&panic))) {
                Ok(life) => {
                    down_since = None;
                    failures = life.failures(failures);
                    back_off::after_loss(failures)
                }
                Err(error) => {
                    failures += 1;
                    // Until an event can be received, its waiters look from time to time.
                    let is_necessary = self.role.on_event.is_none();
                    let pause = back_off::after_failure(&error, is_necessary, failures);
                    let since = *down_since.get_or_insert_with(Instant::now);
                    self.state.send_replace(State::Down { error, since });
                    pause
                }
            };
            if !pause.is_zero() {
                sleep(pause).await;
            }
        }
    }

    /// Connects once, and returns when the connection is lost.
    async fn keep_up(&mut self, generation: u64, reports: &mut watch::Receiver<u64>) -> Result<Life, BrokerError> {
        let candidates = self.candidates(generation).await?;
        let (connection, to) = self.open_one_of(candidates, generation).await?;
        let since = Instant::now();
        let identity = self.previous.clone();
        let up = Arc::new(Up { connection, generation, process: self.process, to, identity });
        self.state.send_replace(State::Up(Arc::clone(&up)));
        let Up { connection, to, identity, .. } = &*up;
        let tells_time = self.role.at.tells_time();
        tokio::select! {
            // `self.lost` keeps the channel open.
            _ = reports.wait_for(|lost| *lost >= generation) => {}
            () = self.role.at.replaced(to, connection, identity.as_deref()) => {
                log!(info, left = %to, "this server is not the one to ask any more: connecting anew");
                report_lost(&self.lost, generation);
            }
            () = follow_time(&self.role.clock, connection), if tells_time => {}
        }
        self.state.send_replace(State::Opening);
        if let Some(listener) = &self.role.on_event {
            listener(ConnectionEvent::Lost);
        }
        Ok(Life { lasted: since.elapsed(), was_of_use: connection.was_of_use() })
    }

    /// Returns the addresses to try, in their order.
    #[cfg_attr(not(feature = "cluster"), allow(unused_variables))]
    async fn candidates(&mut self, generation: u64) -> Result<Vec<Address>, BrokerError> {
        match &mut self.role.at {
            #[cfg(feature = "cluster")]
            At::Node(address) => Ok(vec![address.clone()]),
            // Each generation begins with another node, so that one that does not answer is not the first every time.
            #[cfg(feature = "cluster")]
            At::AnyNode(topology) | At::Cluster(topology) => Ok(topology.nodes_from(generation)),
            #[cfg(feature = "sentinel")]
            At::Master(watched) => Ok(vec![watched.ask(self.role.connect_timeout).await?]),
            At::Target(name) => {
                name.begin();
                match &self.role.target.endpoints {
                    Endpoints::One(address) => Ok(vec![address.clone()]),
                    Endpoints::Cluster(seeds) => Ok(seeds.clone()),
                    Endpoints::Sentinel(_) => Err(config("no sentinels")),
                }
            }
        }
    }

    async fn open_one_of(
        &mut self,
        candidates: Vec<Address>,
        generation: u64,
    ) -> Result<(OpenConnection, Address), BrokerError> {
        let (mut failure, began, mut candidates) = (None, Instant::now(), candidates.into_iter());
        while let Some(address) = candidates.next() {
            let left = self.role.connect_timeout.saturating_sub(began.elapsed());
            // A server that does not answer leaves time for the others.
            let limit = if candidates.len() > 0 { left / 2 } else { left };
            match timeout(limit, self.open(&address, generation)).await {
                Ok(Ok(connection)) => return Ok((connection, address)),
                Ok(Err(error)) => failure = Some(self.located(&address, error)),
                Err(_) => failure = Some(self.located(&address, self.late())),
            }
        }
        Err(failure.unwrap_or_else(|| unavailable("no server is known")))
    }

    /// Returns the error of an attempt that took too long.
    fn late(&self) -> BrokerError {
        if self.role.target.tls.is_none() {
            return late();
        }
        // A Redis without TLS takes the greeting for the beginning of a command.
        let message = "Redis did not let us connect in time: on a port without TLS it does not answer a rediss:// URL";
        BrokerError::new(BrokerErrorKind::Timeout, message)
    }

    /// Names the server, where the URL does not: a node of a cluster, or the master that sentinels name.
    fn located(&self, address: &Address, error: BrokerError) -> BrokerError {
        if matches!(self.role.at, At::Target(_)) {
            return error;
        }
        BrokerError::with_source(error.kind(), format!("{address}: {error}"), error)
    }

    async fn open(&mut self, address: &Address, generation: u64) -> Result<OpenConnection, BrokerError> {
        let Role { target, timeout: idle_timeout, on_event, .. } = &self.role;
        let listener = on_event.clone().map(|notify| move |push| notify(ConnectionEvent::Push(push)));
        // A proxy may lack RESP3, and with it pushes. Only a role that needs no pushes falls back.
        let may_lack_resp3 = on_event.is_none();
        let lost = self.lost.clone();
        // The driver of an idle connection ends when the server closes it.
        let ended = move || report_lost(&lost, generation);
        let opening = open_connection(address, target, &target.login, listener, may_lack_resp3, *idle_timeout, ended);
        let (connection, _) = opening.await?;
        self.greet(&connection).await?;
        Ok(connection)
    }

    /// Reads the identity and the time of the server, checks its version, sends the role's greeting, and kills the previous
    /// connection to the same server, so that no call that is unread there runs late.
    async fn greet(&mut self, connection: &OpenConnection) -> Result<(), BrokerError> {
        let before = since_boot();
        let mut pipeline = redis::pipe();
        self.role.target.introduce(&mut pipeline);
        pipeline.cmd("TIME").cmd("CLIENT").arg("ID").cmd("INFO").arg("server");
        if self.role.at.is_by_sentinels() {
            pipeline.cmd("ROLE");
        }
        if self.role.at.name().is_some() {
            ask_role(&mut pipeline);
        }
        for command in &self.role.greeting {
            pipeline.add_command(command.clone());
        }
        let values = connection.exchange(&pipeline).await?;
        let after = since_boot();
        let mut values = values.into_iter();
        self.role.target.introduced(&mut values)?;
        let time = answer(values.next().unwrap_or_default())?;
        if let Some(time) = reply::time(&time) {
            self.role.clock.learn(before, time, after);
        }
        let client = values.next().unwrap_or_default();
        let info = values.next().and_then(reply::text).unwrap_or_default();
        if self.role.at.is_by_sentinels() {
            check_master(answer(values.next().unwrap_or_default())?)?;
        }
        let mut history = None;
        if let Some(name) = self.role.at.name() {
            let info = values.next().and_then(reply::text).unwrap_or_default();
            name.greeted(&info);
            history = info_field(&info, "master_replid").map(str::to_owned);
        }
        for value in values {
            answer(value)?;
        }
        check_version(&info)?;
        if self.role.at.is_alone() {
            check_mode(&info)?;
        }
        let identity = Identity::read(&client, &info).map(Arc::new);
        if let (Some(name), Some(previous), Some(identity)) = (self.role.at.name(), &self.previous, &identity) {
            name.led_to(previous, identity);
        }
        let same =
            self.previous.as_ref().zip(identity.as_ref()).filter(|(previous, now)| previous.run_id == now.run_id);
        self.process += u64::from(same.is_none() || history != self.history);
        self.history = history;
        if let Some((previous, _)) = same {
            // A call on the old connection that Redis has not read yet must not run after its repeat on the new one, so
            // the old connection is ended. An error that Redis answers is accepted: that connection may be gone, or the
            // ACL may forbid the command. Only a missing answer is a failure.
            let mut kill = Pipeline::new();
            kill.add_command(previous.kill());
            connection.exchange(&kill).await?;
        }
        self.previous = identity;
        Ok(())
    }
}

/// Asks for Redis's time again and again, unless a beat or another connection has learnt it meanwhile.
async fn follow_time(clock: &BrokerClock, connection: &OpenConnection) {
    let mut question = redis::pipe();
    question.cmd("TIME");
    loop {
        sleep(TIME_EVERY).await;
        if clock.is_fresh(TIME_EVERY) {
            continue;
        }
        let before = since_boot();
        // Whether the connection is lost is noticed by its calls and its driver.
        let Ok(values) = connection.exchange(&question).await else { continue };
        if let Some(time) = values.first().and_then(reply::time) {
            clock.learn(before, time, since_boot());
        }
    }
}

/// Returns whether `error` is the refusal of the connection to a node of a cluster, or to the master that sentinels name, and not
/// Redis's answer to a call.
pub(super) fn is_unconnected(error: &BrokerError) -> bool {
    // `located` has named the server.
    std::error::Error::source(error).is_some_and(|source| source.is::<BrokerError>())
}

pub(super) fn late() -> BrokerError {
    BrokerError::new(BrokerErrorKind::Timeout, "Redis did not let us connect in time")
}

fn panicked(panic: &str) -> BrokerError {
    let error = unavailable("connecting to Redis panicked, will try again");
    log!(error, "{error}: {panic}");
    error
}

/// Refuses a Redis older than 6.2, which `RPOP` with a count needs. A server that hides its version is accepted.
fn check_version(info: &str) -> Result<(), BrokerError> {
    let Some(version) = info_field(info, "redis_version") else { return Ok(()) };
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    if (parts.next(), parts.next()) >= (Some(6), Some(2)) {
        return Ok(());
    }
    Err(config(format!("Redis {version} is too old: asynq needs 6.2 or newer")))
}

/// Refuses a server that is not a master: sentinels may name one that is not the master yet, or no longer.
fn check_master(role: Value) -> Result<(), BrokerError> {
    let role = reply::array(role)?.into_iter().next().and_then(reply::text);
    if role.as_deref() == Some("master") {
        return Ok(());
    }
    Err(unavailable("the sentinels name a server that is not a master: a failover is on"))
}

/// Refuses a node of a cluster, or a sentinel, behind a URL of one server.
fn check_mode(info: &str) -> Result<(), BrokerError> {
    // Valkey has a name of its own for it.
    let kind = match info_field(info, "redis_mode").or_else(|| info_field(info, "server_mode")) {
        Some(kind @ ("cluster" | "sentinel")) => kind,
        _ => return Ok(()),
    };
    let message =
        format!("this is not a Redis of its own: use a redis-{kind}:// URL, or with TLS a rediss-{kind}:// URL");
    Err(config(message))
}

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    };

    use asynq_test_support::{PATIENCE, eventually};

    use super::{
        super::{
            connection::Connection,
            durability::Durability,
            fake_server::{Reaction, is_greeting, role_to, serve},
            script::Call,
        },
        *,
    };
    use crate::thread::Thread;

    #[tokio::test]
    async fn a_panic_while_a_connection_is_kept_is_a_failed_attempt_and_the_next_one_follows() {
        let (thread, has_panicked) = (Thread::start("t").unwrap(), AtomicBool::new(false));
        let on_event = move |event| {
            let is_first = matches!(event, ConnectionEvent::Lost) && !has_panicked.swap(true, Ordering::Relaxed);
            assert!(!is_first, "the first connection is lost");
        };
        let url = serve(|connection, bytes| match connection {
            0 if is_greeting(bytes) => Reaction::AnswerAndClose,
            _ => Reaction::Answer,
        });
        let role = Role { on_event: Some(Arc::new(on_event)), ..role_to(&url) };
        let connection = Connection::open(&thread.tasks(), role);
        let answered = async || connection.send(vec![Call::plain("PING")], Durability::Async).await.ok();
        eventually("a call on the second connection is answered", answered).await;
        assert_eq!(connection.generation(), 2);
    }

    /// Only a role without events can do without RESP3.
    #[tokio::test]
    async fn a_server_that_asks_for_a_login_in_answer_to_one_does_not_speak_resp3() {
        let (thread, url) = (Thread::start("t").unwrap(), serve(|_, _| Reaction::AskLogin));
        for (login, kind) in [(":secret@", BrokerErrorKind::Config), ("", BrokerErrorKind::Denied)] {
            let role = role_to(&url.replace("redis://", &format!("redis://{login}")));
            let role = Role { on_event: Some(Arc::new(|_: ConnectionEvent| {})), ..role };
            let error = Connection::open(&thread.tasks(), role).first_attempt().await.unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
        }
    }

    #[test]
    fn a_server_of_another_mode_names_its_scheme() {
        assert!(check_mode("redis_mode:standalone\r\n").is_ok() && check_mode("").is_ok());
        for (mode, scheme) in [
            ("redis_mode:cluster", "redis-cluster://"),
            ("redis_mode:sentinel", "redis-sentinel://"),
            ("server_mode:cluster", "redis-cluster://"),
        ] {
            let error = check_mode(&format!("{mode}\r\n")).unwrap_err();
            assert_eq!(error.kind(), BrokerErrorKind::Config);
            assert!(error.to_string().contains(scheme), "{error}");
        }
        let role = |name: &str| Value::Array(vec![Value::BulkString(name.into()), Value::Int(1)]);
        assert!(check_master(role("master")).is_ok());
        assert!(check_master(role("slave")).unwrap_err().is_unavailable());
        assert!(check_master(Value::Nil).unwrap_err().is_unavailable());
    }

    #[test]
    fn connections_that_are_lost_as_soon_as_they_are_made_are_opened_later_and_later() {
        let (sender, opened) = mpsc::channel();
        let url = serve(move |_, bytes| {
            if !is_greeting(bytes) {
                return Reaction::Answer;
            }
            let _ = sender.send(Instant::now());
            Reaction::AnswerAndClose
        });
        let thread = Thread::start("t").unwrap();
        let _connection = Connection::open(&thread.tasks(), role_to(&url));
        let opened: Vec<Instant> = (0..7).map(|_| opened.recv_timeout(PATIENCE).unwrap()).collect();
        let pauses: Duration = (1..7).map(back_off::back_off).sum();
        assert!(opened[6] - opened[0] >= pauses / 2, "{opened:?}");
    }

    #[test]
    fn a_redis_that_is_too_old_is_named() {
        for (info, good) in [
            ("redis_version:7.0.15\r\nrun_id:x\r\n", true),
            ("redis_version:6.2.0\r\n", true),
            ("redis_version:10.0\r\n", true),
            ("redis_version:6.0.16\r\n", false),
            ("redis_version:5.0.7\r\n", false),
            ("", true),
        ] {
            assert_eq!(check_version(info).is_ok(), good, "{info}");
        }
        assert!(check_version("redis_version:5.0.7").unwrap_err().to_string().contains("5.0.7"));
        assert_eq!(info_field("a:1\r\nrun_id:abc\r\n", "run_id"), Some("abc"));
    }
}
