//! `/broker`: how the broker does.

use axum::extract::State;
use chrono::TimeDelta;
use maud::{Markup, html};

use super::{
    Page, Tab,
    format::{count, exact, span},
    part::text::cell,
};
use crate::{
    failure::Failure,
    look::broker::{self, Health},
    state::AppState,
};

/// Answers `/broker`.
pub(crate) async fn get(State(app): State<AppState>) -> Result<Page, Failure> {
    Ok(Page::new("Broker", Tab::Broker, render(&broker::health(&app).await?)))
}

fn render(health: &Health) -> Markup {
    let (fastest, slowest) = (health.pings.first().copied(), health.pings.last().copied());
    let apart = health.ahead.abs();
    html! {
        div.title { h1 { "Broker" } p { (cell(&health.location)) } }
        dl.figures {
            div { dt { "Kind" } dd { @if health.kind == "redis" { "Redis" } @else { "SQLite" } } }
            div { dt { "Answers within" } dd { (fastest.map(micro).unwrap_or_default()) " " small { "slowest " (slowest.map(micro).unwrap_or_default()) } } }
            div { dt { "Queues" } dd { (count(health.queues as u64)) } }
            div { dt { "Servers" } dd { (count(health.servers as u64)) } }
            div { dt { "Periodic entries" } dd { (count(health.entries as u64)) } }
            div { dt { "Lease" } dd { (span(health.lease)) } }
        }
        @if apart > TimeDelta::seconds(1) {
            p.notice {
                "The broker's clock is " (span(apart.to_std().unwrap_or_default()))
                @if health.ahead > TimeDelta::zero() { " ahead of" } @else { " behind" }
                " the clock of the host that serves this page. Tasks follow the broker's; set both by NTP."
            }
        }
        section.panel {
            h2 { "Facts" }
            dl.facts {
                dt { "Address" } dd.mono { (cell(&health.location)) }
                dt { "Its time" } dd { (exact(health.now)) }
            }
        }
    }
}

/// A round trip: microseconds below a millisecond.
fn micro(took: std::time::Duration) -> String {
    if took.as_millis() > 0 { span(took) } else { format!("{} µs", took.as_micros()) }
}
