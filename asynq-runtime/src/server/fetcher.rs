//! Takes tasks for free slots and starts them.
//!
//! It never asks for more than it can start (Go shows prefetched tasks as running), has one call in flight, and asks all
//! queues in it. When there is nothing it sleeps until the broker says otherwise: nothing polls. While too many outcomes
//! wait for the broker it fetches nothing; with layers it fetches nothing before they are ready, and no more than they are
//! trusted with.
//!
//! Where the broker's calls are driven by who makes them, it lives beside the jobs: the thread that reads an answer runs
//! its tasks, and nobody has to be woken. A job that blocks that thread holds it up; the heart then hands back what it took.
//!
//! A task that was running when a worker died is a *suspect*. One of them runs at a time, and no other is even taken:
//! a worker's death counts against everything that it holds, waiting or not (DECISIONS §5, RELIABILITY F32).

use std::{
    collections::HashSet,
    future::poll_fn,
    mem,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use super::{
    attempt::Attempt,
    config::SAFETY_NET,
    dice::Dice,
    gate::{Gate, Permit},
    hub::Hub,
    queues::{MOST_ASKED, Open, Queues},
    runs::InHand,
    trouble::{FalseAlarms, Trouble},
};
use crate::{
    broker::{BrokerError, Run, Suspects, Wanted},
    task::QueueName,
};

/// A queue that gave less than it was asked for, and little, is taken as empty for this long, while others have work.
const SHORT: Duration = Duration::from_millis(10);
/// A queue that gave so many at once is busy: it is asked again, and its changes need not be heard of.
const BUSY: usize = 8;
/// So many queues are asked one after the other before it is worth a question which of them have work.
const MANY: usize = 16;
/// Most tasks of one call: while these run, the next are fetched.
const MOST_FETCHED: usize = 128;
/// Fewer are not worth a call of their own while tasks are about to have their first turn: some may end in it.
const FEW: usize = 16;
/// Longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The one who fetches.
#[derive(Debug)]
pub(crate) struct Fetcher {
    hub: Arc<Hub>,
    queues: Arc<Queues>,
    /// Whether it lives where the jobs do.
    is_beside_jobs: bool,
    /// Per queue: when it last gave less than it was asked for, and little, if it did since the last news.
    short: Vec<Option<Instant>>,
    /// When all queues were last looked at, where they are many.
    looked: Option<Instant>,
    /// What the layers gave for the next task.
    permit: Option<Permit>,
    /// Whose turn it is to give a suspect.
    turn: usize,
    dice: Dice,
    alarms: FalseAlarms,
}

impl Fetcher {
    /// Fetches until the server is quiet. A call in flight is waited for: its tasks are ours.
    pub(crate) async fn run(hub: Arc<Hub>) {
        let _ended = Ended(Arc::clone(&hub));
        let queues = hub.queues.now();
        let short = vec![None; queues.len()];
        let (dice, alarms) = (Dice::new(), FalseAlarms::new());
        let is_beside_jobs = hub.broker.dequeues_beside_jobs();
        let mut fetcher =
            Self { hub, queues, is_beside_jobs, short, looked: None, permit: None, turn: 0, dice, alarms };
        let mut trouble = Trouble::of("fetcher", LONGEST_PAUSE);
        let quiet = fetcher.hub.quiet.clone();
        let mut next = Next::Probe;
        while !quiet.is_cancelled() {
            let pause = match fetcher.turn(next).await {
                Ok(wanted) => {
                    trouble.over();
                    next = wanted;
                    continue;
                }
                Err(error) => trouble.met(&error),
            };
            next = Next::Probe;
            tokio::select! {
                () = quiet.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// One turn: room, fetch, start; or a wait for news.
    async fn turn(&mut self, mut next: Next) -> Result<Next, BrokerError> {
        let queues = self.hub.queues.now();
        if !Arc::ptr_eq(&queues, &self.queues) {
            self.short = vec![None; queues.len()];
            (self.queues, self.looked, next) = (queues, None, Next::Probe);
        }
        let mut room = self.room();
        if self.is_beside_jobs && room < FEW && self.hub.runs.running() > 0 {
            go_last().await;
            room = self.room();
        }
        if room == 0 {
            tokio::select! {
                () = self.hub.runs.freed() => {}
                () = self.hub.quiet.cancelled() => {}
            }
            return Ok(next);
        }
        if let Some(gate) = self.hub.gate.clone() {
            if !self.is_permitted(&gate).await {
                return Ok(next);
            }
            room = room.min(gate.trust().most());
        }
        if next == Next::Wait {
            return self.wait_for_news().await;
        }
        self.look(room, next).await?;
        let taken = if self.queues.is_strict() {
            self.fetch_by_rank(room).await?
        } else {
            let open = self.open(0..self.queues.len());
            let asked = match next {
                Next::Probe | Next::Wait => self.queues.probe(room, &open, &mut self.dice),
                Next::Fetch => self.queues.share(room, &open, &mut self.dice),
            };
            self.fetch(&asked).await?
        };
        if taken > 0 {
            self.alarms.fruitful();
        }
        if taken > 0 || !self.all_are_short() { Ok(Next::Fetch) } else { self.wait_for_news().await }
    }

    /// Slots that may be filled, as far as their outcomes would find room.
    fn room(&self) -> usize {
        let outcomes = self.hub.config.outbox_room().saturating_sub(self.hub.outbox.len());
        self.hub.runs.free().min(outcomes).min(MOST_FETCHED)
    }

    /// Slots that this queue may take beside what it has.
    fn room_of(&self, queue: usize) -> usize {
        let running = || self.hub.runs.running_of(&self.queues.names()[queue]);
        self.queues.limit(queue).map_or(usize::MAX, |limit| limit.saturating_sub(running()))
    }

    /// Waits until the layers take a task. `false` if the server became quiet meanwhile, or they failed and a pause is over.
    async fn is_permitted(&mut self, gate: &Arc<Gate>) -> bool {
        if self.permit.is_none() {
            tokio::select! {
                permit = gate.permit(&self.hub) => self.permit = permit,
                () = self.hub.quiet.cancelled() => {}
            }
        }
        self.permit.is_some()
    }

    /// Notes which queues are worth asking. Where they are more than one call can ask, one question tells, so that a
    /// thousand tenants do not cost a thousand calls.
    async fn look(&mut self, room: usize, next: Next) -> Result<(), BrokerError> {
        let is_stale = |since: Instant| since.elapsed() >= SHORT;
        if self.queues.len() > room.clamp(MANY, MOST_ASKED) {
            if next == Next::Fetch && self.looked.is_some_and(|since| !is_stale(since)) {
                return Ok(());
            }
            let names: Vec<QueueName> = self.with_room().cloned().collect();
            let ready: HashSet<QueueName> = self.hub.answer(self.hub.broker.ready(&names)).await?.into_iter().collect();
            let now = Instant::now();
            for (short, name) in self.short.iter_mut().zip(self.queues.names()) {
                *short = (!ready.contains(name)).then_some(now);
            }
            self.looked = Some(now);
        } else if next == Next::Probe {
            self.short.fill(None);
        } else {
            // Queues that were short a moment ago are left out as long as another has work.
            self.short.iter_mut().for_each(|short| *short = short.filter(|&since| !is_stale(since)));
        }
        Ok(())
    }

    /// Those of `queues` that may have work and may run more.
    fn open(&self, queues: impl IntoIterator<Item = usize>) -> Vec<Open> {
        let open = queues.into_iter().filter(|&queue| self.short[queue].is_none());
        let open = open.map(|queue| Open { queue, room: self.room_of(queue) });
        open.filter(|open| open.room > 0).collect()
    }

    /// The queues that may run more tasks.
    fn with_room(&self) -> impl Iterator<Item = &QueueName> {
        let names = self.queues.names().iter().enumerate();
        names.filter(|&(queue, _)| self.room_of(queue) > 0).map(|(_, name)| name)
    }

    fn all_are_short(&self) -> bool {
        let open = self.short.iter().enumerate().find(|(queue, short)| short.is_none() && self.room_of(*queue) > 0);
        open.is_none()
    }

    /// Asks the queues by rank, each only for what those above it left free. Returns how many tasks came.
    async fn fetch_by_rank(&mut self, room: usize) -> Result<usize, BrokerError> {
        let queues = Arc::clone(&self.queues);
        let mut left = room;
        for equals in queues.ranked() {
            // Slots that became free meanwhile are for the next turn, which starts at the top again.
            if left == 0 || self.hub.quiet.is_cancelled() {
                break;
            }
            let asked = queues.probe(left, &self.open(equals.iter().copied()), &mut self.dice);
            left = left.saturating_sub(self.fetch(&asked).await?);
        }
        Ok(room - left)
    }

    /// One call to the broker, and the start of what it gave. Returns how many tasks came.
    async fn fetch(&mut self, asked: &[(usize, usize)]) -> Result<usize, BrokerError> {
        if asked.is_empty() {
            return Ok(0);
        }
        let hub = Arc::clone(&self.hub);
        let wanted = wanted(&self.queues, asked);
        let suspects = self.suspects(&wanted);
        hub.found_nothing.store(false, Ordering::Release);
        let runs = hub.answer(hub.broker.dequeue_sparing(&hub.member, &wanted, &suspects)).await?;
        Ok(self.took(asked, runs).await)
    }

    /// Starts what the broker gave. Returns how many tasks that were.
    async fn took(&mut self, asked: &[(usize, usize)], runs: Vec<Run>) -> usize {
        let hub = Arc::clone(&self.hub);
        let queues = Arc::clone(&self.queues);
        let names = queues.names();
        let now = hub.broker.now();
        let since = Instant::now();
        for &(queue, n) in asked {
            let got = runs.iter().filter(|run| run.key.queue == names[queue]).count();
            self.short[queue] = (got < n.min(BUSY)).then_some(since);
        }
        let taken = runs.len();
        if taken == 0 {
            return 0;
        }
        hub.signals.fetched.ring();
        let held = hub.runs.hold(runs.into_iter().map(Attempt::from), now);
        let rest = self.start(held).await;
        hub.put_back(&rest);
        taken
    }

    /// How many suspects to take: none beside one that runs, else one, from each queue in turn.
    fn suspects(&mut self, wanted: &[Wanted]) -> Suspects {
        self.turn = self.turn.wrapping_add(1);
        match wanted.get(self.turn % wanted.len().max(1)) {
            Some(wanted) if !self.hub.runs.suspect_runs() => Suspects::OneFrom(wanted.queue.clone()),
            _ => Suspects::None,
        }
    }

    /// Starts what may start. Returns the rest: everything if the server is leaving; what the layers do not take at once;
    /// and what is more than was asked for, suspects beside another included, which only comes where the answer to an
    /// earlier call was lost.
    async fn start(&mut self, held: Vec<Arc<InHand>>) -> Vec<Arc<InHand>> {
        let hub = Arc::clone(&self.hub);
        let queues = Arc::clone(&self.queues);
        let limit_of = |name: &QueueName| {
            let queue = queues.names().iter().position(|known| known == name)?;
            queues.limit(queue)
        };
        let (mut slots, mut rest, mut stalled) = (Vec::with_capacity(held.len()), Vec::new(), false);
        for task in held {
            let attempt = &task.attempt;
            let is_suspect = attempt.is_suspect();
            let is_full =
                limit_of(&attempt.key.queue).is_some_and(|most| hub.runs.running_of(&attempt.key.queue) >= most);
            let is_beside = is_suspect && hub.runs.suspect_runs();
            if stalled || hub.closing.is_cancelled() || is_beside || is_full {
                rest.push(task);
                continue;
            }
            if let Some(gate) = &hub.gate {
                if self.permit.is_none() {
                    tokio::select! {
                        permit = gate.permit_at_once(&hub) => self.permit = permit,
                        () = hub.quiet.cancelled() => {}
                    }
                }
                if self.permit.is_none() {
                    stalled = true;
                    gate.trust().stalled();
                    rest.push(task);
                    continue;
                }
                gate.trust().started();
            }
            if is_suspect {
                let (id, queue, r#type) = (&attempt.key.id, &attempt.key.queue, &attempt.message.r#type);
                let crashes = attempt.crashes;
                tracing::warn!(%id, %queue, r#type, crashes, "a worker died while this ran; it runs as the only such task");
            }
            slots.extend(hub.slot(task, self.permit.take()));
            if hub.gate.is_some() {
                // The layers give the next permit when this one is used.
                hub.launch(mem::take(&mut slots));
            }
        }
        // Where it must not go on before they had their turn, they stand before it in the queue of the runtime.
        let goes_last = self.is_beside_jobs && self.room() < FEW;
        if goes_last {
            slots.into_iter().for_each(|slot| hub.launch(vec![slot]));
        } else {
            hub.launch(slots);
        }
        rest
    }

    /// What to ask for while nothing is there, if one call can ask all queues that may run more: all of them at once, for
    /// nobody knows where something comes first.
    fn ask_all(&mut self) -> Option<Vec<(usize, usize)>> {
        let most = self.hub.gate.as_ref().map_or(usize::MAX, |gate| gate.trust().most());
        let room = self.room().min(most);
        let everywhere = (0..self.queues.len()).map(|queue| Open { queue, room: self.room_of(queue) });
        let open: Vec<Open> = everywhere.filter(|open| open.room > 0).collect();
        let reaches_all = !self.queues.is_strict() && !open.is_empty() && open.len() <= room.min(MOST_ASKED);
        reaches_all.then(|| self.queues.probe(room, &open, &mut self.dice))
    }

    /// Sleeps until some queue may have work, and starts what came.
    async fn wait_for_news(&mut self) -> Result<Next, BrokerError> {
        let hub = Arc::clone(&self.hub);
        let asked = self.ask_all();
        let wanted = asked.as_ref().map(|asked| wanted(&self.queues, asked));
        let suspects = self.suspects(wanted.as_deref().unwrap_or_default());
        hub.found_nothing.store(true, Ordering::Release);
        hub.note_idle();
        let names: Vec<QueueName> = self.with_room().cloned().collect();
        let is_full = names.len() < self.queues.len();
        let (since, stop) = (Instant::now(), CancellationToken::new());
        let news = async {
            if let Some(wanted) = &wanted {
                let runs = hub.broker.wait_and_dequeue(&hub.member, wanted, &suspects, SAFETY_NET, &stop);
                return hub.news(runs).await;
            }
            if names.is_empty() {
                // Nothing can come but a free slot or another queue.
                std::future::pending::<()>().await;
            }
            hub.news(hub.broker.wait_for_work(&names, SAFETY_NET)).await.map(|()| Vec::new())
        };
        let mut news = pin!(news);
        let room = async {
            loop {
                hub.runs.freed().await;
                if self.with_room().count() > names.len() {
                    return;
                }
            }
        };
        let runs = tokio::select! {
            () = hub.quiet.cancelled() => None,
            () = hub.queues.changed(&self.queues) => None,
            // The next suspect may come.
            () = hub.runs.freed(), if hub.runs.suspect_runs() => None,
            // A queue is below its limit again.
            () = room, if is_full && !hub.runs.suspect_runs() => None,
            runs = &mut news => Some(runs?),
        };
        let is_over = runs.is_none();
        let runs = match (runs, &asked) {
            (Some(runs), _) => runs,
            // What is being taken at this moment is ours.
            (None, Some(_)) => {
                stop.cancel();
                news.await?
            }
            (None, None) => Vec::new(),
        };
        if let Some(asked) = &asked
            && !runs.is_empty()
        {
            hub.found_nothing.store(false, Ordering::Release);
            self.alarms.fruitful();
            self.took(asked, runs).await;
            return Ok(Next::Fetch);
        }
        if is_over {
            return Ok(Next::Probe);
        }
        // While a suspect runs, those that are not taken ring the bell all the time.
        let waited = if hub.runs.suspect_runs() { Duration::ZERO } else { since.elapsed() };
        let pause = self.alarms.fruitless(waited);
        if !pause.is_zero() {
            tokio::select! {
                () = hub.quiet.cancelled() => {}
                () = hub.runs.freed(), if hub.runs.suspect_runs() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        // Where the wait asks all that could be asked, it begins with that.
        Ok(if asked.is_some() { Next::Wait } else { Next::Probe })
    }
}

/// Goes to the end of the runtime's queue, from where its other threads may take it, unlike one that yields.
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

/// Tells that nothing more is fetched, also where the runtime has ended around the fetcher.
struct Ended(Arc<Hub>);

impl Drop for Ended {
    fn drop(&mut self) {
        // One that panicked is started again.
        if !std::thread::panicking() {
            self.0.runtime_has_ended();
            self.0.fetched_last.cancel();
            self.0.signals.quiet.ring();
        }
    }
}

fn wanted(queues: &Queues, asked: &[(usize, usize)]) -> Vec<Wanted> {
    asked.iter().map(|&(queue, n)| Wanted { queue: queues.names()[queue].clone(), n }).collect()
}

/// What the next turn is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Some queue had work: go on by weight.
    Fetch,
    /// Nobody knows: ask all queues at once.
    Probe,
    /// Nothing was there a moment ago: wait, which looks again first.
    Wait,
}
