use asynq_runtime::prelude::*;

async fn serve() -> Result<(), BoxError> {
    let server = Server::builder("redis://127.0.0.1:6379")
        .queue("critical", 6).queue("default", 3)              // weights; .strict_priority() for strict order
        .concurrency(50).queue_concurrency("default", 10)
        .layer(tower::limit::RateLimitLayer::new(100, std::time::Duration::from_secs(1)))   // any tower layer
        .build().await?;
    let running = server.start().await?;
    let client = running.client();
    client.ping().await?;
    running.shutdown().await?;                                 // quiet, drain, requeue, leave
    Ok(())
}
