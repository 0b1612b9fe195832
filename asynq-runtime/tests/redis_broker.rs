//! What only the Redis broker can get wrong: fence, lost answers, forgotten scripts, full memory, wake-up.
#![cfg(feature = "redis")]
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "redis/server.rs"]
mod server;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::{
    broker::{
        Action, Broker, BrokerErrorKind, Consume, Inspect, Maintain, Member, NewTask, Page, Placed, Presence, Produce,
        Refused, Run, ServerName, Settle, Settled, Settlement, UniqueLock, Wanted, When,
        redis::{RedisBroker, RedisOptions},
    },
    clock::ManualClock,
    task::{Extra, Progress, QueueName, TaskId, TaskMessage, TaskState},
};
use redis::AsyncCommands;

use self::server::{Proxy, Server};

fn queue() -> QueueName {
    QueueName::new("default").unwrap()
}

fn member(name: &str) -> Member {
    Member { name: ServerName { host: "h".into(), pid: 1, server_id: name.into() }, number: 0 }
}

fn task(id: &str) -> NewTask {
    let message = TaskMessage {
        r#type: "email".into(),
        payload: "hello".into(),
        id: id.into(),
        queue: "default".into(),
        retry: 25,
        timeout: 1800,
        ..Default::default()
    };
    NewTask {
        message,
        queue: queue(),
        id: TaskId::new(id).unwrap(),
        id_is_ours: true,
        when: When::Now,
        unique: None,
        extra: Extra::default(),
    }
}

async fn put(broker: &RedisBroker, ids: &[&str]) {
    for outcome in broker.enqueue(ids.iter().map(|id| task(id)).collect()).await {
        outcome.unwrap();
    }
}

async fn take(broker: &RedisBroker, member: &Member, n: usize) -> Vec<Run> {
    broker.dequeue(member, &[Wanted { queue: queue(), n }]).await.unwrap()
}

fn ids(runs: &[Run]) -> Vec<&str> {
    runs.iter().map(|run| run.key.id.as_str()).collect()
}

fn settlement(run: &Run, action: Action) -> Settlement {
    let message = Arc::new(run.message.clone().unwrap());
    Settlement { run: run.key.clone(), message, action, resend: false }
}

async fn settle(broker: &RedisBroker, run: &Run, action: Action) -> Settled {
    broker.settle(&[settlement(run, action)]).await.remove(0).unwrap()
}

fn retry(delay: Duration) -> Action {
    Action::Retry { delay, error: Some("boom".into()), counted: true, extra: Extra::default() }
}

fn archive() -> Action {
    Action::Archive { error: "dead".into(), extra: Extra::default() }
}

fn every_action() -> [Action; 5] {
    [
        Action::Done,
        Action::Complete { result: Some("r".into()) },
        retry(Duration::from_secs(60)),
        archive(),
        Action::Requeue,
    ]
}

/// Every key of the queue with its contents.
async fn dump(connection: &mut redis::aio::MultiplexedConnection) -> Vec<(String, Vec<u8>)> {
    let mut keys: Vec<String> = connection.keys("asynq:*").await.unwrap();
    keys.sort();
    let mut found = Vec::new();
    for key in keys {
        found.push((key.clone(), redis::cmd("DUMP").arg(&key).query_async(connection).await.unwrap()));
    }
    found
}

#[tokio::test]
async fn a_task_goes_through_its_life_and_leaves_only_counters() {
    let server = Server::start(&[]).await;
    let broker = server.broker().await;
    let me = member("me");
    put(&broker, &["a", "b", "c"]).await;
    let runs = take(&broker, &me, 10).await;
    assert_eq!(ids(&runs), ["a", "b", "c"]);
    assert!(runs.iter().all(|run| run.crashes == 0 && run.message.as_ref().unwrap().payload == "hello"));
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().active, 3);
    for run in &runs {
        assert_eq!(settle(&broker, run, Action::Done).await, Settled::Ok);
    }
    let stats = broker.queue_stats(&queue()).await.unwrap();
    assert_eq!((stats.size, stats.processed, stats.processed_total, stats.failed), (0, 3, 3, 0));
    assert_eq!(broker.queues().await.unwrap(), [queue()]);
}

/// FENCE.md §2, attack A: our recoverer put the task back and somebody runs it or ended it; the late one changes nothing.
#[tokio::test]
async fn a_late_outcome_changes_nothing_whoever_took_the_task() {
    let server = Server::start(&[]).await;
    let mut redis = server.foreign().await;
    let clock = ManualClock::default();
    let broker = server.broker_with(RedisOptions { clock: Some(Arc::new(clock.clone())), ..Default::default() }).await;
    for action in every_action() {
        let () = redis::cmd("FLUSHALL").query_async(&mut redis).await.unwrap();
        put(&broker, &["a"]).await;
        let late = take(&broker, &member("late"), 1).await.remove(0);
        clock.advance(Duration::from_secs(31));
        assert_eq!(broker.recover(&[queue()]).await.unwrap().tasks.len(), 1);
        let before = dump(&mut redis).await;
        assert_eq!(settle(&broker, &late, action.clone()).await, Settled::Fenced, "{action:?} while pending");
        assert_eq!(broker.extend(std::slice::from_ref(&late.key)).await.unwrap(), [Settled::Fenced]);
        assert_eq!(broker.write_result(&late.key, &"r".into()).await.unwrap(), Settled::Fenced);
        assert_eq!(broker.write_progress(&late.key, &Progress::new(0.5, "")).await.unwrap(), Settled::Fenced);
        assert!(dump(&mut redis).await == before, "{action:?} changed a pending task");

        let next = take(&broker, &member("next"), 1).await.remove(0);
        assert_eq!(next.crashes, 1);
        let before = dump(&mut redis).await;
        assert_eq!(settle(&broker, &late, action.clone()).await, Settled::Fenced, "{action:?} while it runs again");
        assert!(dump(&mut redis).await == before, "{action:?} changed the other run");

        assert_eq!(settle(&broker, &next, Action::Done).await, Settled::Ok);
        let before = dump(&mut redis).await;
        assert_eq!(settle(&broker, &late, action.clone()).await, Settled::Gone, "{action:?} after the end");
        assert_eq!(broker.write_result(&late.key, &"r".into()).await.unwrap(), Settled::Gone);
        assert!(dump(&mut redis).await == before, "{action:?} made a ghost");

        // C1: the id is used again.
        put(&broker, &["a"]).await;
        let again = take(&broker, &member("again"), 1).await.remove(0);
        let before = dump(&mut redis).await;
        assert_eq!(settle(&broker, &late, action.clone()).await, Settled::Fenced, "{action:?} after the id's re-use");
        assert!(dump(&mut redis).await == before);
        assert_eq!(settle(&broker, &again, Action::Done).await, Settled::Ok);
    }
}

/// B: Go's dequeue, which deletes `pending_since` (PROTOCOL §5.5), has the task.
#[tokio::test]
async fn a_run_of_a_go_worker_is_not_ours_and_gets_gos_grace() {
    let server = Server::start(&[]).await;
    let mut redis = server.foreign().await;
    let clock = ManualClock::default();
    let broker = server.broker_with(RedisOptions { clock: Some(Arc::new(clock.clone())), ..Default::default() }).await;
    for action in every_action() {
        let () = redis::cmd("FLUSHALL").query_async(&mut redis).await.unwrap();
        put(&broker, &["a"]).await;
        let late = take(&broker, &member("late"), 1).await.remove(0);
        // A stale Go worker requeues our live run, another one dequeues it (B3).
        let () = redis.hset("asynq:{default}:t:a", "state", "active").await.unwrap();
        let () = redis.hdel("asynq:{default}:t:a", "pending_since").await.unwrap();
        let before = dump(&mut redis).await;
        assert_eq!(settle(&broker, &late, action.clone()).await, Settled::Fenced);
        assert!(dump(&mut redis).await == before, "{action:?} changed the Go run");
        clock.advance(Duration::from_secs(31));
        assert!(broker.recover(&[queue()]).await.unwrap().tasks.is_empty(), "Go's runs have 30 s more");
        clock.advance(Duration::from_secs(30));
        assert_eq!(broker.recover(&[queue()]).await.unwrap().tasks.len(), 1);
    }
}

/// D and E: a repeat is recognised, and a lapsed lease that nobody took is still ours.
#[tokio::test]
async fn a_repeated_outcome_is_ok_and_so_is_one_after_a_lapsed_lease() {
    let server = Server::start(&[]).await;
    let clock = ManualClock::default();
    let broker = server.broker_with(RedisOptions { clock: Some(Arc::new(clock.clone())), ..Default::default() }).await;
    for (i, action) in every_action().into_iter().enumerate() {
        let id = format!("task {i}");
        put(&broker, &[&id]).await;
        let run = take(&broker, &member("me"), 1).await.remove(0);
        clock.advance(Duration::from_secs(300));
        assert_eq!(settle(&broker, &run, action.clone()).await, Settled::Ok, "{action:?} with a lapsed lease");
        let again = Settlement { resend: true, ..settlement(&run, action.clone()) };
        assert_eq!(broker.settle(&[again]).await.remove(0).unwrap(), Settled::Ok, "{action:?} again");
    }
    let stats = broker.queue_stats(&queue()).await.unwrap();
    assert_eq!((stats.processed, stats.failed, stats.active), (4, 2, 0), "each counted once");
}

#[tokio::test]
async fn scripts_that_redis_forgot_are_sent_again_and_only_those() {
    let server = Server::start(&[]).await;
    let mut redis = server.foreign().await;
    let broker = server.broker().await;
    for round in 0..20 {
        let () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut redis).await.unwrap();
        let names: Vec<String> = (0..150).map(|i| format!("{round}-{i}")).collect();
        put(&broker, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut redis).await.unwrap();
        let runs = take(&broker, &member("me"), 150).await;
        assert_eq!(ids(&runs), names);
        let () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut redis).await.unwrap();
        let batch: Vec<_> = runs.iter().map(|run| settlement(run, Action::Done)).collect();
        assert!(broker.settle(&batch).await.into_iter().all(|settled| settled.unwrap() == Settled::Ok));
    }
    let stats = broker.queue_stats(&queue()).await.unwrap();
    assert_eq!((stats.size, stats.processed), (0, 3000));
}

#[tokio::test]
async fn a_lost_answer_loses_and_doubles_nothing() {
    let server = Server::start(&[]).await;
    let proxy = Proxy::before(&server);
    let broker = RedisBroker::connect(&proxy.url(), RedisOptions::default()).await.unwrap();
    let direct = server.broker().await;
    let me = member("me");
    // Scripts are known from here on, so that one write is one try.
    put(&direct, &["warm"]).await;
    let warm = take(&direct, &me, 1).await.remove(0);
    assert_eq!(settle(&direct, &warm, Action::Done).await, Settled::Ok);

    proxy.lose_answers(1);
    put(&broker, &["a", "b"]).await;
    assert_eq!(proxy.still_to_lose(), 0);
    assert_eq!(direct.queue_stats(&queue()).await.unwrap().pending, 2);

    proxy.lose_answers(1);
    let lost = broker.dequeue(&me, &[Wanted { queue: queue(), n: 1 }]).await.unwrap_err();
    assert!(lost.is_unavailable(), "{lost:?}");
    assert_eq!(direct.queue_stats(&queue()).await.unwrap().active, 1);
    let runs = take(&broker, &me, 1).await;
    assert_eq!(ids(&runs), ["a"], "the task of the lost answer comes first");
    assert_eq!(ids(&take(&broker, &me, 1).await), ["b"]);
    assert_eq!(direct.queue_stats(&queue()).await.unwrap().active, 2);

    proxy.lose_answers(1);
    let first = broker.settle(&[settlement(&runs[0], Action::Done)]).await.remove(0);
    assert!(first.unwrap_err().is_unavailable());
    let again = Settlement { resend: true, ..settlement(&runs[0], Action::Done) };
    assert_eq!(broker.settle(&[again]).await.remove(0).unwrap(), Settled::Ok);
    assert_eq!(direct.queue_stats(&queue()).await.unwrap().processed, 2);
}

/// F9 with a worker: the task was stored, run and deleted before its enqueue was repeated.
#[tokio::test]
async fn an_enqueue_whose_answer_was_lost_is_not_stored_again_after_the_task_has_run() {
    let server = Server::start(&[]).await;
    let proxy = Proxy::before(&server);
    let broker = RedisBroker::connect(&proxy.url(), RedisOptions::default()).await.unwrap();
    let direct = server.broker().await;
    put(&direct, &["warm"]).await;
    let warm = take(&direct, &member("w"), 1).await.remove(0);
    assert_eq!(settle(&direct, &warm, Action::Done).await, Settled::Ok);
    for round in 0..10 {
        let id = format!("t{round}");
        let one = [id.as_str()];
        proxy.lose_answers(1);
        let worker = async {
            loop {
                direct.wait_for_work(&[queue()], Duration::from_secs(5)).await.unwrap();
                if let Some(run) = take(&direct, &member("w"), 1).await.pop() {
                    return settle(&direct, &run, Action::Done).await;
                }
            }
        };
        let ((), settled) = tokio::join!(put(&broker, &one), worker);
        assert_eq!((settled, proxy.still_to_lose()), (Settled::Ok, 0));
    }
    let stats = direct.queue_stats(&queue()).await.unwrap();
    assert_eq!((stats.size, stats.processed), (0, 11), "each task ran once");
}

#[tokio::test]
async fn a_dequeue_whose_caller_went_away_is_found_by_the_next_one() {
    let server = Server::start(&[]).await;
    let broker = server.broker().await;
    put(&broker, &["a", "b"]).await;
    let wanted = [Wanted { queue: queue(), n: 1 }];
    let me = member("me");
    // Polled once, so that it is on its way, then dropped.
    let mut call = Box::pin(broker.dequeue(&me, &wanted));
    std::future::poll_fn(|context| {
        assert!(call.as_mut().poll(context).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    drop(call);
    let mut found = Vec::new();
    while found.len() < 2 {
        found.extend(ids(&take(&broker, &me, 2).await).into_iter().map(str::to_owned));
    }
    assert_eq!(found, ["a", "b"]);
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().active, 2);
}

#[tokio::test]
async fn a_full_redis_refuses_new_tasks_and_finishes_the_old_ones() {
    let server = Server::start(&["--maxmemory-policy", "noeviction"]).await;
    let mut redis = server.foreign().await;
    let clock = ManualClock::default();
    let broker = server.broker_with(RedisOptions { clock: Some(Arc::new(clock.clone())), ..Default::default() }).await;
    put(&broker, &["a", "b", "c", "d", "e"]).await;
    let mut later = task("later");
    later.when = When::In(Duration::from_secs(5));
    broker.enqueue(vec![later]).await.remove(0).unwrap();
    let () = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("1").query_async(&mut redis).await.unwrap();

    let refused = broker.enqueue(vec![task("f")]).await.remove(0).unwrap_err();
    assert!(matches!(&refused, Refused::Broker(error) if error.is_full()), "{refused:?}");
    let runs = take(&broker, &member("me"), 5).await;
    assert_eq!(runs.len(), 5);
    let keys: Vec<_> = runs.iter().map(|run| run.key.clone()).collect();
    assert!(broker.extend(&keys).await.unwrap().into_iter().all(|settled| settled == Settled::Ok));
    let batch: Vec<_> = runs.iter().zip(every_action()).map(|(run, action)| settlement(run, action)).collect();
    assert!(broker.settle(&batch).await.into_iter().all(|settled| settled.unwrap() == Settled::Ok));
    clock.advance(Duration::from_secs(6));
    assert_eq!(broker.forward(&[queue()]).await.unwrap().moved, 1);
    assert_eq!(take(&broker, &member("me"), 5).await.len(), 2);
    clock.advance(Duration::from_secs(31));
    assert_eq!(broker.recover(&[queue()]).await.unwrap().tasks.len(), 2);
    assert_eq!(broker.sweep(&queue()).await.unwrap(), Default::default());
}

#[tokio::test]
async fn a_waiting_worker_wakes_on_the_push_of_a_stranger() {
    let server = Server::start(&[]).await;
    let mut redis = server.foreign().await;
    let broker = server.broker().await;
    let mut delays = Vec::new();
    for round in 0..50 {
        let queues = [queue()];
        let woken = async {
            broker.wait_for_work(&queues, Duration::from_secs(10)).await.unwrap();
            Instant::now()
        };
        let pushed = async {
            // The waiter has asked when Redis tracks its keys.
            while tracked_keys(&server).await < 2 {}
            let at = Instant::now();
            let () = redis.lpush("asynq:{default}:pending", round).await.unwrap();
            at
        };
        let (woken, pushed) = tokio::join!(woken, pushed);
        delays.push(woken - pushed);
        let () = server.foreign().await.del("asynq:{default}:pending").await.unwrap();
    }
    delays.sort();
    assert!(delays[25] < Duration::from_millis(20), "half of them took longer than {:?}", delays[25]);
}

async fn tracked_keys(server: &Server) -> u64 {
    let info: String = redis::cmd("INFO").arg("stats").query_async(&mut server.foreign().await).await.unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("tracking_total_keys:")).unwrap();
    line.trim().parse().unwrap()
}

#[tokio::test]
async fn a_worker_wakes_when_its_queue_is_resumed_and_when_redis_comes_back() {
    let mut server = Server::start(&[]).await;
    let broker = server.broker().await;
    put(&broker, &["a"]).await;
    assert!(broker.pause(&queue()).await.unwrap());
    assert!(!broker.pause(&queue()).await.unwrap());
    assert!(take(&broker, &member("me"), 1).await.is_empty());
    let queues = [queue()];
    let (woken, resumed) = tokio::join!(broker.wait_for_work(&queues, Duration::from_secs(10)), async {
        while tracked_keys(&server).await < 2 {}
        broker.resume(&queue()).await
    });
    woken.unwrap();
    assert!(resumed.unwrap());
    assert_eq!(take(&broker, &member("me"), 1).await.len(), 1);

    let begun = Instant::now();
    let (woken, ()) = tokio::join!(broker.wait_for_work(&queues, Duration::from_secs(20)), server.restart());
    // Either it was told of the loss, or it could not ask; it must not sleep on.
    assert!(woken.is_ok() || woken.unwrap_err().is_unavailable());
    assert!(begun.elapsed() < Duration::from_secs(10));
    let mut placed = broker.enqueue(vec![task("b")]).await.remove(0);
    while placed.is_err() {
        placed = broker.enqueue(vec![task("b")]).await.remove(0);
    }
    broker.wait_for_work(&queues, Duration::from_secs(20)).await.unwrap();
    assert_eq!(ids(&take(&broker, &member("me"), 1).await), ["b"]);
    assert_eq!(broker.queues().await.unwrap(), [queue()], "made known again to a Redis that lost it");
}

#[tokio::test]
async fn a_delayed_task_is_due_to_the_millisecond() {
    let server = Server::start(&[]).await;
    let broker = server.broker().await;
    let queues = [queue()];
    let mut late = task("late");
    late.when = When::In(Duration::from_millis(350));
    let begun = Instant::now();
    let placed: Placed = broker.enqueue(vec![late]).await.remove(0).unwrap();
    assert_eq!(placed.state, TaskState::Scheduled);
    let listed = broker.tasks(&queue(), TaskState::Scheduled, Page::default()).await.unwrap();
    assert_eq!(listed[0].next_process_at, Some(placed.process_at));
    // One that is due earlier, while the forwarder sleeps.
    let mut soon = task("soon");
    soon.when = When::In(Duration::from_millis(150));
    broker.enqueue(vec![soon]).await.remove(0).unwrap();
    let mut moved = Vec::new();
    while moved.len() < 2 {
        broker.wait_for_due(&queues, Duration::from_secs(5)).await.unwrap();
        broker.forward(&queues).await.unwrap();
        for run in take(&broker, &member("me"), 9).await {
            moved.push((run.key.id.to_string(), begun.elapsed()));
        }
    }
    assert_eq!([moved[0].0.as_str(), moved[1].0.as_str()], ["soon", "late"]);
    assert!(moved[0].1 >= Duration::from_millis(149) && moved[1].1 >= Duration::from_millis(349), "{moved:?}");
    assert!(moved[1].1 < Duration::from_millis(600), "{moved:?}");
}

#[tokio::test]
async fn a_hash_that_is_no_task_and_an_id_without_one_do_not_stop_the_queue() {
    let server = Server::start(&[]).await;
    let mut redis = server.foreign().await;
    let broker = server.broker().await;
    let ghosts: Vec<String> = (0..1000).map(|i| format!("ghost{i}")).collect();
    let () = redis.lpush("asynq:{default}:pending", ghosts).await.unwrap();
    let () = redis.lpush("asynq:{default}:pending", "text").await.unwrap();
    let () = redis.set("asynq:{default}:t:text", "no hash").await.unwrap();
    let () = redis.lpush("asynq:{default}:pending", "junk").await.unwrap();
    let () =
        redis.hset_multiple("asynq:{default}:t:junk", &[("msg", "\u{1}junk"), ("state", "pending")]).await.unwrap();
    put(&broker, &["good"]).await;
    let begun = Instant::now();
    let mut runs = Vec::new();
    while runs.len() < 2 {
        runs.extend(take(&broker, &member("me"), 64).await);
    }
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(ids(&runs), ["junk", "good"]);
    let raw = &runs[0].message.as_ref().unwrap_err().raw;
    assert_eq!(raw[..], b"\x01junk"[..]);
    let orphans: u64 = redis.scard("asynq:{default}:x:orphans").await.unwrap();
    assert_eq!(orphans, 1001);
    let left: bool = redis.exists("asynq:{default}:t:ghost1").await.unwrap();
    assert!(!left, "no stub was made");
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().active, 2);
}

#[tokio::test]
async fn a_lock_is_not_left_behind_by_a_conflict_and_freed_by_an_archive() {
    let server = Server::start(&[]).await;
    let mut redis = server.foreign().await;
    let broker = server.broker().await;
    let key = "asynq:{default}:unique:email:x";
    let unique = |id: &str| {
        let mut task = task(id);
        task.message.unique_key = key.into();
        task.unique = Some(UniqueLock { key: key.into(), ttl: Duration::from_secs(60) });
        task
    };
    put(&broker, &["a"]).await;
    let conflict = broker.enqueue(vec![unique("a")]).await.remove(0);
    assert!(matches!(conflict, Err(Refused::IdConflict)), "{conflict:?}");
    assert!(!redis.exists::<_, bool>(key).await.unwrap(), "F19a");
    let outcomes = broker.enqueue(vec![unique("b"), unique("c"), task("d")]).await;
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok());
    assert!(matches!(&outcomes[1], Err(Refused::Duplicate { holder: Some(id) }) if *id == "b"), "{outcomes:?}");
    let runs = take(&broker, &member("me"), 9).await;
    assert_eq!(ids(&runs), ["a", "b", "d"]);
    assert_eq!(settle(&broker, &runs[1], archive()).await, Settled::Ok);
    assert!(!redis.exists::<_, bool>(key).await.unwrap(), "F19d");
}

#[tokio::test]
async fn many_callers_at_once_travel_together_and_each_gets_its_own_answer() {
    let server = Server::start(&[]).await;
    let mut redis = server.foreign().await;
    let broker = Arc::new(server.broker().await);
    let callers: Vec<_> = (0..500)
        .map(|i| {
            let broker = Arc::clone(&broker);
            // Every id twice.
            tokio::spawn(async move { broker.enqueue(vec![task(&format!("t{}", i / 2))]).await.remove(0) })
        })
        .collect();
    let (mut placed, mut conflicts) = (0, 0);
    for caller in callers {
        match caller.await.unwrap() {
            Ok(_) => placed += 1,
            Err(Refused::IdConflict) => conflicts += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((placed, conflicts), (250, 250));
    let stats: String = redis::cmd("INFO").arg("commandstats").query_async(&mut redis).await.unwrap();
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha")).unwrap();
    let calls: u32 = line.split(['=', ',']).nth(1).unwrap().parse().unwrap();
    assert!(calls < 200, "{calls} scripts for 500 callers");
}

#[tokio::test]
async fn a_wrong_password_is_denied_at_once_and_shown_nowhere() {
    let server = Server::start(&["--requirepass", "secret"]).await;
    for login in ["?pass=canary", "", "?user=nobody&pass=canary"] {
        let url = format!("{}{login}", server.url());
        let error = RedisBroker::connect(&url, RedisOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), BrokerErrorKind::Denied, "{login}: {error:?}");
        assert!(!format!("{error} {error:?}").contains("canary"));
    }
    let proxy = Proxy::before(&server);
    for url in [format!("{}?pass=secret", server.url()), format!("redis://:secret@127.0.0.1:{}/1", proxy.port)] {
        let broker = RedisBroker::connect(&url, RedisOptions::default()).await.unwrap();
        broker.ping().await.unwrap();
        assert!(!format!("{broker:?} {}", broker.location()).contains("secret"));
    }
}

#[tokio::test]
async fn a_redis_that_is_not_there_and_one_that_does_not_answer_end_in_time() {
    let options = || RedisOptions { call_timeout: Duration::from_millis(200), ..Default::default() };
    let error = RedisBroker::connect("redis://127.0.0.1:1", options()).await.unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Unavailable);

    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", mute.local_addr().unwrap());
    let begun = Instant::now();
    let error = RedisBroker::connect(&url, options()).await.unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Timeout);
    assert!(begun.elapsed() < Duration::from_secs(2));

    let mut server = Server::start(&[]).await;
    let broker = server.broker_with(options()).await;
    let mut redis = server.foreign().await;
    let () = redis::cmd("CLIENT").arg("PAUSE").arg(800).query_async(&mut redis).await.unwrap();
    let begun = Instant::now();
    let error = broker.ping().await.unwrap_err();
    assert!(error.is_unavailable() && begun.elapsed() < Duration::from_secs(1), "{error:?}");
    while broker.ping().await.is_err() {}
    server.restart().await;
    while broker.ping().await.is_err() {}
}

#[tokio::test]
async fn a_closed_broker_says_so_and_wakes_who_waits() {
    let server = Server::start(&[]).await;
    let broker = Arc::new(server.broker().await);
    let waiting = Arc::clone(&broker);
    let mut listener = broker.cancellations().await.unwrap();
    let waiter = tokio::spawn(async move { waiting.wait_for_work(&[queue()], Duration::from_secs(60)).await });
    while tracked_keys(&server).await < 2 {}
    broker.close().await;
    broker.close().await;
    let kind = |error: asynq_runtime::broker::BrokerError| error.kind();
    assert_eq!(waiter.await.unwrap().map_err(kind), Err(BrokerErrorKind::Closed));
    assert_eq!(broker.ping().await.map_err(kind), Err(BrokerErrorKind::Closed));
    assert!(listener.next().await.is_err());
    let refused = broker.enqueue(vec![task("a")]).await.remove(0).unwrap_err();
    assert!(matches!(refused, Refused::Broker(error) if error.kind() == BrokerErrorKind::Closed));
}

#[tokio::test]
async fn cancel_requests_of_anyone_arrive() {
    let server = Server::start(&[]).await;
    let broker = server.broker().await;
    let mut listener = broker.cancellations().await.unwrap();
    broker.cancel(&TaskId::new("a").unwrap()).await.unwrap();
    let () = server.foreign().await.publish("asynq:cancel", "b").await.unwrap();
    assert_eq!(listener.next().await.unwrap(), "a");
    assert_eq!(listener.next().await.unwrap(), "b");
}

#[tokio::test]
async fn a_redis_that_may_evict_tasks_is_refused_unless_allowed() {
    let server = Server::start(&["--maxmemory-policy", "allkeys-lru"]).await;
    let error = RedisBroker::connect(&server.url(), RedisOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Config);
    assert!(error.to_string().contains("allkeys-lru"), "{error}");
    server.broker_with(RedisOptions { allow_eviction: true, ..Default::default() }).await;
}
