//! Collects the options of a server.

mod around;
mod build;
mod checks;

use std::{sync::Arc, time::Duration};

use super::{
    aggregate::{Aggregations, seconds},
    archives::ArchiveLimits,
    choice::Choice,
    config::{BLOCKING_LIMIT, Config, OnUnknown, processors},
    error::ServerError,
    flags::Flags,
    handlers::Handlers,
    hooks::{Hooks, LifecycleHooks},
    into_aggregated::IntoAggregated,
    layer_stack::Layers,
    service::{Service, ServiceEntry},
};
use crate::{
    broker::{Broker, RetryOrder},
    job::{Aggregates, Aggregation, IntoSpan, Job, JobDescriptor, JobError, Registry, StateMap},
    task::{GroupName, TaskInfo},
};

/// Builds a [`Server`](super::Server). [`build`](Self::build) returns the first mistake in the options.
#[must_use = "nothing happens until `.build().await`"]
pub struct ServerBuilder {
    source: BrokerSource,
    queues: Vec<(String, u32)>,
    limits: Vec<(String, usize)>,
    /// The options that need no check, or were checked.
    config: Config,
    blocking_limit: usize,
    states: StateMap,
    registry: Option<Registry>,
    registered: Vec<JobDescriptor>,
    aggregations: Aggregations,
    aggregated: Vec<Aggregation>,
    choice: Choice,
    handlers: Handlers,
    layers: Layers,
    lifecycle_hooks: LifecycleHooks,
    hooks: Hooks,
    services: Vec<Box<dyn Service>>,
    linked_services: bool,
    flags: Flags,
    /// The first mistake in the options.
    mistake: Option<ServerError>,
}

enum BrokerSource {
    Url(String),
    Broker(Arc<dyn Broker>),
}

impl ServerBuilder {
    pub(super) fn new(url: String) -> Self {
        Self {
            source: BrokerSource::Url(url),
            queues: Vec::new(),
            limits: Vec::new(),
            config: Config::default(),
            blocking_limit: BLOCKING_LIMIT,
            states: StateMap::default(),
            registry: None,
            registered: Vec::new(),
            aggregations: Aggregations::default(),
            aggregated: Vec::new(),
            choice: Choice::default(),
            handlers: Handlers::default(),
            layers: Layers::default(),
            lifecycle_hooks: LifecycleHooks::default(),
            hooks: Hooks::default(),
            services: Vec::new(),
            linked_services: true,
            flags: Flags::default(),
            mistake: None,
        }
    }

    /// Sets an option, and keeps the first mistake.
    fn set(mut self, option: impl FnOnce(&mut Self) -> Result<(), ServerError>) -> Self {
        if let Err(mistake) = option(&mut self) {
            self.mistake.get_or_insert(mistake);
        }
        self
    }

    /// Serves a queue with this weight, at least 1; a queue that is named again gets the later weight. Without any queue, the
    /// server serves `default` and every queue that one of its jobs names, weight 1 each; with a choice of jobs
    /// ([`only`](Self::only), [`except`](Self::except)) just the queues that those jobs name.
    ///
    /// In the name a `*` stands for any text: `tenant:*` serves every queue whose name begins with `tenant:`. Queues that appear
    /// later are served within about half a second, and each as long as it exists. All queues of a pattern share its weight. A
    /// queue that is also named by itself has that name's weight; of several patterns the first one counts.
    ///
    /// With weights 6, 3 and 1 the next task comes from the first queue in 6 of 10 cases as long as all have some; with
    /// [`strict_priority`](Self::strict_priority) a weight is a rank instead.
    pub fn queue(mut self, name: impl Into<String>, weight: u32) -> Self {
        let name = name.into();
        match self.queues.iter_mut().find(|(known, _)| *known == name) {
            Some(entry) => entry.1 = weight,
            None => self.queues.push((name, weight)),
        }
        self
    }

    /// Serves these queues too; see [`queue`](Self::queue).
    pub fn queues<N: Into<String>>(self, queues: impl IntoIterator<Item = (N, u32)>) -> Self {
        queues.into_iter().fold(self, |builder, (name, weight)| builder.queue(name, weight))
    }

    /// Takes from a queue only when all queues of greater weight are empty. Queues of equal weight take equal turns, and those of
    /// a pattern share its turns. While lower ones have work, a queue that was found empty is asked again after 10 ms at the
    /// latest, so that a task may start so long after one of greater weight has come. (With more queues than free slots, and more
    /// than 16, after nine times as long as the broker takes to say which have work, where that is longer; at most 1 s.)
    pub fn strict_priority(mut self) -> Self {
        self.config.strict = true;
        self
    }

    /// Puts a retry task that is due before all tasks that wait in its queue, not behind them as Go's asynq does: in a long
    /// queue, a second attempt does not wait for all tasks that were enqueued after the first. Of several tasks that are due
    /// at once, the one that was due first comes first. So does a task that was snoozed or deferred. A task that fails again and
    /// again delays the others by as much as it runs, so keep `retry` low.
    ///
    /// Any server of a queue moves its due tasks: give the option to all of them. Go workers, which have no such option, move
    /// tasks to the end.
    pub fn retries_first(mut self) -> Self {
        self.config.retries = RetryOrder::First;
        self
    }

    /// Sets how many tasks of one queue run at a time on this server at most, at least 1; other queues take the slots that
    /// are left. `name` is written as it was given to [`queue`](Self::queue). Each queue of a pattern has this limit.
    pub fn queue_concurrency(mut self, name: impl Into<String>, limit: usize) -> Self {
        let name = name.into();
        self.limits.retain(|(known, _)| *known != name);
        self.limits.push((name, limit));
        self
    }

    /// Runs only jobs of these names, in which a `*` stands for any text (`mail:*`); a name that no job has is an error, and so is an
    /// empty list. Tasks of other jobs are unknown here, so give the jobs of a choice queues of their own.
    pub fn only<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.choice.only.get_or_insert_default().extend(names.into_iter().map(Into::into));
        self
    }

    /// Runs all jobs but these; see [`only`](Self::only).
    pub fn except<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.choice.except.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets how many archived tasks a queue keeps at most, and for how long; default asynq's 10,000 and 90 days. In the name
    /// a `*` stands for any text. Tasks beyond the limits are deleted, the oldest first; a warning with their number says that an
    /// archive was full. With 0 tasks or an age of zero none is kept: no value means unlimited, so give a large one.
    ///
    /// Keep to asynq's limits where Go workers archive tasks of the queue: they delete all beyond those, and their
    /// script fails half way where there are thousands. A server warns of that at its start. Keep to them also where people archive
    /// with asynqmon or another tool of Go's, which takes the ids of the others out of the archive and leaves the tasks behind.
    pub fn archive(self, queue: impl AsRef<str>, max_size: usize, max_age: impl IntoSpan) -> Self {
        self.set(|server| {
            let age = checks::span("archive", max_age)?;
            let pattern = checks::queue_pattern("archive", queue.as_ref())?;
            server.config.archives.set(pattern, ArchiveLimits { size: max_size, age });
            Ok(())
        })
    }

    /// Sets how many tasks run at a time at most; 0, as the default, is the number of processors. `--concurrency` and
    /// `ASYNQ_CONCURRENCY` refuse 0, and are left out for that.
    #[doc(alias("workers", "max_workers", "pool_size"))]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.config.concurrency = if concurrency > 0 { concurrency } else { processors() };
        self
    }

    /// Sets how many blocking jobs run at a time at most, within the concurrency; default 512, and 0 counts as 1. A job that gets no
    /// thread within its timeout is deferred by a minute, 25 times in a row without a retry spent.
    pub fn blocking_limit(mut self, limit: usize) -> Self {
        self.blocking_limit = limit;
        self
    }

    /// Sets how long a stopping server lets running jobs go on before it requeues them; default 8 s.
    pub fn shutdown_timeout(self, timeout: impl IntoSpan) -> Self {
        self.set(|server| {
            server.config.shutdown_timeout = checks::span("shutdown_timeout", timeout)?;
            Ok(())
        })
    }

    /// Gives the jobs a shared state; a second state of the same type replaces the first. Jobs have a
    /// [`Client`](crate::Client) of this server's broker without it.
    pub fn state<T: Send + Sync + 'static>(mut self, state: T) -> Self {
        self.states.insert(state);
        self
    }

    /// Gives the jobs these states and drops those given so far.
    pub(crate) fn states(mut self, states: StateMap) -> Self {
        self.states = states;
        self
    }

    /// Serves exactly these jobs, and those given to [`register`](Self::register), instead of all that are linked. The linked
    /// services are left out with the linked jobs: give the wanted ones to [`service`](Self::service).
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Serves `J` too: a job written by hand, which is in no inventory.
    pub fn register<J: Job>(mut self) -> Self {
        self.registered.push(JobDescriptor::of::<J>(std::any::type_name::<J>(), 0));
        self
    }

    /// Serves `J` too, and aggregates tasks into it: a job written by hand, which is in no inventory.
    pub fn register_aggregate<J: Aggregates>(mut self) -> Self {
        self.aggregated.push(Aggregation::of::<J>(std::any::type_name::<J>(), 0));
        self.register::<J>()
    }

    /// Makes one task of all tasks that wait together in a group of this name, or of a name that begins with it. A name that
    /// matches exactly counts, else the longest that matches, and `""` matches all (Go's mux rule).
    ///
    /// The function receives the group and its tasks, in the order in which they joined (on Redis by their ids within one second),
    /// and returns the new task, or an `async` block that does. The new task goes to the queue of the group, with an id of its own: a queue or an id that it
    /// names is ignored. It must not name a group, a `debounce` or `or_replace`. Where the function fails or panics, or takes longer
    /// than 100 s, the tasks return to their group, which is backed off for a while. A second function of one pattern is an error.
    ///
    /// ```
    /// # use asynq_runtime::prelude::*;
    /// let server = Server::builder("sqlite::memory:").aggregate("mails", |group, tasks| {
    ///     let texts: Vec<_> = tasks.iter().map(|task| String::from_utf8_lossy(&task.payload)).collect();
    ///     Ok::<_, BoxError>(RawTask::new("mails:digest", texts.join("\n")).header("group", group.as_str()))
    /// });
    /// ```
    pub fn aggregate<F, R, How>(self, pattern: impl Into<String>, function: F) -> Self
    where
        F: Fn(GroupName, Vec<TaskInfo>) -> R + Send + Sync + 'static,
        R: IntoAggregated<How>,
    {
        self.set(|server| server.aggregations.add_function(pattern.into(), function))
    }

    /// Aggregates a group when no task has joined it for this long; at least 1 s, default 1 minute, rounded up to whole
    /// seconds. The server looks at its groups every 1 to 5 s: after a tenth of this time or of the longest delay, whichever is
    /// shorter. Where a walk over very many groups takes long, looks come as seldom as keeps it at a tenth of the broker's time, at most
    /// one and a half times the shorter of both, or 23 s.
    pub fn group_grace(self, grace: impl IntoSpan) -> Self {
        self.set(|server| {
            server.aggregations.rules.grace = seconds("group_grace", grace)?;
            Ok(())
        })
    }

    /// Aggregates a group when its first task has waited for this long; at least 1 s, default never, rounded up to whole seconds. A
    /// look finds it up to 5 s later, as [`group_grace`](Self::group_grace) says.
    pub fn group_max_delay(self, delay: impl IntoSpan) -> Self {
        self.set(|server| {
            server.aggregations.rules.max_delay = Some(seconds("group_max_delay", delay)?);
            Ok(())
        })
    }

    /// Aggregates a group when it has so many tasks, at least 1, and never more into one; default 1000, and more than that counts as
    /// 1000.
    pub fn group_max_size(self, size: usize) -> Self {
        self.set(|server| {
            if size == 0 {
                return Err(ServerError::option("group_max_size", "a set has at least 1 task"));
            }
            server.aggregations.rules.max_size = Some(size);
            Ok(())
        })
    }

    /// Sets the policy for a task whose type or shape no job here knows; default [`OnUnknown::Requeue`].
    pub fn on_unknown(mut self, policy: OnUnknown) -> Self {
        self.config.on_unknown = policy;
        self
    }

    /// Decides how long a failed task waits for its next attempt, where its job has no `backoff` of its own: asynq's
    /// `RetryDelayFunc`. The arguments of the function are how often the task had failed before, the error and the task; its
    /// result is at most 10 days. The default is asynq's: 15 s at first, growing with the fourth power. Where the function
    /// panics, the default counts.
    ///
    /// ```
    /// # use asynq_runtime::prelude::*;
    /// # use std::time::Duration;
    /// let server = Server::builder("sqlite::memory:").backoff(|retried, _error, task| match task.r#type.as_str() {
    ///     "mail" => Duration::from_secs(30),
    ///     _ => Duration::from_secs(60) * (retried + 1),
    /// });
    /// ```
    pub fn backoff(mut self, decide: impl Fn(u32, &JobError, &TaskInfo) -> Duration + Send + Sync + 'static) -> Self {
        self.hooks.backoff = Some(Arc::new(decide));
        self
    }

    /// Runs a service beside the jobs for as long as the server lives. It takes the place of a linked service of its name.
    pub fn service(mut self, service: impl Service) -> Self {
        self.services.push(Box::new(service));
        self
    }

    /// Leaves out the services that linked crates bring: the scheduler of `#[periodic]` jobs, and a dashboard that the
    /// environment asks for. Otherwise they run in every server of the program whose jobs are the linked ones.
    pub fn without_linked_services(mut self) -> Self {
        self.linked_services = false;
        self
    }

    /// Adds the linked services, as their flags say, and returns the entries of those that were added. A second call adds none.
    /// Services of the program that the flags leave out go.
    pub(crate) fn add_linked_services(&mut self) -> Vec<&'static ServiceEntry> {
        self.services.retain(|service| !service.is_left_out(&self.flags));
        if !std::mem::take(&mut self.linked_services) {
            return Vec::new();
        }
        let mut entries = ServiceEntry::linked();
        entries.retain(|entry| {
            let made = (entry.make)(&self.flags).filter(|made| !made.is_left_out(&self.flags));
            let Some(made) = made else { return false };
            if self.services.iter().any(|other| other.name() == made.name()) {
                for flag in (entry.flags)().iter().filter(|flag| self.flags.is_set(flag.name)) {
                    let service = made.name();
                    log!(warn, service, "`--{}` has no effect: this program brings the service itself", flag.name);
                }
                return false;
            }
            // A program that chooses its jobs chooses its services as well.
            if self.registry.is_some() {
                let advice = "add it with `service(..)`, or call `without_linked_services()`";
                log!(info, service = made.name(), "a linked service does not run where `registry` is given: {advice}");
                return false;
            }
            self.services.push(made);
            true
        });
        entries
    }

    /// Sets the values that the program was given for the flags of its services; default none.
    #[doc(hidden)]
    pub fn flags(mut self, flags: Flags) -> Self {
        self.flags = flags;
        self
    }

    /// Works on a broker that is connected already instead of the URL's: for tests and for embedding. The caller closes
    /// the broker.
    pub fn broker(mut self, broker: Arc<dyn Broker>) -> Self {
        self.source = BrokerSource::Broker(broker);
        self
    }
}

// Not the URL: it may hold a password.
partial_debug!(ServerBuilder { queues, config, .. });
