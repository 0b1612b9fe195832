//! Attempts of blocking jobs for which the operating system starts no thread, or none in time.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use asynq_test_support::soon;
use futures_util::FutureExt as _;
use parking_lot::Mutex;

use super::*;
use crate::task::TaskMessage;

type Work = Box<dyn FnOnce() + Send>;

/// The work that was sent to a thread that does not exist.
type Sent = Arc<Mutex<Vec<Work>>>;

/// Runs an attempt whose body counts its runs, in a pool of one thread; `spawn` sends it. Then a thread begins all that was sent.
async fn driven(
    pool: &BlockingPool,
    stop: &Stop,
    timeout: i64,
    spawn: impl FnOnce(Work, &Mutex<Vec<Work>>) + Send + 'static,
) -> (Ended, usize) {
    let (handle, sent, runs) = (pool.for_attempt(), Sent::default(), Arc::new(AtomicUsize::new(0)));
    let (blocking, queue, counter) = (handle.clone(), Arc::clone(&sent), Arc::clone(&runs));
    let job = async move {
        let body = move || Ok(counter.fetch_add(1, Ordering::SeqCst));
        blocking.run_by(move |work| spawn(work, &queue), body).await.map(|_| None)
    };
    let mut attempt = AttemptFuture(Caught::new(job));
    let deadline = AttemptDeadline::of(&TaskMessage { timeout, ..TaskMessage::default() }, chrono::Utc::now());
    let watch = async |_| pending().await;
    let ended = soon(drive(&mut attempt, Instant::now(), &deadline, stop, &handle, watch)).await.ended;
    drop(attempt);
    assert_eq!((handle.busy(), handle.owes_a_result()), (0, false), "{ended:?}");
    let late = std::mem::take(&mut *sent.lock());
    late.into_iter().for_each(|work| work());
    (ended, runs.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_job_for_which_no_thread_can_be_started_has_not_failed_and_does_not_run_later() {
    let (pool, stop) = (BlockingPool::new(1), Stop::default());
    for _ in 0..2 {
        let spawn = |work, sent: &Mutex<Vec<Work>>| {
            sent.lock().push(work);
            panic!("OS can't spawn worker thread");
        };
        let (ended, runs) = driven(&pool, &stop, 3600, spawn).await;
        assert_eq!(runs, 0, "{ended:?}");
        let Ended::NeverBegan(why) = ended else { panic!("{ended:?}") };
        assert!(why.starts_with("no blocking thread could be started: panic") && why.contains("OS can't"), "{why}");
    }
    // The next one finds the only permit.
    let (ended, runs) = driven(&pool, &stop, 3600, |work, _| work()).await;
    assert_eq!((ended, runs), (Ended::Succeeded(None), 1));
}

#[tokio::test]
async fn a_job_that_another_thread_begins_although_none_could_be_started_runs() {
    let spawn = |work: Work, _: &Mutex<Vec<Work>>| {
        work();
        panic!("OS can't spawn worker thread");
    };
    let (ended, runs) = driven(&BlockingPool::new(1), &Stop::default(), 3600, spawn).await;
    assert_eq!((ended, runs), (Ended::Succeeded(None), 1));
}

#[tokio::test]
async fn a_job_that_no_thread_has_begun_in_its_time_or_before_it_was_cancelled_does_not_run_later() {
    let pool = BlockingPool::new(1);
    let queue = |work, sent: &Mutex<Vec<Work>>| sent.lock().push(work);
    let (ended, runs) = driven(&pool, &Stop::default(), 1, queue).await;
    assert_eq!((ended, runs), (Ended::NeverBegan(NO_THREAD.to_owned()), 0));
    for (why, expected) in [(Why::Cancelled, Ended::failed(CANCELLED)), (Why::Leaving, Ended::Interrupted)] {
        let stop = Stop::default();
        stop.stop(why);
        assert_eq!(driven(&pool, &stop, 3600, queue).await, (expected, 0));
    }
}

/// A layer runs its job in a task of its own, and gives it up while the job waits for a thread.
#[tokio::test]
async fn a_job_that_waits_for_a_thread_when_its_attempt_ends_does_not_run_later() {
    let (pool, sent) = (BlockingPool::new(1), Sent::default());
    let (other, handle) = (pool.for_attempt(), pool.for_attempt());
    let mut holder = Box::pin(other.run_by(|work| sent.lock().push(work), || Ok(())));
    assert!((&mut holder).now_or_never().is_none());
    let mut left = Box::pin(handle.run_by(|work| sent.lock().push(work), || Ok(())));
    assert!((&mut left).now_or_never().is_none() && handle.waits_for_a_thread());
    let mut attempt = AttemptFuture(Caught::new(async { Err(JobError::fail("too slow for the layer")) }));
    let deadline = AttemptDeadline::of(&TaskMessage::default(), chrono::Utc::now());
    drive(&mut attempt, Instant::now(), &deadline, &Stop::default(), &handle, async |_| pending().await).await;
    drop(holder);
    assert!(soon(left).await.is_err());
    assert_eq!(sent.lock().len(), 1, "only the holder's body was sent to a thread");
}
