//! Measures asynq-rs: `cargo run --release -p asynq-bench -- latency`.

mod latency;
mod store;

use std::process::ExitCode;

use asynq_runtime::prelude::BoxError;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

fn command() -> Command {
    let broker = Arg::new("broker").long("broker").value_parser(["sqlite", "redis"]).action(ArgAction::Append);
    let tasks =
        Arg::new("tasks").long("tasks").value_parser(value_parser!(u32).range(1..=100_000)).default_value("200");
    Command::new("asynq-bench")
        .about("Measures asynq-rs on this machine, with a redis-server and files of its own")
        .subcommand_required(true)
        .subcommand(
            Command::new("latency")
                .about("From the enqueue call in another process to the start of the job, on an idle system")
                .arg(broker.help("Which broker; both unless said"))
                .arg(tasks.help("How many tasks, one every 137 ms"))
                .arg(
                    Arg::new("json").long("json").action(ArgAction::SetTrue).help("One JSON object instead of a table"),
                ),
        )
        // The other process of `latency`: this program again.
        .subcommand(
            Command::new("latency-producer")
                .hide(true)
                .arg(Arg::new("url").required(true))
                .arg(Arg::new("tasks").required(true).value_parser(value_parser!(u32))),
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
    let tasks = |matches: &ArgMatches| matches.get_one("tasks").copied().unwrap_or(200);
    match matches.subcommand() {
        Some(("latency", matches)) => {
            let brokers = matches.get_many::<String>("broker").map(|names| names.map(String::as_str).collect());
            latency::measure(
                &brokers.unwrap_or_else(|| vec!["sqlite", "redis"]),
                tasks(matches),
                matches.get_flag("json"),
            )
            .await
        }
        Some(("latency-producer", matches)) => {
            let url = matches.get_one::<String>("url").ok_or("the URL is missing")?;
            latency::produce(url, tasks(matches)).await
        }
        _ => Err("a subcommand is needed".into()),
    }
}
