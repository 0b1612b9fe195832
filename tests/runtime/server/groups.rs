//! How a server walks over groups, and takes sets of them.

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use asynq_runtime::{
    broker::{Broker, TaskSet, sqlite::SqliteBroker},
    clock::ManualClock,
    prelude::*,
    task::GroupName,
};
use asynq_test_support::eventually;
use tokio::sync::mpsc;

use super::{flaky::Flaky, queue, server, soon, start};
use crate::sqlite::with_clock;

#[job]
async fn digest() {}

#[tokio::test]
async fn a_group_of_large_messages_is_taken_whole_in_one_pass() {
    let clock = ManualClock::default();
    let flaky = Flaky::new(Arc::new(SqliteBroker::in_memory(with_clock(clock.clone())).await.unwrap()));
    let broker: Arc<dyn Broker> = flaky.clone();
    let client = Client::new(broker.clone());
    for _ in 0..12 {
        client.enqueue(RawTask::new("note", vec![b'x'; 1_000_000]).group("notes")).await.unwrap();
    }
    clock.advance(Duration::from_secs(61));
    let (builder, _log) = server::<(digest,)>(&broker);
    let (sender, mut sets) = mpsc::unbounded_channel();
    let builder = builder.aggregate("notes", move |_, tasks| {
        let _ = sender.send(tasks.len());
        Ok::<_, BoxError>(RawTask::new("digest", ""))
    });
    let running = start(builder).await;
    let mut taken = 0;
    while taken < 12 {
        taken += soon(sets.recv()).await.unwrap();
    }
    assert_eq!(*flaky.claims.lock().unwrap(), [1, 1, 1], "the walk over the groups in which each set was taken");
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn as_many_sets_are_claimed_at_a_time_as_can_be_made_whether_of_one_group_or_of_several() {
    // With one group, the set of the walk may still be under way, which leaves three.
    for (groups, at_least) in [(1, 3), (4, 4)] {
        let flaky = Flaky::new(Arc::new(SqliteBroker::in_memory(with_clock(ManualClock::default())).await.unwrap()));
        let broker: Arc<dyn Broker> = flaky.clone();
        let client = Client::new(broker.clone());
        for n in 0..40 {
            client.enqueue(RawTask::new("note", "").group(format!("notes:{}", n % groups))).await.unwrap();
        }
        let (builder, _log) = server::<(digest,)>(&broker);
        let builder = builder.aggregate("notes:", |_, _| Ok::<_, BoxError>(RawTask::new("digest", "")));
        let running = start(builder.group_max_size(2)).await;
        soon(running.signals().settled.reached(20)).await;
        let most = flaky.most_claiming.load(SeqCst);
        assert!((at_least..=4).contains(&most), "{most} claims at a time of {groups} groups");
        soon(running.shutdown()).await.unwrap();
    }
}

#[tokio::test]
async fn a_queue_whose_sets_cannot_be_claimed_is_left_at_once_and_keeps_no_other_from_its_turn() {
    let flaky = Flaky::new(Arc::new(SqliteBroker::in_memory(with_clock(ManualClock::default())).await.unwrap()));
    let broker: Arc<dyn Broker> = flaky.clone();
    let client = Client::new(broker.clone());
    *flaky.refuse_claims.lock().unwrap() = Some("away");
    for n in 0..40 {
        client.enqueue(RawTask::new("note", "").queue("away").group(format!("notes:{n}"))).await.unwrap();
    }
    client.enqueue(RawTask::new("note", "").queue("here").group("notes:0")).await.unwrap();
    let (builder, _log) = server::<(digest,)>(&broker);
    let builder = builder.aggregate("notes:", |_, _| Ok::<_, BoxError>(RawTask::new("digest", "")));
    // The server walks the queues by name, so `away` comes first.
    let running = start(builder.queue("away", 1).queue("here", 1).group_max_size(1)).await;
    soon(running.signals().settled.reached(1)).await;
    let (refused, walks) = (flaky.refused_claims.load(SeqCst), flaky.walks.load(SeqCst));
    assert!(refused > 0 && refused <= 4 * walks, "{refused} refused claims in {walks} walks");
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn the_end_of_a_set_is_waited_for_as_long_as_the_brokers_calls_may_take() {
    let flaky = Flaky::new(Arc::new(SqliteBroker::in_memory(with_clock(ManualClock::default())).await.unwrap()));
    let broker: Arc<dyn Broker> = flaky.clone();
    Client::new(broker.clone()).enqueue(RawTask::new("note", "").group("notes")).await.unwrap();
    flaky.slow_calls.store(true, SeqCst);
    let (builder, _log) = server::<(digest,)>(&broker);
    let builder = builder.aggregate("notes", |_, _| Ok::<_, BoxError>(RawTask::new("digest", "")));
    let running = start(builder.group_max_size(1)).await;
    soon(running.signals().settled.reached(1)).await;
    assert_eq!(flaky.ends.load(SeqCst), 1, "a large set is sent once");
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_set_that_cannot_be_ended_is_released_before_its_deadline() {
    let clock = ManualClock::default();
    let flaky = Flaky::new(Arc::new(SqliteBroker::in_memory(with_clock(clock.clone())).await.unwrap()));
    let broker: Arc<dyn Broker> = flaky.clone();
    Client::new(broker.clone()).enqueue(RawTask::new("note", "").group("notes")).await.unwrap();
    flaky.refuse_ends.store(true, SeqCst);
    let (builder, _log) = server::<(digest,)>(&broker);
    let builder = builder.aggregate("notes", |_, _| Ok::<_, BoxError>(RawTask::new("digest", "")));
    let running = start(builder.group_max_size(1)).await;
    eventually("the server tries to end the set", async || (flaky.ends.load(SeqCst) > 0).then_some(())).await;
    // No janitor takes the set back before its deadline.
    clock.advance(TaskSet::DEADLINE - Duration::from_secs(4));
    let (queue, group) = (queue("default"), GroupName::from_wire("notes"));
    eventually("the set is released", async || broker.group(&queue, &group).await.unwrap()).await;
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn the_walks_over_other_queues_are_as_rare_while_one_queue_fails() {
    let flaky = Flaky::new(Arc::new(SqliteBroker::in_memory(with_clock(ManualClock::default())).await.unwrap()));
    let broker: Arc<dyn Broker> = flaky.clone();
    let client = Client::new(broker.clone());
    for queue in ["away", "here"] {
        client.enqueue(RawTask::new("note", "").queue(queue).group("notes")).await.unwrap();
    }
    flaky.away.lock().unwrap().push("away");
    flaky.slow_walks.store(true, SeqCst);
    let (builder, _log) = server::<(digest,)>(&broker);
    let builder = builder.aggregate("notes", |_, _| Ok::<_, BoxError>(RawTask::new("digest", "")));
    let running = start(builder.queue("away", 1).queue("here", 1)).await;
    let walked = || flaky.walked.lock().unwrap().clone();
    let walked = eventually("the server walks", async || Some(walked()).filter(|walked| walked.len() > 2)).await;
    // The first pauses after errors are shorter than 0.2 s. Nine times the 0.1 s of a walk, less up to a half, is more.
    let pauses: Vec<_> = walked.windows(2).map(|two| two[1].duration_since(two[0])).collect();
    assert!(pauses.iter().all(|pause| *pause > Duration::from_millis(450)), "{pauses:?}");
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_shutdown_ends_a_walk_over_groups_none_of_which_is_ripe() {
    let flaky = Flaky::new(Arc::new(SqliteBroker::in_memory(with_clock(ManualClock::default())).await.unwrap()));
    let broker: Arc<dyn Broker> = flaky.clone();
    Client::new(broker.clone()).enqueue(RawTask::new("note", "").group("notes")).await.unwrap();
    flaky.endless_walks.store(true, SeqCst);
    let (builder, _log) = server::<(digest,)>(&broker);
    let builder = builder.aggregate("notes", |_, _| Ok::<_, BoxError>(RawTask::new("digest", "")));
    let running = start(builder.shutdown_timeout("1h")).await;
    eventually("the walk begins", async || (flaky.walks.load(SeqCst) > 1).then_some(())).await;
    soon(running.shutdown()).await.unwrap();
}
