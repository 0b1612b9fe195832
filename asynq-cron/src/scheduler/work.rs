//! The loop of a scheduler: everything it waits for, and who deals with it.

mod dynamic;
mod entries;
mod rounds;
mod ticks;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::{
    BoxError, Registry,
    broker::{Broker, BrokerError, EntryId, EntryState, Ticked},
    metrics,
};
use chrono::{DateTime, TimeDelta, Utc};
use tokio::{sync::watch, task::JoinSet};

pub(crate) use self::dynamic::Provider;
use self::rounds::Timers;
use super::{
    Settings,
    clock::{BrokerClock, Reading, pause},
    missed::Fire,
    plan::Plan,
};
use crate::{Periodic, leader::Standing};

/// Calls under way at once; more wait.
const MOST_AT_ONCE: usize = 64;
/// A broker that could not be asked is asked again after this.
const SOON: Duration = Duration::from_millis(500);
/// What cannot be done for now is tried again after this.
const LATER: Duration = Duration::from_secs(30);
/// A broker's clock that shows this much less than was thought went back.
const WENT_BACK: TimeDelta = TimeDelta::seconds(5);

/// What was waited for.
enum Event {
    /// The broker was told of an entry.
    Planned(Arc<Periodic>, Result<EntryState, BrokerError>, Asked),
    /// A tick was sent.
    Ticked(Arc<Periodic>, Fire, Result<Ticked, BrokerError>),
    /// The broker was asked for its time, with what it keeps of an entry.
    Measured(Arc<Periodic>, Result<Option<EntryState>, BrokerError>, Asked),
    /// The provider was asked for its entries.
    Provided(Result<Vec<Periodic>, BoxError>),
    /// The broker was asked whose entries are listed.
    Listed(Result<HashSet<String>, BrokerError>),
    /// The program's entries were compared with those it had; or that must be done again.
    Compared(bool),
    /// Something that nobody waits for.
    Done,
}

/// What a warning is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum About {
    Ticks,
    Plans,
    Provider,
    /// Said once: it lasts as long as both versions run.
    NewerVersion,
}

/// When a question was sent, and when its answer came.
struct Asked {
    before: Reading,
    after: Reading,
}

pub(super) struct Work {
    broker: Arc<dyn Broker>,
    name: String,
    settings: Settings,
    registry: Registry,
    provider: Option<Provider>,
    /// All entries that this scheduler knows.
    entries: HashMap<EntryId, Arc<Periodic>>,
    /// Those of them that came from the provider; `None` before its first answer.
    dynamic: Option<HashMap<EntryId, Arc<Periodic>>>,
    /// Entries that nobody lists, though another scheduler of this program leads: how often that was seen in a row.
    orphans: HashMap<EntryId, u32>,
    /// What of them is planned, or about to be.
    planned: HashSet<EntryId>,
    to_plan: Vec<(Instant, Arc<Periodic>)>,
    /// How many entries the broker is being told of.
    planning: usize,
    plan: Plan,
    clock: BrokerClock,
    calls: JoinSet<Event>,
    told: HashSet<(About, String)>,
    leads: bool,
    /// Shows in the metrics whether it leads.
    shown: metrics::Share,
    timers: Timers,
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
        Self {
            broker,
            name,
            registry,
            provider,
            entries: fixed.into_iter().map(|entry| (entry.id().clone(), entry)).collect(),
            dynamic: None,
            orphans: HashMap::new(),
            planned: HashSet::new(),
            to_plan: Vec::new(),
            planning: 0,
            plan: Plan::default(),
            clock: BrokerClock::unknown(Reading::now()),
            calls: JoinSet::new(),
            told: HashSet::new(),
            leads: false,
            shown: metrics::leader(),
            timers: Timers::new(settings.ttl),
            settings,
        }
    }

    pub(super) async fn run(mut self, mut standing: watch::Receiver<Standing>) {
        loop {
            let now = Instant::now();
            let current = *standing.borrow_and_update();
            self.stand(current.leads(now));
            self.go_round(now);
            self.plan_entries(now);
            // By a clock that was set nothing is due, until the broker has said its own.
            let reading = Reading::now();
            let knows_the_time = !self.clock.has_jumped(reading);
            if knows_the_time {
                self.send(self.clock.at(reading));
            }
            let next = self.plan.next().filter(|_| knows_the_time && self.calls.len() < MOST_AT_ONCE);
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
        if leads {
            tracing::info!(program = %self.settings.program, entries = self.entries.len(), "this scheduler leads");
        } else {
            tracing::info!(program = %self.settings.program, "this scheduler follows");
        }
        self.timers.begin(leads, self.settings.ttl);
        self.reconcile();
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Planned(entry, state, asked) => {
                self.planning = self.planning.saturating_sub(1);
                self.planned(entry, state, &asked);
            }
            Event::Ticked(entry, fire, ticked) => self.ticked(&entry, fire, ticked),
            Event::Measured(entry, state, asked) => self.measured(entry, state, &asked),
            Event::Provided(entries) => self.provided(entries),
            Event::Listed(Ok(listed)) => self.listed(&listed),
            Event::Listed(Err(error)) => tracing::debug!("cannot see what others schedule: {error}"),
            Event::Compared(done) => self.timers.compared(done),
            Event::Done => {}
        }
    }

    /// Takes the broker's time from an answer. If it went back, all that is planned is planned anew: what is due was
    /// thought out by a clock that was wrong, and the broker puts right what it keeps.
    fn clock_is(&mut self, broker: DateTime<Utc>, asked: &Asked) {
        let (skew, thought) = (self.clock.skew(), self.clock.at(asked.after));
        self.clock = BrokerClock::measured(broker, asked.before, asked.after);
        if (self.clock.skew() - skew).num_seconds().abs() > 5 {
            let off = -self.clock.skew().num_seconds();
            tracing::warn!("this machine's clock is {off} s off the broker's; its time is used");
        }
        if thought - self.clock.at(asked.after) > WENT_BACK {
            self.plan_anew();
        }
    }

    /// Warns of something that would be said again and again, once until that goes well.
    fn tell_once(&mut self, about: About, text: String) {
        let warning = (about, text);
        if self.told.len() < 1_000 && !self.told.contains(&warning) {
            tracing::warn!("{}", warning.1);
            self.told.insert(warning);
        }
    }

    fn goes_well(&mut self, with: About) {
        self.told.retain(|(about, _)| *about != with);
    }
}
