//! The state of a connection, which its manager sets and its callers watch.

use std::{sync::Arc, time::Instant};

use tokio::sync::watch;

use super::{super::BrokerError, identity::Identity, socket::OpenConnection, url::Address};

/// The state of a connection.
#[derive(Debug, Clone)]
pub(super) enum State {
    /// Being opened.
    Opening,
    /// Usable until a caller reports its generation as lost.
    Up(Arc<Up>),
    /// The last attempt failed with this error; the next one follows. The first that failed ended at `since`.
    Down { error: BrokerError, since: Instant },
}

/// A connection that is up.
#[derive(Debug)]
pub(super) struct Up {
    pub(super) connection: OpenConnection,
    pub(super) generation: u64,
    /// Counts the processes of Redis that were met.
    pub(super) process: u64,
    pub(super) to: Address,
    pub(super) identity: Option<Arc<Identity>>,
}

/// Reports that the connection of this `generation` is lost.
pub(super) fn report_lost(lost: &watch::Sender<u64>, generation: u64) {
    lost.send_if_modified(|known| {
        let is_new = generation > *known;
        *known = (*known).max(generation);
        is_new
    });
}
