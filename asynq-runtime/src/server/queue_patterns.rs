//! Matches the patterns of a server against the broker's queues again and again.
//!
//! A broker only notifies that its queues may have changed, so each look reads the whole list. A server without patterns
//! never looks.

use std::{
    mem::take,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{config::SAFETY_NET, retry_backoff::RetryBackoff, server_context::ServerContext};
use crate::broker::BrokerError;

/// Longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Shortest time between two lines about changes: the queues of tenants may come and go several times a second.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

/// Keeps the queues of patterns up to date until it is dropped.
pub(crate) async fn run(context: Arc<ServerContext>) {
    let mut retry_backoff = RetryBackoff::new("queue patterns", LONGEST_PAUSE);
    let mut changes = Changes::default();
    while context.queues.has_patterns() {
        match look(&context, &mut changes).await {
            Ok(()) => retry_backoff.on_success(),
            Err(error) => tokio::time::sleep(retry_backoff.on_error(&error)).await,
        }
    }
}

/// Reads which queues exist, and waits until there may be others.
async fn look(context: &ServerContext, changes: &mut Changes) -> Result<(), BrokerError> {
    let known = context.answer(context.broker.queues()).await?;
    if let Some((added, removed)) = context.queues.learn(&known) {
        changes.added += added;
        changes.removed += removed;
    }
    // A look without changes, which comes after the safety net at the latest, writes the line about those before it.
    if let Some((added, removed)) = changes.take_due(Instant::now()) {
        let served = context.queues.now().len();
        log!(info, added, removed, served, "the queues that match the patterns have changed");
    }
    context.notification(context.broker.wait_for_queues(SAFETY_NET)).await
}

/// How many queues came and went since the last line about them.
#[derive(Debug, Default)]
struct Changes {
    added: usize,
    removed: usize,
    logged_at: Option<Instant>,
}

impl Changes {
    /// Returns how many queues came and how many went, and begins anew, if any did and a line is due.
    fn take_due(&mut self, now: Instant) -> Option<(usize, usize)> {
        let is_due = self.logged_at.is_none_or(|at| now.saturating_duration_since(at) >= BETWEEN_LINES);
        if !is_due || (self.added, self.removed) == (0, 0) {
            return None;
        }
        self.logged_at = Some(now);
        Some((take(&mut self.added), take(&mut self.removed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_within_a_minute_of_a_line_are_summed_up_in_the_next() {
        let (began, mut changes) = (Instant::now(), Changes::default());
        let mut line = |added: usize, removed: usize, after: u64| {
            changes.added += added;
            changes.removed += removed;
            changes.take_due(began + Duration::from_secs(after))
        };
        assert_eq!(line(0, 0, 0), None, "nothing has changed");
        assert_eq!(line(3, 0, 1), Some((3, 0)), "the first line comes at once");
        assert_eq!([line(1, 0, 2), line(0, 1, 30), line(2, 0, 60)], [None; 3]);
        assert_eq!(line(0, 0, 61), Some((3, 1)), "although the last look saw no change");
        assert_eq!(line(0, 0, 200), None, "each change is told once");
        assert_eq!(line(0, 2, 201), Some((0, 2)));
    }
}
