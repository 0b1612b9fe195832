//! Tells those who wait in this process that something has changed; they look for themselves what it is.

use tokio::sync::watch;

use super::tx::Effects;

/// One bell rope per kind of news.
#[derive(Debug)]
pub(super) struct News {
    work: watch::Sender<()>,
    due: watch::Sender<()>,
    signal: watch::Sender<()>,
}

/// Waits for one kind of news from the moment it was made.
#[derive(Debug)]
pub(super) struct Listener(watch::Receiver<()>);

impl News {
    pub(super) fn new() -> Self {
        Self { work: watch::Sender::new(()), due: watch::Sender::new(()), signal: watch::Sender::new(()) }
    }

    /// Wakes whom a commit concerns.
    pub(super) fn publish(&self, effects: Effects) {
        for (concerned, sender) in
            [(effects.work, &self.work), (effects.due, &self.due), (effects.signal, &self.signal)]
        {
            if concerned {
                sender.send_replace(());
            }
        }
    }

    /// Wakes everyone: somebody else wrote, or the broker ends.
    pub(super) fn publish_all(&self) {
        self.publish(Effects { work: true, due: true, signal: true });
    }

    /// Whether anybody waits for anything.
    pub(super) fn has_listeners(&self) -> bool {
        self.work.receiver_count() + self.due.receiver_count() + self.signal.receiver_count() > 0
    }

    pub(super) fn work(&self) -> Listener {
        Listener(self.work.subscribe())
    }

    pub(super) fn due(&self) -> Listener {
        Listener(self.due.subscribe())
    }

    pub(super) fn signals(&self) -> Listener {
        Listener(self.signal.subscribe())
    }
}

impl Listener {
    /// Returns at the first news since the last call.
    pub(super) async fn heard(&mut self) {
        // The sender lives as long as the broker's threads; once it is gone, looking shows that the broker is closed.
        let _ = self.0.changed().await;
    }
}
