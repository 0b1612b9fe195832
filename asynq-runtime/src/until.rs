//! Waits for a condition without missing the notification of its change.

use tokio::sync::Notify;

/// Calls `look` now and after each notification until it returns a value, and returns that. Code that changes the result of `look`
/// must call [`Notify::notify_waiters`] after the change, or [`Notify::notify_one`] where one task waits.
pub(crate) async fn until<T>(changed: &Notify, look: impl Fn() -> Option<T>) -> T {
    loop {
        // `notified` is created before `look` runs, so that a change in between ends the wait.
        let notified = changed.notified();
        if let Some(found) = look() {
            return found;
        }
        notified.await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_change_between_the_look_and_the_wait_is_not_missed() {
        let (changed, looks) = (Notify::new(), Cell::new(0));
        let look = || {
            looks.set(looks.get() + 1);
            let found = (looks.get() == 2).then_some("found");
            changed.notify_waiters();
            found
        };
        assert_eq!(until(&changed, look).now_or_never(), Some("found"));
    }
}
