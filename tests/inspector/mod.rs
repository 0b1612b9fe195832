//! Operations through the typed API: the inspector, results, statistics and semaphores.
//!
//! Files are named after their subjects, cases are sentences. They run on SQLite; those whose answers depend on the broker beyond the
//! contracts that `conformance` tests run on Redis, too.
#![allow(clippy::duplicate_mod, clippy::unwrap_used)] // duplicate on purpose: same cases, another broker

#[path = "."]
mod redis {
    use asynq_tests::RedisFixture as Fixture;

    mod bulk;
    mod diagnosis;
    mod edit;
    mod removal;
    mod result;
    mod semaphore;
    mod statistics;
    mod tasks;
    mod wait;
}

#[path = "."]
mod sqlite {
    use asynq_tests::SqliteFixture as Fixture;

    mod bulk;
    mod diagnosis;
    mod edit;
    mod listing;
    mod queues;
    mod removal;
    mod result;
    mod semaphore;
    mod statistics;
    mod tasks;
    mod wait;
}
