//! A web dashboard over any asynq broker: pages, a JSON API, metrics and health checks, safe by default.
//!
//! [`Dashboard`] makes an [`axum::Router`] to mount in an application, or serves itself. A worker with
//! `asynq_runtime::main!(services: [asynq_dashboard])` has the flags `--dashboard ADDR` and `--metrics ADDR`.
//!
//! ```no_run
//! # async fn serve() -> Result<(), asynq_runtime::BoxError> {
//! let client = asynq_runtime::Client::connect("redis://127.0.0.1:6379").await?;
//! asynq_dashboard::Dashboard::new(&client).title("Mails").serve("127.0.0.1:8080").await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Safe by default
//!
//! - A dashboard binds this machine only (loopback), unless a login is configured: a password as argon2 hash, a bearer
//!   token, or a header of a trusted proxy.
//! - A request must name a host of this machine, or one that [`Dashboard::allow_host`] allows: against DNS rebinding.
//! - A change needs `Sec-Fetch-Site: same-origin` (or an `Origin` that is the host) and the header
//!   `x-asynq-dashboard: 1`; there are no CORS headers. [`Dashboard::read_only`] refuses all changes.
//! - A page runs only its own scripts (`Content-Security-Policy`), and cannot be framed.

#[macro_use(debug_as_text, log, partial_debug)]
extern crate asynq_runtime;

mod action;
mod api;
mod asset;
mod builder;
mod environment;
mod error;
mod failure;
mod guard;
mod health;
mod host;
mod input;
mod latest;
mod live;
mod login;
mod metrics;
mod nodes;
mod page;
mod path;
mod probe;
mod query;
mod render;
mod route;
mod router;
mod sample;
mod serve;
mod service;
mod span;
mod state;

// The routes, for the tests.
#[doc(hidden)]
pub use self::route::{Access, RouteInfo};
pub use self::{
    builder::Dashboard,
    error::DashboardError,
    login::{MAX_PASSWORD_BYTES, hash_password},
    serve::Bound,
    service::{DashboardService, service},
};
