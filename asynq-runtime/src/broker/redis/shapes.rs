//! Shapes on Redis: a string each (contract: `broker/shapes.rs`).

use bytes::Bytes;

use super::{RedisBroker, keys, reply, script::Call};
use crate::broker::{BrokerError, LARGEST_SHAPE, NewShape, SHAPE_TTL, Shapes, StoredShapes};

#[async_trait::async_trait]
impl Shapes for RedisBroker {
    async fn keep_shapes(&self, shapes: &[NewShape]) -> Result<(), BrokerError> {
        // One command per key, because the keys lie on different nodes of a Cluster.
        let keep = |shape: &NewShape| {
            let key = keys::shape(&shape.job, shape.fingerprint);
            Call::plain("SET").arg(key).arg(&shape.body[..]).arg("EX").arg(SHAPE_TTL.as_secs())
        };
        let answers = self.router.send(shapes.iter().map(keep).collect()).await?;
        answers.into_iter().try_for_each(|answer| answer.map(|_| ()))
    }

    async fn shape(&self, job: &str, fingerprint: Option<u32>) -> Result<Option<Bytes>, BrokerError> {
        let key = keys::shape(job, fingerprint);
        let read = Call::plain("GETRANGE").arg(&key).arg(0).arg(LARGEST_SHAPE);
        let stored = reply::bytes(self.router.send_one(read).await?).filter(|stored| !stored.is_empty());
        if stored.is_some() {
            let renew = Call::plain("EXPIRE").arg(&key).arg(SHAPE_TTL.as_secs());
            // A login that may only read gets the shape all the same.
            if let Err(error) = self.router.send_one(renew).await {
                tracing::debug!(job, "the expiry of a stored shape cannot be renewed: {error}");
            }
        }
        Ok(stored.map(Bytes::from))
    }

    fn stored_shapes(&self) -> &StoredShapes {
        &self.stored_shapes
    }
}
