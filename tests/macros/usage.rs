//! Every kind of parameter, result and option, in jobs that run.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    time::Duration,
};

use asynq_runtime::{
    Outcome,
    job::{Codec, JobDescriptor, StateMap},
    prelude::*,
    testing::TestApp,
};
use serde::{Deserialize, Serialize};

use crate::{run, run_in};

#[job(
    queue = "critical",
    retry = 5,
    timeout = "3m",
    unique = "1h",
    retention = "7d",
    deadline = "1h30m",
    max_crashes = 2
)]
async fn greet(to: String, subject: &str) -> JobResult<String> {
    Ok(format!("{subject}, {to}"))
}

#[tokio::test]
async fn a_job_runs_with_the_arguments_of_its_struct_and_stays_a_function() {
    let job = greet { to: "ann".into(), subject: "Hi".into() };
    assert_eq!(run(job).await.expect("runs"), "Hi, ann");
    assert_eq!(greet("bob".to_owned(), "Hello").await.expect("a plain call"), "Hello, bob");
}

#[test]
fn options_are_those_of_the_attribute() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let JobOptions { queue, retry, timeout, deadline, unique, retention, max_crashes, .. } = greet::OPTIONS;
    assert_eq!((queue, retry, max_crashes), ("critical", 5, Some(2)));
    assert_eq!((timeout, unique), (seconds(180), seconds(3600)));
    assert_eq!((retention, deadline), (seconds(604_800), seconds(5400)));
    assert_eq!((greet::NAME, greet::CODEC, greet::FINGERPRINT), ("greet", Codec::Postcard, None));
}

#[job(
    group = "digest",
    expires = "90s",
    unique = "1h",
    unique_until = "success",
    unique_extend = true,
    backoff = "exponential(1s, 10m)"
)]
async fn remark(text: String) {
    drop(text);
}

#[job(backoff = gentle, unique = "1h", unique_until = "start")]
async fn patient() {}

fn gentle(retried: u32, error: &JobError) -> Duration {
    Duration::from_secs(u64::from(retried) + error.to_string().len() as u64)
}

#[test]
fn groups_expiry_and_pauses_are_those_of_the_attribute() {
    let JobOptions { group, expires, unique_until, unique_extend, .. } = remark::OPTIONS;
    assert_eq!((group, expires), (Some("digest"), Some(Duration::from_secs(90))));
    assert_eq!((unique_until, unique_extend), (UniqueUntil::Success, true));
    let pause =
        |backoff: Option<Backoff>, retried| backoff.map(|b| b.delay(retried, &JobError::fail("busy")).as_secs());
    assert_eq!((pause(remark::BACKOFF, 0), pause(remark::BACKOFF, 20)), (Some(1), Some(600)));
    assert_eq!((pause(patient::BACKOFF, 5), patient::OPTIONS.unique_until), (Some(9), UniqueUntil::Start));
    assert!(greet::BACKOFF.is_none());
}

#[test]
fn a_string_parameter_takes_any_value_that_becomes_a_string() {
    let owned = String::from("ann");
    let _ = greet::job("ann", "Hi");
    let _ = greet::job(&owned, &owned);
    let _ = greet::job(Cow::Borrowed("ann"), "Hi");
    let _ = greet::job('a', "Hi");
    let _ = greet::job(owned, "Hi");
}

#[allow(dead_code)]
fn the_enqueue_future_is_send(client: &Client) {
    fn is_send(_: impl Send) {}
    is_send(greet::enqueue(client, "ann", "Hi"));
    is_send(greet::enqueue_in(client, "10m", "ann", "Hi"));
    is_send(greet::enqueue_in(client, Duration::from_secs(1), "ann", "Hi"));
    is_send(greet::enqueue_at(client, std::time::SystemTime::UNIX_EPOCH, "ann", "Hi"));
    is_send(greet::job("ann", "Hi").queue("low").retry(1).process_in("90s").enqueue(client));
    is_send(greet { to: "ann".into(), subject: "Hi".into() }.enqueue(client));
    is_send(client.enqueue_many(["a", "b"].map(|to| greet::job(to, "Hi"))));
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    lines: Vec<u32>,
}

#[job]
async fn borrow(text: &str, numbers: &[u32], order: &Order, file: &Path, array: &[u8; 2]) -> JobResult<usize> {
    Ok(text.len() + numbers.len() + order.lines.len() + file.components().count() + array.len())
}

#[tokio::test]
async fn borrowed_arguments_are_stored_in_their_owned_forms() {
    let job = borrow {
        text: String::from("ab"),
        numbers: vec![1, 2, 3],
        order: Order { lines: vec![1] },
        file: PathBuf::from("a/b"),
        array: [0, 1],
    };
    assert_eq!(run(job).await.expect("runs"), 2 + 3 + 1 + 2 + 2);
    let _ = borrow::job("ab", &[1], &Order { lines: vec![] }, Path::new("a"), &[0, 1]);
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Resize {
    path: String,
    width: u32,
}

#[job(name = "image:resize", codec = "json")]
async fn resize(args: Resize) -> JobResult<u32> {
    Ok(args.width)
}

#[test]
fn one_argument_is_the_payload_itself_and_several_are_an_object() {
    let one = resize { args: Resize { path: "cat.png".into(), width: 80 } };
    assert_eq!(serde_json::to_string(&one).expect("json"), r#"{"path":"cat.png","width":80}"#);
    let several = greet { to: "ann".into(), subject: "Hi".into() };
    assert_eq!(serde_json::to_string(&several).expect("json"), r#"{"to":"ann","subject":"Hi"}"#);
    assert_eq!((resize::NAME, resize::CODEC), ("image:resize", Codec::Json));
}

#[tokio::test]
async fn a_payload_as_go_writes_it_runs_the_job() {
    let descriptor = JobDescriptor::of::<resize>(file!(), line!());
    let payload = br#"{"path":"cat.png","width":80}"#;
    let attempt = descriptor.start(payload, JobContext::detached()).expect("arguments");
    assert_eq!(attempt.await.expect("runs").as_deref(), Some(&b"80"[..]));
}

#[job]
async fn nothing() {}

#[tokio::test]
async fn a_job_without_arguments_takes_any_payload() {
    let descriptor = JobDescriptor::of::<nothing>(file!(), line!());
    for payload in [&b""[..], b"null", b"\x01anything"] {
        let attempt = descriptor.start(payload, JobContext::detached()).expect("no arguments to read");
        assert_eq!(attempt.await.expect("runs"), None);
    }
    let _ = nothing::job();
}

struct Mailer {
    from: String,
}

#[job]
async fn deliver(
    mailer: State<Mailer>,
    ctx: &JobContext,
    to: &str,
    counter: asynq_runtime::State<u32>,
) -> JobResult<String> {
    Ok(format!("{} {} {to} {}", mailer.from, ctx.retried(), *counter))
}

#[tokio::test]
async fn state_and_context_come_from_the_worker() {
    let names: Vec<_> = deliver::REQUIRES.iter().map(|key| key.name()).collect();
    assert_eq!(names, [std::any::type_name::<Mailer>(), "u32"]);
    let mut states = StateMap::default();
    states.insert(Mailer { from: "me".into() });
    states.insert(7_u32);
    let ctx = JobContext::detached_with(states);
    assert_eq!(run_in(&ctx, deliver { to: "ann".into() }).await.expect("runs"), "me 0 ann 7");
}

#[tokio::test]
async fn a_missing_state_is_an_error_of_the_attempt() {
    let error = run(deliver { to: "ann".into() }).await.expect_err("no state");
    assert!(error.to_string().contains("Mailer"), "{error}");
}

#[job]
fn shrink(ctx: &JobContext, path: &str, mailer: State<Mailer>, by: u32) -> JobResult<(bool, String)> {
    let is_named = std::thread::current().id() != *ASYNC_THREAD.get().expect("set by the test");
    Ok((is_named, format!("{path} {by} {} {}", mailer.from, ctx.is_cancelled())))
}

static ASYNC_THREAD: std::sync::OnceLock<std::thread::ThreadId> = std::sync::OnceLock::new();

#[tokio::test]
async fn a_job_without_async_runs_on_a_thread_that_may_block() {
    ASYNC_THREAD.set(std::thread::current().id()).expect("set once");
    let mut states = StateMap::default();
    states.insert(Mailer { from: "me".into() });
    let ctx = JobContext::detached_with(states);
    let (elsewhere, text) = run_in(&ctx, shrink { path: "a".into(), by: 2 }).await.expect("runs");
    assert!(elsewhere);
    assert_eq!(text, "a 2 me false");
}

#[derive(Debug, thiserror::Error)]
#[error("paying failed: {0}")]
struct PayError(&'static str);

impl PayError {
    fn policy(&self) -> Policy {
        if self.0 == "stolen" { Policy::SkipRetry } else { Policy::Fail }
    }
}

#[job(on_error = PayError::policy)]
async fn pay(card: &str) -> Result<u32, PayError> {
    Err(PayError(if card == "x" { "stolen" } else { "busy" }))
}

#[job(on_error = PayError::policy)]
fn pay_at_the_till(_cents: u64) -> Result<(), PayError> {
    Err(PayError("stolen"))
}

#[job]
async fn pay_later() -> Result<(), PayError> {
    Err(PayError("stolen"))
}

#[tokio::test]
async fn a_jobs_own_error_gets_its_policy_from_the_function_it_names() {
    let policy = |error: JobError| (error.policy(), error.to_string());
    let stolen = "paying failed: stolen".to_owned();
    assert_eq!(policy(run(pay { card: "x".into() }).await.expect_err("x")), (Policy::SkipRetry, stolen.clone()));
    assert_eq!(run(pay { card: "y".into() }).await.expect_err("y").policy(), Policy::Fail);
    let till = run(pay_at_the_till { _cents: 1 }).await.expect_err("stolen");
    assert_eq!(policy(till), (Policy::SkipRetry, stolen));
    assert_eq!(run(pay_later {}).await.expect_err("stolen").policy(), Policy::Fail);
}

#[job(unique = "1d", unique_by = "to, campaign")]
async fn campaign(to: String, subject: String, campaign: &str) -> JobResult {
    drop((to, subject, campaign.len()));
    Ok(())
}

#[test]
fn only_the_named_arguments_make_a_task_unique() {
    let key = |to: &str, subject: &str, campaign: &str| {
        let job = campaign { to: to.into(), subject: subject.into(), campaign: campaign.into() };
        job.unique_by().expect("has unique_by").expect("encodes")
    };
    fn campaign_is_a_function_too() {
        let _ = campaign;
    }
    campaign_is_a_function_too();
    assert_eq!((campaign::UNIQUE_BY.join(" "), greet::UNIQUE_BY.len()), ("to campaign".to_owned(), 0));
    assert_eq!(key("ann", "Hi", "may"), key("ann", "Hello", "may"));
    assert_ne!(key("ann", "Hi", "may"), key("ann", "Hi", "june"));
    assert_ne!(key("ann", "Hi", "may"), key("bob", "Hi", "may"));
    assert_ne!(key("a", "", "nn"), key("ann", "", ""), "arguments must not run into one another");
    assert!(greet { to: String::new(), subject: String::new() }.unique_by().is_none());
}

#[job(codec = "json")]
async fn tuned(
    /// The receiver.
    to: String,
    #[serde(default, rename = "Times")] times: u8,
) -> JobResult<String> {
    Ok(format!("{to} {times}"))
}

#[test]
fn serde_attributes_of_a_parameter_hold_for_its_field() {
    let job: tuned = serde_json::from_str(r#"{"to":"ann"}"#).expect("the default");
    assert_eq!(job.times, 0);
    assert_eq!(serde_json::to_string(&job).expect("json"), r#"{"to":"ann","Times":0}"#);
}

#[job]
async fn r#match(r#type: u8, mut count: u8) -> JobResult<u8> {
    count += r#type;
    Ok(count)
}

#[tokio::test]
async fn raw_names_are_plain_on_the_wire() {
    assert_eq!(r#match::NAME, "match");
    let job = r#match { r#type: 1, count: 2 };
    assert_eq!(serde_json::to_string(&job).expect("json"), r#"{"type":1,"count":2}"#);
    assert_eq!(run(job).await.expect("runs"), 3);
}

#[test]
fn every_job_is_registered_with_its_place() {
    let registry = Registry::linked().expect("names are unique");
    let job = registry.get("image:resize").expect("registered by its name on the wire");
    assert!(job.file.ends_with("macros/usage.rs"), "{}", job.file);
    let source = include_str!("usage.rs");
    let line = source.lines().nth(job.line as usize - 1).expect("the line");
    assert!(line.starts_with("#[job(name = \"image:resize\""), "{line}");
    assert!(registry.get("resize").is_none());
}

/// The declaration of a job in a program that only enqueues.
mod contract {
    use super::*;

    /// Runs elsewhere.
    #[job(name = "macros: scale", retention = "1h")]
    pub(super) async fn scale(path: &str, width: u32) -> JobResult<u64>;
}

/// The same job in the program that runs it.
#[job(name = "macros: scale", retention = "1h")]
async fn scale(path: String, width: u32) -> JobResult<u64> {
    Ok(u64::from(width) * path.len() as u64)
}

#[tokio::test]
async fn a_job_without_a_body_is_enqueued_and_never_served() {
    let app = TestApp::new().await.server(|server| server.registry(Registry::only::<(scale,)>().unwrap()));
    let task = contract::scale::enqueue(app.client(), "cat.png", 80).await.unwrap();
    assert_eq!(app.wait(&task, "1h").await, Outcome::Done(560));

    assert!(!JobDescriptor::of::<scale>("", 0).is_contract);
    assert!(Registry::linked().unwrap().get("macros: scale").is_some_and(|job| !job.is_contract));
    let error = Registry::only::<(contract::scale,)>().unwrap_err().to_string();
    assert!(error.contains("job `macros: scale`") && error.contains("has no body"), "{error}");
    let error = run(contract::scale { path: "cat.png".into(), width: 80 }).await.unwrap_err().to_string();
    assert!(error.contains("another program runs it"), "{error}");
}
