//! The newsletter: its table, and the next run after a kill.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::Path,
    time::Duration,
};

use asynq_runtime::{TaskState, broker::Page};
use asynq_tests::{Persistence, RedisServer, patient};
use tempfile::tempdir;

use crate::{
    mailbox::Mailbox,
    program::{run, start},
};

/// The counts of the committed list; `scripts/test` looks for the same numbers.
const COUNTS: [&str; 5] = ["rows read 2,004", "sent 1,912", "retried 34", "archived 48", "duplicates 44"];

#[test]
fn the_table_is_the_same_on_both_brokers_and_every_message_is_a_file() {
    let redis = RedisServer::start(Persistence::None);
    let mut tables = Vec::new();
    for url in ["sqlite://queue.db", &redis.url()] {
        let folder = tempdir().unwrap();
        let table = squeezed(&run("newsletter", folder.path(), &[], &[("ASYNQ_URL", url)]));
        assert_counts(&table, &COUNTS);
        let files = messages(folder.path());
        assert_eq!(files.len(), 1_912);
        assert!(files.values().all(|text| text.contains("Message-ID: <") && text.contains("MIME-Version: 1.0")));
        tables.push(counts(&table));

        // No task is left over: the next run is a new campaign in a new outbox.
        let list = list(folder.path(), 60);
        let again = squeezed(&run("newsletter", folder.path(), &[&list], &[("ASYNQ_URL", url)]));
        assert_counts(&again, &["rows read 62", "sent 60", "archived 1", "duplicates 1"]);
        let later = messages(folder.path());
        assert_eq!(later.len(), 60);
        assert!(later.keys().all(|name| !files.contains_key(name)), "a file of the first campaign is still there");
    }
    assert_eq!(tables[0], tables[1]);
}

#[test]
fn a_run_that_was_killed_is_finished_by_the_next_on_sqlite() {
    killed_and_finished("sqlite://queue.db");
}

/// Takes as long as a lease on Redis. The lease is short, yet lasts until the second program has read the tasks.
#[test]
fn a_run_that_was_killed_is_finished_by_the_next_on_redis() {
    let redis = RedisServer::start(Persistence::None);
    let output = killed_and_finished(&format!("{}?lease=15s", redis.url()));
    assert!(
        output.lines().any(|line| line.contains("held by another worker: if it is dead, they come back in ")),
        "{output}"
    );
}

fn killed_and_finished(url: &str) -> String {
    let folder = tempdir().unwrap();
    let list = list(folder.path(), 60);
    let mailbox = Mailbox::start(20);
    let environment = [("ASYNQ_URL", url), ("SMTP_URL", mailbox.url())];
    let program = start("newsletter", folder.path(), &[&list], &environment);
    mailbox.wait_for_held(8);
    program.process.signal("KILL");
    program.end();

    // A settled message must never be sent again. A message that was accepted but not settled may be sent again.
    let settled = settled(folder.path(), url);
    let before: HashSet<String> = mailbox.taken().into_iter().collect();
    assert!(settled.iter().all(|to| before.contains(to)));
    assert!(!settled.is_empty() && settled.len() < 60);
    mailbox.open();

    let output = run("newsletter", folder.path(), &[&list], &environment);
    let table = squeezed(&output);
    assert!(output.contains("Going on with campaign"), "{output}");
    assert_counts(&table, &["rows read 62", "sent 60 by SMTP", "archived 1", "duplicates 1"]);
    let (left_over, already_done) = (number(&table, "left over"), number(&table, "already done"));
    assert_eq!(left_over + already_done, 61);
    // The broken row was archived before the kill, unless its outcome was still on its way.
    assert!(already_done == settled.len() || already_done == settled.len() + 1, "{table}");
    let mut taken = BTreeMap::<String, usize>::new();
    for to in mailbox.taken() {
        *taken.entry(to).or_default() += 1;
    }
    assert_eq!(taken.len(), 60, "a subscriber was left out");
    for to in settled {
        assert_eq!(taken[&to], 1, "{to} was settled and got the letter again");
    }
    output
}

#[test]
fn ctrl_c_finishes_running_tasks_and_keeps_waiting_ones() {
    stopped_and_finished("INT");
}

#[test]
fn a_supervisor_that_stops_the_program_finishes_running_tasks_and_keeps_waiting_ones() {
    stopped_and_finished("TERM");
}

fn stopped_and_finished(signal: &str) {
    let folder = tempdir().unwrap();
    let list = list(folder.path(), 60);
    let mailbox = Mailbox::start(20);
    let environment = [("SMTP_URL", mailbox.url())];
    let program = start("newsletter", folder.path(), &[&list], &environment);
    mailbox.wait_for_held(8);
    program.process.signal(signal);
    program.line("Stopping");
    mailbox.open();
    let (status, output) = program.end();
    assert_eq!(status.code(), Some(130), "{output}");
    assert!(output.contains("tasks are left. Run the same command again"), "{output}");

    let table = squeezed(&run("newsletter", folder.path(), &[&list], &environment));
    assert_counts(&table, &["rows read 62", "sent 60 by SMTP", "duplicates 1"]);
    let mut taken = mailbox.taken();
    taken.sort_unstable();
    taken.dedup();
    assert_eq!((taken.len(), mailbox.taken().len()), (60, 60), "a letter was sent twice, though nothing crashed");
}

/// Takes as long as the server's shutdown timeout, because the broker takes no outcome any more.
#[test]
fn a_broker_that_is_broken_for_good_ends_the_program_with_the_reason() {
    let folder = tempdir().unwrap();
    let list = list(folder.path(), 60);
    let mailbox = Mailbox::start(20);
    let program = start("newsletter", folder.path(), &[&list], &[("SMTP_URL", mailbox.url())]);
    mailbox.wait_for_held(8);
    fs::remove_file(folder.path().join("asynq.db")).unwrap();
    program.line("Stopping");
    mailbox.open();
    let (status, output) = program.end();
    assert_eq!(status.code(), Some(1), "{output}");
    let is_reason = |line: &str| line.starts_with("error: ") && line.contains("was deleted or moved away");
    assert!(output.lines().any(is_reason), "{output}");
}

#[test]
fn a_list_that_is_not_there_or_empty_is_one_clear_error() {
    let folder = tempdir().unwrap();
    let (status, output) = start("newsletter", folder.path(), &["nobody.csv"], &[]).end();
    assert!(!status.success());
    assert!(output.contains("error: cannot open nobody.csv"), "{output}");
    fs::write(folder.path().join("empty.csv"), "name,email,city,plan\n").unwrap();
    let (status, output) = start("newsletter", folder.path(), &["empty.csv"], &[]).end();
    assert!(!status.success());
    assert!(output.contains("error: empty.csv has no subscriber"), "{output}");
}

/// Writes a list of `good` subscribers, one broken row and one duplicate.
fn list(folder: &Path, good: usize) -> String {
    let mut rows = "name,email,city,plan\nNobody,nobody,Nowhere,free\n".to_owned();
    for i in 0..good {
        rows.push_str(&format!("Reader {i},reader{i}@example.com,Oslo,pro\n"));
    }
    rows.push_str("Reader 0,READER0@example.com,Oslo,pro\n");
    let path = folder.join("list.csv");
    fs::write(&path, rows).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The receivers for which the broker has a completed task.
fn settled(folder: &Path, url: &str) -> HashSet<String> {
    let url = match url.strip_prefix("sqlite://") {
        Some(file) => format!("sqlite://{}", folder.join(file).display()),
        None => url.to_owned(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = patient::client(&url).await;
        let queue = "newsletter".parse().unwrap();
        let page = Page { number: 1, size: 100 };
        let tasks = client.broker().tasks(&queue, TaskState::Completed, page).await.unwrap();
        client.broker().close().await;
        let days = Duration::from_secs(90 * 86_400);
        assert!(
            tasks.iter().all(|task| task.retention >= Some(days)),
            "a campaign that goes on later sends them again"
        );
        tasks.iter().filter_map(|task| Some(task.id.as_str().split_once('.')?.1.to_owned())).collect()
    })
}

fn number(table: &str, label: &str) -> usize {
    let line =
        table.lines().find(|line| line.starts_with(label)).unwrap_or_else(|| panic!("no {label:?} in:\n{table}"));
    line[label.len()..].trim().split(' ').next().unwrap().parse().unwrap()
}

fn messages(folder: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder.join("outbox")).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|ending| ending == "eml"))
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap()))
        .collect()
}

/// The output with single spaces, and none at the ends of lines.
fn squeezed(output: &str) -> String {
    let line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n";
    output.lines().map(line).collect()
}

#[track_caller]
fn assert_counts(table: &str, expected: &[&str]) {
    for expected in expected {
        assert!(table.lines().any(|line| line.starts_with(expected)), "no {expected:?} in:\n{table}");
    }
}

/// The rows of the table that are equal on every broker.
fn counts(table: &str) -> Vec<String> {
    let rows = table.lines().skip_while(|line| !line.starts_with("rows read"));
    rows.take_while(|line| !line.starts_with("jobs per second")).map(str::to_owned).collect()
}
