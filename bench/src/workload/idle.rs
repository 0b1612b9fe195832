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
const SETTLES: Duration = Duration::from_secs(2);
const SECONDS: u64 = 15;

pub(super) struct Idle;

#[async_trait]
impl Workload for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn about(&self) -> &'static str {
        "CPU and broker commands per second of a worker without tasks"
    }

    fn sizes(&self) -> (u64, usize) {
        (0, 10)
    }

    async fn measure(&self, order: &Order) -> Result<Measured, BoxError> {
        let running = queue::worker::<note>(order, Seen::none_of(0)).build().await?.start().await?;
        tokio::time::sleep(SETTLES).await;
        let meter = Meter::start(order)?;
        tokio::time::sleep(Duration::from_secs(order.seconds.unwrap_or(SECONDS))).await;
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
