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
        } @else if can_edit_text(view) {
            p.soft {
                @if is_long(view) { "Arguments of more than 64 KiB" } @else { "Arguments with " code { "***" } ", which may be a secret," }
                " cannot be edited here; use " code { "asynq task edit" } " or the API."
            }
        }
    }
}

/// Returns whether the payload can be edited. Arguments with a secret cannot: the shown text differs from the stored one.
fn can_edit(view: &View) -> bool {
    can_edit_text(view) && !is_long(view) && !view.payload.text.contains("\"***\"")
}

/// Returns whether the task can be edited, and its payload is text.
fn can_edit_text(view: &View) -> bool {
    !matches!(view.task.state, TaskState::Active | TaskState::Completed)
        && !matches!(view.payload.form, Form::Binary | Form::Unreadable)
}

fn is_long(view: &View) -> bool {
    view.payload.is_cut || view.payload.text.len() > EDITABLE
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
    fn a_page_says_why_arguments_cannot_be_edited() {
        let long = "x".repeat(EDITABLE + 1);
        for (text, why) in [(&*long, "more than 64 KiB"), (r#"["***"]"#, "which may be a secret")] {
            let shown = render(&View::of("t1", text.as_bytes())).into_string();
            assert!(shown.contains(why) && !shown.contains("data-edit"), "{shown}");
        }
        assert_eq!(render(&View::of("t1", b"\xff")).into_string(), "");
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
