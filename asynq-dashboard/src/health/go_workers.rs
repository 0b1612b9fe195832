//! The statistics in the terms of jrallison/go-workers, for monitors that read its `/stats` already.

use asynq_runtime::inspector::Statistics;
use serde_json::{Map, Value, json};

/// Adds go-workers' five keys to the `answer`, in its types: numbers of enqueued tasks are texts, failed runs do not
/// count as processed, and times are Unix seconds.
pub(super) fn add(answer: &mut Value, statistics: &Statistics) {
    let totals = &statistics.totals;
    let queues = &statistics.queues;
    let mut jobs: Map<String, Value> = queues.iter().map(|queue| (queue.name.to_string(), json!([]))).collect();
    for run in &statistics.running {
        let message = json!({ "jid": run.id, "class": run.r#type, "queue": run.queue });
        let job = json!({ "message": message, "started_at": run.since.map(|since| since.timestamp()) });
        if let Value::Array(of_queue) = jobs.entry(run.queue.clone()).or_insert_with(|| json!([])) {
            of_queue.push(job);
        }
    }
    let enqueued: Map<String, Value> =
        queues.iter().map(|queue| (queue.name.to_string(), queue.pending.to_string().into())).collect();
    answer["processed"] = totals.processed_total.saturating_sub(totals.failed_total).into();
    answer["failed"] = totals.failed_total.into();
    answer["jobs"] = jobs.into();
    answer["enqueued"] = enqueued.into();
    answer["retries"] = queues.iter().map(|queue| queue.retry).sum::<u64>().into();
}
