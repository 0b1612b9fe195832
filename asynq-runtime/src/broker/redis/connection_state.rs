//! Where a connection is in its life, as its manager tells and its callers watch.

use std::sync::Arc;

use tokio::sync::watch;

use super::{super::BrokerError, identity::Identity, socket::OpenConnection, url::Address};

/// Where a connection is in its life.
#[derive(Debug, Clone)]
pub(super) enum State {
    /// On its way.
    Opening,
    /// Of use, until a caller reports this generation as lost.
    Up { connection: OpenConnection, generation: u64, to: Address, identity: Option<Arc<Identity>> },
    /// The last attempt failed so; the next one follows.
    Down(BrokerError),
}

/// Says that the connection of this `generation` is of no use any more.
pub(super) fn report_lost(lost: &watch::Sender<u64>, generation: u64) {
    lost.send_if_modified(|known| {
        let is_new = generation > *known;
        *known = (*known).max(generation);
        is_new
    });
}
