//! The commands that a Redis has run, as it counts them.

use std::{collections::HashMap, ops::Sub};

use redis::Connection;

/// How often a Redis has run each command, calls by scripts included.
#[derive(Debug, Clone, Default)]
pub struct Calls(HashMap<String, u64>);

impl Calls {
    /// Reads the answer of `INFO commandstats`.
    pub fn read(stats: &str) -> Self {
        let lines = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="));
        Self(lines.map(|(name, calls)| (name.into(), calls.split(',').next().unwrap().parse().unwrap())).collect())
    }

    /// Asks Redis on this connection.
    pub fn ask(redis: &mut Connection) -> Self {
        Self::read(&redis::cmd("INFO").arg("commandstats").query::<String>(redis).unwrap())
    }

    /// Returns how often one command ran; its name is in lower case: `config|resetstat`.
    pub fn of(&self, command: &str) -> u64 {
        self.0.get(command).copied().unwrap_or_default()
    }

    /// Returns how often all commands ran but those by which a test counts them.
    pub fn sum(&self) -> u64 {
        self.0.values().sum::<u64>() - self.of("info") - self.of("config|resetstat")
    }
}

impl Sub<&Calls> for Calls {
    type Output = Self;

    /// Returns the calls since `before`. Panics if the counters were reset in between.
    fn sub(mut self, before: &Self) -> Self {
        self.0.iter_mut().for_each(|(name, calls)| *calls -= before.of(name));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_counted_and_subtracted() {
        let before = Calls::read("# Commandstats\r\ncmdstat_get:calls=2,usec=3,usec_per_call=1.50\r\n");
        let stats = "cmdstat_get:calls=5,usec=9\r\ncmdstat_info:calls=4\r\ncmdstat_config|resetstat:calls=1\r\ncmdstat_llen:calls=7";
        let after = Calls::read(stats);
        assert_eq!((after.of("get"), after.of("llen"), after.of("set"), after.sum()), (5, 7, 0, 12));
        let since = after - &before;
        assert_eq!((since.of("get"), since.sum()), (3, 10));
    }
}
