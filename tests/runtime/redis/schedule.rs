//! Periodic entries in a Redis that is full, forgets, loses answers, or holds keys of others; and results that only its keys
//! show.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::{
    RawTask, Registry, Server as Worker,
    broker::{
        Action, Broker, BrokerErrorKind, BulkAction, Candidate, Changed, Consume, EntryId, EntryPlan, Inspect, Lead,
        Maintain, Overlap, Page, Repair, Schedules, Settle, Settled, Tick, Ticked, UniqueLock, Wanted,
        redis::RedisBroker,
    },
    prelude::JobResult,
    task::{Extra, GroupName, SchedulerEnqueueEvent, SchedulerEntry, TaskState},
};
use asynq_test_support::soon;
use chrono::{DateTime, Utc};
use redis::{AsyncCommands, aio::MultiplexedConnection};

use super::{
    repair::{low, places, set},
    server::{Proxy, Server, patient},
    tasks::*,
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HISTORY: &str = "asynq:scheduler_history:e";

fn tick(at: DateTime<Utc>) -> Tick {
    let entry = EntryId::from_wire("e");
    let at = DateTime::from_timestamp(at.timestamp(), 0).unwrap();
    let task = task(entry.task_id(at).as_str());
    let (spec, zone) = ("* * * * * *".into(), "UTC".into());
    let plan = EntryPlan { queue: queue(), entry, spec, zone, revision: 1, supersedes: None, keep: 100 * MINUTE };
    Tick { plan, at, marker: MINUTE, known: None, overlap: Overlap::Allow, task }
}

/// Returns whether the tick enqueues its task. The broker's idea of Redis's clock may be some milliseconds ahead of it, and a
/// tick of the second that has just begun comes too early then: it is tried again, as the scheduler does.
async fn fires(broker: &RedisBroker, tick: &Tick) -> bool {
    loop {
        match broker.tick(tick).await.unwrap() {
            Ticked::Early(left) if left < SECOND => tokio::time::sleep(left).await,
            ticked => return matches!(ticked, Ticked::Enqueued(_)),
        }
    }
}

fn marker(tick: &Tick) -> String {
    format!("asynq:{{default}}:x:tick:e:{}", tick.at.timestamp())
}

#[tokio::test]
async fn an_entry_and_its_markers_end_by_themselves() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let tick = tick(broker.now());
    let begun = Instant::now();
    assert!(fires(&broker, &tick).await);
    let lasts: (i64, i64) =
        redis::pipe().ttl(marker(&tick)).ttl("asynq:{default}:x:cron:e").query_async(&mut redis).await.unwrap();
    // Redis rounds to seconds, and some may have passed.
    let since = 1 + i64::try_from(begun.elapsed().as_secs()).unwrap();
    assert!((60 - since..=60).contains(&lasts.0) && (6000 - since..=6000).contains(&lasts.1), "{lasts:?}");
    assert!(redis.sismember::<_, _, bool>("asynq:queues", "default").await.unwrap());
    let plan = EntryPlan { keep: 10 * MINUTE, ..tick.plan };
    broker.plan_entry(&plan).await.unwrap();
    broker.show_entries("s", &[SchedulerEntry::default()], MINUTE).await.unwrap();
    let lasts: (i64, i64) = redis::pipe()
        .ttl("asynq:{default}:x:cron:e")
        .ttl("asynq:schedulers:{s}")
        .query_async(&mut redis)
        .await
        .unwrap();
    assert!((1..=600).contains(&lasts.0) && (1..=60).contains(&lasts.1), "{lasts:?}");
}

#[tokio::test]
async fn a_marker_refuses_a_tick_whose_entry_was_evicted_or_whose_queue_was_deleted() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let tick = tick(broker.now());
    assert!(fires(&broker, &tick).await);
    let run = take(&broker, &member("me"), 1).await.remove(0);
    settle(&broker, &run, Action::Done).await;
    let () = redis.del("asynq:{default}:x:cron:e").await.unwrap();
    assert!(matches!(broker.tick(&tick).await.unwrap(), Ticked::Duplicate));
    assert_eq!(broker.entry(&queue(), &tick.plan.entry).await.unwrap().unwrap().last, tick.at);
    broker.delete_queue(&queue()).await.unwrap();
    assert_eq!(
        broker.entry(&queue(), &tick.plan.entry).await.unwrap().unwrap().last,
        tick.at,
        "schedules outlive queues"
    );
    assert!(matches!(broker.tick(&tick).await.unwrap(), Ticked::Duplicate));
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().size, 0);
}

/// A Go tool that runs a completed task changes its state and its place alone.
#[tokio::test]
async fn a_replaced_task_that_completed_runs_again_when_a_go_tool_says_so() {
    let server = Server::start(&[]);
    let (broker, mut redis) = (Arc::new(server.broker().await), server.foreign().await);
    let mut first = tick(broker.now() - chrono::TimeDelta::seconds(5));
    first.task.message.retention = 3600;
    assert!(fires(&broker, &first).await);
    let run = take(&broker, &member("me"), 1).await.remove(0);
    assert_eq!(broker.save_checkpoint(&run.key, &"half".into()).await.unwrap(), Settled::Ok);
    let next = Tick { overlap: Overlap::Replace, ..tick(first.at + chrono::TimeDelta::seconds(1)) };
    assert!(fires(&broker, &next).await);
    assert_eq!(settle(&broker, &run, Action::Complete { result: None }).await, Settled::Ok);
    let second = take(&broker, &member("me"), 1).await.remove(0);
    assert_eq!(settle(&broker, &second, Action::Done).await, Settled::Ok);

    let id = first.task.id.as_str();
    set(&mut redis, &["ZREM", "asynq:{default}:completed", id]).await;
    set(&mut redis, &["LPUSH", "asynq:{default}:pending", id]).await;
    set(&mut redis, &["HSET", &format!("asynq:{{default}}:t:{id}"), "state", "pending"]).await;
    let again = take(&broker, &member("me"), 1).await.remove(0);
    assert!(again.extra.replaced, "the mark of the first run is left");
    assert_eq!(broker.checkpoint(&again.key).await.unwrap(), None, "it begins anew");
    assert_eq!(settle(&broker, &again, Action::Requeue).await, Settled::Ok);
    let again = take(&broker, &member("me"), 1).await.remove(0);
    assert!(!again.extra.replaced);
    assert_eq!(settle(&broker, &again, Action::Requeue).await, Settled::Ok);
    let worker = Worker::builder("")
        .broker(Arc::clone(&broker) as Arc<dyn Broker>)
        .registry(Registry::default())
        .handle("email", async |_: RawTask| JobResult::Ok(()));
    let running = worker.build().await.unwrap().start().await.unwrap();
    soon(running.signals().settled.reached(1)).await;
    assert_eq!(places(&broker, &first.task.id).await, [(queue(), TaskState::Completed)]);
    soon(running.shutdown()).await.unwrap();
}

/// A worker may be without its subscription for a moment.
#[tokio::test]
async fn a_tick_keeps_at_the_run_that_it_replaces_that_the_run_was_asked_to_stop() {
    let server = Server::start(&[]);
    let broker = server.broker().await;
    let first = tick(broker.now() - chrono::TimeDelta::seconds(5));
    assert!(fires(&broker, &first).await);
    let run = take(&broker, &member("me"), 1).await.remove(0);
    assert!(!broker.asked_to_cancel(std::slice::from_ref(&run.key)).await.remove(0).unwrap());
    let next = Tick { overlap: Overlap::Replace, ..tick(first.at + chrono::TimeDelta::seconds(1)) };
    assert!(fires(&broker, &next).await);
    assert!(broker.asked_to_cancel(&[run.key]).await.remove(0).unwrap());
}

#[tokio::test]
async fn a_tick_that_replaces_a_run_whose_lease_has_passed_takes_the_lease_away() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let first = tick(broker.now() - chrono::TimeDelta::seconds(5));
    assert!(fires(&broker, &first).await);
    take(&broker, &member("me"), 1).await;
    set(&mut redis, &["ZADD", "asynq:{default}:lease", "1", first.task.id.as_str()]).await;
    let next = Tick { overlap: Overlap::Replace, ..tick(first.at + chrono::TimeDelta::seconds(1)) };
    assert!(fires(&broker, &next).await);
    assert_eq!(redis.zcard::<_, usize>("asynq:{default}:lease").await.unwrap(), 0);
}

/// Scripts of earlier versions delete a task where field 7 is 1, and their workers requeue it unrun where it is anything but 0.
#[tokio::test]
async fn a_mark_of_a_task_that_completed_before_is_read_by_earlier_versions_too() {
    let server = Server::start(&[]);
    let (broker, mut redis) = (server.broker().await, server.foreign().await);
    let mut first = tick(broker.now() - chrono::TimeDelta::seconds(5));
    first.task.message.retention = 3600;
    assert!(fires(&broker, &first).await);
    let run = take(&broker, &member("me"), 1).await.remove(0);
    assert_eq!(settle(&broker, &run, Action::Complete { result: None }).await, Settled::Ok);
    assert_eq!(broker.change_task(&queue(), &first.task.id, None, BulkAction::Run).await.unwrap(), Changed::Done);
    let again = take(&broker, &member("me"), 1).await.remove(0);
    let completed_at = again.message.as_ref().unwrap().completed_at;
    assert!(completed_at > 0);
    let next = Tick { overlap: Overlap::Replace, ..tick(first.at + chrono::TimeDelta::seconds(1)) };
    assert!(fires(&broker, &next).await);
    let x: Vec<u8> = redis.hget(format!("asynq:{{default}}:t:{}", first.task.id), "x").await.unwrap();
    assert!(x.starts_with(b"\x38\x01"), "{x:?}");
    assert_eq!(Extra::from_bytes(&x), Extra { replaced: true, replaced_after: completed_at, ..Extra::default() });
    assert_eq!(settle(&broker, &again, Action::Requeue).await, Settled::Ok);
    assert_eq!(ids(&take(&broker, &member("me"), 2).await), [next.task.id.as_str()]);
}

#[tokio::test]
async fn the_mark_of_an_earlier_version_ends_a_task_that_never_completed() {
    let server = Server::start(&[]);
    let (broker, mut redis) = (server.broker().await, server.foreign().await);
    let tick = tick(broker.now());
    assert!(fires(&broker, &tick).await);
    let run = take(&broker, &member("me"), 1).await.remove(0);
    let () = redis.hset(format!("asynq:{{default}}:t:{}", tick.task.id), "x", b"\x38\x01".to_vec()).await.unwrap();
    assert_eq!(settle(&broker, &run, Action::Requeue).await, Settled::Ok);
    assert!(take(&broker, &member("me"), 1).await.is_empty());
}

/// Field 13 of the message, the time of its completion, is text.
#[tokio::test]
async fn a_task_whose_message_a_foreign_program_has_damaged_is_replaced() {
    let server = Server::start(&[]);
    let (broker, mut redis) = (server.broker().await, server.foreign().await);
    let first = tick(broker.now() - chrono::TimeDelta::seconds(5));
    assert!(fires(&broker, &first).await);
    let run = take(&broker, &member("me"), 1).await.remove(0);
    let damaged = [&first.task.message.encode()[..], b"\x6a\x02-5"].concat();
    let () = redis.hset(format!("asynq:{{default}}:t:{}", first.task.id), "msg", damaged).await.unwrap();
    let next = Tick { overlap: Overlap::Replace, ..tick(first.at + chrono::TimeDelta::seconds(1)) };
    assert!(soon(fires(&broker, &next)).await);
    assert_eq!(settle(&broker, &run, Action::Requeue).await, Settled::Ok);
    assert_eq!(ids(&take(&broker, &member("me"), 2).await), [next.task.id.as_str()]);
}

#[tokio::test]
async fn a_task_that_both_ends_of_a_move_hold_is_replaced_by_no_tick() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let first = tick(broker.now() - chrono::TimeDelta::seconds(5));
    assert!(fires(&broker, &first).await);
    // The move breaks off at its receipt, when both queues have the task.
    set(&mut redis, &["ACL", "SETUSER", "default", "-set"]).await;
    assert!(broker.move_task(&queue(), &first.task.id, &low()).await.is_err());
    set(&mut redis, &["ACL", "SETUSER", "default", "+set"]).await;
    let next = Tick { overlap: Overlap::Replace, ..tick(first.at + chrono::TimeDelta::seconds(1)) };
    assert!(fires(&broker, &next).await);
    let both = [(queue(), TaskState::Scheduled), (low(), TaskState::Scheduled)];
    assert_eq!(places(&broker, &first.task.id).await, both);
}

#[tokio::test]
async fn a_tick_whose_answer_was_lost_is_a_duplicate_and_its_task_there() {
    let server = Server::start(&[]);
    let proxy = Proxy::before(&server);
    let broker = RedisBroker::connect(&proxy.url(), patient()).await.unwrap();
    let direct = server.broker().await;
    // Redis knows the script from here on, so that one write is one try.
    let warm = tick(direct.now() - chrono::TimeDelta::seconds(5));
    assert!(fires(&direct, &warm).await);
    for seconds in 1..5 {
        let tick = tick(warm.at + chrono::TimeDelta::seconds(seconds));
        proxy.lose_answers(1);
        assert!(broker.tick(&tick).await.unwrap_err().is_unavailable());
        assert!(matches!(broker.tick(&tick).await.unwrap(), Ticked::Duplicate));
        assert_eq!(direct.queue_stats(&queue()).await.unwrap().pending, 1 + seconds as u64);
    }
}

#[tokio::test]
async fn a_full_redis_refuses_a_tick_with_nothing_changed_and_answers_all_else() {
    let server = Server::start(&["--maxmemory-policy", "noeviction"]);
    let mut redis = server.foreign().await;
    let (broker, clock) = with_clock(&server).await;
    let first = tick(broker.now());
    assert!(fires(&broker, &first).await);
    let now = first.at.timestamp();
    clock.advance(SECOND);
    limit_memory(&mut redis, "1").await;

    let next = Tick { overlap: Overlap::Replace, ..tick(broker.now()) };
    let before = dump(&mut redis).await;
    for _ in 0..2 {
        assert!(broker.tick(&next).await.unwrap_err().is_full());
    }
    assert_eq!(dump(&mut redis).await, before, "the task that it would replace is there, too");
    assert!(matches!(broker.tick(&first).await.unwrap(), Ticked::Duplicate));
    let skip = Tick { overlap: Overlap::Skip, ..next.clone() };
    assert!(matches!(broker.tick(&skip).await.unwrap(), Ticked::Skipped(_)));
    clock.advance(SECOND);
    assert!(broker.pause_entry(&queue(), &first.plan.entry, true).await.unwrap());
    assert!(matches!(broker.tick(&tick(broker.now())).await.unwrap(), Ticked::Paused));
    assert!(broker.pause_entry(&queue(), &first.plan.entry, false).await.unwrap());
    assert_eq!(broker.plan_entry(&first.plan).await.unwrap().state.last.timestamp(), now + 2);

    let me = Candidate { program: "shop".into(), token: "me".into(), revision: 1 };
    for _ in 0..2 {
        assert_eq!(broker.lead(&me, MINUTE).await.unwrap(), Lead::Ours { wanted: false });
    }
    broker.show_entries("s", &[SchedulerEntry::default()], MINUTE).await.unwrap();
    assert_eq!(broker.scheduler_entries().await.unwrap().len(), 1);
    broker.record_enqueue("e", &SchedulerEnqueueEvent::default()).await.unwrap();

    limit_memory(&mut redis, "0").await;
    clock.advance(SECOND);
    assert!(fires(&broker, &Tick { overlap: Overlap::Replace, ..tick(broker.now()) }).await);
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().pending, 1);
}

async fn is_refused(broker: &RedisBroker, redis: &mut MultiplexedConnection, tick: &Tick, key: &str) {
    let aside = format!("aside:{key}");
    if redis.exists(key).await.unwrap() {
        let () = redis.rename(key, &aside).await.unwrap();
    }
    let () = redis.set(key, "of a foreign program").await.unwrap();
    let before = dump(redis).await;
    let refused = broker.tick(tick).await.unwrap_err();
    assert_eq!(refused.kind(), BrokerErrorKind::Corrupt, "{key}: {refused}");
    assert_eq!(dump(redis).await, before, "{key}: nothing was changed");
    let () = redis.del(key).await.unwrap();
    if redis.exists(&aside).await.unwrap() {
        let () = redis.rename(&aside, key).await.unwrap();
    }
}

#[tokio::test]
async fn foreign_keys_stop_a_tick_before_anything_is_changed() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, clock) = with_clock(&server).await;
    let key = |name: &str| format!("asynq:{{default}}:{name}");
    let mut grouped = tick(broker.now());
    grouped.task.message.group_key = "g".into();
    grouped.task.group = Some(GroupName::new("g").unwrap());
    assert!(fires(&broker, &grouped).await);
    clock.advance(SECOND);
    // The previous task waits in a group and is replaced.
    let plain = Tick { overlap: Overlap::Replace, ..tick(broker.now()) };
    let mut later = plain.clone();
    later.task.when = asynq_runtime::broker::When::In(MINUTE);
    let mut joining = plain.clone();
    joining.task.group = Some(GroupName::new("h").unwrap());
    for (tick, name) in [
        (&plain, "x:cron:e"),
        (&plain, "pending"),
        (&plain, "groups"),
        (&later, "scheduled"),
        (&later, "x:due"),
        (&joining, "g:h"),
    ] {
        is_refused(&broker, &mut redis, tick, &key(name)).await;
    }
    assert!(fires(&broker, &plain).await);
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().size, 1, "it was replaced");
    let () = redis.del(key("x:cron:e")).await.unwrap();
    let () = redis.set(key("x:cron:e"), "foreign").await.unwrap();
    let paused = broker.pause_entry(&queue(), &plain.plan.entry, true).await;
    assert_eq!(paused.unwrap_err().kind(), BrokerErrorKind::Corrupt, "it is not an unknown entry");
    let planned = broker.plan_entry(&plain.plan).await;
    assert_eq!(planned.unwrap_err().kind(), BrokerErrorKind::Corrupt, "it is not a new entry");
}

#[tokio::test]
async fn foreign_keys_in_the_place_of_lock_queues_or_previous_task_do_no_harm() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, clock) = with_clock(&server).await;
    let () = redis.set("asynq:queues", "of a foreign program").await.unwrap();
    let first = tick(broker.now());
    assert!(fires(&broker, &first).await);
    let () = redis.rename(format!("asynq:{{default}}:t:{}", first.task.id), "aside").await.unwrap();
    let () = redis.set(format!("asynq:{{default}}:t:{}", first.task.id), "of a foreign program").await.unwrap();
    clock.advance(SECOND);
    let skip = Tick { overlap: Overlap::Skip, ..tick(broker.now()) };
    assert!(fires(&broker, &skip).await, "an id without a task does not run");
    clock.advance(SECOND);
    let mut unique = tick(broker.now());
    let lock = "asynq:{default}:unique:email:x";
    let () = redis.lpush(lock, "of a foreign program").await.unwrap();
    unique.task.unique = Some(UniqueLock { key: lock.into(), ttl: MINUTE });
    assert!(matches!(broker.tick(&unique).await.unwrap(), Ticked::Refused(_)));
}

/// The hash says that its task waits, but the task is in no list: it will never run.
#[tokio::test]
async fn a_task_that_its_list_has_lost_stops_no_schedule() {
    for state in [TaskState::Pending, TaskState::Scheduled, TaskState::Aggregating] {
        let server = Server::start(&[]);
        let mut redis = server.foreign().await;
        let (broker, clock) = with_clock(&server).await;
        let mut first = tick(broker.now());
        match state {
            TaskState::Scheduled => first.task.when = asynq_runtime::broker::When::In(MINUTE),
            TaskState::Aggregating => first.task.group = Some(GroupName::new("g").unwrap()),
            _ => {}
        }
        assert!(fires(&broker, &first).await);
        let place = if state == TaskState::Aggregating { "g:g".to_owned() } else { state.to_string() };
        assert_eq!(redis.del::<_, i64>(format!("asynq:{{default}}:{place}")).await.unwrap(), 1);
        clock.advance(SECOND);
        assert!(fires(&broker, &Tick { overlap: Overlap::Skip, ..tick(broker.now()) }).await, "{state}");
    }
}

/// An outcome of Go that broke off leaves a task that is active, but in no list and without a lease.
#[tokio::test]
async fn a_task_that_a_crashed_go_server_left_active_stops_no_schedule() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, clock) = with_clock(&server).await;
    assert!(fires(&broker, &tick(broker.now())).await);
    assert_eq!(broker.dequeue(&member("me"), &[Wanted { queue: queue(), n: 1 }]).await.unwrap().len(), 1);
    let () = redis.del(&["asynq:{default}:active", "asynq:{default}:lease"]).await.unwrap();
    clock.advance(SECOND);
    assert!(fires(&broker, &Tick { overlap: Overlap::Skip, ..tick(broker.now()) }).await);
}

#[tokio::test]
async fn an_unreadable_entry_of_another_scheduler_hides_no_other() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let entry = SchedulerEntry { id: "ours".into(), ..SchedulerEntry::default() };
    broker.show_entries("s", std::slice::from_ref(&entry), MINUTE).await.unwrap();
    let ours = "asynq:schedulers:{s}";
    let () = redis.lpush(ours, b"\xff\xff").await.unwrap();
    let () = redis.set("asynq:schedulers:{foreign}", "text").await.unwrap();
    let far = broker.now().timestamp() + 100;
    let dead = broker.now().timestamp() - 100;
    for (name, until) in [("foreign", far), ("gone", far), ("dead", dead)] {
        let () = redis.zadd("asynq:schedulers", format!("asynq:schedulers:{{{name}}}"), until).await.unwrap();
    }
    assert_eq!(broker.scheduler_entries().await.unwrap(), [entry]);
    assert_eq!(redis.zcard::<_, i64>("asynq:schedulers").await.unwrap(), 4, "a look writes nothing");
    broker.show_entries("s", &[], MINUTE).await.unwrap();
    assert_eq!(
        redis.zcard::<_, i64>("asynq:schedulers").await.unwrap(),
        3,
        "a scheduler that lists itself forgets the dead"
    );

    let event = SchedulerEnqueueEvent { task_id: "t".into(), enqueue_time: Some(broker.now().into()) };
    broker.record_enqueue("e", &event).await.unwrap();
    let () = redis.zadd(HISTORY, b"\xff\xff", far).await.unwrap();
    assert_eq!(broker.enqueue_history("e", Page::default()).await.unwrap(), [event]);
}

#[tokio::test]
async fn a_wait_for_the_lead_runs_no_script_on_the_tracking_connection() {
    let server = Server::start(&[]);
    let broker = server.broker().await;
    let me = Candidate { program: "shop".into(), token: "me".into(), revision: 1 };
    assert_eq!(broker.lead(&me, MINUTE).await.unwrap(), Lead::Ours { wanted: false });
    broker.wait_for_lead("shop", Duration::from_millis(50)).await.unwrap();
    assert_eq!(tracked_keys(&mut server.foreign().await).await, 1, "the leader's key alone");
}

#[tokio::test]
async fn a_request_for_the_lead_that_cannot_be_read_is_left_to_other_versions() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let me = Candidate { program: "shop".into(), token: "me".into(), revision: 1 };
    let want = "asynq:x:leader-want:shop";
    for (request, is_left) in [("7|new", true), ("1", false)] {
        set(&mut redis, &["SET", want, request]).await;
        assert_eq!(broker.lead(&me, MINUTE).await.unwrap(), Lead::Ours { wanted: false }, "{request}");
        assert_eq!(redis.exists::<_, bool>(want).await.unwrap(), is_left, "{request}");
    }
}

#[tokio::test]
async fn a_dead_leader_leads_no_longer_because_the_clock_was_set_back() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let me = Candidate { program: "shop".into(), token: "me".into(), revision: 1 };
    let day = 24 * 60 * MINUTE;
    for (given, expected) in [(day, Duration::ZERO..=100 * SECOND), (MINUTE, 11 * SECOND..=MINUTE)] {
        set(&mut redis, &["SET", "asynq:x:leader:shop", "dead|1", "EX", &given.as_secs().to_string()]).await;
        let Lead::Another(left) = broker.lead(&me, 10 * SECOND).await.unwrap() else { panic!("it leads at once") };
        assert!(expected.contains(&left), "{left:?} of {given:?}");
    }
    set(&mut redis, &["EXPIRE", "asynq:x:leader:shop", "86400"]).await;
    broker.lead(&me, 10 * SECOND).await.unwrap();
    assert!(redis.ttl::<_, i64>("asynq:x:leader:shop").await.unwrap() <= 100, "nor does it lead for another day");
}

/// As in a copy of another Redis by `DUMP` and `RESTORE`, which leaves the ends of keys out.
#[tokio::test]
async fn a_lead_without_an_end_is_taken() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let me = Candidate { program: "shop".into(), token: "me".into(), revision: 1 };
    set(&mut redis, &["SET", "asynq:x:leader:shop", "dead|9"]).await;
    soon(broker.wait_for_lead("shop", 60 * MINUTE)).await.unwrap();
    assert_eq!(broker.lead(&me, MINUTE).await.unwrap(), Lead::Ours { wanted: false });
    let other = Candidate { token: "other".into(), ..me };
    assert!(matches!(broker.lead(&other, MINUTE).await.unwrap(), Lead::Another(left) if left <= MINUTE));
}

#[tokio::test]
async fn a_request_for_the_lead_without_an_end_is_dropped() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let (me, want) =
        (Candidate { program: "shop".into(), token: "me".into(), revision: 1 }, "asynq:x:leader-want:shop");
    set(&mut redis, &["SET", want, "9", "EX", "60"]).await;
    assert_eq!(broker.lead(&me, MINUTE).await.unwrap(), Lead::Ours { wanted: true });
    set(&mut redis, &["SET", want, "9"]).await;
    assert_eq!(broker.lead(&me, MINUTE).await.unwrap(), Lead::Ours { wanted: false });
    assert!(!redis.exists::<_, bool>(want).await.unwrap(), "it is forgotten");
}
