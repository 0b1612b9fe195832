//! Notifies the waits of this process that something has changed; each wait looks for the change itself.

use tokio::sync::watch;

use super::super::tx::Effects;

/// One channel per kind of notification.
#[derive(Debug)]
pub(in crate::broker::sqlite) struct Notifier {
    work: watch::Sender<()>,
    due: watch::Sender<()>,
    signal: watch::Sender<()>,
    ends: watch::Sender<()>,
}

/// Waits for one kind of notification, from the moment when the listener was made.
#[derive(Debug)]
pub(in crate::broker::sqlite) struct Listener(watch::Receiver<()>);

impl Notifier {
    pub(in crate::broker::sqlite) fn new() -> Self {
        let sender = || watch::Sender::new(());
        Self { work: sender(), due: sender(), signal: sender(), ends: sender() }
    }

    /// Wakes the waits that a commit concerns.
    pub(in crate::broker::sqlite) fn notify(&self, effects: Effects) {
        for (concerned, sender) in [
            (effects.work, &self.work),
            (effects.due, &self.due),
            (effects.signal, &self.signal),
            (effects.ended, &self.ends),
        ] {
            if concerned {
                sender.send_replace(());
            }
        }
    }

    /// Wakes every wait: another program wrote, or the broker ends.
    pub(in crate::broker::sqlite) fn notify_all(&self) {
        self.notify(Effects { work: true, due: true, signal: true, ended: true });
    }

    /// Whether there is a wait.
    pub(in crate::broker::sqlite) fn has_subscribers(&self) -> bool {
        [&self.work, &self.due, &self.signal, &self.ends].iter().any(|sender| sender.receiver_count() > 0)
    }

    pub(in crate::broker::sqlite) fn work(&self) -> Listener {
        Listener(self.work.subscribe())
    }

    pub(in crate::broker::sqlite) fn due(&self) -> Listener {
        Listener(self.due.subscribe())
    }

    pub(in crate::broker::sqlite) fn ends(&self) -> Listener {
        Listener(self.ends.subscribe())
    }

    pub(in crate::broker::sqlite) fn signals(&self) -> Listener {
        Listener(self.signal.subscribe())
    }
}

impl Listener {
    /// Returns at the first notification since the last call.
    pub(in crate::broker::sqlite) async fn notified(&mut self) {
        // The sender lives as long as the broker's threads. Once they have ended, the next read of the caller fails as closed.
        let _ = self.0.changed().await;
    }
}
