//! Pings the broker now and then, and passes its answer to the program.

use std::{fmt, sync::Arc, time::Duration};

use super::server_context::ServerContext;
use crate::broker::BrokerError;

/// The interval of the health check and its callback.
#[derive(Clone)]
pub(crate) struct HealthCheck {
    pub(crate) every: Duration,
    pub(crate) callback: Arc<dyn Fn(Result<(), BrokerError>) + Send + Sync>,
}

/// Checks until it is dropped. The callback runs on a thread of the jobs' runtime that may block. The next ping waits until the
/// callback has returned.
pub(crate) async fn run(context: Arc<ServerContext>) {
    let Some(HealthCheck { every, callback }) = context.config.health_check.clone() else { return };
    loop {
        tokio::time::sleep(every).await;
        let (answer, callback) = (context.answer(context.broker.ping()).await, Arc::clone(&callback));
        let call = context.jobs.spawn_blocking(move || callback(answer));
        if call.await.is_err_and(|ended| ended.is_panic()) {
            tracing::error!("the callback of the health check panicked");
        }
    }
}

impl fmt::Debug for HealthCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthCheck").field("every", &self.every).finish_non_exhaustive()
    }
}
