//! Shows to other programs that the server is alive, and which tasks it runs.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};

use super::{config::BEAT, retry_backoff::RetryBackoff, server_context::ServerContext};
use crate::{clock::since_boot, task::WorkerInfo};

/// A broker's clock that differs by more seconds from the time that has passed was set. An answer of Redis tells its time less exactly.
const STEP: f64 = 2.0;
/// A pause that lasts so much longer than it should shows that this process did not run.
const STANDSTILL: Duration = Duration::from_secs(5);

/// A run that is stuck: its queue, id and type.
type StuckRun = [String; 3];

/// Beats until it is dropped: every 5 s, and at once when the server becomes quiet or leaves.
pub(crate) async fn run(context: Arc<ServerContext>) {
    let mut retry_backoff = RetryBackoff::new("heartbeat", BEAT / 2);
    let mut stuck = BTreeSet::new();
    let (mut clock, mut has_stood_still) = (ClockSteps::default(), false);
    loop {
        crate::metrics::refresh();
        // Read before the beat: a change during the beat makes the next one come at once.
        let (was_quiet, was_closing) = (context.quiet.is_cancelled(), context.closing.is_cancelled());
        let now = context.broker.now();
        let (info, workers) = (context.server_info(), context.runs.worker_infos(&context.member.name, now));
        // After a standstill the timers of the attempts have not been polled yet.
        if !has_stood_still {
            log_stuck(&workers, now, &mut stuck);
        }
        let beat = context.answer(context.broker.beat(&context.member, &info, &workers)).await;
        if beat.is_ok() {
            context.signals.beat.notify();
        }
        // Each master of a cluster has a clock of its own.
        if !context.broker.has_parts() {
            clock.look(since_boot(), context.broker.now(), since_boot());
        }
        let pause = retry_backoff.after(beat.map(|()| BEAT));
        let began = since_boot();
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = context.quiet.cancelled(), if !was_quiet => {}
            () = context.closing.cancelled(), if !was_closing => {}
        }
        has_stood_still = log_standstill(since_boot().saturating_sub(began), pause);
    }
}

/// Logs that this process did not run, if a `pause` has `lasted` much longer than that. Returns whether it did: the lines that follow about
/// calls without an answer and about leases have this cause.
fn log_standstill(lasted: Duration, pause: Duration) -> bool {
    let missing = lasted.saturating_sub(pause);
    let is_standstill = missing > STANDSTILL;
    if is_standstill {
        log!(
            warn,
            seconds = missing.as_secs(),
            "this process did not run for some seconds: the machine slept, or the process was stopped or had no processor; attempts \
             whose time is over end now, and leases that have ended are extended unless another worker has taken the tasks"
        );
    }
    is_standstill
}

/// The last look at the broker's clock, beside the time since the machine's start, which no program can set.
#[derive(Debug, Default)]
struct ClockSteps {
    /// How many seconds the broker's clock is ahead of that time.
    ahead: Option<f64>,
}

impl ClockSteps {
    /// Logs that the clock was set since the last look, if it was. It showed `now` between `before` and `after`.
    fn look(&mut self, before: Duration, now: DateTime<Utc>, after: Duration) {
        let took = after.saturating_sub(before);
        if took > STANDSTILL {
            return;
        }
        let ahead = (now - DateTime::UNIX_EPOCH).as_seconds_f64() - before.as_secs_f64();
        let Some(last) = self.ahead.replace(ahead) else { return };
        let step = ahead - last;
        let seconds = step.abs().round() as u64;
        if step > STEP + took.as_secs_f64() {
            log!(
                warn,
                seconds,
                "the broker's clock was set ahead: delayed tasks and retries come, and locks, tokens and kept tasks end, earlier by as \
                 much; waiting tasks whose `expires` or `deadline` it passed are archived unrun"
            );
        } else if -step > STEP {
            log!(
                warn,
                seconds,
                "the broker's clock was set back: delayed tasks and retries that wait come, and locks, tokens and kept tasks end, later \
                 by as much"
            );
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
    fn a_step_of_the_brokers_clock_is_logged_once_and_a_machine_that_slept_sets_no_clock() {
        let (log, mut clock) = (Log::keep(), ClockSteps::default());
        let table = [
            // seconds since the start of the machine, the broker's, lines about a clock that was set ahead, and back
            (0, 0, 0, 0),
            (5, 6, 0, 0),
            (10, 9, 0, 0),
            (3_610, 3_609, 0, 0),
            (3_615, 7_214, 1, 0),
            (3_620, 7_219, 1, 0),
            (3_625, 3_624, 1, 1),
            (3_630, -315_000_000, 1, 2),
            (3_635, 315_000_000, 2, 2),
        ];
        for (boot, broker, ahead, back) in table {
            let (boot, now) = (Duration::from_secs(boot), DateTime::UNIX_EPOCH + TimeDelta::seconds(broker));
            clock.look(boot, now, boot);
            let lines = ["set ahead", "set back"].map(|text| log.with(text).len());
            assert_eq!(lines, [ahead, back], "{broker}: {log:?}");
        }
        assert_eq!(log.with("set ahead")[0].rsplit_once(' ').map(|(_, field)| field), Some("seconds=3600"), "{log:?}");
        // The thread had no processor between the readings.
        clock.look(Duration::from_secs(3_640), DateTime::UNIX_EPOCH, Duration::from_secs(3_646));
        assert_eq!(log.with("was set").len(), 4, "{log:?}");
    }

    #[test]
    fn a_pause_that_lasted_much_longer_shows_that_the_process_did_not_run() {
        let (log, secs) = (Log::keep(), Duration::from_secs);
        let table = [(5, 5, false), (9, 5, false), (95, 5, true), (0, 5, false)];
        for (lasted, pause, is_standstill) in table {
            assert_eq!(log_standstill(secs(lasted), secs(pause)), is_standstill, "{lasted}");
        }
        assert_eq!(log.with("did not run").len(), 1, "{log:?}");
        assert_eq!(log.with("seconds=90").len(), 1, "{log:?}");
    }

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
