//! Every contract whose calls name a queue: no call changes or counts the tasks of another queue, where those have the same ids and groups.

use std::{slice, time::Duration};

use asynq_runtime::{
    broker::{
        ArchivePolicy, BulkAction, Chosen, GroupRules, Page, QueueDeleted, RetryOrder, SetOutcome, Settled, TaskSet,
    },
    task::{QueueName, TaskState},
};
use asynq_tests::{Build as _, archive, complete, default_queue, done, group, members, queue, retry, task, task_id};

use super::Fixture;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// The calls that find nothing to do before a minute has passed; they are the first of [`answers`].
const MAINTENANCE: usize = 6;

/// Gives each call of [`answers`] something to do in a queue, pauses the queue, and returns a set that is taken out of it.
async fn fill(t: &Fixture, name: &str) -> TaskSet {
    let here = |id: &str| task(id).in_queue(name);
    for (id, action) in [
        ("completed", complete("42")),
        ("archived", archive("fatal")),
        ("retry", retry(SECOND, "boom")),
        ("done", done()),
    ] {
        let run = t.start_run(here(id).with_retention(10)).await;
        assert_eq!(t.settle(&run, action).await, Settled::Ok);
    }
    t.start_run(here("active")).await;
    for new in [
        here("scheduled").after(SECOND),
        here("waits").grouped("g"),
        here("member").grouped("set"),
        here("locked").locked(&format!("asynq:{{{name}}}:unique:email:send:k"), 3600),
    ] {
        t.enqueue(new).await;
    }
    let rules = GroupRules { max_size: Some(1), ..GroupRules::default() };
    assert!(t.broker().pause(&queue(name)).await.unwrap());
    t.broker().claim_set(&queue(name), &group("set"), &rules).await.unwrap().expect("it is large enough")
}

/// Returns all that the reading calls tell of a queue.
async fn seen(t: &Fixture, name: &QueueName) -> String {
    let b = t.broker();
    let mut seen = format!(
        "{:?} {:?} {:?} {:?} {:?}",
        b.queue_stats(name).await.unwrap(),
        b.groups(name, None, 10).await.unwrap(),
        b.locks(name, None)
            .await
            .unwrap()
            .locks
            .into_iter()
            .map(|lock| (lock.key, lock.holder, lock.state))
            .collect::<Vec<_>>(),
        b.history(name, 2).await.unwrap(),
        b.failures(name, &task_id("retry")).await.unwrap(),
    );
    for state in TaskState::ALL {
        seen += &format!("\n{state}:");
        for (number, size) in [(1, 100), (2, 1), (3, 1)] {
            let page = Page { number, size };
            seen += &format!(" {:?}", b.tasks(name, state, page).await.unwrap());
            seen += &format!(" {:?}", b.list(name, state, Some(&group("g")), page, None).await.unwrap());
        }
    }
    seen
}

/// Makes the calls on the default queue, and returns their answers.
async fn answers(t: &Fixture) -> Vec<String> {
    let (b, name) = (t.broker(), default_queue());
    let queues = [name.clone()];
    let rules = GroupRules { max_delay: Some(MINUTE), ..GroupRules::default() };
    let policy = ArchivePolicy { queue: name.clone(), max_age: MINUTE, max_size: 100 };
    let mut answers = vec![
        format!("{:?}", b.forward(&queues, RetryOrder::Last).await.unwrap()),
        format!("{:?}", b.recover(&queues).await.unwrap()),
        format!("{:?}", b.delete_expired(&name, 100).await.unwrap()),
        format!("{:?}", b.trim_archive(&name, policy.max_age, policy.max_size, 100).await.unwrap()),
        format!("{:?}", b.reclaim_sets(&name).await.unwrap()),
        format!("{:?}", b.ripe_groups(&name, &rules, None).await.unwrap().groups),
        format!("{:?}", b.worth_cleaning(&[policy]).await.unwrap()),
        format!("{:?}", b.sweep(&name).await.unwrap()),
    ];
    if let Some(set) = b.claim_set(&name, &group("g"), &rules).await.unwrap() {
        answers.push(members(&set).join(" "));
        b.release_set(&set).await.unwrap();
    }
    answers.push(seen(t, &name).await);
    answers
}

/// Fills the default queue and, if not `alone`, other queues before and after it, and returns the answers of all calls.
async fn told(alone: bool) -> [Vec<String>; 3] {
    let t = Fixture::start().await;
    let (mut others, mut before) = (Vec::new(), Vec::new());
    if !alone {
        others.push(fill(&t, "before").await);
    }
    t.advance(5 * MINUTE);
    fill(&t, "default").await;
    let early = answers(&t).await;
    t.advance(5 * MINUTE);
    if !alone {
        others.push(fill(&t, "after").await);
    }
    for TaskSet { queue, .. } in &others {
        before.push(seen(&t, queue).await);
    }
    let late = answers(&t).await;
    let name = default_queue();
    let mut repairs = vec![t.broker().resume(&name).await.unwrap().to_string()];
    for action in [BulkAction::Run, BulkAction::Archive, BulkAction::Delete] {
        let groups = ["g", "set"].map(|name| Chosen::InGroup(group(name)));
        for chosen in groups.into_iter().chain(TaskState::ALL.map(Chosen::InState)) {
            let slice = t.broker().change_some(&name, &chosen, action, 100).await.unwrap();
            repairs.push(format!("{action:?} {chosen:?} {slice:?} {}", seen(&t, &name).await));
        }
    }
    assert!(t.broker().wait_until_idle(slice::from_ref(&name), Duration::ZERO).await.unwrap(), "no task is left");
    assert_eq!(t.broker().delete_queue(&name).await.unwrap(), QueueDeleted::Done);
    for (other, before) in others.iter().zip(before) {
        assert_eq!(seen(&t, &other.queue).await, before, "what {} has is left alone", other.queue);
        let alone = SetOutcome { alone: vec![task_id("member")], ..SetOutcome::default() };
        t.finish(other, &alone).await.unwrap();
    }
    [early, late, repairs]
}

#[tokio::test]
async fn no_call_changes_or_counts_the_tasks_of_another_queue() {
    let (alone, beside) = (told(true).await, told(false).await);
    for (alone, beside) in alone.iter().flatten().zip(beside.iter().flatten()) {
        assert_eq!(beside, alone, "as if the queue were alone");
    }
    for (early, late) in alone[0].iter().zip(&alone[1]).take(MAINTENANCE) {
        assert_ne!(early, late, "the call has found something to do");
    }
}
