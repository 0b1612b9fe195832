//! Start latency on an idle system: from the enqueue call in another process to the first line of the job.

use std::{
    process::Stdio,
    time::{Duration, SystemTime},
};

use asynq_runtime::prelude::*;
use hdrhistogram::Histogram;
use serde_json::json;
use tokio::sync::mpsc;

use crate::store::Store;

/// Between two enqueues: long enough that the worker is idle again, and in step with no interval of ours or of Redis.
const EVERY: Duration = Duration::from_millis(137);
/// Tasks before the measurement, which open connections and warm caches.
const WARM_UP: u32 = 10;
/// Without a start for this long, something is wrong.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where starts are reported: number of the task, nanoseconds since its enqueue.
struct Starts(mpsc::UnboundedSender<(u32, u64)>);

/// Does nothing but say when it started. `sent` is the moment of the enqueue call, Unix nanoseconds: both processes read
/// the clock of one machine.
#[job(queue = "latency", retry = 0)]
async fn stamp(starts: State<Starts>, number: u32, sent: u64) -> JobResult {
    starts.0.send((number, unix_nanos().saturating_sub(sent)))?;
    Ok(())
}

/// Measures each broker and prints what it found.
///
/// # Errors
///
/// A broker or the producing process failed, or a task never started.
pub(crate) async fn measure(brokers: &[&str], tasks: u32, as_json: bool) -> Result<(), BoxError> {
    let mut measured = Vec::new();
    for &broker in brokers {
        measured.push((broker, one(broker, tasks).await?));
    }
    if as_json {
        let results = measured.iter().map(|(broker, starts)| {
            json!({
                "broker": broker,
                "tasks": starts.len(),
                "p50_us": starts.value_at_quantile(0.50),
                "p90_us": starts.value_at_quantile(0.90),
                "p99_us": starts.value_at_quantile(0.99),
                "max_us": starts.max(),
            })
        });
        let results: Vec<_> = results.collect();
        println!("{}", json!({ "benchmark": "latency", "interval_ms": EVERY.as_millis() as u64, "results": results }));
        return Ok(());
    }
    println!("Start latency: from the enqueue call in another process to the start of the job.");
    println!("Idle system, {tasks} tasks, one every {} ms.\n", EVERY.as_millis());
    println!("{:<8}{:>10}{:>10}{:>10}{:>10}", "broker", "p50", "p90", "p99", "max");
    for (broker, starts) in measured {
        let shown = |micros: u64| format!("{:.2} ms", micros as f64 / 1_000.0);
        let [p50, p90, p99] = [0.50, 0.90, 0.99].map(|quantile| shown(starts.value_at_quantile(quantile)));
        println!("{broker:<8}{p50:>10}{p90:>10}{p99:>10}{:>10}", shown(starts.max()));
    }
    Ok(())
}

/// Enqueues one task every [`EVERY`]: what the other process does.
///
/// # Errors
///
/// The broker failed.
pub(crate) async fn produce(url: &str, tasks: u32) -> Result<(), BoxError> {
    let client = Client::connect(url).await?;
    let mut ticks = tokio::time::interval(EVERY);
    for number in 0..tasks {
        ticks.tick().await;
        stamp::enqueue(&client, number, unix_nanos()).await?;
    }
    Ok(())
}

async fn one(broker: &str, tasks: u32) -> Result<Histogram<u64>, BoxError> {
    let store = Store::start(broker)?;
    let (sender, mut started) = mpsc::unbounded_channel();
    let server = Server::builder(store.url()).queue("latency", 1).concurrency(10).state(Starts(sender)).build().await?;
    let running = server.start().await?;

    let mut producer = std::process::Command::new(std::env::current_exe()?)
        .args(["latency-producer", &store.url(), &(tasks + WARM_UP).to_string()])
        .stdin(Stdio::null())
        .spawn()?;
    let mut starts = Histogram::<u64>::new(3)?;
    let mut seen = 0;
    let result = loop {
        if seen == tasks + WARM_UP {
            break Ok(starts);
        }
        match tokio::time::timeout(PATIENCE, started.recv()).await {
            Ok(Some((number, nanos))) => {
                seen += 1;
                if number >= WARM_UP {
                    starts.record(nanos / 1_000)?;
                }
            }
            Ok(None) | Err(_) => break Err(format!("{broker}: only {seen} tasks started").into()),
        }
    };
    let _ = producer.kill();
    producer.wait()?;
    running.shutdown().await?;
    result
}

fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
