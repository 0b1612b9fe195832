//! Listens on asynq's cancel channel with a connection of its own.

use std::sync::Arc;

use redis::{PushInfo, PushKind};
use tokio::sync::mpsc;

use super::{
    super::{BrokerError, BrokerErrorKind, Cancellations},
    connection::{Link, News, Role},
    io::Io,
    keys::CANCEL,
    reply,
};
use crate::task::TaskId;

/// Requests that may wait for a listener; more are dropped, as the channel promises nothing anyway.
const WAITING: usize = 1024;

/// One subscription; dropping it closes its connection.
#[derive(Debug)]
pub(super) struct Listener {
    requests: mpsc::Receiver<Option<TaskId>>,
    _link: Link,
}

impl Listener {
    /// Subscribes, and returns when Redis has confirmed it.
    pub(super) async fn open(io: &Io, role: Role) -> Result<Self, BrokerError> {
        let (sender, requests) = mpsc::channel(WAITING);
        let news = move |news| {
            let request = match news {
                News::Push(push) => match request(&push) {
                    Some(id) => Some(id),
                    None => return,
                },
                // What was asked for meanwhile is lost: the listener must know.
                News::Lost => None,
                News::Connected => return,
            };
            if sender.try_send(request).is_err() {
                tracing::warn!("cancel requests come faster than they are taken; some were dropped");
            }
        };
        let mut subscribe = redis::cmd("SUBSCRIBE");
        subscribe.arg(CANCEL);
        let link = Link::open(io, Role { greeting: vec![subscribe], news: Some(Arc::new(news)), ..role });
        link.first_attempt().await?;
        Ok(Self { requests, _link: link })
    }
}

#[async_trait::async_trait]
impl Cancellations for Listener {
    async fn next(&mut self) -> Result<TaskId, BrokerError> {
        match self.requests.recv().await {
            Some(Some(id)) => Ok(id),
            Some(None) => Err(BrokerError::new(
                BrokerErrorKind::Unavailable,
                "the connection that listens for cancel requests was lost; listen again",
            )),
            None => Err(BrokerError::new(BrokerErrorKind::Closed, "the broker was closed by this program")),
        }
    }
}

/// The id in a message of the channel.
fn request(push: &PushInfo) -> Option<TaskId> {
    if push.kind != PushKind::Message {
        return None;
    }
    let id = push.data.get(1).cloned().and_then(reply::text)?;
    Some(TaskId::from_wire(&id))
}
