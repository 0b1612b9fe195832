//! Brokers that wait for an answer as long as a test does: a slow machine is not what a test is about.

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

/// The same for SQLite.
pub fn sqlite_options(clock: Option<Arc<dyn Clock>>) -> SqliteOptions {
    let mut options = SqliteOptions::default();
    options.clock = clock;
    options.call_timeout = PATIENCE;
    options
}

/// A broker at `url` whose calls do not time out before the test does; without a clock it keeps its own time.
pub async fn broker(url: &str, clock: Option<Arc<dyn Clock>>) -> Arc<dyn Broker> {
    if url.starts_with("sqlite:") {
        Arc::new(SqliteBroker::open(url, sqlite_options(clock)).await.expect("the file can be used"))
    } else {
        Arc::new(RedisBroker::connect(url, redis_options(clock)).await.expect("the Redis can be used"))
    }
}

/// A client of such a broker.
pub async fn client(url: &str) -> Client {
    Client::new(broker(url, None).await)
}
