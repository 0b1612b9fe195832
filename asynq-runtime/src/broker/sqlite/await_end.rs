//! Waits for the ends of tasks, and until queues have nothing left to do (contract: `broker/inspect.rs`).
//!
//! A commit does not say which tasks it ended, so every waiter would have to look after each commit. One tokio task per
//! runtime looks for all waiters of that runtime instead, in one read, and notifies those whose tasks have ended. No waiter looks for
//! others: its program may not poll it any more, or its runtime may stand still, and the others would wait for it.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    runtime::{self, Handle},
    sync::{Notify, watch},
    time::{sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    broker::{
        BrokerError, Inspect as _,
        task_end::{EndSource, Retries, has_ended},
    },
    clock::since_boot,
    task::{Extra, QueueName, TaskId, TaskInfo, TaskState},
    until::until,
};

use super::{SqliteBroker, inspect::is_idle, row::extra, sql, store::Store, tx::View};

/// Most tasks that one read looks at. Other reads run in between.
const SLICE: usize = 500;
/// Longest pause after a look at many tasks.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// A look that takes less time needs no pause after it.
const SHORT: Duration = Duration::from_millis(1);
/// How often the time is noted while nothing comes: far longer than a program takes to notice the commit of another.
const LAP: Duration = Duration::from_secs(5);
/// Commits that follow each other within this time are looked at together, where only the last one matters.
const TOGETHER: Duration = Duration::from_millis(5);

/// The waits for the ends of tasks.
#[derive(Debug, Default)]
pub(super) struct EndWaiters {
    waiting: Arc<Mutex<Waiting>>,
    /// Whether other programs know by now that this program waits. No waiter waits here for the question of another one, which may be
    /// polled no more and not be dropped either.
    is_known: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    by_runtime: HashMap<runtime::Id, RuntimeWaiters>,
}

/// The waiters of one runtime.
#[derive(Debug, Default)]
struct RuntimeWaiters {
    by_number: BTreeMap<u64, Arc<Waiter>>,
    /// The tokio task that looks for them.
    looks: Option<AbortOnDropHandle<()>>,
}

#[derive(Debug)]
struct Waiter {
    queue: QueueName,
    id: TaskId,
    /// A [`since_boot`] before the task may have ended, for the first time since the waiter's last look.
    notified_at: Mutex<Option<Duration>>,
    notification: Notify,
}

/// One wait for the end of a task: a waiter's entry in the list, which dropping it removes.
pub(super) struct OneWait<'a> {
    broker: &'a SqliteBroker,
    runtime: runtime::Id,
    number: u64,
    waiter: Arc<Waiter>,
}

impl EndSource for OneWait<'_> {
    async fn look(&mut self) -> Result<Option<(TaskState, Extra)>, BrokerError> {
        self.broker.subscribe_to_other_programs().await?;
        *self.waiter.notified_at.lock() = None;
        Ok(look_at(&self.broker.store, vec![Arc::clone(&self.waiter)]).await?.pop().flatten())
    }

    async fn read(&self) -> Result<Option<TaskInfo>, BrokerError> {
        self.broker.task(&self.waiter.queue, &self.waiter.id).await
    }

    async fn changed(&mut self) -> Result<Option<Duration>, BrokerError> {
        Ok(Some(self.waiter.notified().await))
    }
}

impl SqliteBroker {
    /// See [`Inspect::wait_until_idle`](crate::broker::Inspect::wait_until_idle).
    pub(super) async fn wait_for_idle_queues(
        &self,
        queues: &[QueueName],
        limit: Duration,
    ) -> Result<bool, BrokerError> {
        let queues = Arc::<[QueueName]>::from(queues);
        let (mut retries, mut seen) = (Retries::within(limit), None);
        let mut notifier = self.store.common.notifier.ends.subscribe();
        loop {
            let queues = Arc::clone(&queues);
            let look = async {
                self.subscribe_to_other_programs().await?;
                self.store.read(move |view| is_idle(view, &queues)).await
            };
            match retries.ask(look).await {
                None => return seen.ok_or_else(Retries::no_answer),
                Some(Ok(true)) => return Ok(true),
                Some(Ok(false)) => retries.answered(),
                Some(Err(error)) => {
                    retries.after(error).await?;
                    continue;
                }
            }
            seen = Some(false);
            if timeout(retries.left(), notifier.changed()).await.is_err() {
                return Ok(false);
            }
            sleep(TOGETHER.min(retries.left())).await;
        }
    }

    /// Has other programs notify this one of commits that end tasks; without a notification the safety net finds them within
    /// 100 ms. A waiter that is cut short, or goes away, before the answer leaves this to the next one.
    ///
    /// # Errors
    ///
    /// No reader has answered.
    async fn subscribe_to_other_programs(&self) -> Result<(), BrokerError> {
        if !self.ends.is_known.load(Ordering::Acquire) {
            let common = Arc::clone(&self.store.common);
            // A reader's thread runs `wait_for_ends`, because it creates files.
            let known = self.store.read(move |_| {
                if let Some(liveness) = &common.liveness {
                    liveness.wait_for_ends();
                }
                Ok(())
            });
            known.await?;
            self.ends.is_known.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Adds a waiter, which is notified of each commit from now on that may have ended its task.
    pub(super) fn begin_wait(&self, queue: &QueueName, id: &TaskId) -> OneWait<'_> {
        let (notified_at, notification) = (Mutex::default(), Notify::new());
        let waiter = Arc::new(Waiter { queue: queue.clone(), id: id.clone(), notified_at, notification });
        let handle = Handle::current();
        let (runtime, mut waiting) = (handle.id(), self.ends.waiting.lock());
        waiting.last += 1;
        let number = waiting.last;
        let waiters = waiting.by_runtime.entry(runtime).or_default();
        waiters.by_number.insert(number, Arc::clone(&waiter));
        // A runtime may have the id of one that has ended, some of whose waits were not dropped yet.
        if waiters.looks.as_ref().is_none_or(AbortOnDropHandle::is_finished) {
            let ends = self.store.common.notifier.ends.subscribe();
            let store = Arc::clone(&self.store);
            let looks = look_for_all(Arc::clone(&self.ends.waiting), runtime, store, ends, since_boot());
            waiters.looks = Some(AbortOnDropHandle::new(handle.spawn(looks)));
        }
        OneWait { broker: self, runtime, number, waiter }
    }
}

impl Drop for OneWait<'_> {
    fn drop(&mut self) {
        if let Entry::Occupied(mut waiters) = self.broker.ends.waiting.lock().by_runtime.entry(self.runtime) {
            waiters.get_mut().by_number.remove(&self.number);
            if waiters.get().by_number.is_empty() {
                waiters.remove();
            }
        }
    }
}

impl Waiter {
    fn notify(&self, at: Duration) {
        // The waiter may look much later, and concludes from the first change when its task vanished at the earliest.
        self.notified_at.lock().get_or_insert(at);
        self.notification.notify_one();
    }

    fn is_notified(&self) -> bool {
        self.notified_at.lock().is_some()
    }

    /// Waits until the task may have ended since the last look, and returns a time before it first did.
    async fn notified(&self) -> Duration {
        until(&self.notification, || *self.notified_at.lock()).await
    }
}

/// Looks for all waiters of a runtime after each commit that ended a task, until its handle is dropped with the last of them. `ends`
/// tells of the commits from `begun` on.
async fn look_for_all(
    waiting: Arc<Mutex<Waiting>>,
    runtime: runtime::Id,
    store: Arc<Store>,
    mut ends: watch::Receiver<()>,
    begun: Duration,
) {
    let (mut before, mut last) = (begun, begun);
    loop {
        // A program that stood still is told of a commit late, and its timer may fire even earlier. So a commit counts from the lap before
        // the last.
        while timeout(LAP, ends.changed()).await.is_err() {
            (before, last) = (last, since_boot());
        }
        let (notified_at, begun) = (before, since_boot());
        let unnotified = |waiters: &RuntimeWaiters| -> Vec<Arc<Waiter>> {
            waiters.by_number.values().filter(|waiter| !waiter.is_notified()).cloned().collect()
        };
        let all = waiting.lock().by_runtime.get(&runtime).map(unnotified).unwrap_or_default();
        for slice in all.chunks(SLICE) {
            match look_at(&store, slice.to_vec()).await {
                Ok(found) => {
                    for (waiter, found) in slice.iter().zip(found) {
                        if found.is_none_or(|(state, _)| has_ended(state)) {
                            waiter.notify(notified_at);
                        }
                    }
                }
                // A waiter's own look returns the error to its caller, or is repeated until the file can be read.
                Err(_) => slice.iter().for_each(|waiter| waiter.notify(notified_at)),
            }
        }
        // Commits that come meanwhile are looked at together, so that these waiters never take more than half of a reader's time.
        let took = since_boot().saturating_sub(begun);
        if took > SHORT {
            sleep(took.min(LONGEST_PAUSE)).await;
        }
        // These looks saw each commit until they began.
        (before, last) = (begun, begun);
    }
}

/// Returns the states and extra facts of tasks; `None` for a task that is not there.
async fn look_at(store: &Store, tasks: Vec<Arc<Waiter>>) -> Result<Vec<Option<(TaskState, Extra)>>, BrokerError> {
    let look = |view: &View<'_>, task: &Waiter| {
        let found = view.find(&sql::inspect::STATE, [task.queue.as_str(), task.id.as_str()], |row| {
            Ok((row.get(0)?, extra(row, 1)?))
        })?;
        Ok(found.and_then(|(state, extra)| Some((TaskState::from_number(state)?, extra))))
    };
    store.read(move |view| tasks.iter().map(|task| look(view, task)).collect()).await
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, sync::mpsc};

    use asynq_test_support::{PATIENCE, eventually, soon};
    use futures_util::FutureExt as _;

    use super::{super::SqliteOptions, *};

    #[tokio::test]
    async fn waits_keep_their_limits_while_the_file_cannot_be_read() {
        let options = SqliteOptions { call_timeout: PATIENCE, ..SqliteOptions::default() };
        let broker = SqliteBroker::in_memory(options).await.unwrap();
        let (release, held) = mpsc::channel::<()>();
        let held = Mutex::new(held);
        let mut held_up = pin!(broker.store.read(move |_| Ok(held.lock().recv().is_ok())));
        assert!(held_up.as_mut().now_or_never().is_none());
        let (queue, id) = (QueueName::new("default").unwrap(), TaskId::new("t1").unwrap());
        let (queues, limit) = ([queue.clone()], Duration::from_millis(1));
        let waits = async {
            tokio::join!(broker.wait_for_end(&queue, &id, limit), broker.wait_for_idle_queues(&queues, limit))
        };
        let (end, is_idle) = soon(waits).await;
        assert!(end.unwrap_err().is_unavailable() && is_idle.unwrap_err().is_unavailable());
        drop(release);
        assert!(!soon(held_up).await.unwrap());
    }

    #[tokio::test]
    async fn one_task_looks_for_all_waiters_of_a_runtime_and_ends_with_the_last() {
        let broker = SqliteBroker::in_memory(SqliteOptions::default()).await.unwrap();
        let is_watched = || broker.store.common.notifier.has_subscribers();
        assert!(!is_watched());
        let queue = QueueName::new("default").unwrap();
        let join = |id: &str| broker.begin_wait(&queue, &TaskId::new(id).unwrap());
        let looks = || {
            let waiting = broker.ends.waiting.lock();
            waiting
                .by_runtime
                .values()
                .map(|waiters| waiters.looks.as_ref().unwrap().abort_handle().id())
                .collect::<Vec<_>>()
        };
        let first = join("t1");
        let before = looks();
        let second = join("t2");
        drop(first);
        assert_eq!((looks(), before.len()), (before, 1), "one task for both");
        assert!(is_watched());
        drop(second);
        assert!(looks().is_empty());
        eventually("nothing looks", async || (!is_watched()).then_some(())).await;
    }

    #[tokio::test]
    async fn the_first_change_since_the_last_look_counts() {
        let broker = SqliteBroker::in_memory(SqliteOptions::default()).await.unwrap();
        let (queue, id) = (QueueName::new("default").unwrap(), TaskId::new("t1").unwrap());
        let wait = broker.begin_wait(&queue, &id);
        let first = since_boot();
        wait.waiter.notify(first);
        wait.waiter.notify(first + Duration::from_secs(3_600));
        assert_eq!(wait.waiter.notified().await, first);
    }

    #[tokio::test]
    async fn a_runtime_that_stood_still_does_not_take_an_old_commit_for_a_new_one() {
        let broker = SqliteBroker::in_memory(SqliteOptions::default()).await.unwrap();
        let (queue, id) = (QueueName::new("default").unwrap(), TaskId::new("t1").unwrap());
        let wait = broker.begin_wait(&queue, &id);
        broker.store.common.notifier.notify_all();
        let committed = since_boot();
        // Nothing else runs on this runtime meanwhile.
        while since_boot() == committed {}
        assert!(soon(wait.waiter.notified()).await <= committed);
    }
}
