//! How long to wait: before a failed task's next attempt, and before a component's next try.

use std::time::Duration;

use fastrand::Rng;

/// No task waits longer than this for its next attempt; asynq's formula has no cap and overflows.
pub(crate) const LONGEST_RETRY_DELAY: Duration = asynq_grammar::backoff::LONGEST;

/// asynq's delay before the next attempt of a task that has failed `retried` times before: n⁴ + 15 s,
/// and up to 29·(n+1) s on top, as `roll` says (0..30), so that tasks that failed together do not return together.
pub(crate) fn retry_delay(retried: u32, roll: u32) -> Duration {
    let n = u64::from(retried);
    let jitter = u64::from(roll % 30).saturating_mul(n + 1);
    let seconds = n.saturating_pow(4).saturating_add(15).saturating_add(jitter);
    Duration::from_secs(seconds).min(LONGEST_RETRY_DELAY)
}

/// Growing pauses between the tries of a component whose broker does not answer.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first: Duration,
    most: Duration,
    step: Duration,
}

impl Backoff {
    /// From `first`, doubling up to `most`.
    pub(crate) fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, step: first }
    }

    /// The next pause: half of the step for sure, the other half by chance, so that servers spread out.
    pub(crate) fn pause(&mut self, random: &mut Rng) -> Duration {
        let pause = self.step.mul_f64(0.5 + 0.5 * random.f64());
        self.step = self.step.saturating_mul(2).min(self.most);
        pause
    }

    /// It worked: the next pause is the first again.
    pub(crate) fn reset(&mut self) {
        self.step = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_asynqs() {
        let vector: serde_json::Value = serde_json::from_str(include_str!("testdata/pure_retry_delay.json")).unwrap();
        let cases = vector["cases"].as_array().unwrap();
        assert!(cases.len() > 10);
        for case in cases {
            let n = u32::try_from(case["n_retried"].as_u64().unwrap()).unwrap();
            let (low, high) = (case["formula_min_s"].as_u64().unwrap(), case["formula_max_s"].as_u64().unwrap());
            let cap = LONGEST_RETRY_DELAY.as_secs();
            assert_eq!(retry_delay(n, 0).as_secs(), low.min(cap), "n = {n}");
            assert_eq!(retry_delay(n, 29).as_secs(), high.min(cap), "n = {n}");
        }
    }

    #[test]
    fn delays_never_shrink_and_never_pass_the_cap() {
        for roll in 0..30 {
            let mut before = Duration::ZERO;
            for n in (0..2_000).chain([65_535, 1 << 20, u32::MAX - 1, u32::MAX]) {
                let delay = retry_delay(n, roll);
                assert!(delay >= before && delay <= LONGEST_RETRY_DELAY, "n = {n}, roll = {roll}: {delay:?}");
                before = delay;
            }
        }
    }

    #[test]
    fn pauses_are_spread_over_the_upper_half_of_a_step() {
        let step = Duration::from_secs(1);
        let (mut random, mut backoff) = (Rng::with_seed(1), Backoff::new(step, step));
        let mut tenths = [0; 10];
        for _ in 0..1_000 {
            let pause = backoff.pause(&mut random).as_secs_f64();
            assert!((0.5..=1.0).contains(&pause), "{pause}");
            tenths[((pause - 0.5) * 20.0).min(9.0) as usize] += 1;
        }
        // Each tenth of the half gets 100 on average.
        assert!(tenths.iter().all(|n| (60..140).contains(n)), "{tenths:?}");
    }

    #[test]
    fn pauses_grow_to_their_limit_and_start_over() {
        let mut random = Rng::with_seed(1);
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        let mut step = Duration::from_millis(100);
        for _ in 0..8 {
            let pause = backoff.pause(&mut random);
            assert!(pause >= step / 2 && pause <= step, "{pause:?} of {step:?}");
            step = (step * 2).min(Duration::from_secs(1));
        }
        backoff.reset();
        assert!(backoff.pause(&mut random) <= Duration::from_millis(100));
    }
}
