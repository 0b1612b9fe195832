//! How long a component waits before its next try.

use std::time::Duration;

use fastrand::Rng;

/// Growing pauses between the tries of a component whose broker does not answer.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first: Duration,
    most: Duration,
    step: Duration,
}

impl Backoff {
    /// Creates pauses from `first`, doubling up to `most`.
    pub(crate) fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, step: first }
    }

    /// Returns the next pause: half of the step for sure, the other half by chance, so that servers spread out.
    pub(crate) fn pause(&mut self, random: &mut Rng) -> Duration {
        let pause = self.step.mul_f64(0.5 + 0.5 * random.f64());
        self.step = self.step.saturating_mul(2).min(self.most);
        pause
    }

    /// Makes the next pause the first again, after a success.
    pub(crate) fn reset(&mut self) {
        self.step = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
