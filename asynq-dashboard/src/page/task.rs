//! `/queues/{queue}/tasks/{id}`: everything that is known of one task.

mod bytes;
mod editor;
mod timeline;

use asynq_runtime::{
    TaskInfo, TaskState,
    broker::Failure as Attempt,
    inspector::ArchiveRoom,
    task::{ServerInfo, Timestamp, WorkerInfo},
};
use axum::extract::State;
use chrono::{DateTime, Utc};
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    Page, Tab,
    format::{count, counted, size, span, when},
    part::{button::Button, state::state, tasks::fact, text},
    servers::STUCK,
};
use crate::{
    failure::Failure,
    path::{Name, Segments, UrlQuery, href, with_query},
    query::payload::{self, Form, Rendered},
    state::AppState,
};

/// Most headers that are listed.
const MOST_HEADERS: usize = 100;

/// The query of the page.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Params {
    /// 1 if long texts are shown as long as may be.
    all: u8,
}

/// The content of the page.
#[derive(Debug)]
pub(super) struct View {
    pub(super) mount: String,
    pub(super) can_change: bool,
    pub(super) now: DateTime<Utc>,
    pub(super) task: TaskInfo,
    pub(super) attempts: Vec<Attempt>,
    pub(super) payload: Rendered,
    pub(super) result: Option<Rendered>,
    pub(super) runs_at: Option<(ServerInfo, WorkerInfo)>,
    pub(super) limit: usize,
    /// The archive of the task's queue, where the task can be archived.
    pub(super) room: Option<ArchiveRoom>,
}

/// Answers `/queues/{queue}/tasks/{id}`.
pub(crate) async fn get(
    State(app): State<AppState>,
    Segments((Name(queue), Name(id))): Segments<(Name, Name)>,
    UrlQuery(params): UrlQuery<Params>,
) -> Result<Page, Failure> {
    let inspector = &app.inspector;
    let task = inspector.task(&queue, &id).await?;
    let attempts = app.client.broker().failures(&task.queue, &task.id).await?;
    let runs_at = match task.state {
        // The page is complete without the worker: the list of the servers may lie where nothing can be read.
        TaskState::Active => worker(inspector.servers().await.unwrap_or_default(), &task),
        _ => None,
    };
    let can_change = !app.config.read_only;
    let room = match task.state {
        TaskState::Active | TaskState::Archived => None,
        _ if !can_change => None,
        // The page is complete without the archive: a queue whose numbers cannot be read hides none of its tasks.
        _ => inspector.archive_room(&queue).await.ok(),
    };
    let view = View {
        mount: app.config.mount.clone(),
        can_change,
        room,
        now: app.client.broker().now(),
        payload: payload::of_one(&app, &task.r#type, &task.payload).await,
        result: task.result.as_deref().map(payload::any),
        attempts,
        runs_at,
        limit: if params.all > 0 { text::WHOLE } else { text::BLOCK },
        task,
    };
    Ok(Page::new(format!("{} {}", view.task.r#type, view.task.id), Tab::Queues, render(&view)))
}

/// Returns the server that runs the task, as the server shows itself.
fn worker(servers: Vec<asynq_runtime::broker::ServerState>, task: &TaskInfo) -> Option<(ServerInfo, WorkerInfo)> {
    servers.into_iter().find_map(|server| {
        let runs = |worker: &&WorkerInfo| worker.task_id == task.id.as_str() && worker.queue == task.queue.as_str();
        server.workers.iter().find(runs).cloned().map(|worker| (server.info, worker))
    })
}

impl View {
    fn path(&self, last: &[&str]) -> String {
        let mut parts = vec!["queues", self.task.queue.as_str(), "tasks", self.task.id.as_str()];
        parts.extend(last);
        href(&self.mount, &parts)
    }
}

fn render(view: &View) -> Markup {
    let task = &view.task;
    let queue = href(&view.mount, &["queues", task.queue.as_str()]);
    html! {
        nav.crumbs aria-label="Where this is" {
            a href=(href(&view.mount, &[])) { "Queues" } span { "/" }
            a href=(queue) { (text::cell(task.queue.as_str())) } span { "/" }
            a href=(with_query(&queue, &[("state", task.state.as_str())])) { (task.state) }
        }
        div.title {
            h1 { (text::cell(&task.r#type)) }
            (state(task.state))
            @if view.runs_at.as_ref().is_some_and(|(_, worker)| worker.is_stuck(view.now)) { span.tag.bad { "stuck: " (STUCK) } }
            @if task.is_orphan(view.now) { span.tag.bad { "orphan: its lease has passed and no worker runs it" } }
            span.grow {}
            @if view.can_change { (actions(view, &queue)) }
        }
        @if let Some(progress) = &task.progress {
            // With an id of its own it never takes the place of the panels below, in which a user may be typing.
            div #progress.panel.stack {
                div.row { strong { (format!("{:.0} %", progress.fraction * 100.0)) } span.soft { (text::cell(&progress.note)) } }
                progress value=(progress.fraction) max="1" aria-label="Progress" {}
            }
        }
        div.two {
            div {
                (arguments(view))
                @if let Some(result) = &view.result { section.panel { h2 { "Result" } (bytes::render(view, result)) } }
                (errors(view))
            }
            div {
                (facts(view))
                section.panel { h2 { "Timeline" } (timeline::render(view)) }
                @if !task.headers.is_empty() { (headers(view)) }
            }
        }
    }
}

fn actions(view: &View, queue: &str) -> Markup {
    use TaskState::{Active, Aggregating, Archived, Completed, Pending, Retry, Scheduled};
    let state = view.task.state;
    // A task that has moved since the page was made is left as it is.
    let seen = serde_json::json!({ "state": state.as_str() }).to_string();
    let button = |label, verb: &str, ask: &str, class| Button {
        label,
        post: view.path(&[verb]),
        body: if verb == "cancel" { "" } else { &seen },
        ask: ask.to_owned(),
        class,
        ..Button::default()
    };
    let archive = match view.room {
        Some(room) if room.beyond(1) > 0 => format!(
            "Archive this task? The archive keeps {} tasks and holds {}: the oldest will be DELETED.",
            count(room.limit),
            count(room.archived)
        ),
        _ => "Archive this task? It will not run until it is run by hand.".to_owned(),
    };
    let run = match state {
        Completed => "Run this task a second time? It has succeeded.",
        Aggregating => "Run this task by itself and not with its group?",
        _ => "",
    };
    html! {
        @if matches!(state, Scheduled | Retry | Archived | Completed | Aggregating) { (button("Run now", "run", run, "go").show()) }
        @if matches!(state, Pending | Scheduled | Retry | Completed | Aggregating) { (button("Archive", "archive", &archive, "").show()) }
        @if state == Active { (button("Cancel", "cancel", "Ask its worker to cancel this run? Its work so far stays done.", "danger").show()) }
        @if state != Active {
            (Button { then: with_query(queue, &[("state", state.as_str())]), ..button("Delete", "delete", "Delete this task with its arguments, result and errors? This cannot be undone.", "danger") }.show())
        }
    }
}

fn arguments(view: &View) -> Markup {
    let form = match view.payload.form {
        Form::Empty => "",
        Form::Arguments => "as the job reads them",
        Form::Json => "JSON",
        Form::Text => "text",
        Form::Unreadable => "hidden, because any of them may be secret",
        Form::Binary => "bytes whose shape is not known here",
    };
    html! {
        section.panel {
            h2 { "Arguments " small { (form) @if view.payload.size > 0 { ", " (size(view.payload.size as u64)) } } }
            (bytes::render(view, &view.payload))
            @if view.can_change { (editor::render(view)) }
        }
    }
}

fn errors(view: &View) -> Markup {
    let task = &view.task;
    let all = with_query(&view.path(&[]), &[("all", "1")]);
    let known = view.attempts.first().map(|attempt| attempt.error.as_str());
    html! {
        @if task.last_error.is_some() || !view.attempts.is_empty() {
            section.panel {
                h2 { "Errors " small { "the last 10, newest first" } }
                @if let Some(error) = task.last_error.as_deref().filter(|error| Some(*error) != known) {
                    p.soft { "Last" @if let Some(at) = task.last_failed_at { ", " (when(view.now, at)) } }
                    (text::block(error, "bad", view.limit, &all))
                }
                @for attempt in &view.attempts {
                    p.soft { "Attempt " (count(attempt.number.into())) ", " (when(view.now, attempt.at)) }
                    (text::block(&attempt.error, "bad", view.limit, &all))
                }
            }
        }
    }
}

fn facts(view: &View) -> Markup {
    let task = &view.task;
    html! {
        section.panel {
            h2 { "Facts" }
            dl.facts {
                dt { "Id" } dd.mono { (task.id.as_str()) }
                dt { "Type" } dd { (text::cell(&task.r#type)) }
                dt { "Queue" } dd { a href=(href(&view.mount, &["queues", task.queue.as_str()])) { (text::cell(task.queue.as_str())) } }
                dt { "Tried" } dd { (counted(task.retried.into(), "failure")) ", " "at most " (count(task.max_retry.into())) " retried" }
                @if task.crashes > 0 { dt { "Crashes" } dd.alarm { (count(task.crashes.into())) " workers died while they ran it" } }
                @if let Some(timeout) = task.timeout { dt { "Timeout" } dd { (span(timeout)) } }
                (fact(view.now, "Deadline", task.deadline))
                (fact(view.now, "Expires", task.expires))
                @if let Some(retention) = task.retention { dt { "Retention" } dd { (span(retention)) } }
                @if let Some(group) = &task.group {
                    @let path = href(&view.mount, &["queues", task.queue.as_str()]);
                    dt { "Group" } dd { a href=(with_query(&path, &[("state", "aggregating"), ("group", group)])) { (text::cell(group)) } }
                }
                @if let Some(key) = &task.unique_key { dt { "Unique key" } dd.mono { (key) } }
                @if let Some((server, worker)) = &view.runs_at {
                    dt { "Runs at" } dd { a href=(href(&view.mount, &["servers"])) { (text::cell(&server.host)) ":" (server.pid) } }
                    (fact(view.now, "Since", worker.start_time.and_then(Timestamp::to_datetime)))
                }
            }
        }
    }
}

fn headers(view: &View) -> Markup {
    let more = view.task.headers.len().saturating_sub(MOST_HEADERS);
    html! {
        section.panel {
            h2 { "Headers" }
            dl.facts { @for (key, value) in view.task.headers.iter().take(MOST_HEADERS) { dt.mono { (text::cell(key)) } dd.mono { (text::beginning(value, view.limit)) } } }
            @if more > 0 { p.soft { (count(more as u64)) " more are not listed." } }
        }
    }
}

#[cfg(test)]
mod tests {
    use asynq_runtime::task::TaskMessage;

    use super::*;

    impl View {
        /// Returns the view of a task that waits for its next attempt.
        pub(super) fn of(id: &str, payload: &[u8]) -> Self {
            let message = TaskMessage { id: id.to_owned(), queue: "default".to_owned(), ..Default::default() };
            Self {
                mount: "/jobs".to_owned(),
                can_change: true,
                now: DateTime::UNIX_EPOCH,
                task: TaskInfo::from_message(&message, TaskState::Retry),
                attempts: Vec::new(),
                payload: payload::any(payload),
                result: None,
                runs_at: None,
                limit: text::WHOLE,
                room: None,
            }
        }
    }

    #[test]
    fn the_page_of_a_task_has_the_ends_of_long_values_and_says_how_many_headers_it_leaves_out() {
        let long = |end: &str| "I".repeat(150) + end;
        let mut view = View::of(&long("of the id"), b"");
        view.limit = text::BLOCK;
        view.task.unique_key = Some(long("of the key"));
        view.task.headers = (0..102).map(|n| (n.to_string(), long("of the value"))).collect();
        let shown = [facts(&view), headers(&view)].map(maud::PreEscaped::into_string).concat();
        for part in ["of the id", "of the key", "of the value", "2 more are not listed"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn a_run_that_cannot_be_undone_is_asked_about() {
        let mut view = View::of("t1", b"");
        for (state, question) in [
            (TaskState::Completed, Some("Run this task a second time? It has succeeded.")),
            (TaskState::Aggregating, Some("Run this task by itself and not with its group?")),
            (TaskState::Retry, None),
        ] {
            view.task.state = state;
            let shown = actions(&view, "/queues/default").into_string();
            assert_eq!(shown.contains(r#"data-ask="Run"#), question.is_some(), "{shown}");
            assert!(shown.contains("Run now") && question.is_none_or(|question| shown.contains(question)), "{shown}");
        }
    }
}
