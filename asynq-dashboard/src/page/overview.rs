//! `/`: every queue with its numbers, and all of them together over the last hour.

use std::{cmp::Reverse, sync::Arc};

use asynq_runtime::{TaskState, broker::QueueStats, inspector::UnreadableQueue};
use axum::extract::State;
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    Page, Tab, curves,
    format::{count, counted, exact, percent, span},
    part::{
        button::Button,
        chart::{Chart, spark},
        listing::empty,
        state::{bar, state},
        text,
    },
};
use crate::{
    failure::Failure,
    path::{UrlQuery, href, with_query},
    sample::{Series, Snapshot, Totals},
    span::Span,
    state::AppState,
};

/// Queues on one page.
const PER_PAGE: usize = 25;
/// Up to this number all queues are read anew for each request; beyond, the last read's numbers are shown, if that read is recent,
/// and those of the page fresh.
const READ_ALL: usize = 200;

/// The query of the page.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Params {
    /// Only queues whose names contain this text.
    q: String,
    page: usize,
    /// The key of one of [`ORDERS`]; the first one if empty.
    sort: String,
}

/// An order of the queues: its key, its name for people, and the number of a queue of which the largest comes first.
type Order = (&'static str, &'static str, fn(&QueueStats) -> u128);

const ORDERS: [Order; 5] = [
    // Queues with the same number are by name.
    ("name", "Name", |_| 0),
    ("size", "Size", |queue| queue.size.into()),
    ("latency", "Latency", |queue| queue.latency.as_nanos()),
    ("processed", "Processed today", |queue| queue.processed.into()),
    ("failed", "Failed today", |queue| queue.failed.into()),
];

/// The content of the page.
#[derive(Debug)]
struct View {
    mount: String,
    may_change: bool,
    snapshot: Arc<Snapshot>,
    params: Params,
    span: Span,
    rows: Vec<Row>,
    /// Queues with such a name that cannot be read.
    unreadable: Vec<UnreadableQueue>,
    charts: Vec<Chart>,
}

#[derive(Debug)]
struct Row {
    stats: QueueStats,
    series: Series,
}

/// Answers `/`.
pub(crate) async fn get(State(app): State<AppState>, UrlQuery(params): UrlQuery<Params>) -> Result<Page, Failure> {
    let recent = app.samples.recent().filter(|recent| recent.queues.len() > READ_ALL);
    let is_recent = recent.is_some();
    let snapshot = match recent {
        Some(recent) => recent,
        None => app.samples.snapshot().await?,
    };
    let (span, mut listed) = choose(&snapshot, &params)?;
    let part = params.q.trim().to_lowercase();
    let matches = |queue: &&UnreadableQueue| queue.name.as_str().to_lowercase().contains(&part);
    let unreadable = snapshot.unreadable.iter().filter(matches).cloned().collect();
    if is_recent {
        for stats in &mut listed {
            // A queue that cannot be read any more keeps its last numbers; the next sweep reports the error.
            if let Ok(fresh) = app.inspector.read_queue(stats.name.clone()).await?.stats {
                *stats = fresh;
            }
        }
    }
    let rows = listed.into_iter().map(|stats| Row { series: app.samples.series(Some(stats.name.as_str())), stats });
    let view = View {
        mount: app.config.mount.clone(),
        may_change: !app.config.read_only,
        snapshot,
        span,
        rows: rows.collect(),
        unreadable,
        params,
        charts: curves::charts(&app.samples.series(None)),
    };
    Ok(Page::new("Queues", Tab::Queues, render(&view)).with_charts())
}

/// Returns the queues of the requested page.
fn choose(snapshot: &Snapshot, params: &Params) -> Result<(Span, Vec<QueueStats>), Failure> {
    let mut orders = ORDERS.into_iter();
    let order = if params.sort.is_empty() { orders.next() } else { orders.find(|(key, ..)| *key == params.sort) };
    let (.., number) = order.ok_or_else(|| Failure::bad_request(format!("there is no order `{}`", params.sort)))?;
    let part = params.q.trim().to_lowercase();
    let mut found: Vec<&QueueStats> =
        snapshot.queues.iter().filter(|queue| queue.name.as_str().to_lowercase().contains(&part)).collect();
    found.sort_by_key(|queue| Reverse(number(queue)));
    let span = Span::new(params.page, PER_PAGE, found.len() as u64);
    Ok((span, found.into_iter().skip(span.offset()).take(PER_PAGE).cloned().collect()))
}

fn render(view: &View) -> Markup {
    let Snapshot { at, queues, unreadable, totals } = &*view.snapshot;
    let all = queues.len() + unreadable.len();
    let paused = queues.iter().filter(|queue| queue.paused).count();
    html! {
        div.title {
            h1 { "Queues" }
            p {
                (counted(all as u64, "queue"))
                @if paused > 0 { ", " (count(paused as u64)) " paused" }
                ", as of " time datetime=(at.format("%Y-%m-%dT%H:%M:%SZ")) title=(exact(*at)) { (at.format("%H:%M:%S")) " UTC" }
            }
        }
        @if all == 0 {
            div.panel {
                (empty("No queue yet", &html! {
                    p { "A queue comes into being with its first task. Enqueue one, with " code { "ASYNQ_URL" } " set to this broker: " code { "asynq task enqueue --type email:send --payload '{}' --queue default" } }
                }))
            }
        } @else {
            (figures(totals))
            section.charts {
                h2.sr { "The last hour, all queues" }
                @for chart in &view.charts { (chart.show()) }
            }
            (table(view))
        }
    }
}

fn figures(totals: &Totals) -> Markup {
    use TaskState::{Active, Aggregating, Archived, Pending, Retry, Scheduled};
    let waiting: u64 = [Pending, Scheduled, Retry, Aggregating].into_iter().map(|state| totals.count(state)).sum();
    let archived = totals.count(Archived);
    html! {
        dl.figures {
            div { dt { "Waiting" } dd { (count(waiting)) } }
            div { dt { "Running" } dd { (count(totals.count(Active))) } }
            div { dt { "Highest latency" } dd { (span(std::time::Duration::from_millis(totals.latency_ms))) } }
            div { dt { "Processed today" } dd { (count(totals.processed)) } }
            div { dt { "Failed today" } dd {
                (count(totals.failed)) " " small { (percent(totals.failed, totals.processed)) }
            } }
            div { dt { "Archived" } dd.alarm[archived > 0] { (count(archived)) } }
        }
    }
}

fn table(view: &View) -> Markup {
    let here = href(&view.mount, &[]);
    let params = &view.params;
    html! {
        section.panel.flush aria-label="The queues" {
            form.row method="get" action=(here) role="search" {
                input type="search" name="q" value=(params.q) placeholder="Filter by name" aria-label="Filter queues by name";
                span.grow {}
                label.row.soft { "Order "
                    select name="sort" autocomplete="off" data-submit {
                        @for (key, name, _) in ORDERS { option value=(key) selected[key == params.sort] { (name) } }
                    }
                }
                noscript { button { "Show" } }
            }
            (broken(&view.unreadable))
            @if view.rows.is_empty() && view.unreadable.is_empty() {
                (empty("No queue has such a name", &html! { a href=(here) { "Show all queues" } }))
            } @else if !view.rows.is_empty() {
                div.scroll { table.cards {
                    thead { tr {
                        th scope="col" { "Queue" }
                        th scope="col" { "Tasks by state" }
                        th.num scope="col" { "Size" }
                        @for of in TaskState::ALL { th.num.(width(of)) scope="col" { (state(of)) } }
                        th.num scope="col" { "Latency" }
                        th.num scope="col" { "Processed" }
                        th.num scope="col" { "Failed" }
                        th scope="col" { "Last hour" }
                        @if view.may_change { th scope="col" { span.sr { "Actions" } } }
                    } }
                    tbody { @for row in &view.rows { (line(view, row)) } }
                } }
                (view.span.pages(|page| with_query(&here, &[("q", &params.q), ("sort", &params.sort), ("page", &page.to_string())])))
            }
        }
    }
}

/// Renders queues that cannot be read: they must not look as if they did not exist.
fn broken(queues: &[UnreadableQueue]) -> Markup {
    html! {
        @for queue in queues.iter().take(PER_PAGE) {
            p.row role="alert" {
                span.tag.bad { "cannot be read" } " "
                strong { (text::cell(queue.name.as_str())) } " "
                span { (text::cell(&queue.error)) }
            }
        }
        @if queues.len() > PER_PAGE { p.row { "and " (count((queues.len() - PER_PAGE) as u64)) " more queues that cannot be read" } }
    }
}

/// Returns the class of the screens on which a state has a column; the bar shows all states on every screen.
fn width(state: TaskState) -> &'static str {
    match state {
        TaskState::Completed | TaskState::Aggregating => "desk-only",
        TaskState::Scheduled => "wide-only",
        _ => "n",
    }
}

fn line(view: &View, row: &Row) -> Markup {
    let (queue, name) = (&row.stats, row.stats.name.as_str());
    let link = href(&view.mount, &["queues", name]);
    let zero = |n: u64| if n == 0 { "zero" } else { "n" };
    html! {
        tr id={ "q-" (name) } {
            th.name scope="row" { a href=(link) { (name) } @if queue.paused { " " span.tag.warn { "paused" } } }
            td.whole { (bar(queue)) }
            td.num data-l="Size" { (count(queue.size)) }
            @for of in TaskState::ALL {
                @let n = queue.count(of);
                td.num.(width(of)).(zero(n)) data-l=(of) { (count(n)) }
            }
            td.num data-l="Latency" { (span(queue.latency)) }
            td.num data-l="Processed" { (count(queue.processed)) }
            td.num data-l="Failed" { (count(queue.failed)) @if queue.failed > 0 { " " small { (percent(queue.failed, queue.processed)) } } }
            td { (sparkline(name, &row.series)) }
            @if view.may_change { td.num { (pause(&view.mount, queue)) } }
        }
    }
}

/// Renders the button that pauses or resumes a queue.
pub(super) fn pause(mount: &str, queue: &QueueStats) -> Markup {
    let name = queue.name.as_str();
    let (label, verb) = if queue.paused { ("Resume", "resume") } else { ("Pause", "pause") };
    Button { label, post: href(mount, &["queues", name, verb]), ..Button::default() }.show()
}

/// Renders the last hour as a line of at most 40 points.
fn sparkline(name: &str, series: &Series) -> Markup {
    let points = curves::thinned(series, 40);
    let rate = |of: fn(&crate::sample::Point) -> f32| points.iter().map(|p| f64::from(of(p))).collect::<Vec<_>>();
    spark(&format!("spark-{name}"), &rate(|p| p.processed), &rate(|p| p.failed))
}
