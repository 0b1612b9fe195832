//! The servers of the file, and the cancel requests in it (contract: `broker/presence.rs`).

use std::{collections::VecDeque, iter, mem, sync::Arc, time::Duration};

use prost::Message as _;
use rusqlite::params;
use tokio::{sync::watch, time::timeout};

use crate::{
    broker::{BrokerError, Cancellations, Member, Presence, ServerName, ServerState},
    task::{ServerInfo, TaskId, WorkerInfo},
};

use super::{
    SqliteBroker,
    command::{Priority, WriteCommand},
    error::translate_io,
    listed::{self, BEAT_TIMEOUT_MS},
    row::text,
    sql,
    store::Store,
    tx::{Tx, View},
};

/// For how long a cancel request is kept; listeners read it within a tenth of a second.
const SIGNALS_TTL_MS: i64 = 600_000;

/// Most cancel requests read at once.
const SIGNALS: i64 = 256;

/// A server that joins waits no longer for the removal of files, which may go on without it.
const LONGEST_REMOVAL: Duration = Duration::from_secs(1);

/// Pause after cancel requests could not be read.
const AFTER_FAILED_READ: Duration = Duration::from_millis(500);

/// Asks the server that runs a task to stop it.
pub(super) fn ask_to_cancel(tx: &mut Tx<'_>, id: &str) -> rusqlite::Result<()> {
    forget_signals(&tx.view)?;
    tx.view.execute(&sql::presence::ASK_CANCEL, params![id, tx.view.now])?;
    tx.effects.signal = true;
    Ok(())
}

/// Deletes some of the cancel requests that all living servers have read. A request does so for those before it, and a sweep for the last.
pub(super) fn forget_signals(view: &View<'_>) -> rusqlite::Result<()> {
    view.execute(&sql::presence::FORGET_SIGNALS, [view.now.saturating_sub(SIGNALS_TTL_MS)]).map(|_| ())
}

#[async_trait::async_trait]
impl Presence for SqliteBroker {
    async fn join(&self, name: &ServerName, info: &ServerInfo) -> Result<Member, BrokerError> {
        let common = &self.store.common;
        common.check()?;
        if let (Some(liveness), Some(file)) = (&common.liveness, &common.file) {
            // First the file, then the row: a server without its file could be taken for dead.
            liveness.show().map_err(|error| translate_io(error, file))?;
        }
        let row = self.server_row(name, info);
        let joined = self.change(move |tx| {
            tx.view.execute(&sql::presence::FORGET_NAME, [&row.name])?;
            row.show(&tx.view, None, None)?;
            Ok(tx.view.last_row())
        });
        let number = joined.await?;
        self.remove_unlisted_files().await;
        Ok(Member { name: name.clone(), number })
    }

    async fn beat(&self, member: &Member, info: &ServerInfo, workers: &[WorkerInfo]) -> Result<(), BrokerError> {
        self.store.common.look_for_file();
        let row = self.server_row(&member.name, info);
        let number = member.number;
        let workers = pack(workers);
        let beat = move |tx: &mut Tx<'_>| row.show(&tx.view, Some(number), Some(&workers));
        self.store.write(WriteCommand::new(Priority::Lease, 1, beat)).await
    }

    async fn leave(&self, member: &Member) -> Result<(), BrokerError> {
        let number = member.number;
        self.change(move |tx| tx.view.execute(&sql::presence::LEAVE, [number]).map(|_| ())).await
    }

    async fn servers(&self) -> Result<Vec<ServerState>, BrokerError> {
        let common = Arc::clone(&self.store.common);
        let mut servers = self
            .store
            .read(move |view| {
                // The clock was set back since such a beat, so the beat stays recent for as long.
                let is_dead = |beat_at: i64, file: &str| {
                    beat_at > view.now && common.liveness.as_ref().is_some_and(|liveness| liveness.is_dead(file))
                };
                view.list(&sql::presence::ALIVE, [view.now.saturating_sub(BEAT_TIMEOUT_MS)], |row| {
                    let (info, workers) = (row.get::<_, Option<Vec<u8>>>(0)?, row.get::<_, Option<Vec<u8>>>(1)?);
                    Ok((!is_dead(row.get(3)?, &text(row, 2)?)).then_some((info, workers)))
                })
            })
            .await?
            .into_iter()
            .flatten()
            .map(|(info, workers)| {
                let info = ServerInfo::decode(info.unwrap_or_default().as_slice()).unwrap_or_default();
                ServerState::new(info, unpack(&workers.unwrap_or_default()))
            })
            .collect::<Vec<_>>();
        ServerState::sort(&mut servers);
        Ok(servers)
    }

    async fn cancel(&self, id: &TaskId) -> Result<(), BrokerError> {
        let id = id.clone();
        self.change(move |tx| ask_to_cancel(tx, id.as_str())).await
    }

    async fn cancellations(&self) -> Result<Box<dyn Cancellations>, BrokerError> {
        let notifier = self.store.common.notifier.signal.subscribe();
        let seen = self.store.read(|view| view.find(&sql::presence::LAST_SIGNAL, [], |row| row.get(0))).await?;
        Ok(Box::new(Signals {
            store: Arc::clone(&self.store),
            notifier,
            seen: seen.unwrap_or(0),
            read: VecDeque::new(),
        }))
    }
}

/// Cancel requests after the last one that was seen.
#[derive(Debug)]
struct Signals {
    store: Arc<Store>,
    notifier: watch::Receiver<()>,
    seen: i64,
    read: VecDeque<TaskId>,
}

#[async_trait::async_trait]
impl Cancellations for Signals {
    async fn next(&mut self) -> Result<TaskId, BrokerError> {
        let mut has_failed = false;
        loop {
            if let Some(id) = self.read.pop_front() {
                return Ok(id);
            }
            let seen = self.seen;
            let found = self
                .store
                .read(move |view| {
                    view.list(&sql::presence::NEW_CANCELS, [seen, SIGNALS], |row| {
                        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
                    })
                })
                .await;
            let found = match found {
                // A new subscription would begin behind the requests that are stored until it can be made.
                Err(error) if error.is_unavailable() => {
                    if !mem::replace(&mut has_failed, true) {
                        log!(warn, "cancel requests cannot be read now, and are read later: {error}");
                    }
                    tokio::time::sleep(AFTER_FAILED_READ).await;
                    continue;
                }
                found => found?,
            };
            if found.is_empty() {
                _ = self.notifier.changed().await;
            }
            for (n, id) in found {
                self.seen = n;
                self.read.push_back(TaskId::from_wire(&id));
            }
        }
    }
}

/// The columns of a server's row.
#[derive(Debug)]
struct ServerRow {
    name: String,
    file: String,
    pid: i64,
    boot: String,
    version: &'static str,
    info: Vec<u8>,
}

impl ServerRow {
    /// Shows that the server lives. Without a `number`, or if another server took it for dead, for instance after a long stop, it is put
    /// on the list.
    fn show(&self, view: &View<'_>, number: Option<i64>, workers: Option<&[u8]>) -> rusqlite::Result<()> {
        let Self { name, file, pid, boot, version, info } = self;
        let row = params![number, name, file, pid, boot, version, view.now, info, workers];
        view.execute(&sql::presence::SHOW, row).map(drop)
    }
}

impl SqliteBroker {
    /// Removes the files of dead programs that are not on the list. After a failure the next server that joins removes them.
    async fn remove_unlisted_files(&self) {
        let common = Arc::clone(&self.store.common);
        if common.liveness.is_none() {
            return;
        }
        let removal = self.store.read(move |view| {
            let listed = listed::everyone(view)?.into_iter().map(|server| server.file).collect();
            common.liveness.iter().for_each(|liveness| liveness.remove_unlisted(&listed));
            Ok(())
        });
        let _ = timeout(LONGEST_REMOVAL, removal).await;
    }

    fn server_row(&self, name: &ServerName, info: &ServerInfo) -> ServerRow {
        ServerRow {
            name: name.to_string(),
            file: self.store.common.liveness.as_ref().map(|liveness| liveness.name().to_owned()).unwrap_or_default(),
            pid: i64::from(name.pid),
            boot: boot(),
            version: env!("CARGO_PKG_VERSION"),
            info: info.encode_to_vec(),
        }
    }
}

/// Returns the boot id of the machine, where the system has one; for people, and to tell equal process ids apart.
fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

fn pack(workers: &[WorkerInfo]) -> Vec<u8> {
    workers.iter().flat_map(WorkerInfo::encode_length_delimited_to_vec).collect()
}

fn unpack(mut bytes: &[u8]) -> Vec<WorkerInfo> {
    iter::from_fn(|| WorkerInfo::decode_length_delimited(&mut bytes).ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use asynq_test_support::{PATIENCE, soon};
    use tokio_util::sync::CancellationToken;

    use super::{
        super::{command::Command, connection, migrate, shared_state::SharedState, sql::Names, store::Message},
        *,
    };
    use crate::clock::SystemClock;

    #[tokio::test]
    async fn a_cancel_request_that_is_stored_while_reads_fail_is_received() {
        let mut connection = connection::open_memory().unwrap();
        migrate::settle_in(&mut connection, false, "here", |_| Ok(())).unwrap();
        let (sender, inbox) = mpsc::channel();
        let common = Arc::new(SharedState::in_memory(Names::Plain, Arc::new(SystemClock)));
        let notifier = common.notifier.signal.subscribe();
        let store = Arc::new(Store::new(common, PATIENCE, sender, None, CancellationToken::new()));
        let mut signals = Signals { store, notifier, seen: 0, read: VecDeque::new() };
        let writer = thread::spawn(move || {
            let next = || -> Command {
                match inbox.recv_timeout(PATIENCE) {
                    Ok(Message::Command(read)) => read,
                    _ => panic!("the requests are read"),
                }
            };
            // A call that is dropped without an answer fails as unavailable.
            drop(next());
            connection.execute_batch("INSERT INTO signal(kind, id, at) VALUES ('cancel', 'a', 0)").unwrap();
            let mut read = next();
            assert!(read.call.begin() && read.call.look(&View::new(&connection, Names::Plain, 0)));
            read.finish(None);
        });
        assert_eq!(soon(signals.next()).await.unwrap(), "a");
        writer.join().unwrap();
    }

    #[test]
    fn workers_survive_their_trip_and_damage_ends_the_list() {
        let workers: Vec<_> =
            ["a", "b"].map(|id| WorkerInfo { task_id: id.into(), ..WorkerInfo::default() }).into_iter().collect();
        let mut packed = pack(&workers);
        assert_eq!(unpack(&packed), workers);
        packed.extend([200, 1, 2]);
        assert_eq!(unpack(&packed), workers);
        assert_eq!(unpack(&[]), []);
    }
}
