//! Receives the signals by which the operating system asks a server to leave or to be quiet: SIGTERM, SIGINT and SIGTSTP.
//!
//! Once a program has asked for signals they do not end it any more, also when no server runs. So one thread receives them for as long as
//! the process lives: a request between two servers is for the next one, and a second request to leave ends the process at once,
//! whatever blocks it. Signals that come close together are one request: some supervisors signal a process and its process group, and
//! some wrappers forward a Ctrl+C that the terminal has sent to the whole group.

use std::{
    io,
    sync::{
        Arc, LazyLock, Weak,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use super::server_context::ServerContext;

/// The request of the operating system to the servers of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Request {
    Nothing,
    /// TSTP: fetch no more tasks, and let the running ones end.
    Quiet,
    /// TERM or INT: leave.
    Leave,
    /// A server leaves, or has left, because of it.
    Obeyed,
}

/// The exit code of a process that was asked to leave twice, by whichever signal: a shell's code for a program after Ctrl+C.
const LEFT_AT_ONCE: i32 = 130;

/// A signal to leave that comes within this time of the first one belongs to the same request. A person takes longer to ask again.
const SAME_REQUEST: Duration = Duration::from_millis(500);

/// How long a process that leaves at once waits for its last log line, on processors that may be busy. Only a subscriber that blocks
/// uses all of it.
const LAST_LINE: Duration = Duration::from_secs(1);

static REQUEST: LazyLock<watch::Sender<Request>> = LazyLock::new(|| {
    let (ready, registered) = mpsc::channel();
    let receiving = thread::Builder::new().name("asynq-signals".to_owned()).spawn(move || {
        match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(receive(&ready)),
            Err(error) => drop(ready.send(Err(error))),
        }
    });
    // From here on no signal ends the process.
    let outcome = receiving.and_then(|_| registered.recv().unwrap_or(Ok(())));
    if let Err(error) = outcome {
        log!(error, "signals cannot be received here: stop the server by its handle: {error}");
    }
    watch::Sender::new(Request::Nothing)
});

/// How many servers listen; a new one is counted under the lock of [`REQUEST`].
static LISTENING: AtomicUsize = AtomicUsize::new(0);

/// The servers of this process, for the last log line of a process that leaves at once.
static SERVERS: Mutex<Vec<Weak<ServerContext>>> = Mutex::new(Vec::new());

/// Counts the tasks of this server among those that run again when the process leaves at once.
pub(super) fn count_tasks_of(context: &Arc<ServerContext>) {
    let mut servers = SERVERS.lock();
    servers.retain(|server| server.strong_count() > 0);
    servers.push(Arc::downgrade(context));
}

/// A server that listens for as long as this lives.
#[derive(Debug)]
pub(crate) struct Listening(());

impl Drop for Listening {
    fn drop(&mut self) {
        LISTENING.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The requests of the operating system, for one server.
#[derive(Debug)]
pub(crate) struct OsRequests(watch::Receiver<Request>);

impl OsRequests {
    /// Listens from now on. A request that servers have obeyed which are gone is none to this one; while one of them still leaves,
    /// this one leaves as well.
    pub(crate) fn listen() -> (Listening, Self) {
        REQUEST.send_if_modified(|request| {
            if LISTENING.fetch_add(1, Ordering::AcqRel) == 0 && matches!(request, Request::Quiet | Request::Obeyed) {
                *request = Request::Nothing;
            }
            // Servers wait for more, and never for less.
            false
        });
        (Listening(()), Self(REQUEST.subscribe()))
    }

    /// Waits until the process is asked to be quiet, or to leave.
    pub(crate) async fn quiet(&mut self) {
        self.at_least(Request::Quiet).await;
    }

    /// Waits until the process is asked to leave, which the caller does then.
    pub(crate) async fn obey(&mut self) {
        self.at_least(Request::Leave).await;
        REQUEST.send_if_modified(|request| {
            if *request == Request::Leave {
                *request = Request::Obeyed;
            }
            false
        });
    }

    /// Waits for a step before the start of a server; returns `None` if a request to leave comes before, which it [obeys](Self::obey).
    pub(crate) async fn unless_leaving<T>(&mut self, step: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            // An error of the step is returned even if a request to leave came meanwhile.
            biased;
            done = step => Some(done),
            () = self.obey() => {
                log!(info, "asked to leave before the start: takes no task");
                None
            }
        }
    }

    /// Returns whether the process is asked to leave.
    pub(crate) fn is_leaving(&self) -> bool {
        *self.0.borrow() >= Request::Leave
    }

    async fn at_least(&mut self, wanted: Request) {
        // The sender is a static, which is never dropped.
        let _ = self.0.wait_for(|request| *request >= wanted).await;
    }
}

/// Notes a request; `asked` is when the first one to leave came.
fn note(new: Request, asked: &mut Instant) {
    REQUEST.send_if_modified(|request| {
        let Some(next) = next(*request, new, asked.elapsed()) else { leave_at_once() };
        let is_more = next > *request;
        if is_more && next == Request::Leave {
            *asked = Instant::now();
        }
        *request = next;
        is_more
    });
}

/// Returns the request of the process when `new` has come so long after the first request to leave, or `None` if the process leaves at
/// once.
fn next(request: Request, new: Request, since_first: Duration) -> Option<Request> {
    let is_repeated = new == Request::Leave && request >= Request::Leave;
    (!is_repeated || since_first < SAME_REQUEST).then(|| new.max(request))
}

/// Logs how many tasks run again, and ends the process.
fn leave_at_once() -> ! {
    let (logged, is_logged) = mpsc::channel::<()>();
    // A subscriber may block, for example on a pipe that is full, which must not keep the process.
    let _ = thread::Builder::new().spawn(move || {
        let tasks: usize =
            SERVERS.lock().iter().filter_map(Weak::upgrade).map(|context| context.runs.keys().len()).sum();
        log!(warn, tasks, "leaving at once, as asked twice: these tasks run again, with one crash more");
        drop(logged);
    });
    let _ = is_logged.recv_timeout(LAST_LINE);
    std::process::exit(LEFT_AT_ONCE)
}

/// Says on `ready` that signals are received, or why they cannot be, and notes them.
async fn receive(ready: &mpsc::Sender<io::Result<()>>) {
    // tokio has no constructor for SIGTSTP.
    let kinds = [SignalKind::from_raw(libc::SIGTSTP), SignalKind::terminate(), SignalKind::interrupt()];
    let [Ok(mut quiet), Ok(mut terminate), Ok(mut interrupt)] = kinds.map(signal) else {
        let _ = ready.send(Err(io::Error::other("the system refuses a signal handler")));
        return;
    };
    let _ = ready.send(Ok(()));
    let mut asked = Instant::now();
    loop {
        tokio::select! {
            Some(()) = quiet.recv() => note(Request::Quiet, &mut asked),
            Some(()) = terminate.recv() => note(Request::Leave, &mut asked),
            Some(()) = interrupt.recv() => note(Request::Leave, &mut asked),
            else => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_to_leave_is_a_second_one_when_it_does_not_follow_the_first_closely() {
        let (soon, later) = (SAME_REQUEST - Duration::from_nanos(1), Duration::from_millis(500));
        for (request, new, since_first, expected) in [
            (Request::Nothing, Request::Quiet, later, Some(Request::Quiet)),
            (Request::Nothing, Request::Leave, later, Some(Request::Leave)),
            (Request::Quiet, Request::Leave, later, Some(Request::Leave)),
            (Request::Leave, Request::Leave, soon, Some(Request::Leave)),
            (Request::Leave, Request::Leave, later, None),
            (Request::Obeyed, Request::Leave, soon, Some(Request::Obeyed)),
            (Request::Obeyed, Request::Leave, later, None),
            (Request::Leave, Request::Quiet, later, Some(Request::Leave)),
            (Request::Obeyed, Request::Quiet, later, Some(Request::Obeyed)),
        ] {
            assert_eq!(next(request, new, since_first), expected, "{request:?} {new:?} {since_first:?}");
        }
    }
}
