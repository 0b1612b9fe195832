//! An application in memory: a broker, a clock that stands still, and the jobs of the program.

use std::{fmt::Write as _, future::Future, panic::Location, sync::Arc};

use chrono::{DateTime, SubsecRound as _, Utc};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::{
    drain::{Drained, Worker},
    timetable, unwrap_answer,
};
use crate::{
    app::{App, SetUpFuture},
    broker::{
        Page,
        sqlite::{SqliteBroker, SqliteOptions},
    },
    client::Client,
    clock::{Clock, ManualClock, later},
    job::{BoxError, BoxFuture, IntoSpan, Job, Registry, decode_arguments, is_named},
    server::{Server, ServerBuilder},
    task::{TaskInfo, TaskState},
};

/// The states of tasks that have still to run.
const WAITING: [TaskState; 5] =
    [TaskState::Pending, TaskState::Scheduled, TaskState::Retry, TaskState::Aggregating, TaskState::Active];

/// An application for tests: its tasks live in memory, its clock stands still until [`advance`](Self::advance), and jobs run
/// only in [`drain`](Self::drain). Each application has its own tasks, so tests may run side by side.
///
/// The methods panic where a real program would report an error.
///
/// The clock of tokio must not be paused (`start_paused`): the database works on a thread of its own, and a paused clock jumps to
/// the time-out of the call meanwhile.
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
pub struct TestApp {
    client: Client,
    clock: ManualClock,
    /// The settings of the worker; `None` once it has started.
    builder: Mutex<Option<ServerBuilder>>,
    worker: OnceCell<Worker>,
    has_schedules: bool,
}

impl TestApp {
    /// Returns an application with every job of this program, whose clock starts at the system's time, cut to a whole second.
    /// If two jobs have one name, the first method that needs the jobs panics, unless [`server`](Self::server) chose
    /// some by [`ServerBuilder::registry`].
    ///
    /// # Panics
    ///
    /// There is no memory for the database.
    pub async fn new() -> Self {
        let clock = ManualClock::new(Utc::now().trunc_subsecs(0));
        let broker = SqliteBroker::in_memory(SqliteOptions::with_clock(clock.clone())).await;
        let broker = broker.unwrap_or_else(|error| panic!("the database in memory cannot be opened: {error}"));
        let client = Client::new(Arc::new(broker));
        let builder = Mutex::new(Some(Server::builder("")));
        Self { client, clock, builder, worker: OnceCell::new(), has_schedules: false }
    }

    /// [`new`](Self::new) with the program's own set-up, the function that [`main!`](crate::main) is given. The set-up's
    /// jobs, states, layers, handlers, hooks, aggregations, back-off, order of retries and `on_unknown` count here too, and
    /// [`App::client`] is this application's client there. Settings without a meaning in a test are ignored: URL, limits of
    /// queues, priority, concurrency, the shutdown timeout, archives, health checks, services and their flags, and the
    /// environment. Every due task runs, in whatever queue; [`Drained::unserved`] has those in queues that the set-up leaves out.
    ///
    /// ```standalone_crate
    /// # use asynq_runtime::prelude::*;
    /// use std::time::Duration;
    ///
    /// use asynq_runtime::testing::TestApp;
    /// use tower::timeout::TimeoutLayer;
    ///
    /// struct Mailer(&'static str);
    ///
    /// #[job]
    /// async fn greet(mailer: State<Mailer>, name: String) {
    ///     println!("{name}: greetings from {}", mailer.0);
    /// }
    ///
    /// async fn setup(app: App) -> Result<App, BoxError> {
    ///     let app = app.state(Mailer("mail.example.com")).server(|server| server.layer(TimeoutLayer::new(Duration::from_secs(20))));
    ///     Ok(app)
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// // The test's state takes the place of the set-up's.
    /// let app = TestApp::with_setup(setup).await.state(Mailer("nowhere"));
    /// greet::enqueue(app.client(), "ann").await.unwrap();
    /// assert_eq!(app.drain().await.succeeded, 1);
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new); also if the set-up fails, or names its URL after it asked for its client.
    pub async fn with_setup<F, R>(setup: F) -> Self
    where
        F: FnOnce(App) -> R,
        R: SetUpFuture,
    {
        let app = Self::new().await;
        let set_up = setup(App::in_test(app.client.clone())).await.map_err(Into::<BoxError>::into);
        let set_up = set_up.unwrap_or_else(|error| panic!("the set-up failed: {error}"));
        let builder = set_up.into_builder().unwrap_or_else(|error| panic!("{error}"));
        app.server(|_| builder)
    }

    /// Changes other settings of this application's worker, as [`App::server`] does: the jobs, layers, handlers, hooks,
    /// aggregations; [`with_setup`](Self::with_setup) lists the ignored ones. A state or another single value replaces an earlier one,
    /// layers and hooks are added to earlier ones, and a second handler or aggregation of one pattern is a mistake.
    ///
    /// The hook `before_start` is called when the worker starts: with the first [`drain`](Self::drain) or [`wait`](Self::wait), or
    /// the first [`advance`](Self::advance) of an application with schedules. `on_drain` is never called.
    ///
    /// ```standalone_crate
    /// # use asynq_runtime::prelude::*;
    /// # use asynq_runtime::testing::TestApp;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let app = TestApp::new().await.server(|server| {
    ///     server.handle("image:", |task: RawTask| async move {
    ///         println!("{}: {} bytes", task.name(), task.payload().len());
    ///     })
    /// });
    /// app.client().enqueue(RawTask::new("image:resize", "cat.png")).await.unwrap();
    /// assert_eq!(app.drain().await.succeeded, 1);
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// The worker has started.
    #[must_use]
    pub fn server(mut self, configure: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let builder = self.builder.get_mut();
        match builder.take() {
            Some(configured) => *builder = Some(configure(configured)),
            None => panic!("configure a `TestApp` before its first `drain`, `wait` or scheduled `advance`"),
        }
        self
    }

    /// Returns the worker, which the first call starts.
    pub(super) async fn worker(&self) -> &Worker {
        let start = || async {
            let builder = self.builder.lock().take();
            match builder {
                Some(builder) => Worker::start(builder, &self.client).await,
                None => panic!("the worker of this `TestApp` could not start before"),
            }
        };
        self.worker.get_or_init(start).await
    }

    /// Gives the jobs a shared state. A missing state is noticed when a job that needs it runs; the state of type [`Client`],
    /// a client of this application, is always there.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(self, state: T) -> Self {
        self.server(|server| server.state(state))
    }

    /// Starts the clock at `now` instead of the system's time, so that a schedule has the same ticks whenever the test runs.
    /// Tasks that are there already keep their times.
    ///
    /// ```standalone_crate
    /// # use asynq_runtime::{prelude::*, testing::TestApp};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let app = TestApp::new().await.starting_at("2026-03-28T12:00:00Z".parse().unwrap());
    /// assert_eq!(app.now().to_rfc3339(), "2026-03-28T12:00:00+00:00");
    /// # });
    /// ```
    #[must_use]
    pub fn starting_at(self, now: DateTime<Utc>) -> Self {
        self.clock.set(now);
        self
    }

    /// Fires the linked `#[periodic]` jobs when time passes: [`advance`](Self::advance) enqueues the task of each tick in its
    /// span, at the time of the tick. The tasks of earlier ticks are still there then, so [`drain`](Self::drain) between the
    /// ticks of a job whose `overlap` is not `allow`, as [`wait`](Self::wait) does. Times before the first of these two calls have no
    /// ticks. As by a worker, the ticks of jobs that [`only`](ServerBuilder::only) and [`except`](ServerBuilder::except) leave to other
    /// workers are enqueued too. Default: periodic jobs run only when they are enqueued.
    #[must_use]
    pub fn with_schedules(mut self) -> Self {
        self.has_schedules = true;
        self
    }

    /// Returns when the next tick of a schedule is; `None` without schedules.
    pub(super) async fn next_tick(&self) -> Option<DateTime<Utc>> {
        if !self.has_schedules {
            return None;
        }
        timetable::next(&self.client, &self.worker().await.program).await.filter(|at| *at > self.now())
    }

    /// Returns the client that enqueues into this application.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the time of this application's clock.
    pub fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Lets `span` pass on the clock. No task runs then; [`drain`](Self::drain) runs the tasks that are due.
    ///
    /// # Panics
    ///
    /// The text is not a duration, or a schedule cannot be used.
    pub fn advance(&self, span: impl IntoSpan) -> BoxFuture<'_, ()> {
        let span = span.into_span().unwrap_or_else(|error| panic!("{error}"));
        Box::pin(async move {
            let end = later(self.now(), span);
            if self.has_schedules {
                let program = &self.worker().await.program;
                while let Some(at) = self.next_tick().await
                    && at <= end
                {
                    self.clock.set(at);
                    timetable::fire(&self.client, program).await;
                }
            }
            self.clock.set(end);
        })
    }

    /// Runs all due tasks, one after the other, also tasks that those enqueue, until nothing is due. Ripe groups are
    /// aggregated too. Failed tasks wait for their retry: [`advance`](Self::advance), then drain again.
    ///
    /// # Panics
    ///
    /// The drain does not end, because tasks keep enqueuing tasks; no server can be built of the settings; a hook
    /// `before_start` failed; or a layer failed when it was asked whether it is ready. A layer that is not ready is waited
    /// for, in real time.
    pub async fn drain(&self) -> Drained {
        self.worker().await.drain().await
    }

    /// Asserts that a waiting task of `J`, due now or later, has arguments that `matches` accepts.
    ///
    /// # Panics
    ///
    /// There is no such task; the message lists all tasks.
    #[track_caller]
    pub fn assert_enqueued<'a, J: Job>(&'a self, matches: impl Fn(&J) -> bool + 'a) -> impl Future<Output = ()> + 'a {
        let caller = Location::caller();
        async move {
            if !self.enqueued::<J>().await.iter().any(matches) {
                panic!("no such `{}` is enqueued (asserted at {caller}); {}", J::NAME, self.listing().await);
            }
        }
    }

    /// Asserts that no waiting task of `J` has arguments that `matches` accepts.
    ///
    /// # Panics
    ///
    /// There is such a task; the message lists all tasks.
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

    /// Returns the arguments of every waiting task of `J`, due now or later; also of tasks under an `alias` of the job.
    ///
    /// # Panics
    ///
    /// A task has a payload that is not one of this job; the message has the task's id and queue.
    pub async fn enqueued<J: Job>(&self) -> Vec<J> {
        let tasks =
            self.tasks().await.into_iter().filter(|task| is_named::<J>(&task.r#type) && WAITING.contains(&task.state));
        let read = |task: TaskInfo| {
            let arguments = decode_arguments(&task.payload);
            arguments.unwrap_or_else(|error| panic!("task {} in {} cannot be read: {error}", task.id, task.queue))
        };
        tasks.map(read).collect()
    }

    /// Returns every task, in whatever state: waiting, archived, or kept after success.
    ///
    /// # Panics
    ///
    /// The database in memory failed.
    pub async fn tasks(&self) -> Vec<TaskInfo> {
        let broker = self.client.broker();
        let mut all = Vec::new();
        for queue in unwrap_answer(broker.queues().await) {
            for state in TaskState::ALL {
                for number in 1.. {
                    let page = unwrap_answer(broker.tasks(&queue, state, Page { number, size: 100 }).await);
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

    /// Returns the task as it is now; `None` if it is gone, as after success without a retention.
    ///
    /// # Panics
    ///
    /// The database in memory failed.
    pub async fn task(&self, task: &TaskInfo) -> Option<TaskInfo> {
        unwrap_answer(self.client.broker().task(&task.queue, &task.id).await)
    }

    async fn listing(&self) -> String {
        let tasks = self.tasks().await;
        if tasks.is_empty() {
            return "there are no tasks at all".to_owned();
        }
        let mut text = "there is:".to_owned();
        let linked = Registry::linked().unwrap_or_default();
        let registry = self.worker.get().map_or(&linked, |worker| &worker.program);
        for task in &tasks {
            let arguments = match registry.get(&task.r#type).map(|job| job.show(&task.payload)) {
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

partial_debug!(TestApp { clock as Clock::now, .. });
