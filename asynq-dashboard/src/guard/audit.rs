//! One line in the log for each change that was asked for: the user and the change, without the data that was sent.

use axum::{
    extract::Request,
    http::{Method, StatusCode},
};

use super::is_reader;
use crate::login::{Caller, peer};

/// The parts of a change's log line that are known before the answer.
#[derive(Debug)]
pub(super) struct AuditLine {
    method: Method,
    path: String,
    peer: String,
}

impl AuditLine {
    /// Creates the line of a request; `None` for a request that only reads.
    pub(super) fn of(request: &Request) -> Option<Self> {
        (!is_reader(request.method())).then(|| Self {
            method: request.method().clone(),
            // The path is encoded, so that no name can begin a line of its own; a query is not part of a change.
            path: request.uri().path().to_owned(),
            peer: peer(request).map_or_else(|| "unknown".to_owned(), |peer| peer.to_string()),
        })
    }

    /// Writes the line. `who` is `None` if the login failed or was never asked for.
    pub(super) fn write(&self, who: Option<&Caller>, status: StatusCode) {
        let who = who.map_or("nobody".into(), Caller::name);
        let (method, path, peer, status) = (&self.method, &self.path, &self.peer, status.as_u16());
        tracing::info!(who = ?who, peer, %method, path, status, "the dashboard was asked for a change");
    }
}
