//! Warnings before keys that delete, and keys on tasks that have moved.

use std::time::Duration;

use asynq_runtime::{
    broker::{BulkAction, EntryId, EntryPlan, ServerName},
    inspector::Force,
    task::{ArchiveLimit, QueueWeight, SchedulerEntry, ServerInfo},
};
use asynq_tests::{Build as _, Store as _, queue, task, task_id};

use super::{requests::Answer, *};
use crate::dash::{
    load::Listing,
    model::{Act, TaskAct, TheTask},
};

#[tokio::test]
async fn archiving_into_a_full_archive_warns_of_the_deletion() {
    let mut watcher = Watcher::start().await;
    let broker = watcher.client.broker().clone();
    let info = ServerInfo {
        rust_version: "0.1.0".into(),
        queues: vec![QueueWeight { queue: Some("default".into()), weight: Some(1) }],
        archives: vec![ArchiveLimit { queue: "default".into(), tasks: 1 }],
        ..ServerInfo::default()
    };
    let name = ServerName { host: "small".into(), pid: 1, server_id: "small".into() };
    broker.join(&name, &info).await.unwrap();
    watcher.keys("j\n").await;
    watcher.select_tab(TaskState::Scheduled).await;
    let archived = watcher.client.inspector().queue("default").await.unwrap().archived;
    watcher.keys("a").await;
    let Some(Dialog::Sure(question, _)) = &watcher.model.dialog else { panic!("{}", watcher.text()) };
    let expected = format!("The archive keeps 1 task and holds {archived}: the oldest will be DELETED.");
    assert!(question.starts_with(&expected), "{question}");
    watcher.keys("n").await;
    assert_eq!(watcher.client.inspector().queue("default").await.unwrap().archived, archived, "no is no");
}

#[tokio::test]
async fn a_question_with_long_names_is_whole_and_has_its_keys() {
    let mut watcher = Watcher::start().await;
    let long = |part: &str| QueueName::from_wire(&part.repeat(6));
    let the_task =
        TheTask { queue: long("tenant:north-"), id: task_id(&"invoice-2026:".repeat(4)), state: TaskState::Retry };
    let question = format!("The oldest will be DELETED. Archive task {} of queue {}?", the_task.id, the_task.queue);
    let dialog = Dialog::Sure(question, Act::Task(TaskAct::Change(BulkAction::Archive), the_task));
    for (columns, rows) in [(80, 24), (40, 24), (40, 8)] {
        watcher.terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        watcher.model.dialog = Some(dialog.clone());
        watcher.follow(Step::Stay).await;
        watcher.shows(&["DELETED", "any other key: no"]);
        assert!(rows == 8 || watcher.text().contains("north-?"), "the end of the question\n{}", watcher.text());
    }
}

#[tokio::test]
async fn a_long_note_is_whole_and_leaves_the_page_as_it_is() {
    let mut watcher = Watcher::start().await;
    watcher.terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    watcher.keys("j\n").await;
    let room = watcher.model.room;
    let words: Vec<String> = (10..37).map(|n| format!("word-{n}")).collect();
    let step = watcher.model.show_result(Ok(words.join(" ")));
    watcher.follow(step).await;
    watcher.shows(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(watcher.model.room, room);
}

#[tokio::test]
async fn the_result_of_a_change_stays_while_the_broker_is_away() {
    let mut watcher = Watcher::start().await;
    watcher.client.broker().close().await;
    let step = watcher.model.show_result(Ok("task 7 is pending".into()));
    watcher.follow(step).await;
    assert_eq!(watcher.note(), "task 7 is pending");
    // This key has no meaning.
    watcher.keys("x").await;
    watcher.follow(Step::Load).await;
    assert!(watcher.model.note.as_ref().is_some_and(|note| note.is_error), "{}", watcher.note());
}

#[tokio::test]
async fn a_task_that_has_moved_since_it_was_shown_is_left() {
    let mut watcher = Watcher::start().await;
    let inspector = watcher.client.inspector();
    watcher.keys("j\n").await;
    watcher.select_tab(TaskState::Retry).await;
    watcher.keys("d").await;
    inspector.run("default", "retry").await.unwrap();
    watcher.keys("y").await;
    assert!(watcher.note().contains("it is pending now, not retry"), "{}", watcher.note());
    assert_eq!(inspector.task("default", "retry").await.unwrap().state, TaskState::Pending);
    watcher.select_tab(TaskState::Pending).await;
    watcher.keys("cy").await;
    assert!(watcher.note().contains("is pending, not running; there is no run to cancel"), "{}", watcher.note());
}

#[tokio::test]
async fn a_queue_that_was_deleted_since_it_was_shown_is_not_paused() {
    let mut watcher = Watcher::start().await;
    watcher.client.inspector().delete_queue("critical", Force::Yes).await.unwrap();
    watcher.keys("p").await;
    assert!(watcher.note().contains("`critical` was not found"), "{}", watcher.note());
    assert!(!watcher.client.broker().queue_stats(&queue("critical")).await.unwrap().paused);
}

#[tokio::test]
async fn a_cancelled_task_that_no_worker_runs_is_ended_in_its_own_queue() {
    let mut watcher = Watcher::start().await;
    let inspector = watcher.client.inspector();
    watcher.fixture.start_run(task("active").in_queue("other")).await;
    watcher.fixture.let_leases_pass();
    watcher.keys("j\n").await;
    watcher.select_tab(TaskState::Active).await;
    watcher.keys("cy").await;
    assert_eq!(watcher.note(), "no worker ran task active any more; the attempt counts as failed");
    assert_eq!(inspector.task("default", "active").await.unwrap().state, TaskState::Retry);
    assert_eq!(inspector.task("other", "active").await.unwrap().state, TaskState::Active, "its queue was not shown");
    watcher.fixture.start_run(task("alive").in_queue("living")).await;
    let alive = TheTask { queue: queue("living"), id: task_id("alive"), state: TaskState::Active };
    let told = act::perform(&watcher.client, Act::Task(TaskAct::Cancel, alive)).await.unwrap();
    assert_eq!(told, "the worker of task alive is asked to stop it");
}

#[tokio::test]
async fn the_choice_follows_its_task_and_no_key_acts_on_another_in_its_place() {
    let mut watcher = Watcher::start().await;
    let inspector = watcher.client.inspector();
    watcher.keys("j\n").await;
    watcher.select_tab(TaskState::Pending).await;
    for id in ["b", "c"] {
        watcher.client.enqueue(asynq_runtime::RawTask::new("mail", "{}").task_id(id)).await.unwrap();
    }
    watcher.follow(Step::Load).await;
    watcher.keys("G").await;
    let Some(first) = inspector.tasks("default", TaskState::Pending).await.unwrap().into_iter().next() else {
        panic!()
    };
    inspector.archive("default", &first.id).await.unwrap();
    watcher.follow(Step::Load).await;
    watcher.keys("d").await;
    let asked = |watcher: &Watcher| match &watcher.model.dialog {
        Some(Dialog::Sure(question, _)) => question.clone(),
        _ => String::new(),
    };
    assert!(asked(&watcher).starts_with("Delete task c of"), "{}", watcher.text());
    watcher.keys("n").await;
    watcher.keys("k").await;
    inspector.delete("default", "b").await.unwrap();
    watcher.follow(Step::Load).await;
    watcher.keys("p").await;
    assert!(inspector.queue("default").await.unwrap().paused, "the queue of the list is not a row of it");
    watcher.keys("r").await;
    assert_eq!(watcher.note(), "the chosen entry is gone from here: look again");
    // One that asks says which task it is about.
    watcher.keys("dy").await;
    assert!(watcher.note() == "task c is deleted", "{}", watcher.note());
    assert!(inspector.task("default", "c").await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn the_choice_stays_on_the_entry_of_its_queue() {
    let mut watcher = Watcher::start().await;
    // This schedule is the last of the list.
    let entry = |queue: &str| SchedulerEntry {
        id: "both".into(),
        spec: "TZ=UTC @yearly".into(),
        task_type: "report".into(),
        enqueue_options: vec![format!("Queue(\"{queue}\")")],
        ..SchedulerEntry::default()
    };
    let both = [entry("first"), entry("second")];
    watcher.client.broker().show_entries("mail-1:4711:both", &both, Duration::from_secs(60)).await.unwrap();
    watcher.keys("3G").await;
    watcher.follow(Step::Load).await;
    watcher.keys("r").await;
    assert!(watcher.note().ends_with("is in queue second"), "{}", watcher.note());
}

#[tokio::test]
async fn an_entry_that_another_user_paused_is_not_said_to_be_one_that_cannot_be_paused() {
    let watcher = Watcher::start().await;
    let plan = EntryPlan {
        queue: queue("low"),
        entry: EntryId::from_wire("ours"),
        spec: "@daily".into(),
        zone: "UTC".into(),
        revision: 1,
        supersedes: None,
        keep: Duration::from_secs(86_400),
    };
    watcher.client.broker().plan_entry(&plan).await.unwrap();
    let entry = SchedulerEntry {
        id: "ours".into(),
        enqueue_options: vec!["Queue(\"low\")".into()],
        ..SchedulerEntry::default()
    };
    for (paused, expected) in [
        (true, "the entry is paused"),
        (true, "nothing changed: the entry was paused already, or no Rust scheduler has planned it"),
        (false, "the entry goes on with its next tick"),
        (false, "the entry was not paused"),
    ] {
        let act = Act::PauseEntry(Box::new(entry.clone()), paused);
        assert_eq!(act::perform(&watcher.client, act).await.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_page_with_a_task_that_cannot_be_read_is_not_the_last() {
    let mut watcher = Watcher::start().await;
    watcher.keys("j\n").await;
    watcher.select_tab(TaskState::Pending).await;
    for n in 0..watcher.model.room {
        watcher.client.enqueue(asynq_runtime::RawTask::new("mail", "{}").task_id(format!("t{n}"))).await.unwrap();
    }
    watcher.fixture.store.overwrite_message(&QueueName::from_wire("default"), &asynq_tests::task_id("t0"), b"\xff");
    watcher.follow(Step::Load).await;
    assert_eq!(watcher.model.screen().rows(), watcher.model.room - 1);
    let page = |watcher: &Watcher| match &watcher.model.screen().wanted {
        Wanted::Tasks(Listing { page, .. }) => *page,
        other => panic!("{other:?}"),
    };
    watcher.keys("n").await;
    assert_eq!((page(&watcher), watcher.model.screen().rows() > 0), (2, true));
    watcher.keys("n").await;
    assert_eq!(page(&watcher), 2, "it is the last");
    watcher.keys("N").await;
    assert_eq!(page(&watcher), 1);
}

#[tokio::test]
async fn a_page_beyond_the_end_gives_way_to_the_last() {
    let mut watcher = Watcher::start().await;
    let page = |watcher: &Watcher| match &watcher.model.screen().wanted {
        Wanted::Tasks(Listing { page, .. }) => (*page, watcher.model.screen().rows()),
        other => panic!("{other:?}"),
    };
    watcher.keys("j\n").await;
    watcher.select_tab(TaskState::Pending).await;
    for (rows, expected) in [(10, (4, 1)), (40, (1, 4))] {
        watcher.terminal.backend_mut().resize(120, rows);
        watcher.follow(Step::Stay).await;
        watcher.keys("nnn").await;
        assert_eq!(page(&watcher), expected, "{}", watcher.text());
    }
    watcher.terminal.backend_mut().resize(120, 10);
    watcher.follow(Step::Stay).await;
    watcher.keys("nnndy").await;
    assert_eq!(page(&watcher), (3, 1), "the only task of the last page is deleted\n{}", watcher.text());
    watcher.terminal.backend_mut().resize(120, 900);
    watcher.follow(Step::Stay).await;
    assert_eq!(page(&watcher), (1, 3), "{}", watcher.note());
}

#[tokio::test]
async fn no_page_and_no_state_is_shown_as_that_of_another_until_the_broker_answers() {
    let mut watcher = Watcher::start().await;
    watcher.keys("j\n").await;
    watcher.select_tab(TaskState::Pending).await;
    watcher.terminal.backend_mut().resize(120, 10);
    watcher.follow(Step::Stay).await;
    watcher.shows(&["1-1 of 4", "pending-1 "]);
    watcher.client.broker().close().await;
    watcher.keys("n").await;
    watcher.shows(&["asking the broker …"]);
    assert!(!watcher.text().contains("pending-1 "), "{}", watcher.text());
    watcher.select_tab(TaskState::Retry).await;
    watcher.shows(&["asking the broker …"]);
    assert!(!watcher.text().contains("no retry tasks"), "{}", watcher.text());
}

#[tokio::test]
async fn a_load_that_was_cancelled_delays_no_answer() {
    let watcher = Watcher::start().await;
    let mut requests = Requests::new(&watcher.client);
    for wanted in [Wanted::Queues, Wanted::Servers] {
        requests.load(wanted);
    }
    let Answer::Loaded(Ok(loaded)) = requests.answer().await else { panic!("no content") };
    assert_eq!(loaded.wanted, Wanted::Servers);
    assert!(!requests.is_loading());
}

#[tokio::test]
async fn a_confirmed_change_is_made_before_the_view_ends() {
    let watcher = Watcher::start().await;
    let delete = |id: &str| {
        let (queue, id) = (QueueName::from_wire("default"), asynq_tests::task_id(id));
        Act::Task(TaskAct::Change(BulkAction::Delete), TheTask { queue, id, state: TaskState::Scheduled })
    };
    let mut requests = Requests::new(&watcher.client);
    requests.act(delete("scheduled"));
    requests.end(|_| {}, std::future::pending()).await.unwrap();
    assert!(watcher.client.inspector().task("default", "scheduled").await.unwrap_err().is_not_found());
    let mut requests = Requests::new(&watcher.client);
    requests.act(delete("retry"));
    let error = requests.end(|_| {}, std::future::pending()).await.unwrap_err();
    assert!(error.line().contains("retry"), "{}", error.line());
    // An entry that cannot run is a failure, in the view and at its end.
    let entry = || {
        let entry_options = vec!["MaxRetry(x)".to_owned()];
        Act::RunEntry(Box::new(SchedulerEntry { enqueue_options: entry_options, ..SchedulerEntry::default() }))
    };
    assert!(act::perform(&watcher.client, entry()).await.is_err());
    let mut requests = Requests::new(&watcher.client);
    requests.act(entry());
    requests.end(|_| {}, std::future::pending()).await.unwrap_err();
}
