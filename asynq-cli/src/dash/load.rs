//! Reads the content of a screen from the broker.

use asynq_runtime::{
    Client, Inspector, TaskInfo, TaskState,
    broker::{Failure, GroupStats, QueueStats, ServerState},
    inspector::{ArchiveRoom, InspectError, UnreadableQueue},
    task::{QueueName, TaskId},
};
use bytes::Bytes;
use chrono::{DateTime, Utc};

use crate::{
    entries::{Entry, entries},
    show::{for_people, for_people_in_brief},
    unlisted,
};

/// The content that a screen asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    Queues,
    Tasks(Listing),
    Task(QueueName, TaskId),
    Servers,
    Periodic,
}

/// One page of the tasks of a queue in a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) queue: QueueName,
    pub(crate) state: TaskState,
    /// Counted from 1.
    pub(crate) page: usize,
    /// Tasks on a page.
    pub(crate) size: usize,
}

/// An answer of the broker, with the content that it answers for.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) wanted: Wanted,
    /// The broker's time.
    pub(crate) now: DateTime<Utc>,
    /// The archive of the queue, where tasks of one queue are shown.
    pub(crate) archive: Option<ArchiveRoom>,
    pub(crate) content: Content,
}

/// The content of a screen.
#[derive(Debug)]
pub(crate) enum Content {
    /// The queues, and those that cannot be read.
    Queues(Vec<QueueStats>, Vec<UnreadableQueue>),
    Tasks {
        stats: Box<QueueStats>,
        tasks: Vec<TaskInfo>,
        groups: Vec<GroupStats>,
    },
    /// `None` if the task is not there any more.
    Task(Option<Box<(TaskInfo, Vec<Failure>)>>),
    /// The servers; where there is none, why servers that run may be missing.
    Servers(Vec<ServerState>, Option<&'static str>),
    /// The periodic entries; where there is none, why schedulers that run may be missing.
    Periodic(Vec<Entry>, Option<&'static str>),
}

/// Groups that are shown of a queue.
const GROUPS: usize = 50;

pub(crate) async fn load(client: &Client, wanted: Wanted) -> Result<Loaded, InspectError> {
    let inspector = client.inspector();
    let mut content = match &wanted {
        Wanted::Queues => {
            let (queues, unreadable) = UnreadableQueue::part(inspector.each_queue().await?);
            Content::Queues(queues, unreadable)
        }
        Wanted::Tasks(Listing { queue, state, page, size }) => Content::Tasks {
            stats: Box::new(inspector.queue(queue).await?),
            tasks: {
                let page = inspector.tasks(queue, *state).page(*page).per_page(*size).brief().await?;
                page.into_iter().map(|brief| brief.task).collect()
            },
            groups: match state {
                TaskState::Aggregating => inspector.groups(queue).limit(GROUPS).await?.groups,
                _ => Vec::new(),
            },
        },
        Wanted::Task(queue, id) => Content::Task(match inspector.task(queue, id).await {
            Ok(task) => Some(Box::new((task, inspector.failures(queue, id).await?))),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        }),
        Wanted::Servers => {
            let servers = inspector.servers().await?;
            let hidden = if servers.is_empty() { unlisted::reason_of(client).await? } else { None };
            Content::Servers(servers, hidden)
        }
        Wanted::Periodic => {
            let entries = entries(client).await?;
            let hidden = if entries.is_empty() { unlisted::reason_of(client).await? } else { None };
            Content::Periodic(entries, hidden)
        }
    };
    let archive = match &wanted {
        // The screen is complete without the archive: a queue whose numbers cannot be read hides none of its tasks.
        Wanted::Tasks(Listing { queue, .. }) | Wanted::Task(queue, _) => inspector.archive_room(queue).await.ok(),
        Wanted::Queues | Wanted::Servers | Wanted::Periodic => None,
    };
    make_readable(&inspector, &mut content).await;
    Ok(Loaded { wanted, now: client.broker().now(), archive, content })
}

/// Replaces payloads by readable arguments where the broker keeps their shapes.
async fn make_readable(inspector: &Inspector, content: &mut Content) {
    let shown = if matches!(content, Content::Tasks { .. }) { for_people_in_brief } else { for_people };
    let mut payloads: Vec<(&str, &mut Bytes)> = match content {
        Content::Tasks { tasks, .. } => tasks.iter_mut().map(|task| (&*task.r#type, &mut task.payload)).collect(),
        Content::Task(Some(task)) => vec![(&*task.0.r#type, &mut task.0.payload)],
        Content::Servers(servers, _) => {
            let workers = servers.iter_mut().flat_map(|server| &mut server.workers);
            workers.map(|worker| (&*worker.task_type, &mut worker.task_payload)).collect()
        }
        // Running an entry enqueues its payload, which therefore stays as it is.
        Content::Queues(..) | Content::Task(None) | Content::Periodic(..) => Vec::new(),
    };
    let reader = inspector.argument_reader(payloads.iter().map(|(r#type, payload)| (*r#type, &payload[..]))).await;
    for (r#type, payload) in &mut payloads {
        **payload = shown(r#type, payload, Some(&reader));
    }
}
