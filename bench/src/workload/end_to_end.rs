//! Producers and a worker in one program, from the first enqueue to the last acknowledgement.

use async_trait::async_trait;
use asynq_runtime::prelude::*;

use super::{Workload, enqueue};
use crate::{
    measured::Measured,
    meter::Meter,
    order::Order,
    queue,
    task::{Seen, note},
};

/// Callers that enqueue at the same time.
const PRODUCERS: usize = 64;

pub(super) struct EndToEnd;

#[async_trait]
impl Workload for EndToEnd {
    async fn measure(&self, order: &Order) -> Result<Measured, BoxError> {
        let seen = Seen::none_of(order.n);
        let running = queue::worker::<note>(order, seen.clone()).build().await?.start().await?;
        let client = Client::connect(&order.url).await?;

        let meter = Meter::start(order)?;
        let calls = enqueue::from_many(&client, order, PRODUCERS).await?;
        seen.all().await?;
        queue::acknowledged(&running, order.n).await?;
        let measured = meter.stop()?.per_task(order);

        running.shutdown().await?;
        seen.exactly_once()?;
        Ok(measured.spread(&calls.micros))
    }
}
