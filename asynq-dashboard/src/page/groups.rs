//! `/queues/{queue}/groups`: the groups of a queue that have waiting tasks.

use asynq_runtime::broker::{GroupPage, GroupStep};
use axum::extract::State;
use chrono::{DateTime, Utc};
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    Page, Tab,
    format::{count, when_known},
    part::{listing::empty, text::cell},
};
use crate::{
    failure::Failure,
    path::{Name, Segments, UrlQuery, href, with_query},
    state::AppState,
};

/// Groups on one page.
const PER_PAGE: usize = 100;

/// The query of the page.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Params {
    /// Where the page before ended.
    after: String,
}

/// Answers `/queues/{queue}/groups`.
pub(crate) async fn get(
    State(app): State<AppState>,
    Segments(Name(queue)): Segments<Name>,
    UrlQuery(params): UrlQuery<Params>,
) -> Result<Page, Failure> {
    let groups = app.inspector.groups(&queue).limit(PER_PAGE);
    let groups = if params.after.is_empty() { groups } else { groups.after(GroupStep::from_text(&params.after)) };
    let (found, now) = (groups.await?, app.client.broker().now());
    Ok(Page::new(format!("Groups of {queue}"), Tab::Queues, render(&app.config.mount, &queue, &params, &found, now)))
}

fn render(mount: &str, queue: &str, params: &Params, found: &GroupPage, now: DateTime<Utc>) -> Markup {
    let here = href(mount, &["queues", queue, "groups"]);
    let path = href(mount, &["queues", queue]);
    html! {
        nav.crumbs aria-label="Where this is" {
            a href=(href(mount, &[])) { "Queues" } span { "/" } a href=(path) { (cell(queue)) }
        }
        div.title { h1 { "Groups" } p { "of queue " (cell(queue)) } }
        section.panel.flush aria-label="The groups" {
            @if found.groups.is_empty() && found.next.is_none() && params.after.is_empty() {
                (empty("No group has tasks", &html! { p { "Enqueue with a group: tasks wait here until a server with an aggregator makes one task of many." } }))
            } @else {
                div.scroll { table {
                    thead { tr { th scope="col" { "Group" } th.num scope="col" { "Tasks" } th scope="col" { "First joined" } } }
                    tbody {
                        @for stats in &found.groups {
                            @let name = stats.group.as_str();
                            tr id={ "g-" (name) } {
                                th.name scope="row" { a href=(with_query(&path, &[("state", "aggregating"), ("group", name)])) { (cell(name)) } }
                                td.num { (count(stats.size)) }
                                td { (when_known(now, stats.oldest)) }
                            }
                        }
                    }
                } }
                nav.pages aria-label="Pages" {
                    @if !params.after.is_empty() { a.button rel="prev" href=(here) { "First" } }
                    span.grow {}
                    @if let Some(next) = &found.next {
                        a.button rel="next" href=(with_query(&here, &[("after", next.as_str())])) { "Next" }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_begins_at_the_brokers_cursor_and_a_page_without_groups_may_have_one() {
        let html = |next: Option<&str>| {
            let mut page = GroupPage::default();
            page.next = next.map(GroupStep::from_text);
            render("", "q", &Params::default(), &page, DateTime::UNIX_EPOCH).into_string()
        };
        assert!(html(None).contains("No group has tasks"));
        let page = html(Some("7:<99>"));
        assert!(page.contains("after=7:%3C99%3E") && !page.contains("<99>") && !page.contains("No group"), "{page}");
    }
}
