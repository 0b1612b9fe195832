//! The runs of the comparison, and the figure of each that stands in the table.

use super::Extent;
use crate::{
    measured::Figure::{self, BrokerCpu, More, OwnCpu, P50, P99, Rate},
    order::Order,
    workload::CYCLE,
};

/// A run that every library makes.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    pub(super) key: &'static str,
    pub(super) order: Order,
    /// The number of rounds in which it runs.
    pub(super) times: usize,
    /// Whether its Redis is a round trip away.
    pub(super) is_away: bool,
}

/// A line of the table.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) title: &'static str,
    pub(super) key: &'static str,
    pub(super) figure: Figure,
    /// How many times as good as asynq ours has to be, and should be.
    pub(super) goal: Option<(f64, f64)>,
}

/// Commands of Redis, those in scripts included.
const COMMANDS: Figure = More("commands per second");

const fn row(title: &'static str, key: &'static str, figure: Figure) -> Row {
    Row { title, key, figure, goal: None }
}

impl Row {
    const fn goal(mut self, reach: f64, reach_for: f64) -> Self {
        self.goal = Some((reach, reach_for));
        self
    }
}

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row("enqueue, one awaiting producer, tasks/s", "enqueue", Rate).goal(1.2, 1.6),
    row("enqueue, one awaiting producer, p50, ms", "enqueue", P50),
    row("enqueue, 64 callers, tasks/s", "enqueue 64", Rate).goal(3.0, 4.0),
    row("enqueue, 1,000 per call, tasks/s", "enqueue bulk", Rate).goal(3.0, 4.0),
    row("drain, concurrency 10, tasks/s", "drain 10", Rate).goal(4.0, 5.0),
    row("drain, concurrency 100, tasks/s", "drain 100", Rate).goal(7.0, 8.0),
    row("drain, concurrency 1,000, tasks/s", "drain 1000", Rate).goal(10.0, 12.0),
    row("drain, concurrency 100, CPU of Redis, µs per task", "drain 100", BrokerCpu),
    row("drain, concurrency 100, CPU of the worker, µs per task", "drain 100", OwnCpu),
    row("end to end, 64 producers, concurrency 100, tasks/s", "end to end", Rate),
    row("start on an idle system, p50, ms", "latency", P50),
    row("start on an idle system, p99, ms", "latency", P99),
    row("idle worker, one queue, commands of Redis per second", "idle", COMMANDS),
    row("idle worker, 1,000 queues, commands of Redis per second", "idle, 1,000 queues", COMMANDS),
    row("drain over 1,000 queues, concurrency 100, tasks/s", "drain, 1,000 queues", Rate),
    row("payload of 100 kB, enqueue, 64 callers, tasks/s", "enqueue 64, 100 kB", Rate),
    row("payload of 100 kB, drain, concurrency 100, tasks/s", "drain 100, 100 kB", Rate),
    row("Redis 1 ms away, enqueue, one awaiting producer, tasks/s", "1 ms away, enqueue", Rate),
    row("Redis 1 ms away, enqueue, 64 callers, tasks/s", "1 ms away, enqueue 64", Rate),
    row("Redis 1 ms away, drain, concurrency 10, tasks/s", "1 ms away, drain 10", Rate),
    row("Redis 1 ms away, drain, concurrency 100, tasks/s", "1 ms away, drain 100", Rate),
    row("large backlog, drain, concurrency 100, tasks/s", "drain 100, backlog", Rate),
];

impl Figure {
    /// Returns how many times as good `ours` is as `theirs`: more is better only of the rate.
    pub(super) fn times(self, ours: f64, theirs: f64) -> f64 {
        if self == Rate { ours / theirs } else { theirs / ours }
    }
}

/// The names of runs whose Redis is a round trip away begin so.
const AWAY: &str = "1 ms away";
/// Bytes of a large payload.
const LARGE: usize = 100_000;
const MANY_QUEUES: u64 = 1_000;
/// Queues, tasks and seconds of a quick run.
const FEW_QUEUES: u64 = 20;
const FEW: u64 = 200;

/// Returns the runs of a round, in the order of the table.
pub(super) fn plan(extent: &Extent) -> Vec<Planned> {
    let mut plan: Vec<Planned> = Vec::new();
    let mut add = |key, workload: &str, n: u64, concurrency, more: &dyn Fn(&mut Order)| {
        let n = if extent.quick { n.min(FEW) } else { n };
        let (workload, broker) = (workload.to_owned(), "redis".to_owned());
        let mut order = Order { workload, broker, n, concurrency, payload_bytes: 100, ..Order::default() };
        more(&mut order);
        plan.push(Planned { key, order, times: extent.runs, is_away: key.starts_with(AWAY) });
    };
    let plain = |_: &mut Order| {};
    let large = |order: &mut Order| order.payload_bytes = LARGE;
    let queues = |order: &mut Order| order.queues = Some(if extent.quick { FEW_QUEUES } else { MANY_QUEUES });
    let seconds = Some(if extent.quick { 1 } else { CYCLE });

    add("enqueue", "enqueue", 20_000, 1, &plain);
    add("enqueue 64", "enqueue-concurrent", 100_000, 64, &plain);
    add("enqueue bulk", "enqueue-bulk", 100_000, 1, &|order| order.batch = Some(1_000));
    add("drain 10", "drain", 50_000, 10, &plain);
    add("drain 100", "drain", 100_000, 100, &plain);
    add("drain 1000", "drain", 100_000, 1_000, &plain);
    add("end to end", "end-to-end", 50_000, 100, &plain);
    add("latency", "latency", if extent.quick { 2 } else { 100 }, 10, &|order| {
        order.from = Some(crate::order::Source::Same);
    });
    add("idle", "idle", 0, 10, &|order| order.seconds = seconds);
    add("idle, 1,000 queues", "idle", 0, 10, &|order| {
        order.seconds = seconds;
        queues(order);
    });
    add("drain, 1,000 queues", "drain", 50_000, 100, &queues);
    add("enqueue 64, 100 kB", "enqueue-concurrent", 2_000, 64, &large);
    add("drain 100, 100 kB", "drain", 2_000, 100, &large);
    add("1 ms away, enqueue", "enqueue", 2_000, 1, &plain);
    add("1 ms away, enqueue 64", "enqueue-concurrent", 20_000, 64, &plain);
    add("1 ms away, drain 10", "drain", 5_000, 10, &plain);
    add("1 ms away, drain 100", "drain", 10_000, 100, &plain);
    add("drain 100, backlog", "drain", 100_000, 100, &|order| {
        order.among = Some(if extent.quick { 5 * FEW } else { extent.waiting });
    });
    // The backlog takes longer to fill than all the rest, and a whole cycle of an idle worker differs little from the next.
    for planned in plan.iter_mut().filter(|planned| planned.order.among.is_some() || planned.order.workload == "idle") {
        planned.times = 1;
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_workers_are_watched_once_and_for_a_whole_cycle() {
        let only = Vec::new();
        let plan = plan(&Extent { runs: 3, quick: false, waiting: 1, only, json: true, out: None });
        let idle: Vec<_> = plan.iter().filter(|planned| planned.order.workload == "idle").collect();
        assert_eq!(idle.len(), 2, "{idle:?}");
        assert!(idle.iter().all(|planned| planned.times == 1 && planned.order.seconds == Some(CYCLE)), "{idle:?}");
    }
}
