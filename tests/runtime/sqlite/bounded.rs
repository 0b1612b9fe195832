//! The cost of the file: refusals write nothing, the tasks of a queue lie together, and the room of deleted tasks goes back to the
//! file system.

use asynq_runtime::{
    broker::{BulkAction, Chosen, Inspect as _, Page, Repair as _},
    task::TaskState,
};
use asynq_test_support::{eventually, soon};

use super::*;

const KEY: &str = "asynq:{default}:unique:email:x";

fn length(file: &Path, ending: &str) -> u64 {
    std::fs::metadata(format!("{}{ending}", file.display())).unwrap().len()
}

#[tokio::test]
async fn a_refused_duplicate_writes_nothing() {
    let (_folder, file) = new_file();
    let broker = SqliteBroker::open(&url(&file), patient()).await.unwrap();
    broker.enqueue(vec![unique("first", KEY)]).await.remove(0).unwrap();
    let before = length(&file, "-wal");
    for n in 0..100 {
        let refused = broker.enqueue(vec![unique(&format!("next-{n}"), KEY)]).await.remove(0).unwrap_err();
        let holder = Some(TaskId::new("first").unwrap());
        assert!(matches!(&refused, Refused::Duplicate { holder: found } if *found == holder), "{refused:?}");
    }
    assert_eq!(length(&file, "-wal"), before);
    // The refused task is enqueued beside one that is stored, and one whose id is taken.
    let answers = broker.enqueue(vec![unique("again", KEY), task("other"), unique("first", KEY)]).await;
    assert!(matches!(answers[0], Err(Refused::Duplicate { .. })), "{answers:?}");
    assert!(answers[1].is_ok() && !matches!(answers[2], Err(Refused::Duplicate { .. })), "{answers:?}");
    assert!(length(&file, "-wal") > before);
}

#[tokio::test]
async fn a_file_whose_tasks_are_gone_becomes_small_while_nothing_happens() {
    let (_folder, file) = new_file();
    let broker = SqliteBroker::open(&url(&file), patient()).await.unwrap();
    for n in 0..48 {
        let mut large = task(&format!("t{n}"));
        large.message.payload = vec![7; 1 << 20].into();
        broker.enqueue(vec![large]).await.remove(0).unwrap();
    }
    let all = Chosen::InState(TaskState::Pending);
    soon(async { while broker.change_some(&queue(), &all, BulkAction::Delete, 100).await.unwrap().more {} }).await;
    // The file is as large as ever before the writer has time.
    eventually("the log is in the file, and the file is small", async || {
        let (file, log) = (length(&file, ""), length(&file, "-wal"));
        (file + log < 12 << 20).then_some(())
    })
    .await;
    broker.enqueue(vec![task("last")]).await.remove(0).unwrap();
    assert_eq!(broker.tasks(&queue(), TaskState::Pending, Default::default()).await.unwrap().len(), 1);
}

/// A batch of [`task`]s with a payload of 1 MiB each.
fn megabytes(n: usize) -> Vec<NewTask> {
    let large = |n: usize| {
        let mut large = task(&format!("t{n:02}"));
        large.message.payload = vec![7; 1 << 20].into();
        large
    };
    (0..n).map(large).collect()
}

/// The writer does nothing else while it stores and copies what one transaction wrote.
#[tokio::test]
async fn large_tasks_of_one_call_are_stored_in_several_transactions_and_listed_by_several_queries() {
    let (_folder, file) = new_file();
    let broker = open(&file).await;
    let answers = broker.enqueue(megabytes(40)).await;
    assert!(answers.len() == 40 && answers.iter().all(Result::is_ok), "{answers:?}");
    let log = length(&file, "-wal");
    assert!(log < 24 << 20, "{log} bytes in the log");
    // A list of them is whole, although no query reads more than 16 MiB.
    let page = Page { number: 1, size: 100 };
    let found = broker.list(&queue(), TaskState::Pending, None, page, Some(10)).await.unwrap();
    let expected: Vec<String> = (0..40).map(|n| format!("t{n:02}")).collect();
    assert_eq!(found.iter().map(|task| task.id.to_string()).collect::<Vec<_>>(), expected);
}

/// Fills `queues` queues in turns, takes 60 tasks of one of them, settles those, and returns how many pages that wrote.
async fn pages_written(queues: usize) -> u64 {
    let (_folder, file) = new_file();
    let broker = SqliteBroker::open(&url(&file), patient()).await.unwrap();
    let names: Vec<QueueName> = (0..queues).map(|n| QueueName::new(&format!("q{n}")).unwrap()).collect();
    for n in 0..60 {
        let of_queue = |queue: &QueueName| {
            let mut task = NewTask { queue: queue.clone(), ..task(&format!("t{n}")) };
            task.message.queue = queue.as_str().into();
            task
        };
        let round = names.iter().map(of_queue).collect();
        assert!(broker.enqueue(round).await.iter().all(Result::is_ok));
    }
    let member = join(&broker).await;
    let other = rusqlite::Connection::open(&file).unwrap();
    other.busy_timeout(PATIENCE).unwrap();
    other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    assert_eq!(length(&file, "-wal"), 0);
    let wanted = [Wanted { queue: names[queues / 2].clone(), n: 60 }];
    let runs = broker.dequeue(&member, &wanted).await.unwrap();
    assert_eq!(runs.len(), 60);
    let outcomes: Vec<Settlement> = runs.iter().map(|run| outcome(run, Action::Done)).collect();
    assert!(broker.settle(&outcomes).await.into_iter().all(|settled| settled.unwrap() == Settled::Ok));
    length(&file, "-wal") / 4096
}

#[tokio::test]
async fn the_tasks_of_one_queue_among_many_lie_on_as_few_pages_as_those_of_a_queue_alone() {
    let (alone, among_many) = (pages_written(1).await, pages_written(40).await);
    assert!(among_many <= 2 * alone, "{among_many} pages written in place of {alone}");
}
