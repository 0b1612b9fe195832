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

/// Returns the events of a listener, which holds its permit until it is gone.
fn notifications(
    mut notifications: watch::Receiver<Notification>,
    which: Which,
    permit: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Event, Infallible>> {
    // The latest samples come first.
    notifications.mark_changed();
    let listener = (notifications, which, permit, false);
    let parts = stream::unfold(listener, |(mut notifications, which, permit, was_away)| async move {
        notifications.changed().await.ok()?;
        let Notification { latest, is_away } = notifications.borrow_and_update().clone();
        let mut events = Vec::new();
        if is_away != was_away {
            events.push(Event::default().event("broker").data(if is_away { "away" } else { "back" }));
        }
        if let Some(snapshot) = latest.filter(|_| !is_away) {
            let data = match which.brief {
                0 => json::samples(&snapshot, &which.queue),
                _ => serde_json::json!({ "at": json::time(snapshot.at) }),
            };
            events.push(Event::default().event("samples").data(data.to_string()));
        }
        Some((stream::iter(events).map(Ok), (notifications, which, permit, is_away)))
    });
    parts.flatten()
}

#[cfg(test)]
mod tests {
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
        for (is_away, expected) in [(false, &["samples"][..]), (true, &["away"]), (false, &["back", "samples"])] {
            sender.send_replace(Notification { latest: latest.clone(), is_away });
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
