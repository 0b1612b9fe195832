//! The one thread that writes: all commands that have queued up go into one transaction (group commit), and are answered once
//! it is on disk (`disk.rs`).

mod tidy;
mod waiting;

use std::{
    path::PathBuf,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tokio_util::sync::DropGuard;

use crate::{
    broker::{BrokerError, BrokerErrorKind},
    pause::SeldomLines,
};

use self::{
    tidy::{LogWatch, Rest},
    waiting::Waiting,
};
use super::{
    command::{Command, Priority},
    connection,
    disk::Disk,
    disk_room::DiskRoom,
    error::{concerns_everyone, may_lack_room, needs_new_connection},
    fair_write_lock::FairWriteLock,
    listed,
    parked::Parked,
    reader::ReadQueue,
    shared_state::{GuardedConnection, SharedState},
    store::Message,
    tx::{Effects, Tx, View},
    wake::process_notifier::NotifySender,
};

/// Most time spent in one transaction before the rest of the batch waits for the next.
const MOST_TIME: Duration = Duration::from_millis(5);

/// How long the writer must have been idle before it tidies the file up.
const IDLE: Duration = Duration::from_secs(1);

/// Pause between two portions of free pages that are given back.
const BREATH: Duration = Duration::from_millis(50);

/// Longest sleep of a writer that has nothing to do.
const LONG: Duration = Duration::from_secs(3_600);

/// Pause between two interrupts of the queries that keep a broker from closing.
const BETWEEN_INTERRUPTS: Duration = Duration::from_millis(1);

/// The threads that may have connections to the file, too; none for a database in memory.
#[derive(Debug, Default)]
pub(super) struct OtherThreads {
    pub(super) reads: Arc<ReadQueue>,
    pub(super) threads: Vec<JoinHandle<()>>,
}

/// The writer and all it owns.
pub(super) struct Writer {
    pub(super) common: Arc<SharedState>,
    /// Absent where no command waits for the disk: in memory, and with `durability=normal`. This field comes before
    /// `connection`, so that commits on their way to the disk are answered before the connection is closed.
    disk: Option<Disk>,
    pub(super) connection: GuardedConnection,
    /// Absent in memory, and where the lock files cannot be used.
    pub(super) write_lock: Option<FairWriteLock>,
    pub(super) inbox: mpsc::Receiver<Message>,
    /// How full the disk is.
    pub(super) room: DiskRoom,
    /// [`MOST_TIME`], except in tests.
    most_time: Duration,
    waiting: Waiting,
    parked: Parked,
    rest: Rest,
    log: LogWatch,
    /// The lines that say that the file cannot be opened anew: each call of each caller may try it.
    reopen_lines: SeldomLines,
    notify_sender: NotifySender,
    others: OtherThreads,
    /// Shows the end of the thread, after the connection is closed.
    _ended: DropGuard,
}

impl Writer {
    pub(super) fn new(
        common: Arc<SharedState>,
        connection: GuardedConnection,
        write_lock: Option<FairWriteLock>,
        disk: Option<Disk>,
        others: OtherThreads,
        inbox: mpsc::Receiver<Message>,
        ended: DropGuard,
    ) -> Self {
        Self {
            common,
            disk,
            connection,
            write_lock,
            inbox,
            room: DiskRoom::of_disk(),
            most_time: MOST_TIME,
            waiting: Waiting::default(),
            parked: Parked::default(),
            rest: Rest::Untidy,
            log: LogWatch::default(),
            reopen_lines: SeldomLines::default(),
            notify_sender: NotifySender::ready(),
            others,
            _ended: ended,
        }
    }

    /// Works until a message stops the writer.
    pub(super) fn run(mut self) {
        let mut stop = false;
        while !stop {
            if self.waiting.is_empty() {
                let longest = match self.rest {
                    Rest::Tidy => LONG,
                    Rest::Untidy => IDLE,
                    Rest::Shrinking => BREATH,
                };
                let pause = self.parked.pause(self.common.clock.now(), longest);
                match self.inbox.recv_timeout(pause) {
                    Ok(message) => {
                        if self.accept(message) {
                            break;
                        }
                    }
                    Err(mpsc::RecvTimeoutError::Disconnected) => break,
                    Err(mpsc::RecvTimeoutError::Timeout) if pause == longest && longest < LONG => {
                        self.rest = self.tidy();
                        continue;
                    }
                    Err(mpsc::RecvTimeoutError::Timeout) => {}
                }
            }
            // The permits of the callers bound the number of messages.
            while !stop && let Ok(message) = self.inbox.try_recv() {
                stop = self.accept(message);
            }
            let ready = self.parked.ready(&self.common.view(&self.connection));
            let batch = self.waiting.next(ready);
            let left_over = self.process(batch);
            self.waiting.leave(left_over);
            self.watch_log();
            if self.waiting.is_empty()
                && let Ok(message) = self.inbox.try_recv()
            {
                stop |= self.accept(message);
            }
            if let Some(write_lock) = &mut self.write_lock {
                write_lock.release(!self.waiting.is_empty() && !stop);
            }
            if let Some(disk) = &mut self.disk {
                disk.answer(self.waiting.is_empty() && !self.parked.is_eager());
            }
        }
        // Without a request to stop, the broker was dropped before its opening returned.
        self.common.close();
        self.others.reads.end();
        if let Some(liveness) = &self.common.liveness {
            liveness.wake_listener_at_the_end(&self.notify_sender);
        }
        let left = self.inbox.try_iter().filter_map(|message| match message {
            Message::Command(work) => Some(work),
            Message::Notification | Message::Stop => None,
        });
        for work in self.waiting.drain().chain(self.parked.drain()).chain(left) {
            work.finish(Some(self.common.closed_error()));
        }
        self.leave();
        // SQLite writes the log into the file and removes it when the last connection is closed. Of two that are closed at the same
        // moment neither sees that it is the last, so the writer waits for the others.
        let OtherThreads { reads, threads } = &self.others;
        while threads.iter().any(|thread| !thread.is_finished()) {
            // An interrupt that came between two statements of a query has stopped neither.
            reads.end();
            thread::sleep(BETWEEN_INTERRUPTS);
        }
    }

    /// Handles one message; returns whether it is time to stop.
    fn accept(&mut self, message: Message) -> bool {
        match message {
            Message::Command(work) if work.ready.is_some() => self.parked.add(work),
            Message::Command(work) => self.waiting.add(work),
            Message::Notification => {
                if self.common.notified()
                    && let Some(liveness) = &self.common.liveness
                {
                    let paths = listed::other_notifier_paths(&self.view(), liveness);
                    paths.iter().for_each(|path| _ = self.notify_sender.notify(path));
                }
                self.parked.notify();
                self.close_a_lost_file();
            }
            Message::Stop => return true,
        }
        false
    }

    /// Runs a batch, and returns the commands for which there was no time.
    fn process(&mut self, mut batch: Vec<Command>) -> Vec<Command> {
        batch.retain(|work| !work.call.is_given_up());
        if self.common.is_broken()
            && let Err(error) = self.common.check()
        {
            finish(batch, Some(&error));
            return Vec::new();
        }
        if let Err(error) = self.repair_log() {
            // Tasks and sets can be claimed and leases extended all the same.
            batch = refuse(batch, |work| !work.may_be_lost, &error);
        }
        let batch = self.look(batch);
        let mut batch = self.keep_room(batch);
        if batch.is_empty() {
            return Vec::new();
        }
        match self.attempt(&mut batch, true) {
            Ok(committed) => {
                let left_over = batch.split_off(committed.done);
                self.end(batch, &committed);
                left_over
            }
            Err(failure) => {
                self.recover(batch, failure);
                Vec::new()
            }
        }
    }

    /// Answers the commands that need no transaction, if no command before them could change the answer; returns the others.
    fn look(&self, batch: Vec<Command>) -> Vec<Command> {
        if !batch.first().is_some_and(|work| work.call.can_look()) {
            return batch;
        }
        // All statements of a look must see the same commits: between two commits of other programs a lock could have a holder
        // that is gone. Where no transaction can begin, the write transaction meets the error again and reports it.
        let Ok(_transaction) = self.connection.unchecked_transaction() else { return batch };
        let view = self.view();
        let mut rest = Vec::with_capacity(batch.len());
        let mut only_looks = true;
        for mut work in batch {
            if only_looks && work.call.look(&view) {
                work.finish(None);
            } else {
                only_looks = false;
                rest.push(work);
            }
        }
        rest
    }

    /// Refuses new tasks while the disk is nearly full, so that there is room to settle those that are there.
    fn keep_room(&mut self, batch: Vec<Command>) -> Vec<Command> {
        let Some(file) = &self.common.file else { return batch };
        if batch.iter().all(|work| work.priority != Priority::Insert) || self.room.is_left(file, &self.connection) {
            return batch;
        }
        // The log goes into the file while the file can still grow by it.
        let _ = connection::reuse_wal(&mut self.connection);
        let advice =
            "the disk is nearly full; nothing was stored, make room (the last of it is kept for waiting tasks)";
        let full = self.common.error(BrokerErrorKind::Full, advice);
        refuse(batch, |work| work.priority == Priority::Insert, &full)
    }

    /// Runs one transaction over as many of `batch` as there is time for. `with_claims` adds the parked claims that take its new tasks.
    /// A call begins behind the lock: a caller that gives up while another program holds the lock knows that nothing was changed.
    fn attempt(&mut self, batch: &mut Vec<Command>, with_claims: bool) -> Result<Committed, Failure> {
        if let Some(write_lock) = &mut self.write_lock {
            write_lock.take();
        }
        let of_transaction = |error| Failure { error, culprit: None, is_begun: true };
        let begin = self.common.check_log(&self.connection);
        begin
            .and_then(|()| self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([]))
            .map_err(|error| Failure { is_begun: false, ..of_transaction(error) })?;
        let begun = Instant::now();
        let mut tx = Tx::new(self.common.view(&self.connection));
        let mut done = 0;
        let mut outcome = run(batch, &mut done, &mut tx, |done| done == 0 || begun.elapsed() < self.most_time);
        if outcome.is_ok() && with_claims && tx.effects.work {
            // Parked claims take new tasks in the same commit.
            let left_over = batch.split_off(done);
            batch.extend(self.parked.claims(&tx.view));
            outcome = run(batch, &mut done, &mut tx, |_| true);
            batch.extend(left_over);
        }
        // Reading inside the transaction costs no other look at the file.
        let notifiers = match &self.common.liveness {
            Some(liveness) if tx.effects.any() => listed::other_notifier_paths(&tx.view, liveness),
            _ => Vec::new(),
        };
        let outcome = outcome.and_then(|()| tx.write_counts().map_err(of_transaction)).and_then(|()| {
            self.connection.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([])).map_err(of_transaction)
        });
        match outcome {
            Ok(_) => {
                self.rest = Rest::Untidy;
                Ok(Committed { done, effects: tx.committed(), notifiers })
            }
            Err(failure) => {
                // SQLite rolls back by itself after some errors, a full disk among them.
                if !self.connection.is_autocommit() {
                    let _ = self.connection.execute_batch("ROLLBACK");
                }
                Err(failure)
            }
        }
    }

    /// Makes promises possible again after the disk did not take a part of the log.
    ///
    /// # Errors
    ///
    /// The log cannot be repaired yet.
    fn repair_log(&mut self) -> Result<(), BrokerError> {
        let Some(disk) = self.disk.as_ref().filter(|disk| disk.is_dirty()) else { return Ok(()) };
        if let Some(write_lock) = &mut self.write_lock {
            write_lock.take();
        }
        let (common, connection) = (&self.common, &mut self.connection);
        let mut empty = || connection::empty_wal_soon(connection).map_err(|error| common.explain(error));
        // The system reports the failure to SQLite in the first sync of its own.
        let repaired = disk.repair(&mut empty).or_else(|_| disk.repair(empty));
        if let Some(write_lock) = &mut self.write_lock {
            write_lock.release(false);
        }
        if repaired? {
            log!(info, place = self.common.place, "all that was written is on disk again");
            return Ok(());
        }
        let advice = "syncing the log failed, and a connection that reads or writes keeps it from being emptied; nothing was \
                      changed";
        Err(self.common.error(BrokerErrorKind::Unavailable, advice))
    }

    /// Deals with a transaction that was rolled back as a whole.
    fn recover(&mut self, batch: Vec<Command>, failure: Failure) {
        if needs_new_connection(&failure.error) {
            self.reconnect();
        }
        if may_lack_room(&failure.error) {
            // Settling frees room and must not fail because of an enqueue.
            let others = refuse(batch, |work| work.priority == Priority::Insert, &self.explain(failure));
            let _ = connection::reuse_wal(&mut self.connection);
            self.each_alone(others);
        } else if failure.culprit.is_none() || concerns_everyone(&failure.error) || batch.len() == 1 {
            finish(batch, Some(&self.explain(failure)));
        } else {
            self.each_alone(batch);
        }
    }

    /// Runs one transaction per command, so that one that fails takes no other with it. A parked claim that fails would take the
    /// insert with it in whose transaction it runs, so the parked calls are asked afterwards.
    fn each_alone(&mut self, batch: Vec<Command>) {
        let mut rest = batch.into_iter();
        while let Some(work) = rest.next() {
            let mut batch = vec![work];
            match self.attempt(&mut batch, false) {
                Ok(committed) => self.end(batch, &committed),
                Err(failure) => {
                    if needs_new_connection(&failure.error) {
                        self.reconnect();
                        // A failing disk would hold up each of the others as long.
                        batch.extend(rest.by_ref());
                    }
                    finish(batch, Some(&self.explain(failure)));
                }
            }
        }
        self.parked.notify();
    }

    /// Returns the error for the callers of a transaction that has failed.
    fn explain(&self, failure: Failure) -> BrokerError {
        let error = self.common.explain(failure.error);
        if failure.is_begun { error } else { error.without_effect() }
    }

    /// Answers the commands that promise nothing, keeps the rest until it is on disk, and wakes the waits that the
    /// commit concerns, here and in other programs.
    fn end(&mut self, batch: Vec<Command>, committed: &Committed) {
        let batch = match &mut self.disk {
            Some(disk) => disk.keep(batch),
            None => batch,
        };
        finish(batch, None);
        let effects = committed.effects;
        if !effects.any() && !effects.ended {
            return;
        }
        if effects.due {
            self.parked.notify();
        }
        self.common.notifier.notify(effects);
        if effects.ended
            && let Some(liveness) = &self.common.liveness
        {
            liveness.waiters().notify(&self.notify_sender);
        }
        committed.notifiers.iter().for_each(|path| _ = self.notify_sender.notify(path));
    }

    /// Takes our servers off the list. The lock file stays, unlocked, if one of them still holds tasks, so that other programs
    /// find it; but not beside another file, in which no row names it, so that no program would ever remove it.
    ///
    /// Where no other program uses the file, a worker leaves an empty log: a backup that is then put in the file's place is not
    /// mixed with the commits that it is to undo.
    fn leave(&mut self) {
        let common = Arc::clone(&self.common);
        let Some(liveness) = &common.liveness else { return };
        let is_lost = common.look_for_file() || common.check_log(&self.connection).is_err();
        let gone = !is_lost && listed::forget_idle(&self.view(), liveness.name()).unwrap_or(false);
        if !is_lost && liveness.has_joined() && self.repair_log().is_ok() {
            let _ = connection::empty_wal(&mut self.connection);
        }
        liveness.hide(!gone && common.has_its_file());
    }

    fn view(&self) -> View<'_> {
        self.common.view(&self.connection)
    }
}

/// A transaction that was committed.
#[derive(Debug)]
struct Committed {
    /// How many of the batch were done, from the front.
    done: usize,
    /// The waits that the commit concerns.
    effects: Effects,
    /// The sockets of other programs that may be concerned.
    notifiers: Vec<PathBuf>,
}

#[derive(Debug)]
struct Failure {
    error: rusqlite::Error,
    /// Which of the batch met the error; `None` for the transaction itself.
    culprit: Option<usize>,
    /// Whether the transaction had begun; otherwise no call had.
    is_begun: bool,
}

/// Runs the calls of `batch` behind those that are `done`, as long as `has_time` says so, up to the first that fails. A call that was given
/// up is left out.
fn run(
    batch: &mut Vec<Command>,
    done: &mut usize,
    tx: &mut Tx<'_>,
    has_time: impl Fn(usize) -> bool,
) -> Result<(), Failure> {
    while *done < batch.len() && has_time(*done) {
        if !batch[*done].call.begin() {
            batch.remove(*done);
            continue;
        }
        batch[*done].call.run(tx).map_err(|error| Failure { error, culprit: Some(*done), is_begun: true })?;
        *done += 1;
    }
    Ok(())
}

/// Ends the calls that `refused` names with `error`, and returns the others.
fn refuse(batch: Vec<Command>, refused: impl Fn(&Command) -> bool, error: &BrokerError) -> Vec<Command> {
    let (refused, others) = batch.into_iter().partition(refused);
    finish(refused, Some(error));
    others
}

fn finish(batch: Vec<Command>, error: Option<&BrokerError>) {
    for work in batch {
        work.finish(error.cloned());
    }
}

#[cfg(test)]
mod tests;
