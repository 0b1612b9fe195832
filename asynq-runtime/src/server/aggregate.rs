//! Turns the tasks of a set into new tasks, by the functions and the typed aggregations of a server.
//!
//! A function that was given for the group's name decides alone. Without one, the tasks of each aggregated job become one task,
//! and those of other jobs run by themselves. A set of which nothing is aggregated here, or with a task that this server does not
//! know, is left to other servers. Tasks of which sets come back at their deadline again and again, as those of an
//! aggregation that kills its worker, run by themselves.

use std::{
    collections::{BTreeMap, HashSet},
    iter,
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, Utc};

use super::{
    attempt_deadline::AttemptDeadline,
    backed_off::Stranded,
    dispatcher::{Dispatcher, NotRun},
    error::ServerError,
    into_aggregated::IntoAggregated,
    mux::Patterns,
};
use crate::{
    broker::{Broker, GroupRules, NewTask, SetMember, SetOutcome, TaskSet, shortened},
    client::Client,
    job::{
        Aggregation, Arguments, BoxError, BoxFuture, EnqueueError, IntoSpan, JobContext, JobDescriptor, Limits,
        PreparedTask, RawTask, Registry, RegistryError, fingerprint_of, with_causes,
    },
    task::{Extra, GroupName, TaskId, TaskInfo, TaskState},
};

/// The payload limits of the clients are not known here: tasks that are joined stay below the limit of every client, and a
/// single task that a client accepted is kept.
const LIMITS: Limits = Limits { together: Client::DEFAULT_PAYLOAD_LIMIT, alone: Client::MAX_PAYLOAD_LIMIT };

/// For how many shapes of one job the tasks of a set are read, because each may be a call of the broker and fingerprints are data from
/// outside. Tasks of further shapes run alone.
const SHAPES: usize = 100;

type Function =
    Arc<dyn Fn(GroupName, Vec<TaskInfo>) -> BoxFuture<'static, Result<PreparedTask, BoxError>> + Send + Sync>;

/// The aggregations of a server, and its rules for groups.
pub(crate) struct Aggregations {
    functions: Patterns<Function>,
    typed: BTreeMap<&'static str, Aggregation>,
    pub(crate) rules: GroupRules,
}

/// Reads a time of at least a second, rounded up to whole ones.
pub(super) fn seconds(option: &'static str, span: impl IntoSpan) -> Result<Duration, ServerError> {
    match span.into_span().map_err(|error| ServerError::option(option, error))? {
        span if span < Duration::from_secs(1) => Err(ServerError::option(option, "it must be at least 1s")),
        span if span > asynq_grammar::duration::MAX => Err(ServerError::option(option, "it must be at most 292 years")),
        span => Ok(Duration::from_secs(span.as_secs() + u64::from(span.subsec_nanos() > 0))),
    }
}

/// Why a set could not be aggregated; the set is released to its group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unaggregated {
    /// All types that are left to other servers, with the first task of each.
    #[error("this server has no aggregation for its tasks of type {}; another server may", types(.0.keys()))]
    Unknown(BTreeMap<String, TaskId>),
    #[error("its aggregation failed: {0}")]
    Failed(String),
    #[error("its new tasks cannot be enqueued: {0}")]
    Invalid(String),
}

/// Returns the names of the first types, and how many more there are.
pub(super) fn types<'t>(names: impl ExactSizeIterator<Item = &'t String>) -> String {
    const SHOWN: usize = 3;
    let all = names.len();
    let shown: Vec<_> = names.take(SHOWN).map(|name| format!("{name:?}")).collect();
    let more = all - shown.len();
    shown.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}

impl Default for Aggregations {
    fn default() -> Self {
        let rules = GroupRules { max_size: Some(TaskSet::MOST), ..GroupRules::default() };
        Self { functions: Patterns::default(), typed: BTreeMap::new(), rules }
    }
}

impl Aggregations {
    /// Adds a function for the groups of this name, or of names that begin with it.
    ///
    /// # Errors
    ///
    /// The pattern is there already, or ends in a `*`.
    pub(crate) fn add_function<F, R, How>(&mut self, pattern: String, function: F) -> Result<(), ServerError>
    where
        F: Fn(GroupName, Vec<TaskInfo>) -> R + Send + Sync + 'static,
        R: IntoAggregated<How>,
    {
        let function: Function = Arc::new(move |group, tasks| function(group, tasks).into_aggregated());
        self.functions.add("aggregate", pattern, function)
    }

    /// Sets the typed aggregations: those of `given` whose job is served.
    ///
    /// # Errors
    ///
    /// Tasks of one job would become two different ones, or one that has a group or a debounce, with which no set could end, or that is
    /// unique: two equal parts of one set would keep it from ending for ever.
    pub(crate) fn serve(
        &mut self,
        registry: &Registry,
        given: impl IntoIterator<Item = Aggregation>,
    ) -> Result<(), RegistryError> {
        self.typed.clear();
        for aggregation in given {
            if !registry.get(aggregation.job.name).is_some_and(|job| job.is_same_job(&aggregation.job)) {
                continue;
            }
            let options = &aggregation.job.options;
            let waits = [
                ("group", options.group.is_some()),
                ("debounce", options.debounce.is_some()),
                ("unique", options.unique.is_some()),
            ];
            if let Some((option, _)) = waits.into_iter().find(|(_, is_set)| *is_set) {
                return Err(RegistryError::AggregatedWaits { job: Box::new(aggregation.job), option });
            }
            match self.typed.get(aggregation.of) {
                Some(known) if !known.is_same(&aggregation) => {
                    // The order of linking means nothing. The order of the places in the source makes the text the same
                    // every time.
                    let mut jobs = [Box::new(known.job), Box::new(aggregation.job)];
                    jobs.sort_by_key(|job| (job.file, job.line, job.type_name()));
                    let [first, second] = jobs;
                    return Err(RegistryError::AggregatedTwice { of: aggregation.of, first, second });
                }
                _ => self.typed.insert(aggregation.of, aggregation),
            };
        }
        Ok(())
    }

    /// Returns whether there is neither a function nor a typed aggregation.
    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.typed.is_empty()
    }

    /// Returns whether tasks of this type are aggregated in this group.
    pub(crate) fn takes(&self, group: &str, r#type: &str) -> bool {
        self.functions.find(group).is_some() || self.typed(r#type).is_some()
    }

    /// Returns the types whose tasks are aggregated, with the aliases of their jobs, as the server shows them to others.
    pub(crate) fn types(&self) -> Vec<String> {
        let names = |of: &Aggregation| iter::once(of.of).chain(of.of_job.aliases.iter().copied());
        self.typed.values().flat_map(names).map(str::to_owned).collect()
    }

    /// Returns the beginnings of the names of groups for which there is a function, as the server shows them to others.
    pub(crate) fn patterns(&self) -> Vec<String> {
        self.functions.patterns().map(str::to_owned).collect()
    }

    /// Returns the aggregation of the tasks of this type, which may be an alias of their job.
    fn typed(&self, r#type: &str) -> Option<&Aggregation> {
        let by_alias = || self.typed.values().find(|aggregation| aggregation.of_job.aliases.contains(&r#type));
        self.typed.get(r#type).or_else(by_alias)
    }

    /// Returns the outcome of a set, where the dispatcher says which types can run here. Beside tasks that are aggregated here, those
    /// of other types run alone if they can run here. Otherwise they fail the set, so that another server takes it; those of the types in
    /// `stranded`, for which that did not help, run alone, unless a server that lives says that it aggregates them: it may have a longer
    /// grace period than this one. Runs user code: the caller catches its panics and limits the time of that code and of the look-ups at
    /// the broker.
    pub(crate) async fn aggregate(
        &self,
        set: &TaskSet,
        broker: &Arc<dyn Broker>,
        dispatcher: &Dispatcher,
        stranded: &Stranded,
    ) -> Result<SetOutcome, Unaggregated> {
        let now = broker.now();
        let (alone, sound) = sort(&set.members, now);
        let mut outcome = SetOutcome { alone, ..SetOutcome::default() };
        if sound.is_empty() {
            return Ok(outcome);
        }
        if let Some((_, function)) = self.functions.find(set.group.as_str()) {
            if kills_workers(set, None) {
                outcome.alone.extend(sound.into_iter().map(|(id, _)| id));
                return Ok(outcome);
            }
            let tasks = sound.into_iter().map(|(_, info)| info).collect();
            let made = function(set.group.clone(), tasks).await;
            let task = made.map_err(|error| Unaggregated::Failed(shortened(&with_causes(&*error)).to_owned()))?;
            add(&mut outcome, set, task, now)?;
            return Ok(outcome);
        }
        let mut by_type = BTreeMap::<&str, Vec<&(TaskId, TaskInfo)>>::new();
        for task in &sound {
            let r#type = &*task.1.r#type;
            by_type.entry(self.typed(r#type).map_or(r#type, |aggregation| aggregation.of)).or_default().push(task);
        }
        // Where nothing of a set is aggregated here, another server mostly has the aggregation.
        let aggregates_some = by_type.keys().any(|name| self.typed.contains_key(*name));
        let mut unknown = BTreeMap::new();
        for (name, tasks) in by_type {
            match self.typed.get(name) {
                Some(aggregation) if !kills_workers(set, aggregation.job.options.max_crashes) => {
                    let arguments = arguments(&aggregation.of_job, &tasks, broker, dispatcher).await?;
                    add_typed(&mut outcome, set, aggregation, &tasks, &arguments, now)?;
                }
                aggregation => {
                    if aggregation.is_none() && !(aggregates_some && dispatcher.knows(name)) {
                        unknown.insert(name.to_owned(), tasks[0].0.clone());
                    }
                    outcome.alone.extend(tasks.into_iter().map(|(id, _)| id.clone()));
                }
            }
        }
        let all_are_stranded = unknown.iter().all(|(name, first)| stranded.has(name, first));
        // A server that aggregates a part of the set does not wait for one that aggregates another part, which would wait for this one.
        let others_do = all_are_stranded && !aggregates_some && others_aggregate(set, &unknown, broker).await?;
        if all_are_stranded && !others_do { Ok(outcome) } else { Err(Unaggregated::Unknown(unknown)) }
    }
}

/// Returns whether a server of the set's queue lives that says that it aggregates tasks of one of these types.
///
/// # Errors
///
/// The broker cannot be asked.
async fn others_aggregate(
    set: &TaskSet,
    unknown: &BTreeMap<String, TaskId>,
    broker: &Arc<dyn Broker>,
) -> Result<bool, Unaggregated> {
    let servers = broker.servers().await.map_err(|error| {
        Unaggregated::Failed(format!("the broker cannot be asked which servers aggregate its tasks: {error}"))
    })?;
    Ok(servers.iter().any(|server| {
        server.info.serves(&set.queue) && unknown.keys().any(|r#type| server.info.aggregates(&set.group, r#type))
    }))
}

partial_debug!(Aggregations { functions, typed, rules, .. });

/// Returns the tasks of a set that a worker archives with the reason as soon as they run alone, and the others as user code sees them.
fn sort(members: &[SetMember], now: DateTime<Utc>) -> (Vec<TaskId>, Vec<(TaskId, TaskInfo)>) {
    let (mut alone, mut sound) = (Vec::new(), Vec::with_capacity(members.len()));
    for SetMember { id, message, extra } in members {
        match message {
            Ok(message)
                if !extra.is_expired(now.timestamp_millis()) && !AttemptDeadline::of(message, now).is_over() =>
            {
                let task = TaskInfo::from_message(message, TaskState::Aggregating);
                sound.push((id.clone(), TaskInfo { expires: extra.expires(), ..task }));
            }
            _ => alone.push(id.clone()),
        }
    }
    (alone, sound)
}

/// Returns whether a set with these tasks came back at its deadline as often as workers die before a task that they run is archived;
/// `max_crashes` is that of the aggregated job. Alone, each of the tasks has a count of its own, so that those which kill no worker are
/// done.
fn kills_workers(set: &TaskSet, max_crashes: Option<u32>) -> bool {
    let is_poison = Extra { max_crashes, ..Extra::default() }.is_poison(set.crashes);
    if is_poison {
        let (queue, group, crashes) = (&set.queue, &set.group, set.crashes);
        log!(
            warn,
            %queue, %group,
            "a set of these tasks came back at its deadline {crashes} times, as when their aggregation kills its worker; they run by \
             themselves"
        );
    }
    is_poison
}

/// Returns the arguments of tasks of one job, with the shapes that the broker keeps of those of other versions.
///
/// # Errors
///
/// The broker cannot be asked: alone, the tasks would run as soon as it can be.
async fn arguments(
    job: &JobDescriptor,
    tasks: &[&(TaskId, TaskInfo)],
    broker: &Arc<dyn Broker>,
    dispatcher: &Dispatcher,
) -> Result<Vec<Arguments>, Unaggregated> {
    let (mut arguments, mut shapes) = (Vec::with_capacity(tasks.len()), HashSet::new());
    let today = Some(job.fingerprint().value);
    for (_, info) in tasks {
        let fingerprint = fingerprint_of(&info.payload);
        let shape = (&info.r#type, fingerprint);
        // The aggregation reads arguments of today's shape as they are.
        let of_earlier = fingerprint != today;
        let lookup = if of_earlier && (shapes.contains(&shape) || shapes.len() < SHAPES && shapes.insert(shape)) {
            match dispatcher.earlier_shape(Some(broker), job, &info.r#type, &info.payload).await {
                Err(error @ NotRun::Unasked(_)) => return Err(Unaggregated::Failed(error.to_string())),
                lookup => lookup.ok().flatten(),
            }
        } else {
            None
        };
        arguments.push(Arguments { payload: info.payload.clone(), lookup });
    }
    Ok(arguments)
}

/// Adds the new tasks that are made of the tasks of one job.
fn add_typed(
    outcome: &mut SetOutcome,
    set: &TaskSet,
    aggregation: &Aggregation,
    tasks: &[&(TaskId, TaskInfo)],
    arguments: &[Arguments],
    now: DateTime<Utc>,
) -> Result<(), Unaggregated> {
    let made = aggregation.make(arguments, LIMITS);
    for task in made.tasks {
        // The job's context reads this header. A task that a function makes is enqueued as it is.
        let task = RawTask::from_prepared(task).header(JobContext::GROUP_HEADER, set.group.as_str());
        add(outcome, set, task.into(), now)?;
    }
    for (place, why) in made.left_out {
        let id = tasks[place].0.clone();
        if let Some(why) = why {
            log!(
                warn,
                %id, queue = %set.queue, group = %set.group,
                "the task cannot become a part of a new one, and runs by itself when its set has ended: {why}"
            );
        }
        // Alone, one that cannot be read is requeued by workers until a version comes that knows its shape, or archived with the reason.
        outcome.alone.push(id);
    }
    Ok(())
}

/// Adds a new task: in the set's queue, in no group, and with the id that the set gives it.
fn add(outcome: &mut SetOutcome, set: &TaskSet, task: PreparedTask, now: DateTime<Utc>) -> Result<(), Unaggregated> {
    let made = task
        .into_result()
        .and_then(|mut task| {
            let waits = [
                ("group", task.group.is_some()),
                ("debounce", task.debounce.is_some()),
                ("or_replace", task.or_replace),
            ];
            if let Some((option, _)) = waits.into_iter().find(|(_, is_set)| *is_set) {
                let reason = "an aggregated task runs by itself, as soon as it is made; leave it out".to_owned();
                return Err(EnqueueError::Option { option, reason });
            }
            task.queue = Some(set.queue.clone());
            task.id = Some(set.task_id(outcome.made.len()));
            PreparedTask::ready(task).bind(now, Client::MAX_PAYLOAD_LIMIT)
        })
        .map_err(|error| Unaggregated::Invalid(error.to_string()))?;
    outcome.made.push(NewTask { id_is_ours: true, ..made });
    Ok(())
}

#[cfg(all(test, feature = "sqlite"))]
mod tests;
