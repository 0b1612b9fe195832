//! Wakes other programs on the same file: a datagram socket per program, written to after a commit
//! (docs/design/sqlite.md#wake-up).

use std::{io, os::unix::net::UnixDatagram, path::Path, sync::Arc, time::Duration};

/// A socket that other programs write to, to wake this one.
#[derive(Debug, Clone)]
pub(in crate::broker::sqlite) struct ProcessNotifier {
    /// The log watcher polls it as well.
    pub(super) socket: Arc<UnixDatagram>,
    limit: Duration,
}

/// A sender that writes to the sockets of other programs; without a socket of its own it notifies no program.
#[derive(Debug)]
pub(in crate::broker::sqlite) struct NotifySender(Option<UnixDatagram>);

impl ProcessNotifier {
    /// Binds a socket at `path` that is read for `limit` at a time. `None` where that is impossible, such as for a path over
    /// 107 bytes (103 on macOS): then the safety net notices other programs.
    pub(in crate::broker::sqlite) fn listen_at(path: &Path, limit: Duration) -> Option<Self> {
        match Self::bind(path, limit) {
            Ok(process_notifier) => Some(process_notifier),
            Err(error) => {
                log!(debug, path = %path.display(), %error, "no wake-up socket; other programs are noticed within 100 ms");
                None
            }
        }
    }

    fn bind(path: &Path, limit: Duration) -> io::Result<Self> {
        let socket = UnixDatagram::bind(path)?;
        socket.set_read_timeout(Some(limit))?;
        Ok(Self { socket: Arc::new(socket), limit })
    }

    /// Waits for a notification, at most the limit of the socket; returns whether one came.
    pub(in crate::broker::sqlite) fn was_notified(&self) -> bool {
        match self.receive() {
            Ok(()) => true,
            Err(error) => {
                if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
                    // A socket that fails at once must not become a busy loop.
                    std::thread::sleep(self.limit);
                }
                false
            }
        }
    }

    fn receive(&self) -> io::Result<()> {
        let mut notify = [0; 8];
        self.socket.recv(&mut notify)?;
        // Several notifications count as one.
        self.socket.set_nonblocking(true)?;
        while self.socket.recv(&mut notify).is_ok() {}
        self.socket.set_nonblocking(false)
    }
}

impl NotifySender {
    /// Returns a sender.
    pub(in crate::broker::sqlite) fn ready() -> Self {
        Self(UnixDatagram::unbound().and_then(|socket| socket.set_nonblocking(true).map(|()| socket)).ok())
    }

    /// Notifies the socket at `path`, without waiting; returns whether there is no socket, or no program listens to it any more. A full
    /// socket has a notification already.
    pub(in crate::broker::sqlite) fn notify(&self, path: &Path) -> bool {
        let dead = [io::ErrorKind::ConnectionRefused, io::ErrorKind::NotFound];
        let sent = self.0.as_ref().map_or(Ok(0), |socket| socket.send_to(&[1], path));
        sent.is_err_and(|error| dead.contains(&error.kind()))
    }

    /// Notifies the socket of this program, which has to be where it was bound.
    pub(in crate::broker::sqlite) fn notify_own(&self, own: &ProcessNotifier) {
        if let Ok(address) = own.socket.local_addr()
            && let Some(path) = address.as_pathname()
        {
            self.notify(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_notifications_wake_once_and_a_missing_socket_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let limit = Duration::from_millis(20);
        let process_notifier = ProcessNotifier::listen_at(&path, limit).unwrap();
        let notify_sender = NotifySender::ready();
        notify_sender.notify(&folder.path().join("missing.sock"));
        for _ in 0..1_000 {
            notify_sender.notify(&path);
        }
        assert!(process_notifier.was_notified());
        assert!(!process_notifier.was_notified());
        notify_sender.notify(&path);
        assert!(process_notifier.was_notified(), "it is listened to as before");
        assert!(ProcessNotifier::listen_at(&folder.path().join("x".repeat(120)), limit).is_none());
    }
}
