//! Runs one task to its settlement: timeout, deadline, panic, cancellation, and what none of them can change.

use std::{
    fmt,
    future::Future,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use chrono::SecondsFormat;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{
    attempt::Attempt,
    config::{ANSWER, OnUnknown},
    dispatcher::{Dispatcher, NotRun},
    handlers::Handlers,
    hooks::{Hooks, IsFailure},
    layer_stack::Permit,
    limit::Limit,
    outcome::{Ended, Facts, decide},
    pauses::{Pauses, ServerBackoff},
    stop::{Stop, Why},
    stuck::{self, GivenUp},
};
use crate::{
    broker::{Action, Broker, BrokerErrorKind, Settled, Settlement},
    job::{
        BlockingPool, BoxFuture, Cancel, Codec, ContextParts, JobContext, JobError, Policy, Registry, RunResult,
        StateMap, Unloaded, chain, panics,
    },
    metrics::{Outcome, Under},
    propagation,
    task::UniqueUntil,
};
use fastrand::Rng;

/// asynq's words for an attempt that took too long.
const TIMED_OUT: &str = "context deadline exceeded";
/// asynq's words for an attempt that was cancelled.
const CANCELLED: &str = "context canceled";

/// Before a task is tried again whose lock could not be freed by a broker that otherwise answers.
const AFTER_REFUSAL: Duration = Duration::from_secs(5);

/// What an [`Executor`] is made of.
pub(crate) struct ExecutorParts {
    /// The jobs.
    pub(crate) registry: Registry,
    /// Their shared states.
    pub(crate) states: Arc<StateMap>,
    /// Where blocking jobs run.
    pub(crate) blocking: BlockingPool,
    /// Whose clock counts, and where progress goes.
    pub(crate) broker: Arc<dyn Broker>,
    /// What to do with a task that no job here knows.
    pub(crate) on_unknown: OnUnknown,
    /// How long failed tasks of jobs wait that do not say so themselves; `None` is asynq's way.
    pub(crate) backoff: Option<ServerBackoff>,
}

/// Runs dequeued tasks, one attempt each. Clones are the same executor.
#[derive(Clone)]
pub(crate) struct Executor(Arc<Inner>);

struct Inner {
    states: Arc<StateMap>,
    blocking: BlockingPool,
    broker: Arc<dyn Broker>,
    dispatcher: Arc<Dispatcher>,
    hooks: Hooks,
    backoff: Option<ServerBackoff>,
    given_up: Arc<GivenUp>,
    closing: CancellationToken,
    /// The same as jobs see it.
    stopping: Cancel,
    random: Mutex<Rng>,
}

impl Executor {
    /// An executor of these jobs. The first one notes from then on where this program panics, and leaves the panic hook
    /// that is there in force.
    #[allow(dead_code, reason = "a TestApp uses it, which is not there without the broker that it runs on")]
    pub(crate) fn new(parts: ExecutorParts) -> Self {
        Self::with(parts, Handlers::default(), Hooks::default(), GivenUp::new(usize::MAX))
    }

    /// The same with what only a server has.
    pub(super) fn with(parts: ExecutorParts, handlers: Handlers, hooks: Hooks, given_up: Arc<GivenUp>) -> Self {
        panics::note_places();
        let ExecutorParts { registry, states, blocking, broker, on_unknown, backoff } = parts;
        let dispatcher = Arc::new(Dispatcher::new(registry, handlers, on_unknown));
        let closing = CancellationToken::new();
        Self(Arc::new(Inner {
            states,
            blocking,
            broker,
            dispatcher,
            hooks,
            backoff,
            given_up,
            stopping: closing.clone().into(),
            closing,
            random: Mutex::new(Rng::new()),
        }))
    }

    /// What the layers are built around.
    pub(super) fn dispatcher(&self) -> &Arc<Dispatcher> {
        &self.0.dispatcher
    }

    /// Cancelled when the server begins to leave: jobs that ask for it see that.
    pub(super) fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }

    /// The threads that were given up.
    pub(super) fn given_up(&self) -> &Arc<GivenUp> {
        &self.0.given_up
    }

    /// Runs one attempt on the current runtime and says what becomes of its task, and whether the job revoked it, which to a broker
    /// is the same as a success. It settles nothing itself. Cancelling `cancel` fails the attempt with `context canceled`, as
    /// somebody's request would.
    #[allow(dead_code, reason = "a TestApp uses it, which is not there without the broker that it runs on")]
    pub(crate) async fn execute_told(&self, run: crate::broker::Run, cancel: CancellationToken) -> (Settlement, bool) {
        self.attempt_told(&Attempt::from(run), &Stop::on(cancel), None).await
    }

    /// The same for a server, which has more than one reason to stop an attempt, and layers around it if there is a permit.
    pub(super) async fn attempt(&self, attempt: &Attempt, stop: &Stop, permit: Option<Permit>) -> Settlement {
        self.attempt_told(attempt, stop, permit).await.0
    }

    async fn attempt_told(&self, attempt: &Attempt, stop: &Stop, permit: Option<Permit>) -> (Settlement, bool) {
        let Attempt { key, message, extra, .. } = attempt;
        let span = tracing::info_span!(
            "job",
            id = %key.id,
            r#type = %message.r#type,
            queue = %key.queue,
            attempt = message.retried.saturating_add(1),
            wait_ms = attempt.waited.map(|waited| u64::try_from(waited.as_millis()).unwrap_or(u64::MAX)),
            outcome = tracing::field::Empty,
        );
        propagation::adopt(&span, message);
        let under = self.0.dispatcher.metrics(&message.r#type).begin(attempt.waited);
        let run = async {
            let ended = self.run(attempt, stop, permit, &under).await;
            let is_revoked = matches!(ended, Ended::Failed { policy: Policy::Revoke, .. });
            let action = decide(
                ended,
                Facts {
                    message,
                    extra,
                    on_unknown: self.0.dispatcher.on_unknown,
                    now_ms: self.0.broker.now().timestamp_millis(),
                    roll: self.roll(),
                },
            );
            let outcome = Outcome::of(&action, is_revoked);
            tracing::Span::current().record("outcome", outcome.as_str());
            under.end(outcome);
            tell(&action);
            self.0.hooks.tell(attempt, &action, stop).await;
            (Settlement { run: key.clone(), message: Arc::clone(message), action, resend: false }, is_revoked)
        };
        propagation::carrying(message, run).instrument(span).await
    }

    async fn run(&self, attempt: &Attempt, stop: &Stop, permit: Option<Permit>, under: &Under) -> Ended {
        let Inner { dispatcher, broker, .. } = &*self.0;
        let message = &attempt.message;
        let limit = Limit::of(message, broker.now());
        if let Some(why) = self.hopeless(attempt, &limit) {
            return why;
        }
        // The run that was replaced ended without an outcome: its worker died or was a Go program's. The broker deletes the
        // task when it is handed back.
        if attempt.extra.replaced {
            return Ended::Interrupted;
        }
        if stop.is_asked() {
            return stopped(stop);
        }
        if let Some(ended) = self.free_lock(attempt).await {
            return ended;
        }
        let job = dispatcher.registry.get(&message.r#type);
        let pauses = Pauses {
            job: job.and_then(|job| job.backoff),
            server: self.0.backoff.clone(),
            message: Arc::clone(message),
        };
        let blocking = self.0.blocking.for_attempt();
        let ctx = JobContext::new(ContextParts {
            run: attempt.key.clone(),
            message: Arc::clone(message),
            crashes: attempt.crashes,
            codec: job.map_or(Codec::Json, |job| job.codec),
            deadline: Some(limit.moment()),
            cancel: stop.cancel().clone(),
            stopping: self.0.stopping.clone(),
            states: Arc::clone(&self.0.states),
            blocking: blocking.clone(),
            broker: Some(Arc::clone(broker)),
        });
        under.start();
        // Layers, and the reading of the arguments, are code of the program too.
        let started = panics::catch(|| match permit {
            Some(permit) => Ok(permit.call(ctx)),
            None => dispatcher.start(ctx),
        });
        let work = match started {
            Ok(Ok(work)) => {
                Work { future: Some(work), is_failure: self.0.hooks.is_failure.clone(), pauses: pauses.clone() }
            }
            Ok(Err(not_run)) => return Ended::from(not_run),
            Err(panic) => return pausing(panicked(&panic), &pauses),
        };
        let kill_after = job.and_then(|job| job.options.kill_after);
        let watch = |cause| stuck::watch(cause, &blocking, under, kill_after, &self.0.given_up);
        pausing(drive(work, &limit, stop, &blocking, watch).await, &pauses)
    }

    /// Why the task must not be started, now or ever.
    fn hopeless(&self, attempt: &Attempt, limit: &Limit) -> Option<Ended> {
        let (message, extra) = (&attempt.message, &attempt.extra);
        if let Some(defect) = &attempt.defect {
            return Some(Ended::Hopeless(defect.clone()));
        }
        if attempt.is_poison() {
            return Some(Ended::Hopeless(format!("worker died {} times while this ran", attempt.crashes)));
        }
        if extra.is_expired(self.0.broker.now().timestamp_millis()) {
            let end = extra.expires_ms.and_then(chrono::DateTime::from_timestamp_millis);
            let end = end.map(|end| end.to_rfc3339_opts(SecondsFormat::AutoSi, true)).unwrap_or_default();
            return Some(Ended::Expired(format!("expired: not started by {end}")));
        }
        if message.timeout <= 0 && message.deadline == 0 {
            tracing::warn!("the task has neither timeout nor deadline; it gets 30 minutes");
        }
        limit.is_over().then(|| Ended::Hopeless("deadline passed".to_owned()))
    }

    /// Frees the unique lock of a task that is unique until it starts. Returns how the attempt ends if it must not start.
    async fn free_lock(&self, attempt: &Attempt) -> Option<Ended> {
        let key = &attempt.message.unique_key;
        let is_due = attempt.extra.unique_until() == UniqueUntil::Start && !key.is_empty();
        if !is_due || !self.0.dispatcher.knows(&attempt.message.r#type) {
            return None;
        }
        match timeout(ANSWER, self.0.broker.free_lock(&attempt.key, key)).await {
            Ok(Ok(Settled::Ok)) => None,
            // Another server has the task; the broker will refuse the outcome as well.
            Ok(Ok(Settled::Fenced | Settled::Gone)) => Some(Ended::Interrupted),
            Ok(Err(error)) if !error.is_unavailable() => {
                tracing::error!("the unique lock cannot be freed, so the task is put off: {error}");
                Some(Ended::PutOff(AFTER_REFUSAL))
            }
            Ok(Err(_)) | Err(_) => {
                tracing::warn!("the broker is away, so the task is handed back before its start");
                Some(Ended::Interrupted)
            }
        }
    }

    fn roll(&self) -> u32 {
        self.0.random.lock().unwrap_or_else(PoisonError::into_inner).u32(..30)
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Executor").field(&self.0.dispatcher).finish()
    }
}

impl fmt::Debug for ExecutorParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutorParts")
            .field("registry", &self.registry)
            .field("on_unknown", &self.on_unknown)
            .finish_non_exhaustive()
    }
}

/// Waits for the attempt, its time, or a reason to stop, whichever is first.
///
/// `watch` ends where threads that do not return are given up.
async fn drive<W: Future<Output = Ended>>(
    work: Work,
    limit: &Limit,
    stop: &Stop,
    blocking: &BlockingPool,
    watch: impl FnOnce(Ended) -> W,
) -> Ended {
    let (mut work, begun) = (pin!(work), Instant::now());
    let cause = tokio::select! {
        biased;
        ended = work.as_mut() => return outlasted(ended, stop, blocking, watch).await,
        () = stop.asked() => stopped(stop),
        // A timer is made only if the work does not end at once.
        () = async { tokio::time::sleep(limit.remaining().saturating_sub(begun.elapsed())).await } => overrun(limit),
    };
    stop.cancel().cancel();
    // An async job is dropped here, at its await. A thread cannot be stopped: its attempt, its slot and its lease last
    // until it returns, unless its job lets it be given up or the server is leaving.
    if blocking.busy() == 0 || stop.why() == Why::Leaving {
        return cause;
    }
    tokio::select! {
        biased;
        ended = work => match ended {
            Ended::Failed { policy: Policy::Fail, .. } => cause,
            own => own,
        },
        () = stop.leave() => Ended::Interrupted,
        ended = watch(cause.clone()) => ended,
    }
}

/// A layer, such as a timeout, may end an attempt whose thread goes on: that one is told to stop, and lasts until it
/// returns all the same.
async fn outlasted<W: Future<Output = Ended>>(
    ended: Ended,
    stop: &Stop,
    blocking: &BlockingPool,
    watch: impl FnOnce(Ended) -> W,
) -> Ended {
    if blocking.busy() == 0 {
        return ended;
    }
    stop.cancel().cancel();
    tokio::select! {
        biased;
        () = blocking.idle() => ended,
        () = stop.leave() => Ended::Interrupted,
        given_up = watch(ended.clone()) => given_up,
    }
}

/// A job's future whose panics, in a poll or when it is dropped, end with it.
struct Work {
    future: Option<BoxFuture<'static, RunResult>>,
    is_failure: Option<IsFailure>,
    pauses: Pauses,
}

impl Future for Work {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        let Self { future: Some(work), is_failure, pauses } = &mut *self else { return Poll::Pending };
        // The error's text is code of the program as well, so it is made in here.
        match panics::catch(|| work.as_mut().poll(cx).map(|result| returned(result, is_failure.as_ref(), pauses))) {
            Ok(poll) => poll,
            Err(panic) => Poll::Ready(panicked(&panic)),
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let work = self.future.take();
        if let Err(panic) = panics::catch(|| drop(work)) {
            tracing::error!("a job panicked while it was dropped: {panic}");
        }
    }
}

fn returned(result: RunResult, is_failure: Option<&IsFailure>, pauses: &Pauses) -> Ended {
    let error = match result {
        Ok(result) => return Ended::Succeeded(result),
        Err(error) => error,
    };
    // It comes out of the layers as an error among others.
    if let Some(not_run) = cause::<NotRun>(error.source()) {
        return Ended::from(not_run.clone());
    }
    if let Some(unloaded) = cause::<Unloaded>(error.source()) {
        return Ended::from(unloaded);
    }
    let policy = match (error.policy(), is_failure) {
        (Policy::Fail, Some(is_failure)) if !is_failure(&error) => Policy::NotAFailure,
        (policy, _) => policy,
    };
    let pause = if matches!(policy, Policy::Fail | Policy::NotAFailure) { pauses.after(&error) } else { None };
    Ended::Failed { policy, error: text_of(&error), pause }
}

/// The same for an attempt that failed without an error of its own: a panic, or one that took too long.
fn pausing(ended: Ended, pauses: &Pauses) -> Ended {
    match ended {
        Ended::Failed { policy: Policy::Fail, error, pause: None } => {
            let pause = pauses.after(&JobError::fail(error.as_str()));
            Ended::Failed { policy: Policy::Fail, error, pause }
        }
        ended => ended,
    }
}

/// What [`Dispatcher`] or the loading of a checkpoint said, if that is at the bottom of `error`.
fn cause<'a, E: std::error::Error + 'static>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a E> {
    chain(Some(error)).find_map(|error| error.downcast_ref())
}

impl From<&Unloaded> for Ended {
    fn from(unloaded: &Unloaded) -> Self {
        match unloaded {
            Unloaded::Shape { .. } => Self::Unknown(unloaded.to_string()),
            // Away, or somebody else has the task by now: the outcome is refused then.
            Unloaded::Broker(error) if error.is_unavailable() || error.kind() == BrokerErrorKind::Closed => {
                tracing::warn!("{unloaded}; the task is handed back before its start");
                Self::Interrupted
            }
            Unloaded::Broker(_) => {
                tracing::error!("{unloaded}; the task is put off");
                Self::PutOff(AFTER_REFUSAL)
            }
        }
    }
}

impl From<NotRun> for Ended {
    fn from(not_run: NotRun) -> Self {
        match not_run {
            NotRun::Unknown(why) => Self::Unknown(why),
            NotRun::Hopeless(why) => Self::Hopeless(why),
        }
    }
}

/// The error and what caused it, as far as its own text does not say it already.
fn text_of(error: &JobError) -> String {
    let mut text = error.to_string();
    for cause in chain(error.source().source()) {
        let more = cause.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
    }
    text
}

fn panicked(panic: &str) -> Ended {
    Ended::failed(format!("panic error cause by: {panic}"))
}

/// Says how the attempt ended, never with a payload.
fn tell(action: &Action) {
    match action {
        Action::Done | Action::Complete { .. } | Action::Revoke { .. } => tracing::debug!("done"),
        Action::Retry { delay, error: Some(error), .. } => tracing::warn!(?delay, "failed, will be retried: {error}"),
        Action::Retry { delay, .. } => tracing::debug!(?delay, "put off"),
        Action::Archive { error, .. } => tracing::error!("archived: {error}"),
        Action::Requeue => tracing::debug!("handed back"),
    }
}

/// How an attempt ends that runs into its limit. After the task's own deadline no other attempt may run.
fn overrun(limit: &Limit) -> Ended {
    if limit.is_final() {
        Ended::Hopeless(format!("{TIMED_OUT}: the deadline of the task passed"))
    } else {
        Ended::failed(TIMED_OUT)
    }
}

/// How an attempt ends that is stopped from outside.
fn stopped(stop: &Stop) -> Ended {
    match stop.why() {
        Why::Cancelled => Ended::failed(CANCELLED),
        Why::Leaving | Why::Lost => Ended::Interrupted,
    }
}
