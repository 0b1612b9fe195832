//! Named moments of a running server, so that tests await them instead of sleeping.

use tokio::sync::watch;

/// The moments of one server.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Signals {
    /// A fetch returned tasks.
    pub fetched: Signal,
    /// The last fetch found nothing, and nothing is running or waiting to be settled.
    pub idle: Signal,
    /// The broker took an outcome.
    pub settled: Signal,
    /// The broker refused an outcome or an extension, because this server had lost the task.
    pub lost: Signal,
    /// Due tasks were moved to pending.
    pub forwarded: Signal,
    /// A beat reached the broker.
    pub beat: Signal,
    /// The leases of all tasks that the server holds were extended.
    pub extended: Signal,
    /// An archived task was deleted because its archive was full.
    pub trimmed: Signal,
    /// A pass of the janitor ended.
    pub cleaned: Signal,
    /// A pass of the aggregator ended.
    pub aggregated: Signal,
    /// The server listens for cancel requests.
    pub subscribed: Signal,
    /// The server has stopped fetching.
    pub quiet: Signal,
}

/// A kind of moment, which is counted and can be awaited.
#[derive(Debug, Default)]
pub struct Signal(watch::Sender<u64>);

impl Signal {
    /// Returns how often the moment has occurred.
    pub fn count(&self) -> u64 {
        *self.0.borrow()
    }

    /// Waits until the moment has occurred `times` times since the start. A caller that takes [`count`](Self::count) before its
    /// action misses no occurrence.
    pub async fn reached(&self, times: u64) {
        let mut seen = self.0.subscribe();
        // The sender is `self`, so this cannot end with an error.
        let _ = seen.wait_for(|count| *count >= times).await;
    }

    pub(super) fn notify(&self) {
        self.notify_by(1);
    }

    pub(super) fn notify_by(&self, times: u64) {
        if times > 0 {
            self.0.send_modify(|count| *count += times);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signal_before_the_wait_is_not_missed() {
        let signal = Signal::default();
        let before = signal.count();
        signal.notify();
        signal.reached(before + 1).await;
        assert_eq!(signal.count(), 1);
    }
}
