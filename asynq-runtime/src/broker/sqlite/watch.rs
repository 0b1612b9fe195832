//! The thread that notices what others do to the file: their commits, and its disappearance.

use std::{
    fs, io,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::broker::{BrokerError, BrokerErrorKind};

use super::{connection, reader::Desks, store::Common};

/// The safety net under the bell: how soon a commit is noticed that rang nobody.
const NET: Duration = Duration::from_millis(100);

/// How often the file is looked for.
const LOOK: Duration = Duration::from_secs(1);

/// Which file this is, whatever its name: a device and a number on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity(u64, u64);

impl Identity {
    /// Reads it from the file at `path`; `None` where files have none that std shows.
    ///
    /// # Errors
    ///
    /// The file cannot be found.
    pub(super) fn of(path: &Path) -> io::Result<Option<Self>> {
        let found = fs::metadata(path)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            Ok(Some(Self(found.dev(), found.ino())))
        }
        #[cfg(not(unix))]
        {
            let _ = found;
            Ok(None)
        }
    }
}

/// Starts the watch, which ends soon after the broker is closed.
///
/// # Errors
///
/// No thread can be started.
pub(super) fn start(common: &Arc<Common>, desks: Desks) -> io::Result<()> {
    let Some(file) = common.file.clone() else { return Ok(()) };
    let common = Arc::clone(common);
    thread::Builder::new().name("asynq-sqlite-watch".into()).spawn(move || watch(&common, &file, &desks))?;
    Ok(())
}

fn watch(common: &Common, file: &Path, desks: &Desks) {
    let mut connection = None;
    let mut seen: Option<i64> = None;
    let mut looked = Instant::now();
    while !common.is_closed() && !common.is_broken() {
        let bell = common.liveness.as_ref().and_then(super::liveness::Liveness::bell);
        let rang = match bell {
            Some(bell) => bell.rang(NET),
            None => {
                thread::sleep(NET);
                false
            }
        };
        if rang {
            common.news.publish_all();
        } else if common.news.has_listeners() {
            if connection.is_none() {
                connection = connection::open_reader(file).ok();
            }
            let version = connection
                .as_ref()
                .and_then(|open| open.query_row("PRAGMA data_version", [], |row| row.get::<_, i64>(0)).ok());
            if version.is_some() && version != seen {
                seen = version;
                common.news.publish_all();
            }
        }
        desks.interrupt_slow();
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            common.look_for_file();
        }
    }
}

/// Whether the file at `path` is still the one that was opened: SQLite would go on writing into a deleted one.
///
/// # Errors
///
/// [`BrokerErrorKind::Corrupt`] if it is not.
pub(super) fn check_identity(path: &Path, identity: Option<Identity>, place: &str) -> Result<(), BrokerError> {
    let what = match Identity::of(path) {
        Ok(found) if found == identity => return Ok(()),
        Ok(_) => "was replaced",
        Err(error) if error.kind() == io::ErrorKind::NotFound => "was deleted or moved away",
        // Not being allowed to look for a moment says nothing about the file.
        Err(_) => return Ok(()),
    };
    Err(BrokerError::new(
        BrokerErrorKind::Corrupt,
        format!("{place} {what} while it was in use; tasks written since are lost, restart this program"),
    ))
}
