//! Shapes on Redis: a string each (contract: `broker/shapes.rs`).

use bytes::Bytes;
use redis::Value;

use super::{RedisBroker, keys, reply, script::Call};
use crate::broker::{BrokerError, JoinShapes, LARGEST_SHAPE, NewShape, SHAPE_TTL, Shapes, StoredShapes};

/// Most writes of one shape that other programs write at the same time. Each adds at least the body of one of them.
const MOST_WRITES: usize = 16;

#[async_trait::async_trait]
impl Shapes for RedisBroker {
    async fn keep_shapes(&self, shapes: &[NewShape], join: JoinShapes) -> Result<(), BrokerError> {
        let key = |shape: &NewShape| keys::shape(&shape.job, shape.fingerprint);
        let (mut outcome, mut due) = (Ok(()), Vec::new());
        // One command per key, because the keys lie on different nodes of a Cluster.
        let kept = self.router.send(shapes.iter().map(|shape| read(&key(shape))).collect()).await?;
        for (shape, kept) in shapes.iter().cloned().zip(kept) {
            match kept.map(body) {
                Ok(None) => due.push((shape.clone(), None, Some(shape.body))),
                Ok(Some(kept)) => {
                    let new = join(&shape, &kept);
                    due.push((shape, Some(kept), new));
                }
                Err(error) => outcome = Err(error),
            }
        }
        for _ in 0..MOST_WRITES {
            if due.is_empty() {
                break;
            }
            let keep = |(shape, _, new): &(NewShape, Option<Bytes>, Option<Bytes>)| match new {
                Some(new) => {
                    Call::plain("SET").arg(key(shape)).arg(&new[..]).arg("EX").arg(SHAPE_TTL.as_secs()).arg("GET")
                }
                None => renew(&key(shape)),
            };
            let answers = self.router.send(due.iter().map(keep).collect()).await?;
            for ((shape, expected, new), answer) in std::mem::take(&mut due).into_iter().zip(answers) {
                match (answer.map(body), new) {
                    // Another program has written this body since the read. The next write adds it to all that this call has seen.
                    (Ok(Some(replaced)), Some(new)) if expected.as_ref() != Some(&replaced) => {
                        let shape = NewShape { body: new.clone(), ..shape };
                        let joined = join(&shape, &replaced).unwrap_or(replaced);
                        if joined != new {
                            due.push((shape, Some(new), Some(joined)));
                        }
                    }
                    (Ok(_), _) => {}
                    (Err(error), _) => outcome = Err(error),
                }
            }
        }
        outcome
    }

    async fn shape(&self, job: &str, fingerprint: Option<u32>) -> Result<Option<Bytes>, BrokerError> {
        let key = keys::shape(job, fingerprint);
        let mut answers = self.router.send(vec![read(&key), renew(&key)]).await?.into_iter();
        let stored = answers.next().unwrap_or(Ok(Value::Nil))?;
        // A login that may only read gets the shape all the same.
        if let Some(Err(error)) = answers.next() {
            tracing::debug!(job, "the expiry of a stored shape cannot be renewed: {error}");
        }
        Ok(body(stored))
    }

    fn stored_shapes(&self) -> &StoredShapes {
        &self.stored_shapes
    }
}

fn read(key: &str) -> Call {
    Call::plain("GETRANGE").arg(key).arg(0).arg(LARGEST_SHAPE)
}

fn renew(key: &str) -> Call {
    Call::plain("EXPIRE").arg(key).arg(SHAPE_TTL.as_secs())
}

/// Returns a stored body; GETRANGE returns no bytes for a key that is not there.
fn body(stored: Value) -> Option<Bytes> {
    reply::bytes(stored).filter(|stored| !stored.is_empty()).map(Bytes::from)
}
