//! Notifies the waits of this process that something has changed; each wait looks for the change itself.

use tokio::sync::watch;

use super::super::tx::Effects;

/// One channel per kind of notification.
#[derive(Debug, Default)]
pub(in crate::broker::sqlite) struct Notifier {
    pub(in crate::broker::sqlite) work: Channel,
    pub(in crate::broker::sqlite) due: Channel,
    pub(in crate::broker::sqlite) signal: Channel,
    pub(in crate::broker::sqlite) ends: Channel,
}

/// Notifies of one kind of change.
#[derive(Debug, Default)]
pub(in crate::broker::sqlite) struct Channel(watch::Sender<()>);

/// Waits for one kind of notification, from the moment when the listener was made.
#[derive(Debug)]
pub(in crate::broker::sqlite) struct Listener(watch::Receiver<()>);

impl Notifier {
    /// Wakes the waits that a commit concerns.
    pub(in crate::broker::sqlite) fn notify(&self, effects: Effects) {
        for (concerned, channel) in [
            (effects.work, &self.work),
            (effects.due, &self.due),
            (effects.signal, &self.signal),
            (effects.ended, &self.ends),
        ] {
            if concerned {
                channel.0.send_replace(());
            }
        }
    }

    /// Wakes every wait: another program wrote, or the broker ends.
    pub(in crate::broker::sqlite) fn notify_all(&self) {
        self.notify(Effects { work: true, due: true, signal: true, ended: true });
    }

    /// Whether there is a wait.
    pub(in crate::broker::sqlite) fn has_subscribers(&self) -> bool {
        [&self.work, &self.due, &self.signal, &self.ends].iter().any(|channel| channel.0.receiver_count() > 0)
    }
}

impl Channel {
    pub(in crate::broker::sqlite) fn listen(&self) -> Listener {
        Listener(self.0.subscribe())
    }
}

impl Listener {
    /// Returns at the first notification since the last call.
    pub(in crate::broker::sqlite) async fn notified(&mut self) {
        // The sender lives as long as the broker's threads. Once they have ended, the next read of the caller fails as closed.
        let _ = self.0.changed().await;
    }
}
