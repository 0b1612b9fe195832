//! Times that the modules `timing` measure. A busy machine delays all of them alike, so a bound is the larger of a time for a
//! quiet machine and ten times a reference that is measured in between.

use std::time::Duration;

/// Returns the time that half of `times` are below.
fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Checks that half of `took` are below `quiet`, or below ten times the median of `reference`.
#[track_caller]
pub(crate) fn half_are_below(mut took: Vec<Duration>, quiet: Duration, mut reference: Vec<Duration>) {
    let (took, reference) = (median(&mut took), median(&mut reference));
    assert!(took < quiet.max(10 * reference), "half of them took longer than {took:?}, the reference {reference:?}");
}
