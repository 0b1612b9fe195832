//! The scheduler as a service of a server, beside its jobs.

use std::{ffi::OsString, future::Future, sync::Arc, time::Duration};

use asynq_runtime::{
    BoxError, Registry,
    app::text_of_variable,
    job::{BoxFuture, IntoSpan, InvalidSpan},
    server::{Flag, Flags, Service, ServiceContext, ServiceEntry, ServiceRow},
};
use chrono::Utc;

use crate::{
    Periodic, PeriodicEntry,
    leader::SHORTEST_TTL,
    scheduler::{self, Provider, Settings},
};

/// The release of this program, a number that grows, for example the Unix seconds of the build.
const RELEASE: &str = "ASYNQ_RELEASE";
/// The name of this program, the same in all of its versions.
const PROGRAM: &str = "ASYNQ_PROGRAM";
/// The longest time that a setting may have: the scheduler adds it to instants, which must not overflow.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// Makes a scheduler for `ServerBuilder::service`, which a set-up function reaches by `App::server`, with the `#[periodic]` jobs of
/// this program and the entries that are added to it.
///
/// No program needs to call this for its `#[periodic]` jobs. Every server schedules them, of `main!()` or of `Server::builder`,
/// unless it leaves linked services out
/// ([`without_linked_services`](asynq_runtime::server::ServerBuilder::without_linked_services)) or was given its registry. A
/// scheduler that is passed to a server takes the place of that one, and `--no-schedule` leaves it out as well. Pass one with all
/// entries: of several one leads, and entries that only the others have are not fired.
///
/// ```no_run
/// use asynq_cron::prelude::*;
/// use asynq_runtime::prelude::*;
///
/// #[job]
/// async fn report(customer: u64) -> JobResult { Ok(()) }
///
/// /// The entry of a row. One that cannot be read is left out with a warning, and the others go on.
/// fn entry(id: u64, spec: &str) -> Periodic {
///     let key = id.to_string();
///     let entry = || -> Result<Periodic, BoxError> { Ok(Periodic::new(spec.parse()?, report::job(id))?.key(&key)) };
///     entry().unwrap_or_else(|error| Periodic::invalid("report", &key, error))
/// }
///
/// # async fn serve() -> Result<(), BoxError> {
/// let scheduler = asynq_cron::service().provider("1m", || async {
///     // From a table of yours.
///     let customers = [(7, "0 9 * * *"), (8, "@hourly")];
///     Ok(customers.into_iter().map(|(id, spec)| entry(id, spec)).collect())
/// });
/// Server::builder("redis://127.0.0.1:6379").service(scheduler).build().await?.run().await?;
/// # Ok(())
/// # }
/// ```
pub fn service() -> SchedulerService {
    SchedulerService {
        linked: true,
        entries: Vec::new(),
        provider: None,
        ttl: Ok(Duration::from_secs(10)),
        election: true,
        program: None,
        release: None,
        sync_every: Ok(Duration::from_secs(180)),
        checked: None,
    }
}

/// A scheduler; [`service`] makes one.
#[must_use = "a scheduler does nothing until it is given to a server"]
pub struct SchedulerService {
    linked: bool,
    entries: Vec<Periodic>,
    provider: Option<Provider>,
    ttl: Result<Duration, InvalidSpan>,
    election: bool,
    program: Option<String>,
    release: Option<u64>,
    /// The interval of the provider, or the first mistake about providers.
    sync_every: Result<Duration, String>,
    /// The settings and entries, once they are checked.
    checked: Option<(Settings, Vec<Arc<Periodic>>)>,
}

impl SchedulerService {
    /// Adds an entry. If the program does not have the job of the entry, the server does not start, unless the entry is
    /// [`foreign`](Periodic::foreign). A server may schedule a job that its choice (`--only`, `--except`) leaves to other servers.
    pub fn entry(mut self, entry: Periodic) -> Self {
        self.entries.push(entry);
        self
    }

    /// Calls `entries` for further entries at the start and then once per `every`, in each replica, whether or not it leads; asynq uses
    /// 3 minutes. Less than 1 s counts as that, and more than a year as a year. New entries are added, changed ones replaced, and
    /// missing ones removed, and forgotten half a lease later unless another program lists them: one that goes while no scheduler leads,
    /// or less than that before the leader stops, is remembered for a month, and goes on with its last tick if it comes back. An error
    /// changes nothing: with one for a row that cannot be read, no entry is added, changed or removed any more. Return
    /// [`Periodic::invalid`] for such a row.
    ///
    /// Entries with arguments should have a [`key`](Periodic::key). One with a `HashMap` in its arguments needs it: the map writes
    /// its keys in another order each time, so that each call would replace the entry by another one.
    ///
    /// One call runs at a time. A call that has not returned after the longer of `every` and 30 s is dropped with a warning and
    /// changes nothing either. Ticks do not wait for it; only a scheduler that gets the lead asks for the entries before it plans
    /// them, and plans the known ones after an error or 30 s.
    ///
    /// A scheduler has one provider. With a second one the server does not start, and neither with a text that is not a duration.
    pub fn provider<F, R>(mut self, every: impl IntoSpan, entries: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<Vec<Periodic>, BoxError>> + Send + 'static,
    {
        let every = every.into_span().map_err(|error| format!("invalid interval of the provider: {error}"));
        self.sync_every = match self.provider.replace(Provider(Arc::new(move || Box::pin(entries())))) {
            None => every.map(|every| every.clamp(Duration::from_secs(1), LONGEST)),
            Some(_) => Err("`provider` is given twice: give one provider that returns the entries of both".to_owned()),
        };
        self
    }

    /// Leaves the `#[periodic]` jobs of the program out.
    pub fn without_linked(mut self) -> Self {
        self.linked = false;
        self
    }

    /// Sets how long the leader leads without renewing its lead, which is also how late ticks are after its death; default 10 s. Less
    /// than 3 s counts as that, and more than a year as a year. With half a minute or more, `missed = "skip"` may leave out a tick of
    /// that time; more than ten times that of another version, and both may lead in turns while both run. With a text that is not a
    /// duration the server does not start.
    pub fn leader_ttl(mut self, ttl: impl IntoSpan) -> Self {
        self.ttl = ttl.into_span().map(|ttl| ttl.clamp(SHORTEST_TTL, LONGEST));
        self
    }

    /// Sets whether one scheduler leads (default), or all send every tick, of which the broker accepts one.
    pub fn election(mut self, election: bool) -> Self {
        self.election = election;
        self
    }

    /// Sets the name of this program, the same in all of its replicas and versions. The schedulers of one program elect one of
    /// them, and a newer version takes the schedule over from an older one. Programs with other names on the same broker schedule
    /// their own entries. Default: the environment variable `ASYNQ_PROGRAM`, or else the name of the program's file.
    ///
    /// If two programs have one name, for example `server` in two containers, one of them leads, and entries that only the other
    /// one has are not fired; the other one warns of each of them, but not of those of a [`provider`](Self::provider). Give each
    /// program its own name.
    pub fn program(mut self, name: impl Into<String>) -> Self {
        self.program = Some(name.into());
        self
    }

    /// Sets the release of this program, a number that grows; a newer release takes the schedule over from an older one. Default:
    /// the environment variable `ASYNQ_RELEASE`, or else the modification time of the program's file.
    pub fn release(mut self, release: u64) -> Self {
        self.release = Some(release);
        self
    }

    fn check(&mut self, registry: &Registry) -> Result<(), BoxError> {
        let revision = match self.release {
            Some(release) => release,
            None => release(std::env::var_os(RELEASE))?,
        };
        let mut entries = Vec::new();
        if self.linked {
            for entry in PeriodicEntry::linked() {
                entries.push(entry.to_periodic()?.foreign());
            }
        }
        entries.append(&mut self.entries);
        let settings = Settings {
            ttl: self.ttl.clone().map_err(|error| format!("invalid option `leader_ttl`: {error}"))?,
            election: self.election,
            program: self.program.take().map_or_else(|| program(std::env::var_os(PROGRAM)), Ok)?,
            revision,
            sync_every: self.sync_every.clone()?,
        };
        self.checked = Some((settings, scheduler::checked(entries, registry)?));
        Ok(())
    }
}

partial_debug!(SchedulerService { linked, entries, ttl, election, program, release, sync_every, .. });

impl Service for SchedulerService {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    /// The scheduler runs on the heartbeat runtime, so that a job that blocks its runtime does not stop the schedule.
    fn runs_beside_heartbeat(&self) -> bool {
        true
    }

    /// A server without jobs may schedule entries for other programs' workers.
    fn stands_alone(&self) -> bool {
        !self.entries.is_empty() || self.provider.is_some()
    }

    /// `--no-schedule` also leaves out a scheduler that the program brings itself: a move to another broker relies on the flag.
    fn is_left_out(&self, flags: &Flags) -> bool {
        flags.is_set(NO_SCHEDULE)
    }

    fn before_start<'a>(&'a mut self, cx: &'a ServiceContext) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(std::future::ready(self.check(cx.registry())))
    }

    fn run(self: Box<Self>, cx: ServiceContext) -> BoxFuture<'static, Result<(), BoxError>> {
        Box::pin(async move {
            let Self { checked, provider, .. } = *self;
            let (settings, entries) = checked.ok_or("`before_start` was not called")?;
            scheduler::run(settings, entries, provider, cx).await;
            Ok(())
        })
    }
}

/// The trimmed value of a variable; `None` for a blank one.
fn text(variable: &str, value: Option<OsString>) -> Result<Option<String>, BoxError> {
    text_of_variable(value).map_err(|reason| format!("{variable}: {reason}").into())
}

/// The name of the program: the variable, or the name of its file. Linux adds a suffix to the path of a file that a deploy has
/// replaced.
fn program(variable: Option<OsString>) -> Result<String, BoxError> {
    if let Some(name) = text(PROGRAM, variable)? {
        return Ok(name);
    }
    let path = std::env::current_exe().unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(name.strip_suffix(" (deleted)").unwrap_or(&name).to_owned())
}

/// The release: the variable, or the modification time of the program's file.
fn release(variable: Option<OsString>) -> Result<u64, BoxError> {
    match text(RELEASE, variable)? {
        Some(text) => text.parse().map_err(|_| {
            format!("{RELEASE} is `{text}`; it must be a whole number, such as the Unix seconds of the build").into()
        }),
        None => {
            let written = std::env::current_exe().and_then(std::fs::metadata).and_then(|file| file.modified());
            let since = written.ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
            Ok(since.map_or(0, |since| since.as_secs()))
        }
    }
}

asynq_runtime::__private::inventory::submit! {
    ServiceEntry::new("periodic", make)
        .flags(flags)
        .rows(|| PeriodicEntry::code().map_or_else(Vec::new, |code| (code.rows)()))
}

fn make(_: &Flags) -> Option<Box<dyn Service>> {
    PeriodicEntry::code().map(|code| (code.scheduler)())
}

pub(crate) fn linked() -> Box<dyn Service> {
    Box::new(service())
}

const NO_SCHEDULE: &str = "no-schedule";

fn flags() -> Vec<Flag> {
    let flag = Flag::switch(NO_SCHEDULE, "Run jobs only, and leave the periodic ones to other programs to schedule");
    // A program without `#[periodic]` jobs mostly does not need the flag; one that brings a scheduler itself still has it.
    vec![flag.hidden(PeriodicEntry::code().is_none())]
}

pub(crate) fn rows() -> Vec<ServiceRow> {
    let now = Utc::now();
    let row = |entry: &&PeriodicEntry| match entry.to_periodic() {
        Ok(periodic) => {
            let spec = periodic.spec();
            ServiceRow::new(periodic.job(), format!("{spec} · {}", spec.sentence())).next(spec.upcoming_after(now, 5))
        }
        Err(error) => ServiceRow::new(entry.job.name, error.to_string()),
    };
    PeriodicEntry::linked().iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_a_number() {
        assert_eq!(release(Some(" 17 ".into())).expect("a number"), 17);
        assert!(release(Some("v2".into())).expect_err("no number").to_string().contains("ASYNQ_RELEASE is `v2`"));
        // The file of this test was written after this line.
        assert!(release(None).expect("a time") > 1_700_000_000);
        assert_eq!(release(Some(" ".into())).expect("a time"), release(None).expect("a time"));
    }

    #[test]
    fn a_program_has_the_name_of_its_file_or_the_one_that_it_was_given() {
        let program = |variable| program(variable).expect("a name");
        assert_eq!(program(Some(" shop ".into())), "shop");
        // The file of this test is asynq_cron-HASH.
        assert!(program(None).starts_with("asynq_cron-"), "{}", program(None));
        assert_eq!(program(Some(" ".into())), program(None));
    }

    #[test]
    fn a_variable_that_is_not_text_is_not_taken_for_unset() {
        use std::os::unix::ffi::OsStringExt as _;

        let garbled = || Some(OsString::from_vec(b"shop\xff".to_vec()));
        let error = program(garbled()).expect_err("not text").to_string();
        assert_eq!(error, "ASYNQ_PROGRAM: its value is not UTF-8 text");
        let error = release(garbled()).expect_err("not text").to_string();
        assert_eq!(error, "ASYNQ_RELEASE: its value is not UTF-8 text");
    }

    #[test]
    fn settings_keep_within_reason() {
        let service =
            service().leader_ttl(Duration::from_millis(1)).provider(Duration::ZERO, || async { Ok(Vec::new()) });
        assert_eq!((service.ttl.clone(), service.sync_every.clone()), (Ok(SHORTEST_TTL), Ok(Duration::from_secs(1))));
        assert!(service.election && !service.election(false).election);
        // The scheduler adds these times to instants, at most three leases.
        let service = crate::service().leader_ttl(Duration::MAX);
        let service = service.provider(Duration::MAX, || async { Ok(Vec::new()) });
        let (ttl, sync_every) = (service.ttl.expect("a time"), service.sync_every.expect("a time"));
        assert!(std::time::Instant::now().checked_add(ttl.saturating_mul(3)).is_some());
        assert!(std::time::Instant::now().checked_add(sync_every).is_some());
    }
}
