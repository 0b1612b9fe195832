//! Moves between queues that break off anywhere, and what people do to the tasks that they hold.

use std::time::Duration;

use asynq_runtime::broker::{
    Action, BrokerErrorKind, BulkAction, BulkSlice, Changed, Chosen, Diagnose, Inspect, Maintain, OddityKind,
    PayloadEdit, Refused, Repair, RetryOrder, When, redis::RedisBroker,
};
use asynq_runtime::task::{GroupName, QueueName, TaskId, TaskMessage, TaskState};
use asynq_test_support::eventually;
use chrono::DateTime;
use redis::{AsyncCommands, aio::MultiplexedConnection};

use super::{
    repair::{low, places, set},
    server::{Proxy, Server, patient},
    tasks::*,
};

/// Returns in how many places the task would be run one day.
async fn would_run(broker: &RedisBroker, id: &TaskId) -> usize {
    let end = DateTime::parse_from_rfc3339("9999-12-30T23:59:59Z").unwrap();
    let mut runs = 0;
    for queue in [queue(), low()] {
        let task = broker.task(&queue, id).await.unwrap();
        runs += usize::from(task.is_some_and(|task| task.next_process_at.is_none_or(|at| at != end)));
    }
    runs
}

#[tokio::test]
async fn a_move_that_breaks_off_at_any_step_goes_on_when_it_is_requested_again() {
    let server = Server::start(&[]);
    let proxy = Proxy::before(&server);
    let direct = server.broker().await;
    let mut redis = server.foreign().await;
    let broker = RedisBroker::connect(&proxy.url(), patient()).await.unwrap();
    let (mut broken, mut number) = (0, 0);
    for state in [TaskState::Pending, TaskState::Scheduled, TaskState::Aggregating] {
        for (begun, lost) in [false, true].into_iter().flat_map(|begun| (1..=9).map(move |lost| (begun, lost))) {
            number += 1;
            let id = id(&format!("t{number}"));
            let mut new = task(id.as_str());
            match state {
                TaskState::Scheduled => new.when = When::In(Duration::from_secs(600)),
                TaskState::Aggregating => {
                    new.group = Some(GroupName::new("g").unwrap());
                    new.message.group_key = "g".into();
                }
                _ => {}
            }
            for answer in asynq_runtime::broker::Produce::enqueue(&direct, vec![new]).await {
                answer.unwrap();
            }
            if begun {
                hold_at_both_ends(&direct, &mut redis, &id).await;
            }
            proxy.lose_every(lost);
            for _ in 0..20 {
                let moved = broker.move_task(&queue(), &id, &low()).await;
                // A task that is on its way survives the strictest housekeeping.
                for queue in [queue(), low()] {
                    direct.trim_archive(&queue, Duration::ZERO, 0, 100).await.unwrap();
                    direct.delete_expired(&queue, 100).await.unwrap();
                }
                let found = places(&direct, &id).await;
                let runnable = would_run(&direct, &id).await;
                assert!(!found.is_empty(), "lost at {lost}");
                assert!(runnable <= 1, "two copies would run: {found:?}");
                assert!(
                    begun || (found.len(), runnable) == (1, 1),
                    "other programs see a move in one Redis: {found:?}"
                );
                proxy.lose_every(0);
                match moved {
                    Ok(_) => break,
                    Err(_) => broken += 1,
                }
            }
            assert_eq!(places(&direct, &id).await, [(low(), state)], "{state} lost at {lost}, begun: {begun}");
            let moved = direct.task(&low(), &id).await.unwrap().unwrap();
            assert_eq!((moved.last_error, moved.group.is_some()), (None, state == TaskState::Aggregating));
        }
    }
    assert!(broken >= 20, "only {broken} moves broke off");
}

#[tokio::test]
async fn a_move_that_cannot_arrive_is_given_up_or_goes_on() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    put(&broker, &["t1"]).await;
    // The other queue has a key of a foreign type: the move breaks off with the task held.
    set(&mut redis, &["SET", "asynq:{low}:scheduled", "foreign"]).await;
    assert!(broker.move_task(&queue(), &id("t1"), &low()).await.is_err());
    let info = broker.task(&queue(), &id("t1")).await.unwrap().unwrap();
    assert_eq!(info.state, TaskState::Scheduled);
    assert!(info.last_error.unwrap().contains(r#"to "low""#), "people can see why");
    let elsewhere = broker.move_task(&queue(), &id("t1"), &QueueName::new("high").unwrap()).await.unwrap();
    assert_eq!(elsewhere, Changed::Unfit(TaskState::Scheduled), "it is on its way to another queue");
    assert_eq!(broker.trim_archive(&queue(), Duration::ZERO, 0, 100).await.unwrap(), 0, "no housekeeping deletes it");
    assert_eq!(broker.forward(&[queue()], RetryOrder::Last).await.unwrap().moved, 0, "nothing runs it");
    let held = async || broker.examine(&queue(), 100).await.unwrap().count(OddityKind::TaskBeingMoved);
    assert_eq!(held().await, 1, "doctor finds it");
    assert_eq!(broker.move_task(&queue(), &id("t1"), &queue()).await.unwrap(), Changed::Done, "it is given up");
    assert_eq!(held().await, 0);
    set(&mut redis, &["DEL", "asynq:{low}:scheduled"]).await;
    assert_eq!(broker.move_task(&queue(), &id("t1"), &low()).await.unwrap(), Changed::Done);
    assert_eq!(places(&broker, &id("t1")).await, [(low(), TaskState::Pending)]);
}

#[tokio::test]
async fn a_task_that_go_took_from_its_move_and_lost_is_found() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    put(&broker, &["run", "archived"]).await;
    // The other queue has a key of a foreign type: the moves break off with the tasks held.
    set(&mut redis, &["SET", "asynq:{low}:scheduled", "foreign"]).await;
    for (name, state) in [("run", "pending"), ("archived", "archived")] {
        assert!(broker.move_task(&queue(), &id(name), &low()).await.is_err());
        // Go's tools leave the field of the move, and the tasks are then lost from their new places.
        set(&mut redis, &["ZREM", "asynq:{default}:scheduled", name]).await;
        set(&mut redis, &["HSET", &format!("asynq:{{default}}:t:{name}"), "state", state]).await;
    }
    let found = broker.examine(&queue(), 100).await.unwrap();
    assert_eq!(found.count(OddityKind::TaskWithoutPlace), 2, "{found:?}");
}

#[tokio::test]
async fn a_move_that_cannot_arrive_leaves_nothing_half_way() {
    for (state, foreign, half) in [
        (TaskState::Scheduled, "x:due", "pending"),
        (TaskState::Aggregating, "groups", "g:g"),
        (TaskState::Pending, "pending", "x:due"),
    ] {
        let (_server, broker, mut redis) = Server::with_broker().await;
        let mut new = task("t1");
        match state {
            TaskState::Scheduled => new.when = When::In(Duration::from_secs(600)),
            TaskState::Aggregating => new.group = Some(GroupName::new("g").unwrap()),
            _ => {}
        }
        asynq_runtime::broker::Produce::enqueue(&broker, vec![new]).await.remove(0).unwrap();
        let foreign = format!("asynq:{{low}}:{foreign}");
        set(&mut redis, &["SET", &foreign, "foreign"]).await;
        assert!(broker.move_task(&queue(), &id("t1"), &low()).await.is_err(), "{foreign}");
        assert!(!redis.exists::<_, bool>(format!("asynq:{{low}}:{half}")).await.unwrap(), "{half} has it already");
        set(&mut redis, &["DEL", &foreign]).await;
        assert_eq!(would_run(&broker, &id("t1")).await, 0, "{foreign}: it is held");
        assert_eq!(broker.move_task(&queue(), &id("t1"), &low()).await.unwrap(), Changed::Done);
        assert_eq!(places(&broker, &id("t1")).await, [(low(), state)]);
    }
}

#[tokio::test]
async fn a_move_that_a_full_redis_refuses_changes_nothing_and_names_no_queue() {
    let server = Server::start(&["--maxmemory-policy", "noeviction"]);
    let broker = server.broker().await;
    let mut redis = server.foreign().await;
    put(&broker, &["t1"]).await;
    limit_memory(&mut redis, "1").await;
    let refused = broker.move_task(&queue(), &id("t1"), &low()).await.unwrap_err();
    assert!(matches!(&refused, Refused::Broker(error) if error.kind() == BrokerErrorKind::Full), "{refused}");
    limit_memory(&mut redis, "0").await;
    // Longer than the pause before a name that could not be written is written again.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(broker.queues().await.unwrap(), [queue()]);
    assert_eq!(places(&broker, &id("t1")).await, [(queue(), TaskState::Pending)]);
}

/// Breaks a move of the task after the copy was placed, so that both queues hold it.
async fn break_move(broker: &RedisBroker, redis: &mut MultiplexedConnection, name: &str) {
    put(broker, &[name]).await;
    hold_at_both_ends(broker, redis, &id(name)).await;
}

/// Breaks a move of the task, which is there, as [`break_move`] does.
async fn hold_at_both_ends(broker: &RedisBroker, redis: &mut MultiplexedConnection, id: &TaskId) {
    // Of the steps up to there, only the one that drops the task from the old queue writes a string, its receipt.
    set(redis, &["ACL", "SETUSER", "default", "-set"]).await;
    assert!(broker.move_task(&queue(), id, &low()).await.is_err());
    set(redis, &["ACL", "SETUSER", "default", "+set"]).await;
    assert_eq!(places(broker, id).await, [(queue(), TaskState::Scheduled), (low(), TaskState::Scheduled)]);
    assert_eq!(would_run(broker, id).await, 0);
}

/// Breaks a move of the task before the copy is placed, so that only the old queue holds it.
async fn break_move_early(broker: &RedisBroker, redis: &mut MultiplexedConnection, name: &str) {
    put(broker, &[name]).await;
    // The other queue has a key of a foreign type.
    set(redis, &["SET", "asynq:{low}:scheduled", "foreign"]).await;
    assert!(broker.move_task(&queue(), &id(name), &low()).await.is_err());
    set(redis, &["DEL", "asynq:{low}:scheduled"]).await;
    assert_eq!(places(broker, &id(name)).await, [(queue(), TaskState::Scheduled)]);
}

/// Takes a held copy away as Go's tools and workers do, which know no held task.
async fn end_in_go(redis: &mut MultiplexedConnection, queue: &QueueName, name: &str) {
    set(redis, &["ZREM", &format!("asynq:{{{queue}}}:scheduled"), name]).await;
    set(redis, &["DEL", &format!("asynq:{{{queue}}}:t:{name}")]).await;
}

#[tokio::test]
async fn a_copy_whose_task_has_left_its_queue_in_another_way_is_released_by_the_user() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    break_move(&broker, &mut redis, "t1").await;
    let on_its_way = Changed::Unfit(TaskState::Scheduled);
    let end_there = async || broker.move_task(&low(), &id("t1"), &low()).await.unwrap();
    assert_eq!(end_there().await, on_its_way, "while the old queue has the task, the user decides there");
    end_in_go(&mut redis, &queue(), "t1").await;
    assert_eq!(broker.move_task(&queue(), &id("t1"), &low()).await.unwrap(), on_its_way, "it may have run");
    assert_eq!(places(&broker, &id("t1")).await, [(low(), TaskState::Scheduled)]);
    assert_eq!(would_run(&broker, &id("t1")).await, 0);
    assert_eq!(end_there().await, Changed::Done);
    assert_eq!(places(&broker, &id("t1")).await, [(low(), TaskState::Pending)]);
    assert_eq!(broker.task(&low(), &id("t1")).await.unwrap().unwrap().last_error, None);
}

/// A Redis where the move of `t1` has broken off, with a proxy before it, a broker that goes straight to it, a connection, and a broker
/// behind the proxy. Redis knows all scripts of a move, so that each step is one write.
async fn broken_off_before_a_proxy() -> (Server, Proxy, RedisBroker, MultiplexedConnection, RedisBroker) {
    let server = Server::start(&[]);
    let proxy = Proxy::before(&server);
    let direct = server.broker().await;
    let mut redis = server.foreign().await;
    break_move(&direct, &mut redis, "t0").await;
    assert_eq!(direct.move_task(&queue(), &id("t0"), &low()).await.unwrap(), Changed::Done);
    break_move(&direct, &mut redis, "t1").await;
    let broker = RedisBroker::connect(&proxy.url(), patient()).await.unwrap();
    (server, proxy, direct, redis, broker)
}

#[tokio::test]
async fn a_move_says_that_the_task_has_arrived_only_if_it_has() {
    for deleted in [true, false] {
        let (_server, proxy, direct, mut redis, broker) = broken_off_before_a_proxy().await;
        // The last write of a look, the copy, which is there already, the drop and the release.
        proxy.hold_back_nth(4);
        let moving = tokio::spawn(async move { broker.move_task(&queue(), &id("t1"), &low()).await });
        let is_dropped = async || direct.task(&queue(), &id("t1")).await.unwrap().is_none().then_some(());
        eventually("the task has left its queue", is_dropped).await;
        if deleted {
            end_in_go(&mut redis, &low(), "t1").await;
        } else {
            // Another mover goes on, and a user deletes the task.
            assert_eq!(direct.move_task(&queue(), &id("t1"), &low()).await.unwrap(), Changed::Done);
            let ended = direct.change_task(&low(), &id("t1"), None, BulkAction::Delete).await.unwrap();
            assert_eq!(ended, Changed::Done);
        }
        proxy.let_go();
        let expected = if deleted { Changed::NotFound } else { Changed::Done };
        assert_eq!(moving.await.unwrap().unwrap(), expected);
        assert_eq!(places(&direct, &id("t1")).await, []);
    }
}

#[tokio::test]
async fn a_mover_that_another_overtakes_leaves_the_task_where_it_has_arrived() {
    let (_server, proxy, direct, mut redis, broker) = broken_off_before_a_proxy().await;
    let before = scripts(&mut redis).await;
    // Behind the look and the copy, which is there already, the drop is held back.
    proxy.hold_back_nth(3);
    let moving = tokio::spawn(async move { broker.move_task(&queue(), &id("t1"), &low()).await });
    let has_copied = async || (scripts(&mut redis).await >= before + 2).then_some(());
    eventually("the slower mover has placed the copy", has_copied).await;
    assert_eq!(direct.move_task(&queue(), &id("t1"), &low()).await.unwrap(), Changed::Done);
    proxy.let_go();
    assert_eq!(moving.await.unwrap().unwrap(), Changed::Done);
    assert_eq!(places(&direct, &id("t1")).await, [(low(), TaskState::Pending)]);
}

/// In a cluster, the new master of the old queue may lack the last step there, while the task has arrived in the new queue.
#[tokio::test]
async fn a_copy_that_a_failover_brought_back_ends_when_the_move_is_requested_again() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    break_move_early(&broker, &mut redis, "t1").await;
    let mut kept = Vec::new();
    for key in ["asynq:{default}:t:t1", "asynq:{default}:scheduled"] {
        let value: Vec<u8> = redis::cmd("DUMP").arg(key).query_async(&mut redis).await.unwrap();
        kept.push((key, value));
    }
    assert_eq!(broker.move_task(&queue(), &id("t1"), &low()).await.unwrap(), Changed::Done);
    for (key, value) in kept {
        let () = redis::cmd("RESTORE").arg(key).arg(0).arg(value).query_async(&mut redis).await.unwrap();
    }
    set(&mut redis, &["DEL", "asynq:{default}:x:moved:t1"]).await;
    assert_eq!(
        places(&broker, &id("t1")).await,
        [(queue(), TaskState::Scheduled), (low(), TaskState::Pending)],
        "the copy is back"
    );
    assert_eq!(broker.move_task(&queue(), &id("t1"), &low()).await.unwrap(), Changed::Done);
    assert_eq!(places(&broker, &id("t1")).await, [(low(), TaskState::Pending)]);
}

/// Makes the record of a move one of a newer version, which has a field more, and returns it.
async fn add_to_record(redis: &mut MultiplexedConnection, task: &str) -> Vec<u8> {
    let mut record: Vec<u8> = redis.hget(task, "move").await.unwrap();
    record.extend_from_slice(b"\xa2\x06\x02eu");
    let () = redis.hset(task, "move", &record).await.unwrap();
    record
}

#[tokio::test]
async fn a_move_that_another_version_began_goes_on_or_is_given_up() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    for (name, both, to) in [("a", false, low()), ("b", false, queue()), ("c", true, low()), ("d", true, queue())] {
        if both {
            break_move(&broker, &mut redis, name).await;
        } else {
            break_move_early(&broker, &mut redis, name).await;
        }
        let task = format!("asynq:{{default}}:t:{name}");
        add_to_record(&mut redis, &task).await;
        let held: Vec<u8> = redis.hget(&task, "msg").await.unwrap();
        let held = TaskMessage::decode(held.into()).unwrap();
        let worded_otherwise = TaskMessage { error_msg: "asynq: moves to low".into(), ..held };
        let () = redis.hset(&task, "msg", worded_otherwise.encode()).await.unwrap();
        assert_eq!(broker.move_task(&queue(), &id(name), &to).await.unwrap(), Changed::Done, "{name} to {to}");
        assert_eq!(places(&broker, &id(name)).await, [(to.clone(), TaskState::Pending)], "{name}");
        assert_eq!(broker.task(&to, &id(name)).await.unwrap().unwrap().last_error, None, "{name}");
    }
}

#[tokio::test]
async fn the_record_of_a_newer_version_goes_along_unchanged() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    break_move_early(&broker, &mut redis, "t1").await;
    let record = add_to_record(&mut redis, "asynq:{default}:t:t1").await;
    // The copy is placed, and the receipt of the drop is refused.
    set(&mut redis, &["ACL", "SETUSER", "default", "-set"]).await;
    assert!(broker.move_task(&queue(), &id("t1"), &low()).await.is_err());
    set(&mut redis, &["ACL", "SETUSER", "default", "+set"]).await;
    assert_eq!(redis.hget::<_, _, Vec<u8>>("asynq:{low}:t:t1", "move").await.unwrap(), record);
    assert_eq!(broker.move_task(&queue(), &id("t1"), &low()).await.unwrap(), Changed::Done);
    assert_eq!(places(&broker, &id("t1")).await, [(low(), TaskState::Pending)]);
}

#[tokio::test]
async fn a_held_task_with_a_record_that_cannot_be_read_stays_as_it_is() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    break_move_early(&broker, &mut redis, "t1").await;
    let () = redis.hset("asynq:{default}:t:t1", "move", b"\xff").await.unwrap();
    let before = dump(&mut redis).await;
    for to in [low(), queue()] {
        let refused = broker.move_task(&queue(), &id("t1"), &to).await.unwrap_err();
        assert!(refused.to_string().contains("a record of a move that cannot be read"), "{refused}");
    }
    assert!(dump(&mut redis).await == before, "nothing was changed");
}

#[tokio::test]
async fn a_task_that_both_ends_of_a_move_hold_is_changed_by_no_person() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let on_its_way = Changed::Unfit(TaskState::Scheduled);
    for given_up in [false, true] {
        break_move(&broker, &mut redis, "t1").await;
        let before = dump(&mut redis).await;
        for end in [queue(), low()] {
            assert_eq!(broker.change_task(&end, &id("t1"), None, BulkAction::Run).await.unwrap(), on_its_way, "{end}");
            assert_eq!(
                broker.change_task(&end, &id("t1"), None, BulkAction::Archive).await.unwrap(),
                on_its_way,
                "{end}"
            );
            assert_eq!(
                broker.change_task(&end, &id("t1"), None, BulkAction::Delete).await.unwrap(),
                on_its_way,
                "{end}"
            );
            let edit = PayloadEdit { payload: b"new".as_slice().into(), expected: None, unique_key: None };
            assert_eq!(broker.edit_payload(&end, &id("t1"), &edit).await.unwrap(), on_its_way, "{end}");
            let third = QueueName::new("high").unwrap();
            assert_eq!(broker.move_task(&end, &id("t1"), &third).await.unwrap(), on_its_way, "{end}");
        }
        assert!(dump(&mut redis).await == before, "nothing was changed");
        let to = if given_up { queue() } else { low() };
        assert_eq!(broker.move_task(&queue(), &id("t1"), &to).await.unwrap(), Changed::Done);
        assert_eq!(places(&broker, &id("t1")).await, [(to.clone(), TaskState::Pending)]);
        let task = broker.task(&to, &id("t1")).await.unwrap().unwrap();
        assert_eq!((task.queue, task.last_error), (to.clone(), None));
        assert_eq!(broker.change_task(&to, &id("t1"), None, BulkAction::Delete).await.unwrap(), Changed::Done);
    }
}

#[tokio::test]
async fn a_copy_that_a_move_left_behind_when_it_was_given_up_never_runs() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    break_move(&broker, &mut redis, "t1").await;
    // The call that gives the move up breaks off between its two steps.
    set(&mut redis, &["ACL", "SETUSER", "default", "resetkeys", "~asynq:{default}:*", "~asynq:queues"]).await;
    assert!(broker.move_task(&queue(), &id("t1"), &queue()).await.is_err());
    set(&mut redis, &["ACL", "SETUSER", "default", "allkeys"]).await;
    assert_eq!(places(&broker, &id("t1")).await, [(queue(), TaskState::Pending), (low(), TaskState::Scheduled)]);
    let runs = take(&broker, &member("me"), 1).await;
    settle(&broker, &runs[0], Action::Done).await;
    assert_eq!(broker.move_task(&queue(), &id("t1"), &low()).await.unwrap(), Changed::NotFound);
    assert_eq!(places(&broker, &id("t1")).await, []);
}

#[tokio::test]
async fn a_bulk_call_leaves_tasks_alone_that_a_move_holds() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    break_move(&broker, &mut redis, "a").await;
    let mut later = task("b");
    later.when = When::In(Duration::from_secs(600));
    asynq_runtime::broker::Produce::enqueue(&broker, vec![later]).await.remove(0).unwrap();
    for (action, changed) in [(BulkAction::Run, 1), (BulkAction::Archive, 0), (BulkAction::Delete, 0)] {
        let slice = broker.change_some(&queue(), &Chosen::InState(TaskState::Scheduled), action, 1).await.unwrap();
        assert_eq!((slice.changed, slice.ghosts), (changed, 0), "{action:?}");
        let next = broker.change_some(&queue(), &Chosen::InState(TaskState::Scheduled), action, 1).await.unwrap();
        assert_eq!(next, BulkSlice::default(), "{action:?}: a caller that goes on comes to an end");
    }
    assert_eq!(broker.move_task(&queue(), &id("a"), &low()).await.unwrap(), Changed::Done);
    assert_eq!(places(&broker, &id("a")).await, [(low(), TaskState::Pending)]);
    assert_eq!(places(&broker, &id("b")).await, [(queue(), TaskState::Pending)]);
}
