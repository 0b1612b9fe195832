//! Wakes other programs on the same file: a datagram socket per program, rung after a commit (docs/design/sqlite.md#wake-up).

use std::{path::Path, time::Duration};

#[cfg(unix)]
mod imp {
    use std::{io, os::unix::net::UnixDatagram, path::Path, sync::Arc, time::Duration};

    /// A socket that others ring.
    #[derive(Debug, Clone)]
    pub(in super::super) struct Bell {
        socket: Arc<UnixDatagram>,
        pub(super) limit: Duration,
    }

    /// Rings the bells of others.
    #[derive(Debug)]
    pub(in super::super) struct Ringer(Option<UnixDatagram>);

    impl Bell {
        pub(super) fn bind(path: &Path, limit: Duration) -> io::Result<Self> {
            let socket = UnixDatagram::bind(path)?;
            socket.set_read_timeout(Some(limit))?;
            Ok(Self { socket: Arc::new(socket), limit })
        }

        /// For whoever waits for more than this.
        #[cfg(target_os = "linux")]
        pub(in super::super) fn socket(&self) -> &UnixDatagram {
            &self.socket
        }

        pub(super) fn receive(&self) -> io::Result<()> {
            let mut ring = [0; 8];
            self.socket.recv(&mut ring)?;
            // Several rings are one.
            self.socket.set_nonblocking(true)?;
            while self.socket.recv(&mut ring).is_ok() {}
            self.socket.set_nonblocking(false)
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
    pub(in super::super) struct Bell {
        pub(super) limit: Duration,
    }

    #[derive(Debug)]
    pub(in super::super) struct Ringer;

    impl Bell {
        pub(super) fn bind(_: &Path, _: Duration) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(super) fn receive(&self) -> io::Result<()> {
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
    /// Hangs a bell at `path` that is listened to for `limit` at a time. `None` where that is impossible (no such sockets here, or a path over 107 bytes): then
    /// others are noticed by the safety net.
    pub(super) fn hang(path: &Path, limit: Duration) -> Option<Self> {
        match Self::bind(path, limit) {
            Ok(bell) => Some(bell),
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "no wake-up socket; other programs are noticed within 100 ms");
                None
            }
        }
    }

    /// Waits until the bell rings, at most its limit; returns whether it rang.
    pub(super) fn rang(&self) -> bool {
        match self.receive() {
            Ok(()) => true,
            Err(error) => {
                if !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) {
                    // Never a busy loop on a socket that fails at once.
                    std::thread::sleep(self.limit);
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
        let limit = Duration::from_millis(20);
        let bell = Bell::hang(&path, limit).unwrap();
        let ringer = Ringer::ready();
        ringer.ring(&folder.path().join("nobody.sock"));
        for _ in 0..1_000 {
            ringer.ring(&path);
        }
        assert!(bell.rang());
        assert!(!bell.rang());
        ringer.ring(&path);
        assert!(bell.rang(), "it is listened to as before");
        assert!(Bell::hang(&folder.path().join("x".repeat(120)), limit).is_none());
    }
}
