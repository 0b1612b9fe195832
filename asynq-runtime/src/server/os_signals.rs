//! Receives the signals by which the operating system asks a server to leave or to be quiet: SIGTERM, SIGINT and SIGTSTP.

use tokio::sync::mpsc;

/// A request of the operating system to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShutdownRequest {
    /// TSTP: fetch no more tasks, and let the running ones end.
    Quiet,
    /// TERM or INT: leave.
    Leave,
}

/// Listens for the signals of the process and passes them on. Runs on the heartbeat runtime, so that jobs which block every
/// thread of their runtime cannot delay it. Ends when the receiver is dropped.
#[cfg(unix)]
pub(crate) async fn listen(requests: mpsc::Sender<ShutdownRequest>) {
    use tokio::signal::unix::{SignalKind, signal};

    let streams = (
        // tokio has no constructor for SIGTSTP.
        signal(SignalKind::from_raw(libc::SIGTSTP)),
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    );
    let (Ok(mut quiet), Ok(mut terminate), Ok(mut interrupt)) = streams else {
        tracing::error!("signals cannot be received here: stop the server by its handle");
        return;
    };
    loop {
        let what = tokio::select! {
            Some(()) = quiet.recv() => ShutdownRequest::Quiet,
            Some(()) = terminate.recv() => ShutdownRequest::Leave,
            Some(()) = interrupt.recv() => ShutdownRequest::Leave,
            () = requests.closed() => return,
        };
        if requests.send(what).await.is_err() {
            return;
        }
    }
}

/// Listens for Ctrl-C; this system has no signal that asks for quiet.
#[cfg(not(unix))]
pub(crate) async fn listen(requests: mpsc::Sender<ShutdownRequest>) {
    loop {
        tokio::select! {
            pressed = tokio::signal::ctrl_c() => if pressed.is_err() { return },
            () = requests.closed() => return,
        }
        if requests.send(ShutdownRequest::Leave).await.is_err() {
            return;
        }
    }
}
