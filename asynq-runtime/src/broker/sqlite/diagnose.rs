//! Looks at the file itself, and for contradictions within a queue (contract: `broker/diagnose.rs`).

use std::{fs, sync::Arc};

use rusqlite::params;

use crate::{
    broker::{BrokerError, BrokerErrorKind, Diagnose, Examination, Fact, Node, OddityKind, QueueKeys, WriteRefusal},
    task::{QueueName, TaskState},
};

use super::{
    SqliteBroker,
    beside::beside,
    connection,
    disk_room::Disk,
    listed,
    row::{limit_of, text},
    sql::{self, Names},
    tx::View,
};

/// Most tasks of a state that are counted one by one.
const COUNTED: i64 = 5_000_000;

#[async_trait::async_trait]
impl Diagnose for SqliteBroker {
    async fn nodes(&self) -> Result<Vec<Node>, BrokerError> {
        let (pages, page_size, free, journal) = self.store.read(read_file).await?;
        let common = &self.store.common;
        let mut node = Node::new(&common.place, rusqlite::version());
        let mut add_fact = |section: &str, name: &str, value: String| {
            node.facts.push(Fact { section: section.into(), name: name.into(), value });
        };
        add_fact("file", "page_size", page_size.to_string());
        add_fact("file", "pages", pages.to_string());
        add_fact("file", "free_pages", free.to_string());
        add_fact("file", "bytes", (pages * page_size).to_string());
        if let Some(file) = &common.file {
            let bytes = fs::metadata(beside(file, "-wal")).map_or(0, |log| log.len());
            add_fact("file", "wal_bytes", bytes.to_string());
            if let Some(disk) = Disk::of(file) {
                add_fact("file", "disk_bytes", disk.size.to_string());
                let room = disk.room(u64::try_from(free * page_size).unwrap_or(0));
                add_fact("file", "disk_room_bytes", room.to_string());
                add_fact("file", "disk_reserve_bytes", disk.reserve().to_string());
            }
        }
        add_fact("file", "journal_mode", journal);
        add_fact("file", "durability", if common.normal { "normal" } else { "full" }.into());
        if let Some(error) = self.write_error().await? {
            add_fact("file", "write_error", error.to_string());
            node.refuses_writes = Some(WriteRefusal::Locked);
        }
        for (name, value) in integrity(self.quick_check().await)? {
            add_fact("integrity", name, value);
        }
        Ok(vec![node])
    }

    async fn write_refusal(&self) -> Result<Option<WriteRefusal>, BrokerError> {
        Ok(self.write_error().await?.map(|_| WriteRefusal::Locked))
    }

    async fn examine_with(
        &self,
        queue: &QueueName,
        _keys: &QueueKeys,
        limit: usize,
    ) -> Result<Examination, BrokerError> {
        let limit = limit_of(limit.max(1));
        let mut found = Examination { complete: true, ..Examination::default() };
        // Each state has a read of its own: a reader has a second, and a large state must not hide the others.
        for state in TaskState::ALL {
            let queue = queue.clone();
            let looked = self.store.read(move |view| examine(view, &queue, state, limit)).await;
            add(&mut found, looked)?;
        }
        let queue = queue.clone();
        let locks = self.store.read(move |view| examine_locks(view, &queue, limit)).await;
        add(&mut found, locks)?;
        Ok(found)
    }
}

impl SqliteBroker {
    /// Returns why no server can report that it runs, if none can. Only where each server on the list is late and one of them lives, the
    /// write lock is tried, without a write: a lock that is held for a moment makes no server late.
    async fn write_error(&self) -> Result<Option<BrokerError>, BrokerError> {
        let common = Arc::clone(&self.store.common);
        let tried = self.store.read(move |view| {
            let (Some(liveness), Some(file)) = (&common.liveness, &common.file) else { return Ok(None) };
            if !listed::all_are_late(view, liveness)? {
                return Ok(None);
            }
            // A file that has taken the place of ours must not be locked.
            Ok(if common.look_for_file() { None } else { connection::try_write_lock(file).err() })
        });
        Ok(tried.await?.map(|error| self.store.common.explain(error)))
    }

    /// Returns the first damage of the file; `None` if it is sound.
    async fn quick_check(&self) -> Result<Option<String>, BrokerError> {
        let is_shared = self.store.common.names == Names::Prefixed;
        let find = move |view: &View<'_>| view.find(&sql::diagnose::SOUND, [is_shared], |row| row.get::<_, String>(0));
        self.store.read(find).await
    }
}

/// Returns the facts that a check tells: `quick_check` is `ok`, the first damage, or the reason why there is no answer. There is
/// `shell_can_check` beside such a reason if a shell of SQLite, which may take longer, can answer.
fn integrity(checked: Result<Option<String>, BrokerError>) -> Result<Vec<(&'static str, String)>, BrokerError> {
    let answer = match checked {
        Ok(damage) => damage.unwrap_or_else(|| "ok".to_owned()),
        Err(error) if error.kind() == BrokerErrorKind::Corrupt => error.to_string(),
        Err(error) if error.kind() == BrokerErrorKind::Timeout => {
            let answer = "unknown: the file is too large to be read in a second".to_owned();
            return Ok(vec![("quick_check", answer), ("shell_can_check", "yes".to_owned())]);
        }
        // As of a table that a program has added to a file of ours, with a function of its own in a constraint, which no shell has.
        Err(error) if error.kind() == BrokerErrorKind::Unexpected => format!("unknown: {error}"),
        Err(error) => return Err(error),
    };
    Ok(vec![("quick_check", answer)])
}

type File = (i64, i64, i64, String);

fn read_file(view: &View<'_>) -> rusqlite::Result<File> {
    let found = view.find(&sql::diagnose::FILE, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    found.ok_or(rusqlite::Error::QueryReturnedNoRows)
}

/// The contradictions that a read has found, and whether it looked at everything.
type Looked = (Vec<(OddityKind, String)>, bool);

/// Adds what a read has found; one that took too long makes the examination incomplete.
fn add(found: &mut Examination, looked: Result<Looked, BrokerError>) -> Result<(), BrokerError> {
    let (oddities, is_complete) = match looked {
        Err(error) if error.kind() == BrokerErrorKind::Timeout => (Vec::new(), false),
        looked => looked?,
    };
    found.complete &= is_complete;
    oddities.into_iter().for_each(|(kind, example)| found.add(kind, example));
    Ok(())
}

fn examine(view: &View<'_>, queue: &QueueName, state: TaskState, limit: i64) -> rusqlite::Result<Looked> {
    let Some(q) = view.queue(queue)? else { return Ok((Vec::new(), true)) };
    let number = i64::from(state.number());
    let mut found = view.list(&sql::maintain::GHOSTS, params![q, number, limit], |row| {
        Ok((OddityKind::IdWithoutTask, text(row, 1)?))
    })?;
    let both = view.find(&sql::diagnose::NUMBER, params![q, number, COUNTED], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (stored, counted): (i64, i64) = both.unwrap_or_default();
    if counted < COUNTED && counted != stored {
        found.push((OddityKind::WrongCount, format!("{state}: {stored} instead of {counted}")));
    }
    Ok((found, counted <= limit))
}

fn examine_locks(view: &View<'_>, queue: &QueueName, limit: i64) -> rusqlite::Result<Looked> {
    let Some(q) = view.queue(queue)? else { return Ok((Vec::new(), true)) };
    let found = view.list(&sql::diagnose::LOCKS, params![q, view.now, limit], |row| {
        Ok((OddityKind::LockWithoutTask, text(row, 0)?))
    })?;
    Ok((found, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_can_check_a_file_that_is_only_too_large() {
        let facts = |kind| integrity(Err(BrokerError::new(kind, "theirs()"))).unwrap_or_default();
        let too_large = "unknown: the file is too large to be read in a second".to_owned();
        assert_eq!(
            facts(BrokerErrorKind::Timeout),
            [("quick_check", too_large), ("shell_can_check", "yes".to_owned())]
        );
        assert_eq!(facts(BrokerErrorKind::Unexpected), [("quick_check", "unknown: theirs()".to_owned())]);
        assert_eq!(facts(BrokerErrorKind::Corrupt), [("quick_check", "theirs()".to_owned())]);
        assert_eq!(facts(BrokerErrorKind::Closed), []);
        assert_eq!(integrity(Ok(None)).unwrap_or_default(), [("quick_check", "ok".to_owned())]);
    }
}
