//! `/periodic`: the periodic entries of all schedulers.

use axum::extract::State;
use chrono::{DateTime, Utc};
use maud::{Markup, html};

use super::{
    Page, Tab,
    format::{count, when, when_known},
    part::{button::Button, listing::empty, text::cell},
};
use crate::{
    failure::Failure,
    path::{UrlQuery, href, segment, with_query},
    query::periodic::{self, Entry},
    span::{PageQuery, Span},
    state::AppState,
};

/// Answers `/periodic`.
pub(crate) async fn get(State(app): State<AppState>, UrlQuery(params): UrlQuery<PageQuery>) -> Result<Page, Failure> {
    let (entries, span) = periodic::entries(&app, params.page).await?;
    let config = &app.config;
    let body = render(&config.mount, !config.read_only, &entries, span, app.client.broker().now());
    Ok(Page::new("Periodic", Tab::Periodic, body))
}

fn render(mount: &str, can_change: bool, entries: &[Entry], span: Span, now: DateTime<Utc>) -> Markup {
    html! {
        div.title { h1 { "Periodic" } p { (counted_entries(span.total)) } }
        section.panel.flush aria-label="Periodic entries" {
            @if entries.is_empty() {
                (empty("Nothing is enqueued by the clock", &html! {
                    p { "Give a job a schedule, " code { "#[periodic(\"0 9 * * *\")]" } ", and run a worker: its entry is listed while a scheduler runs." }
                }))
            } @else {
                div.scroll { table.cards {
                    thead { tr {
                        th scope="col" { "Type" } th scope="col" { "Schedule" } th scope="col" { "Queue" }
                        th scope="col" { "Next" } th scope="col" { "Last" }
                        @if can_change { th scope="col" { span.sr { "Actions" } } }
                    } }
                    tbody { @for entry in entries { (row(mount, can_change, entry, now)) } }
                } }
                @if span.last() > 1 { (span.pages(|page| with_query(&href(mount, &["periodic"]), &[("page", &page.to_string())]))) }
            }
        }
    }
}

fn counted_entries(n: u64) -> String {
    if n == 1 { "1 entry".to_owned() } else { format!("{} entries", count(n)) }
}

fn row(mount: &str, can_change: bool, entry: &Entry, now: DateTime<Utc>) -> Markup {
    html! {
        tr id={ "e-" (segment(entry.queue.as_str())) "/" (segment(&entry.listed.id)) } {
            th.name scope="row" {
                a href=(href(mount, &["periodic", entry.queue.as_str(), &entry.listed.id])) { (cell(&entry.listed.task_type)) }
                @if entry.is_paused() { " " span.tag.warn { "paused" } }
                @if let Some(error) = &entry.error { " " span.tag.bad title=(error) { "cannot be read" } }
                @else if entry.state.is_none() { " " span.tag title="Its program plans it; it cannot be paused from here" { "Go" } }
            }
            td.whole { code { (cell(&entry.listed.spec)) } @if let Some(sentence) = &entry.sentence { br; small { (cell(sentence)) } } }
            td data-l="Queue" { (cell(entry.queue.as_str())) }
            td data-l="Next" { (when_known(now, entry.next.first().copied())) }
            td data-l="Last" { (when_known(now, entry.previous)) }
            @if can_change { td.num { div.row { (buttons(mount, entry)) } } }
        }
    }
}

/// Renders the buttons of an entry.
pub(super) fn buttons(mount: &str, entry: &Entry) -> Markup {
    let post = |verb| href(mount, &["periodic", entry.queue.as_str(), &entry.listed.id, verb]);
    let (label, verb) = if entry.is_paused() { ("Resume", "resume") } else { ("Pause", "pause") };
    html! {
        (Button { label: "Run now", post: post("run"), ..Button::default() }.show())
        @if entry.state.is_some() { (Button { label, post: post(verb), ..Button::default() }.show()) }
    }
}

/// Renders a list of times to come.
pub(super) fn times(now: DateTime<Utc>, times: &[DateTime<Utc>]) -> Markup {
    html! { ol.line { @for &at in times { li.s-scheduled { (super::format::exact(at)) " " span.soft { (when(now, at)) } } } } }
}
