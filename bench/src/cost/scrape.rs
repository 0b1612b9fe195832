//! Measures a scrape of a worker's own metrics.

use std::net::SocketAddr;

use asynq_dashboard::Dashboard;
use asynq_runtime::prelude::*;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{Stage, spent::Spent};
use crate::{
    order::Order,
    queue,
    task::{Seen, note},
};

/// The cost is the mean of so many scrapes.
const CALLS: u64 = 10;

/// Reads this program's own metrics over HTTP, as Prometheus reads those of a worker, after a worker has served `n` queues.
pub(super) async fn scrape(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    let order = Order { queues: Some(n), ..stage.order.clone() };
    queue::fill(&stage.client, &order).await?;
    let endpoint = Dashboard::new(&stage.client).observed_only().queue_metrics(false).bind("127.0.0.1:0").await?;
    let address = endpoint.address();
    let serving = tokio::spawn(endpoint.serve_until(std::future::pending()));
    let seen = Seen::none_of(n);
    stage.work(queue::worker::<note>(&order, seen.clone()), &seen, n, n).await?;
    let counter = stage.count()?;
    for _ in 0..CALLS {
        read_metrics(address).await?;
    }
    let spent = counter.stop(CALLS)?;
    serving.abort();
    Ok(spent)
}

async fn read_metrics(address: SocketAddr) -> Result<(), BoxError> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    if answer.contains("asynq_job_outcomes_total{") { Ok(()) } else { Err(format!("no metrics: {answer}").into()) }
}
