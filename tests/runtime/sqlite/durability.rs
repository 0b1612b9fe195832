//! A call is answered only after its commit.
//!
//! `scripts/prove disk` runs this under strace and looks for a sync of the log before each answer. The answers are there as
//! writes to the files `one-by-one` and `together`.

use std::{fs::File, io::Write as _};

use super::*;

/// Returns how many tasks are enqueued and settled in each way.
fn count() -> usize {
    std::env::var("DURABLE_TASKS").map_or(20, |count| count.parse().expect("DURABLE_TASKS is a number"))
}

#[tokio::test]
async fn every_answer_comes_after_its_commit() {
    let (folder, file) = new_file();
    let broker = Arc::new(open(&file).await);
    let member = join(&broker).await;
    let other = rusqlite::Connection::open(&file).unwrap();
    let stored = || {
        let count = other.query_row("SELECT count(*) FROM task", [], |row| row.get::<_, i64>(0));
        usize::try_from(count.unwrap()).unwrap()
    };

    let mut answers = File::create(folder.path().join("one-by-one")).unwrap();
    for n in 1..=count() {
        enqueue(&broker, task(&n.to_string())).await.unwrap();
        answers.write_all(b".").unwrap();
        assert_eq!(stored(), n);
    }
    for n in (0..count()).rev() {
        let run = dequeue(&broker, &member, 1).await.remove(0);
        assert_eq!(settle(&broker, outcome(&run, Action::Done)).await, Settled::Ok);
        answers.write_all(b".").unwrap();
        assert_eq!(stored(), n);
    }

    let answers = Arc::new(File::create(folder.path().join("together")).unwrap());
    let calls = (0..8).map(|caller| {
        let (broker, answers) = (Arc::clone(&broker), Arc::clone(&answers));
        tokio::spawn(async move {
            for n in 0..count().div_ceil(8) {
                enqueue(&broker, task(&format!("{caller}-{n}"))).await.unwrap();
                (&*answers).write_all(b".").unwrap();
            }
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    assert_eq!(stored(), 8 * count().div_ceil(8));
}
