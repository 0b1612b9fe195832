//! Serves a router over HTTP/1.1, with bounds on connections, heads and slowness.

mod connection_limit;
mod patient;

use std::{future::Future, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use asynq_runtime::server::SeldomLines;
use axum::{Router, body::Body, extract::ConnectInfo, http::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulConnection, GracefulShutdown},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};

use tower_service::Service as _;

use self::{connection_limit::ConnectionLimit, patient::Patient};
use crate::{error::DashboardError, router, state::AppState};

/// Most connections at a time; further ones wait in the system's queue.
const MOST_CONNECTIONS: usize = 256;
/// How long the head of a request may take, from the opening of the connection or the end of the request before.
const HEAD: Duration = Duration::from_secs(10);
/// Most bytes of a head that are buffered.
const LARGEST_HEAD: usize = 64 * 1024;
/// How long open requests may go on when the server stops.
const FAREWELL: Duration = Duration::from_secs(2);
/// The pause after a connection that could not be accepted, such as for want of file handles.
const PAUSE: Duration = Duration::from_millis(100);

/// A dashboard that listens already.
#[derive(Debug)]
#[must_use = "connections wait until it is served"]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
    app: AppState,
}

impl Bound {
    /// Creates the server of a dashboard that listens at `address`.
    pub(crate) fn new(listener: TcpListener, address: SocketAddr, app: AppState) -> Self {
        Self { listener, address, router: router::router(&app, true), app }
    }

    /// Returns the address that the server listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the first page.
    pub fn url(&self) -> String {
        format!("http://{}{}/", self.address, self.app.config.mount)
    }

    /// Serves until `stopping` is ready; then open requests get 2 seconds.
    pub async fn serve_until(self, stopping: impl Future<Output = ()>) {
        self.app.samples.start_unless(self.app.config.observed_only);
        let graceful = GracefulShutdown::new();
        let permits = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        let shares = ConnectionLimit::default();
        // Dropped with this future, so that no connection outlives it.
        let mut connections = JoinSet::new();
        let mut stopping = pin!(stopping);
        // A program without file handles may try for hours.
        let lines = SeldomLines::default();
        loop {
            let accepted = async {
                let permit = Arc::clone(&permits).acquire_owned().await.map_err(io::Error::other)?;
                let (stream, peer) = self.listener.accept().await?;
                Ok::<_, io::Error>((permit, stream, peer))
            };
            let (permit, stream, peer) = tokio::select! {
                () = &mut stopping => break,
                Some(_) = connections.join_next() => continue,
                accepted = accepted => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        if lines.is_due() {
                            log!(warn, "connections to the dashboard are not accepted at once, will try again: {error}");
                        }
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                },
            };
            let Some(share) = shares.take(peer.ip()) else {
                log!(debug, "{peer} has all connections to the dashboard that it may have now; one more was closed");
                continue;
            };
            let connection = graceful.watch(http(stream, peer, self.router.clone()));
            connections.spawn(async move {
                if let Err(error) = connection.await {
                    log!(debug, "a connection to the dashboard ended: {error}");
                }
                drop((permit, share));
            });
        }
        drop(self.listener);
        self.app.closing.cancel();
        if tokio::time::timeout(FAREWELL, graceful.shutdown()).await.is_err() {
            log!(debug, "requests to the dashboard were cut off");
        }
    }
}

/// Returns the connection as a future that ends with it.
fn http(stream: TcpStream, peer: SocketAddr, router: Router) -> impl GracefulConnection<Error = hyper::Error> {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        // A router is always ready.
        router.clone().call(request)
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(Patient::new(stream)), service)
}

/// Returns the addresses that `text` names; a port alone is one of this machine.
pub(crate) async fn resolve(text: &str) -> Result<Vec<SocketAddr>, DashboardError> {
    let failed = |source| DashboardError::Address { address: text.to_owned(), source };
    if let Ok(port) = text.trim_start_matches(':').parse::<u16>() {
        return Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]);
    }
    let addresses: Vec<_> = tokio::net::lookup_host(text).await.map_err(failed)?.collect();
    if addresses.is_empty() {
        return Err(failed(io::Error::other("the name has no address")));
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_alone_is_one_of_this_machine() {
        for text in ["8080", ":8080", "127.0.0.1:8080"] {
            assert_eq!(resolve(text).await.expect(text), [SocketAddr::from(([127, 0, 0, 1], 8080))]);
        }
        for bad in ["", "127.0.0.1", "99999", "http://127.0.0.1:80", "127.0.0.1:x"] {
            assert!(resolve(bad).await.expect_err(bad).to_string().contains("127.0.0.1:8080"), "{bad}");
        }
    }
}
