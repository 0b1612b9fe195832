//! The cases that every broker must pass, compiled once per broker.
//!
//! Files are named after the contracts, cases are sentences. `cargo test -p asynq-tests --test conformance sqlite::settle`
//! runs one file on one broker. A case that a store cannot have is skipped with the reason from `Store::GAPS`.
#![allow(clippy::duplicate_mod, clippy::unwrap_used)] // duplicate on purpose: same cases, another broker

mod machine;

/// Mounts each file of the list once per broker, as `<broker>::<file>`, with the broker's fixture as `super::Fixture`.
///
/// A broker runs the whole list, the list `except [file: "reason"]`, or `only [files]: "reason"`.
/// `tests/repository/src/cases.rs` reads the same lines and fails where a file is in no list.
macro_rules! cases {
    ($all:tt $($broker:ident: $fixture:ident $($how:ident $files:tt $(: $reason:literal)?)?;)+) => {
        $(cases!(@mount $broker $fixture $all $($how $files $(: $reason)?)?);)+
    };
    (@mount $broker:ident $fixture:ident $all:tt) => {
        cases!(@mount $broker $fixture $all except []);
    };
    (@mount $broker:ident $fixture:ident $all:tt only [$($file:ident),+ $(,)?]: $reason:literal) => {
        #[path = "."]
        mod $broker {
            use asynq_tests::$fixture as Fixture;
            $(mod $file;)+
        }
    };
    (@mount $broker:ident $fixture:ident [$($file:ident),+ $(,)?] except [$($without:ident: $reason:literal),* $(,)?]) => {
        #[path = "."]
        mod $broker {
            use asynq_tests::$fixture as Fixture;
            cases!(@each ($) [$($without)*] $($file)+);
        }
    };
    // `$dollar` stands for the dollar sign, which an inner macro needs for variables of its own.
    (@each ($dollar:tt) [$($without:ident)*] $($file:ident)+) => {
        macro_rules! mount {
            $(($without) => {};)*
            ($dollar file:ident) => { mod $dollar file; };
        }
        $(mount!($file);)+
    };
}

/// Makes a case of each attack for each of the five outcomes. `MINUTE` and the outcomes are those that the calling file imports.
macro_rules! every_outcome {
    ($($attack:ident)*) => {
        $(mod $attack {
            use super::*;

            #[tokio::test] async fn done_() { super::$attack(done()).await; }
            #[tokio::test] async fn complete_() { super::$attack(complete("42")).await; }
            #[tokio::test] async fn retry_() { super::$attack(retry(MINUTE, "boom")).await; }
            #[tokio::test] async fn archive_() { super::$attack(archive("fatal")).await; }
            #[tokio::test] async fn requeue_() { super::$attack(requeue()).await; }
        })*
    };
}

cases! {
    [
        await_end, bad_input, checkpoint, consume, debounce, diagnose, extremes, failures, fence, fence_writes, forward, go_groups, go_peers, groups,
        inspect, inspect_size, locks, maintain, model, pause, presence, produce, races, recover, repair, repair_many, repair_move,
        schedule, schedule_entry, schedule_overlap, schedule_provider, schedule_served, schedulers, semaphore,
        served, served_blocked, served_groups, sets, settle, settle_again, shapes, two_queues, unique, wait_and_take, wake,
    ]

    redis: RedisFixture;

    // Keys and slots matter to every script, so a cluster runs all cases.
    redis_cluster: ClusterFixture;

    // `consume`, `settle` and `races` use the connections that `produce` and `wait_and_take` use; `bad_input` sends what is large and
    // closes; the connection for cancel requests is used by `topologies`.
    redis_sentinel: SentinelFixture only [await_end, bad_input, diagnose, produce, served, wait_and_take, wake]:
        "scripts and keys are those of `redis`; these files use every kind of connection, in batches";

    redis_tls: TlsFixture only [await_end, bad_input, produce, served, wait_and_take, wake]:
        "scripts and keys are those of `redis`; these files use every kind of connection, in batches";

    sqlite: SqliteFixture;

    sqlite_view: SqliteViewFixture only [
        bad_input, consume, model, produce, races, unique, wait_and_take, wake,
    ]: "these are the cases in which it matters how a task came in";
}

// `cargo fmt` does not expand the macro and finds the files here.
#[cfg(any())]
#[path = "."]
mod formatted {
    mod await_end;
    mod bad_input;
    mod checkpoint;
    mod consume;
    mod debounce;
    mod diagnose;
    mod extremes;
    mod failures;
    mod fence;
    mod fence_writes;
    mod forward;
    mod go_groups;
    mod go_peers;
    mod groups;
    mod inspect;
    mod inspect_size;
    mod locks;
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
    mod schedule_provider;
    mod schedule_served;
    mod schedulers;
    mod semaphore;
    mod served;
    mod served_blocked;
    mod served_groups;
    mod sets;
    mod settle;
    mod settle_again;
    mod shapes;
    mod two_queues;
    mod unique;
    mod wait_and_take;
    mod wake;
}
