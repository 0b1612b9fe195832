//! `/queues/{queue}`: the numbers of one queue, and its tasks state by state.

use asynq_runtime::{
    TaskState,
    broker::{BulkAction, DayStats, QueueStats, TaskBrief},
    inspector::{ArchiveRoom, ListTasks},
    task::{GroupName, QueueName},
};
use axum::extract::State;
use chrono::NaiveTime;
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    Page, Tab, curves,
    format::{count, exact, percent, size, span},
    overview::pause,
    part::{
        button::Button,
        chart::{Chart, Kind, Series, Unit},
        listing::empty,
        state::state,
        tasks::Table,
    },
    pick,
};
use crate::{
    failure::Failure,
    path::{Name, Segments, UrlQuery, href, with_query},
    query::{
        payload::Reader,
        search::{self, Query, SearchResult},
    },
    span::Span,
    state::AppState,
};

/// Tasks on one page, unless asked otherwise.
const PER_PAGE: usize = 30;
/// Days of the chart.
const DAYS: usize = 30;

/// The query of the page.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Params {
    state: String,
    page: usize,
    per: usize,
    /// Only tasks of this group.
    group: String,
    /// Only tasks in which this text is found.
    q: String,
    /// Where a search goes on.
    after: String,
}

impl Params {
    /// Returns the tasks per page for a link; empty unless asked for.
    fn per(&self) -> String {
        if self.per == 0 { String::new() } else { self.per.to_string() }
    }
}

/// The content of the page.
#[derive(Debug)]
struct View<'a> {
    app: &'a AppState,
    stats: QueueStats,
    memory: u64,
    state: TaskState,
    params: Params,
    list: List,
    reader: Reader<'a>,
    /// The room in the archive; `None` where nothing can be archived.
    room: Option<ArchiveRoom>,
    charts: Vec<Chart>,
}

/// The tasks: a page of all, or the result of a search.
#[derive(Debug)]
enum List {
    Page(Span, Vec<TaskBrief>),
    Found(SearchResult),
}

impl List {
    fn tasks(&self) -> &[TaskBrief] {
        match self {
            Self::Page(_, tasks) => tasks,
            Self::Found(found) => &found.tasks,
        }
    }
}

/// Answers `/queues/{queue}`.
pub(crate) async fn get(
    State(app): State<AppState>,
    Segments(Name(queue)): Segments<Name>,
    UrlQuery(params): UrlQuery<Params>,
) -> Result<Page, Failure> {
    let inspector = &app.inspector;
    let stats = inspector.queue(&queue).await?;
    let state = search::state(&params.state)?.unwrap_or_else(|| first_state(&stats));
    let state = if params.group.is_empty() { state } else { TaskState::Aggregating };
    let list = if params.q.trim().is_empty() {
        let total = if params.group.is_empty() {
            stats.count(state)
        } else {
            group_size(&app, &stats.name, &params.group).await?
        };
        let per = if params.per == 0 { PER_PAGE } else { params.per.min(ListTasks::MOST) };
        let span = Span::new(params.page, per, total);
        let tasks = inspector.tasks(&queue, state).page(span.page).per_page(per);
        let tasks = if params.group.is_empty() { tasks } else { tasks.group(&params.group) };
        List::Page(span, tasks.brief().await?)
    } else {
        let query = Query {
            q: params.q.clone(),
            queue: queue.clone(),
            state: state.to_string(),
            group: params.group.clone(),
            after: params.after.clone(),
            ..Query::default()
        };
        List::Found(search::search(&app, &query, search::FOR_A_PAGE).await?)
    };
    let mut charts = curves::charts(&app.samples.series(Some(&queue)));
    charts.push(days(&inspector.history(&queue, DAYS).await?));
    let memory = inspector.memory_usage(&queue).await?;
    let is_search = matches!(list, List::Found(_));
    // The room is read from all servers with all that they run.
    let can_archive = !app.config.read_only && BulkAction::Archive.fits(state);
    let room = if can_archive { Some(inspector.archive_room(&queue).await?) } else { None };
    let reader = Reader::of_tasks(&app, list.tasks()).await;
    let body = render(&View { app: &app, stats, memory, state, params, list, reader, room, charts });
    let page = Page::new(queue, Tab::Queues, body).with_charts();
    Ok(if is_search { page.still() } else { page })
}

/// Returns how many tasks wait in a group.
async fn group_size(app: &AppState, queue: &QueueName, group: &str) -> Result<u64, Failure> {
    let stats = app.client.broker().group(queue, &GroupName::from_wire(group)).await?;
    Ok(stats.map_or(0, |stats| stats.size))
}

/// Returns the state that people want to see: the first of [`TaskState::ALL`] that has tasks.
fn first_state(stats: &QueueStats) -> TaskState {
    TaskState::ALL.into_iter().find(|&state| stats.count(state) > 0).unwrap_or(TaskState::Pending)
}

/// Returns the chart of runs per day.
fn days(history: &[DayStats]) -> Chart {
    let days: Vec<&DayStats> = history.iter().rev().collect();
    let row = |class, name, of: fn(&DayStats) -> u64| Series {
        class,
        name,
        values: days.iter().map(|day| of(day) as f64).collect(),
    };
    let now = history
        .first()
        .map(|day| format!("{} today, {} failed", count(day.processed), percent(day.failed, day.processed)));
    Chart {
        id: "days",
        title: "Runs per day (UTC)",
        kind: Kind::Bars,
        unit: Unit::Count,
        now: now.unwrap_or_default(),
        times: days.iter().map(|day| day.date.and_time(NaiveTime::MIN).and_utc().timestamp()).collect(),
        series: vec![row("processed", "Processed", |day| day.processed), row("failed", "Failed", |day| day.failed)],
    }
}

fn render(view: &View<'_>) -> Markup {
    let (mount, stats) = (view.app.config.mount.as_str(), &view.stats);
    let name = stats.name.as_str();
    html! {
        nav.crumbs aria-label="Where this is" { a href=(href(mount, &[])) { "Queues" } }
        div.title {
            h1 { (name) }
            @if stats.paused { span.tag.warn { "paused" } }
            span.grow {}
            @if !view.app.config.read_only {
                (pause(mount, stats))
                (Button {
                    label: "Delete queue",
                    post: href(mount, &["queues", name, "delete"]),
                    ask: format!(
                        "Delete queue {name} with its {}? Their arguments, results and errors are lost.",
                        super::format::counted(stats.size, "task")
                    ),
                    body: r#"{"force":true}"#,
                    word: name,
                    then: href(mount, &[]),
                    class: "danger",
                }.show())
            }
        }
        (figures(view))
        details open { summary { h2 { "Over time" } }
            div.charts { @for chart in &view.charts { (chart.show()) } }
        }
        (tabs(view))
        (tasks(view))
    }
}

fn figures(view: &View<'_>) -> Markup {
    let stats = &view.stats;
    let name = stats.name.as_str();
    html! {
        dl.figures {
            div { dt { "Size" } dd { (count(stats.size)) } }
            div { dt { "Latency" } dd { (span(stats.latency)) } }
            div { dt { "Processed today" } dd { (count(stats.processed)) } }
            div { dt { "Failed today" } dd { (count(stats.failed)) " " small { (percent(stats.failed, stats.processed)) } } }
            div { dt { "Since the beginning" } dd { (count(stats.processed_total)) " " small { (percent(stats.failed_total, stats.processed_total)) " failed" } } }
            div { dt { "Memory, about" } dd { (size(view.memory)) } }
            @if stats.aggregating > 0 {
                div { dt { "Groups" } dd { a href=(href(&view.app.config.mount, &["queues", name, "groups"])) { "Show" } } }
            }
        }
        p.soft.sr { "As of " (exact(stats.timestamp)) }
    }
}

fn tabs(view: &View<'_>) -> Markup {
    let path = href(&view.app.config.mount, &["queues", view.stats.name.as_str()]);
    html! {
        nav.tabs aria-label="Tasks by state" {
            @for of in TaskState::ALL {
                a href=(with_query(&path, &[("state", of.as_str()), ("per", &view.params.per())])) aria-current=[(of == view.state).then_some("page")] {
                    (state(of)) b { (count(view.stats.count(of))) }
                }
            }
        }
    }
}

fn tasks(view: &View<'_>) -> Markup {
    let (params, mount) = (&view.params, view.app.config.mount.as_str());
    let name = view.stats.name.as_str();
    let path = href(mount, &["queues", name]);
    let can_change = !view.app.config.read_only;
    let table =
        Table { mount, reader: &view.reader, now: view.stats.timestamp, state: Some(view.state), can_pick: can_change };
    let link = |key: &str, value: &str| {
        let per = params.per();
        let pairs =
            [("state", view.state.as_str()), ("group", &params.group), ("q", &params.q), ("per", &per), (key, value)];
        with_query(&path, &pairs)
    };
    let rows = view.list.tasks();
    html! {
        section.panel.flush aria-label={ "Tasks that are " (view.state) } {
            form.row method="get" action=(path) role="search" {
                input type="hidden" name="state" value=(view.state);
                input type="search" name="q" value=(params.q) placeholder={ "Find in " (view.state) " tasks: id, type, arguments, error" }
                    aria-label={ "Find in " (view.state) " tasks" };
                button { "Find" }
                @if !params.q.is_empty() || !params.group.is_empty() {
                    a.button href=(with_query(&path, &[("state", view.state.as_str()), ("per", &params.per())])) { "Show all " (view.state) }
                }
                @if !params.group.is_empty() { input type="hidden" name="group" value=(params.group); span.tag { "group " (super::part::text::cell(&params.group)) } }
                span.grow {}
                @if let List::Page(span, _) = &view.list {
                    label.row.soft { "Per page "
                        select name="per" autocomplete="off" data-submit {
                            @for per in [10, 30, 100, 500] { option value=(per) selected[per == span.per] { (per) } }
                        }
                    }
                }
            }
            @if rows.is_empty() { (nothing(view, &path)) } @else { (table.show(rows)) }
            @match &view.list {
                List::Page(span, _) => { @if span.total > 0 { (span.pages(|page| link("page", &page.to_string()))) } },
                List::Found(found) => (super::search::how_far(found, |after| link("after", after))),
            }
        }
        // The script of a search may still find some.
        @if can_change && (!rows.is_empty() || matches!(view.list, List::Found(_))) {
            (pick::bar(mount, name, view.state, &params.group, match &view.list { List::Page(span, _) => Some(span.total), List::Found(_) => None }, view.room))
        }
    }
}

/// Renders the meaning of an empty state.
fn nothing(view: &View<'_>, path: &str) -> Markup {
    if !view.params.q.is_empty() {
        let goes_on = matches!(&view.list, List::Found(found) if found.next.is_some());
        return empty(
            if goes_on { "Nothing found so far" } else { "Nothing found" },
            &html! { a href=(with_query(path, &[("state", view.state.as_str())])) { "Show all " (view.state) " tasks" } },
        );
    }
    let (message, then) = match view.state {
        _ if matches!(view.list, List::Page(span, _) if span.total > 0) => (
            "Nothing to show here",
            "The tasks of this page have left it meanwhile, or cannot be read. `asynq doctor` names ids without a task; no tool shows a task whose message is damaged.",
        ),
        TaskState::Active => ("Nothing runs now", "A task is active while a worker runs it."),
        TaskState::Pending => {
            ("Nothing waits for a worker", "Tasks that are due now wait here until a worker is free.")
        }
        TaskState::Scheduled => ("Nothing waits for its time", "Enqueue with a delay or a time, and it waits here."),
        TaskState::Retry => {
            ("Nothing waits for another attempt", "A task that failed waits here until it is tried again.")
        }
        TaskState::Archived => {
            ("Nothing was given up", "A task whose attempts are used up comes here; it can be run again.")
        }
        TaskState::Completed => ("No success is kept", "Give a job a retention, and its tasks stay here for so long."),
        TaskState::Aggregating => {
            ("No group has tasks", "Enqueue with a group, and a server with an aggregator makes one task of many.")
        }
    };
    empty(message, &html! { p { (then) } })
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, NaiveDate};

    use super::*;

    #[test]
    fn the_first_tab_is_one_with_tasks() {
        let mut stats = QueueStats::empty(QueueName::from_wire("q"), DateTime::UNIX_EPOCH);
        assert_eq!(first_state(&stats), TaskState::Pending);
        stats.archived = 1;
        assert_eq!(first_state(&stats), TaskState::Archived);
        stats.active = 1;
        assert_eq!(first_state(&stats), TaskState::Active);
    }

    #[test]
    fn days_go_from_left_to_right() {
        let day = |d| NaiveDate::from_ymd_opt(2030, 1, d).unwrap_or_default();
        let chart = days(&[DayStats::new(day(2), 10, 1), DayStats::new(day(1), 4, 0)]);
        assert_eq!(chart.times, [1_893_456_000, 1_893_542_400]);
        assert_eq!(chart.series[0].values, [4.0, 10.0]);
        assert_eq!(chart.now, "10 today, 10 % failed");
    }
}
