//! Contract `Settle`: an outcome whose answer was lost may be sent again, any number of times.

use std::time::Duration;

use asynq_runtime::broker::{Action, Settled};
use asynq_tests::{Build as _, Seeded as _, Store as _, archive, complete, done, requeue, retry, task};

use super::Fixture;

const MINUTE: Duration = Duration::from_secs(60);

/// The second send is answered as the first, and changes nothing.
async fn sent_twice(action: Action) {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").with_retention(3600)).await;
    assert_eq!(t.settle(&run, action.clone()).await, Settled::Ok);
    let before = (t.snapshot().await, t.store.dump());

    assert_eq!(t.resend(&run, action.clone()).await, Settled::Ok);
    assert_eq!(t.resend(&run, action).await, Settled::Ok);

    assert_eq!((t.snapshot().await, t.store.dump()), before);
}

/// The first send was lost: the second settles the run.
async fn sent_first_by_the_resend(action: Action) {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").with_retention(3600)).await;
    assert_eq!(t.resend(&run, action).await, Settled::Ok);
    assert_eq!(t.snapshot().await.stats.active, 0);
}

/// Before the second send, another worker already runs the task: its run is not affected.
async fn sent_twice_while_another_runs_it(action: Action) {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    assert_eq!(t.settle(&run, action.clone()).await, Settled::Ok);
    t.advance(2 * MINUTE);
    t.forward().await;
    let other = t.another_member(2).await;
    let rightful = t.take_one_as(&other).await;
    let before = t.store.dump();

    t.resend(&run, action).await;

    assert_eq!(t.store.dump(), before);
    assert_eq!(t.settle(&rightful, done()).await, Settled::Ok);
}

/// An outcome that is twice in one batch is applied once, whatever the answer to the second.
async fn sent_twice_in_one_batch(action: Action) {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").with_retention(3600)).await;
    let answers = t.broker().settle(&[run.ends_with(action.clone()), run.ends_with(action.clone())]).await;
    assert!(matches!(answers[..], [Ok(Settled::Ok), Ok(_)]), "{answers:?}");
    let stats = t.snapshot().await.stats;
    let counted = u64::from(action != Action::Requeue);
    let stored = u64::from(action != Action::Done);
    assert_eq!((stats.active, stats.processed_total, stats.size), (0, counted, stored), "{stats:?}");
    assert_eq!(t.drain().await.len(), usize::from(action == Action::Requeue));
}

macro_rules! each_action {
    ($($case:ident: [$($action:ident = $value:expr),*];)*) => {
        $(mod $case {
            use super::*;

            $(#[tokio::test] async fn $action() { super::$case($value).await; })*
        })*
    };
}

each_action! {
    sent_twice: [
        a_done = done(), a_complete = complete("42"), a_retry = retry(MINUTE, "boom"), an_archive = archive("fatal"),
        a_requeue = requeue()
    ];
    sent_first_by_the_resend: [
        a_done = done(), a_complete = complete("42"), a_retry = retry(MINUTE, "boom"), an_archive = archive("fatal"),
        a_requeue = requeue()
    ];
    sent_twice_while_another_runs_it: [a_retry = retry(MINUTE, "boom"), a_requeue = requeue()];
    sent_twice_in_one_batch: [
        a_done = done(), a_complete = complete("42"), a_retry = retry(MINUTE, "boom"), an_archive = archive("fatal"),
        a_requeue = requeue()
    ];
}

#[tokio::test]
async fn a_done_sent_again_spares_the_next_task_of_that_id() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    t.settle(&run, done()).await;
    t.seed_pending(&["t1"]).await;
    let before = t.store.dump();
    t.resend(&run, done()).await;
    assert_eq!(t.store.dump(), before);
}

#[tokio::test]
async fn an_outcome_is_recognised_an_hour_later() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    t.settle(&run, retry(2 * 60 * MINUTE, "boom")).await;
    t.advance(60 * MINUTE);
    assert_eq!(t.resend(&run, retry(2 * 60 * MINUTE, "boom")).await, Settled::Ok);
    assert_eq!(t.snapshot().await.stats.failed_total, 1);
}

#[tokio::test]
async fn a_second_outcome_without_the_mark_is_refused() {
    for first in [complete("42"), retry(MINUTE, "boom"), archive("fatal"), requeue()] {
        let t = Fixture::start().await;
        let run = t.start_run(task("t1").with_retention(3600)).await;
        assert_eq!(t.settle(&run, first.clone()).await, Settled::Ok);
        let before = t.store.dump();
        for second in [done(), complete("43"), retry(MINUTE, "late"), archive("late"), requeue()] {
            assert_eq!(t.settle(&run, second.clone()).await, Settled::Fenced, "{first:?}, then {second:?}");
        }
        assert_eq!(t.store.dump(), before, "{first:?}");
    }
}

#[tokio::test]
async fn a_second_outcome_of_a_task_that_is_done_finds_none() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    assert_eq!(t.settle(&run, done()).await, Settled::Ok);
    for second in [done(), retry(MINUTE, "late"), archive("late"), requeue()] {
        assert_eq!(t.settle(&run, second).await, Settled::Gone);
    }
}
