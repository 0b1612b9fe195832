//! Queues, their tasks, groups and history.

use asynq_runtime::{
    broker::GroupStep,
    inspector::{ListGroups, ListTasks},
    task::TaskState,
};
use axum::{Json, extract::State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::json;
use crate::{
    failure::Failure,
    path::{Name, Segments, UrlQuery},
    query::search,
    state::AppState,
};

/// Days of history by default.
const DAYS: usize = 30;
/// Days that counters are kept.
const MOST_DAYS: usize = 90;

type Answer = Result<Json<Value>, Failure>;

pub(super) async fn all(State(app): State<AppState>) -> Answer {
    let snapshot = app.samples.snapshot().await?;
    let mut answer = json!({
        "at": json::time(snapshot.at),
        "totals": snapshot.totals.to_json(),
        "queues": snapshot.queues.iter().map(json::queue).collect::<Vec<_>>(),
    });
    if !snapshot.unreadable.is_empty() {
        let unreadable =
            snapshot.unreadable.iter().map(|queue| json!({ "queue": queue.name.as_str(), "error": queue.error }));
        answer["unreadable"] = unreadable.collect();
    }
    Ok(Json(answer))
}

pub(super) async fn one(State(app): State<AppState>, Segments(Name(queue)): Segments<Name>) -> Answer {
    let stats = app.inspector.queue(&queue).await?;
    let mut value = json::queue(&stats);
    value["memory_bytes"] = app.inspector.memory_usage(&queue).await?.into();
    Ok(Json(value))
}

/// The query of a listing of tasks.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Which {
    state: String,
    group: String,
    page: Option<usize>,
    per: Option<usize>,
    q: String,
    after: String,
}

pub(super) async fn tasks(
    State(app): State<AppState>,
    Segments(Name(queue)): Segments<Name>,
    UrlQuery(which): UrlQuery<Which>,
) -> Answer {
    if !which.q.is_empty() {
        let query = search::Query {
            q: which.q,
            queue,
            state: which.state,
            group: which.group,
            after: which.after,
            ..search::Query::default()
        };
        return Ok(Json(json::found(&app, &search::search(&app, &query, search::FOR_A_PROGRAM).await?).await));
    }
    let state = search::state(&which.state)?.unwrap_or(TaskState::Pending);
    let (page, per) = (which.page.unwrap_or(1), which.per.unwrap_or(30));
    if page > usize::MAX / ListTasks::MOST {
        return Err(Failure::bad_request("there are not so many pages"));
    }
    let mut list = app.inspector.tasks(&queue, state).page(page).per_page(per);
    if !which.group.is_empty() {
        list = list.group(&which.group);
    }
    let tasks = list.brief().await?;
    Ok(Json(json!({
        "state": state.as_str(),
        "page": page,
        "per": per,
        "tasks": json::listed(&app, &tasks).await,
    })))
}

pub(super) async fn task(
    State(app): State<AppState>,
    Segments((Name(queue), Name(id))): Segments<(Name, Name)>,
) -> Answer {
    let task = app.inspector.task(&queue, &id).await?;
    let failures = app.inspector.failures(&queue, &id).await?;
    let mut value = json::task(&app, &task).await;
    value["failures"] = failures.iter().map(json::failure).collect();
    Ok(Json(value))
}

/// The query of a listing of groups.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct After {
    after: String,
    limit: Option<usize>,
}

pub(super) async fn groups(
    State(app): State<AppState>,
    Segments(Name(queue)): Segments<Name>,
    UrlQuery(which): UrlQuery<After>,
) -> Answer {
    let limit = which.limit.unwrap_or(ListGroups::LIMIT);
    let mut list = app.inspector.groups(&queue).limit(limit);
    if !which.after.is_empty() {
        list = list.after(GroupStep::from_text(&which.after));
    }
    let page = list.await?;
    let next = page.next.as_ref().map(GroupStep::as_str);
    Ok(Json(json!({ "next": next, "groups": page.groups.iter().map(json::group).collect::<Vec<_>>() })))
}

/// The query of a history.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Days {
    days: Option<usize>,
}

pub(super) async fn history(
    State(app): State<AppState>,
    Segments(Name(queue)): Segments<Name>,
    UrlQuery(which): UrlQuery<Days>,
) -> Answer {
    let days = app.inspector.history(&queue, which.days.unwrap_or(DAYS).min(MOST_DAYS)).await?;
    let day = |day: &asynq_runtime::broker::DayStats| json!({ "date": day.date.to_string(), "processed": day.processed, "failed": day.failed });
    Ok(Json(json!({ "days": days.iter().map(day).collect::<Vec<_>>() })))
}
