//! Pings the broker now and then, and passes its answer to the program.

use std::sync::Arc;

use super::{config::HealthCheck, server_context::ServerContext};

/// Checks until it is dropped. The callback runs on a thread of the jobs' runtime that may block. The next ping waits until the
/// callback has returned.
pub(crate) async fn run(context: Arc<ServerContext>) {
    let Some(HealthCheck { every, callback }) = context.config.health_check.clone() else { return };
    loop {
        tokio::time::sleep(every).await;
        let (answer, callback) = (context.answer(context.broker.ping()).await, Arc::clone(&callback));
        let call = context.jobs.spawn_blocking(move || callback(answer));
        if call.await.is_err_and(|ended| ended.is_panic()) {
            log!(error, "the callback of the health check panicked");
        }
    }
}
