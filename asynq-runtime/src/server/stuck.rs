//! Blocking jobs whose threads do not return when they are asked to stop: they are shown, and given up where the job allows it.
//!
//! No thread can be stopped from outside. An attempt therefore lasts until its thread returns, unless its job has
//! `kill_after`: then the attempt is settled without its thread, and the thread's result is discarded.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::{error::ServerError, outcome::Ended};
use crate::{
    job::{BlockingPool, Policy},
    metrics::AttemptMetrics,
    pause,
};

/// How long a thread may take to notice that it is to stop, before the job counts as stuck.
const NOTICE: Duration = Duration::from_secs(5);

/// The threads that a server has given up.
#[derive(Debug)]
pub(crate) struct GivenUp {
    threads: AtomicUsize,
    /// With as many threads the server leaves: each of them holds memory, and perhaps a lock that the others wait for.
    limit: usize,
    worn_out: CancellationToken,
}

impl GivenUp {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { threads: AtomicUsize::new(0), limit: limit.max(1), worn_out: CancellationToken::new() })
    }

    /// Waits until the limit is reached.
    pub(crate) async fn worn_out(&self) {
        self.worn_out.cancelled().await;
    }

    /// Returns an error once the limit was reached.
    ///
    /// # Errors
    ///
    /// The limit was reached.
    pub(crate) fn outcome(&self) -> Result<(), ServerError> {
        if self.worn_out.is_cancelled() { Err(ServerError::Stuck { threads: self.limit }) } else { Ok(()) }
    }

    fn add(self: &Arc<Self>) -> OneGivenUp {
        if self.threads.fetch_add(1, Ordering::AcqRel) + 1 >= self.limit {
            self.worn_out.cancel();
        }
        OneGivenUp(Arc::clone(self))
    }
}

/// Counts one thread that was given up, until it returns after all.
struct OneGivenUp(Arc<GivenUp>);

impl Drop for OneGivenUp {
    fn drop(&mut self) {
        self.0.threads.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Watches the threads of an attempt that ought to end because of `cause`. Returns how the attempt ends without them,
/// `kill_after` from now; never returns without `kill_after`.
pub(crate) async fn watch(
    cause: Ended,
    blocking: &BlockingPool,
    attempt_metrics: &AttemptMetrics,
    kill_after: Option<Duration>,
    given_up: &Arc<GivenUp>,
) -> Ended {
    let notice = kill_after.map_or(NOTICE, |after| after.min(NOTICE));
    pause::beside_jobs(notice).await;
    blocking.keep_until_idle(Box::new(attempt_metrics.stuck()));
    let Some(after) = kill_after else {
        log!(
            warn,
            "stuck: it was asked to stop and its thread has not returned; task, slot and lease wait for it \
             (`kill_after` would give it up)"
        );
        return std::future::pending().await;
    };
    log!(warn, kill_after = ?after, "stuck: it was asked to stop and its thread has not returned");
    pause::beside_jobs(after.saturating_sub(notice)).await;
    blocking.keep_until_idle(Box::new(given_up.add()));
    log!(error, "given up: its thread has not returned and is no longer waited for");
    without_thread(cause, after)
}

/// Returns how an attempt ends whose thread was given up.
fn without_thread(cause: Ended, after: Duration) -> Ended {
    let more = |why: String| format!("{why}; its thread did not return within {after:?} and was given up");
    match cause {
        Ended::Failed { policy: Policy::Fail, error } => Ended::failed(more(error)),
        Ended::Hopeless(why) => Ended::Hopeless(more(why)),
        // It got its thread in the last moment.
        Ended::NeverBegan(why) => Ended::failed(more(why)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use asynq_test_support::{Log, soon};
    use tokio::task::coop::consume_budget;

    use super::*;
    use crate::metrics::JobMetricsMap;

    #[test]
    fn an_attempt_without_its_thread_ends_as_its_cause_with_a_note_of_the_thread() {
        let after = Duration::from_secs(60);
        let more = "; its thread did not return within 60s and was given up";
        let table = [
            (Ended::failed("too late"), Ended::failed(format!("too late{more}"))),
            (Ended::Hopeless("the end".into()), Ended::Hopeless(format!("the end{more}"))),
            (Ended::Interrupted, Ended::Interrupted),
        ];
        for (cause, expected) in table {
            assert_eq!(without_thread(cause, after), expected);
        }
    }

    #[tokio::test]
    async fn a_thread_is_given_up_in_time_although_its_attempt_uses_up_the_budget_of_each_poll() {
        let jobs = JobMetricsMap::new(["stuck:beside"]);
        let attempt_metrics = jobs.get("stuck:beside").unwrap().begin(None);
        let (blocking, given_up, after) = (BlockingPool::default(), GivenUp::new(1), Duration::from_millis(10));
        let spins = async {
            loop {
                consume_budget().await;
            }
        };
        let ended = soon(async {
            tokio::select! {
                biased;
                () = spins => unreachable!("it never ends"),
                ended = watch(Ended::failed("too late"), &blocking, &attempt_metrics, Some(after), &given_up) => ended,
            }
        });
        assert_eq!(ended.await, without_thread(Ended::failed("too late"), after));
    }

    #[tokio::test]
    async fn the_line_about_a_stuck_thread_does_not_say_that_the_time_of_a_cancelled_job_is_over() {
        let jobs = JobMetricsMap::new(["stuck:cancelled"]);
        let attempt_metrics = jobs.get("stuck:cancelled").unwrap().begin(None);
        let (blocking, given_up, after) = (BlockingPool::default(), GivenUp::new(1), Duration::from_millis(1));
        let log = Log::keep();
        soon(watch(Ended::failed("context canceled"), &blocking, &attempt_metrics, Some(after), &given_up)).await;
        let lines = log.with("stuck: ");
        assert!(lines.len() == 1 && lines[0].contains("it was asked to stop"), "{log:?}");
    }

    #[tokio::test]
    async fn a_server_is_worn_out_by_as_many_threads_at_a_time_as_its_limit() {
        let given_up = GivenUp::new(2);
        drop(given_up.add());
        let one = given_up.add();
        assert!(given_up.outcome().is_ok(), "the first thread has returned");
        let two = given_up.add();
        given_up.worn_out().await;
        drop((one, two));
        assert!(matches!(given_up.outcome(), Err(ServerError::Stuck { threads: 2 })), "it stays so");
    }
}
