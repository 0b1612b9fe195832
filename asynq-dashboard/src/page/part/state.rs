//! A task's state: its own colour, its own shape, and its name.

use asynq_runtime::{broker::QueueStats, task::TaskState};
use maud::{Markup, html};

use crate::page::format::count;

/// The states in the order in which people look at them.
pub(crate) const ORDER: [TaskState; 7] = TaskState::ALL;

/// Renders the name of a state with its mark.
pub(crate) fn state(state: TaskState) -> Markup {
    html! { span class={ "state s-" (state) } { (state) } }
}

/// Renders one bar of a queue's tasks, a piece per state, with its numbers as text for screen readers.
pub(crate) fn bar(stats: &QueueStats) -> Markup {
    let mut at = 0;
    let parts: Vec<(TaskState, u64, u64)> = widths(stats)
        .into_iter()
        .map(|(state, width)| {
            let from = at;
            at += width;
            (state, from, width)
        })
        .collect();
    let label: Vec<String> = ORDER
        .iter()
        .map(|&state| (state, stats.count(state)))
        .filter(|&(_, n)| n > 0)
        .map(|(state, n)| format!("{} {state}", count(n)))
        .collect();
    let label = if label.is_empty() { "empty".to_owned() } else { label.join(", ") };
    html! {
        svg.bar role="img" aria-label=(label) viewBox="0 0 100 8" preserveAspectRatio="none" {
            title { (label) }
            @for (state, x, width) in parts {
                rect class={ "s-" (state) } x=(x) width=(width) height="8" {}
            }
        }
    }
}

/// Returns the percents of a bar; each state that has tasks gets at least 2 of them, so that it is seen.
fn widths(stats: &QueueStats) -> Vec<(TaskState, u64)> {
    let there: Vec<(TaskState, u64)> =
        ORDER.iter().map(|&state| (state, stats.count(state))).filter(|&(_, n)| n > 0).collect();
    let all: u128 = there.iter().map(|&(_, n)| u128::from(n)).sum();
    let free = 100 - 2 * there.len() as u128;
    there
        .into_iter()
        .map(|(state, n)| (state, 2 + u64::try_from(u128::from(n) * free / all).unwrap_or_default()))
        .collect()
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
        for (stats, expected) in [
            (stats(0, 0, 0), vec![]),
            (stats(1, 0, 0), vec![100]),
            (stats(1, 1, 0), vec![50, 50]),
            (stats(1, 0, 1_000_000), vec![2, 97]),
            (stats(u64::MAX, u64::MAX, u64::MAX), vec![33, 33, 33]),
        ] {
            assert_eq!(widths(&stats).iter().map(|&(_, width)| width).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn a_bar_can_be_heard() {
        assert!(bar(&stats(1, 2000, 0)).into_string().contains(r#"aria-label="1 active, 2,000 pending""#));
        assert!(bar(&stats(0, 0, 0)).into_string().contains(r#"aria-label="empty""#));
    }
}
