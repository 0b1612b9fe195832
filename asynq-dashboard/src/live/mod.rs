//! Events for pages that are open: new numbers, and whether the broker answers.
//!
//! `GET /events` (`?queue=NAME` for one queue, `?brief=1` for none) sends `samples` with small JSON every few seconds, and
//! `broker` with `away` or `back` when the broker goes away or comes back. Either event makes a page fetch itself anew.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::State,
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
    routing::get,
};
use futures_util::{Stream, StreamExt as _, stream};
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::{
    api::json,
    failure::{Failure, Kind},
    login::Caller,
    path::UrlQuery,
    route::Route,
    sample::Notification,
    state::AppState,
};

/// How long one listener is served; a browser reconnects by itself, and the new request checks its login again.
const LONGEST: Duration = Duration::from_secs(600);
/// The interval of keep-alive texts, so that proxies keep the connection and a dead browser is noticed.
const ALIVE: Duration = Duration::from_secs(15);

/// The path of the event stream.
pub(crate) const PATH: &str = "/events";

/// Returns the route of the event stream.
pub(crate) fn routes() -> Vec<Route> {
    vec![Route::read(PATH, get(events))]
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Which {
    /// Only this queue; all if empty.
    queue: String,
    /// 1 if the time is enough: the scripts of a page read no number.
    brief: u8,
}

async fn events(
    State(app): State<AppState>,
    Extension(caller): Extension<Caller>,
    UrlQuery(which): UrlQuery<Which>,
) -> Result<Response, Failure> {
    let Ok(permit) = Arc::clone(&app.listeners).try_acquire_owned() else {
        return Err(Failure::new(Kind::Busy, "64 pages listen already; this one will ask again"));
    };
    app.samples.start();
    let notifications = notifications(app.samples.subscribe(), which, permit);
    // The stream ends with the login of its user, and with the server, which may let its requests end first.
    let ended = async move {
        tokio::select! {
            () = app.login.ended(&caller) => {}
            () = app.stopping.clone() => {}
            () = app.closing.cancelled() => {}
            () = tokio::time::sleep(LONGEST) => {}
        }
    };
    let stream = notifications.take_until(Box::pin(ended));
    let keep_alive = KeepAlive::new().interval(ALIVE).text("alive");
    let mut response = Sse::new(stream).keep_alive(keep_alive).into_response();
    // nginx would buffer events otherwise.
    response.headers_mut().insert("x-accel-buffering", axum::http::HeaderValue::from_static("no"));
    Ok(response)
}

struct Listener {
    notifications: watch::Receiver<Notification>,
    which: Which,
    was_away: bool,
    waiting: Vec<Event>,
    _permit: OwnedSemaphorePermit,
}

fn notifications(
    mut notifications: watch::Receiver<Notification>,
    which: Which,
    permit: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Event, Infallible>> {
    // The latest samples come first.
    notifications.mark_changed();
    let listener = Listener { notifications, which, was_away: false, waiting: Vec::new(), _permit: permit };
    stream::unfold(listener, |mut listener| async move {
        while listener.waiting.is_empty() {
            listener.notifications.changed().await.ok()?;
            let notification = listener.notifications.borrow_and_update().clone();
            let is_away = notification.away.is_some();
            // `waiting` is a stack: the last event that is pushed is sent first.
            if !is_away && let Some(snapshot) = &notification.latest {
                let data = match listener.which.brief {
                    0 => json::samples(snapshot, &listener.which.queue),
                    _ => serde_json::json!({ "at": json::time(snapshot.at) }),
                };
                listener.waiting.push(Event::default().event("samples").data(data.to_string()));
            }
            if is_away != listener.was_away {
                let state = if is_away { "away" } else { "back" };
                listener.waiting.push(Event::default().event("broker").data(state));
            }
            listener.was_away = is_away;
        }
        listener.waiting.pop().map(|event| (Ok(event), listener))
    })
}

#[cfg(test)]
mod tests {
    use asynq_runtime::broker::{BrokerError, BrokerErrorKind};
    use chrono::DateTime;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::sample::Snapshot;

    #[tokio::test]
    async fn a_listener_receives_the_latest_state_and_each_loss_and_return_of_the_broker() {
        let sender = watch::Sender::new(Notification::default());
        let permits = Arc::new(Semaphore::new(1));
        let permit = Arc::clone(&permits).try_acquire_owned().expect("a permit");
        let mut received = Box::pin(notifications(sender.subscribe(), Which::default(), permit));
        let latest = Some(Arc::new(Snapshot::new(DateTime::UNIX_EPOCH, Vec::new(), Vec::new())));
        let away = Some(BrokerError::new(BrokerErrorKind::Unavailable, "gone"));
        for (notification, expected) in [
            (Notification { latest: latest.clone(), away: None }, &["samples"][..]),
            (Notification { latest: latest.clone(), away: away.clone() }, &["away"]),
            (Notification { latest: latest.clone(), away: None }, &["back", "samples"]),
        ] {
            sender.send_replace(notification);
            for expected in expected {
                let event = format!("{:?}", received.next().await.expect("an event"));
                assert!(event.contains(expected), "{event}");
            }
        }
        assert_eq!((permits.available_permits(), sender.receiver_count()), (0, 1));
        drop(received);
        // The sampler sleeps once the last receiver is gone and no user has looked for long.
        assert_eq!((permits.available_permits(), sender.receiver_count()), (1, 0));
    }
}
