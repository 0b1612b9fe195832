//! Texts that are not UTF-8: SQLite stores any bytes as a text, and programs of other languages bind what they have.

use std::collections::BTreeSet;

use asynq_runtime::broker::{
    ArchivePolicy, BulkAction, Chosen, Consume as _, GroupRules, Groups as _, Page, Quarantined, Repair as _, Wanted,
};

use super::{
    view::{INSERT, message},
    *,
};

/// Enqueues a task for each of these groups through the view.
fn enqueue_in_groups(t: &World, groups: impl IntoIterator<Item = Vec<u8>>) {
    let mut theirs = t.theirs();
    let tx = begin(&mut theirs);
    let insert = "INSERT INTO enqueue(queue, id, type, msg, grp) VALUES ('default', ?1, 'mail', ?2, CAST(?3 AS TEXT))";
    for (n, group) in groups.into_iter().enumerate() {
        let id = format!("t{n}");
        tx.execute(insert, params![id, message(&id), group]).unwrap();
    }
    tx.commit().unwrap();
}

/// Returns two hundred names that begin with these bytes.
fn two_hundred(start: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..200).map(move |n| [start, format!("{n:03}").as_bytes()].concat())
}

#[tokio::test]
async fn a_text_that_is_not_utf_8_stops_no_other_task_and_can_be_removed() {
    let t = World::new().await;
    let theirs = t.theirs();
    let columns = "INSERT INTO enqueue(queue, id, type, msg, unique_key, unique_ms, grp)";
    let rows = [
        "VALUES ('default', 'a', 'mail', ?1, CAST(X'C328' AS TEXT), 1000, NULL)",
        "VALUES ('default', CAST(X'69C3' AS TEXT), 'mail', ?1, 'k', 86400000, NULL)",
        "VALUES ('default', 'grouped', 'mail', ?1, NULL, NULL, CAST(X'FF' AS TEXT))",
    ];
    for row in rows {
        theirs.execute(&format!("{columns} {row}"), [message("a")]).unwrap();
    }
    theirs.execute(INSERT, params!["good", message("good")]).unwrap();
    let elsewhere = NewTask { queue: QueueName::new("other").unwrap(), ..task("elsewhere") };
    enqueue(&t.broker, elsewhere).await.unwrap();
    let wanted = ["default", "other"].map(|name| Wanted { queue: QueueName::new(name).unwrap(), n: 3 });
    let runs = t.broker.dequeue(&t.member, &wanted).await.unwrap();
    assert_eq!(ids(&runs), ["good", "elsewhere"]);
    let archived = t.broker.tasks(&queue(), TaskState::Archived, Page::default()).await.unwrap();
    assert_eq!(archived.len(), 2);
    let stats = t.broker.queue_stats(&queue()).await.unwrap();
    assert_eq!((stats.processed, stats.failed), (2, 2), "an alert about failures sees them");
    assert!(archived.iter().all(|task| task.last_error.as_ref().unwrap().contains("was not UTF-8")), "{archived:?}");
    enqueue(&t.broker, unique("next", "k")).await.unwrap();
    let (max_age, max_size) = (Duration::from_secs(86_400), 10_000);
    let policy = ArchivePolicy { queue: queue(), max_age, max_size };
    assert!(t.broker.worth_cleaning(&[policy]).await.unwrap().is_empty());
    assert_eq!(t.broker.trim_archive(&queue(), max_age, max_size, 9).await.unwrap(), 0);
    let ripe = t.broker.ripe_groups(&queue(), &GroupRules::default(), None).await.unwrap();
    assert!(ripe.groups.is_empty() && ripe.next.is_none(), "{ripe:?}");
    t.broker.change_task(&queue(), &archived[0].id, None, BulkAction::Delete).await.unwrap();
    let all = Chosen::InState(TaskState::Archived);
    assert_eq!(t.broker.change_some(&queue(), &all, BulkAction::Delete, 9).await.unwrap().changed, 1);
    assert_eq!(t.broker.queue_stats(&queue()).await.unwrap().archived, 0);
}

/// A server that was told of such a queue would ask for its tasks again and again, and find none.
#[tokio::test]
async fn a_queue_whose_name_is_not_utf_8_makes_no_other_ready() {
    let t = World::new().await;
    let insert = "INSERT INTO enqueue(queue, id, type, msg) VALUES (CAST(X'FF' AS TEXT), 'a', 'mail', ?1)";
    t.theirs().execute(insert, [message("a")]).unwrap();
    enqueue(&t.broker, task("b")).await.unwrap();
    let mut queues: Vec<_> = (0..20).map(|n| QueueName::new(&format!("q{n}")).unwrap()).collect();
    queues.extend([QueueName::new("\u{fffd}").unwrap(), queue()]);
    assert_eq!(t.broker.ready(&queues, Quarantined::All).await.unwrap(), [queue()]);
}

/// The text in place of bytes that are not UTF-8 lies behind some of them and ahead of others.
#[tokio::test]
async fn a_walk_over_groups_ends_and_finds_those_behind_names_that_are_not_utf_8() {
    let t = World::new().await;
    let few = [&b"\xc3"[..], "\u{e9}t\u{e9}".as_bytes(), "\u{10ffff}".as_bytes()].map(<[u8]>::to_vec);
    enqueue_in_groups(&t, two_hundred(b"a").skip(1).chain(two_hundred(b"\xf0")).chain(few));
    let rules = GroupRules { max_size: Some(1), ..GroupRules::default() };
    let (mut from, mut steps, mut found) = (None, 0, Vec::new());
    loop {
        let ripe = t.broker.ripe_groups(&queue(), &rules, from.as_ref()).await.unwrap();
        found.extend(ripe.groups);
        steps += 1;
        assert!(steps <= 3, "of 402 groups, 200 at a time");
        from = ripe.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(found.len(), 201);
    assert_eq!((found[199].as_str(), found[200].as_str()), ("\u{e9}t\u{e9}", "\u{10ffff}"));
}

#[tokio::test]
async fn pages_of_groups_end_whatever_bytes_the_names_have() {
    let t = World::new().await;
    enqueue_in_groups(&t, [&b"a"[..], b"\xe4hnlich", b"\xf6ffnen", b"\xfcber", b"\xff"].map(<[u8]>::to_vec));
    let (mut after, mut names) = (None, Vec::new());
    loop {
        let page = t.broker.groups(&queue(), after.as_ref(), 1).await.unwrap();
        names.extend(page.groups.iter().map(|group| group.group.to_string()));
        assert!(names.len() <= 5, "a page comes again: {names:?}");
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(names, ["a", "\u{fffd}hnlich", "\u{fffd}ffnen", "\u{fffd}ber", "\u{fffd}"]);
}

#[tokio::test]
async fn pages_of_locks_end_whatever_bytes_the_keys_have() {
    let t = World::new().await;
    let mut theirs = t.theirs();
    let tx = begin(&mut theirs);
    let insert = "INSERT INTO enqueue(queue, id, type, msg, unique_key, unique_ms, now)
        VALUES ('default', ?1, 'mail', ?2, CAST(?3 AS TEXT), 86400000, ?4)";
    let keys =
        [0xf0_u8, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5].into_iter().flat_map(|byte| two_hundred(&[byte]).collect::<Vec<_>>());
    for (n, key) in keys.enumerate() {
        let id = format!("t{n}");
        tx.execute(insert, params![id, message(&id), key, t.broker.now().timestamp_millis()]).unwrap();
    }
    tx.commit().unwrap();
    let first = t.broker.locks(&queue(), None).await.unwrap();
    let second = t.broker.locks(&queue(), first.next.as_deref()).await.unwrap();
    assert_eq!((first.locks.len(), second.locks.len(), &second.next), (1_000, 200, &None));
    let holders: BTreeSet<_> =
        [first, second].into_iter().flat_map(|page| page.locks).map(|lock| lock.holder).collect();
    assert_eq!(holders.len(), 1_200);
}
