//! The dashboard's routes and its safety: each case sends requests over a real connection. Cases that meet a broker's own answers run
//! on every broker, the others on SQLite.
#![allow(clippy::duplicate_mod, clippy::unwrap_used)] // duplicate on purpose: same cases, another broker

mod stage;

#[path = "."]
mod redis {
    use asynq_tests::RedisFixture as Fixture;

    mod events;
    mod mishaps;
    mod nodes;
    mod secrets;
}

#[path = "."]
mod sqlite {
    use asynq_tests::SqliteFixture as Fixture;

    mod actions;
    mod api;
    mod events;
    mod groups;
    mod mishaps;
    mod nodes;
    mod routes;
    mod routes_attacks;
    mod secrets;
}

#[path = "."]
mod cluster {
    use asynq_tests::ClusterFixture as Fixture;

    mod masters;
    mod nodes;
}

// Outages: a Redis that dies, a SQLite file that is locked.
mod away;
// Cases that do not depend on the broker.
mod binding;
mod login;
mod mounting;
mod searches;
