//! Handlers of raw tasks, and results that are written while a job runs.

use std::sync::{
    Mutex,
    mpsc::{Receiver, channel},
};

use asynq_runtime::{Bytes, Client, Registry, State, TaskState, job::WriteError, prelude::*};

use super::{Log, enqueue, flaky::Flaky, logged, memory, server, settled, soon, start, task};

#[job(name = "image:resize", codec = "json", retention = "1h")]
async fn resize(log: State<Log>, width: u32) -> JobResult {
    log.send(format!("typed {width}"))?;
    Ok(())
}

#[job(codec = "json", retention = "1h")]
async fn writes(ctx: &JobContext) -> JobResult {
    ctx.write_result(&"half").await?;
    ctx.write_result(&vec![1, 2]).await?;
    Ok(())
}

#[job(codec = "json", retention = "1h")]
fn writes_on_a_thread(ctx: &JobContext) -> JobResult<u8> {
    ctx.write_result_blocking(&"half")?;
    Ok(9)
}

#[job]
fn reports_on_a_thread(ctx: &JobContext, log: State<Log>, gate: State<Mutex<Receiver<()>>>) -> JobResult {
    ctx.progress_blocking(0.5, "half")?;
    log.send("reported".into())?;
    gate.lock().unwrap().recv()?;
    Ok(())
}

#[job(codec = "json", retention = "1h")]
async fn writes_much(ctx: &JobContext, log: State<Log>, bytes: usize) -> JobResult<String> {
    ctx.write_result_raw(vec![b'x'; bytes.min(1 << 20)]).await?;
    if let Err(error) = ctx.write_result_raw(vec![b'x'; bytes]).await {
        log.send(format!("{} {error}", matches!(error, WriteError::TooLarge(_))))?;
    }
    Ok("x".repeat(bytes))
}

#[job]
async fn writes_too_late(ctx: &JobContext, log: State<Log>) -> JobResult {
    let error = ctx.write_result(&1).await.unwrap_err();
    log.send(format!("{} {error}", matches!(error, WriteError::Gone | WriteError::Fenced)))?;
    Ok(())
}

#[tokio::test]
async fn a_job_goes_before_handlers_and_a_longer_pattern_before_a_shorter() {
    let broker = memory().await;
    let (builder, mut log) = server::<(resize,)>(&broker);
    let (sender, mut lines) = tokio::sync::mpsc::unbounded_channel::<String>();
    let handler = |label: &'static str| {
        let sender = sender.clone();
        move |task: RawTask| {
            let sender = sender.clone();
            async move {
                let (name, payload) = (task.name(), String::from_utf8_lossy(task.payload()));
                let (ctx, trace) = (task.context(), task.header_value("trace").unwrap_or("none"));
                sender.send(format!("{label} {name} {payload} {trace} {} {}", ctx.queue(), ctx.id()))?;
                ctx.write_result_raw(Bytes::from_static(b"seen")).await?;
                JobResult::Ok(())
            }
        }
    };
    let builder =
        builder.handle("image:", handler("image")).handle("image:crop", handler("crop")).handle("m", handler("m"));
    let running = start(builder).await;
    for (i, name) in ["image:resize", "image:crop", "image:resize:big", "mail"].into_iter().enumerate() {
        let task = RawTask::new(name, format!("{i}")).task_id(i.to_string()).header("trace", "t");
        enqueue(&broker, task.retention("1h")).await;
        let done = settled(&broker, &running, &i.to_string(), TaskState::Completed).await;
        assert_eq!(done.result, (i > 0).then(|| Bytes::from_static(b"seen")));
    }
    assert_eq!(logged(&mut log).await, "typed 0");
    for expected in ["crop image:crop 1 t default 1", "image image:resize:big 2 t default 2", "m mail 3 t default 3"] {
        assert_eq!(logged(&mut lines).await, expected);
    }
    // A task that fits no pattern is unknown as ever.
    enqueue(&broker, RawTask::new("video", "").task_id("v")).await;
    settled(&broker, &running, "v", TaskState::Retry).await;
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_handler_alone_makes_a_server_and_may_fail_or_pass_its_task_on() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    let builder = Server::builder("nothing://is-connected").broker(broker.clone()).registry(Registry::default());
    let onward = client.clone();
    let builder = builder.handle("fails", |_: RawTask| async { Err::<(), _>(JobError::skip_retry("no")) }).handle(
        "passes",
        move |task: RawTask| {
            let client = onward.clone();
            async move { client.enqueue(task.queue("elsewhere").task_id("again")).await.map(drop) }
        },
    );
    let running = start(builder).await;
    client.enqueue(RawTask::new("fails", "").task_id("f")).await.unwrap();
    let failed = settled(&broker, &running, "f", TaskState::Archived).await;
    assert_eq!(failed.last_error.as_deref(), Some("no"));
    let seen = running.signals().settled.count();
    client.enqueue(RawTask::new("passes:on", "bytes").header("trace", "t")).await.unwrap();
    soon(running.signals().settled.reached(seen + 1)).await;
    let again = broker.task(&super::queue("elsewhere"), &super::id("again")).await.unwrap().unwrap();
    assert_eq!((again.r#type.as_str(), &again.payload[..]), ("passes:on", &b"bytes"[..]));
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_result_that_is_too_large_is_an_error_of_its_job() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    let (builder, mut log) = server::<(writes_much,)>(&broker);
    let running = start(builder).await;
    let text = "the result has 1048577 bytes, more than the limit of 1048576; store it elsewhere and keep its place";
    // The JSON of the result has two quotes more.
    writes_much::job((1 << 20) - 2).task_id("fits").enqueue(&client).await.unwrap();
    let done = settled(&broker, &running, "fits", TaskState::Completed).await;
    assert_eq!(done.result.unwrap().len(), 1 << 20);
    writes_much::job((1 << 20) - 1).task_id("returned").enqueue(&client).await.unwrap();
    let refused = settled(&broker, &running, "returned", TaskState::Archived).await;
    assert_eq!((refused.last_error.as_deref(), refused.retried), (Some(text), 0));
    writes_much::job((1 << 20) + 1).task_id("written").enqueue(&client).await.unwrap();
    assert_eq!(logged(&mut log).await, format!("true {text}"));
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn invalid_patterns_are_refused_before_the_start() {
    let broker = memory().await;
    let run = |_: RawTask| async {};
    for (patterns, expected) in [
        (&["image:", "image:"][..], "`image:` is there twice"),
        (&[" "], "must not be blank"),
        (&["image:resize"], "`image:resize` is a job already"),
    ] {
        let (builder, _log) = server::<(resize,)>(&broker);
        let builder = patterns.iter().fold(builder, |builder, pattern| builder.handle(*pattern, run));
        let error = builder.build().await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_result_is_written_while_the_job_runs_and_the_last_one_counts() {
    let broker = memory().await;
    let (builder, _log) = server::<(writes, writes_on_a_thread)>(&broker);
    let running = start(builder).await;
    let client = running.client();
    writes::job().task_id("w").enqueue(&client).await.unwrap();
    let done = settled(&broker, &running, "w", TaskState::Completed).await;
    assert_eq!(done.result.as_deref(), Some(&b"[1,2]"[..]));
    writes_on_a_thread::job().task_id("t").enqueue(&client).await.unwrap();
    let done = settled(&broker, &running, "t", TaskState::Completed).await;
    assert_eq!(done.result.as_deref(), Some(&b"9"[..]));
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_blocking_job_reports_how_far_it_is() {
    let broker = memory().await;
    let (builder, mut log) = server::<(reports_on_a_thread,)>(&broker);
    let (open, gate) = channel();
    let running = start(builder.state(Mutex::new(gate))).await;
    reports_on_a_thread::job().task_id("r").enqueue(&running.client()).await.unwrap();
    assert_eq!(logged(&mut log).await, "reported");
    let progress = task(&broker, "r").await.unwrap().progress.unwrap();
    assert_eq!((progress.fraction, progress.note.as_str()), (0.5, "half"));
    open.send(()).unwrap();
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_result_of_a_run_that_was_lost_is_refused_by_type() {
    let flaky = Flaky::new(memory().await);
    let broker: std::sync::Arc<dyn asynq_runtime::broker::Broker> = flaky.clone();
    flaky.lose_results.store(true, std::sync::atomic::Ordering::SeqCst);
    let (builder, mut log) = server::<(writes_too_late,)>(&broker);
    let running = start(builder).await;
    writes_too_late::enqueue(&running.client()).await.unwrap();
    assert_eq!(logged(&mut log).await, "true this run has ended: the task was taken over by another worker");
    soon(running.shutdown()).await.unwrap();
}
