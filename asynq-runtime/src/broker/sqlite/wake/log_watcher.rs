//! Watches for writes to the log, where the system can (inotify), so that an idle program need not look at it.

use super::process_notifier::ProcessNotifier;

#[cfg(target_os = "linux")]
mod imp {
    use std::{io, mem::MaybeUninit, os::fd::OwnedFd, path::Path, time::Duration};

    use rustix::{
        event::{PollFd, PollFlags, poll},
        fs::inotify::{self, CreateFlags, Reader, WatchFlags},
        io::Errno,
    };

    use super::ProcessNotifier;

    /// An inotify watch on one file.
    #[derive(Debug)]
    pub(in crate::broker::sqlite) struct LogWatcher(OwnedFd);

    impl LogWatcher {
        /// Begins to watch the file at `path`; `None` where the system cannot, or not for so many files.
        pub(in crate::broker::sqlite) fn of(path: &Path) -> Option<Self> {
            Self::watch(path).inspect_err(|error| log!(debug, %error, "no notifications of writes to the log")).ok()
        }

        fn watch(path: &Path) -> io::Result<Self> {
            let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            // Our own threads close the file when the broker ends, and that must end this wait as well.
            inotify::add_watch(&events, path, WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE)?;
            Ok(Self(events))
        }

        /// Waits for a notification or a write, at most `limit`; returns whether a notification came, and whether a write came.
        pub(in crate::broker::sqlite) fn or_notified(
            &self,
            process_notifier: Option<&ProcessNotifier>,
            limit: Duration,
        ) -> (bool, bool) {
            match self.wait(process_notifier, limit) {
                // A notification that is there already is taken without a wait.
                Ok((is_notified, was_written)) => {
                    (is_notified && process_notifier.is_some_and(ProcessNotifier::was_notified), was_written)
                }
                Err(_) => {
                    // A wait that fails at once must not become a busy loop.
                    std::thread::sleep(limit);
                    (false, false)
                }
            }
        }

        fn wait(&self, process_notifier: Option<&ProcessNotifier>, limit: Duration) -> io::Result<(bool, bool)> {
            let mut waited = vec![PollFd::new(&self.0, PollFlags::IN)];
            waited
                .extend(process_notifier.map(|process_notifier| PollFd::new(&process_notifier.socket, PollFlags::IN)));
            let limit = limit.try_into().map_err(|_| Errno::INVAL)?;
            match poll(&mut waited, Some(&limit)) {
                // A signal, such as the end of a child, ended the poll: no event came, and the caller waits again.
                Err(Errno::INTR) => return Ok((false, false)),
                polled => polled?,
            };
            let is_ready = |at: usize| waited.get(at).is_some_and(|fd| !fd.revents().is_empty());
            let (was_written, was_notified) = (is_ready(0), is_ready(1));
            if was_written {
                self.discard_events()?;
            }
            Ok((was_notified, was_written))
        }

        /// Reads all pending events, so that the next wait is for a new one.
        fn discard_events(&self) -> io::Result<()> {
            let mut buffer = [MaybeUninit::uninit(); 512];
            let mut events = Reader::new(&self.0, &mut buffer);
            loop {
                match events.next() {
                    Ok(_) => {}
                    Err(Errno::WOULDBLOCK) => return Ok(()),
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::{path::Path, time::Duration};

    use super::ProcessNotifier;

    /// No file can be watched.
    #[derive(Debug)]
    pub(in crate::broker::sqlite) enum LogWatcher {}

    impl LogWatcher {
        pub(in crate::broker::sqlite) fn of(_: &Path) -> Option<Self> {
            None
        }

        pub(in crate::broker::sqlite) fn or_notified(&self, _: Option<&ProcessNotifier>, _: Duration) -> (bool, bool) {
            match *self {}
        }
    }
}

pub(in crate::broker::sqlite) use imp::LogWatcher;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{fs, io::Write as _, thread, time::Duration};

    use asynq_test_support::eventually_blocking;

    use super::{super::process_notifier::NotifySender, *};

    /// Longer than any test lasts: a wait that ends was ended by an event.
    const LONG: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_write_and_a_notification_end_the_wait_and_nothing_else_does() {
        let waits = thread::spawn(|| {
            let folder = tempfile::tempdir().unwrap();
            let (log, hook) = (folder.path().join("jobs.db-wal"), folder.path().join("a.sock"));
            assert!(LogWatcher::of(&log).is_none(), "there is no such file");
            let mut writer = fs::File::create(&log).unwrap();
            let log_watcher = LogWatcher::of(&log).unwrap();
            let process_notifier = ProcessNotifier::listen_at(&hook, LONG).unwrap();
            for _ in 0..3 {
                writer.write_all(b"frame").unwrap();
                writer.write_all(b"frame").unwrap();
                assert_eq!(log_watcher.or_notified(Some(&process_notifier), LONG), (false, true));
                NotifySender::ready().notify(&hook);
                assert_eq!(log_watcher.or_notified(Some(&process_notifier), LONG), (true, false));
            }
            drop(writer);
            let closed = log_watcher.or_notified(Some(&process_notifier), LONG);
            assert_eq!(closed, (false, true), "a close of the file ends the wait, too");
            let brief = Duration::from_millis(1);
            assert_eq!(log_watcher.or_notified(Some(&process_notifier), brief), (false, false));
            assert_eq!(log_watcher.or_notified(None, brief), (false, false));
        });
        eventually_blocking("each wait ends", || waits.is_finished().then_some(()));
        waits.join().unwrap();
    }
}
