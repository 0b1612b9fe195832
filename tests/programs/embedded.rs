//! Runs a worker inside an existing application.

use asynq_runtime::prelude::*;

use crate::stage::{Stage, on_both_brokers};

/// The program with its literal URL; this copy is compiled and never run against port 6379.
mod as_written {
    #![allow(dead_code)]
    include!("as_written/embedded.rs");
}

/// The program with the fixture's URL in place of its literal.
#[rustfmt::skip]
async fn serve(url: &str) -> Result<(), BoxError> {
    let server = Server::builder(url)
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

on_both_brokers! {
    async fn a_server_starts_answers_and_leaves(stage: &Stage) {
        serve(&stage.url).await.unwrap();
        let client = stage.client().await;
        assert_eq!(client.broker().servers().await.unwrap(), [], "it left");
    }
}

#[job]
async fn sign_up(client: State<Client>, to: String) -> JobResult {
    send_mail::enqueue(&client, to).await?;
    Ok(())
}

#[job(queue = "mails")]
async fn send_mail(_to: String) -> JobResult {
    Ok(())
}

/// The number of mails that wait at `client`'s broker.
async fn mails(client: &Client) -> u64 {
    client.inspector().queue("mails").await.map_or(0, |queue| queue.pending)
}

on_both_brokers! {
    async fn a_job_has_a_client_of_its_own_broker_without_being_given_one(stage: &Stage) {
        let server = || Server::builder(&stage.url).registry(Registry::only::<(sign_up,)>().unwrap());
        let running = server().build().await.unwrap().start().await.unwrap();
        let client = stage.client().await;
        let task = sign_up::job("ann").awaited().enqueue(&client).await.unwrap();
        task.wait("60s").await.unwrap().done().unwrap();
        assert_eq!(mails(&client).await, 1);
        running.shutdown().await.unwrap();

        let elsewhere = Stage::sqlite();
        let other = elsewhere.client().await;
        let running = server().state(other.clone()).build().await.unwrap().start().await.unwrap();
        let task = sign_up::job("bob").awaited().enqueue(&client).await.unwrap();
        task.wait("60s").await.unwrap().done().unwrap();
        assert_eq!((mails(&client).await, mails(&other).await), (1, 1), "the program's own client counts");
        running.shutdown().await.unwrap();
    }
}
