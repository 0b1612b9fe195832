//! A broker of its own for each run: a private redis-server, or a temporary SQLite file.

use asynq_runtime::prelude::BoxError;
use asynq_tests::{Persistence, RedisServer};
use tempfile::TempDir;

use crate::order::Order;

/// The broker of a run; a private one is deleted on drop.
#[derive(Debug)]
pub(crate) enum RunBroker {
    /// A URL that the caller named.
    Given(String),
    Redis(RedisServer),
    Sqlite(TempDir),
}

impl RunBroker {
    /// Starts a broker: `redis` keeps nothing on disk, `sqlite` writes every commit through, as it does for users; any other text
    /// is a URL.
    ///
    /// # Errors
    ///
    /// There is no place for temporary files.
    pub(crate) fn start(broker: &str) -> Result<Self, BoxError> {
        Ok(match broker {
            "redis" => Self::Redis(RedisServer::start(Persistence::None)),
            "sqlite" => Self::Sqlite(tempfile::tempdir()?),
            url => Self::Given(url.to_owned()),
        })
    }

    /// Returns this private Redis behind the port that `before` has opened before its own.
    ///
    /// # Errors
    ///
    /// `before` failed, or this is not a private Redis.
    pub(crate) fn behind(&self, before: impl FnOnce(u16) -> Result<u16, BoxError>) -> Result<Self, BoxError> {
        let Self::Redis(server) = self else { return Err("only a private Redis has a port of its own".into()) };
        Ok(Self::Given(format!("redis://127.0.0.1:{}", before(server.port())?)))
    }

    /// Returns the order with the name and URL of this broker.
    pub(crate) fn order(&self, order: &Order) -> Order {
        let (broker, url) = match self {
            Self::Given(url) => (if order.on_redis() { "redis" } else { "sqlite" }, url.clone()),
            Self::Redis(server) => ("redis", server.url()),
            Self::Sqlite(folder) => ("sqlite", format!("sqlite://{}", folder.path().join("bench.db").display())),
        };
        Order { broker: broker.to_owned(), url, ..order.clone() }
    }
}
