//! Counts the cost of a call: on Redis by the counters of the server, on SQLite by the bytes that this process writes.

use asynq_runtime::prelude::BoxError;
use redis::Connection;
use serde::Serialize;

use crate::{
    meter::{Meter, line_of},
    order::Order,
};

/// The cost of one call. `None` where the broker or the system has no such figure, or where it says nothing about the call.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Spent {
    pub(super) ms: Option<f64>,
    /// CPU time of this process.
    pub(super) cpu_ms: Option<f64>,
    pub(super) commands: Option<f64>,
    pub(super) bytes: Option<f64>,
    /// The longest single command of Redis.
    pub(super) longest_ms: Option<f64>,
}

/// Counts from its start on.
pub(super) struct Counter {
    redis: Option<Connection>,
    /// Bytes that this process had written before; not read for Redis.
    written: Option<f64>,
    meter: Meter,
}

/// The slow log has commands that take longer, in microseconds. A lower bound would have every command in it.
const SLOW: u64 = 100;

impl Counter {
    /// # Errors
    ///
    /// Redis does not answer.
    pub(super) fn start(order: &Order) -> Result<Self, BoxError> {
        if !order.on_redis() {
            return Ok(Self { redis: None, written: written(), meter: Meter::start(order)? });
        }
        let mut redis = order.redis_connection()?;
        for (name, value) in [("slowlog-log-slower-than", SLOW), ("slowlog-max-len", 10_000)] {
            redis::cmd("CONFIG").arg("SET").arg(name).arg(value).exec(&mut redis)?;
        }
        redis::cmd("SLOWLOG").arg("RESET").exec(&mut redis)?;
        Ok(Self { redis: Some(redis), written: None, meter: Meter::start(order)? })
    }

    /// Returns the cost of each of `calls` calls.
    ///
    /// # Errors
    ///
    /// The errors of [`start`](Self::start).
    pub(super) fn stop(self, calls: u64) -> Result<Spent, BoxError> {
        let (calls, usage) = (calls as f64, self.meter.stop()?);
        let (ms, cpu_ms) = (Some(usage.seconds * 1e3 / calls), Some(usage.own_cpu_us / 1e3 / calls));
        let (Some(mut redis), Some(used)) = (self.redis, usage.redis) else {
            let bytes = written().zip(self.written).map(|(now, before)| (now - before) / calls);
            return Ok(Spent { ms, cpu_ms, commands: None, bytes, longest_ms: None });
        };
        let log: Vec<Vec<redis::Value>> = redis::cmd("SLOWLOG").arg("GET").arg(-1).query(&mut redis)?;
        let micros = log.iter().filter_map(|entry| redis::from_redis_value::<u64>(entry.get(2)?.clone()).ok());
        Ok(Spent {
            ms,
            cpu_ms,
            commands: Some(used.commands / calls),
            bytes: Some(used.bytes / calls),
            // Commands that are not in the log took less than its bound.
            longest_ms: Some(micros.max().unwrap_or(SLOW) as f64 / 1e3),
        })
    }
}

/// Returns the bytes that this process has written, to files and sockets; `None` on systems without `/proc`.
fn written() -> Option<f64> {
    line_of("/proc/self/io", "wchar")?.parse().ok()
}
