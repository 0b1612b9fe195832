//! Counts the cost of a call: on Redis by the counters of the server, on SQLite by the bytes that this process writes.

use std::{fs, time::Instant};

use asynq_runtime::prelude::BoxError;
use redis::Connection;
use serde::Serialize;

use crate::order::Order;

/// The cost of one call. `None` where the broker has no such figure.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Spent {
    pub(super) ms: f64,
    pub(super) commands: Option<f64>,
    pub(super) bytes: Option<f64>,
    /// The longest single command of Redis.
    pub(super) longest_ms: Option<f64>,
}

/// Counts from its start on.
pub(super) struct Counter {
    redis: Option<Connection>,
    before: Figures,
    began: Instant,
}

#[derive(Debug, Default, Clone, Copy)]
struct Figures {
    commands: f64,
    bytes: f64,
}

/// The slow log has commands that take longer, in microseconds. A lower bound would have every command in it.
const SLOW: u64 = 100;

impl Counter {
    /// # Errors
    ///
    /// Redis does not answer, or the system does not report the bytes that a process writes.
    pub(super) fn start(order: &Order) -> Result<Self, BoxError> {
        let mut redis = None;
        let before = if order.on_redis() {
            let mut connection = redis::Client::open(order.url.as_str())?.get_connection()?;
            let config = [("slowlog-log-slower-than", SLOW), ("slowlog-max-len", 10_000)];
            for (name, value) in config {
                redis::cmd("CONFIG").arg("SET").arg(name).arg(value).exec(&mut connection)?;
            }
            redis::cmd("SLOWLOG").arg("RESET").exec(&mut connection)?;
            let (figures, answer) = Figures::of_redis(&mut connection)?;
            redis = Some(connection);
            // Redis sends this answer after it was counted.
            Figures { bytes: figures.bytes + answer, ..figures }
        } else {
            Figures { bytes: written()?, commands: 0.0 }
        };
        Ok(Self { redis, before, began: Instant::now() })
    }

    /// Returns the cost of each of `calls` calls.
    ///
    /// # Errors
    ///
    /// The errors of [`start`](Self::start).
    pub(super) fn stop(mut self, calls: u64) -> Result<Spent, BoxError> {
        let (calls, ms) = (calls as f64, self.began.elapsed().as_secs_f64() * 1e3);
        let Some(redis) = &mut self.redis else {
            let bytes = Some((written()? - self.before.bytes) / calls);
            return Ok(Spent { ms: ms / calls, commands: None, bytes, longest_ms: None });
        };
        let (after, _) = Figures::of_redis(redis)?;
        let log: Vec<Vec<redis::Value>> = redis::cmd("SLOWLOG").arg("GET").arg(-1).query(redis)?;
        let micros = log.iter().filter_map(|entry| redis::from_redis_value::<u64>(entry.get(2)?.clone()).ok());
        Ok(Spent {
            ms: ms / calls,
            commands: Some((after.commands - self.before.commands) / calls),
            bytes: Some((after.bytes - self.before.bytes) / calls),
            // Commands that are not in the log took less than its bound.
            longest_ms: Some(micros.max().unwrap_or(SLOW) as f64 / 1e3),
        })
    }
}

impl Figures {
    /// Reads the figures since Redis started, and the length of the answer. The questions themselves are not counted as commands.
    fn of_redis(redis: &mut Connection) -> Result<(Self, f64), BoxError> {
        let info: String = redis::cmd("INFO").arg("everything").query(redis)?;
        let number = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|text| text.parse::<f64>().ok()).ok_or_else(|| format!("INFO lacks {name}"))
        };
        let commands = info.lines().filter(|line| {
            line.starts_with("cmdstat_") && !["info", "slowlog", "config"].iter().any(|own| line[8..].starts_with(own))
        });
        let calls = commands.filter_map(|line| line.split_once("calls=")?.1.split(',').next()?.parse::<f64>().ok());
        let bytes = number("total_net_input_bytes")? + number("total_net_output_bytes")?;
        Ok((Self { commands: calls.sum(), bytes }, info.len() as f64))
    }
}

/// Returns the bytes that this process has written, to files and sockets.
fn written() -> Result<f64, BoxError> {
    let counters = fs::read_to_string("/proc/self/io")?;
    let line = counters.lines().find_map(|line| line.strip_prefix("wchar: ")).ok_or("no wchar in /proc/self/io")?;
    Ok(line.parse()?)
}
