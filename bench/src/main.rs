//! Measures asynq-rs on this machine: `scripts/bench drain`, `scripts/bench limit --concurrency 10 --json`.

mod limit;
mod measured;
mod meter;
mod order;
mod place;
mod run;
mod task;
mod workload;

use std::process::ExitCode;

use asynq_runtime::prelude::BoxError;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use self::{measured::Measured, order::Order, workload::Workload};

/// The subcommand that stands for every limit.
const LIMIT: &str = "limit";
const LIMIT_ABOUT: &str =
    "What Redis itself can do for the same tasks: scripts with asynq's work on its data, and nothing else";

fn command() -> Command {
    let workloads = workload::ALL.iter().map(|workload| options(Command::new(workload.name()).about(workload.about())));
    Command::new("asynq-bench")
        .about("Measures asynq-rs on this machine, with a redis-server and files of its own")
        .subcommand_required(true)
        .subcommands(workloads)
        .subcommand(options(Command::new(LIMIT).about(LIMIT_ABOUT)))
        .subcommand(Command::new(run::MEASURE).hide(true).arg(Arg::new("order").required(true)))
}

fn options(command: Command) -> Command {
    let size = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).help(help).value_parser(value_parser!(u64).range(1..=100_000_000))
    };
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
        .arg(size("runs", "How often; the table shows medians").default_value("1"))
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("One line of JSON per run instead of a table"),
        )
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&command().get_matches()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(matches: &ArgMatches) -> Result<(), BoxError> {
    match matches.subcommand() {
        Some((run::MEASURE, matches)) => run::measure(matches.get_one::<String>("order").ok_or("what?")?).await,
        Some((LIMIT, matches)) => print(limit::ALL, &["redis"], matches).await,
        Some((name, matches)) => print(&[workload::named(name)?], &["redis", "sqlite"], matches).await,
        None => Err("a subcommand is needed".into()),
    }
}

/// Runs these workloads on each broker, in turns, and prints what was found.
async fn print(workloads: &[&dyn Workload], brokers: &[&str], matches: &ArgMatches) -> Result<(), BoxError> {
    let number = |name| matches.get_one::<u64>(name).copied();
    let chosen = ["url", "broker"].iter().find_map(|name| matches.get_one::<String>(name)).map(String::as_str);
    let mut orders: Vec<(&str, Order, Vec<Measured>)> = Vec::new();
    for &broker in chosen.as_ref().map_or(brokers, std::slice::from_ref) {
        for workload in workloads {
            let (n, concurrency) = workload.sizes();
            let order = Order {
                workload: workload.name().to_owned(),
                url: String::new(),
                n: number("n").unwrap_or(n),
                concurrency: number("concurrency").map_or(Ok(concurrency), usize::try_from)?,
                payload_bytes: usize::try_from(number("payload-bytes").unwrap_or(100))?,
                batch: None,
            };
            orders.extend(workload.orders(order).into_iter().map(|order| (broker, order, Vec::new())));
        }
    }
    let as_json = matches.get_flag("json");
    for _ in 0..number("runs").unwrap_or(1) {
        for (broker, order, runs) in &mut orders {
            let measured = run::once(broker, order).await?;
            if as_json {
                println!("{}", serde_json::to_string(&measured)?);
            }
            runs.push(measured);
        }
    }
    if !as_json {
        println!("{}", measured::head());
        for (_, _, runs) in &orders {
            println!("{}", measured::row(&Measured::median(runs)?));
        }
    }
    Ok(())
}
