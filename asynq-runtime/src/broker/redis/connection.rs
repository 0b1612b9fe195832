//! A connection that is always there or on its way: opened by one task, replaced when it is lost, never repeating a call.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use redis::{
    AsyncConnectionConfig, Client, Cmd, Pipeline, ProtocolVersion, PushInfo, PushKind, ServerErrorKind, Value,
    aio::MultiplexedConnection,
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{
    super::{BrokerError, BrokerErrorKind},
    clock::BrokerClock,
    io::Io,
    reply,
    script::Call,
    url::Target,
};

/// Shortest and longest pause between two attempts to connect.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// What one [`Link`] is for.
pub(super) struct Role {
    /// Where.
    pub(super) target: Target,
    /// Longest wait for a connection, and for an answer.
    pub(super) timeout: Duration,
    /// Learns Redis's time whenever a connection is made.
    pub(super) clock: Arc<BrokerClock>,
    /// Sent on each new connection; a refusal counts as a failure to connect.
    pub(super) greeting: Vec<Cmd>,
    /// Gets what Redis says unasked; and [`News::Connected`] and [`News::Lost`].
    pub(super) news: Option<Arc<dyn Fn(News) + Send + Sync>>,
}

/// What happens on a connection besides answers.
#[derive(Debug)]
pub(super) enum News {
    /// A new connection is there, greeted.
    Connected,
    /// The connection is gone.
    Lost,
    /// Redis says something.
    Push(PushInfo),
}

/// One connection of the broker, and whoever keeps it up.
#[derive(Debug, Clone)]
pub(super) struct Link {
    state: watch::Receiver<State>,
    lost: watch::Sender<u64>,
    timeout: Duration,
}

#[derive(Debug, Clone)]
enum State {
    Opening,
    Up { connection: MultiplexedConnection, generation: u64 },
    Down(BrokerError),
}

/// An answer to one command.
pub(super) type Answer = Result<Value, BrokerError>;

impl Link {
    /// Begins to connect, on `io`, and keeps the connection up until `io` ends or the link is dropped.
    pub(super) fn open(io: &Io, role: Role) -> Self {
        let (state, watched) = watch::channel(State::Opening);
        let (lost, reports) = watch::channel(0);
        let link = Self { state: watched, lost: lost.clone(), timeout: role.timeout };
        let keeper = Keeper { role, state: state.clone(), lost, previous: None };
        io.spawn(async move {
            tokio::select! {
                () = keeper.run(reports) => {}
                // The last clone of the link was dropped.
                () = state.closed() => {}
            }
        });
        link
    }

    /// Waits for the outcome of the first attempt to connect.
    pub(super) async fn first_attempt(&self) -> Result<(), BrokerError> {
        let mut state = self.state.clone();
        let state = state.wait_for(|state| !matches!(state, State::Opening)).await.map_err(|_| closed())?;
        match &*state {
            State::Down(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Counts the connections made; a new number means that Redis may be another or have restarted.
    pub(super) fn generation(&self) -> u64 {
        match &*self.state.borrow() {
            State::Up { generation, .. } => *generation,
            _ => 0,
        }
    }

    /// Sends `calls` in one write and returns one answer each. A script that Redis does not know is sent again with its
    /// text, alone; nothing else is ever sent twice.
    ///
    /// # Errors
    ///
    /// No answer at all. Whether any of the calls took effect is then unknown.
    pub(super) async fn send(&self, calls: &[Call]) -> Result<Vec<Answer>, BrokerError> {
        let mut pipeline = Pipeline::with_capacity(calls.len());
        for call in calls {
            pipeline.add_command(call.command().clone());
        }
        let mut answers = self.exchange(&pipeline).await?;
        let forgotten: Vec<usize> = (0..calls.len()).filter(|&i| is_noscript(answers.get(i))).collect();
        if !forgotten.is_empty() {
            let mut again = Pipeline::with_capacity(forgotten.len());
            for &i in &forgotten {
                if let Some(command) = calls[i].with_text() {
                    again.add_command(command);
                }
            }
            // The others were answered: their answers count whatever becomes of these.
            match self.exchange(&again).await {
                Ok(values) => forgotten.iter().zip(values).for_each(|(&i, value)| answers[i] = value),
                Err(error) if forgotten.len() == calls.len() => return Err(error),
                Err(error) => {
                    let late = answers.into_iter().enumerate();
                    return Ok(late
                        .map(|(i, value)| if forgotten.contains(&i) { Err(error.clone()) } else { answer(value) })
                        .collect());
                }
            }
        }
        Ok(answers.into_iter().map(answer).collect())
    }

    /// Sends one call.
    pub(super) async fn send_one(&self, call: Call) -> Answer {
        self.send(&[call]).await?.pop().unwrap_or_else(|| Err(reply::unexpected("no answer")))
    }

    async fn exchange(&self, pipeline: &Pipeline) -> Result<Vec<Value>, BrokerError> {
        let (mut connection, generation) = self.up().await?;
        // The connection has this time-out, too; but on a runtime whose timers are late only one of them may be seen.
        match connection.send_packed_commands(pipeline, 0, pipeline.len()).await {
            Ok(values) if values.len() == pipeline.len() => {
                if values.iter().any(is_demoted) {
                    self.report_lost(generation);
                }
                Ok(values)
            }
            Ok(_) => {
                self.report_lost(generation);
                Err(reply::unexpected("a wrong number of answers"))
            }
            Err(error) => {
                // A connection that does not answer may never do so again: a new one finds out.
                self.report_lost(generation);
                if self.state.has_changed().is_err() { Err(closed()) } else { Err(reply::failed(error)) }
            }
        }
    }

    /// The connection, waiting for one until the time-out.
    async fn up(&self) -> Result<(MultiplexedConnection, u64), BrokerError> {
        let usable = |state: &State| match state {
            // Whoever saw it fail has said so, before the keeper could take it away.
            State::Up { generation, .. } if *generation <= *self.lost.borrow() => None,
            State::Up { connection, generation } => Some(Ok((connection.clone(), *generation))),
            // Waiting does not change these.
            State::Down(error) if !error.is_unavailable() => Some(Err(error.clone())),
            State::Down(_) | State::Opening => None,
        };
        if self.state.has_changed().is_err() {
            return Err(closed());
        }
        if let Some(found) = usable(&self.state.borrow()) {
            return found;
        }
        let mut state = self.state.clone();
        match timeout(self.timeout, state.wait_for(|state| usable(state).is_some())).await {
            Ok(Ok(state)) => usable(&state).unwrap_or_else(|| Err(closed())),
            Ok(Err(_)) => Err(closed()),
            Err(_) => match &*self.state.borrow() {
                State::Down(error) => Err(error.clone()),
                _ => Err(BrokerError::new(BrokerErrorKind::Timeout, "Redis did not let us connect in time")),
            },
        }
    }

    /// Waits until the broker is closed, and returns the error that says so.
    pub(super) async fn ended(&self) -> BrokerError {
        let mut state = self.state.clone();
        while state.changed().await.is_ok() {}
        closed()
    }

    fn report_lost(&self, generation: u64) {
        report_lost(&self.lost, generation);
    }
}

fn report_lost(lost: &watch::Sender<u64>, generation: u64) {
    lost.send_if_modified(|known| {
        let news = generation > *known;
        *known = (*known).max(generation);
        news
    });
}

/// The only one that connects.
struct Keeper {
    role: Role,
    state: watch::Sender<State>,
    lost: watch::Sender<u64>,
    previous: Option<Identity>,
}

/// Which connection of which Redis process this is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    run_id: String,
    client: i64,
}

impl Keeper {
    async fn run(mut self, mut reports: watch::Receiver<u64>) {
        let mut failures = 0;
        for generation in 1.. {
            match self.connect(generation).await {
                Ok(connection) => {
                    let since = Instant::now();
                    self.state.send_replace(State::Up { connection, generation });
                    self.tell(News::Connected);
                    if reports.wait_for(|lost| *lost >= generation).await.is_err() {
                        return;
                    }
                    self.state.send_replace(State::Opening);
                    self.tell(News::Lost);
                    // A connection that is cut again and again must not make us spin.
                    failures = u32::from(since.elapsed() < BACK_OFF.1);
                }
                Err(error) => {
                    failures += 1;
                    self.state.send_replace(State::Down(error));
                }
            }
            if failures > 0 {
                sleep(back_off(failures)).await;
            }
        }
    }

    async fn connect(&mut self, generation: u64) -> Result<MultiplexedConnection, BrokerError> {
        let opened = timeout(self.role.timeout, self.open(generation)).await;
        let late = || BrokerError::new(BrokerErrorKind::Timeout, "Redis did not let us connect in time");
        opened.unwrap_or_else(|_| Err(late()))
    }

    async fn open(&mut self, generation: u64) -> Result<MultiplexedConnection, BrokerError> {
        let opened = self.open_with(ProtocolVersion::RESP3, generation).await;
        let opened = match opened {
            // A proxy, perhaps. Without RESP3 there is no news; whoever needs them has a role of its own.
            Err(error) if error.kind() == redis::ErrorKind::RESP3NotSupported && self.role.news.is_none() => {
                self.open_with(ProtocolVersion::RESP2, generation).await
            }
            opened => opened,
        };
        let mut connection = opened.map_err(reply::failed)?;
        self.greet(&mut connection).await?;
        Ok(connection)
    }

    async fn open_with(&self, protocol: ProtocolVersion, generation: u64) -> redis::RedisResult<MultiplexedConnection> {
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.role.timeout))
            .set_response_timeout(Some(self.role.timeout))
            .set_pipeline_buffer_size(256);
        if protocol == ProtocolVersion::RESP3 {
            let (lost, news) = (self.lost.clone(), self.role.news.clone());
            config = config.set_push_sender(move |push: PushInfo| -> Result<(), redis::aio::SendError> {
                if push.kind == PushKind::Disconnection {
                    report_lost(&lost, generation);
                } else if let Some(news) = &news {
                    news(News::Push(push));
                }
                Ok(())
            });
        }
        let info = self.role.target.connection_info(protocol).map_err(|error| {
            redis::RedisError::from((redis::ErrorKind::InvalidClientConfig, "address", error.to_string()))
        })?;
        Client::open(info)?.get_multiplexed_async_connection_with_config(&config).await
    }

    /// Asks who is there, learns its time, and sends the role's greeting.
    async fn greet(&mut self, connection: &mut MultiplexedConnection) -> Result<(), BrokerError> {
        let before = Utc::now();
        let mut pipeline = redis::pipe();
        pipeline.cmd("TIME").cmd("CLIENT").arg("ID").cmd("INFO").arg("server");
        for command in &self.role.greeting {
            pipeline.add_command(command.clone());
        }
        let values = connection.send_packed_commands(&pipeline, 0, pipeline.len()).await.map_err(reply::failed)?;
        let after = Utc::now();
        let mut values = values.into_iter();
        let time = answer(values.next().unwrap_or_default())?;
        if let Some(time) = read_time(&time) {
            self.role.clock.learn(before, time, after);
        }
        let client = values.next().and_then(|value| reply::number(&value));
        let info = values.next().and_then(reply::text).unwrap_or_default();
        for value in values {
            answer(value)?;
        }
        check_version(&info)?;
        let identity = client
            .zip(info_field(&info, "run_id"))
            .map(|(client, run_id)| Identity { run_id: run_id.to_owned(), client });
        if let (Some(previous), Some(identity)) = (&self.previous, &identity)
            && previous.run_id == identity.run_id
        {
            // What we sent on the old connection and Redis has not read yet must not be run after what we send again.
            let mut kill = redis::pipe();
            kill.cmd("CLIENT").arg("KILL").arg("ID").arg(previous.client);
            let _refused_at_worst = connection.send_packed_commands(&kill, 0, 1).await;
        }
        self.previous = identity;
        Ok(())
    }

    fn tell(&self, news: News) {
        if let Some(listener) = &self.role.news {
            listener(news);
        }
    }
}

/// 20 ms doubling to 1 s.
fn back_off(failures: u32) -> Duration {
    BACK_OFF.0.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(BACK_OFF.1)
}

/// Redis's answer to `TIME`.
pub(super) fn read_time(value: &Value) -> Option<DateTime<Utc>> {
    let Value::Array(parts) = value else { return None };
    let (seconds, micros) = (reply::number(parts.first()?)?, reply::number(parts.get(1)?)?);
    DateTime::from_timestamp(seconds, u32::try_from(micros).ok()?.checked_mul(1000)?)
}

fn info_field<'i>(info: &'i str, name: &str) -> Option<&'i str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// `RPOP` with a count needs 6.2. A server that does not say its version is believed.
fn check_version(info: &str) -> Result<(), BrokerError> {
    let Some(version) = info_field(info, "redis_version") else { return Ok(()) };
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    if (parts.next(), parts.next()) >= (Some(6), Some(2)) {
        return Ok(());
    }
    Err(BrokerError::new(BrokerErrorKind::Config, format!("Redis {version} is too old: asynq needs 6.2 or newer")))
}

fn answer(value: Value) -> Answer {
    match value {
        Value::ServerError(error) => Err(reply::refused(&error)),
        value => Ok(value),
    }
}

fn is_noscript(value: Option<&Value>) -> bool {
    matches!(value, Some(Value::ServerError(error)) if error.kind() == Some(ServerErrorKind::NoScript))
}

/// Whether a failover made this server a replica: its name may lead to the new master.
fn is_demoted(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::ReadOnly))
}

fn closed() -> BrokerError {
    BrokerError::new(BrokerErrorKind::Closed, "the broker was closed by this program")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_between_attempts_double_up_to_a_second() {
        let pauses: Vec<_> = (1..=8).map(|failures| back_off(failures).as_millis()).collect();
        assert_eq!(pauses, [20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert_eq!(back_off(u32::MAX), BACK_OFF.1);
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
