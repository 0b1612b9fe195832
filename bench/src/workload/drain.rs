//! Measures from the build of a worker, which connects it, to the last acknowledgement of the tasks that waited for it.

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
    async fn prepare(&self, order: &Order, client: &Client) -> Result<(), BoxError> {
        queue::fill(client, order).await
    }

    async fn measure(&self, order: &Order) -> Result<Measured, BoxError> {
        let seen = Seen::first(order.n, order.waiting());
        // A worker connects when it is built: the times of the limit and of other libraries have their connections, too.
        let meter = Meter::start(order)?;
        let running = queue::worker::<note>(order, seen.clone()).build().await?.start().await?;
        seen.all().await?;
        // Tasks that are not measured keep the worker busy, so a last acknowledgement is not awaited.
        if order.among.is_none() {
            queue::acknowledged(&running, order.n).await?;
        }
        let measured = meter.stop()?.per_task(order);

        running.shutdown().await?;
        seen.exactly_once()?;
        Ok(measured)
    }

    async fn verify(&self, measured: &Measured, client: &Client) -> Result<(), BoxError> {
        let order = &measured.order;
        if order.among.is_none() {
            return queue::expect(client, order, 0).await;
        }
        let counts = queue::counts(client, order).await?;
        let is_expected =
            counts.failed == 0 && counts.processed >= order.n && counts.processed + counts.pending == order.waiting();
        if is_expected { Ok(()) } else { Err(format!("of {} tasks, {counts:?}", order.waiting()).into()) }
    }
}
