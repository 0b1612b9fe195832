//! An application in memory: a broker, a clock that stands still, and the jobs of the program.

use std::{fmt::Write as _, future::Future, panic::Location, sync::Arc};

use chrono::{DateTime, SubsecRound as _, Utc};

use super::{
    drain::{self, Drained},
    said, timetable,
};
use crate::{
    broker::{
        Page,
        sqlite::{SqliteBroker, SqliteOptions},
    },
    client::Client,
    clock::{Clock, ManualClock},
    job::{Aggregates, Aggregation, BoxFuture, IntoSpan, Job, JobDescriptor, Registry, StateMap, decode_arguments},
    server::{Aggregations, IntoAggregated},
    task::{GroupName, TaskInfo, TaskState},
};

/// The states of tasks that have still to run.
const WAITING: [TaskState; 5] =
    [TaskState::Pending, TaskState::Scheduled, TaskState::Retry, TaskState::Aggregating, TaskState::Active];

/// An application for tests: its tasks live in memory, its clock stands still until [`advance`](Self::advance), and jobs
/// run only in [`drain`](Self::drain). Each has its own tasks, so tests may run side by side.
///
/// Its methods panic where a real program would report an error.
///
/// ```standalone_crate
/// # use asynq_runtime::prelude::*;
/// use asynq_runtime::testing::TestApp;
///
/// #[job]
/// async fn double(n: u64) -> JobResult<u64> {
///     Ok(n * 2)
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let app = TestApp::new().await;
/// let task = double::job(21).awaited().enqueue(app.client()).await.unwrap();
/// assert_eq!(app.wait(&task, "1m").await.done().unwrap(), 42);
/// # });
/// ```
#[derive(Debug)]
pub struct TestApp {
    client: Client,
    clock: ManualClock,
    registry: Registry,
    /// Why the linked jobs cannot be served together, until others are chosen.
    mistake: Option<String>,
    states: StateMap,
    aggregations: Aggregations,
    aggregated: Vec<Aggregation>,
    has_schedules: bool,
}

impl TestApp {
    /// An application with every job of this program, whose clock starts at the system's time, cut to a whole second. Where two of them
    /// have one name, the first method that needs the jobs panics, unless [`registry`](Self::registry) has chosen.
    ///
    /// # Panics
    ///
    /// There is no memory for the database.
    pub async fn new() -> Self {
        let clock = ManualClock::new(Utc::now().trunc_subsecs(0));
        let broker = SqliteBroker::in_memory(SqliteOptions::with_clock(clock.clone())).await;
        let broker = broker.unwrap_or_else(|error| panic!("the database in memory cannot be opened: {error}"));
        let (registry, mistake) = match Registry::linked() {
            Ok(registry) => (registry, None),
            Err(error) => (Registry::default(), Some(error.to_string())),
        };
        let client = Client::new(Arc::new(broker));
        let mut states = StateMap::default();
        states.insert(client.clone());
        let (aggregations, aggregated) = (Aggregations::default(), Vec::new());
        Self { client, clock, registry, mistake, states, aggregations, aggregated, has_schedules: false }
    }

    /// The jobs that are served.
    #[track_caller]
    fn jobs(&self) -> &Registry {
        match &self.mistake {
            Some(mistake) => panic!("{mistake}; or choose the jobs with `TestApp::registry`"),
            None => &self.registry,
        }
    }

    /// Gives the jobs a shared state. One that is missing is noticed when a job that needs it runs; a [`Client`] of this
    /// application is there.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(mut self, state: T) -> Self {
        self.states.insert(state);
        self
    }

    /// Runs these jobs instead of all that are linked, which may then have the same names.
    ///
    /// ```standalone_crate
    /// # use asynq_runtime::prelude::*;
    /// use asynq_runtime::testing::TestApp;
    ///
    /// mod old {
    ///     # use asynq_runtime::prelude::*;
    ///     #[job]
    ///     pub async fn report() {}
    /// }
    ///
    /// mod new {
    ///     # use asynq_runtime::prelude::*;
    ///     #[job]
    ///     pub async fn report() {}
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let app = TestApp::new().await.registry(Registry::only::<new::report>().unwrap());
    /// new::report::enqueue(app.client()).await.unwrap();
    /// assert_eq!(app.drain().await.succeeded, 1);
    /// # });
    /// ```
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        (self.registry, self.mistake) = (registry, None);
        self
    }

    /// Runs `J` too: a job written by hand, which is in no inventory.
    ///
    /// # Panics
    ///
    /// Another job has its name.
    #[must_use]
    pub fn register<J: Job>(mut self) -> Self {
        let job = JobDescriptor::of::<J>(std::any::type_name::<J>(), 0);
        let jobs = self.jobs().iter().copied().chain([job]);
        self.registry = Registry::from_descriptors(jobs).unwrap_or_else(|error| panic!("{error}"));
        self
    }

    /// Aggregates tasks into `J`, a job written by hand, and runs it too.
    ///
    /// # Panics
    ///
    /// Another job has its name.
    #[must_use]
    pub fn register_aggregate<J: Aggregates>(mut self) -> Self {
        self.aggregated.push(Aggregation::of::<J>(std::any::type_name::<J>(), 0));
        self.register::<J>()
    }

    /// Makes one task of all tasks that wait together in a group, as
    /// [`ServerBuilder::aggregate`](crate::server::ServerBuilder::aggregate) does.
    #[must_use]
    pub fn aggregate<F, R, How>(mut self, pattern: impl Into<String>, function: F) -> Self
    where
        F: Fn(GroupName, Vec<TaskInfo>) -> R + Send + Sync + 'static,
        R: IntoAggregated<How>,
    {
        self.aggregations.add_function(pattern.into(), function);
        self
    }

    /// A group is ripe when no task has joined it for this long, by the clock of this application; default 1 minute.
    ///
    /// # Panics
    ///
    /// It is below 1 s, or the text is not a duration.
    #[must_use]
    pub fn group_grace(mut self, grace: impl IntoSpan) -> Self {
        self.aggregations.set_grace(grace).unwrap_or_else(|(option, why)| panic!("{option}: {why}"));
        self
    }

    /// … or when its first task has waited for this long; default never.
    ///
    /// # Panics
    ///
    /// As [`group_grace`](Self::group_grace).
    #[must_use]
    pub fn group_max_delay(mut self, delay: impl IntoSpan) -> Self {
        self.aggregations.set_max_delay(delay).unwrap_or_else(|(option, why)| panic!("{option}: {why}"));
        self
    }

    /// … or when it has so many tasks, and never makes one of more; default 1000.
    ///
    /// # Panics
    ///
    /// It is 0.
    #[must_use]
    pub fn group_max_size(mut self, size: usize) -> Self {
        self.aggregations.set_max_size(size).unwrap_or_else(|(option, why)| panic!("{option}: {why}"));
        self
    }

    /// Fires the linked `#[periodic]` jobs when time passes: [`advance`](Self::advance) enqueues the task of each tick that
    /// lies in it, at its time, and a tick finds what the earlier ones left ([`drain`](Self::drain) in between for a job whose
    /// `overlap` is not `allow`). Ticks before the first `advance` are none. Default: periodic jobs run only when they are
    /// enqueued.
    #[must_use]
    pub fn with_schedules(mut self) -> Self {
        self.has_schedules = true;
        self
    }

    /// What enqueues into this application.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The time in this application.
    pub fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Lets time pass. Nothing runs by that; [`drain`](Self::drain) runs what is due then.
    ///
    /// # Panics
    ///
    /// The text is not a duration, or a schedule cannot be used.
    pub fn advance(&self, span: impl IntoSpan) -> BoxFuture<'_, ()> {
        let span = span.into_span().unwrap_or_else(|error| panic!("{error}"));
        Box::pin(async move {
            let end = ManualClock::new(self.now());
            end.advance(span);
            while self.has_schedules
                && let Some(at) = timetable::next(&self.client, self.jobs()).await
                && at > self.now()
                && at <= end.now()
            {
                self.clock.set(at);
                timetable::fire(&self.client, self.jobs()).await;
            }
            self.clock.set(end.now());
        })
    }

    /// Runs everything that is due, one task after the other, also what those tasks enqueue, until nothing is due.
    /// Ripe groups are aggregated too. Failed tasks wait for their retry: [`advance`](Self::advance), then drain again.
    ///
    /// # Panics
    ///
    /// It comes to no end, because tasks keep enqueuing tasks; or tasks of one job are aggregated into two.
    pub async fn drain(&self) -> Drained {
        let mut aggregations = self.aggregations.clone();
        let given = Aggregation::linked().chain(self.aggregated.iter().copied());
        aggregations.serve(self.jobs(), given).unwrap_or_else(|error| panic!("{error}"));
        drain::drain(self.client.broker(), self.jobs(), &self.states, &aggregations).await
    }

    /// Asserts that a task of `J` is waiting whose arguments `matches`, due now or later.
    ///
    /// # Panics
    ///
    /// There is none; the message lists what is there instead.
    #[track_caller]
    pub fn assert_enqueued<'a, J: Job>(&'a self, matches: impl Fn(&J) -> bool + 'a) -> impl Future<Output = ()> + 'a {
        let caller = Location::caller();
        async move {
            if !self.enqueued::<J>().await.iter().any(matches) {
                panic!("no such `{}` is enqueued (asserted at {caller}); {}", J::NAME, self.listing().await);
            }
        }
    }

    /// Asserts that no task of `J` is waiting whose arguments `matches`.
    ///
    /// # Panics
    ///
    /// There is one; the message lists everything that is there.
    #[track_caller]
    pub fn assert_not_enqueued<'a, J: Job>(
        &'a self,
        matches: impl Fn(&J) -> bool + 'a,
    ) -> impl Future<Output = ()> + 'a {
        let caller = Location::caller();
        async move {
            if self.enqueued::<J>().await.iter().any(matches) {
                panic!("such a `{}` is enqueued (asserted at {caller}); {}", J::NAME, self.listing().await);
            }
        }
    }

    /// The arguments of every task of `J` that is waiting, due now or later.
    ///
    /// # Panics
    ///
    /// One has a payload that is none of this job's.
    pub async fn enqueued<J: Job>(&self) -> Vec<J> {
        let tasks =
            self.tasks().await.into_iter().filter(|task| task.r#type == J::NAME && WAITING.contains(&task.state));
        tasks.map(|task| decode_arguments(&task.payload).unwrap_or_else(|error| panic!("{error}"))).collect()
    }

    /// Every task, in whatever state: waiting, archived, or kept after success.
    ///
    /// # Panics
    ///
    /// The database in memory failed.
    pub async fn tasks(&self) -> Vec<TaskInfo> {
        let broker = self.client.broker();
        let mut all = Vec::new();
        for queue in said(broker.queues().await) {
            for state in TaskState::ALL {
                for number in 1.. {
                    let page = said(broker.tasks(&queue, state, Page { number, size: 100 }).await);
                    let last = page.len() < 100;
                    all.extend(page);
                    if last {
                        break;
                    }
                }
            }
        }
        all
    }

    /// The task as it is now; `None` if it is gone, as after success without a retention.
    ///
    /// # Panics
    ///
    /// The database in memory failed.
    pub async fn task(&self, task: &TaskInfo) -> Option<TaskInfo> {
        said(self.client.broker().task(&task.queue, &task.id).await)
    }

    async fn listing(&self) -> String {
        let tasks = self.tasks().await;
        if tasks.is_empty() {
            return "there are no tasks at all".to_owned();
        }
        let mut text = "there is:".to_owned();
        for task in &tasks {
            let arguments = match self.jobs().get(&task.r#type).map(|job| job.show(&task.payload)) {
                Some(Ok(arguments)) => arguments.to_string(),
                _ => format!("{} bytes", task.payload.len()),
            };
            let due = match task.next_process_at.map(|at| (at - self.now()).to_std()) {
                Some(Ok(span)) if !span.is_zero() => format!(", due in {}", asynq_grammar::duration::format(span)),
                _ => String::new(),
            };
            let _ = write!(text, "\n  {} {arguments} ({} in {}{due})", task.r#type, task.state, task.queue);
        }
        text
    }
}
