//! Tests of jobs: a whole application in memory, whose clock the test advances.
//!
//! ```standalone_crate
//! # use asynq_runtime::prelude::*;
//! use asynq_runtime::testing::TestApp;
//!
//! #[job]
//! async fn remind(name: String) -> JobResult {
//!     Ok(())
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let app = TestApp::new().await;
//! remind::enqueue_in(app.client(), "1h", "ann").await.unwrap();
//!
//! app.assert_enqueued::<remind>(|job| job.name == "ann").await;
//! assert_eq!(app.drain().await.succeeded, 0);
//! app.advance("1h").await;
//! assert_eq!(app.drain().await.succeeded, 1);
//! # });
//! ```
//!
//! Groups ripen by the same clock:
//!
//! ```standalone_crate
//! # use asynq_runtime::prelude::*;
//! use asynq_runtime::testing::TestApp;
//!
//! #[job(group = "digest")]
//! async fn note(text: String) {
//!     // A note that does not become a part of a digest runs by itself.
//!     println!("one note: {text}");
//! }
//!
//! #[job(aggregates = note)]
//! async fn digest(notes: Vec<note>) {
//!     println!("{} notes", notes.len());
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let app = TestApp::new().await.server(|server| server.group_grace("5m"));
//! note::enqueue(app.client(), "a").await.unwrap();
//! note::enqueue(app.client(), "b").await.unwrap();
//!
//! assert_eq!(app.drain().await.aggregated, 0);
//! app.advance("5m").await;
//! let drained = app.drain().await;
//! assert_eq!((drained.aggregated, drained.succeeded), (2, 1));
//! # });
//! ```
//!
//! The functions of this module panic on an error, because a test fails by a panic; no other module of this crate does so.

#[cfg(feature = "sqlite")]
mod app;
mod direct;
#[cfg(feature = "sqlite")]
mod drain;
mod locked;
mod timetable;
#[cfg(feature = "sqlite")]
mod wait;

/// The type that asynq-cron submits to the inventory.
#[doc(hidden)]
pub use self::timetable::Timetable;
#[cfg(feature = "sqlite")]
pub use self::{
    app::TestApp,
    drain::{Drained, Failure},
};
pub use self::{
    direct::{run, run_in},
    locked::assert_jobs_locked,
};

/// Unwraps an answer of the database in memory, which has no reason to fail.
#[cfg(feature = "sqlite")]
fn unwrap_answer<T>(answer: Result<T, crate::broker::BrokerError>) -> T {
    answer.unwrap_or_else(|error| panic!("the database in memory failed: {error}"))
}
