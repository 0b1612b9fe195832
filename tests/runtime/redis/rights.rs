//! A login that loses a right, under a program that runs: Redis then refuses one command inside a script, which says nothing about the
//! key that the command named. No task is lost by it, and each call that could not do its work says why.

use std::{collections::BTreeSet, time::Duration};

use asynq_runtime::{
    broker::{
        Action, BrokerError, BrokerErrorKind, BulkAction, Chosen, Consume, Diagnose, GroupRules, Groups, Maintain,
        Oddity, OddityKind, Produce, Refused, Repair, RetryOrder, SetError, SetOutcome, Settle as _, Settled, TaskSet,
        UniqueLock, Wanted, When, redis::RedisBroker,
    },
    task::{GroupName, TaskState},
};
use redis::{AsyncCommands, aio::MultiplexedConnection};

use super::{groups::grouped, repair::set, server::Server, tasks::*};

/// Takes a right from the login of the broker, or gives it back.
async fn change(redis: &mut MultiplexedConnection, right: &str) {
    set(redis, &["ACL", "SETUSER", "default", right]).await;
}

async fn dequeue(broker: &RedisBroker) -> Result<Vec<String>, BrokerError> {
    let runs = broker.dequeue(&member("me"), &[Wanted { queue: queue(), n: 64 }]).await?;
    Ok(ids(&runs).into_iter().map(str::to_owned).collect())
}

#[tokio::test]
async fn a_worker_without_a_right_takes_no_task_and_says_so() {
    let server = Server::start(&[]);
    let (mut redis, broker) = (server.foreign().await, server.broker().await);
    put(&broker, &["a", "b", "c", "d", "e"]).await;
    let before = dump(&mut redis).await;
    for command in ["hmget", "hset"] {
        change(&mut redis, &format!("-{command}")).await;
        let error = dequeue(&broker).await.unwrap_err();
        assert_eq!(error.kind(), BrokerErrorKind::Denied, "{command}: {error}");
        change(&mut redis, &format!("+{command}")).await;
        assert!(dump(&mut redis).await == before, "{command}: every task is as it was");
    }
    assert_eq!(dequeue(&broker).await.unwrap(), ["a", "b", "c", "d", "e"]);
}

#[tokio::test]
async fn a_run_whose_task_cannot_be_read_is_not_fenced_and_ends_later() {
    let server = Server::start(&[]);
    let (mut redis, broker) = (server.foreign().await, server.broker().await);
    put(&broker, &["a"]).await;
    let run = take(&broker, &member("me"), 1).await.remove(0);
    change(&mut redis, "-hmget").await;
    let extended = broker.extend(std::slice::from_ref(&run.key)).await.remove(0);
    assert_eq!(extended.unwrap_err().kind(), BrokerErrorKind::Denied);
    change(&mut redis, "+hmget").await;
    change(&mut redis, "-hget").await;
    let settled = broker.settle(&[settlement(&run, Action::Done)]).await.remove(0);
    assert_eq!(settled.unwrap_err().kind(), BrokerErrorKind::Denied, "its key holds a task");
    change(&mut redis, "+hget").await;
    assert_eq!(settle(&broker, &run, Action::Done).await, Settled::Ok);
}

#[tokio::test]
async fn a_lock_that_cannot_be_read_is_not_a_duplicate() {
    let server = Server::start(&[]);
    let (mut redis, broker) = (server.foreign().await, server.broker().await);
    let lock = "asynq:{default}:unique:email:k";
    // An earlier task that is gone left its lock.
    let () = redis.set(lock, "gone").await.unwrap();
    let mut new = task("a");
    new.unique = Some(UniqueLock { key: lock.into(), ttl: HOUR });
    change(&mut redis, "-get").await;
    let refused = broker.enqueue(vec![new.clone()]).await.remove(0).unwrap_err();
    assert!(matches!(&refused, Refused::Broker(error) if error.kind() == BrokerErrorKind::Denied), "{refused:?}");
    change(&mut redis, "+get").await;
    broker.enqueue(vec![new]).await.remove(0).unwrap();
}

/// The login of a worker may be narrower than its queue.
#[tokio::test]
async fn a_lock_that_is_out_of_reach_keeps_no_task_in_the_archive() {
    let server = Server::start(&[]);
    let (mut redis, broker) = (server.foreign().await, server.broker().await);
    put(&broker, &["a"]).await;
    let run = take(&broker, &member("me"), 1).await.remove(0);
    assert_eq!(settle(&broker, &run, archive()).await, Settled::Ok);
    let () = redis.hset("asynq:{default}:t:a", "unique_key", "asynq:{default}:unique:k").await.unwrap();
    set(&mut redis, &["ACL", "SETUSER", "default", "resetkeys", "~asynq:{default}:[^u]*"]).await;
    assert_eq!(broker.trim_archive(&queue(), HOUR, 0, 100).await.unwrap(), 1);
    assert!(!redis.exists::<_, bool>("asynq:{default}:t:a").await.unwrap());
}

/// A client that may write into one queue alone chooses ids, and writes any key into the hash of its task.
#[tokio::test]
async fn a_task_frees_no_lock_of_another_queue() {
    let server = Server::start(&[]);
    let (mut redis, broker) = (server.foreign().await, server.broker().await);
    let lock = "asynq:{other}:unique:email:k";
    put(&broker, &["trimmed", "replaced"]).await;
    let runs = take(&broker, &member("me"), 2).await;
    assert_eq!(ids(&runs), ["trimmed", "replaced"]);
    for id in ids(&runs) {
        let () = redis.hset(format!("asynq:{{default}}:t:{id}"), "unique_key", lock).await.unwrap();
    }

    let () = redis.set(lock, "trimmed").await.unwrap();
    assert_eq!(settle(&broker, &runs[0], archive()).await, Settled::Ok);
    assert_eq!(broker.trim_archive(&queue(), HOUR, 0, 100).await.unwrap(), 1);
    assert!(redis.exists::<_, bool>(lock).await.unwrap(), "the trim left it");

    let () = redis.set(lock, "replaced").await.unwrap();
    // The mark that a later enqueue leaves.
    let () = redis.hset("asynq:{default}:t:replaced", "x", &b"\x38\x01\x60\x00"[..]).await.unwrap();
    assert_eq!(settle(&broker, &runs[1], retry(HOUR)).await, Settled::Ok);
    assert!(!redis.exists::<_, bool>("asynq:{default}:t:replaced").await.unwrap(), "it counts as replaced");
    assert!(redis.exists::<_, bool>(lock).await.unwrap(), "the outcome left it");
}

/// The commands by which scripts look at tasks and places, and the one that writes a task.
const RIGHTS: [&str; 10] = ["hget", "hmget", "hstrlen", "hset", "get", "exists", "type", "zcard", "zscore", "zrange"];

/// The housekeeping of a queue, and what people do to many tasks at a time.
const CALLS: [&str; 11] = [
    "dequeue",
    "forward",
    "recover",
    "sweep",
    "trim",
    "delete expired",
    "claim",
    "finish",
    "reclaim",
    "run all",
    "archive group",
];
/// The calls that delete tasks whose time has come.
const DELETE: [&str; 3] = ["trim", "delete expired", "finish"];

/// Puts tasks into each place of an empty queue, and lets the time of all come. Returns a set that was claimed.
async fn fill(server: &Server, redis: &mut MultiplexedConnection) -> (RedisBroker, TaskSet) {
    set(redis, &["FLUSHALL"]).await;
    let (broker, clock) = with_clock(server).await;
    let group = |name: &str| GroupName::new(name).unwrap();
    let rules = GroupRules { max_size: Some(2), ..GroupRules::default() };
    for id in ["s1", "s2"] {
        broker.enqueue(vec![grouped(id, "set")]).await.remove(0).unwrap();
    }
    let claimed = broker.claim_set(&queue(), &group("set"), &rules).await.unwrap().unwrap();
    let mut new: Vec<_> = ["g1", "g2", "g3", "g4"].map(|id| grouped(id, "g")).into();
    for id in ["d1", "d2"] {
        let mut later = task(id);
        later.when = When::In(Duration::from_secs(60));
        new.push(later);
    }
    for answer in broker.enqueue(new).await {
        answer.unwrap();
    }
    let ends = [
        ("c1", Action::Complete { result: None }),
        ("c2", Action::Complete { result: None }),
        ("x1", archive()),
        ("x2", archive()),
        ("r1", retry(Duration::from_secs(60))),
        ("r2", retry(Duration::from_secs(60))),
    ];
    for (id, end) in ends {
        let mut new = task(id);
        new.message.retention = 60;
        broker.enqueue(vec![new]).await.remove(0).unwrap();
        let run = take(&broker, &member("me"), 1).await.remove(0);
        settle(&broker, &run, end).await;
    }
    put(&broker, &["a1", "a2"]).await;
    assert_eq!(take(&broker, &member("me"), 2).await.len(), 2);
    put(&broker, &["p1", "p2"]).await;
    clock.advance(2 * HOUR);
    (broker, claimed)
}

async fn call(broker: &RedisBroker, name: &str, claimed: &TaskSet) -> Result<(), BrokerError> {
    let (queue, group) = (queue(), GroupName::new("g").unwrap());
    match name {
        "dequeue" => dequeue(broker).await.map(drop),
        "forward" => broker.forward(&[queue], RetryOrder::First).await.map(drop),
        "recover" => broker.recover(&[queue]).await.map(drop),
        "sweep" => broker.sweep(&queue).await.map(drop),
        "trim" => broker.trim_archive(&queue, HOUR, 100, 100).await.map(drop),
        "delete expired" => broker.delete_expired(&queue, 100).await.map(drop),
        "claim" => broker.claim_set(&queue, &group, &GroupRules::default()).await.map(drop),
        "finish" => match broker.finish_set(claimed, &SetOutcome::default()).await {
            Err(SetError::Refused(Refused::Broker(error))) => Err(error),
            answer => answer.map_err(|error| panic!("{error}")),
        },
        "reclaim" => broker.reclaim_sets(&queue).await.map(drop),
        "run all" => {
            let chosen = Chosen::InState(TaskState::Scheduled);
            broker.change_some(&queue, &chosen, BulkAction::Run, 100).await.map(drop)
        }
        "archive group" => {
            broker.change_some(&queue, &Chosen::InGroup(group), BulkAction::Archive, 100).await.map(drop)
        }
        _ => unreachable!(),
    }
}

/// Returns the rights that a call uses. Without another one it does the same.
async fn used_by(server: &Server, redis: &mut MultiplexedConnection, name: &str) -> Vec<&'static str> {
    let (broker, claimed) = fill(server, redis).await;
    set(redis, &["CONFIG", "RESETSTAT"]).await;
    call(&broker, name, &claimed).await.unwrap();
    let mut used = Vec::new();
    for right in RIGHTS {
        if calls(redis, right).await > 0 {
            used.push(right);
        }
    }
    used
}

async fn tasks_of(redis: &mut MultiplexedConnection) -> BTreeSet<String> {
    redis.keys("asynq:{default}:t:*").await.unwrap()
}

#[tokio::test]
async fn no_call_loses_a_task_for_a_right_that_is_missing() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let mut refused = 0;
    for name in CALLS {
        let used = used_by(&server, &mut redis, name).await;
        assert!(!used.is_empty(), "{name} looks at no task");
        for right in used {
            let (broker, claimed) = fill(&server, &mut redis).await;
            let before = tasks_of(&mut redis).await;
            change(&mut redis, &format!("-{right}")).await;
            let answer = call(&broker, name, &claimed).await;
            change(&mut redis, &format!("+{right}")).await;
            let why = format!("{name} without {right}: {answer:?}");
            if let Err(error) = &answer {
                assert_eq!(error.kind(), BrokerErrorKind::Denied, "{why}");
                refused += 1;
            }
            if answer.is_err() || !DELETE.contains(&name) {
                assert_eq!(tasks_of(&mut redis).await, before, "{why}");
            }
            // The next round of housekeeping mends the steps that a call left half done.
            broker.sweep(&queue()).await.unwrap();
            broker.recover(&[queue()]).await.unwrap();
            let mut found = broker.examine(&queue(), 1_000).await.unwrap().oddities;
            // A change of many tasks puts them into their new place before it writes them: there they run, or people see them.
            let is_bulk = ["run all", "archive group"].contains(&name);
            found.retain(|Oddity { kind, .. }| match kind {
                OddityKind::TaskInWrongPlace => false,
                OddityKind::TaskWithoutPlace => !is_bulk,
                _ => true,
            });
            assert_eq!(found, [], "{why}");
            assert!(
                !redis.exists::<_, bool>("asynq:{default}:x:orphans").await.unwrap(),
                "{why}: a task counted as gone"
            );
        }
    }
    assert!(refused > CALLS.len(), "{refused}: the rights matter");
}
