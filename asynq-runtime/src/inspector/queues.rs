//! The numbers of all queues, where one that cannot be read hides no other.

use super::{InspectError, Inspector};
use crate::{
    broker::{BrokerError, QueueStats},
    task::QueueName,
};

/// One queue, as far as it can be read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct QueueReading {
    /// Its name.
    pub name: QueueName,
    /// Its numbers, or why they cannot be read: one of its keys holds something else, or the part of the broker that keeps
    /// this queue does not answer.
    pub stats: Result<QueueStats, BrokerError>,
}

impl Inspector {
    /// Every queue with its numbers, by name.
    ///
    /// # Errors
    ///
    /// [`InspectError::UnreadableQueue`] names the first queue that cannot be read; [`each_queue`](Self::each_queue) reads
    /// the others all the same. Or the broker failed.
    pub async fn queues(&self) -> Result<Vec<QueueStats>, InspectError> {
        let readings = self.each_queue().await?;
        readings
            .into_iter()
            .map(|QueueReading { name, stats }| {
                stats.map_err(|source| InspectError::UnreadableQueue { queue: name, source })
            })
            .collect()
    }

    /// Every queue by name, with its numbers or why they cannot be read.
    ///
    /// # Errors
    ///
    /// The broker failed: it does not tell its queues, or does not answer at all.
    pub async fn each_queue(&self) -> Result<Vec<QueueReading>, InspectError> {
        let mut readings = Vec::new();
        for name in self.broker.queues().await? {
            readings.push(self.read_queue(name).await?);
        }
        Ok(readings)
    }

    /// The numbers of one queue, or why they cannot be read; all zero for one that does not exist.
    ///
    /// # Errors
    ///
    /// The broker does not answer at all.
    pub async fn read_queue(&self, name: QueueName) -> Result<QueueReading, InspectError> {
        let stats = self.broker.queue_stats(&name).await;
        if let Err(error) = &stats
            && error.is_unavailable()
        {
            // A Redis Cluster may have lost the part that keeps this queue; where nothing answers, there are no rows.
            self.broker.ping().await?;
        }
        Ok(QueueReading { name, stats })
    }
}
