//! Parses the command line of a program, and runs the command that it names.

use std::{
    ffi::OsString,
    io::Write as _,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    process::ExitCode,
};

use clap::{
    Arg, ArgAction, ArgMatches, Command,
    error::{ContextKind, ContextValue, ErrorKind},
};
use tracing_subscriber::filter::LevelFilter;

use super::{
    command,
    env::{self, Field, LogFormat, Settings},
    error::AppError,
    logs,
    program::{Program, SetUp},
    run_built,
    start_runtime::start_runtime,
};
use crate::{
    censor::usage_without_passwords,
    connect::text_of_variable,
    server::{Flag, Flags, RUN_TARGET, ServiceEntry},
    variables::warn_of_misspelled_variables,
};

/// Runs the command that the arguments of this process name.
pub(super) fn run(program: Program, setup: Option<SetUp>) -> ExitCode {
    let services = ServiceEntry::linked();
    let matches = match parse(program, &services, std::env::args_os()) {
        Ok(matches) => matches,
        Err(usage) => return report(&usage, &services),
    };
    match dispatch(&matches, &services, setup) {
        Ok(exit_code) => exit_code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {}", error.line());
            ExitCode::FAILURE
        }
    }
}

/// Runs the command. An error that is returned has not been shown yet.
fn dispatch(matches: &ArgMatches, services: &[&ServiceEntry], setup: Option<SetUp>) -> Result<ExitCode, AppError> {
    let (command, flags) = matches.subcommand().unwrap_or((WORKER, matches));
    let settings =
        Settings::from_flags(flags)?.or(Settings::from_flags(matches)?).or(Settings::from_env(env::variable)?);
    let format = settings.log_format.unwrap_or(LogFormat::Text);
    let is_worker = command == WORKER;
    logs::start(format, if is_worker { LevelFilter::INFO } else { LevelFilter::WARN });
    warn_of_misspelled_variables();
    if is_worker {
        warn_of_unread_variables(services);
        let runtime = runtime(tokio::runtime::Builder::new_multi_thread())?;
        let given = given(services, [flags, matches]);
        let worker = || runtime.block_on(run_built(command::worker(settings, format, given, setup)));
        let ended = catch_unwind(AssertUnwindSafe(worker));
        // The worker has requeued tasks that did not end in time; a blocking job that never returns must not hold the process, and
        // neither must a blocking call of a set-up that panicked.
        runtime.shutdown_background();
        return match ended.unwrap_or_else(|panic| resume_unwind(panic)) {
            // The target is that of the spans, which no `RUST_LOG` leaves out.
            Err(error) if format == LogFormat::Json => {
                log!(error, target: RUN_TARGET, "{}", error.line());
                Ok(ExitCode::FAILURE)
            }
            ended => ended.map(|()| ExitCode::SUCCESS),
        };
    }
    let runtime = runtime(tokio::runtime::Builder::new_current_thread())?;
    match command {
        "jobs" => {
            let file = |name| flags.get_one::<String>(name).map(std::path::Path::new);
            match (file("lock"), file("check")) {
                (Some(file), _) => command::lock(file),
                (None, Some(file)) => command::check(file),
                (None, None) => command::jobs(services, flags.get_flag("json")),
            }
        }
        "enqueue" => runtime.block_on(command::enqueue(settings, setup.is_some(), flags)),
        _ => runtime.block_on(command::stats(settings, flags.get_flag("json"))),
    }
    .map(|()| ExitCode::SUCCESS)
}

/// Warns of an address that only asynq-dashboard would listen at, which is not linked: a flag is refused then, but a variable may be meant
/// for another program.
fn warn_of_unread_variables(services: &[&ServiceEntry]) {
    let is_linked = services.iter().any(|entry| entry.name == "dashboard");
    let is_set = |name: &&str| !is_linked && text_of_variable(env::variable(name)) != Ok(None);
    for name in ["ASYNQ_DASHBOARD", "ASYNQ_METRICS"].into_iter().filter(is_set) {
        log!(warn, "{name} has no effect: it comes with the crate asynq-dashboard (feature `dashboard` of asynq-jobs)");
    }
}

fn runtime(mut builder: tokio::runtime::Builder) -> Result<tokio::runtime::Runtime, AppError> {
    start_runtime(&mut builder).map_err(|source| AppError::System { what: "the runtime cannot start".into(), source })
}

const WORKER: &str = "worker";

fn parse(
    program: Program,
    services: &[&ServiceEntry],
    args: impl IntoIterator<Item = OsString>,
) -> Result<ArgMatches, clap::Error> {
    command(program, services).try_get_matches_from(args)
}

fn command(program: Program, services: &[&ServiceEntry]) -> Command {
    let flags = || services.iter().flat_map(|service| (service.flags)());
    let worker = |command: Command| flags().fold(worker_flags(command), |command, flag| command.arg(arg(flag)));
    let root = Command::new(program.name)
        .version(program.version)
        .about("Works on the jobs of this program; without a command it is a worker")
        .after_help("A default is that of the library: the program may have another.")
        .arg(
            flag(&env::URL, "URL", "Where the tasks are, such as redis://127.0.0.1:6379; default sqlite://asynq.db")
                .global(true),
        )
        .arg(flag(&env::LOG_FORMAT, "FORMAT", "How log lines are written: text or json; default text").global(true))
        .disable_help_subcommand(true)
        .subcommand(worker(Command::new(WORKER).about("Runs jobs until it is told to stop (the default)")))
        .subcommand(
            Command::new("jobs")
                .about("Lists every job of this program; asks no broker")
                .arg(json("An object with the arrays `jobs` and `services`"))
                .arg(lock_file("lock", "Adds the shapes of their arguments to this file; default jobs.lock").conflicts_with_all(["check", "json"]))
                .arg(lock_file("check", "Says whether they read tasks of all shapes in this file; default jobs.lock; exit code 1 if not").conflicts_with("json")),
        )
        .subcommand(
            Command::new("enqueue")
                .about("Enqueues one task, its arguments checked against their types")
                .arg(Arg::new("name").value_name("NAME").required(true).help("Name of the job, as `jobs` lists it"))
                .arg(Arg::new("arguments").value_name("JSON").help("Its arguments, such as '{\"to\":\"a@b.c\"}'"))
                .arg(value("in", "SPAN", "Run it after this time, such as 10m").conflicts_with("at"))
                .arg(value("at", "TIME", "Run it at this moment, such as 2030-01-31T09:00:00Z"))
                .arg(value("queue", "QUEUE", "Put it into this queue instead of the job's own"))
                .arg(value("group", "GROUP", "Let it wait in this group, to be aggregated with others")),
        )
        .subcommand(
            Command::new("stats")
                .about("Counts the tasks of every queue, and lists the workers")
                .arg(json("An object with `broker`, `at`, `totals` and the arrays `queues`, `running` and `servers`")),
        );
    worker(root)
}

/// Returns a service's flag as an argument of clap.
fn arg(flag: Flag) -> Arg {
    let arg = Arg::new(flag.name).long(flag.name).help(flag.help).hide(flag.is_hidden);
    match (flag.value_name, flag.is_repeated) {
        (None, _) => arg.action(ArgAction::SetTrue),
        (Some(value_name), false) => arg.value_name(value_name),
        (Some(value_name), true) => arg.value_name(value_name).action(ArgAction::Append),
    }
}

/// Returns the values that were given for the flags of services: behind the command, or else before it.
fn given(services: &[&ServiceEntry], places: [&ArgMatches; 2]) -> Flags {
    let mut given = Flags::default();
    for flag in services.iter().flat_map(|service| (service.flags)()) {
        if flag.value_name.is_none() {
            let is_set = places.iter().any(|matches| matches.get_flag(flag.name));
            given = if is_set { given.set(flag.name, None) } else { given };
            continue;
        }
        // Without a command, both places are one.
        let places = if std::ptr::eq(places[0], places[1]) { &places[..1] } else { &places[..] };
        let values = places.iter().filter_map(|matches| matches.get_many::<String>(flag.name));
        for value in values.take(if flag.is_repeated { 2 } else { 1 }).flatten() {
            given = given.set(flag.name, Some(value.clone()));
        }
    }
    given
}

fn worker_flags(command: Command) -> Command {
    command
        .arg(flag(
            &env::QUEUES,
            "QUEUES",
            "Queues to serve with weight and most tasks at a time, such as critical=6,default=3/10,tenant:*; default `default` and each \
             queue that a job names",
        ))
        .arg(flag(&env::ONLY, "JOBS", "Runs only these jobs, such as send_email,report:*"))
        .arg(flag(&env::EXCEPT, "JOBS", "Runs all jobs but these"))
        .arg(flag(&env::CONCURRENCY, "N", "Most tasks at a time; default the number of processors"))
        .arg(flag(&env::SHUTDOWN_TIMEOUT, "SPAN", "How long a stopping worker lets jobs go on; default 8s"))
}

fn flag(field: &Field, value_name: &'static str, help: &str) -> Arg {
    let help = format!("{help} [env: {}]", field.variable);
    Arg::new(field.flag).long(field.flag.trim_start_matches('-')).value_name(value_name).help(help)
}

fn value(id: &'static str, value_name: &'static str, help: &str) -> Arg {
    Arg::new(id).long(id).value_name(value_name).help(help.to_owned())
}

/// Returns a flag that may name a file: `--lock` or `--lock=FILE`.
fn lock_file(id: &'static str, help: &str) -> Arg {
    value(id, "FILE", help).num_args(0..=1).require_equals(true).default_missing_value("jobs.lock")
}

fn json(help: &str) -> Arg {
    Arg::new("json").long("json").action(ArgAction::SetTrue).help(format!("Writes JSON instead of a table: {help}"))
}

/// Writes clap's text about arguments that were not understood, or the help or the version that was asked for.
fn report(usage: &clap::Error, services: &[&ServiceEntry]) -> ExitCode {
    if let Some(line) = flag_of_service(usage, services) {
        let _ = writeln!(std::io::stderr(), "error: {line}");
    } else if usage.use_stderr() {
        // clap quotes the argument that it did not understand, which may be a URL in the wrong place.
        let _ = write!(std::io::stderr(), "{}", usage_without_passwords(&usage.to_string()));
    } else {
        let _ = usage.print();
    }
    ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2))
}

/// Returns what to write for a flag of a service that was not understood: the flag belongs to a worker, or it is one of
/// [`OF_DASHBOARD`], which is not linked.
fn flag_of_service(usage: &clap::Error, services: &[&ServiceEntry]) -> Option<String> {
    if usage.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(flag)) = usage.get(ContextKind::InvalidArg) else { return None };
    let flag = flag.split(['=', ' ']).next().unwrap_or_default();
    let is_linked = |name: &str| services.iter().flat_map(|entry| (entry.flags)()).any(|flag| flag.name == name);
    let name = flag.strip_prefix("--")?;
    if is_linked(name) {
        return Some(format!("`{flag}` is a flag of the worker: write it without a command, or behind `{WORKER}`"));
    }
    OF_DASHBOARD.contains(&name).then(|| {
        format!(
            "`{flag}` comes with the crate asynq-dashboard: add it to Cargo.toml and write \
             `main!(services: [asynq_dashboard]);`, or take the feature `dashboard` of asynq-jobs"
        )
    })
}

/// All flags of asynq-dashboard.
const OF_DASHBOARD: [&str; 5] = ["dashboard", "dashboard-host", "dashboard-read-only", "metrics", "metrics-queues"];

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: Program = Program { name: "mails", version: "1.2.3" };

    fn parsed(args: &[&str]) -> Result<ArgMatches, clap::Error> {
        parse(PROGRAM, &[], std::iter::once("mails").chain(args.iter().copied()).map(OsString::from))
    }

    #[test]
    fn the_command_line_is_consistent() {
        command(PROGRAM, &[]).debug_assert();
    }

    #[test]
    fn the_programs_own_name_and_version_are_shown() {
        let version = parsed(&["--version"]).unwrap_err();
        assert_eq!((version.exit_code(), version.to_string()), (0, "mails 1.2.3\n".to_owned()));
        let help = parsed(&["--help"]).unwrap_err().to_string();
        for part in ["--url", "ASYNQ_URL", "ASYNQ_QUEUES", "ASYNQ_CONCURRENCY", "jobs", "enqueue", "stats"] {
            assert!(help.contains(part), "{part} is missing in\n{help}");
        }
        // The lines of a help may be wrapped.
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for default in ["default sqlite://asynq.db", "default text", "default `default` and each queue"] {
            assert!(help.contains(default), "{default} is missing in\n{help}");
        }
    }

    #[test]
    fn flags_stand_before_or_behind_the_command() {
        for args in [&["--url", "sqlite://x", "stats"][..], &["stats", "--url", "sqlite://x"]] {
            let matches = parsed(args).unwrap();
            let (_, flags) = matches.subcommand().unwrap();
            assert_eq!(Settings::from_flags(flags).unwrap().url.as_deref(), Some("sqlite://x"));
        }
        let matches = parsed(&["worker", "--concurrency", "3"]).unwrap();
        assert_eq!(Settings::from_flags(matches.subcommand().unwrap().1).unwrap().concurrency, Some(3));
        let error = |args: &[&str]| Settings::from_flags(&parsed(args).unwrap()).unwrap_err().to_string();
        let concurrency = error(&["--concurrency", "x"]);
        assert!(concurrency.starts_with("--concurrency: \"x\""), "{concurrency}");
    }

    #[test]
    fn a_flag_without_a_value_is_an_error_and_not_as_if_it_were_not_given() {
        let error = |flag: &str, value: &str| {
            let flags = parsed(&[flag, value]).unwrap();
            Settings::from_flags(&flags).unwrap_err().to_string()
        };
        for flag in ["--url", "--queues", "--except", "--concurrency", "--shutdown-timeout", "--log-format"] {
            let expected = format!("{flag}: it is empty: give it a value, or leave it out");
            assert_eq!((error(flag, ""), error(flag, " ")), (expected.clone(), expected));
        }
        let expected = "--only: it names no job: name those to run, or leave it out to run all";
        assert_eq!((error("--only", ""), error("--only", " ")), (expected.into(), expected.into()));
    }

    #[test]
    fn one_enqueue_may_name_another_queue_and_a_group() {
        let matches = parsed(&["enqueue", "note", "--queue", "low", "--group", "digest"]).unwrap();
        let (_, flags) = matches.subcommand().unwrap();
        let text = |id| flags.get_one::<String>(id).map(String::as_str);
        assert_eq!((text("queue"), text("group")), (Some("low"), Some("digest")));
    }

    #[test]
    fn a_flag_of_a_service_that_is_not_linked_says_what_to_write() {
        for args in [
            &["--dashboard"][..],
            &["--metrics=9000"],
            &["worker", "--dashboard", "127.0.0.1:8080"],
            &["--metrics-queues"],
            &["--dashboard-read-only"],
            &["--dashboard-host=jobs.example.com"],
        ] {
            let usage = parsed(args).unwrap_err();
            let line = flag_of_service(&usage, &[]).unwrap();
            assert!(line.contains("asynq-dashboard") && line.contains("main!(services: [asynq_dashboard])"), "{line}");
            assert_ne!(usage.exit_code(), 0);
        }
        for other in ["--colour", "--dashboards", "--dashboard-readonly", "--metrics-queue"] {
            assert_eq!(flag_of_service(&parsed(&[other]).unwrap_err(), &[]), None, "{other}");
        }
    }

    #[test]
    fn a_flag_of_a_linked_service_is_one_of_the_worker() {
        let flags = || vec![Flag::value("dashboard", "ADDR", "")];
        let linked = [&ServiceEntry { name: "dashboard", make: |_| None, flags, rows: Vec::new }];
        let line_of = |args: &[&str]| {
            let parsed = parse(PROGRAM, &linked, [&["mails"][..], args].concat().iter().map(OsString::from));
            flag_of_service(&parsed.unwrap_err(), &linked)
        };
        let line = line_of(&["jobs", "--dashboard", "0"]);
        let expected = "`--dashboard` is a flag of the worker: write it without a command, or behind `worker`";
        assert_eq!(line.as_deref(), Some(expected));
        assert_eq!(line_of(&["--dashboard-x"]), None, "clap says more");
    }
}
