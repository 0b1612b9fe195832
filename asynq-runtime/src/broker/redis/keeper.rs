//! Opens a connection, greets Redis on it, and does both again whenever it is lost.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ProtocolVersion, PushInfo, PushKind, Value, aio::MultiplexedConnection,
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{
    super::{BrokerError, BrokerErrorKind},
    clock::BrokerClock,
    connection::{State, answer},
    reply,
    url::Target,
};

/// Shortest and longest pause between two attempts to connect.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// What one [`Link`](super::connection::Link) is for.
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

/// Says that the connection of this `generation` is of no use any more.
pub(super) fn report_lost(lost: &watch::Sender<u64>, generation: u64) {
    lost.send_if_modified(|known| {
        let news = generation > *known;
        *known = (*known).max(generation);
        news
    });
}

/// The only one that connects.
pub(super) struct Keeper {
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
    pub(super) fn new(role: Role, state: watch::Sender<State>, lost: watch::Sender<u64>) -> Self {
        Self { role, state, lost, previous: None }
    }

    /// Keeps the connection up until dropped.
    pub(super) async fn run(mut self, mut reports: watch::Receiver<u64>) {
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
            Err(error) if reply::lacks_resp3(&error) && self.role.news.is_none() => {
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
            // It may be gone, or we may not be allowed to; but without an answer it is still to do.
            connection.send_packed_commands(&kill, 0, 1).await.map_err(reply::failed)?;
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
