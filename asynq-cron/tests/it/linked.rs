//! The `#[periodic]` jobs of a program that makes its server itself.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use asynq_cron::prelude::*;
use asynq_runtime::{
    prelude::*,
    server::{Flags, ServerBuilder},
};
use asynq_test_support::{Log, eventually};
use tempfile::TempDir;

static RUNS: AtomicUsize = AtomicUsize::new(0);

#[periodic("* * * * * *")]
async fn counts() -> JobResult {
    RUNS.fetch_add(1, SeqCst);
    Ok(())
}

fn server(folder: &TempDir) -> ServerBuilder {
    Server::builder(format!("sqlite://{}", folder.path().join("jobs.db").display()))
}

#[tokio::test]
async fn a_server_that_a_program_builds_schedules_the_periodic_jobs_that_are_linked() {
    let folder = TempDir::new().expect("a folder");
    let running = server(&folder).build().await.expect("a server").start().await.expect("it starts");
    eventually("two ticks have run", async || (RUNS.load(SeqCst) >= 2).then_some(())).await;
    running.shutdown().await.expect("it leaves");
}

/// Without the message an engineer may wonder why the periodic jobs do not run.
#[tokio::test]
async fn a_server_whose_registry_is_given_says_that_it_has_no_scheduler() {
    let (folder, log) = (TempDir::new().expect("a folder"), Log::keep());
    let registry = || Registry::only::<(counts,)>().expect("a registry");
    for (builder, lines) in [
        (server(&folder).registry(registry()), 1),
        (server(&folder).registry(registry()).without_linked_services(), 0),
        (server(&folder).registry(registry()).service(asynq_cron::service()), 0),
    ] {
        let before = log.with("does not run where `registry` is given").len();
        drop(builder.build().await.expect("a server"));
        let logged = log.with("does not run where `registry` is given");
        assert_eq!(logged.len() - before, lines, "{logged:?}");
        assert!(logged.iter().all(|line| line.contains("scheduler")), "{logged:?}");
    }
}

#[tokio::test]
async fn one_scheduler_is_in_a_server_or_none_where_it_is_left_out() {
    let folder = TempDir::new().expect("a folder");
    let none = || Registry::from_descriptors([asynq_runtime::JobDescriptor::of::<counts>(file!(), line!())]);
    let no_schedule = || Flags::default().set("no-schedule", None);
    // A service that is made and dropped changes nothing.
    drop(asynq_cron::service());
    for (builder, expected) in [
        (server(&folder), &["scheduler"][..]),
        (server(&folder).service(asynq_cron::service().release(7)), &["scheduler"]),
        (server(&folder).without_linked_services(), &[]),
        (server(&folder).without_linked_services().service(asynq_cron::service()), &["scheduler"]),
        (server(&folder).registry(none().expect("a registry")), &[]),
        (server(&folder).flags(Flags::default().set("theirs", None)), &["scheduler"]),
        (server(&folder).flags(no_schedule()), &[]),
        (server(&folder).service(asynq_cron::service().release(7)).flags(no_schedule()), &[]),
        (server(&folder).without_linked_services().service(asynq_cron::service()).flags(no_schedule()), &[]),
    ] {
        let server = builder.build().await.expect("a server");
        assert_eq!(server.services().collect::<Vec<_>>(), expected);
    }
}
