//! Concurrent calls: no task is assigned, admitted, settled or counted twice, and none is lost.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use asynq_runtime::{
    broker::{Broker, Member, Quarantined, Refused, RetryOrder, Run, Settled, Wanted},
    task::TaskState,
};
use asynq_tests::{Build as _, Seeded as _, default_queue, done, lock_key, requeue, retry, soon, task};
use tokio::task::JoinSet;

use super::Fixture;

/// Four brokers, as four processes have them, each with a member.
async fn four(t: &Fixture) -> Vec<(Arc<dyn Broker>, Member)> {
    let mut all = vec![(t.shared(), t.member().clone())];
    for number in 2..=4 {
        let broker = t.another_broker().await;
        let member = t.member_of(&*broker, number).await;
        all.push((broker, member));
    }
    all
}

async fn seed(t: &Fixture, n: usize) {
    let batch = (0..n).map(|i| task(&format!("t{i:04}"))).collect();
    assert!(t.broker().enqueue(batch).await.iter().all(Result::is_ok));
}

async fn dequeue(broker: &dyn Broker, member: &Member, n: usize) -> Vec<Run> {
    broker.dequeue(member, &[Wanted { queue: default_queue(), n }]).await.unwrap()
}

async fn settle(broker: &dyn Broker, run: &Run) -> Settled {
    broker.settle(&[run.ends_with(done())]).await.remove(0).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_task_is_handed_out_twice() {
    let t = Fixture::start().await;
    seed(&t, 400).await;
    let mut workers = JoinSet::new();
    for (broker, member) in four(&t).await {
        for n in [1, 3, 7] {
            let (broker, member) = (broker.clone(), member.clone());
            workers.spawn(async move {
                let mut taken = Vec::new();
                loop {
                    let runs = dequeue(&*broker, &member, n).await;
                    if runs.is_empty() {
                        return taken;
                    }
                    taken.extend(runs);
                }
            });
        }
    }
    let taken: Vec<Run> = soon(workers.join_all()).await.into_iter().flatten().collect();
    assert_eq!(taken.len(), 400, "each is handed out");
    assert_eq!(taken.iter().map(|run| &run.key.id).collect::<HashSet<_>>().len(), 400, "and once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_unique_key_lets_exactly_one_in() {
    let t = Fixture::start().await;
    let mut producers = JoinSet::new();
    for (p, (broker, _)) in four(&t).await.into_iter().enumerate() {
        for i in 0..10 {
            let broker = broker.clone();
            let new = task(&format!("t{p}-{i}")).locked(&lock_key("k"), 600);
            producers.spawn(async move { broker.enqueue(vec![new]).await.remove(0) });
        }
    }
    let answers = soon(producers.join_all()).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    let winner = t.snapshot().await.pending[0].id.clone();
    for answer in answers.into_iter().filter_map(Result::err) {
        assert!(matches!(&answer, Refused::Duplicate { holder: Some(id) } if *id == *winner), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_id_lets_exactly_one_in() {
    let t = Fixture::start().await;
    let mut producers = JoinSet::new();
    for (p, (broker, _)) in four(&t).await.into_iter().enumerate() {
        for i in 0..10 {
            let broker = broker.clone();
            let new = task("same").with_payload(format!("{p}-{i}"));
            producers.spawn(async move { broker.enqueue(vec![new]).await.remove(0) });
        }
    }
    let answers = soon(producers.join_all()).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert_eq!(answers.iter().filter(|answer| matches!(answer, Err(Refused::IdConflict))).count(), 39);
    assert_eq!(t.drain().await, ["same"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_callers_of_one_broker_keep_their_own_order_and_answers() {
    let t = Fixture::start().await;
    let mut producers = JoinSet::new();
    for p in 0..8 {
        let broker = t.shared();
        producers.spawn(async move {
            for i in 0..25 {
                let answer = broker.enqueue(vec![task(&format!("p{p}-{i:02}"))]).await.remove(0).unwrap();
                assert_eq!(answer.state, TaskState::Pending);
            }
        });
    }
    soon(producers.join_all()).await;
    let mut lanes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for run in t.take_exactly(200).await {
        let id = run.key.id.to_string();
        lanes.entry(id[..2].to_owned()).or_default().push(id);
    }
    assert_eq!(lanes.values().map(Vec::len).collect::<Vec<_>>(), [25; 8]);
    assert!(lanes.values().all(|lane| lane.is_sorted()), "the sequential calls of one caller stay in order: {lanes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn producing_and_consuming_at_once_loses_nothing() {
    let t = Fixture::start().await;
    let brokers = four(&t).await;
    let mut producers = JoinSet::new();
    for (p, (broker, _)) in brokers.iter().enumerate() {
        let broker = broker.clone();
        producers.spawn(async move {
            for slice in 0..10 {
                let batch = (0..10).map(|i| task(&format!("t{p}-{slice}-{i}"))).collect();
                assert!(broker.enqueue(batch).await.iter().all(Result::is_ok));
            }
        });
    }
    let mut consumers = JoinSet::new();
    for (broker, member) in brokers {
        consumers.spawn(async move {
            let mut settled = 0;
            loop {
                let runs = dequeue(&*broker, &member, 16).await;
                if runs.is_empty() {
                    broker
                        .wait_for_work(&[default_queue()], Quarantined::All, Duration::from_millis(300))
                        .await
                        .unwrap();
                }
                for run in &runs {
                    assert_eq!(settle(&*broker, run).await, Settled::Ok);
                    settled += 1;
                }
                if runs.is_empty() && broker.queue_stats(&default_queue()).await.unwrap().processed == 400 {
                    return settled;
                }
            }
        });
    }
    soon(producers.join_all()).await;
    let settled = soon(consumers.join_all()).await;
    assert_eq!(settled.iter().sum::<i32>(), 400);
    assert!(t.snapshot().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_run_is_settled_once_however_many_try() {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").with_retention(60)).await;
    let mut attempts = JoinSet::new();
    for (broker, _) in four(&t).await {
        for action in [done(), retry(Duration::from_secs(60), "boom"), requeue()] {
            let (broker, settlement) = (broker.clone(), run.ends_with(action));
            attempts.spawn(async move { broker.settle(&[settlement]).await.remove(0).unwrap() });
        }
    }
    soon(attempts.join_all()).await;
    let seen = t.snapshot().await;
    assert_eq!(seen.stats.active, 0);
    assert!(seen.len() <= 1 && seen.stats.processed <= 1, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_recoverers_put_each_task_back_once() {
    let t = Fixture::start().await;
    seed(&t, 60).await;
    assert_eq!(t.take(100).await.len(), 60);
    let brokers = four(&t).await;
    t.let_leases_pass();
    let mut recoverers = JoinSet::new();
    for (broker, _) in brokers {
        recoverers.spawn(async move { broker.recover(&[default_queue()]).await.unwrap().tasks.len() });
    }
    assert_eq!(soon(recoverers.join_all()).await.iter().sum::<usize>(), 60);
    let seen = t.snapshot().await;
    assert_eq!(seen.pending.len(), 60);
    assert!(seen.pending.iter().all(|entry| entry.crashes == 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_forwarders_move_each_task_once() {
    let t = Fixture::start().await;
    let batch = (0..60).map(|i| task(&format!("t{i}")).after(Duration::from_secs(1))).collect();
    assert!(t.broker().enqueue(batch).await.iter().all(Result::is_ok));
    let brokers = four(&t).await;
    t.advance(Duration::from_secs(5));
    let mut forwarders = JoinSet::new();
    for (broker, _) in brokers {
        forwarders.spawn(async move { broker.forward(&[default_queue()], RetryOrder::Last).await.unwrap().moved });
    }
    assert_eq!(soon(forwarders.join_all()).await.iter().sum::<usize>(), 60);
    assert_eq!(t.snapshot().await.pending.len(), 60);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_outcome_and_a_recovery_do_not_both_win() {
    let t = Fixture::start().await;
    seed(&t, 40).await;
    let runs = t.take(100).await;
    let there = t.another_broker().await;
    t.let_leases_pass();
    let recovery = tokio::spawn(async move { there.recover(&[default_queue()]).await.unwrap().tasks.len() });
    let mut accepted = 0;
    for run in &runs {
        match settle(t.broker(), run).await {
            Settled::Ok => accepted += 1,
            Settled::Fenced => {}
            Settled::Gone => panic!("{run:?} is gone though no caller ended it"),
        }
    }
    let recovered = soon(recovery).await.unwrap();
    assert_eq!(accepted + recovered, 40);
    let seen = t.snapshot().await;
    assert_eq!((seen.pending.len(), seen.len(), seen.stats.processed), (recovered, recovered, accepted as u64));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn counters_are_exact_under_load() {
    let t = Fixture::start().await;
    seed(&t, 200).await;
    let mut workers = JoinSet::new();
    for (w, (broker, member)) in four(&t).await.into_iter().enumerate() {
        workers.spawn(async move {
            let mut failed = 0;
            loop {
                let runs = dequeue(&*broker, &member, 5).await;
                if runs.is_empty() {
                    return failed;
                }
                let outcome = |i: usize| if (i + w).is_multiple_of(3) { asynq_tests::archive("fatal") } else { done() };
                failed += (0..runs.len()).filter(|i| (i + w).is_multiple_of(3)).count() as u64;
                let batch: Vec<_> = runs.iter().enumerate().map(|(i, run)| run.ends_with(outcome(i))).collect();
                assert!(broker.settle(&batch).await.iter().all(|answer| matches!(answer, Ok(Settled::Ok))));
            }
        });
    }
    let failed: u64 = soon(workers.join_all()).await.iter().sum();
    let stats = t.snapshot().await.stats;
    assert_eq!((stats.pending, stats.active), (0, 0), "nothing is left: {stats:?}");
    assert_eq!((stats.processed, stats.failed, stats.archived), (200, failed, failed));
    assert_eq!((stats.processed_total, stats.failed_total, stats.size), (200, failed, failed));
}
