//! The fence: attacks that can be made without Go (docs/design/fence.md#attacks).

use std::time::Duration;

use asynq_runtime::{
    broker::{Action, Broker, Inspect, Maintain, Settle, Settled, Settlement, redis::RedisOptions},
    task::{Progress, QueueName},
};
use asynq_test_support::eventually;
use redis::{AsyncCommands, aio::MultiplexedConnection};

use super::{server::Server, tasks::*};
use crate::answered;

#[tokio::test]
async fn a_task_goes_through_its_life_and_leaves_only_counters() {
    let (_server, broker, mut redis) = Server::with_broker().await;
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
    let keys: Vec<String> = redis.keys("asynq:{default}:*").await.unwrap();
    let others: Vec<&String> = keys.iter().filter(|key| !key.contains(":processed") && !key.contains("}:x:")).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[tokio::test]
async fn a_run_that_ends_in_any_way_leaves_no_lease() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    put(&broker, &["a", "b", "c", "d", "e"]).await;
    let runs = take(&broker, &member("me"), 5).await;
    for ((run, action), left) in runs.iter().zip(every_action()).zip((0..5).rev()) {
        assert_eq!(settle(&broker, run, action.clone()).await, Settled::Ok);
        assert_eq!(redis.zcard::<_, usize>("asynq:{default}:lease").await.unwrap(), left, "{action:?}");
        let key = format!("asynq:{{default}}:t:{}", run.key.id);
        assert!(!redis.hexists::<_, _, bool>(key, "x").await.unwrap(), "{action:?}: there are no extra facts");
    }
}

/// One field holds either the time since when a task is pending, or the token of its run. They may be equal by chance.
#[tokio::test]
async fn a_task_that_is_pending_since_the_time_of_a_token_is_taken_like_any_other() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, _clock) = with_clock(&server).await;
    let me = member("me");
    put(&broker, &["first", "a", "b"]).await;
    let first = take(&broker, &me, 1).await.remove(0);
    // The clock stands still: the next token is the next microsecond's.
    let next = first.key.token.0 + 1000;
    for id in ["a", "b"] {
        let () = redis.hset(format!("asynq:{{default}}:t:{id}"), "pending_since", next).await.unwrap();
    }
    let runs = take(&broker, &me, 10).await;
    assert_eq!(ids(&runs), ["a", "b"]);
    assert_eq!(runs[0].key.token.0, next);
    for run in &runs {
        assert_eq!(settle(&broker, run, Action::Done).await, Settled::Ok);
    }
}

/// Attack A: our recoverer requeued the task, and another run has it or ended it; the late outcome changes nothing.
#[tokio::test]
async fn a_late_outcome_changes_nothing_for_any_holder() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, clock) = with_clock(&server).await;
    for action in every_action() {
        let () = redis::cmd("FLUSHALL").query_async(&mut redis).await.unwrap();
        put(&broker, &["a"]).await;
        let late = take(&broker, &member("late"), 1).await.remove(0);
        clock.advance(Duration::from_secs(31));
        assert_eq!(broker.recover(&[queue()]).await.unwrap().tasks.len(), 1);
        let before = dump(&mut redis).await;
        assert_eq!(settle(&broker, &late, action.clone()).await, Settled::Fenced, "{action:?} while pending");
        assert_eq!(answered(broker.extend(std::slice::from_ref(&late.key)).await), [Settled::Fenced]);
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

/// Attack B: Go's dequeue, which deletes `pending_since`, has the task.
#[tokio::test]
async fn a_run_of_a_go_worker_is_not_ours_and_gets_gos_grace() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, clock) = with_clock(&server).await;
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

/// A primary that became a replica, or that cannot save its data, still answers reads: no server can extend meanwhile,
/// and a recoverer that took each lapsed lease for a death would run everything twice when it takes writes again.
#[tokio::test]
async fn while_redis_takes_no_writes_no_server_looks_for_lapsed_leases() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, clock) = with_clock(&server).await;
    put(&broker, &["a"]).await;
    assert_eq!(take(&broker, &member("me"), 1).await.len(), 1);
    let mut wants_replicas = async |n: u32| {
        let () =
            redis::cmd("CONFIG").arg(&["SET", "min-replicas-to-write"]).arg(n).query_async(&mut redis).await.unwrap();
    };
    // Such a time may end just before the lease, and the worker tries again after that.
    clock.advance(Duration::from_secs(25));
    assert!(!broker.until_lapse(&[queue()]).await.unwrap().is_zero());
    wants_replicas(1).await;
    assert!(broker.until_lapse(&[queue()]).await.unwrap_err().is_unavailable(), "before the lapse");
    wants_replicas(0).await;
    clock.advance(Duration::from_secs(6));
    assert!(broker.until_lapse(&[queue()]).await.unwrap().is_zero());
    wants_replicas(1).await;
    assert!(broker.until_lapse(&[queue()]).await.unwrap_err().is_unavailable());
    wants_replicas(0).await;
    assert!(broker.until_lapse(&[queue()]).await.unwrap().is_zero());
}

fn with_a_short_lease() -> RedisOptions {
    let mut options = RedisOptions::default();
    options.lease = Duration::from_secs(2);
    options
}

/// Ends all connections but this one.
async fn cut_connections(admin: &mut MultiplexedConnection) {
    let mut kill = redis::cmd("CLIENT");
    let () = kill.arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"]).query_async(admin).await.unwrap();
}

/// As by a proxy that ends each connection after a while.
#[tokio::test]
async fn connections_that_are_cut_again_and_again_keep_no_lease_from_recovery() {
    let server = Server::start(&[]);
    let mut admin = server.foreign().await;
    let broker = server.broker_with(with_a_short_lease()).await;
    put(&broker, &["a"]).await;
    assert_eq!(take(&broker, &member("dead"), 1).await.len(), 1);
    eventually("the task of the dead worker is requeued", async || {
        cut_connections(&mut admin).await;
        // A call may meet the end of its connection.
        let quiet = loop {
            if let Ok(quiet) = broker.until_lapse(&[queue()]).await {
                break quiet;
            }
        };
        let recovered = if quiet.is_zero() { broker.recover(&[queue()]).await.ok()? } else { return None };
        (recovered.tasks.len() == 1).then_some(())
    })
    .await;
}

/// Its data is that of the other one, whose leases may be older; the process is the same.
#[tokio::test]
async fn a_redis_that_was_a_copy_of_another_for_a_moment_begins_a_hold() {
    let server = Server::start(&[]);
    let mut admin = server.foreign().await;
    let broker = server.broker_with(with_a_short_lease()).await;
    let () = admin.zadd("asynq:{default}:lease", "gone", 1).await.unwrap();
    let look = async || broker.until_lapse(&[queue()]).await;
    eventually("the lapse is believed", async || look().await.unwrap().is_zero().then_some(())).await;
    for master in [["127.0.0.1", "1"], ["NO", "ONE"]] {
        let () = redis::cmd("REPLICAOF").arg(&master).query_async(&mut admin).await.unwrap();
    }
    cut_connections(&mut admin).await;
    // A call may meet the end of its connection.
    let quiet = eventually("Redis answers", async || look().await.ok()).await;
    assert!(!quiet.is_zero());
}

#[tokio::test]
async fn on_one_server_one_queue_shows_whether_leases_can_be_extended() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, _clock) = with_clock(&server).await;
    let queues: Vec<_> = (0..20).map(|i| QueueName::new(&format!("tenant:{i}")).unwrap()).collect();
    for queue in &queues {
        let () = redis.zadd(format!("asynq:{{{queue}}}:lease"), "gone", 1).await.unwrap();
    }
    assert!(broker.until_lapse(&queues).await.unwrap().is_zero());
    let before = calls(&mut redis, "evalsha").await;
    assert!(broker.until_lapse(&queues).await.unwrap().is_zero());
    assert_eq!(calls(&mut redis, "evalsha").await - before, 1);
}

/// A dead worker must not make every server ask each of its queues every second.
#[tokio::test]
async fn a_lapsed_lease_costs_commands_for_its_own_queue_and_none_for_the_others() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, clock) = with_clock(&server).await;
    let queues: Vec<_> = (0..500).map(|i| QueueName::new(&format!("tenant:{i}")).unwrap()).chain([queue()]).collect();
    assert!(!broker.until_lapse(&queues).await.unwrap().is_zero());
    put(&broker, &["a"]).await;
    assert_eq!(take(&broker, &member("dead"), 1).await.len(), 1);
    clock.advance(Duration::from_secs(31));
    eventually("the lapse is seen", async || broker.until_lapse(&queues).await.unwrap().is_zero().then_some(())).await;
    // Known answers are read again now and then by a plain ZRANGE.
    let but_looks = async |redis: &mut _| commands(redis).await - calls(redis, "zrange").await;
    let before = but_looks(&mut redis).await;
    assert!(broker.until_lapse(&queues).await.unwrap().is_zero());
    assert_eq!(broker.recover(&queues).await.unwrap().tasks.len(), 1);
    let sent = but_looks(&mut redis).await - before;
    assert!((3..100).contains(&sent), "{sent} commands");
}

/// D and E: a repeat is recognised, and a lapsed lease that no recoverer took is still ours.
#[tokio::test]
async fn a_repeated_outcome_is_ok_and_so_is_one_after_a_lapsed_lease() {
    let server = Server::start(&[]);
    let (broker, clock) = with_clock(&server).await;
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
    assert_eq!((stats.processed_total, stats.failed_total, stats.active), (4, 2, 0), "each counted once");
}

/// Active is searched from the end that is nearer to a run where many run.
#[tokio::test]
async fn runs_end_and_are_recovered_wherever_they_are_among_many() {
    let server = Server::start(&[]);
    let (broker, clock) = with_clock(&server).await;
    let me = member("me");
    let names: Vec<String> = (0..1300).map(|n| format!("t{n:04}")).collect();
    put(&broker, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let mut runs = Vec::new();
    while runs.len() < names.len() {
        runs.extend(take(&broker, &me, 64).await);
    }
    for run in [&runs[0], &runs[299], &runs[300], &runs[1299]] {
        assert_eq!(settle(&broker, run, Action::Done).await, Settled::Ok, "{:?}", run.key.id);
    }
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().active, 1296);
    clock.advance(broker.lease() + Duration::from_secs(1));
    while broker.recover(&[queue()]).await.unwrap().more {}
    let stats = broker.queue_stats(&queue()).await.unwrap();
    assert_eq!((stats.active, stats.pending), (0, 1296));
    // Those of one call come in the order in which they were taken.
    let next = take(&broker, &me, 64).await;
    let mut sorted = ids(&next);
    sorted.sort_unstable();
    assert_eq!(ids(&next), sorted);
}
