//! The bar that appears when rows of a table are picked, with the actions on them; `select.js` works the bar.

use asynq_runtime::{TaskState, broker::BulkAction, inspector::ArchiveRoom};
use maud::{Markup, html};

use super::format::count;
use crate::path::href;

/// Renders the bar. `total` is the number of all tasks; `None` where "all" cannot be asked for. `room` is the room in
/// the archive, `None` where nothing can be archived: tasks beyond it are deleted, which the question says.
pub(super) fn bar(
    mount: &str,
    queue: &str,
    state: TaskState,
    group: &str,
    total: Option<u64>,
    room: Option<ArchiveRoom>,
) -> Markup {
    let group = (!group.is_empty()).then_some(group);
    html! {
        div #picked role="group" aria-label="Actions on the picked tasks" hidden
            data-url=(href(mount, &["queues", queue, "bulk"])) data-state=(state) data-group=[group] data-total=[total.map(count)]
            data-count=[total] data-archived=[room.map(|room| room.archived)] data-keeps=[room.map(|room| room.limit)] {
            output aria-live="polite" {}
            @if total.is_some() && state != TaskState::Active {
                button.bare type="button" data-every hidden { "Pick all " (total.map(count).unwrap_or_default()) }
            }
            @for (verb, label, class) in actions(state) {
                button.(class) type="button" data-bulk=(verb) { (label) }
            }
            button.bare type="button" data-none aria-label="Pick nothing" { "✕" }
        }
    }
}

/// Returns the actions on tasks in a state: word, label, class.
fn actions(state: TaskState) -> Vec<(&'static str, &'static str, &'static str)> {
    if state == TaskState::Active {
        return vec![("cancel", "Cancel", "danger")];
    }
    [
        (BulkAction::Run, ("run", "Run now", "go")),
        (BulkAction::Archive, ("archive", "Archive", "plain")),
        (BulkAction::Delete, ("delete", "Delete", "danger")),
    ]
    .into_iter()
    .filter(|(action, _)| action.fits(state))
    .map(|(_, button)| button)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_actions_that_a_state_allows_are_offered() {
        let verbs = |state| actions(state).into_iter().map(|(verb, ..)| verb).collect::<Vec<_>>();
        assert_eq!(verbs(TaskState::Active), ["cancel"]);
        assert_eq!(verbs(TaskState::Pending), ["archive", "delete"]);
        assert_eq!(verbs(TaskState::Retry), ["run", "archive", "delete"]);
        assert_eq!(verbs(TaskState::Completed), ["delete"]);
    }
}
