//! Failures that answer a request, as a page or as JSON.

use asynq_cron::PeriodicError;
use asynq_runtime::{broker::BrokerError, inspector::InspectError};
use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

/// Seconds after which a page without the broker asks again by itself.
pub(crate) const RETRY_AFTER: u32 = 3;

/// A request that was not fulfilled. The response has the requested form: a page, or JSON of the form `{"error":
/// {"code", "message"}}`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    /// The kind of the failure.
    pub(crate) kind: Kind,
    /// A sentence for people: the cause and the remedy. The text may hold foreign parts: escape it.
    pub(crate) message: String,
}

/// The kinds of failures; each has its status and its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// 400: a part of the request is not valid.
    BadRequest,
    /// 401: the request is not authenticated. A page leads to the login instead.
    NoLogin,
    /// 403: the login was wrong.
    WrongLogin,
    /// 403: a host name that is not allowed.
    Host,
    /// 403: a change that did not come from the dashboard's own pages.
    CrossSite,
    /// 403: the dashboard is read-only.
    ReadOnly,
    /// 404.
    NotFound,
    /// 405.
    Method,
    /// 408: the body did not come in time.
    Stalled,
    /// 409: the task or the queue is in a state in which this cannot be done.
    Conflict,
    /// 413: a body, or the payload in it, is too large.
    TooLarge,
    /// 415: not `application/json`.
    MediaType,
    /// 429: too many wrong logins; try again after this many seconds.
    BackOff(u32),
    /// 431: headers too large or too many, or a path too long.
    Headers,
    /// 500.
    Internal,
    /// 503: too many listeners; try again.
    Busy,
    /// 503: the broker does not answer; the page asks again by itself.
    Away,
    /// 504: the request took too long.
    Slow,
}

impl Kind {
    /// Returns the status of the answer.
    pub(crate) fn status(self) -> StatusCode {
        self.answer().0
    }

    /// Returns the word for programs.
    pub(crate) fn code(self) -> &'static str {
        self.answer().1
    }

    fn answer(self) -> (StatusCode, &'static str) {
        match self {
            Self::BadRequest => (StatusCode::BAD_REQUEST, "bad_request"),
            Self::NoLogin => (StatusCode::UNAUTHORIZED, "no_login"),
            Self::WrongLogin => (StatusCode::FORBIDDEN, "wrong_login"),
            Self::Host => (StatusCode::FORBIDDEN, "host"),
            Self::CrossSite => (StatusCode::FORBIDDEN, "cross_site"),
            Self::ReadOnly => (StatusCode::FORBIDDEN, "read_only"),
            Self::NotFound => (StatusCode::NOT_FOUND, "not_found"),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "method"),
            Self::Stalled => (StatusCode::REQUEST_TIMEOUT, "stalled"),
            Self::Conflict => (StatusCode::CONFLICT, "conflict"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            Self::MediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type"),
            Self::BackOff(_) => (StatusCode::TOO_MANY_REQUESTS, "back_off"),
            Self::Headers => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "headers"),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
            Self::Away => (StatusCode::SERVICE_UNAVAILABLE, "away"),
            Self::Slow => (StatusCode::GATEWAY_TIMEOUT, "slow"),
        }
    }

    /// Returns after how many seconds another request may work.
    pub(crate) fn retry_after(self) -> Option<u32> {
        match self {
            Self::BackOff(seconds) => Some(seconds),
            Self::Busy | Self::Away => Some(RETRY_AFTER),
            _ => None,
        }
    }
}

impl Failure {
    /// Creates a failure of `kind` with a text for people.
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Creates a failure for a request that is not valid.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Kind::BadRequest, message)
    }

    /// Creates a failure for an object that does not exist.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message)
    }
}

impl From<InspectError> for Failure {
    fn from(error: InspectError) -> Self {
        let kind = match &error {
            found if found.is_not_found() => Kind::NotFound,
            InspectError::Unfit { .. }
            | InspectError::Moved { .. }
            | InspectError::HeaderLost { .. }
            | InspectError::NoShape { .. }
            | InspectError::IdConflict { .. }
            | InspectError::Duplicate { .. }
            | InspectError::Contended { .. }
            | InspectError::BeyondArchive { .. }
            | InspectError::QueueNotEmpty { .. }
            | InspectError::QueueActive { .. }
            | InspectError::QueueRefilled { .. } => Kind::Conflict,
            InspectError::TooLarge { .. } => Kind::TooLarge,
            InspectError::Interrupted { source, .. }
            | InspectError::UnreadableQueue { source, .. }
            | InspectError::Broker(source) => of_broker(source),
            _ => Kind::BadRequest,
        };
        Self::new(kind, in_fields(&error))
    }
}

/// Returns the text of an error with fields and parameters of a request instead of the library's methods.
fn in_fields(error: &InspectError) -> String {
    match error {
        InspectError::QueueNotEmpty { queue, tasks } => {
            format!("queue `{queue}` still has tasks ({tasks}); say `force` to delete them too")
        }
        InspectError::Request { what: "per_page", reason } => format!("invalid `per`: {reason}"),
        other => other.to_string(),
    }
}

impl From<BrokerError> for Failure {
    fn from(error: BrokerError) -> Self {
        Self::new(of_broker(&error), error.to_string())
    }
}

impl From<PeriodicError> for Failure {
    fn from(error: PeriodicError) -> Self {
        Self::new(error.broker().map_or(Kind::Conflict, of_broker), error.to_string())
    }
}

fn of_broker(error: &BrokerError) -> Kind {
    if error.is_unavailable() { Kind::Away } else { Kind::Internal }
}

impl IntoResponse for Failure {
    /// Returns a bare answer that carries the failure; the outermost layer knows the requested form, and adds the body.
    fn into_response(self) -> Response {
        let mut response = self.kind.status().into_response();
        if let Some(seconds) = self.kind.retry_after() {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use asynq_runtime::task::QueueName;

    use super::*;

    #[test]
    fn a_message_names_a_field_that_a_request_can_have() {
        let queue = QueueName::from_wire("q");
        for (error, kind, message) in [
            (
                InspectError::QueueNotEmpty { queue, tasks: 3 },
                Kind::Conflict,
                "queue `q` still has tasks (3); say `force` to delete them too",
            ),
            (
                InspectError::Request { what: "per_page", reason: "it must be 1 to 500".into() },
                Kind::BadRequest,
                "invalid `per`: it must be 1 to 500",
            ),
        ] {
            assert_eq!(Failure::from(error), Failure::new(kind, message));
        }
    }
}
