//! Receives the signals by which the operating system asks a server to leave or to be quiet: SIGTERM, SIGINT and SIGTSTP.
//!
//! Once a program has asked for signals they do not end it any more, also when no server runs. So one thread receives them for as long as
//! the process lives: a request between two servers is for the next one, and a second request to leave ends the process at once,
//! whatever blocks it.

use std::{
    io,
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

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
        tracing::error!("signals cannot be received here: stop the server by its handle: {error}");
    }
    watch::Sender::new(Request::Nothing)
});

/// How many servers listen; a new one is counted under the lock of [`REQUEST`].
static LISTENING: AtomicUsize = AtomicUsize::new(0);

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

    /// Returns whether the process is asked to leave.
    pub(crate) fn is_leaving(&self) -> bool {
        *self.0.borrow() >= Request::Leave
    }

    async fn at_least(&mut self, wanted: Request) {
        // The sender is a static, which is never dropped.
        let _ = self.0.wait_for(|request| *request >= wanted).await;
    }
}

fn note(new: Request) {
    REQUEST.send_if_modified(|request| {
        if new == Request::Leave && *request >= Request::Leave {
            std::process::exit(LEFT_AT_ONCE);
        }
        let is_more = new > *request;
        *request = new.max(*request);
        is_more
    });
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
    loop {
        tokio::select! {
            Some(()) = quiet.recv() => note(Request::Quiet),
            Some(()) = terminate.recv() => note(Request::Leave),
            Some(()) = interrupt.recv() => note(Request::Leave),
            else => return,
        }
    }
}
