//! Queues with limits, queues that come and go, and jobs that are chosen.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering::SeqCst},
    time::{Duration, Instant},
};

use asynq_runtime::{
    BoxError, Client, RawTask, State, TaskInfo, TaskState, broker::Broker, prelude::*, server::ServerBuilder,
};
use asynq_test_support::{Log, eventually};
use tokio::sync::{Semaphore, mpsc::UnboundedReceiver};

use super::{Gate, flaky::Flaky, id, logged, memory, queue, server, soon, start};

#[job]
async fn waits(ctx: &JobContext, log: State<super::Log>, gate: State<Gate>) -> JobResult {
    log.send(ctx.queue().to_string())?;
    gate.acquire().await?.forget();
    Ok(())
}

#[job(queue = "other")]
async fn quick(log: State<super::Log>) -> JobResult {
    log.send("quick".into())?;
    Ok(())
}

/// Counts the jobs that started in each queue, `n` in all.
async fn started(log: &mut UnboundedReceiver<String>, n: usize) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for _ in 0..n {
        *counts.entry(logged(log).await).or_default() += 1;
    }
    counts
}

async fn enqueue(client: &Client, queue: &str, n: usize) {
    let outcomes = client.enqueue_many((0..n).map(|_| waits::job().queue(queue))).await.unwrap();
    assert!(outcomes.iter().all(Result::is_ok));
}

fn counts<const N: usize>(counts: [(&str, usize); N]) -> BTreeMap<String, usize> {
    counts.into_iter().map(|(queue, n)| (queue.to_owned(), n)).collect()
}

async fn limited(configure: impl Fn(ServerBuilder) -> ServerBuilder) {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    for name in ["narrow", "wide"] {
        enqueue(&client, name, 20).await;
    }
    let (builder, mut log) = server::<(waits,)>(&broker);
    let gate = Gate::new(Semaphore::new(0));
    let builder = configure(builder.state(gate.clone()).concurrency(10).queue_concurrency("narrow", 2));
    let running = start(builder).await;
    assert_eq!(started(&mut log, 10).await, counts([("narrow", 2), ("wide", 8)]));
    // All slots of the server are taken by now: each job that ends makes room for one of its queue or of the wide one.
    gate.add_permits(40);
    assert_eq!(started(&mut log, 30).await, counts([("narrow", 18), ("wide", 12)]));
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_queue_runs_no_more_than_its_limit_and_the_others_take_the_slots() {
    limited(|builder| builder.queue("narrow", 9).queue("wide", 1)).await;
}

#[tokio::test]
async fn limits_hold_under_strict_priority_too() {
    limited(|builder| builder.queue("narrow", 9).queue("wide", 1).strict_priority()).await;
}

#[tokio::test]
async fn a_full_queue_does_not_keep_the_server_busy_and_goes_on_when_it_has_room() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    enqueue(&client, "narrow", 3).await;
    let (builder, mut log) = server::<(waits,)>(&broker);
    let gate = Gate::new(Semaphore::new(0));
    let builder = builder.state(gate.clone()).queue("narrow", 1).queue("wide", 1).queue_concurrency("narrow", 1);
    let running = start(builder).await;
    assert_eq!(logged(&mut log).await, "narrow");
    // A task of a queue that is not full is still noticed at once.
    enqueue(&client, "wide", 1).await;
    assert_eq!(logged(&mut log).await, "wide");
    assert_eq!(running.running(), 2);
    let before = running.signals().fetched.count();
    gate.add_permits(2);
    assert_eq!(logged(&mut log).await, "narrow");
    gate.add_permits(1);
    assert_eq!(logged(&mut log).await, "narrow");
    assert_eq!(running.signals().fetched.count(), before + 2);
    gate.add_permits(9);
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn tasks_beyond_the_limit_of_a_queue_are_requeued() {
    beyond_the_limit(|builder| builder.queue_concurrency("default", 1)).await;
}

#[tokio::test]
async fn tasks_beyond_the_concurrency_are_requeued() {
    beyond_the_limit(|builder| builder.concurrency(1)).await;
}

async fn beyond_the_limit(limited: impl FnOnce(ServerBuilder) -> ServerBuilder) {
    let inner = memory().await;
    let client = Client::new(inner.clone());
    let ids = |range: std::ops::Range<usize>| range.map(|i| i.to_string()).collect::<Vec<_>>();
    client.enqueue_many(ids(0..4).iter().map(|id| waits::job().task_id(id))).await.unwrap();
    // The broker gives more tasks than were asked for.
    let flaky = Flaky::new(inner.clone());
    flaky.generous.store(1, SeqCst);
    let broker: Arc<dyn Broker> = flaky;
    let (builder, mut log) = server::<(waits,)>(&broker);
    let gate = Gate::new(Semaphore::new(0));
    let running = start(limited(builder.state(gate.clone()).queue("default", 1))).await;
    assert_eq!(logged(&mut log).await, "default");
    soon(running.signals().settled.reached(2)).await;
    assert_eq!(super::ids(&inner, TaskState::Pending).await, ids(1..4));
    assert_eq!(running.running(), 1);
    gate.add_permits(4);
    soon(running.signals().settled.reached(6)).await;
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn queues_of_a_pattern_are_served_when_they_appear_and_until_they_are_deleted() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    let (builder, mut log) = server::<(waits,)>(&broker);
    let gate = Gate::new(Semaphore::new(1000));
    let builder = builder.state(gate).queue("tenant:*", 1).queue_concurrency("tenant:*", 1).concurrency(2);
    let running = start(builder).await;
    for name in ["tenant:a", "tenant:b", "elsewhere", "tenant:c"] {
        enqueue(&client, name, 3).await;
    }
    assert_eq!(started(&mut log, 9).await, counts([("tenant:a", 3), ("tenant:b", 3), ("tenant:c", 3)]));
    let elsewhere = broker.queue_stats(&queue("elsewhere")).await.unwrap();
    assert_eq!(elsewhere.pending, 3);
    // A task that is due later counts too: the forwarder knows the new queues.
    waits::job().queue("tenant:d").process_in(Duration::from_millis(50)).enqueue(&client).await.unwrap();
    assert_eq!(logged(&mut log).await, "tenant:d");
    soon(running.shutdown()).await.unwrap();
    assert_eq!(broker.servers().await.unwrap(), []);
}

#[tokio::test]
async fn of_hundreds_of_queues_the_few_with_work_are_found() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    let names: Vec<String> = (0..300).map(|i| format!("tenant:{i}")).collect();
    let outcomes = client.enqueue_many(names.iter().map(|name| waits::job().queue(name).task_id("t"))).await.unwrap();
    assert!(outcomes.iter().all(Result::is_ok));
    let (builder, mut log) = server::<(waits,)>(&broker);
    let gate = Gate::new(Semaphore::new(1000));
    let running = start(builder.state(gate).queue("tenant:*", 1).concurrency(3)).await;
    assert_eq!(started(&mut log, 300).await, names.iter().map(|name| (name.clone(), 1)).collect());
    enqueue(&client, "tenant:299", 1).await;
    assert_eq!(logged(&mut log).await, "tenant:299");
    soon(running.shutdown()).await.unwrap();
}

#[job(retry = 0)]
async fn fails() -> JobResult {
    Err(JobError::fail("no"))
}

#[tokio::test]
async fn an_archive_keeps_as_many_as_configured_and_reports_those_it_drops() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    for name in ["small", "tenant:a", "large"] {
        client.enqueue_many((0..5).map(|i| fails::job().queue(name).task_id(i.to_string()))).await.unwrap();
    }
    let (builder, _log) = server::<(fails,)>(&broker);
    let queues = [("small", 1), ("tenant:a", 1), ("large", 1)];
    let running = start(builder.queues(queues)).await;
    soon(running.signals().settled.reached(15)).await;
    soon(running.shutdown()).await.unwrap();

    let (builder, _log) = server::<(fails,)>(&broker);
    let builder = builder.queues(queues).archive("small", 2, "90d").archive("tenant:*", 0, "90d");
    let running = start(builder).await;
    soon(running.signals().cleaned.reached(1)).await;
    assert_eq!(running.signals().trimmed.count(), 3 + 5);
    for (name, left) in [("small", 2), ("tenant:a", 0), ("large", 5)] {
        assert_eq!(broker.queue_stats(&queue(name)).await.unwrap().archived, left, "{name}");
    }
    soon(running.shutdown()).await.unwrap();

    // No task that a client was promised is deleted by age.
    let (builder, _log) = server::<(fails,)>(&broker);
    let running = start(builder.queues(queues).archive("*", 100, "0s")).await;
    soon(running.signals().cleaned.reached(1)).await;
    assert_eq!(running.signals().trimmed.count(), 0);
    assert_eq!(broker.queue_stats(&queue("large")).await.unwrap().archived, 0);
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_worker_that_starts_on_many_queues_sweeps_them_with_a_break_behind_each() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    for i in 0..100 {
        enqueue(&client, &format!("tenant:{i}"), 1).await;
        client.inspector().pause(format!("tenant:{i}")).await.unwrap();
    }
    let (builder, _log) = server::<(quick,)>(&broker);
    // The queues of a pattern would come after the first pass.
    let builder = builder.queues((0..100).map(|i| (format!("tenant:{i}"), 1)));
    let begun = Instant::now();
    let running = start(builder).await;
    soon(running.signals().cleaned.reached(1)).await;
    assert!(begun.elapsed() >= 100 * Duration::from_millis(5), "swept in {:?}", begun.elapsed());
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_server_of_some_jobs_serves_their_queues_and_leaves_the_rest_to_others() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    let ((builder, mut log), lines) = (server::<(waits, quick)>(&broker), Log::keep());
    let server = builder.only(["qui*"]).build().await.unwrap();
    assert_eq!(server.queues().collect::<Vec<_>>(), [("other", 1)]);
    assert_eq!(server.registry().iter().map(|job| job.name).collect::<Vec<_>>(), ["quick"]);
    let running = server.start().await.unwrap();
    waits::job().task_id("w").enqueue(&client).await.unwrap();
    quick::enqueue(&client).await.unwrap();
    assert_eq!(logged(&mut log).await, "quick");
    waits::job().queue("other").enqueue(&client).await.unwrap();
    soon(running.signals().settled.reached(2)).await;
    let warned = lines.with("a task cannot run here");
    assert!(warned.len() == 1 && !warned[0].contains("jobs of another crate"), "{warned:?}");
    soon(running.shutdown()).await.unwrap();
    let left = broker.task(&queue("default"), &id("w")).await.unwrap().unwrap();
    assert_eq!(left.state, TaskState::Pending);
}

#[tokio::test]
async fn impossible_settings_are_refused_before_the_start() {
    let build = |configure: fn(ServerBuilder) -> ServerBuilder| async move {
        let (builder, _log) = server::<(quick,)>(&memory().await);
        configure(builder).build().await.unwrap_err().to_string()
    };
    for (error, expected) in [
        (build(|b| b.queue("tenant:**", 1)).await, "one `*` stands for any text already"),
        (build(|b| b.queue("{tenant:*}", 1)).await, "must not contain `{`"),
        (build(|b| b.queue("a", 1).queue_concurrency("b", 1)).await, "this server does not serve `b`"),
        (build(|b| b.queue("a", 1).queue_concurrency("a", 0)).await, "queue `a` would never run"),
        (build(|b| b.only(["quik"])).await, "did you mean `quick`?"),
        (build(|b| b.only([""; 0])).await, "it names no job: name those to run, or leave it out to run all"),
        (build(|b| b.except(["quick"])).await, "it leaves no job to run"),
        (build(|b| b.archive("a**", 1, "1d")).await, "invalid option `archive`"),
        (build(|b| b.archive("a", 1, "soon").archive("b", 1, "x")).await, "\"soon\""),
        (build(|b| b.health_check("0s", |_| {})).await, "must be longer than zero"),
    ] {
        assert!(error.contains(expected), "{error}\n  should contain\n{expected}");
    }
}

#[tokio::test]
async fn a_grouped_job_whose_tasks_nothing_aggregates_is_warned_of_at_the_start() {
    #[job(group = "digest")]
    async fn note() {}
    let broker = memory().await;
    let lines = async |builder: ServerBuilder| {
        let log = Log::keep();
        soon(start(builder).await.shutdown()).await.unwrap();
        log.with("does not aggregate the job")
    };
    let warned = lines(server::<(note,)>(&broker).0).await;
    assert!(warned.len() == 1 && warned[0].contains("group=\"digest\""), "{warned:?}");
    let aggregates = |_, _: Vec<TaskInfo>| Ok::<_, BoxError>(RawTask::new("digest", ""));
    // An aggregation of other tasks is none of these.
    let warned = lines(server::<(note,)>(&broker).0.aggregate("mails", aggregates)).await;
    assert!(warned.len() == 1 && warned[0].contains("group=\"digest\""), "{warned:?}");
    assert_eq!(lines(server::<(note,)>(&broker).0.aggregate("digest", aggregates)).await, [""; 0]);
}

#[tokio::test]
async fn tasks_in_groups_that_a_server_does_not_aggregate_are_warned_of() {
    #[job(group = "digest")]
    async fn note() {}
    let broker = memory().await;
    note::enqueue(&Client::new(broker.clone())).await.unwrap();
    for pattern in ["default", "def*"] {
        let log = Log::keep();
        let running = start(server::<(quick,)>(&broker).0.queue(pattern, 1)).await;
        let warned = eventually("the server warns", async || log.with("--state aggregating").pop()).await;
        assert!(warned.contains("group=digest") && warned.contains("--queue=default"), "{warned}");
        soon(running.shutdown()).await.unwrap();
    }
}

#[tokio::test]
async fn tasks_in_groups_are_warned_of_although_the_broker_was_away_at_the_start() {
    #[job(group = "digest")]
    async fn note() {}
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    note::job().queue("second").enqueue(&Client::new(broker.clone())).await.unwrap();
    flaky.refuse_groups.store(1, SeqCst);
    let log = Log::keep();
    let running = start(server::<(quick,)>(&broker).0.queue("first", 1).queue("second", 1)).await;
    eventually("the server warns", async || log.with("--state aggregating").pop()).await;
    // While the broker is away, no queue behind the first one is asked.
    assert_eq!(*flaky.lists_groups.lock().unwrap(), ["first", "first", "second"]);
    soon(running.shutdown()).await.unwrap();
}
