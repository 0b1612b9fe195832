//! Jobs that use every processor for longer than a lease: the worker must extend the leases of its tasks in time.

use std::{
    hint::black_box,
    thread::available_parallelism,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use asynq_runtime::prelude::*;

use super::Workload;
use crate::{measured::Measured, meter::Meter, order::Order, queue, task::Seen};

/// Longer than a lease of 30 s, plus the time that other programs wait after a lease.
const SECONDS: u64 = 36;

/// Returns the number of jobs, two for each processor and at least 16: fewer would leave time to the worker.
pub(crate) fn jobs() -> usize {
    16_usize.max(2 * available_parallelism().map_or(1, usize::from))
}

/// Computes for so many seconds.
#[job(queue = "bench", codec = "json")]
fn crunch(seen: State<Seen>, number: u64, seconds: u64) -> JobResult {
    let (began, mut sum) = (Instant::now(), number);
    while began.elapsed() < Duration::from_secs(seconds) {
        for n in 0..100_000_u64 {
            sum = black_box(sum.rotate_left(7) ^ n);
        }
    }
    seen.mark(number);
    Ok(())
}

pub(super) struct Blocking;

#[async_trait]
impl Workload for Blocking {
    async fn measure(&self, order: &Order) -> Result<Measured, BoxError> {
        let seen = Seen::none_of(order.n);
        let client = Client::connect(&order.url).await?;
        for number in 0..order.n {
            client.enqueue(crunch { number, seconds: order.seconds.unwrap_or(SECONDS) }).await?;
        }
        let meter = Meter::start(order)?;
        let running = queue::worker::<crunch>(order, seen.clone()).build().await?.start().await?;
        let extended = &running.signals().extended;
        let work = async {
            seen.all().await?;
            queue::acknowledged(&running, order.n).await
        };
        // A single server recovers its own tasks so late that it extends leases which ended before: it loses none. In a fleet another
        // server takes such a task, so that the time without an extension is the figure.
        let longest = longest_without(move || extended.reached(extended.count() + 1), work).await?;
        let measured = meter.stop()?.per_task(order);
        running.shutdown().await?;
        seen.exactly_once()?;
        Ok(measured.with("leases without extension", longest.as_secs_f64() / client.broker().lease().as_secs_f64()))
    }
}

/// Waits until `work` has ended; returns the longest time in which `next` did not end, which may be the time before the end of `work`.
async fn longest_without<F: Future<Output = ()>>(
    mut next: impl FnMut() -> F,
    work: impl Future<Output = Result<(), BoxError>>,
) -> Result<Duration, BoxError> {
    tokio::pin!(work);
    let (mut since, mut longest) = (Instant::now(), Duration::ZERO);
    loop {
        let ended = tokio::select! {
            ended = &mut work => Some(ended),
            () = next() => None,
        };
        longest = longest.max(since.elapsed());
        if let Some(ended) = ended {
            return ended.map(|()| longest);
        }
        since = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::{sync::Notify, time::sleep};

    use super::*;

    const LONG: Duration = Duration::from_millis(30);

    #[tokio::test]
    async fn the_longest_time_lies_between_two_extensions_or_before_the_end() {
        let (mut pauses, done) = ([Duration::ZERO, LONG, Duration::ZERO].into_iter(), &Notify::new());
        let next = move || {
            let pause = pauses.next();
            async move {
                match pause {
                    Some(pause) => sleep(pause).await,
                    None => {
                        done.notify_one();
                        pending::<()>().await;
                    }
                }
            }
        };
        let work = async {
            done.notified().await;
            Ok::<_, BoxError>(())
        };
        assert!(longest_without(next, work).await.unwrap() >= LONG);

        let work = async {
            sleep(LONG).await;
            Ok::<_, BoxError>(())
        };
        assert!(longest_without(pending::<()>, work).await.unwrap() >= LONG, "nothing was extended");
    }
}
