//! Waits for the ends of tasks, and until queues have nothing left to do (contract: `broker/inspect.rs`).
//!
//! A commit does not say which tasks it ended, so every waiter would have to look after each commit. One waiter, the leader,
//! looks for all of them instead, in one read, and notifies the waiters whose tasks have ended. When the leader leaves, another
//! waiter leads.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rusqlite::params;
use tokio::{
    sync::{self, Notify},
    time::{sleep, sleep_until, timeout_at},
};

use crate::{
    broker::{
        BrokerError, TaskEnd,
        task_end::{EndSource, Retries, has_ended, wait_for_end},
    },
    task::{Extra, QueueName, TaskId, TaskInfo, TaskState},
};

use super::{
    SqliteBroker,
    inspect::is_idle,
    sql,
    store::{Store, far},
    tx::View,
    wake::notifier::Listener,
};

/// Most tasks that one read looks at. Other reads run in between.
const SLICE: usize = 500;
/// Longest pause after a look at many tasks.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// A look that takes less time needs no pause after it.
const SHORT: Duration = Duration::from_millis(1);
/// Commits that follow each other within this time are looked at together, where only the last one matters.
const TOGETHER: Duration = Duration::from_millis(5);

/// The waits for the ends of tasks.
#[derive(Debug, Default)]
pub(super) struct EndWaiters {
    waiting: Mutex<Waiting>,
    lead: sync::Mutex<Lead>,
    /// Whether other programs know by now that this program waits.
    is_known: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    by_number: BTreeMap<u64, Arc<Waiter>>,
}

#[derive(Debug)]
struct Waiter {
    queue: QueueName,
    id: TaskId,
    /// Whether the task may have ended.
    is_notified: AtomicBool,
    notification: Notify,
    /// Time until which the task is known not to have changed.
    unchanged_until: Mutex<Option<Instant>>,
}

/// State that a leader passes to the next one.
#[derive(Debug, Default)]
struct Lead {
    /// Absent while no task is awaited: the file then needs no look.
    notifier: Option<Listener>,
    /// Whether a task may have ended since the last look.
    is_behind: bool,
    /// When the first notification since the last look was received.
    notified_at: Option<Instant>,
}

/// A waiter's entry in the list; dropping it removes the entry.
struct WaiterGuard<'a> {
    waiters: &'a EndWaiters,
    number: u64,
    waiter: Arc<Waiter>,
}

/// The right to look for all waiters; dropping this guard passes the right on.
struct Leading<'a> {
    waiters: &'a EndWaiters,
    lead: sync::MutexGuard<'a, Lead>,
}

/// One wait for the end of a task.
struct OneWait<'a> {
    broker: &'a SqliteBroker,
    guard: WaiterGuard<'a>,
}

impl EndSource for OneWait<'_> {
    async fn look(&mut self) -> Result<Option<(TaskState, Extra)>, BrokerError> {
        let waiter = &self.guard.waiter;
        waiter.is_notified.store(false, Ordering::Release);
        Ok(look_at(&self.broker.store, vec![Arc::clone(waiter)]).await?.pop().flatten())
    }

    async fn read(&self) -> Result<Option<TaskInfo>, BrokerError> {
        self.broker.task_now(&self.guard.waiter.queue, &self.guard.waiter.id).await
    }

    async fn changed(&mut self) -> Result<Option<Instant>, BrokerError> {
        tokio::select! {
            biased;
            () = self.guard.notified() => {}
            lead = self.broker.ends.lead() => lead.look_for_all(&self.broker.store, &self.guard).await?,
        }
        Ok(*self.guard.waiter.unchanged_until.lock())
    }

    fn name(&self) -> String {
        format!("task {} of queue {}", self.guard.waiter.id, self.guard.waiter.queue)
    }
}

impl SqliteBroker {
    /// See [`Inspect::wait_for_end`](crate::broker::Inspect::wait_for_end).
    pub(super) async fn wait_for_task_end(
        &self,
        queue: &QueueName,
        id: &TaskId,
        limit: Duration,
    ) -> Result<TaskEnd, BrokerError> {
        let guard = self.ends.join(queue, id);
        self.subscribe_to_other_programs().await;
        wait_for_end(OneWait { broker: self, guard }, far(limit).into_std()).await
    }

    /// See [`Inspect::wait_until_idle`](crate::broker::Inspect::wait_until_idle).
    pub(super) async fn wait_for_idle_queues(
        &self,
        queues: &[QueueName],
        limit: Duration,
    ) -> Result<bool, BrokerError> {
        let (until, queues) = (far(limit), Arc::<[QueueName]>::from(queues));
        let (mut retries, mut is_first) = (Retries::default(), true);
        let mut notifier = self.store.common.notifier.ends();
        self.subscribe_to_other_programs().await;
        loop {
            let queues = Arc::clone(&queues);
            let look = self.store.read(move |view| is_idle(view, &queues));
            let looked = retries.ask(is_first, until.into_std(), look).await;
            is_first = false;
            match looked {
                None => return Ok(false),
                Some(Ok(true)) => return Ok(true),
                Some(Ok(false)) => retries = Retries::default(),
                Some(Err(error)) => {
                    retries.after(error, until.into_std()).await?;
                    continue;
                }
            }
            if timeout_at(until, notifier.notified()).await.is_err() {
                return Ok(false);
            }
            tokio::select! {
                () = sleep(TOGETHER) => {}
                () = sleep_until(until) => {}
            }
        }
    }
}

impl SqliteBroker {
    /// Has other programs notify this one of commits that end tasks; without a notification the safety net finds them within
    /// 100 ms.
    async fn subscribe_to_other_programs(&self) {
        if self.ends.is_known.load(Ordering::Acquire) {
            return;
        }
        let common = Arc::clone(&self.store.common);
        // A reader's thread runs `wait_for_ends`, because it creates files. If it cannot run, the look that follows reports the
        // error, and the next waiter tries again; so it does if this one goes away before.
        let known = self.store.read(move |_| {
            if let Some(liveness) = &common.liveness {
                liveness.wait_for_ends();
            }
            Ok(())
        });
        if known.await.is_ok() {
            self.ends.is_known.store(true, Ordering::Release);
        }
    }
}

impl EndWaiters {
    fn join(&self, queue: &QueueName, id: &TaskId) -> WaiterGuard<'_> {
        let waiter = Arc::new(Waiter {
            queue: queue.clone(),
            id: id.clone(),
            is_notified: AtomicBool::new(false),
            notification: Notify::new(),
            unchanged_until: Mutex::default(),
        });
        let mut waiting = self.waiting.lock();
        waiting.last += 1;
        let number = waiting.last;
        waiting.by_number.insert(number, Arc::clone(&waiter));
        WaiterGuard { waiters: self, number, waiter }
    }

    /// Waits until this waiter leads, and has to look for all.
    async fn lead(&self) -> Leading<'_> {
        Leading { waiters: self, lead: self.lead.lock().await }
    }
}

impl Waiter {
    fn notify(&self, notified_at: Option<Instant>) {
        if notified_at.is_some() {
            *self.unchanged_until.lock() = notified_at;
        }
        self.is_notified.store(true, Ordering::Release);
        self.notification.notify_one();
    }
}

impl WaiterGuard<'_> {
    fn is_notified(&self) -> bool {
        self.waiter.is_notified.load(Ordering::Acquire)
    }

    async fn notified(&self) {
        while !self.is_notified() {
            self.waiter.notification.notified().await;
        }
    }
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        self.waiters.waiting.lock().by_number.remove(&self.number);
    }
}

impl Leading<'_> {
    /// Looks for all waiters after each commit that ended a task, until the task of `own` may have ended. The future may be
    /// dropped at any time; the next leader looks at the tasks that this leader did not.
    ///
    /// # Errors
    ///
    /// The file cannot be read; the next leader tries again.
    async fn look_for_all(mut self, store: &Store, own: &WaiterGuard<'_>) -> Result<(), BrokerError> {
        while !own.is_notified() {
            let Lead { notifier, is_behind, notified_at } = &mut *self.lead;
            let notifier = notifier.get_or_insert_with(|| {
                // A commit before this moment may end a task that an earlier waiter looked at.
                (*is_behind, *notified_at) = (true, None);
                store.common.notifier.ends()
            });
            if !*is_behind {
                notifier.notified().await;
                (*is_behind, *notified_at) = (true, Some(Instant::now()));
            }
            let begun = Instant::now();
            let notified_at = *notified_at;
            let all: Vec<Arc<Waiter>> = self.waiters.waiting.lock().by_number.values().cloned().collect();
            for slice in all.chunks(SLICE) {
                let found = look_at(store, slice.to_vec()).await?;
                for (waiter, found) in slice.iter().zip(found) {
                    if found.is_none_or(|(state, _)| has_ended(state)) {
                        waiter.notify(notified_at);
                    }
                }
            }
            self.lead.is_behind = false;
            // Commits that come meanwhile are looked at together, so that waiters never take more than half of a reader's time.
            let took = begun.elapsed();
            if took > SHORT && !own.is_notified() {
                sleep(took.min(LONGEST_PAUSE)).await;
            }
        }
        Ok(())
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        // The list holds the leader itself.
        if self.waiters.waiting.lock().by_number.len() <= 1 {
            self.lead.notifier = None;
        }
    }
}

/// Returns the states and extra facts of tasks; `None` for a task that is not there.
async fn look_at(store: &Store, tasks: Vec<Arc<Waiter>>) -> Result<Vec<Option<(TaskState, Extra)>>, BrokerError> {
    let look = |view: &View<'_>, task: &Waiter| {
        let found = view.find(&sql::inspect::STATE, params![task.queue.as_str(), task.id.as_str()], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Option<Vec<u8>>>(1)?))
        })?;
        Ok(found.and_then(|(state, extra)| {
            let extra = extra.map(|extra| Extra::from_bytes(&extra)).unwrap_or_default();
            Some((TaskState::from_number(state)?, extra))
        }))
    };
    store.read(move |view| tasks.iter().map(|task| look(view, task)).collect()).await
}
