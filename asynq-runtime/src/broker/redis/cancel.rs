//! Listens on asynq's cancel channel with a connection of its own.

use std::{sync::Arc, time::Duration};

use redis::{PushInfo, PushKind};
use tokio::{sync::mpsc, time::timeout};

use super::{
    super::{BrokerError, Cancellations, unavailable},
    io::Io,
    keys::CANCEL,
    reply,
    role::{ConnectionEvent, Role},
    router::Router,
    script::Call,
};
use crate::{pause::SeldomLines, task::TaskId};

/// Places for requests that wait for a listener. The last is for the word that further ones were dropped.
const WAITING: usize = 1024;
/// Silence after which the listener checks the connection with a `PING`.
const PING_AFTER: Duration = Duration::from_secs(15);

/// A subscription; dropping it closes its connection.
#[derive(Debug)]
pub(super) struct Listener {
    requests: mpsc::Receiver<Option<TaskId>>,
    router: Router,
}

impl Listener {
    /// Subscribes, and returns when Redis has confirmed the subscription.
    pub(super) async fn open(io: &Io, role: Role) -> Result<Self, BrokerError> {
        let (sender, requests) = mpsc::channel(WAITING);
        let on_event = passing_on(sender);
        let mut subscribe = redis::cmd("SUBSCRIBE");
        subscribe.arg(CANCEL);
        let router = Router::open(
            io,
            Role { greeting: vec![subscribe], on_event: Some(Arc::new(on_event)), ..role.on_one_server() },
        );
        router.first_attempt().await?;
        Ok(Self { requests, router })
    }
}

#[async_trait::async_trait]
impl Cancellations for Listener {
    async fn next(&mut self) -> Result<TaskId, BrokerError> {
        loop {
            // No request may come for days, so only a `PING` finds a connection that was lost silently.
            match timeout(PING_AFTER, self.requests.recv()).await {
                Ok(Some(Some(id))) => return Ok(id),
                Ok(Some(None)) => {
                    return Err(unavailable(
                        "cancel requests were missed, because the connection was lost or they came too fast; listen again",
                    ));
                }
                Ok(None) => {
                    return Err(reply::closed());
                }
                Err(_) => self.router.send_one(Call::plain("PING")).await.map(|_| ())?,
            }
        }
    }
}

/// Returns the function that passes requests on to the listener. `None` says that requests are missing: the connection was lost, or
/// some were dropped because too many wait.
fn passing_on(sender: mpsc::Sender<Option<TaskId>>) -> impl Fn(ConnectionEvent) + Send + Sync {
    // Thousands may be dropped in a second, and the thread that reads them keeps the leases.
    let lines = SeldomLines::default();
    move |event| {
        let request = match event {
            ConnectionEvent::Push(push) => match request(&push) {
                Some(id) => Some(id),
                None => return,
            },
            // Requests that are published meanwhile do not come, so the listener returns an error.
            ConnectionEvent::Lost => None,
            #[cfg(feature = "cluster")]
            ConnectionEvent::Moved => return,
        };
        let is_dropped = request.is_some() && sender.capacity() < 2;
        // The channel is full only after a `None`, which then waits in it. It is closed if the listener was dropped.
        let _ = sender.try_send(request.filter(|_| !is_dropped));
        if is_dropped && lines.is_due() {
            log!(warn, "cancel requests come faster than they are taken; some were dropped");
        }
    }
}

/// Returns the task id in a message of the channel.
fn request(push: &PushInfo) -> Option<TaskId> {
    if push.kind != PushKind::Message {
        return None;
    }
    let id = push.data.get(1).cloned().and_then(reply::text)?;
    Some(TaskId::from_wire(&id))
}

#[cfg(test)]
mod tests {
    use std::iter;

    use asynq_test_support::Log;
    use redis::Value;

    use super::*;

    #[test]
    fn many_requests_that_are_dropped_are_few_lines() {
        let (log, (sender, mut requests)) = (Log::keep(), mpsc::channel(WAITING));
        let pass_on = passing_on(sender);
        for n in 0..2 * WAITING {
            let data = [CANCEL.to_owned(), n.to_string()].map(|text| Value::BulkString(text.into_bytes())).to_vec();
            pass_on(ConnectionEvent::Push(PushInfo { kind: PushKind::Message, data }));
            // A listener that is slow takes one now and then.
            if n % 4 == 0 {
                requests.try_recv().unwrap();
            }
        }
        let lines = log.with("come faster").len();
        assert!((1..10).contains(&lines), "{lines}");
        let mut waiting = iter::from_fn(|| requests.try_recv().ok());
        assert!(waiting.any(|request| request.is_none()), "the listener does not learn that requests are missing");
    }
}
