//! Collects what a server is told, checks it, and connects.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    Server,
    aggregate::{Aggregations, IntoAggregated, WrongRule},
    config::{BLOCKING_LIMIT, Config, OnUnknown, SHUTDOWN_TIMEOUT, default_concurrency, queues_of},
    error::ServerError,
    executor::{Executor, ExecutorParts},
    heart::HeartThread,
    pauses::ServerBackoff,
    service::Service,
};
use crate::{
    broker::Broker,
    connect,
    job::{Aggregates, Aggregation, BlockingPool, IntoSpan, Job, JobDescriptor, JobError, Registry, StateMap},
    task::{GroupName, QueueName, TaskInfo},
};

/// Builds a [`Server`]. Mistakes are told by [`build`](Self::build), the first one first.
#[must_use = "nothing happens until `.build().await`"]
pub struct ServerBuilder {
    place: Place,
    queues: Vec<(String, u32)>,
    strict: bool,
    concurrency: Option<usize>,
    blocking_limit: usize,
    shutdown_timeout: Result<Duration, ServerError>,
    states: StateMap,
    registry: Option<Registry>,
    registered: Vec<JobDescriptor>,
    aggregations: Aggregations,
    aggregated: Vec<Aggregation>,
    /// The first rule of groups that cannot be.
    wrong_rule: Option<WrongRule>,
    on_unknown: OnUnknown,
    backoff: Option<ServerBackoff>,
    services: Vec<Box<dyn Service>>,
    matches: Option<Arc<clap::ArgMatches>>,
}

enum Place {
    Url(String),
    Broker(Arc<dyn Broker>),
}

impl ServerBuilder {
    pub(super) fn new(url: String) -> Self {
        Self {
            place: Place::Url(url),
            queues: Vec::new(),
            strict: false,
            concurrency: None,
            blocking_limit: BLOCKING_LIMIT,
            shutdown_timeout: Ok(SHUTDOWN_TIMEOUT),
            states: StateMap::default(),
            registry: None,
            registered: Vec::new(),
            aggregations: Aggregations::default(),
            aggregated: Vec::new(),
            wrong_rule: None,
            on_unknown: OnUnknown::default(),
            backoff: None,
            services: Vec::new(),
            matches: None,
        }
    }

    /// Serves a queue with this weight, at least 1; a queue that is named again gets the later weight. Without any, the
    /// server serves `default` and every queue that one of its jobs names, weight 1 each.
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

    /// Takes from a queue only when all queues of greater weight are empty.
    pub fn strict_priority(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Most tasks at a time; 0, as the default, is the number of processors.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = Some(concurrency).filter(|&n| n > 0);
        self
    }

    /// Most blocking jobs at a time, within the concurrency; default 512, at least 1.
    pub fn blocking_limit(mut self, limit: usize) -> Self {
        self.blocking_limit = limit;
        self
    }

    /// How long a stopping server lets running jobs go on before it hands them back to their queues; default 8 s.
    pub fn shutdown_timeout(mut self, timeout: impl IntoSpan) -> Self {
        self.shutdown_timeout = timeout.into_span().map_err(|error| ServerError::option("shutdown_timeout", error));
        self
    }

    /// Gives the jobs a shared state; a second one of the same type replaces the first.
    pub fn state<T: Send + Sync + 'static>(mut self, state: T) -> Self {
        self.states.insert(state);
        self
    }

    /// Gives the jobs these states and drops those given so far.
    pub fn states(mut self, states: StateMap) -> Self {
        self.states = states;
        self
    }

    /// Serves exactly these jobs, and those given to [`register`](Self::register), instead of all that are linked.
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

    /// Makes one task of all tasks that wait together in a group of this name, or of a name that begins so; the name that
    /// fits exactly counts, else the longest that fits, and `""` fits all (Go's mux rule).
    ///
    /// The function is given the group and its tasks, in the order in which they joined, and returns the new task, or an
    /// `async` block that does. That task goes to the queue of the group, with an id of its own: whatever it says about
    /// these is not heeded. It must not name a group. Where the function fails or panics, or takes longer than 100 s, the tasks
    /// go back to their group, which is left alone for a while.
    ///
    /// ```
    /// # use asynq_runtime::prelude::*;
    /// let server = Server::builder("sqlite::memory:").aggregate("mails", |group, tasks| {
    ///     let texts: Vec<_> = tasks.iter().map(|task| String::from_utf8_lossy(&task.payload)).collect();
    ///     Ok::<_, BoxError>(RawTask::new("mails:digest", texts.join("\n")).header("group", group.as_str()))
    /// });
    /// ```
    pub fn aggregate<F, R, How>(mut self, pattern: impl Into<String>, function: F) -> Self
    where
        F: Fn(GroupName, Vec<TaskInfo>) -> R + Send + Sync + 'static,
        R: IntoAggregated<How>,
    {
        self.aggregations.add_function(pattern.into(), function);
        self
    }

    /// Aggregates a group when no task has joined it for this long; at least 1 s, default 1 minute, rounded up to whole
    /// seconds.
    pub fn group_grace(self, grace: impl IntoSpan) -> Self {
        self.rule(|groups| groups.set_grace(grace))
    }

    /// … or when its first task has waited for this long; at least 1 s, default never, rounded up to whole seconds.
    pub fn group_max_delay(self, delay: impl IntoSpan) -> Self {
        self.rule(|groups| groups.set_max_delay(delay))
    }

    /// … or when it has so many tasks, at least 1, and never makes one of more; default 1000, which is also the most.
    pub fn group_max_size(self, size: usize) -> Self {
        self.rule(|groups| groups.set_max_size(size))
    }

    fn rule(mut self, set: impl FnOnce(&mut Aggregations) -> Result<(), WrongRule>) -> Self {
        if let Err(wrong) = set(&mut self.aggregations) {
            self.wrong_rule.get_or_insert(wrong);
        }
        self
    }

    /// What to do with a task whose type or shape no job here knows; default [`OnUnknown::HandBack`].
    pub fn on_unknown(mut self, policy: OnUnknown) -> Self {
        self.on_unknown = policy;
        self
    }

    /// Decides how long a failed task waits for its next attempt, where its job has no `backoff` of its own: asynq's
    /// `RetryDelayFunc`. It is given how often the task had failed before, the error and the task; at most 10 days. The
    /// default is asynq's: 15 s at first, growing with the fourth power. Where the function panics, the default counts.
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
        self.backoff = Some(ServerBackoff::new(decide));
        self
    }

    /// Runs a neighbour beside the jobs for as long as the server lives.
    pub fn service(mut self, service: impl Service) -> Self {
        self.services.push(Box::new(service));
        self
    }

    /// The same for one that is boxed already, as [`ServiceEntry::make`](super::ServiceEntry) returns it.
    pub fn boxed_service(mut self, service: Box<dyn Service>) -> Self {
        self.services.push(service);
        self
    }

    /// The flags that the program was started with, for its services.
    pub fn matches(mut self, matches: clap::ArgMatches) -> Self {
        self.matches = Some(Arc::new(matches));
        self
    }

    /// Works on a broker that is connected already instead of the URL's: for tests and for embedding. Whoever made it
    /// closes it.
    pub fn broker(mut self, broker: Arc<dyn Broker>) -> Self {
        self.place = Place::Broker(broker);
        self
    }

    /// Checks everything and connects, on the server's own I/O thread.
    ///
    /// # Errors
    ///
    /// No jobs, two of one name or a missing state; a queue's name, a weight or a time that cannot be; a broker that is
    /// not there. Nothing runs yet and nobody has been told of this server.
    pub async fn build(self) -> Result<Server, ServerError> {
        if let Some((option, reason)) = self.wrong_rule {
            return Err(ServerError::option(option, reason));
        }
        let registry = registry(self.registry, self.registered)?;
        registry.check_states(&self.states)?;
        let mut aggregations = self.aggregations;
        aggregations.serve(&registry, Aggregation::linked().chain(self.aggregated))?;
        let config = Config {
            queues: queues(self.queues, &registry)?,
            strict: self.strict,
            concurrency: self.concurrency.unwrap_or_else(default_concurrency),
            shutdown_timeout: self.shutdown_timeout?,
            on_unknown: self.on_unknown,
        };
        let heart = HeartThread::spawn().map_err(ServerError::Thread)?;
        let (broker, ours) = match self.place {
            Place::Broker(broker) => (broker, false),
            // Connected over there, because that is where its connections live.
            Place::Url(url) => (heart.call(async move { connect::connect(&url).await }).await??, true),
        };
        let executor = Executor::new(ExecutorParts {
            registry: registry.clone(),
            states: Arc::new(self.states),
            blocking: BlockingPool::new(self.blocking_limit),
            broker: Arc::clone(&broker),
            on_unknown: config.on_unknown,
            backoff: self.backoff,
        });
        Ok(Server {
            config,
            registry,
            broker,
            closes_broker: ours,
            executor,
            aggregations: Arc::new(aggregations),
            services: self.services,
            matches: self.matches,
            heart,
        })
    }
}

/// The jobs to serve; none at all cannot be meant.
fn registry(given: Option<Registry>, registered: Vec<JobDescriptor>) -> Result<Registry, ServerError> {
    let base = match given {
        Some(registry) => registry,
        None => Registry::linked()?,
    };
    let registry = Registry::from_descriptors(base.iter().copied().chain(registered))?;
    if registry.is_empty() {
        return Err(crate::job::RegistryError::NoJobs.into());
    }
    Ok(registry)
}

/// The queues to serve.
fn queues(given: Vec<(String, u32)>, registry: &Registry) -> Result<Vec<(QueueName, u32)>, ServerError> {
    if given.is_empty() {
        return Ok(queues_of(registry));
    }
    given
        .into_iter()
        .map(|(name, weight)| {
            let queue = QueueName::new(&name)?;
            if weight == 0 {
                let reason = format!("queue `{queue}` has weight 0: give it at least 1, or leave it out");
                return Err(ServerError::option("queues", reason));
            }
            Ok((queue, weight))
        })
        .collect()
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the URL: it may hold a password.
        f.debug_struct("ServerBuilder")
            .field("queues", &self.queues)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}
