//! Settings that a server refuses, the queues that it serves, and services beside the jobs.

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use asynq_runtime::{
    BoxError, Client, Registry, Server, State, TaskState,
    broker::{
        Broker, ServerName,
        sqlite::{SqliteBroker, SqliteOptions},
    },
    job::BoxFuture,
    prelude::*,
    server::{Service, ServiceContext},
    task::{QueueWeight, ServerInfo},
};
use futures_util::FutureExt as _;
use tokio::{
    runtime::{self, Runtime},
    sync::{Semaphore, mpsc, oneshot},
};

use super::{Gate, Log, flaky::Flaky, ids, logged, memory, server, soon, start, waits_for_a_permit};

struct Mailer;

#[job(queue = "mail")]
async fn needs_mailer(_mailer: State<Mailer>) -> JobResult {
    Ok(())
}

#[job]
async fn named(log: State<Log>, name: String) -> JobResult {
    log.send(name)?;
    Ok(())
}

#[job]
async fn stays(log: State<Log>, name: String) -> JobResult {
    log.send(name)?;
    std::future::pending().await
}

async fn refusal(builder: asynq_runtime::server::ServerBuilder) -> String {
    builder.build().await.expect_err("this must be refused").to_string()
}

#[tokio::test]
async fn a_server_refuses_invalid_settings() {
    let broker = memory().await;
    let fresh = || Server::builder("x").broker(Arc::clone(&broker));
    let text = refusal(fresh().registry(Registry::only::<()>().unwrap())).await;
    assert!(text.contains("no jobs") && text.contains("#[job]"), "{text}");
    let text = refusal(fresh().registry(Registry::only::<(needs_mailer,)>().unwrap())).await;
    assert!(text.contains("needs_mailer") && text.contains("Mailer"), "{text}");
    let one = || server::<(named,)>(&broker).0;
    let text = refusal(one().queue("a{b}", 1)).await;
    assert!(text.contains("a{b}"), "{text}");
    let text = refusal(one().queue("low", 0)).await;
    assert!(text.contains("`low` has weight 0"), "{text}");
    let text = refusal(one().shutdown_timeout("3 parsecs")).await;
    assert!(text.contains("shutdown_timeout") && text.contains("3 parsecs"), "{text}");
    let url = Server::builder("amqp://user:secret@host").registry(Registry::only::<(named,)>().unwrap());
    let text = refusal(url.state::<Log>(mpsc::unbounded_channel().0)).await;
    assert!(text.contains("redis://") && !text.contains("secret"), "{text}");
}

#[test]
fn a_server_that_finds_no_whole_runtime_says_what_it_needs() {
    let whole = Runtime::new().unwrap();
    let build = || whole.block_on(async { server::<(named,)>(&memory().await).0.build().await.unwrap() });
    let mut builders = [(); 3].map(|()| runtime::Builder::new_multi_thread());
    builders[1].enable_time();
    builders[2].enable_io();
    for mut builder in builders {
        let incomplete = builder.build().unwrap();
        let error = incomplete.block_on(build().start()).err().map(|error| error.to_string());
        assert!(error.as_deref().is_some_and(|error| error.contains("enable_all()")), "{builder:?}: {error:?}");
    }
    let error = build().start().now_or_never().and_then(Result::err).map(|error| error.to_string());
    assert!(error.as_deref().is_some_and(|error| error.contains("#[tokio::main]")), "without a runtime: {error:?}");
}

#[tokio::test]
async fn a_server_without_configured_queues_serves_those_of_its_jobs() {
    let broker = memory().await;
    let (builder, _log) = server::<(named, needs_mailer)>(&broker);
    let server = builder.state(Mailer).build().await.unwrap();
    assert_eq!(server.queues().collect::<Vec<_>>(), [("default", 1), ("mail", 1)]);
    let running = server.start().await.unwrap();
    soon(running.signals().beat.reached(1)).await;
    let info = broker.servers().await.unwrap().remove(0).info;
    let queues: Vec<_> = info.queues.iter().map(|q| (q.queue.as_deref().unwrap(), q.weight)).collect();
    assert_eq!(queues, [("default", Some(1)), ("mail", Some(1))]);
    assert_eq!((info.concurrency, info.status.as_str()), (4, "active"));
    assert_eq!(info.rust_version, env!("CARGO_PKG_VERSION"));
}

#[tokio::test]
async fn a_server_works_where_a_call_may_take_for_ever() {
    let mut options = SqliteOptions::default();
    options.call_timeout = Duration::MAX;
    let broker: Arc<dyn Broker> = Arc::new(SqliteBroker::in_memory(options).await.unwrap());
    let (builder, mut log) = server::<(named,)>(&broker);
    let running = start(builder).await;
    named::enqueue(&running.client(), "begins").await.unwrap();
    assert_eq!(logged(&mut log).await, "begins");
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn by_strict_priority_the_first_queue_is_emptied_first() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    for queue in ["low", "mid", "high"] {
        for _ in 0..5 {
            named::job(queue).queue(queue).enqueue(&client).await.unwrap();
        }
    }
    let (builder, mut log) = server::<(named,)>(&broker);
    let builder = builder.queues([("mid", 3), ("low", 1), ("high", 9)]).strict_priority().concurrency(1);
    let _running = start(builder).await;
    for queue in ["high", "mid", "low"] {
        for _ in 0..5 {
            assert_eq!(logged(&mut log).await, queue);
        }
    }
}

#[tokio::test]
async fn by_strict_priority_queues_of_equal_weight_take_equal_turns() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    for queue in ["first", "second"] {
        client.enqueue_many((0..100).map(|_| named::job(queue).queue(queue))).await.unwrap();
    }
    let (builder, mut log) = server::<(named,)>(&broker);
    let _running = start(builder.queues([("first", 2), ("second", 2)]).strict_priority().concurrency(1)).await;
    let mut second = 0;
    for _ in 0..100 {
        second += u32::from(logged(&mut log).await == "second");
    }
    // The average is 50, and the bounds are five standard deviations wide.
    assert!((25..=75).contains(&second), "{second}");
}

#[tokio::test]
async fn by_strict_priority_a_queue_waits_until_all_of_greater_weight_are_empty() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    let high: Vec<String> = (0..10).map(|i| format!("high:{i}")).collect();
    for queue in high.iter().map(String::as_str).chain(["low", "low", "low"]) {
        named::job(queue).queue(queue).enqueue(&client).await.unwrap();
    }
    let (builder, mut log) = server::<(named,)>(&broker);
    let builder = builder.queue("low", 1).queues(high.iter().map(|queue| (queue, 9)));
    let _running = start(builder.strict_priority().concurrency(1)).await;
    let mut started = Vec::new();
    for _ in 0..high.len() {
        started.push(logged(&mut log).await);
    }
    started.sort();
    assert_eq!(started, high);
}

#[tokio::test]
async fn by_strict_priority_an_idle_server_that_is_woken_for_two_queues_fills_its_slots_from_the_first() {
    let broker = memory().await;
    let (builder, mut log) = server::<(waits_for_a_permit,)>(&broker);
    let gate = Gate::new(Semaphore::new(0));
    let builder = builder.state(Arc::clone(&gate)).queues([("high", 9), ("low", 1)]);
    let running = start(builder.strict_priority().concurrency(2)).await;
    soon(running.signals().idle.reached(1)).await;
    // One call stores all of them at one moment.
    let tasks = ["low", "low", "high", "high"].map(|queue| waits_for_a_permit::job(queue).queue(queue));
    running.client().enqueue_many(tasks).await.unwrap();
    assert_eq!([logged(&mut log).await, logged(&mut log).await], ["high started", "high started"]);
    gate.add_permits(4);
    soon(running.signals().settled.reached(4)).await;
    soon(running.shutdown()).await.unwrap();
}

/// A call gives few large tasks, however many wait.
#[tokio::test]
async fn by_strict_priority_a_queue_of_large_tasks_keeps_the_others_waiting_too() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    let large = "high".repeat(200_000);
    for (name, queue) in [("low", "low"); 3].into_iter().chain([(large.as_str(), "high"); 12]) {
        stays::job(name).queue(queue).enqueue(&client).await.unwrap();
    }
    let (builder, mut log) = server::<(stays,)>(&broker);
    let _running = start(builder.queues([("low", 1), ("high", 9)]).strict_priority().concurrency(12)).await;
    for _ in 0..12 {
        assert!(logged(&mut log).await.starts_with("high"));
    }
}

#[tokio::test]
async fn by_strict_priority_queues_that_take_long_are_asked_after_a_look_at_those_above() {
    for weights in [[5; 5], [8, 7, 6, 5, 4]] {
        let flaky = Flaky::new(memory().await);
        flaky.slow_dequeues.store(true, SeqCst);
        let broker: Arc<dyn Broker> = flaky.clone();
        named::job("low").queue("low").enqueue(&Client::new(broker.clone())).await.unwrap();
        let (builder, mut log) = server::<(named,)>(&broker);
        let empty = weights.into_iter().enumerate().map(|(i, weight)| (format!("mid:{i}"), weight));
        let builder = builder.queue("high", 9).queues(empty).queue("low", 1);
        let _running = start(builder.strict_priority().concurrency(1)).await;
        assert_eq!(logged(&mut log).await, "low");
        // The second pass asks one of the empty queues without a look: the one above was asked by the first a moment ago.
        let fetches = flaky.fetches.lock().unwrap().clone();
        let longest = fetches.split(|call| *call == "ready").map(<[_]>::len).max();
        assert!(longest <= Some(2), "{weights:?}: {fetches:?}");
    }
}

#[tokio::test]
async fn by_weight_every_queue_gets_its_share() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    for queue in ["many", "few"] {
        client.enqueue_many((0..800).map(|_| named::job(queue).queue(queue))).await.unwrap();
    }
    let (builder, mut log) = server::<(named,)>(&broker);
    let _running = start(builder.queues([("many", 3), ("few", 1)])).await;
    let mut few = 0;
    for _ in 0..800 {
        few += u32::from(logged(&mut log).await == "few");
    }
    // The average is 200 of 800. Each draw takes up to four tasks, as many as there are slots, so that the bounds of five standard
    // deviations are twice as wide as for single ones. Without weights it would be 400.
    assert!((78..=322).contains(&few), "{few}");
    for _ in 0..800 {
        logged(&mut log).await;
    }
}

#[derive(Debug, thiserror::Error)]
#[error("address in use")]
struct InUse;

struct Beside(Option<oneshot::Sender<&'static str>>, Result<(), InUse>);

impl Service for Beside {
    fn name(&self) -> &'static str {
        "beside"
    }

    fn run(self: Box<Self>, cx: ServiceContext) -> BoxFuture<'static, Result<(), BoxError>> {
        Box::pin(async move {
            let Self(sender, outcome) = *self;
            named::enqueue(cx.client(), "from the service").await?;
            outcome?;
            cx.stopping().await;
            sender.map(|sender| sender.send("stopped"));
            Ok(())
        })
    }
}

#[tokio::test]
async fn a_service_lives_as_long_as_the_server() {
    let broker = memory().await;
    let (builder, mut log) = server::<(named,)>(&broker);
    let (sender, receiver) = oneshot::channel();
    let running = start(builder.service(Beside(Some(sender), Ok(())))).await;
    assert_eq!(logged(&mut log).await, "from the service");
    soon(running.shutdown()).await.unwrap();
    assert_eq!(soon(receiver).await, Ok("stopped"));
}

#[tokio::test]
async fn a_service_that_fails_ends_the_server_with_its_error() {
    let broker = memory().await;
    let (builder, _log) = server::<(named,)>(&broker);
    let server = builder.service(Beside(None, Err(InUse))).build().await.unwrap();
    let error = soon(server.run()).await.unwrap_err();
    assert_eq!(error.to_string(), "service `beside` failed: address in use");
    assert!(broker.servers().await.unwrap().is_empty());
}

struct Misdirected;

impl Service for Misdirected {
    fn name(&self) -> &'static str {
        "misdirected"
    }

    fn run(self: Box<Self>, _: ServiceContext) -> BoxFuture<'static, Result<(), BoxError>> {
        Box::pin(async { Err("`jobs:canary-password@h` is not an address".into()) })
    }
}

#[tokio::test]
async fn the_log_hides_a_password_in_the_error_of_a_service() {
    let log = asynq_test_support::Log::keep();
    let (builder, _log) = server::<(named,)>(&memory().await);
    let server = builder.service(Misdirected).build().await.unwrap();
    soon(server.run()).await.unwrap_err();
    assert_eq!(log.with("service `misdirected` failed: `jobs:***@h` is not an address").len(), 1);
    assert!(log.with("canary-password").is_empty());
}

struct Panics {
    before_start: bool,
}

impl Service for Panics {
    fn name(&self) -> &'static str {
        "panics"
    }

    fn before_start<'a>(&'a mut self, _: &'a ServiceContext) -> BoxFuture<'a, Result<(), BoxError>> {
        assert!(!self.before_start, "before the server starts");
        Box::pin(async { Ok(()) })
    }

    fn run(self: Box<Self>, _: ServiceContext) -> BoxFuture<'static, Result<(), BoxError>> {
        panic!("before there is a future")
    }
}

#[tokio::test]
async fn a_service_that_panics_before_it_is_polled_is_named() {
    for (before_start, message) in [(false, "before there is a future"), (true, "before the server starts")] {
        let (builder, _log) = server::<(named,)>(&memory().await);
        let server = builder.service(Panics { before_start }).build().await.unwrap();
        let error = soon(server.run()).await.unwrap_err().to_string();
        assert!(error.contains("service `panics` failed") && error.contains(message), "{error}");
    }
}

struct Refuses;

impl Service for Refuses {
    fn name(&self) -> &'static str {
        "refuses"
    }

    fn before_start<'a>(&'a mut self, _: &'a ServiceContext) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async { Err(InUse.into()) })
    }

    fn run(self: Box<Self>, _: ServiceContext) -> BoxFuture<'static, Result<(), BoxError>> {
        panic!("the server does not start")
    }
}

#[tokio::test]
async fn a_server_with_a_service_that_cannot_start_joins_no_broker_and_takes_no_task() {
    let broker = memory().await;
    named::job("waits").task_id("waits").enqueue(&Client::new(broker.clone())).await.unwrap();
    let (builder, _log) = server::<(named,)>(&broker);
    let error = soon(builder.service(Refuses).build().await.unwrap().start()).await.unwrap_err();
    assert_eq!(error.to_string(), "service `refuses` failed: address in use");
    assert!(std::error::Error::source(&error).is_some_and(|cause| cause.is::<InUse>()));
    assert_eq!(ids(&broker, TaskState::Pending).await, ["waits"]);
    assert!(broker.servers().await.unwrap().is_empty());
}

#[tokio::test]
async fn every_waiter_for_the_server_receives_the_failure_of_a_service() {
    let broker = memory().await;
    let (builder, _log) = server::<(named,)>(&broker);
    let running = start(builder.service(Beside(None, Err(InUse)))).await;
    // A task is left for an hour.
    named::job("later").process_in("1h").enqueue(&running.client()).await.unwrap();
    soon(running.failed()).await;
    let (first, second) = soon(async { tokio::join!(running.drained(), running.drained()) }).await;
    for outcome in [first, second, soon(running.drained()).await, soon(running.shutdown()).await] {
        let error = outcome.unwrap_err();
        assert_eq!(error.to_string(), "service `beside` failed: address in use");
        let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref());
        assert!(matches!(cause, Some(InUse)), "its own error is there: {error:?}");
    }
}

#[tokio::test]
async fn a_shutdown_returns_why_the_broker_was_broken() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    let server = Server::builder(format!("sqlite://{}", file.display())).state::<Log>(mpsc::unbounded_channel().0);
    let running = start(server.registry(Registry::only::<(named,)>().unwrap())).await;
    std::fs::remove_file(&file).unwrap();
    soon(running.failed()).await;
    let error = soon(running.shutdown()).await.unwrap_err().to_string();
    assert!(error.contains("was deleted or moved away"), "{error}");
}

#[tokio::test]
async fn a_larger_archive_beside_a_go_server_is_warned_of() {
    let broker = memory().await;
    let warnings = async |size| {
        let log = asynq_test_support::Log::keep();
        let builder = server::<(named,)>(&broker).0.archive("reports", size, "90d");
        soon(start(builder).await.shutdown()).await.unwrap();
        log.with("a larger archive than Go's").len()
    };
    for (queue, expected) in [("mails", 0), ("reports", 1)] {
        let name = ServerName { host: "h".into(), pid: 1, server_id: queue.into() };
        let queues = vec![QueueWeight { queue: Some(queue.into()), weight: Some(1) }];
        broker.join(&name, &ServerInfo { queues, ..ServerInfo::default() }).await.unwrap();
        assert_eq!((warnings(10_001).await, warnings(10_000).await), (expected, 0), "{queue}");
    }
}
