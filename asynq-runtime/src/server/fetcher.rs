//! Takes tasks for free slots and starts them.
//!
//! It never asks for more than it can start (Go shows prefetched tasks as running), has one call in flight, and asks all
//! queues in it. When there is nothing it sleeps until the broker says otherwise: nothing polls. While too many outcomes
//! wait for the broker it fetches nothing.
//!
//! A task that was running when a worker died is a *suspect*. One of them runs at a time; others that come along are put
//! back before it starts, because a worker's death counts against everything that it holds, waiting or not (DECISIONS §5,
//! RELIABILITY F32).

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use super::{
    attempt::Attempt,
    config::SAFETY_NET,
    dice::Dice,
    hub::Hub,
    trouble::{FalseAlarms, Trouble},
};
use crate::broker::{BrokerError, Wanted};

/// A queue that gave less than it was asked for is taken as empty for this long, while others have work.
const SHORT: Duration = Duration::from_millis(10);
/// Longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long a server whose suspect is running waits before it looks past the other suspects again.
const LOOK_PAST_SUSPECTS: Duration = Duration::from_millis(200);

/// The one who fetches.
#[derive(Debug)]
pub(crate) struct Fetcher {
    hub: Arc<Hub>,
    /// Per queue: when it last gave less than it was asked for, if it did since the last news.
    short: Vec<Option<Instant>>,
    dice: Dice,
    alarms: FalseAlarms,
}

/// What a fetch found.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// So many tasks.
    Work(usize),
    /// Suspects, of which none may start now.
    OnlySuspects,
    Nothing,
}

impl Fetcher {
    /// Fetches until the server is quiet. A call in flight is waited for: its tasks are ours.
    pub(crate) async fn run(hub: Arc<Hub>) {
        let short = vec![None; hub.queues.names().len()];
        let mut fetcher = Self { hub, short, dice: Dice::new(), alarms: FalseAlarms::new() };
        let mut trouble = Trouble::of("fetcher", LONGEST_PAUSE);
        let quiet = fetcher.hub.quiet.clone();
        let mut is_probe = true;
        while !quiet.is_cancelled() {
            let pause = match fetcher.turn(is_probe).await {
                Ok(wait) => {
                    trouble.over();
                    is_probe = wait == Next::Probe;
                    continue;
                }
                Err(error) => trouble.met(&error),
            };
            is_probe = true;
            tokio::select! {
                () = quiet.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
            }
        }
        fetcher.hub.fetched_last.cancel();
        fetcher.hub.signals.quiet.ring();
    }

    /// One turn: room, fetch, start; or a wait for news.
    async fn turn(&mut self, is_probe: bool) -> Result<Next, BrokerError> {
        let room = self.room();
        if room == 0 {
            tokio::select! {
                () = self.hub.runs.freed() => {}
                () = self.hub.quiet.cancelled() => {}
            }
            return Ok(if is_probe { Next::Probe } else { Next::Fetch });
        }
        let found = if self.hub.queues.is_strict() {
            self.fetch_by_rank(room).await?
        } else {
            let asked = self.plan(room, is_probe);
            if asked.is_empty() { Found::Nothing } else { self.fetch(&asked).await? }
        };
        match found {
            Found::Work(_) => {
                self.alarms.fruitful();
                Ok(Next::Fetch)
            }
            Found::OnlySuspects => {
                tokio::select! {
                    () = self.hub.runs.freed() => {}
                    () = self.hub.quiet.cancelled() => {}
                    () = tokio::time::sleep(LOOK_PAST_SUSPECTS) => {}
                }
                Ok(Next::Fetch)
            }
            Found::Nothing if !self.all_are_short() => Ok(Next::Fetch),
            Found::Nothing => self.wait_for_news().await,
        }
    }

    /// Slots that may be filled, as far as their outcomes would find room.
    fn room(&self) -> usize {
        let outcomes = self.hub.config.outbox_room().saturating_sub(self.hub.outbox.len());
        self.hub.runs.free().min(outcomes)
    }

    /// How much to ask of which queue. Queues that were short a moment ago are left out as long as another has work.
    fn plan(&mut self, room: usize, is_probe: bool) -> Vec<(usize, usize)> {
        if is_probe {
            self.short.fill(None);
            return self.hub.queues.probe(room, &mut self.dice);
        }
        let open: Vec<usize> = (0..self.short.len())
            .filter(|&queue| self.short[queue].is_none_or(|since| since.elapsed() >= SHORT))
            .collect();
        self.hub.queues.share(room, &open, &mut self.dice)
    }

    fn all_are_short(&self) -> bool {
        self.short.iter().all(Option::is_some)
    }

    /// Asks the queues by rank, each only for what those above it left free.
    async fn fetch_by_rank(&mut self, room: usize) -> Result<Found, BrokerError> {
        let hub = Arc::clone(&self.hub);
        let (mut left, mut found) = (room, Found::Nothing);
        for &queue in hub.queues.ranked() {
            // Slots that became free meanwhile are for the next turn, which starts at the top again.
            if left == 0 || hub.quiet.is_cancelled() {
                break;
            }
            match self.fetch(&[(queue, left)]).await? {
                Found::Nothing => {}
                // What ranks lower must not overtake the suspects' queue.
                Found::OnlySuspects => return Ok(Found::OnlySuspects),
                Found::Work(n) => {
                    left = left.saturating_sub(n);
                    found = Found::Work(n);
                }
            }
        }
        Ok(found)
    }

    /// One call to the broker, and the start of what it gave.
    async fn fetch(&mut self, asked: &[(usize, usize)]) -> Result<Found, BrokerError> {
        let hub = Arc::clone(&self.hub);
        let wanted: Vec<Wanted> =
            asked.iter().map(|&(queue, n)| Wanted { queue: hub.queues.names()[queue].clone(), n }).collect();
        hub.found_nothing.store(false, Ordering::Release);
        let runs = hub.answer(hub.broker.dequeue(&hub.member, &wanted)).await?;
        let now = hub.broker.now();
        let attempts: Vec<Attempt> = runs.into_iter().map(Attempt::from).collect();
        let since = Instant::now();
        for &(queue, n) in asked {
            let name = &hub.queues.names()[queue];
            let got = attempts.iter().filter(|attempt| attempt.key.queue == *name).count();
            self.short[queue] = (got < n).then_some(since);
        }
        for attempt in &attempts {
            hub.runs.hold(attempt, now);
        }
        if attempts.is_empty() {
            return Ok(Found::Nothing);
        }
        hub.signals.fetched.ring();
        if hub.closing.is_cancelled() {
            for attempt in attempts.iter().rev().filter(|attempt| hub.runs.settling(&attempt.key)) {
                hub.outbox.put(Hub::hand_back(attempt));
            }
            return Ok(Found::Nothing);
        }
        let taken = attempts.len();
        let (suspects, others): (Vec<_>, Vec<_>) = attempts.into_iter().partition(Attempt::is_suspect);
        let has_others = !others.is_empty();
        for attempt in others {
            hub.launch(attempt);
        }
        let starts = self.start_one_of(suspects).await;
        Ok(if has_others || starts { Found::Work(taken) } else { Found::OnlySuspects })
    }

    /// Starts the first suspect if none is running, once the others are back in their queues. Returns whether one was
    /// started.
    async fn start_one_of(&self, suspects: Vec<Attempt>) -> bool {
        let hub = &self.hub;
        let mut suspects = suspects.into_iter();
        let first = if hub.runs.suspect_runs() { None } else { suspects.next() };
        // The last one to be put back is the first to be taken again: so in reverse, and the order stays.
        let rest: Vec<Attempt> = suspects.collect();
        let answers: Vec<_> = rest
            .iter()
            .rev()
            .filter(|attempt| hub.runs.settling(&attempt.key))
            .map(|attempt| hub.outbox.put_and_tell(Hub::hand_back(attempt)))
            .collect();
        let Some(first) = first else { return false };
        for answer in answers {
            tokio::select! {
                // Whatever the answer: it is out of our hands, and safe from what the first one may do.
                _settled = answer => {}
                () = hub.closing.cancelled() => {
                    if hub.runs.settling(&first.key) {
                        hub.outbox.put(Hub::hand_back(&first));
                    }
                    return false;
                }
            }
        }
        tracing::warn!(
            id = %first.key.id, queue = %first.key.queue, r#type = %first.message.r#type, crashes = first.crashes,
            "a worker died while this ran; it runs as the only one of its kind"
        );
        hub.launch(first);
        true
    }

    /// Sleeps until some queue may have work.
    async fn wait_for_news(&mut self) -> Result<Next, BrokerError> {
        let hub = Arc::clone(&self.hub);
        hub.found_nothing.store(true, Ordering::Release);
        hub.note_idle();
        let since = Instant::now();
        tokio::select! {
            () = hub.quiet.cancelled() => return Ok(Next::Probe),
            news = hub.news(hub.broker.wait_for_work(hub.queues.names(), SAFETY_NET)) => news?,
        }
        let pause = self.alarms.fruitless(since.elapsed());
        if !pause.is_zero() {
            tokio::select! {
                () = hub.quiet.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        Ok(Next::Probe)
    }
}

/// What the next turn is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Some queue had work: go on by weight.
    Fetch,
    /// Nobody knows: ask all queues at once.
    Probe,
}
