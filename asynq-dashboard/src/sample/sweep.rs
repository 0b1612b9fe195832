//! Reads all queues every few seconds, with a pause that grows with the duration of the read.

use std::{
    sync::Weak,
    time::{Duration, Instant},
};

use super::{Notification, Shared};

/// The pause while the broker is away, after which its return is seen.
const AWAY: Duration = Duration::from_secs(1);

/// When the queues are sampled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// The shortest pause between two sweeps.
    pub(crate) every: Duration,
    /// How long the queues are still sampled after a user has looked.
    pub(crate) awake: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        // The charts show the last hour.
        Self { every: Duration::from_secs(5), awake: Duration::from_secs(3_600) }
    }
}

impl Pace {
    /// Returns whether no user has looked for so long that the samples are not needed.
    fn is_asleep(self, since: Option<Duration>) -> bool {
        since.is_none_or(|since| since >= self.awake)
    }

    /// Returns the pause after a sweep that took this long: a tenth of the time is spent reading while a user looks, a
    /// fiftieth otherwise.
    pub(super) fn pause(self, took: Duration, watched: bool) -> Duration {
        self.every.max(took * if watched { 9 } else { 49 })
    }
}

/// Sweeps until the last handle of the samples is dropped.
pub(super) async fn run(shared: Weak<Shared>) {
    loop {
        let began = Instant::now();
        let pause = {
            let Some(shared) = shared.upgrade() else { return };
            let answer = shared.read().await;
            let is_away = answer.is_err();
            shared.notifications.send_modify(|notification| match answer {
                Ok(snapshot) => {
                    shared.rings.lock().add(&snapshot, Instant::now());
                    *notification = Notification { latest: Some(snapshot), is_away };
                }
                Err(_) => notification.is_away = is_away,
            });
            let watched = shared.notifications.receiver_count() > 0;
            let mut looked = shared.looked.subscribe();
            let last = *looked.borrow_and_update();
            if !watched && shared.pace.is_asleep(last.map(|at| at.elapsed())) {
                drop(shared);
                // Where the samples are dropped meanwhile, the next pass ends.
                let _ = looked.changed().await;
                continue;
            }
            if is_away { AWAY } else { shared.pace.pause(began.elapsed(), watched) }
        };
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_within_the_last_hour_keeps_the_sampler_awake() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let table = [(None, true), (seconds(0), false), (seconds(3_599), false), (seconds(3_600), true)];
        for (since, asleep) in table {
            assert_eq!(Pace::default().is_asleep(since), asleep, "{since:?}");
        }
    }

    #[test]
    fn many_queues_are_read_less_often_and_least_often_without_viewers() {
        let ms = Duration::from_millis;
        for (took, watched, expected) in
            [(2, true, 5_000), (2, false, 5_000), (1_000, true, 9_000), (1_000, false, 49_000)]
        {
            assert_eq!(Pace::default().pause(ms(took), watched), ms(expected));
        }
    }
}
