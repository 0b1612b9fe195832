//! What only the Redis broker can get wrong: fence, lost answers, forgotten scripts, full memory, wake-up.
#![cfg(feature = "redis")]
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "redis/connect.rs"]
mod connect;
#[path = "redis/direct.rs"]
mod direct;
#[path = "redis/fence.rs"]
mod fence;
#[path = "redis/fetching.rs"]
mod fetching;
#[path = "redis/foreign.rs"]
mod foreign;
#[path = "redis/groups.rs"]
mod groups;
#[path = "redis/idle.rs"]
mod idle;
#[path = "redis/lost.rs"]
mod lost;
#[path = "redis/presence.rs"]
mod presence;
#[path = "redis/repair.rs"]
mod repair;
#[path = "redis/schedule.rs"]
mod schedule;
#[path = "redis/server.rs"]
mod server;
#[path = "redis/store.rs"]
mod store;
#[path = "redis/tasks.rs"]
mod tasks;
#[path = "redis/wake.rs"]
mod wake;
