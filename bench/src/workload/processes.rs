//! Four processes that write into one SQLite file as fast as possible: whether each gets its share, and how long it waits.

use async_trait::async_trait;
use asynq_runtime::prelude::*;

use super::Workload;
use crate::{measured::Measured, meter, order::Order, queue, run};

const PROCESSES: usize = 4;
const SECONDS: u64 = 5;
/// More tasks than any process manages in its time.
const ENDLESS: u64 = 1_000_000_000;

pub(super) struct Processes;

#[async_trait]
impl Workload for Processes {
    fn orders(&self, order: Order) -> Vec<Order> {
        if order.on_redis() { Vec::new() } else { vec![order] }
    }

    async fn measure(&self, order: &Order) -> Result<Measured, BoxError> {
        let seconds = order.seconds.unwrap_or(SECONDS);
        let workload = "enqueue-concurrent".to_owned();
        let each = Order { workload, n: ENDLESS, seconds: Some(seconds), ..order.clone() };
        let started = (0..PROCESSES).map(|_| Ok(run::Role::Measure.command(&each)?.spawn()?));
        let mut found = Vec::new();
        for process in started.collect::<Result<Vec<_>, BoxError>>()? {
            found.push(run::answer(process).await?);
        }
        let tasks = || found.iter().map(|found| found.order.n);
        let worst = |figure: fn(&Measured) -> Option<f64>| found.iter().filter_map(figure).reduce(f64::max);
        let (slowest, fastest) = (tasks().min().unwrap_or(0), tasks().max().unwrap_or(0));
        let all = Measured {
            rate: Some(found.iter().filter_map(|found| found.rate).sum()),
            p50: worst(|found| found.p50),
            p90: worst(|found| found.p90),
            p99: worst(|found| found.p99),
            max: worst(|found| found.max),
            own_cpu_us: worst(|found| found.own_cpu_us),
            peak_rss_mib: worst(|found| found.peak_rss_mib).or_else(meter::peak_rss_mib),
            ..Measured::of(&Order { n: tasks().sum(), ..order.clone() })
        };
        Ok(all.with("slowest to fastest", slowest as f64 / fastest as f64))
    }

    async fn verify(&self, measured: &Measured, client: &Client) -> Result<(), BoxError> {
        queue::expect(client, &measured.order, measured.order.n).await
    }
}
