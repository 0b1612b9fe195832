//! A broker of one's own for each measurement: a temporary SQLite file, or a private redis-server.

use asynq_runtime::prelude::BoxError;
use asynq_tests::{Persistence, RedisServer};
use tempfile::TempDir;

/// The place of a broker; gone when dropped.
#[derive(Debug)]
pub(crate) enum Store {
    Sqlite(TempDir),
    Redis(RedisServer),
}

impl Store {
    /// A new one of this kind, `sqlite` or `redis`. Redis keeps nothing on disk; SQLite writes every commit through, as it
    /// does for users.
    ///
    /// # Errors
    ///
    /// An unknown kind, or no place for temporary files.
    pub(crate) fn start(kind: &str) -> Result<Self, BoxError> {
        match kind {
            "sqlite" => Ok(Self::Sqlite(tempfile::tempdir()?)),
            "redis" => Ok(Self::Redis(RedisServer::start(Persistence::None))),
            other => Err(format!("{other} is no broker that can be measured").into()),
        }
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Sqlite(folder) => format!("sqlite://{}", folder.path().join("bench.db").display()),
            Self::Redis(server) => server.url(),
        }
    }
}
