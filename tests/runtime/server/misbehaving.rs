//! Jobs, arguments and settings that misbehave: only their own task suffers.

use std::{error::Error, fmt, time::Duration};

use asynq_runtime::{
    Client, RawTask, State, TaskState,
    inspector::{Force, InspectError},
    prelude::*,
};
use tokio::task::coop::consume_budget;

use super::{Log, enqueue, ids, logged, memory, queue, server, settled, soon, start, task};

#[job]
async fn neighbour(log: State<Log>) -> JobResult {
    log.send("neighbour".into())?;
    Ok(())
}

/// An error that cannot be shown.
#[derive(Debug)]
struct Unspeakable;

impl fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("no words")
    }
}

impl Error for Unspeakable {}

#[job]
async fn unspeakable() -> Result<(), Unspeakable> {
    Err(Unspeakable)
}

/// An error that names itself as its own cause.
#[derive(Debug)]
struct Circular;

impl fmt::Display for Circular {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("round and round")
    }
}

impl Error for Circular {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self)
    }
}

#[job]
async fn circular() -> Result<(), Circular> {
    Err(Circular)
}

fn clueless(_: u32, _: &JobError) -> Duration {
    panic!("no idea")
}

#[job(backoff = clueless)]
async fn hasty() -> JobResult {
    Err(JobError::fail("no"))
}

#[tokio::test]
async fn errors_and_back_offs_that_misbehave_are_failures_like_any_other() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    unspeakable::job().task_id("unspeakable").enqueue(&client).await.unwrap();
    circular::job().task_id("circular").enqueue(&client).await.unwrap();
    hasty::job().task_id("hasty").enqueue(&client).await.unwrap();
    neighbour::enqueue(&client).await.unwrap();
    let (builder, mut log) = server::<(unspeakable, circular, hasty, neighbour)>(&broker);
    let running = start(builder.backoff(|_, _, _| panic!("no idea either"))).await;
    assert_eq!(logged(&mut log).await, "neighbour");
    for (id, expected) in [("unspeakable", "no words"), ("circular", "round and round"), ("hasty", "no")] {
        let task = settled(&broker, &running, id, TaskState::Retry).await;
        // A backtrace may follow, where the environment asks for one.
        let error = task.last_error.as_deref().and_then(|error| error.lines().next()).unwrap();
        assert!(error.contains(expected) && error.len() < 500, "{id}: {error}");
        assert_eq!(task.retried, 1);
    }
}

/// Tokio's budget ends each poll of this job.
#[job(timeout = "1s", retry = 1)]
async fn never_waits() -> JobResult {
    loop {
        consume_budget().await;
    }
}

#[tokio::test]
async fn a_job_that_never_waits_ends_with_its_time() {
    let broker = memory().await;
    never_waits::job().task_id("spins").enqueue(&Client::new(broker.clone())).await.unwrap();
    let (builder, _log) = server::<(never_waits,)>(&broker);
    let running = start(builder).await;
    let task = settled(&broker, &running, "spins", TaskState::Retry).await;
    assert_eq!(task.last_error.as_deref(), Some("context deadline exceeded"));
}

#[job(codec = "json")]
async fn read(log: State<Log>, value: Vec<u64>) -> JobResult {
    log.send(format!("{value:?}"))?;
    Ok(())
}

#[tokio::test]
async fn json_that_is_a_trap_is_archived_and_the_next_task_runs() {
    let broker = memory().await;
    let traps: &[(&str, Vec<u8>)] = &[
        ("a million brackets", vec![b'['; 1 << 20]),
        ("a number without end", b"[1e400000]".to_vec()),
        ("half a pair", br#"["\ud800"]"#.to_vec()),
        ("nothing", Vec::new()),
        ("UTF-16", b"\xff\xfe[\x001\x00]\x00".to_vec()),
        ("gzip", b"\x1f\x8b\x08\0\0\0\0\0".to_vec()),
        ("the other codec", b"\x01\x05".to_vec()),
    ];
    for (id, payload) in traps {
        enqueue(&broker, RawTask::new("read", payload.clone()).task_id(*id)).await;
    }
    enqueue(&broker, RawTask::new("read", "[1, 2]")).await;
    let (builder, mut log) = server::<(read,)>(&broker);
    let running = start(builder).await;
    assert_eq!(logged(&mut log).await, "[1, 2]");
    for (id, payload) in traps {
        let task = settled(&broker, &running, id, TaskState::Archived).await;
        let error = task.last_error.unwrap();
        assert!(error.starts_with("the arguments of `read` cannot be read: ") && error.len() < 500, "{id}: {error}");
        assert_eq!(task.payload, payload, "nothing is lost");
    }
}

/// Pauses the queue that it runs in, and tries to delete it.
#[job(retry = 0)]
async fn meddle(ctx: &JobContext, client: State<Client>, log: State<Log>) -> JobResult {
    let inspector = client.inspector();
    inspector.pause("default").await?;
    match inspector.delete_queue("default", Force::Yes).await {
        Err(InspectError::QueueActive { .. }) => log.send("refused".into())?,
        other => return Err(JobError::fail(format!("{other:?}"))),
    }
    inspector.cancel(ctx.id()).await?;
    std::future::pending().await
}

#[tokio::test]
async fn a_job_may_pause_its_queue_and_cancel_itself_but_not_delete_its_queue() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    let (builder, mut log) = server::<(meddle, neighbour)>(&broker);
    let running = start(builder.concurrency(1).state(client.clone())).await;
    soon(running.signals().subscribed.reached(1)).await;
    meddle::job().task_id("m").enqueue(&client).await.unwrap();
    assert_eq!(logged(&mut log).await, "refused");
    let task = settled(&broker, &running, "m", TaskState::Archived).await;
    assert_eq!(task.last_error.as_deref(), Some("context canceled"));
    neighbour::enqueue(&client).await.unwrap();
    assert!(broker.queue_stats(&queue("default")).await.unwrap().paused);
    client.inspector().resume("default").await.unwrap();
    assert_eq!(logged(&mut log).await, "neighbour");
}

/// Closes the broker of its own server.
#[job]
async fn close(client: State<Client>, log: State<Log>) -> JobResult {
    client.broker().close().await;
    log.send("closed".into())?;
    Ok(())
}

#[tokio::test]
async fn a_job_that_closes_the_broker_does_not_keep_the_server_from_leaving() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    close::enqueue(&client).await.unwrap();
    let (builder, mut log) = server::<(close,)>(&broker);
    let running = start(builder.state(client).shutdown_timeout("1s")).await;
    assert_eq!(logged(&mut log).await, "closed");
    let _ = soon(running.shutdown()).await;
}

/// Enqueues two of itself, as long as there are generations left.
#[job]
async fn beget(client: State<Client>, log: State<Log>, generations: u32) -> JobResult {
    if let Some(left) = generations.checked_sub(1) {
        for outcome in client.enqueue_many([beget::job(left), beget::job(left)]).await? {
            outcome?;
        }
    }
    log.send(String::new())?;
    Ok(())
}

#[tokio::test]
async fn jobs_that_enqueue_themselves_run_to_the_last() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    let (builder, mut log) = server::<(beget,)>(&broker);
    let running = start(builder.state(client.clone())).await;
    beget::enqueue(&client, 9_u32).await.unwrap();
    for _ in 0..(1 << 10) - 1 {
        logged(&mut log).await;
    }
    soon(running.shutdown()).await.unwrap();
    assert!(log.try_recv().is_err());
    assert!(ids(&broker, TaskState::Pending).await.is_empty());
}

#[tokio::test]
async fn settings_at_their_ends_work_or_say_why_not() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    neighbour::job().task_id("n").enqueue(&client).await.unwrap();
    let one = || server::<(neighbour,)>(&broker);
    let (builder, mut log) = one();
    let builder = builder.concurrency(65_536).queue("default", u32::MAX).queue("low", u32::MAX - 1).queue("lower", 1);
    let running = start(builder).await;
    assert_eq!(logged(&mut log).await, "neighbour");
    soon(running.shutdown()).await.unwrap();
    assert!(task(&broker, "n").await.is_none());

    // A queue may be named twice, and zero slots mean as many as there are processors.
    neighbour::enqueue(&client).await.unwrap();
    let (builder, mut log) = one();
    let server = builder.queue("default", 1).queue("default", 3).concurrency(0).build().await.unwrap();
    let running = server.start().await.unwrap();
    assert_eq!(logged(&mut log).await, "neighbour");
    soon(running.shutdown()).await.unwrap();
}
