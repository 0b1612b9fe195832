//! Wakes other programs on the same file: a datagram socket per program, rung after a commit (SQLITE.md §6).

use std::{path::Path, time::Duration};

#[cfg(unix)]
mod imp {
    use std::{io, os::unix::net::UnixDatagram, path::Path, sync::Arc, time::Duration};

    /// A socket that others ring.
    #[derive(Debug, Clone)]
    pub(in super::super) struct Bell(Arc<UnixDatagram>);

    /// Rings the bells of others.
    #[derive(Debug)]
    pub(in super::super) struct Ringer(Option<UnixDatagram>);

    impl Bell {
        pub(super) fn bind(path: &Path) -> io::Result<Self> {
            Ok(Self(Arc::new(UnixDatagram::bind(path)?)))
        }

        pub(super) fn receive(&self, limit: Duration) -> io::Result<()> {
            let mut ring = [0; 8];
            self.0.set_nonblocking(false)?;
            self.0.set_read_timeout(Some(limit))?;
            self.0.recv(&mut ring)?;
            // Several rings are one.
            self.0.set_nonblocking(true)?;
            while self.0.recv(&mut ring).is_ok() {}
            Ok(())
        }
    }

    impl Ringer {
        pub(super) fn new() -> Self {
            Self(UnixDatagram::unbound().and_then(|socket| socket.set_nonblocking(true).map(|()| socket)).ok())
        }

        pub(super) fn send(&self, path: &Path) {
            if let Some(socket) = &self.0 {
                // Full: it has been rung already. Refused or missing: its owner is dead or has no bell.
                let _ = socket.send_to(&[1], path);
            }
        }
    }
}

#[cfg(not(unix))]
mod imp {
    use std::{io, path::Path, time::Duration};

    #[derive(Debug, Clone)]
    pub(in super::super) struct Bell;

    #[derive(Debug)]
    pub(in super::super) struct Ringer;

    impl Bell {
        pub(super) fn bind(_: &Path) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(super) fn receive(&self, _: Duration) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    impl Ringer {
        pub(super) fn new() -> Self {
            Self
        }

        pub(super) fn send(&self, _: &Path) {}
    }
}

pub(super) use imp::{Bell, Ringer};

impl Bell {
    /// Hangs a bell at `path`. `None` where that is impossible (no such sockets here, or a path over 107 bytes): then
    /// others are noticed by the safety net.
    pub(super) fn hang(path: &Path) -> Option<Self> {
        match Self::bind(path) {
            Ok(bell) => Some(bell),
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "no wake-up socket; other programs are noticed within 100 ms");
                None
            }
        }
    }

    /// Waits until the bell rings, at most `limit`; returns whether it rang.
    pub(super) fn rang(&self, limit: Duration) -> bool {
        match self.receive(limit) {
            Ok(()) => true,
            Err(error) => {
                if !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) {
                    // Never a busy loop on a socket that fails at once.
                    std::thread::sleep(limit);
                }
                false
            }
        }
    }
}

impl Ringer {
    /// A ringer; without sockets it rings nothing.
    pub(super) fn ready() -> Self {
        Self::new()
    }

    /// Rings the bell at `path`, without waiting.
    pub(super) fn ring(&self, path: &Path) {
        self.send(path);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn many_rings_wake_once_and_a_missing_bell_hurts_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let bell = Bell::hang(&path).unwrap();
        let ringer = Ringer::ready();
        ringer.ring(&folder.path().join("nobody.sock"));
        for _ in 0..1_000 {
            ringer.ring(&path);
        }
        assert!(bell.rang(Duration::from_secs(5)));
        assert!(!bell.rang(Duration::from_millis(5)));
        assert!(Bell::hang(&folder.path().join("x".repeat(120))).is_none());
    }
}
