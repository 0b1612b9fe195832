use serde::{Deserialize, Serialize};

use super::*;
use crate::{
    broker::sqlite::{SqliteBroker, SqliteOptions},
    job::{Aggregates, Job, JobOptions, JobResult},
    server::{
        config::OnUnknown,
        handlers::{Handlers, handler},
    },
    task::{Extra, QueueName, TaskMessage},
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
struct Waiting<const GROUPED: bool> {
    notes: Vec<Note>,
}

impl<const GROUPED: bool> Job for Waiting<GROUPED> {
    const NAME: &'static str = "waiting";
    const OPTIONS: JobOptions = match GROUPED {
        true => JobOptions::new().group("g"),
        false => JobOptions::new().debounce(Duration::from_secs(30)),
    };
    type Output = JobResult;
    async fn run(self, _: &JobContext) -> JobResult {
        Ok(())
    }
}

impl<const GROUPED: bool> Aggregates for Waiting<GROUPED> {
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
    }
}

async fn broker() -> Arc<dyn Broker> {
    Arc::new(SqliteBroker::in_memory(SqliteOptions::default()).await.expect("in memory"))
}

#[tokio::test]
async fn a_type_that_nothing_knows_leaves_its_group_when_other_servers_had_their_time() {
    let set = set(["known", "unknown", "unseen"].map(|r#type| member(r#type, b"")).into());
    let handlers = Handlers::new(vec![("known".to_owned(), handler(|_| std::future::ready(())))]).unwrap();
    let dispatcher = Dispatcher::new(Registry::only::<()>().unwrap(), handlers, OnUnknown::default());
    let broker = broker().await;
    let ended = async |members: &[SetMember], stranded: &[&str]| {
        let stranded: Vec<_> = stranded.iter().map(ToString::to_string).collect();
        let set = TaskSet { members: members.to_vec(), ..set.clone() };
        let outcome = Aggregations::default().aggregate(&set, &broker, &dispatcher, &stranded).await;
        outcome.map(|outcome| outcome.alone)
    };
    let fails_by = |types: &[&str]| {
        let unknown = types.iter().map(|r#type| ((*r#type).to_owned(), TaskId::from_wire(r#type)));
        Err(Unaggregated::Unknown(unknown.collect()))
    };
    let alone = |ids: &[&str]| Ok(ids.iter().map(|id| TaskId::from_wire(id)).collect::<Vec<_>>());
    assert_eq!(ended(&set.members, &[]).await, fails_by(&["unknown", "unseen"]));
    assert_eq!(ended(&set.members[..2], &["unknown"]).await, alone(&["known", "unknown"]));
    let both = fails_by(&["unknown", "unseen"]);
    assert_eq!(ended(&set.members, &["unknown"]).await, both, "another server may know the other one");
    assert_eq!(ended(&set.members, &["unseen", "unknown"]).await, alone(&["known", "unknown", "unseen"]));
}

#[tokio::test]
async fn a_task_of_another_shape_stays_in_its_group_while_the_broker_cannot_be_asked_for_the_shape() {
    // The job that is aggregated need not be served here.
    let registry = Registry::only::<(Digest,)>().unwrap();
    let mut aggregations = Aggregations::default();
    aggregations.serve(&registry, [Aggregation::of::<Digest>("here", 1)]).unwrap();
    let dispatcher = Dispatcher::new(registry, Handlers::default(), OnUnknown::default());
    let set = set(vec![member("note", b"\x01\x00\x00\x00\x00a")]);
    let broker = broker().await;
    broker.close().await;
    let Err(Unaggregated::Failed(reason)) = aggregations.aggregate(&set, &broker, &dispatcher, &[]).await else {
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
    for (option, refusal) in [("group", refusal::<Waiting<true>>()), ("debounce", refusal::<Waiting<false>>())] {
        assert!(refusal.starts_with("job `waiting` (here:1)"), "{refusal}");
        assert!(refusal.ends_with(&format!("leave `{option}` out")), "{refusal}");
    }
}
