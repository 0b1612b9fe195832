//! The parts that the programs of the libraries in Rust share: the order, the answer, and the tasks.

#[path = "../src/seen.rs"]
mod seen;

use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

pub(crate) use self::seen::Seen;

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Callers that enqueue before a drain and in the end-to-end workload, as asynq-bench has.
pub const PRODUCERS: u64 = 64;
/// The time between two tasks of the latency workload, and how many of them are not measured.
pub const BETWEEN: Duration = Duration::from_millis(137);
pub const WARM_UP: u64 = 10;

/// The order of asynq-bench.
#[derive(Debug, Clone, Deserialize)]
pub struct Order {
    pub workload: String,
    pub n: u64,
    pub concurrency: usize,
    pub payload_bytes: usize,
    #[serde(default)]
    pub batch: usize,
    #[serde(default)]
    pub queues: u64,
    #[serde(default)]
    pub among: u64,
}

/// The answer that asynq-bench reads.
#[derive(Debug, Default, Serialize)]
pub struct Answer {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub cannot: &'static str,
    pub seconds: f64,
    /// `None` where the system does not report it.
    pub cpu_us: Option<f64>,
    pub ran: u64,
    pub again: u64,
    pub waiting: u64,
    pub micros: Vec<u64>,
}

impl Answer {
    pub fn cannot(why: &'static str) -> Self {
        Self { cannot: why, ..Self::default() }
    }

    /// Adds the runs of the order's tasks, of which more may have run.
    pub(crate) fn with(self, order: &Order, seen: &Seen) -> Self {
        Self { ran: order.n - seen.missing(), again: seen.again(), ..self }
    }
}

/// Returns the role, the order and the URL of this process, which ends with its standard input from now on: asynq-bench keeps it open,
/// and so leaves no worker behind when it is killed.
pub fn arguments() -> Result<(String, Order, String), Failure> {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    });
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [role, order, url]: [String; 3] = arguments.try_into().map_err(|_| "usage: ROLE ORDER URL")?;
    Ok((role, serde_json::from_str(&order)?, url))
}

/// The payload of every task but those of the latency workload, which has its moment as `body`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Note {
    pub number: u64,
    pub to: String,
    pub subject: String,
    pub body: String,
}

impl Order {
    /// Returns task `number`, as long as the order says.
    pub fn note(&self, number: u64) -> Note {
        let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
        let frame = r#"{"number":,"to":"ann@example.com","subject":"Hi","body":""}"#.len() + digits;
        Note::new(number, "x".repeat(self.payload_bytes.saturating_sub(frame)))
    }
}

impl Note {
    pub fn new(number: u64, body: String) -> Self {
        Self { number, to: "ann@example.com".into(), subject: "Hi".into(), body }
    }

    /// Returns a task of the latency workload that is enqueued now.
    pub fn stamp(number: u64) -> Self {
        Self::new(number, now().to_string())
    }

    /// Returns the microseconds since the enqueue.
    pub fn age(&self) -> u64 {
        now().saturating_sub(self.body.parse().unwrap_or(0)) / 1_000
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

/// Measures time and CPU from its start on.
pub struct Clock(Instant, Option<f64>);

impl Clock {
    pub fn start() -> Self {
        Self(Instant::now(), cpu_us())
    }

    pub fn stop(self) -> Answer {
        let cpu_us = cpu_us().zip(self.1).map(|(now, before)| now - before);
        Answer { seconds: self.0.elapsed().as_secs_f64(), cpu_us, ..Answer::default() }
    }
}

/// Returns the CPU time of this process in microseconds, in steps of the kernel's clock tick of 10 ms; `None` on systems without
/// `/proc`.
fn cpu_us() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
    Some(ticks.sum::<f64>() * 10_000.0)
}
