//! The threads that read, so that a page of a dashboard never waits for a write.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, InterruptHandle};

use super::{connection, order::Query, sql::Names, store::Common, tx::View};

/// Readers per broker.
const READERS: usize = 2;

/// How long one query may take: a longer one would keep the WAL from being reset.
const LONGEST: Duration = Duration::from_secs(1);

/// What the watch sees of the readers.
#[derive(Default)]
pub(super) struct Desks(Vec<Arc<Desk>>);

struct Desk {
    epoch: Instant,
    /// Milliseconds since `epoch` plus one when the query began; 0 = none runs.
    busy_since: AtomicU64,
    handle: Mutex<Option<InterruptHandle>>,
}

/// Starts the readers. They end when the sender is dropped.
///
/// # Errors
///
/// No thread can be started.
pub(super) fn start(common: &Arc<Common>, names: Names) -> io::Result<(mpsc::Sender<Box<dyn Query>>, Desks)> {
    let (sender, inbox) = mpsc::channel();
    let inbox = Arc::new(Mutex::new(inbox));
    let mut desks = Desks::default();
    for number in 0..READERS {
        let desk = Arc::new(Desk { epoch: Instant::now(), busy_since: AtomicU64::new(0), handle: Mutex::new(None) });
        desks.0.push(Arc::clone(&desk));
        let (common, inbox) = (Arc::clone(common), Arc::clone(&inbox));
        thread::Builder::new()
            .name(format!("asynq-sqlite-read-{number}"))
            .spawn(move || read(&common, names, &inbox, &desk))?;
    }
    Ok((sender, desks))
}

impl Desks {
    /// Stops queries that take too long.
    pub(super) fn interrupt_slow(&self) {
        for desk in &self.0 {
            let since = desk.busy_since.load(Ordering::Acquire);
            if since == 0 || desk.since_epoch().saturating_sub(since) < LONGEST.as_millis() as u64 {
                continue;
            }
            if let Some(handle) = &*desk.handle.lock().unwrap_or_else(PoisonError::into_inner) {
                handle.interrupt();
            }
        }
    }
}

impl Desk {
    fn since_epoch(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }
}

fn read(common: &Common, names: Names, inbox: &Mutex<mpsc::Receiver<Box<dyn Query>>>, desk: &Desk) {
    let mut connection: Option<Connection> = None;
    loop {
        let next = inbox.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(query) = next else { return };
        if !query.begin() {
            continue;
        }
        if let Err(error) = common.check() {
            query.run(Err(error), common);
            continue;
        }
        let open = match connection.take() {
            Some(open) => Ok(open),
            None => open(common, desk),
        };
        match open {
            Ok(open) => {
                desk.busy_since.store(desk.since_epoch(), Ordering::Release);
                query.run(Ok(View::new(&open, names, common.now())), common);
                desk.busy_since.store(0, Ordering::Release);
                connection = Some(open);
            }
            Err(error) => query.run(Err(common.explain(error)), common),
        }
    }
}

fn open(common: &Common, desk: &Desk) -> rusqlite::Result<Connection> {
    let file = common.file.as_deref().ok_or(rusqlite::Error::InvalidQuery)?;
    let connection = connection::open_reader(file)?;
    *desk.handle.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection.get_interrupt_handle());
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use tokio::sync::{Semaphore, oneshot};

    use super::{
        super::{connection::open_untouched, order::Question},
        *,
    };
    use crate::{broker::BrokerErrorKind, clock::SystemClock};

    #[test]
    fn a_query_that_takes_too_long_is_stopped_and_the_reader_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.db");
        open_untouched(&file).unwrap().execute_batch("CREATE TABLE a(x)").unwrap();
        let common = Arc::new(Common::in_file(file, Names::Plain, false, Arc::new(SystemClock)).unwrap());
        let (inbox, desks) = start(&common, Names::Plain).unwrap();
        let ask = |sql: &'static str| {
            let (reply, answer) = oneshot::channel();
            let read = move |view: &View<'_>| view.count(sql);
            let _room = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
            inbox.send(Box::new(Question { read, ticket: Arc::default(), reply, _room })).unwrap();
            answer
        };
        let begun = Instant::now();
        let mut endless: Vec<_> = (0..READERS)
            .map(|_| ask("WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"))
            .collect();
        while let Some(mut answer) = endless.pop() {
            loop {
                desks.interrupt_slow();
                match answer.try_recv() {
                    Err(oneshot::error::TryRecvError::Empty) => thread::sleep(Duration::from_millis(10)),
                    answer => {
                        assert_eq!(answer.unwrap().unwrap_err().kind(), BrokerErrorKind::Timeout);
                        break;
                    }
                }
            }
        }
        assert!(begun.elapsed() >= LONGEST);
        assert_eq!(ask("SELECT count(*) FROM a").blocking_recv().unwrap().unwrap(), 0);
    }
}
