//! The figures to reach, and whether they are reached.

use super::Found;
use crate::{
    measured::{
        EARLIEST,
        Figure::{self, BrokerCpu, More, OwnCpu, P50, P99, Rate, Rss, Time},
        short,
    },
    median::Median,
};

/// The goal for a figure: the figure itself, or its share of the same figure of another run.
#[derive(Debug, Clone, Copy)]
enum Rule {
    AtLeast(f64),
    AtMost(f64),
    ShareAtLeast(f64),
    ShareAtMost(f64),
}

use Rule::{AtLeast, AtMost, ShareAtLeast, ShareAtMost};

/// One row of the table.
#[derive(Debug)]
struct Goal {
    row: &'static str,
    key: &'static str,
    figure: Figure,
    /// The key of the run that it is compared with.
    beside: &'static str,
    rule: Rule,
    /// A further goal, beyond the one that must be reached.
    reach_for: Option<f64>,
}

/// A row with its figures.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) row: &'static str,
    pub(super) measured: Option<Median>,
    pub(super) beside: Option<f64>,
    pub(super) share: Option<f64>,
    pub(super) to_reach: String,
    pub(super) reach_for: String,
    pub(super) reached: Option<bool>,
    /// Whether this system does not report the figure.
    pub(super) is_unknown: bool,
}

const fn goal(row: &'static str, key: &'static str, figure: Figure, rule: Rule) -> Goal {
    Goal { row, key, figure, beside: "", rule, reach_for: None }
}

impl Goal {
    const fn beside(mut self, key: &'static str) -> Self {
        self.beside = key;
        self
    }

    const fn reach_for(mut self, figure: f64) -> Self {
        self.reach_for = Some(figure);
        self
    }
}

#[rustfmt::skip]
const GOALS: &[Goal] = &[
    goal("drain, Redis, concurrency 10, tasks/s", "redis drain 10", Rate, ShareAtLeast(0.50)).beside("redis limit-drain 10").reach_for(0.70),
    goal("drain, Redis, concurrency 100, tasks/s", "redis drain 100", Rate, ShareAtLeast(0.55)).beside("redis limit-drain 100").reach_for(0.75),
    goal("drain, Redis, concurrency 1,000, tasks/s", "redis drain 1000", Rate, ShareAtLeast(0.70)).beside("redis limit-drain 1000").reach_for(0.85),
    goal("end-to-end, Redis, 64 producers, tasks/s", "redis end-to-end", Rate, ShareAtLeast(0.55)).beside("redis limit-end-to-end"),
    goal("enqueue, Redis, one awaiting producer, tasks/s", "redis enqueue", Rate, ShareAtLeast(0.60)).beside("redis limit-enqueue"),
    goal("enqueue-concurrent, Redis, 64 callers, tasks/s", "redis enqueue-concurrent", Rate, ShareAtLeast(0.50)).beside("redis limit-enqueue-concurrent").reach_for(0.65),
    goal("enqueue-bulk, Redis, 1,000 per call, tasks/s", "redis enqueue-bulk 1000", Rate, ShareAtLeast(0.55)).beside("redis limit-enqueue-bulk").reach_for(0.75),
    goal("drain, concurrency 100, CPU of Redis, µs per task", "redis drain 100", BrokerCpu, ShareAtMost(1.15)).beside("redis limit-drain 100").reach_for(1.0),
    goal("end-to-end, CPU of Redis, µs per task", "redis end-to-end", BrokerCpu, ShareAtMost(1.3)).beside("redis limit-end-to-end").reach_for(1.15),
    goal("drain, 100 kB of payload, µs per task beside a GET", "redis drain large", Time, ShareAtMost(2.0)).beside("redis limit-get large").reach_for(1.3),
    goal("drain, Redis, 100 queues beside one, µs per task", "redis growth queues 100", Time, ShareAtMost(1.3)).beside("redis growth queues 1").reach_for(1.1),
    goal("drain, Redis, 1,000 queues beside one, µs per task", "redis growth queues 1000", Time, ShareAtMost(1.6)).beside("redis growth queues 1").reach_for(1.3),
    goal("drain, Redis, 10,000 queues beside one, µs per task", "redis growth queues 10000", Time, ShareAtMost(2.2)).beside("redis growth queues 1").reach_for(1.6),
    goal("drain, SQLite, 100 queues beside one, µs per task", "sqlite growth queues 100", Time, ShareAtMost(1.3)).beside("sqlite growth queues 1").reach_for(1.1),
    goal("drain, SQLite, 1,000 queues beside one, µs per task", "sqlite growth queues 1000", Time, ShareAtMost(1.6)).beside("sqlite growth queues 1").reach_for(1.3),
    goal("drain, SQLite, 10,000 queues beside one, µs per task", "sqlite growth queues 10000", Time, ShareAtMost(2.2)).beside("sqlite growth queues 1").reach_for(1.6),
    goal("drain, concurrency 100, CPU of the worker, µs per task", "redis drain 100", OwnCpu, AtMost(10.0)),
    goal("latency, Redis, enqueued by another process, p50, ms", "redis latency process", P50, AtMost(1.0)).beside("redis limit-latency").reach_for(0.5),
    goal("latency, Redis, enqueued by another process, p99, ms", "redis latency process", P99, AtMost(3.0)).beside("redis limit-latency").reach_for(1.5),
    goal("latency, Redis, enqueued by a plain script, p50, ms", "redis latency script", P50, AtMost(1.0)).beside("redis limit-latency").reach_for(0.5),
    goal("latency, Redis, enqueued by a plain script, p99, ms", "redis latency script", P99, AtMost(3.0)).beside("redis limit-latency").reach_for(1.5),
    goal("latency, Redis, enqueued in the worker's process, p50, ms", "redis latency same", P50, AtMost(1.0)).beside("redis limit-latency").reach_for(0.5),
    goal("latency, Redis, enqueued in the worker's process, p99, ms", "redis latency same", P99, AtMost(3.0)).beside("redis limit-latency").reach_for(1.5),
    goal("latency, SQLite, same process, p50, ms", "sqlite latency same", P50, AtMost(0.6)).beside("sqlite limit-latency").reach_for(0.4),
    goal("latency, SQLite, same process, p99, ms", "sqlite latency same", P99, AtMost(2.0)).beside("sqlite limit-latency").reach_for(1.0),
    goal("latency, SQLite, two processes, p50, ms", "sqlite latency process", P50, AtMost(1.2)).beside("sqlite limit-latency").reach_for(0.8),
    goal("latency, SQLite, two processes, p99, ms", "sqlite latency process", P99, AtMost(4.0)).beside("sqlite limit-latency").reach_for(1.5),
    goal("wait, Redis, worked by another process, p99, ms", "redis wait process", P99, AtMost(2.0)),
    goal("wait, Redis, same process, p99, ms", "redis wait same", P99, AtMost(2.0)),
    goal("wait, SQLite, worked by another process, p99, ms", "sqlite wait process", P99, AtMost(3.0)),
    goal("wait, SQLite, same process, p99, ms", "sqlite wait same", P99, AtMost(3.0)),
    goal("delayed, Redis, earliest start after due, ms", "redis delayed", More(EARLIEST), AtLeast(0.0)),
    goal("delayed, Redis, p99 late, ms", "redis delayed", P99, AtMost(5.0)).reach_for(2.0),
    goal("delayed, SQLite, earliest start after due, ms", "sqlite delayed", More(EARLIEST), AtLeast(0.0)),
    goal("delayed, SQLite, p99 late, ms", "sqlite delayed", P99, AtMost(5.0)),
    goal("idle, Redis, broker commands per second", "redis idle", More("commands per second"), AtMost(3.0)).reach_for(1.0),
    goal("idle, Redis, CPU of the worker, %", "redis idle", More("CPU %"), AtMost(0.1)),
    goal("idle, Redis, RSS, MiB", "redis idle", Rss, AtMost(10.0)).reach_for(6.0),
    goal("idle, SQLite, CPU of the worker, %", "sqlite idle", More("CPU %"), AtMost(0.1)),
    goal("idle, SQLite, RSS, MiB", "sqlite idle", Rss, AtMost(10.0)),
    goal("scheduled-million, Redis, drain beside without, tasks/s", "redis drain crowded", Rate, ShareAtLeast(0.75)).beside("redis drain empty").reach_for(0.90),
    goal("scheduled-million, Redis, enqueue beside without, tasks/s", "redis enqueue crowded", Rate, ShareAtLeast(0.75)).beside("redis enqueue empty").reach_for(0.90),
    goal("SQLite, one awaiting producer, tasks/s", "sqlite enqueue", Rate, AtLeast(5_500.0)).beside("sqlite limit-enqueue").reach_for(8_000.0),
    goal("SQLite, 64 callers, tasks/s", "sqlite enqueue-concurrent", Rate, AtLeast(45_000.0)).beside("sqlite limit-enqueue-concurrent").reach_for(70_000.0),
    goal("SQLite, bulk of 1,000, tasks/s", "sqlite enqueue-bulk 1000", Rate, AtLeast(120_000.0)).beside("sqlite limit-enqueue-bulk").reach_for(200_000.0),
    goal("SQLite, drain, concurrency 10, tasks/s", "sqlite drain 10", Rate, AtLeast(25_000.0)).beside("sqlite limit-drain 10").reach_for(40_000.0),
    goal("SQLite, drain, concurrency 100, tasks/s", "sqlite drain 100", Rate, AtLeast(45_000.0)).beside("sqlite limit-drain 100").reach_for(80_000.0),
    goal("SQLite, 1M scheduled and 1M archived, drain beside empty", "sqlite drain crowded", Rate, ShareAtLeast(0.80)).beside("sqlite drain empty").reach_for(0.95),
    goal("SQLite, 1M scheduled and 1M archived, enqueue beside empty", "sqlite enqueue crowded", Rate, ShareAtLeast(0.80)).beside("sqlite enqueue empty").reach_for(0.95),
    goal("SQLite, 4 processes, slowest to fastest", "sqlite processes", More("slowest to fastest"), AtLeast(0.85)).reach_for(0.95),
    goal("SQLite, 4 processes, wait p99, ms", "sqlite processes", P99, AtMost(30.0)).reach_for(20.0),
    goal("memory, RSS of the worker in drain, Redis, MiB", "redis drain 100", Rss, AtMost(12.0)),
    goal("memory, bytes of Redis per waiting task", "redis enqueue", More("bytes per task"), AtMost(693.0)),
    goal("blocking, Redis, longest time without an extension, in leases", "redis blocking", More("leases without extension"), AtMost(1.0)),
    goal("blocking, SQLite, longest time without an extension, in leases", "sqlite blocking", More("leases without extension"), AtMost(1.0)),
];

/// Returns whether a row compares the run of `key` with that of `beside`.
#[cfg(test)]
pub(super) fn compares(key: &str, beside: &str) -> bool {
    GOALS.iter().any(|goal| goal.key == key && goal.beside == beside)
}

/// Returns every row with its figures; `reports_memory` says whether this system reports the memory of a process.
pub(super) fn judge(found: &Found, reports_memory: bool) -> Vec<Judged> {
    GOALS.iter().map(|goal| judge_one(goal, found, reports_memory)).collect()
}

fn judge_one(goal: &Goal, found: &Found, reports_memory: bool) -> Judged {
    let median = |key: &str| found.get(key).and_then(|runs| goal.figure.median(runs));
    let (measured, beside) = (median(goal.key), median(goal.beside).map(|median| median.figure));
    let figure = measured.map(|median| median.figure);
    let share = figure.zip(beside).map(|(figure, beside)| figure / beside);
    let (at_least, of_share, bound) = match goal.rule {
        AtLeast(bound) => (true, false, bound),
        AtMost(bound) => (false, false, bound),
        ShareAtLeast(bound) => (true, true, bound),
        ShareAtMost(bound) => (false, true, bound),
    };
    let formatted = |bound: f64| {
        let bound = if of_share { format!("{:.0} %", bound * 100.0) } else { short(bound) };
        format!("{} {bound}", if at_least { "≥" } else { "≤" })
    };
    Judged {
        row: goal.row,
        measured,
        beside,
        share,
        to_reach: formatted(bound),
        reach_for: goal.reach_for.map(formatted).unwrap_or_default(),
        reached: if of_share { share } else { figure }
            .map(|figure| if at_least { figure >= bound } else { figure <= bound }),
        is_unknown: measured.is_none() && goal.figure == Rss && !reports_memory,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_memory_is_unknown_on_a_system_that_does_not_report_it() {
        let unknown = |reports_memory| {
            let judged = judge(&Found::new(), reports_memory).into_iter().filter(|judged| judged.is_unknown);
            judged.map(|judged| judged.row).collect::<Vec<_>>()
        };
        assert_eq!(unknown(true), [""; 0]);
        let unknown = unknown(false);
        assert_eq!(unknown.len(), 3, "{unknown:?}");
        assert!(unknown.iter().all(|row| row.contains(", RSS")), "{unknown:?}");
    }
}
