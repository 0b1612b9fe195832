//! The numbers of all queues: now, and in the last hour for the charts.

mod series;
mod snapshot;
mod sweep;

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use asynq_runtime::broker::{Broker, BrokerError};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::task::AbortOnDropHandle;

use self::series::Rings;
pub(crate) use self::{
    series::{Point, Series},
    snapshot::{Snapshot, Totals},
    sweep::Pace,
};
use crate::failure::Failure;

/// Samples the queues while a page is open and for some time longer, as [`Pace`] says; and reads them at once on demand.
#[derive(Debug, Clone)]
pub(crate) struct Samples(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    broker: Arc<dyn Broker>,
    pace: Pace,
    rings: Mutex<Rings>,
    notifications: watch::Sender<Notification>,
    /// The lock admits one read at a time: a request that comes meanwhile takes its answer.
    reading: tokio::sync::Mutex<Option<CachedRead>>,
    sampler: OnceLock<AbortOnDropHandle<()>>,
    looks: Arc<Looks>,
}

/// The time at which a user last looked.
#[derive(Debug, Default)]
struct Looks {
    last: Mutex<Option<Instant>>,
    came: Notify,
}

impl Looks {
    /// Notes that a user looks now.
    fn note(&self) {
        *self.last.lock() = Some(Instant::now());
        self.came.notify_one();
    }

    /// Returns how long no user has looked; `None` if none ever did.
    fn since(&self) -> Option<Duration> {
        self.last.lock().map(|at| at.elapsed())
    }
}

/// The sampler's state, as its readers see it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notification {
    /// The latest numbers; `None` before the first sweep.
    pub(crate) latest: Option<Arc<Snapshot>>,
    /// The broker's error, if the broker does not answer now.
    pub(crate) away: Option<BrokerError>,
}

/// One read of all queues, with its duration.
#[derive(Debug, Clone)]
struct CachedRead {
    snapshot: Arc<Snapshot>,
    at: Instant,
    took: Duration,
}

impl CachedRead {
    /// Returns whether the read may be shown again: for four times as long as it took, so that ten thousand queues are
    /// not read anew for each of ten people.
    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < self.took * 4
    }
}

impl Samples {
    /// Creates samples of one broker; nothing is sampled before [`start`](Self::start).
    pub(crate) fn new(broker: Arc<dyn Broker>, pace: Pace) -> Self {
        Self(Arc::new(Shared {
            broker,
            pace,
            rings: Mutex::default(),
            notifications: watch::Sender::new(Notification::default()),
            reading: tokio::sync::Mutex::default(),
            sampler: OnceLock::new(),
            looks: Arc::default(),
        }))
    }

    /// Starts to sample, unless sampling has started; it ends when the last handle is dropped. Needs a tokio runtime.
    pub(crate) fn start(&self) {
        self.0.sampler.get_or_init(|| {
            let weak = Arc::downgrade(&self.0);
            AbortOnDropHandle::new(tokio::spawn(sweep::run(weak)))
        });
    }

    /// Calls [`start`](Self::start), unless `is_idle`.
    pub(crate) fn start_unless(&self, is_idle: bool) {
        if !is_idle {
            self.start();
        }
    }

    /// Returns all queues as they are now; where reading them takes long, as they were a moment ago.
    ///
    /// # Errors
    ///
    /// The broker failed.
    pub(crate) async fn snapshot(&self) -> Result<Arc<Snapshot>, Failure> {
        self.0.looks.note();
        Ok(self.0.read().await?)
    }

    /// Forgets the last read, because a user has just changed something.
    pub(crate) async fn forget(&self) {
        *self.0.reading.lock().await = None;
    }

    /// Returns the last hour of one queue, or of all together (`None`); empty for a queue that was not sampled yet.
    /// With very many queues this call makes the queue be sampled from now on.
    pub(crate) fn series(&self, queue: Option<&str>) -> Series {
        self.0.looks.note();
        self.0.rings.lock().series(queue, Instant::now())
    }

    /// Returns a receiver of the notifications.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Notification> {
        self.0.looks.note();
        self.0.notifications.subscribe()
    }
}

impl Shared {
    async fn read(&self) -> Result<Arc<Snapshot>, BrokerError> {
        let mut last = self.reading.lock().await;
        if let Some(read) = last.as_ref().filter(|read| read.is_fresh(Instant::now())) {
            return Ok(Arc::clone(&read.snapshot));
        }
        let began = Instant::now();
        let snapshot = Arc::new(snapshot::read(&self.broker).await?);
        *last = Some(CachedRead { snapshot: Arc::clone(&snapshot), at: Instant::now(), took: began.elapsed() });
        Ok(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use asynq_runtime::{
        Client, RawTask,
        broker::redis::{RedisBroker, RedisOptions},
    };
    use asynq_test_support::{Calls, PATIENCE, Persistence, RedisServer, eventually, soon};

    use super::*;

    const PACE: Pace = Pace { every: Duration::from_millis(5), awake: Duration::from_millis(50) };

    /// For how long the broker must not be asked. Without viewers a sample that takes a millisecond is followed by a pause of fifty.
    const LONG: Duration = Duration::from_secs(2);

    #[tokio::test]
    async fn the_broker_is_asked_nothing_when_no_user_has_looked_for_long() {
        let redis = RedisServer::start(Persistence::None);
        let mut options = RedisOptions::default();
        options.call_timeout = PATIENCE;
        let broker: Arc<dyn Broker> = Arc::new(RedisBroker::connect(&redis.url(), options).await.unwrap());
        Client::new(Arc::clone(&broker)).enqueue(RawTask::new("of Go", "x")).await.unwrap();
        let mut connection = redis.connection();
        let mut commands = move || Calls::ask(&mut connection).sum();
        let samples = Samples::new(broker, PACE);
        samples.start();
        for viewed in [false, true] {
            if viewed {
                let (before, mut notifications) = (commands(), samples.subscribe());
                for _ in 0..3 {
                    soon(notifications.changed()).await.unwrap();
                }
                assert!(commands() > before, "commands are counted");
            }
            eventually("the sampler asks nothing", async || {
                let before = commands();
                tokio::time::sleep(LONG).await;
                (commands() == before).then_some(())
            })
            .await;
        }
    }
}
