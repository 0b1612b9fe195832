//! A value that is read beside the requests that show it: one read at a time, and none while the last result is fresh.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use futures_util::future::{BoxFuture, FutureExt as _};
use parking_lot::Mutex;
use tokio::{sync::watch, time::timeout};
use tokio_util::task::AbortOnDropHandle;

/// Reads a value for requests. A read goes on when the request that waits for it is over.
pub(crate) struct Latest<T> {
    read: Box<dyn Fn() -> BoxFuture<'static, T> + Send + Sync>,
    /// Returns how long the result of a read that took this long is fresh.
    good_for: fn(&T, Duration) -> Duration,
    last: watch::Sender<Option<Report<T>>>,
    /// The lock admits one read at a time: a request that comes meanwhile takes its answer.
    reading: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// The result of a read.
#[derive(Debug, Clone)]
pub(crate) struct Report<T> {
    /// The result.
    pub(crate) value: T,
    /// The time of the result, by our clock.
    pub(crate) at: DateTime<Utc>,
    until: Instant,
}

impl<T> Report<T> {
    fn is_fresh(&self) -> bool {
        Instant::now() < self.until
    }
}

impl<T: Clone + Send + Sync + 'static> Latest<T> {
    /// Creates a reader; nothing is read before the first request.
    pub(crate) fn new<F: Future<Output = T> + Send + 'static>(
        good_for: fn(&T, Duration) -> Duration,
        read: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self {
        let read = Box::new(move || read().boxed());
        Self { read, good_for, last: watch::Sender::new(None), reading: Mutex::default() }
    }

    /// Returns the last result if it is fresh; else the next one, if it comes within `patience`.
    pub(crate) async fn fresh(&self, patience: Duration) -> Option<Report<T>> {
        let mut last = self.last.subscribe();
        let fresh = self.fresh_or_ask();
        if fresh.is_some() {
            return fresh;
        }
        // On a busy machine this request may look when the result that it waited for is not fresh any more.
        timeout(patience, last.changed()).await.ok()?.ok()?;
        last.borrow().clone()
    }

    /// Returns a result as [`fresh`](Self::fresh) does; else the last one, if there is one.
    pub(crate) async fn latest(&self, patience: Duration) -> Option<Report<T>> {
        let fresh = self.fresh(patience).await;
        fresh.or_else(|| self.last.borrow().clone())
    }

    /// Returns the last result if it is fresh; else starts a read, unless one is under way.
    fn fresh_or_ask(&self) -> Option<Report<T>> {
        let mut reading = self.reading.lock();
        let fresh = self.last.borrow().as_ref().filter(|last| last.is_fresh()).cloned();
        if fresh.is_some() || reading.as_ref().is_some_and(|reading| !reading.is_finished()) {
            return fresh;
        }
        let (answer, last, good_for) = ((self.read)(), self.last.clone(), self.good_for);
        *reading = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            let began = Instant::now();
            let value = answer.await;
            let until = Instant::now() + good_for(&value, began.elapsed());
            last.send_replace(Some(Report { value, at: Utc::now(), until }));
        })));
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    };

    use asynq_test_support::{PATIENCE, eventually};
    use tokio::sync::Notify;

    use super::*;

    impl<T: Clone> Latest<T> {
        /// Waits for the read that is under way, and returns the last result, which is not fresh from now on.
        pub(crate) async fn expire(&self) -> Option<T> {
            let reading = self.reading.lock().take();
            if let Some(reading) = reading {
                reading.await.expect("the read ends");
            }
            self.last.send_modify(|last| last.iter_mut().for_each(|report| report.until = Instant::now()));
            self.last.borrow().clone().map(|report| report.value)
        }
    }

    #[tokio::test]
    async fn a_request_waits_no_longer_than_its_limit_and_all_share_one_answer() {
        let (let_go, reads) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let read = (Arc::clone(&let_go), Arc::clone(&reads));
        // The result is fresh for longer than a busy machine may take for the next call.
        let latest = Latest::new(
            |_, _| PATIENCE,
            move || {
                let (let_go, reads) = read.clone();
                async move {
                    reads.fetch_add(1, Relaxed);
                    let_go.notified().await;
                    "here"
                }
            },
        );
        assert!(latest.latest(Duration::ZERO).await.is_none());
        assert!(latest.latest(Duration::from_millis(5)).await.is_none());
        let_go.notify_one();
        for _ in 0..3 {
            assert_eq!(latest.fresh(PATIENCE).await.expect("an answer").value, "here");
        }
        assert_eq!(reads.load(Relaxed), 1);
    }

    #[tokio::test]
    async fn the_previous_answer_is_served_while_a_new_one_is_read() {
        let reads = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&reads);
        let latest = Latest::new(
            |_, _| PATIENCE,
            move || {
                let n = count.fetch_add(1, Relaxed);
                async move { if n == 0 { n } else { std::future::pending().await } }
            },
        );
        let first = latest.fresh(PATIENCE).await.expect("an answer");
        assert_eq!(latest.expire().await, Some(0));
        let again = latest.latest(Duration::ZERO).await.expect("the last answer");
        assert_eq!((again.at, again.is_fresh()), (first.at, false));
        assert!(latest.fresh(Duration::ZERO).await.is_none());
        eventually("it is asked anew", async || (reads.load(Relaxed) == 2).then_some(())).await;
    }

    #[tokio::test]
    async fn a_request_takes_the_answer_that_it_waited_for_however_soon_it_is_stale() {
        let latest = Latest::new(|_, _| Duration::ZERO, || async { "here" });
        assert_eq!(latest.fresh(PATIENCE).await.expect("an answer").value, "here");
    }
}
