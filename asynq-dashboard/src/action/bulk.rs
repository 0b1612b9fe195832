//! Runs, archives or deletes some tasks of a queue, or all in one state or group.

use std::time::{Duration, Instant};

use asynq_runtime::{
    broker::{BulkAction, Chosen},
    inspector::{ArchiveRoom, InspectError, ListTasks},
    task::{GroupName, TaskState},
};
use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};

use crate::{
    failure::{Failure, Kind},
    input::Input,
    page::count,
    path::{Name, Segments},
    query::search,
    state::AppState,
};

/// How long one request works; its answer says how many tasks are left.
const LONGEST: Duration = Duration::from_secs(15);

/// An action on some tasks.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BulkRequest {
    #[serde(with = "Action")]
    action: BulkAction,
    /// The state of the tasks.
    state: String,
    /// Only tasks that wait in this group.
    #[serde(default)]
    group: Option<String>,
    /// The ids of the tasks, at most 500 …
    #[serde(default)]
    ids: Vec<String>,
    /// … or all tasks.
    #[serde(default)]
    all: bool,
    /// Most tasks to change if `all` is set: as many as the user was asked about. Tasks that come meanwhile are left.
    #[serde(default)]
    most: Option<u64>,
    /// Tasks that earlier requests of the same action changed, which the message counts too.
    #[serde(default)]
    before: u64,
    /// Archives the tasks although the archive keeps fewer: a worker deletes the oldest. Refused otherwise.
    #[serde(default)]
    beyond_archive: bool,
}

/// The words for the actions.
#[derive(Deserialize)]
#[serde(remote = "BulkAction", rename_all = "lowercase")]
enum Action {
    Run,
    Archive,
    Delete,
}

/// The result of a bulk action.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    message: String,
    /// Tasks that were changed.
    changed: u64,
    /// Requested tasks that are treated: changed, or found to be gone.
    treated: u64,
    /// Tasks that match now: not reached in time, or new.
    left: u64,
    /// Whether the action is not complete: the client repeats the request to go on.
    more: bool,
    /// The first 20 tasks by id that were refused, with the reason.
    refused: Vec<Refused>,
}

#[derive(Debug, Serialize)]
struct Refused {
    id: String,
    message: String,
}

/// Most refusals that are reported one by one.
const MOST_REPORTED: usize = 20;

pub(super) async fn bulk(
    State(app): State<AppState>,
    Segments(Name(queue)): Segments<Name>,
    Input(wanted): Input<BulkRequest>,
) -> Result<Json<Report>, Failure> {
    let state = search::known_state(&wanted.state)?;
    let report = match (wanted.all, wanted.ids.as_slice()) {
        (true, []) => all(&app, &queue, state, &wanted).await,
        (false, ids @ [_, ..]) if ids.len() <= ListTasks::MOST => each(&app, &queue, state, ids, &wanted).await,
        (false, [_, ..]) => Err(Failure::bad_request("at most 500 ids can be given; give `all`")),
        _ => Err(Failure::bad_request("give either `ids` or `all`")),
    };
    app.samples.forget();
    report.map(Json)
}

async fn all(app: &AppState, queue: &str, state: TaskState, wanted: &BulkRequest) -> Result<Report, Failure> {
    let chosen = match wanted.group.as_deref() {
        Some(group) if state == TaskState::Aggregating => Chosen::InGroup(GroupName::from_wire(group)),
        Some(_) => return Err(Failure::bad_request("only aggregating tasks wait in groups")),
        None => Chosen::InState(state),
    };
    let inspector = &app.inspector;
    let bulk = match wanted.action {
        BulkAction::Run => inspector.run_all(queue, chosen),
        BulkAction::Archive => inspector.archive_all(queue, chosen),
        BulkAction::Delete => inspector.delete_all(queue, chosen),
    };
    let bulk = match wanted.most {
        Some(most) => bulk.at_most(most),
        None => bulk,
    };
    let until = Instant::now() + LONGEST;
    let mut bulk = match bulk.start().await {
        // The state was checked before: the group is missing.
        Err(error @ InspectError::Request { what: "group", .. }) => return Err(Failure::not_found(error.to_string())),
        started => started?,
    };
    agreed(queue, bulk.archive_room(), bulk.beyond_archive_limit(), wanted)?;
    let (room, mut more) = (bulk.archive_room(), false);
    while let Some(progress) = bulk.slice().await? {
        if progress.done < progress.total && Instant::now() > until {
            more = true;
            break;
        }
    }
    let treated = bulk.progress().done;
    let report = bulk.report().await?;
    // Other programs may have taken the rest meanwhile.
    more &= report.left > 0;
    let mut message = summary(report.changed, wanted);
    if report.left > 0 {
        let then = if more { ": ask again to go on" } else { "" };
        message.push_str(&format!(" {} {} left{then}.", count(report.left), are(report.left)));
    }
    if report.beyond_archive_limit > 0 {
        message.push_str(&format!(
            " The archive keeps {}: a worker will delete the {} oldest.",
            count(room.limit),
            count(report.beyond_archive_limit)
        ));
    }
    Ok(Report { message, changed: report.changed, treated, left: report.left, more, refused: Vec::new() })
}

/// Refuses to archive more tasks than the archive keeps, unless the request sets `beyond_archive`.
fn agreed(queue: &str, room: ArchiveRoom, beyond: u64, wanted: &BulkRequest) -> Result<(), Failure> {
    if beyond == 0 || wanted.beyond_archive || wanted.action != BulkAction::Archive {
        return Ok(());
    }
    let message = format!(
        "nothing was archived: the archive of queue {queue} keeps {} tasks and holds {}, so the {} oldest would be deleted; \
         run or delete some instead, or say `beyond_archive`",
        count(room.limit),
        count(room.archived),
        count(beyond)
    );
    Err(Failure::new(Kind::Conflict, message))
}

/// Changes those of these tasks that are still in the state in which they were picked.
async fn each(
    app: &AppState,
    queue: &str,
    state: TaskState,
    ids: &[String],
    wanted: &BulkRequest,
) -> Result<Report, Failure> {
    let (inspector, action) = (&app.inspector, wanted.action);
    inspector.queue(queue).await?;
    if action == BulkAction::Archive {
        let room = inspector.archive_room(queue).await?;
        agreed(queue, room, room.beyond(ids.len() as u64), wanted)?;
    }
    let (mut report, mut refusals) = (Report::default(), 0_u64);
    let until = Instant::now() + LONGEST;
    for (at, id) in ids.iter().enumerate() {
        if Instant::now() > until {
            report.left = (ids.len() - at) as u64;
            break;
        }
        let changed = inspector.change_task(queue, id, Some(state), action).await;
        let is_unknown = matches!(&changed, Err(InspectError::Broker(error)) if error.is_ambiguous());
        match changed.map_err(Failure::from) {
            Ok(()) => report.changed += 1,
            Err(failure) if failure.kind == Kind::Away && report.changed == 0 => return Err(failure),
            Err(failure) => {
                refusals += 1;
                let perhaps = if is_unknown { "; look whether it was changed" } else { "" };
                if report.refused.len() < MOST_REPORTED {
                    report.refused.push(Refused { id: id.clone(), message: failure.message + perhaps });
                }
                if failure.kind == Kind::Away {
                    report.left = (ids.len() - at - 1) as u64;
                    break;
                }
            }
        }
    }
    report.treated = ids.len() as u64 - report.left;
    report.message = summary(report.changed, wanted);
    if let Some(first) = report.refused.first() {
        report.message.push_str(&format!(" {} could not be: {}.", count(refusals), first.message));
    }
    if report.left > 0 {
        report.message.push_str(&format!(" Not reached: {}; ask again.", count(report.left)));
    }
    Ok(report)
}

fn summary(changed: u64, wanted: &BulkRequest) -> String {
    let participle = match wanted.action {
        BulkAction::Run => "made pending",
        BulkAction::Archive => "archived",
        BulkAction::Delete => "deleted",
    };
    match changed.saturating_add(wanted.before) {
        1 => format!("1 task was {participle}."),
        n => format!("{} tasks were {participle}.", count(n)),
    }
}

/// Returns the verb of a sentence about `n` tasks.
pub(super) fn are(n: u64) -> &'static str {
    if n == 1 { "is" } else { "are" }
}
