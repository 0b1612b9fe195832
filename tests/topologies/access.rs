//! Users with exactly the rights that docs/brokers.md names, and with fewer.

use std::time::Duration;

use asynq_runtime::{
    broker::{
        BrokerErrorKind, BulkAction, Changed, Consume as _, Inspect as _, Maintain as _, Member, NewTask, Page,
        Presence as _, Produce as _, Quarantined, Refused, Repair as _, RetryOrder, Run, Settle as _, Settled,
        Settlement, Wanted, redis::RedisBroker,
    },
    task::{ServerInfo, TaskState},
};
use asynq_test_support::Log;
use asynq_tests::{
    Build as _, Persistence, RedisCluster, RedisServer, Seeded as _, SentinelServers, archive, complete, default_queue,
    done, lock_key, queue, requeue, retry, soon, task, task_id,
};

use crate::topologies::{connect, ended};

/// The ACL rule of the guide, word for word.
fn documented() -> Vec<String> {
    let guide = include_str!("../../docs/brokers.md");
    let rule = guide.lines().find_map(|line| line.strip_prefix("ACL SETUSER jobs on >password ")).expect("the rule");
    rule.split(' ').map(str::to_owned).collect()
}

fn set_user(connection: &mut redis::Connection, rights: &[String]) {
    let mut command = redis::cmd("ACL");
    command.arg("SETUSER").arg("jobs").arg("reset").arg("on").arg(">password").arg(rights);
    command.exec(connection).unwrap();
}

/// Asserts that the calls of clients and workers work, and a move to a queue whose keys the same script may not reach.
async fn works(url: &str) {
    let broker = connect(url).await.unwrap();
    broker.enqueue(vec![task("t1")]).await.remove(0).unwrap();
    // Long messages are sent apart from the scripts in both directions; a dequeue knows of them from the one before.
    for id in ["t2", "t3"] {
        broker.enqueue(vec![task(id).with_payload(id.repeat(20_000))]).await.remove(0).unwrap();
    }
    broker.enqueue(vec![task("moved")]).await.remove(0).unwrap();
    let moved = broker.move_task(&default_queue(), &task_id("moved"), &queue("low")).await.unwrap();
    assert_eq!(moved, Changed::Done);
    let member = asynq_tests::join(&broker, 1).await;
    let queue = default_queue();
    soon(broker.wait_for_work(std::slice::from_ref(&queue), Quarantined::All, Duration::from_secs(3600)))
        .await
        .unwrap();
    let wanted = [asynq_runtime::broker::Wanted { queue: queue.clone(), n: 1 }];
    let runs = broker.dequeue(&member, &wanted).await.unwrap();
    for id in ["t2", "t3"] {
        assert_eq!(broker.dequeue(&member, &wanted).await.unwrap()[0].key.id, id);
    }
    broker.extend(&[runs[0].key.clone()]).await.remove(0).unwrap();
    broker.settle(&[ended(&runs[0])]).await.remove(0).unwrap();
    broker.forward(std::slice::from_ref(&queue), RetryOrder::Last).await.unwrap();
    broker.recover(std::slice::from_ref(&queue)).await.unwrap();
    let mut cancellations = broker.cancellations().await.unwrap();
    broker.cancel(&task_id("t1")).await.unwrap();
    assert_eq!(soon(cancellations.next()).await.unwrap().as_str(), "t1");
    broker.beat(&member, &ServerInfo::default(), &[]).await.unwrap();
    assert_eq!(broker.servers().await.unwrap().len(), 1);
    broker.leave(&member).await.unwrap();
}

#[tokio::test]
async fn the_documented_rights_are_enough() {
    let server = RedisServer::start(Persistence::None);
    set_user(&mut server.connection(), &documented());
    works(&format!("redis://jobs:password@127.0.0.1:{}/0", server.port())).await;
}

#[tokio::test]
async fn the_documented_rights_are_enough_in_a_cluster() {
    let cluster = RedisCluster::start();
    for node in 0..3 {
        let mut words = vec!["ACL".to_owned(), "SETUSER".into(), "jobs".into(), "on".into(), ">password".into()];
        words.extend(documented());
        cluster.command::<()>(node, &words.iter().map(String::as_str).collect::<Vec<_>>());
    }
    works(&format!("redis-cluster://jobs:password@{}", cluster.nodes())).await;
}

#[tokio::test]
async fn a_sharded_redis_behind_one_endpoint_is_used_as_one_server() {
    let sharded = RedisCluster::behind_one_endpoint();
    let mut words = vec!["ACL".to_owned(), "SETUSER".into(), "jobs".into(), "on".into(), ">password".into()];
    words.extend(documented());
    // INFO would tell that this is a node of a cluster.
    words.push("-info".into());
    sharded.command::<()>(0, &words.iter().map(String::as_str).collect::<Vec<_>>());
    works(&format!("redis://jobs:password@127.0.0.1:{}", sharded.port(0))).await;
}

#[tokio::test]
async fn where_tracking_is_refused_a_cluster_is_polled() {
    let cluster = RedisCluster::start();
    for node in 0..3 {
        let rules = ["ACL", "SETUSER", "jobs", "on", ">password", "~*", "&*", "+@all", "-client|tracking"];
        cluster.command::<()>(node, &rules);
    }
    let broker = connect(&format!("redis-cluster://jobs:password@{}", cluster.nodes())).await.unwrap();
    let other = connect(&cluster.url()).await.unwrap();
    let (queues, hour) = ([default_queue()], Duration::from_secs(3600));
    let enqueued = async { other.enqueue(vec![task("t1")]).await.remove(0).unwrap() };
    let (ready, _) = tokio::join!(soon(broker.wait_for_work(&queues, Quarantined::All, hour)), enqueued);
    assert_eq!(ready.unwrap(), queues);
    let deleted =
        async { other.change_task(&default_queue(), &task_id("t1"), None, BulkAction::Delete).await.unwrap() };
    let (is_idle, _) = tokio::join!(soon(broker.wait_until_idle(&queues, hour)), deleted);
    assert!(is_idle.unwrap());
}

/// The connection for announcements is made again only a minute after a refusal, which may be over by then.
#[tokio::test]
async fn a_wait_at_the_one_node_that_refuses_announcements_looks_from_time_to_time() {
    let cluster = RedisCluster::start();
    let owner = cluster.owner(cluster.slot("asynq:{default}:lease"));
    for node in 0..3 {
        let tracking = if node == owner { "-client|tracking" } else { "+client|tracking" };
        let rules = ["ACL", "SETUSER", "jobs", "on", ">password", "~*", "&*", "+@all", tracking];
        cluster.command::<()>(node, &rules);
    }
    let broker = connect(&format!("redis-cluster://jobs:password@{}", cluster.nodes())).await.unwrap();
    broker.enqueue(vec![task("t1")]).await.remove(0).unwrap();
    let (queue, id) = (default_queue(), task_id("t1"));
    let deleted = async { broker.change_task(&queue, &id, None, BulkAction::Delete).await.unwrap() };
    let (end, _) = tokio::join!(soon(broker.wait_for_end(&queue, &id, Duration::from_secs(3600))), deleted);
    end.unwrap();
}

#[tokio::test]
async fn the_documented_rights_are_enough_behind_sentinels() {
    let servers = SentinelServers::start();
    let mut words = vec!["ACL".to_owned(), "SETUSER".into(), "jobs".into(), "on".into(), ">password".into()];
    words.extend(documented());
    servers.command::<()>(0, &words.iter().map(String::as_str).collect::<Vec<_>>());
    works(&format!("redis-sentinel://jobs:password@{}", servers.hosts())).await;
}

#[tokio::test]
async fn a_user_without_scripts_is_refused_with_the_reason() {
    let server = RedisServer::start(Persistence::None);
    let mut rights = documented();
    rights.push("-@scripting".into());
    set_user(&mut server.connection(), &rights);
    let broker = connect(&format!("redis://jobs:password@127.0.0.1:{}/0", server.port())).await.unwrap();
    let refused = broker.enqueue(vec![task("t1")]).await.remove(0).unwrap_err();
    let Refused::Broker(error) = &refused else { panic!("{refused:?}") };
    assert_eq!(error.kind(), BrokerErrorKind::Denied, "{error:?}");
    assert!(error.to_string().contains("permission"), "{error}");
    assert!(!format!("{error:?}").contains("password"), "{error:?}");
}

/// Redis runs a script up to the command that its user may not call, and rolls nothing back.
#[tokio::test]
async fn outcomes_of_one_batch_that_is_refused_half_way_are_stored_once_the_right_is_back() {
    let server = RedisServer::start(Persistence::None);
    let mut admin = server.connection();
    let (broker, member) = with_documented_rights(&server).await;
    let outcomes = [
        (done(), None),
        (complete("1"), Some(TaskState::Completed)),
        (retry(Duration::from_secs(3600), "canary"), Some(TaskState::Retry)),
        (archive("canary"), Some(TaskState::Archived)),
        (requeue(), Some(TaskState::Pending)),
    ];
    for right in ["hdel", "zrem", "zadd", "del", "lrem", "rpush", "hset", "pexpire", "zrange", "zrangebyscore"] {
        let mut refused = 0;
        for (n, [first, second]) in outcomes.iter().flat_map(|a| outcomes.iter().map(move |b| [a, b])).enumerate() {
            let mut runs = Vec::new();
            for (place, outcome) in [first, second].into_iter().enumerate() {
                let id = format!("{right}-{n}-{place}");
                runs.push((taken(&broker, &member, task(&id).with_retention(3600)).await, outcome));
            }
            let batch: Vec<_> = runs.iter().map(|(run, (action, _))| run.ends_with(action.clone())).collect();
            allow(&mut admin, &format!("-{right}"));
            let answers = broker.settle(&batch).await;
            let again = batch.into_iter().zip(answers).filter_map(|(settlement, answer)| match answer {
                Ok(settled) => {
                    assert_eq!(settled, Settled::Ok, "{right} {n}");
                    None
                }
                Err(error) => {
                    assert_eq!(error.kind(), BrokerErrorKind::Denied, "{right} {n}: {error:?}");
                    Some(Settlement { resend: true, ..settlement })
                }
            });
            let again: Vec<_> = again.collect();
            refused += again.len();
            for answer in broker.settle(&again).await {
                assert!(matches!(&answer, Err(_) | Ok(Settled::Ok)), "{right} {n}: {answer:?}");
            }
            allow(&mut admin, &format!("+{right}"));
            for answer in broker.settle(&again).await {
                assert_eq!(answer.unwrap(), Settled::Ok, "{right} {n}");
            }
            for (run, (action, state)) in &runs {
                let (queue, id) = (default_queue(), &run.key.id);
                let case = format!("{id} {action:?}");
                assert_eq!(broker.task(&queue, id).await.unwrap().map(|task| task.state), *state, "{case}");
                if let Some(state) = *state {
                    let listed = broker.tasks(&queue, state, Page::default()).await.unwrap();
                    assert!(listed.iter().any(|task| task.id == *id), "{case}");
                    broker.change_task(&queue, id, None, BulkAction::Delete).await.unwrap();
                }
            }
        }
        assert!(refused > 0, "{right}");
    }
}

/// Its lease is the last trace of the task where the worker does not come back.
#[tokio::test]
async fn a_success_that_is_refused_half_way_is_recovered_without_its_worker() {
    let server = RedisServer::start(Persistence::None);
    let mut admin = server.connection();
    let (broker, member) = with_documented_rights(&server).await;
    let run = taken(&broker, &member, task("t1")).await;
    allow(&mut admin, "-del");
    broker.settle(&[ended(&run)]).await.remove(0).unwrap_err();
    let lease = redis::cmd("ZSCORE").arg("asynq:{default}:lease").arg("t1").query::<Option<i64>>(&mut admin).unwrap();
    assert!(lease.is_some(), "recovery finds it");
}

async fn with_documented_rights(server: &RedisServer) -> (RedisBroker, Member) {
    set_user(&mut server.connection(), &documented());
    let broker = connect(&format!("redis://jobs:password@127.0.0.1:{}/0", server.port())).await.unwrap();
    let member = asynq_tests::join(&broker, 1).await;
    (broker, member)
}

async fn taken(broker: &RedisBroker, member: &Member, task: NewTask) -> Run {
    broker.enqueue(vec![task]).await.remove(0).unwrap();
    broker.dequeue(member, &[Wanted { queue: default_queue(), n: 1 }]).await.unwrap().remove(0)
}

/// Gives the user a right (`+zadd`) or takes it away.
fn allow(admin: &mut redis::Connection, right: &str) {
    redis::cmd("ACL").arg("SETUSER").arg("jobs").arg(right).exec(admin).unwrap();
}

#[tokio::test]
async fn a_lock_that_may_not_be_read_is_neither_free_nor_stuck() {
    let server = RedisServer::start(Persistence::None);
    let mut admin = server.connection();
    let (broker, _) = with_documented_rights(&server).await;
    broker.enqueue(vec![task("t1").locked(&lock_key("a"), 600)]).await.remove(0).unwrap();
    let mut refusals = Vec::new();
    for read in ["get", "hget"] {
        allow(&mut admin, &format!("-{read}"));
        refusals.push(broker.locks(&default_queue(), None).await.map_err(|error| error.kind()));
        allow(&mut admin, &format!("+{read}"));
    }
    assert_eq!(refusals, [Err(BrokerErrorKind::Denied), Err(BrokerErrorKind::Denied)]);
}

#[tokio::test]
async fn a_user_for_other_keys_is_refused_with_the_reason() {
    let server = RedisServer::start(Persistence::None);
    let mut rights = documented();
    rights.extend(["resetkeys".into(), "~other:*".into()]);
    set_user(&mut server.connection(), &rights);
    let broker = connect(&format!("redis://jobs:password@127.0.0.1:{}/0", server.port())).await.unwrap();
    let refused = broker.enqueue(vec![task("t1")]).await.remove(0).unwrap_err();
    assert!(matches!(&refused, Refused::Broker(error) if error.kind() == BrokerErrorKind::Denied), "{refused:?}");
}

#[tokio::test]
async fn sentinels_refuse_a_wrong_password_of_their_own() {
    let servers = SentinelServers::start();
    let url = servers.url().replace("watchword", "canary");
    let error = connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Denied, "{error:?}");
    assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    assert!(error.to_string().contains("(sentinel_user and sentinel_pass)"), "{error}");
}

/// The advice for a server that hides its policy would turn the check off, and change nothing.
#[tokio::test]
async fn a_node_that_refuses_the_login_is_told_with_its_reason_and_not_as_one_that_hides_its_policy() {
    let (cluster, log) = (RedisCluster::start(), Log::keep());
    let mut words = vec!["ACL".to_owned(), "SETUSER".into(), "jobs".into(), "on".into(), ">password".into()];
    words.extend(documented());
    cluster.command::<()>(0, &words.iter().map(String::as_str).collect::<Vec<_>>());
    let node = format!("127.0.0.1:{}", cluster.port(0));
    let broker = connect(&format!("redis-cluster://jobs:password@{node}")).await.unwrap();
    let warned = log.with("a node of the cluster cannot be used");
    assert!(warned.len() == 1 && warned[0].contains("check user and password"), "{log:?}");
    assert_eq!(log.with("maxmemory-policy").len(), 0, "{log:?}");
    drop(broker);
}
