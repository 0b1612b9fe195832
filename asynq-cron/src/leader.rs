//! Who plans the ticks of a program: a lease that saves work. Nothing depends on it: two leaders fire no tick twice (CRON.md §7).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::broker::{Broker, Candidate, Lead};
use tokio::{sync::watch, time::sleep};

/// How much earlier than the broker a leader takes its lease for over.
const MARGIN: Duration = Duration::from_secs(1);
/// Shorter leases would leave nothing to trust.
pub(crate) const SHORTEST_TTL: Duration = Duration::from_secs(3);
/// The pause after a failure; the broker has its own deadlines.
const PAUSE: Duration = Duration::from_millis(250);

/// Whether this scheduler leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Another does, or nobody.
    Follows,
    /// It leads for this long.
    Leads {
        /// When the trust ends; `None` without an election.
        until: Option<Instant>,
    },
}

impl Standing {
    /// Whether it leads at `now`.
    pub(crate) fn leads(&self, now: Instant) -> bool {
        match self {
            Self::Follows => false,
            Self::Leads { until } => until.is_none_or(|until| now < until),
        }
    }

    /// How long it still leads.
    pub(crate) fn remaining(&self, now: Instant) -> Option<Duration> {
        match self {
            Self::Leads { until: Some(until) } => Some(until.saturating_duration_since(now)),
            _ => None,
        }
    }
}

/// What to do after the broker's answer.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Trust the lease, and renew it after this time.
    Renew { until: Instant, after: Duration },
    /// Give it up: a newer program waits for it.
    Resign,
    /// Wait until it may be free, at most this long.
    Wait(Duration),
}

/// A decision by the answer to a request that was sent at `asked`.
fn next(lead: Lead, asked: Instant, ttl: Duration) -> Next {
    match lead {
        Lead::Ours { wanted: true } => Next::Resign,
        Lead::Ours { wanted: false } => Next::Renew { until: asked + (ttl - MARGIN.min(ttl)), after: ttl / 3 },
        Lead::Another(left) => Next::Wait(left.min(ttl)),
    }
}

/// Stands for the lead until it is dropped.
pub(crate) async fn campaign(
    broker: Arc<dyn Broker>,
    candidate: Candidate,
    ttl: Duration,
    standing: watch::Sender<Standing>,
) {
    // Several candidates that wake together ask one after another.
    let spread = Duration::from_millis(50 + (uuid::Uuid::new_v4().as_u128() % 200) as u64);
    let follow = || standing.send_replace(Standing::Follows);
    loop {
        let asked = Instant::now();
        match broker.lead(&candidate, ttl).await.map(|lead| next(lead, asked, ttl)) {
            Ok(Next::Renew { until, after }) => {
                standing.send_replace(Standing::Leads { until: Some(until) });
                sleep(after).await;
            }
            Ok(Next::Resign) => {
                follow();
                tracing::info!("a newer program takes the schedule over");
                if let Err(error) = broker.resign(&candidate).await {
                    tracing::debug!("the lead was not given up, it ends by itself: {error}");
                }
                // Its turn: it asks as soon as it hears.
                sleep(ttl / 3).await;
            }
            Ok(Next::Wait(left)) => {
                follow();
                if let Err(error) = broker.wait_for_lead(&candidate.program, left + spread).await {
                    tracing::debug!("cannot wait for the lead: {error}");
                    sleep(PAUSE).await;
                }
                sleep(spread / 4).await;
            }
            // What is known holds until its time is over.
            Err(error) => {
                tracing::debug!("the lead is not known: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_counts_from_before_the_question_and_ends_before_the_lease() {
        let asked = Instant::now();
        let ttl = Duration::from_secs(10);
        let led = next(Lead::Ours { wanted: false }, asked, ttl);
        let until = asked + Duration::from_secs(9);
        assert_eq!(led, Next::Renew { until, after: ttl / 3 });
        let standing = Standing::Leads { until: Some(until) };
        assert!(standing.leads(asked + Duration::from_millis(8_999)));
        assert!(!standing.leads(until));
        assert_eq!(standing.remaining(asked), Some(Duration::from_secs(9)));
        assert_eq!(standing.remaining(asked + ttl), Some(Duration::ZERO));
    }

    #[test]
    fn a_lease_is_kept_given_up_or_waited_for() {
        let (asked, ttl) = (Instant::now(), Duration::from_secs(3));
        assert_eq!(next(Lead::Ours { wanted: true }, asked, ttl), Next::Resign);
        assert_eq!(next(Lead::Another(Duration::from_secs(2)), asked, ttl), Next::Wait(Duration::from_secs(2)));
        // Somebody's longer lease, or rubbish, is looked at again in time.
        assert_eq!(next(Lead::Another(Duration::from_secs(900)), asked, ttl), Next::Wait(ttl));
        assert!(!Standing::Follows.leads(asked));
        let alone = Standing::Leads { until: None };
        assert!(alone.leads(asked + Duration::from_secs(1 << 20)) && alone.remaining(asked).is_none());
    }
}
