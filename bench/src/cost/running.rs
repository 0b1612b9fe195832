//! Measures calls beside tasks that run: their ends, their leases, and the search for those of a lost answer.

use std::{
    pin::pin,
    task::{Context, Waker},
    time::Duration,
};

use asynq_runtime::{
    broker::{Action, Member, Run, RunKey, ServerName, Settlement, Wanted},
    prelude::*,
    task::QueueName,
};
use tokio::time::{sleep, timeout};

use super::{Stage, spent::Spent};
use crate::{
    order::Order,
    queue,
    queue::QUEUE,
    task::{PATIENCE, task},
};

/// Runs whose ends or leases are measured, each end by a call of its own.
const RUNS: u64 = 100;
/// Tasks per call before a measurement.
const TAKEN: u64 = 1_000;
/// Calls whose answer may be there before their caller is gone.
const TRIES: u64 = 20;

fn member(name: &str) -> Member {
    Member { name: ServerName { host: "bench".to_owned(), pid: 1, server_id: name.to_owned() }, number: 0 }
}

async fn take(stage: &Stage, name: &str, n: u64) -> Result<Vec<Run>, BoxError> {
    let wanted = [Wanted { queue: QUEUE.parse()?, n: usize::try_from(n)? }];
    Ok(stage.client.broker().dequeue(&member(name), &wanted).await?)
}

/// Starts `n` runs, and returns those in the middle of them.
async fn start(stage: &Stage, n: u64) -> Result<Vec<Run>, BoxError> {
    queue::fill(&stage.client, &Order { n, ..stage.order.clone() }).await?;
    let mut runs = Vec::new();
    while (runs.len() as u64) < n {
        let some = take(stage, "others", TAKEN).await?;
        if some.is_empty() {
            return Err(format!("{} of {n} tasks run", runs.len()).into());
        }
        runs.extend(some);
    }
    let first = usize::try_from(n.saturating_sub(RUNS) / 2)?;
    Ok(runs.into_iter().skip(first).take(usize::try_from(RUNS)?).collect())
}

/// Ends runs one by one.
pub(super) async fn settle(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    let runs = start(stage, n).await?;
    let counter = stage.count()?;
    for run in &runs {
        let message = run.message.clone().map_err(|error| error.reason)?.into();
        let end = Settlement { run: run.key.clone(), message, action: Action::Done, resend: false };
        stage.client.broker().settle(&[end]).await.remove(0)?;
    }
    counter.stop(runs.len() as u64)
}

/// Extends the leases of some runs by one call.
pub(super) async fn extend(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    let runs: Vec<RunKey> = start(stage, n).await?.into_iter().map(|run| run.key).collect();
    let counter = stage.count()?;
    for extended in stage.client.broker().extend(&runs).await {
        extended?;
    }
    counter.stop(1)
}

/// Dequeues a task for a caller that is gone before the answer comes.
async fn lose(stage: &Stage) -> Result<(), BoxError> {
    let queue: QueueName = QUEUE.parse()?;
    // From this call on Redis knows the script, so that one call is enough.
    take(stage, "lost", 1).await?;
    for number in 0..TRIES {
        stage.client.enqueue(task(number, 100)).await?;
        let mut call = pin!(take(stage, "lost", 1));
        // Now and then the answer is there at once; then the task is one more that runs.
        if call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            let taken = async {
                while stage.client.broker().queue_stats(&queue).await?.active == number {
                    sleep(Duration::from_millis(1)).await;
                }
                Ok::<_, BoxError>(())
            };
            return timeout(PATIENCE, taken).await.map_err(|_| "the call was not sent")?;
        }
    }
    Err("every answer came before the caller was gone".into())
}

/// Requeues the task of a lost answer below `n` newer runs.
pub(super) async fn release(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    lose(stage).await?;
    start(stage, n).await?;
    let counter = stage.count()?;
    let released = stage.client.broker().release_unanswered(&member("lost"), Duration::ZERO).await?.len();
    let spent = counter.stop(1)?;
    if released == 1 { Ok(spent) } else { Err(format!("{released} tasks of the lost answer were requeued").into()) }
}
