//! From the start of a worker to the last acknowledgement of the tasks that waited for it.

use async_trait::async_trait;
use asynq_runtime::prelude::*;

use super::Workload;
use crate::{
    measured::Measured,
    meter::Meter,
    order::Order,
    queue,
    task::{Seen, note},
};

pub(super) struct Drain;

#[async_trait]
impl Workload for Drain {
    fn name(&self) -> &'static str {
        "drain"
    }

    fn about(&self) -> &'static str {
        "N waiting tasks, from the start of the worker to the last acknowledgement"
    }

    fn sizes(&self) -> (u64, usize) {
        (100_000, 100)
    }

    async fn prepare(&self, order: &Order, client: &Client) -> Result<(), BoxError> {
        queue::fill(client, order).await
    }

    async fn measure(&self, order: &Order) -> Result<Measured, BoxError> {
        let seen = Seen::none_of(order.n);
        let server = queue::worker::<note>(order, seen.clone()).build().await?;

        let meter = Meter::start(order)?;
        let running = server.start().await?;
        seen.all().await?;
        queue::acknowledged(&running.client(), order).await?;
        let measured = meter.stop()?.per_task(order);

        running.shutdown().await?;
        seen.exactly_once()?;
        Ok(measured)
    }
}
