//! Waits for the end of a task: the conclusions of a waiter from one look to the next.

use std::time::Duration;

use tokio::time::timeout;

use super::{Retries, TaskEnd, has_ended};
use crate::{
    broker::{BrokerError, corrupt},
    clock::since_boot,
    task::{Extra, QueueName, TaskId, TaskInfo, TaskState},
};

/// How many times a task may be seen ended without being found as a whole, because other programs run it again.
const LOOKS: u32 = 10;

/// A broker's view of one task whose end is awaited.
pub(in super::super) trait EndSource {
    /// Returns the state and the extra facts of the task; `None` if it does not exist. [`changed`](Self::changed) reports changes
    /// from here on.
    fn look(&mut self) -> impl Future<Output = Result<Option<(TaskState, Extra)>, BrokerError>> + Send;

    /// Returns the whole task.
    fn read(&self) -> impl Future<Output = Result<Option<TaskInfo>, BrokerError>> + Send;

    /// Waits until the task may have changed; returns a [`since_boot`] before the first change, if one is known that is later than the
    /// last look.
    fn changed(&mut self) -> impl Future<Output = Result<Option<Duration>, BrokerError>> + Send;
}

/// Waits for the end of the task; see [`Inspect::wait_for_end`](crate::broker::Inspect::wait_for_end).
pub(in super::super) async fn wait_for_end(
    mut source: impl EndSource,
    queue: &QueueName,
    id: &TaskId,
    limit: Duration,
) -> Result<TaskEnd, BrokerError> {
    let (mut watch, mut retries, mut unread) = (EndWatch::default(), Retries::within(limit), 0);
    // Whether this look is the last one.
    let mut is_last = limit.is_zero();
    loop {
        let asked = since_boot();
        let found = match retries.ask(source.look()).await {
            Some(Ok(found)) => found,
            Some(Err(error)) => {
                if is_last && let Some(answer) = watch.time_over() {
                    return Ok(answer);
                }
                retries.after(error).await?;
                continue;
            }
            None => return watch.time_over().ok_or_else(Retries::no_answer),
        };
        match watch.looked(found, asked, since_boot()) {
            AfterLook::Wait if is_last => return Ok(watch.time_over().unwrap_or(TaskEnd::Gone)),
            AfterLook::Wait => retries.answered(),
            AfterLook::Answer(answer) => return Ok(answer),
            AfterLook::Read => {
                match retries.ask(source.read()).await {
                    Some(Ok(Some(task))) if has_ended(task.state) => return Ok(TaskEnd::Stored(Box::new(task))),
                    // The task was run again or removed since the look, or its message cannot be read.
                    Some(Ok(_)) if unread < LOOKS => unread += 1,
                    Some(Ok(_)) => {
                        let text =
                            format!("task {id} of queue {queue} has ended, but what is stored of it is not a task");
                        return Err(corrupt(text));
                    }
                    Some(Err(error)) => retries.after(error).await?,
                    None => return watch.time_over().ok_or_else(Retries::no_answer), // It ended too late to be read.
                }
                continue;
            }
        }
        match timeout(retries.left(), source.changed()).await {
            Ok(Ok(at)) => at.into_iter().for_each(|at| watch.changed(at)),
            Ok(Err(error)) => retries.after(error).await?,
            Err(_) => {}
        }
        // The program may have stood still, and the task may have ended long before.
        if !is_last && retries.left().is_zero() {
            (is_last, retries) = (true, Retries::last());
        }
    }
}

/// A waiter's knowledge of its task.
#[derive(Debug, Default)]
struct EndWatch(Option<Seen>);

/// The last look that found the task before its end.
#[derive(Debug, Clone, Copy)]
struct Seen {
    state: TaskState,
    is_awaited: bool,
    /// The task is known not to have changed before this [`since_boot`].
    unchanged_until: Duration,
}

/// The conclusion from a look.
#[derive(Debug, PartialEq)]
enum AfterLook {
    /// The task has ended and is kept: read it as a whole.
    Read,
    /// The task has not ended.
    Wait,
    /// The wait is over with this result.
    Answer(TaskEnd),
}

impl EndWatch {
    /// Takes the result of a look: the state and the extra facts of the task, or `None` if it does not exist. The program may have
    /// stood still between the question and now: the task was there when it was asked for, and may be gone since any time before now.
    fn looked(&mut self, found: Option<(TaskState, Extra)>, asked: Duration, now: Duration) -> AfterLook {
        match found {
            Some((state, _)) if has_ended(state) => AfterLook::Read,
            Some((state, extra)) => {
                self.0 = Some(Seen { state, is_awaited: extra.awaited, unchanged_until: asked });
                AfterLook::Wait
            }
            None if self.was_deleted(now) => AfterLook::Answer(TaskEnd::Deleted),
            None => AfterLook::Answer(TaskEnd::Gone),
        }
    }

    /// Notes that the task changed for the first time since the last look, and not before `at`.
    fn changed(&mut self, at: Duration) {
        if let Some(seen) = &mut self.0 {
            seen.unchanged_until = seen.unchanged_until.max(at);
        }
    }

    /// The answer when the time is over; `None` if no look has found the task yet.
    fn time_over(&self) -> Option<TaskEnd> {
        self.0.map(|seen| TaskEnd::NotYet(seen.state))
    }

    /// Whether a task that does not exist was deleted without an end: if it had ended, it would still be kept.
    fn was_deleted(&self, now: Duration) -> bool {
        let retention = Duration::from_secs(Extra::AWAITED_RETENTION);
        self.0.is_some_and(|seen| seen.is_awaited && now.saturating_sub(seen.unchanged_until) < retention)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use asynq_test_support::soon;

    use super::*;
    use crate::broker::BrokerErrorKind;

    /// A broker that does not answer any more after looks that find these states.
    struct StandsStill(Vec<TaskState>);

    impl EndSource for StandsStill {
        async fn look(&mut self) -> Result<Option<(TaskState, Extra)>, BrokerError> {
            match self.0.pop() {
                Some(state) => Ok(Some((state, Extra::default()))),
                None => pending().await,
            }
        }

        async fn read(&self) -> Result<Option<TaskInfo>, BrokerError> {
            pending().await
        }

        async fn changed(&mut self) -> Result<Option<Duration>, BrokerError> {
            Ok(None)
        }
    }

    #[tokio::test]
    async fn a_wait_is_over_at_its_limit_although_the_broker_does_not_answer() {
        let (queue, id) = (QueueName::from_wire("q"), TaskId::from_wire("t"));
        let end =
            |looks: &[TaskState]| wait_for_end(StandsStill(looks.to_vec()), &queue, &id, Duration::from_millis(1));
        // The last state is that of the first look.
        let ends_late = [TaskState::Completed, TaskState::Active];
        let (nothing, pending, completed, late) = soon(async {
            tokio::join!(end(&[]), end(&[TaskState::Pending]), end(&[TaskState::Completed]), end(&ends_late))
        })
        .await;
        assert_eq!(pending.unwrap(), TaskEnd::NotYet(TaskState::Pending));
        assert_eq!(late.unwrap(), TaskEnd::NotYet(TaskState::Active));
        // A task that has ended cannot be reported without having been read.
        for error in [nothing.unwrap_err(), completed.unwrap_err()] {
            assert_eq!(error.kind(), BrokerErrorKind::Timeout);
        }
    }

    /// A task that ends after the first look, without a word of it: the program stood still.
    struct EndsUnheard(bool);

    impl EndSource for EndsUnheard {
        async fn look(&mut self) -> Result<Option<(TaskState, Extra)>, BrokerError> {
            let state = if std::mem::replace(&mut self.0, true) { TaskState::Completed } else { TaskState::Active };
            Ok(Some((state, Extra::default())))
        }

        async fn read(&self) -> Result<Option<TaskInfo>, BrokerError> {
            Err(BrokerError::new(BrokerErrorKind::Denied, "the end is read"))
        }

        async fn changed(&mut self) -> Result<Option<Duration>, BrokerError> {
            pending().await
        }
    }

    #[tokio::test]
    async fn a_wait_looks_once_more_when_its_time_is_over() {
        let (queue, id) = (QueueName::from_wire("q"), TaskId::from_wire("t"));
        let end = soon(wait_for_end(EndsUnheard(false), &queue, &id, Duration::from_millis(1))).await;
        assert_eq!(end.unwrap_err().kind(), BrokerErrorKind::Denied);
    }

    /// A task that changes all the time, and does not end.
    struct ChangesAlways;

    impl EndSource for ChangesAlways {
        async fn look(&mut self) -> Result<Option<(TaskState, Extra)>, BrokerError> {
            tokio::task::yield_now().await;
            Ok(Some((TaskState::Active, Extra::default())))
        }

        async fn read(&self) -> Result<Option<TaskInfo>, BrokerError> {
            pending().await
        }

        async fn changed(&mut self) -> Result<Option<Duration>, BrokerError> {
            Ok(None)
        }
    }

    #[tokio::test]
    async fn a_task_that_changes_all_the_time_keeps_no_wait_from_its_end() {
        let (queue, id) = (QueueName::from_wire("q"), TaskId::from_wire("t"));
        for limit in [Duration::ZERO, Duration::from_millis(1)] {
            let end = soon(wait_for_end(ChangesAlways, &queue, &id, limit)).await;
            assert_eq!(end.unwrap(), TaskEnd::NotYet(TaskState::Active));
        }
    }

    fn awaited(awaited: bool) -> Extra {
        Extra { awaited, ..Extra::default() }
    }

    #[test]
    fn a_task_that_is_not_there_was_deleted_only_if_its_end_would_still_be_kept() {
        let after = Duration::from_secs;
        for (is_awaited, changed_at, looked_at, expected) in [
            (true, None, 59, TaskEnd::Deleted),
            (true, None, 60, TaskEnd::Gone),
            (true, Some(3600), 3659, TaskEnd::Deleted),
            (true, Some(3600), 3660, TaskEnd::Gone),
            (false, Some(1), 1, TaskEnd::Gone),
        ] {
            let mut watch = EndWatch::default();
            // The answer of the first look comes late: the task may have changed since it was asked for.
            let active = Some((TaskState::Active, awaited(is_awaited)));
            assert_eq!(watch.looked(active, after(0), after(50)), AfterLook::Wait);
            if let Some(at) = changed_at {
                watch.changed(after(at));
            }
            let case = format!("{is_awaited} {changed_at:?} {looked_at}");
            assert_eq!(watch.looked(None, after(0), after(looked_at)), AfterLook::Answer(expected), "{case}");
        }
        assert_eq!(EndWatch::default().looked(None, after(0), after(0)), AfterLook::Answer(TaskEnd::Gone));
    }

    #[test]
    fn only_an_end_is_read_and_the_last_state_is_returned_when_the_time_is_over() {
        for state in TaskState::ALL {
            let mut watch = EndWatch::default();
            assert_eq!(watch.time_over(), None);
            let has_ended = matches!(state, TaskState::Completed | TaskState::Archived);
            let after = watch.looked(Some((state, awaited(true))), Duration::ZERO, Duration::ZERO);
            assert_eq!(after, if has_ended { AfterLook::Read } else { AfterLook::Wait }, "{state}");
            assert_eq!(watch.time_over(), (!has_ended).then_some(TaskEnd::NotYet(state)));
        }
    }
}
