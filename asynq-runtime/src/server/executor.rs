//! Runs one task to its settlement: timeout, deadline, panic and cancellation, and tasks that must not start.

use std::{slice, sync::Arc, time::Instant};

use chrono::{DateTime, SecondsFormat, Utc};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{
    RUN_TARGET,
    answer::{answer_within, longest_call},
    attempt::Attempt,
    attempt_deadline::AttemptDeadline,
    attempt_future::{AFTER_REFUSAL, AttemptFuture, Attempted, OwnError, drive, judged, panicked, stopped},
    dispatcher::Dispatcher,
    hooks::{self, Hooks},
    layer_stack::Permit,
    outcome::{Ended, Facts, decide},
    retry_delay::Backoffs,
    stop::{Stop, Why},
    stuck::{self, GivenUp},
};
use crate::{
    broker::{Action, Broker, HeldLock, Settled},
    job::{BlockingPool, Cancel, Codec, ContextParts, JobContext, JobDescriptor, JobError, Policy, StateMap},
    metrics::{AttemptMetrics, Outcome},
    panics::{self, Caught},
    propagation,
    task::{Ending, UniqueUntil},
};

/// Runs dequeued tasks, one attempt each.
pub(crate) struct Executor {
    /// Starts the jobs; the layers wrap it.
    pub(crate) dispatcher: Arc<Dispatcher>,
    /// The shared states of the jobs.
    pub(super) states: Arc<StateMap>,
    /// Where blocking jobs run.
    pub(super) blocking: BlockingPool,
    /// The broker, whose clock counts and which keeps progress.
    pub(super) broker: Arc<dyn Broker>,
    /// Hooks that failed attempts call.
    pub(super) hooks: Hooks,
    /// The threads that are given up.
    pub(super) given_up: Arc<GivenUp>,
    /// Cancelled when the server begins to leave. Each job's context shares the `Arc`, because a clone of a token takes a lock.
    pub(super) closing: Arc<CancellationToken>,
}

impl Executor {
    /// Runs one attempt on the current runtime, inside the layers if there is a permit, and calls `decided` with its action
    /// before any hook. Returns whether the job revoked the task, which to a broker is the same as a success. Does not settle the
    /// task.
    pub(crate) async fn attempt(
        &self,
        attempt: &Attempt,
        stop: &Stop,
        permit: Option<Permit>,
        decided: impl FnOnce(Action),
    ) -> bool {
        let Attempt { key, message, extra, .. } = attempt;
        // Of the level ERROR and of a target of its own, for which `main!` has a directive, so that every filter that lets a line of
        // the run through keeps its task's id, too.
        // Without a subscriber tracing may write each span to the crate `log`.
        let span = if tracing::dispatcher::has_been_set() {
            tracing::error_span!(
                target: RUN_TARGET,
                "job",
                id = %key.id,
                r#type = %message.r#type,
                queue = %key.queue,
                attempt = message.retried.saturating_add(1),
                wait_ms = attempt.waited.map(|waited| u64::try_from(waited.as_millis()).unwrap_or(u64::MAX)),
                outcome = tracing::field::Empty,
            )
        } else {
            tracing::Span::none()
        };
        propagation::adopt(&span, message);
        let attempt_metrics = self.dispatcher.metrics(&message.r#type).begin(attempt.waited);
        let run = async {
            let attempted = self.run(attempt, stop, permit, &attempt_metrics).await;
            let Hooks { is_failure, backoff, .. } = &self.hooks;
            let Attempted { ended, error } = judged(attempted, is_failure.as_ref());
            let policy = match ended {
                Ended::Failed { policy, .. } => policy,
                // A task that never ran has failed only by this server's options, or by the number of such ends.
                _ => Policy::Fail,
            };
            let is_revoked = policy == Policy::Revoke;
            let is_unknown = matches!(ended, Ended::Unknown(_));
            if let Ended::Unknown(why) = &ended {
                self.dispatcher.warn_of(&message.r#type, why);
            }
            let ran = !matches!(ended, Ended::Unknown(_) | Ended::NeverBegan(_) | Ended::Deferred(..));
            let mut action = decide(
                ended,
                Facts {
                    message,
                    extra,
                    on_unknown: self.dispatcher.on_unknown,
                    now_ms: self.broker.now().timestamp_millis(),
                    jitter_step: fastrand::u32(..30),
                },
            );
            // Most attempts succeed: they do not look their job up once more.
            if matches!(action, Action::Retry { .. }) {
                let backoffs = Backoffs {
                    job: self.dispatcher.registry.get(&message.r#type).and_then(|job| job.backoff),
                    server: backoff.as_ref(),
                    message,
                    deferrals: extra.deferrals,
                };
                backoffs.apply(policy, error.0.as_ref(), &mut action);
            }
            // The task is another server's, or gone: whatever the job returned, its run has no outcome, and hooks are told of none.
            let is_lost = stop.why() == Why::Lost;
            // Metrics and lines follow: a recorder and a subscriber are code of the program, and must not change the outcome.
            decided(action.clone());
            if !is_lost {
                let outcome = Outcome::of(&action, is_revoked);
                tracing::Span::current().record("outcome", outcome.as_str());
                attempt_metrics.end(outcome, ran);
                log_action(&action, is_unknown);
            }
            let hooks = if is_lost {
                None
            } else if attempt.has_deadly_hooks() {
                log!(error, "no hook is called for this task: workers died twice when it was to be archived");
                None
            } else {
                hooks::failed(attempt, &action).zip(Some(self.call_on_archive(attempt, &action, error)))
            };
            // Each attempt would have the room for it while hooks run.
            drop(action);
            if let Some((failed, own)) = hooks {
                // Boxed: each attempt would have the room for it otherwise.
                Box::pin(self.hooks.call(failed, own, stop)).await;
            }
            is_revoked
        };
        propagation::carrying(message, run).instrument(span).await
    }

    async fn run(
        &self,
        attempt: &Attempt,
        stop: &Stop,
        permit: Option<Permit>,
        attempt_metrics: &AttemptMetrics,
    ) -> Attempted {
        let dispatcher = &self.dispatcher;
        let message = &attempt.message;
        let deadline = match self.prepare(attempt, stop).await {
            Ok(deadline) => deadline,
            Err(ended) => return ended.into(),
        };
        let job = dispatcher.registry.get(&message.r#type);
        let blocking = self.blocking.for_attempt();
        let began = attempt_metrics.start();
        // Beyond the range of the clock no time counts as left: a token then ends at the deadline alone.
        let ends = began.checked_add(deadline.remaining).unwrap_or(began);
        let ctx = self.context(attempt, job, Some((deadline.at, ends)), Arc::clone(&stop.cancel), blocking.clone());
        // Layers, and the reading of the arguments, are code of the program too.
        let started = panics::catch(|| match permit {
            Some(permit) => Ok(permit.call(ctx)),
            None => dispatcher.start(ctx),
        });
        let mut future = match started {
            Ok(Ok(future)) => AttemptFuture(Caught::from(future)),
            Ok(Err(not_run)) => return Ended::from(not_run).into(),
            Err(panic) => return panicked(&panic).into(),
        };
        let kill_after = job.and_then(|job| job.options.kill_after);
        let watch = |cause| stuck::watch(cause, &blocking, attempt_metrics, kill_after, &self.given_up);
        let attempted = drive(&mut future, began, &deadline, stop, &blocking, watch).await;
        // The caller asks the program about the end, and the program must not meet what the job still holds.
        drop(future);
        attempted
    }

    /// Returns when an attempt must end that begins now, or how it ends if the task must not start.
    async fn prepare(&self, attempt: &Attempt, stop: &Stop) -> Result<AttemptDeadline, Ended> {
        // The run that was replaced ended without an outcome: its worker crashed or was a Go program's. The broker deletes the
        // task when it is requeued, or takes the mark of an earlier run off it, which a Go tool leaves. This comes first: a task
        // that is deleted is not told to hooks as given up.
        if attempt.extra.replaced {
            return Err(Ended::Interrupted);
        }
        let deadline = begin(attempt, self.broker.now())?;
        if attempt.message.timeout <= 0 && attempt.message.deadline == 0 {
            log!(warn, "the task has neither timeout nor deadline; it gets 30 minutes");
        }
        if stop.is_requested() {
            return Err(stopped(stop));
        }
        if self.frees_lock(attempt) {
            self.free_lock(attempt).await?;
        } else if attempt.extends_lock() {
            self.extend_lock(attempt).await;
        } else {
            return Ok(deadline);
        }
        // The broker may have taken seconds for it: the task may have been cancelled or requeued, and its deadline has come nearer.
        if stop.is_requested() {
            return Err(stopped(stop));
        }
        begin(attempt, self.broker.now())
    }

    /// Returns the context of an attempt, for the program's code.
    fn context(
        &self,
        attempt: &Attempt,
        job: Option<&JobDescriptor>,
        deadline: Option<(DateTime<Utc>, Instant)>,
        cancel: Arc<Cancel>,
        blocking: BlockingPool,
    ) -> JobContext {
        JobContext::new(ContextParts {
            run: attempt.key.clone(),
            taken_at: attempt.taken_at,
            message: Arc::clone(&attempt.message),
            crashes: attempt.crashes,
            codec: job.map_or(Codec::Json, |job| job.codec),
            deadline,
            cancel,
            stopping: Arc::clone(&self.closing),
            states: Arc::clone(&self.states),
            blocking,
            broker: Some(Arc::clone(&self.broker)),
        })
    }

    /// Returns the call of the job's own `on_archive`, if the task is archived and its job has one.
    fn call_on_archive(&self, attempt: &Attempt, action: &Action, mut error: OwnError) -> Option<Caught<'static, ()>> {
        let Action::Archive { error: text, .. } = action else { return None };
        let dispatcher = Arc::clone(&self.dispatcher);
        let job = *dispatcher.registry.get(&attempt.message.r#type)?;
        let on_archive = job.on_archive?;
        let error = error.0.take().unwrap_or_else(|| JobError::fail(text.as_str()));
        let ctx = self.context(attempt, Some(&job), None, Arc::default(), self.blocking.for_attempt());
        Some(Caught::new(async move {
            // The arguments are read as for an attempt.
            let lookup = dispatcher.earlier_shape(ctx.broker(), &job, ctx.name(), ctx.payload()).await.ok().flatten();
            on_archive(ctx, lookup.as_deref(), error).await;
        }))
    }

    /// Returns whether the task is unique until it starts, here.
    fn frees_lock(&self, attempt: &Attempt) -> bool {
        let message = &attempt.message;
        let is_due = attempt.extra.unique_until() == UniqueUntil::Start && !message.unique_key.is_empty();
        is_due && self.dispatcher.knows(&message.r#type)
    }

    /// Frees the unique lock of a task that is about to start. Fails with the end of the attempt if the task must not start: one
    /// that cannot be read here keeps its lock.
    async fn free_lock(&self, attempt: &Attempt) -> Result<(), Ended> {
        self.dispatcher.reads(&self.broker, &attempt.message).await?;
        let broker = &self.broker;
        let freed = broker.free_lock(&attempt.key, &attempt.message.unique_key);
        match answer_within(longest_call(&**broker), freed).await.flatten() {
            Ok(Settled::Ok) => Ok(()),
            // Another server has the task; the broker will refuse the outcome as well.
            Ok(Settled::Fenced | Settled::Gone) => Err(Ended::Interrupted),
            Err(error) if !error.is_unavailable() => {
                log!(error, "the unique lock cannot be freed, so the task is deferred: {error}");
                Err(Ended::Deferred(AFTER_REFUSAL, None))
            }
            Err(_) => {
                log!(warn, "the broker is away, so the task is requeued before its start");
                Err(Ended::Interrupted)
            }
        }
    }

    /// Extends the unique lock of a task that is about to start and lasts as long: it may end before the next tick of the heartbeat
    /// runtime, which extends all held locks. Without an answer the task starts all the same, and that tick extends the lock.
    async fn extend_lock(&self, attempt: &Attempt) {
        let lock = HeldLock { run: attempt.key.clone(), key: attempt.message.unique_key.clone() };
        let broker = &self.broker;
        let extended = broker.extend_locks(slice::from_ref(&lock));
        if let Err(error) = answer_within(longest_call(&**broker), extended).await.flatten() {
            log!(warn, "the unique lock of the task was not extended at its start: {error}");
        }
    }
}

partial_debug!(Executor { dispatcher, .. });

/// Returns when an attempt must end that begins now, or why the task must not be started, now or ever.
fn begin(attempt: &Attempt, now: DateTime<Utc>) -> Result<AttemptDeadline, Ended> {
    let (message, extra) = (&attempt.message, &attempt.extra);
    if let Some(defect) = &attempt.defect {
        return Err(Ended::Hopeless(defect.clone()));
    }
    if attempt.is_poison() {
        return Err(Ended::Hopeless(format!("worker died {} times while this ran", attempt.crashes)));
    }
    // A task that was archived for its expiry is taken only if a person ran it. Go's tools leave the expiry as it is.
    if extra.is_expired(now.timestamp_millis()) && extra.ending() != Ending::Expired {
        let end = extra.expires_ms.and_then(chrono::DateTime::from_timestamp_millis);
        let end = end.map(|end| end.to_rfc3339_opts(SecondsFormat::AutoSi, true)).unwrap_or_default();
        let last = if message.error_msg.is_empty() { "" } else { "; the last error: " };
        return Err(Ended::Expired(format!("expired: no attempt begins after {end}{last}{}", message.error_msg)));
    }
    let deadline = AttemptDeadline::of(message, now);
    if deadline.is_over() { Err(Ended::Hopeless("deadline passed".to_owned())) } else { Ok(deadline) }
}

/// Logs how the attempt ended, never with a payload. Of tasks that are unknown here the dispatcher warns, once per type: a line for each
/// would fill the log during a deploy.
fn log_action(action: &Action, is_unknown: bool) {
    match action {
        Action::Done | Action::Complete { .. } | Action::Revoke { .. } => log!(debug, "done"),
        Action::Retry { delay, error: Some(error), .. } => log!(warn, ?delay, "failed, will be retried: {error}"),
        Action::Defer { delay, error: Some(error), .. } if !is_unknown => log!(warn, ?delay, "deferred: {error}"),
        Action::Retry { delay, .. } | Action::Defer { delay, .. } => log!(debug, ?delay, "deferred"),
        Action::Archive { error, .. } => log!(error, "archived: {error}"),
        Action::Requeue => log!(debug, "requeued"),
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests;
