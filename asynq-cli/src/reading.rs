//! Reads the tasks of one state page by page, up to a limit, and counts the tasks that were not seen.

use asynq_runtime::{
    TaskState,
    broker::{Broker, BrokerError, Page, TaskBrief},
    inspector::ListGroups,
    task::QueueName,
};

/// Queues, or periodic entries, that are read at once: through a network, one after the other would take a round trip or more for
/// each.
pub(crate) const AT_ONCE: usize = 16;
/// Most tasks of one page.
const PAGE: usize = 200;
/// How often a page is read on which tasks seem to be missing.
const READS: usize = 3;

/// The tasks of a state that are read where there are more than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    /// The tasks at the head of the list: the oldest, or those that are due first.
    First,
    /// The tasks at the end of the list: the newest.
    Last,
}

/// The tasks that a reading did not see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Unseen {
    /// Tasks beyond the limit.
    pub(crate) beyond: u64,
    /// Tasks that no page returned: an id without a task, or a message that cannot be decoded.
    pub(crate) unreadable: u64,
}

impl std::ops::AddAssign for Unseen {
    fn add_assign(&mut self, other: Self) {
        self.beyond += other.beyond;
        self.unreadable += other.unreadable;
    }
}

/// Calls `on_task` with the tasks of a state, at most `limit` of them.
///
/// A page may be shorter than its size, so the number of tasks says where the pages end.
///
/// # Errors
///
/// The broker failed.
pub(crate) async fn read(
    broker: &dyn Broker,
    queue: &QueueName,
    state: TaskState,
    (limit, take): (usize, Take),
    mut on_task: impl FnMut(TaskBrief),
) -> Result<Unseen, BrokerError> {
    let count = count_of(broker, queue, state).await?;
    let to_read = count.min(limit);
    let (first, end) = match take {
        Take::First => (0, to_read),
        Take::Last => (count - to_read, count),
    };
    let mut unseen = Unseen { beyond: (count - to_read) as u64, unreadable: 0 };
    let pages = if to_read == 0 { 0..0 } else { first / PAGE..end.div_ceil(PAGE) };
    // A task that leaves the list moves those behind it towards the head. The last page is read first, so that the moved
    // tasks are read twice and not missed. A task that enters the list before others, such as a retry that is due
    // earlier, moves one of them to a page that was read already: that one is missed.
    for number in pages.rev() {
        let wanted = end.min((number + 1) * PAGE) - first.max(number * PAGE);
        let (mut tasks, missing) = read_page(broker, queue, state, number, count).await?;
        // The positions behind a task that no page returns are unknown, so they are counted from the side that is read.
        let skipped = if take == Take::Last { tasks.len().saturating_sub(wanted) } else { 0 };
        unseen.unreadable += match unseen.beyond {
            0 => missing,
            // Only at the positions up to the limit.
            _ => missing.min(wanted.saturating_sub(tasks.len())),
        } as u64;
        tasks.drain(..skipped);
        tasks.into_iter().take(wanted).for_each(&mut on_task);
    }
    Ok(unseen)
}

/// Reads a page of a list that had `before` tasks; returns its tasks, and how many are missing.
///
/// A page is short, too, where it is the last, and where tasks leave the list meanwhile. A task is missing only if the list
/// had more tasks before and after the read, and again at every read of the page.
async fn read_page(
    broker: &dyn Broker,
    queue: &QueueName,
    state: TaskState,
    number: usize,
    mut before: usize,
) -> Result<(Vec<TaskBrief>, usize), BrokerError> {
    let mut best = None;
    for read in 1..=READS {
        let page = Page { number: number + 1, size: PAGE };
        let tasks = broker.list(queue, state, None, page, Some(TaskBrief::BYTES)).await?;
        if tasks.len() >= PAGE {
            return Ok((tasks, 0));
        }
        let now = count_of(broker, queue, state).await?;
        let there = before.min(now).min((number + 1) * PAGE);
        let missing = there.saturating_sub(number * PAGE + tasks.len());
        // A task that came meanwhile can stand in for a missing one.
        let is_sure = now <= before || read == READS;
        before = now;
        if is_sure && best.as_ref().is_none_or(|(_, fewest)| missing < *fewest) {
            best = Some((tasks, missing));
        }
        if is_sure && missing == 0 {
            break;
        }
    }
    Ok(best.unwrap_or_default())
}

async fn count_of(broker: &dyn Broker, queue: &QueueName, state: TaskState) -> Result<usize, BrokerError> {
    let mut count = broker.queue_stats(queue).await?.count(state);
    // The numbers of a queue on Redis estimate the tasks in very many groups, and the end of the pages must be exact.
    if state == TaskState::Aggregating && count > 0 && broker.kind() == "redis" {
        let mut after = None;
        count = 0;
        loop {
            let page = broker.groups(queue, after.as_ref(), ListGroups::LIMIT).await?;
            count += page.groups.iter().map(|group| group.size).sum::<u64>();
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use asynq_runtime::broker::BulkAction;
    use asynq_tests::{SqliteFixture, Store as _, default_queue, task, task_id};
    use tokio::{runtime::Handle, task::block_in_place};

    use super::*;

    async fn filled(tasks: usize) -> SqliteFixture {
        let t = SqliteFixture::start().await;
        enqueue(&t, 0..tasks).await;
        t
    }

    async fn enqueue(t: &SqliteFixture, numbers: Range<usize>) {
        for answer in t.broker().enqueue(numbers.map(|n| task(&format!("t{n}"))).collect()).await {
            answer.unwrap();
        }
    }

    async fn delete(t: &SqliteFixture, numbers: Range<usize>) {
        for n in numbers {
            t.broker()
                .change_task(&default_queue(), &task_id(&format!("t{n}")), None, BulkAction::Delete)
                .await
                .unwrap();
        }
    }

    fn damage(t: &SqliteFixture, id: &str) {
        t.store.overwrite_message(&default_queue(), &task_id(id), b"\xff");
    }

    /// Reads the pending tasks, and calls `meanwhile` after each.
    async fn read_pending(
        t: &SqliteFixture,
        limit: (usize, Take),
        mut meanwhile: impl FnMut(&str),
    ) -> (Vec<String>, Unseen) {
        let mut ids = Vec::new();
        let on_task = |brief: TaskBrief| {
            meanwhile(brief.task.id.as_str());
            ids.push(brief.task.id.to_string());
        };
        let unseen = read(t.broker(), &default_queue(), TaskState::Pending, limit, on_task).await.unwrap();
        (ids, unseen)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_task_that_leaves_does_not_stand_in_for_one_that_cannot_be_read() {
        let t = filled(400).await;
        damage(&t, "t7");
        let (ids, unseen) = read_pending(&t, (400, Take::First), |id| {
            if id == "t399" {
                block_in_place(|| Handle::current().block_on(delete(&t, 399..400)));
            }
        })
        .await;
        assert_eq!((ids.len(), unseen), (399, Unseen { beyond: 0, unreadable: 1 }));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn tasks_that_leave_and_return_raise_no_alarm() {
        let t = filled(400).await;
        let (ids, unseen) = read_pending(&t, (400, Take::First), |id| match id {
            "t399" => block_in_place(|| Handle::current().block_on(delete(&t, 150..400))),
            "t149" => block_in_place(|| Handle::current().block_on(enqueue(&t, 150..400))),
            _ => {}
        })
        .await;
        assert_eq!((ids.len(), unseen), (350, Unseen::default()));
    }

    #[tokio::test]
    async fn a_task_that_comes_does_not_stand_in_for_one_that_cannot_be_read() {
        let t = filled(10).await;
        damage(&t, "t7");
        for before in [5, 10] {
            let read = read_page(t.broker(), &default_queue(), TaskState::Pending, 0, before).await;
            let (tasks, missing) = read.unwrap();
            assert_eq!((tasks.len(), missing), (9, 1), "{before}");
        }
    }

    #[tokio::test]
    async fn a_task_that_cannot_be_read_moves_no_limit() {
        let t = filled(10).await;
        damage(&t, "t0");
        let (ids, unseen) = read_pending(&t, (2, Take::Last), |_| {}).await;
        assert_eq!((ids, unseen), (vec!["t8".into(), "t9".into()], Unseen { beyond: 8, unreadable: 0 }));
        let t = filled(10).await;
        damage(&t, "t9");
        let (ids, unseen) = read_pending(&t, (2, Take::First), |_| {}).await;
        assert_eq!((ids, unseen), (vec!["t0".into(), "t1".into()], Unseen { beyond: 8, unreadable: 0 }));
        let (ids, unseen) = read_pending(&t, (10, Take::First), |_| {}).await;
        assert_eq!((ids.len(), unseen), (9, Unseen { beyond: 0, unreadable: 1 }));
    }
}
