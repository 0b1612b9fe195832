//! Waits until something is so, without a miss of the notification that it has changed.

use tokio::sync::Notify;

/// Looks again after each notification until there is something, and returns it. A caller that changes what `look` sees calls
/// [`Notify::notify_waiters`] afterwards.
pub(crate) async fn until<T>(changed: &Notify, look: impl Fn() -> Option<T>) -> T {
    loop {
        // The wait listens before it looks: a change between the two ends it.
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

    use super::*;

    #[tokio::test]
    async fn a_change_between_the_look_and_the_wait_is_not_missed() {
        let (changed, looks) = (Notify::new(), Cell::new(0));
        let look = || {
            looks.set(looks.get() + 1);
            let found = (looks.get() == 2).then_some("found");
            changed.notify_waiters();
            found
        };
        assert_eq!(until(&changed, look).await, "found");
    }
}
