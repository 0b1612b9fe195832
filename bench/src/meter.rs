//! Measures the cost of a run: time, CPU of this process and of the broker, commands, memory.

use std::{fs, time::Instant};

use asynq_runtime::prelude::BoxError;
use redis::Connection;
use rustix::time::{ClockId, clock_gettime};

use crate::{measured::Measured, order::Order};

/// Counts from its start on.
pub(crate) struct Meter {
    redis: Option<Connection>,
    before: RedisUsage,
    own_cpu_us: f64,
    began: Instant,
}

/// The usage of a whole run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) seconds: f64,
    pub(crate) own_cpu_us: f64,
    /// `None` for a broker that is not a program of its own.
    pub(crate) redis: Option<RedisUsage>,
}

/// The usage of a Redis server.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RedisUsage {
    pub(crate) cpu_us: f64,
    pub(crate) commands: f64,
    /// Bytes from and to its clients.
    pub(crate) bytes: f64,
    /// Bytes of memory.
    pub(crate) memory: f64,
}

impl Meter {
    /// Starts the clock, after a reading of the broker's own figures.
    ///
    /// # Errors
    ///
    /// Redis does not answer.
    pub(crate) fn start(order: &Order) -> Result<Self, BoxError> {
        let mut redis = order.on_redis().then(|| order.redis_connection()).transpose()?;
        let (mut before, answer) = redis.as_mut().map(RedisUsage::read).transpose()?.unwrap_or_default();
        // Redis sends this answer after it was counted.
        before.bytes += answer;
        Ok(Self { redis, before, own_cpu_us: own_cpu_us(), began: Instant::now() })
    }

    /// Stops the clock.
    ///
    /// # Errors
    ///
    /// Redis does not answer.
    pub(crate) fn stop(mut self) -> Result<Usage, BoxError> {
        let seconds = self.began.elapsed().as_secs_f64();
        let own_cpu_us = own_cpu_us() - self.own_cpu_us;
        let after = self.redis.as_mut().map(RedisUsage::read).transpose()?;
        let redis = after.map(|(after, _)| RedisUsage {
            cpu_us: after.cpu_us - self.before.cpu_us,
            commands: after.commands - self.before.commands,
            bytes: after.bytes - self.before.bytes,
            memory: after.memory - self.before.memory,
        });
        Ok(Usage { seconds, own_cpu_us, redis })
    }
}

impl Usage {
    /// Returns the usage per task of the order.
    pub(crate) fn per_task(self, order: &Order) -> Measured {
        let n = order.n as f64;
        Measured {
            rate: Some(n / self.seconds),
            own_cpu_us: Some(self.own_cpu_us / n),
            broker_cpu_us: self.redis.map(|redis| redis.cpu_us / n),
            broker_commands: self.redis.map(|redis| redis.commands / n),
            peak_rss_mib: peak_rss_mib(),
            ..Measured::of(order)
        }
    }
}

impl RedisUsage {
    /// Reads the usage since Redis started, and the length of the answer. Commands about the server itself are not counted.
    fn read(redis: &mut Connection) -> Result<(Self, f64), BoxError> {
        let info: String = redis::cmd("INFO").arg("everything").query(redis)?;
        let number = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|text| text.parse::<f64>().ok()).ok_or_else(|| format!("INFO lacks {name}"))
        };
        let commands = info.lines().filter(|line| {
            line.starts_with("cmdstat_") && !["info", "slowlog", "config"].iter().any(|own| line[8..].starts_with(own))
        });
        let calls = commands.filter_map(|line| line.split_once("calls=")?.1.split(',').next()?.parse::<f64>().ok());
        let usage = Self {
            cpu_us: (number("used_cpu_user")? + number("used_cpu_sys")?) * 1e6,
            commands: calls.sum(),
            bytes: number("total_net_input_bytes")? + number("total_net_output_bytes")?,
            memory: number("used_memory")?,
        };
        Ok((usage, info.len() as f64))
    }
}

/// Returns the CPU time of this process and all its threads, in microseconds.
fn own_cpu_us() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 * 1e6 + used.tv_nsec as f64 / 1e3
}

/// Returns the most memory that this process ever had, where the system reports it.
pub(crate) fn peak_rss_mib() -> Option<f64> {
    Some(line_of("/proc/self/status", "VmHWM")?.strip_suffix(" kB")?.parse::<f64>().ok()? / 1024.0)
}

/// Returns the value of a name in a file of the system; `None` where the system has no such file.
pub(crate) fn line_of(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
