//! Groups of tasks that become one: by type, by a function, and tasks that cannot become a part of one.

mod other_versions;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use asynq_runtime::{
    broker::{
        Broker, GroupRules,
        sqlite::{SqliteBroker, SqliteOptions},
    },
    clock::ManualClock,
    job::{Aggregates, Aggregation},
    prelude::*,
    server::ServerBuilder,
    testing::TestApp,
};
use asynq_test_support::soon;
use serde::{Deserialize, Serialize};

/// The texts that the jobs note.
type Seen = Arc<Mutex<Vec<String>>>;

#[job(group = "digest", alias = "memo")]
async fn note(seen: State<Seen>, text: String) {
    seen.lock().unwrap().push(format!("note {text}"));
}

#[job(aggregates = note)]
async fn digest(ctx: &JobContext, seen: State<Seen>, notes: Vec<note>) {
    let texts: Vec<_> = notes.iter().map(|note| note.text.as_str()).collect();
    seen.lock().unwrap().push(format!("{} of {:?}: {}", ctx.id(), ctx.group(), texts.join(" ")));
}

#[job(group = "sums", codec = "json")]
async fn number(n: u64) {
    let _ = n;
}

/// Blocks its thread, and returns a result.
#[job(aggregates = number, retention = "1h")]
fn sum(numbers: Vec<number>) -> JobResult<u64> {
    Ok(numbers.iter().map(|number| number.n).sum())
}

#[job(group = "measures")]
async fn measure(seen: State<Seen>, value: f64) {
    seen.lock().unwrap().push(format!("measure {value}"));
}

/// Is in JSON, which has no NaN.
#[job(aggregates = measure, codec = "json")]
async fn report(seen: State<Seen>, values: Vec<measure>) {
    let values: Vec<_> = values.iter().map(|measure| measure.value.to_string()).collect();
    seen.lock().unwrap().push(format!("report {}", values.join(" ")));
}

#[job]
async fn plain(seen: State<Seen>, text: String) {
    seen.lock().unwrap().push(format!("plain {text}"));
}

async fn app() -> (TestApp, Seen) {
    let seen = Seen::default();
    (TestApp::new().await.state(seen.clone()), seen)
}

/// Returns a server of the jobs of this file. The inventory has other jobs, whose state this server does not have.
fn server(url: &str) -> ServerBuilder {
    Server::builder(url).registry(Registry::only::<(note, digest, number, sum, plain)>().unwrap())
}

fn seen(seen: &Seen) -> Vec<String> {
    seen.lock().unwrap().drain(..).collect()
}

/// Returns the states of all tasks of a type, with their last errors.
async fn states(app: &TestApp, name: &str) -> Vec<(TaskState, Option<String>)> {
    let tasks = app.tasks().await.into_iter().filter(|task| task.r#type == name);
    tasks.map(|task| (task.state, task.last_error)).collect()
}

#[tokio::test]
async fn the_tasks_of_a_ripe_group_become_one_with_all_their_arguments() {
    let (app, log) = app().await;
    for text in ["a", "b", "c"] {
        let task = note::enqueue(app.client(), text).await.unwrap();
        assert_eq!((task.state, task.next_process_at), (TaskState::Aggregating, None));
        assert_eq!(task.group.as_deref(), Some("digest"));
    }
    assert_eq!(app.drain().await.aggregated, 0);
    app.advance("1m").await;
    let drained = app.drain().await;
    assert_eq!((drained.aggregated, drained.succeeded), (3, 1), "{drained:?}");
    let [line] = &*seen(&log) else { panic!("one digest") };
    assert!(line.starts_with("agg:") && line.ends_with("of Some(\"digest\"): a b c"), "{line}");
    assert!(app.tasks().await.is_empty());
}

#[tokio::test]
async fn a_blocking_job_takes_them_as_well_and_has_a_result() {
    let (app, _) = app().await;
    let app = app.server(|server| server.group_max_size(3));
    for n in 1..=4 {
        number::enqueue(app.client(), n).await.unwrap();
    }
    assert_eq!(app.drain().await.aggregated, 3);
    let [task] = &*app.tasks().await.into_iter().filter(|task| task.r#type == "sum").collect::<Vec<_>>() else {
        panic!("one sum")
    };
    assert_eq!(app.client().result::<sum>(&task.id).await.unwrap(), 6);
    assert_eq!(states(&app, "number").await, [(TaskState::Aggregating, None)]);
}

#[tokio::test]
async fn a_set_has_a_thousand_tasks_at_most_whatever_its_rule_says() {
    let (app, _) = app().await;
    let app = app.server(|server| server.group_max_size(5_000));
    let notes = app.client().enqueue_many((0..=1_000).map(|n| note::job(n.to_string()))).await.unwrap();
    assert!(notes.iter().all(Result::is_ok));
    assert_eq!(app.drain().await.aggregated, 1_000);
}

#[tokio::test]
async fn a_set_waits_no_longer_than_it_may() {
    let (app, _) = app().await;
    let app = app.server(|server| server.group_grace("10m").group_max_delay("30s"));
    number::enqueue(app.client(), 1).await.unwrap();
    app.advance("29s").await;
    number::enqueue(app.client(), 2).await.unwrap();
    assert_eq!(app.drain().await.aggregated, 0);
    app.advance("1s").await;
    assert_eq!(app.drain().await.aggregated, 2);
}

#[tokio::test]
async fn a_group_that_tasks_join_all_the_time_is_ripe_when_it_has_a_thousand() {
    let (app, _) = app().await;
    let enqueue = async |numbers: std::ops::Range<u64>| {
        let tasks = numbers.map(|n| number::job(n).into());
        for enqueued in app.client().enqueue_all(tasks).await.unwrap() {
            enqueued.unwrap();
        }
    };
    enqueue(0..999).await;
    assert_eq!(app.drain().await.aggregated, 0);
    enqueue(999..1000).await;
    assert_eq!(app.drain().await.aggregated, 1000);
}

#[tokio::test]
async fn a_task_that_cannot_join_a_set_runs_alone_where_it_may_be_archived_with_the_reason() {
    let (app, log) = app().await;
    let archived = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&archived);
    let app = app.server(|server| {
        server.on_archive(move |failed| {
            hook.lock().unwrap().push(failed.error);
            std::future::ready(())
        })
    });
    let client = app.client();
    note::enqueue(client, "good").await.unwrap();
    note::job("late").expires("30s").enqueue(client).await.unwrap();
    note::job("too late").deadline("40s").enqueue(client).await.unwrap();
    plain::job("other").group("digest").enqueue(client).await.unwrap();
    client.enqueue(RawTask::new("note", "{").group("digest")).await.unwrap();
    client.enqueue(RawTask::new("note", &b"\x01\x00\x00\x00\x00"[..]).group("digest")).await.unwrap();
    app.advance("1m").await;
    let drained = app.drain().await;
    assert_eq!((drained.aggregated, drained.succeeded, drained.requeued), (6, 2, 1), "{drained:?}");
    let mut lines = seen(&log);
    lines.sort();
    assert!(lines[0].ends_with(": good") && lines[1] == "plain other", "{lines:?}");
    let mut notes = states(&app, "note").await;
    notes.sort();
    let begins = [
        (TaskState::Retry, "the arguments of `note` have shape"),
        (TaskState::Archived, "deadline passed"),
        (TaskState::Archived, "expired: no attempt begins after "),
        (TaskState::Archived, "the arguments of `note` cannot be read"),
    ];
    assert_eq!(notes.len(), begins.len(), "{notes:?}");
    for ((state, error), (expected, begin)) in notes.iter().zip(begins) {
        assert!(*state == expected && error.as_ref().is_some_and(|error| error.starts_with(begin)), "{notes:?}");
    }
    let mut archived = archived.lock().unwrap().clone();
    archived.sort();
    let [deadline, expired, unreadable] = &*archived else { panic!("{archived:?}") };
    assert!(deadline == "deadline passed" && expired.starts_with("expired"), "{archived:?}");
    assert!(unreadable.starts_with("the arguments of `note` cannot be read"), "{archived:?}");
}

#[tokio::test]
async fn a_task_that_the_new_task_cannot_encode_runs_alone() {
    let (app, log) = app().await;
    for value in [1.0, f64::NAN, 2.0] {
        measure::enqueue(app.client(), value).await.unwrap();
    }
    app.advance("1m").await;
    let drained = app.drain().await;
    assert_eq!((drained.unaggregated.len(), drained.aggregated, drained.succeeded), (0, 3, 3), "{drained:?}");
    let mut lines = seen(&log);
    lines.sort();
    assert_eq!(lines, ["measure NaN", "report 1", "report 2"]);
    assert!(states(&app, "measure").await.is_empty());
}

#[tokio::test]
async fn a_type_that_is_not_known_leaves_the_group_to_others() {
    let (app, _) = app().await;
    note::enqueue(app.client(), "a").await.unwrap();
    app.client().enqueue(RawTask::new("of Go", "x").group("digest")).await.unwrap();
    app.advance("1m").await;
    let drained = app.drain().await;
    assert_eq!(drained.aggregated, 0);
    let [(group, why)] = &*drained.unaggregated else { panic!("{drained:?}") };
    assert!(group.as_str() == "digest" && why.contains("\"of Go\""), "{why}");
    assert_eq!(states(&app, "note").await, [(TaskState::Aggregating, None)]);
}

#[tokio::test]
async fn a_function_makes_the_task_of_the_group_that_fits_best() {
    let (app, _) = app().await;
    let made = |name: &'static str| {
        move |group: asynq_runtime::task::GroupName, tasks: Vec<TaskInfo>| {
            let all: Vec<_> = tasks.iter().map(|task| String::from_utf8_lossy(&task.payload).into_owned()).collect();
            Ok::<_, BoxError>(
                RawTask::new(name, format!("{group}: {}", all.join("+"))).queue("elsewhere").retention("1d"),
            )
        }
    };
    let app = app.server(|server| {
        server.aggregate("", made("any")).aggregate("mail", made("mail")).aggregate("mails", made("mails")).aggregate(
            "digest",
            |_, tasks| async move {
                tokio::task::yield_now().await;
                Ok::<_, BoxError>(plain::job(format!("{} notes", tasks.len())))
            },
        )
    });
    for (group, text) in [("mails", "a"), ("mails", "b"), ("mailbox", "c"), ("x", "d"), ("digest", "e")] {
        app.client().enqueue(RawTask::new("of Go", text).queue("q").group(group).header("k", text)).await.unwrap();
    }
    app.advance("1m").await;
    assert_eq!(app.drain().await.aggregated, 5);
    let mut tasks = app.tasks().await;
    tasks.sort_by(|a, b| a.r#type.cmp(&b.r#type));
    let texts: Vec<_> =
        tasks.iter().map(|t| format!("{} {} {}", t.r#type, t.queue, String::from_utf8_lossy(&t.payload))).collect();
    assert_eq!(texts, ["any q x: d", "mail q mailbox: c", "mails q mails: a+b"]);
    assert!(tasks.iter().all(|task| task.id.as_str().starts_with("agg:") && task.group.is_none()));
    assert!(tasks[0].headers.is_empty() && tasks[0].retention == Some(Duration::from_secs(86_400)), "{:?}", tasks[0]);
}

#[derive(Debug, thiserror::Error)]
#[error("no idea")]
struct NoIdea(#[source] std::io::Error);

#[tokio::test]
async fn a_function_that_fails_leaves_the_tasks_in_their_group() {
    let (app, _) = app().await;
    let app = app.server(|server| {
        server
            .aggregate("bad", |_, _| Err::<RawTask, _>(NoIdea(std::io::Error::other("the template is gone"))))
            .aggregate("loop", |_, _| Ok::<_, BoxError>(RawTask::new("x", "").group("loop")))
            .aggregate("panics", |_, _| -> Result<RawTask, BoxError> { panic!("out of ideas") })
            .aggregate("rests", |_, _| Ok::<_, BoxError>(RawTask::new("x", "").debounce("10s")))
            .aggregate("stays", |_, _| Ok::<_, BoxError>(RawTask::new("x", "").unique("10s").or_replace()))
            .aggregate("wrong", |_, _| Ok::<_, BoxError>(RawTask::new("x", "").timeout("soon")))
    });
    for group in ["bad", "loop", "panics", "rests", "stays", "wrong"] {
        app.client().enqueue(RawTask::new("of Go", "x").group(group)).await.unwrap();
    }
    app.advance("1m").await;
    let drained = app.drain().await;
    let whys: Vec<_> = drained.unaggregated.iter().map(|(_, why)| why.as_str()).collect();
    assert_eq!(whys.len(), 6, "{whys:?}");
    assert_eq!(whys[0], "its aggregation failed: no idea: the template is gone");
    for (at, option) in [(1, "group"), (3, "debounce"), (4, "or_replace")] {
        let expected = format!("invalid option `{option}`: an aggregated task runs by itself");
        assert!(whys[at].contains(&expected), "{}", whys[at]);
    }
    assert!(whys[2].starts_with("its aggregation failed: panic") && whys[2].contains("out of ideas"), "{}", whys[2]);
    assert!(whys[5].contains("invalid option `timeout`"), "{}", whys[5]);
    assert_eq!(states(&app, "of Go").await, vec![(TaskState::Aggregating, None); 6]);
}

#[tokio::test]
async fn the_set_of_a_drain_that_was_dropped_goes_back_to_its_group() {
    let (app, _) = app().await;
    let (sender, mut entered) = tokio::sync::mpsc::unbounded_channel();
    let app = app.server(|server| {
        server.aggregate("slow", move |_, _| {
            let never_ends = sender.send(()).is_ok();
            async move {
                if never_ends {
                    std::future::pending::<()>().await;
                }
                Ok::<_, BoxError>(RawTask::new("made", ""))
            }
        })
    });
    app.client().enqueue(RawTask::new("of Go", "x").group("slow")).await.unwrap();
    app.advance("1m").await;
    tokio::select! {
        drained = app.drain() => panic!("{drained:?}"),
        has_begun = soon(entered.recv()) => has_begun.unwrap(),
    }
    drop(entered);
    app.advance("3m").await;
    let drained = app.drain().await;
    assert_eq!((drained.aggregated, drained.unaggregated.len()), (1, 0), "{drained:?}");
}

#[tokio::test]
async fn a_group_that_cannot_be_aggregated_leaves_those_of_its_name_in_other_queues() {
    let (app, _) = app().await;
    let app =
        app.server(|server| {
            server.aggregate("shared", |_, tasks| {
                if tasks[0].queue == "a" { Err("no idea") } else { Ok(RawTask::new("made", "")) }
            })
        });
    for queue in ["a", "b", "b"] {
        app.client().enqueue(RawTask::new("of Go", "x").queue(queue).group("shared")).await.unwrap();
    }
    app.advance("1m").await;
    let drained = app.drain().await;
    assert_eq!((drained.unaggregated.len(), drained.aggregated), (1, 2), "{drained:?}");
}

/// A job that is written by hand, and is in no inventory.
#[derive(Serialize, Deserialize)]
struct Bundle {
    notes: Vec<note>,
}

impl Job for Bundle {
    const NAME: &'static str = "bundle";
    type Output = JobResult;
    async fn run(self, ctx: &JobContext) -> JobResult {
        ctx.state::<Seen>().unwrap().lock().unwrap().push(format!("bundle of {}", self.notes.len()));
        Ok(())
    }
}

impl Aggregates for Bundle {
    type Of = note;
    fn aggregate(notes: Vec<note>) -> Self {
        Self { notes }
    }
}

#[tokio::test]
async fn an_aggregation_by_hand_counts_where_its_job_is_served() {
    let (app, log) = app().await;
    let only = Registry::only::<(note,)>().unwrap();
    let app = app.server(|server| server.registry(only).register_aggregate::<Bundle>());
    note::enqueue(app.client(), "a").await.unwrap();
    app.advance("1m").await;
    assert_eq!(app.drain().await.aggregated, 1);
    assert_eq!(seen(&log), ["bundle of 1"]);
}

#[tokio::test]
async fn two_jobs_of_the_same_tasks_stop_the_program_at_the_start() {
    let server = server("sqlite::memory:").register_aggregate::<Bundle>().state(Seen::default());
    let error = server.build().await.unwrap_err().to_string();
    assert!(error.starts_with("tasks of `note` would be aggregated into two jobs: "), "{error}");
    assert!(error.contains("aggregation.rs:"), "{error}");
    assert!(format!("{:?}", Aggregation::of::<Bundle>("here", 1)).contains("note"));
}

#[tokio::test]
async fn invalid_rules_are_refused_when_the_server_is_built() {
    let made = |_, _: Vec<TaskInfo>| Ok::<_, BoxError>(RawTask::new("digest", ""));
    let twice = server("sqlite::memory:").aggregate("mails", made).aggregate("mail", made).aggregate("mails", made);
    for (server, expected) in [
        (twice, "`aggregate`: the pattern `mails` is there twice"),
        (server("sqlite::memory:").group_grace("500ms"), "`group_grace`: it must be at least 1s"),
        (server("sqlite::memory:").group_max_delay("soon"), "`group_max_delay`: invalid duration \"soon\""),
        (server("sqlite::memory:").group_max_size(0), "`group_max_size`: a set has at least 1 task"),
    ] {
        let error = server.build().await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_server_aggregates_by_type_and_by_function_and_leaves_failures_alone() {
    let log = Seen::default();
    let server = server("sqlite::memory:").state(log.clone()).group_grace("1s").group_max_size(2);
    let server = server.aggregate("bad", |_, _| -> Result<RawTask, BoxError> { panic!("no idea") });
    let running = server.build().await.unwrap().start().await.unwrap();
    let client = running.client();
    client.enqueue(RawTask::new("of Go", "x").group("bad")).await.unwrap();
    let outcomes = client.enqueue_many(["a", "b", "c"].map(note::job)).await.unwrap();
    assert!(outcomes.iter().all(Result::is_ok));
    // a and b are full at once, c is ripe after the grace period.
    soon(running.signals().settled.reached(2)).await;
    // If the machine stood still for the grace period, both jobs begin at once.
    let lines = seen(&log);
    let has = |end: &str| lines.iter().filter(|line| line.ends_with(end)).count() == 1;
    assert!(lines.len() == 2 && has(": a b") && has(": c"), "{lines:?}");
    let turns = running.signals().aggregated.count();
    soon(running.signals().aggregated.reached(turns + 1)).await;
    let bad = client.broker().queue_stats(&"default".parse().unwrap()).await.unwrap();
    assert_eq!(bad.aggregating, 1);
    let [server] = &*client.broker().servers().await.unwrap() else { panic!("one server") };
    assert_eq!(server.info.aggregated_types, ["note", "memo", "number"]);
    assert_eq!(server.info.aggregated_groups, ["bad"]);
    soon(running.shutdown()).await.unwrap();
}

/// With a pause of five seconds in each turn, the sets would take more than three minutes; the wait ends after one.
#[tokio::test]
async fn full_sets_are_taken_one_after_the_other_without_a_pause() {
    const NOTES: usize = 2_000;
    const SIZE: usize = 5;
    let broker: Arc<dyn Broker> = Arc::new(SqliteBroker::in_memory(SqliteOptions::default()).await.unwrap());
    let client = Client::new(broker.clone());
    let notes = client.enqueue_many((0..NOTES).map(|n| note::job(n.to_string()))).await.unwrap();
    assert!(notes.iter().all(Result::is_ok));
    let server = server("").broker(broker).state(Seen::default()).group_grace("1h").group_max_size(SIZE);
    let running = server.build().await.unwrap().start().await.unwrap();
    soon(running.signals().settled.reached((NOTES / SIZE) as u64)).await;
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_stopping_server_puts_its_sets_back_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("tasks.db").display());
    let (sender, mut entered) = tokio::sync::mpsc::unbounded_channel();
    let server = server(&url).state(Seen::default()).group_max_size(1).aggregate("slow", move |_, _| {
        sender.send(()).unwrap();
        async { std::future::pending::<Result<RawTask, BoxError>>().await }
    });
    let running = server.build().await.unwrap().start().await.unwrap();
    running.client().enqueue(RawTask::new("of Go", "x").group("slow")).await.unwrap();
    soon(entered.recv()).await.unwrap();
    running.shutdown().await.unwrap();

    // Another server can take the set at once, not after its deadline of 2 minutes.
    let client = Client::connect(&url).await.unwrap();
    let (queue, group) = ("default".parse().unwrap(), "slow".parse().unwrap());
    let rules = GroupRules { max_size: Some(1), ..GroupRules::default() };
    let set = client.broker().claim_set(&queue, &group, &rules).await.unwrap();
    assert_eq!(set.unwrap().members.len(), 1);
}

#[tokio::test]
async fn the_set_of_a_server_that_died_goes_back_and_is_aggregated_by_another() {
    let clock = ManualClock::new(chrono::Utc::now());
    let broker = SqliteBroker::in_memory(SqliteOptions::with_clock(clock.clone())).await.unwrap();
    let broker: Arc<dyn Broker> = Arc::new(broker);
    note::enqueue(&Client::new(broker.clone()), "a").await.unwrap();
    let (queue, group) = ("default".parse().unwrap(), "digest".parse().unwrap());
    let rules = GroupRules { max_size: Some(1), ..GroupRules::default() };
    assert!(broker.claim_set(&queue, &group, &rules).await.unwrap().is_some(), "taken, and never ended");

    clock.advance(Duration::from_secs(121));
    let log = Seen::default();
    let server = server("").broker(broker).state(log.clone()).group_grace("1s");
    let running = server.build().await.unwrap().start().await.unwrap();
    soon(running.signals().settled.reached(1)).await;
    assert!(seen(&log)[0].ends_with(": a"));
    running.shutdown().await.unwrap();
}
