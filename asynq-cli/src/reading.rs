//! Reads the tasks of one state page by page, up to a limit, and counts the tasks that were not seen.

use asynq_runtime::{
    TaskState,
    broker::{Broker, BrokerError, Page, QueueStats, TaskBrief},
};

/// Most tasks of one page.
const PAGE: usize = 200;

/// The tasks of a state that count where there are more than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    First,
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

/// Calls `see` with the tasks of a state, at most `limit` of them; `stats` are the numbers of the queue at this moment.
///
/// A page may be shorter than its size, so the number of tasks says where the pages end.
///
/// # Errors
///
/// The broker failed.
pub(crate) async fn read(
    broker: &dyn Broker,
    stats: &QueueStats,
    state: TaskState,
    (limit, part): (usize, Part),
    mut see: impl FnMut(TaskBrief),
) -> Result<Unseen, BrokerError> {
    let there = usize::try_from(stats.count(state)).unwrap_or(usize::MAX);
    let wanted = there.min(limit);
    let (first, end) = match part {
        Part::First => (0, wanted),
        Part::Last => (there - wanted, there),
    };
    let mut unseen = Unseen { beyond: (there - wanted) as u64, unreadable: 0 };
    // Tasks leave a state at its first page mostly, and the others move forward: from the last page on none is missed.
    let pages = if wanted == 0 { 0..0 } else { first / PAGE..end.div_ceil(PAGE) };
    for page in pages.rev() {
        let (begin, after) = (page * PAGE, there.min((page + 1) * PAGE));
        let tasks = broker.briefs(&stats.name, state, None, Page { number: page + 1, size: PAGE }).await?;
        unseen.unreadable += (after - begin).saturating_sub(tasks.len()) as u64;
        let skipped = first.saturating_sub(begin);
        tasks.into_iter().skip(skipped).take(after.min(end) - begin - skipped).for_each(&mut see);
    }
    if unseen.unreadable > 0 {
        // Tasks that have left the state meanwhile were readable.
        let left = stats.count(state).saturating_sub(broker.queue_stats(&stats.name).await?.count(state));
        unseen.unreadable = unseen.unreadable.saturating_sub(left);
    }
    Ok(unseen)
}
