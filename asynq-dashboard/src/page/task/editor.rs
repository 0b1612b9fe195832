//! The form that edits the arguments of a task.

use asynq_runtime::TaskState;
use maud::{Markup, html};

use super::View;
use crate::query::payload::Form;

/// Longest text that can be edited here, in bytes.
const EDITABLE: usize = 64 * 1024;

/// Renders the form; nothing for arguments that cannot be edited.
pub(super) fn render(view: &View) -> Markup {
    html! {
        @if can_edit(view) {
            @if view.payload.text.contains('\r') {
                p.soft { "Text with carriage returns (CR) cannot be edited in a browser, which removes them; use " code { "asynq task edit" } " or the API." }
            } @else { (form(view)) }
        }
    }
}

/// Returns whether the payload can be edited. Arguments with a secret cannot: the shown text differs from the stored one.
fn can_edit(view: &View) -> bool {
    !matches!(view.task.state, TaskState::Active | TaskState::Completed)
        && !matches!(view.payload.form, Form::Binary | Form::Unreadable)
        && !view.payload.is_cut
        && view.payload.text.len() <= EDITABLE
        && !view.payload.text.contains("\"***\"")
}

fn form(view: &View) -> Markup {
    let (edit, is_pending) = (view.path(&["edit"]), view.task.state == TaskState::Pending);
    html! {
        details {
            summary { "Edit and resubmit" }
            // As at the login, a browser that has not run the script puts no text of the form into a URL.
            form.stack method="post" action=(edit) data-edit=(edit) data-run=(view.path(&["run"])) data-state=(view.task.state) data-as=(if view.payload.form == Form::Arguments { "arguments" } else { "payload" }) {
                textarea name="text" spellcheck="false" autocomplete="off" aria-label="New arguments" { "\n" (view.payload.text) }
                div.row {
                    @if !is_pending { button #save-and-run.go name="then" value="run" { "Save and run now" } }
                    // With an id of its own it never becomes the button that runs the task.
                    button #save.go[is_pending] name="then" value="" { "Save" }
                    span.soft { "Its attempts stay counted." }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_in_no_url_before_the_script_has_run() {
        let form = render(&View::of("t1", b"{}")).into_string();
        assert!(form.contains(r#" method="post" action="/jobs/queues/default/tasks/t1/edit""#), "{form}");
    }

    #[test]
    fn text_whose_line_ends_a_browser_would_change_is_not_edited() {
        for (text, can_edit) in [("a\nb", true), ("a\r\nb", false), ("a\rb", false), (r#"["a\r\n"]"#, true)] {
            let shown = render(&View::of("t1", text.as_bytes())).into_string();
            assert_eq!(
                (shown.contains("data-edit"), shown.contains("asynq task edit")),
                (can_edit, !can_edit),
                "{text:?}"
            );
        }
    }
}
