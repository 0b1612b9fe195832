//! `/broker`: the health of the broker.

use std::time::Duration;

use asynq_runtime::broker::QueueSlot;
use axum::extract::State;
use chrono::{TimeDelta, Utc};
use maud::{Markup, html};

use super::{
    Page, Tab,
    format::{count, span, when},
    node,
    part::text::{BLOCK, cell, cut},
};
use crate::{
    failure::Failure,
    nodes::NodesReport,
    path::segment,
    query::broker::{self, Health},
    state::AppState,
};

/// Longest wait for the nodes; a later answer is shown when it has come.
pub(super) const PATIENCE: Duration = Duration::from_millis(60);

/// Answers `/broker`.
pub(crate) async fn get(State(app): State<AppState>) -> Result<Page, Failure> {
    let (health, report) = tokio::join!(broker::health(&app), app.nodes.latest(PATIENCE));
    Ok(Page::new("Broker", Tab::Broker, render(&health?, report.as_ref())).waiting(report.is_none()))
}

/// Returns a number, or that it cannot be read.
fn known(number: Option<usize>) -> String {
    number.map_or_else(|| "unknown".to_owned(), |number| count(number as u64))
}

/// Returns the name of a kind of broker; one that has none here is shown as it names itself.
fn kind(kind: &str) -> &str {
    match kind {
        "redis" => "Redis",
        "sqlite" => "SQLite",
        other => other,
    }
}

fn render(health: &Health, report: Option<&NodesReport>) -> Markup {
    let (fastest, slowest) = (health.pings.first().copied(), health.pings.last().copied());
    html! {
        div.title { h1 { "Broker" } p { (cell(&health.location)) } }
        dl.figures {
            div { dt { "Kind" } dd { (kind(health.kind)) } }
            div { dt { "Answers within" } dd { (fastest.map(micro).unwrap_or_default()) " " small { "slowest " (slowest.map(micro).unwrap_or_default()) } } }
            div { dt { "Queues" } dd { (count(health.queues as u64)) } }
            div { dt { "Servers" } dd { (known(health.servers)) } }
            div { dt { "Periodic entries" } dd { (known(health.entries)) } }
            div { dt { "Lease" } dd { (span(health.lease)) } }
            div { dt { "Its time" } dd { (health.now.format("%H:%M:%S")) " UTC " small { (health.now.format("%Y-%m-%d")) } } }
        }
        @if health.ahead.abs() > TimeDelta::seconds(1) {
            p.notice {
                "The broker's clock is " (span(health.ahead.abs().to_std().unwrap_or_default()))
                @if health.ahead > TimeDelta::zero() { " ahead of" } @else { " behind" }
                " the clock of the host that serves this page. Tasks follow the broker's; set both by NTP."
            }
        }
        @match report {
            None => p.soft #asked role="status" { "The broker's report on itself is being fetched." noscript { " Load the page again to see it." } },
            Some(NodesReport { value: Err(error), .. }) => p.notice.bad role="alert" { "It does not say how it does: " (cut(&error.to_string(), BLOCK).0) },
            Some(NodesReport { value: Ok(list), at, .. }) => {
                @for (number, one) in list.nodes.iter().enumerate() { (node::render(number, one, health.now)) }
                @if !list.slots.is_empty() { (slots(&list.slots, list.left_out)) }
                p.soft { "Asked " (when(Utc::now(), *at)) "." }
            }
        }
    }
}

/// Renders the slots and nodes of queues in a cluster.
fn slots(slots: &[QueueSlot], left_out: usize) -> Markup {
    html! {
        section.panel aria-label="Queues in the cluster" {
            h2 { "Queues in the cluster" }
            div.scroll tabindex="0" { table {
                thead { tr { th scope="col" { "Queue" } th.num scope="col" { "Slot" } th scope="col" { "Nodes, the master first" } } }
                tbody { @for slot in slots {
                    tr id={ "slot-" (segment(slot.queue.as_str())) } {
                        th scope="row" { (cell(slot.queue.as_str())) }
                        td.num { (slot.slot) }
                        td.mono { @if slot.nodes.is_empty() { "none" } @else { (cell(&slot.nodes.join(" "))) } }
                    }
                } }
            } }
            @if left_out > 0 { p.soft { (count(left_out as u64)) " more are not listed." } }
        }
    }
}

/// Formats a round trip: microseconds below a millisecond.
fn micro(took: Duration) -> String {
    if took.as_millis() > 0 { span(took) } else { format!("{} µs", took.as_micros()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_broker_without_a_name_here_is_shown_as_it_names_itself() {
        assert_eq!(["redis", "sqlite", "other"].map(kind), ["Redis", "SQLite", "other"]);
    }

    #[test]
    fn a_cluster_says_how_many_of_its_queues_are_not_listed() {
        assert!(slots(&[], 2).into_string().contains("2 more are not listed."));
        assert!(!slots(&[], 0).into_string().contains("more"));
    }
}
