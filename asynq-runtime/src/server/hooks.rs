//! Functions of the program that the server calls: before the start, while the server drains, when an attempt failed.
//!
//! Hooks run on the runtime that runs the jobs. A panic of a hook is logged, and a slow hook is dropped after its time, which is
//! logged as well: neither changes the outcome of a task.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::time::timeout;

use super::{attempt::Attempt, error::ServerError, retry_delay::ServerBackoff, stop::Stop};
use crate::{
    broker::Action,
    client::Client,
    job::{BoxError, BoxFuture, JobError},
    panics::Caught,
    task::{QueueName, TaskId, length},
};

/// Longest time of a hook about a task. The task keeps its slot and its lease meanwhile, and its outcome waits,
/// unless the server leaves.
const PATIENCE: Duration = Duration::from_secs(5);

/// A failed attempt, as hooks receive it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedTask {
    /// Id of the task.
    pub id: TaskId,
    /// Queue of the task.
    pub queue: QueueName,
    /// Name of its job.
    pub name: String,
    /// Encoded arguments of the task.
    pub payload: Bytes,
    /// Headers of the task.
    pub headers: Vec<(String, String)>,
    /// How often the task had failed before.
    pub retried: u32,
    /// How often the task may be retried.
    pub max_retry: u32,
    /// The text of the error, of which at most 4 KiB are kept.
    pub error: String,
    /// Whether the task is given up: it will be archived.
    pub is_archived: bool,
}

impl FailedTask {
    /// Returns the value of the first header named `key`.
    pub fn header(&self, key: &str) -> Option<&str> {
        self.headers.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

type Once<T> = Box<dyn FnOnce(Client) -> BoxFuture<'static, T> + Send>;
type TaskHook = Arc<dyn Fn(FailedTask) -> BoxFuture<'static, ()> + Send + Sync>;

/// Says whether an error is a failure.
pub(crate) type IsFailure = Arc<dyn Fn(&JobError) -> bool + Send + Sync>;

/// The hooks of one server that are called once each.
#[derive(Default)]
pub(crate) struct LifecycleHooks {
    pub(crate) before_start: Vec<Once<Result<(), BoxError>>>,
    pub(crate) on_drain: Vec<Once<()>>,
}

/// The hooks about tasks.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) on_error: Vec<TaskHook>,
    pub(crate) on_archive: Vec<TaskHook>,
    pub(crate) is_failure: Option<IsFailure>,
    /// The retry delay of jobs that have none of their own; `None` is asynq's formula.
    pub(crate) backoff: Option<ServerBackoff>,
}

/// Boxes a hook to call with every failed task.
pub(crate) fn task_hook<F, R>(hook: F) -> TaskHook
where
    F: Fn(FailedTask) -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let hook = Arc::new(hook);
    // The hook is called inside the future, so that a panic of the call itself is caught too.
    Arc::new(move |task| {
        let hook = Arc::clone(&hook);
        Box::pin(async move { hook(task).await })
    })
}

impl LifecycleHooks {
    /// Calls the hooks of the start, one after the other.
    ///
    /// # Errors
    ///
    /// The first hook that failed or panicked: the server does not start.
    pub(crate) async fn start(&mut self, client: &Client) -> Result<(), ServerError> {
        for hook in self.before_start.drain(..) {
            let ended = Caught::from(hook(client.clone())).await.unwrap_or_else(|panic| Err(panic.into()));
            ended.map_err(|source| ServerError::Hook { name: "before_start", source })?;
        }
        Ok(())
    }

    /// Calls the hooks of the drain, one after the other.
    pub(crate) async fn drain(self, client: Client) {
        for hook in self.on_drain {
            if let Err(panic) = Caught::from(hook(client.clone())).await {
                log!(error, "the hook on_drain panicked: {panic}");
            }
        }
    }
}

impl Hooks {
    /// Calls the hooks about a failed attempt, and then `own`, the job's own hook. Ends early when the server is leaving.
    pub(crate) async fn call(&self, failed: FailedTask, own: Option<Caught<'static, ()>>, stop: &Stop) {
        let on_archive: &[TaskHook] = if failed.is_archived { &self.on_archive } else { &[] };
        let hooks = self.on_error.iter().map(|hook| ("on_error", hook));
        let hooks = hooks.chain(on_archive.iter().map(|hook| ("on_archive", hook)));
        let hooks = hooks.map(|(name, hook)| (name, Caught::from(hook(failed.clone()))));
        for (name, hook) in hooks.chain(own.map(|own| ("on_archive of the job", own))) {
            tokio::select! {
                // A hook that ends at once is called even by a server that is leaving.
                biased;
                ended = timeout(PATIENCE, hook) => match ended {
                    Ok(Ok(())) => {}
                    Ok(Err(panic)) => log!(error, "the hook {name} panicked: {panic}"),
                    Err(_) => log!(error, "the hook {name} took longer than {PATIENCE:?} and was dropped"),
                },
                () = stop.leave() => {
                    log!(warn, "the hook {name} is cut off, and no hook after it is called: the shutdown timeout is over");
                    return;
                }
            }
        }
    }
}

/// Returns the facts of an attempt that ended with `action`, for hooks; `None` if the attempt did not fail.
pub(crate) fn failed(attempt: &Attempt, action: &Action) -> Option<FailedTask> {
    let (error, is_archived) = match action {
        Action::Retry { error: Some(error), counted: true, .. } => (error, false),
        Action::Archive { error, .. } => (error, true),
        _ => return None,
    };
    let message = &attempt.message;
    Some(FailedTask {
        id: attempt.key.id.clone(),
        queue: attempt.key.queue.clone(),
        name: message.r#type.clone(),
        payload: message.payload.clone(),
        headers: message.named_headers(),
        retried: message.spent_retries(),
        max_retry: message.max_retry(),
        error: error.clone(),
        is_archived,
    })
}

partial_debug!(FailedTask {
    id, queue, name, payload as length, headers, retried, max_retry, error, is_archived, ..
});
partial_debug!(LifecycleHooks { before_start as Vec::len, on_drain as Vec::len, .. });
partial_debug!(Hooks {
    on_error as Vec::len, on_archive as Vec::len, is_failure as Option::is_some, backoff as Option::is_some, ..
});

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::server::stop::Why;

    #[tokio::test]
    async fn a_server_that_leaves_calls_hooks_that_end_at_once_and_does_not_wait_for_others() {
        let calls = Arc::new(AtomicU32::new(0));
        let counts = |ends: bool| -> TaskHook {
            let calls = Arc::clone(&calls);
            Arc::new(move |_| {
                calls.fetch_add(1, Ordering::Relaxed);
                if ends { Box::pin(std::future::ready(())) } else { Box::pin(std::future::pending()) }
            })
        };
        let on_error = (0..50).map(|_| counts(true)).chain([counts(false), counts(true)]).collect();
        let (hooks, stop) = (Hooks { on_error, ..Hooks::default() }, Stop::default());
        stop.stop(Why::Leaving);
        let failed = FailedTask {
            id: TaskId::from_wire("a"),
            queue: QueueName::from_wire("default"),
            name: "report".into(),
            payload: Bytes::new(),
            headers: Vec::new(),
            retried: 0,
            max_retry: 0,
            error: "no".into(),
            is_archived: false,
        };
        let log = asynq_test_support::Log::keep();
        hooks.call(failed, None, &stop).await;
        assert_eq!(calls.load(Ordering::Relaxed), 51);
        let expected = "the hook on_error is cut off, and no hook after it is called: the shutdown timeout is over";
        assert_eq!(log.with("hook"), [expected]);
    }
}
