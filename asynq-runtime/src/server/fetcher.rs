//! Takes tasks for free slots and starts them.
//!
//! It never asks for more than it can start (Go shows prefetched tasks as running), has one call in flight, and asks all
//! queues in it. When there is nothing it sleeps until the broker says otherwise: nothing polls. While too many outcomes
//! wait for the broker it fetches nothing.
//!
//! A task that was running when a worker died is a *suspect*. One of them runs at a time, and no other is even taken:
//! a worker's death counts against everything that it holds, waiting or not (DECISIONS §5, RELIABILITY F32).

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
use crate::broker::{BrokerError, Suspects, Wanted};

/// A queue that gave less than it was asked for is taken as empty for this long, while others have work.
const SHORT: Duration = Duration::from_millis(10);
/// Longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The one who fetches.
#[derive(Debug)]
pub(crate) struct Fetcher {
    hub: Arc<Hub>,
    /// Per queue: when it last gave less than it was asked for, if it did since the last news.
    short: Vec<Option<Instant>>,
    /// Whose turn it is to give a suspect.
    turn: usize,
    dice: Dice,
    alarms: FalseAlarms,
}

impl Fetcher {
    /// Fetches until the server is quiet. A call in flight is waited for: its tasks are ours.
    pub(crate) async fn run(hub: Arc<Hub>) {
        let short = vec![None; hub.queues.names().len()];
        let mut fetcher = Self { hub, short, turn: 0, dice: Dice::new(), alarms: FalseAlarms::new() };
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
        let taken = if self.hub.queues.is_strict() {
            self.fetch_by_rank(room).await?
        } else {
            let asked = self.plan(room, is_probe);
            if asked.is_empty() { 0 } else { self.fetch(&asked).await? }
        };
        if taken > 0 {
            self.alarms.fruitful();
        }
        if taken > 0 || !self.all_are_short() { Ok(Next::Fetch) } else { self.wait_for_news().await }
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

    /// Asks the queues by rank, each only for what those above it left free. Returns how many tasks came.
    async fn fetch_by_rank(&mut self, room: usize) -> Result<usize, BrokerError> {
        let hub = Arc::clone(&self.hub);
        let mut left = room;
        for &queue in hub.queues.ranked() {
            // Slots that became free meanwhile are for the next turn, which starts at the top again.
            if left == 0 || hub.quiet.is_cancelled() {
                break;
            }
            left = left.saturating_sub(self.fetch(&[(queue, left)]).await?);
        }
        Ok(room - left)
    }

    /// One call to the broker, and the start of what it gave. Returns how many tasks came.
    async fn fetch(&mut self, asked: &[(usize, usize)]) -> Result<usize, BrokerError> {
        let hub = Arc::clone(&self.hub);
        let names = hub.queues.names();
        let wanted: Vec<Wanted> = asked.iter().map(|&(queue, n)| Wanted { queue: names[queue].clone(), n }).collect();
        let suspects = self.suspects(&wanted);
        hub.found_nothing.store(false, Ordering::Release);
        let runs = hub.answer(hub.broker.dequeue_sparing(&hub.member, &wanted, &suspects)).await?;
        let now = hub.broker.now();
        let attempts: Vec<Attempt> = runs.into_iter().map(Attempt::from).collect();
        let since = Instant::now();
        for &(queue, n) in asked {
            let got = attempts.iter().filter(|attempt| attempt.key.queue == names[queue]).count();
            self.short[queue] = (got < n).then_some(since);
        }
        let taken = attempts.len();
        if taken > 0 {
            hub.signals.fetched.ring();
        }
        for attempt in &attempts {
            hub.runs.hold(attempt, now);
        }
        // The last one to be put back is the first to be taken again: so in reverse, and the order stays.
        for attempt in self.start(attempts).iter().rev().filter(|attempt| hub.runs.settling(&attempt.key)) {
            hub.outbox.put(Hub::hand_back(attempt));
        }
        Ok(taken)
    }

    /// How many suspects to take: none beside one that runs, else one, from each queue in turn.
    fn suspects(&mut self, wanted: &[Wanted]) -> Suspects {
        self.turn = self.turn.wrapping_add(1);
        match wanted.get(self.turn % wanted.len().max(1)) {
            Some(wanted) if !self.hub.runs.suspect_runs() => Suspects::OneFrom(wanted.queue.clone()),
            _ => Suspects::None,
        }
    }

    /// Starts what may start. Returns the rest: everything if the server is leaving, and suspects beside another, which
    /// only come where the answer to an earlier call was lost.
    fn start(&self, attempts: Vec<Attempt>) -> Vec<Attempt> {
        let hub = &self.hub;
        let mut rest = Vec::new();
        for attempt in attempts {
            let is_suspect = attempt.is_suspect();
            if hub.closing.is_cancelled() || (is_suspect && hub.runs.suspect_runs()) {
                rest.push(attempt);
                continue;
            }
            if is_suspect {
                let (id, queue, r#type) = (&attempt.key.id, &attempt.key.queue, &attempt.message.r#type);
                let crashes = attempt.crashes;
                tracing::warn!(%id, %queue, r#type, crashes, "a worker died while this ran; it runs as the only such task");
            }
            hub.launch(attempt);
        }
        rest
    }

    /// Sleeps until some queue may have work.
    async fn wait_for_news(&mut self) -> Result<Next, BrokerError> {
        let hub = Arc::clone(&self.hub);
        hub.found_nothing.store(true, Ordering::Release);
        hub.note_idle();
        let since = Instant::now();
        tokio::select! {
            () = hub.quiet.cancelled() => return Ok(Next::Probe),
            // The next suspect may come.
            () = hub.runs.freed(), if hub.runs.suspect_runs() => return Ok(Next::Probe),
            news = hub.news(hub.broker.wait_for_work(hub.queues.names(), SAFETY_NET)) => news?,
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
