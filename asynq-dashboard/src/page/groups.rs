//! `/queues/{queue}/groups`: the groups of a queue that have waiting tasks.

use asynq_runtime::broker::GroupStats;
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

/// What may be asked for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Params {
    /// Groups whose names come after this one.
    after: String,
}

/// Answers `/queues/{queue}/groups`.
pub(crate) async fn get(
    State(app): State<AppState>,
    Segments(queue): Segments<Name>,
    UrlQuery(wish): UrlQuery<Params>,
) -> Result<Page, Failure> {
    let groups = app.inspector().groups(&queue).limit(PER_PAGE);
    let groups = if wish.after.is_empty() { groups } else { groups.after(&wish.after) };
    let (groups, now) = (groups.await?, app.client().broker().now());
    Ok(Page::new(format!("Groups of {queue}"), Tab::Queues, render(&app.config().mount, &queue, &wish, &groups, now)))
}

fn render(mount: &str, queue: &str, wish: &Params, groups: &[GroupStats], now: DateTime<Utc>) -> Markup {
    let here = href(mount, &["queues", queue, "groups"]);
    let path = href(mount, &["queues", queue]);
    html! {
        nav.crumbs aria-label="Where this is" {
            a href=(href(mount, &[])) { "Queues" } span { "/" } a href=(path) { (cell(queue)) }
        }
        div.title { h1 { "Groups" } p { "of queue " (cell(queue)) } }
        section.panel.flush aria-label="The groups" {
            @if groups.is_empty() && wish.after.is_empty() {
                (empty("No group has tasks", &html! { p { "Enqueue with a group: tasks wait here until a server with an aggregator makes one task of many." } }))
            } @else {
                div.scroll { table {
                    thead { tr { th scope="col" { "Group" } th.num scope="col" { "Tasks" } th scope="col" { "First joined" } } }
                    tbody {
                        @for stats in groups {
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
                    @if !wish.after.is_empty() { a.button rel="prev" href=(here) { "First" } }
                    span.grow {}
                    @if let Some(last) = groups.last().filter(|_| groups.len() == PER_PAGE) {
                        a.button rel="next" href=(with_query(&here, &[("after", last.group.as_str())])) { "Next" }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use asynq_runtime::task::GroupName;

    use super::*;

    #[test]
    fn a_full_page_leads_to_the_next() {
        let group = |n: usize| GroupStats::new(GroupName::from_wire(&format!("<{n}>")), 1, None);
        let html = |n| {
            let groups: Vec<_> = (0..n).map(group).collect();
            render("", "q", &Params::default(), &groups, DateTime::UNIX_EPOCH).into_string()
        };
        assert!(html(0).contains("No group has tasks"));
        assert!(!html(99).contains("Next"));
        let full = html(100);
        assert!(full.contains("after=%3C99%3E") && !full.contains("<99>"), "{full}");
    }
}
