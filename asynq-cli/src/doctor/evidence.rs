//! The evidence that the checks look at, gathered once.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    pin::pin,
};

use asynq_grammar::shell;
use asynq_runtime::{
    Client, TaskState,
    broker::{
        Broker, BrokerError, Examination, GroupStats, Node, OddityKind, QueueKeys, QueueStats, ServerState, TaskBrief,
    },
    inspector::{InspectError, QueueReading},
    task::{QueueName, TaskId},
};
use chrono::{DateTime, Utc};
use futures_util::{StreamExt as _, stream};

use super::{
    Finding, Severity,
    clocks::after_late_beats,
    unanswered::{Unanswered, by_node},
};
use crate::{
    entries::{Entry, entries},
    reading::{AT_ONCE, Take, Unseen, read},
    show::tasks,
    unlisted,
};

/// A system as it was found.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// The broker's time.
    pub(crate) now: DateTime<Utc>,
    /// The stores that keep the tasks.
    pub(crate) nodes: Vec<Node>,
    /// Whether the URL takes a Redis that may evict keys: its user has seen to the policy.
    pub(crate) allows_eviction: bool,
    /// The servers that live.
    pub(crate) servers: Vec<ServerState>,
    /// Whether `servers` says nothing, because the list of them cannot be read.
    pub(crate) servers_unread: bool,
    /// Every queue that can be read.
    pub(crate) queues: Vec<QueueEvidence>,
    /// The queues that do not answer, by the address of the node that keeps them.
    pub(crate) unanswered: BTreeMap<String, Unanswered>,
    /// Every periodic entry that a living scheduler lists.
    pub(crate) entries: Vec<Entry>,
    /// The findings about parts that cannot be read although the broker answers.
    pub(crate) unread: Vec<Finding>,
}

impl Evidence {
    /// Returns whether `servers` has every server that runs. A broker that takes no writes does not take their reports either, so
    /// that servers which live vanish from the list; so do those with reports on a node that does not answer.
    pub(crate) fn has_all_servers(&self) -> bool {
        !self.servers_unread && unlisted::reason(&self.nodes).is_none()
    }
}

/// A queue as it was found.
#[derive(Debug)]
pub(crate) struct QueueEvidence {
    /// The numbers of the queue.
    pub(crate) stats: QueueStats,
    /// Whether the queue is in the list of queues, by which tools and servers of patterns find it.
    pub(crate) is_listed: bool,
    /// The inconsistencies of the queue.
    pub(crate) examination: Examination,
    /// The states of the tasks that the examination names because they are in no place or in a wrong one, by their ids.
    pub(crate) states: HashMap<String, TaskState>,
    /// Failed tasks that no worker could run, by their type and by the part that was unknown.
    pub(crate) unknown: Unknown,
    /// The group whose first task has waited for longest, among the first hundred groups.
    pub(crate) oldest_group: Option<GroupStats>,
}

impl QueueEvidence {
    /// Returns whether the queue has tasks, or rests of some.
    fn holds_anything(&self) -> bool {
        self.stats.size > 0 || !self.examination.oddities.is_empty()
    }
}

/// The part of a task that no worker knew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum UnknownPart {
    /// The type.
    Type,
    /// The shape of the arguments: another version of the program enqueued the task.
    Shape,
}

/// The numbers of tasks that no worker could run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct UnknownCounts {
    /// Tasks that were requeued, or failed and will be retried.
    pub(crate) waiting: usize,
    /// Tasks that were given up.
    pub(crate) archived: usize,
}

/// Examines the system, up to `limit` tasks of each state per queue and keys of each Redis; `on_progress` is called after each
/// queue with the number of queues that are done and of all.
///
/// # Errors
///
/// The broker does not answer. A refusal of a broker that answers hides nothing else: it becomes a finding, such as a queue
/// or a periodic entry that cannot be read, and the rest of the evidence is still gathered.
pub(crate) async fn gather(
    client: &Client,
    limit: usize,
    allows_eviction: bool,
    mut on_progress: impl FnMut(usize, usize),
) -> Result<Evidence, InspectError> {
    let inspector = client.inspector();
    let nodes = inspector.nodes().await?;
    let (mut queues, mut unread) = (Vec::new(), Vec::new());
    let means = "which servers serve the queues is not known";
    let servers = or_report(client, inspector.servers().await, "servers", means, &mut unread).await?;
    let servers_unread = !unread.is_empty();
    let servers = after_late_beats(&inspector, servers).await;
    let means = "nothing is known of any queue";
    let all = or_report(client, inspector.each_queue().await, "queues", means, &mut unread).await?;
    let listed: Vec<QueueName> = all.iter().map(|queue| queue.name.clone()).collect();
    let walked = client.broker().keys_of_all(&listed, limit).await;
    let (number, mut unanswered, mut all) = (walked.len(), Vec::new(), all.into_iter());
    // The queues that are missing from the list come last.
    let readings = walked.into_iter().map(|(name, keys)| Reading::take(client, name, keys, all.next(), limit));
    let mut readings = pin!(stream::iter(readings).buffered(AT_ONCE).enumerate());
    while let Some((n, reading)) = readings.next().await {
        let Reading { name, stats, examined, unknown, oldest_group } = reading?;
        on_progress(n + 1, number);
        let failed = [examined.as_ref().err(), unknown.as_ref().err(), oldest_group.as_ref().err()];
        let failed = failed.into_iter().flatten().next();
        if let Some(error) = failed {
            is_there(client, error).await?;
            let is_reported = examined.as_ref().is_ok_and(|(found, _)| found.count(OddityKind::ForeignKey) > 0);
            match error.is_unavailable() {
                _ if is_reported => {}
                true => unanswered.push((name.clone(), error.to_string())),
                false => unread.push(unreadable(name.as_str(), error.to_string(), QUEUE)),
            }
        }
        if let Ok((mut examination, states)) = examined {
            let stats = stats.unwrap_or_else(|_| QueueStats::empty(name, client.broker().now()));
            let (unknown, unseen) = unknown.unwrap_or_default();
            // An id without a task is a finding of the examination; only the limit leaves tasks unseen.
            examination.complete &= unseen.beyond == 0;
            let damaged = unseen.unreadable.saturating_sub(examination.count(OddityKind::IdWithoutTask));
            // Where ids without a task, wrong counts or foreign keys may explain it, nothing is said.
            let other = [OddityKind::WrongCount, OddityKind::ForeignKey];
            let is_sure = examination.complete && other.iter().all(|&kind| examination.count(kind) == 0);
            unread.extend((is_sure && damaged > 0).then(|| damaged_messages(&stats.name, damaged)));
            let oldest_group = oldest_group.unwrap_or_default();
            let is_listed = n < listed.len();
            queues.push(QueueEvidence { stats, is_listed, examination, states, unknown, oldest_group });
        }
    }
    let (unanswered, alone) = by_node(&inspector, unanswered).await;
    unread.extend(alone.into_iter().map(|(name, error)| unreadable(name.as_str(), error, QUEUE)));
    // The numbers of a queue that was deleted meanwhile are those from before. One that came meanwhile is listed by now: its name is
    // written before its first task. Without the list no queue is known to be missing from it.
    let names = client.broker().queues().await.ok().map(HashSet::<QueueName>::from_iter);
    queues.retain_mut(|queue: &mut QueueEvidence| {
        let was_listed = queue.is_listed;
        queue.is_listed = names.as_ref().map_or(was_listed, |names| names.contains(&queue.stats.name));
        queue.is_listed || (names.is_some() && !was_listed && queue.holds_anything())
    });
    let listed = entries(client).await.map_err(InspectError::from);
    let means = "nothing is known of any periodic entry";
    let entries = or_report(client, listed, "periodic entries", means, &mut unread).await?;
    for Entry { listed, error, .. } in &entries {
        let means = "whether the entry is paused, and when it was fired last, is not known";
        unread.extend(error.clone().map(|error| unreadable(&listed.task_type, error, means)));
    }
    let now = client.broker().now();
    Ok(Evidence { now, nodes, allows_eviction, servers, servers_unread, queues, unanswered, entries, unread })
}

/// The answers about one queue, before it is known which of them became findings.
struct Reading {
    name: QueueName,
    stats: Result<QueueStats, BrokerError>,
    /// The inconsistencies, and the states of the tasks that they name.
    examined: Result<(Examination, HashMap<String, TaskState>), InspectError>,
    unknown: Result<(Unknown, Unseen), InspectError>,
    oldest_group: Result<Option<GroupStats>, InspectError>,
}

impl Reading {
    /// Asks about a queue with these `keys`. `listed` are the numbers of one that is in the list of queues.
    ///
    /// # Errors
    ///
    /// The broker does not answer at all.
    async fn take(
        client: &Client,
        name: QueueName,
        keys: Result<QueueKeys, BrokerError>,
        listed: Option<QueueReading>,
        limit: usize,
    ) -> Result<Self, InspectError> {
        let broker = &**client.broker();
        let stats = match listed {
            Some(QueueReading { stats, .. }) => stats,
            None => client.inspector().read_queue(name.clone()).await?.stats,
        };
        // A broken record keeps the numbers from being read; the examination names that record.
        let examined = async {
            let examination = broker.examine_with(&name, &keys?, limit).await?;
            let states = states(broker, &name, &examination).await;
            Ok((examination, states))
        };
        let examined = examined.await;
        let unknown = match &stats {
            Ok(_) => unknown(broker, &name, limit).await.map_err(InspectError::from),
            Err(error) => Err(error.clone().into()),
        };
        let oldest_group = match &stats {
            Ok(stats) => oldest_group(broker, stats).await.map_err(InspectError::from),
            Err(_) => Ok(None),
        };
        Ok(Self { name, stats, examined, unknown, oldest_group })
    }
}

/// Fails if the broker does not answer at all after `error`. A Redis that cannot save refuses even `PING`, and answers this.
async fn is_there(client: &Client, error: &InspectError) -> Result<(), InspectError> {
    if error.is_unavailable() { client.inspector().nodes().await.map(drop) } else { Ok(()) }
}

/// Returns what was read; a refusal by a broker that answers becomes a finding.
async fn or_report<T: Default>(
    client: &Client,
    read: Result<T, InspectError>,
    subject: &str,
    means: &'static str,
    findings: &mut Vec<Finding>,
) -> Result<T, InspectError> {
    let Err(error) = read else { return read };
    is_there(client, &error).await?;
    findings.push(unreadable(subject, error.to_string(), means));
    Ok(T::default())
}

/// The text of the finding for a queue whose numbers cannot be read.
const QUEUE: &str = "nothing is known of this queue: neither what waits in it nor what is wrong with it";

/// Returns the finding for something that cannot be read.
pub(super) fn unreadable(subject: &str, found: String, means: &'static str) -> Finding {
    Finding {
        severity: Severity::Error,
        check: "unreadable",
        subject: subject.to_owned(),
        found,
        means,
        repair: "repair what the error names; where a node of a cluster is down, bring it back, then ask again"
            .to_owned(),
    }
}

/// Returns the finding for tasks that are there and that no page shows.
fn damaged_messages(queue: &QueueName, damaged: u64) -> Finding {
    let name = shell::quote(queue.as_str());
    let means = "their messages are damaged: no tool shows them or their ids, and they are in the numbers of the queue";
    let found = format!("{} in retry or in the archive cannot be read", tasks(damaged));
    let repair = format!(
        "a worker archives one that is due, and it is shown then, with its bytes; one that was archived before is deleted with all \
         others only: asynq task delete-all --queue={name} --state archived"
    );
    Finding { repair, ..unreadable(queue.as_str(), found, means) }
}

async fn oldest_group(broker: &dyn Broker, stats: &QueueStats) -> Result<Option<GroupStats>, BrokerError> {
    if stats.aggregating == 0 {
        return Ok(None);
    }
    let page = broker.groups(&stats.name, None, 100).await?;
    Ok(page.groups.into_iter().filter(|group| group.oldest.is_some()).min_by_key(|group| group.oldest))
}

/// Reads the states of the tasks that an examination names because they are in no place or in a wrong one. A state that cannot be read
/// is left out.
async fn states(broker: &dyn Broker, queue: &QueueName, examination: &Examination) -> HashMap<String, TaskState> {
    let mut states = HashMap::new();
    let is_misplaced = |kind| matches!(kind, OddityKind::TaskWithoutPlace | OddityKind::TaskInWrongPlace);
    let misplaced = examination.oddities.iter().filter(|oddity| is_misplaced(oddity.kind));
    for id in misplaced.flat_map(|oddity| &oddity.examples) {
        if let Ok(Some(task)) = broker.task(queue, &TaskId::from_wire(id)).await {
            states.insert(id.clone(), task.state);
        }
    }
    states
}

type Unknown = BTreeMap<(String, UnknownPart), UnknownCounts>;

/// Looks through the errors of failed tasks, up to `limit` of each state.
async fn unknown(broker: &dyn Broker, queue: &QueueName, limit: usize) -> Result<(Unknown, Unseen), BrokerError> {
    let (mut found, mut unseen) = (Unknown::new(), Unseen::default());
    // The end of the archive has the newest failures, which tell of the workers of today.
    for (state, take) in [(TaskState::Retry, Take::First), (TaskState::Archived, Take::Last)] {
        let count = |TaskBrief { task, .. }: TaskBrief| {
            let Some(unknown_part) = task.last_error.as_deref().and_then(unknown_part) else { return };
            let seen = found.entry((task.r#type, unknown_part)).or_default();
            *if state == TaskState::Retry { &mut seen.waiting } else { &mut seen.archived } += 1;
        };
        unseen += read(broker, queue, state, (limit, take), count).await?;
    }
    Ok((found, unseen))
}

/// Returns the part of a task that was unknown, according to its error.
fn unknown_part(error: &str) -> Option<UnknownPart> {
    // Both asynq's workers and ours use these words.
    if error.starts_with("handler not found for task") {
        return Some(UnknownPart::Type);
    }
    let (_, reason) = error.strip_prefix("the arguments of `")?.split_once("` ")?;
    ["have shape ", "do not fit: "].iter().any(|start| reason.starts_with(start)).then_some(UnknownPart::Shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unknown_name_is_read_from_the_error() {
        for (error, expected) in [
            (r#"handler not found for task "mail""#, Some(UnknownPart::Type)),
            ("the arguments of `mail` have shape 01020304, but this program's `mail` takes", Some(UnknownPart::Shape)),
            ("the arguments of `mail` do not fit: missing field `to` at line 1", Some(UnknownPart::Shape)),
            ("the arguments of `mail` cannot be read: too short", None),
            ("the arguments of nobody", None),
            ("no handler", None),
        ] {
            assert_eq!(unknown_part(error), expected, "{error}");
        }
    }
}
