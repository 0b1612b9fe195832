//! Polls one attempt to its end: its time, a panic, a cancellation, and the error that its job returned.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use super::{
    attempt_deadline::AttemptDeadline,
    dispatcher::NotRun,
    hooks::IsFailure,
    outcome::Ended,
    stop::{Stop, Why},
};
use crate::{
    broker::{BrokerErrorKind, shortened},
    job::{BlockingPool, JobError, NoThread, Policy, RunResult, Unloaded, with_causes},
    panics::{self, Caught},
    pause,
    task::chain,
};

/// Delay before the next try of a task whose unique lock the broker refused to free.
pub(super) const AFTER_REFUSAL: Duration = Duration::from_secs(5);
/// How long the layers of a blocking job that was stopped may take with the result of its thread.
const AFTER_RESULT: Duration = Duration::from_secs(1);
/// asynq's words for an attempt that took too long.
const TIMED_OUT: &str = "context deadline exceeded";
/// The reason of an attempt that waited for a thread all its time; see [`ServerBuilder::blocking_limit`](super::ServerBuilder::blocking_limit).
const NO_THREAD: &str = "no blocking thread became free within the timeout of the task";
/// asynq's words for an attempt that was cancelled.
const CANCELLED: &str = "context canceled";

/// Waits for the attempt, its time, or a reason to stop, whichever is first.
///
/// `watch` ends where threads that do not return are given up. Rare ends are boxed: each attempt would have the room for
/// them otherwise.
pub(super) async fn drive<W: Future<Output = Ended>>(
    attempt: &mut AttemptFuture,
    began: Instant,
    deadline: &AttemptDeadline,
    stop: &Stop,
    blocking: &BlockingPool,
    watch: impl FnOnce(Ended) -> W,
) -> Attempted {
    let is_late = async { pause::beside_jobs(deadline.remaining.saturating_sub(began.elapsed())).await };
    let cause = tokio::select! {
        biased;
        attempted = &mut *attempt => {
            // An error of a job that noticed the request before this poll is its consequence, too.
            let attempted = if stop.is_requested() { stopped_by_itself(attempted, stopped(stop)) } else { attempted };
            // A layer may have left the job waiting for a thread in a task of its own.
            blocking.give_up_queued();
            if blocking.busy() == 0 {
                return attempted;
            }
            return Box::pin(outlasted(attempted, stop, blocking, watch)).await;
        }
        () = stop.requested() => stopped(stop),
        // A timer is made only if the attempt does not end at once.
        () = is_late => overrun(deadline, blocking),
    };
    Box::pin(interrupted(attempt, cause, stop, blocking, watch)).await
}

/// Ends an attempt because of `cause`.
async fn interrupted<W: Future<Output = Ended>>(
    attempt: &mut AttemptFuture,
    cause: Ended,
    stop: &Stop,
    blocking: &BlockingPool,
    watch: impl FnOnce(Ended) -> W,
) -> Attempted {
    stop.cancel.cancel();
    // A thread that noticed by itself may have returned since the attempt was polled, and a result that is there counts.
    let polled = poll_fn(|cx| Poll::Ready(Pin::new(&mut *attempt).poll(cx))).await;
    blocking.give_up_queued();
    if let Poll::Ready(attempted) = polled {
        return outlasted(stopped_by_itself(attempted, cause), stop, blocking, watch).await;
    }
    // An async job ends here, at its await; the caller drops it. A thread cannot be stopped: its attempt, its slot and its lease last
    // until it returns, unless its job lets it be given up or the server is leaving.
    if !blocking.owes_a_result() || stop.why() == Why::Leaving {
        return cause.into();
    }
    let mut returned = None;
    let ends = async {
        // The attempt takes the thread's result. A layer that goes on to await something else ends with the attempt, as an async job does.
        let late = async {
            blocking.owes_nothing().await;
            pause::beside_jobs(AFTER_RESULT).await;
        };
        tokio::select! {
            biased;
            attempted = attempt => returned = Some(stopped_by_itself(attempted, cause.clone())),
            () = late => {}
        }
        blocking.idle().await;
    };
    tokio::select! {
        biased;
        () = ends => {}
        () = stop.leave() => {}
        // A result that was returned before another thread of the attempt was given up stands.
        ended = watch(cause.clone()) => if returned.is_none() { return ended.into() },
    }
    // An attempt that was cancelled or took too long stays so, although its thread has not returned.
    returned.unwrap_or_else(|| match cause {
        // It got its thread in the last moment.
        Ended::NeverBegan(why) if blocking.busy() > 0 => Ended::failed(why).into(),
        cause => cause.into(),
    })
}

/// Returns how an attempt ended that was asked to stop: as its job says, unless it returned an ordinary error, which is only a
/// consequence of the request. So is a snooze where the request is a failure itself, a cancellation or a timeout: the job has put its
/// place away and would go on for ever. A job that got its thread after all has begun, and its error is its own.
fn stopped_by_itself(attempted: Attempted, cause: Ended) -> Attempted {
    match (&attempted.ended, &cause) {
        (Ended::Failed { .. }, Ended::NeverBegan(_)) => attempted,
        (Ended::Failed { policy: Policy::Fail, .. }, _) => cause.into(),
        (Ended::Failed { policy: Policy::Snooze(_), .. }, Ended::Failed { .. } | Ended::Hopeless(_)) => cause.into(),
        _ => attempted,
    }
}

/// Waits for the thread of an attempt that a layer, such as a timeout, may have ended before its thread: the thread is asked to
/// stop, and the attempt lasts until the thread returns. Bodies that no thread has begun are given up before.
async fn outlasted<W: Future<Output = Ended>>(
    attempted: Attempted,
    stop: &Stop,
    blocking: &BlockingPool,
    watch: impl FnOnce(Ended) -> W,
) -> Attempted {
    stop.cancel.cancel();
    tokio::select! {
        biased;
        () = blocking.idle() => attempted,
        () = stop.leave() => attempted,
        ended = watch(attempted.ended.clone()) => Attempted { ended, error: attempted.error },
    }
}

/// How an attempt ended, with the error that the job returned, if it returned one.
pub(super) struct Attempted {
    pub(super) ended: Ended,
    pub(super) error: OwnError,
}

impl From<Ended> for Attempted {
    fn from(ended: Ended) -> Self {
        Self { ended, error: OwnError(None) }
    }
}

/// The error that a job returned. Its drop is code of the program, whose panics stay inside.
pub(super) struct OwnError(pub(super) Option<JobError>);

impl Drop for OwnError {
    fn drop(&mut self) {
        let error = self.0.take();
        if let Err(panic) = panics::catch(|| drop(error)) {
            log!(error, "the error of a job panicked while it was dropped: {panic}");
        }
    }
}

/// A job's future whose panics, in a poll or when it is dropped, end with it.
pub(super) struct AttemptFuture(pub(super) Caught<'static, RunResult>);

impl Future for AttemptFuture {
    type Output = Attempted;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Attempted> {
        let ran = ready!(Pin::new(&mut self.0).poll(cx));
        // The error's text is code of the program as well.
        let attempted = ran.and_then(|result| panics::catch(|| returned(result)));
        Poll::Ready(attempted.unwrap_or_else(|panic| panicked(&panic).into()))
    }
}

fn returned(result: RunResult) -> Attempted {
    let error = match result {
        Ok(result) => return Ended::Succeeded(result).into(),
        Err(error) => error,
    };
    // A `NotRun` comes out of the layers as an ordinary error.
    if let Some(not_run) = cause::<NotRun>(error.source()) {
        return Ended::from(not_run.clone()).into();
    }
    if let Some(no_thread) = cause::<NoThread>(error.source()) {
        return Ended::NeverBegan(no_thread.to_string()).into();
    }
    if let Some(unloaded) = cause::<Unloaded>(error.source()) {
        return Ended::from(unloaded).into();
    }
    // Brokers keep no more. The outcome may wait for its broker among many others, and is copied for each try.
    let text = shortened(&with_causes(error.source())).to_owned();
    Attempted { ended: Ended::Failed { policy: error.policy(), error: text }, error: OwnError(Some(error)) }
}

/// Asks the program about an attempt that failed: whether the ordinary error that its job returned is a failure. A panic, a timeout
/// and a cancellation have no error of the job, and are failures.
pub(super) fn judged(mut attempted: Attempted, is_failure: Option<&IsFailure>) -> Attempted {
    if let Ended::Failed { policy: policy @ Policy::Fail, .. } = &mut attempted.ended
        && let (Some(own), Some(is_failure)) = (&attempted.error.0, is_failure)
    {
        match panics::catch(|| is_failure(own)) {
            Ok(true) => {}
            Ok(false) => *policy = Policy::NotAFailure,
            Err(panic) => return panicked(&panic).into(),
        }
    }
    attempted
}

/// Returns the error of [`Dispatcher`] or of loading a checkpoint, if that is among the causes of `error`.
fn cause<'a, E: std::error::Error + 'static>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a E> {
    chain(Some(error)).find_map(|error| error.downcast_ref())
}

impl From<&Unloaded> for Ended {
    fn from(unloaded: &Unloaded) -> Self {
        match unloaded {
            Unloaded::Shape { .. } => Self::Unknown(unloaded.to_string()),
            // The broker is unreachable, or the run has lost its task: then the broker refuses the outcome.
            Unloaded::Broker(error)
                if error.is_unavailable()
                    || matches!(error.kind(), BrokerErrorKind::Closed | BrokerErrorKind::RunEnded) =>
            {
                log!(warn, "{unloaded}; the task is requeued before its start");
                Self::Interrupted
            }
            Unloaded::Broker(_) => {
                log!(error, "{unloaded}; the task is deferred");
                Self::Deferred(AFTER_REFUSAL, None)
            }
        }
    }
}

impl From<NotRun> for Ended {
    fn from(not_run: NotRun) -> Self {
        match not_run {
            // Shapes may lie on another node than the queue: a task that went back to the head would be taken again at once.
            NotRun::Unasked(_) => Self::Deferred(AFTER_REFUSAL, Some(not_run.to_string())),
            NotRun::Unknown(why) => Self::Unknown(why),
            NotRun::Hopeless(why) => Self::Hopeless(why),
        }
    }
}

pub(super) fn panicked(panic: &str) -> Ended {
    Ended::failed(shortened(&format!("panic error cause by: {panic}")))
}

/// Returns how an attempt ends whose time is over. After the task's own deadline no other attempt may run. A blocking job that never got
/// a thread has not failed: other workers may have one.
fn overrun(deadline: &AttemptDeadline, blocking: &BlockingPool) -> Ended {
    if deadline.is_final {
        Ended::Hopeless(format!("{TIMED_OUT}: the deadline of the task passed"))
    } else if blocking.waits_for_a_thread() {
        Ended::NeverBegan(NO_THREAD.to_owned())
    } else {
        Ended::failed(TIMED_OUT)
    }
}

/// Returns how an attempt ends that is stopped from outside.
pub(super) fn stopped(stop: &Stop) -> Ended {
    match stop.why() {
        Why::Cancelled => Ended::failed(CANCELLED),
        Why::Leaving | Why::Lost => Ended::Interrupted,
    }
}

#[cfg(test)]
mod without_thread;

#[cfg(test)]
mod tests {
    use std::{
        future::pending,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering::SeqCst},
            mpsc,
        },
    };

    use asynq_test_support::soon;
    use tokio::{
        sync::oneshot,
        task::{coop::consume_budget, yield_now},
    };

    use super::*;
    use crate::{
        job::{JobContext, JobOptions, run_blocking},
        task::TaskMessage,
    };

    fn attempt(future: impl Future<Output = RunResult> + Send + 'static) -> AttemptFuture {
        AttemptFuture(Caught::new(future))
    }

    /// Returns how an attempt ends that was cancelled before its first poll, which does not see the cancellation yet.
    async fn cancelled(second_poll: fn() -> Poll<RunResult>) -> Ended {
        let stop = Stop::default();
        stop.stop(Why::Cancelled);
        let mut polls = 0;
        let job = poll_fn(move |_| {
            polls += 1;
            if polls == 1 { Poll::Pending } else { second_poll() }
        });
        let deadline = AttemptDeadline::of(&TaskMessage::default(), chrono::Utc::now());
        assert_eq!(deadline.remaining, JobOptions::DEFAULT_TIMEOUT);
        drive(&mut attempt(job), Instant::now(), &deadline, &stop, &BlockingPool::default(), async |_| pending().await)
            .await
            .ended
    }

    #[tokio::test]
    async fn a_result_that_is_there_when_its_attempt_is_stopped_counts() {
        let revoked = cancelled(|| Poll::Ready(Err(JobError::revoke("its result is not wanted")))).await;
        assert!(matches!(revoked, Ended::Failed { policy: Policy::Revoke, .. }), "{revoked:?}");
        let succeeded = cancelled(|| Poll::Ready(Ok(None))).await;
        assert!(matches!(succeeded, Ended::Succeeded(_)), "{succeeded:?}");
    }

    #[tokio::test]
    async fn a_cancelled_attempt_with_an_ordinary_error_or_none_ends_as_cancelled() {
        let failed = cancelled(|| Poll::Ready(Err(JobError::fail("connection closed")))).await;
        let waiting = cancelled(|| Poll::Pending).await;
        let snoozed = cancelled(|| Poll::Ready(Err(JobError::snooze("0s")))).await;
        for ended in [failed, waiting, snoozed] {
            assert!(
                matches!(&ended, Ended::Failed { policy: Policy::Fail, error, .. } if error == CANCELLED),
                "{ended:?}"
            );
        }
    }

    #[test]
    fn no_more_of_an_error_is_kept_than_brokers_store() {
        let long = "x".repeat(1 << 20);
        for ended in [returned(Err(JobError::fail(long.clone()))).ended, panicked(&long)] {
            assert!(matches!(&ended, Ended::Failed { error, .. } if error.len() == 4096));
        }
    }

    #[test]
    fn the_program_is_asked_about_ordinary_errors() {
        let own = |error: JobError| returned(Err(error));
        let is_failure: IsFailure = Arc::new(|error| match error.to_string().as_str() {
            "panic" => panic!("no idea"),
            text => text != "throttled",
        });
        let minute = Duration::from_secs(60);
        let table = [
            (own(JobError::fail("throttled")), Policy::NotAFailure, "throttled"),
            (own(JobError::fail("closed")), Policy::Fail, "closed"),
            (own(JobError::not_a_failure("closed")), Policy::NotAFailure, "closed"),
            (own(JobError::skip_retry("throttled")), Policy::SkipRetry, "throttled"),
            (own(JobError::retry_in("1m", "throttled")), Policy::RetryIn(minute), "throttled"),
            // A cancellation in place of the job's own error.
            (stopped_by_itself(own(JobError::fail("throttled")), Ended::failed(CANCELLED)), Policy::Fail, CANCELLED),
        ];
        for (attempted, policy, error) in table {
            let judged = judged(attempted, Some(&is_failure)).ended;
            assert_eq!(judged, Ended::Failed { policy, error: error.to_owned() });
        }
        let interrupted = stopped_by_itself(own(JobError::fail("throttled")), Ended::Interrupted);
        assert_eq!(judged(interrupted, Some(&is_failure)).ended, Ended::Interrupted);
        let panicked = judged(own(JobError::fail("panic")), Some(&is_failure)).ended;
        assert!(
            matches!(&panicked, Ended::Failed { policy: Policy::Fail, error } if error.contains("no idea")),
            "{panicked:?}"
        );
    }

    /// A layer that runs a job again and then goes on without waiting: tokio's budget ends each of its polls.
    #[tokio::test]
    async fn an_attempt_that_is_stopped_ends_with_its_thread_whatever_its_layer_does_then() {
        let (ctx, stop) = (JobContext::detached(), Stop::default());
        let blocking = ctx.blocking_pool().clone();
        let (open, receiver) = mpsc::channel::<()>();
        let (begins, began) = oneshot::channel();
        let has_run_again = Arc::new(AtomicBool::new(false));
        let again = Arc::clone(&has_run_again);
        let layer = async move {
            let body = move |_: &JobContext| {
                begins.send(()).unwrap();
                Ok(receiver.recv().is_ok())
            };
            let _ = run_blocking(&ctx, body).await;
            let _ = run_blocking(&ctx, move |_: &JobContext| Ok(again.swap(true, SeqCst))).await;
            loop {
                consume_budget().await;
            }
        };
        let deadline = AttemptDeadline::of(&TaskMessage::default(), chrono::Utc::now());
        let mut attempt = attempt(layer);
        let driven = drive(&mut attempt, Instant::now(), &deadline, &stop, &blocking, async |_| pending().await);
        let stopped = async {
            began.await.unwrap();
            stop.stop(Why::Cancelled);
            yield_now().await;
            open.send(()).unwrap();
        };
        let (attempted, ()) = soon(async { tokio::join!(driven, stopped) }).await;
        assert_eq!((attempted.ended, blocking.busy()), (Ended::failed(CANCELLED), 0));
        assert!(!has_run_again.load(SeqCst), "an attempt that was stopped begins nothing");
    }

    /// A layer keeps the job that it gave up, and the result of its thread is not taken.
    #[tokio::test]
    async fn an_attempt_lasts_until_its_thread_returns_though_its_layer_ends_before() {
        for last_poll in [1, 2] {
            let (ctx, stop) = (JobContext::detached(), Stop::default());
            if last_poll == 2 {
                stop.stop(Why::Cancelled);
            }
            let blocking = ctx.blocking_pool().clone();
            let (open, receiver) = mpsc::channel();
            let (begins, began) = mpsc::channel();
            let body = move |_: &JobContext| {
                begins.send(()).unwrap();
                Ok(receiver.recv().is_ok())
            };
            let mut job = Box::pin(async move { run_blocking(&ctx, body).await });
            let mut polls = 0;
            let layer = poll_fn(move |cx| {
                assert!(job.as_mut().poll(cx).is_pending());
                if polls == 0 {
                    began.recv().unwrap();
                }
                polls += 1;
                let given_up = || Poll::Ready(Err(JobError::fail("too slow for this layer")));
                if polls == last_poll { given_up() } else { Poll::Pending }
            });
            let deadline = AttemptDeadline::of(&TaskMessage::default(), chrono::Utc::now());
            let driven = async {
                let mut attempt = attempt(layer);
                let attempted =
                    drive(&mut attempt, Instant::now(), &deadline, &stop, &blocking, async |_| pending().await).await;
                (attempted.ended, blocking.busy())
            };
            let opened = async {
                yield_now().await;
                open.send(()).unwrap();
            };
            let ((ended, busy), ()) = soon(async { tokio::join!(driven, opened) }).await;
            assert!(matches!(&ended, Ended::Failed { policy: Policy::Fail, .. }), "{ended:?}");
            assert_eq!(busy, 0, "ended by poll {last_poll}");
        }
    }
}
