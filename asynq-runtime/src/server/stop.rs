//! Asks a running attempt to stop, and keeps the reason.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use crate::job::Cancel;

/// Why an attempt should stop. Of several reasons the later variant counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    /// A cancel request for this task came.
    Cancelled = 1,
    /// The server is leaving and requeues the task.
    Leaving = 2,
    /// Another server has the task, it is gone, or this server was dropped: the outcome is discarded.
    Lost = 3,
}

/// Asks one attempt to stop. Jobs see the request, the executor also the reason.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    requested: Cancel,
    /// Made when waiting for a blocking job to notice the request has no point any more.
    leave: Cancel,
    /// The cancellation that the job sees: the request cancels it, and it can be cancelled without a request.
    pub(crate) cancel: Arc<Cancel>,
    why: AtomicU8,
}

impl Stop {
    pub(crate) fn stop(&self, why: Why) {
        self.why.fetch_max(why as u8, Ordering::AcqRel);
        if why == Why::Leaving {
            self.leave.cancel();
        }
        self.requested.cancel();
        self.cancel.cancel();
    }

    /// Returns why to stop, once [`requested`](Self::requested) has ended.
    pub(crate) fn why(&self) -> Why {
        match self.why.load(Ordering::Acquire) {
            3 => Why::Lost,
            2 => Why::Leaving,
            _ => Why::Cancelled,
        }
    }

    pub(crate) fn is_requested(&self) -> bool {
        self.requested.is_cancelled()
    }

    pub(crate) async fn requested(&self) {
        self.requested.cancelled().await;
    }

    pub(crate) async fn leave(&self) {
        self.leave.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_graver_reason_counts_in_any_order() {
        for (first, second, expected) in [
            (Why::Cancelled, Why::Leaving, Why::Leaving),
            (Why::Lost, Why::Leaving, Why::Lost),
            (Why::Leaving, Why::Cancelled, Why::Leaving),
        ] {
            let stop = Stop::default();
            stop.stop(first);
            stop.stop(second);
            assert_eq!(stop.why(), expected);
            assert!(stop.is_requested() && stop.cancel.is_cancelled());
        }
    }
}
