//! A server that runs, held by its owner: look at it, quiet it, leave in order, or drop it.

use std::sync::{Arc, Mutex, PoisonError};

use super::{
    error::ServerError, heart::HeartThread, hooks::Moments, hub::Hub, service::Services, shutdown, signals::Signals,
};
use crate::{broker::Broker, client::Client};

/// A server that runs. Dropping it ends everything at once: what was running runs again when its lease is over. To
/// leave in order, [`shutdown`](Self::shutdown).
#[derive(Debug)]
#[must_use = "dropping it ends the server"]
pub struct Running {
    pub(super) hub: Arc<Hub>,
    pub(super) services: Services,
    pub(super) moments: Mutex<Moments>,
    pub(super) closes_broker: bool,
    pub(super) heart: HeartThread,
}

impl Running {
    /// A client of the server's broker.
    pub fn client(&self) -> Client {
        Client::new(Arc::clone(&self.hub.broker))
    }

    /// The broker.
    pub fn broker(&self) -> &Arc<dyn Broker> {
        &self.hub.broker
    }

    /// Stops fetching, as TSTP does; what runs goes on.
    pub fn quiet(&self) {
        self.hub.quiet.cancel();
    }

    /// How many tasks run at the moment.
    pub fn running(&self) -> usize {
        self.hub.runs.running()
    }

    /// Named moments, for tests.
    pub fn signals(&self) -> &Signals {
        &self.hub.signals
    }

    /// Waits until a service has failed, which is a reason to shut down; for ever if none does.
    pub async fn failed(&self) {
        self.services.failed().await;
    }

    /// Leaves in order: fetches nothing more, lets running jobs end within the shutdown timeout, hands the rest back to
    /// the heads of their queues without spending a retry, and takes the server off the list. It returns at most a
    /// second after the timeout, even if the broker is dead.
    ///
    /// # Errors
    ///
    /// A service had failed.
    pub async fn shutdown(mut self) -> Result<(), ServerError> {
        let moments = std::mem::take(self.moments.get_mut().unwrap_or_else(PoisonError::into_inner));
        self.heart.call(shutdown::drain(Arc::clone(&self.hub), moments, self.closes_broker)).await?;
        self.services.outcome()
    }

    /// Ends everything at once; the same as dropping it.
    pub fn abort(self) {}
}

impl Drop for Running {
    fn drop(&mut self) {
        self.hub.quiet.cancel();
        self.hub.closing.cancel();
        self.hub.runs.abandon();
    }
}
