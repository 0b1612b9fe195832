//! Operations through the typed API: the inspector, results, statistics and semaphores, on every broker.
//!
//! Files are named after their subjects, cases are sentences; each is compiled once per broker, as in `conformance`.
#![allow(clippy::duplicate_mod, clippy::unwrap_used)] // duplicate on purpose: same cases, another broker

#[path = "."]
mod redis {
    use asynq_tests::RedisFixture as Fixture;

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
