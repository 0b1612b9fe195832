//! Takes tasks for free slots and starts them.
//!
//! The fetcher never asks for more tasks than it can start (Go shows prefetched tasks as running), has one call in flight,
//! and asks all queues in it. While all queues are empty it sleeps until the broker notifies: nothing polls. While too many
//! outcomes wait for the broker it fetches nothing. With layers it fetches nothing before they are ready, and no more than
//! their batch controller allows.
//!
//! Where the broker's calls run in the calling task, the fetcher runs beside the jobs: the thread that reads an answer runs
//! its tasks, and no other thread has to be woken. A job that blocks that thread delays the fetcher; the heartbeat runtime
//! then requeues the tasks of its unanswered call.
//!
//! A task that the next crash of a worker would archive, or the last has, is *quarantined*. One quarantined task runs at a time, and no other is
//! even taken, because a crash is charged to every task that the worker holds, waiting or not. Tasks that merely ran beside a
//! poison task then end without a crash, and the poison task crashes alone.

mod pace;
mod ready_queues;
mod start;
mod wait;

use std::{
    collections::{HashMap, HashSet},
    future::poll_fn,
    mem,
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::{Duration, Instant},
};

use self::{pace::Pace, ready_queues::Look};
use super::{
    attempt::Attempt,
    layer_stack::{LayerStack, Permit, RuntimeEnded},
    queues::{Open, Queues},
    retry_backoff::{RetryBackoff, SpuriousWakeups},
    server_context::ServerContext,
};
use crate::broker::{BrokerError, Quarantined, Run, Wanted};
use fastrand::Rng;

/// A queue that gave so many tasks at once is busy: it is asked again without a notification.
const BUSY: usize = 8;
/// A call that brought so many bytes may have brought fewer tasks for that alone, of all its queues: a broker stops here or later,
/// while its answers come in time.
const LARGE: usize = 1 << 20;
/// How many tasks one call takes at most: while these run, the next are fetched.
const MOST_FETCHED: usize = 128;
/// With fewer free slots the fetcher waits until the started tasks have been polled once: some end in that poll and free more.
const FEW: usize = 16;
/// Longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Takes tasks from the broker and starts them.
#[derive(Debug)]
pub(crate) struct Fetcher {
    context: Arc<ServerContext>,
    queues: Arc<Queues>,
    /// Per queue: when it last gave fewer tasks than asked for and than [`BUSY`], in a call that was not [`LARGE`], or was found empty;
    /// `None` if it may have work.
    short: Vec<Option<Instant>>,
    /// The last look at all queues, if they are many.
    looked: Option<Look>,
    pace: Pace,
    /// The permit of the layers for the next task.
    permit: Option<Permit>,
    random: Rng,
    wakeups: SpuriousWakeups,
}

impl Fetcher {
    /// Fetches until the server is quiet. A call in flight is waited for: its tasks belong to this server.
    pub(crate) async fn run(context: Arc<ServerContext>) {
        let queues = context.queues.now();
        let short = vec![None; queues.len()];
        let (random, wakeups) = (Rng::new(), SpuriousWakeups::default());
        let pace = Pace::new(Instant::now());
        let mut fetcher = Self { context, queues, short, looked: None, pace, permit: None, random, wakeups };
        let mut retry_backoff = RetryBackoff::new("fetcher", LONGEST_PAUSE);
        let quiet = fetcher.context.quiet.clone();
        let mut next = Next::Probe;
        while !quiet.is_cancelled() {
            let pause = match fetcher.pass(next).await {
                Ok(wanted) => {
                    retry_backoff.on_success();
                    next = wanted;
                    continue;
                }
                Err(error) => retry_backoff.on_error(&error),
            };
            next = Next::Probe;
            quiet.run_until_cancelled(tokio::time::sleep(pause)).await;
        }
    }

    /// Makes one pass: finds room, fetches and starts; or waits for a notification. Returns the kind of the next pass.
    async fn pass(&mut self, mut next: Next) -> Result<Next, BrokerError> {
        let queues = self.context.queues.now();
        if !Arc::ptr_eq(&queues, &self.queues) {
            self.short = vec![None; queues.len()];
            (self.queues, self.looked, next) = (queues, None, Next::Probe);
        }
        let mut room = self.room();
        if self.context.broker.dequeues_beside_jobs() && room < FEW && self.context.runs.running() > 0 {
            go_last().await;
            room = self.room();
        }
        if room == 0 {
            self.context.quiet.run_until_cancelled(self.context.runs.freed()).await;
            return Ok(next);
        }
        if let Some(layer_stack) = self.context.layer_stack.clone() {
            if !self.is_permitted(&layer_stack).await {
                return Ok(next);
            }
            room = room.min(layer_stack.batch_controller().most());
        }
        if next == Next::Wait {
            return self.wait_for_notification().await;
        }
        self.look(room, next).await?;
        let taken = if self.context.config.strict {
            self.fetch_by_rank(room).await?
        } else {
            self.fetch_by_weight(room, next).await?
        };
        if taken > 0 {
            self.wakeups.on_work();
        }
        if taken > 0 || self.open(self.all()).next().is_some() {
            Ok(Next::Fetch)
        } else {
            self.wait_for_notification().await
        }
    }

    /// Returns how many free slots may be filled, as far as the outbox has room for their outcomes.
    fn room(&self) -> usize {
        self.context.runs.free().min(self.context.outbox.room()).min(MOST_FETCHED)
    }

    /// Waits until the layers take a task. Returns `false` if the server became quiet meanwhile, or if the layers failed and a
    /// pause is over.
    async fn is_permitted(&mut self, layer_stack: &Arc<LayerStack>) -> bool {
        if self.permit.is_none() {
            let permit = layer_stack.permit(&self.context.jobs);
            match self.context.quiet.run_until_cancelled(permit).await {
                Some(Ok(permit)) => self.permit = permit,
                Some(Err(RuntimeEnded)) => self.context.runtime_has_ended(),
                None => {}
            }
        }
        self.permit.is_some()
    }

    /// Asks some of the queues, by weight. Where a part of the broker is away, those that it answers for are asked as well, because the
    /// others may be nearly all that are open.
    ///
    /// # Errors
    ///
    /// No task came, and a queue could not be asked.
    async fn fetch_by_weight(&mut self, room: usize, next: Next) -> Result<usize, BrokerError> {
        let (mut open, mut failed): (Vec<Open>, _) = (self.open(self.all()).collect(), None);
        loop {
            let shares = match next {
                Next::Probe | Next::Wait => self.queues.probe(room, &open, &mut self.random),
                Next::Fetch => self.queues.share_in_chunks(room, &open, self.pace.chunk(), &mut self.random),
            };
            let error = match (self.fetch(&shares).await, failed) {
                (Err(error), _) if self.context.broker.has_parts() => error,
                (Ok(0), Some(error)) => error,
                (taken, _) => return taken,
            };
            open.retain(|open| shares.iter().all(|&(queue, _)| queue != open.queue));
            if open.is_empty() || shares.is_empty() || self.context.quiet.is_cancelled() {
                return Err(error);
            }
            failed = Some(error);
        }
    }

    /// Asks the queues by rank, each only for the slots that those above it left free. Queues of one rank share the slots by
    /// weight, and are asked until they are short, as far as the pass does not take long: then the next one looks at the queues
    /// above first. Returns how many tasks came. A queue that cannot be asked keeps nothing from those beside and below it, unless
    /// the broker as a whole is away: it may be back for those below.
    ///
    /// # Errors
    ///
    /// No task came, and a queue could not be asked.
    async fn fetch_by_rank(&mut self, room: usize) -> Result<usize, BrokerError> {
        let queues = Arc::clone(&self.queues);
        let (mut left, mut failed, mut unanswered) = (room, None, HashSet::<usize>::new());
        let (since, mut is_long) = (Instant::now(), false);
        'ranks: for equals in queues.ranked() {
            // Each call finds a queue empty, fills a slot, or fails.
            loop {
                let open: Vec<Open> =
                    self.open(equals.iter().copied().filter(|queue| !unanswered.contains(queue))).collect();
                if open.is_empty() {
                    break;
                }
                // Slots that became free meanwhile are for the next pass, which starts at the top again.
                if left == 0 || is_long || self.context.quiet.is_cancelled() {
                    break 'ranks;
                }
                let shares = queues.probe(left, &open, &mut self.random);
                match self.fetch(&shares).await {
                    Ok(taken) => {
                        left = left.saturating_sub(taken);
                        // The next pass waits for the layers first.
                        if taken > 0 && self.context.layer_stack.is_some() && self.permit.is_none() {
                            break 'ranks;
                        }
                        // A pass with a failure goes on: the next one may fail for as long, and never come to the ranks below.
                        is_long = failed.is_none() && since.elapsed() >= ready_queues::SHORT;
                    }
                    Err(error) if error.is_unavailable() && !self.context.broker.has_parts() => {
                        failed = Some(error);
                        break 'ranks;
                    }
                    Err(error) => {
                        failed = failed.or(Some(error));
                        unanswered.extend(shares.iter().map(|&(queue, _)| queue));
                    }
                }
            }
        }
        failed.filter(|_| left == room).map_or(Ok(room - left), Err)
    }

    /// Makes one call to the broker, and starts the tasks that it returns. Returns how many tasks came.
    async fn fetch(&mut self, shares: &[(usize, usize)]) -> Result<usize, BrokerError> {
        if shares.is_empty() {
            return Ok(0);
        }
        let context = Arc::clone(&self.context);
        let wanted = wanted(&self.queues, shares);
        let quarantined = self.quarantined();
        context.found_nothing.store(false, Ordering::Release);
        let runs = context.answer(context.broker.dequeue_sparing(&context.member, &wanted, quarantined)).await?;
        Ok(self.took(shares, runs).await)
    }

    /// Starts the tasks that the broker gave. Returns how many there were.
    async fn took(&mut self, shares: &[(usize, usize)], runs: Vec<Run>) -> usize {
        let context = Arc::clone(&self.context);
        let queues = Arc::clone(&self.queues);
        let now = context.broker.now();
        let since = Instant::now();
        let is_large = runs.iter().map(Run::bytes).sum::<usize>() >= LARGE;
        let mut got: HashMap<usize, usize> = HashMap::new();
        runs.iter()
            .filter_map(|run| queues.position(&run.key.queue))
            .for_each(|queue| *got.entry(queue).or_default() += 1);
        for &(queue, n) in shares {
            let got = got.get(&queue).copied().unwrap_or_default();
            self.short[queue] = (got < n.min(BUSY) && !is_large).then_some(since);
        }
        let taken = runs.len();
        let wanted = shares.iter().map(|&(_, n)| n).sum();
        self.pace.took(taken, wanted, context.config.concurrency, since);
        if taken == 0 {
            return 0;
        }
        context.signals.fetched.notify();
        let tasks = context.runs.hold(runs.into_iter().map(Attempt::from), (now, since));
        let rest = self.start(tasks).await;
        context.requeue(&rest);
        taken
    }

    /// Returns how many quarantined tasks to take: none beside one that runs.
    fn quarantined(&self) -> Quarantined {
        if self.context.runs.quarantined_runs() { Quarantined::None } else { Quarantined::One }
    }
}

/// Moves the task to the end of the runtime's queue, from where other threads may take it, unlike after `yield_now`.
async fn go_last() {
    let mut has_gone = false;
    poll_fn(|context| {
        if mem::replace(&mut has_gone, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Announces on its drop that nothing more is fetched. It belongs to the component and not to the fetcher's future, so that it is dropped
/// when the fetcher or the runtime around it has ended, and not when the fetcher has panicked and is started again.
pub(crate) struct EndGuard(pub(crate) Arc<ServerContext>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.runtime_has_ended();
        self.0.fetched_last.cancel();
        self.0.signals.quiet.notify();
    }
}

fn wanted(queues: &Queues, shares: &[(usize, usize)]) -> Vec<Wanted> {
    shares.iter().map(|&(queue, n)| Wanted { queue: queues.names()[queue].clone(), n }).collect()
}

/// The kind of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Some queue had work: go on by weight.
    Fetch,
    /// It is unknown which queues have work: ask all queues at once.
    Probe,
    /// All queues were empty a moment ago: wait, which looks at them again first.
    Wait,
}
