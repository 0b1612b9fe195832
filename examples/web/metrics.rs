//! Metrics: a worker with `/metrics`, `/healthz`, `/readyz` and `/stats`, which the program scrapes itself.
//!
//! A program of `main!` needs no code for metrics: `asynq_runtime::main!(services: [asynq_dashboard])` has `--metrics ADDR`.

use asynq_dashboard::Dashboard;
use asynq_runtime::prelude::*;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

#[job(queue = "measured", retry = 0)]
async fn resize(width: u32) -> JobResult {
    // Metrics of your own go to the same endpoint, with `metrics = "0.24"`: another version has a recorder of its own.
    metrics::histogram!("pictures_width_pixels").record(width);
    if width == 0 { Err("no picture is so narrow".into()) } else { Ok(()) }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".to_owned());
    let server = Server::builder(&url).queue("measured", 1).build().await?;
    let client = Client::new(server.broker().clone());
    // From here on everything is measured. Port 0 is any free one; yours would be 127.0.0.1:9090.
    let endpoint = Dashboard::new(&client).observed_only().bind("127.0.0.1:0").await?;
    let address = endpoint.address();
    tokio::spawn(endpoint.serve_until(std::future::pending()));

    let running = server.start().await?;
    for width in [640, 800, 0] {
        resize::enqueue(&client, width).await?;
    }
    running.drained().await?;
    println!("/readyz says {}", get(address, "/readyz").await?.trim_end());
    let metrics = get(address, "/metrics").await?;
    let shown =
        ["asynq_tasks_processed_total", "asynq_tasks_failed_total", "asynq_job_outcomes_total", "pictures_width"];
    let mut lines: Vec<_> = metrics.lines().filter(|line| shown.iter().any(|name| line.starts_with(name))).collect();
    lines.sort_unstable();
    for line in lines {
        println!("{line}");
    }
    running.shutdown().await?;
    Ok(())
}

/// Requests a page, as Prometheus does every so often.
async fn get(address: std::net::SocketAddr, path: &str) -> Result<String, BoxError> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}
