//! Brokers that wait for an answer as long as a test does, so that a slow machine does not fail a test.

use std::sync::Arc;

use asynq_runtime::{
    Client,
    broker::{
        Broker,
        redis::{RedisBroker, RedisOptions},
        sqlite::{SqliteBroker, SqliteOptions},
    },
    clock::Clock,
};
use asynq_test_support::PATIENCE;

/// Options of Redis with which no call times out before the test does.
pub fn redis_options(clock: Option<Arc<dyn Clock>>) -> RedisOptions {
    let mut options = RedisOptions::default();
    options.clock = clock;
    options.call_timeout = PATIENCE;
    options
}

/// Options of SQLite with which no call times out before the test does.
pub fn sqlite_options(clock: Option<Arc<dyn Clock>>) -> SqliteOptions {
    let mut options = SqliteOptions::default();
    options.clock = clock;
    options.call_timeout = PATIENCE;
    options
}

/// Connects to a broker at `url` whose calls do not time out before the test does; without a clock the broker uses its own.
pub async fn broker(url: &str, clock: Option<Arc<dyn Clock>>) -> Arc<dyn Broker> {
    if url.starts_with("sqlite:") {
        Arc::new(SqliteBroker::open(url, sqlite_options(clock)).await.expect("the file can be used"))
    } else {
        Arc::new(RedisBroker::connect(url, redis_options(clock)).await.expect("the Redis can be used"))
    }
}

/// [`broker`] with the call timeout that a program has by default, for cases that measure real time.
pub async fn broker_with_default_timeout(url: &str, clock: Option<Arc<dyn Clock>>) -> Arc<dyn Broker> {
    if url.starts_with("sqlite:") {
        let mut options = sqlite_options(clock);
        options.call_timeout = SqliteOptions::default().call_timeout;
        Arc::new(SqliteBroker::open(url, options).await.expect("the file can be used"))
    } else {
        let mut options = redis_options(clock);
        options.call_timeout = RedisOptions::default().call_timeout;
        Arc::new(RedisBroker::connect(url, options).await.expect("the Redis can be used"))
    }
}

/// Connects a client to such a patient broker.
pub async fn client(url: &str) -> Client {
    Client::new(broker(url, None).await)
}
