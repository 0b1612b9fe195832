//! Redis Cluster: slots that move and nodes that go away.

use std::{sync::Arc, time::Duration};

use asynq_runtime::{
    broker::{
        BrokerErrorKind, Consume as _, Inspect as _, Maintain as _, Member, Presence as _, Produce as _, Quarantined,
        Refused, RetryOrder, Settle as _, Settled, Wanted,
        redis::{RedisBroker, RedisOptions},
    },
    clock::ManualClock,
};
use asynq_tests::{
    Build as _, Persistence, RedisCluster, RedisServer, default_queue, eventually, lock_key, patient, queue, soon,
    task, task_id,
};

use crate::topologies::{connect, ended, put_once, until_it_works};

const PENDING: &str = "asynq:{default}:pending";

/// A cluster, a clock that the test moves on, a broker with that clock, and a worker.
async fn with_a_worker() -> (RedisCluster, ManualClock, RedisBroker, Member) {
    let (cluster, clock) = (RedisCluster::start(), ManualClock::default());
    let options = patient::redis_options(Some(Arc::new(clock.clone())));
    let broker = RedisBroker::connect(&cluster.url(), options).await.unwrap();
    let member = asynq_tests::join(&broker, 1).await;
    (cluster, clock, broker, member)
}

#[tokio::test]
async fn one_node_of_the_url_is_enough_and_dead_ones_do_not_matter() {
    let cluster = RedisCluster::start();
    let url = format!("redis-cluster://127.0.0.1:1,127.0.0.1:{}", cluster.port(1));
    let broker = connect(&url).await.unwrap();
    for name in ["a", "b", "c", "d", "e"] {
        broker.enqueue(vec![task("t").in_queue(name)]).await.remove(0).unwrap();
    }
    assert_eq!(broker.queues().await.unwrap().len(), 5);
    let mut options = RedisOptions::default();
    options.call_timeout = Duration::MAX;
    let endless = RedisBroker::connect(&url, options).await.unwrap();
    endless.enqueue(vec![task("without a time-out")]).await.remove(0).unwrap();
}

#[tokio::test]
async fn a_url_of_the_wrong_kind_is_refused_with_the_right_one() {
    let cluster = RedisCluster::start();
    let error = connect(&format!("redis://127.0.0.1:{}", cluster.port(0))).await.unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Config);
    assert!(error.to_string().contains("redis-cluster://"), "{error}");
    let alone = RedisServer::start(Persistence::None);
    let error = connect(&format!("redis-cluster://127.0.0.1:{}", alone.port())).await.unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Config);
    assert!(error.to_string().contains("redis://"), "{error}");
}

/// A server of many queues asks again and again which of them have work.
#[tokio::test]
async fn a_look_at_many_queues_asks_only_for_those_that_have_changed() {
    let cluster = RedisCluster::start();
    let broker = connect(&cluster.url()).await.unwrap();
    let member = asynq_tests::join(&broker, 1).await;
    let queues: Vec<_> = (0..100).map(|i| queue(&format!("tenant{i}"))).collect();
    let tasks =
        queues.iter().flat_map(|queue| (0..2).map(move |i| task(&format!("{queue}-{i}")).in_queue(queue.as_str())));
    broker.enqueue(tasks.collect()).await.into_iter().for_each(|answer| assert!(answer.is_ok()));
    assert_eq!(broker.ready(&queues, Quarantined::All).await.unwrap().len(), 100);
    let before = cluster.calls("llen");
    for queue in &queues {
        let wanted = [Wanted { queue: queue.clone(), n: 1 }];
        assert_eq!(broker.dequeue(&member, &wanted).await.unwrap().len(), 1);
        assert_eq!(broker.ready(&queues, Quarantined::All).await.unwrap().len(), 100, "each has a second task");
    }
    let lengths = cluster.calls("llen") - before;
    assert!(lengths <= 200, "{lengths} lengths for 100 looks, each after a change of one queue");
}

/// Each node is searched once for all of its queues, and not once for each queue.
#[tokio::test]
async fn the_search_for_lost_groups_costs_the_same_with_any_number_of_queues() {
    let cluster = RedisCluster::start();
    let broker = connect(&cluster.url()).await.unwrap();
    let queues: Vec<_> = (0..100).map(|i| queue(&format!("tenant{i}"))).collect();
    for queue in &queues {
        let node = cluster.owner(cluster.slot(&format!("asynq:{{{queue}}}:g:lost")));
        cluster.command::<()>(node, &["ZADD", &format!("asynq:{{{queue}}}:g:lost"), "1", "t1"]);
    }
    assert_eq!(broker.restore_groups(&queues).await.unwrap(), 100);
    assert_eq!(cluster.calls("scan"), 3, "one look at each node");
}

#[tokio::test]
async fn calls_follow_a_slot_that_has_moved_and_a_run_goes_on_there() {
    let cluster = RedisCluster::start();
    let broker = connect(&cluster.url()).await.unwrap();
    let member = asynq_tests::join(&broker, 1).await;
    broker.enqueue(vec![task("t1"), task("t2")]).await.into_iter().for_each(|answer| assert!(answer.is_ok()));
    let wanted = [Wanted { queue: default_queue(), n: 1 }];
    let runs = broker.dequeue(&member, &wanted).await.unwrap();

    let slot = cluster.slot(PENDING);
    let from = cluster.owner(slot);
    cluster.move_slot(slot, (from + 1) % 3, 100);

    assert_eq!(broker.extend(&[runs[0].key.clone()]).await[0].clone().unwrap(), Settled::Ok);
    assert_eq!(broker.settle(&[ended(&runs[0])]).await.remove(0).unwrap(), Settled::Ok);
    assert_eq!(broker.dequeue(&member, &wanted).await.unwrap()[0].key.id.as_str(), "t2");
    broker.enqueue(vec![task("t3")]).await.remove(0).unwrap();
    let stats = broker.queue_stats(&default_queue()).await.unwrap();
    assert_eq!((stats.pending, stats.active, stats.processed_total), (1, 1, 1));
}

#[tokio::test]
async fn a_wait_for_work_is_notified_where_the_slot_has_gone() {
    let cluster = RedisCluster::start();
    let broker = connect(&cluster.url()).await.unwrap();
    let elsewhere = connect(&cluster.url()).await.unwrap();
    let queues = [default_queue()];
    broker.wait_for_work(&queues, Quarantined::All, Duration::from_millis(50)).await.unwrap();
    let slot = cluster.slot(PENDING);
    let to = (cluster.owner(slot) + 1) % 3;
    let found = async {
        // The move itself ends a wait, because it may hide a change: then the worker asks and waits again.
        while broker.queue_stats(&default_queue()).await.unwrap().pending == 0 {
            broker.wait_for_work(&queues, Quarantined::All, Duration::from_secs(3600)).await.unwrap();
        }
    };
    let put = async {
        tokio::task::yield_now().await;
        cluster.move_slot(slot, to, 100);
        elsewhere.enqueue(vec![task("t1")]).await.remove(0).unwrap();
    };
    tokio::join!(soon(found), put);
}

#[tokio::test]
async fn a_slot_on_its_way_means_later_and_nothing_is_lost() {
    let cluster = RedisCluster::start();
    let broker = connect(&cluster.url()).await.unwrap();
    // Repeats for a second, and fails then.
    let hasty =
        RedisBroker::connect(&format!("{}?timeout=500ms", cluster.url()), RedisOptions::default()).await.unwrap();
    broker.enqueue(vec![task("t1"), task("t2")]).await.into_iter().for_each(|answer| assert!(answer.is_ok()));
    let (slot, to) = begin_to_move(&cluster, &["asynq:{default}:t:t1"]);

    let member = asynq_tests::join(&broker, 1).await;
    let wanted = [Wanted { queue: default_queue(), n: 2 }];
    for _ in 0..3 {
        match broker.dequeue(&member, &wanted).await {
            Ok(runs) => assert!(runs.is_empty(), "{runs:?}"),
            Err(error) => assert!(error.is_unavailable(), "{error:?}"),
        }
        for result in [
            broker.forward(&[default_queue()], RetryOrder::Last).await.map(|_| ()),
            broker.recover(&[default_queue()]).await.map(|_| ()),
            broker.queue_stats(&default_queue()).await.map(|_| ()),
        ] {
            assert!(result.as_ref().err().is_none_or(|error| error.is_unavailable()), "{result:?}");
        }
        // The message is sent before the script, perhaps to the other node.
        if let Err(refused) = hasty.enqueue(vec![task("t3").with_payload("x".repeat(20_000))]).await.remove(0) {
            assert!(
                matches!(&refused, Refused::Broker(error) if error.is_unavailable()) || refused_as_stored(&refused),
                "{refused:?}"
            );
        }
    }
    // A moved key is read from its new node.
    let found = broker.task(&default_queue(), &asynq_tests::task_id("t1")).await;
    assert!(found.as_ref().err().is_none_or(|error| error.is_unavailable()), "{found:?}");

    cluster.move_slot(slot, to, 100);
    let mut ids = Vec::new();
    until_it_works("the rest", async || {
        let runs = broker.dequeue(&member, &[Wanted { queue: default_queue(), n: 9 }]).await?;
        ids.extend(runs.iter().map(|run| run.key.id.to_string()));
        if ids.len() < 2 {
            Err(asynq_runtime::broker::BrokerError::new(BrokerErrorKind::Unavailable, "some"))
        } else {
            Ok(())
        }
    })
    .await;
    ids.retain(|id| id != "t3");
    ids.sort();
    assert_eq!(ids, ["t1", "t2"]);
    for key in cluster.command::<Vec<String>>(to, &["KEYS", "*:x:msg:*"]) {
        let ttl: i64 = cluster.command(to, &["TTL", &key]);
        assert!((1..=60).contains(&ttl), "{key} stays for ever: {ttl}");
    }
}

fn refused_as_stored(refused: &Refused) -> bool {
    matches!(refused, Refused::IdConflict)
}

/// Begins to move the slot of the default queue. The target node gets these of the queue's keys, the source node keeps
/// the others. Returns the slot and the target.
fn begin_to_move(cluster: &RedisCluster, keys: &[&str]) -> (u16, usize) {
    let slot = cluster.slot(PENDING);
    let from = cluster.owner(slot);
    let to = (from + 1) % 3;
    let text = slot.to_string();
    let id = |node| cluster.command::<String>(node, &["CLUSTER", "MYID"]);
    cluster.command::<()>(to, &["CLUSTER", "SETSLOT", &text, "IMPORTING", &id(from)]);
    cluster.command::<()>(from, &["CLUSTER", "SETSLOT", &text, "MIGRATING", &id(to)]);
    let port = cluster.port(to).to_string();
    for key in keys {
        cluster.command::<String>(from, &["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
    }
    (slot, to)
}

/// Both nodes answer at once that they cannot do it now.
#[tokio::test]
async fn an_enqueue_is_repeated_until_the_slot_has_moved() {
    let cluster = RedisCluster::start();
    let broker = connect(&cluster.url()).await.unwrap();
    broker.enqueue(vec![task("t1")]).await.remove(0).unwrap();
    let (slot, to) = begin_to_move(&cluster, &["asynq:{default}:t:t1"]);
    let refusals = || {
        let of_node = |node| {
            let stats: String = cluster.command(node, &["INFO", "errorstats"]);
            let count = stats.lines().find_map(|line| line.strip_prefix("errorstat_TRYAGAIN:count=")?.parse().ok());
            count.unwrap_or(0_u32)
        };
        (0..3).map(of_node).sum::<u32>()
    };
    let (placed, ()) = tokio::join!(broker.enqueue(vec![task("t2")]), async {
        eventually("eight attempts", async || (refusals() >= 8).then_some(())).await;
        cluster.move_slot(slot, to, 100);
    });
    placed.into_iter().for_each(|placed| assert!(placed.is_ok(), "{placed:?}"));
}

/// The source node cannot see a hash that has moved, and the target node cannot see one that has not.
#[tokio::test]
async fn a_lapsed_task_that_is_on_the_other_node_of_a_moving_slot_is_recovered_after_the_move() {
    let lists = ["asynq:{default}:active", "asynq:{default}:lease", PENDING];
    for moved in [&["asynq:{default}:t:t1"][..], &lists[..]] {
        let (cluster, clock, broker, member) = with_a_worker().await;
        let tasks = ["t1", "t2", "t3"].map(task);
        broker.enqueue(tasks.into()).await.into_iter().for_each(|answer| assert!(answer.is_ok()));
        // When the first lease of 30 seconds has passed, the second holds and the third task waits: no list is empty.
        for id in ["t1", "t2"] {
            let runs = broker.dequeue(&member, &[Wanted { queue: default_queue(), n: 1 }]).await.unwrap();
            assert_eq!(runs[0].key.id, id);
            clock.advance(Duration::from_secs(20));
        }

        let (slot, to) = begin_to_move(&cluster, moved);
        let early = broker.recover(&[default_queue()]).await;
        assert!(early.as_ref().is_err_and(|error| error.is_unavailable()), "{moved:?}: {early:?}");
        cluster.move_slot(slot, to, 100);

        let back = eventually("the task is recovered", async || {
            let recovered = broker.recover(&[default_queue()]).await.ok()?;
            (!recovered.tasks.is_empty()).then_some(recovered.tasks)
        })
        .await;
        assert_eq!(back, [(default_queue(), task_id("t1"))], "{moved:?}");
        let stats = broker.queue_stats(&default_queue()).await.unwrap();
        assert_eq!((stats.pending, stats.active), (2, 1), "{moved:?}");
    }
}

/// A worker cannot extend the lease of a task that is on the other side, and recovery must not be faster when the move is over.
#[tokio::test]
async fn lapsed_leases_are_held_while_the_slot_of_their_queue_moves() {
    for moved in [&["asynq:{default}:t:t1"][..], &["asynq:{default}:active", "asynq:{default}:lease"]] {
        let (cluster, clock, broker, member) = with_a_worker().await;
        let owner = |name: &str| cluster.owner(cluster.slot(&format!("asynq:{{{name}}}:lease")));
        let names = (0..).map(|i| format!("q{i}"));
        let beside = queue(&names.into_iter().find(|name| owner(name) == owner("default")).unwrap());
        let queues = [default_queue(), beside.clone()];
        for queue in &queues {
            broker.enqueue(vec![task("t1").in_queue(queue.as_str())]).await.remove(0).unwrap();
            let runs = broker.dequeue(&member, &[Wanted { queue: queue.clone(), n: 1 }]).await.unwrap();
            assert_eq!(runs.len(), 1);
        }
        clock.advance(Duration::from_secs(40));
        begin_to_move(&cluster, moved);
        assert!(!broker.until_lapse(&queues[..1]).await.unwrap().is_zero(), "{moved:?}");
        assert!(broker.recover(&queues[..1]).await.unwrap().tasks.is_empty(), "{moved:?}");
        // The other queues of the master go on.
        assert!(broker.until_lapse(&queues).await.unwrap().is_zero(), "{moved:?}");
        assert_eq!(broker.recover(&queues).await.unwrap().tasks, [(beside, task_id("t1"))], "{moved:?}");
    }
}

/// A worker that could not extend its lease tries again some seconds after the move, when the lease may have lapsed.
#[tokio::test]
async fn a_move_that_ends_before_a_lease_lapses_is_a_gap_for_its_queue() {
    let (cluster, clock, broker, member) = with_a_worker().await;
    broker.enqueue(vec![task("t1")]).await.remove(0).unwrap();
    assert_eq!(broker.dequeue(&member, &[Wanted { queue: default_queue(), n: 1 }]).await.unwrap().len(), 1);
    clock.advance(Duration::from_secs(25));
    let (slot, to) = begin_to_move(&cluster, &["asynq:{default}:t:t1"]);
    assert!(!broker.until_lapse(&[default_queue()]).await.unwrap().is_zero());
    cluster.move_slot(slot, to, 100);
    clock.advance(Duration::from_secs(6));
    let quiet = until_it_works("a look after the move", async || broker.until_lapse(&[default_queue()]).await).await;
    assert!(!quiet.is_zero());
    let recovered = until_it_works("a turn of recovery", async || broker.recover(&[default_queue()]).await).await;
    assert!(recovered.tasks.is_empty(), "{:?}", recovered.tasks);
}

/// `redis-cli --cluster del-node` leaves the process of the node running.
#[tokio::test]
async fn cancel_requests_come_from_the_cluster_and_not_from_a_node_that_has_left_it() {
    let cluster = RedisCluster::start();
    let broker = RedisBroker::connect(&cluster.url(), RedisOptions::default()).await.unwrap();
    let mut cancellations = broker.cancellations().await.unwrap();
    let listens = |node: usize| {
        let listening: Vec<(String, usize)> = cluster.command(node, &["PUBSUB", "NUMSUB", "asynq:cancel"]);
        listening[0].1 == 1
    };
    let left = (0..3).find(|node| listens(*node)).expect("one node has the subscription");
    let id: String = cluster.command(left, &["CLUSTER", "MYID"]);
    cluster.command::<()>(left, &["CLUSTER", "RESET", "SOFT"]);
    for node in (0..3).filter(|node| *node != left) {
        cluster.command::<()>(node, &["CLUSTER", "FORGET", &id]);
    }
    let error = eventually("the listener leaves the node", async || {
        tokio::time::timeout(Duration::from_millis(100), cancellations.next()).await.ok()
    })
    .await
    .unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
}

/// The other nodes do not notice that the master is gone, or the cluster serves without it (`cluster-require-full-coverage no`).
#[tokio::test]
async fn a_master_that_is_away_keeps_no_task_of_others_from_recovery() {
    let (mut cluster, clock) = (RedisCluster::start(), ManualClock::default());
    // The calls to the dead master time out as early as a program's.
    let mut options = RedisOptions::default();
    options.clock = Some(Arc::new(clock.clone()));
    let broker = RedisBroker::connect(&cluster.url(), options).await.unwrap();
    let member = asynq_tests::join(&broker, 1).await;
    let owner = |cluster: &RedisCluster, name: &str| cluster.owner(cluster.slot(&format!("asynq:{{{name}}}:lease")));
    let names: Vec<String> = (0..20).map(|i| format!("q{i}")).collect();
    let away = queue(&names[0]);
    let here = queue(names.iter().find(|name| owner(&cluster, name) != owner(&cluster, away.as_str())).unwrap());
    for queue in [&away, &here] {
        broker.enqueue(vec![task("t").in_queue(queue.as_str())]).await.remove(0).unwrap();
        assert_eq!(broker.dequeue(&member, &[Wanted { queue: queue.clone(), n: 1 }]).await.unwrap().len(), 1);
    }
    clock.advance(Duration::from_secs(31));
    let gone = owner(&cluster, away.as_str());
    cluster.kill(gone);
    let queues = [away.clone(), here.clone()];
    until_it_works("a turn of recovery", async || {
        assert!(broker.until_lapse(&queues).await?.is_zero());
        broker.recover(&queues).await
    })
    .await;
    let stats = until_it_works("the other master answers", async || broker.queue_stats(&here).await).await;
    assert_eq!((stats.pending, stats.active), (1, 0));
    assert!(broker.until_lapse(&[away]).await.unwrap_err().is_unavailable(), "none takes writes");
}

/// With `cluster-allow-reads-when-down yes`, Redis stops a script at its first write.
#[tokio::test]
async fn a_cluster_that_is_down_and_answers_reads_is_a_gap_for_recovery_and_an_enqueue_waits_for_it() {
    let (cluster, clock, broker, member) = with_a_worker().await;
    broker.enqueue(vec![task("t1")]).await.remove(0).unwrap();
    assert_eq!(broker.dequeue(&member, &[Wanted { queue: default_queue(), n: 1 }]).await.unwrap().len(), 1);
    clock.advance(Duration::from_secs(40));

    let slot = cluster.slot(PENDING);
    let (node, beside) = (cluster.owner(slot), (slot + 1).to_string());
    cluster.command::<()>(node, &["CONFIG", "SET", "cluster-allow-reads-when-down", "yes"]);
    // For this node the cluster is down while any slot has no master.
    cluster.command::<()>(node, &["CLUSTER", "DELSLOTS", &beside]);
    eventually("the cluster is down", async || {
        cluster.command::<String>(node, &["CLUSTER", "INFO"]).contains("cluster_state:fail").then_some(())
    })
    .await;
    let lapse = broker.until_lapse(&[default_queue()]).await;
    assert!(lapse.as_ref().is_err_and(|error| error.is_unavailable()), "{lapse:?}");
    let recovered = broker.recover(&[default_queue()]).await;
    assert!(recovered.as_ref().is_err_and(|error| error.is_unavailable()), "{recovered:?}");

    let before = cluster.calls("evalsha");
    let (placed, ()) = tokio::join!(broker.enqueue(vec![task("t2")]), async {
        eventually("eight attempts", async || (cluster.calls("evalsha") >= before + 8).then_some(())).await;
        cluster.command::<()>(node, &["CLUSTER", "ADDSLOTS", &beside]);
    });
    placed.into_iter().for_each(|placed| assert!(placed.is_ok(), "{placed:?}"));
    let stats = broker.queue_stats(&default_queue()).await.unwrap();
    assert_eq!((stats.pending, stats.active), (1, 1));
}

#[tokio::test]
async fn housekeeping_forgets_no_task_that_is_on_the_other_node_of_a_moving_slot() {
    for state in ["completed", "archived"] {
        let (list, hash) = (format!("asynq:{{default}}:{state}"), format!("asynq:{{default}}:t:{state}"));
        for moved in [&list, &hash] {
            let cluster = RedisCluster::start();
            let broker = connect(&cluster.url()).await.unwrap();
            let from = cluster.owner(cluster.slot(PENDING));
            // The retention of the one has passed, and the other is in the archive for too long.
            cluster.command::<()>(from, &["ZADD", &list, "1", state]);
            cluster.command::<()>(from, &["HSET", &hash, "state", state]);
            let clean = async || match state {
                "completed" => broker.delete_expired(&default_queue(), 10).await,
                _ => broker.trim_archive(&default_queue(), Duration::from_secs(60), 10, 10).await,
            };

            let (slot, to) = begin_to_move(&cluster, &[moved.as_str()]);
            let early = clean().await;
            assert!(early.as_ref().is_err_and(|error| error.is_unavailable()), "{moved}: {early:?}");
            cluster.move_slot(slot, to, 100);

            assert_eq!(until_it_works("the clean-up", clean).await, 1, "{moved}");
            let left: Vec<String> = cluster.command(to, &["KEYS", "asynq:{default}:*"]);
            assert_eq!(left, [] as [String; 0], "{moved}");
        }
    }
}

#[tokio::test]
async fn the_locks_of_a_queue_whose_slot_moves_are_listed_all_or_not_at_all() {
    let cluster = RedisCluster::start();
    let broker = connect(&cluster.url()).await.unwrap();
    for name in ["a", "b"] {
        broker.enqueue(vec![task(name).locked(&lock_key(name), 600)]).await.remove(0).unwrap();
    }
    let locks = async || broker.locks(&default_queue(), None).await;

    let (slot, to) = begin_to_move(&cluster, &[&lock_key("a")]);
    let half_way = locks().await;
    assert!(half_way.as_ref().is_err_and(|error| error.is_unavailable()), "{half_way:?}");
    // The broker still takes the old master for that of the slot.
    cluster.move_slot(slot, to, 100);
    assert_eq!(until_it_works("the look", locks).await.locks.len(), 2);
}

#[tokio::test]
async fn a_replica_that_took_over_is_found() {
    let mut cluster = RedisCluster::with_replicas();
    // The calls to the dead master time out as early as a program's.
    let broker = RedisBroker::connect(&cluster.url(), RedisOptions::default()).await.unwrap();
    let names = ["a", "b", "c", "d", "e", "f"];
    for name in names {
        broker.enqueue(vec![task("before").in_queue(name)]).await.remove(0).unwrap();
    }
    for node in 0..3 {
        cluster.replicated(node);
    }
    cluster.kill(1);
    for name in names {
        until_it_works("an enqueue after the failover", async || put_once(&broker, task("after").in_queue(name)).await)
            .await;
        assert_eq!(broker.queue_stats(&queue(name)).await.unwrap().pending, 2, "{name}");
    }
}
