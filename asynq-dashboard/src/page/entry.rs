//! `/periodic/{queue}/{entry}`: one periodic entry, its next runs and the tasks that it enqueued.

use asynq_runtime::{
    broker::Page as Slice,
    task::{SchedulerEnqueueEvent, Timestamp},
};
use axum::extract::State;
use chrono::{DateTime, Utc};
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    Page, Tab,
    format::{count, exact, when, when_known},
    part::{
        listing::empty,
        text::{self, cell, id},
    },
    periodic::{buttons, times},
};
use crate::{
    failure::Failure,
    path::{Name, Segments, UrlQuery, href, segment, with_query},
    query::{
        payload::Form,
        periodic::{self, Entry},
    },
    state::AppState,
};

/// Enqueues on one page.
const PER_PAGE: usize = 30;
/// Most options that are listed.
const MOST_OPTIONS: usize = 50;

/// The query of the page.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Params {
    page: usize,
    all: u8,
}

/// The content of the page.
#[derive(Debug)]
struct View {
    mount: String,
    can_change: bool,
    now: DateTime<Utc>,
    entry: Entry,
    history: Vec<SchedulerEnqueueEvent>,
    /// Whether there are runs before those of this page.
    has_older: bool,
    params: Params,
}

/// Answers `/periodic/{queue}/{entry}`.
pub(crate) async fn get(
    State(app): State<AppState>,
    Segments((Name(queue), Name(id))): Segments<(Name, Name)>,
    UrlQuery(params): UrlQuery<Params>,
) -> Result<Page, Failure> {
    let params = Params { page: params.page.clamp(1, 10_000), ..params };
    let entry = periodic::one(&app, &queue, &id).await?;
    let history = periodic::history(&app, &id, Slice { number: params.page, size: PER_PAGE }).await?;
    let has_older = history.len() == PER_PAGE
        && !periodic::history(&app, &id, Slice { number: params.page * PER_PAGE + 1, size: 1 }).await?.is_empty();
    let view = View {
        mount: app.config.mount.clone(),
        can_change: !app.config.read_only,
        now: app.client.broker().now(),
        entry,
        history,
        has_older,
        params,
    };
    Ok(Page::new(view.entry.listed.task_type.clone(), Tab::Periodic, render(&view)))
}

fn render(view: &View) -> Markup {
    let (entry, now) = (&view.entry, view.now);
    let (listed, options) = (&entry.listed, &entry.listed.enqueue_options);
    let here = href(&view.mount, &["periodic", entry.queue.as_str(), &listed.id]);
    let limit = if view.params.all > 0 { text::WHOLE } else { text::BLOCK };
    html! {
        nav.crumbs aria-label="Where this is" { a href=(href(&view.mount, &["periodic"])) { "Periodic" } }
        div.title {
            h1 { (cell(&listed.task_type)) }
            @if entry.is_paused() { span.tag.warn { "paused" } }
            @if entry.state.is_none() { span.tag { "Go" } }
            span.grow {}
            @if view.can_change { (buttons(&view.mount, entry)) }
        }
        div.two {
            div {
                (history(view, &here))
                section.panel {
                    h2 { "Arguments" }
                    @if entry.payload.form == Form::Empty { p.soft { "Empty." } }
                    @else { (text::block(&entry.payload.text, "", limit, &with_query(&here, &[("all", "1")]))) }
                }
            }
            div {
                section.panel {
                    h2 { "Facts" }
                    dl.facts {
                        dt { "Schedule" } dd { code { (cell(&listed.spec)) } }
                        @if let Some(sentence) = &entry.sentence { dt { "That is" } dd { (cell(sentence)) } }
                        dt { "Queue" } dd { a href=(href(&view.mount, &["queues", entry.queue.as_str()])) { (cell(entry.queue.as_str())) } }
                        dt { "Last" } dd { (when_known(now, entry.previous)) }
                        @for option in options.iter().take(MOST_OPTIONS) { dt { "Option" } dd.mono { (cell(option)) } }
                        @if options.len() > MOST_OPTIONS { dt { "Options" } dd { (count((options.len() - MOST_OPTIONS) as u64)) " more are not listed." } }
                        @if let Some(state) = &entry.state {
                            dt { "Zone" } dd { (cell(&state.zone)) }
                            @if let Some(task) = &state.previous {
                                dt { "Last task" } dd.mono { a href=(href(&view.mount, &["queues", entry.queue.as_str(), "tasks", task.as_str()])) { (cell(task.as_str())) } }
                            }
                        }
                        dt { "Id" } dd.mono { (cell(&listed.id)) }
                    }
                }
                section.panel {
                    h2 { "Next runs" }
                    @if entry.is_paused() { p.soft { "None while it is paused. Ticks of that time are not made up for." } }
                    @else if entry.next.is_empty() { p.soft { "Its schedule cannot be read here, or has no more." } }
                    @else { (times(now, &entry.next)) }
                }
            }
        }
    }
}

fn history(view: &View, here: &str) -> Markup {
    let page = view.params.page;
    let link = |page: usize| with_query(here, &[("page", &page.to_string())]);
    html! {
        section.panel.flush {
            h2 { "History" }
            @if view.history.is_empty() && page > 1 { (empty("No older runs", &html! {})) }
            @else if view.history.is_empty() {
                (empty("Nothing enqueued yet", &html! { p { "Each run is listed here, for 90 days." } }))
            } @else {
                div.scroll { table {
                    thead { tr { th scope="col" { "Task" } th scope="col" { "Enqueued" } th scope="col" { "At" } } }
                    tbody { @for event in &view.history { (enqueued(view, event)) } }
                } }
            }
            nav.pages aria-label="Pages" {
                @if page > 1 { a.button rel="prev" href=(link(page - 1)) { "Newer" } }
                span.grow {}
                @if view.has_older { a.button rel="next" href=(link(page + 1)) { "Older" } }
            }
        }
    }
}

fn enqueued(view: &View, event: &SchedulerEnqueueEvent) -> Markup {
    let at = event.enqueue_time.and_then(Timestamp::to_datetime);
    html! {
        // All runs of an entry of Go's scheduler may have one task id.
        tr id={ "t-" (segment(&event.task_id)) "/" (at.map_or(0, |at| at.timestamp_micros())) } {
            th.id scope="row" { a href=(href(&view.mount, &["queues", view.entry.queue.as_str(), "tasks", &event.task_id])) { (id(&event.task_id)) } }
            td { @if let Some(at) = at { (when(view.now, at)) } }
            td.soft { @if let Some(at) = at { (exact(at)) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use asynq_runtime::task::{QueueName, SchedulerEntry};

    use super::*;
    use crate::query::payload;

    fn shown(page: usize, history: Vec<SchedulerEnqueueEvent>, has_older: bool) -> String {
        let entry = Entry {
            listed: SchedulerEntry::default(),
            queue: QueueName::from_wire("q"),
            sentence: None,
            payload: payload::any(b""),
            previous: None,
            next: Vec::new(),
            state: None,
            error: None,
        };
        let view = View {
            mount: String::new(),
            can_change: false,
            now: DateTime::UNIX_EPOCH,
            entry,
            history,
            has_older,
            params: Params { page, all: 0 },
        };
        super::history(&view, "/here").into_string()
    }

    #[test]
    fn a_full_page_of_runs_leads_to_older_ones_only_where_there_are_some() {
        let full = vec![SchedulerEnqueueEvent::default(); PER_PAGE];
        assert!(shown(1, full.clone(), true).contains("Older"));
        assert!(!shown(1, full, false).contains("Older"));
        let behind = shown(2, Vec::new(), false);
        assert!(behind.contains("No older runs") && !behind.contains("Nothing enqueued yet"), "{behind}");
        assert!(shown(1, Vec::new(), false).contains("Nothing enqueued yet"));
    }

    #[test]
    fn runs_with_one_task_id_have_rows_of_their_own() {
        let run = |seconds| SchedulerEnqueueEvent {
            task_id: "x".into(),
            enqueue_time: Some(Timestamp { seconds, nanos: 0 }),
        };
        let page = shown(1, vec![run(2), run(1)], false);
        assert!(page.contains(r#"<tr id="t-x/2000000">"#) && page.contains(r#"<tr id="t-x/1000000">"#), "{page}");
    }
}
