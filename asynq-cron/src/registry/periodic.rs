//! One periodic entry: a schedule, the task it enqueues, and its policies.

use std::{fmt, time::Duration};

use asynq_grammar::duration;
use asynq_runtime::{
    BoxError, Client, EnqueueError, JobOptions, PreparedTask, RawTask,
    broker::{EntryId, EntryPlan, NewTask, Overlap, Tick as BrokerTick, When},
    job::{IntoSpan, IntoTask, with_causes},
    task::{Header, QueueName},
};
use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};

use super::PeriodicError;
use crate::{CronSpec, Missed, Tick};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A schedule with the task that each of its ticks enqueues.
///
/// ```
/// use asynq_cron::prelude::*;
/// use asynq_runtime::prelude::*;
///
/// #[job(queue = "low")]
/// async fn report(customer: u64) -> JobResult { Ok(()) }
///
/// let spec = CronSpec::parse("TZ=Europe/Berlin 0 9 * * mon-fri")?;
/// let entry = Periodic::new(spec, report::job(7))?.missed(Missed::Skip).overlap(Overlap::Skip);
/// assert_eq!((entry.job(), entry.queue().as_str()), ("report", "low"));
/// # Ok::<(), BoxError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Periodic {
    id: EntryId,
    job: String,
    /// The key, or the id where the arguments identify the entry; empty for the only entry of its job.
    label: String,
    queue: QueueName,
    spec: CronSpec,
    pub(crate) task: PreparedTask,
    pub(crate) missed: Missed,
    overlap: Overlap,
    jitter: Result<Duration, String>,
    /// Whether the job is one of another program.
    pub(crate) foreign: bool,
    /// The place where the entry is written, or `made at run time`.
    pub(crate) place: String,
    /// The reason why the row of the entry cannot be read.
    invalid: Option<String>,
}

impl Periodic {
    /// Makes an entry that enqueues `task` at each time of `spec`. `@every` counts from the Unix epoch in either mode, so that
    /// all replicas have the same ticks. An id of the task is not used, because each tick has its own.
    ///
    /// # Errors
    ///
    /// An option of the task is not valid, or the task would take the place of another one (`debounce`, `or_replace`).
    pub fn new(spec: CronSpec, task: impl IntoTask) -> Result<Self, PeriodicError> {
        let task = task.into_task();
        let bound = task.clone().bind(Utc::now(), Client::MAX_PAYLOAD_LIMIT)?;
        check_replaces(&bound)?;
        let id = EntryId::of_arguments(&bound.message.r#type, task.arguments());
        let label = if task.arguments().is_empty() { String::new() } else { id.to_string() };
        Ok(Self { label, ..Self::plain(id, bound.message.r#type, bound.queue, spec.aligned(), task) })
    }

    fn plain(id: EntryId, job: String, queue: QueueName, spec: CronSpec, task: PreparedTask) -> Self {
        Self {
            id,
            job,
            label: String::new(),
            queue,
            spec,
            task,
            missed: Missed::default(),
            overlap: Overlap::default(),
            jitter: Ok(Duration::ZERO),
            foreign: false,
            place: "made at run time".to_owned(),
            invalid: None,
        }
    }

    /// Makes the entry of a row that cannot be read, for the answer of a [`provider`](crate::SchedulerService::provider): the entry of
    /// this job and key does not fire and keeps its state and its pause, the log names it with `error`, and the other entries go on. An
    /// answer without the row would have the entry forgotten, and an error in place of the answer would keep every change out. The
    /// entry has no times, and nothing else takes it: a server that is given it does not start.
    pub fn invalid(job: &str, key: &str, error: impl Into<BoxError>) -> Self {
        let error: BoxError = error.into();
        let queue = QueueName::from_wire(JobOptions::DEFAULT_QUEUE);
        let task = RawTask::new(job, "").into_task();
        Self {
            label: key.to_owned(),
            invalid: Some(with_causes(&*error)),
            ..Self::plain(EntryId::of(job, key), job.to_owned(), queue, CronSpec::never(), task)
        }
    }

    /// Names the entry among those of its job, for example by the id of a row. An entry with a key stays the same one when its
    /// arguments, their codec or their shape change; without a key its job and its encoded arguments identify it.
    #[must_use]
    pub fn key(self, key: &str) -> Self {
        Self { id: EntryId::of(&self.job, key), label: key.to_owned(), ..self }
    }

    /// Sets the policy for missed ticks; default [`Missed::Once`].
    #[must_use]
    pub fn missed(self, missed: Missed) -> Self {
        Self { missed, ..self }
    }

    /// Sets the policy for a tick while the previous task waits or runs; default [`Overlap::Allow`].
    #[must_use]
    pub fn overlap(self, overlap: Overlap) -> Self {
        Self { overlap, ..self }
    }

    /// Defers each tick by up to this time, by the same time in every replica; default zero. A `process_in` of the task comes
    /// on top, and both together must be shorter than its `expires` and its `deadline`: a scheduler refuses any other entry,
    /// and one whose jitter is a text that is not a duration.
    #[must_use]
    pub fn jitter(self, jitter: impl IntoSpan) -> Self {
        Self { jitter: jitter.into_span().map_err(|error| error.to_string()), ..self }
    }

    /// Marks the job as one of another program, which this program need not know.
    #[must_use]
    pub fn foreign(self) -> Self {
        Self { foreign: true, ..self }
    }

    /// Checks that the program could read the row of the entry.
    pub(crate) fn check_row(&self) -> Result<(), PeriodicError> {
        match &self.invalid {
            Some(reason) => Err(PeriodicError::Invalid { entry: self.name(), reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Checks that no tick is deferred until its task is not started any more. An end that is a moment is the same for all
    /// ticks, and so not compared.
    pub(crate) fn check_jitter(&self) -> Result<(), EnqueueError> {
        let jitter = self.jitter.clone().map_err(|reason| EnqueueError::Option { option: "jitter", reason })?;
        if jitter.is_zero() {
            return Ok(());
        }
        // The end of a task that is bound an hour later differs if it counts from the enqueue. A deadline has whole seconds.
        let now = Utc::now().trunc_subsecs(0);
        let task = self.bind_plain(now)?;
        // A moment that has passed by then is none that counts from the enqueue.
        let Ok(later) = self.bind_plain(now + TimeDelta::hours(1)) else { return Ok(()) };
        let delay = match task.when {
            When::In(delay) => delay,
            When::Now | When::At(_) => Duration::ZERO,
        };
        let longest = delay.saturating_add(jitter);
        let deadline_ms = |task: &NewTask| Some(task.message.deadline.saturating_mul(1_000)).filter(|&end| end > 0);
        for (option, end, end_later) in [
            ("expires", task.extra.expires_ms, later.extra.expires_ms),
            ("deadline", deadline_ms(&task), deadline_ms(&later)),
        ] {
            let after = end.filter(|_| end != end_later).map(|end| end.saturating_sub(now.timestamp_millis()));
            let Some(after) = after.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis) else { continue };
            if longest >= after {
                let (job, [longest, after]) = (&self.job, [longest, after].map(duration::format));
                let reason = format!(
                    "a task of `{job}` may be due {longest} after its tick, and its `{option}` is {after}; make the \
                     jitter shorter"
                );
                return Err(EnqueueError::Option { option: "jitter", reason });
            }
        }
        Ok(())
    }

    pub(super) fn place(self, place: String) -> Self {
        Self { place, ..self }
    }

    /// Returns the id of the entry, the same after every restart.
    pub fn id(&self) -> &EntryId {
        &self.id
    }

    /// Returns the name of the entry's job.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// Returns the entry as messages name it: its job and, if the job may have several entries, its key or its id. A key may be any text
    /// of a table, and stays on one line.
    pub(crate) fn name(&self) -> String {
        match self.label.as_str() {
            "" => self.job.clone(),
            label => format!("{}[{}]", self.job, label.replace(char::is_control, " ")),
        }
    }

    /// Returns the queue of the entry's tasks.
    pub fn queue(&self) -> &QueueName {
        &self.queue
    }

    /// Returns the schedule.
    pub fn spec(&self) -> &CronSpec {
        &self.spec
    }

    /// Whether a tick of one entry may be sent as one of the other: they have the same schedule and enqueue the same task.
    pub(crate) fn is_same_plan(&self, other: &Self) -> bool {
        let plan =
            |entry: &Self| (entry.id.clone(), entry.spec.clone(), entry.missed, entry.overlap, entry.jitter.clone());
        // Both are bound at one moment, so that times that count from the enqueue are equal.
        let now = Utc::now();
        let task = |entry: &Self| {
            let mut task = entry.bind_plain(now).ok()?;
            task.message.id = String::new();
            Some((task.message, task.when, task.group, task.unique.map(|lock| (lock.key, lock.ttl)), task.extra))
        };
        // Where a deadline has passed in both, neither task can be bound, and the entries count as equal.
        plan(self) == plan(other) && task(self) == task(other)
    }

    /// The entry as the broker keeps it; `after` is the last tick, or now.
    pub(crate) fn plan(&self, after: DateTime<Utc>, revision: u64) -> EntryPlan {
        let distance = self.spec.next_after(after).and_then(|next| (next - after).to_std().ok()).unwrap_or(DAY);
        EntryPlan {
            queue: self.queue.clone(),
            entry: self.id.clone(),
            spec: self.spec.as_str().to_owned(),
            zone: self.spec.zone().name().to_owned(),
            revision,
            supersedes: None,
            keep: distance.saturating_mul(3).max(DAY * 30),
        }
    }

    /// The tick to send, bound at `now`; `known` is the last tick that the broker is known to have stored.
    pub(crate) fn tick(
        &self,
        tick: Tick,
        known: DateTime<Utc>,
        now: DateTime<Utc>,
        revision: u64,
    ) -> Result<BrokerTick, EnqueueError> {
        let at = tick.scheduled_at();
        let mut task = self.bind(tick, now)?;
        task.id = self.id.task_id(at);
        task.message.id = task.id.as_str().to_owned();
        // A scheduler refuses an entry whose jitter is not valid.
        if let Some(&longest) = self.jitter.as_ref().ok().filter(|longest| !longest.is_zero()) {
            let due = match task.when {
                When::Now => at,
                When::In(delay) => add(at, delay),
                When::At(moment) => moment.max(at),
            };
            task.when = When::At(add(due, jitter(self.id.as_str(), at, longest)));
        }
        let plan = self.plan(at, revision);
        let interval = self.spec.next_after(at).and_then(|next| (next - at).to_std().ok()).unwrap_or(DAY);
        let marker = interval.saturating_mul(100).clamp(Duration::from_secs(600), DAY * 2);
        Ok(BrokerTick { plan, at, marker, known: Some(known), overlap: self.overlap, task })
    }

    /// The entry's task without a tick, under a new id.
    pub(crate) fn bind_plain(&self, now: DateTime<Utc>) -> Result<NewTask, EnqueueError> {
        let mut task = self.task.clone().bind(now, Client::MAX_PAYLOAD_LIMIT)?;
        task.id_is_ours = true;
        Ok(task)
    }

    /// The entry's task with the tick in its headers, under a new id.
    pub(crate) fn bind(&self, tick: Tick, now: DateTime<Utc>) -> Result<NewTask, EnqueueError> {
        let mut task = self.bind_plain(now)?;
        task.message.headers.extend(tick.headers().map(|(key, value)| Header::new(key, value)));
        Ok(task)
    }
}

impl fmt::Display for Periodic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name(), self.spec)
    }
}

/// Refuses a task that would take the place of an equal one, such as that of the tick before.
fn check_replaces(task: &NewTask) -> Result<(), EnqueueError> {
    if task.replaces.is_none() {
        return Ok(());
    }
    // A debounce defers the task, `or_replace` does not.
    let option = if task.when == When::Now { "or_replace" } else { "debounce" };
    let reason = "a periodic job runs when its schedule says and takes no other task's place; leave `debounce` and \
                  `or_replace` out";
    Err(EnqueueError::Option { option, reason: reason.to_owned() })
}

fn add(at: DateTime<Utc>, span: Duration) -> DateTime<Utc> {
    TimeDelta::from_std(span).ok().and_then(|span| at.checked_add_signed(span)).unwrap_or(at)
}

/// How far a tick is deferred. The time is derived from the entry and the tick, so that every replica has the same.
fn jitter(entry: &str, at: DateTime<Utc>, most: Duration) -> Duration {
    let name = format!("{entry}:{}", at.timestamp());
    let drawn = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, name.as_bytes()).as_u64_pair().1;
    let most = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(drawn % most.saturating_add(1).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(spec: &str) -> Periodic {
        let spec = CronSpec::parse(spec).expect(spec);
        Periodic::new(spec, RawTask::new("report", "x").queue("low").retry(2)).expect("an entry")
    }

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().expect("a time")
    }

    #[test]
    fn its_id_is_its_job_and_its_key_or_else_its_arguments() {
        let nightly = entry("0 3 * * *");
        assert_eq!(nightly.id(), entry("TZ=Asia/Tokyo 0 4 * * *").missed(Missed::Skip).id());
        assert_eq!(nightly.id(), &EntryId::of_arguments("report", b"x"));
        let other = |payload: &'static str| {
            let task = RawTask::new("report", payload).queue("other");
            Periodic::new(CronSpec::parse("@daily").expect("a spec"), task).expect("an entry")
        };
        assert_eq!(nightly.id(), other("x").id(), "the queue is no part of it");
        assert_ne!(nightly.id(), other("y").id());
        assert_eq!(entry("0 3 * * *").key("7").id(), other("y").key("7").id());
        assert_ne!(nightly.id(), entry("0 3 * * *").key("again").id());
    }

    #[test]
    fn messages_tell_the_entries_of_a_job_apart() {
        let of = |payload: &'static str| daily(RawTask::new("bill", payload));
        assert_eq!(of("").to_string(), "bill @daily");
        assert_eq!(of("").key("").to_string(), "bill @daily");
        assert_eq!(of("x").key("7").to_string(), "bill[7] @daily");
        assert_eq!(of("").key("two\nlines").to_string(), "bill[two lines] @daily");
        assert_eq!(of("x").to_string(), format!("bill[{}] @daily", of("x").id()));
    }

    #[test]
    fn an_entry_whose_task_changed_is_planned_again() {
        let of = |payload: &'static str| {
            let spec = CronSpec::parse("@daily").expect("a spec");
            let task = RawTask::new("bill", payload).deadline("1h").unique("1h");
            Periodic::new(spec, task).expect("an entry").key("7")
        };
        assert!(of("7").is_same_plan(&of("7")));
        // The payloads have the same length.
        assert!(!of("7").is_same_plan(&of("8")));
        assert!(!of("7").is_same_plan(&of("7").missed(Missed::Skip)));
        let other =
            |task: RawTask| Periodic::new(CronSpec::parse("@daily").expect("a spec"), task).expect("an entry").key("7");
        assert!(!of("7").is_same_plan(&other(RawTask::new("bill", "7").deadline("2h").unique("1h"))));
        assert!(!of("7").is_same_plan(&other(RawTask::new("bill", "7").deadline("1h").unique("2h"))));
        assert!(!of("7").is_same_plan(&other(RawTask::new("bill", "7").deadline("1h").unique("1h").header("a", "b"))));
    }

    #[test]
    fn a_tick_names_its_task_and_puts_its_time_into_the_headers() {
        let time = at("2026-03-01T03:00:00Z");
        let tick = Tick::new(time).with_missed(2);
        let sent = entry("0 3 * * *").tick(tick, time, time, 9).expect("a tick");
        assert_eq!(sent.task.message.id, sent.task.id.as_str());
        assert_eq!(sent.task.id, sent.plan.entry.task_id(time));
        assert_eq!((sent.task.when, sent.plan.revision), (When::Now, 9));
        assert_eq!(sent.task.message.header("asynq-cron-at"), Some("1772334000"));
        assert_eq!(sent.task.message.header("asynq-cron-missed"), Some("2"));
        assert_eq!(sent.task.message.payload, "x");
    }

    #[test]
    fn markers_and_memory_last_as_long_as_the_interval_needs() {
        for (spec, marker, keep) in [
            ("* * * * * *", 600, 30 * 86_400),
            ("@every 30s", 3_000, 30 * 86_400),
            ("@hourly", 2 * 86_400, 30 * 86_400),
            ("@yearly", 2 * 86_400, 3 * 365 * 86_400),
        ] {
            let time = at("2026-01-01T00:00:00Z");
            let sent = entry(spec).tick(Tick::new(time), time, time, 0).expect("a tick");
            assert_eq!((sent.marker.as_secs(), sent.plan.keep.as_secs()), (marker, keep), "{spec}");
        }
    }

    #[test]
    fn jitter_is_the_same_in_every_process_and_is_spread() {
        let time = at("2026-03-01T03:00:00Z");
        let most = Duration::from_secs(30);
        let of = |minute: i64| {
            let time = time + TimeDelta::minutes(minute);
            let sent = entry("* * * * *").jitter(most).tick(Tick::new(time), time, time, 0).expect("a tick");
            let When::At(when) = sent.task.when else { panic!("not deferred") };
            (when - time).to_std().expect("later")
        };
        let drawn: Vec<_> = (0..200).map(of).collect();
        assert_eq!(drawn, (0..200).map(of).collect::<Vec<_>>());
        assert!(drawn.iter().all(|&by| by <= most));
        let early = drawn.iter().filter(|&&by| by < most / 2).count();
        assert!((60..140).contains(&early), "{early} of 200 in the first half");
    }

    fn daily(task: RawTask) -> Periodic {
        Periodic::new(CronSpec::parse("@daily").expect("a spec"), task).expect("an entry")
    }

    #[test]
    fn jitter_comes_on_top_of_the_delay_of_the_task() {
        let time = at("2026-03-01T00:00:00Z");
        let deferred = |task: RawTask| {
            let entry = daily(task).jitter(Duration::from_secs(30));
            let sent = entry.tick(Tick::new(time), time, time, 0).expect("a tick");
            let When::At(due) = sent.task.when else { panic!("not deferred") };
            due - time
        };
        let (task, hour) = (|| RawTask::new("report", "x"), TimeDelta::hours(1));
        let jitter = deferred(task());
        assert_eq!(deferred(task().process_in("10m")), TimeDelta::minutes(10) + jitter);
        assert_eq!(deferred(task().process_at(time + hour)), hour + jitter);
        assert_eq!(deferred(task().process_at(time - hour)), jitter, "a moment that has passed");
    }

    #[test]
    fn a_jitter_that_outlasts_the_task_is_refused() {
        let task = || RawTask::new("report", "x");
        for (task, too_long) in [
            (task().expires("10m"), 600),
            (task().deadline("5m"), 300),
            (task().expires("10m").deadline("5m"), 300),
            (task().expires("10m").process_in("4m"), 360),
        ] {
            let entry = daily(task);
            let checked = |seconds| entry.clone().jitter(Duration::from_secs(seconds)).check_jitter();
            assert!(checked(too_long - 1).is_ok(), "{too_long}");
            let error = checked(too_long).expect_err("too long").to_string();
            assert!(error.starts_with("invalid option `jitter`: a task of `report` may be due "), "{error}");
            let error = entry.clone().jitter("5 parsecs").check_jitter().expect_err("not a duration").to_string();
            assert!(error.starts_with("invalid option `jitter`: invalid duration \"5 parsecs\""), "{error}");
        }
        let tomorrow = Utc::now() + TimeDelta::days(1);
        let entry = daily(task().expires(tomorrow).deadline(tomorrow)).jitter(Duration::from_secs(2 * 86_400));
        assert!(entry.check_jitter().is_ok(), "a moment is the same for all ticks");
    }

    #[test]
    fn a_task_that_would_take_the_place_of_another_is_refused() {
        for (task, option) in [
            (RawTask::new("index", "x").debounce("5m"), "`debounce`"),
            (RawTask::new("index", "x").unique("1h").or_replace(), "`or_replace`"),
        ] {
            let error = Periodic::new(CronSpec::parse("@daily").expect("a spec"), task).expect_err(option).to_string();
            assert!(error.contains(&format!("invalid option {option}: ")), "{error}");
        }
    }

    #[test]
    fn a_task_that_cannot_be_is_refused_at_once() {
        let spec = CronSpec::parse("@daily").expect("a spec");
        assert!(Periodic::new(spec.clone(), RawTask::new("", "")).is_err());
        assert!(Periodic::new(spec, RawTask::new("x", "").queue("a{b")).is_err());
    }

    #[test]
    fn intervals_of_robfig_count_from_the_epoch_here() {
        let spec = CronSpec::parse_compat("@every 90.5s").expect("a spec");
        let entry = Periodic::new(spec, RawTask::new("x", "")).expect("an entry");
        assert_eq!(entry.spec().next_after(at("1970-01-01T00:00:01Z")), Some(at("1970-01-01T00:01:30Z")));
        assert_eq!(entry.spec().as_str(), "@every 90.5s");
    }
}
