//! Finds tasks by id, type, arguments, error or time, in bounded steps: what one request does not reach the next one does.

mod wanted;

pub(crate) use self::wanted::state;

use std::time::{Duration, Instant};

use asynq_runtime::{
    TaskInfo, TaskState,
    broker::Page,
    task::{QueueName, TaskId},
};
use serde::Deserialize;

use self::wanted::Wanted;
use crate::{
    failure::{Failure, Kind},
    state::AppState,
};

/// Most tasks that one request gives.
pub(crate) const MOST_FOUND: usize = 100;
/// How long one request looks.
const LONGEST: Duration = Duration::from_millis(1500);
/// Searches at a time; each of them keeps the broker busy.
pub(crate) const AT_ONCE: usize = 4;
/// How long one waits for its turn.
const PATIENCE: Duration = Duration::from_secs(5);
/// Tasks that are read at once.
const SLICE: usize = 200;
/// All states, those first where people look.
const STATES: [TaskState; 7] = [
    TaskState::Active,
    TaskState::Retry,
    TaskState::Archived,
    TaskState::Pending,
    TaskState::Scheduled,
    TaskState::Completed,
    TaskState::Aggregating,
];

/// What is looked for; every part that is given must fit.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Query {
    /// Text in the id, type, arguments, error or group, letters large or small.
    pub(crate) q: String,
    /// Only in this queue.
    pub(crate) queue: String,
    /// Only in this state.
    pub(crate) state: String,
    /// Only aggregating tasks of this group.
    pub(crate) group: String,
    /// Only tasks of this type.
    pub(crate) r#type: String,
    /// Only tasks with a time (due, failed, completed) from this one on, RFC 3339.
    pub(crate) since: String,
    /// Only tasks with a time up to this one, RFC 3339.
    pub(crate) until: String,
    /// Goes on where the search before ended: its `next`.
    pub(crate) after: String,
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Found {
    /// The tasks, at most 100.
    pub(crate) tasks: Vec<TaskInfo>,
    /// How many tasks were looked at.
    pub(crate) looked_at: usize,
    /// Where to go on, for [`Query::after`]; `None` when everything was looked at.
    pub(crate) next: Option<String>,
}

/// Where a search is: state by state, queue by queue, slice by slice.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    state: usize,
    queue: String,
    page: usize,
}

impl Place {
    fn text(&self) -> String {
        format!("{}.{}.{}", self.state, self.page, self.queue)
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '.');
        let state = parts.next()?.parse().ok().filter(|state| *state < STATES.len())?;
        let page = parts.next()?.parse().ok().filter(|page| (1..=1_000_000).contains(page))?;
        Some(Self { state, page, queue: parts.next()?.to_owned() })
    }
}

/// Looks for tasks.
///
/// # Errors
///
/// A part of the query cannot be read, there is no such queue, the broker failed, or four others search already.
pub(crate) async fn search(app: &AppState, query: &Query) -> Result<Found, Failure> {
    let wanted = Wanted::read(query)?;
    let start = match query.after.as_str() {
        "" => None,
        text => Some(Place::read(text).ok_or_else(|| Failure::bad_request("`after` is none that a search gave"))?),
    };
    let turn = tokio::time::timeout(PATIENCE, app.searches().acquire()).await;
    let Ok(Ok(_turn)) = turn else {
        return Err(Failure::new(Kind::Busy, "others are searching; try again"));
    };
    let queues = queues(app, query).await?;
    let mut found = Found::default();
    let began = Instant::now();
    if start.is_none() {
        named(app, &queues, &wanted, &mut found, began).await?;
    }
    let by_id = found.tasks.len();
    let states = STATES.iter().enumerate().filter(|(_, state)| wanted.state.is_none_or(|wanted| wanted == **state));
    for (at, state) in states {
        for queue in &queues {
            let mut page = 1;
            if let Some(start) = &start {
                match (at, queue.as_str()).cmp(&(start.state, start.queue.as_str())) {
                    std::cmp::Ordering::Less => continue,
                    std::cmp::Ordering::Equal => page = start.page,
                    std::cmp::Ordering::Greater => {}
                }
            }
            loop {
                if found.tasks.len() >= MOST_FOUND || began.elapsed() > LONGEST {
                    found.next = Some(Place { state: at, queue: queue.to_string(), page }.text());
                    return Ok(found);
                }
                let (broker, slice) = (app.client().broker(), Page { number: page, size: SLICE });
                let some = match &wanted.group {
                    Some(group) => broker.group_tasks(queue, group, slice).await?,
                    None => broker.tasks(queue, *state, slice).await?,
                };
                found.looked_at += some.len();
                let is_last = some.is_empty();
                // Whole slices, so that the next request begins with a new one; 100 is passed by a part of one at most.
                let fits = some.into_iter().filter(|task| wanted.fits(app.registry(), task));
                let new = fits.filter(|task| !found.tasks[..by_id].iter().any(|known| same(known, task)));
                let new: Vec<_> = new.collect();
                found.tasks.extend(new);
                if is_last {
                    break;
                }
                page += 1;
            }
        }
    }
    Ok(found)
}

/// The tasks whose id is the text, without looking at any other.
async fn named(
    app: &AppState,
    queues: &[QueueName],
    wanted: &Wanted,
    found: &mut Found,
    began: Instant,
) -> Result<(), Failure> {
    if wanted.text.trim().is_empty() {
        return Ok(());
    }
    let id = TaskId::from_wire(&wanted.as_written);
    for queue in queues {
        if began.elapsed() > LONGEST / 2 || found.tasks.len() >= MOST_FOUND {
            break;
        }
        let task = app.client().broker().task(queue, &id).await?;
        found.tasks.extend(task.filter(|task| wanted.fits(app.registry(), task)));
    }
    Ok(())
}

fn same(a: &TaskInfo, b: &TaskInfo) -> bool {
    a.id == b.id && a.queue == b.queue
}

async fn queues(app: &AppState, query: &Query) -> Result<Vec<QueueName>, Failure> {
    if !query.queue.is_empty() {
        return Ok(vec![app.inspector().queue(&query.queue).await?.name]);
    }
    let mut queues = app.client().broker().queues().await?;
    queues.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    Ok(queues)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_comes_back_from_its_text_whatever_the_queue_is_called() {
        for queue in ["default", "a.b.c", "", "1.2.3"] {
            let place = Place { state: 3, queue: queue.into(), page: 17 };
            assert_eq!(Place::read(&place.text()), Some(place));
        }
        for bad in ["", "9.1.q", "1.0.q", "1.q", "x", "1.99999999999.q"] {
            assert_eq!(Place::read(bad), None, "{bad}");
        }
    }
}
