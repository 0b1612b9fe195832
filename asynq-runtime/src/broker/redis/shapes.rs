//! Shapes on Redis: a string each (contract: `broker/shapes.rs`).

use bytes::Bytes;
use redis::Value;

use super::{
    RedisBroker, keys, reply,
    script::{Call, KEEP_SHAPE},
};
use crate::broker::{BrokerError, JoinShapes, LARGEST_SHAPE, NewShape, SHAPE_TTL, Shapes, StoredShapes, unavailable};

/// Most tries to keep a shape that other programs keep at the same time.
const TRIES: usize = 16;

#[async_trait::async_trait]
impl Shapes for RedisBroker {
    async fn keep_shapes(&self, shapes: &[NewShape], join: JoinShapes) -> Result<(), BrokerError> {
        let key = |shape: &NewShape| keys::shape(&shape.job, shape.fingerprint);
        let mut outcome = Ok(());
        // Each with the body that is kept, as far as it is known, and the one to keep in its place.
        let mut due: Vec<(&NewShape, Option<Bytes>, Option<Bytes>)> =
            shapes.iter().map(|shape| (shape, None, Some(shape.body.clone()))).collect();
        for _ in 0..TRIES {
            // One call per key, because the keys lie on different nodes of a Cluster.
            let keep = |(shape, kept, new): &(&NewShape, Option<Bytes>, Option<Bytes>)| match new {
                Some(new) => self
                    .timed(&KEEP_SHAPE, &[key(shape)])
                    .arg(kept.as_deref().unwrap_or_default())
                    .arg(&new[..])
                    .arg(SHAPE_TTL.as_secs())
                    .arg(LARGEST_SHAPE),
                None => renew(&key(shape)),
            };
            let answers = self.router.send(due.iter().map(keep).collect()).await?;
            for ((shape, _, new), answer) in std::mem::take(&mut due).into_iter().zip(answers) {
                match (answer.map(body), new) {
                    (Ok(Some(kept)), Some(_)) => {
                        let new = join(shape, &kept);
                        due.push((shape, Some(kept), new));
                    }
                    (Ok(_), _) => {}
                    (Err(error), _) => outcome = Err(error),
                }
            }
            if due.is_empty() {
                return outcome;
            }
        }
        Err(unavailable("other programs keep the same shapes at this moment"))
    }

    async fn shape(&self, job: &str, fingerprint: Option<u32>) -> Result<Option<Bytes>, BrokerError> {
        let key = keys::shape(job, fingerprint);
        let read = Call::plain("GETRANGE").arg(&key).arg(0).arg(LARGEST_SHAPE);
        let [stored, renewed] = self.router.send_together([read, renew(&key)]).await?;
        let stored = stored?;
        // A login that may only read gets the shape all the same.
        if let Err(error) = renewed {
            log!(debug, job, "the expiry of a stored shape cannot be renewed: {error}");
        }
        Ok(body(stored))
    }

    fn stored_shapes(&self) -> &StoredShapes {
        self.stored_shapes.on_connection(self.router.generation())
    }
}

fn renew(key: &str) -> Call {
    Call::plain("EXPIRE").arg(key).arg(SHAPE_TTL.as_secs())
}

/// Returns a stored body; GETRANGE returns no bytes for a key that is not there.
fn body(stored: Value) -> Option<Bytes> {
    reply::bytes(stored).filter(|stored| !stored.is_empty()).map(Bytes::from)
}
