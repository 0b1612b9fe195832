//! The dashboard inside your own axum application, below `/jobs`, beside a worker in the same process.
//!
//! `export TOKEN=$(openssl rand -hex 16)`, `cargo run --example mounted &`, then
//! `curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:PORT/jobs/api/queues`.

use asynq_dashboard::Dashboard;
use asynq_runtime::prelude::*;
use axum::{Router, routing::get};

/// The background work of the application.
#[job]
async fn greet(name: String) -> JobResult {
    println!("hello {name}");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = std::env::var("ASYNQ_URL").unwrap_or("sqlite://asynq.db".into());
    let client = Client::connect(&url).await?;
    let token = std::env::var("TOKEN").ok().filter(|token| !token.is_empty());
    let token = token.ok_or("give it a login: export TOKEN=$(openssl rand -hex 16)")?;
    let jobs = Dashboard::new(&client)
        .title("Greetings")
        .mount("/jobs")
        .bearer_token(token)
        .registry(Registry::linked()?)
        .router()?;
    let app = Router::new().route("/", get(|| async { "the application\n" })).merge(jobs);

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/jobs", listener.local_addr()?);
    let worker = Server::builder(url).build().await?;
    greet::enqueue(&client, "Ann").await?;
    tokio::select! {
        served = axum::serve(listener, app) => served?,
        worked = worker.run() => worked?,
    }
    Ok(())
}
