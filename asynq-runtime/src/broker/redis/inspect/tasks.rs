//! Lists tasks and finds single ones, with the facts that only this program's own fields and keys hold.

use chrono::{DateTime, Utc};
use redis::Value;

use crate::{
    broker::{
        BrokerError, Page, TaskBrief,
        redis::{
            RedisBroker,
            groups::next_step,
            keys::Keys,
            reply::{self, BEGIN},
            script::{AGGREGATING, LIST, TASK},
            settle::read_progress,
        },
    },
    task::{QueueName, TaskId, TaskInfo, TaskMessage, TaskState},
};

/// Most tasks that one script reads, and scripts in one write; a longer page takes several.
const SLICE: usize = 100;
const SLICES: usize = 5;
/// Beyond this a script's numbers are not exact any more, or a place in a list does not fit into 32 bits. No list is so long.
const END: usize = 1 << if usize::BITS > 52 { 52 } else { 31 };

impl RedisBroker {
    /// Returns a page over all groups. The walk begins with the first group, and skips the tasks before the page by the
    /// sizes of the groups.
    pub(super) async fn list_grouped(
        &self,
        queue: &QueueName,
        page: Page,
        most: Option<usize>,
    ) -> Result<Vec<TaskBrief>, BrokerError> {
        let keys = Keys::new(queue);
        let (mut step, mut pass, mut left) = (Some(BEGIN.to_owned()), page.offset().min(END), page.size);
        let mut tasks = Vec::new();
        while let Some(at) = step.filter(|_| left > 0) {
            let call = self.timed(&AGGREGATING, &[keys.groups()]).arg(keys.prefix());
            let call = call.optional(most).arg(at).arg(pass).arg(left.min(SLICE));
            let mut answer = reply::array(self.looking().send_one(call).await?)?.into_iter();
            step = answer.next().and_then(next_step);
            let passed = answer.next().as_ref().and_then(reply::count);
            pass = passed.ok_or_else(|| reply::unexpected("no place in the groups"))?;
            let mut slice = read_tasks(queue, answer.collect(), Some(TaskState::Aggregating))?;
            left = left.saturating_sub(slice.looked_at);
            tasks.append(&mut slice.tasks);
        }
        Ok(tasks)
    }

    /// Returns a page of the tasks that lie in `place`, the key of a state or a group.
    pub(super) async fn list_slices(
        &self,
        queue: &QueueName,
        state: TaskState,
        place: &str,
        page: Page,
        most: Option<usize>,
    ) -> Result<Vec<TaskBrief>, BrokerError> {
        let keys = Keys::new(queue);
        let call = |first: usize, last: usize| {
            self.timed(&LIST, &[place.to_owned(), keys.lease(), keys.due()])
                .arg(keys.task_prefix())
                .arg(state.as_str())
                .arg(first)
                .arg(last)
                .optional(most)
        };
        let (mut first, end) = (page.offset(), page.offset().saturating_add(page.size).min(END));
        let mut tasks = Vec::new();
        while first < end {
            let next = end.min(first.saturating_add(SLICE * SLICES));
            let begins: Vec<usize> = (first..next).step_by(SLICE).collect();
            let last_of = |first: usize| next.min(first + SLICE) - 1;
            let calls = begins.iter().map(|&first| call(first, last_of(first))).collect();
            let mut seen = 0;
            for (first, answer) in begins.into_iter().zip(self.looking().send(calls).await?) {
                let mut slice = read_tasks(queue, reply::array(answer?)?, Some(state))?;
                let mut looked_at = slice.looked_at;
                tasks.append(&mut slice.tasks);
                // Where tasks are large, one script reads only some of them.
                while slice.is_cut_short && slice.looked_at > 0 {
                    let answer = self.looking().send_one(call(first + looked_at, last_of(first))).await?;
                    slice = read_tasks(queue, reply::array(answer)?, Some(state))?;
                    looked_at += slice.looked_at;
                    tasks.append(&mut slice.tasks);
                }
                seen += looked_at;
            }
            if seen < next - first {
                break;
            }
            first = next;
        }
        Ok(tasks)
    }

    pub(super) async fn find(&self, queue: &QueueName, id: &TaskId) -> Result<Option<TaskInfo>, BrokerError> {
        let keys = Keys::new(queue);
        let names = [keys.task(id.as_str()), keys.scheduled(), keys.retry(), keys.lease(), keys.due(), keys.archived()];
        let call = self.timed(&TASK, &names).arg(id.as_str());
        let mut found = read_tasks(queue, reply::array(self.looking().send_one(call).await?)?, None)?;
        Ok(found.tasks.pop().map(|brief| brief.task))
    }
}

/// The tasks that one script found.
struct Slice {
    /// Number of ids that the script looked at.
    looked_at: usize,
    /// Whether the script stopped before the last id, because the tasks are large.
    is_cut_short: bool,
    tasks: Vec<TaskBrief>,
}

/// Reads the rows of a script. The state of a task is that of the list `listed`, or else the one in its hash.
fn read_tasks(queue: &QueueName, rows: Vec<Value>, listed: Option<TaskState>) -> Result<Slice, BrokerError> {
    let mut rows = rows.into_iter();
    let now = rows.next().and_then(|now| reply::number(&now)).map(DateTime::from_timestamp_nanos);
    let looked_at = rows.next().as_ref().and_then(reply::count);
    let is_cut_short = rows.next().and_then(|flag| reply::number(&flag)).map(|flag| flag == 1);
    let (Some(now), Some(looked_at), Some(is_cut_short)) = (now, looked_at, is_cut_short) else {
        return Err(reply::unexpected("no listing"));
    };
    let mut tasks = Vec::with_capacity(rows.len());
    for row in rows {
        tasks.extend(read_task(queue, reply::array(row)?, listed, now));
    }
    Ok(Slice { looked_at, is_cut_short, tasks })
}

/// Reads a row; `None` if its message cannot be decoded.
fn read_task(queue: &QueueName, row: Vec<Value>, listed: Option<TaskState>, now: DateTime<Utc>) -> Option<TaskBrief> {
    let [id, score, lease, due, message, result, crashes, progress, state, size, result_size, extra] =
        <[Value; 12]>::try_from(row).ok()?;
    let state = listed.or_else(|| reply::text(state)?.parse().ok())?;
    let message = TaskMessage::decode(reply::bytes(message)?.into()).ok()?;
    let next_process_at = match state {
        TaskState::Pending => Some(now),
        TaskState::Scheduled | TaskState::Retry => due_at(reply::number(&score), reply::number(&due)),
        _ => None,
    };
    let extra = reply::extra(extra);
    let task = TaskInfo {
        id: TaskId::from_wire(&reply::text(id)?),
        queue: queue.clone(),
        crashes: reply::count(&crashes).unwrap_or_default(),
        next_process_at,
        lease_until: reply::number(&lease).and_then(|lease| DateTime::from_timestamp(lease, 0)),
        archived_at: if state == TaskState::Archived { due_at(reply::number(&score), None) } else { None },
        result: reply::bytes(result).map(Into::into),
        ending: extra.ending().of(state),
        expires: extra.expires(),
        progress: reply::text(progress).and_then(|progress| read_progress(&progress)),
        ..TaskInfo::from_message(&message, state)
    };
    Some(TaskBrief::cut(task, reply::count(&size), reply::count(&result_size)))
}

/// Returns the exact due time if it was written for this score, or else the score.
fn due_at(score: Option<i64>, due_ms: Option<i64>) -> Option<DateTime<Utc>> {
    let score = score?;
    match due_ms {
        Some(ms) if ms.div_euclid(1000) + i64::from(ms.rem_euclid(1000) > 0) == score => {
            DateTime::from_timestamp_millis(ms)
        }
        _ => DateTime::from_timestamp(score, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_time_counts_only_for_the_score_it_was_written_for() {
        let ms = |ms| DateTime::from_timestamp_millis(ms);
        for (score, due, expected) in [
            (Some(10), Some(9_001), ms(9_001)),
            (Some(10), Some(10_000), ms(10_000)),
            (Some(10), Some(9_000), ms(10_000)),
            (Some(10), Some(10_001), ms(10_000)),
            (Some(10), None, ms(10_000)),
            (None, Some(9_001), None),
        ] {
            assert_eq!(due_at(score, due), expected, "{score:?} {due:?}");
        }
    }
}
