//! The program that `main!()` runs: a worker and the few commands beside it, set up by flags, environment and the program's own
//! set-up function.
//!
//! | flag | environment | in the set-up | default |
//! |---|---|---|---|
//! | `--url` | `ASYNQ_URL` | [`App::url`] | `sqlite://asynq.db` |
//! | `--queues critical=6,default=3/10` | `ASYNQ_QUEUES` | [`App::queue`], [`App::queue_concurrency`] | `default` and every queue that a job names |
//! | `--only a,b:*` | `ASYNQ_ONLY` | [`App::only`] | every job |
//! | `--except c` | `ASYNQ_EXCEPT` | [`App::except`] | none |
//! | `--concurrency` | `ASYNQ_CONCURRENCY` | [`App::concurrency`] | the number of processors |
//! | `--shutdown-timeout 30s` | `ASYNQ_SHUTDOWN_TIMEOUT` | [`App::shutdown_timeout`] | `8s` |
//! | `--log-format text\|json` | `ASYNQ_LOG_FORMAT` | – | `text` |
//! | – | `RUST_LOG` | – | `info` |
//!
//! `main!` and the flags come with the feature `main`, which is on by default. Of each row the leftmost setting counts; an
//! empty variable counts as not set, and an empty flag is an error. An entry of `--queues` is a name, or a pattern such as
//! `tenant:*`, with its weight after `=` and the most tasks at a time after `/`.

#[cfg(feature = "main")]
mod cli;
#[cfg(feature = "main")]
mod command;
mod env;
mod error;
#[cfg(feature = "main")]
mod logs;
#[cfg(feature = "main")]
mod main_macro;
#[cfg(feature = "main")]
mod program;
mod set_up;
mod start_runtime;
#[cfg(feature = "main")]
mod table;
mod terminal;

/// Says that `main!` needs its feature, where the compiler would look for a function of that name.
#[cfg(not(feature = "main"))]
#[doc(hidden)]
#[macro_export]
macro_rules! main {
    ($($all:tt)*) => {
        ::std::compile_error!(
            "`main!` comes with the feature `main`, which is on by default: in Cargo.toml write `features = [\"main\"]` for \
             asynq-runtime or asynq-jobs, or a `main` of your own with `Server::builder`"
        );

        fn main() {}
    };
}

use std::{future::Future, sync::OnceLock, time::Duration};

use parking_lot::Mutex;

use self::env::Settings;
#[doc(hidden)]
pub use self::start_runtime::start_runtime;
pub use self::{error::AppError, set_up::SetUpFuture};
use crate::{
    client::Client,
    connect::{self, DEFAULT_URL},
    job::{IntoSpan, InvalidSpan, StateMap},
    server::{OsRequests, Server, ServerBuilder},
};

/// The options of a worker, which a set-up function receives and returns.
///
/// Flags and environment variables override the options that are set here. The settings of [`server`](Self::server) come last: a
/// single value replaces both, and a queue or a choice of jobs is added to the others.
///
/// ```no_run
/// # mod program {
/// use asynq_runtime::prelude::*;
///
/// #[job(queue = "mail")]
/// async fn greet(hello: State<String>, name: String) {
///     println!("{} {name}", *hello);
/// }
///
/// async fn setup(app: App) -> Result<App, BoxError> {
///     Ok(app.queue("mail", 3).concurrency(20).state("hello".to_owned()))
/// }
///
/// asynq_runtime::main!(setup);
/// # }
/// # fn main() {}
/// ```
#[must_use = "a set-up function gives it back"]
#[derive(Default)]
pub struct App {
    /// The settings of flags and environment, where the program of [`main!`](crate::main) has read them already.
    settings: Option<Settings>,
    /// The options of the set-up that the settings override one by one.
    own: Settings,
    /// The client of a `TestApp`, whatever the URL says.
    client: Option<Client>,
    /// The URL of the client, once [`client`](Self::client) has connected.
    client_url: OnceLock<String>,
    queues: Vec<(String, u32)>,
    limits: Vec<(String, usize)>,
    shutdown_timeout: Option<Result<Duration, InvalidSpan>>,
    states: StateMap,
    // Options that no flag overrides, applied to the server's builder in order. Nothing locks the mutex: it makes an `App`
    // `Sync`, so that the future of a set-up, which holds `&App` while `client` connects, is `Send`.
    rest: Mutex<Vec<Box<Configure>>>,
}

type Configure = dyn FnOnce(ServerBuilder) -> ServerBuilder + Send;

impl App {
    /// Returns a worker with all defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the broker, such as `redis://127.0.0.1:6379`; default `sqlite://asynq.db`.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.own.url = Some(url.into());
        self
    }

    /// Returns a worker with these settings of flags and environment.
    #[cfg(any(feature = "main", test))]
    fn with_settings(settings: Settings) -> Self {
        Self { settings: Some(settings), ..Self::new() }
    }

    /// Returns a worker for a test: `client` is its client, and it reads neither flags nor environment.
    #[cfg(feature = "sqlite")]
    pub(crate) fn in_test(client: Client) -> Self {
        Self { settings: Some(Settings::default()), client: Some(client), ..Self::new() }
    }

    /// Connects a client to the broker of this worker: the one that flags, environment and [`url`](Self::url) name. The client is
    /// for tasks that the set-up enqueues; jobs have `State<Client>` without it.
    ///
    /// ```no_run
    /// # mod program {
    /// use asynq_runtime::prelude::*;
    ///
    /// #[job]
    /// async fn warm_up() {}
    ///
    /// async fn setup(app: App) -> Result<App, BoxError> {
    ///     warm_up::job().task_id("warm-up").enqueue(&app.client().await?).await?;
    ///     Ok(app)
    /// }
    ///
    /// asynq_runtime::main!(setup);
    /// # }
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// A variable cannot be read, the broker is not reachable, or the database is in memory, where only the worker itself can
    /// reach it. Call [`url`](Self::url) first: a worker whose URL changes after this call does not start.
    pub async fn client(&self) -> Result<Client, AppError> {
        let settings = self.settings()?;
        let url = settings.url.as_deref().unwrap_or(DEFAULT_URL);
        if connect::is_in_memory(url) {
            let reason =
                "a database in memory has one connection, the worker's: enqueue from a job, by `State<Client>`";
            return Err(AppError::setting("App::client", reason));
        }
        let client = match &self.client {
            Some(client) => client.clone(),
            None => Client::connect(url).await?,
        };
        let _ = self.client_url.set(url.to_owned());
        Ok(client)
    }

    fn settings(&self) -> Result<Settings, AppError> {
        let given = self.settings.clone().map_or_else(|| Settings::from_env(env::variable), Ok)?;
        Ok(given.or(self.own.clone()))
    }

    /// Serves a queue with this weight, at least 1. The default is `default` and every queue that a job names, weight 1
    /// each; with a queue that is named here, only the named ones are served.
    pub fn queue(mut self, name: impl Into<String>, weight: u32) -> Self {
        self.queues.push((name.into(), weight));
        self
    }

    /// Sets how many tasks of one queue run at a time at most; see [`ServerBuilder::queue_concurrency`]. With `--queues` the
    /// limits in that flag count, and these for the queues that it names without a limit.
    pub fn queue_concurrency(mut self, name: impl Into<String>, limit: usize) -> Self {
        self.limits.push((name.into(), limit));
        self
    }

    /// Runs only jobs of these names; see [`ServerBuilder::only`].
    pub fn only<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.own.only.get_or_insert_default().extend(names.into_iter().map(Into::into));
        self
    }

    /// Runs all jobs but these; see [`ServerBuilder::except`].
    pub fn except<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.own.except.get_or_insert_default().extend(names.into_iter().map(Into::into));
        self
    }

    /// Applies further options of a server: strict priority, the limit of blocking jobs, the back-off, the registry, aggregations,
    /// services, layers, handlers, hooks, a health check.
    ///
    /// ```
    /// # use asynq_runtime::prelude::*;
    /// async fn setup(app: App) -> Result<App, BoxError> {
    ///     Ok(app.server(|server| server.on_archive(|task| async move { eprintln!("given up: {}", task.error) })))
    /// }
    /// ```
    pub fn server(mut self, configure: impl FnOnce(ServerBuilder) -> ServerBuilder + Send + 'static) -> Self {
        self.rest.get_mut().push(Box::new(configure));
        self
    }

    /// Sets how many tasks run at a time at most; 0, as the default, is the number of processors. In a flag or a variable 0 is an
    /// error.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.own.concurrency = Some(concurrency);
        self
    }

    /// Sets how long a stopping worker lets running jobs go on before it requeues them; default 8 s.
    pub fn shutdown_timeout(mut self, timeout: impl IntoSpan) -> Self {
        self.shutdown_timeout = Some(timeout.into_span());
        self
    }

    /// Gives the jobs a shared state; a second state of the same type replaces the first. Jobs have a [`Client`] of the worker's
    /// broker without it.
    pub fn state<T: Send + Sync + 'static>(mut self, state: T) -> Self {
        self.states.insert(state);
        self
    }

    /// Makes the server, environment variables first, and connects; for programs with a `main` of their own.
    ///
    /// # Errors
    ///
    /// A variable cannot be read, or [`ServerBuilder::build`] fails.
    pub async fn build(self) -> Result<Server, AppError> {
        Ok(self.into_builder()?.build().await?)
    }

    /// Makes the server as [`build`](Self::build) does, then works until it is asked to stop, which it may be from now on: a TERM or
    /// INT while it connects ends it, too, without an error. A future that is dropped is a crash of all that runs: see [`Server::run`].
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build), or the error that ended the worker.
    pub async fn run(self) -> Result<(), AppError> {
        run_built(self.build()).await
    }

    pub(crate) fn into_builder(self) -> Result<ServerBuilder, AppError> {
        let settings = self.settings()?;
        let url = settings.url.as_deref().unwrap_or(DEFAULT_URL);
        if self.client_url.get().is_some_and(|before| before != url) {
            let reason = "it is named after `App::client`, which connected to another broker: name it first";
            return Err(AppError::setting("App::url", reason));
        }
        let mut builder = Server::builder(url).states(self.states);
        match settings.queues {
            None => {
                builder = builder.queues(self.queues);
                builder =
                    self.limits.into_iter().fold(builder, |builder, (name, n)| builder.queue_concurrency(name, n));
            }
            Some(queues) => {
                for env::Queue { name, weight, limit } in queues {
                    let own = || self.limits.iter().rev().find(|(known, _)| *known == name).map(|(_, limit)| *limit);
                    let limit = limit.or_else(own);
                    builder = builder.queue(name.clone(), weight);
                    builder = limit.into_iter().fold(builder, |builder, n| builder.queue_concurrency(name.clone(), n));
                }
            }
        }
        builder = builder.except(settings.except.unwrap_or_default());
        if let Some(names) = settings.only {
            builder = builder.only(names);
        }
        if let Some(concurrency) = settings.concurrency {
            builder = builder.concurrency(concurrency);
        }
        let own = self.shutdown_timeout.transpose();
        let shutdown_timeout = match settings.shutdown_timeout {
            None => own.map_err(|error| AppError::setting("App::shutdown_timeout", error))?,
            timeout => timeout,
        };
        if let Some(timeout) = shutdown_timeout {
            builder = builder.shutdown_timeout(timeout);
        }
        let rest = self.rest.into_inner();
        Ok(rest.into_iter().fold(builder, |builder, apply| apply(builder)))
    }
}

/// Runs the server that `build` makes, and obeys requests to leave meanwhile.
async fn run_built(build: impl Future<Output = Result<Server, AppError>>) -> Result<(), AppError> {
    // The first process of a container does not get a signal that it has no handler for, and a supervisor sends TERM once.
    let (_listening, mut requests) = OsRequests::listen();
    let Some(server) = requests.unless_leaving(build).await else { return Ok(()) };
    Ok(server?.run().await?)
}

// Not the URL: it may hold a password.
partial_debug!(App { queues, states, .. });

#[doc(hidden)]
pub use self::{
    env::wants_colours,
    terminal::{escaped, harmless_fields, is_hostile},
};
#[cfg(feature = "main")]
#[doc(hidden)]
pub use self::{
    main_macro::{main_with, main_without},
    program::Program,
};
#[doc(hidden)]
pub use crate::{
    censor::{usage_without_passwords, without_passwords},
    connect::text_of_variable,
    variables::warn_of_misspelled_variables,
};

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::job::{Job, JobContext, JobResult};

    #[derive(Serialize, Deserialize)]
    struct Tidy {}

    impl Job for Tidy {
        const NAME: &'static str = "app tests: tidy";
        type Output = JobResult;
        async fn run(self, _: &JobContext) -> JobResult {
            Ok(())
        }
    }

    fn app(settings: Settings) -> App {
        App::with_settings(settings)
            .url("sqlite::memory:")
            .server(|server| server.register::<Tidy>().strict_priority())
            .queue("mails", 2)
            .concurrency(7)
    }

    #[tokio::test]
    async fn the_set_up_holds_where_no_flag_or_variable_is_set() {
        let server = app(Settings::default()).build().await.unwrap();
        assert_eq!((server.concurrency(), server.queues().collect::<Vec<_>>()), (7, vec![("mails", 2)]));
        assert!(server.registry().get("app tests: tidy").is_some());
        let default = Server::builder("sqlite::memory:").register::<Tidy>().build().await.unwrap().concurrency();
        assert_eq!(app(Settings::default()).concurrency(0).build().await.unwrap().concurrency(), default);
    }

    #[tokio::test]
    async fn flags_and_environment_replace_the_values_of_the_set_up() {
        let low = env::Queue { name: "low".into(), weight: 1, limit: None };
        let mails = env::Queue { name: "mails".into(), limit: Some(9), ..low.clone() };
        let queues = Some(vec![low.clone()]);
        let settings = Settings { queues, concurrency: Some(2), ..Settings::default() };
        let server = app(settings).build().await.unwrap();
        assert_eq!(server.queue_limits().collect::<Vec<_>>(), []);
        let limited = |settings| app(settings).queue_concurrency("mails", 3).queue_concurrency("low", 4);
        let settings = Settings { queues: Some(vec![low, mails]), ..Settings::default() };
        let with_limits = limited(settings).build().await.unwrap();
        assert_eq!(with_limits.queue_limits().collect::<Vec<_>>(), [("low", 4), ("mails", 9)]);
        let error = limited(Settings::default()).build().await.unwrap_err().to_string();
        assert!(error.contains("does not serve `low`"), "{error}");
        assert_eq!((server.concurrency(), server.queues().collect::<Vec<_>>()), (2, vec![("low", 1)]));
    }

    #[tokio::test]
    async fn a_choice_by_flag_replaces_that_of_the_set_up() {
        let app =
            |settings| App::with_settings(settings).url("sqlite::memory:").server(ServerBuilder::register::<Tidy>);
        let only = |name: &str| Settings { only: Some(vec![name.to_owned()]), ..Settings::default() };
        let built = app(only("app tests: *")).only(["nothing"]).build().await;
        assert_eq!(built.unwrap().registry().len(), 1);
        let error = app(only("app tests: tidi")).build().await.unwrap_err().to_string();
        assert!(error.contains("did you mean `app tests: tidy`?"), "{error}");
        // A list that a program reads from its configuration may turn out empty.
        let empty = |settings| app(settings).only([""; 0]);
        let error = empty(Settings::default()).build().await.unwrap_err().to_string();
        assert!(error.contains("it names no job: name those to run, or leave it out to run all"), "{error}");
        assert_eq!(empty(only("app tests: *")).build().await.unwrap().registry().len(), 1);
    }

    #[test]
    fn an_app_and_a_set_up_that_asks_for_its_client_may_be_used_by_several_threads() {
        fn is_send(_: impl Send) {}
        fn is_sync(_: &impl Sync) {}
        let app = App::new().server(ServerBuilder::strict_priority);
        is_sync(&app);
        is_send(async move { app.client().await.map(|_| app) });
    }

    #[test]
    fn an_invalid_time_is_an_error_unless_a_flag_replaces_it() {
        let app = |settings| App::with_settings(settings).shutdown_timeout("soon");
        let error = app(Settings::default()).into_builder().unwrap_err().to_string();
        assert!(error.starts_with("App::shutdown_timeout: invalid duration \"soon\""), "{error}");
        let settings = Settings { shutdown_timeout: Some(Duration::from_secs(1)), ..Settings::default() };
        assert!(app(settings).into_builder().is_ok());
    }

    #[tokio::test]
    async fn a_set_up_reaches_the_broker_that_the_flag_names() {
        let folder = tempfile::tempdir().unwrap();
        let url = |name: &str| format!("sqlite://{}", folder.path().join(name).display());
        let flag = Settings { url: Some(url("flag.db")), ..Settings::default() };
        let app = App::with_settings(flag).url(url("set-up.db")).server(ServerBuilder::register::<Tidy>);
        app.client().await.unwrap().enqueue(Tidy {}).await.unwrap();
        let server = app.build().await.unwrap();
        let waiting = Client::new(std::sync::Arc::clone(server.broker())).inspector().queue("default").await.unwrap();
        assert_eq!(waiting.pending, 1);
        assert!(!folder.path().join("set-up.db").exists());
    }

    #[tokio::test]
    async fn a_client_never_belongs_to_another_broker_than_the_worker() {
        let folder = tempfile::tempdir().unwrap();
        let app = App::with_settings(Settings::default()).server(ServerBuilder::register::<Tidy>);
        let app = app.url(format!("sqlite://{}", folder.path().join("first.db").display()));
        app.client().await.unwrap();
        let error = app.url("sqlite://another.db").into_builder().unwrap_err().to_string();
        assert!(error.starts_with("App::url: it is named after `App::client`"), "{error}");
        for url in ["sqlite::memory:", "sqlite::memory:?durability=normal"] {
            let error = App::with_settings(Settings::default()).url(url).client().await.unwrap_err().to_string();
            assert!(error.starts_with("App::client: a database in memory"), "{error}");
        }
    }
}
