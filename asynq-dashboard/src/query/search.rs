//! Finds tasks by id, type, arguments, error or time, in bounded steps: the next request goes on where one ended.

mod filter;

pub(crate) use self::filter::state;

use std::time::{Duration, Instant};

use asynq_runtime::{
    TaskInfo, TaskState,
    broker::{BrokerError, Page, TaskBrief},
    task::{QueueName, TaskId},
};
use futures_util::future::try_join_all;
use serde::Deserialize;

use self::filter::Filter;
use crate::{
    failure::{Failure, Kind},
    query::payload::Reader,
    state::AppState,
};

/// Most tasks that one request returns.
pub(crate) const MOST_FOUND: usize = 100;
/// How long a request for a page searches: the page is to be there in a fifth of a second, and its script goes on.
pub(crate) const FOR_A_PAGE: Duration = Duration::from_millis(100);
/// How long a request of a program searches.
pub(crate) const FOR_A_PROGRAM: Duration = Duration::from_millis(1500);
/// How long a search waits for its permit.
const PATIENCE: Duration = Duration::from_secs(5);
/// Tasks that are read at once.
const SLICE: usize = 200;
/// The largest position in the tasks of one queue and state at which a search can go on.
const MOST_SEEN: usize = 1_000_000 * SLICE;
/// Queues that are asked for an id at once.
const QUEUES_AT_ONCE: usize = 64;
/// All states, in the order in which people look at them.
const STATES: [TaskState; 7] = [
    TaskState::Active,
    TaskState::Retry,
    TaskState::Archived,
    TaskState::Pending,
    TaskState::Scheduled,
    TaskState::Completed,
    TaskState::Aggregating,
];

/// The criteria of a search; a task must match every one that is given.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Query {
    /// Text in the id, type, arguments, error, group or a header, in any case.
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
    /// The position at which to go on: the `next` of the search before.
    pub(crate) after: String,
}

/// The result of a search.
#[derive(Debug, Clone, Default)]
pub(crate) struct SearchResult {
    /// The tasks, at most 100.
    pub(crate) tasks: Vec<TaskBrief>,
    /// How many tasks were looked at.
    pub(crate) looked_at: usize,
    /// Where to go on, for [`Query::after`]; `None` when everything was looked at.
    pub(crate) next: Option<String>,
}

/// The position of a search: every queue is asked for the id first, then state by state, queue by queue, slice by slice.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Position {
    /// 0 while queues are asked for the id, then the index of a state in [`STATES`] plus 1.
    step: usize,
    queue: String,
    /// How many of the queue's tasks in that state were looked at.
    seen: usize,
}

impl Position {
    fn text(&self) -> String {
        format!("{}.{}.{}", self.step, self.seen, self.queue)
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '.');
        let step = parts.next()?.parse().ok().filter(|step| *step <= STATES.len())?;
        let seen = parts.next()?.parse().ok().filter(|seen| *seen <= MOST_SEEN)?;
        Some(Self { step, seen, queue: parts.next()?.to_owned() })
    }
}

/// One request's part of a search.
#[derive(Debug)]
struct Search<'a> {
    app: &'a AppState,
    filter: Filter,
    queues: Vec<QueueName>,
    found: SearchResult,
    /// How many of the found tasks have the text as their id.
    by_id: usize,
    /// Whether anything was looked at: a request without progress would be repeated again and again.
    began: bool,
    until: Instant,
}

/// Searches for tasks, for `longest` at most.
///
/// # Errors
///
/// A part of the query is not valid, there is no such queue, the broker failed, or four other searches run already.
pub(crate) async fn search(app: &AppState, query: &Query, longest: Duration) -> Result<SearchResult, Failure> {
    let filter = Filter::read(query)?;
    let start = match query.after.as_str() {
        "" => Position { step: 0, queue: String::new(), seen: 0 },
        text => Position::read(text).ok_or_else(|| Failure::bad_request("`after` is none that a search gave"))?,
    };
    let permit = tokio::time::timeout(PATIENCE, app.searches().acquire()).await;
    let Ok(Ok(_permit)) = permit else {
        return Err(Failure::new(Kind::Busy, "others are searching; try again"));
    };
    let until = Instant::now() + longest;
    let queues = queues(app, query).await?;
    let mut search = Search { app, filter, queues, found: SearchResult::default(), by_id: 0, began: false, until };
    search.found.next = search.run(start).await?.map(|position| position.text());
    Ok(search.found)
}

impl Search<'_> {
    /// Searches from a position on, and returns the position at which to go on; `None` when everything was looked at.
    async fn run(&mut self, start: Position) -> Result<Option<Position>, Failure> {
        if start.step == 0
            && let Some(queue) = self.named(&start.queue).await?
        {
            return Ok(Some(Position { step: 0, queue, seen: 0 }));
        }
        for (at, state) in STATES.into_iter().enumerate().skip(start.step.saturating_sub(1)) {
            if self.filter.state.is_some_and(|wanted| wanted != state) {
                continue;
            }
            let is_first = at + 1 == start.step;
            let first = if is_first { self.at(&start.queue) } else { 0 };
            for at_queue in first..self.queues.len() {
                let queue = self.queues[at_queue].clone();
                let seen = if is_first && queue.as_str() == start.queue { start.seen } else { 0 };
                if let Some(seen) = self.slices(&queue, state, seen).await? {
                    return Ok(Some(Position { step: at + 1, queue: queue.to_string(), seen }));
                }
            }
        }
        Ok(None)
    }

    /// Returns the index of the first queue from this name on.
    fn at(&self, name: &str) -> usize {
        self.queues.partition_point(|queue| queue.as_str() < name)
    }

    fn is_enough(&self) -> bool {
        self.began && (self.found.tasks.len() >= MOST_FOUND || Instant::now() > self.until)
    }

    /// Finds the tasks whose id is the text, without looking at any other; returns the queue at which to go on.
    async fn named(&mut self, from: &str) -> Result<Option<String>, Failure> {
        if self.filter.text.trim().is_empty() {
            return Ok(None);
        }
        let id = TaskId::from_wire(&self.filter.as_written);
        let broker = self.app.client().broker();
        let mut queues = &self.queues[self.at(from)..];
        self.began = true;
        loop {
            // Each queue has at most one such task.
            let left = MOST_FOUND - self.found.tasks.len();
            let (some, rest) = queues.split_at(QUEUES_AT_ONCE.min(left).min(queues.len()));
            let tasks = try_join_all(some.iter().map(|queue| broker.task(queue, &id))).await?;
            let tasks: Vec<_> = tasks.into_iter().flatten().map(TaskBrief::of).collect();
            let reader = Reader::of_tasks(self.app, &tasks).await;
            self.found.tasks.extend(tasks.into_iter().filter(|task| self.filter.fits(&reader, task)));
            self.by_id = self.found.tasks.len();
            queues = rest;
            match queues.first() {
                Some(next) if self.is_enough() => return Ok(Some(next.to_string())),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// Looks at the tasks of a queue in one state behind the first `seen`, slice by slice; returns the new `seen` if tasks are
    /// left.
    async fn slices(
        &mut self,
        queue: &QueueName,
        state: TaskState,
        mut seen: usize,
    ) -> Result<Option<usize>, BrokerError> {
        let broker = self.app.client().broker();
        loop {
            if self.is_enough() {
                return Ok(Some(seen));
            }
            self.began = true;
            let slice = Page { number: seen / SLICE + 1, size: SLICE };
            let some = broker.briefs(queue, state, self.filter.group.as_ref(), slice).await?;
            let reader = Reader::of_tasks(self.app, &some).await;
            let mut some = some.into_iter().skip(seen % SLICE).peekable();
            if some.peek().is_none() {
                return Ok(None);
            }
            for task in some {
                if self.found.tasks.len() == MOST_FOUND {
                    return Ok(Some(seen));
                }
                seen += 1;
                self.found.looked_at += 1;
                let is_known = self.found.tasks[..self.by_id].iter().any(|known| same(known, &task));
                if !is_known && self.filter.fits(&reader, &task) {
                    self.found.tasks.push(task);
                }
            }
        }
    }
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
    fn a_cursor_comes_back_from_its_text_for_any_queue_name() {
        for queue in ["default", "a.b.c", "", "1.2.3"] {
            for step in [0, 3, STATES.len()] {
                let position = Position { step, queue: queue.into(), seen: 17 };
                assert_eq!(Position::read(&position.text()), Some(position));
            }
        }
        for bad in ["", "9.1.q", "1.-1.q", "1.q", "x", "1.99999999999.q"] {
            assert_eq!(Position::read(bad), None, "{bad}");
        }
    }
}
