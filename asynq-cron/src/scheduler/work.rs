//! The loop of a scheduler: everything it waits for, and what it then asks of the broker.

mod dynamic;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::{
    BoxError, Registry,
    broker::{Broker, BrokerError, EntryId, EntryState, Ticked},
    metrics,
    task::{SchedulerEnqueueEvent, TaskId},
};
use chrono::{DateTime, Utc};
use tokio::{sync::watch, task::JoinSet};
use tracing::Instrument as _;

pub(crate) use self::dynamic::Provider;
use super::{
    Settings,
    clock::{BrokerClock, Reading, pause},
    missed::Fire,
    plan::{Plan, Sent},
    shown,
};
use crate::{Periodic, Tick, leader::Standing};

/// Calls under way at once; more wait.
const MOST_AT_ONCE: usize = 64;
/// A broker that could not be asked is asked again after this.
const SOON: Duration = Duration::from_millis(500);
/// An entry that cannot be planned is tried again after this.
const LATER: Duration = Duration::from_secs(30);

/// What was waited for.
enum Event {
    Planned(Arc<Periodic>, Result<EntryState, BrokerError>, Reading, Reading),
    Ticked(Arc<Periodic>, Fire, Result<Ticked, BrokerError>),
    Measured(Option<DateTime<Utc>>, Reading, Reading),
    Provided(Result<Vec<Periodic>, BoxError>),
    Listed(Result<HashSet<String>, BrokerError>),
    Done,
}

pub(super) struct Work {
    broker: Arc<dyn Broker>,
    name: String,
    settings: Settings,
    registry: Registry,
    provider: Option<Provider>,
    /// All entries that this scheduler knows.
    entries: HashMap<EntryId, Arc<Periodic>>,
    /// Those of them that came from the provider.
    dynamic: HashMap<EntryId, Arc<Periodic>>,
    /// Entries that the leader does not know, as it belongs to another program: how often that was seen in a row.
    orphans: HashMap<EntryId, u32>,
    /// What of them is planned, or about to be.
    planned: HashSet<EntryId>,
    to_plan: Vec<(Instant, Arc<Periodic>)>,
    /// How many entries the broker is being told of.
    planning: usize,
    plan: Plan,
    clock: BrokerClock,
    calls: JoinSet<Event>,
    told: HashSet<String>,
    leads: bool,
    tells: bool,
    /// Shows in the metrics whether it leads.
    shown: metrics::Share,
    timers: Timers,
}

/// When what is done regularly is due.
struct Timers {
    show: Instant,
    measure: Instant,
    provide: Instant,
    list: Instant,
}

impl Work {
    pub(super) fn new(
        broker: Arc<dyn Broker>,
        name: String,
        settings: Settings,
        fixed: Vec<Arc<Periodic>>,
        provider: Option<Provider>,
        registry: Registry,
    ) -> Self {
        let now = Instant::now();
        Self {
            broker,
            name,
            registry,
            provider,
            entries: fixed.into_iter().map(|entry| (entry.id().clone(), entry)).collect(),
            dynamic: HashMap::new(),
            orphans: HashMap::new(),
            planned: HashSet::new(),
            to_plan: Vec::new(),
            planning: 0,
            plan: Plan::default(),
            clock: BrokerClock::unknown(Reading::now()),
            calls: JoinSet::new(),
            told: HashSet::new(),
            leads: false,
            tells: false,
            shown: metrics::leader(),
            timers: Timers { show: now, measure: now, provide: now, list: now + settings.ttl },
            settings,
        }
    }

    pub(super) async fn run(mut self, mut standing: watch::Receiver<Standing>) {
        loop {
            let now = Instant::now();
            let current = *standing.borrow_and_update();
            self.stand(current.leads(now));
            self.regular(now);
            self.plan_entries(now);
            let reading = Reading::now();
            let broker_now = self.clock.at(reading);
            self.send(broker_now);
            let next = self.plan.next().filter(|_| self.calls.len() < MOST_AT_ONCE);
            let mut sleep = pause(next, self.clock.at(Reading::now()));
            if let Some(remaining) = current.remaining(now).filter(|left| !left.is_zero()) {
                sleep = sleep.min(remaining);
            }
            tokio::select! {
                Some(event) = self.calls.join_next(), if !self.calls.is_empty() => {
                    if let Ok(event) = event {
                        self.take(event);
                    }
                }
                Ok(()) = standing.changed() => {}
                () = tokio::time::sleep(sleep) => {}
            }
        }
    }

    /// Begins or ends to lead.
    fn stand(&mut self, leads: bool) {
        if self.leads == leads {
            return;
        }
        self.leads = leads;
        self.shown.set(usize::from(leads));
        self.orphans.clear();
        let now = Instant::now();
        if leads {
            tracing::info!(entries = self.entries.len(), "this scheduler leads");
            self.tells = true;
            self.timers.measure = now + self.settings.ttl / 3;
        } else {
            tracing::info!("this scheduler follows");
            self.timers.list = now + self.settings.ttl;
        }
        self.reconcile();
    }

    /// Plans what should be planned, and nothing else.
    fn reconcile(&mut self) {
        let wanted: HashSet<EntryId> = if self.leads {
            self.entries.keys().cloned().collect()
        } else {
            let seen_twice = self.orphans.iter().filter(|(_, times)| **times >= 2);
            seen_twice.map(|(id, _)| id.clone()).collect()
        };
        for id in self.planned.difference(&wanted) {
            self.plan.remove(id);
        }
        let now = Instant::now();
        self.to_plan.retain(|(_, entry)| wanted.contains(entry.id()));
        for id in wanted.difference(&self.planned) {
            self.to_plan.extend(self.entries.get(id).map(|entry| (now, Arc::clone(entry))));
        }
        if wanted.is_empty() && !self.planned.is_empty() {
            let (broker, name) = (Arc::clone(&self.broker), self.name.clone());
            self.calls.spawn(async move {
                if let Err(error) = broker.withdraw_entries(&name).await {
                    tracing::debug!("the entries are still listed, they disappear by themselves: {error}");
                }
                Event::Done
            });
        }
        self.planned = wanted;
    }

    /// What is done every so often.
    fn regular(&mut self, now: Instant) {
        let due = |at: &mut Instant, every: Duration| {
            let due = *at <= now;
            if due {
                *at = now + every;
            }
            due
        };
        let (ttl, sync_every) = (self.settings.ttl, self.settings.sync_every);
        if let Some(provider) = self.provider.clone()
            && due(&mut self.timers.provide, sync_every)
        {
            self.calls.spawn(async move { Event::Provided((provider.0)().await) });
        }
        // When all that this scheduler plans is known, and from then on.
        let complete = self.planning == 0 && self.to_plan.iter().all(|(at, _)| *at > now);
        if !self.planned.is_empty() && complete && self.timers.show <= now {
            let rows = self.plan.shown();
            if !rows.is_empty() && due(&mut self.timers.show, ttl / 2) {
                let tells = std::mem::take(&mut self.tells);
                let shown = shown::show(Arc::clone(&self.broker), self.name.clone(), rows, ttl, tells);
                self.calls.spawn(async move {
                    shown.await;
                    Event::Done
                });
            }
        }
        let jumped = self.clock.has_jumped(Reading::now());
        if jumped {
            self.timers.measure = self.timers.measure.min(now);
        }
        if !self.planned.is_empty() && due(&mut self.timers.measure, if jumped { SOON } else { ttl / 3 }) {
            self.measure();
        }
        if !self.leads && self.settings.election && due(&mut self.timers.list, ttl) {
            self.list();
        }
    }

    /// Asks for the broker's time, with what is kept of some entry.
    fn measure(&mut self) {
        let Some(id) = self.planned.iter().next() else { return };
        let Some(entry) = self.entries.get(id).cloned() else { return };
        let broker = Arc::clone(&self.broker);
        self.calls.spawn(async move {
            let before = Reading::now();
            let state = broker.entry(entry.queue(), entry.id()).await;
            let now = state.ok().flatten().map(|state| state.now);
            Event::Measured(now, before, Reading::now())
        });
    }

    /// Looks for entries that nobody plans: the leader may be of a program that has other ones.
    fn list(&mut self) {
        let broker = Arc::clone(&self.broker);
        self.calls.spawn(async move {
            let listed = broker.scheduler_entries().await;
            Event::Listed(listed.map(|entries| entries.into_iter().map(|entry| entry.id).collect()))
        });
    }

    /// Makes the entries known that are to be planned.
    fn plan_entries(&mut self, now: Instant) {
        let mut waiting = Vec::new();
        for (at, entry) in std::mem::take(&mut self.to_plan) {
            if at > now || self.calls.len() >= MOST_AT_ONCE {
                waiting.push((at, entry));
                continue;
            }
            let (broker, revision) = (Arc::clone(&self.broker), self.settings.revision);
            let plan = entry.plan(self.clock.at(Reading::now()), revision);
            self.planning += 1;
            self.calls.spawn(async move {
                let before = Reading::now();
                let state = broker.plan_entry(&plan).await;
                Event::Planned(entry, state, before, Reading::now())
            });
        }
        self.to_plan = waiting;
    }

    /// Sends what is due.
    fn send(&mut self, now: DateTime<Utc>) {
        let room = MOST_AT_ONCE.saturating_sub(self.calls.len());
        for (entry, fire) in self.plan.take(now, room) {
            let tick = Tick::new(fire.at).with_missed(fire.missed);
            // The task of the tick is in the trace of this span.
            let span = tracing::info_span!("tick", id = %entry.id(), r#type = entry.job(), queue = %entry.queue(), at = %fire.at);
            match span.in_scope(|| entry.tick(tick, now, self.settings.revision)) {
                Ok(tick) => {
                    let broker = Arc::clone(&self.broker);
                    let send = async move {
                        let ticked = broker.tick(&tick).await;
                        Event::Ticked(entry, fire, ticked)
                    };
                    self.calls.spawn(send.instrument(span));
                }
                Err(error) => {
                    self.tell_once(format!("tick of {entry} cannot be enqueued: {error}"));
                    self.plan.answered(entry.id(), fire, Sent::Settled, now);
                }
            }
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Planned(entry, state, before, after) => {
                self.planning = self.planning.saturating_sub(1);
                self.planned(entry, state, before, after);
            }
            Event::Ticked(entry, fire, ticked) => self.ticked(&entry, fire, ticked),
            Event::Measured(Some(broker), before, after) => self.clock_is(broker, before, after),
            Event::Provided(entries) => self.provided(entries),
            Event::Listed(Ok(listed)) => self.listed(&listed),
            Event::Listed(Err(error)) => tracing::debug!("cannot see what others schedule: {error}"),
            Event::Measured(None, ..) | Event::Done => {}
        }
    }

    fn planned(
        &mut self,
        entry: Arc<Periodic>,
        state: Result<EntryState, BrokerError>,
        before: Reading,
        after: Reading,
    ) {
        // Not ours to plan any more, or changed meanwhile.
        if !self.planned.contains(entry.id())
            || !self.entries.get(entry.id()).is_some_and(|now| Arc::ptr_eq(now, &entry))
        {
            return;
        }
        match state {
            Ok(state) => {
                self.clock_is(state.now, before, after);
                let plan = entry.plan(state.now, self.settings.revision);
                if state.revision > self.settings.revision && (&state.spec, &state.zone) != (&plan.spec, &plan.zone) {
                    self.stands_back(entry);
                    return;
                }
                self.plan.set(entry, &state);
            }
            Err(error) => {
                let again = if error.is_unavailable() { SOON } else { LATER };
                self.tell_once(format!("{entry} cannot be planned yet: {error}"));
                self.to_plan.push((Instant::now() + again, entry));
            }
        }
    }

    fn stands_back(&mut self, entry: Arc<Periodic>) {
        self.tell_once(format!("a newer program plans {entry} in another way; this one leaves it alone"));
        self.to_plan.push((Instant::now() + LATER, entry));
    }

    fn ticked(&mut self, entry: &Arc<Periodic>, fire: Fire, ticked: Result<Ticked, BrokerError>) {
        let (at, now) = (fire.at, self.clock.at(Reading::now()));
        let sent = match ticked {
            Ok(Ticked::Enqueued { cancel, .. }) => {
                tracing::debug!(%at, missed = fire.missed, "{entry} enqueued");
                self.tell_others(entry, entry.id().task_id(at), now, cancel);
                Sent::Enqueued
            }
            Ok(Ticked::Early(by)) => {
                tracing::debug!(%at, skew = %self.clock.skew(), "{entry} is early by {by:?}");
                self.timers.measure = Instant::now();
                Sent::Early(by)
            }
            Ok(Ticked::Duplicate) => Sent::Settled,
            Ok(Ticked::Paused) => {
                tracing::debug!(%at, "{entry} is paused");
                Sent::Settled
            }
            Ok(Ticked::Skipped(previous)) => {
                tracing::info!(%at, %previous, "{entry} left out: the previous task is still there");
                Sent::Settled
            }
            Ok(Ticked::Refused(refused)) => {
                tracing::warn!(%at, "{entry} left out: {refused}");
                Sent::Settled
            }
            Ok(Ticked::Stale) => {
                if self.planned.contains(entry.id()) {
                    self.stands_back(Arc::clone(entry));
                }
                Sent::Stale
            }
            Err(error) => {
                self.tell_once(format!("tick of {entry} is sent again: {error}"));
                Sent::Failed
            }
        };
        if sent != Sent::Failed {
            self.told.clear();
        }
        self.plan.answered(entry.id(), fire, sent, now);
    }

    /// History and cancellation: best effort, and never a reason to enqueue again.
    fn tell_others(&mut self, entry: &Periodic, task: TaskId, now: DateTime<Utc>, cancel: Option<TaskId>) {
        let (broker, id) = (Arc::clone(&self.broker), entry.id().to_string());
        self.calls.spawn(async move {
            if let Some(replaced) = cancel
                && let Err(error) = broker.cancel(&replaced).await
            {
                tracing::warn!(task = %replaced, "the replaced task was not asked to stop: {error}");
            }
            let event = SchedulerEnqueueEvent { task_id: task.to_string(), enqueue_time: Some(now.into()) };
            if let Err(error) = broker.record_enqueue(&id, &event).await {
                tracing::debug!("an enqueue is missing in the history of {id}: {error}");
            }
            Event::Done
        });
    }

    fn clock_is(&mut self, broker: DateTime<Utc>, before: Reading, after: Reading) {
        let off = self.clock.skew();
        self.clock = BrokerClock::measured(broker, before, after);
        if (self.clock.skew() - off).num_seconds().abs() > 5 {
            tracing::warn!(
                "this machine's clock is {} s off the broker's; its time is used",
                -self.clock.skew().num_seconds()
            );
        }
        self.plan.clock_is(self.clock.at(Reading::now()));
    }

    /// Plans those entries that were seen twice to be on nobody's list but ours.
    fn listed(&mut self, listed: &HashSet<String>) {
        if self.leads {
            return;
        }
        for id in self.entries.keys() {
            if self.planned.contains(id) {
                continue;
            }
            if listed.contains(id.as_str()) {
                self.orphans.remove(id);
            } else {
                *self.orphans.entry(id.clone()).or_insert(0) += 1;
            }
        }
        self.reconcile();
    }

    /// Warns of something that would be said again and again, once until things go well.
    fn tell_once(&mut self, text: String) {
        if self.told.len() < 1_000 && !self.told.contains(&text) {
            tracing::warn!("{text}");
            self.told.insert(text);
        }
    }
}
