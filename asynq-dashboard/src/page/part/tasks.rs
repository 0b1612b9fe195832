//! A table of tasks: its columns are those that matter in their state.

use asynq_runtime::{TaskInfo, TaskState, broker::TaskBrief};
use chrono::{DateTime, Utc};
use maud::{Markup, html};

use super::{
    state::state,
    text::{self, cell},
};
use crate::{
    page::format::{count, when, when_known},
    path::{href, segment, with_query},
    query::payload::{self, Reader},
};

/// The settings of a table of tasks.
#[derive(Debug)]
pub(crate) struct Table<'a> {
    /// Where the dashboard is mounted.
    pub(crate) mount: &'a str,
    /// The reader of the tasks' arguments.
    pub(crate) reader: &'a Reader<'a>,
    /// The broker's time.
    pub(crate) now: DateTime<Utc>,
    /// The state of all tasks; `None` if they are mixed, from several queues.
    pub(crate) state: Option<TaskState>,
    /// Whether rows can be picked.
    pub(crate) can_pick: bool,
}

impl Table<'_> {
    /// Renders the table.
    pub(crate) fn show(&self, tasks: &[TaskBrief]) -> Markup {
        html! {
            div.scroll { table.cards {
                thead { tr {
                    @if self.can_pick { th.check scope="col" { input type="checkbox" autocomplete="off" data-all aria-label="Pick all of this page"; } }
                    th scope="col" { "Id" }
                    th scope="col" { "Type" }
                    @if self.state.is_none() { th scope="col" { "State" } th scope="col" { "Queue" } }
                    th scope="col" { "Arguments" }
                    @for title in self.titles() { th scope="col" { (title) } }
                } }
                tbody { @for task in tasks { (self.row(task)) } }
            } }
        }
    }

    fn titles(&self) -> &'static [&'static str] {
        match self.state {
            None => &["Time", "Error or group"],
            Some(TaskState::Active) => &["Tried", "Lease", "Progress"],
            Some(TaskState::Pending) => &["Tried", "Last error"],
            Some(TaskState::Scheduled) => &["Tried", "Due"],
            Some(TaskState::Retry) => &["Tried", "Due", "Error"],
            Some(TaskState::Archived) => &["Tried", "Archived", "Error"],
            Some(TaskState::Completed) => &["Completed", "Kept until", "Result"],
            Some(TaskState::Aggregating) => &["Group"],
        }
    }

    fn row(&self, task: &TaskBrief) -> Markup {
        let (queue, id) = (task.queue.as_str(), task.id.as_str());
        let rendered = self.reader.of_listed(task);
        html! {
            tr id={ "t-" (segment(queue)) "/" (segment(id)) } {
                @if self.can_pick {
                    // A browser that comes back would tick boxes by their place, where other tasks may be by now.
                    td.check { input type="checkbox" autocomplete="off" name="id" value=(id) aria-label={ "Pick " (cell(id)) }; }
                }
                th.id scope="row" {
                    a href=(href(self.mount, &["queues", queue, "tasks", id])) title=(text::cut(id, text::CELL).0) { (text::id(id)) }
                }
                td.short { (cell(&task.r#type)) }
                @if self.state.is_none() {
                    td { (state(task.state)) }
                    td.short { a href=(href(self.mount, &["queues", queue])) { (cell(queue)) } }
                }
                td.clip.mono.whole { (cell(&one_line(&rendered))) }
                (self.cells(task))
            }
        }
    }

    fn cells(&self, task: &TaskBrief) -> Markup {
        let time = |title: &str, at| html! { td data-l=(title) { (when_known(self.now, at)) } };
        let tried = html! { td data-l="Tried" {
            (count(task.retried.into())) " / " (count(task.max_retry.into()))
            @if task.crashes > 0 { " " span.tag.bad title="How often its worker died" { (count(task.crashes.into())) " crashed" } }
        } };
        let error = html! { td.clip.whole.alarm[task.state != TaskState::Pending] {
            @if let Some(error) = &task.last_error { (cell(error)) }
        } };
        match self.state {
            None => html! {
                (time("Time", time_of(task)))
                td.clip.whole {
                    @if let Some(error) = &task.last_error { (cell(error)) }
                    @else if let Some(group) = &task.group { (cell(group)) }
                }
            },
            Some(TaskState::Active) => html! {
                (tried)
                td data-l="Lease" {
                    (when_known(self.now, task.lease_until))
                    @if task.is_orphan(self.now) { " " span.tag.bad title="Its lease has passed: no worker runs it" { "orphan" } }
                }
                td.whole { @if let Some(progress) = &task.progress {
                    progress value=(progress.fraction) max="1" aria-label="Progress" {} small { (cell(&progress.note)) }
                } }
            },
            Some(TaskState::Pending) => html! { (tried) (error) },
            Some(TaskState::Scheduled) => html! { (tried) (time("Due", task.next_process_at)) },
            Some(TaskState::Retry) => html! { (tried) (time("Due", task.next_process_at)) (error) },
            Some(TaskState::Archived) => html! { (tried) (time("Archived", task.archived_at)) (error) },
            Some(TaskState::Completed) => html! {
                (time("Completed", task.completed_at))
                td data-l="Kept until" { (when_known(self.now, kept_until(task))) }
                td.clip.mono.whole { @if let Some(result) = payload::result_of_listed(task) { (cell(&one_line(&result))) } }
            },
            Some(TaskState::Aggregating) => html! {
                td data-l="Group" {
                    @let group = task.group.as_deref().unwrap_or_default();
                    @let path = href(self.mount, &["queues", task.queue.as_str()]);
                    a href=(with_query(&path, &[("state", "aggregating"), ("group", group)])) { (cell(group)) }
                }
            },
        }
    }
}

/// Returns the time that matters in the task's state.
fn time_of(task: &TaskInfo) -> Option<DateTime<Utc>> {
    match task.state {
        TaskState::Active => task.lease_until,
        TaskState::Completed => task.completed_at,
        TaskState::Archived => task.archived_at,
        _ => task.next_process_at,
    }
}

/// Returns when a completed task is deleted; `None` in any other state, in which a task that was completed before stays.
pub(crate) fn kept_until(task: &TaskInfo) -> Option<DateTime<Utc>> {
    if task.state != TaskState::Completed {
        return None;
    }
    task.completed_at?.checked_add_signed(chrono::TimeDelta::from_std(task.retention?).ok()?)
}

/// Returns a payload in one line, or its size where none of it can be shown.
fn one_line(rendered: &payload::Rendered) -> String {
    if rendered.form == payload::Form::Binary || (rendered.is_cut && rendered.text.is_empty()) {
        return format!("{} bytes", count(rendered.size as u64));
    }
    let words = rendered.text.split_whitespace();
    let mut line = String::new();
    for word in words {
        if line.len() > 4 * text::CELL {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().take(text::CELL + 1));
    }
    line
}

/// Renders a time with its words, for lists of facts.
pub(crate) fn fact(now: DateTime<Utc>, name: &str, at: Option<DateTime<Utc>>) -> Markup {
    html! { @if let Some(at) = at { dt { (name) } dd { (when(now, at)) } } }
}

#[cfg(test)]
mod tests {
    use asynq_runtime::task::TaskMessage;

    use super::*;

    fn task(payload: &'static [u8], state: TaskState) -> TaskBrief {
        let message = TaskMessage {
            id: "\"><i>".into(),
            queue: "a/b".into(),
            r#type: "<b>".into(),
            payload: payload.into(),
            ..TaskMessage::default()
        };
        TaskBrief::of(TaskInfo::from_message(&message, state))
    }

    fn table<'a>(state: Option<TaskState>, reader: &'a Reader<'a>) -> Table<'a> {
        Table { mount: "/m", reader, now: DateTime::UNIX_EPOCH, state, can_pick: true }
    }

    #[test]
    fn every_state_has_a_cell_per_title() {
        for state in TaskState::ALL.into_iter().map(Some).chain([None]) {
            let html = table(state, &Reader::default()).show(&[task(b"1", TaskState::Active)]).into_string();
            let cells = |tag: &str| html.matches(tag).count();
            assert_eq!(cells("<th "), cells("<td") + 2, "{state:?}: {html}");
        }
    }

    #[test]
    fn a_list_has_the_time_at_which_a_task_was_archived() {
        let mut task = TaskInfo::from_message(&TaskMessage::default(), TaskState::Archived);
        task.archived_at = Some(DateTime::UNIX_EPOCH);
        for state in [None, Some(TaskState::Archived)] {
            let html = table(state, &Reader::default()).show(&[TaskBrief::of(task.clone())]).into_string();
            assert!(html.contains("<time"), "{state:?}: a person archived it, and it never failed: {html}");
        }
    }

    #[test]
    fn foreign_text_stays_text() {
        let html = table(None, &Reader::default()).show(&[task(b"<script>", TaskState::Pending)]).into_string();
        for raw in ["<script>", "<b>", "\"><i>"] {
            assert!(!html.contains(raw), "{html}");
        }
        assert!(html.contains(r#"href="/m/queues/a%2Fb/tasks/%22%3E%3Ci%3E""#), "{html}");
    }

    #[test]
    fn two_tasks_never_share_the_id_of_a_row() {
        let row = |queue: &str, id: &str| {
            let message = TaskMessage { id: id.into(), queue: queue.into(), ..TaskMessage::default() };
            let task = TaskBrief::of(TaskInfo::from_message(&message, TaskState::Pending));
            let html = table(None, &Reader::default()).row(&task).into_string();
            html.split('"').nth(1).map(str::to_owned)
        };
        for ((queue, id), (other_queue, other_id)) in [(("a-b", "c"), ("a", "b-c")), (("a/b", "c"), ("a", "b/c"))] {
            assert_ne!(row(queue, id), row(other_queue, other_id), "{queue} {id}");
        }
    }

    #[test]
    fn arguments_are_one_short_line() {
        assert_eq!(one_line(&payload::any(b"{\"a\": [1,\n 2]}")), r#"{ "a": [ 1, 2 ] }"#);
        assert_eq!(one_line(&payload::any(b"\xff\0")), "2 bytes");
        assert!(one_line(&payload::any(&vec![b'x'; 1 << 20])).len() < 1000);
    }
}
