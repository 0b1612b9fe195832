//! Contract `Presence`: the servers that run, and the channel of cancel requests.

use std::{
    slice,
    time::{Duration, Instant},
};

use asynq_runtime::{
    TaskState,
    broker::{Broker, Changed, Member, RunKey, ServerName, Settled},
    task::{QueueWeight, ServerInfo, WorkerInfo},
};
use asynq_tests::{default_queue, done, eventually, polled, requeue, soon, task_id};
use bytes::Bytes;
use chrono::SubsecRound as _;

use super::Fixture;

const SECOND: Duration = Duration::from_secs(1);

/// Redis keeps a server's record for ten seconds, by its own clock as well; a probe within this time sees the record.
const FRESH: Duration = Duration::from_secs(8);

/// The value of `look`, which begins with a server's beat. A probe counts only if Redis kept the record until its end.
async fn fresh<T>(mut look: impl AsyncFnMut() -> T) -> T {
    eventually("a read soon after the heartbeats", async || {
        let began = Instant::now();
        let seen = look().await;
        (began.elapsed() < FRESH).then_some(seen)
    })
    .await
}

fn info(member: &Member, status: &str) -> ServerInfo {
    ServerInfo {
        host: member.name.host.clone(),
        pid: i32::try_from(member.name.pid).unwrap(),
        server_id: member.name.server_id.clone(),
        concurrency: 16,
        queues: vec![QueueWeight { queue: Some("default".into()), weight: Some(3) }],
        status: status.into(),
        ..ServerInfo::default()
    }
}

fn worker(member: &Member, id: &str) -> WorkerInfo {
    WorkerInfo {
        host: member.name.host.clone(),
        pid: i32::try_from(member.name.pid).unwrap(),
        server_id: member.name.server_id.clone(),
        task_id: id.into(),
        task_type: "email:send".into(),
        task_payload: Bytes::from_static(b"\x00payload"),
        queue: "default".into(),
        start_time: Some(asynq_tests::PINNED.into()),
        deadline: Some((asynq_tests::PINNED + SECOND).into()),
    }
}

async fn beat(t: &Fixture, member: &Member, status: &str, workers: &[WorkerInfo]) {
    t.broker().beat(member, &info(member, status), workers).await.unwrap();
}

async fn hosts(broker: &dyn Broker) -> Vec<String> {
    broker.servers().await.unwrap().into_iter().map(|server| server.info.host).collect()
}

async fn next(listener: &mut Box<dyn asynq_runtime::broker::Cancellations>) -> String {
    soon(listener.next()).await.unwrap().to_string()
}

#[tokio::test]
async fn a_server_that_joined_is_listed() {
    let (t, servers) = fresh(async || {
        let t = Fixture::start().await;
        let servers = t.broker().servers().await.unwrap();
        (t, servers)
    })
    .await;
    assert_eq!(servers.len(), 1);
    assert_eq!(servers[0].info.server_id, t.member().name.server_id);
    assert!(servers[0].workers.is_empty());
}

#[tokio::test]
async fn a_heartbeat_shows_the_server_and_its_runs() {
    let t = Fixture::start().await;
    let info = info(t.member(), "active");
    let workers = [worker(t.member(), "t1"), worker(t.member(), "t2")];

    let mut servers = fresh(async || {
        t.broker().beat(t.member(), &info, &workers).await.unwrap();
        t.broker().servers().await.unwrap()
    })
    .await;

    assert_eq!(servers.len(), 1);
    let server = servers.remove(0);
    assert_eq!(server.info, info);
    let mut seen = server.workers;
    seen.sort_by(|a, b| a.task_id.cmp(&b.task_id));
    assert_eq!(seen, workers);
}

#[tokio::test]
async fn each_beat_replaces_the_last() {
    let t = Fixture::start().await;
    let servers = fresh(async || {
        beat(&t, t.member(), "active", &[worker(t.member(), "t1")]).await;
        beat(&t, t.member(), "stopped", &[worker(t.member(), "t2")]).await;
        t.broker().servers().await.unwrap()
    });
    let server = servers.await.remove(0);
    assert_eq!(server.info.status, "stopped");
    assert_eq!(server.workers, [worker(t.member(), "t2")]);
    let servers = fresh(async || {
        beat(&t, t.member(), "stopped", &[]).await;
        t.broker().servers().await.unwrap()
    });
    assert!(servers.await.remove(0).workers.is_empty());
}

#[tokio::test]
async fn a_server_that_was_not_heard_of_for_ten_seconds_is_gone() {
    let t = Fixture::start().await;
    // Redis also counts the ten seconds by its own clock, so a probe counts only if it came within a second of the beat.
    let hosts_after_nine_seconds = eventually("a look within a second of the beat", async || {
        let began = Instant::now();
        t.broker().beat(t.member(), &info(t.member(), "active"), &[]).await.unwrap();
        t.advance(9 * SECOND);
        let hosts = hosts(t.broker()).await;
        (began.elapsed() < SECOND).then_some(hosts)
    });
    assert_eq!(hosts_after_nine_seconds.await, ["host-1"]);
    t.advance(2 * SECOND);
    assert!(hosts(t.broker()).await.is_empty());
}

#[tokio::test]
async fn a_beat_brings_a_server_back() {
    let t = Fixture::start().await;
    t.advance(60 * SECOND);
    assert!(hosts(t.broker()).await.is_empty());
    let back = fresh(async || {
        beat(&t, t.member(), "active", &[]).await;
        hosts(t.broker()).await
    });
    assert_eq!(back.await, ["host-1"]);
}

#[tokio::test]
async fn a_server_that_was_not_heard_of_still_owns_its_runs() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    t.advance(5 * SECOND);
    t.extend(&run.key).await;
    t.advance(8 * SECOND);
    assert!(hosts(t.broker()).await.is_empty());
    assert_eq!(t.settle(&run, done()).await, Settled::Ok);
}

#[tokio::test]
async fn a_server_that_leaves_is_off_the_list() {
    let t = Fixture::start().await;
    let other = t.another_member(2).await;
    t.broker().leave(t.member()).await.unwrap();
    let left = fresh(async || {
        beat(&t, &other, "active", &[]).await;
        hosts(t.broker()).await
    });
    assert_eq!(left.await, ["host-2"]);
    t.broker().leave(&other).await.unwrap();
    assert!(hosts(t.broker()).await.is_empty());
}

#[tokio::test]
async fn servers_are_ordered_by_host_and_process() {
    let t = Fixture::start().await;
    let mut members = vec![t.member().clone()];
    for (host, pid) in [("b", 7), ("a", 40), ("b", 100), ("a", 5)] {
        let name = ServerName { host: host.into(), pid, server_id: format!("{host}-{pid}") };
        let member = Member { name: name.clone(), number: 0 };
        members.push(t.broker().join(&name, &info(&member, "active")).await.unwrap());
    }
    let servers = fresh(async || {
        for member in &members {
            beat(&t, member, "active", &[]).await;
        }
        t.broker().servers().await.unwrap()
    })
    .await;
    let order: Vec<_> = servers.iter().map(|server| (server.info.host.as_str(), server.info.pid)).collect();
    assert_eq!(order, [("a", 5), ("a", 40), ("b", 7), ("b", 100), ("host-1", 4001)]);
}

#[tokio::test]
async fn servers_of_another_process_are_listed() {
    let t = Fixture::start().await;
    let there = t.another_broker().await;
    let member = t.member_of(&*there, 2).await;
    let both = fresh(async || {
        beat(&t, t.member(), "active", &[]).await;
        there.beat(&member, &info(&member, "active"), &[]).await.unwrap();
        hosts(t.broker()).await
    });
    assert_eq!(both.await, ["host-1", "host-2"]);
    there.leave(&member).await.unwrap();
    let one = fresh(async || {
        beat(&t, t.member(), "active", &[]).await;
        hosts(t.broker()).await
    });
    assert_eq!(one.await, ["host-1"]);
}

#[tokio::test]
async fn members_that_join_are_distinguished() {
    let t = Fixture::start().await;
    let other = t.another_member(2).await;
    assert_ne!(*t.member(), other);
    assert_eq!(other.name.host, "host-2");
}

#[tokio::test]
async fn a_cancel_request_reaches_a_listener() {
    let t = Fixture::start().await;
    let mut listener = t.broker().cancellations().await.unwrap();
    t.broker().cancel(&task_id("t1")).await.unwrap();
    assert_eq!(next(&mut listener).await, "t1");
}

#[tokio::test]
async fn a_cancel_request_reaches_listeners_of_every_process() {
    let t = Fixture::start().await;
    let there = t.another_broker().await;
    let (mut here, mut over_there) = (t.broker().cancellations().await.unwrap(), there.cancellations().await.unwrap());
    t.broker().cancel(&task_id("t1")).await.unwrap();
    assert_eq!((next(&mut here).await, next(&mut over_there).await), ("t1".into(), "t1".into()));
    there.cancel(&task_id("t2")).await.unwrap();
    assert_eq!((next(&mut here).await, next(&mut over_there).await), ("t2".into(), "t2".into()));
}

#[tokio::test]
async fn cancel_requests_come_in_order_and_none_is_lost() {
    let t = Fixture::start().await;
    let mut listener = t.broker().cancellations().await.unwrap();
    let ids: Vec<String> = (0..50).map(|i| format!("t{i}")).collect();
    for id in &ids {
        t.broker().cancel(&task_id(id)).await.unwrap();
    }
    for id in &ids {
        assert_eq!(next(&mut listener).await, *id);
    }
}

#[tokio::test]
async fn waiting_can_be_given_up_without_losing_a_request() {
    let t = Fixture::start().await;
    let mut listener = t.broker().cancellations().await.unwrap();
    for polls in 1..30 {
        let id = format!("t{polls}");
        t.broker().cancel(&task_id(&id)).await.unwrap();
        // The wait is dropped at every moment from before the request comes to after its arrival.
        let received = match polled(listener.next(), polls).await {
            Some(received) => received.unwrap().to_string(),
            None => next(&mut listener).await,
        };
        assert_eq!(received, id);
    }
}

#[tokio::test]
async fn a_listener_receives_only_later_requests() {
    let t = Fixture::start().await;
    t.broker().cancel(&task_id("before")).await.unwrap();
    let mut listener = t.broker().cancellations().await.unwrap();
    t.broker().cancel(&task_id("after")).await.unwrap();
    assert_eq!(next(&mut listener).await, "after");
}

#[tokio::test]
async fn a_cancel_request_without_a_listener_is_not_an_error() {
    let t = Fixture::start().await;
    t.broker().cancel(&task_id("t1")).await.unwrap();
    drop(t.broker().cancellations().await.unwrap());
    t.broker().cancel(&task_id("t1")).await.unwrap();
}

#[tokio::test]
async fn a_request_to_a_run_is_not_one_to_the_next_run_of_its_task() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    let asked = async |run: &RunKey| {
        let mut answers = t.broker().asked_to_cancel(slice::from_ref(run)).await;
        assert_eq!(answers.len(), 1, "one answer per run");
        answers.remove(0).unwrap()
    };
    assert!(!asked(&run.key).await);
    let answer = t.broker().end_orphan(&default_queue(), &task_id("t1"), "lost").await.unwrap();
    assert_eq!(answer, Changed::Unfit(TaskState::Active));
    assert_eq!(t.settle(&run, requeue()).await, Settled::Ok);
    assert!(!asked(&t.take_one().await.key).await);
}

#[tokio::test]
async fn the_broker_names_its_kind() {
    use asynq_tests::Store;
    fn kind<S: Store>(_: &asynq_tests::Fixture<S>) -> &'static str {
        S::KIND
    }
    let t = Fixture::start().await;
    assert_eq!(t.broker().kind(), kind(&t));
    assert!(t.broker().location().contains(t.broker().kind()), "{}", t.broker().location());
    assert_eq!(t.broker().now().trunc_subsecs(3), t.now().trunc_subsecs(3));
    assert!(t.broker().lease() >= 10 * SECOND);
    t.broker().ping().await.unwrap();
}
