//! A task that waits for a run or in a group, as a claim reads it, and its way into the archive if it can never run.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rusqlite::{Params, params};

use crate::{
    broker::{BrokerError, BrokerErrorKind, Run, RunKey, RunToken, SetMember},
    task::{Extra, QueueName, TaskId, TaskMessage, TaskState},
};

use super::{
    SqliteBroker,
    command::{Priority, WriteCommand},
    error::is_damaged,
    row::{Facts, Text, extra, instant, message},
    sql::{self, Sql},
    tx::{Tx, View},
};

/// Why a task was archived instead of taken.
const NO_MESSAGE: &str = "the message of this task is missing, or its page of the file is damaged";
const NO_TEXT: &str = "the id or the unique key of this task was not UTF-8: give the program that enqueued it texts";

/// A row of [`sql::consume::NEXT`].
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) seq: i64,
    q: i64,
    /// Whether its id and its lock are UTF-8.
    is_sound: bool,
    id: String,
    crashes: i64,
    extra: Extra,
    facts: Facts,
    uniq: Option<String>,
    /// Since when the task has been pending; 0 where the time is not known any more.
    since: i64,
    msg: Option<Vec<u8>>,
}

impl Candidate {
    /// Reads the tasks of a statement until their messages fill `room`: another program that writes waits meanwhile. Returns whether
    /// the statement has no other.
    pub(super) fn list(
        view: &View<'_>,
        sql: &Sql,
        params: impl Params,
        room: usize,
    ) -> rusqlite::Result<(Vec<Self>, bool)> {
        let mut statement = view.statement(sql)?;
        let mut rows = statement.query(params)?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        while bytes < room {
            let Some(row) = rows.next()? else { return Ok((found, true)) };
            let candidate = Self::read(row)?;
            bytes += candidate.bytes();
            found.push(candidate);
        }
        Ok((found, false))
    }

    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let (id, lock): (Text, Option<Text>) = (row.get(2)?, row.get(8)?);
        let is_sound = id.is_sound && lock.as_ref().is_none_or(|lock| lock.is_sound);
        Ok(Self {
            seq: row.get(0)?,
            q: row.get(1)?,
            is_sound,
            id: id.text,
            crashes: row.get(3)?,
            extra: extra(row, 4)?,
            facts: Facts { retried: row.get(5)?, err: row.get(6)?, failed_at: row.get(7)?, completed_at: None },
            uniq: lock.map(|lock| lock.text),
            since: row.get(9)?,
            msg: row.get(10)?,
        })
    }

    /// Whether the task has no message, or an id or a lock that is not UTF-8.
    pub(super) fn can_never_run(&self) -> bool {
        self.msg.is_none() || !self.is_sound
    }

    /// Archives a task that can never run, or whose message cannot be read: there people see it. It counts as a run that failed, as a
    /// message that cannot be read does.
    pub(super) fn set_aside(self, tx: &mut Tx<'_>, from: TaskState) -> rusqlite::Result<()> {
        let q = self.q;
        tx.moved(q, from, TaskState::Archived);
        tx.ended(q, true);
        let (id, why) = if self.is_sound {
            tx.free_lock_of_archived(q, self.uniq.as_deref(), &self.id, &self.extra)?;
            (self.id, NO_MESSAGE)
        } else {
            // Other calls would not find the task by what stands for its bytes here.
            tx.view.execute(&sql::lock::RELEASE_OF, [self.seq])?;
            let id = format!("{}-{}", self.id, uuid::Uuid::new_v4().simple());
            tx.view.execute(&sql::consume::RENAME, params![self.seq, id])?;
            if let Some(message) = self.msg.and_then(|raw| TaskMessage::decode(raw.into()).ok()) {
                let message = TaskMessage { id: id.clone(), unique_key: String::new(), ..message }.encode();
                tx.view.execute(&sql::body::SET_MESSAGE, params![self.seq, message])?;
            }
            (id, NO_TEXT)
        };
        tx.set_aside.push((id, why));
        tx.view.execute(&sql::consume::SET_ASIDE, params![self.seq, tx.view.now, why]).map(drop)
    }

    pub(super) fn is_quarantined(&self) -> bool {
        self.extra.is_quarantined(self.crashes())
    }

    /// Returns how often a worker died while it ran the task, or, in a group, how often a set that begins with the task came back at its
    /// deadline.
    pub(super) fn crashes(&self) -> u32 {
        u32::try_from(self.crashes).unwrap_or(0)
    }

    /// Returns the length of the message.
    pub(super) fn bytes(&self) -> usize {
        self.msg.as_ref().map_or(0, Vec::len)
    }

    /// Returns how long the task had been pending at `now`.
    fn waited(&self, now: i64) -> Option<Duration> {
        let waited = now.checked_sub(self.since).filter(|_| self.since > 0)?;
        u64::try_from(waited).ok().map(Duration::from_millis)
    }

    /// Returns the run of the task, which is taken at `now`; `None` without a message.
    pub(super) fn into_run(self, queue: &QueueName, server: i64, token: i64, now: i64) -> Option<Run> {
        let (row, crashes, waited, token) = (self.seq, self.crashes(), self.waited(now), RunToken(token));
        let SetMember { id, message, extra } = self.into_member(queue)?;
        Some(Run {
            key: RunKey { queue: queue.clone(), id, token, server, row },
            message,
            crashes,
            extra,
            waited,
            asked: Instant::now(),
            asked_at: instant(now),
            taken_at: instant(now),
        })
    }

    /// Returns the task as a member of a set; `None` without a message.
    pub(super) fn into_member(self, queue: &QueueName) -> Option<SetMember> {
        let id = TaskId::from_wire(&self.id);
        let message = message(Bytes::from(self.msg?), queue, &id, &self.facts);
        Some(SetMember { id, message, extra: self.extra })
    }
}

/// Whether a call failed because of a damaged page.
pub(super) fn met_damage<T>(answer: &Result<T, BrokerError>) -> bool {
    answer.as_ref().is_err_and(|error| error.kind() == BrokerErrorKind::Corrupt)
}

impl SqliteBroker {
    /// After a claim that [met damage](met_damage): archives those of the tasks that `waiting` lists whose messages lie in a
    /// damaged page, so that the next claim takes those behind. They are looked for outside of the transaction, in which SQLite
    /// writes nothing after such a failure.
    pub(super) async fn set_damaged_aside(
        &self,
        from: TaskState,
        waiting: impl Fn(&View<'_>) -> rusqlite::Result<Vec<Candidate>> + Clone + Send + Sync + 'static,
    ) {
        let list = waiting.clone();
        let look = self.store.read(move |view| {
            let mut damaged = Vec::new();
            for candidate in list(view)? {
                match view.find(&sql::body::MESSAGE, [candidate.seq], |row| row.get::<_, Vec<u8>>(0)) {
                    Err(error) if is_damaged(&error) => damaged.push(candidate.seq),
                    message => drop(message?),
                }
            }
            Ok(damaged)
        });
        let Ok(found) = look.await.inspect_err(|error| log!(debug, "no damaged task is found: {error}")) else {
            return;
        };
        let command = WriteCommand::new(Priority::Settle, found.len().max(1), move |tx| {
            // The task may have been taken away meanwhile.
            for candidate in waiting(&tx.view)?.into_iter().filter(|candidate| found.contains(&candidate.seq)) {
                candidate.set_aside(tx, from)?;
            }
            Ok(())
        });
        if let Err(error) = self.store.write(command).await {
            log!(warn, "tasks in a damaged page cannot be archived: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use asynq_test_support::Log;

    use super::{
        super::{connection, migrate},
        *,
    };

    #[test]
    fn a_task_that_can_never_run_is_named_in_the_log_behind_the_commit() {
        let mut connection = connection::open_memory().unwrap();
        let names = migrate::settle_in(&mut connection, false, "here", |_| Ok(())).unwrap();
        let mut tx = Tx::new(View::new(&connection, names, 1));
        let q = tx.queue_or_new(&QueueName::from_wire("q")).unwrap();
        let task = |is_sound| Candidate {
            seq: 1,
            q,
            is_sound,
            id: "lost".to_owned(),
            crashes: 0,
            extra: Extra::default(),
            facts: Facts::default(),
            uniq: None,
            since: 0,
            msg: None,
        };
        let log = Log::keep();
        task(true).set_aside(&mut tx, TaskState::Pending).unwrap();
        task(false).set_aside(&mut tx, TaskState::Pending).unwrap();
        assert!(log.with("archived").is_empty(), "the transaction may be rolled back: {log:?}");
        tx.committed();
        let lines = log.with("archived: the ");
        assert!(lines.len() == 2 && lines.iter().all(|line| line.contains("lost")), "{log:?}");
    }
}
