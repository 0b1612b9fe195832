//! The position at which a search goes on, as text in the address of its next request.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use asynq_runtime::{TaskState, broker::TaskBrief};

use super::{SLICE, STATES};

/// Most slices of one queue and state after which a search can go on.
const MOST_SLICES: usize = 1_000_000;

/// The position of a search: every queue is asked for the id first, then state by state, queue by queue, slice by slice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// 0 while queues are asked for the id, then the index of a state in [`STATES`] plus 1.
    pub(super) step: usize,
    pub(super) queue: String,
    pub(super) cursor: TaskCursor,
    /// [`SearchResult::is_incomplete`](super::SearchResult::is_incomplete) so far.
    pub(super) is_incomplete: bool,
    /// [`SearchResult::partly_searched`](super::SearchResult::partly_searched) so far.
    pub(super) partly_searched: usize,
}

/// The position in the tasks of one queue and state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TaskCursor {
    /// How many slices were looked at as a whole.
    pub(super) slices: usize,
    /// How many tasks of the next slice were looked at.
    pub(super) looked: usize,
    /// The mark of the task that was looked at last: the tasks behind it come next, wherever it has moved to.
    pub(super) last: Option<u64>,
}

impl Position {
    /// Returns the text for [`Query::after`](super::Query::after).
    pub(super) fn text(&self) -> String {
        let TaskCursor { slices, looked, last } = self.cursor;
        let last = last.map(|mark| format!("{mark:x}")).unwrap_or_default();
        let (step, incomplete) = (self.step, u8::from(self.is_incomplete));
        format!("{step}.{slices}.{looked}.{last}.{incomplete}.{}.{}", self.partly_searched, self.queue)
    }

    /// Returns the position of such a text; `None` if no search gave it.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(7, '.');
        let step = parts.next()?.parse().ok().filter(|step| *step <= STATES.len())?;
        let slices = parts.next()?.parse().ok().filter(|slices| *slices <= MOST_SLICES)?;
        let looked = parts.next()?.parse().ok().filter(|looked| *looked <= SLICE)?;
        let last = match parts.next()? {
            "" => None,
            mark => Some(u64::from_str_radix(mark, 16).ok()?),
        };
        let is_incomplete = parts.next()? == "1";
        let partly_searched = parts.next()?.parse().ok().filter(|tasks| *tasks <= MOST_SLICES * SLICE)?;
        let (queue, cursor) = (parts.next()?.to_owned(), TaskCursor { slices, looked, last });
        Some(Self { step, queue, cursor, is_incomplete, partly_searched })
    }
}

/// Returns a mark of a task, which is short however long the id is. A task that has run or was deferred since has another: it is
/// elsewhere in the list.
pub(super) fn mark(task: &TaskBrief) -> u64 {
    let mut hasher = DefaultHasher::new();
    task.id.as_str().hash(&mut hasher);
    (task.retried, task.last_failed_at).hash(&mut hasher);
    if matches!(task.state, TaskState::Scheduled | TaskState::Retry) {
        task.next_process_at.hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use asynq_runtime::{TaskInfo, task::TaskMessage};

    use super::*;

    #[test]
    fn a_task_that_has_run_or_was_deferred_since_has_another_mark() {
        let seen = TaskInfo::from_message(&TaskMessage { id: "t".into(), ..TaskMessage::default() }, TaskState::Retry);
        let mark_of = |change: fn(&mut TaskInfo)| {
            let mut task = seen.clone();
            change(&mut task);
            mark(&TaskBrief::of(task))
        };
        assert_eq!(mark_of(|_| ()), mark_of(|task| task.queue = asynq_runtime::task::QueueName::from_wire("other")));
        assert_ne!(mark_of(|_| ()), mark_of(|task| task.retried = 1));
        assert_ne!(mark_of(|_| ()), mark_of(|task| task.next_process_at = Some(chrono::DateTime::UNIX_EPOCH)));
    }

    #[test]
    fn a_cursor_comes_back_from_its_text_for_any_queue_name() {
        for queue in ["default", "a.b.c", "", "1.2.3"] {
            for step in [0, 3, STATES.len()] {
                for (last, is_incomplete, partly_searched) in [(None, false, 0), (Some(u64::MAX), true, 12)] {
                    let cursor = TaskCursor { slices: 17, looked: 3, last };
                    let position = Position { step, queue: queue.into(), cursor, is_incomplete, partly_searched };
                    assert_eq!(Position::read(&position.text()), Some(position));
                }
            }
        }
        for bad in [
            "",
            "9.1.0..0.0.q",
            "1.-1.0..0.0.q",
            "1.q",
            "x",
            "1.1.0.x.0.0.q",
            "1.99999999999.0..0.0.q",
            "1.1.201..0.0.q",
            "1.1.0..0.-1.q",
        ] {
            assert_eq!(Position::read(bad), None, "{bad}");
        }
    }
}
