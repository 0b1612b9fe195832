#![doc = include_str!("../README.md")]
//!
//! This crate re-exports everything of [`asynq_runtime`] under its own name, with the two attributes whose expansions name this
//! crate. Two options of the attributes differ: `crate`, for a renamed or re-exported facade, is `::asynq_jobs` by default, and
//! `cron_crate` is its `cron`.

// docs.rs builds with this cfg and shows which feature an item needs; no other build has it.
#![cfg_attr(docsrs, feature(doc_cfg))]

/// The web dashboard, metrics and health checks. With this feature a worker of `main!` has their flags, and `services:` need not
/// name them.
#[cfg(feature = "dashboard")]
#[doc(no_inline)]
pub use asynq_dashboard as dashboard;
/// Makes a typed background job of a free function, as [`asynq_runtime::job`](macro@asynq_runtime::job) does, which documents the
/// options. The expansion reaches the runtime by way of this crate.
///
/// ```
/// use asynq_jobs::prelude::*;
///
/// #[job(queue = "critical", retry = 5)]
/// async fn send_email(to: String) -> JobResult {
///     println!("to {to}");
///     Ok(())
/// }
///
/// # async fn produce(client: Client) -> Result<(), BoxError> {
/// send_email::enqueue(&client, "ann@example.com").await?;
/// # Ok(())
/// # }
/// ```
#[doc(inline)]
pub use asynq_macros::facade_job as job;
/// Makes a periodic job of a free function, as [`asynq_cron::periodic`](macro@asynq_cron::periodic) does, which documents the
/// options.
///
/// ```
/// use asynq_jobs::prelude::*;
///
/// #[periodic("0 9 * * mon-fri", tz = "Europe/Berlin")]
/// async fn report(tick: Tick) {
///     println!("for {}", tick.scheduled_at());
/// }
/// # fn main() {}
/// ```
#[cfg(feature = "cron")]
#[doc(inline)]
pub use asynq_macros::facade_periodic as periodic;
#[cfg(not(feature = "cron"))]
#[doc(hidden)]
pub use asynq_macros::facade_periodic_without_cron as periodic;
pub use asynq_runtime::*;

/// Periodic jobs: everything of [`asynq_cron`], with the [`periodic`](macro@periodic) of this crate.
///
/// ```
/// use asynq_jobs::{cron::prelude::*, prelude::*};
///
/// #[periodic("@daily")]
/// async fn tidy(tick: Tick) {
///     println!("for {}", tick.scheduled_at());
/// }
/// # fn main() {}
/// ```
#[cfg(feature = "cron")]
pub mod cron {
    pub use asynq_cron::*;

    // It takes the place of asynq-cron's, so that the attribute is the same one by every path.
    pub use crate::periodic;

    /// The imports of a file with periodic jobs: `use asynq_jobs::cron::prelude::*;`.
    pub mod prelude {
        pub use asynq_cron::prelude::*;

        pub use super::periodic;
    }
}

/// The imports of a file with jobs: `use asynq_jobs::prelude::*;`.
pub mod prelude {
    // Not `crate::job`, which is the module as well.
    pub use asynq_macros::facade_job as job;
    pub use asynq_runtime::prelude::*;

    pub use crate::periodic;
    #[cfg(feature = "cron")]
    pub use asynq_cron::prelude::*;
}
