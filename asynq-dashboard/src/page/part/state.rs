//! A task's state: its own colour, its own shape, and its name.

use asynq_runtime::{broker::QueueStats, task::TaskState};
use maud::{Markup, html};

use crate::page::format::count;

/// Renders the name of a state with its mark.
pub(crate) fn state(state: TaskState) -> Markup {
    html! { span class={ "state s-" (state) } { (state) } }
}

/// Renders one bar of a queue's tasks, a piece per state, with its numbers as text for screen readers.
pub(crate) fn bar(stats: &QueueStats) -> Markup {
    let there: Vec<_> = TaskState::ALL.map(|of| (of, stats.count(of))).into_iter().filter(|&(_, n)| n > 0).collect();
    let label: Vec<String> = there.iter().map(|(state, n)| format!("{} {state}", count(*n))).collect();
    let label = if label.is_empty() { "empty".to_owned() } else { label.join(", ") };
    html! {
        svg.bar role="img" aria-label=(label) viewBox="0 0 100 8" preserveAspectRatio="none" {
            title { (label) }
            @for (state, x, width) in pieces(&there) {
                rect class={ "s-" (state) } x=(x) width=(width) height="8" {}
            }
        }
    }
}

/// Returns the beginning and the width of each piece in percents of a bar. Each state that has tasks gets at least 2 of them, so that
/// it is seen.
fn pieces(there: &[(TaskState, u64)]) -> Vec<(TaskState, u64, u64)> {
    let all: u128 = there.iter().map(|&(_, n)| u128::from(n)).sum();
    let free = 100 - 2 * there.len() as u128;
    let mut end = 0;
    let piece = |&(state, n): &(TaskState, u64)| {
        let (from, width) = (end, 2 + u64::try_from(u128::from(n) * free / all).unwrap_or_default());
        end += width;
        (state, from, width)
    };
    there.iter().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use asynq_runtime::task::QueueName;
    use chrono::DateTime;

    use super::*;

    fn stats(active: u64, pending: u64, archived: u64) -> QueueStats {
        let mut stats = QueueStats::empty(QueueName::from_wire("q"), DateTime::UNIX_EPOCH);
        (stats.active, stats.pending, stats.archived) = (active, pending, archived);
        stats
    }

    #[test]
    fn a_bar_is_never_too_long_and_hides_nothing() {
        let state = TaskState::Active;
        for (tasks, expected) in [
            (&[][..], &[][..]),
            (&[1], &[(0, 100)]),
            (&[1, 1], &[(0, 50), (50, 50)]),
            (&[1, 1_000_000], &[(0, 2), (2, 97)]),
            (&[u64::MAX; 3], &[(0, 33), (33, 33), (66, 33)]),
        ] {
            let there: Vec<_> = tasks.iter().map(|&n| (state, n)).collect();
            let pieces: Vec<_> = pieces(&there).into_iter().map(|(_, from, width)| (from, width)).collect();
            assert_eq!(pieces, expected);
        }
    }

    #[test]
    fn a_bar_can_be_heard() {
        assert!(bar(&stats(1, 2000, 0)).into_string().contains(r#"aria-label="1 active, 2,000 pending""#));
        assert!(bar(&stats(0, 0, 0)).into_string().contains(r#"aria-label="empty""#));
    }
}
