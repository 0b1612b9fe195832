//! Measures the calls of an inspector: lists, pages, counts.

use super::{Stage, groups, spent::Spent};
use crate::{order::Order, queue, queue::QUEUE};
use asynq_runtime::{
    broker::{BrokerError, GroupRules, Page, TaskBrief},
    prelude::*,
    task::QueueName,
};

/// The cost is the mean of so many calls.
const CALLS: u64 = 10;
/// Groups of a page, and tasks of a page of a search.
const GROUPS: usize = 100;
const SEARCHED: usize = 500;

fn bench() -> Result<QueueName, BoxError> {
    Ok(QUEUE.parse()?)
}

/// Measures a call, which is made several times.
async fn repeated<T, F>(stage: &Stage, call: impl Fn() -> F) -> Result<Spent, BoxError>
where
    F: Future<Output = Result<T, BrokerError>>,
{
    let counter = stage.count()?;
    for _ in 0..CALLS {
        call().await?;
    }
    counter.stop(CALLS)
}

/// Reads a page of the groups behind the first page.
pub(super) async fn groups_page(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    groups::fill(stage, n, n).await?;
    let queue = bench()?;
    let first = stage.client.broker().groups(&queue, None, GROUPS).await?;
    repeated(stage, || stage.client.broker().groups(&queue, first.next.as_ref(), GROUPS)).await
}

/// Takes the first step of an aggregator's walk over the groups, of which none is ripe.
pub(super) async fn ripe_groups(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    groups::fill(stage, n, n).await?;
    let (queue, rules) = (bench()?, GroupRules::default());
    repeated(stage, || stage.client.broker().ripe_groups(&queue, &rules, None)).await
}

/// Reads the first page of the tasks of all groups.
pub(super) async fn aggregating_page(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    groups::fill(stage, n, n).await?;
    let (queue, page) = (bench()?, Page::default());
    let list = || stage.client.broker().list(&queue, TaskState::Aggregating, None, page, Some(TaskBrief::BYTES));
    repeated(stage, list).await
}

/// Reads counts and memory of a queue that has groups.
pub(super) async fn stats(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    groups::fill(stage, n, n).await?;
    let queue = bench()?;
    let read = || async {
        stage.client.broker().queue_stats(&queue).await?;
        stage.client.broker().memory_usage(&queue).await
    };
    repeated(stage, read).await
}

/// Reads the page with the newest waiting tasks.
pub(super) async fn last_page(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    queue::fill(&stage.client, &stage.order).await?;
    let (queue, size) = (bench()?, Page::default().size);
    let page = Page { number: usize::try_from(n)?.div_ceil(size), size };
    let list = || stage.client.broker().list(&queue, TaskState::Pending, None, page, Some(TaskBrief::BYTES));
    repeated(stage, list).await
}

/// Reads every page of the waiting tasks, as a search without a match does.
pub(super) async fn search(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    queue::fill(&stage.client, &stage.order).await?;
    let queue = bench()?;
    let counter = stage.count()?;
    for number in 1..=usize::try_from(n)?.div_ceil(SEARCHED) {
        let page = Page { number, size: SEARCHED };
        stage.client.broker().list(&queue, TaskState::Pending, None, page, Some(TaskBrief::BYTES)).await?;
    }
    counter.stop(1)
}

/// Reads every queue with its counts.
pub(super) async fn queues(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    spread(stage, n).await?;
    let counter = stage.count()?;
    stage.client.inspector().queues().await?;
    counter.stop(1)
}

/// Reads every queue with its counts, and the servers.
pub(super) async fn scrape(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    spread(stage, n).await?;
    let counter = stage.count()?;
    stage.client.inspector().each_queue().await?;
    stage.client.inspector().servers().await?;
    counter.stop(1)
}

/// Stores one task in each of `n` queues.
async fn spread(stage: &Stage, n: u64) -> Result<(), BoxError> {
    let order = Order { queues: Some(n), ..stage.order.clone() };
    queue::fill(&stage.client, &order).await
}

/// Reads a page of tasks with payloads of `bytes` bytes.
pub(super) async fn payloads(stage: &Stage, bytes: u64) -> Result<Spent, BoxError> {
    let (queue, page) = (bench()?, Page::default());
    let order = Order { n: page.size as u64, payload_bytes: usize::try_from(bytes)?, ..stage.order.clone() };
    queue::fill(&stage.client, &order).await?;
    let list = || stage.client.broker().list(&queue, TaskState::Pending, None, page, Some(TaskBrief::BYTES));
    repeated(stage, list).await
}
