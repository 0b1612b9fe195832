//! The contents of Redis: full memory, foreign and broken keys, locks, sizes.

use std::{future::poll_fn, sync::Arc, task::Poll, time::Duration};

use asynq_runtime::{
    Client, EnqueueError, Registry, Server as Worker,
    broker::{
        Action, Broker, BrokerErrorKind, Consume, Groups, Inspect, Maintain, Page, Produce, Refused, RetryOrder,
        Settle, Settled, Settlement, UniqueLock, Wanted, When,
    },
    inspector::{Force, Inspector},
    job,
    prelude::JobResult,
    task::{TaskMessage, TaskState},
};
use asynq_test_support::soon;
use redis::AsyncCommands;

use super::{server::Server, tasks::*};
use crate::answered;

#[tokio::test]
async fn a_full_redis_refuses_new_tasks_and_finishes_the_old_ones() {
    let server = Server::start(&["--maxmemory-policy", "noeviction"]);
    let mut redis = server.foreign().await;
    let (broker, clock) = with_clock(&server).await;
    put(&broker, &["a", "b", "c", "d", "e"]).await;
    let mut later = task("later");
    later.when = When::In(Duration::from_secs(5));
    broker.enqueue(vec![later]).await.remove(0).unwrap();
    limit_memory(&mut redis, "1").await;

    let refused = broker.enqueue(vec![task("f")]).await.remove(0).unwrap_err();
    assert!(matches!(&refused, Refused::Broker(error) if error.is_full()), "{refused:?}");
    let runs = take(&broker, &member("me"), 5).await;
    assert_eq!(runs.len(), 5);
    let keys: Vec<_> = runs.iter().map(|run| run.key.clone()).collect();
    assert!(answered(broker.extend(&keys).await).into_iter().all(|settled| settled == Settled::Ok));
    let batch: Vec<_> = runs.iter().zip(every_action()).map(|(run, action)| settlement(run, action)).collect();
    assert!(broker.settle(&batch).await.into_iter().all(|settled| settled.unwrap() == Settled::Ok));
    clock.advance(Duration::from_secs(6));
    assert_eq!(broker.forward(&[queue()], RetryOrder::Last).await.unwrap().moved, 1);
    assert_eq!(take(&broker, &member("me"), 5).await.len(), 2);
    clock.advance(Duration::from_secs(31));
    assert_eq!(broker.recover(&[queue()]).await.unwrap().tasks.len(), 2);
    assert_eq!(broker.sweep(&queue()).await.unwrap(), Default::default());
}

#[tokio::test]
async fn a_queue_is_deleted_from_a_full_redis_which_has_room_then() {
    let server = Server::start(&["--maxmemory-policy", "noeviction"]);
    let mut redis = server.foreign().await;
    let broker = Arc::new(server.broker().await);
    put(&broker, &["a", "b"]).await;
    limit_memory(&mut redis, "1").await;
    let removed = Inspector::new(broker).delete_queue("default", Force::Yes).await.unwrap();
    assert_eq!((removed.tasks, removed.more), (2, false));
}

/// An operator pauses a queue to free memory in peace.
#[tokio::test]
async fn a_queue_is_paused_while_redis_is_full_and_goes_on() {
    let server = Server::start(&["--maxmemory-policy", "noeviction"]);
    let (mut redis, broker) = (server.foreign().await, server.broker().await);
    put(&broker, &["a"]).await;
    limit_memory(&mut redis, "1").await;
    assert!(broker.pause(&queue()).await.unwrap());
    assert!(!broker.pause(&queue()).await.unwrap());
    assert!(take(&broker, &member("me"), 1).await.is_empty());
    assert!(broker.resume(&queue()).await.unwrap());
    assert_eq!(take(&broker, &member("me"), 1).await.len(), 1);
}

/// It may be an old master, and the queue may go on by now.
#[tokio::test]
async fn a_redis_that_takes_no_writes_does_not_say_that_a_queue_is_paused_already() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    put(&broker, &["a"]).await;
    assert!(broker.pause(&queue()).await.unwrap());
    let rule = ["SET", "min-replicas-to-write", "1"];
    let () = redis::cmd("CONFIG").arg(&rule).query_async(&mut redis).await.unwrap();
    let refused = broker.pause(&queue()).await.unwrap_err();
    assert!(refused.is_unavailable(), "{refused:?}");
}

#[tokio::test]
async fn a_redis_that_takes_no_writes_leaves_no_task_in_doubt() {
    let server = Server::start(&["--min-replicas-to-write", "1"]);
    let broker = server.broker().await;
    let client = Client::new(Arc::new(server.broker().await) as Arc<dyn Broker>);
    let refused = chore::enqueue(&client).await.unwrap_err();
    assert!(matches!(&refused, EnqueueError::Broker(error) if error.is_unavailable()), "{refused:?}");
    assert!(!refused.is_ambiguous(), "{refused:?}");
    let size = broker.queue_stats(&queue()).await.map_or(0, |stats| stats.size);
    assert_eq!(size, 0, "nothing was stored");
    assert_eq!(broker.reclaim_sets(&queue()).await.unwrap(), 0, "there is nothing to write");
}

#[tokio::test]
async fn a_user_who_may_not_run_a_command_of_a_script_is_denied() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    put(&broker, &["first"]).await;
    let () = redis::cmd("ACL").arg(&["SETUSER", "default", "-lpush"]).query_async(&mut redis).await.unwrap();
    let refused = broker.enqueue(vec![task("a")]).await.remove(0).unwrap_err();
    assert!(matches!(&refused, Refused::Broker(error) if error.kind() == BrokerErrorKind::Denied), "{refused:?}");
}

#[tokio::test]
async fn an_enqueue_that_was_given_up_before_it_was_sent_stores_nothing() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    put(&broker, &["first"]).await;
    let () = redis::cmd("CLIENT").arg(&["PAUSE", "3600000", "WRITE"]).query_async(&mut redis).await.unwrap();
    // Two sends wait for their answers, each as large as a send may be, so that the third call waits to be sent.
    let large = |name: &str| (0..256).map(|i| task(&format!("{name}{i}"))).collect::<Vec<_>>();
    let (mut a, mut b) = (broker.enqueue(large("a")), broker.enqueue(large("b")));
    let mut c = broker.enqueue(vec![task("given up")]);
    poll_fn(|context| {
        for call in [&mut a, &mut b, &mut c] {
            assert!(call.as_mut().poll(context).is_pending());
        }
        Poll::Ready(())
    })
    .await;
    drop(c);
    let () = redis::cmd("CLIENT").arg("UNPAUSE").query_async(&mut redis).await.unwrap();
    let stored = soon(async { tokio::join!(a, b) }).await;
    assert!(stored.0.into_iter().chain(stored.1).all(|outcome| outcome.is_ok()));
    put(&broker, &["last"]).await;
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().pending, 2 * 256 + 2);
}

#[job]
async fn chore() -> JobResult {
    Ok(())
}

#[tokio::test]
async fn a_worker_drains_a_full_redis() {
    let server = Server::start(&["--maxmemory-policy", "noeviction"]);
    let mut redis = server.foreign().await;
    let broker: Arc<dyn Broker> = Arc::new(server.broker().await);
    let client = Client::new(Arc::clone(&broker));
    for outcome in client.enqueue_many((0..300).map(|_| chore::job())).await.unwrap() {
        outcome.unwrap();
    }
    limit_memory(&mut redis, "1").await;
    let refused = chore::enqueue(&client).await.unwrap_err();
    assert!(matches!(&refused, EnqueueError::Broker(error) if error.is_full()), "{refused:?}");
    assert!(!refused.is_ambiguous(), "nothing was stored");

    // A whole worker with its heartbeat and its housekeeping, started while there is no room.
    let jobs = Registry::only::<(chore,)>().unwrap();
    let server = Worker::builder("nothing://is-connected").broker(Arc::clone(&broker)).registry(jobs).concurrency(8);
    let running = server.build().await.unwrap().start().await.unwrap();
    // All tasks are done although Redis is full.
    soon(running.signals().settled.reached(300)).await;
    let stats = broker.queue_stats(&queue()).await.unwrap();
    assert_eq!((stats.size, stats.processed_total, stats.failed_total), (0, 300, 0));
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_hash_that_is_not_a_task_and_an_id_without_one_do_not_stop_the_queue() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let ghosts: Vec<String> = (0..1000).map(|i| format!("ghost{i}")).collect();
    let () = redis.lpush("asynq:{default}:pending", ghosts).await.unwrap();
    let () = redis.lpush("asynq:{default}:pending", "text").await.unwrap();
    let () = redis.set("asynq:{default}:t:text", "no hash").await.unwrap();
    let () = redis.lpush("asynq:{default}:pending", "junk").await.unwrap();
    let () =
        redis.hset_multiple("asynq:{default}:t:junk", &[("msg", "\u{1}junk"), ("state", "pending")]).await.unwrap();
    put(&broker, &["good"]).await;
    // One call passes a thousand ids without a task.
    let runs = take(&broker, &member("me"), 64).await;
    assert_eq!(ids(&runs), ["junk", "good"]);
    let raw = &runs[0].message.as_ref().unwrap_err().raw;
    assert_eq!(raw[..], b"\x01junk"[..]);
    let orphans: u64 = redis.scard("asynq:{default}:x:orphans").await.unwrap();
    assert_eq!(orphans, 1000, "as many as a person looks at");
    assert!(redis.ttl::<_, i64>("asynq:{default}:x:orphans").await.unwrap() > 0, "for as long as a person may look");
    let left: bool = redis.exists("asynq:{default}:t:ghost1").await.unwrap();
    assert!(!left, "no stub was made");
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().active, 2);
}

#[tokio::test]
async fn a_container_of_a_foreign_type_keeps_tasks_where_they_are_until_it_is_moved_away() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, clock) = with_clock(&server).await;
    for (container, action) in [("completed", 1), ("retry", 2), ("x:due", 2), ("archived", 3), ("pending", 4)] {
        put(&broker, &["a", "b"]).await;
        let runs = take(&broker, &member("me"), 2).await;
        let key = format!("asynq:{{default}}:{container}");
        let aside = format!("aside:{container}");
        let had_some: bool = redis.exists(&key).await.unwrap();
        if had_some {
            let () = redis.rename(&key, &aside).await.unwrap();
        }
        let () = redis.set(&key, "of a foreign program").await.unwrap();
        let action = every_action().into_iter().nth(action).unwrap();
        let stuck = settlement(&runs[0], action);
        let answers = broker.settle(&[stuck.clone(), settlement(&runs[1], Action::Done)]).await;
        assert_eq!(answers[0].as_ref().unwrap_err().kind(), BrokerErrorKind::Corrupt, "{container}: {answers:?}");
        assert_eq!(*answers[1].as_ref().unwrap(), Settled::Ok, "its neighbour ends");
        let active: Vec<String> = redis.lrange("asynq:{default}:active", 0, -1).await.unwrap();
        assert_eq!(active, ["a"], "{container}");
        if container == "pending" {
            clock.advance(Duration::from_secs(31));
            broker.recover(&[queue()]).await.unwrap_err();
            let active: Vec<String> = redis.lrange("asynq:{default}:active", 0, -1).await.unwrap();
            assert_eq!(active, ["a"], "a task that cannot be requeued stays");
        }
        let () = redis.del(&key).await.unwrap();
        if had_some {
            let () = redis.rename(&aside, &key).await.unwrap();
        }
        let again = Settlement { resend: true, ..stuck };
        assert_eq!(*broker.settle(&[again]).await[0].as_ref().unwrap(), Settled::Ok, "{container}");
        let () = redis::cmd("FLUSHALL").query_async(&mut redis).await.unwrap();
    }
}

#[tokio::test]
async fn a_lease_of_a_foreign_type_keeps_runs_where_they_are_and_a_pending_of_one_keeps_no_success() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let (lease, pending) = ("asynq:{default}:lease", "asynq:{default}:pending");
    for action in every_action() {
        put(&broker, &["a"]).await;
        let run = take(&broker, &member("me"), 1).await.remove(0);
        let mut end = settlement(&run, action.clone());
        // With a lock a success goes the way of the other outcomes.
        end.message =
            Arc::new(TaskMessage { unique_key: "asynq:{default}:unique:email:k".into(), ..(*end.message).clone() });
        let () = redis.rename(lease, "aside").await.unwrap();
        let () = redis.set(lease, "foreign").await.unwrap();
        let refused = broker.settle(&[end.clone()]).await.remove(0);
        assert_eq!(refused.unwrap_err().kind(), BrokerErrorKind::Corrupt, "{action:?}");
        let () = redis.rename("aside", lease).await.unwrap();
        assert_eq!(broker.queue_stats(&queue()).await.unwrap().active, 1, "{action:?}");
        let is_requeue = matches!(action, Action::Requeue);
        if !is_requeue {
            let () = redis.set(pending, "foreign").await.unwrap();
        }
        assert_eq!(broker.settle(&[end]).await.remove(0).unwrap(), Settled::Ok, "{action:?}");
        let () = redis::cmd("FLUSHALL").query_async(&mut redis).await.unwrap();
    }
}

#[tokio::test]
async fn a_lock_is_not_left_behind_by_a_conflict_and_freed_by_an_archive() {
    let (_server, broker, mut redis) = Server::with_broker().await;
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
    assert!(!redis.exists::<_, bool>(key).await.unwrap(), "the conflict took no lock");
    let outcomes = broker.enqueue(vec![unique("b"), unique("c"), task("d")]).await;
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok());
    assert!(matches!(&outcomes[1], Err(Refused::Duplicate { holder: Some(id) }) if *id == "b"), "{outcomes:?}");
    let runs = take(&broker, &member("me"), 9).await;
    assert_eq!(ids(&runs), ["a", "b", "d"]);
    assert_eq!(settle(&broker, &runs[1], archive()).await, Settled::Ok);
    assert!(!redis.exists::<_, bool>(key).await.unwrap(), "the archive frees the lock");
    // A Go program that runs a task of a group leaves the key in the message alone.
    broker.enqueue(vec![unique("e")]).await.remove(0).unwrap();
    let () = redis.hdel("asynq:{default}:t:e", "unique_key").await.unwrap();
    let run = take(&broker, &member("me"), 1).await.remove(0);
    assert_eq!(settle(&broker, &run, archive()).await, Settled::Ok);
    assert!(!redis.exists::<_, bool>(key).await.unwrap(), "the archive frees the lock that the message names");
}

#[tokio::test]
async fn many_callers_at_once_travel_together_and_each_gets_its_own_answer() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let broker = Arc::new(server.broker().await);
    // While Redis stands still at most two sends are on their way. All other calls wait together.
    let stopped = server.stop();
    let mut callers = Vec::new();
    for i in 0..500 {
        let broker = Arc::clone(&broker);
        // Each id is enqueued twice.
        let mut call = Box::pin(async move { broker.enqueue(vec![task(&format!("t{}", i / 2))]).await.remove(0) });
        // Polled once, the call has queued up.
        let polled = poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_pending())).await;
        assert!(polled);
        callers.push(tokio::spawn(call));
        tokio::task::yield_now().await;
    }
    drop(stopped);
    let (mut placed, mut conflicts) = (0, 0);
    for caller in callers {
        match soon(caller).await.unwrap() {
            Ok(_) => placed += 1,
            Err(Refused::IdConflict) => conflicts += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((placed, conflicts), (250, 250));
    let calls = scripts(&mut redis).await;
    // A script carries up to 64 tasks. 500 are eight scripts, and each of four sends may begin and end with a part of one.
    assert!(calls <= 16, "{calls} scripts for 500 callers");
}

#[tokio::test]
async fn large_tasks_travel_in_answers_that_arrive_in_time_and_in_order() {
    let server = Server::start(&[]);
    let broker = server.broker().await;
    let names: Vec<String> = (0..40).map(|i| format!("t{i}")).collect();
    let large = names.iter().map(|id| {
        let mut task = task(id);
        task.message.payload = vec![7; 300_000].into();
        task
    });
    for outcome in broker.enqueue(large.collect()).await {
        outcome.unwrap();
    }
    let mut runs = Vec::new();
    while runs.len() < 40 {
        let some = take(&broker, &member("me"), 40).await;
        assert!((1..=14).contains(&some.len()), "{} tasks of 300 kB in one answer", some.len());
        runs.extend(some);
    }
    assert_eq!(ids(&runs), names);
    let batch: Vec<_> = runs.iter().map(|run| settlement(run, retry(Duration::ZERO))).collect();
    assert!(broker.settle(&batch).await.into_iter().all(|settled| settled.unwrap() == Settled::Ok));
    let stats = broker.queue_stats(&queue()).await.unwrap();
    assert_eq!((stats.retry, stats.active, stats.failed_total), (40, 0, 40));
}

#[tokio::test]
async fn a_foreign_key_in_the_place_of_active_loses_no_task() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    put(&broker, &["a", "b"]).await;
    for key in ["asynq:{default}:active", "asynq:{default}:lease"] {
        let () = redis.set(key, "foreign").await.unwrap();
        let wanted = [Wanted { queue: queue(), n: 2 }];
        let error = broker.dequeue(&member("me"), &wanted).await.unwrap_err();
        assert_eq!(error.kind(), BrokerErrorKind::Corrupt, "{error:?}");
        let () = redis.del(key).await.unwrap();
        assert_eq!(broker.queue_stats(&queue()).await.unwrap().active, 0, "{key}");
    }
    assert_eq!(ids(&take(&broker, &member("me"), 9).await), ["a", "b"]);
}

#[tokio::test]
async fn an_id_that_lies_in_pending_twice_runs_once() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    put(&broker, &["a"]).await;
    let () = redis.lpush("asynq:{default}:pending", "a").await.unwrap();
    let runs = take(&broker, &member("me"), 9).await;
    assert_eq!(ids(&runs), ["a"]);
    assert_eq!(settle(&broker, &runs[0], Action::Done).await, Settled::Ok);
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().size, 0);
}

/// The second entry is pushed to pending again for want of room, and must take neither the lease nor the task of the run along.
#[tokio::test]
async fn an_id_that_lies_in_pending_twice_runs_once_though_its_message_is_long() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let mut long = task("a");
    long.message.payload = vec![b'x'; 2 << 20].into();
    broker.enqueue(vec![long]).await.remove(0).unwrap();
    let () = redis.lpush("asynq:{default}:pending", "a").await.unwrap();
    let runs = take(&broker, &member("me"), 9).await;
    assert_eq!(ids(&runs), ["a"]);
    assert_eq!(ids(&take(&broker, &member("other"), 9).await), [""; 0]);
    assert_eq!(answered(broker.extend(&[runs[0].key.clone()]).await), [Settled::Ok]);
    assert_eq!(settle(&broker, &runs[0], Action::Done).await, Settled::Ok);
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().size, 0);
}

#[tokio::test]
async fn a_page_without_an_end_holds_all_there_is_and_no_more_is_asked_for() {
    let server = Server::start(&[]);
    let broker = server.broker().await;
    let names: Vec<String> = (0..2_500).map(|i| format!("t{i}")).collect();
    put(&broker, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for size in [usize::MAX, 2_500, 2_001] {
        let page = Page { number: 1, size };
        let listed = broker.tasks(&queue(), TaskState::Pending, page).await.unwrap();
        let listed: Vec<_> = listed.into_iter().map(|task| task.id.to_string()).collect();
        assert_eq!(listed, names[..size.min(2_500)]);
    }
    assert!(
        broker.tasks(&queue(), TaskState::Aggregating, Page { number: 1, size: usize::MAX }).await.unwrap().is_empty()
    );
}

#[tokio::test]
async fn a_crowd_of_lapsed_go_runs_is_not_read_again_and_again() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, clock) = with_clock(&server).await;
    let now = broker.now().timestamp();
    let mut pipeline = redis::pipe();
    for i in 0..1_200 {
        // Go's dequeue leaves them so: active, with a lease, without a token.
        pipeline.lpush("asynq:{default}:active", i).ignore();
        pipeline.zadd("asynq:{default}:lease", i, now - 1).ignore();
        pipeline.hset_multiple(format!("asynq:{{default}}:t:{i}"), &[("msg", "m"), ("state", "active")]).ignore();
    }
    let () = pipeline.query_async(&mut redis).await.unwrap();
    let recovered = broker.recover(&[queue()]).await.unwrap();
    assert!(recovered.tasks.is_empty() && !recovered.more, "they have Go's grace, and asking again changes nothing");

    clock.advance(Duration::from_secs(31));
    let (mut back, mut calls) = (0, 0);
    loop {
        let recovered = broker.recover(&[queue()]).await.unwrap();
        (back, calls) = (back + recovered.tasks.len(), calls + 1);
        assert!(calls <= 12, "{back} tasks in {calls} calls");
        if !recovered.more {
            break;
        }
    }
    assert_eq!((back, calls), (1_200, 12));
}

#[tokio::test]
async fn an_enqueue_that_stops_at_a_foreign_key_takes_no_lock() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let lock = "asynq:{default}:unique:email:1";
    for foreign in ["pending", "scheduled", "x:due"] {
        let key = format!("asynq:{{default}}:{foreign}");
        let () = redis.set(&key, "foreign").await.unwrap();
        let mut unique = task("a");
        unique.unique = Some(UniqueLock { key: lock.into(), ttl: Duration::from_secs(600) });
        let mut later = task("b");
        later.when = When::In(Duration::from_secs(600));
        for outcome in broker.enqueue(vec![unique, later]).await {
            assert!(outcome.is_err(), "{foreign}");
        }
        assert!(!redis.exists::<_, bool>(lock).await.unwrap(), "{foreign}: no server would free it");
        let () = redis.del(&key).await.unwrap();
    }
}

#[tokio::test]
async fn an_enqueue_that_stops_at_a_foreign_key_leaves_no_id_in_pending() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    for foreign in ["scheduled", "x:due"] {
        let key = format!("asynq:{{default}}:{foreign}");
        let () = redis.set(&key, "foreign").await.unwrap();
        let mut later = task("b");
        later.when = When::In(Duration::from_secs(600));
        for outcome in broker.enqueue(vec![task("a"), later]).await {
            assert!(outcome.is_err(), "{foreign}");
        }
        let left: Vec<String> = redis.keys("asynq:{default}:*").await.unwrap();
        assert_eq!(left, [key.as_str()], "{foreign}");
        let () = redis.del(&key).await.unwrap();
    }
}
