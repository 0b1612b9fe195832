//! The position at which a search goes on, as text in the address of its next request.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use asynq_runtime::broker::TaskBrief;

use super::STATES;

/// Most slices of one queue and state after which a search can go on.
const MOST_SLICES: usize = 1_000_000;

/// The position of a search: every queue is asked for the id first, then state by state, queue by queue, slice by slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Position {
    /// 0 while queues are asked for the id, then the index of a state in [`STATES`] plus 1.
    pub(super) step: usize,
    pub(super) queue: String,
    pub(super) place: Place,
    /// [`SearchResult::is_incomplete`](super::SearchResult::is_incomplete) so far.
    pub(super) is_incomplete: bool,
}

/// The position in the tasks of one queue and state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// How many slices were looked at as a whole.
    pub(super) slices: usize,
    /// The mark of the task that was looked at last: what is behind it comes next, wherever the task has moved to.
    pub(super) last: Option<u64>,
}

impl Position {
    /// Returns the text for [`Query::after`](super::Query::after).
    pub(super) fn text(&self) -> String {
        let Place { slices, last } = self.place;
        let last = last.map(|mark| format!("{mark:x}")).unwrap_or_default();
        format!("{}.{slices}.{last}.{}.{}", self.step, u8::from(self.is_incomplete), self.queue)
    }

    /// Returns the position of such a text; `None` if no search gave it.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(5, '.');
        let step = parts.next()?.parse().ok().filter(|step| *step <= STATES.len())?;
        let slices = parts.next()?.parse().ok().filter(|slices| *slices <= MOST_SLICES)?;
        let last = match parts.next()? {
            "" => None,
            mark => Some(u64::from_str_radix(mark, 16).ok()?),
        };
        let is_incomplete = parts.next()? == "1";
        Some(Self { step, queue: parts.next()?.to_owned(), place: Place { slices, last }, is_incomplete })
    }
}

/// Returns a mark of a task's id, which is short however long the id is.
pub(super) fn mark(task: &TaskBrief) -> u64 {
    let mut hasher = DefaultHasher::new();
    task.id.as_str().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_from_its_text_for_any_queue_name() {
        for queue in ["default", "a.b.c", "", "1.2.3"] {
            for step in [0, 3, STATES.len()] {
                for (last, is_incomplete) in [(None, false), (Some(u64::MAX), true)] {
                    let place = Place { slices: 17, last };
                    let position = Position { step, queue: queue.into(), place, is_incomplete };
                    assert_eq!(Position::read(&position.text()), Some(position));
                }
            }
        }
        for bad in ["", "9.1..0.q", "1.-1..0.q", "1.q", "x", "1.1.x.0.q", "1.99999999999..0.q"] {
            assert_eq!(Position::read(bad), None, "{bad}");
        }
    }
}
