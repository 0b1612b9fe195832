//! Reads the numbers of all queues for a scrape, in bounded time however many queues there are, and even if some fail.

use std::{
    collections::{HashMap, HashSet},
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::{
    broker::{Broker, BrokerError, QueueStats},
    task::QueueName,
};
use futures_util::{StreamExt as _, future::OptionFuture, stream};
use tokio::{sync::Mutex, time::timeout_at};

/// Longest time that a scrape reads; Prometheus gives up after 10 s.
const BUDGET: Duration = Duration::from_secs(4);
/// The part of [`BUDGET`] that numbers may take; the rest is for memory, which is costly to estimate.
const FOR_NUMBERS: Duration = Duration::from_secs(3);
/// Queues that are read at the same time.
const AT_ONCE: usize = 32;
/// A scrape within this time after another gets the answer of that one.
const FRESH: Duration = Duration::from_secs(1);
/// Memory is estimated anew after this time.
const MEMORY_FRESH: Duration = Duration::from_secs(60);
/// How long a queue that could not be read in time keeps its last numbers.
const OLDEST: Duration = Duration::from_secs(300);

/// Reads queues for scrapes.
#[derive(Debug)]
pub(crate) struct Collector {
    broker: Arc<dyn Broker>,
    /// The lock admits one scrape at a time: a request that comes meanwhile takes its answer.
    cache: Mutex<CachedScrape>,
}

#[derive(Debug, Default)]
struct CachedScrape {
    queues: HashMap<QueueName, Queue>,
    last: Option<(Instant, Arc<Collected>)>,
}

/// The known numbers of a queue, and their ages.
#[derive(Debug, Clone)]
struct Queue {
    stats: QueueStats,
    read: Instant,
    memory: Option<(u64, Instant)>,
}

/// The result of a scrape.
#[derive(Debug, Clone, Default)]
pub(crate) struct Collected {
    /// Whether the broker named its queues.
    pub(crate) is_up: bool,
    /// How many queues the broker named.
    pub(crate) known: usize,
    /// Queues by name, with their memory in bytes where it is known.
    pub(crate) queues: Vec<(QueueStats, Option<u64>)>,
    /// Queues that could not be read.
    pub(crate) failed: usize,
    /// Queues for which there was no time; they keep their last numbers, and are the first of the next scrape.
    pub(crate) late: usize,
    /// How long the scrape took.
    pub(crate) took: Duration,
}

impl Collector {
    /// Creates a collector for one broker.
    pub(crate) fn new(broker: Arc<dyn Broker>) -> Self {
        Self { broker, cache: Mutex::default() }
    }

    /// Returns the numbers of the queues as they are now.
    pub(crate) async fn collect(&self) -> Arc<Collected> {
        let mut cache = self.cache.lock().await;
        if let Some((at, collected)) = &cache.last
            && at.elapsed() < FRESH
        {
            return Arc::clone(collected);
        }
        let collected = Arc::new(cache.read(&*self.broker, Instant::now()).await);
        cache.last = Some((Instant::now(), Arc::clone(&collected)));
        collected
    }
}

impl CachedScrape {
    async fn read(&mut self, broker: &dyn Broker, began: Instant) -> Collected {
        // Longer than a call waits for a connection by default, because only its error names the cause.
        let names = match within(began + BUDGET, broker.queues()).await {
            Some(Ok(names)) => names,
            failed => {
                if self.last.as_ref().is_none_or(|(_, before)| before.is_up) {
                    let error = failed.and_then(Result::err).map(|error| error.to_string());
                    let cause = error.unwrap_or_else(|| format!("no answer within {BUDGET:?}"));
                    log!(warn, "the queues cannot be read for the metrics: {cause}");
                }
                return Collected { took: began.elapsed(), ..Collected::default() };
            }
        };
        let known: HashSet<&QueueName> = names.iter().collect();
        self.queues.retain(|name, queue| known.contains(name) && queue.read + OLDEST > began);
        let order = oldest_first(&names, |name| self.queues.get(name).map(|queue| queue.read));
        let Readings { read, failed, late } =
            each(order, began + FOR_NUMBERS, |name| async move { broker.queue_stats(&name).await }).await;
        for (name, stats) in read {
            let memory = self.queues.get(&name).and_then(|queue| queue.memory);
            self.queues.insert(name, Queue { stats, read: began, memory });
        }
        // A queue that fails would show numbers that cannot be checked.
        for name in &failed {
            self.queues.remove(name);
        }
        self.estimate(broker, began).await;
        let mut queues: Vec<_> =
            self.queues.values().map(|queue| (queue.stats.clone(), queue.memory.map(|(bytes, _)| bytes))).collect();
        queues.sort_by(|(a, _), (b, _)| a.name.as_str().cmp(b.name.as_str()));
        Collected { is_up: true, known: names.len(), queues, failed: failed.len(), late, took: began.elapsed() }
    }

    /// Estimates the memory of queues whose last estimate is too old, as far as there is time.
    async fn estimate(&mut self, broker: &dyn Broker, began: Instant) {
        let is_due = |queue: &Queue| queue.memory.is_none_or(|(_, at)| at + MEMORY_FRESH <= began);
        let due: Vec<QueueName> = self.queues.values().filter(|q| is_due(q)).map(|q| q.stats.name.clone()).collect();
        let order = oldest_first(&due, |name| self.queues.get(name).and_then(|queue| Some(queue.memory?.1)));
        let Readings { read, .. } =
            each(order, began + BUDGET, |name| async move { broker.memory_usage(&name).await }).await;
        for (name, bytes) in read {
            if let Some(queue) = self.queues.get_mut(&name) {
                queue.memory = Some((bytes, began));
            }
        }
    }
}

/// Sorts queues by their last reads: queues that were never read come first.
fn oldest_first(names: &[QueueName], read: impl Fn(&QueueName) -> Option<Instant>) -> Vec<QueueName> {
    let mut order: Vec<_> = names.iter().map(|name| (read(name), name)).collect();
    order.sort_by_key(|(at, _)| *at);
    order.into_iter().map(|(_, name)| name.clone()).collect()
}

/// The results of reading several queues.
struct Readings<T> {
    read: Vec<(QueueName, T)>,
    failed: Vec<QueueName>,
    /// How many queues were not asked, or did not answer, before the time was over.
    late: usize,
}

/// Asks for each queue, some at a time, until the time is over.
async fn each<T, F>(names: Vec<QueueName>, until: Instant, ask: impl Fn(QueueName) -> F) -> Readings<T>
where
    F: Future<Output = Result<T, BrokerError>>,
{
    let mut readings = Readings { read: Vec::with_capacity(names.len()), failed: Vec::new(), late: 0 };
    let answers = stream::iter(names).map(|name| {
        // A call that begins after `until` would reach the broker all the same.
        let answer = OptionFuture::from((Instant::now() < until).then(|| within(until, ask(name.clone()))));
        async move { (name, answer.await.flatten()) }
    });
    let mut answers = std::pin::pin!(answers.buffer_unordered(AT_ONCE));
    while let Some((name, answer)) = answers.next().await {
        match answer {
            Some(Ok(answer)) => readings.read.push((name, answer)),
            Some(Err(error)) => {
                log!(debug, queue = %name, "a queue cannot be read for the metrics: {error}");
                readings.failed.push(name);
            }
            None => readings.late += 1,
        }
    }
    readings
}

/// Returns the answer, unless the time is over.
async fn within<T>(until: Instant, call: impl Future<Output = T>) -> Option<T> {
    timeout_at(until.into(), call).await.ok()
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::ready};

    use asynq_runtime::broker::redis::{RedisBroker, RedisOptions};
    use asynq_test_support::{Log, Persistence, RedisServer};

    use super::*;

    #[tokio::test]
    async fn the_cause_of_a_broker_that_is_down_is_in_the_log_once() {
        let (log, mut redis) = (Log::keep(), RedisServer::start(Persistence::None));
        let mut options = RedisOptions::default();
        // A call waits for a connection so long, and has the cause only then.
        options.call_timeout = FOR_NUMBERS + Duration::from_millis(100);
        let broker = RedisBroker::connect(&redis.url(), options).await.unwrap();
        redis.kill();
        // The first call finds the connection broken, and fails at once.
        broker.ping().await.unwrap_err();
        let collector = Collector::new(Arc::new(broker));
        for _ in 0..2 {
            assert!(!collector.collect().await.is_up);
            if let Some((at, _)) = &mut collector.cache.lock().await.last {
                *at -= FRESH;
            }
        }
        let lines = log.with("the queues cannot be read for the metrics: ");
        assert!(lines.len() == 1 && lines[0].contains("Redis cannot be reached"), "{log:?}");
    }

    #[tokio::test]
    async fn nothing_is_asked_once_the_time_is_over() {
        let names: Vec<QueueName> = (0..1000).map(|n| QueueName::new(&format!("q{n}")).unwrap()).collect();
        let calls = Cell::new(0);
        let ask = |_| {
            calls.set(calls.get() + 1);
            ready(Ok(()))
        };
        let readings = each(names.clone(), Instant::now(), ask).await;
        assert_eq!((calls.get(), readings.read.len(), readings.late), (0, 0, 1000));
        let readings = each(names, Instant::now() + Duration::from_secs(3_600), ask).await;
        assert_eq!((calls.get(), readings.read.len(), readings.late), (1000, 1000, 0));
    }
}
