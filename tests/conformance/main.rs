//! What every broker must do: the same cases, compiled once per broker (ARCHITECTURE §4.6).
//!
//! Files are named after the contracts, cases are sentences. `cargo test -p asynq-tests --test conformance sqlite::settle`
//! runs one file on one broker. Where a store cannot have what a case is about, the case prints a line that starts with
//! `gap:`; the reasons are in `Store::GAPS`.
#![allow(clippy::duplicate_mod, clippy::unwrap_used)] // duplicate on purpose: same cases, another broker

#[path = "."]
mod redis {
    use asynq_tests::RedisFixture as Fixture;

    mod bad_input;
    mod consume;
    mod diagnose;
    mod extremes;
    mod failures;
    mod fence;
    mod fence_writes;
    mod go_groups;
    mod go_peers;
    mod groups;
    mod inspect;
    mod maintain;
    mod model;
    mod pause;
    mod presence;
    mod produce;
    mod races;
    mod recover;
    mod repair;
    mod repair_many;
    mod repair_move;
    mod schedule;
    mod schedule_entry;
    mod schedule_overlap;
    mod schedule_served;
    mod schedulers;
    mod semaphore;
    mod served;
    mod served_blocked;
    mod sets;
    mod settle;
    mod settle_again;
    mod unique;
    mod wait_and_take;
    mod wake;
}

#[path = "."]
mod redis_cluster {
    use asynq_tests::ClusterFixture as Fixture;

    mod bad_input;
    mod consume;
    mod diagnose;
    mod extremes;
    mod failures;
    mod fence;
    mod fence_writes;
    mod go_groups;
    mod go_peers;
    mod groups;
    mod inspect;
    mod maintain;
    mod model;
    mod pause;
    mod presence;
    mod produce;
    mod races;
    mod recover;
    mod repair;
    mod repair_many;
    mod repair_move;
    mod schedule;
    mod schedule_entry;
    mod schedule_overlap;
    mod schedulers;
    mod semaphore;
    mod served;
    mod sets;
    mod settle;
    mod settle_again;
    mod unique;
    mod wait_and_take;
    mod wake;
}

#[path = "."]
mod redis_sentinel {
    use asynq_tests::SentinelFixture as Fixture;

    mod bad_input;
    mod consume;
    mod diagnose;
    mod extremes;
    mod failures;
    mod fence;
    mod fence_writes;
    mod go_groups;
    mod go_peers;
    mod groups;
    mod inspect;
    mod maintain;
    mod model;
    mod pause;
    mod presence;
    mod produce;
    mod races;
    mod recover;
    mod repair;
    mod repair_many;
    mod repair_move;
    mod schedule;
    mod schedule_entry;
    mod schedule_overlap;
    mod schedulers;
    mod semaphore;
    mod served;
    mod sets;
    mod settle;
    mod settle_again;
    mod unique;
    mod wait_and_take;
    mod wake;
}

#[path = "."]
mod redis_tls {
    use asynq_tests::TlsFixture as Fixture;

    mod bad_input;
    mod consume;
    mod diagnose;
    mod extremes;
    mod failures;
    mod fence;
    mod fence_writes;
    mod go_groups;
    mod go_peers;
    mod groups;
    mod inspect;
    mod maintain;
    mod model;
    mod pause;
    mod presence;
    mod produce;
    mod races;
    mod recover;
    mod repair;
    mod repair_many;
    mod repair_move;
    mod schedule;
    mod schedule_entry;
    mod schedule_overlap;
    mod schedulers;
    mod semaphore;
    mod served;
    mod sets;
    mod settle;
    mod settle_again;
    mod unique;
    mod wait_and_take;
    mod wake;
}

#[path = "."]
mod sqlite {
    use asynq_tests::SqliteFixture as Fixture;

    mod bad_input;
    mod consume;
    mod diagnose;
    mod extremes;
    mod failures;
    mod fence;
    mod fence_writes;
    mod go_groups;
    mod go_peers;
    mod groups;
    mod inspect;
    mod maintain;
    mod model;
    mod pause;
    mod presence;
    mod produce;
    mod races;
    mod recover;
    mod repair;
    mod repair_many;
    mod repair_move;
    mod schedule;
    mod schedule_entry;
    mod schedule_overlap;
    mod schedule_served;
    mod schedulers;
    mod semaphore;
    mod served;
    mod served_blocked;
    mod sets;
    mod settle;
    mod settle_again;
    mod unique;
    mod wait_and_take;
    mod wake;
}

/// The cases in which it matters how a task came in.
#[path = "."]
mod sqlite_view {
    use asynq_tests::SqliteViewFixture as Fixture;

    mod bad_input;
    mod consume;
    mod model;
    mod produce;
    mod races;
    mod unique;
    mod wait_and_take;
    mod wake;
}
