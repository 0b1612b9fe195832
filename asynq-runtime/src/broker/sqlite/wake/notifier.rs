//! Notifies the waits of this process that something has changed; each wait looks for the change itself.

use tokio::sync::watch;

use super::super::tx::Effects;

/// One channel per kind of notification. A subscriber is told of the first change since it subscribed or was told before. The senders
/// live as long as the broker's threads; after that a wait ends at once, and the next read of its caller fails as closed.
#[derive(Debug, Default)]
pub(in crate::broker::sqlite) struct Notifier {
    pub(in crate::broker::sqlite) work: watch::Sender<()>,
    pub(in crate::broker::sqlite) due: watch::Sender<()>,
    pub(in crate::broker::sqlite) signal: watch::Sender<()>,
    pub(in crate::broker::sqlite) ends: watch::Sender<()>,
}

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
                channel.send_replace(());
            }
        }
    }

    /// Wakes every wait: another program wrote, or the broker ends.
    pub(in crate::broker::sqlite) fn notify_all(&self) {
        self.notify(Effects { work: true, due: true, signal: true, ended: true });
    }

    /// Whether there is a wait.
    pub(in crate::broker::sqlite) fn has_subscribers(&self) -> bool {
        [&self.work, &self.due, &self.signal, &self.ends].iter().any(|channel| channel.receiver_count() > 0)
    }
}
