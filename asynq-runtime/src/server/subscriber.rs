//! Brings cancel requests to the tasks that run here.

use std::{sync::Arc, time::Duration};

use super::{hub::Hub, trouble::Trouble};
use crate::broker::{BrokerError, BrokerErrorKind};

/// asynq's pause between two subscriptions, as the longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Listens until it is dropped; a connection that is lost is made anew.
pub(crate) async fn run(hub: Arc<Hub>) {
    let mut trouble = Trouble::of("subscriber", LONGEST_PAUSE);
    loop {
        let Err(error) = listen(&hub, &mut trouble).await;
        // We closed it ourselves, having left: no trouble, and nothing to try again.
        if hub.closing.is_cancelled() && error.kind() == BrokerErrorKind::Closed {
            return;
        }
        tokio::time::sleep(trouble.met(&error)).await;
    }
}

async fn listen(hub: &Hub, trouble: &mut Trouble) -> Result<std::convert::Infallible, BrokerError> {
    let mut requests = hub.answer(hub.broker.cancellations()).await?;
    trouble.over();
    hub.signals.subscribed.ring();
    loop {
        let id = requests.next().await?;
        if hub.runs.cancel(&id) > 0 {
            tracing::info!(%id, "somebody asked for this task to be cancelled");
        }
    }
}
