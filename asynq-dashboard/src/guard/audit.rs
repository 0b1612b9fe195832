//! One line in the log for each change that was asked for: the user and the change, without the data that was sent.

use axum::{
    extract::Request,
    http::{Method, StatusCode},
};

use super::is_reader;
use crate::login::{Caller, peer};

/// Most characters of the path that a client without a login has sent: it may send any, again and again.
const LONGEST_OF_VISITORS: usize = 256;

/// The log line of a request, which is written when this is dropped, if the request asked for a change: a client that hangs up ends
/// the request and not the change.
#[derive(Debug)]
pub(super) struct AuditLine {
    method: Method,
    path: String,
    peer: String,
    /// The caller; not authenticated also if the login failed or was never asked for.
    pub(super) who: Caller,
    /// The answer; `None` if the client did not wait for it.
    pub(super) status: Option<StatusCode>,
}

impl AuditLine {
    /// Creates the line of a request.
    pub(super) fn of(request: &Request) -> Self {
        Self {
            method: request.method().clone(),
            // The path is encoded, so that no name can begin a line of its own; a query is not part of a change.
            path: request.uri().path().to_owned(),
            peer: peer(request).map_or_else(|| "unknown".to_owned(), |peer| peer.to_string()),
            who: Caller::Unauthenticated,
            status: None,
        }
    }
}

impl Drop for AuditLine {
    fn drop(&mut self) {
        if is_reader(&self.method) {
            return;
        }
        let who = self.who.name();
        let status = self.status.map_or("unanswered".into(), |status| status.as_u16().to_string());
        let shown = if self.who.is_in() { self.path.len() } else { LONGEST_OF_VISITORS };
        let path: String = self.path.chars().take(shown).collect();
        let (method, path, peer) = (&self.method, &path, &self.peer);
        log!(info, who = ?who, peer, %method, path, %status, "the dashboard was asked for a change");
    }
}
