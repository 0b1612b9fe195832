//! Decides how long a failed task waits: by its job's back-off, else by the server's, else by asynq's formula.

use std::{sync::Arc, time::Duration};

use crate::{
    broker::Action,
    job::{Backoff, JobError, Policy},
    panics,
    task::{TaskInfo, TaskMessage, TaskState},
};

/// No task waits longer than this for its next attempt; asynq's formula has no cap and overflows.
const LONGEST_RETRY_DELAY: Duration = asynq_grammar::backoff::LONGEST;

/// The retry delay of the failed tasks of a whole server, decided by a function of how often the task had failed before, of the error
/// and of the task: asynq's `RetryDelayFunc`. A longer delay than 10 days is cut to that.
pub(crate) type ServerBackoff = Arc<dyn Fn(u32, &JobError, &TaskInfo) -> Duration + Send + Sync>;

/// The back-offs that decide how long one task waits.
pub(super) struct Backoffs<'a> {
    pub(super) job: Option<Backoff>,
    pub(super) server: Option<&'a ServerBackoff>,
    pub(super) message: &'a TaskMessage,
    /// How many attempts in a row before this one were not a failure.
    pub(super) deferrals: u32,
}

impl Backoffs<'_> {
    /// Sets the delay of a task that is retried after an end with `policy`: by its `own` error, or by the text of one. The action keeps
    /// the delay that it has if no back-off decides, or if the error names one.
    pub(super) fn apply(&self, policy: Policy, own: Option<&JobError>, action: &mut Action) {
        if let Action::Retry { delay, error: Some(text), .. } = action
            && matches!(policy, Policy::Fail | Policy::NotAFailure)
        {
            let by_text = JobError::fail(text.as_str());
            *delay = self.delay(policy, own.unwrap_or(&by_text)).unwrap_or(*delay);
        }
    }

    /// Returns the delay of the task after `error`; `None` leaves it to asynq's formula. A function that panics is passed over: the
    /// task must not suffer for it.
    fn delay(&self, policy: Policy, error: &JobError) -> Option<Duration> {
        let retried = self.message.spent_retries();
        let deferrals = if policy == Policy::NotAFailure { self.deferrals } else { 0 };
        let by_job = |job: Backoff| decided("the job's", || job.delay_behind(deferrals, retried, error));
        self.job.and_then(by_job).or_else(|| {
            let decide = self.server?;
            let task = TaskInfo::from_message(self.message, TaskState::Active);
            decided("the server's", || decide(retried, error, &task).min(LONGEST_RETRY_DELAY))
        })
    }
}

/// Returns asynq's delay before the next attempt of a task that has failed `retried` times before: n⁴ + 15 s, and up to
/// 29·(n+1) s more by `jitter_step` (0..30), so that tasks that failed together do not return together.
pub(super) fn default_retry_delay(retried: u32, jitter_step: u32) -> Duration {
    let n = u64::from(retried);
    let jitter = u64::from(jitter_step % 30).saturating_mul(n + 1);
    let seconds = n.saturating_pow(4).saturating_add(15).saturating_add(jitter);
    Duration::from_secs(seconds).min(LONGEST_RETRY_DELAY)
}

fn decided(source: &str, decide: impl FnOnce() -> Duration) -> Option<Duration> {
    let decided = panics::catch(decide);
    decided.inspect_err(|panic| log!(warn, "{source} back-off panicked and is passed over: {panic}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panics(_: u32, _: &JobError) -> Duration {
        panic!("no idea")
    }

    #[test]
    fn the_job_decides_before_the_server_and_a_panic_passes_it_on() {
        let s = Duration::from_secs;
        let server: ServerBackoff =
            Arc::new(|retried, _, task| Duration::from_secs(u64::from(retried) + task.r#type.len() as u64));
        let never: ServerBackoff = Arc::new(|_, error, _| panic!("{error}"));
        let longest: ServerBackoff = Arc::new(|_, _, _| Duration::MAX);
        let table = [
            (None, None, None),
            (Some(Backoff::linear(s(10))), None, Some(s(40))),
            (Some(Backoff::linear(s(10))), Some(&server), Some(s(40))),
            (None, Some(&server), Some(s(7))),
            (Some(Backoff::by(panics)), Some(&server), Some(s(7))),
            (Some(Backoff::by(panics)), None, None),
            (Some(Backoff::by(panics)), Some(&never), None),
            (None, Some(&longest), Some(LONGEST_RETRY_DELAY)),
        ];
        let message = TaskMessage { r#type: "mail".into(), retried: 3, ..TaskMessage::default() };
        for (at, (job, server, expected)) in table.into_iter().enumerate() {
            let backoffs = Backoffs { job, server, message: &message, deferrals: 0 };
            assert_eq!(backoffs.delay(Policy::Fail, &JobError::fail("why")), expected, "case {at}: {job:?}");
        }
    }

    #[test]
    fn every_failure_waits_as_the_program_says_unless_its_error_names_a_time() {
        let s = Duration::from_secs;
        let server: ServerBackoff = Arc::new(|_, error, _| Duration::from_secs(error.to_string().len() as u64));
        let message = TaskMessage::default();
        let backoffs = Backoffs { job: None, server: Some(&server), message: &message, deferrals: 0 };
        let own = JobError::fail("throttled");
        for (policy, own, text, expected) in [
            (Policy::Fail, Some(&own), Some("its text"), 9),
            (Policy::NotAFailure, Some(&own), Some("its text"), 9),
            (Policy::Fail, None, Some("timed out"), 9),
            (Policy::RetryIn(s(60)), Some(&own), Some("its text"), 60),
            (Policy::Snooze(s(60)), Some(&own), None, 60),
        ] {
            let extra = crate::task::Extra::default();
            let mut action = Action::Retry { delay: s(60), error: text.map(str::to_owned), counted: true, extra };
            backoffs.apply(policy, own, &mut action);
            assert!(matches!(action, Action::Retry { delay, .. } if delay == s(expected)), "{policy:?}: {action:?}");
        }
    }

    #[test]
    fn delays_are_asynqs() {
        let vector: serde_json::Value = serde_json::from_str(include_str!("testdata/pure_retry_delay.json")).unwrap();
        let cases = vector["cases"].as_array().unwrap();
        assert!(cases.len() > 10);
        for case in cases {
            let n = u32::try_from(case["n_retried"].as_u64().unwrap()).unwrap();
            let (low, high) = (case["formula_min_s"].as_u64().unwrap(), case["formula_max_s"].as_u64().unwrap());
            let cap = LONGEST_RETRY_DELAY.as_secs();
            assert_eq!(default_retry_delay(n, 0).as_secs(), low.min(cap), "n = {n}");
            assert_eq!(default_retry_delay(n, 29).as_secs(), high.min(cap), "n = {n}");
        }
    }

    #[test]
    fn delays_never_shrink_and_never_pass_the_cap() {
        for jitter_step in 0..30 {
            let mut before = Duration::ZERO;
            for n in (0..2_000).chain([65_535, 1 << 20, u32::MAX - 1, u32::MAX]) {
                let delay = default_retry_delay(n, jitter_step);
                assert!(
                    delay >= before && delay <= LONGEST_RETRY_DELAY,
                    "n = {n}, jitter_step = {jitter_step}: {delay:?}"
                );
                before = delay;
            }
        }
    }
}
