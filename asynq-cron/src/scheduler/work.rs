//! The loop of a scheduler: the events that it awaits and their handlers.

mod dynamic;
mod entries;
mod rounds;
#[cfg(test)]
mod tests;
mod ticks;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    mem::discriminant,
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::{
    BoxError, Registry,
    broker::{Broker, BrokerError, Candidate, EntryId, EntryState, Planned, Ticked},
    metrics,
    server::ServiceContext,
    task::{QueueName, SchedulerEntry},
};
use chrono::{DateTime, TimeDelta, Utc};
use tokio::{runtime::Handle, task::JoinSet};

pub(crate) use self::dynamic::Provider;
use self::{rounds::Timers, ticks::LastTicks};
use super::{
    Settings,
    clock::{BrokerClock, Reading, pause},
    plan::Plan,
};
use crate::{
    Periodic,
    leader::{Answer, Campaign, Request},
    missed::Fire,
};

/// The label of the scheduler in `asynq_broker_errors_total`.
const COMPONENT: &str = "scheduler";
/// Most ticks under way at once, and most entries being planned or forgotten at once; others wait.
const MOST_AT_ONCE: usize = 64;
/// The pause before another request to a broker that did not answer.
const RETRY_UNAVAILABLE: Duration = Duration::from_millis(500);
/// The pause before another try after any other error.
const RETRY_OTHER: Duration = Duration::from_secs(30);
/// A broker's clock this far behind its expected time was set back.
const SET_BACK: TimeDelta = TimeDelta::seconds(5);
/// An entry that is missing in this many lists in a row has no scheduler. One list does not tell: a leader that stops withdraws
/// its entries before another replica of its version lists them.
const SEEN_MISSING: u32 = 2;
/// The pause before a warning is written again while its condition lasts.
const WARN_AGAIN: Duration = Duration::from_secs(3_600);
/// Most warnings about one kind of topic in that time.
const MOST_WARNINGS: usize = 1_000;
/// The clocks of so many queues are remembered at most.
const CLOCKS: usize = 10_000;

/// An event of the loop.
enum Event {
    /// The broker answered a plan of an entry.
    Planned(Arc<Periodic>, Result<Planned, BrokerError>, RoundTrip),
    /// The broker answered a tick, and whether a duplicate is this scheduler's own, whose first answer was lost.
    Ticked(Arc<Periodic>, Fire, Result<Ticked, BrokerError>, bool, RoundTrip),
    /// The broker answered a request for its time, with its state of an entry.
    Measured(Arc<Periodic>, DateTime<Utc>, Result<Option<EntryState>, BrokerError>, RoundTrip),
    /// The broker answered a request of the election.
    Lead(Answer),
    /// The broker answered a request for the entries that living schedulers list.
    Listed(Result<Vec<SchedulerEntry>, BrokerError>),
    /// The entries of this scheduler were listed or withdrawn, with the time when the list was due again as it began, whether it
    /// worked, and the entries that are gone and not on the list any more.
    ListingDone(Instant, bool, Vec<EntryId>),
    /// The broker answered a request for the entries that living schedulers list, for these entries that are gone.
    GoneListed(Vec<EntryId>, Result<Vec<SchedulerEntry>, BrokerError>),
    /// The broker has forgotten the first entries; the others are still to be forgotten.
    Forgotten(HashSet<EntryId>, Vec<EntryId>),
    /// A background call has ended; its result is not used.
    Done,
}

/// The subject of a warning. An entry that works does not end the warnings about another: a part of the broker may be away.
#[derive(Debug, PartialEq, Eq, Hash)]
enum WarningTopic {
    Lead,
    Ticks(EntryId),
    Plans(EntryId),
    Provider,
    /// Logged once: the condition lasts as long as both versions run.
    NewerVersion,
    /// Logged once: the condition lasts as long as the leader does not have the entry.
    Unlisted,
}

/// An entry that this scheduler knows.
struct Known {
    entry: Arc<Periodic>,
    origin: Origin,
    /// Whether the entry has to be planned; only one that this scheduler plans is.
    waits: bool,
    /// The revision of a newer program, if its plan of the entry counts.
    newer: Option<u64>,
    /// How many lists in a row did not have the entry: as the newer program planned it, or for a follower at all.
    missing: u32,
    /// When the broker first listed no scheduler that has the entry, of one that is gone.
    unlisted_since: Option<Instant>,
}

/// Where an entry comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The program itself has the entry.
    Program,
    /// The last answer of the provider has the entry.
    Provider,
    /// The entry is not valid in the last answer of the provider: it is not planned, and keeps its state.
    Invalid,
    /// The last answer of the provider lacks the entry, which is forgotten once this scheduler has listed its entries without it.
    Gone,
}

impl Known {
    fn new(entry: Arc<Periodic>, origin: Origin) -> Self {
        Self { entry, origin, waits: true, newer: None, missing: 0, unlisted_since: None }
    }

    fn is_gone(&self) -> bool {
        self.origin == Origin::Gone
    }

    /// Returns the revision of the newer program if no living scheduler of it has the entry any more: this program's plan replaces that
    /// one.
    fn superseded(&self) -> Option<u64> {
        self.newer.filter(|_| self.missing >= SEEN_MISSING)
    }

    /// Whether the entry is left to a newer program.
    fn is_left(&self) -> bool {
        self.newer.is_some() && self.superseded().is_none()
    }
}

/// When a request was sent, and when its answer came.
struct RoundTrip {
    before: Reading,
    after: Reading,
}

pub(super) struct Work {
    broker: Arc<dyn Broker>,
    name: String,
    settings: Settings,
    registry: Registry,
    provider: Option<Provider>,
    /// The runtime of the provider, which is code of the program and may block.
    jobs: Handle,
    /// The provider call under way: at most one.
    providing: JoinSet<Result<Vec<Periodic>, BoxError>>,
    /// When that call began.
    asked_at: Option<Instant>,
    /// When this scheduler began to lead or to follow.
    led_since: Instant,
    /// Whether this scheduler leads and no call of the provider that began later has ended: the leader before may have planned a
    /// newer answer than the last one of this provider, whose entries are not planned meanwhile.
    is_unconfirmed: bool,
    campaign: Campaign,
    known: HashMap<EntryId, Known>,
    /// Whether the provider has answered.
    has_answered: bool,
    /// Entries that wait to be planned, by the time.
    to_plan: BTreeSet<(Instant, EntryId)>,
    /// How many plans are under way.
    planning: usize,
    /// How many ticks are under way.
    ticking: usize,
    plan: Plan,
    last_ticks: LastTicks,
    clock: BrokerClock,
    /// The clocks by which the broker answered for each queue: each master of a cluster has its own.
    clocks: HashMap<QueueName, BrokerClock>,
    /// How often the time was measured; the queues and the entries are asked by rotation.
    measured_queues: usize,
    calls: JoinSet<Event>,
    logged: HashSet<(WarningTopic, String)>,
    leads: bool,
    /// Whether a call that lists or withdraws the entries is under way.
    showing: bool,
    /// Whether the broker may list entries of this scheduler.
    is_listed: bool,
    /// Whether the list has the result of the last plans.
    shows_plans: bool,
    /// Whether all entries are being planned anew, because the broker may have lost their last ticks.
    is_planning_anew: bool,
    /// Shows in the metrics whether this scheduler leads.
    leader_metric: metrics::Share,
    timers: Timers,
}

impl Work {
    pub(super) fn new(
        broker: Arc<dyn Broker>,
        name: String,
        settings: Settings,
        campaign: Campaign,
        fixed: Vec<Arc<Periodic>>,
        provider: Option<Provider>,
        cx: &ServiceContext,
    ) -> Self {
        Self {
            broker,
            name,
            registry: cx.registry().clone(),
            provider,
            jobs: cx.jobs().clone(),
            providing: JoinSet::new(),
            asked_at: None,
            led_since: Instant::now(),
            is_unconfirmed: false,
            campaign,
            known: fixed.into_iter().map(|entry| (entry.id().clone(), Known::new(entry, Origin::Program))).collect(),
            has_answered: false,
            to_plan: BTreeSet::new(),
            planning: 0,
            ticking: 0,
            plan: Plan::default(),
            last_ticks: LastTicks::default(),
            clock: BrokerClock::unknown(Reading::now()),
            clocks: HashMap::new(),
            measured_queues: 0,
            calls: JoinSet::new(),
            logged: HashSet::new(),
            leads: false,
            showing: false,
            is_listed: false,
            shows_plans: true,
            is_planning_anew: false,
            leader_metric: metrics::leader(),
            timers: Timers::new(settings.ttl),
            settings,
        }
    }

    pub(super) async fn run(&mut self) {
        loop {
            let sleep = self.begin_round();
            tokio::select! {
                Some(event) = self.calls.join_next(), if !self.calls.is_empty() => match event {
                    Ok(event) => self.take(event),
                    // Without the event the counts of calls under way would never go down again, and the schedule would
                    // stop unnoticed. The panic ends the server with an error instead.
                    Err(error) => {
                        if let Ok(panic) = error.try_into_panic() {
                            std::panic::resume_unwind(panic);
                        }
                    }
                },
                Some(entries) = self.providing.join_next(), if !self.providing.is_empty() => {
                    self.provider_ended(entries);
                }
                () = tokio::time::sleep(sleep) => {}
            }
        }
    }

    /// Does everything that is due, and returns how long the loop may wait for an event after it.
    fn begin_round(&mut self) -> Duration {
        let now = Instant::now();
        self.ask_for_the_lead(now);
        let leadership = self.campaign.leadership();
        self.set_leads(leadership.leads(now));
        // A scheduler that got the lead has made its entries due at a later instant than the one above.
        let now = Instant::now();
        self.run_due_timers(now);
        self.plan_entries(now);
        // No tick is due by a clock that was set, until the broker has reported its time.
        let reading = Reading::now();
        let knows_the_time = !self.clock.has_jumped(reading);
        if knows_the_time {
            self.send(self.clock.at(reading));
        }
        let next = self.plan.next().filter(|_| knows_the_time && self.ticking < MOST_AT_ONCE);
        let mut sleep = pause(next, self.clock.at(Reading::now()));
        if let Some(remaining) = leadership.remaining(now).filter(|left| !left.is_zero()) {
            sleep = sleep.min(remaining);
        }
        if let Some(at) = self.campaign.next_at() {
            sleep = sleep.min(at.saturating_duration_since(now));
        }
        sleep
    }

    /// Ends the work, and returns the candidate as the broker knows it.
    pub(super) fn into_candidate(self) -> Candidate {
        self.campaign.candidate
    }

    /// Sends the election's request that is due now. A scheduler whose provider has never answered does not know its entries: it
    /// takes a lead that is free, and leaves it to any scheduler that does.
    fn ask_for_the_lead(&mut self, now: Instant) {
        let is_ready = self.provider.is_none() || self.has_answered;
        self.campaign.set_revision(if is_ready { self.settings.revision } else { 0 });
        let Some(request) = self.campaign.due(now) else { return };
        let (broker, candidate, ttl) = (Arc::clone(&self.broker), self.campaign.candidate.clone(), self.campaign.ttl);
        self.calls.spawn(async move {
            Event::Lead(match request {
                Request::Lead => Answer::Lead(now, broker.lead(&candidate, ttl).await),
                Request::Resign => Answer::Resigned(broker.resign(&candidate).await),
                Request::WaitUntilFree(limit) => {
                    Answer::MayBeFree(broker.wait_for_lead(&candidate.program, limit).await)
                }
            })
        });
    }

    /// Begins or ends to lead.
    fn set_leads(&mut self, leads: bool) {
        if self.leads == leads {
            return;
        }
        self.leads = leads;
        self.leader_metric.set(usize::from(leads));
        self.known.retain(|_, known| !known.is_gone());
        for known in self.known.values_mut() {
            (known.waits, known.newer, known.missing) = (true, None, 0);
        }
        if leads {
            let entries = self.known.values().filter(|known| self.lists(known)).count();
            log!(info, program = %self.settings.program, entries, "this scheduler leads");
        } else {
            log!(info, program = %self.settings.program, "this scheduler follows");
        }
        self.led_since = Instant::now();
        self.is_unconfirmed = leads && self.provider.is_some();
        self.timers.begin(leads, self.settings.ttl);
        self.plan = Plan::default();
        self.to_plan.clear();
        self.plan_waiting();
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Planned(entry, state, round_trip) => {
                self.planning = self.planning.saturating_sub(1);
                self.planned(entry, state, &round_trip);
            }
            Event::Ticked(entry, fire, ticked, is_lost_answer, round_trip) => {
                self.ticking = self.ticking.saturating_sub(1);
                self.ticked(&entry, fire, ticked, is_lost_answer, &round_trip);
            }
            Event::Measured(entry, known, state, round_trip) => self.measured(entry, known, state, &round_trip),
            Event::Lead(answer) => {
                match &answer {
                    Answer::Lead(_, Err(error)) => {
                        metrics::broker_failed(COMPONENT, error.kind());
                        let text = format!(
                            "the lead is not known; once the last answer about it is over, no tick is sent: {error}"
                        );
                        self.warn_once(WarningTopic::Lead, text);
                    }
                    Answer::Lead(_, Ok(_)) => self.on_success(&WarningTopic::Lead),
                    Answer::Resigned(_) | Answer::MayBeFree(_) => {}
                }
                self.campaign.answered(answer, Instant::now());
            }
            Event::Listed(Ok(listed)) => self.listed(listed),
            Event::Listed(Err(error)) => log!(debug, "cannot see what others schedule: {error}"),
            Event::ListingDone(renew, has_worked, gone) => self.shown(renew, has_worked, gone),
            Event::GoneListed(gone, Ok(listed)) => self.forget_unlisted(gone, &listed),
            Event::GoneListed(_, Err(error)) => {
                log!(debug, "entries that are gone are forgotten later: {error}");
                self.showing = false;
            }
            Event::Forgotten(forgotten, gone) => {
                // An entry that the provider has returned meanwhile is planned as a new one.
                self.known.retain(|id, known| !known.is_gone() || !forgotten.contains(id));
                self.forget_next(gone);
            }
            Event::Done => {}
        }
    }

    /// Takes the broker's time from an answer about `queue`. If that clock went back, all entries are planned again: their due times
    /// were computed with a wrong clock, and the broker corrects its stored state. The clock of another master of a cluster may be
    /// behind all the time.
    fn clock_is(&mut self, queue: &QueueName, broker: DateTime<Utc>, round_trip: &RoundTrip) {
        let after = round_trip.after;
        let clock = BrokerClock::measured(broker, round_trip.before, after);
        let is_remembered = self.clocks.len() < CLOCKS || self.clocks.contains_key(queue);
        let before = if is_remembered { self.clocks.insert(queue.clone(), clock) } else { None };
        let is_behind = |before: BrokerClock| before.expected(after) - clock.at(after) > SET_BACK;
        let went_back = is_behind(self.clock) && before.is_none_or(is_behind);
        // Each master of a cluster may have a clock of its own: its answers alternate with those of the others.
        let has_moved = |skew: TimeDelta| (clock.skew() - skew).num_seconds().abs() > 5;
        let has_changed =
            has_moved(self.clock.skew()) && has_moved(before.map_or(TimeDelta::zero(), |before| before.skew()));
        self.clock = clock;
        if has_changed {
            match self.clock.skew().num_seconds() {
                0 => log!(info, "this machine's clock agrees with the broker's again"),
                off => {
                    let side = if off > 0 { "behind" } else { "ahead of" };
                    log!(warn, "this machine's clock is {} s {side} the broker's; the broker's is used", off.abs());
                }
            }
        }
        if went_back {
            self.plan_anew();
        }
    }

    /// Logs a warning once an hour, and again when the same subject has succeeded meanwhile. Each kind of topic has its own limit, so that
    /// the many warnings of a deploy hide no others.
    fn warn_once(&mut self, topic: WarningTopic, text: String) {
        let kind = discriminant(&topic);
        let of_kind = self.logged.iter().filter(|(logged, _)| discriminant(logged) == kind).count();
        let warning = (topic, text);
        if of_kind < MOST_WARNINGS && !self.logged.contains(&warning) {
            log!(warn, "{}", warning.1);
            self.logged.insert(warning);
        }
    }

    fn on_success(&mut self, topic: &WarningTopic) {
        self.logged.retain(|(logged, _)| logged != topic);
    }
}
