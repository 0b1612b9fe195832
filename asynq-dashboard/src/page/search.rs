//! `/search`: tasks of all queues by id, type, arguments, error and time; its script continues a search that has not ended.

use asynq_runtime::TaskState;
use axum::extract::State;
use maud::{Markup, html};

use super::{
    Page, Tab,
    format::count,
    part::{listing::empty, tasks::Table},
};
use crate::{
    failure::Failure,
    path::{UrlQuery, href, with_query},
    query::{
        payload::Reader,
        search::{self, MOST_FOUND, Query, SearchResult},
    },
    state::AppState,
};

/// Answers `/search`.
pub(crate) async fn get(State(app): State<AppState>, UrlQuery(query): UrlQuery<Query>) -> Result<Page, Failure> {
    let queue = query.queue.trim().to_owned();
    let query = Query { since: in_utc(&query.since), until: in_utc(&query.until), queue, ..query };
    let found = if is_blank(&query) { None } else { Some(search::search(&app, &query, search::FOR_A_PAGE).await?) };
    let reader = Reader::of_tasks(&app, found.as_ref().map_or(&[], |found| &found.tasks)).await;
    Ok(Page::new("Search", Tab::Search, render(&app, &query, found.as_ref(), &reader)).still())
}

/// Returns whether the query is empty.
fn is_blank(query: &Query) -> bool {
    [&query.q, &query.queue, &query.state, &query.r#type, &query.since, &query.until]
        .into_iter()
        .all(|part| part.trim().is_empty())
}

/// Completes the time of a form, `2030-01-02T03:04`, to RFC 3339: forms mean UTC.
fn in_utc(time: &str) -> String {
    match time.trim() {
        short if short.len() == 16 && short.is_ascii() => format!("{short}:00Z"),
        exact if exact.len() == 19 && exact.is_ascii() => format!("{exact}Z"),
        other => other.to_owned(),
    }
}

/// Removes the `Z` that [`in_utc`] added, for the form.
fn in_form(time: &str) -> &str {
    time.strip_suffix('Z').unwrap_or(time)
}

fn render(app: &AppState, query: &Query, found: Option<&SearchResult>, reader: &Reader<'_>) -> Markup {
    let mount = app.config.mount.as_str();
    let here = href(mount, &["search"]);
    html! {
        div.title { h1 { "Search" } p { "An exact id is found at once; everything else by looking at task after task." } }
        form.panel.stack method="get" action=(here) role="search" {
            div.row {
                input type="search" name="q" value=(query.q) placeholder="Id, or text of the arguments, error, type, group or headers" aria-label="Search for" autofocus[found.is_none()];
                button.go { "Search" }
                @if found.is_some() { a.button href=(here) { "Clear" } }
            }
            div.fields {
                label { "Queue" input name="queue" value=(query.queue) placeholder="any"; }
                label { "State" select name="state" {
                    option value="" { "any" }
                    @for state in TaskState::ALL { option value=(state) selected[query.state == state.as_str()] { (state) } }
                } }
                label { "Type" input name="type" value=(query.r#type) placeholder="any" list="types"; }
                label { "From (UTC)" input type="datetime-local" step="1" name="since" value=(in_form(&query.since)); }
                label { "To (UTC)" input type="datetime-local" step="1" name="until" value=(in_form(&query.until)); }
            }
            @if let Some(registry) = app.registry.as_ref() {
                datalist #types { @for job in registry.iter().take(200) { option value=(job.name) {} } }
            }
        }
        @match found {
            None => div.panel { (empty("What do you look for?", &html! {
                p { "The time is when a task is due or failed, or was completed or archived. Every part that you fill in must fit." }
            })) },
            Some(found) => section.panel.flush aria-label="Results" {
                @if found.tasks.is_empty() {
                    (empty(if found.next.is_some() { "Nothing so far" } else { "Nothing found" }, &html! {
                        p { @if found.next.is_some() { "There is more to look at: look further, or narrow the queue or the state." } @else { @if found.partly_searched == 0 && !found.is_incomplete { "No task has all of that. " } "Tasks that succeeded are gone unless their job has a retention." } }
                    }))
                } @else {
                    (Table { mount, reader, now: app.client.broker().now(), state: None::<TaskState>, can_pick: false }.show(&found.tasks))
                }
                (how_far(found, |after| link(&here, query, after)))
            },
        }
    }
}

fn link(here: &str, query: &Query, after: &str) -> String {
    with_query(
        here,
        &[
            ("q", &query.q),
            ("queue", &query.queue),
            ("state", &query.state),
            ("type", &query.r#type),
            ("since", &query.since),
            ("until", &query.until),
            ("after", after),
        ],
    )
}

/// Renders how far a search has looked, and the link to go on: `find.js` follows the link until there is a page of tasks.
pub(super) fn how_far(found: &SearchResult, link: impl Fn(&str) -> String) -> Markup {
    html! {
        nav.pages aria-label="How far the search looked" data-search=(found.looked_at) data-enough=(MOST_FOUND) {
            span { (count(found.tasks.len() as u64)) " found, " (count(found.looked_at as u64)) " looked at" (end(found)) }
            span.grow {}
            @if let Some(next) = &found.next {
                button type="button" data-stop hidden { "Stop" }
                a.button rel="next" href=(link(next)) { "Look further" }
            }
        }
    }
}

/// Returns what is said at the end of a search; `find.js` takes it from the last answer.
fn end(found: &SearchResult) -> String {
    let end = match (&found.next, found.is_incomplete) {
        (Some(_), _) => return String::new(),
        (None, false) => ": that was all",
        (None, true) => {
            ": some may be missing, because a list changed meanwhile or a queue cannot be read; search again later"
        }
    };
    match found.partly_searched {
        0 => end.to_owned(),
        long => {
            let have = if long == 1 { "has" } else { "have" };
            format!("{end}, but {} {have} more than 4 KiB of arguments, not searched to their end", count(long as u64))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_the_form_is_in_utc() {
        for (given, meant) in [
            ("", ""),
            ("2030-01-02T03:04", "2030-01-02T03:04:00Z"),
            ("2030-01-02T03:04:05", "2030-01-02T03:04:05Z"),
            ("2030-01-02T03:04:05Z", "2030-01-02T03:04:05Z"),
            ("soon", "soon"),
        ] {
            assert_eq!(in_utc(given), meant);
        }
        assert_eq!(in_form("2030-01-02T03:04:05Z"), "2030-01-02T03:04:05");
    }

    #[test]
    fn a_search_says_how_far_it_looked() {
        let some = SearchResult { looked_at: 1200, next: Some("1.2.q".into()), ..SearchResult::default() };
        let html = how_far(&some, |after| format!("?after={after}")).into_string();
        assert!(html.contains("0 found, 1,200 looked at") && html.contains("?after=1.2.q"), "{html}");
        assert!(how_far(&SearchResult::default(), str::to_owned).into_string().contains("that was all"));
        let long = SearchResult { partly_searched: 1200, ..SearchResult::default() };
        let html = how_far(&long, str::to_owned).into_string();
        assert!(html.contains("that was all, but 1,200 have more than 4 KiB of arguments"), "{html}");
        let missed = SearchResult { is_incomplete: true, ..SearchResult::default() };
        let html = how_far(&missed, str::to_owned).into_string();
        assert!(html.contains("some may be missing") && !html.contains("that was all"), "{html}");
    }
}
