//! The programs that `cargo generate` makes of the templates: one enqueues, another runs the task, and a third does both over HTTP.

use std::{
    fs,
    io::Write as _,
    net::{TcpListener, TcpStream},
    process::{Command, Output},
};

use asynq_jobs::{Client, RawTask, TaskState};
use asynq_test_support::{
    eventually, eventually_blocking,
    process::{Program, address_in, ask, program},
};
use tempfile::TempDir;

/// The names of the book: `asynq_jobs::cron` in place of `asynq_cron`, and both preludes.
mod names_of_the_book {
    #[allow(unused_imports, reason = "each prelude has the names that are used here")]
    use asynq_jobs::{
        cron::{self, prelude::*},
        prelude::*,
    };

    #[cron::periodic("@daily")]
    async fn by_its_path(_tick: Tick) {}

    #[periodic("@daily")]
    async fn by_a_prelude(_tick: Tick) {}
}

const WORKER: &str = env!("CARGO_BIN_EXE_template-worker");
const PRODUCER: &str = env!("CARGO_BIN_EXE_template-producer");
const WEB: &str = env!("CARGO_BIN_EXE_template-web");

fn url(folder: &TempDir) -> String {
    format!("sqlite://{}", folder.path().join("jobs.db").display())
}

fn command(binary: &str, folder: &TempDir) -> Command {
    let mut command = program(binary);
    command.env("ASYNQ_URL", url(folder)).current_dir(folder.path());
    command
}

fn run(binary: &str, folder: &TempDir, args: &[&str]) -> Output {
    command(binary, folder).args(args).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("programs print UTF-8")
}

fn good(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[tokio::test]
async fn the_producer_enqueues_the_jobs_of_the_worker() {
    let folder = TempDir::new().unwrap();
    let listed = good(&run(WORKER, &folder, &["jobs"]));
    assert!(listed.contains("greet") && listed.contains("good_morning"), "{listed}");
    let enqueued = good(&run(PRODUCER, &folder, &[]));
    assert!(enqueued.contains(" is pending in default"), "{enqueued}");
    good(&run(WORKER, &folder, &["enqueue", "greet", "\"Bob\""]));
    let client = Client::connect(&url(&folder)).await.unwrap();
    let tasks = client.inspector().tasks("default", TaskState::Pending).await.unwrap();
    assert_eq!(tasks.iter().map(|task| &*task.r#type).collect::<Vec<_>>(), ["greet", "greet"]);
    assert_eq!(tasks[0].payload[..5], tasks[1].payload[..5], "both know the job by one shape");
    let options = |n: usize| (tasks[n].max_retry, tasks[n].timeout, tasks[n].retention);
    assert_eq!(options(0), options(1), "options travel with the task");
}

#[test]
fn the_features_of_the_facade_bring_their_services_by_themselves() {
    let help = good(&run(WORKER, &TempDir::new().unwrap(), &["--help"]));
    assert!(help.contains("--no-schedule") && help.contains("--dashboard"), "{help}");
}

#[test]
fn a_job_with_a_schedule_needs_the_facade_alone_by_each_of_its_names() {
    let names: Vec<_> = asynq_jobs::cron::PeriodicEntry::linked().iter().map(|entry| entry.job.name).collect();
    assert_eq!(names, ["by_a_prelude", "by_its_path"]);
}

#[test]
fn a_lock_is_written_checked_and_stops_a_deploy_that_would_strand_tasks() {
    let folder = TempDir::new().unwrap();
    let refused = run(WORKER, &folder, &["jobs", "--check"]);
    assert!(
        !refused.status.success()
            && text(&refused.stderr).contains("cannot read jobs.lock, which `jobs --lock=jobs.lock` writes")
    );
    assert_eq!(good(&run(WORKER, &folder, &["jobs", "--lock"])), "jobs.lock: 2 shapes, 2 new\n");
    assert_eq!(good(&run(WORKER, &folder, &["jobs", "--lock"])), "jobs.lock: 2 shapes, 0 new\n");
    let checked = good(&run(WORKER, &folder, &["jobs", "--check"]));
    assert_eq!(checked, "safe    good_morning no arguments\nsafe    greet str\n");

    // An earlier version had a job that is gone.
    let file = folder.path().join("jobs.lock");
    let lock = fs::read_to_string(&file).unwrap();
    fs::write(&file, lock.replace("\"greet\"", "\"hail\"")).unwrap();
    let stopped = run(WORKER, &folder, &["jobs", "--check=jobs.lock"]);
    assert_eq!(stopped.status.code(), Some(1));
    assert!(
        text(&stopped.stdout).contains("UNSAFE  hail str: the job is gone; if it is `greet` now"),
        "{}",
        text(&stopped.stdout)
    );
    assert!(text(&stopped.stderr).contains("2 shapes are unsafe (jobs.lock)"), "{}", text(&stopped.stderr));
    let wrong = run(WORKER, &folder, &["jobs", "--lock", "--json"]);
    assert_eq!(wrong.status.code(), Some(2));
}

/// A running web application.
struct Web {
    program: Program,
    host: String,
}

impl Web {
    fn start(folder: &TempDir) -> Self {
        let program = Program::start(command(WEB, folder));
        let host = address_in(&program.line("http://")).to_owned();
        Self { program, host }
    }

    /// Returns the status of the answer and its last line.
    fn ask(&self, request: &str) -> (String, String) {
        let answer = ask(&self.host, request, "content-length: 0\r\n").expect("the program answers");
        (answer["HTTP/1.1 ".len()..][..3].to_owned(), answer.lines().last().unwrap_or_default().to_owned())
    }
}

#[tokio::test]
async fn the_web_application_squares_a_number_and_knows_its_own_tasks_alone() {
    let folder = TempDir::new().unwrap();
    let web = Web::start(&folder);
    let status = |request: &str| web.ask(request);
    let (_, result) = status("POST /squares/7");
    assert_eq!(status(&format!("GET {result}")), ("200".to_owned(), "49".to_owned()));
    let client = Client::connect(&url(&folder)).await.unwrap();
    let other = client.enqueue(RawTask::new("other", "").process_in("1h")).await.unwrap();
    assert_eq!(status(&format!("GET /results/{}", other.id)).0, "404", "a task of another job");
    assert_eq!(status("GET /results/never").0, "404");
    let failed = client.enqueue(RawTask::new("square", "").process_in("1h")).await.unwrap();
    client.inspector().archive("default", &failed.id).await.unwrap();
    assert_eq!(status(&format!("GET /results/{}", failed.id)), ("422".to_owned(), "it failed".to_owned()));
}

#[tokio::test]
async fn a_client_that_never_finishes_its_request_holds_up_neither_the_worker_nor_the_program() {
    let folder = TempDir::new().unwrap();
    let web = Web::start(&folder);
    let mut half = TcpStream::connect(&web.host).unwrap();
    half.write_all(b"GET /results/never HTTP/1.1\r\n").unwrap();
    // The program has begun to serve when it has answered another request.
    let (_, result) = web.ask("POST /squares/7");
    assert_eq!(web.ask(&format!("GET {result}")).0, "200");
    web.program.process.signal("TERM");
    let client = Client::connect(&url(&folder)).await.unwrap();
    eventually("the worker leaves", async || client.inspector().servers().await.unwrap().is_empty().then_some(()))
        .await;
    let (status, log) = web.program.end();
    assert!(
        status.success() && log.contains("leaving: takes no more tasks") && log.contains("has left"),
        "{status}: {log}"
    );
    drop(half);
}

#[test]
fn the_web_application_ends_with_an_error_when_its_broker_is_gone() {
    let folder = TempDir::new().unwrap();
    let web = Web::start(&folder);
    fs::remove_file(folder.path().join("jobs.db")).unwrap();
    let (status, errors) = web.program.end();
    assert!(status.code() == Some(1) && errors.contains("was deleted or moved away"), "{status}: {errors}");
}

#[test]
fn a_request_to_end_is_not_lost_while_the_web_application_connects() {
    let (folder, silent) = (TempDir::new().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let url = format!("redis://{}/0?timeout=1s&connect_timeout=1s", silent.local_addr().unwrap());
    let mut command = command(WEB, &folder);
    command.env("ASYNQ_URL", url);
    let program = Program::start(command);
    silent.set_nonblocking(true).unwrap();
    let _unanswered = eventually_blocking("the program connects", || silent.accept().ok());
    program.process.signal("TERM");
    let (status, errors) = program.end();
    assert_eq!(status.code(), Some(1), "it ends when it cannot connect, and not by the signal: {errors}");
}
