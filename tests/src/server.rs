//! Servers whose jobs report to the test.

use std::sync::Arc;

use asynq_runtime::{
    Registry, Server,
    broker::Broker,
    job::JobSet,
    server::{Running, ServerBuilder},
};
use asynq_test_support::soon;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The texts that jobs report to the test, in their order.
pub type Log = UnboundedSender<String>;

/// Returns a server of the jobs `S` with four slots, and the texts that its jobs report.
pub fn server<S: JobSet>(broker: &Arc<dyn Broker>) -> (ServerBuilder, UnboundedReceiver<String>) {
    let (sender, receiver) = unbounded_channel();
    let builder = Server::builder("nothing://is-connected")
        .broker(Arc::clone(broker))
        .registry(Registry::only::<S>().unwrap())
        .state::<Log>(sender)
        .concurrency(4);
    (builder, receiver)
}

/// Starts a server that has no error in its settings.
pub async fn start(builder: ServerBuilder) -> Running {
    builder.build().await.unwrap().start().await.unwrap()
}

/// Waits for the next text that a job reports.
pub async fn logged(log: &mut UnboundedReceiver<String>) -> String {
    soon(log.recv()).await.unwrap()
}
