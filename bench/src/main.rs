//! Measures asynq-rs on this machine: `scripts/bench drain`, `scripts/bench limit --concurrency 10 --json`.

mod cost;
mod limit;
mod measured;
mod median;
mod meter;
mod order;
mod page;
mod peers;
mod queue;
mod run;
mod run_broker;
mod seen;
mod signals;
mod suite;
mod task;
mod workload;

use std::{path::PathBuf, process::ExitCode};

use asynq_runtime::prelude::BoxError;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use self::{
    measured::Measured,
    order::Order,
    run::{Role, Runner},
    signals::unless_stopped,
    suite::Extent,
    workload::Workload,
};

/// The subcommand that measures everything.
const ALL: &str = "all";
/// The subcommand that compares ours with other libraries.
const PEERS: &str = "peers";
/// The subcommand that measures one call while something grows.
const COST: &str = "cost";
/// The subcommand that measures every limit.
const LIMIT: &str = "limit";
const LIMIT_ABOUT: &str = "What a broker itself can do for the same tasks: scripts or statements with asynq's work on its data, and nothing else";

fn command() -> Command {
    let workloads = workload::ALL.iter().map(|workload| options(Command::new(workload.name()).about(workload.about())));
    Command::new("asynq-bench")
        .about("Measures asynq-rs on this machine, with a redis-server and files of its own")
        .subcommand_required(true)
        .subcommands(workloads)
        .subcommand(options(Command::new(LIMIT).about(LIMIT_ABOUT)))
        .subcommand(
            Command::new(ALL)
                .about("All of it against the goals, several times in turns; writes RESULTS.md and its plot")
                .arg(size("runs", "How often").default_value("5"))
                .arg(out())
                .arg(quick()),
        )
        .subcommand(peers_command())
        .subcommand(cost_command())
}

/// Returns the options of [`PEERS`].
fn peers_command() -> Command {
    Command::new(PEERS)
        .about("Ours beside Go asynq and other libraries on one redis-server, in turns; puts its table into RESULTS.md")
        .arg(size("runs", "How often").default_value("5"))
        .arg(size("waiting", "Tasks that wait in the row of the large backlog").default_value("5000000"))
        .arg(only("Folders of bench/peers, separated by commas; all unless said"))
        .arg(out())
        .arg(quick())
        .arg(json("One line of JSON per run instead of a table"))
}

/// Returns the options of [`COST`].
fn cost_command() -> Command {
    Command::new(COST)
        .about(
            "What one call costs while queues, groups, tasks, workers or bytes grow; puts its tables into RESULTS.md",
        )
        .arg(size("max", "No size is larger; a smaller one leaves rows out").default_value("1000000"))
        .arg(only("Parts of the names of the tables, separated by commas; all unless said"))
        .arg(out())
        .arg(json("One line of JSON per size instead of tables"))
}

fn only(help: &'static str) -> Arg {
    Arg::new("only").long("only").value_delimiter(',').help(help)
}

fn json(help: &'static str) -> Arg {
    Arg::new("json").long("json").action(ArgAction::SetTrue).help(help)
}

fn out() -> Arg {
    Arg::new("out")
        .long("out")
        .value_parser(value_parser!(PathBuf))
        .help("Folder of the page; bench/, and with --quick target/bench/; some rows of a section change no page unless it is named")
}

fn quick() -> Arg {
    Arg::new("quick").long("quick").action(ArgAction::SetTrue).help("Once, with few tasks: shows that everything works")
}

/// Returns an option that is a number.
fn size(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).help(help).value_parser(value_parser!(u64).range(1..=100_000_000))
}

fn options(command: Command) -> Command {
    command
        .arg(
            Arg::new("url")
                .long("url")
                .help("A broker of yours; without it a private Redis and a temporary SQLite file"),
        )
        .arg(
            Arg::new("broker")
                .long("broker")
                .help("Only this private broker")
                .value_parser(["redis", "sqlite"])
                .conflicts_with("url"),
        )
        .arg(size("n", "How many tasks"))
        .arg(size("concurrency", "Most tasks at a time, or how many callers there are"))
        .arg(size("payload-bytes", "Length of a task's JSON").default_value("100"))
        .arg(size("queues", "How many queues the tasks are spread over; one unless said"))
        .arg(size("runs", "How often; the table shows medians").default_value("1"))
        .arg(json("One line of JSON per run instead of a table"))
        .arg(
            Arg::new("plan")
                .long("plan")
                .action(ArgAction::SetTrue)
                .help("One line of JSON per planned run; nothing is measured"),
        )
}

#[tokio::main]
async fn main() -> ExitCode {
    let ended = match run::role() {
        Some((role, order)) => Box::pin(play(role, order)).await,
        // The future is on the heap: otherwise the states of the whole suite would be on the stack of each process that is
        // measured.
        None => Box::pin(run(&command().get_matches())).await,
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Plays the role of a process that another process of this program started.
async fn play(role: Role, order: Result<Order, BoxError>) -> Result<(), BoxError> {
    let order = order?;
    match role {
        Role::Measure => {
            let measured = workload::named(&order.workload)?.measure(&order).await?;
            println!("{}", serde_json::to_string(&measured)?);
            Ok(())
        }
        Role::Produce => workload::produce(&order).await,
        Role::Work => workload::work(&order).await,
    }
}

async fn run(matches: &ArgMatches) -> Result<(), BoxError> {
    match matches.subcommand() {
        Some((ALL, matches)) => unless_stopped(suite::all(&extent(matches)?)).await,
        Some((PEERS, matches)) => unless_stopped(peers::compare(&comparison(matches)?)).await,
        Some((COST, matches)) => unless_stopped(cost::grow(&growth(matches)?)).await,
        Some((LIMIT, matches)) => print(limit::ALL, matches).await,
        Some((name, matches)) => print(&[workload::named(name)?], matches).await,
        None => Err("a subcommand is needed".into()),
    }
}

fn extent(matches: &ArgMatches) -> Result<Extent, BoxError> {
    Ok(Extent {
        runs: runs(matches)?,
        quick: matches.get_flag("quick"),
        folder: named(matches).unwrap_or_else(|| suite::folder().to_owned()),
    })
}

fn comparison(matches: &ArgMatches) -> Result<peers::Extent, BoxError> {
    Ok(peers::Extent {
        runs: runs(matches)?,
        quick: matches.get_flag("quick"),
        waiting: *matches.get_one::<u64>("waiting").ok_or("how many?")?,
        only: matches.get_many("only").unwrap_or_default().cloned().collect(),
        json: matches.get_flag("json"),
        out: named(matches),
    })
}

fn growth(matches: &ArgMatches) -> Result<cost::Extent, BoxError> {
    let number = |name| matches.get_one::<u64>(name).copied().ok_or("a number is needed");
    Ok(cost::Extent {
        max: number("max")?,
        only: matches.get_many("only").unwrap_or_default().cloned().collect(),
        json: matches.get_flag("json"),
        out: matches.get_one("out").cloned(),
    })
}

/// Returns how often each run is made: with `--quick` once.
fn runs(matches: &ArgMatches) -> Result<usize, BoxError> {
    let runs = *matches.get_one::<u64>("runs").ok_or("how often?")?;
    Ok(if matches.get_flag("quick") { 1 } else { usize::try_from(runs)? })
}

/// Returns the folder of the page, if one is named or the run is quick.
fn named(matches: &ArgMatches) -> Option<PathBuf> {
    let quick = matches.get_flag("quick").then(|| suite::folder().join("../target/bench"));
    matches.get_one("out").cloned().or(quick)
}

/// Runs these workloads on each broker, in turns, and prints the results.
async fn print(workloads: &[&dyn Workload], matches: &ArgMatches) -> Result<(), BoxError> {
    let number = |name| matches.get_one::<u64>(name).copied();
    let chosen = ["url", "broker"].iter().find_map(|name| matches.get_one::<String>(name)).map(String::as_str);
    let mut orders = Vec::new();
    for broker in chosen.map_or(vec!["redis", "sqlite"], |chosen| vec![chosen]) {
        for workload in workloads {
            let (n, concurrency) = workload.sizes();
            orders.extend(workload.orders(Order {
                workload: workload.name().to_owned(),
                broker: broker.to_owned(),
                n: number("n").unwrap_or(n),
                concurrency: number("concurrency").map_or(Ok(concurrency), usize::try_from)?,
                payload_bytes: usize::try_from(number("payload-bytes").unwrap_or(100))?,
                queues: number("queues"),
                ..Order::default()
            }));
        }
    }
    if orders.is_empty() {
        return Err("this cannot be measured on that broker".into());
    }
    if matches.get_flag("plan") {
        for order in &orders {
            println!("{}", serde_json::to_string(order)?);
        }
        return Ok(());
    }
    let (as_json, mut runner) = (matches.get_flag("json"), Runner::default());
    let found = unless_stopped(repeat(&mut runner, &orders, number("runs").unwrap_or(1), as_json)).await;
    // A broker of the caller is left as it was found, however the runs have ended.
    let found = match (found, runner.end().await) {
        (found, Ok(())) => found?,
        (Ok(_), Err(left)) => return Err(left),
        (Err(error), Err(left)) => return Err(format!("{error}; tasks are left: {left}").into()),
    };
    if !as_json {
        let medians = found.iter().map(|runs| Measured::median(runs)).collect::<Result<Vec<_>, _>>()?;
        print!("{}", measured::table(&medians));
    }
    Ok(())
}

/// Makes each run so many times, in turns; returns the runs of each order.
async fn repeat(
    runner: &mut Runner,
    orders: &[Order],
    runs: u64,
    as_json: bool,
) -> Result<Vec<Vec<Measured>>, BoxError> {
    let mut found = vec![Vec::new(); orders.len()];
    for _ in 0..runs {
        for (order, found) in orders.iter().zip(&mut found) {
            let measured = runner.once(order).await?;
            if as_json {
                println!("{}", serde_json::to_string(&measured)?);
            }
            found.push(measured);
        }
    }
    Ok(found)
}
