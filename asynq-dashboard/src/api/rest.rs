//! Samples, search, servers, periodic entries and the broker.

use std::time::Duration;

use asynq_runtime::{broker::Page, inspector::Statistics, task::Timestamp};
use axum::{Json, extract::State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::json;
use crate::{
    failure::{Failure, Kind},
    path::{Name, Segments, UrlQuery},
    query::{broker, periodic, search},
    span::PageQuery,
    state::AppState,
};

/// Longest wait for the broker's nodes.
const FOR_NODES: Duration = Duration::from_secs(5);

type Answer = Result<Json<Value>, Failure>;

/// The query of a series.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Which {
    queue: String,
}

pub(super) async fn samples(State(app): State<AppState>, UrlQuery(which): UrlQuery<Which>) -> Answer {
    let queue = (!which.queue.is_empty()).then_some(which.queue.as_str());
    if let Some(queue) = queue {
        app.inspector.queue(queue).await?;
    }
    Ok(Json(json::series(&app.samples.series(queue))))
}

pub(super) async fn search(State(app): State<AppState>, UrlQuery(query): UrlQuery<search::Query>) -> Answer {
    Ok(Json(json::found(&app, &search::search(&app, &query, search::FOR_A_PROGRAM).await?).await))
}

pub(super) async fn servers(State(app): State<AppState>) -> Answer {
    let servers = app.inspector.servers().await?;
    Ok(Json(json!({ "servers": json::servers(&app, &servers).await })))
}

pub(super) async fn periodic(State(app): State<AppState>, UrlQuery(pages): UrlQuery<PageQuery>) -> Answer {
    let (entries, span) = periodic::entries(&app, pages.page).await?;
    Ok(Json(json!({
        "left_out": span.behind(),
        "entries": entries.iter().map(json::entry).collect::<Vec<_>>(),
    })))
}

pub(super) async fn entry(
    State(app): State<AppState>,
    Segments((Name(queue), Name(id))): Segments<(Name, Name)>,
    UrlQuery(pages): UrlQuery<PageQuery>,
) -> Answer {
    let entry = periodic::one(&app, &queue, &id).await?;
    let page = Page { number: pages.page.clamp(1, 1_000_000), ..Page::default() };
    let history = periodic::history(&app, &id, page).await?;
    let mut value = json::entry(&entry);
    value["history"] = history
        .iter()
        .map(|event| {
            let at = event.enqueue_time.and_then(Timestamp::to_datetime);
            json!({ "task": event.task_id, "at": at.map(json::time) })
        })
        .collect();
    Ok(Json(value))
}

pub(super) async fn broker(State(app): State<AppState>) -> Answer {
    Ok(Json(json::health(&broker::health(&app).await?)))
}

pub(super) async fn nodes(State(app): State<AppState>) -> Answer {
    let report = app.nodes.fresh(FOR_NODES).await;
    let report =
        report.ok_or_else(|| Failure::new(Kind::Slow, "the broker's nodes did not answer within 5 s; ask again"))?;
    let list = report.value?;
    let (nodes, slots) = (list.nodes.iter().map(json::node), list.slots.iter().map(Statistics::slot_to_json));
    Ok(Json(json!({
        "at": json::time(report.at),
        "nodes": nodes.collect::<Vec<_>>(),
        "slots": slots.collect::<Vec<_>>(),
        "left_out": list.left_out,
    })))
}
