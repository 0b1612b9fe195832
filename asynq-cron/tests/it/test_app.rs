//! Periodic jobs in a `TestApp`: they fire when the test advances its clock.

use asynq_cron::prelude::*;
use asynq_runtime::{prelude::*, task::TaskState, testing::TestApp};
use chrono::{DateTime, Timelike as _};

#[periodic("0 9 * * *", tz = "Europe/Berlin")]
async fn test_app_report(tick: Tick) {
    println!("for {}", tick.scheduled_at());
}

#[periodic("@every 1h", overlap = "skip", retention = "1d")]
async fn test_app_sweep() {}

#[tokio::test]
async fn a_periodic_job_fires_at_its_times_when_the_clock_is_turned() {
    let only = || Registry::only::<(test_app_report,)>().expect("a registry");
    let app = TestApp::new().await.server(|server| server.registry(only())).with_schedules();
    assert_eq!(app.drain().await.succeeded, 0, "nothing was due before time passed");
    app.advance("7d").await;
    let tasks = app.tasks().await;
    assert_eq!(tasks.len(), 7);
    for task in &tasks {
        let (_, at) = task.headers.iter().find(|(key, _)| key == "asynq-cron-at").expect("its tick");
        let at = DateTime::from_timestamp(at.parse().expect("seconds"), 0).expect("a time");
        assert!(at <= app.now() && [7, 8].contains(&at.hour()) && at.minute() == 0, "9:00 in Berlin: {at}");
    }
    assert_eq!(app.drain().await.succeeded, 7);
    app.advance("30m").await;
    app.advance("23h30m").await;
    assert_eq!(app.drain().await.succeeded, 1, "no tick fires twice");

    let without = TestApp::new().await.server(|server| server.registry(only()));
    without.advance("7d").await;
    assert_eq!(without.tasks().await.len(), 0);
}

#[periodic("@every 1h", unique = "1d")]
async fn test_app_digest() {}

#[tokio::test]
async fn a_tick_whose_lock_is_taken_is_left_out_as_by_a_scheduler() {
    let only = Registry::only::<(test_app_digest,)>().expect("a registry");
    let app = TestApp::new().await.server(|server| server.registry(only)).with_schedules();
    app.advance("3h").await;
    assert_eq!(app.drain().await.succeeded, 1, "the first tick holds the lock until its task has run");
    app.advance("1h").await;
    assert_eq!(app.drain().await.succeeded, 1);
}

#[tokio::test]
async fn the_clock_starts_at_the_time_that_the_test_chooses() {
    let start = "2026-03-28T12:00:00Z".parse().expect("a time");
    let only = Registry::only::<(test_app_report,)>().expect("a registry");
    let app = TestApp::new().await.starting_at(start).server(|server| server.registry(only)).with_schedules();
    assert_eq!(app.now(), start);
    app.advance("1d").await;
    let tasks = app.tasks().await;
    let at = tasks[0].headers.iter().find(|(key, _)| key == "asynq-cron-at").expect("its tick").1.clone();
    let nine_in_summer = DateTime::parse_from_rfc3339("2026-03-29T07:00:00Z").expect("a time");
    assert_eq!((tasks.len(), at), (1, nine_in_summer.timestamp().to_string()));
    assert_eq!(app.drain().await.succeeded, 1);
}

#[tokio::test]
async fn a_tick_is_left_out_while_the_task_of_the_last_one_waits() {
    let only = Registry::only::<(test_app_sweep,)>().expect("a registry");
    let app = TestApp::new().await.server(|server| server.registry(only)).with_schedules();
    app.advance("5h").await;
    assert_eq!(app.drain().await.succeeded, 1);
    app.advance("1h").await;
    assert_eq!(app.drain().await.succeeded, 1);
}

#[periodic("@monthly")]
async fn test_app_moment(tick: Tick) -> JobResult<i64> {
    Ok(tick.scheduled_at().timestamp())
}

#[tokio::test]
async fn the_ticks_of_a_job_that_other_workers_run_are_enqueued_as_by_a_worker() {
    let only = Registry::only::<(test_app_sweep, test_app_moment)>().expect("a registry");
    let app = TestApp::new().await.server(|server| server.registry(only).except(["test_app_sweep"])).with_schedules();
    app.advance("1h").await;
    assert_eq!(app.enqueued::<test_app_sweep>().await.len(), 1);
    assert_eq!(app.drain().await.requeued, 1, "the job is not run here");
}

#[tokio::test]
async fn a_task_that_no_schedule_enqueued_has_the_time_of_the_applications_clock() {
    let start = "2026-03-28T12:00:00Z".parse().expect("a time");
    let only = Registry::only::<(test_app_moment,)>().expect("a registry");
    let app = TestApp::new().await.starting_at(start).server(|server| server.registry(only));
    let task = test_app_moment::job().awaited().enqueue(app.client()).await.expect("a task");
    assert_eq!(app.wait(&task, "1m").await.done().expect("a result"), start.timestamp());
}

#[tokio::test]
async fn a_wait_stops_at_each_tick_on_its_way() {
    let start = "2026-03-28T12:00:00Z".parse().expect("a time");
    let only = Registry::only::<(test_app_sweep, test_app_moment)>().expect("a registry");
    let app = TestApp::new().await.starting_at(start).server(|server| server.registry(only)).with_schedules();
    let task = test_app_moment::job().process_in("5h30m").awaited().enqueue(app.client()).await.expect("a task");
    assert!(app.wait(&task, "6h").await.done().is_ok());
    let tasks = app.tasks().await;
    let swept = tasks.iter().filter(|task| task.r#type == "test_app_sweep" && task.state == TaskState::Completed);
    assert_eq!(swept.count(), 5, "each run ends before the next tick");
}
