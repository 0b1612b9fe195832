//! Groups in a Redis that is full, forgets, or holds keys of others; and results that only its keys show.

use std::{sync::Arc, time::Duration};

use asynq_runtime::{
    RawTask, Registry, Server as Worker,
    broker::{
        BrokerErrorKind, GroupRules, Groups, Inspect, Maintain, NewTask, Produce, Refused, RetryOrder, Semaphores,
        SetError, SetOutcome, TaskSet, UniqueLock, When, redis::RedisBroker,
    },
    job,
    prelude::JobResult,
    task::{GroupName, TaskId, TaskState},
};
use asynq_test_support::soon;
use redis::{AsyncCommands, aio::MultiplexedConnection};

use super::{
    server::{Proxy, Server, patient},
    tasks::*,
};

const GROUP: &str = "asynq:{default}:g:g";
const GROUPS: &str = "asynq:{default}:groups";

pub(crate) fn grouped(id: &str, group: &str) -> NewTask {
    let mut task = task(id);
    task.message.group_key = group.into();
    task.group = Some(GroupName::new(group).unwrap());
    task
}

async fn gather(broker: &RedisBroker, ids: &[&str]) -> TaskSet {
    for outcome in broker.enqueue(ids.iter().map(|id| grouped(id, "g")).collect()).await {
        assert_eq!(outcome.unwrap().state, TaskState::Aggregating);
    }
    claim(broker, ids.len()).await.unwrap()
}

async fn claim(broker: &RedisBroker, size: usize) -> Option<TaskSet> {
    let rules = GroupRules { max_size: Some(size), ..GroupRules::default() };
    broker.claim_set(&queue(), &GroupName::new("g").unwrap(), &rules).await.unwrap()
}

/// The outcome of a set: `made` of most of it, its second task alone.
fn outcome(set: &TaskSet) -> SetOutcome {
    let mut made = task(set.task_id(0).as_str());
    made.message.r#type = "made".into();
    SetOutcome { made: vec![made], alone: vec![TaskId::new("b").unwrap()], ..SetOutcome::default() }
}

async fn aside(redis: &mut MultiplexedConnection, key: &str) {
    if redis.exists(key).await.unwrap() {
        let () = redis.rename(key, format!("aside:{key}")).await.unwrap();
    }
    let () = redis.set(key, "of a foreign program").await.unwrap();
}

async fn back(redis: &mut MultiplexedConnection, key: &str) {
    let () = redis.del(key).await.unwrap();
    if redis.exists(format!("aside:{key}")).await.unwrap() {
        let () = redis.rename(format!("aside:{key}"), key).await.unwrap();
    }
}

#[tokio::test]
async fn a_grouped_task_has_the_field_by_which_every_program_frees_its_lock() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let mut unique = grouped("a", "g");
    let key = "asynq:{default}:unique:email:x";
    unique.message.unique_key = key.into();
    unique.unique = Some(UniqueLock { key: key.into(), ttl: Duration::from_secs(60) });
    broker.enqueue(vec![unique]).await.remove(0).unwrap();
    let fields: Vec<(String, Vec<u8>)> = redis.hgetall("asynq:{default}:t:a").await.unwrap();
    let text = |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, value)| &value[..]);
    assert_eq!(text("unique_key"), Some(key.as_bytes()), "Go frees a lock by this field");
    assert_eq!((text("group"), text("state")), (Some(&b"g"[..]), Some(&b"aggregating"[..])));
    assert_eq!(text("pending_since"), None);
}

#[tokio::test]
async fn groups_of_a_full_redis_are_drained() {
    let server = Server::start(&["--maxmemory-policy", "noeviction"]);
    let mut redis = server.foreign().await;
    let (broker, clock) = with_clock(&server).await;
    let mut later = grouped("later", "h");
    later.when = When::In(Duration::from_secs(5));
    broker.enqueue(vec![later]).await.remove(0).unwrap();
    let first = gather(&broker, &["x"]).await;
    for outcome in broker.enqueue(["a", "b", "c"].map(|id| grouped(id, "g")).into()).await {
        outcome.unwrap();
    }
    limit_memory(&mut redis, "1").await;

    let refused = broker.enqueue(vec![grouped("new", "g")]).await.remove(0).unwrap_err();
    assert!(matches!(&refused, Refused::Broker(error) if error.is_full()), "{refused:?}");
    let set = claim(&broker, 3).await.unwrap();
    broker.finish_set(&set, &outcome(&set)).await.unwrap();
    broker.release_set(&first).await.unwrap();
    assert!(claim(&broker, 1).await.is_some());
    clock.advance(Duration::from_secs(200));
    assert_eq!(broker.forward(&[queue()], RetryOrder::Last).await.unwrap().moved, 1);
    assert_eq!(broker.reclaim_sets(&queue()).await.unwrap(), 1);
    let () = redis.srem(GROUPS, "g").await.unwrap();
    assert_eq!(broker.restore_groups(&[queue()]).await.unwrap(), 1);
    let minute = Duration::from_secs(60);
    let (id, until) = (TaskId::new("a").unwrap(), clock_now(&broker) + minute);
    assert!(broker.acquire_token("mail", 1, &id, until, minute, false).await.unwrap().is_some());
}

fn clock_now(broker: &RedisBroker) -> chrono::DateTime<chrono::Utc> {
    asynq_runtime::broker::Broker::now(broker)
}

#[tokio::test]
async fn a_lost_answer_ends_a_set_once() {
    let server = Server::start(&[]);
    let proxy = Proxy::before(&server);
    let broker = RedisBroker::connect(&proxy.url(), patient()).await.unwrap();
    let direct = server.broker().await;
    // Redis knows the script from here on, so that one write is one try.
    let warm = gather(&direct, &["warm"]).await;
    direct.finish_set(&warm, &SetOutcome::default()).await.unwrap();
    let set = gather(&broker, &["a", "b", "c"]).await;
    let outcome = outcome(&set);

    proxy.lose_answers(1);
    let lost = broker.finish_set(&set, &outcome).await;
    assert!(matches!(&lost, Err(SetError::Refused(Refused::Broker(e))) if e.is_unavailable()), "{lost:?}");
    assert_eq!(ids(&take(&direct, &member("me"), 9).await), ["b", set.task_id(0).as_str()]);
    broker.finish_set(&set, &SetOutcome { resend: true, ..outcome }).await.unwrap();
    let stats = direct.queue_stats(&queue()).await.unwrap();
    assert_eq!((stats.pending, stats.active, stats.size, stats.aggregating), (0, 2, 2, 0));
}

/// A failover may lose the receipt; the ids of made tasks are derived from the id of the set.
#[tokio::test]
async fn an_ended_set_is_recognised_by_the_task_that_was_made_of_it() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let set = gather(&broker, &["a", "b", "c"]).await;
    let outcome = outcome(&set);
    broker.finish_set(&set, &outcome).await.unwrap();
    let receipt = format!("asynq:{{default}}:x:set:{}", set.id);
    let ttl: i64 = redis.ttl(&receipt).await.unwrap();
    assert!((1..=600).contains(&ttl), "it ends by itself: {ttl}");
    let () = redis.del(&receipt).await.unwrap();
    broker.finish_set(&set, &SetOutcome { resend: true, ..outcome }).await.unwrap();
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().pending, 2);
}

#[tokio::test]
async fn only_the_task_whose_group_is_of_a_foreign_type_is_refused() {
    for (foreign, fits) in [(GROUP, true), (GROUPS, false)] {
        let (_server, broker, mut redis) = Server::with_broker().await;
        let () = redis.set(foreign, "of a foreign program").await.unwrap();
        let mut locked = grouped("locked", "g");
        locked.unique = Some(UniqueLock { key: "asynq:{default}:unique:k".into(), ttl: Duration::from_secs(60) });
        let outcomes = broker.enqueue(vec![grouped("a", "g"), task("b"), grouped("c", "h"), locked]).await;
        for refused in [&outcomes[0], &outcomes[3]] {
            let Err(Refused::Broker(error)) = refused else { panic!("{refused:?}") };
            assert_eq!(error.kind(), BrokerErrorKind::Corrupt);
        }
        assert_eq!((outcomes[1].is_ok(), outcomes[2].is_ok()), (true, fits), "{outcomes:?}");
        for key in ["t:a", "t:locked", "unique:k"] {
            assert!(
                !redis.exists::<_, bool>(format!("asynq:{{default}}:{key}")).await.unwrap(),
                "{key} was left behind"
            );
        }
        assert_eq!(ids(&take(&broker, &member("me"), 9).await), ["b"]);
        let () = redis.del(foreign).await.unwrap();
        let listed = broker.groups(&queue(), None, 10).await.unwrap().groups;
        assert_eq!(
            listed.iter().map(|stats| stats.group.as_str()).collect::<Vec<_>>(),
            if fits { vec!["h"] } else { vec![] }
        );
    }
}

#[tokio::test]
async fn a_due_task_whose_group_is_of_a_foreign_type_runs_alone() {
    for foreign in [GROUP, GROUPS] {
        let server = Server::start(&[]);
        let mut redis = server.foreign().await;
        let (broker, clock) = with_clock(&server).await;
        for (id, group) in [("a", Some("g")), ("b", None)] {
            let mut later = group.map_or_else(|| task(id), |group| grouped(id, group));
            later.when = When::In(Duration::from_secs(5));
            broker.enqueue(vec![later]).await.remove(0).unwrap();
        }
        aside(&mut redis, foreign).await;
        clock.advance(Duration::from_secs(6));
        assert_eq!(broker.forward(&[queue()], RetryOrder::Last).await.unwrap().moved, 2);
        assert_eq!(ids(&take(&broker, &member("me"), 9).await), ["a", "b"], "{foreign}");
    }
}

#[tokio::test]
async fn nothing_is_forwarded_half_way_where_a_list_is_of_a_foreign_type() {
    for foreign in ["pending", "scheduled", "retry", "x:due"] {
        let server = Server::start(&[]);
        let mut redis = server.foreign().await;
        let (broker, clock) = with_clock(&server).await;
        let mut later = task("a");
        later.when = When::In(Duration::from_secs(5));
        broker.enqueue(vec![later]).await.remove(0).unwrap();
        clock.advance(Duration::from_secs(6));
        let key = format!("asynq:{{default}}:{foreign}");
        aside(&mut redis, &key).await;
        assert_eq!(
            broker.forward(&[queue()], RetryOrder::Last).await.unwrap_err().kind(),
            BrokerErrorKind::Corrupt,
            "{foreign}"
        );
        back(&mut redis, &key).await;
        assert_eq!(broker.forward(&[queue()], RetryOrder::Last).await.unwrap().moved, 1, "{foreign}");
        assert_eq!(ids(&take(&broker, &member("me"), 9).await), ["a"], "{foreign}");
    }
}

#[tokio::test]
async fn a_set_waits_where_a_container_is_of_a_foreign_type() {
    for foreign in ["pending", "aggregation_sets"] {
        let (_server, broker, mut redis) = Server::with_broker().await;
        let set = gather(&broker, &["a", "b", "c"]).await;
        // A lock that is freed with the set.
        let lock = "asynq:{default}:unique:email:k";
        let () = redis.hset("asynq:{default}:t:c", "unique_key", lock).await.unwrap();
        let () = redis.set(lock, "c").await.unwrap();
        let key = format!("asynq:{{default}}:{foreign}");
        aside(&mut redis, &key).await;
        let before = dump(&mut redis).await;
        let both = outcome(&set);
        let only_made = SetOutcome { alone: Vec::new(), ..both.clone() };
        let only_alone = SetOutcome { made: Vec::new(), ..both.clone() };
        for outcome in [both, only_made, only_alone] {
            let refused = broker.finish_set(&set, &outcome).await;
            let Err(SetError::Refused(Refused::Broker(error))) = &refused else { panic!("{refused:?}") };
            assert_eq!(error.kind(), BrokerErrorKind::Corrupt, "{foreign}: {error}");
            assert!(dump(&mut redis).await == before, "{foreign}: {outcome:?} changed something");
        }
        back(&mut redis, &key).await;
        broker.finish_set(&set, &outcome(&set)).await.unwrap();
        assert_eq!(broker.queue_stats(&queue()).await.unwrap().pending, 2);
    }
}

#[tokio::test]
async fn nothing_is_claimed_half_way_where_a_key_is_of_a_foreign_type() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    broker.enqueue(vec![grouped("a", "g")]).await.remove(0).unwrap();
    for key in [GROUPS, "asynq:{default}:aggregation_sets"] {
        aside(&mut redis, key).await;
        let rules = GroupRules { max_size: Some(1), ..GroupRules::default() };
        let error = broker.claim_set(&queue(), &GroupName::new("g").unwrap(), &rules).await.unwrap_err();
        assert_eq!(error.kind(), BrokerErrorKind::Corrupt, "{key}");
        back(&mut redis, key).await;
        assert_eq!(broker.groups(&queue(), None, 9).await.unwrap().groups[0].size, 1, "{key}");
    }
    assert!(claim(&broker, 1).await.is_some());
}

#[tokio::test]
async fn a_set_that_cannot_go_back_does_not_keep_the_others_waiting() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, clock) = with_clock(&server).await;
    let stuck = gather(&broker, &["a"]).await;
    clock.advance(Duration::from_secs(1));
    let h = GroupName::new("h").unwrap();
    broker.enqueue(vec![grouped("b", "h")]).await.remove(0).unwrap();
    let rules = GroupRules { max_size: Some(1), ..GroupRules::default() };
    broker.claim_set(&queue(), &h, &rules).await.unwrap().unwrap();
    let () = redis.set(GROUP, "of a foreign program").await.unwrap();
    let sets = "asynq:{default}:aggregation_sets";
    // Entries that do not name a set go away.
    for nonsense in ["asynq:{default}:g:x:gone", "asynq:{other}:g:x:y", "nonsense", ""] {
        let () = redis.zadd(sets, nonsense, 1).await.unwrap();
    }
    clock.advance(Duration::from_secs(130));
    assert_eq!(broker.reclaim_sets(&queue()).await.unwrap(), 1);
    let left: Vec<String> = redis.zrange(sets, 0, -1).await.unwrap();
    assert_eq!(left, [format!("{GROUP}:{}", stuck.id)]);
    let now = clock_now(&broker).timestamp();
    assert_eq!(redis.zcount::<_, _, _, usize>(sets, 0, now).await.unwrap(), 0, "it is not looked at again at once");
    let () = redis.del(GROUP).await.unwrap();
    clock.advance(Duration::from_secs(130));
    assert_eq!(broker.reclaim_sets(&queue()).await.unwrap(), 1);
    assert_eq!(broker.groups(&queue(), None, 9).await.unwrap().groups.len(), 2);
}

#[tokio::test]
async fn an_id_whose_task_lives_elsewhere_is_not_a_part_of_a_set_and_keeps_its_task() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    put(&broker, &["elsewhere"]).await;
    let () = redis.set("asynq:{default}:t:foreign", "no task").await.unwrap();
    broker.enqueue(vec![grouped("a", "g")]).await.remove(0).unwrap();
    for id in ["elsewhere", "foreign"] {
        let () = redis.zadd(GROUP, id, 1).await.unwrap();
    }
    let set = claim(&broker, 1).await.unwrap();
    assert_eq!(set.members.iter().map(|member| member.id.as_str()).collect::<Vec<_>>(), ["a"]);
    // A client runs a task of the set by hand, before the set ends.
    let () = redis.hset("asynq:{default}:t:a", "state", "pending").await.unwrap();
    let () = redis.lpush("asynq:{default}:pending", "a").await.unwrap();
    broker.finish_set(&set, &SetOutcome::default()).await.unwrap();
    assert_eq!(ids(&take(&broker, &member("me"), 9).await), ["elsewhere", "a"]);
}

#[tokio::test]
async fn a_set_of_large_tasks_is_smaller() {
    let server = Server::start(&[]);
    let broker = server.broker().await;
    for i in 0..10 {
        let mut large = grouped(&format!("t{i}"), "g");
        large.message.payload = vec![0; 1 << 20].into();
        broker.enqueue(vec![large]).await.remove(0).unwrap();
    }
    let sizes = [claim(&broker, 10).await, claim(&broker, 2).await].map(|set| set.map(|set| set.members.len()));
    assert_eq!(sizes, [Some(4), Some(2)]);
    assert_eq!(broker.groups(&queue(), None, 9).await.unwrap().groups[0].size, 4);
}

#[tokio::test]
async fn lost_groups_are_found_in_queues_of_any_characters() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let strange = asynq_runtime::task::QueueName::new(r"a*[b]?\").unwrap();
    let plain = asynq_runtime::task::QueueName::new("ab").unwrap();
    for queue in [&strange, &plain] {
        let mut new = grouped("t1", "g");
        new.message.queue = queue.to_string();
        new.queue = queue.clone();
        broker.enqueue(vec![new]).await.remove(0).unwrap();
        let () = redis.del(format!("asynq:{{{queue}}}:groups")).await.unwrap();
    }
    assert_eq!(broker.restore_groups(std::slice::from_ref(&strange)).await.unwrap(), 1);
    assert_eq!(broker.groups(&strange, None, 9).await.unwrap().groups.len(), 1);
    assert!(broker.groups(&plain, None, 9).await.unwrap().groups.is_empty(), "the other queue was not looked at");
    assert_eq!(broker.restore_groups(&[plain, strange]).await.unwrap(), 1);
}

#[tokio::test]
async fn a_grouped_task_that_gos_tools_ran_stays_alone_when_it_is_retried() {
    let server = Server::start(&[]);
    let (broker, clock) = with_clock(&server).await;
    let mut redis = server.foreign().await;
    broker.enqueue(vec![grouped("t1", "g")]).await.remove(0).unwrap();
    // Go's `runTaskCmd`.
    let () = redis.zrem(GROUP, "t1").await.unwrap();
    let () = redis.lpush("asynq:{default}:pending", "t1").await.unwrap();
    let () = redis.hset("asynq:{default}:t:t1", "state", "pending").await.unwrap();
    let run = take(&broker, &member("me"), 1).await.remove(0);
    settle(&broker, &run, retry(Duration::from_secs(1))).await;
    clock.advance(Duration::from_secs(2));
    broker.forward(&[queue()], RetryOrder::Last).await.unwrap();
    assert_eq!(ids(&take(&broker, &member("me"), 1).await), ["t1"]);
}

#[job]
async fn nothing() -> JobResult {
    Ok(())
}

/// An eviction takes the tasks of a group and leaves the name of the group behind.
#[tokio::test]
async fn the_name_of_a_group_without_tasks_does_not_keep_a_server_from_being_drained() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let () = redis.sadd(GROUPS, "gone").await.unwrap();
    let worker = Worker::builder("").broker(Arc::new(server.broker().await));
    let worker = worker.registry(Registry::only::<(nothing,)>().unwrap());
    let worker = worker.aggregate("", |_, _| Err::<RawTask, _>("there are no tasks"));
    let running = worker.build().await.unwrap().start().await.unwrap();
    soon(running.drained()).await.unwrap();
    assert!(!redis.exists::<_, bool>(GROUPS).await.unwrap());
    running.shutdown().await.unwrap();
}
