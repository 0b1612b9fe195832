//! The runs of the page, in the order of one round: runs that are compared stand side by side.

use super::{
    Extent,
    growth::{self, LIMIT, QUEUES},
};
use crate::{
    order::{Order, Source},
    workload::{CYCLE, blocking_jobs},
};

/// One run, and the key by which goals name it.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    pub(super) key: String,
    pub(super) order: Order,
    /// The number of rounds in which it runs.
    pub(super) times: usize,
}

/// Scheduled tasks that are there in `… crowded`, beside which stands the same run without them, `… empty`. With the tasks that run
/// beside them they are fewer than 2^20, at which Redis doubles its table of keys and for a while moves some with each command.
const CROWD: u64 = 1_000_000;
const BESIDE: u64 = 40_000;
/// Bytes of a large payload, and how many tasks have one.
const LARGE: usize = 100_000;
const LARGE_TASKS: u64 = 4_000;
/// Seconds of four busy processes, and of jobs that only compute: these outlast a lease.
const BUSY: u64 = 4;
const COMPUTE: u64 = 36;

/// Returns the runs of a round.
pub(super) fn plan(extent: &Extent) -> Vec<Planned> {
    let seconds = |seconds| Some(if extent.quick { 1 } else { seconds });
    let mut plan = Vec::new();
    let mut add = |key: &str, workload: &str, n: u64, concurrency: usize, more: &dyn Fn(&mut Order)| {
        let broker = key.split(' ').next().unwrap_or_default().to_owned();
        let workload = workload.to_owned();
        let mut order =
            Order { workload, broker, n: extent.tasks(n), concurrency, payload_bytes: 100, ..Order::default() };
        more(&mut order);
        plan.push(Planned { key: key.to_owned(), order, times: extent.runs });
    };
    let plain = |_: &mut Order| {};
    let beside = |of: &'static str, present: Option<u64>| {
        move |order: &mut Order| (order.of, order.present) = (Some(of.to_owned()), present)
    };
    let (empty, crowd) = (None, Some(extent.tasks(CROWD)));
    let from = |source| move |order: &mut Order| order.from = Some(source);

    for concurrency in [10, 100, 1_000] {
        add(&format!("redis drain {concurrency}"), "drain", 100_000, concurrency, &plain);
        add(&format!("redis limit-drain {concurrency}"), "limit-drain", 100_000, concurrency, &plain);
    }
    for workload in ["drain", "limit-get"] {
        let large = |order: &mut Order| order.payload_bytes = LARGE;
        add(&format!("redis {workload} large"), workload, LARGE_TASKS, 100, &large);
    }
    add("redis drain empty", "scheduled-million", BESIDE, 100, &beside("drain", empty));
    add("redis drain crowded", "scheduled-million", BESIDE, 100, &beside("drain", crowd));
    add("redis end-to-end", "end-to-end", 60_000, 100, &plain);
    add("redis limit-end-to-end", "limit-end-to-end", 60_000, 100, &plain);
    add("redis enqueue", "enqueue", 20_000, 1, &plain);
    add("redis limit-enqueue", "limit-enqueue", 20_000, 100, &plain);
    add("redis enqueue-concurrent", "enqueue-concurrent", 100_000, 64, &plain);
    add("redis limit-enqueue-concurrent", "limit-enqueue-concurrent", 100_000, 64, &plain);
    add("redis enqueue empty", "scheduled-million", BESIDE, 64, &beside("enqueue-concurrent", empty));
    add("redis enqueue crowded", "scheduled-million", BESIDE, 64, &beside("enqueue-concurrent", crowd));
    add("redis enqueue-bulk 1000", "enqueue-bulk", 100_000, 1, &|order| order.batch = Some(1_000));
    add("redis limit-enqueue-bulk", "limit-enqueue-bulk", 100_000, 100, &plain);

    add("sqlite enqueue", "enqueue", 10_000, 1, &plain);
    add("sqlite limit-enqueue", "limit-enqueue", 10_000, 100, &plain);
    add("sqlite enqueue-concurrent", "enqueue-concurrent", 100_000, 64, &plain);
    add("sqlite limit-enqueue-concurrent", "limit-enqueue-concurrent", 100_000, 64, &plain);
    add("sqlite enqueue empty", "scheduled-million", BESIDE, 64, &beside("enqueue-concurrent", empty));
    add("sqlite enqueue crowded", "scheduled-million", BESIDE, 64, &beside("enqueue-concurrent", crowd));
    add("sqlite enqueue-bulk 1000", "enqueue-bulk", 100_000, 1, &|order| order.batch = Some(1_000));
    add("sqlite limit-enqueue-bulk", "limit-enqueue-bulk", 100_000, 100, &plain);
    for concurrency in [10, 100] {
        add(&format!("sqlite drain {concurrency}"), "drain", 100_000, concurrency, &plain);
        add(&format!("sqlite limit-drain {concurrency}"), "limit-drain", 100_000, concurrency, &plain);
    }
    add("sqlite drain empty", "scheduled-million", BESIDE, 100, &beside("drain", empty));
    add("sqlite drain crowded", "scheduled-million", BESIDE, 100, &beside("drain", crowd));
    add("sqlite end-to-end", "end-to-end", 60_000, 100, &plain);
    add("sqlite processes", "processes", 0, 64, &|order| order.seconds = seconds(BUSY));

    for broker in ["redis", "sqlite"] {
        add(&format!("{broker} latency process"), "latency", 100, 10, &from(Source::Process));
        if broker == "redis" {
            add("redis latency script", "latency", 100, 10, &from(Source::Script));
        }
        add(&format!("{broker} latency same"), "latency", 100, 10, &from(Source::Same));
        add(&format!("{broker} limit-latency"), "limit-latency", 100, 10, &plain);
        add(&format!("{broker} wait process"), "wait", 100, 10, &from(Source::Process));
        add(&format!("{broker} wait same"), "wait", 100, 10, &from(Source::Same));
        add(&format!("{broker} delayed"), "delayed", 100, 10, &plain);
        add(&format!("{broker} idle"), "idle", 0, 10, &|order| order.seconds = seconds(CYCLE));
        add(&format!("{broker} blocking"), "blocking", 0, blocking_jobs(), &|order| {
            (order.n, order.seconds) = (blocking_jobs() as u64, seconds(COMPUTE));
        });
    }
    for queues in QUEUES {
        // There are never more queues than tasks.
        let spread = |order: &mut Order| order.queues = Some(queues.min(order.n));
        for (name, workload) in [("redis", "drain"), ("sqlite", "drain"), (LIMIT, "limit-drain")] {
            add(&growth::key(name, queues), workload, 100_000, 100, &spread);
        }
    }
    for planned in &mut plan {
        match planned.order.workload.as_str() {
            // These take as long as all others, and differ little from run to run.
            "idle" | "blocking" => planned.times = 1,
            _ if planned.order.queues.is_some() => planned.times = growth::ROUNDS,
            _ => {}
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_workers_are_watched_once_and_for_a_whole_cycle() {
        let plan = plan(&Extent { runs: 3, quick: false, folder: "bench".into() });
        let idle: Vec<_> = plan.iter().filter(|planned| planned.order.workload == "idle").collect();
        assert_eq!(idle.len(), 2, "{idle:?}");
        assert!(idle.iter().all(|planned| planned.times == 1 && planned.order.seconds == Some(CYCLE)), "{idle:?}");
    }

    #[test]
    fn runs_beside_a_million_tasks_are_compared_with_the_same_runs_without() {
        let plan = plan(&Extent { runs: 3, quick: false, folder: "bench".into() });
        let crowded: Vec<_> = plan.iter().filter(|planned| planned.order.present.is_some()).collect();
        assert_eq!(crowded.len(), 4, "{crowded:?}");
        for crowded in crowded {
            let key = crowded.key.replace("crowded", "empty");
            let empty = plan.iter().find(|planned| planned.key == key).unwrap_or_else(|| panic!("no {key}"));
            assert_eq!(empty.order, Order { present: None, ..crowded.order.clone() });
            assert!(super::super::goals::compares(&crowded.key, &key), "{key}");
        }
    }
}
