//! The function of a job that is called for its archived tasks.

use std::time::Duration;

use asynq_runtime::{
    ArchivedTask, State, TaskState,
    job::{OnArchive, PayloadError},
    prelude::*,
    rate::Semaphore,
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::{Log, logged, memory, server, settled, soon, start, task};

#[derive(Debug, thiserror::Error)]
#[error("the bank says {code}")]
struct Refused {
    code: u16,
}

#[job(retry = 0, on_archive = refund)]
async fn charge(order: u64, how: String) -> Result<(), Refused> {
    let _ = order;
    match how.as_str() {
        "refused" => Err(Refused { code: 402 }),
        "panics" => panic!("at the till"),
        "sleeps" => std::future::pending().await,
        _ => Ok(()),
    }
}

async fn refund(ArchivedTask { job, ctx, error, .. }: ArchivedTask<charge>) {
    let log: State<Log> = ctx.state().expect("the server's");
    let code = error.source().downcast_ref::<Refused>().map(|refused| refused.code);
    let error = error.to_string();
    let error = error.lines().next().unwrap_or_default();
    let job = job.map(|charge { order, how }| format!("{order} {how}")).map_err(|error| error.to_string());
    let _ = log.send(format!("{} {job:?} {code:?} {} {error}", ctx.id(), ctx.is_cancelled()));
}

#[tokio::test]
async fn on_archived_receives_the_arguments_and_the_jobs_own_error() {
    let broker = memory().await;
    let (builder, mut log) = server::<(charge,)>(&broker);
    let running = start(builder.concurrency(1)).await;
    let client = running.client();
    for (id, how, retry) in [("well", "well", 0), ("again", "refused", 1), ("no", "refused", 0), ("p", "panics", 0)] {
        charge::job(7_u64, how).task_id(id).retry(retry).enqueue(&client).await.unwrap();
    }
    charge::job(8_u64, "sleeps").task_id("late").timeout("1s").enqueue(&client).await.unwrap();
    let bytes = RawTask::new("charge", &b"\x01"[..]).task_id("bytes");
    client.enqueue(bytes).await.unwrap();
    assert_eq!(logged(&mut log).await, "no Ok(\"7 refused\") Some(402) false the bank says 402");
    let panicked = logged(&mut log).await;
    assert!(panicked.starts_with("p Ok(\"7 panics\") None false panic error cause by: panic ["), "{panicked}");
    assert_eq!(logged(&mut log).await, "late Ok(\"8 sleeps\") None false context deadline exceeded");
    let unreadable = logged(&mut log).await;
    assert!(unreadable.starts_with("bytes Err("), "{unreadable}");
    settled(&broker, &running, "bytes", TaskState::Archived).await;
    assert!(log.try_recv().is_err(), "no hook runs for a success, nor for a task that is tried again");
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn the_servers_hook_runs_before_the_jobs_and_both_before_the_broker_is_called() {
    let broker = memory().await;
    let (builder, mut log) = server::<(charge,)>(&broker);
    let (sender, mut states) = mpsc::unbounded_channel();
    let (looks, hook) = (broker.clone(), sender);
    let builder = builder.on_archive(move |task| {
        let (broker, sender) = (looks.clone(), hook.clone());
        async move {
            let found = broker.task(&task.queue, &task.id).await.unwrap().unwrap();
            let _ = sender.send(found.state);
        }
    });
    let running = start(builder).await;
    charge::job(7_u64, "refused").task_id("no").enqueue(&running.client()).await.unwrap();
    assert!(logged(&mut log).await.starts_with("no "));
    assert_eq!(states.try_recv(), Ok(TaskState::Active), "the hook of the server was called before");
    settled(&broker, &running, "no", TaskState::Archived).await;
}

#[job(retry = 0, on_archive = panics_too)]
async fn panics_twice() -> JobResult {
    Err("no".into())
}

async fn panics_too(_: ArchivedTask<panics_twice>) {
    panic!("in the function for archived tasks");
}

#[job(retry = 0, on_archive = never_ends)]
async fn fails() -> JobResult {
    Err("no".into())
}

async fn never_ends(task: ArchivedTask<fails>) {
    let log: State<Log> = task.ctx.state().expect("the server's");
    let _ = log.send("begun".into());
    std::future::pending::<()>().await;
}

/// The code that `#[job(on_archive = ..)]` writes, by hand.
#[derive(Serialize, Deserialize)]
struct Parcel {
    weight: u32,
}

async fn returned(task: ArchivedTask<Parcel>) {
    let log: State<Log> = task.ctx.state().expect("the server's");
    let _ = log.send(format!("{:?}", task.job.map(|Parcel { weight }| weight)));
}

impl Job for Parcel {
    const NAME: &'static str = "parcel";
    const OPTIONS: JobOptions = JobOptions::new().retry(0);
    const ON_ARCHIVE: Option<OnArchive<Self>> = Some(OnArchive::new(|task| task.call(returned)));
    type Output = JobResult;

    async fn run(self, _: &JobContext) -> JobResult {
        Err("lost".into())
    }
}

#[tokio::test]
async fn on_archived_of_a_job_that_is_written_by_hand_runs_as_well() {
    let broker = memory().await;
    let (builder, mut log) = server::<(Parcel,)>(&broker);
    let running = start(builder).await;
    running.client().enqueue(Parcel { weight: 3 }).await.unwrap();
    assert_eq!(logged(&mut log).await, format!("{:?}", Ok::<u32, PayloadError>(3)));
}

#[job(retry = 0, timeout = "5m", on_archive = takes_a_token)]
async fn calls_a_partner() -> JobResult {
    Err("no".into())
}

async fn takes_a_token(task: ArchivedTask<calls_a_partner>) {
    let log: State<Log> = task.ctx.state().expect("the server's");
    let partner = Semaphore::new("partner", 1).expect("a semaphore");
    let refused = partner.try_acquire(&task.ctx).await.expect_err("no attempt would give the token back");
    let _ = log.send(refused.to_string());
}

#[tokio::test]
async fn on_archived_is_told_to_leave_a_token_to_a_job() {
    let broker = memory().await;
    let (builder, mut log) = server::<(calls_a_partner,)>(&broker);
    let running = start(builder).await;
    calls_a_partner::job().task_id("t1").enqueue(&running.client()).await.unwrap();
    let expected = "task `t1` has no attempt here whose end would give its token back, as in an `on_archive` function: enqueue a \
                    job that takes the token";
    assert_eq!(logged(&mut log).await, expected);
}

/// A worker reports to the broker within a second of its shutdown timeout, as documented.
mod timing {
    use super::*;

    #[tokio::test]
    async fn a_function_that_panics_or_never_ends_changes_nothing() {
        const SHUTDOWN: Duration = Duration::from_millis(50);
        let broker = memory().await;
        let (builder, mut log) = server::<(panics_twice, fails)>(&broker);
        let running = start(builder.shutdown_timeout(SHUTDOWN)).await;
        panics_twice::job().task_id("p").enqueue(&running.client()).await.unwrap();
        let archived = settled(&broker, &running, "p", TaskState::Archived).await;
        assert_eq!(archived.last_error.as_deref(), Some("no"));
        fails::job().task_id("n").enqueue(&running.client()).await.unwrap();
        assert_eq!(logged(&mut log).await, "begun");
        soon(running.shutdown()).await.unwrap();
        assert_eq!(task(&broker, "n").await.unwrap().state, TaskState::Archived);
    }
}
