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

use std::{process::ExitCode, slice};

use asynq_runtime::prelude::BoxError;
use clap::{ArgMatches, Args, Command, FromArgMatches as _, Subcommand, builder::RangedU64ValueParser};

use self::{
    measured::Measured,
    order::Order,
    run::{Role, Runner},
    signals::unless_stopped,
    workload::Named,
};

/// The commands that measure more than one workload.
#[derive(Debug, Subcommand)]
enum Several {
    /// The limit of each broker for the same tasks: scripts or statements with asynq's work on its data, and nothing else
    Limit(Options),
    /// All of it against the goals, several times in turns; writes RESULTS.md and its plot
    All(suite::Extent),
    /// Ours beside Go asynq and other libraries on one redis-server, in turns; puts its table into RESULTS.md
    Peers(peers::Extent),
    /// The cost of one call while queues, groups, tasks, workers or bytes grow; puts its tables into RESULTS.md
    Cost(cost::Extent),
}

/// The options of a workload, and of the limits.
#[derive(Debug, Args)]
struct Options {
    /// A broker of yours; without it a private Redis and a temporary SQLite file
    #[arg(long)]
    url: Option<String>,
    /// Only this private broker
    #[arg(long, value_parser = ["redis", "sqlite"], conflicts_with = "url")]
    broker: Option<String>,
    /// How many tasks
    #[arg(long, value_parser = size::<u64>())]
    n: Option<u64>,
    /// Most tasks at a time, or how many callers there are
    #[arg(long, value_parser = size::<usize>())]
    concurrency: Option<usize>,
    /// Length of a task's JSON
    #[arg(long, default_value_t = 100, value_parser = size::<usize>())]
    payload_bytes: usize,
    /// How many queues the tasks are spread over; one unless said
    #[arg(long, value_parser = size::<u64>())]
    queues: Option<u64>,
    /// How often; the table shows medians
    #[arg(long, default_value_t = 1, value_parser = size::<u64>())]
    runs: u64,
    /// One line of JSON per run instead of a table
    #[arg(long)]
    json: bool,
    /// One line of JSON per planned run; nothing is measured
    #[arg(long)]
    plan: bool,
}

/// Returns the parser of an option that is a number.
fn size<T: TryFrom<u64>>() -> RangedU64ValueParser<T> {
    RangedU64ValueParser::new().range(1..=100_000_000)
}

fn command() -> Command {
    let workloads =
        workload::ALL.iter().map(|named| Options::augment_args(Command::new(named.name)).about(named.about));
    Several::augment_subcommands(Command::new("asynq-bench").subcommands(workloads))
        .about("Measures asynq-rs on this machine, with a redis-server and files of its own")
        .subcommand_required(true)
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
    if let Some((name, options)) = matches.subcommand()
        && let Some(named) = workload::ALL.iter().find(|named| named.name == name)
    {
        return print(slice::from_ref(named), &Options::from_arg_matches(options)?).await;
    }
    match Several::from_arg_matches(matches)? {
        Several::Limit(options) => print(limit::ALL, &options).await,
        Several::All(extent) => unless_stopped(suite::all(&extent)).await,
        Several::Peers(extent) => unless_stopped(peers::compare(&extent)).await,
        Several::Cost(extent) => unless_stopped(cost::grow(&extent)).await,
    }
}

/// Runs these workloads on each broker, in turns, and prints the results.
async fn print(workloads: &[Named], options: &Options) -> Result<(), BoxError> {
    let chosen = options.url.as_deref().or(options.broker.as_deref());
    let mut orders = Vec::new();
    for broker in chosen.map_or(vec!["redis", "sqlite"], |chosen| vec![chosen]) {
        for Named { name, sizes, workload, .. } in workloads {
            let (n, concurrency) = sizes();
            orders.extend(workload.orders(Order {
                workload: (*name).to_owned(),
                broker: broker.to_owned(),
                n: options.n.unwrap_or(n),
                concurrency: options.concurrency.unwrap_or(concurrency),
                payload_bytes: options.payload_bytes,
                queues: options.queues,
                ..Order::default()
            }));
        }
    }
    if orders.is_empty() {
        return Err("this cannot be measured on that broker".into());
    }
    if options.plan {
        for order in &orders {
            println!("{}", serde_json::to_string(order)?);
        }
        return Ok(());
    }
    let mut runner = Runner::default();
    let found = unless_stopped(repeat(&mut runner, &orders, options)).await;
    // A broker of the caller is left as it was found, however the runs have ended.
    let found = match (found, runner.end().await) {
        (found, Ok(())) => found?,
        (Ok(_), Err(left)) => return Err(left),
        (Err(error), Err(left)) => return Err(format!("{error}; tasks are left: {left}").into()),
    };
    if !options.json {
        let medians = found.iter().map(|runs| Measured::median(runs)).collect::<Result<Vec<_>, _>>()?;
        print!("{}", measured::table(&medians));
    }
    Ok(())
}

/// Makes each run as often as the options say, in turns; returns the runs of each order.
async fn repeat(runner: &mut Runner, orders: &[Order], options: &Options) -> Result<Vec<Vec<Measured>>, BoxError> {
    let mut found = vec![Vec::new(); orders.len()];
    for _ in 0..options.runs {
        for (order, found) in orders.iter().zip(&mut found) {
            let measured = runner.once(order).await?;
            if options.json {
                println!("{}", serde_json::to_string(&measured)?);
            }
            found.push(measured);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_a_quick_run_is_made_once_and_beside_the_page() {
        command().debug_assert();
        for (line, runs, folder) in [
            ("all", 5, suite::folder().to_owned()),
            ("all --quick", 1, suite::QUICK_FOLDER.into()),
            ("all --quick --runs 3 --out elsewhere", 3, "elsewhere".into()),
        ] {
            let words = std::iter::once("asynq-bench").chain(line.split(' '));
            let matches = command().try_get_matches_from(words).unwrap();
            let Several::All(extent) = Several::from_arg_matches(&matches).unwrap() else { panic!("{line}") };
            assert_eq!((extent.runs, extent.folder), (runs, folder), "{line}");
        }
    }
}
