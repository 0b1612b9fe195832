//! Waiting and taking in one call, and waiting and forwarding: no task is missed, taken twice or kept by a call that ended.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use asynq_runtime::broker::{Broker, Member, Quarantined, RetryOrder, Run, Settled, Wanted};
use asynq_tests::{Build as _, Seeded as _, default_queue, done, eventually, polled, queue, requeue, soon, task};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Fixture;

/// The safety net: far beyond the patience of `soon`, so that a call that ends by the net alone fails.
const LONG: Duration = Duration::from_secs(3600);
/// Long enough for a call to be waiting; a case passes in both events.
const A_MOMENT: Duration = Duration::from_millis(50);

/// Starts a call for `n` tasks that `stop` ends.
fn wait(broker: Arc<dyn Broker>, member: &Member, n: usize, stop: &CancellationToken) -> JoinHandle<Vec<Run>> {
    let (member, stop) = (member.clone(), stop.clone());
    tokio::spawn(async move {
        let wanted = [Wanted { queue: default_queue(), n }];
        // The call may return without tasks.
        loop {
            let runs = broker.wait_and_dequeue(&member, &wanted, Quarantined::All, LONG, &stop).await.unwrap();
            if !runs.is_empty() || stop.is_cancelled() {
                return runs;
            }
        }
    })
}

async fn taken(waiter: JoinHandle<Vec<Run>>) -> Vec<Run> {
    soon(waiter).await.unwrap()
}

fn ids(runs: &[Run]) -> Vec<&str> {
    runs.iter().map(|run| run.key.id.as_str()).collect()
}

#[tokio::test]
async fn pending_tasks_are_taken_at_once_up_to_the_number_wanted() {
    let t = Fixture::real_time().await;
    t.seed_pending(&["t1", "t2", "t3", "t4"]).await;
    let runs = taken(wait(t.shared(), t.member(), 3, &CancellationToken::new())).await;
    assert_eq!(ids(&runs), ["t1", "t2", "t3"]);
    for run in &runs {
        t.settle(run, done()).await;
    }
    assert_eq!(t.drain().await, ["t4"]);
}

#[tokio::test]
async fn a_task_that_comes_later_is_taken_from_any_producer() {
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    for (round, from) in [t.shared(), there].into_iter().cycle().take(10).enumerate() {
        let waiter = wait(t.shared(), t.member(), 5, &CancellationToken::new());
        tokio::time::sleep(A_MOMENT).await;
        from.enqueue(vec![task("t")]).await.remove(0).unwrap();
        let runs = taken(waiter).await;
        assert_eq!(ids(&runs), ["t"], "round {round}");
        t.settle(&runs[0], done()).await;
    }
}

#[tokio::test]
async fn a_forwarded_and_a_resumed_task_are_taken() {
    let t = Fixture::real_time().await;
    t.seed_pending(&["paused"]).await;
    t.broker().pause(&default_queue()).await.unwrap();
    let waiter = wait(t.shared(), t.member(), 1, &CancellationToken::new());
    tokio::time::sleep(A_MOMENT).await;
    assert!(!waiter.is_finished(), "a paused queue gives nothing");
    t.broker().resume(&default_queue()).await.unwrap();
    assert_eq!(ids(&taken(waiter).await), ["paused"]);

    let waiter = wait(t.shared(), t.member(), 1, &CancellationToken::new());
    t.seed_scheduled("later", Duration::from_millis(200)).await;
    soon(async {
        while t.forward().await == 0 {
            t.broker().wait_for_due(&[default_queue()], LONG).await.unwrap();
        }
    })
    .await;
    assert_eq!(ids(&taken(waiter).await), ["later"]);
}

#[tokio::test]
async fn a_call_that_is_stopped_or_at_its_limit_takes_nothing_any_more() {
    let t = Fixture::real_time().await;
    let stop = CancellationToken::new();
    let waiter = wait(t.shared(), t.member(), 1, &stop);
    tokio::time::sleep(A_MOMENT).await;
    stop.cancel();
    assert!(taken(waiter).await.is_empty());
    let (wanted, never) = ([Wanted { queue: default_queue(), n: 1 }], CancellationToken::new());
    let limited = t.broker().wait_and_dequeue(t.member(), &wanted, Quarantined::All, A_MOMENT, &never);
    assert!(soon(limited).await.unwrap().is_empty());
    t.seed_pending(&["t1"]).await;
    let there = t.another_broker().await;
    let other = t.member_of(&*there, 2).await;
    assert_eq!(ids(&there.dequeue(&other, &wanted).await.unwrap()), ["t1"]);
}

#[tokio::test]
async fn a_call_that_is_stopped_while_tasks_come_returns_those_that_it_took() {
    let t = Fixture::real_time().await;
    for round in 0..50 {
        let stop = CancellationToken::new();
        let waiter = wait(t.shared(), t.member(), 1, &stop);
        let broker = t.shared();
        let enqueued = tokio::spawn(async move { broker.enqueue(vec![task("t")]).await.remove(0).unwrap() });
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        stop.cancel();
        let mut runs = taken(waiter).await;
        enqueued.await.unwrap();
        if runs.is_empty() {
            runs = t.take(1).await;
        }
        assert_eq!(ids(&runs), ["t"], "round {round}");
        t.settle(&runs[0], done()).await;
    }
}

#[tokio::test]
async fn tasks_that_a_dropped_call_took_come_with_the_next() {
    let t = Fixture::real_time().await;
    for round in 0..50 {
        let waiter = wait(t.shared(), t.member(), 1, &CancellationToken::new());
        let broker = t.shared();
        let enqueued = tokio::spawn(async move { broker.enqueue(vec![task("t")]).await.remove(0).unwrap() });
        // At each moment from before the enqueue is sent to after its task is taken.
        for _ in 0..round * round {
            tokio::task::yield_now().await;
        }
        waiter.abort();
        enqueued.await.unwrap();
        let runs = match waiter.await {
            Ok(runs) => runs,
            Err(_) => taken(wait(t.shared(), t.member(), 1, &CancellationToken::new())).await,
        };
        assert_eq!(ids(&runs), ["t"], "round {round}");
        t.settle(&runs[0], done()).await;
    }
}

/// The caller has room for `n` tasks and no more.
#[tokio::test]
async fn tasks_that_a_dropped_call_took_count_towards_the_limit_of_the_next() {
    let t = Fixture::real_time().await;
    let broker = t.shared();
    let wanted = [Wanted { queue: default_queue(), n: 1 }];
    for round in 0..50 {
        t.seed_pending(&["a", "b"]).await;
        let mut runs = Vec::new();
        // At each moment from before the call is sent to after its answer.
        match polled(broker.dequeue(t.member(), &wanted), round + 1).await {
            Some(answer) => runs.extend(answer.unwrap()),
            None => {
                // The answer to this enqueue shows that the broker has completed the dropped call.
                broker.enqueue(vec![task("c")]).await.remove(0).unwrap();
                runs.extend(broker.dequeue(t.member(), &wanted).await.unwrap());
            }
        }
        assert_eq!(ids(&runs), ["a"], "round {round}");
        runs.extend(t.take(3).await);
        for run in &runs {
            assert_eq!(t.settle(run, done()).await, Settled::Ok);
        }
    }
}

/// No task has begun, so none is counted as a crash; the next dequeue gets them.
#[tokio::test]
async fn tasks_that_a_dropped_call_took_are_released_without_a_crash() {
    let t = Fixture::start().await;
    let broker = t.shared();
    let nothing = broker.release_unanswered(t.member(), Duration::ZERO).await.unwrap();
    assert!(nothing.is_empty(), "{nothing:?}");
    for n in 0..20 {
        let (id, behind) = (format!("t{n}"), format!("behind{n}"));
        t.seed_pending(&[&id, &behind]).await;
        let wanted = [Wanted { queue: default_queue(), n: 1 }];
        // At the pace of the call itself: before, during and after its send.
        for polls in 0..n {
            if let Some(runs) = polled(broker.dequeue(t.member(), &wanted), polls + 1).await {
                let runs = runs.unwrap();
                assert_eq!(ids(&runs), [id.as_str()]);
                t.settle(&runs[0], requeue()).await;
            }
        }
        let released = broker.release_unanswered(t.member(), LONG).await.unwrap();
        // A call that was dropped while it queued may have taken the second task.
        for (queue, released) in &released {
            assert!(*queue == default_queue() && [&id, &behind].contains(&&released.to_string()), "{released}");
        }
        let runs = t.take(2).await;
        assert_eq!(ids(&runs), [id.as_str(), behind.as_str()], "at the head");
        assert_eq!(runs[0].crashes, 0);
        for run in &runs {
            assert_eq!(t.settle(run, done()).await, Settled::Ok);
        }
    }
}

#[tokio::test]
async fn several_that_wait_take_each_task_once() {
    let t = Fixture::real_time().await;
    let stop = CancellationToken::new();
    let mut waiters = Vec::new();
    for number in 2..=5 {
        let broker = t.another_broker().await;
        let (member, stop) = (t.member_of(&*broker, number).await, stop.clone());
        waiters.push(tokio::spawn(async move {
            let mut taken = Vec::new();
            while !stop.is_cancelled() {
                for run in wait(Arc::clone(&broker), &member, 3, &stop).await.unwrap() {
                    broker.settle(&[run.ends_with(done())]).await.remove(0).unwrap();
                    taken.push(run.key.id.as_str().to_owned());
                }
            }
            taken
        }));
    }
    let tasks: BTreeSet<String> = (0..200).map(|n| format!("t{n}")).collect();
    for id in &tasks {
        t.broker().enqueue(vec![task(id)]).await.remove(0).unwrap();
    }
    eventually("all are taken and settled", async || {
        let left = t.broker().ready(&[default_queue()], Quarantined::All).await.unwrap();
        (left.is_empty() && t.snapshot().await.active.is_empty()).then_some(())
    })
    .await;
    stop.cancel();
    let mut taken = Vec::new();
    for waiter in waiters {
        taken.extend(soon(waiter).await.unwrap());
    }
    assert_eq!(taken.len(), tasks.len(), "none twice");
    assert_eq!(taken.into_iter().collect::<BTreeSet<_>>(), tasks);
}

/// A store that refuses an older number takes that of the later run, whose call may have begun first.
#[tokio::test]
async fn a_later_run_is_taken_later_although_its_call_began_first() {
    let t = Fixture::real_time().await;
    let (there, stop) = (t.another_broker().await, CancellationToken::new());
    let member = t.member_of(&*there, 2).await;
    let mut early = wait(t.shared(), t.member(), 1, &stop);
    tokio::time::sleep(A_MOMENT).await;
    let mut late = wait(Arc::clone(&there), &member, 1, &stop);
    tokio::time::sleep(A_MOMENT).await;
    there.enqueue(vec![task("t")]).await.remove(0).unwrap();
    let either = async {
        tokio::select! {
            runs = &mut early => (runs.unwrap().remove(0), t.shared(), late),
            runs = &mut late => (runs.unwrap().remove(0), there, early),
        }
    };
    let (first, broker, other) = soon(either).await;
    broker.settle(&[first.ends_with(requeue())]).await.remove(0).unwrap();
    let second = taken(other).await.remove(0);
    assert!(second.taken_at >= first.taken_at, "{:?} after {:?}", second.taken_at, first.taken_at);
}

#[tokio::test]
async fn a_due_task_is_forwarded_in_time_and_taken_by_a_waiting_call() {
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    t.seed_scheduled("far", Duration::from_secs(3600)).await;
    let broker = t.shared();
    let forwarder = tokio::spawn(async move {
        let queues = [default_queue(), queue("elsewhere")];
        while broker.wait_and_forward(&queues, RetryOrder::Last, LONG).await.unwrap().moved == 0 {}
    });
    let waiter = wait(t.shared(), t.member(), 1, &CancellationToken::new());
    tokio::time::sleep(A_MOMENT).await;
    // Due earlier than the next scheduled task, and from another broker.
    let near = there.enqueue(vec![task("near").after(Duration::from_millis(200))]).await.remove(0).unwrap();
    let runs = taken(waiter).await;
    assert!(t.now() >= near.process_at, "not before its time");
    assert_eq!(ids(&runs), ["near"]);
    soon(forwarder).await.unwrap();
}

#[tokio::test]
async fn waiting_to_forward_ends_at_its_limit() {
    let t = Fixture::real_time().await;
    let queues = [default_queue()];
    assert_eq!(soon(t.broker().wait_and_forward(&queues, RetryOrder::Last, A_MOMENT)).await.unwrap().moved, 0);
}

#[tokio::test]
async fn calls_that_were_dropped_while_they_waited_leave_room_for_others() {
    let t = Fixture::real_time().await;
    let broker = t.shared();
    let queues = [default_queue()];
    // More calls than a broker lets wait at a time.
    for _ in 0..1_200 {
        let forward = broker.wait_and_forward(&queues, RetryOrder::Last, LONG);
        assert!(tokio::time::timeout(Duration::from_micros(100), forward).await.is_err());
    }
    soon(broker.enqueue(vec![task("t1")])).await.remove(0).unwrap();
}
