//! A job goes on from the checkpoint of an earlier attempt at its task.

use std::sync::Arc;

use asynq_runtime::{
    Client, JobBuilder, State, TaskState,
    broker::{Action, Broker, BrokerErrorKind, ServerName, Settled, Settlement, Wanted},
    prelude::*,
    task::ServerInfo,
};
use bytes::Bytes;

use super::{Log, flaky::Flaky, logged, memory, queue, server, settled, soon, start, task, tokens};

#[job]
async fn import(log: State<Log>, ctx: &JobContext, cursor: Checkpoint<u64>, rows: u64) -> JobResult {
    let mut next = cursor.get().unwrap_or(0);
    log.send(format!("from {next}"))?;
    while next < rows {
        next += 1;
        cursor.save(next).await?;
        if next == 2 && ctx.attempt() == 1 {
            return Err(JobError::retry_in("0s", "the connection broke"));
        }
    }
    log.send(format!("to {}", cursor.get().unwrap_or(0)))?;
    Ok(())
}

#[job]
fn import_blocking(log: State<Log>, ctx: &JobContext, cursor: Checkpoint<String>) -> JobResult {
    log.send(format!("from {:?}", cursor.get()))?;
    cursor.save_blocking("half".to_owned())?;
    if ctx.attempt() == 1 { Err(JobError::retry_in("0s", "again")) } else { Ok(()) }
}

#[tokio::test]
async fn a_retry_goes_on_where_the_failed_attempt_got_to() {
    let broker = memory().await;
    let (builder, mut log) = server::<(import, import_blocking)>(&broker);
    let running = start(builder).await;
    import::enqueue(&running.client(), 4).await.unwrap();
    for expected in ["from 0", "from 2", "to 4"] {
        assert_eq!(logged(&mut log).await, expected);
    }
    import_blocking::enqueue(&running.client()).await.unwrap();
    for expected in ["from None", "from Some(\"half\")"] {
        assert_eq!(logged(&mut log).await, expected);
    }
    soon(running.shutdown()).await.unwrap();
}

#[job]
async fn reports(flaky: State<Arc<Flaky>>, log: State<Log>, ctx: &JobContext) -> JobResult {
    flaky.away.lock().unwrap().push("default");
    let reported = ctx.progress(0.5, "half").await;
    flaky.away.lock().unwrap().clear();
    reported?;
    Ok(log.send("reported".into())?)
}

#[tokio::test]
async fn a_report_that_cannot_be_sent_fails_no_attempt() {
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    let (builder, mut log) = server::<(reports,)>(&broker);
    let running = start(builder.state(Arc::clone(&flaky))).await;
    let task = reports::job().retention("1h").enqueue(&running.client()).await.unwrap();
    assert_eq!(logged(&mut log).await, "reported");
    assert_eq!(settled(&broker, &running, task.id.as_str(), TaskState::Completed).await.retried, 0);
    soon(running.shutdown()).await.unwrap();
}

/// A program that ends when its broker is closed must not end because a person deletes a task.
#[tokio::test]
async fn a_report_of_a_run_that_has_lost_its_task_has_an_error_of_its_own() {
    let broker = memory().await;
    let error = tokens::attempt(&broker, "deleted").progress(0.5, "half").await.unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::RunEnded);
    broker.close().await;
    let error = tokens::attempt(&broker, "deleted").progress(0.5, "half").await.unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Closed);
}

#[job]
async fn long(log: State<Log>, ctx: &JobContext, cursor: Checkpoint<u64>) -> JobResult {
    let next = cursor.get().unwrap_or(0);
    log.send(format!("from {next}"))?;
    if next == 0 {
        ctx.stopping().await;
        assert!(ctx.is_stopping() && !ctx.is_cancelled());
        cursor.save(7).await?;
        return Err(JobError::snooze("0s"));
    }
    Ok(())
}

#[tokio::test]
async fn a_job_leaves_in_time_on_a_deploy_and_the_next_worker_goes_on() {
    let broker = memory().await;
    let (builder, mut log) = server::<(long,)>(&broker);
    let running = start(builder).await;
    long::job().task_id("a").retry(0).enqueue(&running.client()).await.unwrap();
    assert_eq!(logged(&mut log).await, "from 0");
    // The shutdown timeout is the default one, and the worker does not wait for it.
    soon(running.shutdown()).await.unwrap();
    let left = task(&broker, "a").await.unwrap();
    assert_eq!((left.state, left.retried, left.crashes), (TaskState::Retry, 0, 0));

    let (builder, mut log) = server::<(long,)>(&broker);
    let running = start(builder).await;
    assert_eq!(logged(&mut log).await, "from 7");
    soon(running.shutdown()).await.unwrap();
}

/// The same job in the next version of the program, with another checkpoint.
#[derive(serde::Serialize, serde::Deserialize)]
struct NextImport {
    rows: u64,
}

impl Job for NextImport {
    const NAME: &'static str = "import";
    type Output = JobResult;

    async fn run(self, ctx: &JobContext) -> JobResult {
        let cursor = ctx.checkpoint::<String>().await?;
        Err(JobError::skip_retry(format!("begun at {:?} of {}", cursor.get(), self.rows)))
    }
}

#[tokio::test]
async fn a_checkpoint_of_another_type_requeues_the_task() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    JobBuilder::new(NextImport { rows: 9 }).task_id("b").enqueue(&client).await.unwrap();
    let name = ServerName { host: "h".into(), pid: 1, server_id: "old".into() };
    let member = broker.join(&name, &ServerInfo::default()).await.unwrap();
    let wanted = [Wanted { queue: queue("default"), n: 1 }];
    let runs = broker.dequeue(&member, &wanted).await.unwrap();
    broker.save_checkpoint(&runs[0].key, &Bytes::from_static(b"\x01\0\0\0\0\x07")).await.unwrap();
    let (run, message) = (runs[0].key.clone(), Arc::new(runs[0].message.clone().unwrap()));
    let requeue = Settlement { run, message, action: Action::Requeue, resend: false };
    assert_eq!(broker.settle(&[requeue]).await[0].clone().unwrap(), Settled::Ok);

    let (builder, _log) = server::<(NextImport,)>(&broker);
    let running = start(builder).await;
    let requeued = settled(&broker, &running, "b", TaskState::Retry).await;
    assert_eq!(requeued.retried, 0, "no retry is spent");
    let why = requeued.last_error.unwrap();
    assert!(why.starts_with("the checkpoint of `import` cannot be read: it has shape 00000000"), "{why}");
    soon(running.shutdown()).await.unwrap();
}

#[job]
async fn greedy(cursor: Checkpoint<Vec<u8>>, bytes: u64) -> JobResult {
    cursor.save(vec![1; 3]).await?;
    let size = usize::try_from(bytes)?;
    match cursor.save(vec![0; size]).await {
        Ok(()) => Ok(()),
        Err(error) => Err(JobError::skip_retry(format!("{error}; kept {}", cursor.get().unwrap_or_default().len()))),
    }
}

#[tokio::test]
async fn one_of_ten_mebibytes_is_refused_and_the_last_one_stays() {
    let broker = memory().await;
    let (builder, _log) = server::<(greedy,)>(&broker);
    let running = start(builder).await;
    greedy::job(10 << 20).task_id("a").enqueue(&running.client()).await.unwrap();
    let archived = settled(&broker, &running, "a", TaskState::Archived).await;
    let why = archived.last_error.unwrap();
    let expected = "the checkpoint has 10485769 bytes, more than the limit of 1048576; store it elsewhere and keep its place; kept 3";
    assert_eq!(why, expected);
    soon(running.shutdown()).await.unwrap();
}
