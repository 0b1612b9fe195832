//! The JSON body of a change; an empty body counts as `{}`.

use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;

use crate::{failure::Failure, guard};

/// The body of a change, read into `T`; a body that does not fit is a bad request that says why.
#[derive(Debug)]
pub(crate) struct Input<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Input<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        // The guard has read the body, within its limits.
        let read = axum::body::to_bytes(request.into_body(), guard::LARGEST_BODY).await;
        let bytes = read.map_err(|_| Failure::bad_request("the body cannot be read"))?;
        let bytes = if bytes.is_empty() { b"{}" } else { &bytes[..] };
        let given = serde_json::from_slice(bytes);
        given.map(Self).map_err(|error| Failure::bad_request(format!("the body does not fit: {error}")))
    }
}
