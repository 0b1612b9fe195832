//! An axum application that enqueues, and reads the result when a request asks for it: the worker runs beside it.
//!
//! `curl -X POST http://127.0.0.1:PORT/thumbnails/80` answers with the path of the result. A request for that path is answered as
//! soon as the task has ended, or after 5 s with 202: ask again.

use std::time::Duration;

use asynq_runtime::{Outcome, ResultError, prelude::*};
use axum::{
    Router,
    extract::{Path, State},
    http::{StatusCode, header::LOCATION},
    response::IntoResponse,
    routing::{get, post},
};
use tokio::signal::unix::{SignalKind, signal};

/// "Makes" a thumbnail and says how many bytes it has.
#[job(queue = "thumbnails", retry = 1)]
async fn thumbnail(width: u32) -> JobResult<u64> {
    if width == 0 { Err(JobError::skip_retry("no picture is so narrow")) } else { Ok(u64::from(width) * 3) }
}

async fn begin(State(client): State<Client>, Path(width): Path<u32>) -> Result<impl IntoResponse, StatusCode> {
    let task = thumbnail::job(width).awaited().enqueue(&client).await;
    let task = task.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    Ok((StatusCode::ACCEPTED, [(LOCATION, format!("/results/{}", task.id))]))
}

async fn result(State(client): State<Client>, Path(id): Path<String>) -> (StatusCode, String) {
    match client.wait::<thumbnail>(&id, "5s").await {
        Ok(Outcome::Done(bytes)) => (StatusCode::OK, format!("{bytes} bytes\n")),
        Ok(Outcome::StillRunning) => (StatusCode::ACCEPTED, "not yet\n".into()),
        // The text of an error may name files and hosts: it is for the operators alone.
        Ok(Outcome::Archived(_)) => (StatusCode::UNPROCESSABLE_ENTITY, "it failed\n".into()),
        Ok(_) => (StatusCode::GONE, "there is no result\n".into()),
        Err(ResultError::Nowhere { .. } | ResultError::OtherJob { .. }) => {
            (StatusCode::NOT_FOUND, "there is no such task\n".into())
        }
        Err(error) if error.is_not_yet() => (StatusCode::SERVICE_UNAVAILABLE, "try again\n".into()),
        // Asking again does not help: the result cannot be read, or is not there.
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "there is no readable result\n".into()),
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // The first process of a container does not get a signal that it has no handler for, and a supervisor sends SIGTERM once.
    let asked_to_end = asked_to_end()?;
    // The client of the HTTP side answers its last requests after the worker has left.
    let client = Client::from_env().await?;
    // The port comes before the worker: a program that returns an error while its worker runs leaves its tasks as a crash does.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let running = App::new().queue("thumbnails", 1).build().await?.start().await?;

    let app = Router::new().route("/thumbnails/{width}", post(begin)).route("/results/{id}", get(result));
    println!("http://{}", listener.local_addr()?);
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let http = axum::serve(listener, app.with_state(client)).with_graceful_shutdown(async { drop(ended.await) });
    let http = tokio::spawn(http.into_future());
    tokio::select! {
        () = asked_to_end => {}
        // The broker is broken for good, or a service has failed: `shutdown` returns the reason.
        () = running.failed() => {}
    }
    // The worker leaves at once. Beside it the requests under way have 10 s; a client that never finishes its request holds up no deploy.
    drop(end);
    let (left, _) = tokio::join!(running.shutdown(), tokio::time::timeout(Duration::from_secs(10), http));
    left?;
    println!("left in order");
    Ok(())
}

/// Listens from now on, and returns a future that is ready when a supervisor (SIGTERM) or Ctrl-C has asked the process to end.
fn asked_to_end() -> std::io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
    })
}
