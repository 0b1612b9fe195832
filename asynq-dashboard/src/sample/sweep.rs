//! Reads all queues every few seconds, with a pause that grows with what the read took.

use std::{
    sync::{PoisonError, Weak},
    time::{Duration, Instant},
};

use super::{News, Shared};

/// Between two sweeps, at least.
const EVERY: Duration = Duration::from_secs(5);
/// While the broker is away: how soon its coming back is seen.
const AWAY: Duration = Duration::from_secs(1);

/// Sweeps until the last handle of the samples is dropped.
pub(super) async fn run(shared: Weak<Shared>) {
    loop {
        let began = Instant::now();
        let pause = {
            let Some(shared) = shared.upgrade() else { return };
            let answer = shared.read().await;
            let is_back = answer.is_ok();
            shared.news.send_modify(|news| match answer {
                Ok(snapshot) => {
                    shared.kept.lock().unwrap_or_else(PoisonError::into_inner).add(&snapshot, Instant::now());
                    *news = News { latest: Some(snapshot), away: None };
                }
                Err(error) => news.away = Some(error),
            });
            let watched = shared.news.receiver_count() > 0;
            if is_back { pause(began.elapsed(), watched) } else { AWAY }
        };
        tokio::time::sleep(pause).await;
    }
}

/// How long to rest after a sweep that took so long: a tenth of the time is spent reading while somebody looks, a
/// fiftieth otherwise.
fn pause(took: Duration, watched: bool) -> Duration {
    EVERY.max(took * if watched { 9 } else { 49 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_queues_are_read_less_often_most_of_all_when_nobody_looks() {
        let ms = Duration::from_millis;
        for (took, watched, expected) in
            [(ms(2), true, EVERY), (ms(2), false, EVERY), (ms(1000), true, ms(9000)), (ms(1000), false, ms(49_000))]
        {
            assert_eq!(pause(took, watched), expected);
        }
    }
}
