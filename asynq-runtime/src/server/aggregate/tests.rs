use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::*;
use crate::{
    broker::{
        ServerName,
        sqlite::{SqliteBroker, SqliteOptions},
    },
    job::{Aggregates, Job, JobOptions, JobResult, encode_arguments},
    server::{
        backed_off::BackedOff,
        config::OnUnknown,
        handlers::{Handlers, handler},
    },
    task::{QueueName, QueueWeight, ServerInfo, TaskMessage},
};

#[derive(Serialize, Deserialize)]
struct Note {
    text: String,
}

impl Job for Note {
    const NAME: &'static str = "note";
    type Output = JobResult;
    async fn run(self, _: &JobContext) -> JobResult {
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
struct Digest {
    notes: Vec<Note>,
}

impl Job for Digest {
    const NAME: &'static str = "digest";
    type Output = JobResult;
    async fn run(self, _: &JobContext) -> JobResult {
        Ok(())
    }
}

impl Aggregates for Digest {
    type Of = Note;
    fn aggregate(notes: Vec<Note>) -> Self {
        Self { notes }
    }
}

/// A job whose options make its task wait for others.
#[derive(Serialize, Deserialize)]
struct Waiting<const OPTION: char> {
    notes: Vec<Note>,
}

impl<const OPTION: char> Job for Waiting<OPTION> {
    const NAME: &'static str = "waiting";
    const OPTIONS: JobOptions = match OPTION {
        'g' => JobOptions::new().group("g"),
        'd' => JobOptions::new().debounce(Duration::from_secs(30)),
        _ => JobOptions::new().unique(Duration::from_secs(30)),
    };
    type Output = JobResult;
    async fn run(self, _: &JobContext) -> JobResult {
        Ok(())
    }
}

impl<const OPTION: char> Aggregates for Waiting<OPTION> {
    type Of = Note;
    fn aggregate(notes: Vec<Note>) -> Self {
        Self { notes }
    }
}

fn member(r#type: &str, payload: &[u8]) -> SetMember {
    let (id, payload) = (r#type.to_owned(), payload.to_vec().into());
    let message = TaskMessage { r#type: id.clone(), id, payload, ..TaskMessage::default() };
    SetMember { id: TaskId::from_wire(r#type), message: Ok(message), extra: Extra::default() }
}

fn set(members: Vec<SetMember>) -> TaskSet {
    TaskSet {
        queue: QueueName::from_wire("q"),
        group: GroupName::from_wire("g"),
        id: "s".to_owned(),
        number: 0,
        deadline: DateTime::UNIX_EPOCH,
        members,
        is_full: false,
        crashes: 0,
    }
}

async fn broker() -> Arc<dyn Broker> {
    Arc::new(SqliteBroker::in_memory(SqliteOptions::default()).await.expect("in memory"))
}

/// Returns these types as stranded, each in a set whose only task of it has the type as its id.
fn stranded(types: &[&str]) -> Stranded {
    let (group, now) = ((QueueName::from_wire("q"), GroupName::from_wire("g")), Instant::now());
    let mut backed_off = BackedOff::default();
    let unknown = types.iter().map(|r#type| ((*r#type).to_owned(), TaskId::from_wire(r#type)));
    backed_off.add(&group, unknown.collect(), now);
    backed_off.stranded(&group, now + Duration::from_secs(1_200))
}

#[tokio::test]
async fn a_server_lets_tasks_run_alone_beside_those_that_it_aggregates_and_where_other_servers_had_their_time() {
    let registry = Registry::only::<(Digest,)>().unwrap();
    let mut aggregations = Aggregations::default();
    aggregations.serve(&registry, [Aggregation::of::<Digest>("here", 1)]).unwrap();
    let mut handlers = Handlers::default();
    handlers.add("handle", "known".to_owned(), handler(|_| std::future::ready(()))).unwrap();
    let dispatcher = Dispatcher::new(registry, handlers, OnUnknown::default());
    let broker = broker().await;
    let note = encode_arguments(&Note { text: "a".into() }).unwrap();
    // For each set: its types, those that are stranded, and the types of the tasks that run alone, or else those that are left to
    // other servers. A note becomes a part of a digest.
    for (types, left, expected) in [
        (&["note"][..], &[""; 0][..], Ok(&[""; 0][..])),
        (&["note", "known"], &[], Ok(&["known"][..])),
        (&["note", "known", "unknown"], &[], Err(&["unknown"][..])),
        (&["note", "known", "unknown"], &["unknown"], Ok(&["known", "unknown"])),
        // Another server may aggregate the tasks that this one could run.
        (&["known"], &[], Err(&["known"])),
        (&["known"], &["known"], Ok(&["known"])),
        (&["known", "unknown", "unseen"], &["unknown"], Err(&["known", "unknown", "unseen"])),
        (&["unknown", "unseen"], &["unseen", "unknown"], Ok(&["unknown", "unseen"])),
    ] {
        let members = types.iter().map(|r#type| member(r#type, if *r#type == "note" { &note[..] } else { &b""[..] }));
        let set = set(members.collect());
        let ids = |types: &[&str]| types.iter().map(|r#type| TaskId::from_wire(r#type)).collect::<Vec<_>>();
        let outcome = aggregations.aggregate(&set, &broker, &dispatcher, &stranded(left)).await;
        let expected = expected.map(ids).map_err(|types| {
            Unaggregated::Unknown(
                types.iter().map(|r#type| ((*r#type).to_owned(), TaskId::from_wire(r#type))).collect(),
            )
        });
        let makes_one = expected.is_ok() && types.contains(&"note");
        assert_eq!(outcome.as_ref().map_or(0, |outcome| outcome.made.len()), usize::from(makes_one), "{types:?}");
        assert_eq!(outcome.map(|outcome| outcome.alone), expected, "{types:?}, of which {left:?} are stranded");
    }
}

/// Returns what makes digests of the notes in the queue `here`; the job `note` itself is not served.
fn digests_in_queue_here() -> (Aggregations, Dispatcher) {
    let registry = Registry::only::<(Digest,)>().expect("one job");
    let mut aggregations = Aggregations::default();
    aggregations.serve(&registry, [Aggregation::of::<Digest>("here", 1)]).expect("one aggregation");
    let dispatcher = Dispatcher::new(registry, Handlers::default(), OnUnknown::default());
    (aggregations, dispatcher)
}

#[tokio::test]
async fn stranded_tasks_stay_for_a_server_that_lives_and_aggregates_them_unless_this_one_aggregates_a_part() {
    let (aggregations, dispatcher) = digests_in_queue_here();
    let broker = broker().await;
    let note = encode_arguments(&Note { text: "a".into() }).unwrap();
    // For each set: the queue of the other server, the types and the groups that it aggregates, the types of the set, and whether
    // its tasks stay.
    for (queue, aggregated_types, aggregated_groups, types, stay) in [
        ("q", &["comment"][..], &[""; 0][..], &["comment"][..], true),
        ("q", &["comment"], &[], &["comment", "weird"], true),
        ("q", &["other"], &[], &["comment"], false),
        ("other", &["comment"], &[], &["comment"], false),
        ("q", &[], &["g"], &["comment"], true),
        ("q", &[], &["groups"], &["comment"], false),
        // Go's servers and those of earlier versions do not say it.
        ("q", &[], &[], &["comment"], false),
        // Neither server would ever have a set of its own types alone.
        ("q", &["comment"], &[], &["comment", "note"], false),
    ] {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let info = ServerInfo {
            queues: vec![QueueWeight { queue: Some(queue.to_owned()), weight: Some(1) }],
            aggregated_types: owned(aggregated_types),
            aggregated_groups: owned(aggregated_groups),
            ..ServerInfo::default()
        };
        let name = ServerName { host: "h".into(), pid: std::process::id(), server_id: "other".into() };
        let other = broker.join(&name, &info).await.unwrap();
        let members = types.iter().map(|r#type| member(r#type, if *r#type == "note" { &note[..] } else { &b""[..] }));
        let set = set(members.collect());
        let outcome = aggregations.aggregate(&set, &broker, &dispatcher, &stranded(&["comment", "weird"])).await;
        let is_left = matches!(outcome, Err(Unaggregated::Unknown(_)));
        assert_eq!((is_left, outcome.is_ok()), (stay, !stay), "{types:?} beside {info:?}: {outcome:?}");
        broker.leave(&other).await.unwrap();
    }
}

#[test]
fn a_task_of_a_set_says_when_it_expires() {
    let extra = Extra { expires_ms: Some(60_000), ..Extra::default() };
    let (_, sound) = sort(&[SetMember { extra, ..member("note", b"") }], DateTime::UNIX_EPOCH);
    assert_eq!(sound[0].1.expires, DateTime::from_timestamp_millis(60_000));
}

#[tokio::test]
async fn tasks_whose_aggregation_has_killed_three_workers_run_alone() {
    let registry = Registry::only::<(Digest,)>().unwrap();
    let dispatcher = Dispatcher::new(registry.clone(), Handlers::default(), OnUnknown::default());
    let mut typed = Aggregations::default();
    typed.serve(&registry, [Aggregation::of::<Digest>("here", 1)]).unwrap();
    let mut by_function = Aggregations::default();
    by_function.add_function("g".to_owned(), |_, _| Ok::<_, BoxError>(RawTask::new("made", ""))).unwrap();
    let broker = broker().await;
    let note = encode_arguments(&Note { text: "a".into() }).unwrap();
    for aggregations in [typed, by_function] {
        for (crashes, made, alone) in [(2, 1, 0), (3, 0, 1), (4, 0, 1)] {
            let set = TaskSet { crashes, ..set(vec![member("note", &note)]) };
            let outcome = aggregations.aggregate(&set, &broker, &dispatcher, &Stranded::default()).await.unwrap();
            assert_eq!((outcome.made.len(), outcome.alone.len()), (made, alone), "{crashes} crashes, {aggregations:?}");
        }
    }
}

#[tokio::test]
async fn a_task_of_another_shape_stays_in_its_group_while_the_broker_cannot_be_asked_for_the_shape() {
    let (aggregations, dispatcher) = digests_in_queue_here();
    let set = set(vec![member("note", b"\x01\x00\x00\x00\x00a")]);
    let broker = broker().await;
    broker.close().await;
    let Err(Unaggregated::Failed(reason)) =
        aggregations.aggregate(&set, &broker, &dispatcher, &Stranded::default()).await
    else {
        panic!("the task left its group")
    };
    assert!(reason.starts_with("the broker cannot be asked for the shape of the arguments: "), "{reason}");
}

#[test]
fn a_job_by_hand_whose_task_would_wait_for_others_stops_the_server_at_the_start() {
    fn refusal<J: Aggregates>() -> String {
        let registry = Registry::only::<(J,)>().unwrap();
        Aggregations::default().serve(&registry, [Aggregation::of::<J>("here", 1)]).unwrap_err().to_string()
    }
    for (option, refusal) in [
        ("group", refusal::<Waiting<'g'>>()),
        ("debounce", refusal::<Waiting<'d'>>()),
        ("unique", refusal::<Waiting<'u'>>()),
    ] {
        assert!(refusal.starts_with("job `waiting` (here:1)"), "{refusal}");
        assert!(refusal.ends_with(&format!("leave `{option}` out")), "{refusal}");
    }
}
