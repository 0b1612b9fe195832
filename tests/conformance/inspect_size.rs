//! Contract `Inspect`: the memory of a queue, and pages of large tasks.

use std::time::Duration;

use asynq_runtime::{
    broker::{Page, TaskBrief},
    task::TaskState,
};
use asynq_tests::{Build as _, complete, default_queue, done, group, queue, task};

use super::{Fixture, inspect::ids};

const SECOND: Duration = Duration::from_secs(1);

async fn memory(t: &Fixture) -> u64 {
    t.broker().memory_usage(&default_queue()).await.unwrap()
}

#[tokio::test]
async fn a_queue_without_tasks_takes_no_memory() {
    let t = Fixture::start().await;
    assert_eq!(t.broker().memory_usage(&queue("none")).await.unwrap(), 0);
    let run = t.seed_active("t1").await;
    t.settle(&run, done()).await;
    assert_eq!(memory(&t).await, 0);
}

#[tokio::test]
async fn memory_is_estimated_from_some_tasks_of_each_state() {
    const SIZE: usize = 10_000;
    let t = Fixture::start().await;
    let heavy = |id: String| task(&id).with_payload(vec![7; SIZE]);
    let mut expected = 0;
    for answer in t.broker().enqueue((0..50).map(|n| heavy(format!("p{n}"))).collect()).await {
        answer.unwrap();
    }
    expected += 50 * SIZE as u64;
    let pending = memory(&t).await;
    assert!((expected..expected * 2).contains(&pending), "{pending}");
    t.enqueue(heavy("s".into()).after(SECOND)).await;
    for n in 0..30 {
        t.enqueue(heavy(format!("g{n}")).grouped("g")).await;
    }
    expected += 31 * SIZE as u64;
    let all = memory(&t).await;
    assert!((expected..expected * 2).contains(&all), "{all}");
}

/// A page shows large tasks by the first 4 KiB of payload and result, with their sizes. Small tasks are whole.
#[tokio::test]
async fn a_brief_has_the_beginning_of_large_arguments_and_their_size() {
    let t = Fixture::start().await;
    let large: String = (0..2_000).map(|n| format!("{n:04} ")).collect();
    assert_eq!(large.len(), 10_000);
    let run = t.start_run(task("done").with_payload(large.clone()).with_retention(3_600)).await;
    t.settle(&run, complete(&large)).await;
    t.enqueue(task("large").with_payload(large.clone())).await;
    t.enqueue(task("small").with_payload("tiny".to_owned())).await;
    t.seed_group("g", &["member"]).await;
    let briefs = async |state, group| {
        let group: Option<asynq_runtime::task::GroupName> = group;
        let (group, most) = (group.as_ref(), Some(TaskBrief::BYTES));
        t.broker().list(&default_queue(), state, group, Page::default(), most).await.unwrap()
    };

    let done = &briefs(TaskState::Completed, None).await[0];
    assert_eq!((done.payload_size, done.result_size), (10_000, 10_000));
    assert_eq!(
        (&done.payload[..], done.result.as_deref()),
        (&large.as_bytes()[..4096], Some(&large.as_bytes()[..4096]))
    );
    assert!(done.has_cut_payload() && done.has_cut_result());
    // All other fields are as in the listing, also those after the payload in the message.
    let mut whole = t.broker().tasks(&default_queue(), TaskState::Completed, Page::default()).await.unwrap().remove(0);
    assert_eq!((whole.payload.len(), whole.result.as_ref().unwrap().len()), (10_000, 10_000));
    (whole.payload, whole.result) = (done.payload.clone(), done.result.clone());
    assert_eq!(whole, done.task);

    let [large, small] = &briefs(TaskState::Pending, None).await[..] else { panic!("two wait") };
    assert_eq!((large.payload.len(), large.payload_size, large.result_size), (4096, 10_000, 0));
    assert_eq!((&small.payload[..], small.payload_size, small.has_cut_payload()), (&b"tiny"[..], 4, false));
    assert_eq!(briefs(TaskState::Aggregating, Some(group("g"))).await[0].id.as_str(), "member");
    assert_eq!(briefs(TaskState::Aggregating, None).await.len(), 1);
}

/// A page is whole and in order, although no script reads more than a few MiB.
#[tokio::test]
async fn a_page_of_large_tasks_is_whole_and_in_order() {
    let t = Fixture::start().await;
    let payload = "x".repeat(100_000);
    let names: Vec<String> = (0..60).map(|n| format!("t{n:03}")).collect();
    for (n, name) in names.iter().enumerate() {
        // Large and small tasks, and as many again in groups.
        let payload = if n % 5 == 0 { "small".to_owned() } else { payload.clone() };
        t.enqueue(task(name).with_payload(payload.clone())).await;
        t.advance(Duration::from_secs(1));
        t.enqueue(task(&format!("g{name}")).grouped(if n % 2 == 0 { "even" } else { "odd" }).with_payload(payload))
            .await;
    }
    for size in [7, 60, 500] {
        for (state, prefix) in [(TaskState::Pending, ""), (TaskState::Aggregating, "g")] {
            let (mut seen, mut brief) = (Vec::new(), Vec::new());
            for number in 1..=names.len().div_ceil(size) {
                let page = Page { number, size };
                seen.extend(ids(&t, state, number, size).await);
                let most = Some(TaskBrief::BYTES);
                let briefs = t.broker().list(&default_queue(), state, None, page, most).await.unwrap();
                assert!(briefs.iter().all(|brief| brief.payload.len() <= 4096));
                brief.extend(briefs.into_iter().map(|brief| brief.task.id.to_string()));
            }
            let expected: Vec<String> = names.iter().map(|name| format!("{prefix}{name}")).collect();
            assert_eq!(seen, brief, "pages of {size}, {state}");
            // The broker chooses the order of groups; within each, the tasks are in the order of names, which are even
            // and odd by turns.
            let (even, odd): (Vec<&String>, Vec<&String>) =
                seen.iter().partition(|name| name.ends_with(['0', '2', '4', '6', '8']));
            assert!(state == TaskState::Pending || even.is_sorted() && odd.is_sorted(), "pages of {size}: {seen:?}");
            if state == TaskState::Aggregating {
                seen.sort();
            }
            assert_eq!(seen, expected, "pages of {size}, {state}");
        }
    }
}
