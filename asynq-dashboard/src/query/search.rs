//! Finds tasks by id, type, arguments, error or time, in bounded steps: the next request goes on where one ended.

mod filter;
mod position;

pub(crate) use self::filter::{known_state, state};

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::{
    TaskState,
    broker::{BrokerError, Page, TaskBrief},
    inspector::ArgumentReader,
    task::{QueueName, TaskId},
};
use futures_util::future::join_all;
use serde::Deserialize;

use self::{
    filter::Filter,
    position::{Position, TaskCursor, mark},
};
use crate::{
    failure::{Failure, Kind},
    query::payload::Reader,
    sample::Snapshot,
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
/// Queues that are asked for an id at once: each has one such task at most, of a shape of its own.
const QUEUES_AT_ONCE: usize = ArgumentReader::MOST_SHAPES;
/// All states, in the order in which they are searched: what runs and what has failed comes first.
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
    /// Only tasks with a time (due, failed, completed, archived) from this one on, RFC 3339.
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
    /// Whether tasks may not have been looked at, in this request or one before: so many left a list between two slices that some
    /// that waited behind them may have been passed over, or a queue could not be read.
    pub(crate) is_incomplete: bool,
    /// How many tasks, in this request and those before, have more arguments than a listing reads and do not match by these.
    pub(crate) partly_searched: usize,
}

/// One request's part of a search.
#[derive(Debug)]
struct Search<'a> {
    app: &'a AppState,
    filter: Filter,
    queues: Vec<QueueName>,
    /// The numbers of all queues a moment ago, if they are known.
    recent: Option<Arc<Snapshot>>,
    found: SearchResult,
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
        "" => Position::default(),
        text => Position::read(text).ok_or_else(|| Failure::bad_request("`after` is none that a search gave"))?,
    };
    let permit = tokio::time::timeout(PATIENCE, app.searches.acquire()).await;
    let Ok(Ok(_permit)) = permit else {
        return Err(Failure::new(Kind::Busy, "others are searching; try again"));
    };
    let until = Instant::now() + longest;
    let queues = queues(app, query).await?;
    let Position { is_incomplete, partly_searched, .. } = start;
    let found = SearchResult { is_incomplete, partly_searched, ..SearchResult::default() };
    let recent = app.samples.recent();
    let mut search = Search { app, filter, queues, recent, found, began: false, until };
    search.found.next = search.run(start).await?.map(|position| position.text());
    Ok(search.found)
}

impl Search<'_> {
    /// Searches from a position on, and returns the position at which to go on; `None` when everything was looked at.
    async fn run(&mut self, start: Position) -> Result<Option<Position>, Failure> {
        if start.step == 0
            && let Some(queue) = self.named(&start.queue).await?
        {
            return Ok(Some(self.position(0, queue, TaskCursor::default())));
        }
        for (at, state) in STATES.into_iter().enumerate().skip(start.step.saturating_sub(1)) {
            if self.filter.state.is_some_and(|wanted| wanted != state) {
                continue;
            }
            let is_first = at + 1 == start.step;
            let first = if is_first { self.at(&start.queue) } else { 0 };
            for at_queue in first..self.queues.len() {
                let queue = self.queues[at_queue].clone();
                let is_same = is_first && queue.as_str() == start.queue;
                let cursor = if is_same { start.cursor } else { TaskCursor::default() };
                match self.slices(&queue, state, cursor).await {
                    Ok(None) => {}
                    Ok(Some(cursor)) => return Ok(Some(self.position(at + 1, queue.to_string(), cursor))),
                    Err(error) => {
                        self.leave_out(error).await?;
                        self.found.is_incomplete = true;
                    }
                }
            }
        }
        Ok(None)
    }

    fn position(&self, step: usize, queue: String, cursor: TaskCursor) -> Position {
        let SearchResult { is_incomplete, partly_searched, .. } = self.found;
        Position { step, queue, cursor, is_incomplete, partly_searched }
    }

    /// Returns the index of the first queue from this name on.
    fn at(&self, name: &str) -> usize {
        self.queues.partition_point(|queue| queue.as_str() < name)
    }

    fn is_enough(&self) -> bool {
        self.began && (self.found.tasks.len() >= MOST_FOUND || Instant::now() > self.until)
    }

    /// Succeeds if a queue with this error can be left out, so that it hides no other. Fails if no other queue is searched, or if the
    /// broker does not answer at all.
    async fn leave_out(&self, error: BrokerError) -> Result<(), BrokerError> {
        if self.queues.len() == 1 {
            return Err(error);
        }
        // A Redis Cluster may have lost the node that keeps this queue.
        if error.is_unavailable() { self.app.client.broker().ping().await } else { Ok(()) }
    }

    /// Finds the tasks whose id is the text, without looking at any other; returns the queue at which to go on.
    async fn named(&mut self, from: &str) -> Result<Option<String>, Failure> {
        if self.filter.text.trim().is_empty() {
            return Ok(None);
        }
        let id = TaskId::from_wire(&self.filter.as_written);
        let broker = self.app.client.broker();
        let mut queues = &self.queues[self.at(from)..];
        self.began = true;
        loop {
            // Each queue has at most one such task.
            let left = MOST_FOUND - self.found.tasks.len();
            let (some, rest) = queues.split_at(QUEUES_AT_ONCE.min(left).min(queues.len()));
            let mut tasks = Vec::new();
            for answer in join_all(some.iter().map(|queue| broker.task(queue, &id))).await {
                match answer {
                    Ok(task) => tasks.extend(task.map(TaskBrief::of)),
                    Err(error) => {
                        self.leave_out(error).await?;
                        self.found.is_incomplete = true;
                    }
                }
            }
            let reader = Reader::of_tasks(self.app, &tasks).await;
            self.found.tasks.extend(tasks.into_iter().filter(|task| self.filter.fits(&reader, task)));
            queues = rest;
            match queues.first() {
                Some(next) if self.is_enough() => return Ok(Some(next.to_string())),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// Looks at the tasks of a queue in one state behind a cursor, slice by slice; returns the new cursor if tasks are left.
    async fn slices(
        &mut self,
        queue: &QueueName,
        state: TaskState,
        mut cursor: TaskCursor,
    ) -> Result<Option<TaskCursor>, BrokerError> {
        let mut was_short = false;
        loop {
            if self.is_enough() {
                return Ok(Some(cursor));
            }
            self.began = true;
            let mut some = self.page(queue, state, cursor.slices + 1, SLICE).await?;
            let size = some.len();
            // Nothing can have moved from an empty slice into one that had room for more.
            if size > 0 || !was_short {
                some = self.behind(queue, state, cursor, some).await?;
            }
            if some.is_empty() && size == 0 {
                let slices = cursor.slices + 1;
                if self.length(queue, state).await? <= (slices * SLICE) as u64 {
                    return Ok(None);
                }
                // None of these tasks can be read, and others wait behind them.
                cursor = TaskCursor { slices, ..TaskCursor::default() };
                was_short = false;
                continue;
            }
            // `some` ends with the slice, and may begin before it.
            let n = some.len();
            let mut reader = Reader::default();
            for (at, task) in some.iter().enumerate() {
                if self.found.tasks.len() == MOST_FOUND {
                    return Ok(Some(cursor));
                }
                // Each task may have a shape of its own, and arguments of a shape that was not looked up are not searched.
                if at.is_multiple_of(ArgumentReader::MOST_SHAPES) {
                    let end = n.min(at + ArgumentReader::MOST_SHAPES);
                    reader = Reader::of_tasks(self.app, &some[at..end]).await;
                }
                cursor.last = Some(mark(task));
                cursor.looked = (at + 1 + size).saturating_sub(n);
                self.found.looked_at += 1;
                if self.found.tasks.iter().any(|known| known.id == task.id && known.queue == task.queue) {
                    continue;
                }
                if self.filter.fits(&reader, task) {
                    self.found.tasks.push(task.clone());
                } else {
                    self.found.partly_searched += usize::from(self.filter.might_fit(task));
                }
            }
            if size > 0 {
                (cursor.slices, cursor.looked) = (cursor.slices + 1, 0);
            }
            was_short = size < SLICE;
        }
    }

    /// Returns the tasks behind the one that was looked at last, up to the end of `slice`. Workers take tasks from the head
    /// meanwhile, so that the others move up: those that moved out of `slice` come first.
    async fn behind(
        &mut self,
        queue: &QueueName,
        state: TaskState,
        cursor: TaskCursor,
        mut slice: Vec<TaskBrief>,
    ) -> Result<Vec<TaskBrief>, BrokerError> {
        let Some(last) = cursor.last else {
            // Tasks behind a slice that cannot be read may have moved up into it.
            let mut before =
                if cursor.slices > 0 { self.page(queue, state, cursor.slices, SLICE).await? } else { Vec::new() };
            before.append(&mut slice);
            return Ok(before);
        };
        let is_last = |task: &TaskBrief| mark(task) == last;
        if let Some(at) = slice.iter().position(is_last) {
            slice.drain(..=at);
            return Ok(slice);
        }
        let mut before = Vec::new();
        if cursor.slices > 0 {
            if self.page(queue, state, cursor.slices * SLICE, 1).await?.iter().any(is_last) {
                return Ok(slice);
            }
            before = self.page(queue, state, cursor.slices, SLICE).await?;
        }
        match before.iter().position(is_last) {
            Some(at) => drop(before.drain(..=at)),
            None if cursor.looked > 0 => {
                // How many tasks have left before this position is not known. At least the last one has.
                self.found.is_incomplete = true;
                slice.drain(..slice.len().min(cursor.looked - 1));
                return Ok(slice);
            }
            // The first slice is the whole list up to there.
            None => self.found.is_incomplete |= cursor.slices > 1,
        }
        before.append(&mut slice);
        Ok(before)
    }

    /// Returns how many tasks the list has, with those that cannot be read; 0 without asking if it was empty a moment ago. With very
    /// many queues most lists are empty, and the numbers of a queue take more commands than its list.
    async fn length(&self, queue: &QueueName, state: TaskState) -> Result<u64, BrokerError> {
        let broker = self.app.client.broker();
        if let Some(group) = &self.filter.group {
            return Ok(broker.group(queue, group).await?.map_or(0, |group| group.size));
        }
        match self.recent.as_ref().and_then(|recent| recent.queue(queue.as_str())) {
            Some(stats) if stats.count(state) == 0 => Ok(0),
            _ => Ok(broker.queue_stats(queue).await?.count(state)),
        }
    }

    async fn page(
        &self,
        queue: &QueueName,
        state: TaskState,
        number: usize,
        size: usize,
    ) -> Result<Vec<TaskBrief>, BrokerError> {
        let group = self.filter.group.as_ref();
        self.app.client.broker().list(queue, state, group, Page { number, size }, Some(TaskBrief::BYTES)).await
    }
}

async fn queues(app: &AppState, query: &Query) -> Result<Vec<QueueName>, Failure> {
    if !query.queue.is_empty() {
        return Ok(vec![app.inspector.queue(&query.queue).await?.name]);
    }
    Ok(app.client.broker().queues().await?)
}
