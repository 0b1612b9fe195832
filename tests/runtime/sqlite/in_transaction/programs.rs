//! Whole programs: one that is killed, one that waits for work, one that holds the write lock for long.

use asynq_runtime::broker::{BrokerErrorKind, Quarantined};
use asynq_test_support::soon;

use super::{super::others::intercept, *};
use crate::child::Program;

/// The child's part: enqueues, commits or does not, and waits to be killed. `argument` names the moment and the file.
pub(crate) async fn begins_a_transaction(argument: &str) {
    let (when, file) = argument.split_once(':').unwrap();
    let client = Client::new(Arc::new(open(Path::new(file)).await));
    let mut theirs = Connection::open(file).unwrap();
    let tx = begin(&mut theirs);
    add_person(&tx, when);
    for api in APIS {
        api.enqueue(&client, &tx, raw(&format!("{when} {api:?}")).unique("1h")).unwrap();
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
        let mut child = Program::start("transaction", format!("{when}:{}", t.file().display()));
        child.prints("ready");
        child.kill();
        check_whole(&t.file());
    }
    let mut left = ids(&dequeue(&t.broker, &t.member, 9).await).iter().map(ToString::to_string).collect::<Vec<_>>();
    left.sort();
    assert_eq!(left, ["after Function", "after View"]);
    assert_eq!(t.number("SELECT count(*) FROM person"), 1);
}

#[tokio::test]
async fn a_commit_notifies_other_programs_only_on_request_and_always_wakes_a_worker() {
    for api in APIS {
        let (folder, file) = new_file();
        let (client, worker) = (Client::new(Arc::new(open(&file).await)), open(&file).await);
        let member = join(&worker).await;
        let notified = intercept(folder.path());
        let mut theirs = Connection::open(&file).unwrap();
        let commit = async {
            let tx = begin(&mut theirs);
            api.enqueue(&client, &tx, raw("a")).unwrap();
            tx.commit().unwrap();
        };
        let queues = [queue()];
        let (woken, ()) =
            soon(async { tokio::join!(worker.wait_for_work(&queues, Quarantined::All, HOUR), commit) }).await;
        woken.unwrap();
        assert_eq!(ids(&dequeue(&worker, &member, 9).await), ["a"]);
        notified.set_nonblocking(true).unwrap();
        assert!(notified.recv(&mut [0; 8]).is_err(), "{api:?}: the safety net woke the worker");
        notified.set_nonblocking(false).unwrap();
        client.wake();
        notified.recv(&mut [0; 8]).unwrap();
    }
}

#[tokio::test]
async fn a_worker_of_the_same_program_is_woken_as_well() {
    let t = World::new().await;
    let mut theirs = t.theirs();
    let broker = Arc::clone(&t.broker);
    let waiting = tokio::spawn(async move { broker.wait_for_work(&[queue()], Quarantined::All, HOUR).await });
    let tx = begin(&mut theirs);
    t.client.enqueue_in_tx(&tx, raw("a")).unwrap();
    tx.commit().unwrap();
    t.client.wake();
    soon(waiting).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_transaction_that_takes_its_time_makes_others_wait_and_loses_nothing() {
    let (_folder, file) = new_file();
    let (impatient, patient) = (open_brief(&file).await, open(&file).await);
    let client = Client::new(Arc::new(open(&file).await));
    let mut theirs = Connection::open(&file).unwrap();
    let tx = begin(&mut theirs);
    client.enqueue_in_tx(&tx, raw("theirs")).unwrap();

    let waits = enqueue(&patient, task("waits"));
    let holder = async {
        // The mistake of a program that awaits another call while its own transaction is open.
        let refused = enqueue(&impatient, task("never")).await.unwrap_err();
        tx.commit().unwrap();
        refused
    };
    let (waited, refused) = tokio::join!(waits, holder);
    waited.unwrap();
    let Refused::Broker(error) = refused else { panic!("{refused:?}") };
    assert_eq!((error.kind(), error.is_ambiguous()), (BrokerErrorKind::Timeout, false), "{error}");
    assert!(
        error.to_string().contains("another program holds the lock, or a transaction of this one that is still open"),
        "{error}"
    );

    let member = join(&patient).await;
    let runs = dequeue(&patient, &member, 9).await;
    assert_eq!(ids(&runs), ["theirs", "waits"]);
    // The writer has done all that it was given once it has ended.
    impatient.close().await;
    assert!(dequeue(&patient, &member, 9).await.is_empty(), "an enqueue that ended in time-out is not stored later");
    patient.close().await;
    check_whole(&file);
}
