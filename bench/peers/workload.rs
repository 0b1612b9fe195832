//! The parts that the programs of the libraries in Rust share: the order, the answer, and the tasks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Callers that enqueue before a drain and in the end-to-end workload, as asynq-bench has.
pub const PRODUCERS: u64 = 64;
/// The time between two tasks of the latency workload, and how many of them are not measured.
pub const BETWEEN: Duration = Duration::from_millis(137);
pub const WARM_UP: u64 = 10;
/// A workload without progress for this long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

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

/// The set of tasks that have run.
#[derive(Debug, Clone)]
pub struct Seen(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    n: u64,
    bits: Vec<AtomicU64>,
    ran: AtomicU64,
    again: AtomicU64,
    all: Notify,
}

impl Seen {
    /// Waits for `n` different tasks out of `among`.
    pub fn new(n: u64, among: u64) -> Self {
        let bits = (0..among.max(n) / 64 + 1).map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(Inner { n, bits, ran: AtomicU64::new(0), again: AtomicU64::new(0), all: Notify::new() }))
    }

    pub fn mark(&self, number: u64) {
        let bit = 1 << (number % 64);
        if self.0.bits[(number / 64) as usize].fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            self.0.again.fetch_add(1, Ordering::Relaxed);
        } else if self.0.ran.fetch_add(1, Ordering::AcqRel) + 1 == self.0.n {
            self.0.all.notify_one();
        }
    }

    pub async fn all(&self) -> Result<(), Failure> {
        loop {
            let before = self.ran();
            if before >= self.0.n {
                return Ok(());
            }
            if tokio::time::timeout(PATIENCE, self.0.all.notified()).await.is_err() && self.ran() == before {
                return Err(format!("{} of {} tasks have run", before, self.0.n).into());
            }
        }
    }

    fn ran(&self) -> u64 {
        self.0.ran.load(Ordering::Acquire)
    }

    /// Adds the runs to `answer`, without tasks that ran beyond `n`.
    pub fn complete(&self, answer: Answer) -> Answer {
        Answer { ran: self.ran().min(self.0.n), again: self.0.again.load(Ordering::Relaxed), ..answer }
    }
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
