//! Example programs; see the files beside `Cargo.toml`. The Rust blocks of the README and of the book in `docs/` are compiled here as
//! doc tests.

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub mod readme {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/start.md")]
pub mod start {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/jobs.md")]
pub mod jobs {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/changing-a-job.md")]
pub mod changing_a_job {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/failures.md")]
pub mod failures {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/workers.md")]
pub mod workers {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/schedules.md")]
pub mod schedules {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/groups.md")]
pub mod groups {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/transactions.md")]
pub mod transactions {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/brokers.md")]
pub mod brokers {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/operations.md")]
pub mod operations {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/cli.md")]
pub mod cli {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/testing.md")]
pub mod testing {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/coming-from.md")]
pub mod coming_from {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/limits.md")]
pub mod limits {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/waiting.md")]
pub mod waiting {}
