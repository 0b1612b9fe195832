//! Layers: tower middleware around every attempt, and around every enqueue. The layer that is added first is the outermost.

use std::{
    task::{Context, Poll},
    time::{Duration, Instant},
};

use asynq_runtime::{
    PreparedTask,
    job::BoxFuture,
    prelude::*,
    server::{JobRequest, JobResponse, JobService},
};
use tower::{Service, layer::layer_fn, limit::RateLimitLayer, timeout::TimeoutLayer, util::MapRequestLayer};

/// The user behind a request, which a layer adds to the attempt.
struct Caller(String);

#[job(queue = "layers")]
async fn greet(ctx: &JobContext, name: String) -> JobResult {
    let caller = ctx.extension::<Caller>().map_or("nobody".to_owned(), |caller| caller.0.clone());
    println!("hello {name}, greeted by {caller}");
    Ok(())
}

/// A custom layer: reads a header, and measures the time.
struct Timed(JobService);

impl Service<JobRequest> for Timed {
    type Response = JobResponse;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<JobResponse, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: JobRequest) -> Self::Future {
        let (since, name) = (Instant::now(), request.name().to_owned());
        if let Some(caller) = request.context().header("caller") {
            request.context().insert(Caller(caller.to_owned()));
        }
        let answer = self.0.call(request);
        Box::pin(async move {
            let answer = answer.await;
            println!(
                "{name} ended {} within {}s",
                if answer.is_ok() { "well" } else { "badly" },
                since.elapsed().as_secs() + 1
            );
            answer
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let server = Server::builder(std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".to_owned()))
        .queue("layers", 1)
        // While this layer is not ready, no task is fetched: tasks wait in their queue, where other workers may take them.
        .layer(RateLimitLayer::new(100, Duration::from_secs(1)))
        .layer(layer_fn(Timed))
        .layer(TimeoutLayer::new(Duration::from_secs(5)))
        .build()
        .await?;
    let running = server.start().await?;
    let client =
        running.client().layer(MapRequestLayer::new(|task: PreparedTask| task.header("caller", "the example")));
    for name in ["Ann", "Bob"] {
        greet::enqueue(&client, name).await?;
    }

    running.drained().await?;
    running.shutdown().await?;
    Ok(())
}
