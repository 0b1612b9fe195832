//! The hooks of a program, which harm no task or server.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use asynq_runtime::{
    Client, State, TaskState,
    broker::{Broker, BrokerError},
    prelude::*,
    server::{FailedTask, ServerBuilder},
};
use tokio::sync::mpsc;

use super::{Log, flaky::Flaky, ids, logged, memory, queue, server, settled, soon, start};

#[job]
async fn ends(log: State<Log>, how: String) -> JobResult {
    log.send(how.clone())?;
    match how.as_str() {
        "well" => Ok(()),
        "revoke" => Err(JobError::revoke("unwanted")),
        "snooze" => Err(JobError::snooze("1h")),
        "busy" => Err(JobError::not_a_failure("come back later")),
        other => Err(JobError::fail(other.to_owned())),
    }
}

fn line(label: &str, task: &FailedTask) -> String {
    let FailedTask { id, name, retried, max_retry, error, is_archived, .. } = task;
    let tenant = task.header("tenant").unwrap_or("without a tenant");
    format!("{label} {id} {name} {retried}/{max_retry} {error} {is_archived} {tenant}")
}

#[tokio::test]
async fn the_failure_hook_runs_before_the_broker_is_called_and_for_failures_alone() {
    let broker = memory().await;
    let (builder, _log) = server::<(ends,)>(&broker);
    let (sender, mut received) = mpsc::unbounded_channel();
    let (errors, archives) = (sender.clone(), sender);
    let hook = |label, sender: mpsc::UnboundedSender<String>| {
        move |task: FailedTask| {
            let _ = sender.send(line(label, &task));
            std::future::ready(())
        }
    };
    let builder = builder.on_error(hook("error", errors)).on_archive(hook("archive", archives)).concurrency(1);
    let running = start(builder).await;
    let client = running.client();
    for (how, retry) in [("well", 1), ("revoke", 1), ("snooze", 1), ("busy", 1), ("no", 1), ("never", 0)] {
        ends::job(how).task_id(how).retry(retry).header("tenant", "7").enqueue(&client).await.unwrap();
    }
    settled(&broker, &running, "never", TaskState::Archived).await;
    let mut all = Vec::new();
    while let Ok(line) = received.try_recv() {
        all.push(line);
    }
    assert_eq!(
        all,
        ["error no ends 0/1 no false 7", "error never ends 0/0 never true 7", "archive never ends 0/0 never true 7"]
    );
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_retry_that_is_not_a_failure_stores_its_text_and_counts_no_attempt() {
    let broker = memory().await;
    let (builder, _log) = server::<(ends,)>(&broker);
    let running = start(builder.is_failure(|error| error.to_string() != "throttled")).await;
    let client = running.client();
    // asynq would archive both, because no retry is left.
    for how in ["busy", "throttled"] {
        ends::job(how).task_id(how).retry(0).enqueue(&client).await.unwrap();
        let task = settled(&broker, &running, how, TaskState::Retry).await;
        let text = if how == "busy" { "come back later" } else { how };
        assert_eq!((task.retried, task.last_error.as_deref()), (0, Some(text)));
    }
    let stats = broker.queue_stats(&queue("default")).await.unwrap();
    assert_eq!((stats.failed_total, stats.retry), (0, 2));
    ends::job("broken").task_id("broken").retry(0).enqueue(&client).await.unwrap();
    settled(&broker, &running, "broken", TaskState::Archived).await;
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_hook_that_panics_changes_nothing() {
    let broker = memory().await;
    let (builder, _log) = server::<(ends,)>(&broker);
    let builder = builder
        .on_error(|_| async { panic!("in a hook") })
        .on_archive(|_| -> std::future::Ready<()> { panic!("in the call of a hook") })
        .on_drain(|_| async { panic!("in the last hook") })
        .health_check("5ms", |_| panic!("in the health check"));
    let running = start(builder).await;
    ends::job("no").task_id("a").retry(0).enqueue(&running.client()).await.unwrap();
    let archived = settled(&broker, &running, "a", TaskState::Archived).await;
    assert_eq!(archived.last_error.as_deref(), Some("no"));
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn the_start_awaits_its_hooks_and_the_drain_runs_its_own() {
    let broker = memory().await;
    let (builder, mut log) = server::<(ends,)>(&broker);
    let (sender, mut received) = mpsc::unbounded_channel();
    let last = sender.clone();
    let builder = builder
        .before_start(|client: Client| async move { ends::job("well").enqueue(&client).await.map(drop) })
        .before_start(move |_| async move { sender.send("before") })
        .on_drain(move |client: Client| async move {
            let _ = client.ping().await;
            let _ = last.send("drain");
        });
    let running = start(builder).await;
    assert_eq!(soon(received.recv()).await, Some("before"));
    assert_eq!(logged(&mut log).await, "well");
    soon(running.shutdown()).await.unwrap();
    assert_eq!(soon(received.recv()).await, Some("drain"));
}

#[tokio::test]
async fn a_hook_may_keep_the_server_from_starting() {
    for (fails, expected) in [(true, "the hook `before_start` failed: no licence"), (false, "panic")] {
        let broker = memory().await;
        let (builder, _log) = server::<(ends,)>(&broker);
        let builder = builder.before_start(move |_| async move {
            assert!(fails, "in a hook");
            Err::<(), _>("no licence")
        });
        let error = builder.build().await.unwrap().start().await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(broker.servers().await.unwrap(), []);
    }
}

#[tokio::test]
async fn the_health_hook_runs_at_each_interval() {
    let inner = memory().await;
    let flaky = Flaky::new(inner);
    let broker: Arc<dyn Broker> = flaky.clone();
    let (builder, _log) = server::<(ends,)>(&broker);
    let (sender, mut received) = mpsc::unbounded_channel();
    let calls = Arc::new(AtomicU32::new(0));
    let times = Arc::clone(&calls);
    let running = start(builder.health_check("5ms", move |result: Result<(), BrokerError>| {
        times.fetch_add(1, SeqCst);
        let _ = sender.send(result.is_ok());
    }))
    .await;
    assert_eq!(soon(received.recv()).await, Some(true));
    flaky.refuse_pings.store(true, SeqCst);
    soon(async { while received.recv().await == Some(true) {} }).await;
    flaky.refuse_pings.store(false, SeqCst);
    soon(async { while received.recv().await == Some(false) {} }).await;
    soon(running.shutdown()).await.unwrap();
    let at_the_end = calls.load(SeqCst);
    assert!(at_the_end >= 3);
    assert_eq!(Server::HEALTH_CHECK, Duration::from_secs(15));
}

/// A worker reports to the broker within a second of its shutdown timeout, as documented.
mod timing {
    use super::*;

    const SHUTDOWN: Duration = Duration::from_millis(50);

    /// Shuts a server down while a hook runs for an attempt that has failed for the last time: its outcome counts.
    async fn leaves_while_hooks_run(
        broker: &Arc<dyn Broker>,
        builder: ServerBuilder,
        begun: &mut mpsc::UnboundedReceiver<()>,
    ) {
        let running = start(builder).await;
        ends::job("no").task_id("a").retry(0).enqueue(&running.client()).await.unwrap();
        assert_eq!(soon(begun.recv()).await, Some(()));
        soon(running.shutdown()).await.unwrap();
        assert_eq!(ids(broker, TaskState::Archived).await, ["a"]);
    }

    #[tokio::test]
    async fn hooks_that_never_end_do_not_keep_a_server_from_leaving() {
        let broker = memory().await;
        let (builder, _log) = server::<(ends,)>(&broker);
        let (begins, mut begun) = mpsc::unbounded_channel();
        let builder = builder
            .on_error(move |_| {
                begins.send(()).unwrap();
                std::future::pending()
            })
            .on_drain(|_| std::future::pending())
            .shutdown_timeout(SHUTDOWN);
        leaves_while_hooks_run(&broker, builder, &mut begun).await;
    }

    /// The job's thread is blocked as well, so that the attempt does not notice that the server shuts down.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_hook_that_blocks_its_thread_takes_no_outcome_back() {
        let broker = memory().await;
        let (builder, _log) = server::<(ends,)>(&broker);
        let ((begins, mut begun), (release, released)) = (mpsc::unbounded_channel(), std::sync::mpsc::channel::<()>());
        let released = Mutex::new(released);
        let builder = builder
            .on_error(move |_| {
                begins.send(()).unwrap();
                let _ = released.lock().unwrap().recv();
                std::future::ready(())
            })
            .shutdown_timeout(SHUTDOWN);
        leaves_while_hooks_run(&broker, builder, &mut begun).await;
        drop(release);
    }
}
