//! Makes a failing sequence as short and plain as possible.

use proptest::strategy::ValueTree;

/// Removes steps that are not needed for a failure, then makes the values smaller.
///
/// proptest shrinks a list by one element after the other; here slices go first, which takes a few dozen plays instead of one
/// per step. `fails` plays a sequence and returns the number of the step that failed. It is called at most `budget` times.
pub(super) async fn shrink<T: ValueTree>(
    steps: &mut Vec<T>,
    failed_at: usize,
    mut budget: usize,
    mut fails: impl AsyncFnMut(Vec<T::Value>) -> Option<usize>,
) {
    steps.truncate(failed_at + 1);
    let mut width = steps.len().div_ceil(2);
    while width > 0 {
        let (mut at, mut any) = (0, false);
        while at < steps.len() && budget > 0 {
            let end = (at + width).min(steps.len());
            let rest = steps[..at].iter().chain(&steps[end..]).map(ValueTree::current).collect();
            budget -= 1;
            match fails(rest).await {
                Some(failed_at) => {
                    steps.drain(at..end);
                    steps.truncate(failed_at + 1);
                    any = true;
                }
                None => at = end,
            }
        }
        // A step may become superfluous after a later one was removed.
        if !any || budget == 0 {
            width = if width == 1 { 0 } else { width.div_ceil(2) };
        }
    }
    for at in 0..steps.len() {
        let mut is_simpler = at < steps.len() && steps[at].simplify();
        while is_simpler && budget > 0 {
            budget -= 1;
            is_simpler = match fails(steps.iter().map(ValueTree::current).collect()).await {
                Some(failed_at) => {
                    steps.truncate(failed_at + 1);
                    at < steps.len() && steps[at].simplify()
                }
                None => steps[at].complicate(),
            };
        }
        // Undoes a value that was never tried because the budget ended.
        while is_simpler && steps[at].complicate() {}
    }
}
