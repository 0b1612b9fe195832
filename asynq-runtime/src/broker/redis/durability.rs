//! How safe an enqueue is when it returns.

use std::{ops::RangeInclusive, time::Duration};

use redis::Value;

use super::{
    super::{BrokerError, BrokerErrorKind},
    reply,
    script::Call,
};

/// How safe a task is when its enqueue returns.
///
/// Redis answers a write before its replicas and its disk have it. Waiting for them costs their delay with every
/// enqueue; an enqueue that is not confirmed in time fails with
/// [`Unconfirmed`](crate::broker::BrokerErrorKind::Unconfirmed): the task is stored, and will run unless that one server
/// is lost.
///
/// Durability does not make a failover lossless: Redis can still choose a replica that lacks the write, unless `n`
/// counts all of them. In a planned one (`SENTINEL FAILOVER`) the other replicas follow the old master for a second after the promotion,
/// and confirm writes that are thrown away then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// As Redis is configured: the task is stored there, and replicated and written to disk later. The default.
    #[default]
    Async,
    /// `n` replicas have the task (`WAIT`).
    #[non_exhaustive]
    Replicas {
        /// Number of replicas, 1 to 100.
        n: u8,
        /// Longest wait, 1 ms to 1 min.
        timeout: Duration,
    },
    /// The task is on the server's disk (`WAITAOF`); needs Redis 7.2 with `appendonly yes`.
    #[non_exhaustive]
    Fsync {
        /// Longest wait, 1 ms to 1 min.
        timeout: Duration,
    },
}

impl Durability {
    /// The range of time-outs.
    pub(super) const PATIENCE: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);
    const DEFAULT_PATIENCE: Duration = Duration::from_secs(1);

    /// Waits up to a second for `n` replicas; `n` is clamped to 1 to 100.
    pub fn replicas(n: u8) -> Self {
        Self::Replicas { n: n.clamp(1, 100), timeout: Self::DEFAULT_PATIENCE }
    }

    /// Waits up to a second for the server's disk.
    pub fn fsync() -> Self {
        Self::Fsync { timeout: Self::DEFAULT_PATIENCE }
    }

    /// Returns this durability with another longest wait, clamped to 1 ms to 1 min.
    pub fn within(self, timeout: Duration) -> Self {
        let timeout = timeout.clamp(*Self::PATIENCE.start(), *Self::PATIENCE.end());
        match self {
            Self::Async => self,
            Self::Replicas { n, .. } => Self::Replicas { n, timeout },
            Self::Fsync { .. } => Self::Fsync { timeout },
        }
    }

    /// Reads `async`, `replicas(N)` or `fsync`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "async" => Some(Self::Async),
            "fsync" => Some(Self::fsync()),
            _ => {
                let n = text.strip_prefix("replicas(")?.strip_suffix(')')?.parse().ok()?;
                (1..=100).contains(&n).then(|| Self::replicas(n))
            }
        }
    }

    /// Returns the longest wait; zero for [`Async`](Self::Async).
    pub(super) fn patience(self) -> Duration {
        match self {
            Self::Async => Duration::ZERO,
            Self::Replicas { timeout, .. } | Self::Fsync { timeout } => timeout,
        }
    }

    /// Returns the command to send behind the writes, on their connection.
    pub(super) fn wait(self) -> Option<Call> {
        // To Redis, zero means no limit.
        let ms = |timeout: Duration| timeout.as_millis().max(1) as u64;
        match self {
            Self::Async => None,
            Self::Replicas { n, timeout } => Some(Call::plain("WAIT").arg(n).arg(ms(timeout))),
            Self::Fsync { timeout } => Some(Call::plain("WAITAOF").arg(1).arg(0).arg(ms(timeout))),
        }
    }

    /// Returns a short wait, whose answer shows whether the server supports it.
    pub(super) fn probe(self) -> Option<Call> {
        self.within(*Self::PATIENCE.start()).wait()
    }

    /// Checks, by its answer to the probe, that the server supports this durability. A server that is away, or is a replica
    /// now, passes: its answer says nothing about its support.
    pub(super) fn check(self, answer: Result<Value, BrokerError>) -> Result<(), BrokerError> {
        match answer {
            Err(error) if matches!(error.kind(), BrokerErrorKind::Unexpected | BrokerErrorKind::Config) => {
                let message = match self {
                    Self::Replicas { .. } => {
                        "this server cannot wait for replicas (WAIT): leave durability out of the URL"
                    }
                    _ => {
                        "this Redis cannot confirm that a task is on disk: durability=fsync needs Redis 7.2 and appendonly yes"
                    }
                };
                Err(BrokerError::with_source(BrokerErrorKind::Config, message, error))
            }
            Err(error) if !error.is_unavailable() => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns an error unless the answer to [`wait`](Self::wait) confirms everything sent before it.
    pub(super) fn confirmed(self, answer: Result<Value, BrokerError>) -> Result<(), BrokerError> {
        let reached = |number: Option<i64>, least: u8| number.is_some_and(|number| number >= i64::from(least));
        let good = match (self, &answer) {
            (Self::Async, _) => true,
            (Self::Replicas { n, .. }, Ok(value)) => reached(reply::number(value), n),
            (Self::Fsync { .. }, Ok(Value::Array(counts))) => reached(counts.first().and_then(reply::number), 1),
            _ => false,
        };
        if good {
            return Ok(());
        }
        let message = match self {
            Self::Replicas { n, timeout } => {
                format!("the task is stored, but {n} replica(s) did not confirm it within {timeout:?}")
            }
            _ => format!("the task is stored, but not confirmed to be on disk within {:?}", self.patience()),
        };
        Err(match answer {
            Ok(_) => BrokerError::new(BrokerErrorKind::Unconfirmed, message),
            Err(source) => BrokerError::with_source(BrokerErrorKind::Unconfirmed, message, source),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_url() {
        assert_eq!(Durability::parse("async"), Some(Durability::Async));
        assert_eq!(Durability::parse("fsync"), Some(Durability::fsync()));
        assert_eq!(Durability::parse("replicas(3)"), Some(Durability::replicas(3)));
        for bad in ["", "replicas", "replicas()", "replicas(0)", "replicas(101)", "replicas(1", "Fsync"] {
            assert_eq!(Durability::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_the_number_asked_for_is_enough() {
        let ok = |durability: Durability, value| durability.confirmed(Ok(value)).is_ok();
        let counts = |local, others| Value::Array(vec![Value::Int(local), Value::Int(others)]);
        let cases = [
            (Durability::Async, Value::Nil, true),
            (Durability::replicas(1), Value::Int(0), false),
            (Durability::replicas(1), Value::Int(1), true),
            (Durability::replicas(2), Value::Int(1), false),
            (Durability::replicas(2), Value::Int(3), true),
            (Durability::replicas(1), Value::Nil, false),
            (Durability::fsync(), counts(0, 2), false),
            (Durability::fsync(), counts(1, 0), true),
            (Durability::fsync(), Value::Int(1), false),
        ];
        for (durability, value, expected) in cases {
            assert_eq!(ok(durability, value.clone()), expected, "{durability:?} {value:?}");
        }
        let lost = BrokerError::new(BrokerErrorKind::Timeout, "late");
        let error = Durability::replicas(1).confirmed(Err(lost)).unwrap_err();
        assert_eq!(error.kind(), BrokerErrorKind::Unconfirmed);
        assert!(error.is_ambiguous() && !error.is_unavailable());
        assert!(error.to_string().contains("is stored"), "{error}");
    }

    #[test]
    fn a_server_is_refused_for_what_it_lacks_and_not_for_being_away_or_a_replica() {
        let check = |line: &str| {
            let answer = redis::parse_redis_value(format!("{line}\r\n").as_bytes()).map(reply::answer).unwrap();
            let durability = if line.contains("WAITAOF") { Durability::fsync() } else { Durability::replicas(1) };
            durability.check(answer).map_err(|error| error.kind())
        };
        let replica = "-ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is \
                       configured to be writable (which is not the default) writes to replicas are just local and are not \
                       propagated.";
        for (line, expected) in [
            (":0", Ok(())),
            (replica, Ok(())),
            ("-LOADING Redis is loading the dataset in memory", Ok(())),
            ("-ERR unknown command 'WAITAOF', with args beginning with: ", Err(BrokerErrorKind::Config)),
            (
                "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
                Err(BrokerErrorKind::Config),
            ),
            ("-NOPERM User u has no permissions to run the 'wait' command", Err(BrokerErrorKind::Denied)),
        ] {
            assert_eq!(check(line), expected, "{line}");
        }
        let away = BrokerError::new(BrokerErrorKind::Unavailable, "away");
        assert!(Durability::fsync().check(Err(away)).is_ok());
    }

    #[test]
    fn a_wait_is_never_for_ever() {
        assert_eq!(Durability::fsync().within(Duration::ZERO).patience(), Duration::from_millis(1));
        assert_eq!(Durability::replicas(0), Durability::Replicas { n: 1, timeout: Duration::from_secs(1) });
        assert_eq!(Durability::Async.within(Duration::MAX).patience(), Duration::ZERO);
    }
}
