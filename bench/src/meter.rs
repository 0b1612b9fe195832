//! What a run costs: time, CPU of this process and of the broker, commands, memory.

use std::{fs, time::Instant};

use asynq_runtime::prelude::BoxError;
use redis::Connection;
use rustix::time::{ClockId, clock_gettime};

use crate::{measured::Measured, order::Order};

/// Counts from its start on.
pub(crate) struct Meter {
    broker: Option<Connection>,
    before: BrokerUsage,
    own_cpu_us: f64,
    began: Instant,
}

/// What a Redis has used since it started.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BrokerUsage {
    pub(crate) cpu_us: f64,
    pub(crate) commands: u64,
}

impl Meter {
    /// Starts the clock; the broker's own figures are read before.
    ///
    /// # Errors
    ///
    /// Redis does not answer.
    pub(crate) fn start(order: &Order) -> Result<Self, BoxError> {
        let mut broker = match order.broker() {
            "redis" => Some(redis::Client::open(order.url.as_str())?.get_connection()?),
            _ => None,
        };
        let before = broker.as_mut().map(BrokerUsage::read).transpose()?.unwrap_or_default();
        Ok(Self { broker, before, own_cpu_us: own_cpu_us(), began: Instant::now() })
    }

    /// Stops the clock and says what `order.n` tasks took.
    ///
    /// # Errors
    ///
    /// Redis does not answer.
    pub(crate) fn stop(mut self, order: &Order) -> Result<Measured, BoxError> {
        let seconds = self.began.elapsed().as_secs_f64();
        let own_cpu_us = own_cpu_us() - self.own_cpu_us;
        let after = self.broker.as_mut().map(BrokerUsage::read).transpose()?;
        let n = order.n as f64;
        let mut measured = Measured::of(order);
        measured.rate = Some(n / seconds);
        measured.own_cpu_us = Some(own_cpu_us / n);
        measured.broker_cpu_us = after.map(|after| (after.cpu_us - self.before.cpu_us) / n);
        measured.broker_commands = after.map(|after| (after.commands - self.before.commands) as f64 / n);
        measured.peak_rss_mib = peak_rss_mib();
        Ok(measured)
    }
}

impl BrokerUsage {
    /// Reads it; the reading itself is not counted.
    pub(crate) fn read(redis: &mut Connection) -> Result<Self, BoxError> {
        let info: String = redis::cmd("INFO").arg("everything").query(redis)?;
        let number = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|text| text.parse::<f64>().ok()).ok_or_else(|| format!("INFO does not tell {name}"))
        };
        let commands = info.lines().filter(|line| line.starts_with("cmdstat_") && !line.starts_with("cmdstat_info:"));
        let calls = commands.filter_map(|line| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok());
        Ok(Self { cpu_us: (number("used_cpu_user")? + number("used_cpu_sys")?) * 1e6, commands: calls.sum() })
    }
}

/// CPU time of this process and all its threads, in microseconds.
pub(crate) fn own_cpu_us() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 * 1e6 + used.tv_nsec as f64 / 1e3
}

/// Most memory that this process ever had, where the system tells it.
pub(crate) fn peak_rss_mib() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<f64>().ok()? / 1024.0)
}
