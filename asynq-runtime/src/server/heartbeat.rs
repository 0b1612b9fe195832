//! Shows to other programs that the server is alive, and which tasks it runs.

use std::{collections::BTreeSet, sync::Arc};

use chrono::{DateTime, Utc};

use super::{config::BEAT, retry_backoff::RetryBackoff, server_context::ServerContext};
use crate::task::WorkerInfo;

/// A run that is stuck: its queue, id and type.
type StuckRun = [String; 3];

/// Beats until it is dropped: every 5 s, and at once when the server becomes quiet or leaves.
pub(crate) async fn run(context: Arc<ServerContext>) {
    let mut retry_backoff = RetryBackoff::new("heartbeat", BEAT / 2);
    let mut stuck = BTreeSet::new();
    loop {
        crate::metrics::refresh();
        // Read before the beat: a change during the beat makes the next one come at once.
        let (was_quiet, was_closing) = (context.quiet.is_cancelled(), context.closing.is_cancelled());
        let now = context.broker.now();
        let (info, workers) = (context.server_info(), context.runs.worker_infos(&context.member.name, now));
        log_stuck(&workers, now, &mut stuck);
        let beat = context.answer(context.broker.beat(&context.member, &info, &workers)).await;
        if beat.is_ok() {
            context.signals.beat.notify();
        }
        let pause = retry_backoff.after(beat.map(|()| BEAT));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = context.quiet.cancelled(), if !was_quiet => {}
            () = context.closing.cancelled(), if !was_closing => {}
        }
    }
}

/// Logs each run that is stuck once; `logged` has those of the last call. A job with `async` that blocks its thread keeps the timer of its
/// own attempt from being polled, so that no other component notices it.
fn log_stuck(workers: &[WorkerInfo], now: DateTime<Utc>, logged: &mut BTreeSet<StuckRun>) {
    let stuck: BTreeSet<StuckRun> = workers
        .iter()
        .filter(|worker| worker.is_stuck(now))
        .map(|worker| [worker.queue.clone(), worker.task_id.clone(), worker.task_type.clone()])
        .collect();
    for [queue, id, r#type] in stuck.difference(logged) {
        log!(
            error,
            queue,
            id,
            r#type,
            "stuck: its time was over 10 s ago, and its job or a hook about its failure goes on; task, slot and lease wait meanwhile (a \
             job with `async` that blocks its thread ends with the worker at the latest)"
        );
    }
    *logged = stuck;
}

#[cfg(test)]
mod tests {
    use asynq_test_support::Log;
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn a_run_that_outlives_its_time_is_logged_once() {
        let (log, now) = (Log::keep(), DateTime::UNIX_EPOCH);
        let run = |id: &str, ago: i64| WorkerInfo {
            task_id: id.into(),
            deadline: Some((now - TimeDelta::seconds(ago)).into()),
            ..WorkerInfo::default()
        };
        let mut logged = BTreeSet::new();
        for _ in 0..2 {
            log_stuck(&[run("late", 11), run("soon", 9)], now, &mut logged);
        }
        assert_eq!((log.with("stuck").len(), log.with("id=\"late\"").len()), (1, 1), "{log:?}");
        log_stuck(&[run("late", 11), run("soon", 12)], now, &mut logged);
        assert_eq!(log.with("stuck").len(), 2, "{log:?}");
    }
}
