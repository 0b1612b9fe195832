//! Fixtures: a private broker of each kind, tasks in every state, and snapshots of them.
//!
//! A case is written once against [`Fixture`] and compiled once per [`Store`]. The needs that a store cannot meet are data
//! ([`Store::GAPS`]), and a case with such a need is skipped with the reason.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, clippy::missing_errors_doc)] // a fixture that fails is a failed test

mod blocked_worker;
mod fixture;
mod go;
pub mod jobs;
pub mod journal;
pub mod library;
pub mod patient;
pub mod prometheus;
mod redis;
mod seed;
pub mod server;
mod slow_network;
mod snapshot;
mod sqlite;
mod sqlite_view;
pub mod unruly;
mod wall_clock;

pub use self::{
    blocked_worker::BlockedWorker,
    fixture::{Fixture, Need, PINNED, Store, join, polled},
    go::GoPeer,
    redis::{
        Authority, Dumped, Lent, RedisCluster, RedisStore, SentinelServers, Servers, Signed, StoreOn, TlsServer, Value,
    },
    seed::{
        Build, Seeded, archive, archive_with, becomes, complete, default_queue, done, group, lock_key, made, members,
        queue, requeue, retry, snooze, task, task_id,
    },
    slow_network::{NetworkOptions, SlowNetwork},
    snapshot::{Entry, Snapshot},
    sqlite::{SqliteFile, SqliteStore, SqliteViewStore},
    wall_clock::WallClock,
};

pub use asynq_test_support::{
    Calls, PATIENCE, Persistence, RedisServer, Stopped, eventually, eventually_blocking, fast_folder, has_go,
    note_skip, process, skip, soon,
};

/// A case's fixture on Redis.
pub type RedisFixture = Fixture<RedisStore>;
/// A case's fixture on a Redis Cluster of three masters.
pub type ClusterFixture = Fixture<StoreOn<RedisCluster>>;
/// A case's fixture on the primary that three sentinels watch.
pub type SentinelFixture = Fixture<StoreOn<SentinelServers>>;
/// A case's fixture on a Redis that speaks TLS only and asks for a client certificate.
pub type TlsFixture = Fixture<StoreOn<TlsServer>>;
/// A case's fixture on SQLite.
pub type SqliteFixture = Fixture<SqliteStore>;
/// A case's fixture on SQLite, where every task comes through the view `enqueue`.
pub type SqliteViewFixture = Fixture<SqliteViewStore>;
