//! Contract `Inspect`: the visible state of queues and tasks.

use std::time::Duration;

use asynq_runtime::{
    broker::{BulkAction, Page, QueueStats},
    task::{Extra, TaskState},
};
use asynq_tests::{Build as _, Store as _, default_queue, done, group, queue, requeue, retry, task, task_id};
use chrono::SubsecRound as _;

use super::Fixture;

const SECOND: Duration = Duration::from_secs(1);

pub(super) async fn ids(t: &Fixture, state: TaskState, number: usize, size: usize) -> Vec<String> {
    let tasks = t.broker().tasks(&default_queue(), state, Page { number, size }).await.unwrap();
    tasks.into_iter().map(|task| task.id.to_string()).collect()
}

#[tokio::test]
async fn pages_of_any_size_show_every_task_once_and_in_order() {
    let t = Fixture::start().await;
    // Some tasks have the same time, so that the order within a time has to continue over pages.
    for n in 0..23_u32 {
        t.enqueue(task(&format!("t{n:02}")).after(SECOND * (60 + n / 5))).await;
    }
    let all = ids(&t, TaskState::Scheduled, 1, 100).await;
    assert_eq!(all.len(), 23);
    for size in [1, 2, 5, 7, 11, 12, 22, 23] {
        let mut seen = Vec::new();
        for number in 1..=23_usize.div_ceil(size) {
            let page = ids(&t, TaskState::Scheduled, number, size).await;
            assert!(!page.is_empty() && page.len() <= size, "page {number} of {size}");
            seen.extend(page);
        }
        assert_eq!(seen, all, "pages of {size}");
        assert!(ids(&t, TaskState::Scheduled, 24, size).await.is_empty());
    }
}

#[tokio::test]
async fn nothing_is_known_at_first() {
    let t = Fixture::start().await;
    assert!(t.broker().queues().await.unwrap().is_empty());
}

#[tokio::test]
async fn queues_are_listed_by_name() {
    let t = Fixture::start().await;
    for name in ["zeta", "alpha", "Mu", "alpha:beta"] {
        t.enqueue(task("t1").in_queue(name)).await;
    }
    t.broker().pause(&queue("paused")).await.unwrap();
    let names = ["Mu", "alpha", "alpha:beta", "zeta"].map(queue);
    assert_eq!(t.broker().queues().await.unwrap(), names);
    for name in names {
        assert!(t.broker().knows(&name).await.unwrap(), "{name}");
    }
    for other in ["mu", "alpha:", "paused"].map(queue) {
        assert!(!t.broker().knows(&other).await.unwrap(), "{other}");
    }
}

#[tokio::test]
async fn a_queue_that_does_not_exist_is_all_zero() {
    let t = Fixture::start().await;
    let stats = t.broker().queue_stats(&queue("none")).await.unwrap();
    assert_eq!(stats, QueueStats::empty(queue("none"), stats.timestamp));
    assert_eq!(stats.timestamp.trunc_subsecs(3), t.now().trunc_subsecs(3));
}

#[tokio::test]
async fn a_queue_counts_each_state() {
    let t = Fixture::start().await;
    t.seed_every_state().await;
    t.seed_pending(&["p2", "p3"]).await;
    let stats = t.snapshot().await.stats;
    let seen =
        [stats.pending, stats.active, stats.scheduled, stats.retry, stats.archived, stats.completed, stats.aggregating];
    assert_eq!(seen, [3, 1, 1, 1, 1, 1, 0]);
    assert_eq!(TaskState::ALL.map(|state| stats.count(state)).iter().sum::<u64>(), stats.size);
    assert_eq!(stats.count(TaskState::Pending), 3);
    assert_eq!((stats.size, stats.name.as_str(), stats.paused), (8, "default", false));
    assert!(!stats.is_idle());
}

#[tokio::test]
async fn counts_follow_a_task_through_its_life() {
    let t = Fixture::start().await;
    let count = async || {
        let stats = t.snapshot().await.stats;
        [stats.pending, stats.active, stats.scheduled, stats.retry, stats.archived, stats.completed, stats.size]
    };
    t.seed_scheduled("t1", SECOND).await;
    assert_eq!(count().await, [0, 0, 1, 0, 0, 0, 1]);
    t.advance(2 * SECOND);
    t.forward().await;
    assert_eq!(count().await, [1, 0, 0, 0, 0, 0, 1]);
    let run = t.take_one().await;
    assert_eq!(count().await, [0, 1, 0, 0, 0, 0, 1]);
    t.settle(&run, requeue()).await;
    let run = t.take_one().await;
    t.settle(&run, retry(SECOND, "boom")).await;
    assert_eq!(count().await, [0, 0, 0, 1, 0, 0, 1]);
    t.advance(2 * SECOND);
    t.forward().await;
    t.take_one().await;
    t.let_leases_pass();
    t.recover().await;
    assert_eq!(count().await, [1, 0, 0, 0, 0, 0, 1]);
    let run = t.take_one().await;
    t.settle(&run, done()).await;
    assert_eq!(count().await, [0; 7]);
}

#[tokio::test]
async fn a_queue_with_only_kept_tasks_is_idle() {
    let t = Fixture::start().await;
    t.seed_archived("t1").await;
    t.seed_completed("t2", 60).await;
    let stats = t.snapshot().await.stats;
    assert!(stats.is_idle() && stats.size == 2, "{stats:?}");
}

#[tokio::test]
async fn latency_is_how_long_the_oldest_pending_task_has_waited() {
    let t = Fixture::start().await;
    t.seed_pending(&["first"]).await;
    t.advance(3 * SECOND);
    t.seed_pending(&["second"]).await;
    t.advance(4 * SECOND);
    assert_eq!(t.snapshot().await.stats.latency, 7 * SECOND);
    t.take(1).await;
    assert_eq!(t.snapshot().await.stats.latency, 4 * SECOND);
    t.take(1).await;
    assert_eq!(t.snapshot().await.stats.latency, Duration::ZERO);
}

#[tokio::test]
async fn a_due_task_that_no_server_forwards_waits_from_the_second_after_its_time_on() {
    let t = Fixture::start().await;
    let run = t.seed_active("fails").await;
    t.settle(&run, retry(5 * SECOND, "boom")).await;
    assert_eq!(t.snapshot().await.stats.latency, Duration::ZERO);
    t.advance(65 * SECOND);
    let late = t.snapshot().await.stats.latency;
    assert!(late > 59 * SECOND && late <= 60 * SECOND, "{late:?}");
    t.seed_pending(&["later"]).await;
    t.advance(SECOND);
    assert_eq!(t.snapshot().await.stats.latency, late + SECOND, "the longer wait counts");
    t.forward().await;
    assert_eq!(t.snapshot().await.stats.latency, SECOND);
}

#[tokio::test]
async fn a_task_requeued_waits_from_then_on() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    t.advance(20 * SECOND);
    t.settle(&run, requeue()).await;
    t.advance(2 * SECOND);
    assert_eq!(t.snapshot().await.stats.latency, 2 * SECOND);
    t.take_one().await;
    t.let_leases_pass();
    assert_eq!(t.recover().await, ["t1"]);
    t.advance(2 * SECOND);
    assert_eq!(t.snapshot().await.stats.latency, 2 * SECOND);
}

#[tokio::test]
async fn counters_of_today_begin_anew_at_midnight_utc() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    t.settle(&run, done()).await;
    // From 03:04:05 to a second before midnight, and then past midnight.
    t.advance(Duration::from_secs(20 * 3600 + 55 * 60 + 54));
    let stats = t.snapshot().await.stats;
    assert_eq!((stats.processed, stats.processed_total), (1, 1), "{}", t.now());
    t.advance(SECOND);
    let stats = t.snapshot().await.stats;
    assert_eq!((stats.processed, stats.processed_total), (0, 1), "{}", t.now());
}

#[tokio::test]
async fn pending_tasks_are_listed_oldest_first() {
    let t = Fixture::start().await;
    t.seed_pending(&["c", "a", "b"]).await;
    assert_eq!(ids(&t, TaskState::Pending, 1, 10).await, ["c", "a", "b"]);
}

#[tokio::test]
async fn active_tasks_are_listed_in_the_order_they_were_taken() {
    let t = Fixture::start().await;
    for id in ["c", "a", "b"] {
        t.seed_active(id).await;
        t.advance(SECOND);
    }
    assert_eq!(ids(&t, TaskState::Active, 1, 10).await, ["c", "a", "b"]);
}

#[tokio::test]
async fn scheduled_and_retry_tasks_are_listed_by_due_time() {
    let t = Fixture::start().await;
    for (id, seconds) in [("c", 30), ("a", 10), ("b", 20)] {
        t.seed_retry(&format!("r{id}"), seconds * SECOND).await;
        t.seed_scheduled(&format!("s{id}"), seconds * SECOND).await;
    }
    assert_eq!(ids(&t, TaskState::Scheduled, 1, 10).await, ["sa", "sb", "sc"]);
    assert_eq!(ids(&t, TaskState::Retry, 1, 10).await, ["ra", "rb", "rc"]);
}

#[tokio::test]
async fn archived_and_completed_tasks_are_listed_by_their_time() {
    let t = Fixture::start().await;
    for (id, seconds) in [("c", 300), ("a", 100), ("b", 200)] {
        t.seed_archived(&format!("a{id}")).await;
        t.seed_completed(&format!("c{id}"), seconds).await;
        t.advance(SECOND);
    }
    assert_eq!(ids(&t, TaskState::Archived, 1, 10).await, ["ac", "aa", "ab"]);
    assert_eq!(ids(&t, TaskState::Completed, 1, 10).await, ["ca", "cb", "cc"], "by the end of their retention");
}

async fn pages(state: TaskState) {
    let t = Fixture::start().await;
    let names: Vec<String> = (0..25).map(|i| format!("t{i:02}")).collect();
    for (i, name) in names.iter().enumerate() {
        let delay = (i as u32 + 1) * SECOND;
        match state {
            TaskState::Pending => t.seed_pending(&[name]).await,
            TaskState::Active => drop(t.seed_active(name).await),
            TaskState::Scheduled => t.seed_scheduled(name, delay).await,
            TaskState::Retry => t.seed_retry(name, delay).await,
            TaskState::Completed => t.seed_completed(name, 100 + i as i64).await,
            _ => t.seed_archived(name).await,
        }
        if !matches!(state, TaskState::Scheduled | TaskState::Retry | TaskState::Completed) {
            t.advance(Duration::from_millis(1001));
        }
    }
    assert_eq!(ids(&t, state, 1, 10).await, names[..10]);
    assert_eq!(ids(&t, state, 2, 10).await, names[10..20]);
    assert_eq!(ids(&t, state, 3, 10).await, names[20..]);
    assert!(ids(&t, state, 4, 10).await.is_empty());
    assert!(ids(&t, state, usize::MAX, 30).await.is_empty());
}

macro_rules! lists_come_in_pages {
    ($($case:ident $state:ident)*) => {
        mod lists_come_in_pages {
            use super::*;

            $(#[tokio::test] async fn $case() { super::pages(TaskState::$state).await; })*
        }
    };
}

lists_come_in_pages! {
    pending Pending active Active scheduled Scheduled retry Retry archived Archived completed Completed
}

async fn found(state: TaskState) {
    let t = Fixture::start().await;
    t.seed_every_state().await;
    let info = t.info(state.as_str()).await.unwrap();
    assert_eq!((info.state, info.id.as_str(), info.queue.as_str()), (state, state.as_str(), "default"));
    assert_eq!((info.r#type.as_str(), &info.payload[..]), ("email:send", state.as_str().as_bytes()));
    assert_eq!((info.max_retry, info.timeout), (25, Some(Duration::from_secs(1800))));
    assert_eq!(info.lease_until.is_some(), state == TaskState::Active, "{info:?}");
    assert_eq!(info.completed_at.is_some(), state == TaskState::Completed);
    assert_eq!(info.archived_at.is_some(), state == TaskState::Archived);
    assert_eq!(info.last_error.is_some(), matches!(state, TaskState::Retry | TaskState::Archived));
    let due = matches!(state, TaskState::Scheduled | TaskState::Retry | TaskState::Pending);
    assert_eq!(info.next_process_at.is_some(), due, "{info:?}");
    let listed = t.broker().tasks(&default_queue(), state, Page::default()).await.unwrap();
    assert_eq!(listed, [info], "the list and the single answer agree");
}

macro_rules! a_task_is_found_by_its_id_in_state {
    ($($case:ident $state:ident)*) => {
        mod a_task_is_found_by_its_id_in_state {
            use super::*;

            $(#[tokio::test] async fn $case() { super::found(TaskState::$state).await; })*
        }
    };
}

a_task_is_found_by_its_id_in_state! {
    pending Pending active Active scheduled Scheduled retry Retry archived Archived completed Completed
}

#[tokio::test]
async fn an_archived_task_is_read_with_the_time_at_which_it_was_archived() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    let (queue, id) = (default_queue(), task_id("t1"));
    t.advance(60 * SECOND);
    t.broker().change_task(&queue, &id, None, BulkAction::Archive).await.unwrap();
    let archived = t.now().timestamp();
    t.advance(60 * SECOND);
    let read = async || t.broker().task(&queue, &id).await.unwrap().unwrap().archived_at;
    assert_eq!(read().await.unwrap().timestamp(), archived);
    let listed = t.broker().tasks(&queue, TaskState::Archived, Page::default()).await.unwrap();
    assert_eq!(listed[0].archived_at, read().await);
    t.broker().change_task(&queue, &id, None, BulkAction::Run).await.unwrap();
    assert_eq!(read().await, None);
}

#[tokio::test]
async fn a_task_is_read_with_the_time_after_which_no_attempt_begins() {
    let t = Fixture::start().await;
    let expires_ms = Some(t.now().timestamp_millis() + 60_001);
    t.enqueue(task("t1").with_extra(Extra { expires_ms, ..Extra::default() })).await;
    let read = t.info("t1").await.unwrap();
    assert_eq!(read.expires.map(|at| at.timestamp_millis()), expires_ms);
    let listed = t.broker().tasks(&default_queue(), TaskState::Pending, Page::default()).await.unwrap();
    assert_eq!(listed[0].expires, read.expires);
}

#[tokio::test]
async fn an_unknown_task_is_none() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    assert_eq!(t.info("t2").await, None);
    assert_eq!(t.broker().task(&queue("low"), &task_id("t1")).await.unwrap(), None);
}

#[tokio::test]
async fn headers_and_the_deadline_are_shown() {
    let t = Fixture::start().await;
    let mut new = task("t1").with_header("trace", "abc").with_retention(90);
    new.message.deadline = 2_000_000_000;
    t.enqueue(new).await;
    let info = t.info("t1").await.unwrap();
    assert_eq!(info.headers, [("trace".to_owned(), "abc".to_owned())]);
    assert_eq!(info.deadline.unwrap().timestamp(), 2_000_000_000);
    assert_eq!(info.retention, Some(Duration::from_secs(90)));
}

#[tokio::test]
async fn a_message_that_cannot_be_read_is_left_out_of_the_list() {
    let t = Fixture::start().await;
    t.seed_pending(&["good1", "bad", "lost", "good2"]).await;
    t.store.overwrite_message(&default_queue(), &task_id("bad"), b"\xff\xff\xff");
    t.store.lose_message(&default_queue(), &task_id("lost"));
    assert_eq!(ids(&t, TaskState::Pending, 1, 10).await, ["good1", "good2"]);
    assert_eq!(ids(&t, TaskState::Pending, 1, 3).await, ["good1"], "they count as rows of their page");
    for id in ["bad", "lost"] {
        assert_eq!(t.info(id).await, None);
    }
}

#[tokio::test]
async fn looking_changes_nothing() {
    let t = Fixture::start().await;
    t.seed_every_state().await;
    let before = t.store.dump();
    t.snapshot().await;
    t.broker().queues().await.unwrap();
    t.info("active").await;
    t.broker().queue_stats(&queue("none")).await.unwrap();
    assert_eq!(t.store.dump(), before);
}

async fn group_page(t: &Fixture, name: &str, number: usize, size: usize) -> Vec<String> {
    let (group, page) = (group(name), Page { number, size });
    let tasks = t.broker().list(&default_queue(), TaskState::Aggregating, Some(&group), page, None).await.unwrap();
    assert!(tasks.iter().all(|task| task.state == TaskState::Aggregating && task.group.as_deref() == Some(name)));
    tasks.into_iter().map(|task| task.id.to_string()).collect()
}

#[tokio::test]
async fn the_tasks_of_a_group_come_in_pages_in_the_order_in_which_they_joined() {
    let t = Fixture::start().await;
    // The broker reads more tasks than a hundred in several steps.
    let names: Vec<String> = (0..125).map(|i| format!("t{:03}", 999 - i)).collect();
    t.seed_group("g", &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(ids(&t, TaskState::Aggregating, 1, 126).await, names, "over all groups");
    t.seed_group("h", &["other"]).await;
    assert_eq!(group_page(&t, "g", 1, 10).await, names[..10]);
    assert_eq!(group_page(&t, "g", 13, 10).await, names[120..]);
    assert!(group_page(&t, "g", 14, 10).await.is_empty());
    assert_eq!(group_page(&t, "h", 1, 10).await, ["other"]);
    assert_eq!(ids(&t, TaskState::Aggregating, 1, 126).await.len(), 126, "over both groups");
}

#[tokio::test]
async fn an_unknown_group_has_no_tasks() {
    let t = Fixture::start().await;
    t.seed_group("g", &["a"]).await;
    assert!(group_page(&t, "nobody", 1, 10).await.is_empty());
    assert!(group_page(&t, "g", 1, 0).await.is_empty());
}

#[tokio::test]
async fn a_task_that_was_taken_out_of_a_group_is_not_in_it() {
    let t = Fixture::start().await;
    let set = t.seed_set(&["a", "b"]).await;
    assert!(group_page(&t, "g", 1, 10).await.is_empty());
    t.broker().release_set(&set).await.unwrap();
    assert_eq!(group_page(&t, "g", 1, 10).await, ["a", "b"]);
}

async fn history(t: &Fixture, days: usize) -> Vec<(String, u64, u64)> {
    let days = t.broker().history(&default_queue(), days).await.unwrap();
    days.into_iter().map(|day| (day.date.to_string(), day.processed, day.failed)).collect()
}

#[tokio::test]
async fn history_begins_with_today() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    t.settle(&run, done()).await;
    t.advance(24 * 3600 * SECOND);
    t.seed_archived("t2").await;
    t.seed_retry("t3", SECOND).await;
    let day = |date: &str, processed, failed| (date.to_owned(), processed, failed);
    let expected = [day("2030-01-03", 2, 2), day("2030-01-02", 1, 0), day("2030-01-01", 0, 0)];
    assert_eq!(history(&t, 3).await, expected);
    assert_eq!(history(&t, 1).await, expected[..1]);
}

#[tokio::test]
async fn history_is_as_long_as_it_is_kept() {
    let t = Fixture::start().await;
    assert!(history(&t, 0).await.is_empty());
    let days = history(&t, usize::MAX).await;
    assert_eq!((days.len(), days[0].0.as_str(), days[89].0.as_str()), (90, "2030-01-02", "2029-10-05"));
    assert!(days.iter().all(|(_, processed, failed)| processed + failed == 0));
}
