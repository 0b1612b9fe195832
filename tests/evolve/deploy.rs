//! A rolling deploy through three versions of one job, while tasks of each shape come in, workers are killed, and callers wait.
//!
//! `EVOLVE_TASKS` and `EVOLVE_KILLS` set the numbers; `scripts/prove evolve` sets them high.

use std::{
    collections::BTreeMap,
    env,
    io::Read as _,
    process::{Command, Stdio},
};

use asynq_runtime::{
    Client, JobDescriptor, Outcome, PreparedTask, Registry, Server, TaskState,
    broker::{Page, QueueStats},
    job::JobBuilder,
    prelude::{JobError, JobResult, job},
};
use asynq_tests::{Persistence, RedisServer, default_queue, eventually, patient};
use tempfile::TempDir;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::process::{Process, Program, number};

const WORKERS: u64 = 3;
/// The variable that names a worker's version.
const VERSION: &str = "ASYNQ_EVOLVE_VERSION";
const URL: &str = "ASYNQ_EVOLVE_URL";
/// The timeout of callers, beyond the length of this test.
const LONG: &str = "30m";

// A task survives many deaths: a worker is killed every second or two, and a task may be running at several of them.
mod first {
    use super::*;

    #[job(name = "evolve:deliver", max_crashes = 100)]
    pub(super) async fn deliver(n: u32, to: String, order: String) -> JobResult<u64> {
        super::obey(n.into(), &to, None, &order)
    }
}

mod second {
    use super::*;

    #[job(name = "evolve:deliver", max_crashes = 100)]
    pub(super) async fn deliver(n: u64, to: String, order: String, note: Option<String>) -> JobResult<u64> {
        super::obey(n, &to, note.as_deref(), &order)
    }
}

mod third {
    use super::*;

    #[job(name = "evolve:deliver", max_crashes = 100)]
    pub(super) async fn deliver(
        order: String,
        #[serde(alias = "to")] address: String,
        note: Option<String>,
        n: u64,
        #[serde(default)] copies: Vec<String>,
    ) -> JobResult<u64> {
        drop(copies);
        super::obey(n, &address, note.as_deref(), &order)
    }
}

/// Ends as `order` says, if the arguments are those that were enqueued.
fn obey(n: u64, to: &str, note: Option<&str>, order: &str) -> JobResult<u64> {
    if to != format!("user-{n}") || note.is_some_and(|note| note != format!("note-{n}")) {
        return Err(JobError::skip_retry(format!("misread: {n} {to} {note:?}")));
    }
    match order {
        "fail" => Err(JobError::skip_retry("asked for")),
        "revoke" => Err(JobError::revoke("asked for")),
        _ => Ok(n),
    }
}

/// The task `n` as the program of this version enqueues it, and the end that its caller expects.
fn task(version: u64, n: u64) -> (PreparedTask, &'static str) {
    let order = ["fail", "revoke", "expire", "delete", "answer"].get(n as usize % 20).copied().unwrap_or("work");
    fn with<J: asynq_runtime::Job>(job: J, order: &str) -> PreparedTask {
        let job = JobBuilder::new(job);
        match order {
            "work" => job.into(),
            "expire" => job.awaited().expires("1ms").into(),
            "delete" => job.awaited().process_in("1h").into(),
            _ => job.awaited().into(),
        }
    }
    let (to, note, text) = (format!("user-{n}"), Some(format!("note-{n}")), order.to_owned());
    let task = match version {
        0 => with(first::deliver { n: u32::try_from(n).unwrap(), to, order: text }, order),
        1 => with(second::deliver { n, to, order: text, note }, order),
        _ => with(third::deliver { order: text, address: to, note, n, copies: vec!["a".into()] }, order),
    };
    (task, order)
}

/// Runs a worker of the version that its environment names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "not a test: other tests start it as a process of its own"]
async fn worker() {
    let job = match env::var(VERSION).unwrap().as_str() {
        "0" => JobDescriptor::of::<first::deliver>(file!(), line!()),
        "1" => JobDescriptor::of::<second::deliver>(file!(), line!()),
        _ => JobDescriptor::of::<third::deliver>(file!(), line!()),
    };
    let server = Server::builder(env::var(URL).unwrap()).registry(Registry::from_descriptors([job]).unwrap());
    // The archive keeps every task of the test.
    let server = server.archive("*", 1_000_000, "7d");
    let _running = server.concurrency(10).build().await.unwrap().start().await.unwrap();
    println!("ready");
    // The pipe ends with the parent, however that ends.
    spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await.unwrap().unwrap();
}

/// Starts a worker process, which is killed with `kill -9` when dropped, and waits until it can take tasks.
fn started(version: u64, url: &str) -> Process {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["deploy::worker", "--exact", "--include-ignored", "--nocapture", "--test-threads=1"])
        .env(VERSION, version.to_string())
        .env(URL, url)
        .stdin(Stdio::piped());
    let program = Program::start_with_log(command, Stdio::inherit());
    program.line("ready");
    program.process
}

/// The outcome of a caller, in a word.
fn outcome_word(request: &str, n: u64, outcome: Outcome<u64>) -> String {
    match outcome {
        Outcome::Done(result) if result == n => "done".into(),
        Outcome::Archived(error) if error == "asked for" => "archived".into(),
        Outcome::Revoked => "revoked".into(),
        Outcome::Expired => "expired".into(),
        // The task may have been deleted before the wait began.
        Outcome::Deleted | Outcome::Gone if request == "delete" => "deleted".into(),
        other => format!("{other:?} of task {n}"),
    }
}

/// Waits for the end of the task, and deletes it meanwhile if `request` is "delete".
async fn called(
    client: Client,
    n: u64,
    task: asynq_runtime::TaskInfo,
    request: &'static str,
) -> (&'static str, String) {
    let (queue, id) = (task.queue.clone(), task.id.clone());
    let task = client.handle::<third::deliver>(task);
    let delete = async {
        if request == "delete" {
            client.inspector().delete(queue, id).await.unwrap();
        }
    };
    let (outcome, ()) = tokio::join!(task.wait(LONG), delete);
    (request, outcome_word(request, n, outcome.unwrap()))
}

/// The reasons of archived tasks, apart from tasks that were to be archived or expired.
async fn archived_unexpectedly(client: &Client, archived: u64) -> Vec<String> {
    let mut reasons = Vec::new();
    for number in 1..=usize::try_from(archived).unwrap().div_ceil(1_000) {
        let page = Page { number, size: 1_000 };
        let tasks = client.broker().tasks(&default_queue(), TaskState::Archived, page).await.unwrap();
        reasons.extend(tasks.into_iter().map(|task| task.last_error.unwrap_or_default()));
    }
    assert_eq!(reasons.len() as u64, archived);
    reasons.retain(|reason| reason != "asked for" && !reason.starts_with("expired: "));
    reasons
}

async fn a_deploy_archives_nothing_and_answers_all(url: String) {
    let (tasks, kills) = (number("EVOLVE_TASKS", 600), number("EVOLVE_KILLS", 6));
    let client = patient::client(&url).await;
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        workers.push(started(0, &url));
    }
    let mut callers: Vec<JoinHandle<(&str, String)>> = Vec::new();
    let mut enqueued = 0;
    for round in 0..kills {
        let version = round * 3 / kills;
        let until = tasks * (round + 1) / kills;
        // Producers are not deployed at the same moment: some have the previous version, some the next.
        let versions = [version.saturating_sub(1), version, (version + 1).min(2)];
        let (batch, request): (Vec<PreparedTask>, Vec<_>) =
            (enqueued..until).map(|n| task(versions[n as usize % 3], n)).unzip();
        let stored = client.enqueue_many(batch).await.unwrap();
        for ((n, request), stored) in (enqueued..until).zip(request).zip(stored) {
            let stored = stored.unwrap();
            if request != "work" {
                callers.push(tokio::spawn(called(client.clone(), n, stored, request)));
            }
        }
        enqueued = until;
        drop(workers.remove(0));
        workers.push(started(version, &url));
    }

    let mut answers = BTreeMap::<_, usize>::new();
    for caller in callers {
        *answers.entry(caller.await.unwrap()).or_default() += 1;
    }
    let mut left = u64::MAX;
    let stats = loop {
        // The wait goes on as long as the number of tasks falls within a minute.
        let stats = eventually("fewer tasks are left", async || {
            let stats: QueueStats = client.broker().queue_stats(&default_queue()).await.unwrap();
            (stats.size - stats.archived - stats.completed < left).then_some(stats)
        })
        .await;
        left = stats.size - stats.archived - stats.completed;
        if left == 0 {
            break stats;
        }
    };

    let archived = archived_unexpectedly(&client, stats.archived).await;
    let counts: Vec<String> =
        answers.iter().map(|((request, outcome_word), n)| format!("{request} -> {outcome_word} {n}")).collect();
    println!(
        "{}: {tasks} tasks of three shapes, {kills} kills: {} archived unasked, {} callers answered ({})",
        client.broker().kind(),
        archived.len(),
        answers.values().sum::<usize>(),
        counts.join(", "),
    );
    assert_eq!(archived, [""; 0]);
    for (request, outcome_word) in answers.keys() {
        let expected: &[_] = match *request {
            "fail" => &["archived"],
            "revoke" => &["revoked"],
            // A worker may have run the task before it expired.
            "expire" => &["expired", "done"],
            "delete" => &["deleted"],
            _ => &["done"],
        };
        assert!(expected.contains(&outcome_word.as_str()), "{request}: {outcome_word}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_deploy_under_kills_archives_nothing_and_answers_all_on_redis() {
    let server = RedisServer::start(Persistence::Always);
    // Only the end of a lease tells that a worker is dead.
    a_deploy_archives_nothing_and_answers_all(server.url() + "?lease=12s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_deploy_under_kills_archives_nothing_and_answers_all_on_sqlite() {
    let folder = TempDir::new().unwrap();
    let url = format!("sqlite://{}", folder.path().join("jobs.db").display());
    a_deploy_archives_nothing_and_answers_all(url).await;
}
