//! A broker of its own for each run: a private redis-server, or a temporary SQLite file.

use asynq_runtime::prelude::BoxError;
use asynq_tests::{Persistence, RedisServer};
use tempfile::TempDir;

use crate::order::Order;

/// Where a run's tasks are; what is private is gone when dropped.
#[derive(Debug)]
pub(crate) enum RunBroker {
    /// Named by the caller.
    Given(String),
    Redis(RedisServer),
    Sqlite(TempDir),
}

impl RunBroker {
    /// A new one: `redis` keeps nothing on disk, `sqlite` writes every commit through, as it does for users; anything else
    /// is a URL.
    ///
    /// # Errors
    ///
    /// No place for temporary files.
    pub(crate) fn start(broker: &str) -> Result<Self, BoxError> {
        Ok(match broker {
            "redis" => Self::Redis(RedisServer::start(Persistence::None)),
            "sqlite" => Self::Sqlite(tempfile::tempdir()?),
            url => Self::Given(url.to_owned()),
        })
    }

    /// The order, to be carried out here.
    pub(crate) fn order(&self, order: &Order) -> Order {
        let (broker, url) = match self {
            Self::Given(url) => (if order.on_redis() { "redis" } else { "sqlite" }, url.clone()),
            Self::Redis(server) => ("redis", server.url()),
            Self::Sqlite(folder) => ("sqlite", format!("sqlite://{}", folder.path().join("bench.db").display())),
        };
        Order { broker: broker.to_owned(), url, ..order.clone() }
    }
}
