//! The cost of one enqueue on Redis beside servers that have nothing to do. It depends on the number of servers, and not on the
//! number of queues that they serve.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::{
    Client, Registry,
    broker::{Consume as _, NewTask, Produce as _, Quarantined, Wanted, redis::RedisBroker},
    prelude::*,
    server::Running,
    task::{QueueName, TaskMessage},
};
use asynq_test_support::{eventually, soon};
use redis::{AsyncCommands, aio::MultiplexedConnection};

use super::{
    server::{Proxy, Server as Redis, patient},
    tasks::{calls, calls_by_command, member, task, until_tracked},
};

#[job]
async fn nothing() -> JobResult {
    Ok(())
}

/// Tasks that are enqueued one after the other.
const TASKS: u64 = 20;

fn name(i: usize) -> String {
    format!("tenant:{i}")
}

/// Starts `servers` servers of `queues` queues, which connect to Redis by `url`; returns when they know of each other and wait.
async fn waiting(redis: &Redis, url: &str, servers: usize, queues: usize) -> Vec<Running> {
    let mut foreign = redis.foreign().await;
    let names: Vec<String> = (0..queues).map(name).collect();
    let () = foreign.sadd("asynq:queues", &names).await.unwrap();
    let mut running = Vec::new();
    for _ in 0..servers {
        let server = Server::builder("")
            .broker(Arc::new(RedisBroker::connect(url, patient()).await.unwrap()))
            .registry(Registry::only::<(nothing,)>().unwrap())
            .queue("tenant:*", 1);
        running.push(server.build().await.unwrap().start().await.unwrap());
    }
    for one in &running {
        soon(one.signals().beat.reached(one.signals().beat.count() + 2)).await;
        soon(one.signals().cleaned.reached(1)).await;
    }
    // The tracked keys are those of waits for tasks and of waits for due tasks.
    until_tracked(&mut foreign, 5 * queues as u64).await;
    running
}

/// Commands that one waiting server may send for one enqueue.
const PER_WAKE: u64 = 3;
/// The most commands that a server repeats every ten seconds, whether or not it was notified.
const NET: u64 = 64;
/// The questions that a server asks of a queue when it first waits: the length of `pending`, whether the queue is paused, and the heads of
/// `x:due`, `scheduled` and `retry`.
const QUESTIONS: u64 = 5;

/// Runs [`TASKS`] tasks one after the other. Returns the commands that servers sent to find them, without the enqueues and
/// outcomes, and the most commands that servers may have repeated meanwhile.
async fn run(redis: &mut MultiplexedConnection, client: &Client, running: &[Running], queues: usize) -> (u64, u64) {
    let settled = || running.iter().map(|one| one.signals().settled.count()).sum::<u64>();
    let (begun, before, ran) = (Instant::now(), calls_by_command(redis).await, settled());
    for i in 0..TASKS {
        nothing::job().queue(name(usize::try_from(i).unwrap() * 7 % queues)).enqueue(client).await.unwrap();
        eventually("the task has run", async || (settled() > ran + i).then_some(())).await;
    }
    let calls = calls_by_command(redis).await - &before;
    let sent: u64 = ["llen", "exists", "zrange", "zcard", "scard", "pttl", "evalsha", "eval"]
        .map(|name| calls.of(name))
        .iter()
        .sum();
    (sent - 2 * TASKS, (begun.elapsed().as_secs() / 10 + 1) * NET * running.len() as u64)
}

/// Checks the cost of the wakes of [`TASKS`] tasks: at most [`PER_WAKE`] per task and server, whatever the number of queues.
///
/// A server's first wait on one of its connections asks for every queue. Most first waits come before the first task. One of each
/// server may come later, depending on which server is polled first, so among one measurement more than there are servers, one
/// has none.
async fn expect_cheap_wakes(redis: &mut MultiplexedConnection, client: &Client, running: &[Running], queues: usize) {
    let servers = running.len() as u64;
    run(redis, client, running, queues).await;
    let (mut beyond, mut costs) = (Vec::new(), Vec::new());
    for _ in 0..=servers {
        let (sent, again) = run(redis, client, running, queues).await;
        assert!(sent >= TASKS, "{sent}: each task was fetched");
        beyond.push(sent.saturating_sub(PER_WAKE * TASKS * servers + again));
        costs.push((sent, again));
    }
    let message = format!("{servers} servers of {queues} queues: commands, and repeated reads: {costs:?}");
    assert!(beyond.contains(&0), "{message}");
    assert!(beyond.iter().sum::<u64>() <= servers * queues as u64 * QUESTIONS, "{message}");
}

#[tokio::test]
async fn a_wake_up_costs_the_same_with_any_number_of_queues() {
    let cheap = async |servers, queues| {
        let redis = Redis::start(&[]);
        let mut foreign = redis.foreign().await;
        let running = waiting(&redis, &redis.url(), servers, queues).await;
        let client = Client::new(Arc::new(redis.broker().await));
        expect_cheap_wakes(&mut foreign, &client, &running, queues).await;
        for one in running {
            one.shutdown().await.unwrap();
        }
    };
    // The cases run at once, on a Redis each: most of the time they wait for beats.
    tokio::join!(cheap(1, 1), cheap(1, 10), cheap(1, 500), cheap(4, 1), cheap(4, 10), cheap(4, 500));
}

/// Every answer is late here: while a server works off one queue, time passes, and the others stay empty all the same.
#[tokio::test]
async fn a_wake_up_far_from_redis_costs_no_more() {
    let redis = Redis::start(&[]);
    let far = Proxy::far_before(&redis, Duration::from_millis(15));
    let mut foreign = redis.foreign().await;
    let running = waiting(&redis, &far.url(), 1, 10).await;
    let client = Client::new(Arc::new(redis.broker().await));
    expect_cheap_wakes(&mut foreign, &client, &running, 10).await;
    for one in running {
        one.shutdown().await.unwrap();
    }
}

/// A server of many queues looks again and again which of them have work.
#[tokio::test]
async fn a_look_at_many_queues_asks_only_for_those_that_have_changed() {
    let redis = Redis::start(&[]);
    let (broker, mut foreign, member) = (redis.broker().await, redis.foreign().await, member("a"));
    let queues: Vec<QueueName> = (0..200).map(|i| QueueName::new(&name(i)).unwrap()).collect();
    let tasks = (0..2 * queues.len()).map(|i| {
        let new = task(&i.to_string());
        let queue = queues[i % queues.len()].clone();
        NewTask { message: TaskMessage { queue: queue.as_str().into(), ..new.message }, queue, ..new }
    });
    broker.enqueue(tasks.collect()).await.into_iter().for_each(|answer| drop(answer.unwrap()));
    let before = calls(&mut foreign, "llen").await;
    for queue in &queues {
        assert_eq!(broker.dequeue(&member, &[Wanted { queue: queue.clone(), n: 1 }]).await.unwrap().len(), 1);
        assert_eq!(broker.ready(&queues, Quarantined::All).await.unwrap().len(), 200, "each has a second task");
    }
    // Each queue is asked for once on the connection that all share, and once on that of the looks, which is there later.
    let lengths = calls(&mut foreign, "llen").await - before;
    assert!(lengths <= 4 * 200, "{lengths} lengths for 200 looks, each after a change of one queue");
}
