//! The numbers of all queues: now, and in the last hour for the charts.

mod series;
mod snapshot;
mod sweep;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Release},
        },
    },
    time::{Duration, Instant},
};

use asynq_runtime::broker::Broker;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use self::series::Rings;
pub(crate) use self::{
    series::{Point, Series},
    snapshot::{Snapshot, Totals},
    sweep::Pace,
};
use crate::failure::{Failure, Kind};

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
    reading: Arc<tokio::sync::Mutex<()>>,
    last: Mutex<Option<CachedRead>>,
    /// The last failure of a read, and when it came.
    failed: Mutex<Option<(Instant, Failure)>>,
    /// How many changes users have made. A read that began before the last one may not show the change.
    changes: AtomicU64,
    sampler: OnceLock<AbortOnDropHandle<()>>,
    /// The time at which a user last looked; `None` if none ever did.
    looked: watch::Sender<Option<Instant>>,
}

/// The sampler's state, as its readers see it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notification {
    /// The latest numbers; `None` before the first sweep.
    pub(crate) latest: Option<Arc<Snapshot>>,
    /// Whether the queues cannot be read now.
    pub(crate) is_away: bool,
}

/// One read of all queues, with its duration.
#[derive(Debug, Clone)]
struct CachedRead {
    snapshot: Arc<Snapshot>,
    at: Instant,
    took: Duration,
    /// The number of changes when the read began.
    changes: u64,
}

impl CachedRead {
    /// Returns whether the read may be shown again: for four times as long as it took, so that ten thousand queues are
    /// not read anew for each of ten people.
    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < self.took * 4
    }

    /// Returns whether the read is younger than two pauses of a sampler that is awake; an older one is from before a sleep.
    fn is_recent(&self, now: Instant, pace: Pace) -> bool {
        now.saturating_duration_since(self.at) < pace.pause(self.took, false) * 2
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
            reading: Arc::default(),
            last: Mutex::default(),
            failed: Mutex::default(),
            changes: AtomicU64::default(),
            sampler: OnceLock::new(),
            looked: watch::Sender::new(None),
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
        self.0.look();
        self.0.read().await
    }

    /// Returns all queues as they were in the last read, without waiting for another; `None` if the read is from before a change
    /// of a user, or from before a sleep of the sampler.
    pub(crate) fn recent(&self) -> Option<Arc<Snapshot>> {
        self.0.look();
        self.0.last_read(|read| read.is_recent(Instant::now(), self.0.pace))
    }

    /// Forgets the last read, and the one that is under way, because a user has just changed something. It does not wait for a
    /// read: the change is made, and its answer must not come late.
    pub(crate) fn forget(&self) {
        self.0.changes.fetch_add(1, Release);
    }

    /// Returns the last hour of one queue, or of all together (`None`); empty for a queue that was not sampled yet.
    /// With very many queues this call makes the queue be sampled from now on.
    pub(crate) fn series(&self, queue: Option<&str>) -> Series {
        self.0.look();
        self.0.rings.lock().series(queue, Instant::now())
    }

    /// Returns a receiver of the notifications.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Notification> {
        self.0.look();
        self.0.notifications.subscribe()
    }
}

impl Shared {
    /// Notes that a user looks now.
    fn look(&self) {
        self.looked.send_replace(Some(Instant::now()));
    }

    /// Reads all queues, unless the last read is fresh. The read is a task of its own, which goes on when the request that waits for
    /// it is cancelled: a browser gives up before very many queues are read, and its next request takes the answer.
    async fn read(self: &Arc<Self>) -> Result<Arc<Snapshot>, Failure> {
        let came = Instant::now();
        let one_at_a_time = Arc::clone(&self.reading).lock_owned().await;
        let began = Instant::now();
        if let Some(snapshot) = self.last_read(|read| read.is_fresh(began)) {
            return Ok(snapshot);
        }
        // While the broker is away, each read would take until its time-out, one after the other.
        if let Some(failure) = self.failed_since(came) {
            return Err(failure);
        }
        let changes = self.changes.load(Acquire);
        let shared = Arc::clone(self);
        let read = tokio::spawn(async move {
            let _one_at_a_time = one_at_a_time;
            let read = snapshot::read(&shared.broker).await.map_err(Failure::from);
            let snapshot =
                Arc::new(read.inspect_err(|failure| *shared.failed.lock() = Some((Instant::now(), failure.clone())))?);
            let read =
                CachedRead { snapshot: Arc::clone(&snapshot), at: Instant::now(), took: began.elapsed(), changes };
            *shared.last.lock() = Some(read);
            Ok::<_, Failure>(snapshot)
        });
        read.await.unwrap_or_else(|ended| {
            let message = format!("the read of the queues ended: {ended}");
            Err(Failure::new(Kind::Internal, message))
        })
    }

    /// Returns the failure of the last read that failed, if it ended after `came`.
    fn failed_since(&self, came: Instant) -> Option<Failure> {
        self.failed.lock().as_ref().filter(|(at, _)| *at >= came).map(|(_, failure)| failure.clone())
    }

    /// Returns the last read, if it began after the last change and `is_good`.
    fn last_read(&self, is_good: impl FnOnce(&CachedRead) -> bool) -> Option<Arc<Snapshot>> {
        let last = self.last.lock();
        let read = last.as_ref().filter(|&read| read.changes == self.changes.load(Acquire) && is_good(read))?;
        Some(Arc::clone(&read.snapshot))
    }
}

#[cfg(test)]
mod tests {
    use asynq_runtime::{
        Client, RawTask,
        broker::redis::{RedisBroker, RedisOptions},
    };
    use asynq_test_support::{Calls, PATIENCE, Persistence, RedisServer, eventually, soon};
    use chrono::DateTime;
    use futures_util::FutureExt as _;

    use super::*;

    const PACE: Pace = Pace { every: Duration::from_millis(5), awake: Duration::from_millis(50) };

    /// For how long the broker must not be asked. Without viewers a sample that takes a millisecond is followed by a pause of fifty.
    const LONG: Duration = Duration::from_secs(2);

    async fn connect(redis: &RedisServer) -> Arc<dyn Broker> {
        let mut options = RedisOptions::default();
        options.call_timeout = PATIENCE;
        Arc::new(RedisBroker::connect(&redis.url(), options).await.unwrap())
    }

    #[tokio::test]
    async fn a_change_waits_for_no_read_and_is_in_the_next() {
        let redis = RedisServer::start(Persistence::None);
        let samples = Samples::new(connect(&redis).await, PACE);
        let stopped = redis.stop();
        let mut read = Box::pin(samples.snapshot());
        assert!(read.as_mut().now_or_never().is_none(), "the broker does not answer");
        samples.forget();
        drop(stopped);
        let before = soon(read).await.unwrap();
        // However long a read may be shown again, one that began before the change is not.
        samples.0.last.lock().as_mut().unwrap().took = PATIENCE;
        assert!(samples.recent().is_none());
        let after = samples.snapshot().await.unwrap();
        assert!(!Arc::ptr_eq(&before, &after));
        samples.0.last.lock().as_mut().unwrap().took = PATIENCE;
        assert!(Arc::ptr_eq(&after, &samples.recent().unwrap()));
        assert!(Arc::ptr_eq(&after, &samples.snapshot().await.unwrap()));
        samples.forget();
        assert!(samples.recent().is_none());
        assert!(!Arc::ptr_eq(&after, &samples.snapshot().await.unwrap()));
    }

    #[tokio::test]
    async fn a_read_goes_on_when_the_request_that_waits_for_it_is_cancelled() {
        let redis = RedisServer::start(Persistence::None);
        let samples = Samples::new(connect(&redis).await, PACE);
        let stopped = redis.stop();
        assert!(samples.snapshot().now_or_never().is_none(), "the broker does not answer");
        drop(stopped);
        eventually("the read has ended", async || samples.0.last.lock().is_some().then_some(())).await;
    }

    #[tokio::test]
    async fn a_failure_is_that_of_all_requests_that_waited_for_the_read() {
        let redis = RedisServer::start(Persistence::None);
        let broker = connect(&redis).await;
        let samples = Samples::new(Arc::clone(&broker), PACE);
        broker.close().await;
        let mut requests: Vec<_> = (0..3).map(|_| Box::pin(samples.snapshot())).collect();
        for request in &mut requests {
            assert!(request.as_mut().now_or_never().is_none(), "the read has not ended");
        }
        let mut requests = requests.into_iter();
        assert!(soon(requests.next().unwrap()).await.is_err());
        for request in requests {
            assert!(matches!(request.now_or_never(), Some(Err(_))), "it makes a read of its own");
        }
        assert!(samples.snapshot().now_or_never().is_none(), "a request that comes later asks again");
    }

    #[test]
    fn a_read_from_before_a_sleep_of_the_sampler_is_not_recent() {
        let at = Instant::now();
        let snapshot = Arc::new(Snapshot::new(DateTime::UNIX_EPOCH, Vec::new(), Vec::new()));
        for (took, age, expected) in [(0, 0, true), (0, 9, true), (0, 10, false), (1, 97, true), (1, 98, false)] {
            let read = CachedRead { snapshot: Arc::clone(&snapshot), at, took: Duration::from_secs(took), changes: 0 };
            let now = at + Duration::from_secs(age);
            assert_eq!(read.is_recent(now, Pace::default()), expected, "{took} s, {age} s ago");
        }
    }

    #[tokio::test]
    async fn the_broker_is_asked_nothing_when_no_user_has_looked_for_long() {
        let redis = RedisServer::start(Persistence::None);
        let broker = connect(&redis).await;
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
