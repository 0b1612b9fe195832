//! The cost of the file: refusals write nothing, and the room of deleted tasks goes back to the file system.

use asynq_runtime::{
    broker::{BulkAction, Chosen, Inspect as _, Repair as _},
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
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
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
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
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
