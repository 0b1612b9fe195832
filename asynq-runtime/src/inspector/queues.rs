//! The numbers of all queues; a queue that cannot be read hides no other.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::{InspectError, Inspector};
use crate::{
    broker::{BrokerError, QueueStats},
    task::QueueName,
};

/// Queues that are read at the same time.
const AT_ONCE: usize = 32;

/// A queue, as far as it can be read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct QueueReading {
    /// The name of the queue.
    pub name: QueueName,
    /// The numbers, or the reason why they cannot be read: one of the queue's keys holds another kind of value, or the part of
    /// the broker that keeps the queue does not answer.
    pub stats: Result<QueueStats, BrokerError>,
}

impl Inspector {
    /// Returns every queue with its numbers, by name.
    ///
    /// # Errors
    ///
    /// [`InspectError::UnreadableQueue`] names the first queue that cannot be read; [`statistics`](Self::statistics) has the
    /// others all the same. Any other error: the broker failed.
    pub async fn queues(&self) -> Result<Vec<QueueStats>, InspectError> {
        let readings = self.each_queue().await?;
        readings
            .into_iter()
            .map(|QueueReading { name, stats }| {
                stats.map_err(|source| InspectError::UnreadableQueue { queue: name, source })
            })
            .collect()
    }

    /// Returns every queue by name, with its numbers or the reason why they cannot be read. It reads 32 queues at a time.
    ///
    /// # Errors
    ///
    /// The broker does not return its queues, or does not answer at all.
    #[doc(hidden)]
    pub async fn each_queue(&self) -> Result<Vec<QueueReading>, InspectError> {
        let names = self.broker.queues().await?;
        stream::iter(names.into_iter().map(|name| self.read_queue(name))).buffered(AT_ONCE).try_collect().await
    }

    /// Returns the numbers of one queue, or the reason why they cannot be read; all zero for a queue that does not exist.
    ///
    /// # Errors
    ///
    /// The broker does not answer at all.
    #[doc(hidden)]
    pub async fn read_queue(&self, name: QueueName) -> Result<QueueReading, InspectError> {
        let stats = self.broker.queue_stats(&name).await;
        if let Err(error) = &stats
            && error.is_unavailable()
        {
            // A Redis Cluster may have lost the node that keeps this queue; if the broker does not answer at all, the call fails.
            self.broker.ping().await?;
        }
        Ok(QueueReading { name, stats })
    }
}
