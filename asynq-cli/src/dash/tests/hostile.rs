//! Names and texts from outside, on every screen of the view.

use std::time::Duration;

use asynq_runtime::{
    Client, TaskState,
    broker::{NewTask, ServerName},
    task::{QueueName, QueueWeight, SchedulerEntry, ServerInfo, WorkerInfo},
};
use asynq_tests::{Build as _, Fixture, SqliteStore, archive, complete, group, retry, task};
use crossterm::event::KeyCode;
use ratatui::{Terminal, backend::TestBackend};

use super::{
    super::{load::Wanted, model::TABS},
    Watcher,
};

/// Clears the screen, sets a colour and the title, turns the direction of writing; in C0, C1 and beyond.
const EVIL: &str = "e\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}31m\u{202e}\u{2066}\u{7f}\u{8}\r\u{85}\u{feff}v";
const HOUR: Duration = Duration::from_secs(3600);

fn evil(id: &str) -> NewTask {
    let mut new = task(id).with_header(EVIL, EVIL);
    new.message.r#type = EVIL.into();
    new.message.queue = EVIL.into();
    new.message.payload = EVIL.into();
    new.queue = QueueName::from_wire(EVIL);
    new
}

async fn seed(t: &Fixture<SqliteStore>) {
    let run = t.start_run(evil("retry")).await;
    t.settle(&run, retry(HOUR, EVIL)).await;
    let run = t.start_run(evil("archived")).await;
    t.settle(&run, archive(EVIL)).await;
    let run = t.start_run(evil("completed").with_retention(86_400)).await;
    t.settle(&run, complete(EVIL)).await;
    let mut grouped = evil("grouped").grouped("x");
    grouped.message.group_key = EVIL.into();
    grouped.group = Some(group(EVIL));
    t.enqueue(grouped).await;
    t.enqueue(evil("scheduled").after(HOUR)).await;
    t.start_run(evil("active")).await;
    t.enqueue(evil(EVIL)).await;
    let entry = SchedulerEntry {
        id: EVIL.into(),
        spec: EVIL.into(),
        task_type: EVIL.into(),
        task_payload: EVIL.into(),
        enqueue_options: vec![format!("Queue(\"{EVIL}\")"), EVIL.into()],
        ..SchedulerEntry::default()
    };
    t.broker().show_entries("host:1:x", &[entry], Duration::from_secs(60)).await.unwrap();
    let info = ServerInfo {
        host: EVIL.into(),
        server_id: EVIL.into(),
        status: EVIL.into(),
        rust_version: EVIL.into(),
        queues: vec![QueueWeight { queue: Some(EVIL.into()), weight: Some(1) }],
        start_time: Some(t.now().into()),
        ..ServerInfo::default()
    };
    let worker = WorkerInfo {
        host: EVIL.into(),
        server_id: EVIL.into(),
        task_id: EVIL.into(),
        task_type: EVIL.into(),
        task_payload: EVIL.into(),
        queue: EVIL.into(),
        ..WorkerInfo::default()
    };
    let name = ServerName { host: EVIL.into(), pid: 1, server_id: EVIL.into() };
    let member = t.broker().join(&name, &info).await.unwrap();
    t.broker().beat(&member, &info, &[worker]).await.unwrap();
}

impl Watcher {
    /// Presses the keys one by one, and asserts after each that the screen is harmless.
    async fn harmless(&mut self, keys: &str) {
        for key in keys.chars() {
            self.keys(&key.to_string()).await;
            let text = self.text();
            let is_evil = |c: char| c != '\n' && (c.is_control() || EVIL.contains(c) && !c.is_ascii_graphic());
            let evil: Vec<char> = text.chars().filter(|&c| is_evil(c)).collect();
            assert!(evil.is_empty(), "{evil:?} reached the terminal after {key:?}: {text:?}");
        }
    }

    /// Asserts that the name is on the screen, in its harmless form.
    #[track_caller]
    fn shows_it(&self, screen: &str) {
        assert!(self.text().contains("e\u{fffd}[2J"), "{screen}:\n{}", self.text());
    }
}

#[tokio::test]
async fn nothing_hostile_reaches_the_terminal() {
    let t = Fixture::<SqliteStore>::start().await;
    seed(&t).await;
    let client = Client::new(t.shared());
    let mut watcher = Watcher::on(t, client).await;
    watcher.terminal = Terminal::new(TestBackend::new(200, 40)).unwrap();
    watcher.harmless("1").await;
    watcher.shows_it("queues");
    watcher.harmless("p").await;
    assert!(watcher.note().ends_with("is paused"), "{}", watcher.note());
    watcher.harmless("p").await;
    watcher.harmless("\n").await;
    let mut states = Vec::<TaskState>::new();
    while states.len() < TABS.len() {
        let Wanted::Tasks(listing) = &watcher.model.screen().wanted else { panic!("{:?}", watcher.model.screen()) };
        let state = listing.state;
        assert!(!states.contains(&state), "every state once: {states:?}, {state:?}");
        states.push(state);
        watcher.shows_it(&format!("{state:?}"));
        // One task, and the questions about it.
        watcher.harmless("\n").await;
        watcher.shows_it(&format!("a task that is {state:?}"));
        watcher.harmless("dn").await;
        watcher.press(KeyCode::Esc).await;
        watcher.harmless("anl").await;
    }
    watcher.harmless("2").await;
    watcher.shows_it("servers");
    watcher.harmless("3").await;
    watcher.shows_it("periodic");
    watcher.harmless("?").await;
}
