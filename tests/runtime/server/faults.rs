//! The broker fails, loses answers, or says that another run has a task.

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    thread,
    time::Duration,
};

use asynq_runtime::{
    Client, TaskState,
    broker::{Action, Broker, GroupRules, sqlite::SqliteBroker},
    clock::ManualClock,
    prelude::*,
    server::OnUnknown,
    task::GroupName,
};
use asynq_test_support::eventually;
use tokio::{runtime, sync::mpsc};

use super::{counts, flaky::Flaky, hangs_until_dropped, ids, logged, memory, queue, server, settled, soon, start};
use crate::sqlite::{patient, with_clock};

/// The process was stopped after it had asked for a task.
#[tokio::test]
async fn a_task_whose_lease_was_lost_before_its_start_does_not_run() {
    let clock = ManualClock::default();
    let inner = Arc::new(SqliteBroker::in_memory(with_clock(clock.clone())).await.unwrap());
    let flaky = Flaky::with_lease(inner, Duration::from_millis(600));
    let broker: Arc<dyn Broker> = flaky.clone();
    let (builder, mut log) = server::<(counts,)>(&broker);
    let running = start(builder).await;
    // The thread of the jobs waits for this one, which enqueues a task and advances the clock when the server has taken it.
    let enqueue_and_stand_still = |n: u32| {
        let late = async {
            let fetched = running.signals().fetched.count();
            counts::enqueue(&running.client(), n).await.unwrap();
            soon(running.signals().fetched.reached(fetched + 1)).await;
            clock.advance(flaky.lease());
        };
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        thread::scope(|threads| threads.spawn(move || runtime.block_on(late)).join().unwrap());
    };
    flaky.fenced.store(true, SeqCst);
    enqueue_and_stand_still(1);
    soon(running.signals().lost.reached(1)).await;
    flaky.fenced.store(false, SeqCst);
    enqueue_and_stand_still(2);
    assert_eq!(logged(&mut log).await, "2", "this one is ours yet, however late it starts");
    *flaky.hangs.lock().unwrap() = Some("extend");
    enqueue_and_stand_still(3);
    eventually("it is requeued, because its owner is unknown", async || {
        flaky.settled.lock().unwrap().iter().any(|(_, settlement)| settlement.action == Action::Requeue).then_some(())
    })
    .await;
    *flaky.hangs.lock().unwrap() = None;
    assert_eq!(logged(&mut log).await, "3");
    soon(running.signals().settled.reached(3)).await;
    soon(running.shutdown()).await.unwrap();
    assert!(log.try_recv().is_err());
}

#[tokio::test]
async fn outcomes_are_kept_until_the_broker_takes_them_and_nothing_runs_twice() {
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    let client = Client::new(broker.clone());
    client.enqueue_many((0..100).map(counts::job)).await.unwrap();
    flaky.refuse_settles.store(3, SeqCst);
    flaky.lose_answers.store(3, SeqCst);
    let (builder, mut log) = server::<(counts,)>(&broker);
    let running = start(builder).await;
    soon(running.signals().settled.reached(100)).await;
    soon(running.shutdown()).await.unwrap();
    let mut ran: Vec<u32> = Vec::new();
    while let Some(n) = log.recv().await {
        ran.push(n.parse().unwrap());
    }
    ran.sort_unstable();
    assert_eq!(ran, (0..100).collect::<Vec<_>>());
    let stats = broker.queue_stats(&queue("default")).await.unwrap();
    assert_eq!((stats.size, stats.processed_total, stats.failed_total), (0, 100, 0));
    // Outcomes without an answer were sent again, and marked as such.
    assert!(flaky.settled.lock().unwrap().iter().any(|(_, settlement)| settlement.resend));
}

#[tokio::test]
async fn a_fetch_that_fails_is_tried_again() {
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    flaky.refuse_dequeues.store(3, SeqCst);
    let (builder, mut log) = server::<(counts,)>(&broker);
    let running = start(builder).await;
    counts::enqueue(&running.client(), 7).await.unwrap();
    assert_eq!(logged(&mut log).await, "7");
    assert_eq!(flaky.refuse_dequeues.load(SeqCst), 0);
}

/// The broker of this server does not dequeue beside jobs.
#[tokio::test]
async fn the_tasks_of_a_lost_answer_go_back_before_their_leases_end() {
    let mut options = patient();
    options.lease = Duration::from_secs(3_600);
    let inner = Arc::new(SqliteBroker::in_memory(options).await.unwrap());
    let flaky = Flaky::with_lease(inner, Duration::from_millis(150));
    let broker: Arc<dyn Broker> = flaky.clone();
    flaky.lose_dequeues.store(1, SeqCst);
    let (builder, mut log) = server::<(counts,)>(&broker);
    let running = start(builder).await;
    counts::enqueue(&running.client(), 7).await.unwrap();
    assert_eq!(logged(&mut log).await, "7");
    assert_eq!(flaky.lose_dequeues.load(SeqCst), 0);
    soon(running.shutdown()).await.unwrap();
}

/// If a part of a cluster is away, a call for its tasks fails, and must not keep others from being extended.
#[tokio::test]
async fn one_call_extends_all_leases() {
    const TASKS: usize = 150;
    let flaky = Flaky::with_lease(memory().await, Duration::from_millis(600));
    let broker: Arc<dyn Broker> = flaky.clone();
    let (builder, mut log) = server::<(hangs_until_dropped,)>(&broker);
    let running = start(builder.concurrency(TASKS)).await;
    running.client().enqueue_many((0..TASKS).map(|_| hangs_until_dropped::job())).await.unwrap();
    for _ in 0..TASKS {
        assert_eq!(logged(&mut log).await, "started");
    }
    eventually("they are extended", async || (flaky.most_extended.load(SeqCst) == TASKS).then_some(())).await;
    drop(running);
}

/// A call to the broker may take more than a minute; a lease ends before.
#[tokio::test]
async fn leases_are_extended_although_another_call_of_the_same_turn_hangs() {
    for call in ["extend_locks", "release_unanswered"] {
        let flaky = Flaky::with_lease(memory().await, Duration::from_millis(150));
        let broker: Arc<dyn Broker> = flaky.clone();
        let (builder, mut log) = server::<(hangs_until_dropped,)>(&broker);
        let running = start(builder).await;
        let unique = hangs_until_dropped::job().unique(Duration::from_secs(60)).unique_extend();
        unique.enqueue(&running.client()).await.unwrap();
        assert_eq!(logged(&mut log).await, "started");
        *flaky.hangs.lock().unwrap() = Some(call);
        let wanted = flaky.extensions.load(SeqCst) + 10;
        eventually(call, async || (flaky.extensions.load(SeqCst) >= wanted).then_some(())).await;
        *flaky.hangs.lock().unwrap() = None;
        drop(running);
    }
}

#[tokio::test]
async fn a_run_that_has_lost_its_task_is_stopped_at_once_and_its_outcome_dropped() {
    let flaky = Flaky::with_lease(memory().await, Duration::from_millis(150));
    let broker: Arc<dyn Broker> = flaky.clone();
    let (builder, mut log) = server::<(hangs_until_dropped,)>(&broker);
    let running = start(builder).await;
    hangs_until_dropped::job().task_id("h").enqueue(&running.client()).await.unwrap();
    assert_eq!(logged(&mut log).await, "started");
    flaky.fenced.store(true, SeqCst);
    assert_eq!(logged(&mut log).await, "dropped");
    soon(running.signals().lost.reached(1)).await;
    soon(running.shutdown()).await.unwrap();
    assert!(flaky.settled.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_one_part_of_a_cluster_says_counts_while_another_is_away() {
    let flaky = Flaky::with_lease(memory().await, Duration::from_millis(150));
    let broker: Arc<dyn Broker> = flaky.clone();
    let (builder, mut log) = server::<(hangs_until_dropped,)>(&broker);
    let running = start(builder.queue("here", 1).queue("there", 1)).await;
    for queue in ["here", "there"] {
        let task =
            hangs_until_dropped::job().task_id(queue).queue(queue).unique(Duration::from_secs(60)).unique_extend();
        task.enqueue(&running.client()).await.unwrap();
        assert_eq!(logged(&mut log).await, "started");
    }
    flaky.away.lock().unwrap().push("there");
    // One more turn may be under way.
    let extensions = flaky.extensions.load(SeqCst);
    eventually("another turn", async || (flaky.extensions.load(SeqCst) > extensions + 1).then_some(())).await;
    flaky.extended.lock().unwrap().clear();
    eventually("locks are extended all the same", async || (flaky.extended.lock().unwrap().len() > 1).then_some(()))
        .await;
    let recoveries = flaky.recoveries.load(SeqCst);
    eventually("the tasks of dead workers return", async || {
        (flaky.recoveries.load(SeqCst) > recoveries + 1).then_some(())
    })
    .await;
    flaky.fenced.store(true, SeqCst);
    assert_eq!(logged(&mut log).await, "dropped", "the run whose task another server has");
    assert_eq!(running.running(), 1, "and no other");
    flaky.fenced.store(false, SeqCst);
    drop(running);
}

#[tokio::test]
async fn a_queue_that_is_away_keeps_no_other_from_housekeeping() {
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    flaky.away.lock().unwrap().push("away");
    let client = Client::new(broker.clone());
    for id in ["1", "2"] {
        counts::job(1).queue("here").task_id(id).enqueue(&client).await.unwrap();
        client.inspector().archive("here", id).await.unwrap();
        client.enqueue(RawTask::new("note", id).queue("here").group("notes")).await.unwrap();
    }
    let (builder, _log) = server::<(counts,)>(&broker);
    let (sender, mut sets) = mpsc::unbounded_channel();
    let builder = builder.aggregate("notes", move |_, tasks| {
        let _ = sender.send(tasks.len());
        Err::<RawTask, _>("enough is known")
    });
    let builder = builder.group_max_size(2).archive("here", 1, "1d");
    // Queues are looked at by name.
    let running = start(builder.queue("away", 1).queue("here", 1)).await;
    assert_eq!(soon(sets.recv()).await, Some(2));
    soon(running.signals().trimmed.reached(1)).await;
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_task_that_cannot_be_deleted_keeps_no_set_from_its_group() {
    let clock = ManualClock::default();
    let flaky = Flaky::new(Arc::new(SqliteBroker::in_memory(with_clock(clock.clone())).await.unwrap()));
    let broker: Arc<dyn Broker> = flaky.clone();
    flaky.spoils_deletes.store(true, SeqCst);
    let client = Client::new(broker.clone());
    client.enqueue(RawTask::new("note", "").group("notes")).await.unwrap();
    let (group, at_once) = (GroupName::from_wire("notes"), GroupRules { max_size: Some(1), ..GroupRules::default() });
    let claimed = async || broker.claim_set(&queue("default"), &group, &at_once).await.unwrap();
    assert!(claimed().await.is_some(), "its server dies now");
    assert!(claimed().await.is_none());
    clock.advance(Duration::from_secs(3_600));
    let (builder, _log) = server::<(counts,)>(&broker);
    let running = start(builder).await;
    eventually("the set is released", claimed).await;
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn an_old_task_that_cannot_be_deleted_keeps_no_archive_above_its_size() {
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    flaky.spoils_deletes.store(true, SeqCst);
    let client = Client::new(broker.clone());
    for id in ["1", "2"] {
        counts::job(1).task_id(id).enqueue(&client).await.unwrap();
        client.inspector().archive("default", id).await.unwrap();
    }
    let (builder, _log) = server::<(counts,)>(&broker);
    let running = start(builder.archive("default", 1, "1d")).await;
    soon(running.signals().trimmed.reached(1)).await;
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_queue_that_is_away_keeps_no_queue_of_lower_rank_from_its_turn() {
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    flaky.away.lock().unwrap().push("away");
    let client = Client::new(broker.clone());
    counts::job(1).queue("away").enqueue(&client).await.unwrap();
    counts::job(2).queue("here").enqueue(&client).await.unwrap();
    let (builder, _log) = server::<(counts,)>(&broker);
    let running = start(builder.queue("away", 9).queue("here", 1).strict_priority()).await;
    soon(running.signals().settled.reached(1)).await;
    soon(running.shutdown()).await.unwrap();
    let stats = broker.queue_stats(&asynq_runtime::task::QueueName::new("here").unwrap()).await.unwrap();
    assert_eq!((stats.pending, stats.processed_total), (0, 1));
}

/// A pass asks as many queues as there are free slots, and a pause of up to two seconds follows one without an answer.
#[tokio::test]
async fn queues_that_are_away_keep_no_other_from_its_turn_however_many_they_are() {
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    let client = Client::new(broker.clone());
    let away: Vec<&'static str> = (0..40).map(|n| &*format!("away{n}").leak()).collect();
    for &queue in &away {
        counts::job(1).queue(queue).enqueue(&client).await.unwrap();
    }
    for _ in 0..5 {
        counts::job(2).queue("here").enqueue(&client).await.unwrap();
    }
    flaky.away.lock().unwrap().extend(&away);
    let (builder, _log) = server::<(counts,)>(&broker);
    let queues = away.into_iter().chain(["here"]).map(|queue| (queue, 1));
    let running = start(builder.queues(queues).concurrency(1)).await;
    soon(running.signals().settled.reached(5)).await;
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_broker_that_was_away_for_a_moment_puts_no_queue_of_lower_rank_first() {
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    let client = Client::new(broker.clone());
    for (id, queue) in [("first", "high"), ("second", "low")] {
        counts::job(1).queue(queue).task_id(id).enqueue(&client).await.unwrap();
    }
    flaky.refuse_dequeues.store(1, SeqCst);
    let (builder, _log) = server::<(counts,)>(&broker);
    let running = start(builder.queue("high", 9).queue("low", 1).strict_priority().concurrency(1)).await;
    soon(running.signals().settled.reached(2)).await;
    soon(running.shutdown()).await.unwrap();
    let settled = flaky.settled.lock().unwrap();
    let ids: Vec<&str> = settled.iter().map(|(_, settlement)| settlement.run.id.as_str()).collect();
    assert_eq!(ids, ["first", "second"]);
}

#[tokio::test]
async fn a_task_whose_shape_cannot_be_asked_for_is_deferred_whatever_becomes_of_unknown_ones() {
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    flaky.refuse_shapes.store(1, SeqCst);
    let (builder, _log) = server::<(counts,)>(&broker);
    let other = RawTask::new("counts", &b"\x01\0\0\0\0\x05"[..]).task_id("other");
    Client::new(broker.clone()).enqueue(other).await.unwrap();
    let running = start(builder.on_unknown(OnUnknown::Archive)).await;
    soon(running.signals().settled.reached(1)).await;
    let first = flaky.settled.lock().unwrap()[0].1.action.clone();
    let Action::Defer { error: Some(error), .. } = first else { panic!("{first:?}") };
    assert!(error.starts_with("the broker cannot be asked for the shape of the arguments: "), "{error}");
    // The task comes again by itself, if it is not run before.
    let _ = running.client().inspector().run("default", "other").await;
    soon(running.signals().settled.reached(2)).await;
    let second = flaky.settled.lock().unwrap()[1].1.action.clone();
    let Action::Archive { error, .. } = second else { panic!("{second:?}") };
    assert!(!error.contains("cannot be asked"), "the broker has said that it keeps no such shape: {error}");
}

/// Any of the bytes of such a payload may be secret.
#[tokio::test]
async fn a_payload_whose_shape_was_not_looked_up_is_told_from_one_without_a_shape() {
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    let inspector = Client::new(broker).inspector();
    let of = |n: u8| [1, n, 0, 0, 0, 5];
    let payloads: Vec<[u8; 6]> = (0..65).map(of).collect();
    let read = async |payloads: &[[u8; 6]], n: u8| {
        let reader = inspector.argument_reader(payloads.iter().map(|payload| ("counts", &payload[..]))).await;
        reader.read("counts", None, &of(n))
    };
    let not_looked_up = Some(Err("its shape was not looked up".to_owned()));
    assert_eq!(read(&payloads, 63).await, None, "the broker keeps no shape of it");
    assert_eq!(read(&payloads, 64).await, not_looked_up);
    for n in [65, 66] {
        flaky.refuse_shapes.store(1, SeqCst);
        assert_eq!(read(&[of(65), of(66)], n).await, not_looked_up, "{n}");
    }
    assert_eq!(read(&[of(65), of(66)], 66).await, None);
}

#[tokio::test]
async fn a_message_that_cannot_be_read_is_archived_with_its_bytes() {
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    flaky.garbled.store(true, SeqCst);
    let (builder, mut log) = server::<(counts,)>(&broker);
    counts::job(1).task_id("g").enqueue(&Client::new(broker.clone())).await.unwrap();
    let running = start(builder).await;
    let task = settled(&broker, &running, "g", TaskState::Archived).await;
    assert_eq!((task.r#type.as_str(), &task.payload[..]), ("undecodable", &b"\xff\xfe"[..]));
    assert_eq!(task.last_error.as_deref(), Some("undecodable task message (2 bytes): garbled"));
    assert!(log.try_recv().is_err());
}

#[tokio::test]
async fn fetching_stops_while_too_many_outcomes_wait() {
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    let client = Client::new(broker.clone());
    client.enqueue_many((0..600).map(counts::job)).await.unwrap();
    flaky.refuse_settles.store(1_000_000, SeqCst);
    let (builder, mut log) = server::<(counts,)>(&broker);
    let running = start(builder).await;
    // As many outcomes as may wait come, and those of the four slots: then no more, whatever time passes.
    for _ in 0..512 {
        logged(&mut log).await;
    }
    let before = flaky.refuse_settles.load(SeqCst);
    let is_refused_twice = async || (flaky.refuse_settles.load(SeqCst) + 2 <= before).then_some(());
    eventually("outcomes are refused twice more", is_refused_twice).await;
    let mut started = 512;
    eventually("all fetched tasks have started", async || {
        while log.try_recv().is_ok() {
            started += 1;
        }
        (ids(&broker, TaskState::Pending).await.len() == 600 - started).then_some(())
    })
    .await;
    assert!(started <= 516, "{started}");
    flaky.refuse_settles.store(0, SeqCst);
    soon(running.signals().settled.reached(600)).await;
}

#[tokio::test]
async fn an_outcome_that_the_broker_refuses_does_not_hold_up_the_others() {
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    let client = Client::new(broker.clone());
    counts::job(0).task_id("stubborn").enqueue(&client).await.unwrap();
    client.enqueue_many((1..300).map(counts::job)).await.unwrap();
    // The task is refused for as long as the others take.
    flaky.refuse_stubborn.store(u32::MAX, SeqCst);
    let (builder, _log) = server::<(counts,)>(&broker);
    let running = start(builder).await;
    soon(running.signals().settled.reached(299)).await;
    assert!(flaky.refuse_stubborn.swap(0, SeqCst) < u32::MAX, "it was refused");
    soon(running.signals().settled.reached(300)).await;
    let settled = flaky.settled.lock().unwrap();
    let (last, settlement) = settled.last().unwrap();
    assert_eq!((last.as_str(), settlement.resend), ("stubborn", true));
}

#[tokio::test]
async fn an_outcome_that_spoils_the_whole_call_does_not_hold_up_the_others() {
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    let client = Client::new(broker.clone());
    counts::job(0).task_id("stubborn").enqueue(&client).await.unwrap();
    client.enqueue_many((1..300).map(counts::job)).await.unwrap();
    flaky.stubborn_spoils_calls.store(true, SeqCst);
    let (builder, _log) = server::<(counts,)>(&broker);
    let running = start(builder).await;
    soon(running.signals().settled.reached(299)).await;
    flaky.stubborn_spoils_calls.store(false, SeqCst);
    soon(running.signals().settled.reached(300)).await;
    let settled = flaky.settled.lock().unwrap();
    let (last, settlement) = settled.last().unwrap();
    assert_eq!((last.as_str(), settlement.resend), ("stubborn", true));
}

#[tokio::test]
async fn a_component_that_panics_is_started_again() {
    for component in ["forward", "dequeue_sparing"] {
        let flaky = Flaky::new(memory().await);
        let broker: Arc<dyn Broker> = flaky.clone();
        *flaky.panics.lock().unwrap() = Some(component);
        let (builder, mut log) = server::<(counts,)>(&broker);
        let running = start(builder).await;
        counts::job(5).process_in(Duration::from_millis(5)).enqueue(&running.client()).await.unwrap();
        assert_eq!(logged(&mut log).await, "5");
        assert_eq!(*flaky.panics.lock().unwrap(), None, "{component} has panicked");
    }
}
