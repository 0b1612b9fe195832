//! Requeues the tasks of dead programs and lapsed leases.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    broker::{BrokerError, Recovered},
    task::{QueueName, TaskId, TaskState},
};

use super::{
    super::{
        command::{Priority, WriteCommand},
        listed::{self, Listed},
        liveness::{Liveness, LivenessStatus, StaleLock},
        row::{limit_of, text},
        sql,
        store::Store,
        tx::{Tx, View},
    },
    SLICE,
    lapses::{Lapse, Lapses},
};

/// After this time without a beat, a server that has no lock file counts as dead.
const BEAT_TIMEOUT_MS: i64 = 60_000;
pub(super) const SILENCE: Duration = Duration::from_millis(BEAT_TIMEOUT_MS.unsigned_abs());

/// Longest answer of [`until_lapse`]: a server that joins and dies unseen is found as soon as a server that was seen.
const LONGEST_QUIET: Duration = Duration::from_millis(900);

/// Returns how long no server can die and no lease of `queues` can pass, so that an idle program that is alone looks less
/// often.
pub(super) async fn until_lapse(store: &Store, queues: &[QueueName]) -> Result<Duration, BrokerError> {
    let queues = queues.to_vec();
    let common = Arc::clone(&store.common);
    store
        .read(move |view| {
            if let Some(liveness) = &common.liveness
                && listed::everyone(view)?.iter().any(|server| server.file != liveness.name())
            {
                return Ok(Duration::ZERO);
            }
            let left = |lapse: i64| u64::try_from(lapse.saturating_sub(view.now)).unwrap_or(0);
            let quiet = next_lapse(view, &queues)?.map_or(LONGEST_QUIET, |lapse| Duration::from_millis(left(lapse)));
            Ok(quiet.min(LONGEST_QUIET))
        })
        .await
}

/// When the lapse of a lease counts whose server is on the list and was not found dead, and when the silence of such a server does.
#[derive(Debug, Clone)]
pub(super) struct LapseConfirmation {
    pub(super) lapses: Arc<Lapses>,
    /// A lapse counts when it was seen again this much later.
    pub(super) lease: Duration,
    /// A silence counts when it was seen again this much later.
    pub(super) silence: Duration,
}

impl LapseConfirmation {
    /// Returns whether a server has not beaten for [`BEAT_TIMEOUT_MS`], by the wall clock and by the monotonic one: the wall clock may
    /// have stepped ahead.
    fn is_silent(&self, server: &Listed, now: i64) -> bool {
        let beat = Lapse { row: server.number, run: i64::MIN, ended: server.beat_at };
        let confirmed = self.lapses.confirmed(&[beat], Instant::now(), self.silence);
        !confirmed.is_empty() && now.saturating_sub(server.beat_at) >= BEAT_TIMEOUT_MS
    }
}

/// Most lapsed leases of a queue that one look sees: all of them wait for their confirmation at the same time.
const MOST_SEEN: i64 = 1_000;
/// Most queues that are looked at one by one; for more, one query looks at all active tasks.
const MANY: usize = 16;

/// Requeues the tasks of `queues` that no server runs any more.
pub(super) async fn recover(
    store: &Store,
    queues: &[QueueName],
    confirmation: LapseConfirmation,
) -> Result<Recovered, BrokerError> {
    let queues: Arc<[QueueName]> = queues.into();
    let common = Arc::clone(&store.common);
    let (look, confirms) = (Arc::clone(&queues), confirmation.clone());
    // File locks are tried outside of the write transaction, which others wait for.
    let (dead, lapsed) = store
        .read(move |view| {
            let dead = match &common.liveness {
                Some(liveness) => with_work(view, find_dead(view, liveness, &confirms)?, &look)?,
                None => Vec::new(),
            };
            Ok((dead, next_lapse(view, &look)?.is_some_and(|lapse| lapse <= view.now)))
        })
        .await?;
    if dead.is_empty() && !lapsed {
        return Ok(Recovered::default());
    }
    let dead = Arc::new(dead);
    let dead_servers = Arc::clone(&dead);
    let command =
        WriteCommand::new(Priority::Forward, SLICE, move |tx| requeue(tx, &queues, &dead_servers, &confirmation));
    // A later recovery would not find the files, because their server is off the list with the commit.
    let command = command.after_commit(move |(_, emptied)| remove_stale_locks(&dead, emptied));
    let (recovered, _) = store.write(command).await?;
    Ok(recovered)
}

/// A server whose program is dead.
#[derive(Debug)]
struct Dead {
    number: i64,
    file: String,
    /// Held by the first of the servers that share the file.
    stale_lock: Option<StaleLock>,
    /// The last beat of a server that counts as dead because it is silent.
    silent_since: Option<i64>,
}

/// An active task whose worker is gone.
#[derive(Debug)]
struct Lost {
    seq: i64,
    id: String,
    /// The token of the run. Those of one server grow with the time of the dequeue.
    run: i64,
    /// The task's position in its queue at the dequeue.
    place: i64,
}

impl Lost {
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { seq: row.get(0)?, id: text(row, 1)?, run: row.get(2)?, place: row.get(3)? })
    }
}

fn find_dead(view: &View<'_>, liveness: &Liveness, confirmation: &LapseConfirmation) -> rusqlite::Result<Vec<Dead>> {
    let mut dead: Vec<Dead> = Vec::new();
    for server in listed::everyone(view)? {
        if server.file == liveness.name() {
            continue;
        }
        let mut silent_since = None;
        // Without the lock, the silence of one of the servers that share a file says nothing about the others.
        let stale_lock = if dead.iter().any(|known| known.file == server.file && known.stale_lock.is_some()) {
            None
        } else {
            match liveness.look(&server.file) {
                LivenessStatus::Dead(stale_lock) => Some(stale_lock),
                LivenessStatus::Alive => continue,
                // The server's file was removed. As long as the server beats, only the lease decides.
                LivenessStatus::Unknown if !confirmation.is_silent(&server, view.now) => continue,
                LivenessStatus::Unknown => {
                    silent_since = Some(server.beat_at);
                    None
                }
            }
        };
        dead.push(Dead { number: server.number, file: server.file, stale_lock, silent_since });
    }
    Ok(dead)
}

/// Returns those of `dead` that leave something to do here: tasks in `queues`, or no task at all, so that they can be taken off the list.
/// A task in a queue without a server must not keep every program of the file writing. Servers that share a file stay together.
fn with_work(view: &View<'_>, mut dead: Vec<Dead>, queues: &[QueueName]) -> rusqlite::Result<Vec<Dead>> {
    let mut files = HashSet::new();
    for server in &dead {
        let left: Vec<String> = view.list(&sql::maintain::LEFT_IN, [server.number], |row| text(row, 0))?;
        if left.is_empty() || left.iter().any(|name| queues.iter().any(|queue| queue.as_str() == name)) {
            files.insert(server.file.clone());
        }
    }
    dead.retain(|server| files.contains(&server.file));
    Ok(dead)
}

/// Returns when the first lease of a task in `queues` passes.
fn next_lapse(view: &View<'_>, queues: &[QueueName]) -> rusqlite::Result<Option<i64>> {
    if queues.len() > MANY {
        let lapses = view.list(&sql::maintain::LAPSES, [], |row| Ok((text(row, 0)?, row.get::<_, i64>(1)?)))?;
        let queues: HashSet<&str> = queues.iter().map(QueueName::as_str).collect();
        return Ok(lapses.into_iter().filter(|(name, _)| queues.contains(name.as_str())).map(|(_, at)| at).min());
    }
    let mut next: Option<i64> = None;
    for queue in queues {
        if let Some(q) = view.queue(queue)? {
            let lapse = view.find(&sql::maintain::NEXT_LAPSE, [q], |row| row.get::<_, Option<i64>>(0))?.flatten();
            next = next.into_iter().chain(lapse).min();
        }
    }
    Ok(next)
}

/// Requeues the tasks that dead servers and lapsed leases left; also returns which of the dead servers hold no task any more.
fn requeue(
    tx: &mut Tx<'_>,
    queues: &[QueueName],
    dead: &[Dead],
    confirmation: &LapseConfirmation,
) -> rusqlite::Result<(Recovered, Vec<i64>)> {
    let mut dead: Vec<&Dead> = dead.iter().collect();
    if dead.iter().any(|server| server.silent_since.is_some()) {
        // A silent server may have beaten since the look.
        let listed = listed::everyone(&tx.view)?;
        let beats_at = |number, at| listed.iter().any(|now| now.number == number && now.beat_at == at);
        dead.retain(|server| server.silent_since.is_none_or(|at| beats_at(server.number, at)));
    }
    let mut recovered = Recovered::default();
    let mut lapsed = lapsed(&tx.view, queues, confirmation)?;
    for queue in queues {
        let Some(q) = tx.view.queue(queue)? else { continue };
        let mut found: Vec<Lost> = Vec::new();
        for server in &dead {
            let missing = limit_of(SLICE + 1 - found.len());
            found.extend(tx.view.list(&sql::maintain::LEFT_BY, [q, server.number, missing], Lost::read)?);
        }
        let known: HashSet<i64> = found.iter().map(|task| task.seq).collect();
        found.extend(lapsed.remove(&q).into_iter().flatten().filter(|task| !known.contains(&task.seq)));
        recovered.more |= found.len() > SLICE;
        found.truncate(SLICE);
        found.sort_unstable_by_key(|task| (task.run, task.place, task.seq));
        // Each task goes to the head, so the one that was taken first goes last.
        for task in found.iter().rev() {
            let place = tx.head(q)?;
            tx.view.execute(&sql::maintain::REQUEUE, [task.seq, place, tx.view.now])?;
            tx.moved(q, TaskState::Active, TaskState::Pending);
        }
        recovered.tasks.extend(found.iter().map(|task| (queue.clone(), TaskId::from_wire(&task.id))));
    }
    let mut emptied = Vec::new();
    for server in dead {
        // Other queues of the dead server are recovered by the servers of those queues.
        if !listed::runs_something(&tx.view, server.number)? {
            tx.view.execute(&sql::presence::LEAVE, [server.number])?;
            emptied.push(server.number);
        }
    }
    Ok((recovered, emptied))
}

/// Finds the tasks whose leases have ended and count as such.
fn lapsed(
    view: &View<'_>,
    queues: &[QueueName],
    confirmation: &LapseConfirmation,
) -> rusqlite::Result<HashMap<i64, Vec<Lost>>> {
    let mut found = Vec::new();
    for queue in queues {
        let Some(q) = view.queue(queue)? else { continue };
        let rows = view.list(&sql::maintain::LAPSED, [q, view.now, MOST_SEEN], |row| {
            let lost = Lost::read(row)?;
            let lapse = Lapse { row: lost.seq, run: lost.run, ended: row.get(4)? };
            Ok((lost, lapse, row.get::<_, bool>(5)?))
        })?;
        // A server that is not on the list any more has left.
        found.extend(rows.into_iter().map(|(lost, lapse, is_listed)| (q, lost, is_listed.then_some(lapse))));
    }
    let doubtful: Vec<Lapse> = found.iter().filter_map(|(.., doubtful)| *doubtful).collect();
    let confirmed = confirmation.lapses.confirmed(&doubtful, Instant::now(), confirmation.lease);
    let mut lapsed = HashMap::<i64, Vec<Lost>>::new();
    for (q, lost, doubtful) in found {
        if doubtful.is_none_or(|lapse| confirmed.contains(&lapse)) {
            lapsed.entry(q).or_default().push(lost);
        }
    }
    Ok(lapsed)
}

/// Removes the files of dead programs of which no server is on the list any more.
fn remove_stale_locks(dead: &[Dead], emptied: &[i64]) {
    let waiting: HashSet<&str> =
        dead.iter().filter(|server| !emptied.contains(&server.number)).map(|server| server.file.as_str()).collect();
    for server in dead {
        if let Some(stale_lock) = &server.stale_lock
            && !waiting.contains(server.file.as_str())
        {
            stale_lock.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        sync::mpsc,
        task::{Context, Waker},
    };

    use asynq_test_support::PATIENCE;
    use tokio_util::sync::CancellationToken;

    use super::{
        super::super::{connection, migrate, shared_state::SharedState, sql::Names, store::Message},
        *,
    };

    #[test]
    fn a_dead_server_is_dealt_with_where_its_tasks_are_or_where_it_has_none() {
        let mut connection = connection::open_memory().unwrap();
        migrate::settle_in(&mut connection, false, "here", |_| Ok(())).unwrap();
        connection.execute_batch("INSERT INTO queue(q, name) VALUES (1, 'served'), (2, 'old')").unwrap();
        for (server, q) in [(1, 1), (2, 2), (4, 2), (5, 1)] {
            let insert = "INSERT INTO task(q, state, at, id, type, server) VALUES (?1, 1, 0, ?2, 't', ?2)";
            connection.execute(insert, [q, server]).unwrap();
        }
        let view = View::new(&connection, Names::Plain, 0);
        // The fourth and the fifth share a file.
        let dead = [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "d")];
        let dead = dead.map(|(number, file)| Dead { number, file: file.into(), stale_lock: None, silent_since: None });
        let kept = with_work(&view, dead.into(), &[QueueName::from_wire("served")]).unwrap();
        assert_eq!(kept.iter().map(|server| server.number).collect::<Vec<_>>(), [1, 3, 4, 5]);
    }

    #[tokio::test]
    async fn the_files_of_a_dead_server_are_removed_although_the_caller_of_its_recovery_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.db");
        fs::write(&file, "").unwrap();
        let dead = Liveness::new(file.clone());
        dead.show().unwrap();
        // The lock file stays, as that of a process that was killed.
        dead.hide(true);
        let files = || fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(files(), 2);
        let mut connection = connection::open_memory().unwrap();
        migrate::settle_in(&mut connection, false, "here", |_| Ok(())).unwrap();
        let insert = "INSERT INTO server(name, file, pid, boot, version, started_at, beat_at) \
                      VALUES ('dead', ?1, 1, '', '', 0, 0)";
        connection.execute(insert, [dead.name()]).unwrap();
        let (sender, inbox) = mpsc::channel();
        let store = Store::new(SharedState::of_file(file), PATIENCE, sender, None, CancellationToken::new());
        let confirmation = LapseConfirmation { lapses: Arc::default(), lease: Duration::ZERO, silence: Duration::ZERO };
        let mut recovery = Box::pin(recover(&store, &[], confirmation));
        let mut sent = || {
            assert!(recovery.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            match inbox.try_recv() {
                Ok(Message::Command(command)) if command.call.begin() => command,
                _ => panic!("no command was sent"),
            }
        };
        let view = View::new(&connection, Names::Plain, 0);
        let mut look = sent();
        assert!(look.call.look(&view));
        look.finish(None);
        let mut command = sent();
        drop(recovery);
        command.call.run(&mut Tx::new(view)).unwrap();
        assert_eq!(files(), 2, "the commit may fail");
        command.finish(None);
        assert_eq!(files(), 1);
    }
}
