//! Waits for events that take milliseconds on a quiet machine; a wait that lasts a minute fails and names its place.
//!
//! The limit only ends a hang. It says nothing about how fast the product is: such a bound belongs into a module `timing`,
//! which `scripts/lanes` runs at the end with a processor to itself.

use std::{
    future::Future,
    panic::Location,
    thread,
    time::{Duration, Instant},
};

/// The longest that a test waits for one event.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The shortest and the longest pause between two probes of a state that sends no signal.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// The pause after a probe that took so long: costly probes leave most of the time to the awaited work.
fn pause(look: Duration) -> Duration {
    (3 * look).clamp(PAUSES.0, PAUSES.1)
}

/// Returns the output of `future`.
///
/// Panics after [`PATIENCE`] with the place of the call.
#[track_caller]
pub fn soon<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let place = Location::caller();
    async move {
        let Ok(output) = tokio::time::timeout(PATIENCE, future).await else {
            panic!("{place}: waited {PATIENCE:?} in vain");
        };
        output
    }
}

/// Calls `probe` again and again until it returns a value, and returns that value.
///
/// Panics after [`PATIENCE`] with the place of the call and `goal`, which completes "waited in vain: ".
#[track_caller]
pub fn eventually<T>(goal: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> impl Future<Output = T> {
    let place = Location::caller();
    async move {
        let looks = async {
            loop {
                let began = Instant::now();
                if let Some(value) = probe().await {
                    return value;
                }
                tokio::time::sleep(pause(began.elapsed())).await;
            }
        };
        let Ok(value) = tokio::time::timeout(PATIENCE, looks).await else {
            panic!("{place}: waited {PATIENCE:?} in vain: {goal}");
        };
        value
    }
}

/// [`eventually`] for tests without a runtime.
#[track_caller]
pub fn eventually_blocking<T>(goal: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        let look = Instant::now();
        if let Some(value) = probe() {
            return value;
        }
        assert!(began.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain: {goal}");
        thread::sleep(pause(look.elapsed()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `wait` on tokio's paused clock and returns what it panics with.
    fn panic_of<F: Future<Output = ()>>(wait: impl FnOnce() -> F + std::panic::UnwindSafe) -> String {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let wait = std::panic::AssertUnwindSafe(wait());
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(wait.0)))
            .expect_err("it waits in vain");
        *panic.downcast::<String>().expect("a formatted message")
    }

    #[test]
    fn a_wait_in_vain_names_its_place_and_its_condition() {
        let message = panic_of(|| soon(std::future::pending::<()>()));
        assert!(message.contains("wait.rs:") && message.ends_with("waited 60s in vain"), "{message}");
        let message = panic_of(|| eventually("the queue is empty", async || None::<()>));
        assert!(message.contains("wait.rs:") && message.ends_with("in vain: the queue is empty"), "{message}");
    }

    #[tokio::test]
    async fn a_wait_returns_the_value() {
        let mut looks = 0;
        let third = eventually("the third look", async || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(soon(third).await, 3);
        assert_eq!(eventually_blocking("a value", || Some(7)), 7);
    }
}
