//! Measures a worker that has nothing to do.

use std::time::Duration;

use async_trait::async_trait;
use asynq_runtime::prelude::*;

use super::Workload;
use crate::{
    measured::Measured,
    meter::{self, Meter},
    order::Order,
    queue,
    task::{Seen, note},
};

/// Within this time after its start a worker has done everything once.
pub(crate) const SETTLES: Duration = Duration::from_secs(4);
/// Seconds for which an idle worker is watched: a whole cycle of its work without tasks. The janitor sweeps with every eighth of its
/// passes, which is every 64 s, and of many queues all are looked at every 60 s. A shorter window would mostly lie between two of
/// those, and show fewer commands than the worker sends.
pub(crate) const CYCLE: u64 = 64;

pub(super) struct Idle;

#[async_trait]
impl Workload for Idle {
    async fn measure(&self, order: &Order) -> Result<Measured, BoxError> {
        let running = queue::worker::<note>(order, Seen::none_of(0)).build().await?.start().await?;
        tokio::time::sleep(SETTLES).await;
        let meter = Meter::start(order)?;
        tokio::time::sleep(Duration::from_secs(order.seconds.unwrap_or(CYCLE))).await;
        let usage = meter.stop()?;
        let measured = Measured { peak_rss_mib: meter::peak_rss_mib(), ..Measured::of(order) };
        running.shutdown().await?;

        let measured = measured.with("CPU %", usage.own_cpu_us / usage.seconds / 1e4);
        Ok(match usage.redis {
            Some(redis) => measured
                .with("broker CPU %", redis.cpu_us / usage.seconds / 1e4)
                .with("commands per second", redis.commands / usage.seconds),
            None => measured,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    /// Returns the number behind `before` in a source of the worker.
    fn number(path: &str, before: &str) -> u64 {
        let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).join("../asynq-runtime/src");
        let text = fs::read_to_string(runtime.join(path)).unwrap();
        let (_, after) = text.split_once(before).unwrap_or_else(|| panic!("{path} lacks {before:?}"));
        after.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    }

    #[test]
    fn an_idle_worker_is_watched_for_a_whole_cycle_of_its_work_without_tasks() {
        let looks =
            number("broker/redis/last_look.rs", "const MANY_ARE_LOOKED_AT_EVERY: Duration = Duration::from_secs(");
        let pass = number("server/config.rs", "const JANITOR: Duration = Duration::from_secs(");
        let sweeps = pass * number("server/janitor.rs", "const SWEEP_EVERY: u64 = ");
        assert!(CYCLE >= looks && CYCLE >= sweeps, "{CYCLE} s, looks every {looks} s, sweeps every {sweeps} s");
    }
}
