//! Drain and enqueue beside a million scheduled tasks, and beside none. On SQLite a million archived ones are there too.

use async_trait::async_trait;
use asynq_runtime::prelude::*;

use super::{Workload, named};
use crate::{measured::Measured, order::Order};

/// The workloads that are measured beside them.
const BESIDE: [&str; 2] = ["enqueue-concurrent", "drain"];
const MILLION: u64 = 1_000_000;

pub(super) struct ScheduledMillion;

impl ScheduledMillion {
    fn of(order: &Order) -> Result<&'static dyn Workload, BoxError> {
        named(order.of.as_deref().unwrap_or(BESIDE[1]))
    }
}

#[async_trait]
impl Workload for ScheduledMillion {
    fn orders(&self, order: Order) -> Vec<Order> {
        let beside = |of: &str, present| Order {
            of: Some(of.to_owned()),
            present: Some(order.present.unwrap_or(present)).filter(|present| *present > 0),
            ..order.clone()
        };
        BESIDE.iter().flat_map(|of| [beside(of, 0), beside(of, MILLION)]).collect()
    }

    async fn prepare(&self, order: &Order, client: &Client) -> Result<(), BoxError> {
        Self::of(order)?.prepare(order, client).await
    }

    async fn measure(&self, order: &Order) -> Result<Measured, BoxError> {
        Self::of(order)?.measure(order).await
    }

    async fn verify(&self, measured: &Measured, client: &Client) -> Result<(), BoxError> {
        Self::of(&measured.order)?.verify(measured, client).await
    }
}
