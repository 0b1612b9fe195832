//! Runs one task to its settlement: timeout, deadline, panic, cancellation, and what none of them can change.

use std::{
    collections::HashSet,
    fmt,
    future::Future,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{
    attempt::Attempt,
    config::OnUnknown,
    dice::Dice,
    limit::Limit,
    outcome::{Ended, Facts, decide},
    pauses::{Pauses, ServerBackoff},
    stop::{Stop, Why},
};
use crate::{
    broker::{Action, Broker, Run, Settlement},
    job::{
        BlockingPool, BoxFuture, ContextParts, JobContext, JobError, PayloadError, Policy, Registry, RunResult,
        StateMap, panics,
    },
};

/// How many unknown types are remembered as warned about.
const WARNED: usize = 1000;
/// asynq's words for an attempt that took too long.
const TIMED_OUT: &str = "context deadline exceeded";
/// asynq's words for an attempt that somebody cancelled.
const CANCELLED: &str = "context canceled";

/// What an [`Executor`] is made of.
pub struct ExecutorParts {
    /// The jobs.
    pub registry: Registry,
    /// Their shared states.
    pub states: Arc<StateMap>,
    /// Where blocking jobs run.
    pub blocking: BlockingPool,
    /// Whose clock counts, and where progress goes.
    pub broker: Arc<dyn Broker>,
    /// What to do with a task that no job here knows.
    pub on_unknown: OnUnknown,
    /// How long failed tasks of jobs wait that do not say so themselves; `None` is asynq's way.
    pub backoff: Option<ServerBackoff>,
}

/// Runs dequeued tasks, one [`execute`](Self::execute) each. Clones are the same executor.
#[derive(Clone)]
pub struct Executor(Arc<Inner>);

struct Inner {
    parts: ExecutorParts,
    dice: Mutex<Dice>,
    warned: Mutex<HashSet<String>>,
}

impl Executor {
    /// An executor of these jobs. The first one notes from then on where this program panics, and leaves the panic hook
    /// that is there in force.
    pub fn new(parts: ExecutorParts) -> Self {
        panics::note_places();
        Self(Arc::new(Inner { parts, dice: Mutex::new(Dice::new()), warned: Mutex::default() }))
    }

    /// Runs one attempt on the current runtime and says what becomes of its task; it settles nothing itself. Cancelling
    /// `cancel` fails the attempt with `context canceled`, as somebody's request would.
    pub async fn execute(&self, run: Run, cancel: CancellationToken) -> Settlement {
        self.attempt(&Attempt::from(run), &Stop::on(cancel)).await
    }

    /// The same for a server, which has more than one reason to stop an attempt.
    pub(super) async fn attempt(&self, attempt: &Attempt, stop: &Stop) -> Settlement {
        let Attempt { key, message, extra, .. } = attempt;
        let span = tracing::info_span!(
            "job",
            id = %key.id,
            r#type = %message.r#type,
            queue = %key.queue,
            attempt = message.retried.saturating_add(1),
        );
        async {
            let ended = self.run(attempt, stop).await;
            let action = decide(
                ended,
                Facts {
                    message,
                    extra,
                    on_unknown: self.0.parts.on_unknown,
                    now_ms: self.0.parts.broker.now().timestamp_millis(),
                    roll: self.roll(),
                },
            );
            tell(&action);
            Settlement { run: key.clone(), message: Arc::clone(message), action, resend: false }
        }
        .instrument(span)
        .await
    }

    async fn run(&self, attempt: &Attempt, stop: &Stop) -> Ended {
        let parts = &self.0.parts;
        let message = &attempt.message;
        if let Some(defect) = &attempt.defect {
            return Ended::Hopeless(defect.clone());
        }
        if attempt.is_condemned() {
            return Ended::Hopeless(format!("worker died {} times while this ran", attempt.crashes));
        }
        if message.timeout <= 0 && message.deadline == 0 {
            tracing::warn!("the task has neither timeout nor deadline; it gets 30 minutes");
        }
        let limit = Limit::of(message, parts.broker.now());
        if limit.is_over() {
            return Ended::Hopeless("deadline passed".to_owned());
        }
        let Some(job) = parts.registry.get(&message.r#type) else {
            self.warn_of(&message.r#type, "no job here has its name");
            return Ended::Unknown(format!("handler not found for task {:?}", message.r#type));
        };
        if stop.is_asked() {
            return stopped(stop);
        }
        let pauses = Pauses { job: job.backoff, server: parts.backoff.clone(), message: Arc::clone(message) };
        let token = stop.token();
        let blocking = parts.blocking.for_attempt();
        let ctx = JobContext::new(ContextParts {
            run: attempt.key.clone(),
            message: Arc::clone(message),
            crashes: attempt.crashes,
            deadline: Some(limit.moment()),
            cancel: token.clone(),
            states: Arc::clone(&parts.states),
            blocking: blocking.clone(),
            broker: Some(Arc::clone(&parts.broker)),
        });
        // Reading the arguments runs user code too.
        let work = match panics::catch(|| job.start(&message.payload, ctx)) {
            Ok(Ok(work)) => Work { attempt: Some(work), pauses: pauses.clone() },
            Ok(Err(error @ PayloadError::UnknownFingerprint { .. })) => {
                self.warn_of(&message.r#type, "its arguments have another shape than here");
                return Ended::Unknown(error.to_string());
            }
            Ok(Err(error @ PayloadError::Undecodable { .. })) => return Ended::Hopeless(error.to_string()),
            Err(panic) => return pausing(panicked(&panic), &pauses),
        };
        pausing(drive(work, &limit, stop, &token, &blocking).await, &pauses)
    }

    fn roll(&self) -> u32 {
        self.0.dice.lock().unwrap_or_else(PoisonError::into_inner).below(30) as u32
    }

    /// One warning per type: a deploy of minutes must not fill the log.
    fn warn_of(&self, r#type: &str, why: &str) {
        let mut warned = self.0.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.len() < WARNED && warned.insert(r#type.to_owned()) {
            let policy = self.0.parts.on_unknown;
            tracing::warn!(r#type, %policy, "a task cannot run here: {why}; told once per type");
        }
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Executor").field(&self.0.parts).finish()
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
async fn drive(work: Work, limit: &Limit, stop: &Stop, token: &CancellationToken, blocking: &BlockingPool) -> Ended {
    let mut work = pin!(work);
    let cause = tokio::select! {
        biased;
        ended = work.as_mut() => return ended,
        () = stop.asked() => stopped(stop),
        () = tokio::time::sleep(limit.remaining()) => overrun(limit),
    };
    token.cancel();
    // An async job is dropped here, at its await. A thread cannot be stopped: its attempt, its slot and its lease last
    // until it returns (RELIABILITY F29), unless the server is leaving.
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
    }
}

/// A job's future whose panics, in a poll or when it is dropped, end with it.
struct Work {
    attempt: Option<BoxFuture<'static, RunResult>>,
    pauses: Pauses,
}

impl Future for Work {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        let Self { attempt: Some(work), pauses } = &mut *self else { return Poll::Pending };
        // The error's text is user code as well, so it is made in here.
        match panics::catch(|| work.as_mut().poll(cx).map(|result| returned(result, pauses))) {
            Ok(poll) => poll,
            Err(panic) => Poll::Ready(panicked(&panic)),
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let work = self.attempt.take();
        if let Err(panic) = panics::catch(|| drop(work)) {
            tracing::error!("a job panicked while it was dropped: {panic}");
        }
    }
}

fn returned(result: RunResult, pauses: &Pauses) -> Ended {
    match result {
        Ok(result) => Ended::Succeeded(result),
        Err(error) => {
            let pause = if error.policy() == Policy::Fail { pauses.after(&error) } else { None };
            Ended::Failed { policy: error.policy(), error: text_of(&error), pause }
        }
    }
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

/// The error and what caused it, as far as its own text does not say it already.
fn text_of(error: &JobError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source().source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

fn panicked(panic: &str) -> Ended {
    Ended::failed(format!("panic error cause by: {panic}"))
}

/// Says how the attempt ended, never with a payload.
fn tell(action: &Action) {
    match action {
        Action::Done | Action::Complete { .. } => tracing::debug!("done"),
        Action::Retry { delay, error: Some(error), .. } => tracing::warn!(?delay, "failed, will be retried: {error}"),
        Action::Retry { delay, .. } => tracing::debug!(?delay, "put off"),
        Action::Archive { error, .. } => tracing::error!("archived: {error}"),
        Action::Requeue => tracing::debug!("handed back"),
    }
}

/// How an attempt ends that runs into its limit. After the task's own deadline no other attempt may run (F40).
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
