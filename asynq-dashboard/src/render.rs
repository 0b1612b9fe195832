//! The outermost layer: gives pages their frame, failures their page or JSON, and every answer its security headers.

use axum::{
    extract::{Request, State},
    http::{HeaderName, HeaderValue, Method, header},
    middleware::Next,
    response::{Html, IntoResponse, Redirect, Response},
};
use serde_json::json;

use crate::{
    failure::{Failure, Kind, RETRY_AFTER},
    guard::KnownCaller,
    page::{self, Page},
    path,
    state::AppState,
};

/// The headers of every answer: only our own files run or are shown, no page may frame ours, and no page sends a
/// referrer.
const HEADERS: [(HeaderName, &str); 8] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    (HeaderName::from_static("x-robots-tag"), "noindex, nofollow"),
];

/// Returns whether a failure is answered as JSON: for changes, for the API, and for clients that do not ask for HTML, as browsers do.
fn wants_json(app: &AppState, request: &Request) -> bool {
    let below = request.uri().path().strip_prefix(app.config.mount.as_str()).unwrap_or_default();
    let accepted = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let is_page = accepted.is_some_and(|accept| accept.contains("text/html"));
    let is_change = !matches!(*request.method(), Method::GET | Method::HEAD);
    let is_api = below == "/events" || below.starts_with("/api/");
    is_change || is_api || !is_page
}

/// Renders pages and failures, which the inner layers return without a body.
pub(crate) async fn render(State(app): State<AppState>, request: Request, next: Next) -> Response {
    app.samples.start_unless(app.config.observed_only);
    let is_json = wants_json(&app, &request);
    let requested = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let mut response = next.run(request).await;
    if let Some(page) = response.extensions_mut().remove::<Page>() {
        response = with_body(response, Html(page::layout(&app, &page).into_string()).into_response());
    } else if let Some(failure) = response.extensions_mut().remove::<Failure>() {
        response = if is_json { as_json(&failure, response) } else { as_page(&app, &requested, &failure, response) };
    }
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    // The data of tasks stays out of caches; assets set this header themselves.
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn as_json(failure: &Failure, response: Response) -> Response {
    let body = json!({ "error": { "code": failure.kind.code(), "message": failure.message } });
    with_body(response, axum::Json(body).into_response())
}

/// Returns the page of a failure; a page that needs a login leads to it.
fn as_page(app: &AppState, requested: &str, failure: &Failure, response: Response) -> Response {
    if failure.kind == Kind::NoLogin && app.login.has_password() {
        let to = path::with_query(&app.href(&["login"]), &[("next", requested)]);
        return Redirect::to(&to).into_response();
    }
    let page = page::failure(app, failure);
    // The navigation names the broker, and its script asks for events.
    let is_known = response.extensions().get::<KnownCaller>().is_some() && !app.config.observed_only;
    let page = page::layout(app, &if is_known { page } else { page.bare() }).into_string();
    let mut response = with_body(response, Html(page).into_response());
    if failure.kind == Kind::Away {
        // Browsers ask again by themselves, also without scripts.
        response.headers_mut().insert(header::REFRESH, HeaderValue::from(RETRY_AFTER));
    }
    response
}

/// Returns the status and headers of `outer` with the body of `inner` and its type.
fn with_body(mut outer: Response, inner: Response) -> Response {
    let (parts, body) = inner.into_parts();
    *outer.body_mut() = body;
    outer.headers_mut().remove(header::CONTENT_LENGTH);
    if let Some(kind) = parts.headers.get(header::CONTENT_TYPE) {
        outer.headers_mut().insert(header::CONTENT_TYPE, kind.clone());
    }
    outer
}
