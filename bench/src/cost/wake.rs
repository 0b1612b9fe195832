//! Measures idle workers, and one enqueue beside them.

use std::time::Duration;

use asynq_runtime::{
    prelude::*,
    server::{Running, ServerBuilder},
};
use tokio::sync::mpsc;

use super::{Stage, spent::Spent};
use crate::{
    order::Order,
    queue,
    task::{Seen, Starts, next_start, note, stamp, task, unix_nanos},
    workload::{CYCLE, SETTLES},
};

/// Enqueues that are counted, and as many before them.
const TASKS: u64 = 20;
/// Tasks that come at once.
const MANY: u64 = 20_000;

/// Measures one enqueue, up to the run, beside `workers` idle workers that each serve all of `queues` queues.
pub(super) async fn beside(stage: &Stage, workers: u64, queues: u64) -> Result<Spent, BoxError> {
    let order = Order { queues: Some(queues), ..stage.order.clone() };
    let (sender, mut started) = mpsc::unbounded_channel();
    let running = start(&order, workers, &sender).await?;
    run(stage, &order, &mut started).await?;
    let counter = stage.count()?;
    run(stage, &order, &mut started).await?;
    let spent = counter.stop(TASKS)?;
    end(running).await?;
    Ok(spent)
}

/// Measures one task of many that come at once into one of the queues that a worker serves.
pub(super) async fn busy(stage: &Stage, queues: u64) -> Result<Spent, BoxError> {
    let order = Order { queues: Some(queues), ..stage.order.clone() };
    let seen = Seen::none_of(MANY);
    let running = queue::worker::<note>(&order, seen.clone()).build().await?.start().await?;
    tokio::time::sleep(SETTLES).await;
    let counter = stage.count()?;
    let tasks = (0..MANY).map(|number| task(number, 100).into_job().queue(queue::name(&order, 0)));
    queue::store(&stage.client, tasks).await?;
    seen.all().await?;
    let spent = counter.stop(MANY)?;
    end(vec![running]).await?;
    Ok(spent)
}

/// Measures one second of a worker of so many queues without tasks.
pub(super) async fn idle(stage: &Stage, queues: u64) -> Result<Spent, BoxError> {
    let order = Order { queues: Some(queues), ..stage.order.clone() };
    without_tasks(stage, queue::worker::<note>(&order, Seen::none_of(0))).await
}

/// Measures one second of a worker that has no task to run.
pub(super) async fn without_tasks(stage: &Stage, worker: ServerBuilder) -> Result<Spent, BoxError> {
    let running = worker.build().await?.start().await?;
    tokio::time::sleep(SETTLES).await;
    let counter = stage.count()?;
    tokio::time::sleep(Duration::from_secs(CYCLE)).await;
    let spent = counter.stop(CYCLE)?;
    running.shutdown().await?;
    // A second takes a second.
    Ok(Spent { ms: None, ..spent })
}

async fn start(
    order: &Order,
    workers: u64,
    sender: &mpsc::UnboundedSender<(u64, i64)>,
) -> Result<Vec<Running>, BoxError> {
    let mut running = Vec::new();
    for _ in 0..workers {
        running.push(queue::worker::<stamp>(order, Starts(sender.clone())).build().await?.start().await?);
    }
    tokio::time::sleep(SETTLES).await;
    Ok(running)
}

/// Enqueues one task after the other, each when the one before it runs.
async fn run(stage: &Stage, order: &Order, started: &mut mpsc::UnboundedReceiver<(u64, i64)>) -> Result<(), BoxError> {
    for number in 0..TASKS {
        let task = stamp { number, moment: unix_nanos() }.into_job();
        stage.client.enqueue(task.queue(queue::name(order, number * 7))).await?;
        next_start(started).await?;
    }
    Ok(())
}

async fn end(running: Vec<Running>) -> Result<(), BoxError> {
    for one in running {
        one.shutdown().await?;
    }
    Ok(())
}
