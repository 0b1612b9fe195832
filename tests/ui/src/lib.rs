//! What the compiler says about a wrong `#[job]`: one mistake per file in `fail/`, named by the mistake.
//!
//! `TRYBUILD=overwrite cargo test -p asynq-ui-tests` writes the `.stderr` files anew; read the difference. They are
//! compared on the Rust version that CONTRIBUTING names and on no other, because every version words and places its own
//! part of a message differently.
