//! The inspector has a connection of its own, so that a long page cannot take the worker's away.

use std::{collections::BTreeSet, time::Instant};

use asynq_runtime::{
    broker::{Inspect, Maintain, Page, Presence, Produce, Schedules, TaskBrief},
    task::{ServerInfo, TaskState},
};
use asynq_test_support::eventually;

use super::{
    groups::grouped,
    server::{FRESH, Server},
    tasks::{member, put, queue, scripts, take, task},
};
use crate::answered;

/// Returns the ids of the connections to this server but for `redis` itself.
async fn connections(redis: &mut redis::aio::MultiplexedConnection) -> BTreeSet<i64> {
    let own: i64 = redis::cmd("CLIENT").arg("ID").query_async(redis).await.unwrap();
    let list: String = redis::cmd("CLIENT").arg("LIST").query_async(redis).await.unwrap();
    let ids = list.lines().filter_map(|line| line.strip_prefix("id=")?.split(' ').next()?.parse().ok());
    ids.filter(|&id| id != own).collect()
}

#[tokio::test]
async fn a_page_of_large_tasks_is_read_by_scripts_of_a_mebibyte_each() {
    const TASKS: usize = 12;
    let (_server, broker, mut redis) = Server::with_broker().await;
    for n in 0..TASKS {
        for mut large in [task(&format!("t{n:02}")), grouped(&format!("g{n:02}"), "g")] {
            large.message.payload = vec![7; 400 << 10].into();
            broker.enqueue(vec![large]).await.remove(0).unwrap();
        }
    }
    for state in [TaskState::Pending, TaskState::Aggregating] {
        let before = scripts(&mut redis).await;
        let page = Page { number: 1, size: TASKS };
        let page = broker.list(&queue(), state, None, page, Some(TaskBrief::BYTES)).await.unwrap();
        assert_eq!(page.len(), TASKS);
        assert!(
            page.iter()
                .all(|brief| { brief.task.payload.len() == TaskBrief::BYTES && brief.payload_size == 400 << 10 })
        );
        // Each script reads three tasks. A call whose script Redis does not know yet does not count.
        assert!(scripts(&mut redis).await - before >= TASKS as u64 / 3, "{state}");
    }
}

#[tokio::test]
async fn a_page_is_read_on_a_connection_that_no_worker_uses() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    put(&broker, &["t1", "t2"]).await;
    let runs = take(&broker, &member("s"), 1).await;
    let before = connections(&mut redis).await;
    let page = async || {
        let tasks = broker.tasks(&queue(), TaskState::Pending, Page::default()).await.unwrap();
        tasks.into_iter().map(|task| task.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(page().await, ["t2"]);
    let with_looking = connections(&mut redis).await;
    let looking: Vec<i64> = with_looking.difference(&before).copied().collect();
    assert_eq!(looking.len(), 1, "the first look opens it: {before:?}, {with_looking:?}");
    assert_eq!(page().await, ["t2"]);
    assert_eq!(connections(&mut redis).await, with_looking, "and the next ones share it");

    // A connection that is cut off, as by a time-out of its own, takes no other along.
    let _: i64 = redis::cmd("CLIENT").arg("KILL").arg("ID").arg(looking[0]).query_async(&mut redis).await.unwrap();
    answered(broker.extend(&[runs[0].key.clone()]).await);
    assert!(connections(&mut redis).await.is_superset(&before), "the worker's connections are as they were");
}

#[tokio::test]
async fn servers_and_the_history_of_an_entry_are_read_on_a_connection_that_no_worker_uses() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let before = connections(&mut redis).await;
    assert_eq!(broker.servers().await.unwrap(), []);
    let with_looking = connections(&mut redis).await;
    let looking: Vec<i64> = with_looking.difference(&before).copied().collect();
    assert_eq!(looking.len(), 1, "the list of names opens it: {before:?}, {with_looking:?}");

    // The connection's last command tells which calls it carries.
    let last = async |redis: &mut redis::aio::MultiplexedConnection| {
        let list: redis::RedisResult<String> =
            redis::cmd("CLIENT").arg("LIST").arg("ID").arg(looking[0]).query_async(redis).await;
        let list = list.unwrap();
        list.split(' ').find_map(|field| field.strip_prefix("cmd=")).unwrap_or_default().to_owned()
    };
    let of_servers = eventually("a look while the server is listed", async || {
        let began = Instant::now();
        broker.join(&member("s").name, &ServerInfo::default()).await.unwrap();
        broker.servers().await.unwrap();
        let of_servers = last(&mut redis).await;
        (began.elapsed() < FRESH).then_some(of_servers)
    });
    assert_eq!(of_servers.await, "pttl", "what each server runs");
    assert_eq!(broker.enqueue_history("entry", Page::default()).await.unwrap(), []);
    assert_eq!(last(&mut redis).await, "zrevrange");
    assert_eq!(connections(&mut redis).await, with_looking, "and all share it");
}
