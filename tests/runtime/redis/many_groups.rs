//! The cost of calls on Redis where a queue has thousands of groups: every script is bounded by its result.

use std::collections::BTreeSet;

use asynq_runtime::{
    broker::{
        BulkAction, Chosen, Diagnose, GroupRules, Groups, Inspect, Maintain, NewTask, OddityKind, Page, Produce,
        QueueDeleted, Repair, redis::RedisBroker,
    },
    task::{QueueName, TaskState},
};
use redis::{AsyncCommands, aio::MultiplexedConnection};

use super::{
    groups::grouped,
    server::{Proxy, Server, patient},
    tasks::{calls, cost, queue},
};

/// More groups than ten steps of a walk have.
pub(crate) const GROUPS: usize = 3_000;
/// More commands than one script runs: names of one step, of which Redis may give some more than asked, and a page of tasks.
const PER_SCRIPT: u64 = 500;

fn in_group(n: usize) -> NewTask {
    grouped(&format!("t{n:04}"), &format!("customer-{n:04}"))
}

/// Returns a queue with one task in each of [`GROUPS`] groups.
pub(crate) async fn with_groups() -> (Server, MultiplexedConnection, RedisBroker) {
    let server = Server::start(&[]);
    let (redis, broker) = (server.foreign().await, server.broker().await);
    for outcome in broker.enqueue((0..GROUPS).map(in_group).collect()).await {
        outcome.unwrap();
    }
    (server, redis, broker)
}

async fn page(broker: &RedisBroker, number: usize, size: usize) -> Vec<String> {
    let tasks = broker.tasks(&queue(), TaskState::Aggregating, Page { number, size }).await.unwrap();
    tasks.into_iter().map(|task| task.id.to_string()).collect()
}

#[tokio::test]
async fn a_page_over_all_groups_costs_as_much_as_it_shows() {
    let (_server, mut redis, broker) = with_groups().await;
    let _ = page(&broker, 1, 1).await;
    let (first, scripts, commands) = cost(&mut redis, page(&broker, 1, 30)).await;
    assert_eq!((first.len(), scripts), (30, 1));
    assert!(commands <= PER_SCRIPT, "{commands} commands for 30 tasks");
    let (last, scripts, commands) = cost(&mut redis, page(&broker, GROUPS / 30, 30)).await;
    assert_eq!(last.len(), 30);
    assert!(scripts > 5 && commands / scripts <= PER_SCRIPT, "{commands} commands in {scripts} scripts");
    let mut seen = Vec::new();
    for number in 1..=GROUPS.div_ceil(70) + 1 {
        seen.extend(page(&broker, number, 70).await);
    }
    assert_eq!(seen.len(), GROUPS);
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>().len(), GROUPS, "each once");
}

#[tokio::test]
async fn a_page_of_groups_costs_as_much_as_it_shows_and_the_pages_are_all_groups() {
    let (_server, mut redis, broker) = with_groups().await;
    // These names have no task, and are more than one page may look at.
    let gone = (0..20_000).map(|n| format!("gone-{n}")).collect::<Vec<_>>();
    let () = redis.sadd("asynq:{default}:groups", gone).await.unwrap();
    let _ = broker.groups(&queue(), None, 1).await.unwrap();
    let (mut seen, mut next, mut pages) = (Vec::new(), None, 0);
    loop {
        let steps = calls(&mut redis, "sscan").await;
        let (page, scripts, commands) = cost(&mut redis, broker.groups(&queue(), next.as_ref(), 100)).await;
        let steps = calls(&mut redis, "sscan").await - steps;
        assert!(steps <= 10, "{steps} steps of 200 names");
        let page = page.unwrap();
        assert!(page.groups.len() <= 100 && page.groups.iter().all(|stats| stats.size == 1), "{page:?}");
        assert!(scripts <= 10 && commands <= 3 * PER_SCRIPT, "{commands} commands in {scripts} scripts");
        seen.extend(page.groups.into_iter().map(|stats| stats.group.to_string()));
        pages += 1;
        assert!(pages <= GROUPS / 20, "{pages} pages");
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), GROUPS);
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>().len(), GROUPS, "each once");
}

#[tokio::test]
async fn the_numbers_of_a_queue_are_counted_in_steps_and_estimated_beyond_two_thousand_groups() {
    let (_server, mut redis, broker) = with_groups().await;
    let _ = broker.queue_stats(&queue()).await.unwrap();
    let (stats, scripts, commands) = cost(&mut redis, broker.queue_stats(&queue())).await;
    let stats = stats.unwrap();
    // One task is in each, so that the estimate is exact.
    assert_eq!((stats.aggregating, stats.size), (GROUPS as u64, GROUPS as u64));
    assert!(scripts > 5 && commands / scripts <= PER_SCRIPT, "{commands} commands in {scripts} scripts");
    let one = redis::cmd("MEMORY").arg("USAGE").arg("asynq:{default}:t:t0000").query_async(&mut redis).await;
    let (bytes, scripts, commands) = cost(&mut redis, broker.memory_usage(&queue())).await;
    let (one, bytes): (u64, u64) = (one.unwrap(), bytes.unwrap());
    assert!(scripts == 1 && commands <= PER_SCRIPT, "{commands} commands in {scripts} scripts");
    assert_eq!(bytes / GROUPS as u64, one, "the groups of one step stand for all");
    // Three times as many groups cost as much: 2,000 and the excess of a step, and the first step once more.
    for outcome in broker.enqueue((GROUPS..3 * GROUPS).map(in_group).collect()).await {
        outcome.unwrap();
    }
    let (stats, _, commands) = cost(&mut redis, broker.queue_stats(&queue())).await;
    assert_eq!(stats.unwrap().aggregating, 3 * GROUPS as u64);
    assert!(commands <= 2_000 + 2 * PER_SCRIPT, "{commands} commands for {} groups", 3 * GROUPS);
}

#[tokio::test]
async fn to_find_that_no_group_is_ripe_takes_a_script_per_step() {
    let (_server, mut redis, broker) = with_groups().await;
    let walk = async {
        let (mut step, mut steps) = (None, 0);
        loop {
            steps += 1;
            assert!(steps <= GROUPS, "the walk does not end");
            let found = broker.ripe_groups(&queue(), &GroupRules::default(), step.as_ref()).await.unwrap();
            assert!(found.groups.is_empty(), "{found:?}");
            step = found.next;
            if step.is_none() {
                return;
            }
        }
    };
    let ((), scripts, commands) = cost(&mut redis, walk).await;
    // Two commands for each group: how many wait there, and when the last one joined.
    assert!(
        scripts <= GROUPS as u64 / 100 && commands / scripts <= 2 * PER_SCRIPT,
        "{commands} commands in {scripts} scripts"
    );
}

#[tokio::test]
async fn all_groups_are_emptied_slice_by_slice() {
    let (_server, mut redis, broker) = with_groups().await;
    // Names of groups without a valid group must not end the walk before the others.
    let () = redis::cmd("SADD")
        .arg("asynq:{default}:groups")
        .arg((0..1_000).map(|n| format!("gone-{n}")).collect::<Vec<_>>())
        .query_async(&mut redis)
        .await
        .map(|_: i64| ())
        .unwrap();
    let (queue, chosen) = (queue(), Chosen::InState(TaskState::Aggregating));
    let (mut deleted, mut slices) = (0, 0);
    loop {
        slices += 1;
        assert!(slices <= GROUPS, "{deleted} tasks in {slices} slices");
        let call = broker.change_some(&queue, &chosen, BulkAction::Delete, 100);
        let (slice, scripts, commands) = cost(&mut redis, call).await;
        let slice = slice.unwrap();
        deleted += slice.changed;
        // Each task that is deleted takes some commands of its own.
        assert!(commands / scripts.max(1) <= 3 * PER_SCRIPT, "{commands} commands in {scripts} scripts");
        if !slice.more {
            break;
        }
    }
    let stats = broker.queue_stats(&queue).await.unwrap();
    assert_eq!((deleted, stats.size), (GROUPS, 0));
}

#[tokio::test]
async fn a_queue_of_groups_without_tasks_is_deleted_step_by_step() {
    let (_server, mut redis, broker) = with_groups().await;
    let (deleted, scripts, commands) = cost(&mut redis, broker.delete_queue(&queue())).await;
    assert_eq!(deleted.unwrap(), QueueDeleted::NotEmpty);
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().aggregating, GROUPS as u64, "every group is still known");
    assert!(commands / scripts.max(1) <= PER_SCRIPT, "{commands} commands in {scripts} scripts");
    // Evictions leave names of groups and of a set behind, and ids in them, without any task; here are more of them than one step
    // takes.
    let tasks: Vec<String> = (0..GROUPS).map(|n| format!("asynq:{{default}}:t:t{n:04}")).collect();
    let () = redis.del(tasks).await.unwrap();
    let ghosts: Vec<(i64, String)> = (0..2_500).map(|i| (i, format!("ghost-{i}"))).collect();
    for key in ["asynq:{default}:g:many", "asynq:{default}:g:unknown", "asynq:{default}:g:many:set"] {
        let () = redis.zadd_multiple(key, &ghosts).await.unwrap();
    }
    let () = redis.sadd("asynq:{default}:groups", "many").await.unwrap();
    let () = redis.zadd("asynq:{default}:aggregation_sets", "asynq:{default}:g:many:set", 7).await.unwrap();
    let (deleted, scripts, commands) = cost(&mut redis, broker.delete_queue(&queue())).await;
    assert_eq!(deleted.unwrap(), QueueDeleted::Done);
    assert!(scripts > 30, "{scripts}");
    // A script asks for a thousand ids.
    assert!(commands / scripts <= 3 * PER_SCRIPT, "{commands} commands in {scripts} scripts");
    let left: Vec<String> = redis.keys("asynq:{default}:*").await.unwrap();
    assert!(left.iter().all(|key| key.contains(":x:sent:")), "{left:?}");
}

#[tokio::test]
async fn lost_groups_of_all_queues_are_found_by_one_search() {
    let server = Server::start(&[]);
    let (mut redis, broker) = (server.foreign().await, server.broker().await);
    let names: Vec<QueueName> = (0..200).map(|i| QueueName::new(&format!("q{i}")).unwrap()).collect();
    for name in &names {
        let () = redis.zadd(format!("asynq:{{{name}}}:g:lost"), "id", 1).await.unwrap();
    }
    let fillers: Vec<(String, &str)> = (0..20_000).map(|i| (format!("filler:{i}"), "")).collect();
    let () = redis.mset(&fillers).await.unwrap();
    let (mut restored, mut searches) = (0, 0);
    while restored < names.len() {
        let (found, _, commands) = cost(&mut redis, broker.restore_groups(&names)).await;
        let found = found.unwrap();
        // Ten looks at a thousand keys each, and some commands for each group.
        assert!(commands <= 10 + 8 * found as u64 + 8, "{commands} commands for {found} groups");
        (restored, searches) = (restored + found, searches + 1);
        assert!(searches <= 4, "{searches} searches through 20,200 keys found {restored}");
    }
    assert!(searches >= 2, "{searches} searches through 20,200 keys");
}

#[tokio::test]
async fn an_examination_asks_for_many_groups_at_once_and_for_all_tasks_of_a_large_one() {
    let (server, mut redis, near) = with_groups().await;
    let ghosts: Vec<(i64, String)> = (0..250).map(|n| (1, format!("ghost-{n}"))).collect();
    let () = redis.zadd_multiple("asynq:{default}:g:crowd", &ghosts).await.unwrap();
    let () = redis.sadd("asynq:{default}:groups", "crowd").await.unwrap();
    // Redis knows the scripts after this examination, so that one write is one try.
    let before = near.examine(&queue(), 1_000_000).await.unwrap();
    let proxy = Proxy::before(&server);
    let far = RedisBroker::connect(&proxy.url(), patient()).await.unwrap();
    // An examination that is answered has sent fewer writes with scripts than there are groups.
    proxy.lose_every(GROUPS / 3);
    let found = far.examine(&queue(), 1_000_000).await.unwrap();
    assert!(found.complete && found.oddities.len() == 1, "{found:?}");
    assert_eq!(found.count(OddityKind::IdWithoutTask), 250);
    assert_eq!(found, before);
}

#[tokio::test]
async fn tasks_of_groups_without_a_name_are_not_searched_for_in_the_sets() {
    let (_server, mut redis, broker) = with_groups().await;
    // Go's forwarder and its reclaim leave groups without a name.
    let () = redis.del("asynq:{default}:groups").await.unwrap();
    let () = redis.zadd("asynq:{default}:aggregation_sets", "asynq:{default}:g:g:s", 1).await.unwrap();
    let before = calls(&mut redis, "zrange").await;
    let found = broker.examine(&queue(), 1_000_000).await.unwrap();
    assert_eq!(found.count(OddityKind::TaskWithoutPlace), GROUPS as u64, "{found:?}");
    let reads = calls(&mut redis, "zrange").await - before;
    assert!(reads < PER_SCRIPT, "{reads} looks at the sets");
}
