//! Programs that change while tasks wait: the old program's type enqueues and the new one's runs, and the other way round.
//!
//! `cargo test -p asynq-tests --test evolve -- --nocapture` prints the outcome of each change; `scripts/prove evolve` does.
#![allow(clippy::unwrap_used)]

mod arguments;
mod changes;
mod deploy;
mod hostile;
mod lock;
mod stage;

use asynq_tests::process;
