//! The thread that notices the commits of other programs, and the disappearance of the file.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::{
    beside::beside,
    connection,
    liveness::Liveness,
    reader::ReadQueue,
    shared_state::SharedState,
    store::Message,
    wake::{NET, log_watcher::LogWatcher},
};

/// How many looks in a row, [`NET`] apart, follow a write to the log: its commit can be seen only a moment after it.
const LOOKS_AFTER_A_WRITE: u32 = 5;

/// How often the file is looked for, and slow readers, while no write comes and the system would announce one.
const LOOK: Duration = Duration::from_secs(1);

/// Starts the watch, which ends soon after the broker is closed or broken.
///
/// # Errors
///
/// No thread can be started.
pub(super) fn start(
    common: &Arc<SharedState>,
    file: PathBuf,
    reads: Arc<ReadQueue>,
    writer: mpsc::Sender<Message>,
) -> io::Result<JoinHandle<()>> {
    let common = Arc::clone(common);
    thread::Builder::new().name("asynq-sqlite-watch".into()).spawn(move || watch(&common, &file, &reads, &writer, NET))
}

fn watch(common: &Arc<SharedState>, file: &Path, reads: &ReadQueue, writer: &mpsc::Sender<Message>, net: Duration) {
    // Set before the first look for a socket, so that this thread is told of one that is bound later.
    if let Some(liveness) = &common.liveness {
        let _ = liveness.listener.set(thread::current());
    }
    let notify_writer = || drop(writer.send(Message::Notification));
    let mut connection = None;
    let mut seen: Option<i64> = None;
    let mut looked = Instant::now();
    let log_watcher = LogWatcher::of(&beside(file, "-wal"));
    let mut looks = 0;
    while !common.is_closed() && !common.is_broken() {
        let process_notifier = common.liveness.as_ref().and_then(Liveness::process_notifier);
        let (was_notified, was_written) = match (&log_watcher, process_notifier) {
            (Some(log_watcher), process_notifier) if looks == 0 => {
                log_watcher.or_notified(process_notifier.as_ref(), LOOK)
            }
            // A series of writes does not wake this thread at each of them.
            (_, Some(process_notifier)) => (process_notifier.was_notified(), false),
            (_, None) => {
                thread::park_timeout(net);
                (false, false)
            }
        };
        if was_written {
            looks = LOOKS_AFTER_A_WRITE;
        } else if !was_notified {
            looks = looks.saturating_sub(1);
        }
        if was_notified {
            common.wake_waits(notify_writer);
        } else if common.notifier.has_subscribers() {
            if connection.is_none() {
                connection = connection::open_watch(file).ok().map(|connection| common.guard(connection));
            }
            let version = connection
                .as_ref()
                .and_then(|open| open.prepare_cached("PRAGMA data_version").ok())
                .and_then(|mut version| version.query_row([], |row| row.get::<_, i64>(0)).ok());
            if version.is_some() && version != seen {
                seen = version;
                common.wake_waits(notify_writer);
            }
        }
        reads.interrupt_slow();
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            common.look_for_file();
        }
    }
    if common.is_broken() {
        // The other threads close their connections, too.
        reads.end();
        notify_writer();
    }
}

#[cfg(test)]
mod tests {
    use asynq_test_support::{eventually, soon};

    use super::{super::wake::process_notifier::NotifySender, *};

    /// Returns a new file, which has no log: nothing but the net and the socket ends a wait of the watch.
    fn without_log(folder: &tempfile::TempDir) -> PathBuf {
        let file = folder.path().join("jobs.db");
        connection::open_untouched(&file).unwrap().execute_batch("PRAGMA user_version=1").unwrap();
        file
    }

    #[tokio::test]
    async fn a_socket_that_is_bound_meanwhile_is_listened_to_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = without_log(&folder);
        let common = SharedState::of_file(file.clone());
        let mut notifier = common.notifier.ends.subscribe();
        let (writer, _inbox) = mpsc::channel();
        let (watched, path) = (Arc::clone(&common), file.clone());
        let no_net = Duration::from_secs(3_600);
        thread::spawn(move || watch(&watched, &path, &ReadQueue::default(), &writer, no_net));
        let liveness = common.liveness.as_ref().unwrap();
        eventually("the watch begins", async || liveness.listener.get().is_some().then_some(())).await;
        liveness.wait_for_ends();
        // The first look into the file finds something new. The next one follows a notification.
        soon(notifier.changed()).await.unwrap();
        Liveness::new(file).waiters().notify(&NotifySender::ready());
        soon(notifier.changed()).await.unwrap();
        common.close();
    }

    #[tokio::test]
    async fn a_notification_wakes_waits_although_no_process_writes() {
        let folder = tempfile::tempdir().unwrap();
        let file = without_log(&folder);
        let common = SharedState::of_file(file.clone());
        let liveness = common.liveness.as_ref().unwrap();
        liveness.show().unwrap();
        let mut notifier = common.notifier.work.subscribe();
        let (writer, _inbox) = mpsc::channel();
        start(&common, file, Arc::default(), writer).unwrap();
        // The first look into the file finds something new. The next look finds the same, as long as no program writes.
        soon(notifier.changed()).await.unwrap();
        for _ in 0..3 {
            NotifySender::ready().notify(&liveness.notifier_of(liveness.name()).unwrap());
            soon(notifier.changed()).await.unwrap();
        }
        common.close();
    }
}
