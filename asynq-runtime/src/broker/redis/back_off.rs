//! The pauses between attempts to connect.

use std::time::Duration;

use super::super::BrokerError;
use crate::pause::{doubled, spread};

/// Shortest and longest pause between two attempts to connect.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// The pause after the server has refused a connection that is not necessary, which the next attempt would hardly change.
const AFTER_REFUSAL: Duration = Duration::from_secs(60);

/// A connection that was lost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Life {
    pub(super) lasted: Duration,
    /// Whether a call was answered on it, and not refused as by a replica.
    pub(super) was_of_use: bool,
}

impl Life {
    /// Returns how many attempts have failed in a row when this connection is lost, if so many had before. One that is lost soon
    /// counts as a failure, too: the name may lead to the old master for a while, which refuses each call.
    pub(super) fn failures(self, before: u32) -> u32 {
        match self {
            Self { lasted, .. } if lasted >= BACK_OFF.1 => 0,
            Self { was_of_use: true, .. } => 1,
            Self { .. } => before.saturating_add(1),
        }
    }
}

/// Returns the pause after a connection was lost, if so many attempts have failed in a row.
pub(super) fn after_loss(failures: u32) -> Duration {
    if failures == 0 { Duration::ZERO } else { spread(back_off(failures)) }
}

/// Returns the pause after the last of so many attempts has failed. A connection is necessary unless its users have other means while
/// it is down; callers find out by themselves that a necessary one is refused.
pub(super) fn after_failure(error: &BrokerError, is_necessary: bool, failures: u32) -> Duration {
    if !is_necessary && !error.is_unavailable() { AFTER_REFUSAL } else { spread(back_off(failures)) }
}

/// Returns the pause after so many failures: 20 ms, doubling to 1 s.
pub(super) fn back_off(failures: u32) -> Duration {
    doubled(BACK_OFF.0, failures.saturating_sub(1), BACK_OFF.1)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{super::super::BrokerErrorKind, *};

    #[test]
    fn pauses_between_attempts_double_up_to_a_second_and_are_spread() {
        let pauses: Vec<_> = (1..=8).map(|failures| back_off(failures).as_millis()).collect();
        assert_eq!(pauses, [20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert_eq!(back_off(u32::MAX), BACK_OFF.1);
        let drawn: HashSet<Duration> = (0..20).map(|_| after_loss(7)).collect();
        assert!(drawn.len() > 1, "programs that lost their connections together do not come back together");
        assert!(drawn.iter().all(|pause| (back_off(7) / 2..=back_off(7)).contains(pause)), "{drawn:?}");
    }

    #[test]
    fn a_connection_that_is_lost_soon_and_was_of_no_use_is_a_further_failure() {
        let failures = |lasted, was_of_use, before| Life { lasted, was_of_use }.failures(before);
        let brief = BACK_OFF.1 / 2;
        assert_eq!([0, 1, 7, u32::MAX].map(|before| failures(brief, false, before)), [1, 2, 8, u32::MAX]);
        assert_eq!(failures(brief, true, 7), 1, "the first pause again");
        assert_eq!(after_loss(failures(BACK_OFF.1, false, 7)), Duration::ZERO, "the next one may be opened at once");
    }

    #[test]
    fn a_connection_that_is_not_necessary_is_refused_once_a_minute() {
        let refusals = [BrokerErrorKind::Denied, BrokerErrorKind::Config, BrokerErrorKind::Unexpected];
        for (kinds, is_necessary, is_long) in [
            (&refusals[..], false, true),
            (&refusals[..], true, false),
            (&[BrokerErrorKind::Unavailable, BrokerErrorKind::Timeout][..], false, false),
        ] {
            for &kind in kinds {
                let pause = after_failure(&BrokerError::new(kind, "why"), is_necessary, 3);
                assert_eq!(pause == AFTER_REFUSAL, is_long, "{kind:?}, necessary: {is_necessary}");
                assert!(is_long || pause <= back_off(3), "{pause:?}");
            }
        }
    }
}
