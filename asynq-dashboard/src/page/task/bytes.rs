//! The payload and the result of a task.

use asynq_grammar::shell;
use asynq_runtime::TaskInfo;
use maud::{Markup, html};

use super::{
    super::{format::size, part::text},
    View,
};
use crate::{
    path::with_query,
    query::payload::{Form, Rendered},
};

/// Renders bytes of the task, as long as the page may show them.
pub(super) fn render(view: &View, rendered: &Rendered) -> Markup {
    let all = with_query(&view.path(&[]), &[("all", "1")]);
    html! {
        @if rendered.form == Form::Empty { p.soft { "Empty." } } @else {
            (text::block(&rendered.text, "", view.limit, &all))
            @if rendered.is_cut && view.limit == text::WHOLE {
                p.soft {
                    "This is the beginning; there are " (size(rendered.size as u64)) " in all, which "
                    code { (inspect(&view.task)) } " prints."
                }
            }
        }
    }
}

/// Returns the command that prints the task, for a shell. Programs choose ids: one may hold a command, or begin as an option does.
fn inspect(task: &TaskInfo) -> String {
    format!("asynq task inspect --queue={} -- {}", shell::quote(task.queue.as_str()), shell::quote(task.id.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::payload::MOST_TEXT;

    #[test]
    fn a_command_to_copy_takes_any_id_as_one_word() {
        let long = vec![b'x'; MOST_TEXT + 1];
        for (id, word) in [("t1", "t1"), ("$(reboot)", "'$(reboot)'"), ("a b;c", "'a b;c'"), ("-x", "-x")] {
            let view = View::of(id, &long);
            let page = render(&view, &view.payload).into_string();
            let command = format!("<code>asynq task inspect --queue=default -- {word}</code>");
            assert!(page.contains(&command), "{command}: {}", &page[MOST_TEXT..]);
        }
    }
}
