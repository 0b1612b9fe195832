//! Time-outs of calls: the URL parameters of every broker, and the wait that applies them.

use std::{ops::RangeInclusive, pin::Pin, time::Duration};

use tokio::time::{Instant, timeout, timeout_at};

/// A shorter time-out fails on an ordinary pause of the machine; a longer one hides that the broker does not answer.
const RANGE: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(60);

/// Reads a time-out. The error text shows a valid one.
pub(super) fn parse(text: &str) -> Result<Duration, &'static str> {
    let timeout = asynq_grammar::duration::parse(text).ok().filter(|timeout| RANGE.contains(timeout));
    timeout.ok_or("timeout and connect_timeout in a URL are times from 50ms to 1m: ?timeout=3s&connect_timeout=5s")
}

/// If the end of a wait is noticed later than this, nothing ran in between: the process or its machine was stopped, or a job
/// blocked the runtime.
const LATE: Duration = Duration::from_millis(100);
/// How long the thread that reads answers may then take for the bytes that arrived in the meantime.
const CATCHING_UP: Duration = Duration::from_millis(250);

/// The output of `call`, or `None` at `end`. If the end is noticed late, an answer may have arrived in time without having been
/// read, so an answer that is read within [`CATCHING_UP`] counts.
pub(super) async fn before<T>(end: Instant, mut call: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    if let Ok(output) = timeout_at(end, call.as_mut()).await {
        return Some(output);
    }
    if end.elapsed() < LATE {
        return None;
    }
    timeout(CATCHING_UP, call).await.ok()
}

#[cfg(test)]
mod tests {
    use std::{future::pending, pin::pin};

    use tokio::{sync::oneshot, task::yield_now};

    use super::*;

    #[tokio::test]
    async fn a_process_that_was_stopped_reads_the_bytes_that_arrived_before_it_gives_up() {
        for (comes, expected) in [(true, Some(Ok(7))), (false, None)] {
            let (answer, came) = oneshot::channel();
            let mut came = pin!(came);
            let end = Instant::now() + Duration::from_millis(10);
            let stands_still = async {
                std::thread::sleep(end.saturating_duration_since(Instant::now()) + LATE);
                // The timers fire first, so that the end is noticed before the answer is there.
                yield_now().await;
                if comes { answer.send(7).map(|()| None) } else { Ok(Some(answer)) }
            };
            let (output, _answer) = tokio::join!(before(end, came.as_mut()), stands_still);
            assert_eq!(output, expected);
        }
        assert_eq!(before(Instant::now(), pin!(pending::<()>())).await, None);
    }

    #[test]
    fn a_time_out_is_long_enough_to_work_and_short_enough_to_end() {
        assert_eq!(parse("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(parse("1m"), Ok(Duration::from_secs(60)));
        for wrong in ["", "3", "0s", "49ms", "61s", "-1s", "soon"] {
            assert!(parse(wrong).is_err_and(|message| message.contains("?timeout=3s")), "{wrong}");
        }
    }
}
