//! Receives the signals by which the operating system asks a server to leave or to be quiet: SIGTERM, SIGINT and SIGTSTP.
//!
//! Once a program has asked for signals they do not end it any more, also when no server runs. So one thread receives them for as long as
//! the process lives: a request between two servers is for the next one, and a second request to leave ends the process at once,
//! whatever blocks it.

use std::{sync::LazyLock, thread};

use tokio::sync::watch;

/// What the operating system has asked of the servers of this process.
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
    let receiving = thread::Builder::new().name("asynq-signals".to_owned()).spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if let Err(error) = runtime.and_then(|runtime| runtime.block_on(receive())) {
            tracing::error!("signals cannot be received here: stop the server by its handle: {error}");
        }
    });
    if let Err(error) = receiving {
        tracing::error!("signals cannot be received here: stop the server by its handle: {error}");
    }
    watch::Sender::new(Request::Nothing)
});

/// The requests of the operating system, for one server.
#[derive(Debug)]
pub(crate) struct OsRequests(watch::Receiver<Request>);

impl OsRequests {
    /// Listens from now on. A request that an earlier server has obeyed is none to this one.
    pub(crate) fn listen() -> Self {
        REQUEST.send_if_modified(|request| {
            if matches!(request, Request::Quiet | Request::Obeyed) {
                *request = Request::Nothing;
            }
            // Servers wait for more, and never for less.
            false
        });
        Self(REQUEST.subscribe())
    }

    /// Waits until the process is asked to be quiet, or to leave.
    pub(crate) async fn quiet(&mut self) {
        self.at_least(Request::Quiet).await;
    }

    /// Waits until the process is asked to leave; the caller obeys.
    pub(crate) async fn leave(&mut self) {
        self.at_least(Request::Leave).await;
        REQUEST.send_replace(Request::Obeyed);
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

#[cfg(unix)]
async fn receive() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};

    // tokio has no constructor for SIGTSTP.
    let mut quiet = signal(SignalKind::from_raw(libc::SIGTSTP))?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    loop {
        tokio::select! {
            Some(()) = quiet.recv() => note(Request::Quiet),
            Some(()) = terminate.recv() => note(Request::Leave),
            Some(()) = interrupt.recv() => note(Request::Leave),
            else => return Ok(()),
        }
    }
}

/// This system has no signal that asks for quiet.
#[cfg(not(unix))]
async fn receive() -> std::io::Result<()> {
    loop {
        tokio::signal::ctrl_c().await?;
        note(Request::Leave);
    }
}
