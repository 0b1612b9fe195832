//! Whole programs: one that is killed, one that waits for work, one that holds the write lock for long.

use std::{
    io::BufRead as _,
    process::{Command, Stdio},
    time::Instant,
};

use asynq_runtime::broker::BrokerErrorKind;

use super::*;

/// Set in a child process: the file it works on, and when it says that it can be killed.
const CHILD: &str = "ASYNQ_TEST_SQLITE_TRANSACTION";

/// Not a test: what the child process does. It enqueues, commits or does not, and waits to be killed.
#[tokio::test]
async fn child_process() {
    let Some(told) = std::env::var_os(CHILD) else { return };
    let told = told.into_string().unwrap();
    let (when, file) = told.split_once(':').unwrap();
    let client = Client::new(Arc::new(open(Path::new(file)).await));
    let mut theirs = Connection::open(file).unwrap();
    let tx = begin(&mut theirs);
    add_person(&tx, when);
    for way in WAYS {
        way.enqueue(&client, &tx, raw(&format!("{when} {way:?}")).unique("1h")).unwrap();
    }
    if when == "after" {
        tx.commit().unwrap();
        println!("\nready");
        std::future::pending::<()>().await;
    }
    println!("\nready");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_program_killed_before_its_commit_leaves_nothing_and_after_it_everything() {
    let t = World::new().await;
    t.theirs();
    for when in ["before", "after"] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["in_transaction::programs::child_process", "--exact", "--nocapture", "--test-threads=1"])
            .env(CHILD, format!("{when}:{}", t.file().display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(output.any(|line| line.unwrap() == "ready"));
        child.kill().unwrap();
        child.wait().unwrap();
        check_whole(&t.file());
    }
    let mut left = ids(&dequeue(&t.broker, &t.member, 9).await).iter().map(ToString::to_string).collect::<Vec<_>>();
    left.sort();
    assert_eq!(left, ["after Function", "after View"]);
    assert_eq!(t.number("SELECT count(*) FROM person"), 1);
}

/// How long an idle worker in another program waits after the commit: the median of `n`.
async fn latency(way: Way, wake: bool, n: usize) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    let (client, worker) = (Client::new(Arc::new(open(&file).await)), Arc::new(open(&file).await));
    let member = join(&worker).await;
    let mut theirs = Connection::open(&file).unwrap();
    let mut took = Vec::new();
    for n in 0..n {
        let waiting = tokio::spawn({
            let worker = Arc::clone(&worker);
            async move {
                worker.wait_for_work(&[queue()], PATIENCE).await.unwrap();
                Instant::now()
            }
        });
        tokio::time::sleep(Duration::from_millis(5)).await;
        let tx = begin(&mut theirs);
        way.enqueue(&client, &tx, raw(&n.to_string())).unwrap();
        tx.commit().unwrap();
        let begun = Instant::now();
        if wake {
            client.wake();
        }
        took.push(waiting.await.unwrap() - begun);
        let run = dequeue(&worker, &member, 1).await.remove(0);
        settle(&worker, outcome(&run, Action::Done)).await;
    }
    took.sort();
    println!("{way:?}, wake {wake}: median {:?}, worst {:?}", took[n / 2], took[n - 1]);
    took[n / 2]
}

#[tokio::test]
async fn an_idle_worker_is_woken_at_once_and_without_a_word_by_the_net() {
    for way in WAYS {
        // The net alone would take 50 ms on average.
        assert!(latency(way, true, 21).await < Duration::from_millis(20));
        assert!(latency(way, false, 5).await < Duration::from_secs(1));
    }
}

#[tokio::test]
async fn a_worker_of_the_same_program_is_woken_as_well() {
    let t = World::new().await;
    let mut theirs = t.theirs();
    let broker = Arc::clone(&t.broker);
    let waiting = tokio::spawn(async move { broker.wait_for_work(&[queue()], PATIENCE).await });
    let tx = begin(&mut theirs);
    t.client.enqueue_in_tx(&tx, raw("a")).unwrap();
    tx.commit().unwrap();
    t.client.wake();
    tokio::time::timeout(PATIENCE / 2, waiting).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_transaction_that_takes_its_time_makes_others_wait_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    let mut options = SqliteOptions::default();
    options.call_timeout = Duration::from_millis(200);
    let (impatient, patient) = (SqliteBroker::open(&url(&file), options).await.unwrap(), open(&file).await);
    let client = Client::new(Arc::new(open(&file).await));
    let mut theirs = Connection::open(&file).unwrap();
    let tx = begin(&mut theirs);
    client.enqueue_in_tx(&tx, raw("theirs")).unwrap();

    let waits = enqueue(&patient, task("waits"));
    let held = async {
        let refused = enqueue(&impatient, task("unknown")).await.unwrap_err();
        tx.commit().unwrap();
        refused
    };
    let (waited, refused) = tokio::join!(waits, held);
    waited.unwrap();
    let Refused::Broker(error) = refused else { panic!("{refused:?}") };
    assert_eq!(error.kind(), BrokerErrorKind::Timeout);
    assert!(error.to_string().contains("another program holds the lock"), "{error}");

    let member = join(&patient).await;
    let runs = dequeue(&patient, &member, 9).await;
    let mut there = ids(&runs);
    there.retain(|id| *id != "unknown");
    assert_eq!(there[0], "theirs");
    assert!(there.contains(&"waits"), "{there:?}");
    for broker in [&impatient, &patient] {
        broker.close().await;
    }
    check_whole(&file);
}
