//! A web application with a worker beside it: a request enqueues, another one waits up to 5 s for the result. `ASYNQ_URL` names the broker, and
//! the program reads `ASYNQ_QUEUES` and the other variables of a worker's options, too. Its log is that of the subscriber in `main`, for which
//! `ASYNQ_LOG_FORMAT` and `RUST_LOG` do not count.
//! On SIGTERM and Ctrl-C the requests under way are answered, and running tasks are finished or requeued. When the broker is
//! broken the program ends with an error, for its supervisor to start it again.

use std::time::Duration;

use asynq_jobs::{Outcome, ResultError, prelude::*};
use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    routing::{get, post},
};
use tokio::signal::unix::{SignalKind, signal};

/// Squares a number, slowly enough to be a job.
#[job(retry = 3)]
async fn square(number: u32) -> JobResult<u64> {
    Ok(u64::from(number).pow(2))
}

async fn begin(State(client): State<Client>, Path(number): Path<u32>) -> Result<String, StatusCode> {
    let task = square::job(number).awaited().enqueue(&client).await;
    task.map(|task| format!("/results/{}\n", task.id)).map_err(|_| StatusCode::SERVICE_UNAVAILABLE)
}

async fn result(State(client): State<Client>, Path(id): Path<String>) -> (StatusCode, String) {
    match client.wait::<square>(&id, "5s").await {
        Ok(Outcome::Done(squared)) => (StatusCode::OK, format!("{squared}\n")),
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
    // Without a subscriber no line tells of tasks that fail, or of a broker that is away.
    tracing_subscriber::fmt().log_internal_errors(false).with_writer(std::io::stderr).init();
    // The first process of a container does not get a signal that it has no handler for, and a supervisor sends SIGTERM once.
    let asked_to_end = asked_to_end()?;
    // The client of the HTTP side answers its last requests after the worker has left.
    let client = Client::from_env().await?;
    // The port comes before the worker: a program that returns an error while its worker runs leaves its tasks as a crash does.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let running = App::new().build().await?.start().await?;

    let app = Router::new().route("/squares/{number}", post(begin)).route("/results/{id}", get(result));
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
    Ok(())
}

/// Listens from now on, and returns a future that is ready when a supervisor (SIGTERM) or Ctrl-C has asked the process to end.
fn asked_to_end() -> std::io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
